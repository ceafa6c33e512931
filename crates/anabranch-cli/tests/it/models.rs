//! Models beyond the Dirichlet process mixture: Pitman–Yor mixtures, and features of a beta process.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::support::data::three_clusters;
use crate::support::{FIXED, Sandbox, assert_mass};

fn inspected(sandbox: &Sandbox, model: &str) -> Value {
    sandbox.run(&["inspect", model, "--json"]).json()
}

#[test]
fn a_pitman_yor_mixture_is_fitted_stored_and_shown() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(300, 1).csv());
    let fitted = sandbox.fit(&["rows.csv", "--model", "py", "--discount", "0.3", "--out", "model"]);
    assert_eq!((fitted["model"].as_str(), fitted["discount"].as_f64()), (Some("py"), Some(0.3)));
    assert_mass(&fitted, 900);
    let shown = inspected(&sandbox, "model");
    assert_eq!((shown["model"].as_str(), shown["discount"].as_f64()), (Some("py"), Some(0.3)));
    assert_eq!(shown["learned"], serde_json::json!([]));
    let text = sandbox.run(&["inspect", "model"]).ok().to_owned();
    assert!(text.contains("alpha 5, discount 0.3"), "{text}");
}

#[test]
fn without_a_discount_the_model_file_differs_in_the_process_alone() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(300, 2).csv());
    let dp = sandbox.fit(&["rows.csv", "--out", "dp"]);
    let py = sandbox.fit(&["rows.csv", "--model", "py", "--discount", "0", "--out", "py"]);
    assert_eq!(dp["components"], py["components"]);
    let parts = |model: &str| inspected(&sandbox, model)["components"].clone();
    assert_eq!(parts("dp"), parts("py"));
}

#[test]
fn parameters_that_are_learned_are_shown_as_such_and_a_run_goes_on_with_them() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(400, 3).csv());
    let flags = ["rows.csv", "--model", "py", "--alpha", "auto", "--discount", "auto", "--bootstrap", "300"];
    let fitted = sandbox.fit(&[&flags[..], &["--out", "whole"]].concat());
    assert_ne!(fitted["alpha"].as_f64(), Some(5.0));
    let shown = inspected(&sandbox, "whole");
    assert_eq!(shown["learned"], serde_json::json!(["alpha", "discount"]));
    assert_eq!(shown["alpha"], fitted["alpha"]);
    let state = ["--checkpoint", "state", "--resume"];
    sandbox.fit(&[&flags[..], &state].concat());
    let again = sandbox.fit(&[&flags[..], &state].concat());
    assert_mass(&again, 1200);
    let other =
        [&["fit", "rows.csv", "--model", "py", "--alpha", "2", "--discount", "auto"][..], &FIXED, &state];
    let run = sandbox.run(&[&other.concat()[..], &["--bootstrap", "300"]].concat());
    let refused = run.refusal();
    assert!(refused.contains("made with --alpha auto, this run has 2"), "{refused}");
}

/// The demo's pictures as a csv file.
fn pictures(sandbox: &Sandbox) {
    let demo = ["demo", "--model", "bp", "--rows", "600", "--out", "demo", "--report", "report", "--quiet"];
    assert!(!sandbox.run(&[&demo[..], &FIXED].concat()).ok().is_empty());
}

#[test]
fn the_features_of_the_demo_are_found_stored_and_drawn() {
    let sandbox = Sandbox::new();
    pictures(&sandbox);
    let shown = inspected(&sandbox, "demo");
    assert_eq!(shown["model"], "bp");
    let large =
        shown["components"].as_array().unwrap().iter().filter(|f| f["weight"].as_f64().unwrap() > 0.05);
    assert_eq!(large.count(), 4);
    let noise = shown["noise"].as_f64().unwrap();
    assert!((noise - 0.5).abs() < 0.03, "{noise}");
    let page = sandbox.text("report/report.html");
    assert!(page.contains("<svg") && page.contains("Pictures made of four blocks"));
    assert!(sandbox.text("report/features.svg").matches("<text").count() >= 4);
    assert!(sandbox.path("report/features.png").exists());
    // What explains most comes first, and rows stand above what their features make of them.
    let table = &page[page.find("<tbody>").unwrap()..];
    let explained: Vec<f64> = table
        .split("<tr><td>")
        .skip(1)
        .map(|row| row.split(['>', ' ']).nth(2).unwrap().parse().unwrap())
        .collect();
    assert!(explained.len() >= 4 && explained.windows(2).all(|pair| pair[0] >= pair[1]), "{explained:?}");
    assert!((explained.iter().sum::<f64>() - 100.0).abs() < 1.0, "{explained:?}");
    let rows = sandbox.text("report/rows.svg");
    assert_eq!(rows.matches("<text").count(), 16);
}

