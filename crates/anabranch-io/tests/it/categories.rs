//! Strings as categories: codes by first appearance, and the codes of a model.

use anabranch_io::{Column, Input, OnBadRow, ReadOptions, Schema, open};

use crate::support::{message, message_with, npy, read_all, strings};

fn coded(text: &str, options: &ReadOptions) -> (Vec<Vec<f64>>, Schema) {
    let mut source = open(&[Input::Memory(text.into())], options).unwrap();
    let rows = read_all(&mut *source, 2).unwrap();
    (rows, source.schema().clone())
}

fn colour() -> ReadOptions {
    ReadOptions { categorical: strings(&["colour"]), ..Default::default() }
}

#[test]
fn labels_get_codes_by_first_appearance_and_the_schema_keeps_them() {
    let (rows, schema) = coded("x,colour\n1,red\n2,blue\n3,red\n4,7\n", &colour());
    assert_eq!(rows, [[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 2.0]]);
    assert_eq!(schema.columns[1].categories.as_deref().unwrap(), ["red", "blue", "7"]);
    assert_eq!(schema.columns[0], Column::number("x"));
}

#[test]
fn the_schema_grows_with_what_was_read() {
    let mut source = open(&[Input::Memory("colour\na\nb\nc\n".into())], &colour()).unwrap();
    assert_eq!(source.schema().columns[0].categories.as_deref(), Some(&[][..]));
    source.next_batch(2).unwrap();
    assert_eq!(source.schema().columns[0].categories.as_deref().unwrap(), ["a", "b"]);
    source.skip_rows(1).unwrap();
    assert_eq!(source.schema().columns[0].categories.as_deref().unwrap(), ["a", "b", "c"]);
}

#[test]
fn every_format_gives_numbers_the_same_labels() {
    let options = ReadOptions { categorical: strings(&["1"]), ..Default::default() };
    for bytes in [
        b"2\n0.5\n2\n".to_vec(),
        b"[2]\n[0.5]\n[2.0]\n".to_vec(),
        npy(&vec![vec![2.0], vec![0.5], vec![2.0]]),
    ] {
        let mut source = open(&[Input::Memory(bytes)], &options).unwrap();
        assert_eq!(read_all(&mut *source, 2).unwrap(), [[0.0], [1.0], [0.0]]);
        assert_eq!(source.schema().columns[0].categories.as_deref().unwrap(), ["2", "0.5"]);
    }
}

#[test]
fn a_missing_label_is_a_bad_row_and_leaves_no_trace() {
    let text = "colour,x\nred,1\n,2\ngreen,bad\nNA,3\nblue,4\n";
    let options = ReadOptions { on_bad_row: OnBadRow::Skip, ..colour() };
    let (rows, schema) = coded(text, &options);
    assert_eq!(rows, [[0.0, 1.0], [1.0, 4.0]]);
    assert_eq!(schema.columns[0].categories.as_deref().unwrap(), ["red", "blue"]);
    assert_eq!(message_with(text, &colour()), "memory: row 2 (line 3), column \"colour\" has no value");
}

#[test]
fn a_model_finds_columns_by_name_and_codes_by_its_own_categories() {
    let model = Schema {
        columns: vec![
            Column { name: "colour".into(), categories: Some(strings(&["blue", "red"])) },
            Column::number("x"),
        ],
        named: true,
    };
    let options = ReadOptions { expect: Some(model.clone()), ..Default::default() };
    let (rows, schema) = coded("id,x,colour\nq,1,red\nq,2,violet\nq,3,blue\n", &options);
    assert_eq!(rows, [[1.0, 1.0], [2.0, 2.0], [0.0, 3.0]]);
    assert_eq!(schema, model);
    assert_eq!(
        message_with("x,y\n1,2\n", &options),
        "memory: no column \"colour\"; the model was made on colour, x, the file has x, y"
    );
}

#[test]
fn too_many_categories_are_refused() {
    let text: String =
        std::iter::once("colour\n".to_owned()).chain((0..65_536).map(|n| format!("c{n}\n"))).collect();
    assert_eq!(
        message_with(text, &colour()),
        "memory: row 65536, column \"colour\" has more than 65535 different values"
    );
}

#[test]
fn a_categorical_column_that_is_missing_is_told() {
    assert_eq!(message_with("x,y\n1,2\n", &colour()), "memory: no column \"colour\"; the columns are x, y");
    assert_eq!(
        message("x,colour\n1,red\n"),
        "memory: row 1 (line 2), column \"colour\": \"red\" is not a number"
    );
}
