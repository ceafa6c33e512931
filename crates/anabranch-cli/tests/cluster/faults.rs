//! The fault battery: whatever is killed, paused, cut, late or repeated, every row counts once and all replicas agree.

use std::time::Duration;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::proxy::Proxy;
use crate::server::{Server, Three, Version, wait_until};
use crate::support::{BATCH, Place, Worker, anabranch, kill_at_random};
use crate::wire::Wire;

const ROWS: u64 = 3000;

/// Killed anywhere: while learning, between append and acknowledgement, while storing one of many snapshots.
#[test]
fn workers_killed_at_random_lose_and_repeat_nothing() {
    for seed in 0..2 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let place = Place::new();
        let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
        let (url, train) = (server.url(), place.rows("train.csv", ROWS, 10 + seed));
        place.submit(&url, "j", &train, &["--snapshot-entries", "3", "--max-deliver", "1000"]).ok();
        let mut workers: Vec<Worker> = (0..3).map(|_| Worker::start(&url, "j")).collect();
        if seed == 0 {
            // One run with the kills in the stream, one with them in the bootstrap.
            wait_until("the journal to begin", || place.absorbed(&url) > 0);
        }
        kill_at_random(&mut workers, &url, &mut rng);
        let alive: Vec<&Worker> = workers.iter().collect();
        place.check(&url, "j", ROWS, &alive);
        place.compare_with_one_process(&train, BATCH);
    }
}

/// The journal's leader dies and comes back, again and again, while three workers append.
fn the_leader_dies(version: Version) {
    let place = Place::new();
    let Some(mut three) = Three::start(version, &place.path("servers")) else { return };
    let (url, train) = (three.url(), place.rows("train.csv", ROWS, 20));
    wait_until("the servers to find each other", || {
        place.submit(&url, "j", &train, &["--replicas", "3", "--max-deliver", "1000"]).code == 0
    });
    let workers: Vec<Worker> = (0..3).map(|_| Worker::start(&url, "j")).collect();
    for _ in 0..3 {
        let before = place.absorbed(&url);
        let leader = three.leader("anabranch-j-journal");
        three.servers[leader].kill();
        // Another one has taken over before it comes back.
        assert_ne!(three.leader("anabranch-j-journal"), leader);
        three.servers[leader].go_on();
        // Two of three are always there, so the work goes on.
        wait_until("the work to go on", || {
            let now = place.absorbed(&url);
            now > before || now == ROWS / BATCH
        });
    }
    let alive: Vec<&Worker> = workers.iter().collect();
    place.check(&url, "j", ROWS, &alive);
    place.compare_with_one_process(&train, BATCH);
}

#[test]
fn the_leader_of_three_servers_is_killed_and_restarted() {
    the_leader_dies(Version::Current);
}

#[test]
fn the_leader_of_three_old_servers_is_killed_and_restarted() {
    the_leader_dies(Version::Oldest);
}

#[test]
fn the_only_server_is_killed_and_restarted() {
    let place = Place::new();
    let Some(mut server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 30));
    place.submit(&url, "j", &train, &["--max-deliver", "1000"]).ok();
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
        server.go_on();
    }
    place.check(&url, "j", ROWS, &[&workers[0], &workers[1]]);
    place.compare_with_one_process(&train, BATCH);
}

/// Its minibatches go to another worker; when it wakes it appends them too, and that is void.
#[test]
fn a_paused_worker_wakes_and_appends_late() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 40));
    place.submit(&url, "j", &train, &[]).ok();
    let sleeper = Worker::start(&url, "j");
    wait_until("the sleeper to have begun", || place.absorbed(&url) > 12);
    sleeper.signal("-STOP");
    let other = Worker::start(&url, "j");
    // Two seconds of ack_wait after the pause, what the sleeper held is delivered again.
    place.check(&url, "j", ROWS, &[&other]);
    sleeper.signal("-CONT");
    place.check(&url, "j", ROWS, &[&other, &sleeper]);
    place.compare_with_one_process(&train, BATCH);
}

/// An append that is under way for longer than `ack_wait`: the minibatch has long been absorbed from another worker when it
/// arrives, and the journal voids it.
#[test]
fn an_append_that_arrives_late_is_void() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 41));
    // The first appends are the beginning and a few minibatches.
    let slow = Proxy::with_gate(server.port, "PUB anabranch.j.journal.", 6);
    place.submit(&url, "j", &train, &["--max-deliver", "1000"]).ok();
    let late = Worker::start(&slow.url(), "j");
    slow.wait_for_the_word();
    let other = Worker::start(&url, "j");
    place.check(&url, "j", ROWS, &[&other]);
    slow.open_the_gate();
    wait_until("the late append to be void", || {
        let status = place.run(&["status", "--to", &url, "--job", "j", "--json"]).json();
        status["repeated"].as_u64().is_some_and(|repeated| repeated > 0)
    });
    place.check(&url, "j", ROWS, &[&other, &late]);
    place.compare_with_one_process(&train, BATCH);
}

