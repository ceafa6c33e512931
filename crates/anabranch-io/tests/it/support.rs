//! Files of every format with known rows, and short ways to read them.

use std::sync::Arc;

use anabranch_io::{Format, Input, OnBadRow, ReadError, ReadOptions, Source, open};
use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Rows as nested vectors.
pub(crate) type Rows = Vec<Vec<f64>>;

/// `n` rows of `d` columns, all different and exactly representable in text.
pub(crate) fn table(n: usize, d: usize) -> Rows {
    (0..n).map(|row| (0..d).map(|column| row as f64 + column as f64 / 8.0 - 3.0).collect()).collect()
}

/// Reads everything in batches of `size`, checking that all but the last are full.
pub(crate) fn read_all(source: &mut dyn Source, size: usize) -> Result<Rows, ReadError> {
    let mut rows = Rows::new();
    let mut ended = false;
    while let Some(batch) = source.next_batch(size)? {
        assert!(!ended, "a short batch is the last");
        ended = batch.n_rows() < size;
        rows.extend(batch.rows().map(<[f64]>::to_vec));
    }
    assert!(source.next_batch(size)?.is_none(), "the end stays the end");
    Ok(rows)
}

pub(crate) fn read(bytes: impl Into<Vec<u8>>, options: &ReadOptions) -> Result<Rows, ReadError> {
    let mut source = open(&[Input::Memory(bytes.into())], options)?;
    read_all(&mut *source, 3)
}

/// Reads bytes that are all right.
pub(crate) fn rows(bytes: impl Into<Vec<u8>>) -> Rows {
    read(bytes, &ReadOptions::default()).unwrap()
}

/// The message of the error that the bytes give.
pub(crate) fn message(bytes: impl Into<Vec<u8>>) -> String {
    message_with(bytes, &ReadOptions::default())
}

pub(crate) fn message_with(bytes: impl Into<Vec<u8>>, options: &ReadOptions) -> String {
    let error = read(bytes, options).expect_err("these bytes are bad");
    assert!(error.hint().is_some(), "{error} has no hint");
    error.to_string()
}

/// Good rows and the number of skipped ones.
pub(crate) fn skipping(bytes: impl Into<Vec<u8>>) -> (Rows, u64) {
    let options = ReadOptions { on_bad_row: OnBadRow::Skip, ..Default::default() };
    let mut source = open(&[Input::Memory(bytes.into())], &options).unwrap();
    (read_all(&mut *source, 2).unwrap(), source.skipped_rows())
}

pub(crate) fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

pub(crate) fn csv(rows: &Rows) -> Vec<u8> {
    let line = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",") + "\n";
    rows.iter().map(line).collect::<String>().into_bytes()
}

pub(crate) fn jsonl(rows: &Rows) -> Vec<u8> {
    rows.iter().map(|row| format!("{row:?}\n")).collect::<String>().into_bytes()
}

/// The bytes of an npy file with any header dictionary.
pub(crate) fn npy_with(version: u8, dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((dictionary.len() as u16).to_le_bytes()),
        _ => bytes.extend((dictionary.len() as u32).to_le_bytes()),
    }
    bytes.extend(dictionary.as_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) fn npy_header(descr: &str, fortran: bool, shape: &str) -> String {
    let fortran = if fortran { "True" } else { "False" };
    format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

pub(crate) fn npy(rows: &Rows) -> Vec<u8> {
    let data: Vec<u8> = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    npy_with(1, &npy_header("'<f8'", false, &format!("({}, {})", rows.len(), rows[0].len())), &data)
}

pub(crate) fn npy_fortran(rows: &Rows) -> Vec<u8> {
    let column = |ix: usize| rows.iter().map(move |row| row[ix]);
    let data: Vec<u8> = (0..rows[0].len()).flat_map(column).flat_map(f64::to_le_bytes).collect();
    npy_with(1, &npy_header("'<f8'", true, &format!("({}, {})", rows.len(), rows[0].len())), &data)
}

/// Rows as a record batch with columns `x0`, `x1` and so on.
pub(crate) fn record_batch(rows: &Rows) -> RecordBatch {
    let column = |ix: usize| -> (String, ArrayRef) {
        let values: Vec<f64> = rows.iter().map(|row| row[ix]).collect();
        (format!("x{ix}"), Arc::new(Float64Array::from(values)))
    };
    RecordBatch::try_from_iter((0..rows[0].len()).map(column)).unwrap()
}

pub(crate) fn parquet(batch: &RecordBatch, compression: Compression) -> Vec<u8> {
    parquet_grouped(batch, compression, 7)
}

/// Parquet with row groups of a given size.
pub(crate) fn parquet_grouped(batch: &RecordBatch, compression: Compression, rows: usize) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(rows))
        .build();
    written(batch, properties)
}

/// Parquet whose columns are one page each, packed.
pub(crate) fn parquet_in_one_page(batch: &RecordBatch) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(usize::MAX)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(batch.num_rows())
        .build();
    written(batch, properties)
}

fn written(batch: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// The rows in batches of a given size.
fn pieces(batch: &RecordBatch, rows: usize) -> Vec<RecordBatch> {
    let n = batch.num_rows();
    (0..n.max(1)).step_by(rows).map(|start| batch.slice(start, rows.min(n - start))).collect()
}

/// Small batches, so that their ends fall inside ours.
pub(crate) fn arrow_file(batch: &RecordBatch) -> Vec<u8> {
    arrow_in_batches(batch, 5)
}

pub(crate) fn arrow_in_batches(batch: &RecordBatch, rows: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    pieces(batch, rows).iter().for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

pub(crate) fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    pieces(batch, 5).iter().for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

pub(crate) fn arrow_compressed(batch: &RecordBatch, compression: CompressionType) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(Some(compression)).unwrap();
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    bytes
}

/// The same rows in every format, with its name.
pub(crate) fn every_format(rows: &Rows) -> Vec<(&'static str, Format, Vec<u8>)> {
    let batch = record_batch(rows);
    vec![
        ("csv", Format::Csv, csv(rows)),
        ("jsonl", Format::Jsonl, jsonl(rows)),
        ("npy", Format::Npy, npy(rows)),
        ("npy in Fortran order", Format::Npy, npy_fortran(rows)),
        ("parquet", Format::Parquet, parquet(&batch, Compression::SNAPPY)),
        ("arrow file", Format::Arrow, arrow_file(&batch)),
        ("arrow stream", Format::Arrow, arrow_stream(&batch)),
    ]
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}
