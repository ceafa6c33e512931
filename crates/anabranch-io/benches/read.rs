//! Rows a second of each reader (ids `read/csv/d=20`): 100,000 rows in memory, read in batches of 256 as a fit does.

use std::fmt::{self, Write};

use anabranch_io::{Format, Input, ReadOptions, open};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

const ROWS: usize = 100_000;

/// Shown as `csv/d=20`.
#[derive(Clone, Copy)]
struct Case(Kind, usize);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Csv,
    Quoted,
    Jsonl,
    Npy,
    NpyF32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/d={}", format!("{:?}", self.0).to_lowercase(), self.1)
    }
}

fn value(row: usize, column: usize) -> f64 {
    ((row * 31 + column * 17) as f64 * 0.618).sin() * 100.0
}

fn text(d: usize, before: &str, between: &str, after: &str) -> Vec<u8> {
    let mut text = String::new();
    for row in 0..ROWS {
        text.push_str(before);
        for column in 0..d {
            let separator = if column == 0 { "" } else { between };
            write!(text, "{separator}{}", value(row, column)).expect("strings grow");
        }
        text.push_str(after);
    }
    text.into_bytes()
}

fn npy(d: usize, descr: &str, bytes: impl Fn(f64) -> Vec<u8>) -> Vec<u8> {
    let mut dictionary = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({ROWS}, {d}), }}");
    while (10 + dictionary.len() + 1) % 64 != 0 {
        dictionary.push(' ');
    }
    dictionary.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((dictionary.len() as u16).to_le_bytes());
    out.extend(dictionary.as_bytes());
    (0..ROWS).flat_map(|row| (0..d).map(move |column| (row, column))).for_each(|(row, column)| {
        out.extend(bytes(value(row, column)));
    });
    out
}

fn file(Case(kind, d): Case) -> (Format, Vec<u8>) {
    match kind {
        Kind::Csv => (Format::Csv, text(d, "", ",", "\n")),
        Kind::Quoted => (Format::Csv, text(d, "\"", "\",\"", "\"\n")),
        Kind::Jsonl => (Format::Jsonl, text(d, "[", ",", "]\n")),
        Kind::Npy => (Format::Npy, npy(d, "<f8", |value| value.to_le_bytes().to_vec())),
        Kind::NpyF32 => (Format::Npy, npy(d, "<f4", |value| (value as f32).to_le_bytes().to_vec())),
    }
}

#[divan::bench(
    args = [Case(Kind::Csv, 2), Case(Kind::Csv, 20), Case(Kind::Quoted, 20), Case(Kind::Jsonl, 20), Case(Kind::Npy, 2), Case(Kind::Npy, 20), Case(Kind::NpyF32, 20)],
    sample_count = 8
)]
fn read(bencher: Bencher, case: Case) {
    let (format, bytes) = file(case);
    let input = [Input::Memory(bytes)];
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut source = open(black_box(&input), &options).expect("the file is good");
        let mut rows = 0;
        while let Some(batch) = source.next_batch(256).expect("the rows are good") {
            rows += batch.n_rows();
        }
        assert_eq!(rows, ROWS);
    });
}
