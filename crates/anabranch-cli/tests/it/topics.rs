//! `--model hdp` from the outside: documents in, topics, proportions, reports and states out.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::support::{Sandbox, number, whole};

const WORDS: [[&str; 6]; 3] = [
    ["goal", "match", "team", "player", "league", "coach"],
    ["senate", "vote", "party", "law", "minister", "election"],
    ["engine", "wheel", "brake", "driver", "road", "fuel"],
];

/// Documents of 20 words, each of one subject with a few words of another; as JSON lines of tokens.
fn documents(n: usize, seed: u64) -> String {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let line = |ix: usize| {
        let other = rng.random_range(0..3);
        let words: Vec<&str> = (0..20)
            .map(|word| WORDS[if word < 16 { ix % 3 } else { other }][rng.random_range(0..6)])
            .collect();
        format!("{}\n", serde_json::json!({ "id": ix, "tokens": words }))
    };
    (0..n).map(line).collect()
}

fn fit(sandbox: &Sandbox, input: &str, more: &[&str]) -> Value {
    let fixed = ["fit", input, "--model", "hdp", "--json", "--quiet", "--schedule", "deterministic"];
    sandbox.run(&[&fixed[..], more].concat()).json()
}

#[test]
fn topics_are_found_stored_shown_and_predicted() {
    let sandbox = Sandbox::with("train.jsonl", documents(300, 1));
    sandbox.write("test.jsonl", documents(60, 2));
    let result = fit(
        &sandbox,
        "train.jsonl",
        &["--test", "test.jsonl", "--out", "m", "--report", "r", "--bootstrap", "100", "--batch-size", "20"],
    );
    assert_eq!(whole(&result, "observations"), 300);
    assert!((number(&result, "mass") - 6000.0).abs() < 1e-3, "{result}");
    assert_eq!(number(&result, "test_words"), 600.0);
    // Six words of one subject four times out of five: far from 18 words alike, log 18 = 2.89.
    assert!(number(&result, "test_log_likelihood") > -2.5, "{result}");
    let model = sandbox.run(&["inspect", "m", "--json"]).silent_json();
    assert_eq!((&model["model"], whole(&model, "vocabulary")), (&"hdp".into(), 19));
    let components = model["components"].as_array().unwrap();
    for component in &components[..3] {
        let top: Vec<&str> = component["top_words"].as_array().unwrap()[..4]
            .iter()
            .map(|pair| pair[0].as_str().unwrap())
            .collect();
        let subject = WORDS.iter().find(|words| words.contains(&top[0])).unwrap();
        assert!(top.iter().all(|word| subject.contains(word)), "{top:?}");
        assert!(number(component, "coherence") > 0.0, "{component}");
    }
    let page = sandbox.text("r/report.html");
    assert!(page.contains("What the documents are about") && page.contains("coach"));
    // A card for each topic, with its line and documents that are typical of it.
    assert_eq!(page.matches("<article").count(), components.len());
    assert_eq!(page.matches("% of the words over the stream</span>").count(), components.len());
    assert_eq!(page.matches("<li><small>document ").count(), 3 * components.len());
    assert!(sandbox.path("r/words.svg").exists() && sandbox.path("r/prevalence.png").exists());
    let lines = sandbox.run(&["predict", "m", "test.jsonl", "--proba", "--json"]);
    for line in lines.ok().lines() {
        let shares: Value = serde_json::from_str(line).unwrap();
        let topics = shares["topics"].as_object().unwrap().values();
        let total: f64 = topics.map(|share| share.as_f64().unwrap()).sum::<f64>() + number(&shares, "new");
        assert!((total - 1.0).abs() < 1e-9, "{line}");
    }
    // Documents of one subject have the same main topic.
    let labels = sandbox.run(&["predict", "m", "test.jsonl"]);
    let labels: Vec<&str> = labels.ok().lines().skip(1).collect();
    assert_eq!(labels.len(), 60);
    // So few topics are their own subjects.
    assert_eq!(model["subjects"].as_array().unwrap().len(), components.len());
    let text = sandbox.run(&["inspect", "m"]);
    assert!(text.ok().contains("npmi") && text.ok().contains("top words"));
}

