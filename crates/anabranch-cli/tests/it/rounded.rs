//! Rounded values, rows that repeat, and numbers that are not certain: what is said of them.

use serde_json::Value;

use crate::support::Sandbox;

/// Integers of two clusters, ten apart.
fn integers(n: usize) -> String {
    let cell = |ix: usize| {
        // A triangle of width 8 around 0 or 20.
        let noise = ((ix * 7919) % 5 + (ix * 104_729) % 5) as i64 - 4;
        noise + if ix % 2 == 0 { 0 } else { 20 }
    };
    let rows = (0..n).map(|ix| format!("{},{}\n", cell(ix), cell(3 * ix + ix % 2 + 1 - 2 * (ix % 2))));
    format!("x,y\n{}", rows.collect::<String>())
}

#[test]
fn rounded_values_are_found_said_and_kept() {
    let sandbox = Sandbox::with("rows.csv", integers(600));
    let run = sandbox.run(&["fit", "rows.csv", "--out", "m.anabranch", "--quiet"]);
    let line =
        "rounded to multiples of 1: all columns; each value counts as an interval (--resolution 0: as exact)";
    assert!(run.stdout.contains(line), "{}", run.stdout);
    let shown = sandbox.run(&["inspect", "m.anabranch"]);
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
    let json: Value =
        serde_json::from_str(&sandbox.run(&["inspect", "m.anabranch", "--json"]).stdout).unwrap();
    assert_eq!(json["resolution"], serde_json::json!([1.0, 1.0]));
    let exact = sandbox.run(&["fit", "rows.csv", "--resolution", "0", "--quiet"]);
    assert!(!exact.stdout.contains("rounded"), "{}", exact.stdout);
}

#[test]
fn a_resolution_that_is_none_is_refused() {
    let sandbox = Sandbox::with("rows.csv", integers(100));
    for (value, message) in [
        (
            "-1",
            "--resolution: a resolution is -1, expected a number of at least 0 and at most 1000 standard deviations of its column",
        ),
        ("1,2,3", "--resolution: \"1,2,3\" holds 3 numbers for 2 columns"),
    ] {
        let run = sandbox.run(&["fit", "rows.csv", "--resolution", value]);
        assert_eq!(run.message(), message);
    }
    let counts = sandbox.run(&["fit", "rows.csv", "--family", "poisson", "--resolution", "1"]);
    assert_eq!(counts.message(), "--resolution goes with gaussian, diagonal and spherical columns");
}

#[test]
fn rows_that_repeat_are_counted_and_said() {
    let row = |ix: usize| format!("{},{}\n", (ix as f64 * 0.731).sin(), (ix as f64 * 1.313).cos());
    let once: String = (0..200).map(row).collect();
    let sandbox = Sandbox::with("rows.csv", format!("x,y\n{}", once.repeat(5)));
    let run = sandbox.run(&["fit", "rows.csv", "--json", "--quiet"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((json["observations"].as_u64(), json["copies"].as_f64().unwrap().round()), (Some(1000), 5.0));
    let said = sandbox.run(&["fit", "rows.csv", "--quiet"]);
    assert!(said.stdout.contains("rows repeat 5 times on average"), "{}", said.stdout);
}
