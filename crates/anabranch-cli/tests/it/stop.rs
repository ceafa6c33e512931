//! Ctrl-C: what was read is learned, the model is written, and the exit code is that of success.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::data::{gzip, three_clusters};
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
        // The stream is endless and ends wherever it is: every minibatch is full but perhaps the last.
        let (observations, full) = (whole(&result, "observations"), FIRST + BATCH * (minibatches - 1));
        assert!(observations <= full && observations + BATCH > full, "{observations} of {full}");
        assert_mass(&result, observations);
        let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
        for field in ["mass", "observations", "minibatches"] {
            assert_eq!(model[field], result[field], "{field}");
        }
    }
}

#[test]
fn answers_that_are_interrupted_leave_whole_lines_and_no_file() {
    let sandbox = Sandbox::with_model();
    sandbox.write("old.csv", "as it was");
    for out in [None, Some("old.csv")] {
        let flags = out.map_or_else(Vec::new, |out| vec!["--out", out]);
        let args = [&["predict", "model", "-", "-q"], &flags[..]].concat();
        let mut child = sandbox.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().expect("it was piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        stdin.write_all(three_clusters(100, 4).csv().as_bytes()).unwrap();
        let mut printed = String::new();
        match out {
            None => {
                for _ in 0..=300 {
                    stdout.read_line(&mut printed).unwrap();
                }
            }
            // A file shows nothing before it is whole: long enough that the rows are there.
            Some(_) => std::thread::sleep(Duration::from_millis(300)),
        }
        signal(&child, "-INT");
        stdout.read_to_string(&mut printed).unwrap();
        let run = Run::of(child);
        drop(stdin);
        assert_eq!(run.code, 130, "{}", run.stderr);
        match out {
            None => {
                assert_eq!(printed.lines().count(), 301);
                assert!(
                    printed.ends_with('\n') && run.stderr == "stopped after 300 rows\n",
                    "{}",
                    run.stderr
                );
            }
            Some(_) => {
                assert_eq!((printed.as_str(), run.stderr.as_str()), ("", "stopped: old.csv is as it was\n"));
                assert_eq!(sandbox.text("old.csv"), "as it was");
                let names = std::fs::read_dir(sandbox.path(".")).unwrap().count();
                assert_eq!(names, 3, "no part of a file is left");
            }
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

/// Starts on a pipe, hands over these bytes, and stops it while it waits for more; the pipe stays open until it has ended.
fn stop_while_quiet(model: &str, format: &str, bytes: &[u8], rows: u64, name: &str) -> serde_json::Value {
    let sandbox = Sandbox::new();
    let second = (rows - FIRST).to_string();
    let state = ["--checkpoint", "state", "--checkpoint-every", "0", "--model", model, "--format", format];
    let stream = ["fit", "-", "--json", "-q", "--bootstrap", "300", "--batch-size", &second];
    let args = [&stream[..], &state].concat();
    let mut child = sandbox.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().expect("it was piped");
    stdin.write_all(bytes).unwrap();
    stdin.flush().unwrap();
    let result = stop_once_saved(&sandbox, child, rows, name);
    drop(stdin);
    assert_eq!(whole(&result, "observations"), rows, "{model} {format}");
    result
}

/// Stops the run once these rows are in its checkpoint.
fn stop_once_saved(sandbox: &Sandbox, mut child: Child, rows: u64, name: &str) -> serde_json::Value {
    let saved = || {
        let run = sandbox.run(&["inspect", "state/checkpoint.anabranch", "--json"]);
        let model = serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap_or_default();
        model["observations"].as_u64()
    };
    let started = Instant::now();
    while saved() != Some(rows) {
        assert!(started.elapsed() < PATIENCE, "the run makes no progress");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, name);
    let told = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if told.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the run does not stop");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let result = Run::of(child).json();
    assert_eq!(result["stopped"], true);
    result
}

#[test]
fn a_stream_that_is_quiet_within_a_record_is_stopped_without_it() {
    let table = three_clusters(115, 4);
    let csv = table.csv();
    let (whole_rows, cut) = (csv.clone() + "12.5,", csv.clone() + "12.5,\"7");
    let json = table.rows.iter().map(|row| format!("[{},{}]\n", row[0], row[1])).collect::<String>() + "[1,";
    let npy = table.npy();
    let text = "{\"text\": \"sun and rain\"}\n".repeat(345) + "{\"text\": \"su";
    let npy_cut = &npy[..npy.len() - 5];
    let cases: [(&str, &str, &[u8], u64); 6] = [
        ("dp", "csv", whole_rows.as_bytes(), 345),
        ("dp", "csv", cut.as_bytes(), 345),
        ("dp", "jsonl", json.as_bytes(), 345),
        ("dp", "npy", npy_cut, 344),
        ("bp", "npy", npy_cut, 344),
        ("hdp", "jsonl", text.as_bytes(), 345),
    ];
    for (model, format, bytes, rows) in cases {
        let result = stop_while_quiet(model, format, bytes, rows, "-TERM");
        assert_eq!(whole(&result, "skipped_rows"), 1, "{model} {format}");
    }
}

#[test]
fn a_compressed_stream_is_stopped_at_the_end_of_what_was_delivered() {
    let csv = three_clusters(115, 4).csv();
    let packed = |text: &str| gzip(text.as_bytes());
    let (first, second) = csv.split_at(csv.len() / 2);
    let members = [packed(first), packed(second)].concat();
    let result = stop_while_quiet("dp", "csv", &members, 345, "-INT");
    assert_eq!(whole(&result, "skipped_rows"), 0);
    let cut = [packed(first), packed(&(second.to_owned() + "1,2\n3,"))].concat();
    let result = stop_while_quiet("dp", "csv", &cut, 346, "-INT");
    assert_eq!(whole(&result, "skipped_rows"), 1);
}

#[test]
fn a_named_pipe_is_stopped_while_it_is_quiet_and_while_nobody_has_opened_it() {
    let sandbox = Sandbox::new();
    for pipe in ["first", "second"] {
        assert!(Command::new("mkfifo").arg(sandbox.path(pipe)).status().unwrap().success());
    }
    let state = ["--checkpoint", "state", "--checkpoint-every", "0", "--format", "csv"];
    let stream = ["--bootstrap", "300", "--batch-size", "45"];
    let args = [&["fit", "first", "second", "--json", "-q"], &stream[..], &state].concat();
    let csv = three_clusters(115, 4).csv();
    // Held open, quiet within a row.
    let child = sandbox.command(&args).spawn().unwrap();
    let mut writer = std::fs::File::options().write(true).open(sandbox.path("first")).unwrap();
    writer.write_all((csv.clone() + "1,").as_bytes()).unwrap();
    let result = stop_once_saved(&sandbox, child, 345, "-TERM");
    assert_eq!((whole(&result, "observations"), whole(&result, "skipped_rows")), (345, 1));
    drop(writer);
    // The first has ended, nobody writes to the second.
    std::fs::remove_dir_all(sandbox.path("state")).unwrap();
    let child = sandbox.command(&args).spawn().unwrap();
    let mut writer = std::fs::File::options().write(true).open(sandbox.path("first")).unwrap();
    writer.write_all(csv.as_bytes()).unwrap();
    drop(writer);
    let result = stop_once_saved(&sandbox, child, 345, "-TERM");
    assert_eq!((whole(&result, "observations"), whole(&result, "skipped_rows")), (345, 0));
}

/// The stream comes again from its first row, and is told to end before the first row that is new.
#[test]
fn a_run_that_is_stopped_before_its_first_new_row_leaves_the_checkpoint_as_it_was() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(200, 4).csv());
    let flags =
        ["--json", "-q", "--bootstrap", "300", "--batch-size", "50", "--checkpoint", "state", "--resume"];
    let run = |input: &str| sandbox.run(&[&["fit", input], &flags[..]].concat()).silent_json();
    assert_mass(&run("rows.csv"), 600);
    let before = sandbox.read("state/checkpoint.anabranch");
    let mut child =
        sandbox.command(&[&["fit", "-"], &flags[..]].concat()).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().expect("it was piped");
    let text = sandbox.text("rows.csv");
    stdin.write_all(&text.as_bytes()[..text.len() / 2]).unwrap();
    // It has the folder once it is at work, and then it listens.
    let held = |path: &std::path::Path| {
        std::fs::File::options().write(true).open(path).is_ok_and(|lock| lock.try_lock().is_err())
    };
    let started = Instant::now();
    while !held(&sandbox.path("state/lock")) {
        assert!(started.elapsed() < PATIENCE, "the run makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    // Ended by the signal itself when it came before anybody listened.
    assert!(matches!(output.status.code(), Some(1) | None), "{output:?}");
    assert_eq!(sandbox.read("state/checkpoint.anabranch"), before);
    sandbox.write("rows.csv", three_clusters(300, 4).csv());
    assert_mass(&run("rows.csv"), 900);
}
