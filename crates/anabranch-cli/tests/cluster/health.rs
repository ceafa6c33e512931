//! Health that is honest: not ready when rows wait and nothing moves, and what is gone is there again or named.

use std::collections::BTreeSet;

use crate::deploy::deploy;
use crate::server::{Server, Version, wait_until};
use crate::support::{Place, Worker};
use crate::wire::Wire;

fn is_ready(worker: &Worker) -> bool {
    worker.get("/health/ready").unwrap_or_default().starts_with("HTTP/1.1 200")
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("anabranch_"));
    words.map(str::to_owned).collect()
}

#[test]
fn a_consumer_that_is_gone_comes_back_and_a_stream_that_is_gone_is_named() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 70));
    place.submit(&url, "j", &train, &[]).ok();
    let worker = Worker::start_with(&url, "j", &["--threads", "1", "--health-listen", "127.0.0.1:0"]);
    let probe =
        worker.says("health alone at http://").split_once("http://").expect("an address").1.to_owned();
    place.check(&url, "j", 1000, &[&worker]);
    assert!(is_ready(&worker));
    let page = |path: &str| Worker::get_at(probe.trim(), path).expect("a page");
    assert!(page("/health/live").contains("200 OK") && page("/health/ready").contains("200 OK"));
    assert!(page("/metrics").contains("404"), "a probe sees nothing else");
    // Every metric that the board and the rules name exists.
    let shown = names(&worker.get("/metrics").expect("a page"));
    for file in ["grafana.json", "alerts.yaml"] {
        let missing: Vec<_> = names(&deploy(file)).difference(&shown).cloned().collect();
        assert!(missing.is_empty(), "{file} names {missing:?}");
    }
    serde_json::from_str::<serde_json::Value>(&deploy("grafana.json")).expect("JSON");
    let mut wire = Wire::to(&server);
    wire.ask("$JS.API.CONSUMER.DELETE.anabranch-j-batches.workers", "").expect("an answer");
    let more = place.rows("more.csv", 500, 71);
    place.submit(&url, "j", &more, &[]).ok();
    place.check(&url, "j", 1500, &[&worker]);
    wire.ask("$JS.API.STREAM.DELETE.anabranch-j-batches", "").expect("an answer");
    wait_until("the worker to name it", || {
        let said = worker.get("/health/ready").unwrap_or_default();
        said.contains("503") && said.contains("stream `anabranch-j-batches` is gone")
    });
    assert!(worker.get("/health/live").expect("a page").contains("200 OK"));
}

#[test]
fn rows_that_wait_and_do_not_move_are_not_ready() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 72));
    place.submit(&url, "j", &train, &[]).ok();
    // Somebody holds the lease for ever and does nothing, so that the bootstrap does not come.
    let mut wire = Wire::to(&server);
    let worker = Worker::start_with(&url, "j", &["--threads", "1", "--stalled-after", "1"]);
    wait_until("it to stall", || {
        wire.publish("$KV.anabranch-j.lease", &[], b"somebody");
        !is_ready(&worker)
    });
    let said = worker.get("/health/ready").expect("a page");
    assert!(said.contains("20 minibatches wait, and nothing has moved for"), "{said}");
    assert!(worker.get("/metrics").expect("a page").contains("anabranch_ready{job=\"j\"} 0"));
    // Whoever was in the way has gone.
    place.check(&url, "j", 1000, &[]);
    wait_until("it to be ready", || is_ready(&worker));
}

#[test]
fn an_empty_token_is_no_token() {
    let output = crate::support::anabranch()
        .args(["worker", "--job", "j", "--to", "nats://127.0.0.1:1"])
        .env("ANABRANCH_TOKEN", " ")
        .output()
        .expect("it starts");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: ANABRANCH_TOKEN is empty"));
}
