//! `fit --from`: a finished model goes on with other rows, each of which counts once.

use crate::support::data::{Table, three_clusters};
use crate::support::{Sandbox, assert_mass, whole};

const SMALL: [&str; 4] = ["--bootstrap", "300", "--batch-size", "50"];

/// Held-out densities of one run and of two that follow on each other: the bound that the documentation states.
const LOSS: f64 = 0.01;

/// Rows that are learned today and tomorrow, all of them, and others to try the model on.
fn sandbox() -> Sandbox {
    let all = three_clusters(700, 3);
    let (today, tomorrow) = (part(&all, 0..1200), part(&all, 1200..2100));
    let sandbox = Sandbox::with("all.csv", all.csv());
    sandbox.write("today.csv", today.csv());
    sandbox.write("tomorrow.csv", tomorrow.csv());
    sandbox.write("test.csv", three_clusters(100, 4).csv());
    sandbox.fit(&[&["today.csv", "--out", "model"], &SMALL[..]].concat());
    sandbox
}

fn part(table: &Table, rows: std::ops::Range<usize>) -> Table {
    Table {
        names: table.names.clone(),
        rows: table.rows[rows.clone()].to_vec(),
        labels: table.labels[rows].to_vec(),
    }
}

#[test]
fn two_files_one_after_another_are_nearly_one_stream() {
    let sandbox = sandbox();
    let together = sandbox.fit(&[&["all.csv", "--test", "test.csv"], &SMALL[..]].concat());
    let result = sandbox.fit(&["tomorrow.csv", "--from", "model", "--test", "test.csv", "--out", "model"]);
    assert_mass(&result, 2100);
    assert_eq!(whole(&result, "minibatches"), 1 + 900 / 50 + 900 / 50);
    assert_eq!(whole(&result, "components"), 3);
    let density = |result: &serde_json::Value| result["test_log_likelihood"].as_f64().unwrap();
    assert!((density(&result) - density(&together)).abs() < LOSS, "{result} {together}");
    let inspected = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    assert_eq!(whole(&inspected, "observations"), 2100);
}

#[test]
fn a_model_that_goes_on_in_pieces_learns_what_it_would_have_learned_in_one_go() {
    let sandbox = sandbox();
    let alone = ["--schedule", "deterministic", "--workers", "1", "-q"];
    sandbox.run(&[&["fit", "tomorrow.csv", "--from", "model", "--out", "whole"], &alone[..]].concat()).ok();
    let text = sandbox.text("tomorrow.csv");
    let lines: Vec<&str> = text.lines().collect();
    let state = ["--checkpoint", "state", "--checkpoint-every", "0", "--resume", "--quiet"];
    for rows in [200, 450, 900] {
        sandbox.write("growing.csv", lines[..=rows].join("\n") + "\n");
        let result = sandbox.run(
            &[&["fit", "growing.csv", "--from", "model", "--json", "--out", "grown"], &alone[..4], &state]
                .concat(),
        );
        assert_mass(&result.json(), 1200 + rows as u64);
    }
    // A run that ends is looked after, so that ends on the way leave their traces; the rows are the same.
    let ids = |model: &str| sandbox.run(&["inspect", model, "--json"]).silent_json()["components"].clone();
    assert_eq!(ids("grown").as_array().unwrap().len(), ids("whole").as_array().unwrap().len());
    let other = sandbox.run(&[&["fit", "all.csv"], &SMALL[..], &state].concat());
    assert_eq!(other.message(), "--resume: the checkpoint is of a run that went on --from a model");
    sandbox.fit(&[&["all.csv", "--out", "other"], &SMALL[..]].concat());
    let other = sandbox.run(&[&["fit", "growing.csv", "--from", "other"], &state[..]].concat());
    assert_eq!(other.message(), "--from: the checkpoint is of a run that went on from another model");
}

/// The state before the end of a run holds its first rows and a sample: nothing shows that the stream came in two files.
#[test]
fn a_stream_that_goes_on_from_its_checkpoint_is_one_stream_to_the_last_bit() {
    let sandbox = sandbox();
    let alone = ["--schedule", "deterministic", "--workers", "1", "-q"];
    let fit = |words: &[&str]| {
        sandbox.run(&[&["fit"], words, &alone[..]].concat()).ok();
    };
    fit(&[&["all.csv", "--out", "one"], &SMALL[..]].concat());
    fit(&[&["today.csv", "--out", "half", "--checkpoint", "state"], &SMALL[..]].concat());
    fit(&[&["today.csv", "--out", "plain"], &SMALL[..]].concat());
    assert_eq!(sandbox.learned("half"), sandbox.learned("plain"), "a checkpoint changes nothing");
    fit(&["tomorrow.csv", "--from", "state", "--out", "two", "--checkpoint", "later"]);
    assert_eq!(sandbox.learned("one"), sandbox.learned("two"));
    let again = sandbox.run(&["fit", "tomorrow.csv", "--from", "later", "-q"]);
    assert!(again.message().contains("which the model has learned from"), "{}", again.message());
    let again = sandbox.run(&["fit", "today.csv", "--from", "later", "-q"]);
    assert!(again.message().contains("which the model has learned from"), "{}", again.message());
}

