//! `merge`: models that were learned apart become one, and every row counts once.

use crate::support::data::{Table, clusters_at, three_clusters};
use crate::support::{Sandbox, whole};

/// Held-out densities of one run and of parts that are merged: the bound that the documentation states.
const LOSS: f64 = 0.02;

fn part(table: &Table, rows: std::ops::Range<usize>) -> Table {
    Table {
        names: table.names.clone(),
        rows: table.rows[rows.clone()].to_vec(),
        labels: table.labels[rows].to_vec(),
    }
}

/// Eight parts of one table, each with its model `0`, `1` …
fn eight(words: &[&str]) -> Sandbox {
    let all = three_clusters(1600, 3);
    let sandbox = Sandbox::with("all.csv", all.csv());
    sandbox.write("test.csv", three_clusters(200, 4).csv());
    for ix in 0..8 {
        sandbox.write(&format!("{ix}.csv"), part(&all, 600 * ix..600 * (ix + 1)).csv());
        sandbox.fit(&[&[&format!("{ix}.csv"), "--out", &ix.to_string()], words].concat());
    }
    sandbox
}

const PARTS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

fn merged(sandbox: &Sandbox, models: &[&str]) -> serde_json::Value {
    sandbox.run(&[&["merge"], models, &["--out", "merged", "--json"]].concat()).silent_json()
}

/// The mean density of held-out rows.
fn density(sandbox: &Sandbox, model: &str) -> f64 {
    let scored = sandbox.run(&["predict", model, "test.csv", "--score", "-q"]);
    let cells: Vec<f64> = scored.column("log_density").iter().map(|cell| cell.parse().unwrap()).collect();
    cells.iter().sum::<f64>() / cells.len() as f64
}

#[test]
fn eight_parts_merged_are_nearly_one_run() {
    for words in [&[][..], &["--family", "diagonal"], &["--family", "spherical", "--model", "py"]] {
        let sandbox = eight(words);
        sandbox.fit(&[&["all.csv", "--out", "one"], words].concat());
        let result = merged(&sandbox, &PARTS);
        assert_eq!((whole(&result, "observations"), whole(&result, "components")), (4800, 3), "{result}");
        let matched: Vec<u64> =
            result["models"].as_array().unwrap().iter().map(|part| whole(part, "matched")).collect();
        assert_eq!(matched, [0, 3, 3, 3, 3, 3, 3, 3], "one to one");
        let (apart, together) = (density(&sandbox, "merged"), density(&sandbox, "one"));
        assert!((apart - together).abs() < LOSS, "{words:?}: {apart} {together}");
        let inspected = sandbox.run(&["inspect", "merged", "--json"]).silent_json();
        assert_eq!(whole(&inspected, "observations"), 4800);
        // It goes on, and knows all that it has learned from.
        let again = sandbox.run(&["fit", "5.csv", "--from", "merged", "-q"]);
        assert!(again.message().contains("which the model has learned from"), "{}", again.message());
    }
}

/// How many rows of each were learned from again.
fn again(result: &serde_json::Value) -> Vec<u64> {
    result["models"].as_array().unwrap().iter().map(|part| whole(part, "again")).collect()
}

