//! `fit --half-life`: the past fades, every row is accounted for, and a run that goes on goes on forgetting.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::data::{clusters_at, three_clusters};
use crate::support::{Sandbox, number, whole};

/// Three clusters, which are elsewhere in the second half.
fn sandbox() -> Sandbox {
    let (before, after) = (clusters_at([0.0, 0.0], 400, 3), clusters_at([60.0, -45.0], 400, 4));
    let rows = |table: &str| table.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    let header = before.csv().lines().next().unwrap_or_default().to_owned() + "\n";
    let (before, after) = (rows(&before.csv()), rows(&after.csv()));
    let sandbox = Sandbox::with("all.csv", [header.as_str(), &before, &after].concat());
    sandbox.write("before.csv", [header.as_str(), &before].concat());
    sandbox.write("after.csv", [header.as_str(), &after].concat());
    sandbox
}

const SMALL: [&str; 6] = ["--half-life", "100", "--bootstrap", "300", "--batch-size", "50"];

fn assert_accounted(result: &Value, rows: u64) {
    assert_eq!(whole(result, "observations"), rows);
    let all = number(result, "mass") + number(result, "forgotten");
    assert!((all - rows as f64).abs() < 1e-6, "{result}");
}

/// Rows of a model that did not forget are as old as the newest of them.
#[test]
fn a_model_begins_to_forget_where_it_ended() {
    let sandbox = sandbox();
    sandbox.fit(&["before.csv", "--out", "model"]);
    let result = sandbox.fit(&["after.csv", "--from", "model", "--half-life", "300"]);
    assert_accounted(&result, 2400);
    // Minibatches of an eighth of the half-life, as those of a new run.
    let clocks: Vec<f64> = (1..=32).map(|n| 37.0 * f64::from(n)).chain([1200.0]).collect();
    let (mut expected, mut before) = (1200.0 * (-1200.0_f64 / 300.0).exp2(), 0.0);
    for clock in clocks {
        expected += (clock - before) * ((clock - 1200.0) / 300.0_f64).exp2();
        before = clock;
    }
    assert!((number(&result, "mass") - expected).abs() < 0.5, "{result} {expected}");
}

#[test]
fn the_model_is_of_the_last_rows_and_events_lead_to_its_ids() {
    let sandbox = sandbox();
    let result = sandbox.fit(&[&["all.csv", "--out", "model", "--events", "e"], &SMALL[..]].concat());
    assert_accounted(&result, 2400);
    assert!(number(&result, "mass") < 200.0);
    let inspected = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    assert_accounted(&inspected, 2400);
    assert_eq!(inspected["half_life"], "100");
    // Every place is that of the second half.
    let components = inspected["components"].as_array().unwrap();
    assert!(components.iter().all(|c| c["mean"][0].as_f64().unwrap() > 30.0), "{inspected}");
    let mut ids: BTreeSet<u64> = BTreeSet::new();
    let mut deaths = 0;
    let listed =
        |ids: &Value| -> Vec<u64> { ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect() };
    for line in sandbox.text("e").lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str().unwrap() {
            "birth" => assert!(ids.insert(whole(&event, "id")), "{event}"),
            "merge" => assert!(ids.remove(&whole(&event, "id")), "{event}"),
            "split" => ids.extend(listed(&event["into"])),
            "death" => {
                deaths += 1;
                assert!(ids.remove(&whole(&event, "id")), "{event}");
            }
            "end" => {
                assert_eq!(ids.iter().copied().collect::<Vec<_>>(), listed(&event["ids"]));
                assert_eq!(number(&event, "rows").round(), 2400.0);
            }
            _ => {}
        }
    }
    assert!(deaths >= 3, "those of the first half have ended");
}

