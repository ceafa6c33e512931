//! Where results go: links, devices, full disks, folders that vanish, and runs that meet in one folder.

use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::data::three_clusters;
use crate::support::{Run, Sandbox, assert_mass, whole};

/// Longest wait; a machine this slow is broken.
const PATIENCE: Duration = Duration::from_secs(60);

fn sandbox() -> Sandbox {
    Sandbox::with("rows.csv", three_clusters(100, 1).csv())
}

#[test]
fn a_model_written_to_a_link_or_a_device_leaves_them_what_they_are() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("models")).unwrap();
    symlink("models/today", sandbox.path("newest")).unwrap();
    symlink("/dev/null", sandbox.path("nowhere")).unwrap();
    sandbox.fit(&["rows.csv", "--out", "newest", "--trace", "nowhere", "--test", "rows.csv"]);
    sandbox.fit(&["rows.csv", "--out", "/dev/null"]);
    sandbox.fit(&["rows.csv", "--out", "nowhere"]);
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(std::fs::symlink_metadata(sandbox.path("newest")).unwrap().is_symlink());
    let model = sandbox.run(&["inspect", "models/today", "--json"]).silent_json();
    assert_eq!(whole(&model, "observations"), 300);
}

/// A disk that is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_the_other_files_are_written() {
    let sandbox = sandbox();
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--trace", "/dev/full", "--out", "model"]);
    assert_eq!(run.message(), "--trace /dev/full: No space left on device (os error 28)");
    let sandbox = Sandbox::with("rows.csv", three_clusters(100, 1).csv());
    sandbox.run(&["fit", "rows.csv", "-q", "--out", "/dev/full"]).refusal();
    let folder = sandbox.run(&["fit", "rows.csv", "-q", "--out", "/dev/full", "--report", "report"]);
    assert_eq!(folder.message(), "/dev/full: No space left on device (os error 28)");
    assert!(sandbox.path("report/report.html").exists());
}

#[test]
fn a_checkpoint_folder_that_vanishes_does_not_lose_the_model() {
    for model in ["dp", "bp", "hdp"] {
        let sandbox = sandbox();
        let documents = "{\"text\": \"sun and rain and wind\"}\n".repeat(300);
        let rows = sandbox.text("rows.csv");
        let text = if model == "hdp" { &documents } else { &rows };
        let flags =
            ["fit", "-", "--model", model, "--bootstrap", "100", "--batch-size", "50", "--out", "model"];
        let state = ["--checkpoint", "state/of/run", "--checkpoint-every", "0", "-q"];
        let mut child =
            sandbox.command(&[&flags[..], &state].concat()).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().expect("it was piped");
        let (first, second) = text.split_at(text[..text.len() / 2].rfind('\n').unwrap() + 1);
        std::io::Write::write_all(&mut stdin, first.as_bytes()).unwrap();
        wait_for(|| sandbox.path("state/of/run/checkpoint.anabranch").exists());
        // The next state may be written while the folder goes.
        wait_for(|| std::fs::remove_dir_all(sandbox.path("state")).is_ok());
        std::io::Write::write_all(&mut stdin, second.as_bytes()).unwrap();
        drop(stdin);
        let run = Run::of(child);
        assert_eq!(run.code, 1, "{}", run.transcript());
        assert!(
            run.stderr.starts_with("warning: the state cannot be saved, the run goes on: "),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains("error: state/of/run/checkpoint.anabranch: "), "{}", run.stderr);
        let saved = sandbox.run(&["inspect", "model", "--json"]).silent_json();
        assert_eq!(whole(&saved, "observations"), 300, "{model}");
    }
}

