//! Small data with known clusters, and the same rows in every format.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Poisson, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Rows of numbers with the cluster each came from.
pub(crate) struct Table {
    pub(crate) names: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) labels: Vec<usize>,
}

/// Centres so far apart, in units of the spread, that no row is in doubt.
const CENTRES: [[f64; 2]; 3] = [[0.0, 0.0], [30.0, -10.0], [-10.0, 30.0]];

/// Rows of three round clusters in turn, in columns `x` and `y`.
pub(crate) fn three_clusters(rows_each: usize, seed: u64) -> Table {
    clusters_at([0.0, 0.0], rows_each, seed)
}

/// The same with every centre moved.
pub(crate) fn clusters_at(offset: [f64; 2], rows_each: usize, seed: u64) -> Table {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut row = |centre: [f64; 2]| -> Vec<f64> {
        let axes = centre.iter().zip(offset);
        axes.map(|(centre, offset)| offset + centre + Distribution::<f64>::sample(&StandardNormal, &mut rng))
            .collect()
    };
    let labels: Vec<usize> = (0..3 * rows_each).map(|ix| ix % 3).collect();
    let rows = labels.iter().map(|label| row(CENTRES[*label])).collect();
    Table { names: vec!["x", "y"], rows, labels }
}

impl Table {
    pub(crate) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    pub(crate) fn csv(&self) -> String {
        self.text(",")
    }

    pub(crate) fn text(&self, delimiter: &str) -> String {
        let mut text = self.names.join(delimiter) + "\n";
        self.rows.iter().for_each(|row| text += &line(row, delimiter));
        text
    }

    /// One label a line.
    pub(crate) fn labels_csv(&self) -> String {
        self.labels.iter().fold(String::new(), |mut text, label| {
            let _ = writeln!(text, "{label}");
            text
        })
    }

    pub(crate) fn jsonl(&self) -> String {
        let object = |row: &Vec<f64>| {
            let cells = self.names.iter().zip(row).map(|(name, value)| format!("\"{name}\":{value}"));
            format!("{{{}}}\n", cells.collect::<Vec<_>>().join(","))
        };
        self.rows.iter().map(object).collect()
    }

    pub(crate) fn npy(&self) -> Vec<u8> {
        let shape = format!("({}, {})", self.rows.len(), self.names.len());
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(self.rows.iter().flatten().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    pub(crate) fn parquet(&self) -> Vec<u8> {
        let column = |(ix, name): (usize, &&str)| -> (String, ArrayRef) {
            (name.to_string(), Arc::new(Float64Array::from_iter_values(self.rows.iter().map(|row| row[ix]))))
        };
        let batch = RecordBatch::try_from_iter(self.names.iter().enumerate().map(column)).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    }
}

fn line(row: &[f64], delimiter: &str) -> String {
    row.iter().map(f64::to_string).collect::<Vec<_>>().join(delimiter) + "\n"
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Data of two clusters in text, with the family that fits them.
pub(crate) struct Sort {
    pub(crate) family: &'static str,
    pub(crate) csv: String,
    pub(crate) labels: String,
    pub(crate) columns: usize,
}

/// One kind of data for each family of counts and labels, and a table of mixed columns.
pub(crate) fn every_sort(rows: usize, seed: u64) -> Vec<Sort> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let rng = &mut rng;
    vec![
        sort("bernoulli", "a,b,c,d,e,f", rows, |label| join(6, |column| bit(label, column, rng))),
        sort("categorical", "hue,form,feel,place", rows, |label| join(4, |_| word(label, rng))),
        sort("poisson", "d,e,f", rows, |label| join(3, |_| count(label, rng))),
        sort("multinomial", "u,v,w,z", rows, |label| bag(label, rng)),
        sort("gaussian:a,b+categorical:c+poisson:d", "c,a,d,b", rows, |label| {
            let centre = 8.0 * label as f64;
            let (a, b): (f64, f64) = (StandardNormal.sample(rng), StandardNormal.sample(rng));
            format!("{},{},{},{}", word(label, rng), centre + a, count(label, rng), centre - b)
        }),
    ]
}

fn sort(family: &'static str, header: &str, rows: usize, mut row: impl FnMut(usize) -> String) -> Sort {
    let (mut csv, mut labels) = (format!("{header}\n"), String::new());
    for ix in 0..rows {
        let _ = writeln!(csv, "{}", row(ix % 2));
        let _ = writeln!(labels, "{}", ix % 2);
    }
    Sort { family, csv, labels, columns: header.split(',').count() }
}

fn join(columns: usize, cell: impl FnMut(usize) -> String) -> String {
    (0..columns).map(cell).collect::<Vec<_>>().join(",")
}

/// Alternating bits, the other way round in the other cluster, one in fifty flipped.
fn bit(label: usize, column: usize, rng: &mut Xoshiro256PlusPlus) -> String {
    let flipped = rng.random::<f64>() < 0.02;
    u8::from((label + column).is_multiple_of(2) != flipped).to_string()
}

/// A word of the cluster's own, one in fifty times the other's; one of them needs quotes.
fn word(label: usize, rng: &mut Xoshiro256PlusPlus) -> String {
    let own = rng.random::<f64>() >= 0.02;
    ["\"blue, pale\"", "red"][if own { label } else { 1 - label }].to_owned()
}

fn count(label: usize, rng: &mut Xoshiro256PlusPlus) -> String {
    Poisson::new([2.0, 30.0][label]).expect("the rate is positive").sample(rng).to_string()
}

/// Forty words, nine in ten from the cluster's half of the four.
fn bag(label: usize, rng: &mut Xoshiro256PlusPlus) -> String {
    let mut counts = [0; 4];
    for _ in 0..40 {
        let half = if rng.random::<f64>() < 0.9 { label } else { 1 - label };
        counts[2 * half + usize::from(rng.random::<f64>() < 0.5)] += 1;
    }
    counts.map(|count: u32| count.to_string()).join(",")
}
