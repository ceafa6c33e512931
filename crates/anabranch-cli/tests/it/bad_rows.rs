//! Rows that no model should be made of, and odd data that one should.

use serde_json::Value;

use crate::support::data::{clusters_at, three_clusters};
use crate::support::{Sandbox, assert_mass, number, whole};

/// Fits odd but lawful rows: the mass is theirs, and nothing anywhere is NaN or infinite.
fn assert_sensible(csv: &str, flags: &[&str]) -> Value {
    let sandbox = Sandbox::with("rows.csv", csv);
    let result = sandbox.fit(&[&["rows.csv", "--test", "rows.csv", "--out", "model"], flags].concat());
    assert_mass(&result, csv.lines().count() as u64 - 1);
    // JSON has no NaN: serde writes null, which is no number.
    number(&result, "test_log_likelihood");
    let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    for component in model["components"].as_array().unwrap() {
        let summary = ["mean", "spread"].into_iter().flat_map(|field| component[field].as_array().unwrap());
        assert!(summary.into_iter().all(Value::is_number), "{component}");
    }
    result
}

#[test]
fn one_row_makes_a_model() {
    let result = assert_sensible("x,y\n1,2\n", &[]);
    assert_eq!(whole(&result, "components"), 1);
}

#[test]
fn constant_columns_make_one_component() {
    for family in ["gaussian", "diagonal", "spherical", "poisson"] {
        let result = assert_sensible(&format!("x,y\n{}", "3,4\n".repeat(300)), &["--family", family]);
        assert_eq!(whole(&result, "effective_components"), 1, "{family}");
    }
}

#[test]
fn one_constant_column_beside_others_is_harmless() {
    let mut table = three_clusters(60, 2);
    table.names.push("same");
    table.rows.iter_mut().for_each(|row| row.push(7.0));
    assert_eq!(whole(&assert_sensible(&table.csv(), &[]), "effective_components"), 3);
}

#[test]
fn duplicated_rows_make_as_many_components_as_there_are_different_ones() {
    let csv = format!("x,y\n{}", "0,0\n100,0\n0,100\n".repeat(100));
    let result = assert_sensible(&csv, &[]);
    assert_eq!(whole(&result, "effective_components"), 3);
}

#[test]
fn more_columns_than_rows_make_a_model() {
    let names: Vec<String> = (0..12).map(|column| format!("c{column}")).collect();
    let row = |ix: u32| (0..12).map(|column| (ix * column % 7).to_string()).collect::<Vec<_>>().join(",");
    assert_sensible(&format!("{}\n{}\n{}\n{}\n", names.join(","), row(1), row(2), row(5)), &[]);
}

/// Clusters are found; an outlying row may stand alone.
const ALL_BUT_A_ROW: f64 = 0.99;

#[test]
fn clusters_far_from_zero_are_found_like_clusters_at_zero() {
    // At 1e12 a double still resolves a ten-thousandth of the clusters' spread.
    for offset in [1e8, 1e12] {
        let table = clusters_at([offset, -offset], 100, 4);
        let sandbox = Sandbox::with("rows.csv", table.csv());
        sandbox.write("labels.csv", table.labels_csv());
        let result = sandbox.fit(&["rows.csv", "--labels", "labels.csv"]);
        assert_mass(&result, table.len());
        assert!(number(&result, "adjusted_rand") > ALL_BUT_A_ROW, "at {offset}");
    }
}

#[test]
fn columns_of_very_different_scales_are_no_trouble() {
    let mut table = three_clusters(100, 6);
    table.rows.iter_mut().for_each(|row| row[1] *= 1e-9);
    assert_eq!(whole(&assert_sensible(&table.csv(), &[]), "effective_components"), 3);
}

const GOOD: &str = "x,y\n1,2\n3,4\n";

/// A bad third row, the message it gives, and how often it is skipped.
const BAD_ROWS: [(&str, &str); 8] = [
    ("5,NaN", "rows.csv: row 3 (line 4), column \"y\": NaN is not a finite number"),
    ("inf,6", "rows.csv: row 3 (line 4), column \"x\": inf is not a finite number"),
    ("5,-Infinity", "rows.csv: row 3 (line 4), column \"y\": -Infinity is not a finite number"),
    ("5,1e999", "rows.csv: row 3 (line 4), column \"y\": 1e999 is not a finite number"),
    ("5,", "rows.csv: row 3 (line 4), column \"y\" has no value"),
    ("5,six", "rows.csv: row 3 (line 4), column \"y\": \"six\" is not a number"),
    ("5", "rows.csv: row 3 (line 4) has 1 columns, expected 2"),
    ("5,6,7", "rows.csv: row 3 (line 4) has 3 columns, expected 2"),
];

#[test]
fn a_bad_row_is_named_by_file_row_column_and_value() {
    for (row, message) in BAD_ROWS {
        let sandbox = Sandbox::with("rows.csv", format!("{GOOD}{row}\n7,8\n"));
        let run = sandbox.run(&["fit", "rows.csv", "--quiet", "--out", "model", "--missing", "fail"]);
        assert_eq!(run.message(), message);
        assert!(run.stderr.contains("skip such rows with --on-bad-row skip"), "{}", run.stderr);
        assert!(!sandbox.path("model").exists(), "no model of half the rows");
    }
}

