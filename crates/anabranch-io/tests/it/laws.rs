//! What holds for every format: the batch size changes nothing, skipping is reading and discarding,
//! compression changes nothing, and memory does not grow with the rows.

use anabranch_io::{Input, OnBadRow, ReadOptions, open};
use proptest::prelude::*;

use crate::support::{every_format, gzip, read_all, rows, table, zstd};

#[test]
fn every_format_gives_the_same_rows() {
    let expected = table(23, 3);
    for (name, _, bytes) in every_format(&expected) {
        assert_eq!(rows(bytes), expected, "{name}");
    }
}

#[test]
fn compression_is_undone_whatever_the_format() {
    let expected = table(23, 3);
    for (name, _, bytes) in every_format(&expected) {
        assert_eq!(rows(gzip(&bytes)), expected, "{name} in gz");
        assert_eq!(rows(zstd(&bytes)), expected, "{name} in zstd");
    }
}

#[test]
fn several_compressed_members_are_one_file() {
    let both = [gzip(b"1,2\n"), gzip(b"3,4\n")].concat();
    assert_eq!(rows(both), [[1.0, 2.0], [3.0, 4.0]]);
    let both = [zstd(b"1,2\n"), zstd(b"3,4\n")].concat();
    assert_eq!(rows(both), [[1.0, 2.0], [3.0, 4.0]]);
}

#[test]
fn formats_that_know_their_length_say_so() {
    let table = table(23, 2);
    for (name, _, bytes) in every_format(&table) {
        let both = [Input::Memory(bytes.clone()), Input::Memory(bytes)];
        let hint = open(&both, &ReadOptions::default()).unwrap().rows_hint();
        let knows = name.starts_with("npy") || name == "parquet";
        assert_eq!(hint, knows.then_some(46), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_batch_size_changes_nothing(n in 1usize..40, size in 1usize..50, files in 1usize..4) {
        let part = table(n, 2);
        let expected: Vec<_> = std::iter::repeat_n(part.clone(), files).flatten().collect();
        for (name, _, bytes) in every_format(&part) {
            let inputs = vec![Input::Memory(bytes); files];
            let mut source = open(&inputs, &ReadOptions::default()).unwrap();
            prop_assert_eq!(read_all(&mut *source, size).unwrap(), expected.clone(), "{}", name);
        }
    }

    #[test]
    fn skipping_is_reading_and_discarding(
        values in prop::collection::vec(prop_oneof![5 => -9.0..9.0f64, 1 => Just(f64::NAN)], 1..40),
        before in 0usize..10,
        skip in 0u64..50,
        size in 1usize..9,
    ) {
        let part: Vec<Vec<f64>> = values.iter().map(|value| vec![*value, 1.0]).collect();
        let good = values.iter().filter(|value| value.is_finite()).count() * 2;
        let options = ReadOptions { on_bad_row: OnBadRow::Skip, ..Default::default() };
        prop_assume!(good > 0);
        for (name, _, bytes) in every_format(&part) {
            let inputs = vec![Input::Memory(bytes); 2];
            let all = read_all(&mut *open(&inputs, &options).unwrap(), size).unwrap();
            prop_assert_eq!(all.len(), good, "{}", name);
            let mut source = open(&inputs, &options).unwrap();
            let first = source.next_batch(before.max(1)).unwrap().map_or(0, |batch| batch.n_rows());
            let skipped = source.skip_rows(skip).unwrap() as usize;
            prop_assert_eq!(skipped, (skip as usize).min(good - first), "{}", name);
            let rest = read_all(&mut *source, size).unwrap();
            prop_assert_eq!(&rest[..], &all[first + skipped..], "{}", name);
            prop_assert_eq!(source.skipped_rows() as usize, 2 * values.len() - good, "{}", name);
        }
    }
}

#[test]
fn whole_numbers_are_leapt_over_in_every_order() {
    use crate::support::{npy_header, npy_with};
    let data: Vec<u8> = (0..40u8).collect();
    for fortran in [false, true] {
        let bytes = npy_with(1, &npy_header("'|u1'", fortran, "(20, 2)"), &data);
        let inputs = [Input::Memory(bytes.clone()), Input::Memory(bytes)];
        let all = read_all(&mut *open(&inputs, &ReadOptions::default()).unwrap(), 7).unwrap();
        for skip in [0, 1, 19, 20, 21, 39, 40, 99] {
            let mut source = open(&inputs, &ReadOptions::default()).unwrap();
            let skipped = source.skip_rows(skip).unwrap();
            assert_eq!(skipped, skip.min(40));
            assert_eq!(read_all(&mut *source, 6).unwrap(), all[skipped as usize..]);
        }
    }
}

/// A pipe that never ends could not be read by a reader that keeps all rows, or waits for the end.
#[cfg(unix)]
#[test]
fn rows_come_out_while_the_input_is_still_being_written() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let table = table(64, 2);
    for (name, format, bytes) in every_format(&table) {
        // Parquet and Fortran arrays need their end before the first row.
        if name == "parquet" || name.contains("Fortran") {
            continue;
        }
        let path = folder.path().join("pipe");
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = std::fs::File::create(path).unwrap();
                pipe.write_all(&bytes).unwrap();
                pipe.flush().unwrap();
                let _ = wait.recv();
            }
        });
        let options = ReadOptions { format: Some(format), ..Default::default() };
        let mut source = open(&[Input::Path(path)], &options).unwrap();
        // Arrays come in pieces of 65,536 numbers, so this one is only complete at its end.
        let early = if name == "npy" { 64 } else { 10 };
        assert_eq!(source.next_batch(early).unwrap().unwrap().n_rows(), early, "{name}");
        drop(done);
        writer.join().unwrap();
        assert_eq!(read_all(&mut *source, 9).unwrap().len(), 64 - early, "{name}");
    }
}
