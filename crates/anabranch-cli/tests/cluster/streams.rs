//! Rows from anybody, poison, repeats, and programs of other versions: messages that `submit` did not write.

use std::collections::BTreeMap;

use crate::proxy::Proxy;
use crate::server::{Server, Version, wait_until};
use crate::support::{BATCH, Place, Worker};
use crate::wire::Wire;

fn json_rows(first: usize, n: usize) -> Vec<u8> {
    let line = |ix: usize| {
        let (cluster, wave) = (ix % 3, (ix as f64 * 0.7).sin());
        format!(
            "{{\"b\": {}, \"a\": {}, \"note\": \"x\"}}\n",
            cluster as f64 * 10.0 + wave,
            cluster as f64 * 8.0 - wave
        )
    };
    (first..first + n).map(line).collect::<String>().into_bytes()
}

fn open_job(place: &Place, url: &str, more: &[&str]) {
    let base =
        ["submit", "--to", url, "--job", "j", "--columns", "a,b", "--bootstrap", "300", "--ack-wait", "2"];
    let ran = place.run(&[&base[..], more].concat());
    assert!(ran.ok().contains("publish rows to anabranch.j.rows"), "{}", ran.stdout);
}

fn status(place: &Place, url: &str) -> serde_json::Value {
    place.run(&["status", "--to", url, "--job", "j", "--json"]).json()
}

#[test]
fn rows_from_anybody_are_learned_and_bad_ones_set_aside_with_the_reason() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    open_job(&place, &url, &[]);
    let mut wire = Wire::to(&server);
    for ix in 0..10 {
        wire.publish("anabranch.j.rows", &[], &json_rows(ix * 50, 50));
    }
    wire.publish("anabranch.j.rows", &[], b"{\"a\": 1, \"b\": \"what\"}");
    let worker = Worker::start(&url, "j");
    wait_until("the first ten to be settled", || status(&place, &url)["pending"] == 0);
    wire.publish("anabranch.j.rows", &[], b"{\"a\": 1}");
    wire.publish("anabranch.j.rows", &[], &arrow_rows(4));
    wait_until("all to be settled", || {
        let now = status(&place, &url);
        now["pending"] == 0 && now["absorbed"] == 11
    });
    let now = status(&place, &url);
    assert_eq!((now["mass"].as_f64(), now["set_aside"].as_u64()), (Some(504.0), Some(2)), "{now}");
    let dead = wire.ask("$JS.API.STREAM.MSG.GET.anabranch-j-dead", "{\"seq\": 1}").expect("an answer");
    assert!(dead["message"]["hdrs"].is_string(), "{dead}");
    let info = wire.ask("$JS.API.STREAM.INFO.anabranch-j-dead", "").expect("an answer");
    assert_eq!(info["state"]["messages"].as_u64(), Some(2), "{info}");
    let ran = worker.stop();
    assert!(ran.stderr.contains("set aside"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\"what\" is not a number"), "{}", ran.stderr);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(bytes).expect("memory");
    writer.finish().expect("memory")
}

/// The header of a minibatch that was set aside.
fn dead_letter(wire: &mut Wire, sequence: u64) -> String {
    let asked = format!("{{\"seq\": {sequence}}}");
    let dead = wire.ask("$JS.API.STREAM.MSG.GET.anabranch-j-dead", &asked).expect("an answer");
    let packed = dead["message"]["hdrs"].as_str().unwrap_or_else(|| panic!("{dead}"));
    String::from_utf8(data_encoding::BASE64.decode(packed.as_bytes()).expect("base64")).expect("text")
}

