//! Laws that hold for every process, run on every process.
//!
//! One file per law: bounds below exact expectations, identification against brute force, limits in which one process is
//! another, parameters learned from sizes, and whole runs with 64 logical workers.

mod bounds;
mod cases;
mod features;
mod identification;
mod learning;
mod limits;
mod runs;
#[path = "../support/mod.rs"]
mod support;