/// What the worker learned is in the journal, and the server does not know that the minibatch is done.
#[test]
fn workers_killed_between_append_and_acknowledgement_repeat_nothing() {
    // Within the acknowledgements of the bootstrap, and after them.
    for passes in [4, 25] {
        let place = Place::new();
        let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
        let (url, train) = (server.url(), place.rows("train.csv", ROWS, 42));
        let proxy = Proxy::with_gate(server.port, "+ACK", passes);
        place.submit(&url, "j", &train, &["--max-deliver", "1000"]).ok();
        let victim = Worker::start(&proxy.url(), "j");
        proxy.wait_for_the_word();
        victim.kill();
        let other = Worker::start(&url, "j");
        place.check(&url, "j", ROWS, &[&other]);
        place.compare_with_one_process(&train, BATCH);
        let redelivered = other.stop().json()["redelivered"].as_u64();
        assert!(redelivered.is_some_and(|n| n > 0), "nothing was delivered again: {redelivered:?}");
    }
}

/// The rows of a minibatch once more, under its name, as a message that the server takes for another one.
fn publish_again(wire: &mut Wire, source: u64, train: &std::path::Path, number: usize) {
    let text = std::fs::read_to_string(train).expect("rows");
    let rows: Vec<&str> = text.lines().skip(1 + BATCH as usize * number).take(BATCH as usize).collect();
    let subject = format!("anabranch.j.batch.{source}");
    let payload = format!("a,b,c\n{}\n", rows.join("\n"));
    wire.publish(&subject, &[("Anabranch-Batch", &number.to_string())], payload.as_bytes());
}

/// While the first entry of a worker is held back, what its threads learn is added up. Of that sum somebody else settles one
/// minibatch: the sum is void, and the others are learned again.
#[test]
fn a_sum_of_which_a_part_was_settled_elsewhere_is_void_and_its_rest_is_learned_again() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 44));
    let proxy = Proxy::with_gate(server.port, "PUB anabranch.j.journal.", 1);
    // Nothing is delivered again by itself.
    let input = train.to_string_lossy().into_owned();
    let sizes = ["--batch-size", "50", "--bootstrap", "500", "--ack-wait", "600"];
    place.run(&[&["submit", "--to", &url, "--job", "j", &input][..], &sizes].concat()).ok();
    let summing = Worker::start_with(&proxy.url(), "j", &["--threads", "4"]);
    proxy.wait_for_the_word();
    let status = || place.run(&["status", "--to", &url, "--job", "j", "--json"]).json();
    // All ten behind the bootstrap are in the hands of this worker: what the other one settles is what is published again.
    wait_until("the worker to hold the rest", || {
        let now = status();
        now["held"] == 10 && now["pending"] == 10
    });
    let other = Worker::start(&url, "j");
    let before = status();
    let absorbed = before["absorbed"].as_u64().expect("a number");
    let source = before["sources"][0]["number"].as_u64().expect("a number");
    // The first worker may take a copy too; as it settles nothing, one reaches the other.
    let mut wire = Wire::to(&server);
    wait_until("it to be settled", || {
        publish_again(&mut wire, source, &train, 15);
        status()["absorbed"].as_u64() > Some(absorbed)
    });
    proxy.open_the_gate();
    place.check(&url, "j", 1000, &[&other, &summing]);
    place.compare_with_one_process(&train, BATCH);
    let report = summing.stop().json();
    assert!(report["overtaken"].as_u64().is_some_and(|n| n > 0), "{report}");
}

/// Killed with a sum that was not appended, and with one that was, of which the server has a part of the acknowledgements.
#[test]
fn a_worker_killed_around_the_append_of_a_sum_loses_and_repeats_nothing() {
    for (word, passes) in [("PUB anabranch.j.journal.", 1), ("PUB anabranch.j.journal.", 2), ("+ACK", 13)] {
        let place = Place::new();
        let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
        let (url, train) = (server.url(), place.rows("train.csv", ROWS, 45));
        let proxy = Proxy::with_gate(server.port, word, passes);
        place.submit(&url, "j", &train, &["--max-deliver", "1000"]).ok();
        let victim = Worker::start_with(&proxy.url(), "j", &["--threads", "4"]);
        proxy.wait_for_the_word();
        victim.kill();
        let other = Worker::start(&url, "j");
        place.check(&url, "j", ROWS, &[&other]);
        place.compare_with_one_process(&train, BATCH);
    }
}

