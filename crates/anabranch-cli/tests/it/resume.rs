//! `kill -9` at any moment, then `--resume`: every row counts once.

use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::support::data::three_clusters;
use crate::support::{Sandbox, assert_mass, whole};

const ROWS: usize = 6_000;
const FIRST: usize = 300;
const BATCH: usize = 50;
const CHECKPOINT: &str = "state/checkpoint.anabranch";

/// The first minibatch, and what is left in batches.
const MINIBATCHES: u64 = 1 + ((ROWS - FIRST) as u64).div_ceil(BATCH as u64);

/// Longest wait for a child to get on with it; a machine this slow is broken.
const PATIENCE: Duration = Duration::from_secs(60);

fn sandbox() -> Sandbox {
    Sandbox::with("rows.csv", three_clusters(ROWS / 3, 21).csv())
}

/// A run that reads its rows from `input` and saves after every minibatch.
fn flags<'a>(input: &'a str, schedule: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["fit", input, "--quiet", "--json", "--bootstrap", "300", "--batch-size", "50"];
    let state = ["--checkpoint", "state", "--checkpoint-every", "0", "--resume", "--schedule", schedule];
    [&fixed[..], &state, more].concat()
}

/// Waits until the checkpoint is another one than before.
fn wait_for_progress(sandbox: &Sandbox, before: &Option<Vec<u8>>) {
    let started = std::time::Instant::now();
    while std::fs::read(sandbox.path(CHECKPOINT)).ok() == *before {
        assert!(started.elapsed() < PATIENCE, "the run makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Feeds the rows from the start, up to `share` of them, and holds the pipe open so that the run cannot end.
fn feed(mut stdin: ChildStdin, text: &str, share: f64) -> ChildStdin {
    let bytes = &text.as_bytes()[..(text.len() as f64 * share) as usize];
    // A child that was killed reads no more.
    let _ = stdin.write_all(bytes);
    stdin
}

/// Kills runs at random moments of an ever longer part of the stream; returns how many checkpoints they left behind.
fn kill_again_and_again(sandbox: &Sandbox, schedule: &str, more: &[&str], seed: u64) -> usize {
    let text = sandbox.text("rows.csv");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut left = 0;
    for share in [0.2, 0.45, 0.7, 0.95] {
        let before = std::fs::read(sandbox.path(CHECKPOINT)).ok();
        let mut child = sandbox
            .command(&flags("-", schedule, more))
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().expect("it was piped");
        std::thread::scope(|scope| {
            let feeder = scope.spawn(|| feed(stdin, &text, share));
            wait_for_progress(sandbox, &before);
            std::thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            feeder.join().unwrap();
        });
        let model = sandbox.run(&["inspect", CHECKPOINT, "--json"]).silent_json();
        assert!(whole(&model, "minibatches") < MINIBATCHES, "the run was killed before its end");
        left += 1;
    }
    left
}

#[test]
fn killed_runs_go_on_and_count_every_row_once() {
    for (schedule, workers) in [("deterministic", "3"), ("free", "2")] {
        let sandbox = sandbox();
        let more = ["--workers", workers];
        assert_eq!(kill_again_and_again(&sandbox, schedule, &more, 5), 4);
        let result = sandbox.run(&flags("rows.csv", schedule, &more)).silent_json();
        assert_mass(&result, ROWS as u64);
        assert_eq!(whole(&result, "minibatches"), MINIBATCHES);
    }
}

#[test]
fn one_worker_killed_and_resumed_learns_what_it_would_have_learned_in_one_go() {
    let sandbox = sandbox();
    let more = ["--workers", "1", "--out", "killed"];
    kill_again_and_again(&sandbox, "deterministic", &more, 8);
    sandbox.run(&flags("rows.csv", "deterministic", &more)).silent_json();
    std::fs::remove_dir_all(sandbox.path("state")).unwrap();
    let in_one_go = ["fit", "rows.csv", "-q", "--bootstrap", "300", "--batch-size", "50"];
    let rest = ["--schedule", "deterministic", "--workers", "1", "--out", "unharmed"];
    sandbox.run(&[&in_one_go[..], &rest].concat()).ok();
    assert_eq!(sandbox.read("killed"), sandbox.read("unharmed"));
}

/// Killed while the rows to be polished are being kept, and after that.
#[test]
fn killed_runs_polish_the_rows_that_they_would_have_polished_in_one_go() {
    for rows in ["--polish=2000", "--polish=100000"] {
        let sandbox = sandbox();
        let more = ["--workers", "1", rows, "--out", "killed"];
        kill_again_and_again(&sandbox, "deterministic", &more, 8);
        let result = sandbox.run(&flags("rows.csv", "deterministic", &more)).silent_json();
        assert_mass(&result, ROWS as u64);
        std::fs::remove_dir_all(sandbox.path("state")).unwrap();
        let in_one_go = ["fit", "rows.csv", "-q", "--bootstrap", "300", "--batch-size", "50"];
        let rest = ["--schedule", "deterministic", "--workers", "1", rows, "--out", "unharmed"];
        sandbox.run(&[&in_one_go[..], &rest].concat()).ok();
        assert_eq!(sandbox.read("killed"), sandbox.read("unharmed"), "{rows}");
    }
    let sandbox = sandbox();
    let more = ["--workers", "3", "--polish=4000"];
    kill_again_and_again(&sandbox, "free", &more, 5);
    assert_mass(&sandbox.run(&flags("rows.csv", "free", &more)).silent_json(), ROWS as u64);
}

#[test]
fn resuming_a_finished_run_changes_nothing() {
    let sandbox = sandbox();
    let run = |out: &str| sandbox.run(&flags("rows.csv", "deterministic", &["--out", out])).silent_json();
    let (first, second) = (run("first"), run("second"));
    for field in ["mass", "observations", "minibatches", "components", "matchings", "skipped_rows"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    assert_eq!(sandbox.read("first"), sandbox.read("second"));
}

#[test]
fn resuming_without_a_checkpoint_starts_anew_and_says_so() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    let run = sandbox.run(&["fit", "rows.csv", "--checkpoint", "state", "--resume", "--json"]);
    assert_mass(&run.json(), 60);
    assert_eq!(run.stderr, "no checkpoint yet: starting from the first row\n");
}

#[test]
fn the_state_of_an_earlier_run_is_not_overwritten() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    assert_mass(&sandbox.fit(&["rows.csv", "--checkpoint", "state"]), 60);
    let before = std::fs::read(sandbox.path("state/checkpoint.anabranch")).unwrap();
    let again = sandbox.run(&["fit", "rows.csv", "--checkpoint", "state"]);
    assert!(
        again.stderr.starts_with("error: --checkpoint: there is the state of an earlier run"),
        "{}",
        again.stderr
    );
    assert_eq!(std::fs::read(sandbox.path("state/checkpoint.anabranch")).unwrap(), before);
}

#[test]
fn skipped_rows_before_and_after_a_checkpoint_are_counted() {
    let bad = "inf,1\n";
    let clean = three_clusters(20, 1).csv();
    let lines: Vec<&str> = clean.lines().collect();
    let (first, second) = (lines[..31].join("\n") + "\n" + bad, lines[31..].join("\n") + "\n" + bad);
    let sandbox = Sandbox::with("half.csv", &first);
    sandbox.write("whole.csv", format!("{first}{second}"));
    let stream = ["--bootstrap", "10", "--batch-size", "10", "--on-bad-row", "skip"];
    let state = ["--checkpoint", "state", "--resume"];
    let run = |input: &str| sandbox.fit(&[&[input], &stream[..], &state].concat());
    assert_eq!(whole(&run("half.csv"), "skipped_rows"), 1);
    let result = run("whole.csv");
    assert_eq!(whole(&result, "skipped_rows"), 2);
    assert_mass(&result, 60);
}

#[test]
fn rows_outside_the_family_are_counted_across_a_checkpoint_too() {
    let first = format!("n\n{}-1\n", "4\n".repeat(29));
    let sandbox = Sandbox::with("half.csv", &first);
    sandbox.write("whole.csv", format!("{first}{}-1\n", "4\n".repeat(29)));
    let stream = ["--bootstrap", "10", "--batch-size", "10", "--on-bad-row", "skip", "--family", "poisson"];
    let run =
        |input: &str| sandbox.fit(&[&[input, "--checkpoint", "state", "--resume"], &stream[..]].concat());
    assert_eq!(whole(&run("half.csv"), "skipped_rows"), 1);
    let result = run("whole.csv");
    assert_eq!(whole(&result, "skipped_rows"), 2);
    assert_mass(&result, 58);
}

#[test]
fn a_trace_of_a_resumed_run_counts_on() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    let text = sandbox.text("rows.csv");
    sandbox.write("half.csv", text.lines().take(31).map(|line| format!("{line}\n")).collect::<String>());
    let stream = ["--bootstrap", "10", "--batch-size", "10", "--checkpoint", "state", "--resume"];
    sandbox.fit(&[&["half.csv"], &stream[..]].concat());
    sandbox.fit(&[&["rows.csv", "--trace", "trace.csv"], &stream[..]].concat());
    let trace = sandbox.text("trace.csv");
    let minibatches: Vec<&str> = trace.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(minibatches, ["4", "5", "6"]);
}

#[test]
fn another_run_than_the_checkpoints_is_refused() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    sandbox.write("short.csv", three_clusters(3, 1).csv());
    let stream = ["--bootstrap", "20", "--batch-size", "10", "--checkpoint", "state"];
    sandbox.fit(&[&["rows.csv"], &stream[..]].concat());
    let before = sandbox.read(CHECKPOINT);
    let cases: [(&[&str], &str); 8] = [
        (&["rows.csv", "--batch-size", "11"], "--batch-size 10, this run has 11"),
        (&["rows.csv", "--bootstrap", "21"], "--bootstrap 20, this run has 21"),
        (&["rows.csv", "--seed", "1"], "--seed 0, this run has 1"),
        (&["rows.csv", "--columns", "y,x"], "columns x,y, this run has y,x"),
        (&["rows.csv", "--family", "diagonal"], "--family gaussian, this run has diagonal"),
        (&["rows.csv", "--alpha", "2"], "--alpha 5, this run has 2"),
        (&["rows.csv", "--bound", "conditional"], "--bound paper, this run has conditional"),
        (&["short.csv"], "short.csv: has 9 rows, the checkpoint has learned from 60 of rows.csv"),
    ];
    for (change, message) in cases {
        // A later flag would be given twice: leave out the one that changes.
        let kept = stream.chunks(2).filter(|pair| !change.contains(&pair[0])).flatten().copied();
        let args: Vec<&str> =
            ["fit", "-q", "--resume"].into_iter().chain(change.iter().copied()).chain(kept).collect();
        let run = sandbox.run(&args);
        assert!(run.message().ends_with(message), "{}", run.stderr);
        assert!(run.stderr.contains("hint: pass the same"), "{}", run.stderr);
        assert_eq!(sandbox.read(CHECKPOINT), before, "a refused run leaves the checkpoint alone");
    }
}

