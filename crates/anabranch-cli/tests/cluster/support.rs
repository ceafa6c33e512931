//! Rows, commands and workers for the tests of the cluster, and the check that every fault must end with.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;

use crate::server::{PATIENCE, wait_until};

/// Rows of a minibatch and of the bootstrap in these tests: small, so that there are many of them.
pub const BATCH: u64 = 50;
pub const BOOTSTRAP: u64 = 500;

/// Mean log density per held-out row: two runs of the free-running engine differ by less than this on these rows.
pub const NOISE: f64 = 0.05;

/// A folder of its own, and the commands run in it.
pub struct Place {
    folder: tempfile::TempDir,
}

/// How a command ended.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        &self.stdout
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(self.ok()).expect("one JSON object")
    }

    /// The first line of a refusal.
    pub fn refusal(&self) -> &str {
        assert_eq!(self.code, 1, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stderr.lines().find_map(|line| line.strip_prefix("error: ")).expect("an error line")
    }
}

pub fn anabranch() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command
        .env_remove("ANABRANCH_NATS")
        .env_remove("ANABRANCH_TOKEN")
        .env_remove("ANABRANCH_NATS_FILE")
        .env_remove("ANABRANCH_TOKEN_FILE")
        .stdin(Stdio::null());
    command
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        let output =
            anabranch().args(args).current_dir(self.folder.path()).output().expect("the command starts");
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Rows of six clusters in three columns, drawn from a generator with this seed.
    pub fn rows(&self, name: &str, n: u64, seed: u64) -> PathBuf {
        self.wide_rows(name, n, seed, 3)
    }

    /// The same in any number of columns.
    pub fn wide_rows(&self, name: &str, n: u64, seed: u64, columns: u32) -> PathBuf {
        let path = self.path(name);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let names: Vec<char> = ('a'..='z').take(columns as usize).collect();
        let mut text = names.iter().map(char::to_string).collect::<Vec<_>>().join(",") + "\n";
        for _ in 0..n {
            let cluster = (uniform() * 6.0) as u32;
            let cells: Vec<String> = (0..columns)
                .map(|column| {
                    let mean = f64::from(cluster * (column + 1) % 7) * 8.0;
                    // The sum of twelve uniforms has variance 1.
                    let noise: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                    format!("{:.6}", mean + noise)
                })
                .collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        std::fs::write(&path, text).expect("rows");
        path
    }

    /// `submit` with the small sizes of these tests.
    pub fn submit(&self, url: &str, job: &str, input: &Path, more: &[&str]) -> Ran {
        let (batch, bootstrap) = (BATCH.to_string(), BOOTSTRAP.to_string());
        let mut args =
            vec!["submit", "--to", url, "--job", job, "--batch-size", &batch, "--bootstrap", &bootstrap];
        args.extend(["--ack-wait", "2", "--json"]);
        args.extend(more);
        let input = input.to_string_lossy().into_owned();
        args.push(&input);
        self.run(&args)
    }

    /// Waits for every minibatch and checks what every fault must leave alone: MASS, ONCE, nothing set aside, and that all
    /// replicas (those of the workers given, and one that starts now) are the same.
    pub fn check(&self, url: &str, job: &str, rows: u64, workers: &[&Worker]) -> Value {
        self.check_minibatches(url, job, rows, rows.div_ceil(BATCH), workers)
    }

    /// The same for minibatches of another size.
    pub fn check_minibatches(
        &self,
        url: &str,
        job: &str,
        rows: u64,
        minibatches: u64,
        workers: &[&Worker],
    ) -> Value {
        self.check_data(url, job, (rows, rows), minibatches, workers)
    }

    /// The same for data of other weights: so many of them, which weigh so much.
    pub fn check_data(
        &self,
        url: &str,
        job: &str,
        (rows, mass): (u64, u64),
        minibatches: u64,
        workers: &[&Worker],
    ) -> Value {
        let model = self.path("checked.anabranch").to_string_lossy().into_owned();
        let pulled =
            self.run(&["pull", "--to", url, "--job", job, "--out", &model, "--wait", "--json"]).json();
        let status = self.run(&["status", "--to", url, "--job", job, "--json"]).json();
        assert_eq!(status["mass"].as_f64(), Some(mass as f64), "MASS: {status}");
        assert_eq!(status["rows"].as_u64(), Some(rows), "ONCE: {status}");
        assert_eq!(pulled["observations"].as_u64(), Some(rows));
        let expected = pulled["mass"].as_f64().expect("a number");
        assert!((expected - mass as f64).abs() < 1e-6 * mass as f64, "the sums make {expected}");
        assert_eq!(status["set_aside"].as_u64(), Some(0), "{status}");
        assert_eq!(status["pending"].as_u64(), Some(0), "{status}");
        assert_eq!(status["absorbed"].as_u64(), Some(minibatches), "ONCE: {status}");
        for worker in workers {
            let (mut seen, mut anew) = (Value::Null, Value::Null);
            wait_until("a worker to read the whole journal", || {
                seen = worker.health();
                anew = self.run(&["status", "--to", url, "--job", job, "--json"]).json();
                seen["journal_position"].is_u64() && seen["journal_position"] == anew["journal_last"]
            });
            assert_eq!(seen["fingerprint"], anew["fingerprint"], "replicas differ");
        }
        self.run(&["inspect", &model, "--json"]).ok();
        status
    }

    /// Whether the model that `check` fetched is as good as one of a single process on the same rows, within noise.
    pub fn compare_with_one_process(&self, train: &Path, batch: u64) {
        self.compare_with_one_process_of(train, batch, &[]);
    }

    /// The same with further flags of `fit`.
    pub fn compare_with_one_process_of(&self, train: &Path, batch: u64, more: &[&str]) {
        let columns = std::fs::read_to_string(train)
            .expect("rows")
            .lines()
            .next()
            .map_or(0, |head| head.split(',').count());
        let test = self.wide_rows("test.csv", 500, 999, columns as u32);
        let (train, batch) = (train.to_string_lossy().into_owned(), batch.to_string());
        let bootstrap = BOOTSTRAP.to_string();
        let sizes = ["--batch-size", &batch, "--bootstrap", &bootstrap, "--threads", "2"];
        let fit = ["fit", &train, "--test", "test.csv", "--json", "-q"];
        let fit = self.run(&[&fit[..], &sizes, more].concat());
        let alone = fit.json()["test_log_likelihood"].as_f64().expect("a number");
        let held_out = self.held_out(&test);
        assert!((held_out - alone).abs() < NOISE, "{held_out} on the cluster, {alone} in one process");
    }

    /// Minibatches that are in the model of the job `j`, as far as one can tell.
    pub fn absorbed(&self, url: &str) -> u64 {
        let status = self.run(&["status", "--to", url, "--job", "j", "--json"]);
        if status.code == 0 { status.json()["absorbed"].as_u64().unwrap_or(0) } else { 0 }
    }

    /// Mean log predictive density of held-out rows under the model that `check` fetched.
    pub fn held_out(&self, test: &Path) -> f64 {
        self.held_out_of("checked.anabranch", test)
    }

    /// The same under any model.
    pub fn held_out_of(&self, model: &str, test: &Path) -> f64 {
        let test = test.to_string_lossy().into_owned();
        let scored = self.run(&["predict", model, &test, "--score"]);
        let densities = scored.ok().lines().filter_map(|line| line.rsplit(',').next());
        let scores: Vec<f64> = densities.filter_map(|cell| cell.parse().ok()).collect();
        assert!(!scores.is_empty());
        scores.iter().sum::<f64>() / scores.len() as f64
    }
}