#[test]
fn a_stream_that_goes_on_from_its_checkpoint_forgets_as_one_stream_to_the_last_bit() {
    let sandbox = sandbox();
    let alone = ["--schedule", "deterministic", "--workers", "1", "-q"];
    let fit = |words: &[&str]| {
        sandbox.run(&[&["fit"], words, &alone[..]].concat()).ok();
    };
    for half_life in ["100", "auto"] {
        let small = ["--half-life", half_life, "--bootstrap", "300", "--batch-size", "50"];
        let (state, on) = (format!("state-{half_life}"), format!("on-{half_life}"));
        fit(&[&["all.csv", "--out", "one"], &small[..]].concat());
        fit(&[&["before.csv", "--out", "half", "--checkpoint", &state], &small[..]].concat());
        fit(&["after.csv", "--out", "two", "--from", &state, "--checkpoint", &on]);
        assert_eq!(sandbox.learned("one"), sandbox.learned("two"), "{half_life}");
    }
    let other = sandbox.run(&[
        "fit",
        "after.csv",
        "--from",
        "half",
        "--half-life",
        "7",
        "--checkpoint",
        "state-auto",
        "--resume",
    ]);
    assert!(other.code != 0);
    // Other minibatches follow from another half-life: that is what is told.
    let words = ["fit", "before.csv", "--half-life", "900", "--checkpoint", "state-100", "--resume"];
    let other = sandbox.run(&words);
    assert_eq!(other.message(), "the checkpoint was made with --half-life 100, this run has 900");
}

#[test]
fn a_finished_model_can_begin_to_forget() {
    let sandbox = sandbox();
    sandbox.fit(&["before.csv", "--out", "model", "--bootstrap", "300", "--batch-size", "50"]);
    let result = sandbox.fit(&["after.csv", "--from", "model", "--half-life", "100", "--out", "model"]);
    assert_accounted(&result, 2400);
    // The model goes on forgetting without being told.
    sandbox.write("more.csv", three_clusters(100, 9).csv());
    let result = sandbox.fit(&["more.csv", "--from", "model"]);
    assert_accounted(&result, 2700);
    assert!(number(&result, "mass") < 200.0, "{result}");
}

#[test]
fn what_reads_rows_again_and_what_does_not_forget_is_refused() {
    for (words, message) in [
        (&["--passes", "2"][..], "--passes does not go with --half-life"),
        (&["--polish"], "--polish does not go with --half-life"),
        (&["--model", "hdp"], "--half-life belongs to --model dp or py; this is --model hdp"),
        (&["--algorithm", "svi"], "--half-life belongs to --algorithm sda; this is --algorithm svi"),
        (&["--cluster", "nats://127.0.0.1:1"], "--half-life does not go with --cluster"),
    ] {
        let run = Sandbox::new().run(&[&["fit", "nowhere.csv", "--half-life", "9"], words].concat());
        assert_eq!(run.message(), message);
    }
}

/// The rows of the second half behind those of the first, one a second, in this order.
fn timed(order: impl Fn(usize) -> usize, when: impl Fn(usize) -> String) -> String {
    let (before, after) = (clusters_at([0.0, 0.0], 200, 3).csv(), clusters_at([60.0, -45.0], 200, 4).csv());
    let rows: Vec<&str> = before.lines().skip(1).chain(after.lines().skip(1)).collect();
    let line = |ix: usize| format!("{},{}\n", when(ix), rows[ix]);
    let header = format!("when,{}\n", before.lines().next().unwrap());
    header + &(0..rows.len()).map(|ix| line(order(ix))).collect::<String>()
}

const BY_TIME: [&str; 8] =
    ["--half-life", "1m", "--time", "when", "--bootstrap", "300", "--batch-size", "50"];

