//! The same rows in every format give the same model.

use serde_json::Value;

use crate::support::data::{gzip, three_clusters};
use crate::support::{Sandbox, fit_args};

/// What a model knows, without the names of its columns: an array has none.
fn learned(sandbox: &Sandbox, model: &str) -> Value {
    let mut inspection = sandbox.run(&["inspect", model, "--json"]).silent_json();
    inspection.as_object_mut().unwrap().remove("columns").expect("a model has columns");
    inspection
}

#[test]
fn every_format_gives_the_same_model() {
    let table = three_clusters(60, 3);
    let files: [(&str, Vec<u8>); 8] = [
        ("rows.csv", table.csv().into()),
        ("rows.txt", table.text(" ").into()),
        ("rows.tsv", table.text("\t").into()),
        ("rows.npy", table.npy()),
        ("rows.parquet", table.parquet()),
        ("rows.jsonl", table.jsonl().into()),
        ("rows.csv.gz", gzip(table.csv().as_bytes())),
        ("rows.npy.gz", gzip(&table.npy())),
    ];
    let sandbox = Sandbox::new();
    for (name, bytes) in &files {
        sandbox.write(name, bytes);
        sandbox.fit(&[name, "--out", &format!("{name}.model")]);
    }
    let expected = learned(&sandbox, "rows.csv.model");
    for (name, _) in &files[1..] {
        assert_eq!(learned(&sandbox, &format!("{name}.model")), expected, "{name}");
    }
}

#[test]
fn a_format_can_be_named_when_the_extension_says_nothing() {
    let table = three_clusters(20, 3);
    let sandbox = Sandbox::with("rows.csv", table.csv());
    sandbox.write("rows.dump", table.jsonl());
    sandbox.fit(&["rows.csv", "--out", "csv"]);
    sandbox.fit(&["rows.dump", "--format", "jsonl", "--out", "named"]);
    assert_eq!(sandbox.learned("csv"), sandbox.learned("named"));
}

#[test]
fn standard_input_may_be_binary_or_compressed() {
    let table = three_clusters(20, 3);
    let sandbox = Sandbox::new();
    let inputs = [table.csv().into_bytes(), gzip(table.csv().as_bytes()), table.npy(), table.parquet()];
    for (ix, bytes) in inputs.iter().enumerate() {
        let model = format!("model{ix}");
        sandbox.run_with_input(&fit_args(&["-", "--out", &model]), bytes).silent_json();
        assert_eq!(learned(&sandbox, &model), learned(&sandbox, "model0"), "input {ix}");
    }
}

#[test]
fn a_header_is_told_from_data_by_looking_or_by_flag() {
    let sandbox = Sandbox::with("rows.csv", "1,2\n3,4\n5,6\n");
    let rows = |flags: &[&str]| sandbox.fit(&[&["rows.csv"], flags].concat())["observations"].clone();
    assert_eq!(rows(&[]), 3);
    assert_eq!(rows(&["--header", "no"]), 3);
    assert_eq!(rows(&["--header", "yes"]), 2);
}
