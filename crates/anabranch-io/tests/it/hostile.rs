//! No bytes make a reader panic: random ones, and good files with a few bytes changed.

use std::sync::Arc;

use anabranch_io::{Format, Input, OnBadRow, ReadOptions, open};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_ipc::CompressionType;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use proptest::prelude::*;

use crate::support::{arrow_compressed, arrow_file, every_format, gzip, parquet, strings, table, zstd};

/// Reads as far as the bytes allow; only that it comes back matters.
fn survive(bytes: Vec<u8>, format: Option<Format>) {
    survive_with(bytes, ReadOptions { format, ..Default::default() });
}

fn survive_with(bytes: Vec<u8>, options: ReadOptions) {
    let options = ReadOptions { on_bad_row: OnBadRow::Skip, ..options };
    let Ok(mut source) = open(&[Input::Memory(bytes)], &options) else {
        return;
    };
    while let Ok(Some(_)) = source.next_batch(100) {}
}

/// Changes, removes or inserts bytes at places given as fractions of the length.
fn mutate(mut bytes: Vec<u8>, edits: &[(f64, u8, u8)]) -> Vec<u8> {
    for (place, kind, value) in edits {
        let ix = ((bytes.len() as f64 * place) as usize).min(bytes.len().saturating_sub(1));
        match kind % 5 {
            0 => bytes.truncate(ix),
            1 => bytes.insert(ix, *value),
            2 if !bytes.is_empty() => {
                bytes.remove(ix);
            }
            3 if !bytes.is_empty() => bytes[ix] ^= 1 << (value % 8),
            _ if !bytes.is_empty() => bytes[ix] = *value,
            _ => {}
        }
    }
    bytes
}

fn edits() -> impl Strategy<Value = Vec<(f64, u8, u8)>> {
    let kind = prop_oneof![1 => 0u8..3, 12 => 3u8..5];
    prop::collection::vec((0.0..1.0f64, kind, any::<u8>()), 1..6)
}

/// Files with nulls, dictionaries, strings of several encodings, decimals and every compression.
fn rich_files() -> Vec<Vec<u8>> {
    let labels = ["red", "a label too long to be kept inside a view", "red"];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("d", Arc::new(Decimal128Array::from(vec![150, 200, 7]).with_precision_and_scale(5, 2).unwrap())),
        ("s", Arc::new(StringArray::from(labels.to_vec()))),
        ("v", Arc::new(StringViewArray::from(labels.to_vec()))),
        ("k", Arc::new(labels.into_iter().collect::<DictionaryArray<Int8Type>>())),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    vec![
        parquet(&batch, Compression::UNCOMPRESSED),
        parquet(&batch, Compression::ZSTD(ZstdLevel::default())),
        parquet(&batch, Compression::GZIP(GzipLevel::default())),
        parquet(&batch, Compression::LZ4_RAW),
        arrow_file(&batch),
        arrow_compressed(&batch, CompressionType::LZ4_FRAME),
        arrow_compressed(&batch, CompressionType::ZSTD),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survive(bytes.clone(), None);
        for format in Format::ALL {
            survive(bytes.clone(), Some(format));
        }
    }

    #[test]
    fn random_text_never_panics(text in "[-+0-9.,;\t \"\r\n{}\\[\\]:a-c]{0,120}") {
        for format in [None, Some(Format::Csv), Some(Format::Tsv), Some(Format::Jsonl)] {
            survive(text.clone().into_bytes(), format);
        }
    }

    #[test]
    fn changed_files_never_panic(edits in edits()) {
        for (_, format, bytes) in every_format(&table(12, 2)) {
            survive(mutate(bytes.clone(), &edits), Some(format));
            survive(mutate(gzip(&bytes), &edits), Some(format));
            survive(mutate(zstd(&bytes), &edits), Some(format));
        }
    }

    #[test]
    fn changed_files_with_every_type_never_panic(edits in edits()) {
        for bytes in rich_files() {
            let options = ReadOptions { categorical: strings(&["s", "v", "k"]), ..Default::default() };
            survive_with(mutate(bytes, &edits), options);
        }
    }
}