#[test]
fn rows_fade_by_their_own_time_in_any_order_and_however_it_is_written() {
    let seconds = |ix: usize| (1_714_557_600 + ix).to_string();
    // From 2024-05-01T10:00:00 on, in a zone of its own.
    let stamp = |ix: usize| format!("2024-05-01T12:{:02}:{:02}+02:00", ix / 60, ix % 60);
    // Neighbours far apart: 7 has no divisor in common with 1,200.
    let shuffled = |ix: usize| ix * 7 % 1200;
    let sandbox = Sandbox::with("ordered.csv", timed(|ix| ix, seconds));
    sandbox.write("stamped.csv", timed(|ix| ix, stamp));
    sandbox.write("shuffled.csv", timed(shuffled, seconds));
    let exact: f64 = (0..1200).map(|ix| (f64::from(ix - 1199) / 60.0).exp2()).sum();
    for file in ["ordered.csv", "stamped.csv", "shuffled.csv"] {
        let result =
            sandbox.fit(&[&[file, "--out", file.strip_suffix(".csv").unwrap()], &BY_TIME[..]].concat());
        assert_accounted(&result, 1200);
        assert_eq!(whole(&result, "dimensions"), 2, "when a row was is not learned from");
        // Components that count less than half a row have ended.
        let off = exact - number(&result, "mass");
        assert!((-1e-6..3.0).contains(&off), "{file}: {result} for {exact}");
    }
    assert_eq!(sandbox.learned("ordered"), sandbox.learned("stamped"));
    let inspected = sandbox.run(&["inspect", "ordered", "--json"]).silent_json();
    assert_eq!(inspected["half_life"], "1m");
    let components = inspected["components"].as_array().unwrap();
    assert!(components.iter().all(|c| c["mean"][0].as_f64().unwrap() > 30.0), "{inspected}");
}

#[test]
fn a_model_goes_on_by_the_time_of_its_rows() {
    let sandbox = Sandbox::with("first.csv", timed(|ix| ix, |ix| ix.to_string()));
    let fitted = sandbox.fit(&[&["first.csv", "--out", "model"], &BY_TIME[..]].concat());
    let names = sandbox.run(&["inspect", "model", "--json"]).silent_json()["columns"].clone();
    let names: Vec<&str> = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    sandbox.write("late.csv", format!("{},when\n60,-45,1199\n61,-44,1079\n", names.join(",")));
    let result = sandbox.fit(&["late.csv", "--from", "model"]);
    assert_accounted(&result, 1202);
    // One of now, one that is two half-lives late.
    let more = number(&result, "mass") - number(&fitted, "mass");
    assert!((more - 1.25).abs() < 1e-6, "{more}");
    let other = sandbox.run(&["fit", "late.csv", "--from", "model", "--time", names[0]]);
    assert!(other.message().contains("have faded by \"when\""), "{}", other.stderr);
}

#[test]
fn times_that_are_none_are_told_with_their_row() {
    let base = ["--half-life", "1h", "--time", "when", "--bootstrap", "20", "--batch-size", "20"];
    for (cell, message) in [
        ("soon", "\"soon\" is not a time"),
        ("", "\"\" is not a time"),
        ("1714566605000", "\"1714566605000\" is in the future"),
        ("2999-01-01", "\"2999-01-01\" is in the future"),
    ] {
        let rows = timed(|ix| ix, |ix| if ix == 30 { cell.to_owned() } else { ix.to_string() });
        let sandbox = Sandbox::with("rows.csv", rows);
        let run = sandbox.run(&[&["fit", "rows.csv"], &base[..]].concat());
        assert!(run.message().contains("row 31") && run.message().contains(message), "{}", run.stderr);
        let result = sandbox.fit(&[&["rows.csv", "--on-bad-row", "skip"], &base[..]].concat());
        assert_eq!(whole(&result, "skipped_rows"), 1);
    }
    let sandbox = Sandbox::with("rows.csv", timed(|ix| ix, |ix| ix.to_string()));
    for words in [&["--time", "when"][..], &["--time", "when", "--half-life", "50"]] {
        let run = sandbox.run(&[&["fit", "rows.csv"], words].concat());
        assert_eq!(run.message(), "--time goes with a half-life that is a time");
    }
    let run = sandbox.run(&["fit", "rows.csv", "--time", "where", "--half-life", "1h"]);
    assert!(run.message().contains("no column \"where\""), "{}", run.stderr);
}