/// Eight times one of the workers is killed, and another one takes its place.
pub fn kill_at_random(workers: &mut Vec<Worker>, url: &str, rng: &mut impl RngExt) {
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(rng.random_range(20..400)));
        let victim = rng.random_range(0..workers.len());
        workers.swap_remove(victim).kill();
        workers.push(Worker::start(url, "j"));
    }
}

/// A worker process.
pub struct Worker {
    child: RefCell<Child>,
    address: String,
    messages: Receiver<String>,
}

impl Worker {
    pub fn start(url: &str, job: &str) -> Self {
        Self::start_with(url, job, &["--threads", "1"])
    }

    pub fn start_with(url: &str, job: &str, more: &[&str]) -> Self {
        Self::start_in(&[], url, job, more)
    }

    /// The same with further variables in its environment.
    pub fn start_in(variables: &[(&str, &OsStr)], url: &str, job: &str, more: &[&str]) -> Self {
        let mut child = anabranch()
            .envs(variables.iter().copied())
            .args(["worker", "--to", url, "--job", job, "--json"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        let (sender, messages) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child: RefCell::new(child), address: String::new(), messages }.with_address()
    }

    fn with_address(mut self) -> Self {
        while let Ok(line) = self.messages.recv_timeout(PATIENCE) {
            if let Some((_, address)) = line.split_once("http://") {
                self.address = address.trim().to_owned();
                return self;
            }
        }
        self
    }

    /// Where its endpoint listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next line that it says with this in it.
    pub fn says(&self, what: &str) -> String {
        loop {
            let line = self.messages.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("nobody said {what}"));
            if line.contains(what) {
                return line;
            }
        }
    }

    /// A page of the worker's endpoint.
    pub fn get(&self, path: &str) -> Option<String> {
        Self::get_at(&self.address, path)
    }

    /// A page of any endpoint.
    pub fn get_at(address: &str, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    pub fn health(&self) -> Value {
        if let Ok(Some(status)) = self.child.borrow_mut().try_wait() {
            let said: Vec<String> = self.messages.try_iter().collect();
            panic!("the worker has ended ({status}): {}", said.join("\n"));
        }
        let text = self.get("/health").unwrap_or_default();
        let body = text.split_once("\r\n\r\n").map_or("null", |(_, body)| body);
        serde_json::from_str(body).unwrap_or(Value::Null)
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.borrow().id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal}");
    }

    /// `kill -9`.
    pub fn kill(self) {
        drop(self);
    }

    /// Waits for it to end by itself.
    pub fn wait(self) -> Ran {
        let mut child = self.child.borrow_mut();
        wait_until("the worker to end", || child.try_wait().expect("it can be asked").is_some());
        let mut stdout = String::new();
        if let Some(mut pipe) = child.stdout.take() {
            let _ = pipe.read_to_string(&mut stdout);
        }
        let stderr: Vec<String> = self.messages.iter().collect();
        let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(-1);
        Ran { code, stdout, stderr: stderr.join("\n") }
    }

    /// SIGTERM, and how it ended.
    pub fn stop(self) -> Ran {
        self.signal("-TERM");
        self.wait()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.get_mut().kill();
        let _ = self.child.get_mut().wait();
    }
}
