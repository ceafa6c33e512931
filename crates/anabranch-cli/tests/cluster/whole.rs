//! From rows to a model over a server, as a user does it.

use crate::server::{Server, Three, Version, wait_until};
use crate::support::{BATCH, NOISE, Place, Worker};

const ROWS: u64 = 3000;

fn submit_work_pull(version: Version) {
    let place = Place::new();
    let Some(server) = Server::start(version, &place.path("n0"), "") else { return };
    let url = server.url();
    let train = place.rows("train.csv", ROWS, 1);
    let submitted = place.submit(&url, "j", &train, &[]).json();
    assert_eq!(submitted["source"]["published"].as_u64(), Some(ROWS / BATCH));
    assert_eq!(submitted["source"]["rows"].as_u64(), Some(ROWS));
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    let status = place.check(&url, "j", ROWS, &[&workers[0], &workers[1]]);
    assert!(status["components"].as_u64().is_some_and(|n| n >= 6), "{status}");
    assert_eq!(status["finished"].as_bool(), Some(true), "{status}");
    place.compare_with_one_process(&train, BATCH);
    // The same file again is the same source: nothing is counted twice.
    place.submit(&url, "j", &train, &[]).ok();
    place.check(&url, "j", ROWS, &[]);
    for worker in workers {
        let report = worker.stop().json();
        assert_eq!(report["set_aside"].as_u64(), Some(0));
    }
}

#[test]
fn submit_work_and_pull_on_the_current_server() {
    submit_work_pull(Version::Current);
}

#[test]
fn submit_work_and_pull_on_the_oldest_server() {
    submit_work_pull(Version::Oldest);
}

#[test]
fn three_servers_keep_three_copies() {
    let place = Place::new();
    let Some(three) = Three::start(Version::Current, &place.path("servers")) else { return };
    let url = three.url();
    let train = place.rows("train.csv", 1500, 3);
    wait_until("the servers to find each other", || {
        place.submit(&url, "j", &train, &["--replicas", "3"]).code == 0
    });
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    place.check(&url, "j", 1500, &[&workers[0], &workers[1]]);
}

#[test]
fn fit_on_a_cluster_is_one_command() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train, test) = (server.url(), place.rows("train.csv", ROWS, 4), place.rows("test.csv", 500, 5));
    let (train, test) = (train.to_string_lossy().into_owned(), test.to_string_lossy().into_owned());
    let args = ["fit", &train, "--batch-size", "50", "--bootstrap", "500", "--test", &test, "--json", "-q"];
    let fit = place.run(&[&args[..], &["--cluster", &url, "--out", "m.anabranch"]].concat()).json();
    assert_eq!(fit["observations"].as_u64(), Some(ROWS));
    assert_eq!(fit["minibatches"].as_u64(), Some(ROWS / BATCH));
    let alone = place.run(&args).json();
    let (a, b) =
        (fit["test_log_likelihood"].as_f64().unwrap(), alone["test_log_likelihood"].as_f64().unwrap());
    assert!((a - b).abs() < NOISE, "{a} on the cluster, {b} in one process");
    place.run(&["inspect", "m.anabranch"]).ok();
    // Its job was its own and is gone.
    let refused = place.run(&[&args[..], &["--cluster", &url, "--checkpoint", "c"]].concat());
    assert_eq!(refused.refusal(), "--checkpoint does not go with --cluster");
}

/// The beginning and the increments are larger than a message may be.
#[test]
fn records_beyond_the_payload_limit_travel_in_parts() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "max_payload: 4KB") else { return };
    let (url, train) = (server.url(), place.wide_rows("train.csv", 1500, 6, 12));
    let input = train.to_string_lossy().into_owned();
    let sizes = ["--batch-size", "20", "--bootstrap", "500", "--snapshot-entries", "10"];
    place.run(&[&["submit", "--to", &url, "--job", "j", &input][..], &sizes].concat()).ok();
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    let status = place.check_minibatches(&url, "j", 1500, 75, &[&workers[0], &workers[1]]);
    let (entries, messages) = (status["entries"].as_u64().unwrap(), status["journal_last"].as_u64().unwrap());
    assert!(messages > entries * 3 / 2, "{messages} messages for {entries} entries: hardly any was cut");
    wait_until("a snapshot in small pieces", || {
        let status = place.run(&["status", "--to", &url, "--job", "j", "--json"]).json();
        status["snapshot"].as_u64().is_some_and(|at| at > 0)
    });
}

#[test]
fn a_worker_shows_its_health_and_metrics_and_ends_when_asked() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 7));
    place.submit(&url, "j", &train, &[]).ok();
    let worker = Worker::start(&url, "j");
    place.check(&url, "j", 1000, &[&worker]);
    let health = worker.health();
    assert_eq!((health["status"].as_str(), health["begun"].as_bool()), (Some("ok"), Some(true)), "{health}");
    let metrics = worker.get("/metrics").expect("a page");
    assert!(metrics.contains("anabranch_mass{job=\"j\""), "{metrics}");
    let status = place.run(&["status", "--to", &url, "--job", "j"]);
    assert!(status.ok().contains("20 minibatches absorbed"), "{}", status.stdout);
    wait_until("the worker to sign the list", || {
        let status = place.run(&["status", "--to", &url, "--job", "j", "--json"]).json();
        status["workers"].as_array().is_some_and(|workers| workers.len() == 1)
    });
    let ran = worker.stop();
    assert_eq!(ran.json()["rows"].as_u64(), Some(500), "the bootstrap's rows are not a worker's");
    let status = place.run(&["status", "--to", &url, "--job", "j", "--json"]).json();
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(0), "it left the list");
}

/// The parameters of the process are learned under the lease, and travel as entries.
#[test]
fn a_pitman_yor_mixture_learns_its_parameters_on_the_cluster() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 8));
    let model = ["--model", "py", "--alpha", "auto", "--discount", "auto"];
    place.submit(&url, "j", &train, &model).ok();
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    place.check(&url, "j", ROWS, &[&workers[0], &workers[1]]);
    place.compare_with_one_process_of(&train, BATCH, &model);
    let inspected = place.run(&["inspect", "checked.anabranch", "--json"]).json();
    assert_eq!(inspected["model"].as_str(), Some("py"), "{inspected}");
    let (alpha, discount) = (inspected["alpha"].as_f64(), inspected["discount"].as_f64());
    assert!(alpha.is_some_and(|alpha| alpha != 5.0) && discount.is_some_and(|d| d != 0.5), "{inspected}");
    let refused = place.submit(&url, "k", &train, &["--discount", "0.3"]);
    assert_eq!(refused.refusal(), "--discount belongs to --model py; this is --model dp");
}
