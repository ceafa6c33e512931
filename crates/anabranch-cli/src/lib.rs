//! The command `anabranch`: what it draws and prints.