#[test]
fn columns_are_found_by_name() {
    let sandbox = sandbox();
    let turned = three_clusters(700, 3);
    let tomorrow = part(&turned, 1200..2100);
    let rows = tomorrow.rows.iter().map(|row| format!("{},extra,{}\n", row[1], row[0]));
    sandbox.write("turned.csv", format!("y,z,x\n{}", rows.collect::<String>()));
    let plain = sandbox.fit(&["tomorrow.csv", "--from", "model", "--out", "plain"]);
    let by_name = sandbox.fit(&["turned.csv", "--from", "model", "--out", "by-name"]);
    assert_eq!(plain["components"], by_name["components"]);
    let components =
        |model: &str| sandbox.run(&["inspect", model, "--json"]).silent_json()["components"].clone();
    assert_eq!(components("plain"), components("by-name"));
    sandbox.write("other.csv", "u,v\n1,2\n");
    assert_eq!(sandbox.run(&["fit", "other.csv", "--from", "model"]).code, 1);
}

#[test]
fn rows_that_are_in_the_model_are_refused() {
    let sandbox = sandbox();
    let again = sandbox.run(&["fit", "today.csv", "--from", "model", "-q", "--out", "new"]);
    assert_eq!(
        again.message(),
        "today.csv: begins with the rows of today.csv, which the model has learned from"
    );
    assert!(!sandbox.path("new").exists());
    sandbox.fit(&["tomorrow.csv", "--from", "model", "--out", "model"]);
    for known in ["today.csv", "tomorrow.csv", "all.csv"] {
        let again = sandbox.run(&["fit", known, "--from", "model", "-q"]);
        assert!(again.message().contains("which the model has learned from"), "{known}: {}", again.message());
    }
}

#[test]
fn clusters_that_tomorrow_does_not_have_are_kept() {
    let sandbox = sandbox();
    let all = three_clusters(6000, 5);
    let one = (0..all.rows.len()).filter(|row| all.labels[*row] == 0).map(|row| all.rows[row].clone());
    let one = Table { names: all.names.clone(), rows: one.collect(), labels: vec![] };
    sandbox.write("one.csv", one.csv());
    let result = sandbox.fit(&["one.csv", "--from", "model", "--out", "new"]);
    assert_eq!(whole(&result, "components"), 3);
    assert_mass(&result, 1200 + 6000);
    let ids = |model: &str| {
        let inspected = sandbox.run(&["inspect", model, "--json"]).silent_json();
        let mut ids: Vec<u64> =
            inspected["components"].as_array().unwrap().iter().map(|c| whole(c, "id")).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids("model"), ids("new"));
}

#[test]
fn a_prior_that_was_given_stays() {
    let sandbox = sandbox();
    let prior = ["--prior-mean", "1", "--prior-kappa", "0.5", "--prior-dof", "9", "--prior-scale", "3"];
    sandbox.fit(&[&["today.csv", "--out", "given"], &SMALL[..], &prior].concat());
    sandbox.fit(&["tomorrow.csv", "--from", "given", "--out", "new"]);
    let prior = |model: &str| sandbox.run(&["inspect", model, "--json"]).silent_json()["prior"].clone();
    assert!(prior("given").is_object());
    assert_eq!(prior("given"), prior("new"));
    sandbox.fit(&["tomorrow.csv", "--from", "model", "--out", "estimated"]);
    assert_ne!(prior("model"), prior("estimated"));
}

#[test]
fn what_the_model_says_is_refused_by_name() {
    let flags: [&[&str]; 12] = [
        &["--alpha", "3"],
        &["--discount", "0.1"],
        &["--family", "diagonal"],
        &["--model", "py"],
        &["--seed", "1"],
        &["--bootstrap", "100"],
        &["--batch-size", "10"],
        &["--prior-dof", "9"],
        &["--resolution", "0"],
        &["--columns", "x"],
        &["--passes", "2"],
        &["--cluster", "nats://127.0.0.1:1"],
    ];
    for flags in flags {
        let run = Sandbox::new().run(&[&["fit", "nowhere.csv", "--from", "nowhere"], flags].concat());
        let shown = if flags[0] == "--cluster" { "a cluster" } else { flags[0] };
        assert_eq!(run.message(), format!("{shown} does not go with --from"));
    }
}

#[test]
fn models_that_do_not_go_on_say_why() {
    let sandbox = sandbox();
    sandbox.run(&["fit", "today.csv", "--algorithm", "batch", "-q", "--out", "batch"]).ok();
    let message = |model: &str| sandbox.run(&["fit", "tomorrow.csv", "--from", model]).message().to_owned();
    assert_eq!(message("batch"), "--from belongs to --algorithm sda; batch was fitted by batch");
    assert!(message("nowhere").starts_with("nowhere: "), "{}", message("nowhere"));
}
