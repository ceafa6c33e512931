//! Paths: several files as one, and paths that cannot be read.

use std::fs;
use std::path::Path;

use anabranch_io::{Input, ReadError, ReadOptions, open};

use crate::support::{gzip, npy, read_all, strings, table};

fn write(folder: &Path, files: &[(&str, &[u8])]) -> Vec<Input> {
    let one = |(name, bytes): &(&str, &[u8])| {
        fs::write(folder.join(name), bytes).unwrap();
        Input::Path(folder.join(name))
    };
    files.iter().map(one).collect()
}

/// Rows, or the message with the folder removed.
fn read_files(files: &[(&str, &[u8])], options: &ReadOptions) -> Result<Vec<Vec<f64>>, String> {
    let folder = tempfile::tempdir().unwrap();
    let inputs = write(folder.path(), files);
    let prefix = format!("{}/", folder.path().display());
    open(&inputs, options)
        .and_then(|mut source| read_all(&mut *source, 2))
        .map_err(|error| error.to_string().replace(&prefix, ""))
}

#[test]
fn files_are_joined_and_columns_found_by_name() {
    let files: [(&str, &[u8]); 4] = [
        ("a.csv", b"x,y\n1,2\n"),
        ("b.csv", b"y,x\n4,3\n6,5\n"),
        ("empty.csv", b""),
        ("c.jsonl", b"{\"y\":8,\"x\":7}"),
    ];
    let joined = read_files(&files, &ReadOptions::default()).unwrap();
    assert_eq!(joined, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]);
}

#[test]
fn files_without_names_are_joined_by_position() {
    let part = npy(&table(3, 2));
    let joined = read_files(
        &[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"3,4\n"), ("c.npy", &part)],
        &ReadOptions::default(),
    );
    assert_eq!(joined.unwrap().len(), 5);
    let error =
        read_files(&[("a.csv", b"1,2\n"), ("b.csv", b"1,2,3\n")], &ReadOptions::default()).unwrap_err();
    assert_eq!(error, "b.csv: has 3 columns, a.csv has 2");
}

#[test]
fn files_with_other_columns_are_refused_before_a_row_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = write(folder.path(), &[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"x,z\n3,4\n")]);
    let error = open(&inputs, &ReadOptions::default()).err().unwrap();
    assert!(
        matches!(&error, ReadError::ColumnsDiffer { found, expected, .. } if found == "x, z" && expected == "x, y")
    );
    let shared = ReadOptions { columns: Some(strings(&["x"])), ..Default::default() };
    assert_eq!(read_all(&mut *open(&inputs, &shared).unwrap(), 9).unwrap(), [[1.0], [3.0]]);
}

#[test]
fn a_bad_row_is_counted_within_its_own_file() {
    let error =
        read_files(&[("a.csv", b"x\n1\n2\n"), ("b.csv", b"x\n3\n?\n")], &ReadOptions::default()).unwrap_err();
    assert_eq!(error, "b.csv: row 2 (line 3), column \"x\": \"?\" is not a number");
}

#[test]
fn an_extension_may_be_followed_by_a_compression_or_lie_about_it() {
    let packed = gzip(b"1\n2\n");
    for name in ["a.csv.gz", "a.csv", "a.txt.zst"] {
        assert_eq!(
            read_files(&[(name, &packed)], &ReadOptions::default()).unwrap(),
            [[1.0], [2.0]],
            "{name}"
        );
    }
}

#[test]
fn binary_files_are_known_by_their_first_bytes() {
    assert_eq!(read_files(&[("data.bin", &npy(&table(3, 1)))], &ReadOptions::default()).unwrap().len(), 3);
}

#[test]
fn a_file_without_an_extension_is_known_by_its_first_character() {
    for (text, rows) in [(&b"x,y\n1,2\n"[..], [[1.0, 2.0]]), (b"{\"x\": 3, \"y\": 4}\n", [[3.0, 4.0]])] {
        assert_eq!(read_files(&[("rows", text)], &ReadOptions::default()).unwrap(), rows);
    }
}

#[test]
fn truth_is_a_number_in_text_as_in_json() {
    let rows = read_files(&[("a.csv", b"x,y\ntrue,0.5\nFalse,1\n")], &ReadOptions::default()).unwrap();
    assert_eq!(rows, [[1.0, 0.5], [0.0, 1.0]]);
}

#[test]
fn paths_that_cannot_be_read_are_told_apart() {
    let error = read_files(&[("a.xyz", b"1,2\n")], &ReadOptions::default()).unwrap_err();
    assert_eq!(error, "a.xyz: cannot tell the format from the extension");
    let folder = tempfile::tempdir().unwrap();
    let failure = |path: &Path| open(&[Input::Path(path.to_owned())], &ReadOptions::default()).err().unwrap();
    assert!(matches!(failure(&folder.path().join("none.csv")), ReadError::NotFound { .. }));
    assert!(matches!(failure(folder.path()), ReadError::Directory { .. }));
    assert!(matches!(open(&[], &ReadOptions::default()).err().unwrap(), ReadError::NoInput));
    let good = folder.path().join("good.csv");
    fs::write(&good, "1\n").unwrap();
    let second = [Input::Path(good), Input::Path(folder.path().join("none.csv"))];
    assert!(matches!(open(&second, &ReadOptions::default()).err().unwrap(), ReadError::NotFound { .. }));
}

#[test]
fn hints_say_what_to_do() {
    let error = ReadError::UnknownExtension { file: "a.xyz".into() };
    assert_eq!(error.hint().unwrap(), "pass --format with one of csv, tsv, npy, parquet, arrow, jsonl");
}

#[test]
fn damaged_compression_is_an_error() {
    let packed = gzip(&b"1,2\n".repeat(1000));
    let error =
        read_files(&[("a.csv.gz", &packed[..packed.len() / 2])], &ReadOptions::default()).unwrap_err();
    assert!(error.starts_with("a.csv.gz: "), "{error}");
}

#[test]
fn after_an_error_nothing_more_is_read() {
    let mut source = open(&[Input::Memory("1\nx\n3\n".into())], &ReadOptions::default()).unwrap();
    assert!(source.next_batch(9).is_err());
    assert!(source.next_batch(9).unwrap().is_none());
    assert_eq!(source.skip_rows(9).unwrap(), 0);
}
