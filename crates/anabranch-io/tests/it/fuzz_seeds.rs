//! The files that the fuzzer starts from, `fuzz/seeds/<target>/`: small, good, and of every kind.
//!
//! `make seeds` writes them anew after a change of the model file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, Central};
use anabranch::engine::minibatch_rng;
use anabranch::family::{
    AnyFamily, Bernoulli, Block, Categorical, Diagonal, Family, Gaussian, Multinomial, Poisson, Product,
    Spherical,
};
use anabranch::identify::Identification;
use anabranch::infer::{Settings, Workspace, infer};
use anabranch::process::{AnyProcess, Bound};
use anabranch_io::model::{Model, Provenance};
use anabranch_io::{Column, Format, Input, OnBadRow, ReadOptions, Schema, open};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_ipc::CompressionType;
use parquet::basic::{Compression, ZstdLevel};

use crate::support::{
    arrow_compressed, arrow_file, arrow_stream, csv, every_format, gzip, jsonl, npy, npy_fortran, npy_header,
    npy_with, parquet, record_batch, table, zstd,
};

/// Small seeds make quick mutations.
const MOST_BYTES: u64 = 10_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

fn seeds_of(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(folder().join(target)).expect("`make seeds` has been run");
    let mut seeds: Vec<_> = files.map(|file| file.unwrap().path()).map(|p| (p.clone(), read(&p))).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn every_seed_with_rows_is_read_to_its_end() {
    let targets = [
        ("read_csv", Some(Format::Csv)),
        ("read_npy", Some(Format::Npy)),
        ("read_parquet", Some(Format::Parquet)),
        ("read_arrow", Some(Format::Arrow)),
        ("read_jsonl", Some(Format::Jsonl)),
        ("read_compressed", None),
    ];
    for (target, format) in targets {
        for (path, bytes) in seeds_of(target) {
            assert!(bytes.len() as u64 <= MOST_BYTES, "{}", path.display());
            let on_bad_row = OnBadRow::Skip;
            let options =
                ReadOptions { format, on_bad_row, categorical: vec!["1".into()], ..Default::default() };
            let mut source = open(&[Input::Memory(bytes)], &options).unwrap();
            let batch = source.next_batch(100).unwrap().expect("a seed has rows");
            assert!(batch.n_rows() > 0, "{}", path.display());
            assert_eq!(source.next_batch(100).unwrap(), None, "{}", path.display());
        }
    }
}

#[test]
fn every_seed_with_labels_is_read() {
    for (path, _) in seeds_of("read_labels") {
        assert_eq!(anabranch_io::labels::read_labels(&path).unwrap().len(), 3, "{}", path.display());
    }
}

#[test]
fn every_seed_that_is_a_model_loads_with_components() {
    for (path, bytes) in seeds_of("model_file") {
        assert!(bytes.len() as u64 <= MOST_BYTES, "{}", path.display());
        let model = Model::from_bytes(&bytes)
            .unwrap_or_else(|fault| panic!("{}: {fault}; `make seeds` writes new ones", path.display()));
        assert!(!model.fold.posterior().components().is_empty(), "{}", path.display());
    }
}

#[test]
#[ignore = "writes into the source tree: `make seeds`"]
fn write_the_seeds() {
    let files = [row_seeds(), label_seeds(), model_seeds()].concat();
    for (target, name, bytes) in files {
        let folder = folder().join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

type Seed = (&'static str, String, Vec<u8>);

fn seed(target: &'static str, name: &str, bytes: impl Into<Vec<u8>>) -> Seed {
    (target, name.to_owned(), bytes.into())
}

fn row_seeds() -> Vec<Seed> {
    let rows = table(4, 2);
    let (plain, rich) = (record_batch(&rows), rich_batch());
    let quoted =
        "\u{feff}name;\"a \"\"quoted\"\" one\"\r\n\"red; dark\";1e-3\r\nblue;-.5\r\n\r\ngreen;NA\r\n";
    let objects = "{\"a\": 1, \"b\": -2.5e3}\n\n{\"b\": 1, \"a\": null}\n{\"a\": \"\\u00e9\", \"b\": true}\n";
    let integers: Vec<u8> = [1i32, -2, 3].into_iter().flat_map(i32::to_be_bytes).collect();
    let bytes = [1u8, 255];
    let mut seeds = vec![
        seed("read_csv", "plain.csv", csv(&rows)),
        seed("read_csv", "header.csv", "a,b\n1,2\n3,4.5\n"),
        seed("read_csv", "quoted.csv", quoted),
        seed("read_csv", "tabs.tsv", "x\ty\n1\t2\n"),
        seed("read_csv", "spaces.txt", "1   2.5  3\n4 5 6\n"),
        seed("read_npy", "f8.npy", npy(&rows)),
        seed("read_npy", "fortran.npy", npy_fortran(&rows)),
        seed("read_npy", "i4-big.npy", npy_with(2, &npy_header("'>i4'", false, "(3,)"), &integers)),
        seed("read_npy", "u1.npy", npy_with(3, &npy_header("'|u1'", false, "(1, 2)"), &bytes)),
        seed("read_parquet", "plain.parquet", parquet(&plain, Compression::UNCOMPRESSED)),
        seed("read_parquet", "rich.parquet", parquet(&rich, Compression::SNAPPY)),
        seed("read_parquet", "zstd.parquet", parquet(&plain, Compression::ZSTD(ZstdLevel::default()))),
        seed("read_arrow", "file.arrow", arrow_file(&plain)),
        seed("read_arrow", "stream.arrow", arrow_stream(&plain)),
        seed("read_arrow", "rich.arrow", arrow_file(&rich)),
        seed("read_arrow", "lz4.arrow", arrow_compressed(&plain, CompressionType::LZ4_FRAME)),
        seed("read_arrow", "zstd.arrow", arrow_compressed(&plain, CompressionType::ZSTD)),
        seed("read_jsonl", "arrays.jsonl", jsonl(&rows)),
        seed("read_jsonl", "objects.jsonl", objects),
    ];
    for (name, _, bytes) in every_format(&rows) {
        let name = name.replace(' ', "-");
        seeds.push(seed("read_compressed", &format!("{name}.gz"), gzip(&bytes)));
        seeds.push(seed("read_compressed", &format!("{name}.zst"), zstd(&bytes)));
    }
    let members = [gzip(b"1,2\n3,"), gzip(b"4\n")].concat();
    seeds.push(seed("read_compressed", "members.gz", members));
    seeds
}

/// Nulls, booleans, decimals, strings and a dictionary.
fn rich_batch() -> RecordBatch {
    let labels = ["red", "a label too long to be kept inside a view", "red"];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(labels.into_iter().collect::<DictionaryArray<Int8Type>>())),
        ("n", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("d", Arc::new(Decimal128Array::from(vec![150, 200, 7]).with_precision_and_scale(5, 2).unwrap())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
}

fn label_seeds() -> Vec<Seed> {
    let integers: Vec<u8> = [1i64, -2, 3].into_iter().flat_map(i64::to_le_bytes).collect();
    vec![
        seed("read_labels", "numbers.csv", "label\n1\n2\n1\n"),
        seed("read_labels", "words.csv", "cat\n\"dog\"\ncat\n"),
        seed("read_labels", "i8.npy", npy_with(1, &npy_header("'<i8'", false, "(3,)"), &integers)),
    ]
}

/// Rows in two clumps that are in the domain of every family.
pub(crate) fn clumps() -> Batch {
    let clump = |row: usize| if row.is_multiple_of(2) { [0.0, 1.0] } else { [1.0, 0.0] };
    Batch::new(2, (0..12).flat_map(clump).collect()).unwrap()
}

pub(crate) fn families(rows: &Batch) -> Vec<AnyFamily> {
    let single = |column: usize| Batch::new(1, rows.rows().map(|row| row[column]).collect()).unwrap();
    let blocks = vec![
        Block { columns: vec![1], family: Diagonal::from_rows(&single(1)).unwrap().into() },
        Block { columns: vec![0], family: Categorical::from_rows(&single(0)).unwrap().into() },
    ];
    vec![
        Gaussian::from_rows(rows).unwrap().into(),
        Diagonal::from_rows(rows).unwrap().into(),
        Spherical::from_rows(rows).unwrap().into(),
        Bernoulli::from_rows(rows).unwrap().into(),
        Categorical::from_rows(rows).unwrap().into(),
        Poisson::from_rows(rows).unwrap().into(),
        Multinomial::from_rows(rows).unwrap().into(),
        Product::new(blocks).unwrap().into(),
    ]
}

fn model_seeds() -> Vec<Seed> {
    let rows = clumps();
    let name = |family: &AnyFamily| format!("{}.model", family.name());
    families(&rows).into_iter().map(|f| ("model_file", name(&f), model(f, &rows).to_bytes())).collect()
}

/// Two minibatches with the same rows; the numbers 0 and 2 leave a gap in the set of those absorbed.
pub(crate) fn model(family: AnyFamily, rows: &Batch) -> Model {
    let dimensions = family.dimensions();
    let central = Central::new(family, AnyProcess::new(1.0, None, Bound::Paper).unwrap());
    for batch in [BatchId(0), BatchId(2)] {
        let settings = Settings { max_new: 3, ..Settings::default() };
        let mut rng = minibatch_rng(7, batch);
        let (increment, _) = infer(&central.snapshot(), rows, &settings, &mut rng, &mut Workspace::default());
        central.absorb(batch, increment, Identification::Optimal).unwrap();
    }
    let columns = (0..dimensions).map(|column| Column::number(format!("x{column}"))).collect();
    let provenance = Provenance {
        seed: 7,
        bootstrap_rows: 12,
        batch_size: 12,
        observations: 24,
        ..Provenance::new(Schema { columns, named: true })
    };
    Model { fold: central.checkpoint(), provenance }
}
