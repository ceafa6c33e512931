//! What a machine does to a program: clocks that jump, an hour asleep, a disk that is full, a loss of power.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::proxy::Proxy;
use crate::server::{Server, Version, wait_until};
use crate::support::{BATCH, Place, Worker};
use crate::wire::Wire;

const ROWS: u64 = 3000;

/// A library that shows a program another time, where it is installed.
fn fake_time() -> Option<PathBuf> {
    let folders =
        ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    let found =
        folders.iter().map(|folder| Path::new(folder).join("libfaketimeMT.so.1")).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: there is no libfaketime on this machine");
    }
    found
}

/// Which clocks a worker is shown otherwise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clocks {
    /// That of the wall, which people set.
    Wall,
    /// The one that only goes forward as well.
    All,
}

/// A worker whose clocks are ahead by what the file says.
fn worker_with_clock(library: &Path, clock: &Path, which: Clocks, url: &str) -> Worker {
    std::fs::write(clock, "+0s").expect("a file");
    let keeps_monotonic = if which == Clocks::Wall { "1" } else { "0" };
    let variables = [
        ("LD_PRELOAD", library.as_os_str()),
        ("FAKETIME_TIMESTAMP_FILE", clock.as_os_str()),
        ("FAKETIME_NO_CACHE", "1".as_ref()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", keeps_monotonic.as_ref()),
    ];
    Worker::start_in(&variables, url, "j", &["--threads", "1"])
}

/// Asleep, with minibatches in its hands, until others have done everything and have trimmed the journal behind what it had read, and
/// the server has given it up. It wakes an hour later by both of its clocks.
#[test]
fn a_worker_that_slept_for_an_hour_comes_to_the_same() {
    let place = Place::new();
    let Some(library) = fake_time() else { return };
    let impatient = "ping_interval: \"1s\"\nping_max: 1";
    let Some(server) = Server::start(Version::Current, &place.path("n0"), impatient) else { return };
    let (url, train) = (server.url(), place.rows("train.csv", ROWS, 110));
    let often = ["--snapshot-entries", "5", "--snapshot-seconds", "1", "--max-deliver", "1000"];
    place.submit(&url, "j", &train, &often).ok();
    let clock = place.path("clock");
    let sleeper = worker_with_clock(&library, &clock, Clocks::All, &url);
    wait_until("the sleeper to have begun", || place.absorbed(&url) > 12);
    sleeper.signal("-STOP");
    let slept_at = place.run(&["status", "--to", &url, "--job", "j", "--json"]).json();
    let other = Worker::start(&url, "j");
    place.check(&url, "j", ROWS, &[&other]);
    place.submit(&url, "j", &place.rows("more.csv", ROWS, 111), &often).ok();
    let status = place.check(&url, "j", 2 * ROWS, &[&other]);
    assert!(status["journal_first"].as_u64() > slept_at["journal_last"].as_u64(), "not trimmed: {status}");
    std::fs::write(&clock, "+3600s").expect("a file");
    sleeper.signal("-CONT");
    place.check(&url, "j", 2 * ROWS, &[&other, &sleeper]);
    // It works as before.
    other.stop().ok();
    place.submit(&url, "j", &place.rows("last.csv", 500, 112), &often).ok();
    place.check(&url, "j", 2 * ROWS + 500, &[&sleeper]);
}

#[test]
fn clocks_that_jump_lose_and_repeat_nothing() {
    let place = Place::new();
    let Some(library) = fake_time() else { return };
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 40_000, 113));
    let often = ["--snapshot-entries", "20", "--snapshot-seconds", "1", "--max-deliver", "1000"];
    place.submit(&url, "j", &train, &often).ok();
    let clock = place.path("clock");
    let jumping = worker_with_clock(&library, &clock, Clocks::Wall, &url);
    let steady = Worker::start(&url, "j");
    for jump in ["+3600s", "-3600s", "+30d", "+0s", "-1y"] {
        let before = place.absorbed(&url);
        std::fs::write(&clock, jump).expect("a file");
        wait_until("the work to go on", || {
            let now = place.absorbed(&url);
            now > before || now == 40_000 / BATCH
        });
    }
    place.check(&url, "j", 40_000, &[&steady, &jumping]);
    place.compare_with_one_process(&train, BATCH);
}

