//! What the authors' program gets wrong, each as a promise that this one does not.

use crate::support::data::{clusters_at, three_clusters};
use crate::support::{Sandbox, assert_mass, number, whole};

#[test]
fn one_nan_does_not_make_the_whole_model_nan() {
    let csv = three_clusters(50, 1).csv() + "NaN,1\n";
    let sandbox = Sandbox::with("rows.csv", csv);
    let strict = sandbox.run(&["fit", "rows.csv", "-q", "--out", "model", "--missing", "fail"]);
    assert_eq!(strict.message(), "rows.csv: row 151 (line 152), column \"x\": NaN is not a finite number");
    assert!(!sandbox.path("model").exists());
    for (missing, rows) in [("skip", 150), ("model", 151)] {
        let lenient = sandbox.fit(&["rows.csv", "--missing", missing, "--test", "rows.csv"]);
        assert_mass(&lenient, rows);
        number(&lenient, "test_log_likelihood");
    }
}

#[test]
fn a_missing_file_ends_at_once() {
    assert_eq!(Sandbox::new().run(&["fit", "missing.csv"]).message(), "missing.csv: no such file");
}

#[test]
fn commas_and_blanks_are_both_delimiters() {
    let table = three_clusters(20, 1);
    let sandbox = Sandbox::with("commas.csv", table.text(","));
    sandbox.write("blanks.txt", table.text(" "));
    sandbox.fit(&["commas.csv", "--out", "commas"]);
    sandbox.fit(&["blanks.txt", "--out", "blanks"]);
    assert_eq!(sandbox.learned("commas"), sandbox.learned("blanks"));
}

#[test]
fn an_empty_test_set_is_refused_without_a_crash() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    sandbox.write("test.csv", "");
    assert_eq!(sandbox.run(&["fit", "rows.csv", "--test", "test.csv"]).message(), "test.csv has no rows");
}

#[test]
fn a_concentration_of_zero_or_less_is_refused_without_an_abort() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    for alpha in ["0", "-5"] {
        let run = sandbox.run(&["fit", "rows.csv", "--alpha", alpha]);
        assert!(run.message().starts_with("--alpha: "), "{}", run.stderr);
    }
}

#[test]
fn no_threads_are_refused_without_a_hang() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    let run = sandbox.run(&["fit", "rows.csv", "--threads", "0"]);
    assert!(run.message().contains("--threads"), "{}", run.stderr);
}

#[test]
fn a_prior_scale_far_off_opens_no_more_components_than_it_may() {
    /// Components that a minibatch may open here.
    const MAX_NEW: u64 = 5;
    let table = three_clusters(300, 1);
    let sandbox = Sandbox::with("rows.csv", table.csv());
    // The clusters have covariance I: a scatter matrix of 1/255² expects them 255 times narrower.
    let prior = ["--prior-scale", "0.0000154", "--prior-kappa", "0.001", "--prior-dof", "4"];
    let stream = ["rows.csv", "--bootstrap", "0", "--batch-size", "50", "--max-new", "5"];
    let result = sandbox.fit(&[&stream[..], &prior].concat());
    assert_mass(&result, table.len());
    let minibatches = whole(&result, "minibatches");
    assert_eq!(minibatches, 18);
    assert!(whole(&result, "components") <= MAX_NEW * minibatches, "{result}");
}

#[test]
fn no_row_is_lost_in_small_minibatches() {
    let table = three_clusters(100, 1);
    let sandbox = Sandbox::with("rows.csv", table.csv());
    for batch_size in ["1", "2", "7"] {
        let result = sandbox.fit(&["rows.csv", "--bootstrap", "0", "--batch-size", batch_size]);
        assert_mass(&result, table.len());
    }
}

/// Clusters are found; an outlying row may stand alone.
const ALL_BUT_A_ROW: f64 = 0.99;

#[test]
fn rows_shifted_by_ten_million_give_the_clusters_of_rows_at_zero() {
    let sandbox = Sandbox::new();
    for (name, offset) in [("near", 0.0), ("far", 1e7)] {
        let table = clusters_at([offset, offset], 100, 1);
        sandbox.write(&format!("{name}.csv"), table.csv());
        sandbox.write("labels.csv", table.labels_csv());
        let flags = ["--labels", "labels.csv", "--out", name, "--bootstrap", "50", "--batch-size", "50"];
        let result = sandbox.fit(&[&[&*format!("{name}.csv")], &flags[..]].concat());
        assert_mass(&result, table.len());
        assert!(number(&result, "adjusted_rand") > ALL_BUT_A_ROW, "{name}");
    }
    let labels = |name: &str| sandbox.run(&["predict", name, &format!("{name}.csv")]).ok().to_owned();
    assert_eq!(labels("near"), labels("far"));
}

#[test]
fn a_density_in_an_odd_number_of_columns_integrates_to_one() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(100, 1).csv());
    sandbox.fit(&["rows.csv", "--columns", "x", "--out", "model"]);
    /// The grid's step, and its width: a Student-t with few degrees of freedom has heavy tails.
    const STEP: f64 = 0.05;
    let grid: String = (-8_000..=8_000).map(|ix| format!("{}\n", f64::from(ix) * STEP)).collect();
    sandbox.write("grid.csv", format!("x\n{grid}"));
    let scores = sandbox.run(&["predict", "model", "grid.csv", "--score"]);
    let densities = scores.column("log_density");
    let total: f64 = densities.iter().map(|cell| cell.parse::<f64>().unwrap().exp() * STEP).sum();
    /// What the tails beyond the grid and the rule of rectangles may miss; the authors' constant misses by √π.
    const MISSED: f64 = 0.02;
    assert!((total - 1.0).abs() < MISSED, "{total}");
}