/// The pieces of a snapshot are in the store, and nothing says that they are one.
#[test]
fn a_worker_killed_while_it_stores_a_snapshot_leaves_nothing_behind() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 43));
    let proxy = Proxy::with_gate(server.port, "PUB $O.anabranch-j-snapshots.M.", 0);
    let often = ["--snapshot-entries", "5", "--snapshot-seconds", "1", "--max-deliver", "1000"];
    place.submit(&url, "j", &train, &often).ok();
    let victim = Worker::start(&proxy.url(), "j");
    proxy.wait_for_the_word();
    victim.kill();
    let mut wire = Wire::to(&server);
    let mut state = |what: &str| {
        let info = wire.ask("$JS.API.STREAM.INFO.OBJ_anabranch-j-snapshots", "").expect("an answer");
        info["state"][what].as_u64().expect("a number")
    };
    let left_behind = state("last_seq");
    assert!(left_behind > 0, "there are no pieces");
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    place.check(&url, "j", ROWS, &[&workers[0], &workers[1]]);
    place.compare_with_one_process(&train, BATCH);
    wait_until("the pieces to be swept away", || state("first_seq") > left_behind);
}

#[test]
fn a_worker_that_is_cut_off_comes_back() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 50));
    let proxy = Proxy::to(server.port);
    place.submit(&url, "j", &train, &["--max-deliver", "1000"]).ok();
    let far = Worker::start(&proxy.url(), "j");
    let near = Worker::start(&url, "j");
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        proxy.cut();
        std::thread::sleep(Duration::from_millis(700));
        proxy.heal();
    }
    place.check(&url, "j", ROWS, &[&near, &far]);
    place.compare_with_one_process(&train, BATCH);
}

#[test]
fn a_submitter_that_was_killed_is_taken_up_again() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    // A queue of one megabyte holds a part of the rows: the submitter has to wait for workers, and is killed there.
    let rows = 60_000;
    let (url, train) = (server.url(), place.rows("train.csv", rows, 60));
    let small =
        ["--queue-megabytes", "1", "--ack-wait", "2", "--json", "--batch-size", "50", "--bootstrap", "500"];
    let path = train.to_string_lossy().into_owned();
    for _ in 0..2 {
        let mut args = vec!["submit", "--to", &url, "--job", "j", "-q"];
        args.extend(small);
        args.push(&path);
        let mut child =
            anabranch().args(&args).stdout(std::process::Stdio::null()).spawn().expect("it starts");
        wait_until("the queue to fill", || {
            let status = place.run(&["status", "--to", &url, "--job", "j", "--json"]);
            status.code == 0 && status.json()["queue_bytes"].as_u64().is_some_and(|bytes| bytes > 900_000)
        });
        child.kill().expect("it can be killed");
        child.wait().expect("it is gone");
    }
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    let done = place.submit(&url, "j", &train, &["--queue-megabytes", "1"]).json();
    assert_eq!(done["source"]["finished"].as_bool(), Some(true));
    assert_eq!(done["source"]["published"].as_u64(), Some(rows / BATCH));
    place.check(&url, "j", rows, &[&workers[0], &workers[1]]);
    place.compare_with_one_process(&train, BATCH);
}

/// A journal of one megabyte for more than that: it is trimmed behind snapshots, and appends wait for the room.
#[test]
fn a_full_journal_waits_for_the_trim() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.wide_rows("train.csv", 20_000, 70, 8));
    let input = train.to_string_lossy().into_owned();
    let sizes = ["--batch-size", "20", "--bootstrap", "500", "--journal-megabytes", "1", "--ack-wait", "2"];
    place.run(&[&["submit", "--to", &url, "--job", "j", &input][..], &sizes].concat()).ok();
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    let status = place.check_minibatches(&url, "j", 20_000, 1000, &[&workers[0], &workers[1]]);
    assert!(
        status["journal_first"].as_u64().is_some_and(|first| first > 100),
        "nothing was trimmed: {status}"
    );
    place.compare_with_one_process(&train, 20);
    // A newcomer starts from a snapshot: the journal's beginning is gone.
    let newcomer = Worker::start(&url, "j");
    place.check_minibatches(&url, "j", 20_000, 1000, &[&newcomer, &workers[0]]);
}

/// The holder of the lease tells states; a follower that was cut off has missed some, and comes to the same.
#[test]
fn a_follower_that_misses_states_comes_to_the_same() {
    let rows = 40_000;
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", rows, 71));
    place.submit(&url, "j", &train, &["--max-deliver", "1000"]).ok();
    let teller = Worker::start(&url, "j");
    wait_until("the journal to begin", || place.absorbed(&url) > 0);
    let proxy = Proxy::to(server.port);
    let follower = Worker::start(&proxy.url(), "j");
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(250));
        proxy.cut();
        std::thread::sleep(Duration::from_millis(300));
        proxy.heal();
    }
    place.check(&url, "j", rows, &[&teller, &follower]);
    place.compare_with_one_process(&train, BATCH);
    let told = teller.stop().json();
    assert!(told["states"].as_u64().is_some_and(|n| n > 0), "{told}");
    // Whoever is left holds the lease soon, and tells.
    place.submit(&url, "j", &place.rows("more.csv", 1000, 72), &["--max-deliver", "1000"]).ok();
    place.check(&url, "j", rows + 1000, &[&follower]);
}
