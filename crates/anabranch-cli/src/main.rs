//! The command `anabranch`.

fn main() -> std::process::ExitCode {
    anabranch_cli::main()
}
