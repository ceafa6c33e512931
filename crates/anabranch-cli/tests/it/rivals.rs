//! The other algorithms through the command: the same flags, report, trace, model file and wish to stop.

use crate::support::data::three_clusters;
use crate::support::{Sandbox, assert_mass, number, whole};

const ALGORITHMS: [&str; 5] = ["batch", "svi", "movb", "sva", "subcluster"];

/// Small enough for a test, large enough for three clusters.
fn small(algorithm: &str) -> Vec<&'static str> {
    let mut flags = vec!["--truncation", "20"];
    if ["svi", "movb", "sva"].contains(&algorithm) {
        flags.extend(["--batch-size", "50"]);
    }
    if algorithm != "sva" {
        flags.extend(["--iterations", "15"]);
    }
    flags
}

fn fitted(algorithm: &str, flags: &[&str]) -> (Sandbox, serde_json::Value) {
    let sandbox = Sandbox::with("rows.csv", three_clusters(200, 1).csv());
    sandbox.write("test.csv", three_clusters(100, 2).csv());
    let fixed = ["fit", "rows.csv", "--quiet", "--json", "--algorithm", algorithm];
    let args = [&fixed, &small(algorithm)[..], flags].concat();
    let result = sandbox.run(&args).silent_json();
    (sandbox, result)
}

#[test]
fn every_algorithm_reports_like_the_engine_and_its_model_is_an_ordinary_one() {
    for algorithm in ALGORITHMS {
        let (sandbox, result) = fitted(algorithm, &["--test", "test.csv", "--out", "model"]);
        assert_eq!(result["algorithm"], algorithm);
        assert_mass(&result, 600);
        assert_eq!(result["stopped"], false);
        assert!(whole(&result, "minibatches") > 0, "{result}");
        assert!(number(&result, "test_log_likelihood").is_finite());
        let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
        assert_eq!(model["algorithm"], algorithm);
        assert_eq!(model["components"].as_array().unwrap().len() as u64, whole(&result, "components"));
        let labels = sandbox.run(&["predict", "model", "rows.csv"]);
        assert_eq!(labels.ok().lines().count(), 601, "a header and a label for each row");
        let drawn = sandbox.run(&["sample", "model", "-n", "5"]);
        assert_eq!(drawn.ok().lines().count(), 6);
    }
}

#[test]
fn all_find_the_three_clusters_with_the_prior_of_the_engine() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(200, 1).csv());
    sandbox.write("test.csv", three_clusters(100, 2).csv());
    let engine = sandbox.fit(&["rows.csv", "--test", "test.csv"]);
    for algorithm in ALGORITHMS {
        let (_sandbox, result) = fitted(algorithm, &["--test", "test.csv"]);
        let (found, expected) =
            (number(&result, "test_log_likelihood"), number(&engine, "test_log_likelihood"));
        // A missed cluster costs more than half a nat.
        assert!(found > expected - 0.3, "{algorithm}: {found}, the engine {expected}");
    }
}

#[test]
fn traces_have_held_out_likelihoods_and_end_with_the_model() {
    for algorithm in ALGORITHMS {
        let (sandbox, result) =
            fitted(algorithm, &["--test", "test.csv", "--trace", "trace.csv", "--report", "report"]);
        let trace = sandbox.text("trace.csv");
        let last: Vec<&str> = trace.lines().last().unwrap().split(',').collect();
        assert_eq!(last[1].parse::<u64>().unwrap(), whole(&result, "minibatches"), "{algorithm}");
        let likelihood: f64 = last[5].parse().unwrap();
        assert!((likelihood - number(&result, "test_log_likelihood")).abs() < 1e-9, "{algorithm}");
        assert!(sandbox.path("report/report.html").exists());
    }
}

#[test]
fn families_other_than_the_gaussian_are_learned_too() {
    let rows: String = (0..200).map(|i| if i % 2 == 0 { "1,1,0\n" } else { "0,0,1\n" }).collect();
    for algorithm in ALGORITHMS {
        let sandbox = Sandbox::with("bits.csv", format!("a,b,c\n{rows}"));
        let flags =
            ["fit", "bits.csv", "--quiet", "--json", "--family", "bernoulli", "--algorithm", algorithm];
        let result = sandbox.run(&[&flags[..], &small(algorithm)].concat()).silent_json();
        assert_mass(&result, 200);
        assert!(whole(&result, "effective_components") >= 2, "{algorithm}: {result}");
    }
}

#[test]
fn a_run_that_is_stopped_writes_its_model() {
    use std::time::{Duration, Instant};
    /// Longest wait; a machine this slow is broken.
    const PATIENCE: Duration = Duration::from_secs(60);
    for algorithm in ["batch", "svi", "movb", "subcluster"] {
        let sandbox = Sandbox::with("rows.csv", three_clusters(2000, 1).csv());
        let args = ["fit", "rows.csv", "--json", "--quiet", "--algorithm", algorithm, "--out", "model"];
        // Years of iterations; the trace shows that the first one is done.
        let endless =
            ["--iterations", "1000000", "--truncation", "40", "--trace", "trace.csv", "--seed", "5"];
        let mut command = sandbox.command(&[&args[..], &endless].concat());
        let child = command.spawn().unwrap();
        let started = Instant::now();
        while !sandbox.path("trace.csv").exists() {
            assert!(started.elapsed() < PATIENCE, "the run does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        let result = crate::support::Run::of(child).json();
        // A run may have converged before the signal came; its model is complete either way.
        assert_mass(&result, whole(&result, "observations"));
        let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
        assert_eq!(model["mass"], result["mass"], "{algorithm}");
    }
}

#[test]
fn what_only_the_engine_can_do_is_refused() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    let run = sandbox.run(&["fit", "rows.csv", "--algorithm", "batch", "--checkpoint", "state"]);
    assert!(run.message().starts_with("--checkpoint belongs to --algorithm sda"), "{}", run.stderr);
    let run = sandbox.run(&["fit", "rows.csv", "--algorithm", "svi", "--rate-power", "2"]);
    assert!(run.message().contains("--rate-delay and --rate-power"), "{}", run.stderr);
}
