//! `fit` end to end: what it prints, what it writes, and what the other commands make of it.

use serde_json::Value;

use crate::support::data::three_clusters;
use crate::support::{Sandbox, assert_mass, fit_args, number, whole};

const ROWS_EACH: usize = 200;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with("rows.csv", three_clusters(ROWS_EACH, 1).csv());
    sandbox.write("test.csv", three_clusters(20, 2).csv());
    sandbox.write("labels.csv", three_clusters(ROWS_EACH, 1).labels_csv());
    sandbox
}

#[test]
fn the_result_has_every_promised_field_of_its_type() {
    let result = sandbox().fit(&["rows.csv", "--test", "test.csv", "--labels", "labels.csv"]);
    let wholes = [
        "observations",
        "dimensions",
        "components",
        "effective_components",
        "minibatches",
        "matchings",
        "conflicts",
        "skipped_rows",
        "peak_rss_bytes",
        "threads",
        "workers",
        "seed",
    ];
    for field in wholes {
        whole(&result, field);
    }
    let numbers = [
        "mass",
        "seconds",
        "cpu_seconds",
        "first_minibatch_seconds",
        "central_wait_seconds",
        "central_merge_seconds",
        "test_log_likelihood",
        "adjusted_rand",
        "normalized_mutual_information",
    ];
    for field in numbers {
        assert!(number(&result, field).is_finite(), "{field}");
    }
    for field in ["algorithm", "model", "family", "version"] {
        assert!(result[field].is_string(), "{field} of {result}");
    }
    assert_eq!(result["stopped"], Value::Bool(false));
}

#[test]
fn three_separated_clusters_are_found_and_agree_with_their_labels() {
    let result = sandbox().fit(&["rows.csv", "--labels", "labels.csv"]);
    assert_mass(&result, 3 * ROWS_EACH as u64);
    assert_eq!(whole(&result, "dimensions"), 2);
    assert_eq!(whole(&result, "effective_components"), 3);
    assert_eq!(number(&result, "adjusted_rand"), 1.0);
    assert_eq!(number(&result, "normalized_mutual_information"), 1.0);
}

#[test]
fn likelihood_and_agreement_are_null_when_nothing_was_given_to_compare() {
    let result = sandbox().fit(&["rows.csv"]);
    for field in ["test_log_likelihood", "adjusted_rand", "normalized_mutual_information"] {
        assert_eq!(result[field], Value::Null, "{field}");
    }
}

#[test]
fn the_held_out_likelihood_is_that_of_the_mixture_that_made_the_rows() {
    /// Log density of a row at its expected distance: −log 3 − log 2π − 1.
    const TRUTH: f64 = -3.936;
    /// Five standard errors of 60 rows whose log densities have variance 1, and the cost of learning from 600.
    const NOISE: f64 = 5.0 * 0.13 + 0.05;
    let likelihood = number(&sandbox().fit(&["rows.csv", "--test", "test.csv"]), "test_log_likelihood");
    assert!((likelihood - TRUTH).abs() < NOISE, "{likelihood}");
}