#[test]
fn decimal_commas_are_recognised() {
    let sandbox = Sandbox::with("rows.csv", "x;y\n1,5;2,5\n2,5;3,5\n");
    let run = sandbox.run(&["fit", "rows.csv", "--quiet"]);
    assert_eq!(run.message(), "rows.csv: row 1 (line 2), column \"x\": \"1,5\" is not a number");
    assert!(run.stderr.contains("\nhint: numbers are read with a decimal point"), "{}", run.stderr);
}

#[test]
fn numbers_that_were_taken_for_categories_are_told() {
    let rows: String = (0..60).map(|ix| format!("{}.5,{}\n", ix, ix % 3)).collect();
    let sandbox = Sandbox::with("rows.csv", format!("x,y\n{rows}"));
    let run = sandbox.run(&["fit", "rows.csv", "--quiet", "--family", "categorical"]);
    assert!(run.stdout.contains("column \"x\" has 60 labels in 60 rows"), "{}", run.stdout);
    assert!(!run.stdout.contains("column \"y\" has"), "{}", run.stdout);
}

#[test]
fn bad_rows_are_skipped_and_counted_on_demand() {
    for (row, _) in BAD_ROWS {
        let sandbox = Sandbox::with("rows.csv", format!("{GOOD}{row}\n7,8\n{row}\n"));
        let result = sandbox.fit(&["rows.csv", "--on-bad-row", "skip", "--missing", "fail"]);
        assert_mass(&result, 3);
        assert_eq!(whole(&result, "skipped_rows"), 2, "{row}");
    }
}

#[test]
fn nothing_but_bad_rows_is_an_error_even_when_they_are_skipped() {
    let sandbox = Sandbox::with("rows.csv", "x,y\n1,NaN\n,2\n");
    let run = sandbox.run(&["fit", "rows.csv", "--quiet", "--missing", "skip"]);
    assert!(run.message().starts_with("rows.csv has no good rows: all 2 were skipped"), "{}", run.stderr);
}

/// Families with rows of theirs, a row that is not, and what is said about it.
const OUT_OF_DOMAIN: [(&str, &str, &str); 4] = [
    ("bernoulli", "0.5,1", "rows.csv: row 3, column \"x\": 0.5 is not 0 or 1"),
    ("poisson", "1,-1", "rows.csv: row 3, column \"y\": -1 is not a whole number of at least 0"),
    ("multinomial", "1.5,1", "rows.csv: row 3, column \"x\": 1.5 is not a whole number of at least 0"),
    ("gaussian:x+poisson:y", "1,-1", "rows.csv: row 3, column \"y\": -1 is not a whole number of at least 0"),
];

/// In the first minibatch, which the prior is made from, and after it.
const BOOTSTRAPS: [&str; 2] = ["1000", "1"];

#[test]
fn a_row_outside_the_family_is_named_by_file_row_column_and_value() {
    for (family, row, message) in OUT_OF_DOMAIN {
        let sandbox = Sandbox::with("rows.csv", format!("x,y\n0,1\n1,0\n{row}\n1,1\n"));
        for bootstrap in BOOTSTRAPS {
            let run = sandbox.run(&["fit", "rows.csv", "-q", "--family", family, "--bootstrap", bootstrap]);
            assert_eq!(run.message(), message, "{family}");
        }
    }
}

#[test]
fn rows_outside_the_family_are_skipped_and_counted_on_demand() {
    for (family, row, _) in OUT_OF_DOMAIN {
        let sandbox = Sandbox::with("rows.csv", format!("x,y\n0,1\n1,0\n{row}\n1,1\n{row}\n"));
        for bootstrap in BOOTSTRAPS {
            let flags = ["rows.csv", "--on-bad-row", "skip", "--family", family, "--bootstrap", bootstrap];
            let result = sandbox.fit(&flags);
            assert_mass(&result, 3);
            assert_eq!(whole(&result, "skipped_rows"), 2, "{family}");
        }
    }
}

#[test]
fn a_held_out_row_outside_the_family_is_named_or_skipped() {
    for (family, row, message) in OUT_OF_DOMAIN {
        let sandbox = Sandbox::with("good.csv", "x,y\n0,1\n1,0\n1,1\n");
        sandbox.write("rows.csv", format!("x,y\n0,1\n1,0\n{row}\n"));
        let flags = ["good.csv", "--family", family, "--test", "rows.csv"];
        let run = sandbox.run(&[&["fit", "-q"], &flags[..]].concat());
        assert_eq!(run.message(), message, "{family}");
        number(&sandbox.fit(&[&flags[..], &["--on-bad-row", "skip"]].concat()), "test_log_likelihood");
    }
}

#[test]
fn a_bad_row_stays_in_its_place_without_an_answer_and_is_counted() {
    let sandbox = Sandbox::with_model();
    sandbox.write("new.csv", "x,y\n0,0\ninf,0\n30,-10\n");
    let strict = sandbox.run(&["predict", "model", "new.csv"]);
    assert_eq!(strict.code, 1);
    assert!(strict.stderr.starts_with("error: new.csv: row 2 (line 3), column \"x\""), "{}", strict.stderr);
    let lenient = sandbox.run(&["predict", "model", "new.csv", "--on-bad-row", "skip"]);
    assert_eq!(lenient.column("row"), ["1", "2", "3"]);
    let components = lenient.column("component");
    assert!(!components[0].is_empty() && components[1].is_empty() && !components[2].is_empty());
    assert_eq!(lenient.stderr, "1 bad row skipped\n");
}