#[test]
fn shares_and_scores_go_together_and_a_document_without_known_words_has_no_topic() {
    let sandbox = Sandbox::with("train.jsonl", documents(200, 5));
    fit(&sandbox, "train.jsonl", &["--out", "m"]);
    let known = documents(1, 7);
    let unknown = serde_json::json!({ "id": 1, "tokens": ["zyzzyva", "zyzzyva"] });
    sandbox.write("new.jsonl", format!("{known}{unknown}\n"));
    let lines = |flags: &[&str]| -> Vec<String> {
        let run = sandbox.run(&[&["predict", "m", "new.jsonl"], flags].concat());
        assert!(run.stderr.contains("1 document without a known word"), "{}", run.stderr);
        run.ok().lines().map(str::to_owned).collect()
    };
    let both = lines(&["--proba", "--score"]);
    assert!(
        both[0].starts_with("row,topic_") && both[0].ends_with(",log_probability_per_word"),
        "{}",
        both[0]
    );
    assert!(both.iter().all(|line| line.split(',').count() == both[0].split(',').count()));
    let score = lines(&["--score"]);
    assert_eq!(both[1].rsplit(',').next(), score[1].strip_prefix("1,"));
    assert_eq!((score[2].as_str(), lines(&[])[2].as_str()), ("2,", "2,"));
    let json: Value = serde_json::from_str(&lines(&["--proba", "--score", "--json"])[0]).unwrap();
    assert!(json["topics"].is_object() && json["log_probability_per_word"].is_f64(), "{json}");
    assert_eq!(lines(&["--json"])[1], r#"{"row":2,"topic":null}"#);
}

#[test]
fn workers_and_identification_off_keep_the_mass() {
    let sandbox = Sandbox::with("train.jsonl", documents(200, 5));
    for identify in ["on", "off"] {
        let flags = ["--identify", identify, "--workers", "16", "--batch-size", "10", "--bootstrap", "0"];
        let result = fit(&sandbox, "train.jsonl", &flags);
        assert!((number(&result, "mass") - 4000.0).abs() < 1e-3, "{result}");
        assert!(whole(&result, "matchings") > 0, "{result}");
    }
}

#[test]
fn a_run_goes_on_from_its_checkpoint() {
    let all = documents(120, 9);
    let sandbox = Sandbox::with("all.jsonl", &all);
    let first: String = all.lines().take(60).map(|line| format!("{line}\n")).collect();
    sandbox.write("first.jsonl", first);
    let flags = [
        "--checkpoint",
        "state",
        "--resume",
        "--checkpoint-every",
        "0",
        "--bootstrap",
        "40",
        "--batch-size",
        "20",
    ];
    assert_eq!(whole(&fit(&sandbox, "first.jsonl", &flags), "observations"), 60);
    let result = fit(&sandbox, "all.jsonl", &flags);
    assert_eq!((whole(&result, "observations"), whole(&result, "minibatches")), (120, 5));
    assert!((number(&result, "mass") - 2400.0).abs() < 1e-3, "{result}");
    let refused =
        sandbox.run(&[&["fit", "all.jsonl", "--model", "hdp", "--eta", "0.5"], &flags[..]].concat());
    let refusal = refused.refusal();
    assert!(
        refusal.starts_with("the checkpoint was made with --eta ") && refusal.contains("this run has 0.5")
    );
    let refused =
        sandbox.run(&[&["fit", "all.jsonl", "--model", "hdp", "--gamma", "2"], &flags[..]].concat());
    assert!(refused.refusal().starts_with("the checkpoint was made with --gamma learned, this run has 2"));
    // The two are one number in floating point.
    let seeds = ["9007199254740992", "9007199254740993"];
    let run = |seed: &str| {
        let flags = [&["fit", "all.jsonl", "--model", "hdp", "--seed", seed, "--quiet"], &flags[..]].concat();
        sandbox
            .run(&flags.iter().map(|word| if *word == "state" { "seeded" } else { word }).collect::<Vec<_>>())
    };
    run(seeds[0]).ok();
    assert!(run(seeds[1]).refusal().contains(&format!("--seed {}, this run has {}", seeds[0], seeds[1])));
    let twice = fit(&sandbox, "all.jsonl", &["--passes", "2", "--bootstrap", "40", "--batch-size", "20"]);
    assert!(
        (number(&twice, "mass") - 2400.0).abs() < 1e-3 && whole(&twice, "observations") == 120,
        "{twice}"
    );
}

#[test]
fn every_format_of_documents_is_read() {
    let sandbox = Sandbox::with("docword.x.txt", "3\n4\n4\n1 1 2\n1 2 1\n2 3 4\n3 4 1\n");
    sandbox.write("x.ldac", "2 0:2 1:1\n1 2:4\n1 3:1\n");
    sandbox.write("vocab.txt", "sun\nrain\nwind\nsnow\n");
    for input in ["docword.x.txt", "x.ldac"] {
        let result = fit(&sandbox, input, &["--vocabulary", "vocab.txt"]);
        assert_eq!((whole(&result, "observations"), whole(&result, "dimensions")), (3, 4));
        assert!((number(&result, "mass") - 8.0).abs() < 1e-9);
    }
    let refused = sandbox.run(&["fit", "x.ldac", "--model", "hdp"]);
    assert!(refused.refusal().contains("--vocabulary"), "{}", refused.stderr);
    sandbox.write("few.txt", "sun\nrain\n");
    let refused = sandbox.run(&["fit", "docword.x.txt", "--model", "hdp", "--vocabulary", "few.txt"]);
    assert!(refused.refusal().starts_with("docword.x.txt: it has 4 words, the vocabulary has 2"));
    let refused = sandbox.run(&["fit", "x.ldac", "--model", "hdp", "--format", "csv"]);
    assert!(refused.refusal().starts_with("--format csv holds rows, not documents"));
    assert!(sandbox.run(&["fit", "x.ldac", "--model", "hdp", "--alpha0", "0"]).refusal().contains("alpha0"));
}

#[test]
fn the_demo_draws_documents() {
    let sandbox = Sandbox::new();
    let run =
        sandbox.run(&["demo", "--model", "hdp", "--rows", "400", "--clusters", "5", "--json", "--quiet"]);
    let result = run.json();
    assert_eq!((whole(&result, "observations"), whole(&result, "dimensions")), (400, 150));
    assert_eq!(whole(&result, "components"), 5, "{result}");
    assert!(sandbox.path("anabranch-report/report.html").exists());
}

/// Two subjects in turn and then the third, as text: its words come late.
fn texts(n: usize, seed: u64) -> Vec<String> {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let line = |ix: usize| {
        let subject = if 3 * ix < 2 * n { ix % 2 } else { 2 };
        let words: Vec<&str> = (0..12).map(|_| WORDS[subject][rng.random_range(0..6)]).collect();
        format!("The {}.", words.join(", and "))
    };
    (0..n).map(line).collect()
}

#[test]
fn text_is_learned_with_words_that_come_late() {
    let all = texts(180, 3);
    let sandbox = Sandbox::with("all.txt", all.join("\n"));
    let cut = ["--bootstrap", "60", "--batch-size", "20", "--out", "m"];
    let result = fit(&sandbox, "all.txt", &cut);
    // Eighteen words and the one for all others; the first few documents of a subject have words that are not known yet.
    assert_eq!((whole(&result, "dimensions"), whole(&result, "observations")), (19, 180));
    assert!((number(&result, "mass") - 2160.0).abs() < 1e-3, "{result}");
    let model = sandbox.run(&["inspect", "m", "--json"]).silent_json();
    let tops: Vec<&str> = model["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|topic| topic["top_words"][0][0].as_str().unwrap())
        .collect();
    for words in &WORDS {
        assert!(tops.iter().any(|top| words.contains(top)), "{tops:?} {words:?}");
    }
    // The same from a column, and from a folder; without room the words stay those of the first minibatch.
    let csv: String = all.iter().enumerate().map(|(ix, text)| format!("{ix},\"{text}\"\n")).collect();
    sandbox.write("all.csv", format!("id,body\n{csv}"));
    let column = fit(&sandbox, "all.csv", &[&cut[..], &["--text", "body"]].concat());
    assert_eq!(column["test_log_likelihood"], result["test_log_likelihood"]);
    assert_eq!((&column["components"], &column["mass"]), (&result["components"], &result["mass"]));
    let closed = fit(&sandbox, "all.txt", &[&cut[..4], &["--vocabulary-size", "7"]].concat());
    assert_eq!(whole(&closed, "dimensions"), 7);
    assert!(number(&closed, "unknown_words") > 1000.0, "{closed}");
    // Prediction reads text with the words of the model, and says what it does not know.
    sandbox.write("new.txt", "The fuel, and the brake, zyzzyva\ncoach\n");
    let run = sandbox.run(&["predict", "m", "new.txt"]);
    assert!(run.stderr.contains("1 word not in the vocabulary"), "{}", run.stderr);
    assert_eq!(run.column("row"), ["1", "2"]);
    // A model of a column of texts reads that column; other flags and other sorts of files go first.
    fit(&sandbox, "all.csv", &[&cut[..4], &["--text", "body", "--out", "of_column"]].concat());
    sandbox.write("new.csv", "id,body,note\n7,\"The fuel, and the brake\",coach\n8,coach,fuel\n");
    let labels = |args: &[&str]| -> Vec<String> {
        let run = sandbox.run(&[&["predict", "of_column"], args].concat());
        run.column("topic").into_iter().map(str::to_owned).collect()
    };
    let by_model = labels(&["new.csv"]);
    assert_eq!(by_model, labels(&["new.csv", "--text", "body"]));
    assert_eq!(by_model, labels(&["new.txt"]));
    assert_ne!(by_model, labels(&["new.csv", "--text", "note"]));
}

#[test]
fn a_vocabulary_that_grows_is_part_of_the_checkpoint() {
    let all = texts(180, 4);
    let sandbox = Sandbox::with("all.txt", all.join("\n"));
    sandbox.write("first.txt", all[..120].join("\n"));
    let cut = ["--bootstrap", "60", "--batch-size", "20", "--phrases", "--max-documents", "0.9"];
    let state = ["--checkpoint", "state", "--resume", "--checkpoint-every", "0"];
    let first = fit(&sandbox, "first.txt", &[&cut[..], &state].concat());
    assert!(whole(&first, "dimensions") < 19, "{first}");
    let resumed = fit(&sandbox, "all.txt", &[&cut[..], &state, &["--out", "resumed"]].concat());
    let whole_run = fit(&sandbox, "all.txt", &[&cut[..], &["--out", "whole"]].concat());
    for name in ["dimensions", "observations", "minibatches", "unknown_words"] {
        assert_eq!(resumed[name], whole_run[name], "{name}");
    }
    assert!((number(&resumed, "mass") - number(&whole_run, "mass")).abs() < 1e-6);
    // A second pass knows all words from the beginning.
    let twice = fit(&sandbox, "all.txt", &[&cut[..], &["--passes", "2"]].concat());
    assert_eq!(twice["dimensions"], whole_run["dimensions"]);
    let other = sandbox.run(&[&["fit", "all.txt", "--model", "hdp", "--quiet"], &cut[..4], &state].concat());
    assert!(other.refusal().starts_with("the checkpoint was made with other words"), "{}", other.stderr);
    // Other documents are noticed, though they begin alike.
    sandbox.write("all.txt", texts(180, 5).join("\n"));
    let other = sandbox.run(&[&["fit", "all.txt", "--model", "hdp", "--quiet"], &cut[..], &state].concat());
    assert_ne!(other.code, 0);
}

#[test]
fn a_model_of_topics_goes_on_with_other_documents() {
    let all = texts(240, 6);
    let sandbox = Sandbox::with("monday.txt", all[..160].join("\n"));
    sandbox.write("tuesday.txt", all[160..].join("\n"));
    sandbox.write("wednesday.txt", texts(60, 7).join("\n"));
    let first = fit(
        &sandbox,
        "monday.txt",
        &["--bootstrap", "60", "--batch-size", "20", "--out", "m", "--checkpoint", "s"],
    );
    let go_on = |input: &str, from: &str, more: &[&str]| {
        sandbox.run(&[&["fit", input, "--from", from, "--json", "--quiet"], more].concat())
    };
    // The third subject comes with words of its own; every document and every word counts once, whatever is remembered.
    for from in ["m", "s/checkpoint.anabranch", "s"] {
        let second = go_on("tuesday.txt", from, &["--out", "m2"]).json();
        assert_eq!((whole(&first, "dimensions"), whole(&second, "dimensions")), (13, 19), "{second}");
        assert_eq!((whole(&first, "observations"), whole(&second, "observations")), (160, 240));
        assert!((number(&second, "mass") - 2880.0).abs() < 1e-3, "{second}");
        let shown = sandbox.run(&["inspect", "m2", "--json"]).silent_json();
        let tops = shown["components"].as_array().unwrap().iter();
        let tops: Vec<&str> = tops.map(|topic| topic["top_words"][0][0].as_str().unwrap()).collect();
        for words in &WORDS {
            assert!(tops.iter().any(|top| words.contains(top)), "{tops:?} {words:?}");
        }
    }
    let third = go_on("wednesday.txt", "m2", &["--out", "m3"]).json();
    assert_eq!(whole(&third, "observations"), 300);
    let again = go_on("tuesday.txt", "m3", &[]);
    assert!(again.message().contains("which the model has learned from"), "{}", again.message());
    // A run that was cut short goes on from where it went on from.
    let same = go_on("tuesday.txt", "m", &["--checkpoint", "s3", "--out", "m4"]).json();
    let resumed = go_on("tuesday.txt", "m", &["--checkpoint", "s3", "--resume", "--out", "m5"]).json();
    assert_eq!((&same["observations"], &same["mass"]), (&resumed["observations"], &resumed["mass"]));
    let other = go_on("tuesday.txt", "m2", &["--checkpoint", "s3", "--resume"]);
    assert!(other.message().contains("went on from another model"), "{}", other.message());
    for flags in [["--min-length", "3"], ["--eta", "0.2"], ["--vocabulary-size", "9"], ["--passes", "2"]] {
        assert_eq!(
            go_on("tuesday.txt", "m", &flags).message(),
            format!("{} does not go with --from", flags[0])
        );
    }
    assert_eq!(
        go_on("tuesday.txt", "m", &["--trace", "t.csv"]).message(),
        "--trace belongs to --model dp or py; this is --model hdp"
    );
}

#[test]
fn flags_of_text_are_refused_where_they_say_nothing() {
    let sandbox = Sandbox::with("docs.txt", "sun rain\nrain wind\n");
    sandbox.write("words.txt", "sun\nrain\n");
    let refused =
        |flags: &[&str]| sandbox.run(&[&["fit", "docs.txt", "--model", "hdp"], flags].concat()).stderr;
    assert!(refused(&["--vocabulary", "words.txt", "--phrases"]).contains("cannot be used with"));
    assert!(
        refused(&["--format", "txt", "--text", "body"])
            .contains("--text names a column; --format txt has none")
    );
    assert!(refused(&["--format", "csv"]).contains("--text"));
    assert!(refused(&["--max-documents", "1.5"]).contains("above 0 and up to 1"));
    let rows = sandbox.run(&["fit", "docs.txt", "--text", "body"]);
    assert_eq!(rows.message(), "--text belongs to --model hdp; this is --model dp");
}

/// Topics of four subjects: each has words of its own and words of its subject.
#[test]
fn topics_are_shown_by_their_subjects() {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(8);
    let line = |ix: usize| {
        let (subject, topic) = (ix % 4, ix / 4 % 3);
        let words: Vec<String> = (0..40)
            .map(|word| match word % 2 {
                0 => format!("subject{subject}w{}", rng.random_range(0..8)),
                _ => format!("topic{subject}{topic}w{}", rng.random_range(0..8)),
            })
            .collect();
        format!("{}\n", words.join(" "))
    };
    let sandbox = Sandbox::with("docs.txt", (0..600).map(line).collect::<String>());
    let flags = ["--out", "m", "--report", "r", "--bootstrap", "300", "--batch-size", "100"];
    let result = fit(&sandbox, "docs.txt", &flags);
    assert_eq!(whole(&result, "components"), 12, "{result}");
    assert_eq!(result["subjects"].as_array().unwrap().len(), 4, "{result}");
    let model = sandbox.run(&["inspect", "m", "--json"]).silent_json();
    assert_eq!((&model["subjects"], model["joins"].as_array().unwrap().len()), (&result["subjects"], 3));
    for subject in model["subjects"].as_array().unwrap() {
        let words: Vec<&str> =
            subject["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let own = &words[0][..8];
        assert!(words.iter().all(|word| word.starts_with(own)) && own.starts_with("subject"), "{words:?}");
        assert_eq!(subject["topics"].as_array().unwrap().len(), 3);
    }
    let text = sandbox.run(&["inspect", "m"]);
    assert!(text.ok().contains("4 subjects, by the words that tell most of them"));
    let page = sandbox.text("r/report.html");
    assert!(page.contains("Subjects are topics that have words in common"));
    // Each subject has its topics, and documents that begin with its words.
    let cards: Vec<&str> = page.split("<article").skip(1).collect();
    assert_eq!(cards.len(), 4);
    for card in cards {
        let own = &card[card.find("<h3>subject").unwrap()..][4..12];
        let documents: Vec<&str> = card.split("<li>").skip(1).collect();
        assert!(
            documents.len() == 3 && documents.iter().all(|text| text.contains(own)),
            "{own} {documents:?}"
        );
        assert_eq!(card.matches("<tr><td>").count(), 3);
    }
}
