//! Every family from a file to a model, and back to rows and labels.

use crate::support::data::{every_sort, three_clusters};
use crate::support::{Sandbox, assert_mass, number, whole};

const ROWS: usize = 240;

/// Two clusters of these data overlap in a few rows at most; a family that confuses them scores near 0.
const NEARLY_PERFECT: f64 = 0.9;

#[test]
fn normal_families_find_three_round_clusters() {
    let table = three_clusters(80, 5);
    let sandbox = Sandbox::with("rows.csv", table.csv());
    sandbox.write("labels.csv", table.labels_csv());
    for family in ["gaussian", "diagonal", "spherical"] {
        let result = sandbox.fit(&["rows.csv", "--family", family, "--labels", "labels.csv"]);
        assert_eq!(result["family"], family);
        assert_mass(&result, table.len());
        assert_eq!(number(&result, "adjusted_rand"), 1.0, "{family}");
    }
}

#[test]
fn families_of_counts_and_labels_find_two_clusters() {
    for sort in every_sort(ROWS, 11) {
        let sandbox = Sandbox::with("rows.csv", &sort.csv);
        sandbox.write("labels.csv", &sort.labels);
        let flags = ["rows.csv", "--family", sort.family, "--labels", "labels.csv", "--test", "rows.csv"];
        let result = sandbox.fit(&flags);
        assert_mass(&result, ROWS as u64);
        assert_eq!(whole(&result, "dimensions"), sort.columns as u64, "{}", sort.family);
        assert!(number(&result, "adjusted_rand") > NEARLY_PERFECT, "{}: {result}", sort.family);
        assert!(number(&result, "test_log_likelihood").is_finite(), "{}", sort.family);
    }
}

#[test]
fn rows_drawn_from_a_model_can_be_read_by_it_again() {
    for sort in every_sort(ROWS, 12) {
        let sandbox = Sandbox::with("rows.csv", &sort.csv);
        sandbox.fit(&["rows.csv", "--family", sort.family, "--out", "model"]);
        let drawn = sandbox.run(&["sample", "model", "-n", "50", "--seed", "3"]);
        sandbox.write("drawn.csv", drawn.ok());
        let labels = sandbox.run(&["predict", "model", "drawn.csv"]);
        assert_eq!(labels.ok().lines().count(), 51, "{}: {}", sort.family, labels.stderr);
    }
}

#[test]
fn a_product_takes_its_columns_by_name_whatever_their_order() {
    let product = every_sort(ROWS, 13).pop().expect("the product is the last");
    let sandbox = Sandbox::with("rows.csv", &product.csv);
    sandbox.fit(&["rows.csv", "--family", product.family, "--out", "model"]);
    let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    assert_eq!(model["columns"], serde_json::json!(["a", "b", "c", "d"]));
    assert_eq!(model["family"], "gaussian×2 + categorical×1 + poisson×1");
    let drawn = sandbox.run(&["sample", "model", "-n", "40"]);
    assert!(drawn.ok().starts_with("a,b,c,d\n"));
    assert!(drawn.stdout.contains(",red,"), "{}", drawn.stdout);
    assert!(drawn.stdout.contains(",\"blue, pale\","), "{}", drawn.stdout);
}

#[test]
fn a_category_that_the_model_never_saw_still_has_a_density() {
    let sandbox = Sandbox::with("rows.csv", "c\nred\nred\nblue\nblue\n");
    sandbox.fit(&["rows.csv", "--family", "categorical", "--out", "model"]);
    sandbox.write("new.csv", "c\nred\ngreen\n");
    let scores = sandbox.run(&["predict", "model", "new.csv", "--score"]);
    let densities: Vec<f64> = scores.column("log_density").iter().map(|cell| cell.parse().unwrap()).collect();
    assert_eq!(densities.len(), 2);
    assert!(densities[1].is_finite() && densities[1] < densities[0], "{densities:?}");
}

#[test]
fn a_category_that_appears_after_the_first_minibatch_keeps_the_mass() {
    let mut text = String::from("c\n");
    (0..300).for_each(|ix| text += if ix < 200 { "old\n" } else { "new\n" });
    let sandbox = Sandbox::with("rows.csv", text);
    let flags =
        ["rows.csv", "--family", "categorical", "--bootstrap", "50", "--batch-size", "50", "--out", "model"];
    assert_mass(&sandbox.fit(&flags), 300);
    assert_eq!(sandbox.run(&["predict", "model", "rows.csv"]).ok().lines().count(), 301);
}

#[test]
fn held_out_categories_are_scored_as_predict_scores_them() {
    let rows: String = (0..300).map(|ix| if ix % 3 == 0 { "red\n" } else { "blue\n" }).collect();
    let sandbox = Sandbox::with("rows.csv", format!("colour\n{rows}"));
    let result =
        sandbox.fit(&["rows.csv", "--family", "categorical", "--test", "rows.csv", "--out", "model"]);
    let scores = sandbox.run(&["predict", "model", "rows.csv", "--score"]);
    let densities: Vec<f64> = scores.column("log_density").iter().map(|cell| cell.parse().unwrap()).collect();
    let mean = densities.iter().sum::<f64>() / densities.len() as f64;
    // Both are means of the same 300 numbers.
    assert!((number(&result, "test_log_likelihood") - mean).abs() < 1e-9);
}