#[test]
fn all_rows_that_folders_keep_are_learned_from_again() {
    let sandbox = eight(&[]);
    for (ix, words) in [&[][..], &["--bootstrap", "200", "--batch-size", "50"]].iter().enumerate() {
        let folders: Vec<String> = (0..8).map(|part| format!("folder-{ix}-{part}")).collect();
        for (part, folder) in folders.iter().enumerate() {
            sandbox.fit(&[&[&format!("{part}.csv"), "--checkpoint", folder], *words].concat());
        }
        let mut models: Vec<&str> = folders.iter().map(String::as_str).collect();
        let result = merged(&sandbox, &models);
        assert_eq!((whole(&result, "observations"), whole(&result, "components")), (4800, 3), "{result}");
        assert_eq!(again(&result), [600; 8], "{words:?}");
        sandbox.fit(&[&["all.csv", "--out", "one"], *words].concat());
        let (apart, together) = (density(&sandbox, "merged"), density(&sandbox, "one"));
        assert!((apart - together).abs() < LOSS, "{words:?}: {apart} {together}");
        // It goes on, and knows all that it has learned from.
        let more = sandbox.run(&["fit", "5.csv", "--from", "merged", "-q"]);
        assert!(more.message().contains("which the model has learned from"), "{}", more.message());
        // Beside a model whose rows are gone: its ids stay.
        models[2] = "2";
        let result = merged(&sandbox, &models);
        assert_eq!((whole(&result, "observations"), whole(&result, "components")), (4800, 3), "{result}");
        assert_eq!(again(&result), [600, 600, 0, 600, 600, 600, 600, 600]);
        let means = |model: &str| -> Vec<(u64, Vec<f64>)> {
            let inspected = sandbox.run(&["inspect", model, "--json"]).silent_json();
            let mean = |c: &serde_json::Value| {
                let mean = c["mean"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
                (whole(c, "id"), mean)
            };
            let mut means: Vec<_> = inspected["components"].as_array().unwrap().iter().map(mean).collect();
            means.sort_by_key(|(id, _)| *id);
            means
        };
        for ((id, then), (same, now)) in means("2").iter().zip(&means("merged")) {
            assert_eq!(id, same);
            assert!(then.iter().zip(now).all(|(then, now)| (then - now).abs() < 0.5), "{then:?} {now:?}");
        }
    }
}

/// More rows than a sample holds, rows that fade, rows that were drawn from a model, values on a grid that were moved.
#[test]
fn folders_that_do_not_keep_all_rows_count_as_the_model_of_their_run() {
    let sandbox = Sandbox::with("test.csv", three_clusters(200, 4).csv());
    sandbox.write("begun.csv", three_clusters(100, 9).csv());
    sandbox.fit(&["begun.csv", "--out", "begun"]);
    let rounded = |mut table: Table| {
        table.rows.iter_mut().flatten().for_each(|value| *value = value.round());
        table
    };
    let few = |seed| three_clusters(300, seed);
    let cases: [(&str, [Table; 2], &[&str]); 4] = [
        ("long", [5, 6].map(|seed| three_clusters(3500, seed)), &["--bootstrap", "3000"]),
        ("fading", [5, 6].map(few), &["--half-life", "5000"]),
        ("rounded", [5, 6].map(few).map(rounded), &[]),
        ("drawn", [5, 6].map(few), &["--from", "begun"]),
    ];
    for (case, tables, words) in cases {
        let name = |ix: usize, what: &str| format!("{case}-{what}-{ix}");
        for (ix, table) in tables.iter().enumerate() {
            let (rows, folder, model) = (format!("{case}-{ix}.csv"), name(ix, "folder"), name(ix, "model"));
            sandbox.write(&rows, table.csv());
            sandbox.fit(&[&[&*rows, "--checkpoint", &folder, "--out", &model], words].concat());
        }
        let merged = |what: &str| {
            let (one, other) = (name(0, what), name(1, what));
            // Both of those that went on know the rows of the model that they went on from.
            let words = ["merge", &one, &other, "--out", "merged", "--assume-apart", "--json"];
            let result = sandbox.run(&words).silent_json();
            (
                again(&result),
                whole(&result, "observations"),
                whole(&result, "components"),
                density(&sandbox, "merged"),
            )
        };
        let (folders, models) = (merged("folder"), merged("model"));
        assert_eq!((&folders.0, folders.1, folders.2), (&vec![0, 0], models.1, models.2), "{case}");
        assert!((folders.3 - models.3).abs() < 1e-9, "{case}: {folders:?} {models:?}");
    }
}

#[test]
fn folders_of_runs_that_were_killed_are_refused() {
    let sandbox = Sandbox::with("a.csv", three_clusters(100, 1).csv());
    sandbox.write("b.csv", three_clusters(100, 2).csv());
    for part in ["a", "b"] {
        sandbox.fit(&[&format!("{part}.csv"), "--checkpoint", part]);
    }
    // A run saves that when all has been read.
    std::fs::remove_file(sandbox.path("b/stream.anabranch")).unwrap();
    let run = sandbox.run(&["merge", "a", "b", "--out", "both"]);
    assert_eq!(run.message(), "b holds no run that has read all of its input");
    assert!(!sandbox.path("both").exists());
    sandbox.fit(&["b.csv", "--checkpoint", "whole"]);
    let said = sandbox.run(&["merge", "a", "whole", "--out", "both"]);
    let line = "whole: 300 rows, 3 components, learned from again: its ids end\n";
    assert!(said.ok().contains(line), "{}", said.ok());
}

#[test]
fn clusters_that_only_one_has_are_kept() {
    let sandbox = Sandbox::with("here.csv", clusters_at([0.0, 0.0], 200, 1).csv());
    sandbox.write("there.csv", clusters_at([1000.0, -500.0], 300, 2).csv());
    sandbox.fit(&["here.csv", "--out", "here"]);
    sandbox.fit(&["there.csv", "--out", "there"]);
    let result = merged(&sandbox, &["here", "there"]);
    assert_eq!((whole(&result, "observations"), whole(&result, "components")), (1500, 6));
    let counts = |model: &str| {
        let inspected = sandbox.run(&["inspect", model, "--json"]).silent_json();
        let components = inspected["components"].as_array().unwrap();
        let mut counts: Vec<i64> =
            components.iter().map(|c| c["count"].as_f64().unwrap().round() as i64).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(counts("merged"), [200, 200, 200, 300, 300, 300]);
}

#[test]
fn models_that_share_rows_are_refused() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(100, 1).csv());
    sandbox.write("copy.csv", sandbox.text("rows.csv"));
    sandbox.write("other.csv", three_clusters(100, 2).csv());
    for name in ["rows", "copy", "other"] {
        sandbox.fit(&[&format!("{name}.csv"), "--out", name]);
    }
    sandbox.fit(&["copy.csv", "--from", "other", "--out", "both"]);
    let message = |models: &[&str]| {
        let run = sandbox.run(&[&["merge"], models, &["--out", "new"]].concat());
        assert!(!sandbox.path("new").exists());
        run.message().to_owned()
    };
    assert_eq!(message(&["rows", "rows"]), "rows and rows have both learned from rows.csv");
    assert_eq!(
        message(&["rows", "copy"]),
        "rows and copy have both learned from rows.csv, there called copy.csv"
    );
    assert_eq!(message(&["other", "rows", "both"]), "other and both have both learned from other.csv");
    let run = sandbox.run(&["merge", "rows", "copy", "--assume-apart", "--out", "new", "--json"]);
    assert_eq!(whole(&run.silent_json(), "observations"), 600);
}