#[test]
fn a_damaged_checkpoint_is_told_and_kept() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    sandbox.fit(&["rows.csv", "--checkpoint", "state"]);
    let mut bytes = sandbox.read(CHECKPOINT);
    let last = bytes.len() - 1;
    bytes[last] ^= 0x40;
    sandbox.write(CHECKPOINT, &bytes);
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--checkpoint", "state", "--resume"]);
    assert_eq!(run.message(), format!("{CHECKPOINT}: damaged: the checksum does not match"));
    assert_eq!(sandbox.read(CHECKPOINT), bytes);
}

#[test]
fn bad_rows_found_halfway_leave_a_checkpoint_to_go_on_from() {
    let text = three_clusters(20, 1).csv();
    let sandbox = Sandbox::with("rows.csv", format!("{text}oops,1\n"));
    let stream = ["--bootstrap", "20", "--batch-size", "10", "--checkpoint", "state", "--resume", "-q"];
    let run = sandbox.run(&[&["fit", "rows.csv"], &stream[..]].concat());
    assert!(run.message().contains("\"oops\" is not a number"), "{}", run.stderr);
    sandbox.write("rows.csv", format!("{text}2,1\n"));
    assert_mass(&sandbox.run(&[&["fit", "rows.csv", "--json"], &stream[..]].concat()).json(), 61);
}

