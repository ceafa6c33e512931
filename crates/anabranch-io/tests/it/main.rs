//! The readers from the outside: files in, batches out. One binary, so that it links once.

mod categories;
mod columnar;
mod csv;
mod files;
mod hostile;
mod jsonl;
mod laws;
mod npy;
mod support;