#[test]
fn every_failure_of_the_end_is_told() {
    let sandbox = sandbox();
    for model in ["dp", "bp"] {
        let _ = std::fs::remove_dir_all(sandbox.path("out"));
        std::fs::create_dir(sandbox.path("out")).unwrap();
        let files =
            ["--out", "out/later", "--report", "out/report", "--bootstrap", "50", "--batch-size", "50"];
        let state = ["--checkpoint", "out/state", "--checkpoint-every", "0"];
        let args = [&["fit", "-", "-q", "--model", model], &files[..], &state].concat();
        let mut child = sandbox.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().expect("it was piped");
        std::io::Write::write_all(&mut stdin, &sandbox.read("rows.csv")[..2000]).unwrap();
        // The places are looked at before the first minibatch; spoil them only then.
        wait_for(|| sandbox.path("out/state/checkpoint.anabranch").exists());
        std::fs::create_dir(sandbox.path("out/later")).unwrap();
        std::fs::write(sandbox.path("out/report"), "").unwrap();
        std::io::Write::write_all(&mut stdin, &sandbox.read("rows.csv")[2000..]).unwrap();
        drop(stdin);
        let run = Run::of(child);
        assert_eq!(run.code, 1, "{}", run.transcript());
        let errors: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(errors.len() == 2 && errors[0].contains("out/later"), "{errors:?}");
        assert!(errors[1].contains("out/report"), "{errors:?}");
    }
}

fn wait_for(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "the run makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn two_runs_do_not_share_a_checkpoint_folder_and_a_dead_one_does_not_hold_it() {
    let sandbox = sandbox();
    let flags =
        ["--bootstrap", "100", "--batch-size", "50", "--checkpoint", "state", "--checkpoint-every", "0"];
    let args = [&["fit", "-", "-q", "--json", "--resume"], &flags[..]].concat();
    let mut child = sandbox.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().expect("it was piped");
    std::io::Write::write_all(&mut stdin, &sandbox.read("rows.csv")).unwrap();
    wait_for(|| sandbox.path("state/checkpoint.anabranch").exists());
    let documents = "{\"text\": \"sun and rain\"}\n".repeat(30);
    sandbox.write("documents.jsonl", documents);
    for other in [["rows.csv", "dp"], ["rows.csv", "bp"], ["documents.jsonl", "hdp"]] {
        let [input, model] = other;
        let second = sandbox.run(&[&["fit", input, "--model", model, "--resume"], &flags[..]].concat());
        assert_eq!(second.message(), "--checkpoint state: another run is at work there", "{other:?}");
        assert!(second.stderr.contains("hint: wait until it ends, or name another folder"));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let args = [&["fit", "rows.csv", "-q", "--json", "--resume"], &flags[..]].concat();
    assert_mass(&sandbox.run(&args).silent_json(), 300);
}

#[test]
fn what_a_killed_run_was_writing_is_cleaned_up_by_the_next() {
    let sandbox = sandbox();
    sandbox.write(".model.00112233aabbccdd.tmp", "half a model");
    sandbox.fit(&["rows.csv", "--out", "model"]);
    assert!(!sandbox.path(".model.00112233aabbccdd.tmp").exists());
}

#[test]
fn a_model_that_is_replaced_keeps_its_permissions() {
    let sandbox = Sandbox::with_model();
    std::fs::set_permissions(sandbox.path("model"), std::fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.fit(&["rows.csv", "--out", "model"]);
    assert_eq!(std::fs::metadata(sandbox.path("model")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn results_never_replace_the_rows_that_they_are_made_of() {
    let sandbox = sandbox();
    let rows = sandbox.text("rows.csv");
    sandbox.run(&["fit", "rows.csv", "-q", "--out", "model"]).ok();
    std::os::unix::fs::symlink(sandbox.path("rows.csv"), sandbox.path("link.csv")).unwrap();
    for (flags, message) in [
        (vec!["fit", "rows.csv", "--out", "rows.csv"], "--out rows.csv: rows are read from rows.csv"),
        (vec!["fit", "rows.csv", "--out", "link.csv"], "--out link.csv: rows are read from rows.csv"),
        (
            vec!["fit", "rows.csv", "--events", "./rows.csv"],
            "--events ./rows.csv: rows are read from rows.csv",
        ),
        (vec!["fit", "rows.csv", "--trace", "rows.csv"], "--trace rows.csv: rows are read from rows.csv"),
        (vec!["fit", "rows.csv", "--out", "m", "--events", "m"], "--out and --events name the same file m"),
        (
            vec!["predict", "model", "rows.csv", "--out", "rows.csv"],
            "--out rows.csv: rows are read from rows.csv",
        ),
        (
            vec!["impute", "model", "rows.csv", "--out", "rows.csv"],
            "--out rows.csv: rows are read from rows.csv",
        ),
    ] {
        assert_eq!(sandbox.run(&flags).message(), message);
    }
    assert_eq!(sandbox.text("rows.csv"), rows);
}