/// Small messages that are large ones inside, as the first of a job and as later ones.
#[test]
fn messages_that_burst_are_set_aside_by_founders_and_by_workers() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    open_job(&place, &url, &["--on-bad-row", "skip"]);
    let (rows, bytes, cell) = ("more than 131072 rows", "unpacks to", "is longer than 16777216 bytes");
    let zeros = |rows: usize| {
        let head = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 2), }}");
        let head = format!("{head:<117}\n");
        [b"\x93NUMPY\x01\x00v\x00", head.as_bytes(), &vec![0; 16 * rows]].concat()
    };
    // In every format that a message may have.
    let bombs = [
        (gzip(&b"[1, 2]\n".repeat(1 << 18)), rows),
        (gzip(&b"{\"a\": 1, \"b\": 2}\n".repeat(1 << 18)), rows),
        (gzip(&[b"a,b\n".to_vec(), b"1,2\n".repeat(1 << 18)].concat()), rows),
        (gzip(&zeros(1 << 18)), rows),
        (gzip(&arrow_rows(1 << 18)), rows),
        (gzip(&b"\n".repeat(65 << 20)), bytes),
        (gzip(&[b"[1, ".to_vec(), b" ".repeat(65 << 20)].concat()), cell),
        (gzip(&[b"a,b\n\"".to_vec(), b"x".repeat(65 << 20)].concat()), cell),
    ];
    let mut wire = Wire::to(&server);
    // Names of columns that a terminal would obey.
    wire.publish("anabranch.j.rows", &[], b"a\x1b[2J,c\n1,2\n");
    bombs.iter().for_each(|(bomb, _)| wire.publish("anabranch.j.rows", &[], bomb));
    for ix in 0..8 {
        wire.publish("anabranch.j.rows", &[], &json_rows(ix * 50, 50));
    }
    let worker = Worker::start(&url, "j");
    wait_until("the first to be settled", || status(&place, &url)["pending"] == 0);
    bombs.iter().for_each(|(bomb, _)| wire.publish("anabranch.j.rows", &[], bomb));
    wait_until("all to be settled", || status(&place, &url)["pending"] == 0);
    let now = status(&place, &url);
    assert_eq!((now["mass"].as_f64(), now["set_aside"].as_u64()), (Some(400.0), Some(17)), "{now}");
    let mut expected: Vec<&str> = bombs.iter().chain(&bombs).map(|(_, reason)| *reason).collect();
    expected.push("\\u{1b}[2J");
    // Workers set aside in an order of their own.
    let letters: Vec<String> = (1..=17).map(|sequence| dead_letter(&mut wire, sequence)).collect();
    assert!(letters.iter().all(|letter| !letter.contains('\x1b')), "{letters:?}");
    for reason in [rows, bytes, cell, "\\u{1b}[2J"] {
        let found = letters.iter().filter(|letter| letter.contains(reason)).count();
        assert_eq!(found, expected.iter().filter(|other| **other == reason).count(), "{reason}: {letters:?}");
    }
    let ran = worker.stop();
    assert!(ran.stderr.contains("\\u{1b}[2J") && !ran.stderr.contains('\x1b'), "{:?}", ran.stderr);
}

#[test]
fn a_founder_counts_deliveries_of_those_before_it() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    open_job(&place, &url, &["--max-deliver", "1"]);
    let mut wire = Wire::to(&server);
    wire.publish("anabranch.j.rows", &[], &json_rows(0, 50));
    let first = Worker::start(&url, "j");
    wait_until("the founder to take it", || status(&place, &url)["held"] == 1);
    first.kill();
    let _second = Worker::start(&url, "j");
    wait_until("it to be set aside", || status(&place, &url)["set_aside"] == 1);
    let dead = dead_letter(&mut wire, 1);
    assert!(dead.contains("it was delivered 2 times and no worker finished it"), "{dead}");
    for ix in 1..8 {
        wire.publish("anabranch.j.rows", &[], &json_rows(ix * 50, 50));
    }
    wait_until("the job to begin", || status(&place, &url)["mass"] == 350.0);
}

