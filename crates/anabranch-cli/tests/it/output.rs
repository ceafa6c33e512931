//! `predict`, `inspect` and `sample`: what goes to standard output, and who may stop reading it.

use std::io::Read;
use std::process::Stdio;

use crate::support::data::three_clusters;
use crate::support::{FIXED, Run, Sandbox};

#[test]
fn labels_are_component_ids_and_follow_the_clusters() {
    let sandbox = Sandbox::with_model();
    let run = sandbox.run(&["predict", "model", "rows.csv"]);
    let labels = run.column("component");
    let truth = three_clusters(100, 1).labels;
    assert_eq!(labels.len(), truth.len());
    for (label, cluster) in labels.iter().zip(truth) {
        assert_eq!(*label, labels[cluster], "the first three rows are one of each cluster");
    }
    assert_eq!(run.stderr, "");
}

#[test]
fn probabilities_add_up_to_one_and_name_their_components() {
    /// The probabilities are a softmax over a few components.
    const ROUNDING: f64 = 1e-9;
    let sandbox = Sandbox::with_model();
    let all = sandbox.run(&["predict", "model", "rows.csv", "--proba=all"]);
    let mut lines = all.ok().lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert!(
        names[..3] == ["row", "component", "cluster"] && names[3..].iter().all(|name| name.starts_with("p_")),
        "{names:?}"
    );
    for line in lines {
        let row: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(row.len(), names.len());
        assert!((row[3..].iter().sum::<f64>() - 1.0).abs() < ROUNDING, "{line}");
    }
    let two = sandbox.run(&["predict", "model", "rows.csv", "--proba=2", "--score"]);
    let header = "row,component,cluster,log_density,component_1,probability_1,component_2,probability_2";
    assert_eq!(two.ok().lines().next(), Some(header));
    assert_eq!(two.column("component"), two.column("component_1"));
    let first = |name: &str| two.column(name)[0].parse::<f64>().unwrap();
    assert!(first("probability_1") >= first("probability_2"));
    let json = sandbox.run(&["predict", "model", "rows.csv", "--proba=1", "--json"]);
    let object: serde_json::Value = serde_json::from_str(json.ok().lines().next().unwrap()).unwrap();
    let (best, chances) = (object["component"].to_string(), object["probabilities"].as_object().unwrap());
    assert_eq!(chances.keys().collect::<Vec<_>>(), [&best]);
    let wrong = sandbox.run(&["predict", "model", "rows.csv", "--proba=0"]);
    assert!(wrong.code != 0 && wrong.stderr.contains("a number from 1, or `all`"), "{}", wrong.stderr);
}

#[test]
fn a_row_far_away_has_a_lower_density_than_any_row_of_the_data() {
    let sandbox = Sandbox::with_model();
    sandbox.write("far.csv", "x,y\n500,500\n");
    let scores = |file: &str| -> Vec<f64> {
        let run = sandbox.run(&["predict", "model", file, "--score"]);
        run.column("log_density").iter().map(|cell| cell.parse().unwrap()).collect()
    };
    let lowest = scores("rows.csv").into_iter().fold(f64::INFINITY, f64::min);
    assert!(scores("far.csv")[0] < lowest);
}

#[test]
fn json_lines_say_the_same_as_csv() {
    let sandbox = Sandbox::with_model();
    let csv = sandbox.run(&["predict", "model", "rows.csv"]);
    let json = sandbox.run(&["predict", "model", "rows.csv", "--json"]);
    let objects = json.ok().lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let labels: Vec<[String; 2]> =
        objects.map(|object| ["component", "cluster"].map(|key| object[key].to_string())).collect();
    let csv = csv.column("component").into_iter().zip(csv.column("cluster")).map(|(a, b)| [a, b]);
    assert_eq!(labels, csv.collect::<Vec<_>>());
}

