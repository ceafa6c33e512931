//! Rounded values, rows that repeat, and numbers that are not certain: what is said of them.

use serde_json::Value;

use crate::support::Sandbox;

/// Integers of two clusters, twenty apart, each a triangle of width 8.
fn integers(n: usize) -> String {
    let mut state = 1_u64;
    let mut below_5 = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 5
    };
    let rows = (0..n).map(|ix| {
        let centre = if ix % 2 == 0 { 0 } else { 20 };
        let [x, y] = [(); 2].map(|()| centre + below_5() + below_5());
        format!("{x},{y}\n")
    });
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

/// Three clusters on a line; the other column is made of the first, or of nothing.
fn beside(other: impl Fn(f64) -> f64) -> String {
    let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
    let row = |ix: i32| {
        let x = 15.0 * f64::from(ix % 3) + noise(f64::from(ix));
        format!("{x},{}\n", other(x))
    };
    format!("x,y\n{}", (0..600).map(row).collect::<String>())
}

#[test]
fn columns_that_say_nothing_hide_no_clusters() {
    let follows = "following from other columns: y;";
    for (other, line) in [
        (beside(|_| 7.0), "the same in every row: y = 7"),
        (beside(|x| 2.54 * x), follows),
        (beside(|x| 3.0 - x), follows),
    ] {
        let sandbox = Sandbox::with("rows.csv", other);
        let run = sandbox.run(&["fit", "rows.csv", "--out", "m.anabranch", "--quiet"]);
        assert!(run.ok().starts_with("600 rows × 2 columns → 3 components"), "{line}: {}", run.stdout);
        assert!(run.stdout.contains(line) && !run.stdout.contains("rounded"), "{line}: {}", run.stdout);
        let shown = sandbox.run(&["inspect", "m.anabranch"]);
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
}