#[test]
fn what_is_handed_back_a_hundred_times_has_not_failed() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    open_job(&place, &url, &["--max-deliver", "2"]);
    let mut wire = Wire::to(&server);
    wire.publish("anabranch.j.rows", &[], &json_rows(0, 50));
    for _ in 0..100 {
        let worker = Worker::start(&url, "j");
        wait_until("the founder to take it", || {
            let info = wire.ask("$JS.API.CONSUMER.INFO.anabranch-j-batches.workers", "");
            info.is_some_and(|info| info["num_ack_pending"] == 1)
        });
        worker.stop().ok();
    }
    for ix in 1..8 {
        wire.publish("anabranch.j.rows", &[], &json_rows(ix * 50, 50));
    }
    let _worker = Worker::start(&url, "j");
    wait_until("all to be settled", || status(&place, &url)["pending"] == 0);
    let now = status(&place, &url);
    assert_eq!((now["mass"].as_f64(), now["set_aside"].as_u64()), (Some(400.0), Some(0)), "{now}");
}

/// Rows as an Arrow stream, written by the reader's own test dependency.
fn arrow_rows(n: usize) -> Vec<u8> {
    use std::sync::Arc;

    use arrow_array::{Float64Array, RecordBatch};
    let column = |four: [f64; 4]| four.into_iter().cycle().take(n).collect::<Vec<_>>();
    let columns =
        BTreeMap::from([("a", column([0.0, 8.0, 16.0, 0.5])), ("b", column([0.1, 10.0, 20.0, 0.2]))]);
    let arrays = columns
        .into_iter()
        .map(|(name, values)| (name, Arc::new(Float64Array::from(values)) as arrow_array::ArrayRef));
    let batch = RecordBatch::try_from_iter(arrays).expect("two columns of four");
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).expect("memory");
    writer.write(&batch).expect("memory");
    writer.finish().expect("memory");
    drop(writer);
    bytes
}

/// The server forgets message ids after two minutes; the journal never does.
#[test]
fn a_minibatch_that_is_published_again_without_an_id_counts_once() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 80));
    place.submit(&url, "j", &train, &[]).ok();
    let worker = Worker::start(&url, "j");
    let before = place.check(&url, "j", 1000, &[&worker]);
    let source = before["sources"][0]["number"].as_u64().expect("a number");
    let text = std::fs::read_to_string(&train).expect("rows");
    let mut wire = Wire::to(&server);
    for number in [0, 7, 19] {
        let rows: Vec<&str> = text.lines().skip(1 + 50 * number).take(50).collect();
        let payload = format!("a,b,c\n{}\n", rows.join("\n"));
        let subject = format!("anabranch.j.batch.{source}");
        wire.publish(&subject, &[("Anabranch-Batch", &number.to_string())], payload.as_bytes());
    }
    place.check(&url, "j", 1000, &[&worker]);
    place.compare_with_one_process(&train, 50);
}

#[test]
fn a_worker_stops_at_an_entry_of_a_newer_program_and_hands_its_minibatches_back() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 81));
    place.submit(&url, "j", &train, &[]).ok();
    let worker = Worker::start(&url, "j");
    place.check(&url, "j", 1000, &[&worker]);
    // A frame of version 2: 28 bytes that every version can tell.
    let mut newer = b"ANBP\x02\x00".to_vec();
    newer.resize(64, 0);
    Wire::to(&server).publish("anabranch.j.journal.plain", &[], &newer);
    let ran = worker.wait();
    assert!(
        ran.refusal().contains("written in frame format 2, this program reads up to 1"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: update anabranch on this machine"), "{}", ran.stderr);
    let pull = place.run(&["pull", "--to", &url, "--job", "j", "--out", "m"]);
    assert!(pull.refusal().contains("frame format 2"));
}

#[test]
fn a_job_of_a_newer_program_is_refused() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    open_job(&place, &url, &[]);
    Wire::to(&server).publish("$KV.anabranch-j.job", &[], b"{\"entry_format\": 7, \"surprise\": true}");
    let ran = place.run(&["worker", "--to", &url, "--job", "j"]);
    assert_eq!(ran.refusal(), "the job's journal is in entry format 7, this program knows up to 5");
}

