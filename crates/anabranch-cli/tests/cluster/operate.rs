//! What an operator does with jobs, with minibatches that were set aside, and with files that have grown.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::server::{Server, Version, wait_until};
use crate::support::{Place, Worker, anabranch};
use crate::wire::Wire;

fn start(args: &[&str]) -> Child {
    anabranch().args(args).stdout(Stdio::piped()).spawn().expect("it starts")
}

/// SIGTERM, which ends it well.
fn end(mut child: Child) {
    let killed = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(killed.success());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn jobs_are_listed_paused_watched_followed_and_deleted() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 60));
    let run = |args: &[&str]| place.run(&[args, &["--to", &url]].concat());
    assert!(run(&["jobs"]).ok().contains("no jobs"));
    place.submit(&url, "j", &train, &[]).ok();
    let listed = run(&["jobs", "--json"]).json();
    assert_eq!((listed[0]["job"].as_str(), listed[0]["pending"].as_u64()), (Some("j"), Some(20)), "{listed}");
    run(&["pause", "--job", "j"]).ok();
    let worker = Worker::start_with(&url, "j", &["--threads", "1", "--stalled-after", "1"]);
    let status = || run(&["status", "--job", "j", "--json"]).json();
    wait_until("the worker to hold the lease", || status()["workers"][0]["lease"] == true);
    let now = status();
    assert_eq!((now["paused"].as_bool(), now["absorbed"].as_u64()), (Some(true), Some(0)), "{now}");
    assert!(run(&["status", "--job", "j"]).ok().contains("; paused"));
    assert_eq!(worker.health()["status"].as_str(), Some("ok"), "what is paused has not stalled");
    let model = place.path("followed.anabranch").to_string_lossy().into_owned();
    let follow = start(&["pull", "--to", &url, "--job", "j", "--out", &model, "--follow", "--every", "1"]);
    let mut watch = start(&["watch", "--to", &url, "--job", "j", "--json", "--every", "1"]);
    run(&["resume", "--job", "j"]).ok();
    place.check(&url, "j", 1000, &[&worker]);
    let lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let is_in = |line: &String| line.contains("\"mass\":1000.0");
    assert!(lines.into_iter().any(|line| is_in(&line)), "watch shows every row");
    end(watch);
    wait_until("the model to be rewritten", || {
        let inspected = place.run(&["inspect", &model, "--json"]);
        inspected.code == 0 && inspected.json()["observations"] == 1000
    });
    end(follow);
    let refused = run(&["delete", "--job", "j"]);
    assert_eq!(
        refused.refusal(),
        "job j has learned from 1,000 rows, 0 minibatches wait, and it has 1 worker"
    );
    drop(worker);
    run(&["delete", "--job", "j", "--yes"]).ok();
    assert!(run(&["jobs"]).ok().contains("no jobs"));
    assert_eq!(run(&["delete", "--job", "j", "--yes"]).refusal(), "there is no job `j`");
}

#[test]
fn what_was_set_aside_is_shown_published_again_once_and_forgotten() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 61));
    place.submit(&url, "j", &train, &[]).ok();
    let worker = Worker::start(&url, "j");
    place.check(&url, "j", 1000, &[]);
    let run = |args: &[&str]| place.run(&[args, &["--to", &url, "--job", "j"]].concat());
    let status = || run(&["status", "--json"]).json();
    let mut wire = Wire::to(&server);
    for bad in ["a,b,c\n1,2,what\n", "nonsense", "a,b,c\n1,2,\x1b[2J\n"] {
        wire.publish("anabranch.j.rows", &[], bad.as_bytes());
    }
    wait_until("three to be set aside", || status()["set_aside"] == 3 && status()["pending"] == 0);
    let list = run(&["dead"]).ok().to_owned();
    assert!(list.contains("1: 15 bytes from anabranch.j.rows: ") && list.contains("\"what\""), "{list}");
    assert!(!list.contains('\x1b'), "{list:?}");
    assert_eq!(run(&["dead", "show", "1"]).ok(), "a,b,c\n1,2,what\n");
    std::fs::write(place.path("mended.csv"), "a,b,c\n1,2,3\n4,5,6\n").expect("a file");
    run(&["dead", "requeue", "1", "--with", "mended.csv"]).ok();
    wait_until("it to be in", || status()["mass"] == 1002.0);
    // Cut off before it was forgotten and repeated, it counts once: its name is the same.
    let numbers = "$KV.anabranch-j.source.*";
    let info = format!("{{\"subjects_filter\": \"{numbers}\"}}");
    let named = wire.ask("$JS.API.STREAM.INFO.KV_anabranch-j", &info).expect("an answer");
    assert_eq!(named["state"]["subjects"].as_object().map(|subjects| subjects.len()), Some(2), "{named}");
    // What fails again is set aside again, under a number of its own.
    run(&["dead", "requeue", "2"]).ok();
    wait_until("it to be back", || status()["set_aside"] == 4 && status()["pending"] == 0);
    let numbers: Vec<u64> = run(&["dead", "list", "--json"])
        .json()
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["number"].as_u64())
        .collect();
    assert_eq!(numbers, [3, 4]);
    assert!(run(&["dead", "drop", "--all"]).ok().contains("2 minibatches forgotten"));
    assert!(run(&["dead"]).ok().contains("nothing was set aside"));
    assert_eq!(run(&["dead", "drop", "3"]).refusal(), "no minibatch that was set aside has number 3");
    assert_eq!(run(&["dead", "show"]).refusal(), "show takes one number");
    assert_eq!(status()["mass"].as_f64(), Some(1002.0));
    worker.stop().ok();
}

#[test]
fn a_file_that_has_grown_brings_its_new_rows_and_a_copy_brings_none() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1030, 62));
    let submit = |path: &std::path::Path| place.submit(&url, "j", path, &[]);
    assert_eq!(submit(&train).json()["new_rows"].as_u64(), Some(1030));
    let text = std::fs::read_to_string(&train).expect("rows");
    let more = std::fs::read_to_string(place.rows("more.csv", 500, 63)).expect("rows");
    let more = more.split_once('\n').expect("a header").1;
    std::fs::write(&train, format!("{text}{more}")).expect("a file");
    let grown = submit(&train).json();
    assert_eq!((grown["new_rows"].as_u64(), grown["source"]["rows"].as_u64()), (Some(500), Some(1530)));
    assert_eq!(submit(&train).json()["new_rows"].as_u64(), Some(0));
    // The same rows elsewhere are known; fewer, or others behind the first minibatch, are refused.
    let copy = place.path("copy.csv");
    std::fs::copy(&train, &copy).expect("a copy");
    let known = submit(&copy).json();
    assert_eq!(known["new_rows"].as_u64(), Some(0), "{known}");
    assert!(known["source"]["name"].as_str().is_some_and(|name| name.ends_with("train.csv")), "{known}");
    std::fs::write(&copy, &text).expect("a file");
    assert!(
        submit(&copy).refusal().contains("is in the job with 1,530 rows, and these do not begin with them")
    );
    let lines: Vec<&str> = text.lines().collect();
    let changed = format!("{}\n0,0,0\n{more}{more}", lines[..1030].join("\n"));
    std::fs::write(&train, changed).expect("a file");
    let refused = submit(&train);
    assert!(refused.refusal().ends_with("nothing was published"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--source NAME"), "{}", refused.stderr);
    let worker = Worker::start(&url, "j");
    // 21 minibatches, of which the last has 30 rows, and 11 more that begin behind it.
    place.check_minibatches(&url, "j", 1530, 32, &[&worker]);
}
