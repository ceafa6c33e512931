//! Topics and features on a cluster: the same protocol, the same faults, and the answers of one process.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::proxy::Proxy;
use crate::server::{Server, Version, wait_until};
use crate::support::{Place, Worker, kill_at_random};
use crate::wire::Wire;

/// Documents of a corpus and of a minibatch.
const DOCUMENTS: u64 = 800;
const BATCH: u64 = 20;
/// Words of a document.
const LENGTH: u64 = 30;
const WORDS: usize = 40;
/// Mean log-probability of a word: two runs of the free-running engine differ by less than this on these documents.
const NOISE: f64 = 0.05;

/// Documents of four topics of ten words each, as LDA-C writes them; a document is about one or two of them.
fn corpus(place: &Place, name: &str, n: u64, seed: u64) -> PathBuf {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut text = String::new();
    for _ in 0..n {
        let about = [rng.random_range(0..4_usize), rng.random_range(0..4)];
        let mut counts = [0_u32; WORDS];
        for _ in 0..LENGTH {
            let word = 10 * about[rng.random_range(0..2)] + rng.random_range(0..10);
            counts[word] += 1;
        }
        let entries: Vec<(usize, u32)> =
            counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
        write!(text, "{}", entries.len()).unwrap();
        entries.iter().for_each(|(word, count)| write!(text, " {word}:{count}").unwrap());
        text.push('\n');
    }
    let path = place.path(name);
    std::fs::write(&path, text).expect("documents");
    let words: String = (0..WORDS).map(|word| format!("word{word}\n")).collect();
    std::fs::write(place.path("words.txt"), words).expect("words");
    path
}

const SIZES: [&str; 4] = ["--batch-size", "20", "--bootstrap", "200"];
const TOPICS: [&str; 4] = ["--model", "hdp", "--vocabulary", "words.txt"];

fn submit(place: &Place, url: &str, input: &Path, more: &[&str]) {
    let input = input.to_string_lossy().into_owned();
    let args = ["submit", "--to", url, "--job", "j", &input, "--ack-wait", "2", "--max-deliver", "1000"];
    place.run(&[&args[..], &TOPICS, &SIZES, more].concat()).ok();
}

fn check(place: &Place, url: &str, workers: &[&Worker]) {
    place.check_data(url, "j", (DOCUMENTS, DOCUMENTS * LENGTH), DOCUMENTS / BATCH, workers);
}

/// Whether the model that `check` fetched tells as much as one of a single process on the same documents.
fn compare_with_one_process(place: &Place, train: &Path) {
    let test = corpus(place, "test.ldac", 200, 999);
    let train = train.to_string_lossy().into_owned();
    let fit = ["fit", &train, "--out", "alone.anabranch", "--threads", "2", "-q"];
    place.run(&[&fit[..], &TOPICS, &SIZES].concat()).ok();
    let (here, alone) = (place.held_out(&test), place.held_out_of("alone.anabranch", &test));
    assert!((here - alone).abs() < NOISE, "{here} on the cluster, {alone} in one process");
}

#[test]
fn topics_of_workers_killed_at_random_lose_and_repeat_nothing() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), corpus(&place, "train.ldac", DOCUMENTS, 1));
    submit(&place, &url, &train, &["--snapshot-entries", "3"]);
    let mut workers: Vec<Worker> = (0..3).map(|_| Worker::start(&url, "j")).collect();
    wait_until("the journal to begin", || place.absorbed(&url) > 0);
    kill_at_random(&mut workers, &url, &mut rng);
    check(&place, &url, &workers.iter().collect::<Vec<_>>());
    compare_with_one_process(&place, &train);
}

#[test]
fn topics_of_a_worker_killed_between_append_and_acknowledgement_repeat_nothing() {
    // Within the acknowledgements of the bootstrap, and after them.
    for passes in [4, 16] {
        let place = Place::new();
        let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
        let (url, train) = (server.url(), corpus(&place, "train.ldac", DOCUMENTS, 2));
        let proxy = Proxy::with_gate(server.port, "+ACK", passes);
        submit(&place, &url, &train, &[]);
        let victim = Worker::start(&proxy.url(), "j");
        proxy.wait_for_the_word();
        victim.kill();
        let other = Worker::start(&url, "j");
        check(&place, &url, &[&other]);
        let redelivered = other.stop().json()["redelivered"].as_u64();
        assert!(redelivered.is_some_and(|n| n > 0), "nothing was delivered again: {redelivered:?}");
    }
}

#[test]
fn topics_survive_the_only_server_killed_and_restarted() {
    let place = Place::new();
    let Some(mut server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), corpus(&place, "train.ldac", DOCUMENTS, 3));
    submit(&place, &url, &train, &[]);
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
        server.go_on();
    }
    check(&place, &url, &[&workers[0], &workers[1]]);
    compare_with_one_process(&place, &train);
}