/// A worker behind a proxy that renumbers every message of the journal is one of the next format, which also reads this one.
/// The older worker leaves when it meets the newer format, and hands back what it holds; the newer one does the rest.
#[test]
fn of_two_workers_of_different_formats_the_older_one_leaves_and_no_row_is_lost() {
    const ROWS: u64 = 1000;
    const MORE: u64 = 5000;
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 82));
    let more = place.rows("more.csv", MORE, 83);
    let newer = Proxy::with_translation(server.port, [b"ANBP\x01\x00", b"ANBP\x02\x00"]);
    place.submit(&url, "j", &train, &[]).ok();
    let old = Worker::start(&url, "j");
    place.check(&url, "j", ROWS, &[&old]);
    // Asleep, so that the newer one has something to do; what goes to the sleeper meanwhile comes back from it.
    old.signal("-STOP");
    let new = Worker::start(&newer.url(), "j");
    place.submit(&url, "j", &more, &[]).ok();
    wait_until("the newer worker to have appended", || {
        status(&place, &newer.url())["absorbed"].as_u64() > Some(ROWS / BATCH)
    });
    old.signal("-CONT");
    let ran = old.wait();
    assert!(
        ran.refusal().contains("written in frame format 2, this program reads up to 1"),
        "{}",
        ran.stderr
    );
    place.check(&newer.url(), "j", ROWS + MORE, &[&new]);
    place.compare_with_one_process(&more, BATCH);
    // Whoever is still of the older format is told, and leaves.
    let late = Worker::start(&url, "j").wait();
    assert!(late.stderr.contains("hint: update anabranch on this machine"), "{}", late.stderr);
}

/// What a job without end leaves on the server: of the journal what came since the last snapshot but one, two snapshots, and for
/// each source two notes. Nothing else grows, however many minibatches come.
#[test]
fn what_a_long_job_leaves_on_the_server_does_not_grow() {
    const WAVES: u64 = 5;
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let url = server.url();
    let often =
        ["--batch-size", "10", "--bootstrap", "200", "--snapshot-entries", "20", "--snapshot-seconds", "1"];
    let mut wire = Wire::to(&server);
    let mut messages = |stream: &str| {
        let info = wire.ask(&format!("$JS.API.STREAM.INFO.{stream}"), "").expect("an answer");
        info["state"]["messages"].as_u64().expect("a number")
    };
    let mut worker = None;
    let mut settings = Vec::new();
    for wave in 1..=WAVES {
        let rows = place.rows("rows.csv", 2000, 90 + wave).to_string_lossy().into_owned();
        let source = format!("wave {wave}");
        let args = ["submit", "--to", &url, "--job", "j", "--source", &source, &rows];
        place.run(&[&args[..], &often].concat()).ok();
        let worker = worker.get_or_insert_with(|| Worker::start_with(&url, "j", &["--threads", "1"]));
        let status = place.check_minibatches(&url, "j", 2000 * wave, 200 * wave, &[worker]);
        let [first, last] =
            ["journal_first", "journal_last"].map(|name| status[name].as_u64().expect("a number"));
        // Two snapshots a second apart, and what came since: less than a wave.
        assert!(wave < 3 || last - first < last / 2, "the journal is not trimmed: {status}");
        // Two snapshots of a piece or two and their names, and one that is being stored.
        let stored = messages("OBJ_anabranch-j-snapshots");
        assert!(stored <= 3 * 6, "{stored} messages of snapshots after {wave} waves");
        assert_eq!(messages("anabranch-j-batches"), 0);
        settings.push(messages("KV_anabranch-j"));
    }
    let grown: Vec<u64> = settings.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    assert!(grown.iter().all(|more| *more <= 2), "settings grow by more than a source: {settings:?}");
}
