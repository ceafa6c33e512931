//! `predict`: cells that are passed through, files of every format, streams that are answered as they come, and unusual rows.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::support::Sandbox;
use crate::support::data::three_clusters;

/// A model, and rows with a name, one of them bad.
fn named() -> Sandbox {
    let sandbox = Sandbox::with_model();
    sandbox.write(
        "named.csv",
        "name,y,x,note\nanna,0,0,\"a, b\"\nbert,zero,0,\ncleo,-10,30,\"say \"\"x\"\"\"\n",
    );
    sandbox
}

#[test]
fn cells_go_out_as_they_came_in_also_those_of_a_bad_row() {
    let sandbox = named();
    let run =
        sandbox.run(&["predict", "model", "named.csv", "--keep", "name,note,y", "--on-bad-row", "skip"]);
    let lines: Vec<&str> = run.ok().lines().collect();
    assert_eq!(lines[0], "row,name,note,y,component,cluster");
    assert!(lines[1].starts_with("1,anna,\"a, b\",0,"), "{}", lines[1]);
    assert_eq!(lines[2], "2,bert,,zero,,");
    assert!(lines[3].starts_with("3,cleo,\"say \"\"x\"\"\",-10,"), "{}", lines[3]);
    assert_eq!(run.stderr, "1 bad row skipped\n");
    let all =
        sandbox.run(&["predict", "model", "named.csv", "--keep", "all", "--on-bad-row", "skip", "--json"]);
    let objects: Vec<serde_json::Value> =
        all.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects[0]["y"], 0.0);
    assert_eq!(objects[0]["note"], "a, b");
    assert!(objects[1]["component"].is_null() && objects[1]["y"].is_null() && objects[1]["name"] == "bert");
}

#[test]
fn a_column_that_would_be_there_twice_is_refused() {
    let sandbox = Sandbox::with_model();
    sandbox.write("twice.csv", "component,x,y\n7,0,0\n");
    let run = sandbox.run(&["predict", "model", "twice.csv", "--keep", "all"]);
    assert_eq!(run.message(), "two columns are called \"component\"");
    let none = sandbox.run(&["predict", "model", "twice.csv", "--keep", "colour"]);
    assert_eq!(none.message(), "twice.csv: no column \"colour\"; the columns are component, x, y");
}

#[test]
fn every_format_holds_the_same_answers() {
    let sandbox = Sandbox::with_model();
    let flags = ["--score", "--keep", "x"];
    let expected = sandbox.run(&[&["predict", "model", "rows.csv"], &flags[..]].concat());
    let expected: Vec<f64> =
        expected.column("log_density").iter().map(|cell| cell.parse().unwrap()).collect();
    for name in
        ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.arrow", "a.npy", "a.csv.gz", "a.jsonl.zst", "a.npy.gz"]
    {
        let run = sandbox.run(&[&["predict", "model", "rows.csv", "--out", name], &flags[..]].concat());
        assert_eq!((run.ok(), run.stderr.as_str()), ("", ""), "{name}");
        // What was written is read as a table of its own: its mean density is that of a fit to one column.
        let column = if name.contains("npy") { "3" } else { "log_density" };
        let back =
            sandbox.run(&["fit", name, "--columns", column, "--out", "of_densities", "--json", "--quiet"]);
        assert_eq!(back.silent_json()["observations"], 300, "{name}");
        let model = sandbox.run(&["inspect", "of_densities", "--json"]).silent_json();
        let weighted = |c: &serde_json::Value| c["count"].as_f64().unwrap() * c["mean"][0].as_f64().unwrap();
        let mean: f64 = model["components"].as_array().unwrap().iter().map(weighted).sum::<f64>() / 300.0;
        let exact = expected.iter().sum::<f64>() / 300.0;
        assert!((mean - exact).abs() < 0.3, "{name}: {mean} {exact}");
    }
    let labels = sandbox.run(&["predict", "model", "rows.csv", "--out", "labels.npy"]);
    assert_eq!(labels.ok(), "");
    assert!(
        String::from_utf8_lossy(&sandbox.read("labels.npy")[..128])
            .contains("'<i8', 'fortran_order': False, 'shape': (300,)")
    );
}

#[test]
fn a_name_without_a_format_and_text_in_an_array_are_refused() {
    let sandbox = named();
    for (args, message) in [
        (&["--out", "answers"][..], "answers: the name says no format that is written"),
        (&["--out", "a.npy", "--keep", "name"], "a.npy: npy holds numbers alone, column \"name\" holds text"),
        (&["--out", "a.csv", "--json"], "--json: --out names a file of another format"),
        (&["--out", "nowhere/a.csv"], "nowhere/a.csv: No such file or directory (os error 2)"),
    ] {
        let run = sandbox.run(&[&["predict", "model", "named.csv"], args].concat());
        assert_eq!(run.message(), message);
    }
}

