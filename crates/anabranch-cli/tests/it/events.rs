//! `--events` and `--max-components`: any id can be followed through the run.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::data::{clusters_at, three_clusters};
use crate::support::{Sandbox, assert_mass, whole};

fn events(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.text("events.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(event: &Value, name: &str) -> Vec<u64> {
    event[name].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

/// Replays births, merges and splits. Every id that ends was alive, and every one that begins is new.
fn replayed(events: &[Value]) -> Vec<u64> {
    assert_eq!(events[0]["event"], "start");
    let mut alive: BTreeMap<u64, ()> = ids(&events[0], "ids").into_iter().map(|id| (id, ())).collect();
    let (mut version, mut seconds) = (0, 0.0);
    for event in &events[1..] {
        assert!(event["seconds"].as_f64().unwrap() >= seconds, "{event}");
        seconds = event["seconds"].as_f64().unwrap();
        // Clusters are those of a snapshot, which others may have overtaken.
        if ["birth", "merge", "split"].contains(&event["event"].as_str().unwrap()) {
            assert!(whole(event, "version") >= version, "{event}");
            version = whole(event, "version");
        }
        match event["event"].as_str().unwrap() {
            "birth" => assert_eq!(alive.insert(whole(event, "id"), ()), None, "{event}"),
            "merge" => {
                assert_eq!(alive.remove(&whole(event, "id")), Some(()), "{event}");
                assert!(alive.contains_key(&whole(event, "into")), "{event}");
            }
            "split" => {
                assert_eq!(alive.remove(&whole(event, "id")), Some(()), "{event}");
                for part in ids(event, "into") {
                    assert_eq!(alive.insert(part, ()), None, "{event}");
                }
            }
            "limit" | "appeared" | "joined" | "parted" => {}
            "end" => {}
            other => panic!("{other}"),
        }
    }
    alive.into_keys().collect()
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

/// Many overlapping clusters that come in one after another: births, merges, and splits or not.
fn crowded() -> String {
    let parts =
        (0..12).map(|ix| clusters_at([f64::from(ix) * 2.5, f64::from(ix * ix % 7) * 3.0], 120, ix as u64));
    let rows: String = parts
        .map(|part| part.csv().lines().skip(1).map(|line| format!("{line}\n")).collect::<String>())
        .collect();
    format!("x,y\n{rows}")
}

#[test]
fn replaying_the_events_gives_the_final_ids() {
    for schedule in
        [&["--schedule", "free", "--threads", "2"][..], &["--schedule", "deterministic", "--workers", "3"]]
    {
        let sandbox = Sandbox::with("rows.csv", crowded());
        let small = ["--bootstrap", "300", "--batch-size", "40", "--max-new", "8", "--quiet"];
        let run = ["fit", "rows.csv", "--out", "model", "--events", "events.jsonl"];
        sandbox.run(&[&run[..], &small, schedule].concat()).ok();
        let events = events(&sandbox);
        let inspected = sandbox.run(&["inspect", "model", "--json"]).silent_json();
        let last: Vec<u64> =
            inspected["components"].as_array().unwrap().iter().map(|c| whole(c, "id")).collect();
        assert_eq!(replayed(&events), sorted(last.clone()));
        let end = events.last().unwrap();
        assert_eq!((end["event"].as_str(), sorted(ids(end, "ids"))), (Some("end"), sorted(last)));
        let happened = |what: &str| events.iter().filter(|event| event["event"] == what).count();
        assert!(happened("birth") > 3 && happened("appeared") > 0, "the run has a history");
        assert_eq!(end["rows"].as_f64(), Some(12.0 * 360.0));
    }
}

#[test]
fn a_run_that_goes_on_tells_what_it_begins_with() {
    let sandbox = Sandbox::with("today.csv", three_clusters(200, 1).csv());
    sandbox.write("tomorrow.csv", clusters_at([200.0, 0.0], 400, 2).csv());
    sandbox.fit(&["today.csv", "--out", "model"]);
    sandbox.fit(&["tomorrow.csv", "--from", "model", "--out", "new", "--events", "events.jsonl"]);
    let events = events(&sandbox);
    assert_eq!(ids(&events[0], "ids").len(), 3);
    assert_eq!(events[0]["rows"].as_f64(), Some(600.0));
    let inspected = sandbox.run(&["inspect", "new", "--json"]).silent_json();
    let last = inspected["components"].as_array().unwrap().iter().map(|c| whole(c, "id")).collect();
    assert_eq!(replayed(&events), sorted(last));
    assert!(events.iter().any(|event| event["event"] == "appeared"), "clusters that today did not have");
}

#[test]
fn there_are_never_more_components_than_allowed_and_every_row_counts() {
    let sandbox = Sandbox::with("rows.csv", crowded());
    let small =
        ["--bootstrap", "300", "--batch-size", "40", "--trace", "trace.csv", "--events", "events.jsonl"];
    for most in [1, 4] {
        let most = most.to_string();
        let result =
            sandbox.fit(&[&["rows.csv", "--max-components", &most, "--out", "model"], &small[..]].concat());
        assert_mass(&result, 12 * 360);
        let most: u64 = most.parse().unwrap();
        assert!(whole(&result, "components") <= most);
        for line in sandbox.text("trace.csv").lines().skip(1) {
            assert!(line.split(',').nth(2).unwrap().parse::<u64>().unwrap() <= most, "{line}");
        }
        let events = events(&sandbox);
        assert_eq!(replayed(&events).len() as u64, whole(&result, "components"));
        let limits: Vec<usize> = (0..events.len()).filter(|ix| events[*ix]["event"] == "limit").collect();
        assert!(!limits.is_empty());
        // Each is followed by its merge; in one thread of entries nothing comes between.
        limits.iter().for_each(|ix| assert_eq!(events[ix + 1]["event"], "merge"));
    }
    let free = sandbox.fit(&["rows.csv", "--out", "free"]);
    let roomy = sandbox.fit(&["rows.csv", "--max-components", "500", "--out", "roomy"]);
    assert_eq!(free["components"], roomy["components"]);
    assert_eq!(sandbox.read("free"), sandbox.read("roomy"), "a bound that is not reached changes nothing");
}