/// The words are found in the first documents; later ones, also those of anybody, are read with them.
#[test]
fn texts_are_read_with_the_words_of_the_first_ones() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    let of =
        |words: [&str; 4], n: usize| format!("{} {} {}, {}.\n", words[n % 4], words[1], words[2], words[3]);
    let texts: String = (0..120)
        .map(|n| match n % 2 {
            0 => of(["rain", "cloud", "storm", "wind"], n / 2),
            _ => of(["bread", "flour", "oven", "yeast"], n / 2),
        })
        .collect();
    std::fs::write(place.path("texts.txt"), texts).unwrap();
    let args = ["submit", "--to", &url, "--job", "j", "--model", "hdp", "texts.txt"];
    place.run(&[&args[..], &["--batch-size", "10", "--bootstrap", "60", "--ack-wait", "2"]].concat()).ok();
    let worker = Worker::start(&url, "j");
    place.check_data(&url, "j", (120, 480), 12, &[&worker]);
    let strange = b"{\"text\": \"Rain and thunder.\"}\n{\"tokens\": [\"oven\", \"oven\", \"gluten\"]}\n";
    Wire::to(&server).publish("anabranch.j.rows", &[], strange);
    wait_until("the strange documents to be in", || place.absorbed(&url) == 13);
    let pulled = place.run(&["pull", "--to", &url, "--job", "j", "--out", "m.anabranch", "--json"]).json();
    assert_eq!(pulled["observations"].as_u64(), Some(122));
    let inspected = place.run(&["inspect", "m.anabranch", "--json"]).json();
    assert_eq!(inspected["unknown_words"].as_f64(), Some(2.0), "thunder and gluten: {inspected}");
    let not_a_document = b"{\"tokens\": 3}\n";
    Wire::to(&server).publish("anabranch.j.rows", &[], not_a_document);
    worker.says("set aside");
}

#[test]
fn fit_of_topics_and_of_features_on_a_cluster_is_one_command() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    let (train, test) = (corpus(&place, "train.ldac", 400, 5), corpus(&place, "test.ldac", 200, 6));
    let (train, test) = (train.to_string_lossy().into_owned(), test.to_string_lossy().into_owned());
    let topics = [&["fit", &train, "--test", &test, "--json", "-q"], &TOPICS[..], &SIZES].concat();
    let rows = place.rows("rows.csv", 600, 8).to_string_lossy().into_owned();
    let held_out = place.rows("held-out.csv", 200, 9).to_string_lossy().into_owned();
    let features = ["fit", &rows, "--test", &held_out, "--model", "bp", "--json", "-q"];
    let features = [&features[..], &SIZES].concat();
    for (args, n, noise) in [(topics, 400, NOISE), (features, 600, 0.2)] {
        let here = place.run(&[&args[..], &["--cluster", &url, "--out", "m.anabranch"]].concat()).json();
        let alone = place.run(&args).json();
        assert_eq!(here["observations"].as_u64(), Some(n));
        assert_eq!(here["minibatches"].as_u64(), Some(n / BATCH));
        let score = |fit: &serde_json::Value| fit["test_log_likelihood"].as_f64().expect("a number");
        assert!((score(&here) - score(&alone)).abs() < noise, "{} and {} alone", score(&here), score(&alone));
        place.run(&["inspect", "m.anabranch"]).ok();
    }
}

#[test]
fn features_of_killed_workers_lose_and_repeat_nothing() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1500, 10));
    place.submit(&url, "j", &train, &["--model", "bp", "--max-deliver", "1000"]).ok();
    let first = Worker::start(&url, "j");
    wait_until("the journal to begin", || place.absorbed(&url) > 0);
    first.kill();
    let second = Worker::start(&url, "j");
    std::thread::sleep(Duration::from_millis(300));
    second.kill();
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    place.check(&url, "j", 1500, &[&workers[0], &workers[1]]);
}

#[test]
fn a_job_of_another_model_is_named() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), corpus(&place, "train.ldac", 60, 11));
    submit(&place, &url, &train, &[]);
    let rows = place.rows("rows.csv", 100, 12);
    let refused = place.submit(&url, "j", &rows, &[]);
    assert_eq!(refused.refusal(), "job `j` was created with model topics, this command has mixture");
    std::fs::write(place.path("words.txt"), (0..WORDS).map(|w| format!("w{w}\n")).collect::<String>())
        .unwrap();
    let (train, more) = (train.to_string_lossy().into_owned(), ["--ack-wait", "2", "--max-deliver", "1000"]);
    let args = ["submit", "--to", &url, "--job", "j", &train];
    let refused = place.run(&[&args[..], &TOPICS, &SIZES, &more].concat());
    assert!(refused.refusal().contains("vocabulary"), "other words: {}", refused.stderr);
}