/// Rows as text under a header.
fn csv(rows: &[&str]) -> String {
    std::iter::once(&"x,y").chain(rows).fold(String::new(), |text, row| text + row + "\n")
}

/// Flags under which a run goes on with whatever has been added since.
const GROWING: [&str; 8] =
    ["--bootstrap", "300", "--batch-size", "128", "--checkpoint", "state", "--resume", "--workers=1"];

#[test]
fn a_file_that_has_grown_is_read_on_from_its_first_new_row() {
    let text = three_clusters(11_000, 21).csv();
    let rows: Vec<&str> = text.lines().skip(1).collect();
    // The first minibatch alone is short, a later one is, none is; and it grows again and again.
    for (default, lengths) in [(true, &[1_000, 32_001, 33_000][..]), (false, &[200, 350, 428, 429, 5_000])] {
        let sandbox = Sandbox::new();
        for length in lengths {
            sandbox.write("rows.csv", csv(&rows[..*length]));
            let state = ["--checkpoint", "state", "--resume"];
            let flags = if default { &state[..] } else { &GROWING };
            let result = sandbox.run(&[&["fit", "rows.csv", "-q", "--json"], flags].concat()).silent_json();
            assert_mass(&result, *length as u64);
        }
    }
}

#[test]
fn arrays_and_compressed_files_that_have_grown_are_read_on_too() {
    use crate::support::data::gzip;
    let (small, large) = (three_clusters(150, 3), three_clusters(700, 3));
    let sandbox = Sandbox::new();
    for (name, before, after) in [
        ("rows.npy", small.npy(), large.npy()),
        ("rows.csv.gz", gzip(small.csv().as_bytes()), gzip(large.csv().as_bytes())),
        ("rows.parquet", small.parquet(), large.parquet()),
        ("rows.jsonl", small.jsonl().into_bytes(), large.jsonl().into_bytes()),
    ] {
        for (bytes, rows) in [(before, 450), (after, 2100)] {
            sandbox.write(name, bytes);
            let result = sandbox.run(&[&["fit", name, "-q", "--json"], &GROWING[..]].concat()).silent_json();
            assert_mass(&result, rows);
        }
        std::fs::remove_dir_all(sandbox.path("state")).unwrap();
    }
}