#[test]
fn rows_get_binary_features_probabilities_and_errors() {
    let sandbox = Sandbox::new();
    // Two features that never look alike: 5 in the first two columns, −5 in the last two.
    let mut text = "a,b,c,d\n".to_owned();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for row in 0..400 {
        let (first, second) = (f64::from(row % 2) * 5.0, f64::from(row / 2 % 2) * -5.0);
        let mut noise = || rng.random_range(-0.5..0.5);
        let cells = [first + noise(), first + noise(), second + noise(), second + noise()];
        text += &(cells.map(|cell| cell.to_string()).join(",") + "\n");
    }
    sandbox.write("rows.csv", &text);
    let given = ["--noise", "0.3", "--feature-scale", "5"];
    let flags = ["rows.csv", "--model", "bp", "--out", "model", "--test", "rows.csv"];
    let fitted = sandbox.fit(&[&flags[..], &given].concat());
    assert_eq!(fitted["components"], 2);
    let error = fitted["test_reconstruction_error"].as_f64().unwrap();
    assert!(error < 0.4, "{error}");
    let lines = |flags: &[&str]| -> Vec<String> {
        let run = sandbox.run(&[&["predict", "model", "rows.csv"], flags].concat());
        run.ok().lines().map(str::to_owned).collect()
    };
    let binary = lines(&[]);
    assert_eq!(binary.len(), 401);
    assert_eq!(binary[1], "0,0");
    assert_eq!(binary[4], "1,1");
    assert_ne!(binary[2], binary[3]);
    let probabilities: Vec<f64> = lines(&["--proba"])[4].split(',').map(|p| p.parse().unwrap()).collect();
    assert!(probabilities.iter().all(|p| *p > 0.99), "{probabilities:?}");
    let scored = lines(&["--score"]);
    assert_eq!(scored[0], "log_density_bound,reconstruction_error");
    let json: Value = serde_json::from_str(&lines(&["--json"])[3]).unwrap();
    assert_eq!(json["features"].as_array().unwrap().len(), 2);
    assert_eq!(sandbox.run(&["sample", "model"]).message(), "model: a model of --model bp");
}

#[test]
fn a_feature_run_goes_on_from_its_checkpoint() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(200, 5).csv());
    let flags = ["rows.csv", "--model", "bp", "--bootstrap", "200", "--batch-size", "50"];
    let state = ["--checkpoint", "state", "--checkpoint-every", "0", "--resume"];
    let whole = sandbox.fit(&[&flags[..], &state].concat());
    let again = sandbox.fit(&[&flags[..], &state].concat());
    assert_eq!(whole["observations"], 600);
    assert_eq!((&whole["components"], &again["observations"]), (&again["components"], &Value::from(600)));
}

/// Rows that have each of these features or not.
fn sums(features: &[[f64; 4]], rows: usize, seed: u64) -> String {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut text = "a,b,c,d\n".to_owned();
    for _ in 0..rows {
        let mut cells = [(); 4].map(|()| rng.random_range(-0.5..0.5));
        for feature in features {
            let has = f64::from(rng.random_range(0..2_u8));
            cells.iter_mut().zip(feature).for_each(|(cell, part)| *cell += has * part);
        }
        text += &(cells.map(|cell| cell.to_string()).join(",") + "\n");
    }
    text
}