/// A file system of a few megabytes, while this lives.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, megabytes: u32) -> Option<Self> {
        std::fs::create_dir_all(&path).expect("a folder");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: a tmpfs cannot be mounted here, which needs root");
            return None;
        }
        Some(Self(path))
    }

    fn fill(&self) {
        use std::io::Write;
        let mut ballast = std::fs::File::create(self.0.join("ballast")).expect("a file");
        while ballast.write_all(&[1; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("ballast")).expect("it is there");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Whoever had files open there is gone soon; the mount goes with the last of them.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// The disk under the server is full for a while; the server gives up its streams, and takes them up again when it is restarted.
#[test]
fn a_disk_that_is_really_full_loses_nothing_that_was_acknowledged() {
    let place = Place::new();
    let Some(disk) = Small::mount(place.path("n0"), 96) else { return };
    let Some(mut server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let rows = 60_000;
    let (url, train) = (server.url(), place.rows("train.csv", rows, 114));
    let sizes = ["--queue-megabytes", "16", "--journal-megabytes", "16", "--max-deliver", "1000"];
    place.submit(&url, "j", &train, &sizes).ok();
    let workers = [Worker::start(&url, "j"), Worker::start(&url, "j")];
    wait_until("the work to begin", || place.absorbed(&url) > 20);
    disk.fill();
    let mut wire = Wire::to(&server);
    let something = "x".repeat(1 << 16);
    wait_until("the server to notice", || {
        wire.ask("$KV.anabranch-j.probe", &something).is_none_or(|answer| answer["error"].is_object())
    });
    disk.make_room();
    server.kill();
    server.go_on();
    place.check(&url, "j", rows, &[&workers[0], &workers[1]]);
    place.compare_with_one_process(&train, BATCH);
}

/// The newest file of a stream's messages.
fn last_block(server: &Path, stream: &str) -> PathBuf {
    let folder = server.join("js/jetstream/$G/streams").join(stream).join("msgs");
    let blocks = std::fs::read_dir(&folder).expect("the stream's folder").flatten().map(|entry| entry.path());
    let number = |path: &PathBuf| path.file_stem().and_then(|name| name.to_str()?.parse::<u64>().ok());
    let blocks = blocks.filter(|path| path.extension().is_some_and(|extension| extension == "blk"));
    blocks.max_by_key(number).expect("a block")
}

/// The machine of the server loses its power: the server is gone at once, and the last write is on the disk in part, or with rubbish
/// behind it. What was in it had not been acknowledged to the queue, and is learned again.
#[test]
fn a_server_that_loses_its_power_in_the_middle_of_a_write_loses_no_row() {
    for cut in [true, false] {
        let place = Place::new();
        let folder = place.path("n0");
        let Some(mut server) = Server::start(Version::Current, &folder, "") else { return };
        let (url, train) = (server.url(), place.rows("train.csv", ROWS, 115));
        // The ten of the bootstrap are acknowledged; no later one is.
        let proxy = Proxy::with_gate(server.port, "+ACK", 10);
        place.submit(&url, "j", &train, &["--max-deliver", "1000"]).ok();
        let victim = Worker::start(&proxy.url(), "j");
        proxy.wait_for_the_word();
        victim.kill();
        let before = place.absorbed(&url);
        assert!(before > 10, "nothing was appended");
        server.kill();
        let block = last_block(&folder, "anabranch-j-journal");
        let bytes = std::fs::read(&block).expect("a block");
        let torn = if cut { bytes[..bytes.len() - 40].to_vec() } else { [&bytes[..], &[7; 40]].concat() };
        std::fs::write(&block, torn).expect("a block");
        server.go_on();
        if cut {
            assert!(place.absorbed(&url) < before, "the last entry is gone");
        }
        let other = Worker::start(&url, "j");
        place.check(&url, "j", ROWS, &[&other]);
        place.compare_with_one_process(&train, BATCH);
    }
}
