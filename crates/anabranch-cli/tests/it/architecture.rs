//! What ARCHITECTURE.md says of dependencies, folders and files is so.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The sources below a folder, by their paths from the root, with their text up to where unit tests begin.
fn sources(folder: &str) -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let whole = fs::read_to_string(&path).unwrap();
                let code = whole.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, code.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

/// Files below a folder that hold one of these words, and the word.
fn holding<'a>(folder: &str, words: &'a [&'a str]) -> Vec<(String, &'a str)> {
    let hits = |(name, code): (String, String)| {
        words.iter().filter(move |word| code.contains(**word)).map(move |word| (name.clone(), *word))
    };
    sources(folder).into_iter().flat_map(hits).collect()
}

/// Our own crates that a crate needs when it is built.
fn needs(manifest: &str) -> BTreeSet<String> {
    let mut within = false;
    let mut found = BTreeSet::new();
    for line in text(manifest).lines() {
        if line.starts_with('[') {
            within = line == "[dependencies]";
        } else if within && line.starts_with("anabranch") {
            let name = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next();
            found.extend(name.map(str::to_owned));
        }
    }
    found
}

#[test]
fn dependencies_point_one_way() {
    let sentence = "`anabranch` ← `anabranch-io`, `anabranch-rivals` ← `anabranch-cluster` ← `anabranch-cli`";
    assert!(text("ARCHITECTURE.md").contains(sentence), "ARCHITECTURE.md says something else");
    let layers = [
        ("anabranch", &[][..]),
        ("anabranch-testkit", &[]),
        ("anabranch-io", &["anabranch"]),
        ("anabranch-rivals", &["anabranch"]),
        ("anabranch-cluster", &["anabranch", "anabranch-io"]),
        ("anabranch-cli", &["anabranch", "anabranch-cluster", "anabranch-io", "anabranch-rivals"]),
    ];
    for (name, allowed) in layers {
        let allowed: BTreeSet<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(needs(&format!("crates/{name}/Cargo.toml")), allowed, "{name}");
    }
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let folders: BTreeSet<String> =
        folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(folders, layers.iter().map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn the_core_reads_no_file_and_asks_no_clock() {
    let outside =
        ["std::fs", "std::net", "std::env", "std::process", "SystemTime", "tokio", "async fn", "rand::rng("];
    assert_eq!(holding("crates/anabranch/src", &outside), []);
    // The one exception measures what the lock costs, and nothing that is learned depends on it.
    let clocks = holding("crates/anabranch/src", &["Instant::now"]);
    assert_eq!(clocks, [("crates/anabranch/src/central/mod.rs".to_owned(), "Instant::now")]);
}

#[test]
fn async_is_where_the_cluster_is() {
    for folder in
        ["crates/anabranch-io/src", "crates/anabranch-rivals/src", "crates/anabranch-cli/src", "python/src"]
    {
        for (name, word) in holding(folder, &["async fn", ".await", "tokio::"]) {
            assert!(name.starts_with("crates/anabranch-cli/src/cluster/"), "{name} has {word}");
        }
    }
}

#[test]
fn no_front_end_begins_ends_or_repeats_a_run_by_hand() {
    let by_hand = ["engine::bootstrap", "engine::run", "engine::finish", "engine::tend", "Entry::Pass"];
    for folder in ["crates/anabranch-cli/src", "python/src"] {
        assert_eq!(holding(folder, &by_hand), [], "learner/run.rs does it");
    }
    let only_run =
        holding("crates/anabranch/src/learner", &["engine::bootstrap", "engine::finish", "Entry::Pass"]);
    assert!(only_run.iter().all(|(name, _)| name.ends_with("learner/run.rs")), "{only_run:?}");
}

#[test]
fn what_joins_increments_names_no_model() {
    let models = ["TopicSettings", "FeatureSettings", "Gaussian", "Topic::", "LinearGaussian", "Dirichlet"];
    for folder in ["identify", "central", "engine"] {
        assert_eq!(holding(&format!("crates/anabranch/src/{folder}"), &models), []);
    }
}

#[test]
fn every_part_of_the_core_has_its_heading() {
    let page = text("ARCHITECTURE.md");
    for entry in fs::read_dir(root().join("crates/anabranch/src")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let name = if entry.path().is_dir() { format!("{name}/") } else { name };
        if !["lib.rs", "prelude.rs"].contains(&name.as_str()) {
            assert!(page.contains(&format!("\n### `{name}`")), "ARCHITECTURE.md has no heading for {name}");
        }
    }
}

#[test]
fn every_file_that_is_named_exists() {
    let mut there = BTreeSet::new();
    let mut folders = ["crates", "python", "fuzz", "docs"].map(|folder| root().join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            there.insert(path.strip_prefix(root()).unwrap().display().to_string());
        }
    }
    let page = text("ARCHITECTURE.md");
    let in_code: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let files = in_code.iter().map(|code| code.split("::").next().unwrap_or_default());
    let named: BTreeSet<&str> =
        files.filter(|file| file.ends_with(".rs") && !file.contains([' ', '*', '{'])).collect();
    assert!(named.len() > 50, "{named:?}");
    let missing: Vec<&&str> = named
        .iter()
        .filter(|file| !there.iter().any(|path| path == **file || path.ends_with(&format!("/{file}"))))
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that do not exist: {missing:?}");
}
