//! `--first-after` and `--out-every`: a model of a slow stream, long before it ends.

use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use crate::support::data::three_clusters;
use crate::support::{Run, Sandbox, whole};

/// Longest wait for a file; a machine this slow is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Feeds a part of the rows, waits for a model of them while the stream is open, and then feeds the rest.
fn fed(sandbox: &Sandbox, words: &[&str], part: usize) -> (u64, Run) {
    let text = sandbox.text("rows.csv");
    let lines: Vec<&str> = text.lines().collect();
    let mut child = sandbox.command(words).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().expect("it was piped");
    let feed = |stdin: &mut ChildStdin, lines: &[&str]| {
        stdin.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    };
    feed(&mut stdin, &lines[..=part]);
    let started = Instant::now();
    while !sandbox.path("model").exists() {
        assert!(started.elapsed() < PATIENCE, "there is no model");
        std::thread::sleep(Duration::from_millis(5));
    }
    let early = whole(&sandbox.run(&["inspect", "model", "--json"]).silent_json(), "observations");
    feed(&mut stdin, &lines[part + 1..]);
    drop(stdin);
    (early, Run::of(child))
}

#[test]
fn a_first_model_is_there_before_the_first_minibatch_and_costs_nothing() {
    // A reader of csv begins with its first 64 KiB.
    let sandbox = Sandbox::with("rows.csv", three_clusters(1500, 2).csv());
    let words = ["--schedule", "deterministic", "--workers", "1", "--bootstrap", "4000", "-q", "--json"];
    let slow = ["fit", "-", "--first-after", "1ms", "--out", "model"];
    let (early, run) = fed(&sandbox, &[&slow[..], &words].concat(), 3000);
    assert!((64..=3000).contains(&early), "{early}");
    run.silent_json();
    sandbox.run(&[&["fit", "rows.csv", "--out", "plain"], &words[..]].concat()).silent_json();
    assert_eq!(sandbox.learned("model"), sandbox.learned("plain"), "as if it had been waited for");
}

/// Everything has come before the first model is due, and nothing more comes.
#[test]
fn a_stream_that_pauses_has_a_first_model() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(1500, 2).csv());
    let slow = ["fit", "-", "--first-after", "1s", "--out", "model", "-q", "--json"];
    let (early, run) = fed(&sandbox, &slow, 3000);
    assert!((64..=3000).contains(&early), "{early}");
    run.silent_json();
}

#[test]
fn the_model_is_written_again_and_again() {
    for every in ["100", "1ms"] {
        let sandbox = Sandbox::with("rows.csv", three_clusters(500, 2).csv());
        let words =
            ["--schedule", "deterministic", "--workers", "1", "--bootstrap", "300", "--batch-size", "50"];
        let often = ["fit", "-", "--out-every", every, "--out", "model", "-q", "--json"];
        let (early, run) = fed(&sandbox, &[&often[..], &words].concat(), 1000);
        assert!((300..=1000).contains(&early), "{early}");
        run.silent_json();
        sandbox.run(&[&["fit", "rows.csv", "-q", "--out", "plain"], &words[..]].concat()).ok();
        assert_eq!(sandbox.learned("model"), sandbox.learned("plain"));
    }
}

#[test]
fn times_that_are_none_are_refused() {
    let refused = |words: &[&str]| {
        let run = Sandbox::new().run(&[&["fit", "nowhere.csv"], words].concat());
        assert_eq!(run.code, 1);
        run.stderr
    };
    assert!(
        refused(&["--out-every", "soon", "--out", "m"]).contains("a number of rows, or a time such as 2s")
    );
    assert!(refused(&["--first-after", "5", "--out", "m"]).contains("a time such as 2s"));
    assert!(refused(&["--first-after", "5s"]).contains("--out <MODEL>"));
    let with = refused(&["--first-after", "5s", "--out", "m", "--from", "m"]);
    assert!(with.contains("--first-after does not go with --from"), "{with}");
}
