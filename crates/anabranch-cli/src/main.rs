//! The command `anabranch`.

fn main() {
    println!("anabranch {}", env!("CARGO_PKG_VERSION"));
}
