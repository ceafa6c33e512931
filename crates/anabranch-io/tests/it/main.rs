//! The readers from the outside: files in, batches out. One binary, so that it links once.

mod categories;
mod columnar;
mod csv;
mod files;
mod fuzz_seeds;
mod hostile;
mod hostile_model;
mod jsonl;
mod laws;
mod limits;
#[cfg(target_os = "linux")]
mod memory;
mod model_file;
mod npy;
mod support;
mod times;
mod words;