#[test]
fn a_file_of_answers_appears_whole_or_not_at_all() {
    let sandbox = named();
    sandbox.write("a.csv", "old");
    let run = sandbox.run(&["predict", "model", "named.csv", "--out", "a.csv"]);
    assert!(run.message().starts_with("named.csv: row 2 (line 3), column \"y\""), "{}", run.stderr);
    assert_eq!(sandbox.text("a.csv"), "old");
    let left: Vec<_> =
        std::fs::read_dir(sandbox.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn rows_are_in_order_on_any_number_of_threads() {
    let sandbox = Sandbox::with_model();
    sandbox.write("many.csv", three_clusters(7_000, 3).csv());
    let one = sandbox.run(&["predict", "model", "many.csv", "--score", "--threads", "1"]);
    let five = sandbox.run(&["predict", "model", "many.csv", "--score", "--threads", "5"]);
    assert_eq!(one.ok(), five.ok());
    assert_eq!(one.column("row"), (1..=21_000).map(|row| row.to_string()).collect::<Vec<_>>());
}

#[test]
fn each_line_is_answered_as_it_comes() {
    let sandbox = Sandbox::with_model();
    for (flags, first, rows) in [
        (&[][..], "x,y\n", ["0,0\n", "30,-10\n", "1,1\n"]),
        (
            &["--json", "--format", "jsonl"],
            "",
            ["{\"x\":0,\"y\":0}\n", "{\"x\":30,\"y\":-10}\n", "{\"x\":1,\"y\":1}\n"],
        ),
    ] {
        let args = [&["predict", "model", "-"], flags].concat();
        let mut child = sandbox.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        input.write_all(first.as_bytes()).unwrap();
        for (number, row) in rows.iter().enumerate() {
            input.write_all(row.as_bytes()).unwrap();
            if number == 0 && flags.is_empty() {
                output.read_line(&mut line).unwrap();
                assert_eq!(line, "row,component,cluster\n");
            }
            line.clear();
            // The answer comes although the input goes on.
            output.read_line(&mut line).unwrap();
            assert!(line.contains(&(number + 1).to_string()), "{line}");
        }
        drop(input);
        line.clear();
        output.read_to_string(&mut line).unwrap();
        assert_eq!(line, "");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn unusual_rows_are_marked_by_how_unlikely_ordinary_rows_are() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(3_000, 1).csv());
    sandbox.fit(&["rows.csv", "--out", "model", "--bootstrap", "2000", "--batch-size", "500"]);
    sandbox.write("fresh.csv", three_clusters(4_000, 2).csv());
    let fresh = sandbox.run(&["predict", "model", "fresh.csv", "--tail", "--flag-below", "5%"]);
    assert_eq!(fresh.ok().lines().next(), Some("row,component,cluster,tail,unusual"));
    let marked = fresh.column("unusual").iter().filter(|cell| **cell == "1").count() as f64 / 12_000.0;
    // 12,000 rows at 5 %: chance alone is 4 % of that, that of the 3,000 rows or more behind the tail 8 %.
    assert!((0.04..0.06).contains(&marked), "{marked}");
    let tails: Vec<f64> = fresh.column("tail").iter().map(|cell| cell.parse().unwrap()).collect();
    assert!(tails.iter().all(|tail| *tail > 0.0 && *tail <= 1.0));
    sandbox.write("far.csv", "x,y\n500,500\n");
    let far = sandbox.run(&["predict", "model", "far.csv", "--flag-below", "0.1%", "--json"]);
    assert!(far.ok().contains("\"unusual\":true"), "{}", far.stdout);
    assert_eq!(far.stderr, "", "a share that can be told needs no words");
    let unresolved = sandbox.run(&["predict", "model", "far.csv", "--flag-below", "0.001%", "--json"]);
    assert!(unresolved.ok().contains("\"unusual\":false"), "{}", unresolved.stdout);
    // The least likely of all has the smallest tail there is.
    let least = sandbox.run(&["predict", "model", "far.csv", "--tail"]);
    let least: f64 = least.column("tail")[0].parse().unwrap();
    let told = "warning: --flag-below 0.001%: no row can be marked, since the ";
    let rest = unresolved.stderr.strip_prefix(told).unwrap_or_else(|| panic!("{}", unresolved.stderr));
    let share: f64 = rest.trim_end().rsplit(' ').next().unwrap().trim_end_matches('%').parse().unwrap();
    assert!((share / (100.0 * least) - 1.0).abs() < 0.01, "{share}, {least}");
    let few = Sandbox::with_model().run(&["predict", "model", "rows.csv", "--tail"]);
    assert_eq!(few.message(), "--tail: the model does not know how unlikely ordinary rows are");
}
