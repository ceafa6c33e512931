//! When rows were: a column beside those that are learned from, in every format.

use std::sync::Arc;

use anabranch_io::{Input, OnBadRow, ReadOptions, open};
use arrow_array::*;
use parquet::basic::Compression;

use crate::support::*;

/// Reads everything with the times of this column.
fn timed(bytes: Vec<u8>, options: ReadOptions) -> (Rows, Vec<f64>, Vec<String>) {
    let mut source = open(&[Input::Memory(bytes)], &options).unwrap();
    let rows = read_all(&mut *source, 3).unwrap();
    let names = source.schema().names().map(str::to_owned).collect();
    (rows, source.take_times(), names)
}

#[test]
fn times_are_read_beside_the_rows_in_every_format() {
    let all = table(10, 3);
    for (name, format, bytes) in every_format(&all) {
        let options =
            || ReadOptions { format: Some(format), time: Some("2".to_owned()), ..Default::default() };
        let (rows, times, names) = timed(bytes.clone(), options());
        let of = |column: usize| all.iter().map(|row| row[column]).collect::<Vec<f64>>();
        assert_eq!(times, of(1), "{name}");
        assert_eq!(rows, all.iter().map(|row| vec![row[0], row[2]]).collect::<Rows>(), "{name}");
        assert_eq!(names.len(), 2, "{name}");
        // A selection does not need to name it, and rows that are passed over have no time.
        let options = ReadOptions { columns: Some(strings(&["3"])), ..options() };
        let mut source = open(&[Input::Memory(bytes)], &options).unwrap();
        assert_eq!(source.skip_rows(4).unwrap(), 4);
        assert!(source.take_times().is_empty());
        source.next_batch(100).unwrap();
        assert_eq!(source.take_times(), of(1)[4..], "{name}");
    }
}

#[test]
fn timestamps_of_every_unit_are_seconds() {
    let x = || -> ArrayRef { Arc::new(Float64Array::from(vec![1.0, 2.0])) };
    let columns: [(ArrayRef, [f64; 2]); 8] = [
        (Arc::new(TimestampSecondArray::from(vec![5, -1])), [5.0, -1.0]),
        (Arc::new(TimestampMillisecondArray::from(vec![1500, 0]).with_timezone("+02:00")), [1.5, 0.0]),
        (Arc::new(TimestampMicrosecondArray::from(vec![2_500_000, 1])), [2.5, 1e-6]),
        (Arc::new(TimestampNanosecondArray::from(vec![3_000_000_000, 0])), [3.0, 0.0]),
        (Arc::new(Date32Array::from(vec![1, 19_000])), [86_400.0, 1_641_600_000.0]),
        (Arc::new(Date64Array::from(vec![86_400_000, 0])), [86_400.0, 0.0]),
        (Arc::new(StringArray::from(vec!["1970-01-02", "7"])), [86_400.0, 7.0]),
        (Arc::new(Int32Array::from(vec![4, 9])), [4.0, 9.0]),
    ];
    for (column, seconds) in columns {
        let kind = column.data_type().clone();
        let batch = RecordBatch::try_from_iter([("when", column), ("x", x())]).unwrap();
        for bytes in [parquet(&batch, Compression::UNCOMPRESSED), arrow_file(&batch)] {
            let (rows, times, names) =
                timed(bytes, ReadOptions { time: Some("when".to_owned()), ..Default::default() });
            assert_eq!((rows, names), (vec![vec![1.0], vec![2.0]], vec!["x".to_owned()]), "{kind}");
            assert_eq!(times, seconds, "{kind}");
        }
    }
}

#[test]
fn what_is_no_time_is_told_with_its_row_or_left_out() {
    let csv = "when,x\n1,1\n,2\n2024-01-01T00:00Z,3\nlater,4\n9e12,5\n6,oops\n7,7\n";
    let options =
        |on_bad_row| ReadOptions { time: Some("when".to_owned()), on_bad_row, ..Default::default() };
    let fail = message_with(csv, &options(OnBadRow::Fail));
    assert!(fail.contains("row 2") && fail.contains("\"when\"") && fail.contains("is not a time"), "{fail}");
    let (rows, times, _) = timed(csv.into(), options(OnBadRow::Skip));
    assert_eq!((rows, times), (vec![vec![1.0], vec![3.0], vec![7.0]], vec![1.0, 1_704_067_200.0, 7.0]));
}