#[test]
fn features_go_on_with_other_rows() {
    let features = [[6.0, 6.0, 0.0, 0.0], [0.0, 0.0, -6.0, 0.0], [0.0, 0.0, 0.0, 6.0]];
    let sandbox = Sandbox::with("today.csv", sums(&features[..2], 500, 1));
    sandbox.write("tomorrow.csv", sums(&features, 500, 2));
    let size = ["--bootstrap", "200", "--batch-size", "100"];
    let first =
        [&["today.csv", "--model", "bp", "--out", "model", "--checkpoint", "state"][..], &size].concat();
    let first = sandbox.fit(&first);
    assert_eq!((&first["components"], &first["observations"]), (&Value::from(2), &Value::from(500)));
    // From the file, and from the state of the stream with the rows that it remembers.
    for (from, image) in [("model", &["--report", "r", "--image", "2x2"][..]), ("state", &[])] {
        let second = sandbox.fit(&[&["tomorrow.csv", "--from", from, "--out", "both"], image].concat());
        assert_eq!((&second["components"], &second["observations"]), (&Value::from(3), &Value::from(1000)));
        assert_eq!(second["minibatches"], 1 + 3 + 5);
        let shown = inspected(&sandbox, "both");
        let counts = shown["components"].as_array().unwrap().iter().map(|f| f["count"].as_f64().unwrap());
        let mut counts: Vec<f64> = counts.collect();
        counts.sort_by(f64::total_cmp);
        // Half of tomorrow's rows have the third, half of all rows the others.
        assert!((200.0..300.0).contains(&counts[0]) && counts[1] > 430.0, "{counts:?}");
        for known in ["today.csv", "tomorrow.csv"] {
            let again = sandbox.run(&["fit", known, "--from", "both", "-q"]);
            assert!(again.message().contains("which the model has learned from"), "{}", again.message());
        }
    }
    // A run that was cut short goes on from where it went on from.
    let on = ["tomorrow.csv", "--from", "model", "--checkpoint", "state2", "--resume"];
    let (whole, resumed) = (sandbox.fit(&on), sandbox.fit(&on));
    assert_eq!((&whole["mass"], &resumed["mass"]), (&Value::from(1000.0), &Value::from(1000.0)));
    let other = sandbox.run(&["fit", "tomorrow.csv", "--from", "both", "--checkpoint", "state2", "--resume"]);
    assert!(other.message().contains("went on from another model"), "{}", other.message());
    for flags in [["--noise", "1"], ["--alpha", "2"], ["--batch-size", "9"], ["--passes", "2"]] {
        let run = sandbox.run(&[&["fit", "tomorrow.csv", "--from", "model"], &flags[..]].concat());
        assert_eq!(run.message(), format!("{} does not go with --from", flags[0]));
    }
}

#[test]
fn further_passes_over_features_count_every_row_once() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(200, 5).csv());
    let flags = ["rows.csv", "--model", "bp", "--bootstrap", "200", "--batch-size", "50", "--out", "model"];
    let once = sandbox.fit(&flags);
    let thrice = sandbox.fit(&[&flags[..], &["--passes", "3", "--checkpoint", "state", "--resume"]].concat());
    assert_eq!((&once["mass"], &thrice["mass"]), (&Value::from(600.0), &Value::from(600.0)));
    assert_eq!(thrice["observations"], 600);
    assert_eq!(thrice["minibatches"], 12, "the minibatches of the last pass");
    assert_ne!(once["noise"], thrice["noise"], "nothing was learned again");
    let on = ["--passes", "4", "--checkpoint", "state", "--resume"];
    let fourth = sandbox.fit(&[&flags[..], &on].concat());
    assert_eq!((&fourth["mass"], &fourth["observations"]), (&Value::from(600.0), &Value::from(600)));
}

#[test]
fn flags_of_features_are_checked_by_name() {
    let sandbox = Sandbox::with("rows.csv", "x,y\n1,2\n2,3\n4,1\n");
    let refusals: [(&[&str], &str); 2] = [
        (&["--image", "3x3", "--report", "report"], "--image 3x3: rows have 2 columns"),
        (&["--noise", "0", "--feature-scale", "1"], "--noise: 0 is not a finite number above 0"),
    ];
    for (flags, message) in refusals {
        let run = sandbox.run(&[&["fit", "rows.csv", "--model", "bp"], flags].concat());
        assert_eq!(run.refusal(), message);
    }
}

#[test]
fn numbers_whose_sums_would_not_fit_into_a_model_of_features_are_refused() {
    let rows: String = (0..40).map(|ix| format!("{}e150,{}e150\n", 1 + ix % 3, ix % 2)).collect();
    let sandbox = Sandbox::with("huge.csv", format!("x,y\n{rows}"));
    let run = sandbox.run(&["fit", "huge.csv", "-q", "--model", "bp", "--out", "model"]);
    assert_eq!(run.message(), "huge.csv: row 1, column \"x\": 1e150 is not a number within ±1e40");
    assert!(!sandbox.path("model").exists());
    // A mixture frames its columns: what it writes can be used.
    sandbox.fit(&["huge.csv", "--out", "model"]);
    sandbox.run(&["predict", "model", "huge.csv"]).ok();
}