#[test]
fn models_of_different_kinds_are_refused_with_both_named() {
    let sandbox = Sandbox::with("a.csv", three_clusters(100, 1).csv());
    sandbox.write("b.csv", three_clusters(100, 2).csv());
    sandbox.write("c.csv", sandbox.text("b.csv").replacen("x,y", "y,x", 1));
    sandbox.fit(&["a.csv", "--out", "a"]);
    let refused = |words: &[&str], message: &str| {
        sandbox.fit(&[words, &["--out", "b"]].concat());
        let run = sandbox.run(&["merge", "a", "b", "--out", "new"]);
        assert_eq!(run.message(), message);
    };
    refused(&["c.csv"], "a has columns x,y, b has y,x");
    refused(&["b.csv", "--family", "diagonal"], "a has --family gaussian, b has diagonal");
    refused(&["b.csv", "--model", "py"], "a has --model dp, b has py");
    refused(&["b.csv", "--alpha", "3"], "a has --alpha 5, b has 3");
    refused(&["b.csv", "--prior-dof", "9"], "a has a prior that was estimated, b has given");
    sandbox.fit(&["a.csv", "--out", "a", "--prior-dof", "9", "--prior-kappa", "0.1"]);
    refused(&["b.csv", "--prior-dof", "9", "--prior-kappa", "0.2"], "a and b were given different priors");
    let stamped = |table: String| {
        let line = |(ix, line): (usize, &str)| {
            if ix == 0 { format!("{line},t,u\n") } else { format!("{line},{ix},{ix}\n") }
        };
        table.lines().enumerate().map(line).collect::<String>()
    };
    sandbox.write("a.csv", stamped(sandbox.text("a.csv")));
    sandbox.write("b.csv", stamped(sandbox.text("b.csv")));
    let columns = ["--columns", "x,y", "--half-life", "1h"];
    sandbox.fit(&[&["a.csv", "--out", "a", "--time", "t"], &columns[..]].concat());
    refused(&[&["b.csv", "--time", "u"], &columns[..]].concat(), "a has --time t, b has u");
    refused(&[&["b.csv"], &columns[..]].concat(), "a has --time t, b has none");
    refused(&["b.csv", "--columns", "x,y", "--half-life", "100"], "a has --half-life 1h, b has 100");
    sandbox.fit(&["b.csv", "--model", "bp", "--out", "b"]);
    let run = sandbox.run(&["merge", "a", "b", "--out", "new"]);
    assert_eq!(run.message(), "merge belongs to --model dp or py; b is of --model bp");
}

#[test]
fn the_same_prior_that_was_given_is_the_same_in_any_frame() {
    let sandbox = Sandbox::with("a.csv", three_clusters(100, 1).csv());
    sandbox.write("b.csv", clusters_at([3.0, 70.0], 100, 2).csv());
    let prior = ["--prior-mean", "1", "--prior-kappa", "0.5", "--prior-dof", "9", "--prior-scale", "3"];
    sandbox.fit(&[&["a.csv", "--out", "a"], &prior[..]].concat());
    sandbox.fit(&[&["b.csv", "--out", "b"], &prior[..]].concat());
    assert_eq!(whole(&merged(&sandbox, &["a", "b"]), "components"), 6);
}
