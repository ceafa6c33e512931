//! JSON lines: objects, arrays, and every kind of bad line.

use anabranch_io::{Format, Input, OnMissing, ReadOptions, open};

use crate::support::{message, message_with, read, rows, skipping, strings};

#[test]
fn objects_give_columns_in_the_order_of_the_first() {
    let text = "{\"b\": 1, \"a\": 2}\n\n{\"a\": 3, \"extra\": [1, {}], \"b\": 4}\r\n";
    let source = open(&[Input::Memory(text.into())], &ReadOptions::default()).unwrap();
    assert_eq!(source.schema().names().collect::<Vec<_>>(), ["b", "a"]);
    assert!(source.schema().named);
    assert_eq!(rows(text), [[1.0, 2.0], [4.0, 3.0]]);
}

#[test]
fn a_number_that_the_first_object_lacks_has_a_column_too() {
    let text = "{\"a\": 1}\n{\"b\": 2, \"note\": \"x\", \"a\": 3}\n{\"c\": true, \"b\": 4}\n";
    let model = ReadOptions { on_missing: OnMissing::Keep, ..Default::default() };
    let source = open(&[Input::Memory(text.into())], &model).unwrap();
    assert_eq!(source.schema().names().collect::<Vec<_>>(), ["a", "b", "c"]);
    let shown: Vec<String> = read(text, &model).unwrap().concat().iter().map(f64::to_string).collect();
    assert_eq!(shown, ["1", "NaN", "NaN", "3", "2", "NaN", "NaN", "4", "1"]);
    assert_eq!(message("{\"x\":1}\n{\"y\":1}\n"), "memory: row 1 (line 1), column \"y\" has no value");
}

#[test]
fn arrays_give_columns_by_position() {
    assert_eq!(rows("[1, -2e3]\n[true, 0.1]\n"), [[1.0, -2000.0], [1.0, 0.1]]);
}

#[test]
fn columns_that_are_not_wanted_may_hold_anything() {
    let only = ReadOptions { columns: Some(strings(&["x"])), ..Default::default() };
    assert_eq!(read("{\"id\": \"q\", \"x\": 1}\n{\"x\": 2}\n", &only).unwrap(), [[1.0], [2.0]]);
}

#[test]
fn every_bad_row_is_told_with_its_place() {
    for (bad, expected) in [
        ("{\"x\":1}\n{\"y\":null}\n", "memory: row 2 (line 2), column \"x\" has no value"),
        ("{\"x\":1}\n\n{\"x\":null}\n", "memory: row 2 (line 3), column \"x\" has no value"),
        ("{\"x\":1}\n{\"x\":\"7\"}\n", "memory: row 2 (line 2), column \"x\": \"7\" is not a number"),
        ("{\"x\":1}\n{\"x\":[7]}\n", "memory: row 2 (line 2), column \"x\": \"an array\" is not a number"),
        ("{\"x\":1}\n[1]\n", "memory: row 2 (line 2) is an array, expected an object"),
        ("[1]\n{}\n", "memory: row 2 (line 2) is an object, expected an array"),
        ("[1]\n7\n", "memory: row 2 (line 2) is a number, expected an array"),
        ("[1]\n[1,2]\n", "memory: row 2 (line 2) has 2 columns, expected 1"),
        ("[1]\n[NaN]\n", "memory: row 2 (line 2) is not valid JSON: expected value at character 2"),
        ("[1]\n[1e999]\n", "memory: row 2 (line 2) is not valid JSON: number out of range at character 6"),
        ("[1]\n[1] x\n", "memory: row 2 (line 2) is not valid JSON: trailing characters at character 5"),
        ("{\n", "memory: row 1 (line 1) is not valid JSON: EOF while parsing an object at character 1"),
        ("{}\n", "memory: the selection leaves no column"),
    ] {
        assert_eq!(message(bad), expected, "{bad:?}");
    }
}

#[test]
fn bad_rows_are_skipped_and_counted() {
    let text = "{\"x\":1}\n{\"x\":null}\nnot json\n[1]\n{\"x\":2}\n";
    assert_eq!(skipping(text), (vec![vec![1.0], vec![2.0]], 3));
}

#[test]
fn bad_lines_before_the_first_good_one_are_skipped_too() {
    assert_eq!(skipping("[NaN, 1]\n7\n[2, 3]\n[4, 5]\n"), (vec![vec![2.0, 3.0], vec![4.0, 5.0]], 2));
    let jsonl = ReadOptions { format: Some(Format::Jsonl), ..Default::default() };
    assert_eq!(
        message_with("7\n[2]\n", &jsonl),
        "memory: row 1 (line 1) is a number, expected an object or an array"
    );
}

#[test]
fn numbers_are_the_nearest_doubles() {
    // A parser that multiplies by powers of ten gets this one wrong by one unit in the last place.
    assert_eq!(rows("[0.31245655]\n[5e-324]\n"), [[0.31245655], [5e-324]]);
}
