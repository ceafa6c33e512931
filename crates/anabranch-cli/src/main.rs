//! The command `anabranch`.

fn main() -> std::process::ExitCode {
    anabranch_cli::main_with(std::env::args_os()).into()
}
