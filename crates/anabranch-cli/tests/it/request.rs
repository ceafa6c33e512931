//! Every flag of `fit` with every model and algorithm: it is refused by its name before a file is opened, or it does something.

use std::collections::BTreeMap;

use crate::support::data::three_clusters;
use crate::support::{Run, Sandbox};

/// How a flag is tried.
struct Trial {
    flag: &'static str,
    /// Words that must make a difference.
    words: &'static [&'static str],
    /// Words that both runs have.
    with: &'static [&'static str],
    seen: Seen,
}

/// Where the difference is seen.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    /// In the result, the files or the message.
    Here,
    /// In the same, on input with a bad row.
    OnBadRows,
    /// In the same, on input with a missing value.
    OnMissing,
    /// By other tests: only whether it is accepted is told here.
    Elsewhere,
}

const fn trial(flag: &'static str, words: &'static [&'static str]) -> Trial {
    Trial { flag, words, with: &[], seen: Seen::Here }
}

/// Flags whose words are all there is to say.
const TRIALS: &[Trial] = &[
    trial("format", &["--format", "npy"]),
    trial("columns", &["--columns", "x"]),
    Trial { seen: Seen::OnBadRows, ..trial("on_bad_row", &["--on-bad-row", "skip"]) },
    Trial { seen: Seen::OnMissing, ..trial("missing", &["--missing", "skip"]) },
    Trial { seen: Seen::OnMissing, ..trial("missing_informative", &["--missing-informative"]) },
    trial("header", &["--header", "no"]),
    trial("delimiter", &["--delimiter", ";"]),
    // Small input fits into any memory: `memory.rs`.
    Trial { seen: Seen::Elsewhere, ..trial("max_memory", &["--max-memory", "1G"]) },
    trial("family", &["--family", "diagonal"]),
    // With every model and algorithm in turn.
    Trial { seen: Seen::Elsewhere, ..trial("model", &[]) },
    Trial { seen: Seen::Elsewhere, ..trial("algorithm", &[]) },
    trial("alpha", &["--alpha", "9"]),
    trial("discount", &["--discount", "0.3"]),
    trial("vocabulary", &["--vocabulary", "words.txt"]),
    trial("text", &["--text", "tokens"]),
    trial("stop_words", &["--stop-words", "none"]),
    trial("min_length", &["--min-length", "3"]),
    trial("min_documents", &["--min-documents", "20"]),
    trial("max_documents", &["--max-documents", "0.4"]),
    trial("vocabulary_size", &["--vocabulary-size", "8"]),
    trial("phrases", &["--phrases"]),
    trial("gamma", &["--gamma", "3"]),
    trial("alpha0", &["--alpha0", "3"]),
    trial("eta", &["--eta", "0.9"]),
    trial("noise", &["--noise", "0.5"]),
    trial("feature_scale", &["--feature-scale", "0.5"]),
    trial("image", &["--image", "7x7", "--report", "report"]),
    trial("prior", &["--prior", "auto", "--prior-kappa", "1"]),
    trial("prior_mean", &["--prior-mean", "1"]),
    trial("prior_kappa", &["--prior-kappa", "0.5"]),
    trial("prior_scale", &["--prior-scale", "3"]),
    trial("prior_dof", &["--prior-dof", "9"]),
    trial("resolution", &["--resolution", "0.5"]),
    trial("threads", &["--threads", "2"]),
    trial("seed", &["--seed", "7"]),
    trial("bootstrap", &["--bootstrap", "30"]),
    trial("batch_size", &["--batch-size", "16"]),
    Trial { with: &["--bootstrap", "0"], ..trial("max_new", &["--max-new", "1"]) },
    trial("max_components", &["--max-components", "1"]),
    Trial { with: &["--bootstrap", "30"], ..trial("half_life", &["--half-life", "20"]) },
    Trial { with: &["--bootstrap", "30"], ..trial("time", &["--time", "1", "--half-life", "20s"]) },
    // One thread has one order: `tests/determinism.rs` of the core.
    Trial { seen: Seen::Elsewhere, ..trial("schedule", &["--schedule", "deterministic"]) },
    trial("workers", &["--workers", "3"]),
    trial("passes", &["--passes", "2"]),
    Trial { with: &["--bootstrap", "30"], ..trial("polish", &["--polish"]) },
    trial("checkpoint", &["--checkpoint", "state"]),
    trial("checkpoint_every", &["--checkpoint-every", "nan", "--checkpoint", "state"]),
    // What goes on from where: `resume.rs`.
    Trial { seen: Seen::Elsewhere, ..trial("resume", &["--resume", "--checkpoint", "state"]) },
    // A model is needed: `going_on.rs`.
    Trial { seen: Seen::Elsewhere, ..trial("from", &["--from", "model"]) },
    trial("test", &["--test", "held-out"]),
    trial("labels", &["--labels", "labels.csv"]),
    trial("out", &["--out", "other"]),
    trial("trace", &["--trace", "trace.csv"]),
    trial("report", &["--report", "report"]),
    trial("events", &["--events", "events.jsonl"]),
    // A slow stream is needed: `early.rs`.
    Trial { seen: Seen::Elsewhere, ..trial("first_after", &["--first-after", "1s", "--out", "model"]) },
    Trial { seen: Seen::Elsewhere, ..trial("out_every", &["--out-every", "1s", "--out", "model"]) },
    // Nearly every test reads it.
    Trial { seen: Seen::Elsewhere, ..trial("json", &["--json"]) },
    // Progress is shown after seconds.
    Trial { seen: Seen::Elsewhere, ..trial("quiet", &["--quiet"]) },
    // A server is needed: `tests/cluster`.
    Trial { seen: Seen::Elsewhere, ..trial("cluster", &["--cluster", "nats://127.0.0.1:1"]) },
    trial("job", &["--job", "a"]),
    trial("creds", &["--creds", "a"]),
    trial("nkey", &["--nkey", "a"]),
    trial("tls_ca", &["--tls-ca", "a"]),
    trial("tls_cert", &["--tls-cert", "a", "--tls-key", "b"]),
    trial("tls_key", &["--tls-key", "a", "--tls-cert", "b"]),
    trial("truncation", &["--truncation", "1"]),
    trial("iterations", &["--iterations", "1"]),
    trial("rate_delay", &["--rate-delay", "90"]),
    trial("rate_power", &["--rate-power", "0.9"]),
    trial("identify", &["--identify", "off"]),
    trial("bound", &["--bound", "conditional"]),
    // The labels are the same: `tests/answers.rs` of the core.
    Trial { seen: Seen::Elsewhere, ..trial("precision", &["--precision", "f64"]) },
];

/// What a run leaves behind that depends on nothing but its input and flags.
#[derive(Debug, PartialEq)]
struct Traces {
    code: i32,
    message: String,
    result: BTreeMap<String, serde_json::Value>,
    text: bool,
    files: Vec<String>,
    model: Option<Vec<u8>>,
}

impl Traces {
    fn of(run: &Run, sandbox: &Sandbox) -> Self {
        let result = serde_json::from_str::<BTreeMap<String, serde_json::Value>>(&run.stdout);
        let is_clock = |name: &str| name.ends_with("seconds") || name.ends_with("bytes");
        let files = std::fs::read_dir(sandbox.path(".")).unwrap();
        let mut files: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        Self {
            code: run.code,
            message: run.stderr.clone(),
            text: result.is_err(),
            result: result.unwrap_or_default().into_iter().filter(|(name, _)| !is_clock(name)).collect(),
            files,
            model: std::fs::read(sandbox.path("model")).ok(),
        }
    }
}

/// Words that every run has, but for the flag that is tried.
const BASE: [(&str, &[&str]); 4] = [
    ("threads", &["--threads", "1"]),
    ("json", &["--json"]),
    ("quiet", &["--quiet"]),
    ("out", &["--out", "model"]),
];

fn words(kind: &[&'static str], trial: &Trial, tried: bool) -> Vec<&'static str> {
    let base = BASE.iter().filter(|(flag, _)| !tried || *flag != trial.flag).flat_map(|(_, words)| *words);
    let own = trial.words.iter().filter(|_| tried);
    kind.iter().chain(base).chain(trial.with).chain(own).copied().collect()
}

fn run(kind: &[&'static str], trial: &Trial, tried: bool) -> Traces {
    let (name, held_out, good, bad) = match kind.contains(&"hdp") {
        true => ("docs.jsonl", "held-out.jsonl", documents(), "{\"tokens\": 3}\n"),
        false => ("rows.csv", "held-out.csv", three_clusters(20, 1).csv(), "1,oops\n"),
    };
    let bad = match trial.seen {
        Seen::OnBadRows => bad,
        Seen::OnMissing => "1,\n",
        Seen::Here | Seen::Elsewhere => "",
    };
    let sandbox = Sandbox::with(name, format!("{good}{bad}"));
    sandbox.write(held_out, good);
    sandbox.write("labels.csv", "0\n1\n2\n".repeat(20));
    sandbox.write("words.txt", (0..13).map(|word| format!("w{word}\n")).collect::<String>());
    let words = words(kind, trial, tried);
    let words = words.iter().map(|word| if *word == "held-out" { held_out } else { word });
    let words: Vec<&str> = ["fit", name].into_iter().chain(words).collect();
    Traces::of(&sandbox.run(&words), &sandbox)
}

/// Documents of two subjects as JSON lines.
fn documents() -> String {
    let words =
        |ix: usize| (0..8).map(|w| format!("\"w{}\"", (ix % 2) * 6 + (w * (ix + 1)) % 6)).collect::<Vec<_>>();
    (0..60).map(|ix| format!("{{\"tokens\": [{}]}}\n", words(ix).join(","))).collect()
}

fn walk(kind: &[&'static str]) {
    let mut ignored = Vec::new();
    for trial in TRIALS.iter().filter(|trial| !trial.words.is_empty()) {
        let flag = format!("--{} ", trial.flag.replace('_', "-"));
        // No such file: what refuses the flag has opened nothing.
        let refused = Sandbox::new().run(&[&["fit", "nowhere.csv"], &words(kind, trial, true)[..]].concat());
        if refused.message().starts_with(&flag) || trial.seen == Seen::Elsewhere {
            continue;
        }
        let (without, with) = (run(kind, trial, false), run(kind, trial, true));
        if without == with {
            ignored.push(trial.words.join(" "));
        }
        // A message about something else would prove nothing; a file read in another way is told by its cells.
        let told = trial.words.iter().any(|word| with.message.contains(word));
        let read_otherwise = ["format", "header", "delimiter"].contains(&trial.flag);
        assert!(with.code == 0 || told || read_otherwise, "{kind:?} {:?}: {}", trial.words, with.message);
    }
    assert!(ignored.is_empty(), "{kind:?} accepts and ignores {ignored:#?}");
}

#[test]
fn every_flag_of_fit_is_tried() {
    let command = anabranch_cli::request::command();
    let fit = command.find_subcommand("fit").unwrap();
    for arg in fit.get_arguments().filter(|arg| !arg.is_positional()) {
        let flag = arg.get_id().as_str();
        assert!(TRIALS.iter().any(|trial| trial.flag == flag), "say how {flag} is tried");
    }
}

#[test]
fn no_flag_is_ignored_by_mixtures() {
    walk(&["--model", "dp"]);
    walk(&["--model", "py"]);
}

#[test]
fn no_flag_is_ignored_by_topics() {
    walk(&["--model", "hdp"]);
}

#[test]
fn no_flag_is_ignored_by_features() {
    walk(&["--model", "bp"]);
}

#[test]
fn no_flag_is_ignored_by_the_other_algorithms() {
    for algorithm in ["batch", "svi", "movb", "sva", "subcluster"] {
        walk(&["--algorithm", algorithm]);
    }
}

#[test]
fn a_flag_that_does_not_apply_names_what_it_belongs_to() {
    let flags: [(&[&str], &str); 12] = [
        (&["--eta", "0.3"], "--eta belongs to --model hdp; this is --model dp"),
        (&["--model", "bp", "--trace", "t.csv"], "--trace belongs to --model dp or py; this is --model bp"),
        (
            &["--model", "bp", "--algorithm", "svi"],
            "--algorithm svi belongs to --model dp; this is --model bp",
        ),
        (
            &["--model", "py", "--algorithm", "svi"],
            "--algorithm svi belongs to --model dp; this is --model py",
        ),
        (&["--discount", "0.1"], "--discount belongs to --model py; this is --model dp"),
        (&["--rate-power", "0.9"], "--rate-power belongs to --algorithm svi; this is --algorithm sda"),
        (&["--polish", "--identify", "off"], "--polish belongs to --identify on; this is --identify off"),
        (&["--creds", "a"], "--creds belongs to --cluster"),
        (&["--cluster", "nats://127.0.0.1:1", "--workers", "2"], "--workers does not go with --cluster"),
        (
            &["--cluster", "nats://127.0.0.1:1", "--bootstrap", "0"],
            "--bootstrap 0 does not go with --cluster",
        ),
        (
            &["--cluster", "nats://127.0.0.1:1", "--model", "hdp", "--passes", "2"],
            "--passes does not go with --cluster",
        ),
        (
            &["--family", "poisson", "--prior-dof", "3"],
            "--prior-dof belongs to --family gaussian, diagonal or spherical; this is --family poisson",
        ),
    ];
    for (flags, message) in flags {
        let run = Sandbox::new().run(&[&["fit", "nowhere.csv"], flags].concat());
        assert_eq!(run.message(), message);
    }
    let demo = Sandbox::new().run(&["demo", "--model", "bp", "--clusters", "3"]);
    assert_eq!(demo.message(), "--clusters belongs to --model dp, py or hdp; this is --model bp");
    let submit = Sandbox::new().run(&["submit", "nowhere.csv", "--job", "a", "--discount", "0.1"]);
    assert_eq!(submit.message(), "--discount belongs to --model py; this is --model dp");
    let submit = Sandbox::new().run(&["submit", "nowhere.csv", "--job", "a", "--model", "bp", "--eta", "1"]);
    assert_eq!(submit.message(), "--eta belongs to --model hdp; this is --model bp");
    let submit =
        Sandbox::new().run(&["submit", "nowhere.npz", "--job", "a", "--model", "hdp", "--alpha", "1"]);
    assert_eq!(submit.message(), "--alpha belongs to --model dp, py or bp; this is --model hdp");
}

#[test]
fn a_slip_is_answered_with_a_flag_of_the_same_command() {
    let slips = [
        ("fit", "--polsh", "--polish"),
        ("fit", "--bath-size", "--batch-size"),
        ("predict", "--scroe", "--score"),
        ("clusters", "--vally", "--valley"),
        ("submit", "--replica", "--replicas"),
        ("fit", "--ouput", "--out"),
        ("predict", "--output", "--out"),
        ("fit", "--lables", "--labels"),
    ];
    for (command, slip, meant) in slips {
        let run = Sandbox::new().run(&[command, "a", slip]);
        assert_eq!(run.message(), format!("`anabranch {command}` has no flag {slip}"));
        assert!(run.stderr.contains(&format!("did you mean {meant}?")), "{}", run.stderr);
    }
    let run = Sandbox::new().run(&["fti", "a"]);
    assert!(run.stderr.contains("did you mean `anabranch fit`?"), "{}", run.stderr);
}

#[test]
fn who_asks_for_a_number_of_clusters_is_told_how_to_get_it() {
    for flag in ["--clusters", "--n-components", "--k", "-k"] {
        let run = Sandbox::new().run(&["fit", "a", flag, "4"]);
        assert_eq!(run.message(), format!("`anabranch fit` has no flag {flag}"));
        assert!(run.stderr.contains("--max-components K bounds it"), "{}", run.stderr);
    }
}
