//! Rows and labels from any bytes: no panic, and the same rows however they are cut into batches.

use std::path::PathBuf;

use crate::memory::bounded;
use anabranch_io::{Format, Input, OnBadRow, ReadError, ReadOptions, open};

/// More rows than this show nothing new: a few compressed bytes may hold millions.
const MOST_ROWS: usize = 20_000;

/// What a piece of an input may take here.
const MAX_MEMORY: u64 = 16 << 20;

/// What reading may take in all: a piece as it comes, as it is decoded and as numbers, and buffers of its own.
const MOST_BYTES: usize = 6 * MAX_MEMORY as usize + (64 << 20);

/// Reads with the default options, then leniently and with labels in the first column.
pub(crate) fn rows(bytes: &[u8], format: Option<Format>) {
    match format {
        // A page of Parquet may claim up to 2 GiB, and the decoder reserves what it claims (SECURITY.md).
        Some(Format::Parquet) | None => check(bytes, format),
        Some(_) => bounded(MOST_BYTES, || check(bytes, format)),
    }
}

fn check(bytes: &[u8], format: Option<Format>) {
    let strict = ReadOptions { format, max_memory: Some(MAX_MEMORY), ..Default::default() };
    let _ = read(bytes, &strict, 100);
    let lenient = ReadOptions { on_bad_row: OnBadRow::Skip, categorical: vec!["1".to_owned()], ..strict };
    let (singly, in_sevens) = (read(bytes, &lenient, 1), read(bytes, &lenient, 7));
    if let (Ok(singly), Ok(in_sevens)) = (singly, in_sevens) {
        let common = singly.len().min(in_sevens.len());
        assert!(
            singly.len() == in_sevens.len() || common > MOST_ROWS,
            "batch size changes the number of rows"
        );
        assert_eq!(singly[..common], in_sevens[..common], "batch size changes the rows");
    }
}

fn read(bytes: &[u8], options: &ReadOptions, batch_rows: usize) -> Result<Vec<f64>, ReadError> {
    let mut source = open(&[Input::Memory(bytes.to_vec())], options)?;
    let mut values = Vec::new();
    let mut ended = false;
    while let Some(batch) = source.next_batch(batch_rows)? {
        assert!(!ended, "a short batch is the last");
        ended = batch.n_rows() < batch_rows;
        assert!(batch.values().iter().all(|value| value.is_finite()));
        values.extend_from_slice(batch.values());
        if values.len() > MOST_ROWS * batch.dimensions() {
            break;
        }
    }
    Ok(values)
}

/// Labels come from files only, so the bytes go into one.
pub(crate) fn labels(bytes: &[u8]) {
    let path: PathBuf = std::env::temp_dir().join(format!("anabranch-fuzz-{}.csv", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder can be written");
    let _ = anabranch_io::labels::read_labels(&path);
    std::fs::remove_file(&path).expect("it was written above");
}