#[test]
fn files_that_are_added_are_read_from_their_first_row() {
    let text = three_clusters(500, 21).csv();
    let rows: Vec<&str> = text.lines().skip(1).collect();
    let sandbox = Sandbox::new();
    let days = ["day1.csv", "day2.csv", "day3.csv"];
    for (day, part) in days.iter().zip(rows.chunks(500)) {
        sandbox.write(day, csv(part));
    }
    for model in ["dp", "bp"] {
        for n in 1..=3 {
            let args = [&["fit"], &days[..n], &["--model", model, "-q", "--json"], &GROWING[..]].concat();
            assert_mass(&sandbox.run(&args).silent_json(), 500 * n as u64);
        }
        let args = |inputs: &[&'static str]| {
            [&["fit"], inputs, &["--model", model, "-q", "--json"], &GROWING[..]].concat()
        };
        let before = sandbox.read(CHECKPOINT);
        let refused = |inputs: &[&'static str], message: &str| {
            let run = sandbox.run(&args(inputs));
            assert_eq!(run.message(), message);
            assert!(run.stderr.contains("hint: "), "{}", run.stderr);
            assert_eq!(sandbox.read(CHECKPOINT), before, "a refused run leaves the checkpoint alone");
        };
        let other = "its rows are not those of day1.csv, which the checkpoint has learned from";
        refused(&["day2.csv"], &format!("day2.csv: {other}"));
        refused(&["day3.csv", "day1.csv", "day2.csv"], &format!("day3.csv: {other}"));
        refused(
            &["day1.csv", "day2.csv"],
            "the checkpoint has learned from day3.csv, which is not among the inputs",
        );
        sandbox.write("day1.csv", csv(&rows[..501]));
        let within = "has more than the 500 rows that the checkpoint has learned from before day2.csv";
        refused(&days, &format!("day1.csv: {within}"));
        sandbox.write("day1.csv", csv(&rows[..499]));
        let shorter = "has 499 rows, the checkpoint has learned from 500 of day1.csv";
        refused(&days, &format!("day1.csv: {shorter}"));
        sandbox.write("day1.csv", csv(&rows[..500]));
        std::fs::remove_dir_all(sandbox.path("state")).unwrap();
    }
}

#[test]
fn another_file_with_the_same_columns_is_refused() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(300, 1).csv());
    sandbox.write("other.csv", three_clusters(3_000, 2).csv());
    sandbox.run(&[&["fit", "rows.csv", "-q"], &GROWING[..]].concat()).ok();
    let before = sandbox.read(CHECKPOINT);
    for (input, name) in [("other.csv", "other.csv"), ("-", "standard input")] {
        let args = [&["fit", input, "-q"], &GROWING[..]].concat();
        let run = sandbox.run_with_input(&args, sandbox.read("other.csv"));
        let message =
            format!("{name}: its rows are not those of rows.csv, which the checkpoint has learned from");
        assert_eq!(run.message(), message);
        assert_eq!(sandbox.read(CHECKPOINT), before);
    }
}

#[test]
fn documents_are_counted_exactly_across_checkpoints() {
    let words = ["sun rain wind", "goal ball team", "bank loan rate"];
    let line = |ix: usize| format!("{{\"text\": \"{} {}\"}}\n", words[ix % 3], words[ix / 3 % 3]);
    let corpus = |range: std::ops::Range<usize>| range.map(line).collect::<String>();
    let sandbox = Sandbox::new();
    let run = |inputs: &[&str]| {
        let flags = ["--model", "hdp", "--bootstrap", "50", "--batch-size", "20", "-q", "--json"];
        sandbox.run(&[&["fit"], inputs, &flags[..], &["--checkpoint", "state", "--resume"]].concat())
    };
    sandbox.write("a.jsonl", corpus(0..33));
    assert_eq!(whole(&run(&["a.jsonl"]).silent_json(), "observations"), 33);
    sandbox.write("a.jsonl", corpus(0..155));
    assert_eq!(whole(&run(&["a.jsonl"]).silent_json(), "observations"), 155);
    sandbox.write("b.jsonl", corpus(1..201));
    assert_eq!(whole(&run(&["a.jsonl", "b.jsonl"]).silent_json(), "observations"), 355);
    let message = "b.jsonl: its rows are not those of a.jsonl, which the checkpoint has learned from";
    assert_eq!(run(&["b.jsonl"]).message(), message);
}
