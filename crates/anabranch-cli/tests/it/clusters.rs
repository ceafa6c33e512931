//! `clusters`, and where else clusters show: crescents that take many components, and are two.

use crate::support::Sandbox;

/// Two crescents of so many rows each, one after the other in turn, and which is which.
fn crescents(rows: usize) -> (String, String) {
    let (mut csv, mut labels) = ("x,y\n".to_owned(), String::new());
    for ix in 0..2 * rows {
        // Low-discrepancy places and a little noise that is the same everywhere.
        let part = |factor: f64| (0.5 + factor * ix as f64).fract();
        let turn = std::f64::consts::PI * part(0.618_033_988_749_9);
        let noise = |factor: f64| 0.1 * (part(factor) + part(1.7 * factor) + part(2.3 * factor) - 1.5);
        let (x, y) = match ix % 2 {
            0 => (turn.cos(), turn.sin()),
            _ => (1.0 - turn.cos(), 0.5 - turn.sin()),
        };
        csv += &format!("{},{}\n", x + noise(0.754_877_666), y + noise(0.569_840_290));
        labels += &format!("{}\n", ix % 2);
    }
    (csv, labels)
}

fn fitted() -> (Sandbox, serde_json::Value) {
    let (rows, labels) = crescents(1500);
    let sandbox = Sandbox::with("rows.csv", rows);
    sandbox.write("labels.csv", labels);
    let result = sandbox.fit(&["rows.csv", "--labels", "labels.csv", "--out", "model"]);
    (sandbox, result)
}

#[test]
fn two_crescents_are_two_clusters_of_many_components() {
    let (sandbox, result) = fitted();
    assert_eq!(result["clusters"], 2, "{result}");
    assert!(result["components"].as_u64().unwrap() > 4, "{result}");
    assert!(result["clusters_adjusted_rand"].as_f64().unwrap() > 0.99, "{result}");
    assert!(result["clusters_normalized_mutual_information"].as_f64().unwrap() > 0.98, "{result}");
    assert!(result["adjusted_rand"].as_f64().unwrap() < 0.5, "{result}");
    let predicted = sandbox.run(&["predict", "model", "rows.csv"]);
    let clusters: std::collections::BTreeSet<_> = predicted.column("cluster").into_iter().collect();
    assert_eq!(clusters.len(), 2);
    let shown = sandbox.run(&["inspect", "model"]);
    assert!(shown.ok().contains("components in 2 clusters"), "{}", shown.stdout);
}

#[test]
fn clusters_are_listed_with_their_tree_and_what_sets_them_apart() {
    let (sandbox, result) = fitted();
    let listed = sandbox.run(&["clusters", "model", "--tree"]);
    assert!(listed.ok().contains("components in 2 clusters"), "{}", listed.stdout);
    assert!(listed.ok().contains("a valley"), "{}", listed.stdout);
    let json = sandbox.run(&["clusters", "model", "--tree", "--json"]).silent_json();
    assert_eq!(json["n_clusters"], 2);
    let components = result["components"].as_u64().unwrap() as usize;
    assert_eq!(json["tree"]["joins"].as_array().unwrap().len(), components - 1);
    let rows: f64 = json["clusters"].as_array().unwrap().iter().map(|c| c["rows"].as_f64().unwrap()).sum();
    assert!((rows - 3000.0).abs() < 1e-6, "{rows}");
    // One crescent lies above the other.
    assert_eq!(
        json["columns"][json["clusters"][0]["differences"][0]["column"].as_u64().unwrap() as usize],
        "y"
    );
}

#[test]
fn a_way_to_cut_is_kept_in_the_model() {
    let (sandbox, _) = fitted();
    assert_eq!(sandbox.run(&["clusters", "model", "--count", "3", "--json"]).silent_json()["n_clusters"], 3);
    assert_eq!(sandbox.run(&["clusters", "model", "--json"]).silent_json()["n_clusters"], 2, "not kept");
    sandbox.run(&["clusters", "model", "--count", "3", "--keep"]).ok();
    assert_eq!(sandbox.run(&["clusters", "model", "--json"]).silent_json()["n_clusters"], 3);
    let predicted = sandbox.run(&["predict", "model", "rows.csv"]);
    let clusters: std::collections::BTreeSet<_> = predicted.column("cluster").into_iter().collect();
    assert_eq!(clusters.len(), 3);
    sandbox.run(&["clusters", "model", "--keep"]).ok();
    assert_eq!(sandbox.run(&["clusters", "model", "--json"]).silent_json()["n_clusters"], 2);
}

#[test]
fn what_became_of_earlier_clusters_is_told() {
    let (sandbox, _) = fitted();
    let same = sandbox.run(&["clusters", "model", "--since", "model"]);
    assert!(same.ok().contains("no clusters joined, parted or appeared"), "{}", same.stdout);
}

#[test]
fn a_valley_that_is_none_and_two_ways_at_once_are_refused() {
    let (sandbox, _) = fitted();
    for (flags, word) in [
        (&["--valley", "1.5"][..], "no part of a peak"),
        (&["--count", "0"], "at least 1"),
        (&["--min-size=-3"], "from 0 on"),
        (&["--valley", "0.5", "--count", "3"], "cannot be used with"),
    ] {
        let run = sandbox.run(&[&["clusters", "model"], flags].concat());
        assert_eq!(run.code, 1, "{flags:?}");
        assert!(run.stderr.contains(word), "{flags:?}: {}", run.stderr);
    }
}
