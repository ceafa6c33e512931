//! A job of several queues: rows are dealt out to all of them, and nothing else is different.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::server::{Server, Three, Version, wait_until};
use crate::support::{BATCH, Place, Worker, kill_at_random};
use crate::wire::Wire;

const ROWS: u64 = 5000;

/// Minibatches that wait in a queue.
fn messages(wire: &mut Wire, queue: &str) -> u64 {
    let info = wire.ask(&format!("$JS.API.STREAM.INFO.anabranch-j-{queue}"), "").expect("an answer");
    info["state"]["messages"].as_u64().unwrap_or_else(|| panic!("{info}"))
}

#[test]
fn workers_of_several_queues_are_killed_and_no_row_is_lost() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 101));
    place.submit(&url, "j", &train, &["--queues", "3", "--max-deliver", "1000"]).ok();
    let mut wire = Wire::to(&server);
    let waiting = ["batches", "batches-1", "batches-2"].map(|queue| messages(&mut wire, queue));
    assert_eq!(waiting.iter().sum::<u64>(), ROWS / BATCH);
    assert!(waiting.iter().max().unwrap() - waiting.iter().min().unwrap() <= 1, "{waiting:?}");
    assert!(place.run(&["jobs", "--to", &url]).ok().starts_with("j: 100 pending"));
    let mut workers: Vec<Worker> = (0..3).map(|_| Worker::start(&url, "j")).collect();
    kill_at_random(&mut workers, &url, &mut Xoshiro256PlusPlus::seed_from_u64(101));
    let alive: Vec<&Worker> = workers.iter().collect();
    place.check(&url, "j", ROWS, &alive);
    place.compare_with_one_process(&train, BATCH);
    // A minibatch that comes again through another queue is the same one.
    let source = place.run(&["status", "--to", &url, "--job", "j", "--json"]).json();
    let source = source["sources"][0]["number"].as_u64().expect("a number");
    let text = std::fs::read_to_string(&train).expect("rows");
    let rows: Vec<&str> = text.lines().skip(1 + BATCH as usize).take(BATCH as usize).collect();
    let payload = format!("a,b,c\n{}\n", rows.join("\n"));
    let subject = format!("anabranch.j.batch.{source}.2");
    wire.publish(&subject, &[("Anabranch-Batch", "1")], payload.as_bytes());
    // Rows from anybody go through the first one, and are nobody else's.
    wire.publish("anabranch.j.rows", &[], payload.as_bytes());
    let more = place.rows("more.csv", 500, 102);
    place.submit(&url, "j", &more, &["--queues", "3", "--max-deliver", "1000"]).ok();
    place.check(&url, "j", ROWS + 500 + BATCH, &alive);
    assert_eq!(
        place.submit(&url, "j", &train, &["--max-deliver", "1000"]).refusal(),
        "job `j` was created with queues 3, this command has none"
    );
    place.run(&["delete", "--to", &url, "--job", "j", "--yes"]).ok();
    let left = wire.ask("$JS.API.STREAM.NAMES", "").expect("an answer");
    assert_eq!(left["total"].as_u64(), Some(0), "{left}");
}

#[test]
fn a_consumer_of_one_of_several_queues_comes_back() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 103));
    place.submit(&url, "j", &train, &["--queues", "2"]).ok();
    let worker = Worker::start(&url, "j");
    place.check(&url, "j", 1000, &[&worker]);
    let mut wire = Wire::to(&server);
    wire.ask("$JS.API.CONSUMER.DELETE.anabranch-j-batches-1.workers", "").expect("an answer");
    place.submit(&url, "j", &place.rows("more.csv", 500, 104), &["--queues", "2"]).ok();
    place.check(&url, "j", 1500, &[&worker]);
    wire.ask("$JS.API.STREAM.DELETE.anabranch-j-batches-1", "").expect("an answer");
    wait_until("the worker to name it", || {
        let said = worker.get("/health/ready").unwrap_or_default();
        said.contains("503") && said.contains("stream `anabranch-j-batches-1` is gone")
    });
}

/// With one server of three nobody can be chosen to lead; the commands say so and wait for the others.
#[test]
fn commands_wait_for_the_election_of_a_leader_and_say_so() {
    let place = Place::new();
    let Some(mut three) = Three::start(Version::Current, &place.path("servers")) else { return };
    let (first, train) = (three.servers[0].url(), place.rows("train.csv", 1000, 105));
    let input = train.to_string_lossy().into_owned();
    three.servers[1].kill();
    three.servers[2].kill();
    let mut child = crate::support::anabranch()
        .args(["submit", "--to", &first, "--job", "j", "--replicas", "3", "--batch-size", "50"])
        .args(["--bootstrap", "500", "--ack-wait", "2", "--queues", "2", &input])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().expect("it is piped"));
    std::io::BufRead::read_line(&mut stderr, &mut said).expect("a line");
    assert!(said.contains("have no leader yet: waiting for up to 60 s"), "{said}");
    three.servers[1].go_on();
    three.servers[2].go_on();
    assert!(child.wait().expect("it ends").success());
    let workers = [Worker::start(&first, "j"), Worker::start(&three.url(), "j")];
    place.check(&first, "j", 1000, &[&workers[0], &workers[1]]);
}
