//! The command `anabranch`: what it draws and prints.

pub mod picture;
pub mod report;
