//! What the command says about itself, and where it says it.

use crate::support::data::three_clusters;
use crate::support::{FIXED, Sandbox};

/// Compares with the files in `snapshots/`, exit code and standard error included.
fn assert_transcript(name: &str, args: &[&str]) {
    let transcript = Sandbox::new().run(args).transcript();
    insta::assert_snapshot!(name, transcript);
}

#[test]
fn help_of_the_program() {
    assert_transcript("help", &["--help"]);
    assert_transcript("no_command", &[]);
}

#[test]
fn help_of_every_command() {
    let commands = [
        "demo",
        "fit",
        "predict",
        "impute",
        "inspect",
        "clusters",
        "merge",
        "sample",
        "experiment",
        "submit",
        "worker",
        "pull",
        "status",
        "watch",
        "jobs",
        "pause",
        "resume",
        "dead",
        "delete",
        "completions",
    ];
    for command in commands {
        assert_transcript(&format!("help_{command}"), &[command, "--help"]);
    }
    assert_transcript("short_help_fit", &["fit", "-h"]);
}

#[test]
fn the_version_is_that_of_the_package() {
    let run = Sandbox::new().run(&["--version"]);
    assert_eq!(run.ok(), concat!("anabranch ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let run = Sandbox::new().run(&["completions", shell]);
        assert!(run.ok().contains("on-bad-row"), "{shell} knows the flags");
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["man", "pages"]).ok(), "");
    let page = |name: &str| std::fs::read_to_string(sandbox.path(format!("pages/{name}.1"))).unwrap();
    assert!(page("anabranch").contains(".TH anabranch 1"), "{}", page("anabranch"));
    assert!(page("anabranch-fit").contains("half\\-life"), "{}", page("anabranch-fit"));
    assert!(!sandbox.path("pages/anabranch-man.1").exists());
}

#[test]
fn slips_of_the_keyboard_are_the_users_to_mend() {
    assert_transcript("unknown_command", &["fitt", "rows.csv"]);
    assert_transcript("unknown_flag", &["fit", "rows.csv", "--aplha", "1"]);
    assert_transcript("missing_input", &["fit"]);
    assert_transcript("unknown_family", &["fit", "rows.csv", "--family", "gausian"]);
    assert_transcript("unknown_value", &["fit", "rows.csv", "--schedule", "sometimes"]);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let flags: [(&[&str], &str); 3] = [
        (&["--model", "py", "--discount", "1"], "--discount: discount d = 1 is not in [0, 1)"),
        (
            &["--format", "ldac"],
            "--format: these are documents, not rows\nhint: documents are fitted with --model hdp",
        ),
        (
            &["--format", "uci"],
            "--format: these are documents, not rows\nhint: documents are fitted with --model hdp",
        ),
    ];
    let sandbox = Sandbox::with("rows.csv", "x\n1\n2\n");
    for (flags, message) in flags {
        assert_eq!(sandbox.run(&[&["fit", "rows.csv"], flags].concat()).refusal(), message);
    }
}

fn small_fit(flags: &[&str]) -> (Sandbox, crate::support::Run) {
    let sandbox = Sandbox::with("rows.csv", three_clusters(50, 1).csv());
    let run = sandbox.run(&[&["fit", "rows.csv"], &FIXED[..], flags].concat());
    (sandbox, run)
}

#[test]
fn nothing_is_coloured_when_nobody_watches() {
    for run in [small_fit(&[]).1, Sandbox::new().run(&["--help"]), Sandbox::new().run(&["fit", "--nonsense"])]
    {
        assert!(!run.transcript().contains('\u{1b}'), "{}", run.transcript());
    }
}

#[test]
fn quiet_says_nothing_on_standard_error() {
    let sandbox = Sandbox::with("rows.csv", "x,y\n1,2\n3,oops\n5,6\n");
    let run =
        sandbox.run(&["fit", "rows.csv", "--quiet", "--on-bad-row", "skip", "--checkpoint", "c", "--resume"]);
    assert!(run.ok().contains("1 bad row skipped"), "{}", run.stdout);
    assert_eq!(run.stderr, "");
}

#[test]
fn the_summary_is_a_few_lines_for_people() {
    let (_sandbox, run) = small_fit(&["--out", "model", "--threads", "2"]);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+\.\d\d s on", "[seconds] s on");
    settings.add_filter(r"\d+\.\d\d processor", "[seconds] processor");
    settings.bind(|| insta::assert_snapshot!("summary", run.transcript()));
}

#[test]
fn the_demo_writes_its_report_where_it_is_told() {
    let sandbox = Sandbox::new();
    let flags = ["--rows", "2000", "--clusters", "4", "--report", "here", "--json", "--quiet"];
    let result = sandbox.run(&[&["demo"], &flags[..], &FIXED].concat()).silent_json();
    assert_eq!(result["observations"], 2000);
    assert!(result["adjusted_rand"].is_number() && result["test_log_likelihood"].is_number());
    assert!(sandbox.path("here/report.html").is_file());
}