#[test]
fn the_trace_has_a_header_and_one_row_for_each_minibatch() {
    let sandbox = sandbox();
    let result =
        sandbox.fit(&["rows.csv", "--bootstrap", "100", "--batch-size", "64", "--trace", "trace.csv"]);
    let trace = sandbox.text("trace.csv");
    let mut lines = trace.lines();
    let header = lines.next().unwrap();
    assert_eq!(header, "seconds,minibatch,components,matchings,conflicts,test_log_likelihood");
    // 100 rows first, then 500 in minibatches of 64.
    assert_eq!(whole(&result, "minibatches"), 1 + 8);
    let minibatches: Vec<&str> = lines.map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(minibatches, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn the_trace_ends_with_the_likelihood_of_the_result() {
    let sandbox = sandbox();
    let result = sandbox.fit(&["rows.csv", "--test", "test.csv", "--trace", "trace.csv"]);
    let last: f64 =
        sandbox.text("trace.csv").lines().last().unwrap().rsplit(',').next().unwrap().parse().unwrap();
    assert_eq!(last, number(&result, "test_log_likelihood"));
}

#[test]
fn the_report_is_a_page_with_its_pictures() {
    let sandbox = sandbox();
    sandbox.fit(&["rows.csv", "--test", "test.csv", "--report", "report"]);
    assert!(sandbox.text("report/report.html").to_lowercase().starts_with("<!doctype html>"));
    let files: Vec<_> =
        std::fs::read_dir(sandbox.path("report")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for (extension, magic) in [("svg", &b"<svg"[..]), ("png", b"\x89PNG")] {
        let of_kind: Vec<_> =
            files.iter().filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
        assert!(!of_kind.is_empty(), "no {extension} among {files:?}");
        for path in of_kind {
            assert!(std::fs::read(path).unwrap().starts_with(magic), "{}", path.display());
        }
    }
}

#[test]
fn a_written_model_says_the_same_as_the_run_that_made_it() {
    let sandbox = sandbox();
    let result = sandbox.fit(&["rows.csv", "--out", "model", "--alpha", "2", "--seed", "7"]);
    let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    for field in ["mass", "observations", "effective_components", "minibatches", "seed", "alpha", "family"] {
        assert_eq!(model[field], result[field], "{field}");
    }
    let components = model["components"].as_array().unwrap();
    assert_eq!(components.len() as u64, whole(&result, "components"));
    /// The weights are quotients of a few numbers and their own sum.
    const ROUNDING: f64 = 1e-12;
    let weights: f64 = components.iter().map(|component| number(component, "weight")).sum();
    assert!((weights - 1.0).abs() < ROUNDING, "{weights}");
    assert_eq!(model["columns"], serde_json::json!(["x", "y"]));
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_one_thread_and_on_two() {
    let sandbox = sandbox();
    let flags = ["rows.csv", "--bootstrap", "64", "--batch-size", "32", "--seed", "5"];
    for threads in ["1", "2"] {
        sandbox.fit(&[&flags[..], &["--threads", threads, "--out", threads]].concat());
    }
    assert_eq!(sandbox.read("1"), sandbox.read("2"));
    sandbox.fit(&[&flags[..5], &["--seed", "6", "--out", "other"]].concat());
    assert_ne!(sandbox.read("1"), sandbox.read("other"), "another seed is another run");
}

#[test]
fn standard_input_gives_the_model_of_the_file() {
    let sandbox = sandbox();
    sandbox.fit(&["rows.csv", "--out", "file"]);
    sandbox.run_with_input(&fit_args(&["-", "--out", "stdin"]), sandbox.read("rows.csv")).silent_json();
    assert_eq!(sandbox.learned("file"), sandbox.learned("stdin"));
}

#[test]
fn two_halves_give_the_model_of_the_whole() {
    let sandbox = sandbox();
    let text = sandbox.text("rows.csv");
    let lines: Vec<&str> = text.lines().collect();
    let half =
        |lines: &[&str]| ["x,y"].iter().chain(lines).map(|line| format!("{line}\n")).collect::<String>();
    sandbox.write("first.csv", half(&lines[1..251]));
    sandbox.write("second.csv", half(&lines[251..]));
    sandbox.fit(&["rows.csv", "--out", "whole"]);
    sandbox.fit(&["first.csv", "second.csv", "--out", "halves"]);
    assert_eq!(sandbox.learned("whole"), sandbox.learned("halves"));
}

#[test]
fn columns_are_chosen_by_name_by_position_and_by_leaving_out() {
    let sandbox = Sandbox::new();
    let mut table = three_clusters(50, 1);
    sandbox.write("two.csv", table.csv());
    table.names = vec!["x", "y", "noise"];
    table.rows.iter_mut().enumerate().for_each(|(ix, row)| row.push((ix * ix % 101) as f64));
    sandbox.write("three.csv", table.csv());
    sandbox.fit(&["two.csv", "--out", "two"]);
    for columns in ["x,y", "1,2", "-noise", "-3"] {
        sandbox.fit(&["three.csv", "--columns", columns, "--out", "chosen"]);
        assert_eq!(sandbox.learned("two"), sandbox.learned("chosen"), "--columns {columns}");
    }
}

#[test]
fn a_prior_is_given_as_numbers_as_lists_or_as_a_file() {
    let sandbox = sandbox();
    sandbox.write("mean.csv", "5\n5\n");
    for (name, mean, scale) in [("number", "5", "3"), ("list", "5,5", "3,3"), ("file", "mean.csv", "3")] {
        let prior =
            ["--prior-mean", mean, "--prior-kappa", "0.01", "--prior-scale", scale, "--prior-dof", "6"];
        sandbox.fit(&[&["rows.csv", "--out", name], &prior[..]].concat());
    }
    assert_eq!(sandbox.read("number"), sandbox.read("list"));
    assert_eq!(sandbox.read("number"), sandbox.read("file"));
}

#[test]
fn prior_flags_are_in_the_units_of_the_data() {
    /// A power of two, so that numbers in the other unit are exactly the same numbers.
    const UNIT: f64 = 1024.0;
    let sandbox = sandbox();
    let mut table = three_clusters(ROWS_EACH, 1);
    table.rows.iter_mut().flatten().for_each(|value| *value *= UNIT);
    sandbox.write("scaled.csv", table.csv());
    let fit = |rows: &str, unit: f64| {
        let (mean, scale) = ((-5.0 * unit).to_string(), (3.0 * unit * unit).to_string());
        let prior =
            ["--prior-mean", &mean, "--prior-kappa", "0.01", "--prior-scale", &scale, "--prior-dof", "6"];
        sandbox.fit(&[&[rows, "--out", "model"], &prior[..]].concat());
        sandbox.run(&["predict", "model", rows]).ok().to_owned()
    };
    assert_eq!(fit("rows.csv", 1.0), fit("scaled.csv", UNIT));
}