#[test]
fn columns_of_another_order_are_put_in_the_models_order() {
    let sandbox = Sandbox::with_model();
    let mut table = three_clusters(100, 1);
    table.names.reverse();
    table.rows.iter_mut().for_each(|row| row.reverse());
    sandbox.write("turned.csv", table.csv());
    let (straight, turned) =
        (sandbox.run(&["predict", "model", "rows.csv"]), sandbox.run(&["predict", "model", "turned.csv"]));
    assert_eq!(straight.ok(), turned.ok());
}

#[test]
fn samples_follow_their_seed_and_look_like_the_data() {
    let sandbox = Sandbox::with_model();
    let draw = |seed: &str| sandbox.run(&["sample", "model", "-n", "300", "--seed", seed]).ok().to_owned();
    assert_eq!(draw("1"), draw("1"));
    assert_ne!(draw("1"), draw("2"));
    let rows = draw("1");
    assert_eq!(rows.lines().next(), Some("x,y"));
    assert_eq!(rows.lines().count(), 301);
    assert!(
        rows.lines().skip(1).all(|row| row.split(',').all(|cell| cell.parse::<f64>().unwrap().is_finite()))
    );
}

#[test]
fn inspecting_prints_a_table_for_people() {
    let sandbox = Sandbox::with_model();
    let run = sandbox.run(&["inspect", "model", "--top", "2"]);
    let lines: Vec<&str> = run.ok().lines().collect();
    assert!(lines[0].starts_with("300 rows, 3 components"), "{}", lines[0]);
    assert!(lines[1].starts_with("prior: kappa "), "{}", lines[1]);
    assert!(lines[5].trim_start().starts_with("prior "), "{}", lines[5]);
    assert!(lines[6].contains("and 1 smaller"), "{}", lines[6]);
    assert!(lines[7].starts_with("labels: 100 % of rows"), "{}", lines[7]);
    assert_eq!(lines.len(), 8, "{}", run.stdout);
}

#[test]
fn inspecting_tells_the_prior_and_what_is_doubtful_as_json() {
    let sandbox = Sandbox::with_model();
    let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    let prior = &model["prior_summary"];
    assert_eq!(
        (prior["mean"].as_array().unwrap().len(), prior["covariance"].as_array().unwrap().len()),
        (2, 4)
    );
    assert!(prior["kappa"].as_f64().unwrap() > 0.0 && prior["dof"].as_f64().unwrap() > 1.0, "{prior}");
    let doubts = &model["doubts"];
    assert!(doubts["label_certainty"].as_f64().unwrap() > 0.99, "{doubts}");
    assert_eq!(
        (doubts["distinct_components"].as_u64(), doubts["near_empty"].as_array().unwrap().len()),
        (Some(3), 0)
    );
    assert!(model["components"][0]["certainty"].as_f64().unwrap() > 0.99);
    assert!(model.get("comparison").is_none());
}

#[test]
fn a_model_compared_with_itself_is_the_same() {
    let sandbox = Sandbox::with_model();
    let model = sandbox.run(&["inspect", "model", "--against", "model", "--json"]).silent_json();
    let found = &model["comparison"];
    assert_eq!(
        (found["adjusted_rand"].as_f64(), found["divergence"].as_f64()),
        (Some(1.0), Some(0.0)),
        "{found}"
    );
    let text = sandbox.run(&["inspect", "model", "--against", "model"]);
    assert!(text.ok().contains("against model (3 components): labels agree"), "{}", text.stdout);
}

#[test]
fn models_of_other_columns_are_not_compared() {
    let sandbox = Sandbox::with_model();
    sandbox.write("other.csv", "a,b,c\n1,2,3\n2,3,4\n3,4,6\n");
    sandbox.run(&["fit", "other.csv", "--out", "other", "--quiet"]).ok();
    let run = sandbox.run(&["inspect", "model", "--against", "other"]);
    assert_eq!(
        run.refusal(),
        "--against other: the models have other columns or categories\nhint: compare fits of the same columns"
    );
}

