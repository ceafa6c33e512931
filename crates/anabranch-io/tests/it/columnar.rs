//! Parquet and Arrow IPC: types, nulls, compression, projection.

use std::sync::Arc;

use anabranch_io::{ReadOptions, Schema};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_ipc::CompressionType;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};

use crate::support::*;

fn both(batch: &RecordBatch) -> [(&'static str, Vec<u8>); 3] {
    [
        ("parquet", parquet(batch, Compression::UNCOMPRESSED)),
        ("arrow", arrow_file(batch)),
        ("arrow", arrow_stream(batch)),
    ]
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn numbers_of_every_type_and_booleans_are_read() {
    let wide = batch(vec![
        ("i8", Arc::new(Int8Array::from(vec![-1, 2]))),
        ("i16", Arc::new(Int16Array::from(vec![-1, 2]))),
        ("i32", Arc::new(Int32Array::from(vec![-1, 2]))),
        ("i64", Arc::new(Int64Array::from(vec![-1, 2]))),
        ("u8", Arc::new(UInt8Array::from(vec![1, 2]))),
        ("u64", Arc::new(UInt64Array::from(vec![1, 2]))),
        ("f32", Arc::new(Float32Array::from(vec![0.5, 2.0]))),
        ("bool", Arc::new(BooleanArray::from(vec![true, false]))),
        ("decimal", Arc::new(Decimal128Array::from(vec![150, 200]).with_precision_and_scale(5, 2).unwrap())),
        (
            "dictionary",
            Arc::new(DictionaryArray::<Int8Type>::new(
                Int8Array::from(vec![1, 0]),
                Arc::new(Float64Array::from(vec![7.0, 8.0])),
            )),
        ),
    ]);
    let first = vec![-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 0.5, 1.0, 1.5, 8.0];
    let second = vec![2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0, 2.0, 7.0];
    for (format, bytes) in both(&wide) {
        assert_eq!(rows(bytes), [first.clone(), second.clone()], "{format}");
    }
}

#[test]
fn nulls_and_values_that_are_not_finite_are_bad_rows() {
    let null = batch(vec![("x", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])))]);
    for (format, bytes) in both(&null) {
        assert_eq!(message(bytes.clone()), "memory: row 2, column \"x\" has no value", "{format}");
        assert_eq!(skipping(bytes), (vec![vec![1.0], vec![3.0]], 1), "{format}");
    }
    let nan = batch(vec![("x", Arc::new(Float32Array::from(vec![1.0, f32::NAN])))]);
    for (_, bytes) in both(&nan) {
        assert_eq!(message(bytes), "memory: row 2, column \"x\": NaN is not a finite number");
    }
}

#[test]
fn columns_that_are_no_numbers_are_refused_unless_dropped() {
    let mixed = batch(vec![
        ("when", Arc::new(Date32Array::from(vec![1, 2]))),
        ("who", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("x", Arc::new(Float64Array::from(vec![1.0, 2.0]))),
        ("y", Arc::new(Float64Array::from(vec![3.0, 4.0]))),
    ]);
    for (format, bytes) in both(&mixed) {
        let expected = "memory: column \"when\" has type Date32, which is not a number";
        assert_eq!(message(bytes.clone()), expected, "{format}");
        let dropped = ReadOptions { columns: Some(strings(&["-when", "-who"])), ..Default::default() };
        assert_eq!(read(bytes.clone(), &dropped).unwrap(), [[1.0, 3.0], [2.0, 4.0]], "{format}");
        let reversed = ReadOptions { columns: Some(strings(&["y", "x"])), ..Default::default() };
        assert_eq!(read(bytes, &reversed).unwrap(), [[3.0, 1.0], [4.0, 2.0]], "{format}");
    }
}

#[test]
fn parquet_is_read_with_every_usual_compression() {
    let table = table(50, 2);
    let levels = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    for compression in levels {
        assert_eq!(rows(parquet(&record_batch(&table), compression)), table, "{compression:?}");
    }
}

#[test]
fn arrow_is_read_with_every_compression() {
    let table = table(50, 2);
    let batch = record_batch(&table);
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let bytes = arrow_compressed(&batch, compression);
        assert_eq!(rows(bytes), table, "{compression:?}");
    }
}

#[test]
fn a_table_without_rows_is_told() {
    let empty = batch(vec![("x", Arc::new(Float64Array::from(Vec::<f64>::new())))]);
    for (format, bytes) in both(&empty) {
        assert_eq!(message(bytes), "memory has no rows", "{format}");
    }
}

#[test]
fn damaged_files_are_told_apart_from_short_ones() {
    let bytes = arrow_stream(&record_batch(&table(9, 1)));
    let cut = &bytes[..bytes.len() - 40];
    assert_eq!(message(cut), "memory: not a valid arrow file: it is cut short");
    let parquet = parquet(&record_batch(&table(9, 1)), Compression::SNAPPY);
    assert!(message(&parquet[..parquet.len() - 9]).starts_with("memory: not a valid parquet file: "));
}

#[test]
fn strings_are_categories_in_every_encoding() {
    let labels = ["red", "blue", "red"];
    let columns: [ArrayRef; 4] = [
        Arc::new(StringArray::from(labels.to_vec())),
        Arc::new(LargeStringArray::from(labels.to_vec())),
        Arc::new(StringViewArray::from(labels.to_vec())),
        Arc::new(labels.into_iter().collect::<DictionaryArray<Int8Type>>()),
    ];
    for column in columns {
        let batch = batch(vec![("colour", column)]);
        let options = ReadOptions { categorical: strings(&["colour"]), ..Default::default() };
        for (format, bytes) in both(&batch) {
            let mut source = anabranch_io::open(&[anabranch_io::Input::Memory(bytes)], &options).unwrap();
            assert_eq!(read_all(&mut *source, 2).unwrap(), [[0.0], [1.0], [0.0]], "{format}");
            let schema: &Schema = source.schema();
            assert_eq!(schema.columns[0].categories.as_deref().unwrap(), ["red", "blue"]);
        }
    }
}
