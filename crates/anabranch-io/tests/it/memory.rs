//! Memory does not depend on the number of rows: each format is read by a process of its own, whose
//! peak is compared between a small file and one eight times as long.

use std::fs;
use std::path::Path;
use std::process::Command;

use anabranch_io::{Input, ReadOptions, open};
use parquet::basic::Compression;

use crate::support::*;

const FILE: &str = "ANABRANCH_IO_MEMORY_TEST_FILE";
const SMALL_ROWS: usize = 100_000;
const FACTOR: usize = 8;
/// What the peak may grow by: a third of what the larger file has more as numbers (11.2 MB). Buffers
/// that fill up only with the longer file and the noise of the allocator stay below.
const TOLERATED_BYTES: u64 = 4 << 20;

/// Not a test of its own: what the process under test does.
#[test]
#[ignore = "run by the test below in a process of its own"]
fn read_the_file_and_print_the_peak() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let mut source = open(&[Input::Path(path.into())], &ReadOptions::default()).unwrap();
    let mut rows = 0;
    while let Some(batch) = source.next_batch(1000).unwrap() {
        rows += batch.n_rows();
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\nPEAK {} {rows}", peak.trim().trim_end_matches(" kB"));
}

fn peak_bytes(path: &Path, rows: usize) -> u64 {
    let name = "memory::read_the_file_and_print_the_peak";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILE, path)
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let line = output.lines().find_map(|line| line.strip_prefix("PEAK ")).expect(&output);
    let (peak, read) = line.split_once(' ').unwrap();
    assert_eq!(read, rows.to_string());
    peak.parse::<u64>().unwrap() * 1024
}

/// One table in every format. Batches and row groups have sizes that writers really use: a format
/// is read at least one of them at a time.
fn files(table: &Rows) -> Vec<(&'static str, Vec<u8>)> {
    let batch = record_batch(table);
    let parquet = parquet_grouped(&batch, Compression::SNAPPY, 20_000);
    vec![
        ("a.csv", csv(table)),
        ("a.csv.gz", gzip(&csv(table))),
        ("a.csv.zst", zstd(&csv(table))),
        ("a.jsonl", jsonl(table)),
        ("c.npy", npy(table)),
        ("fortran.npy", npy_fortran(table)),
        ("packed.npy.gz", gzip(&npy_fortran(table))),
        ("packed.parquet.gz", gzip(&parquet)),
        ("a.parquet", parquet),
        ("a.arrow", arrow_in_batches(&batch, 20_000)),
    ]
}

#[test]
fn memory_does_not_grow_with_the_number_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let peaks = |rows: usize| -> Vec<(&str, u64)> {
        let measure = |(name, bytes): (&'static str, Vec<u8>)| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            (name, peak_bytes(&path, rows))
        };
        files(&table(rows, 2)).into_iter().map(measure).collect()
    };
    for ((name, small), (_, large)) in peaks(SMALL_ROWS).into_iter().zip(peaks(SMALL_ROWS * FACTOR)) {
        assert!(large < small + TOLERATED_BYTES, "{name}: {small} bytes, then {large}");
    }
}