#[test]
fn the_worst_rows_are_those_with_the_lowest_scores() {
    let sandbox = Sandbox::with_model();
    let mut table = three_clusters(100, 1);
    table.rows[41] = vec![400.0, -400.0];
    sandbox.write("odd.csv", table.csv());
    let scores = sandbox.run(&["predict", "model", "odd.csv", "--score"]);
    let mut sorted: Vec<(f64, u64)> =
        scores.column("log_density").iter().map(|cell| cell.parse().unwrap()).zip(1..).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let worst = sandbox.run(&["predict", "model", "odd.csv", "--worst", "5"]);
    assert_eq!(worst.ok().lines().next(), Some("row,component,log_density"));
    let rows: Vec<Vec<&str>> = worst.ok().lines().skip(1).map(|line| line.split(',').collect()).collect();
    let found: Vec<(f64, u64)> =
        rows.iter().map(|row| (row[2].parse().unwrap(), row[0].parse().unwrap())).collect();
    assert_eq!(found, sorted[..5]);
    assert_eq!(rows[0][0], "42");
    let labels = sandbox.run(&["predict", "model", "odd.csv"]);
    let labels = labels.column("component");
    assert!(rows.iter().all(|row| row[1] == labels[row[0].parse::<usize>().unwrap() - 1]));
    let json = sandbox.run(&["predict", "model", "odd.csv", "--worst", "1", "--json"]);
    let object: serde_json::Value = serde_json::from_str(json.ok()).unwrap();
    assert_eq!(object["row"], 42);
}

#[test]
fn the_report_names_doubts_and_rows_by_their_number() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(50, 1).csv());
    sandbox.run(&[&["fit", "rows.csv", "--report", "here", "--quiet"], &FIXED[..]].concat()).ok();
    let page = std::fs::read_to_string(sandbox.path("here/report.html")).unwrap();
    let (_, section) = page.split_once("Rows that are explained worst").unwrap();
    let numbers =
        section.split("<tr><td>").skip(1).map(|row| row.split('<').next().unwrap().parse::<u64>().unwrap());
    let numbers: Vec<u64> = numbers.collect();
    assert_eq!(numbers.len(), 20, "{section}");
    assert!(numbers.iter().all(|number| (1..=150).contains(number)), "{numbers:?}");
}

/// Runs with a reader that takes one byte and goes away.
fn run_with_a_reader_that_leaves(sandbox: &Sandbox, args: &[&str]) -> Run {
    let mut child = sandbox.command(args).spawn().unwrap();
    let mut stdout = child.stdout.take().expect("it was piped");
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    Run::of(child)
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let sandbox = Sandbox::with_model();
    // More than a pipe holds.
    sandbox.write("many.csv", three_clusters(20_000, 9).csv());
    for args in [
        &["sample", "model", "-n", "1000000"][..],
        &["predict", "model", "many.csv", "--score"],
        &["predict", "model", "many.csv", "--proba", "--json"],
    ] {
        let run = run_with_a_reader_that_leaves(&sandbox, args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn a_reader_that_never_came_is_no_failure() {
    let sandbox = Sandbox::with_model();
    let demo = ["demo", "--rows", "500", "--clusters", "3", "--quiet"];
    for args in [
        &["inspect", "model"][..],
        &["fit", "rows.csv", "--quiet"],
        &["completions", "bash"],
        &demo,
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = Run::from(sandbox.command(args).stdout(writer).output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    }
}

/// A device on which every write fails.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_told() {
    let sandbox = Sandbox::with_model();
    let commands = [
        &["sample", "model", "-n", "9"][..],
        &["predict", "model", "rows.csv"],
        &["inspect", "model"],
        &["completions", "zsh"],
    ];
    for args in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = Run::from(sandbox.command(args).stdout(Stdio::from(full)).output().unwrap());
        assert_eq!(run.code, 1, "{args:?}");
        assert!(run.stderr.starts_with("error: cannot write: No space left"), "{args:?}: {}", run.stderr);
    }
}
