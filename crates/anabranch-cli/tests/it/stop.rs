//! Ctrl-C: what was read is learned, the model is written, and the exit code is that of success.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::data::three_clusters;
use crate::support::{Run, Sandbox, assert_mass, whole};

const FIRST: u64 = 300;
const BATCH: u64 = 50;
const FLAGS: [&str; 6] = ["--bootstrap", "300", "--batch-size", "50", "--out", "model"];

/// Longest wait; a machine this slow is broken.
const PATIENCE: Duration = Duration::from_secs(60);

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Starts on an endless stream, sends a signal once something is learned, and waits for the end.
fn interrupt(sandbox: &Sandbox, schedule: &str, name: &str) -> Run {
    let state = ["--checkpoint", "state", "--checkpoint-every", "0", "--schedule", schedule];
    let args = [&["fit", "-", "--json"], &FLAGS[..], &state].concat();
    let mut child = sandbox.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().expect("it was piped");
    let feeder = std::thread::spawn(move || {
        let table = three_clusters(2_000, 4).csv();
        let (header, rows) = table.split_once('\n').unwrap();
        let begun = stdin.write_all(format!("{header}\n").as_bytes());
        let started = Instant::now();
        // The run closes its end when it stops.
        while begun.is_ok() && started.elapsed() < PATIENCE && stdin.write_all(rows.as_bytes()).is_ok() {}
    });
    let started = Instant::now();
    while !sandbox.path("state/checkpoint.anabranch").exists() {
        assert!(started.elapsed() < PATIENCE, "the run makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, name);
    let run = Run::of(child);
    feeder.join().unwrap();
    run
}

#[test]
fn an_interrupted_run_writes_the_model_of_what_it_has_read() {
    for (schedule, name) in [("free", "-INT"), ("deterministic", "-INT"), ("free", "-TERM")] {
        let sandbox = Sandbox::new();
        let run = interrupt(&sandbox, schedule, name);
        let result = run.json();
        assert_eq!(result["stopped"], true, "{schedule} {name}");
        assert!(run.stderr.ends_with("stopped: what was read so far is in the model\n"), "{}", run.stderr);
        let minibatches = whole(&result, "minibatches");
        // The stream is endless, so every minibatch is full.
        assert_mass(&result, FIRST + BATCH * (minibatches - 1));
        let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
        for field in ["mass", "observations", "minibatches"] {
            assert_eq!(model[field], result[field], "{field}");
        }
    }
}

#[test]
fn an_interrupted_run_can_be_resumed() {
    let sandbox = Sandbox::new();
    let stopped = whole(&interrupt(&sandbox, "free", "-INT").json(), "observations");
    let rows = three_clusters(2_000, 4).csv();
    let (header, rows) = rows.split_once('\n').unwrap();
    let copies = stopped as usize / 6_000 + 1;
    let text = format!("{header}\n{}", rows.repeat(copies));
    let args = [&["fit", "-", "-q", "--json", "--checkpoint", "state", "--resume"], &FLAGS[..]].concat();
    let result = sandbox.run_with_input(&args, text).silent_json();
    assert_mass(&result, 6_000 * copies as u64);
    assert_eq!(result["stopped"], false);
}

#[test]
fn a_quiet_stream_is_stopped_without_another_row() {
    let sandbox = Sandbox::new();
    let state = ["--checkpoint", "state", "--checkpoint-every", "0"];
    let args = [&["fit", "-", "--json"], &FLAGS[..], &state].concat();
    let mut child = sandbox.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    // Held open until the end, and silent after these rows: the last minibatch is not full.
    let mut stdin = child.stdin.take().expect("it was piped");
    let table = three_clusters(110, 4);
    stdin.write_all(table.csv().as_bytes()).unwrap();
    stdin.flush().unwrap();
    let started = Instant::now();
    while !sandbox.path("state/checkpoint.anabranch").exists() {
        assert!(started.elapsed() < PATIENCE, "the run makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "-INT");
    let run = Run::of(child);
    drop(stdin);
    let result = run.json();
    assert_eq!(result["stopped"], true);
    // The wish to stop may come before the rows behind the first minibatch were read: they are in or not, never in part.
    let rows = whole(&result, "observations");
    assert!(rows == FIRST || rows == table.len(), "{rows} rows");
    assert_mass(&result, rows);
}
