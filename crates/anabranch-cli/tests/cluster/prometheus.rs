//! The metrics with a real Prometheus, where one is installed: it takes the configuration, reads a worker, and the board's queries
//! and the rules find what they name.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::deploy::{deploy, root};
use crate::server::{Server, Version, free_port, wait_until};
use crate::support::{Place, Worker};
use crate::wire::Wire;

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no {program} on this machine");
    }
    found
}

fn promtool(arguments: &[&str], folder: &Path) {
    let output = Command::new("promtool").args(arguments).current_dir(folder).output().expect("it starts");
    assert!(
        output.status.success(),
        "promtool {}: {}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_rule_fires_when_it_must_and_not_otherwise() {
    if !is_installed("promtool") {
        return;
    }
    let folder = root().join("deploy");
    promtool(&["check", "rules", "alerts.yaml"], &folder);
    promtool(&["test", "rules", "alerts-test.yaml"], &folder);
    let (rules, tests) = (deploy("alerts.yaml"), deploy("alerts-test.yaml"));
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let fires = format!("alertname: {alert}\n        exp_alerts:");
        assert!(tests.contains(&fires), "{alert} has no test in which it fires");
    }
}

struct Prometheus {
    child: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// The configuration of `deploy`, with these workers instead of those of a name.
    fn start(place: &Place, address: &str, token: &str) -> Self {
        std::fs::write(place.path("token"), token).expect("a file");
        std::fs::write(place.path("alerts.yaml"), deploy("alerts.yaml")).expect("a file");
        let text = deploy("prometheus.yaml");
        let (before, found) = text.split_once("    dns_sd_configs:").expect("how workers are found");
        assert_eq!(found.lines().count(), 2, "{found}");
        let config = format!("{before}    static_configs:\n      - targets: [\"{address}\"]\n")
            .replace("/run/secrets/anabranch-token", &place.path("token").to_string_lossy())
            .replace("15s", "1s");
        std::fs::write(place.path("prometheus.yaml"), config).expect("a file");
        promtool(&["check", "config", "prometheus.yaml"], &place.path(""));
        let port = free_port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", place.path("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", place.path("series").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { child, port }
    }

    /// What the API says, where it says something.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }

    fn query(&self, expression: &str) -> Value {
        let letter = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02x}"),
        };
        let escaped: String = expression.bytes().map(letter).collect();
        let answer = self.ask(&format!("query?query={escaped}")).unwrap_or_default();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].clone()
    }
}

/// The expressions of a board.
fn expressions(board: &Value) -> Vec<String> {
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("an expression").replace("$job", "j")).collect()
}

#[test]
fn a_real_prometheus_reads_a_worker_and_every_query_has_an_answer() {
    if !is_installed("prometheus") || !is_installed("promtool") {
        return;
    }
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 1000, 120));
    place.submit(&url, "j", &train, &[]).ok();
    let token = [("ANABRANCH_TOKEN", "secret".as_ref())];
    let worker = Worker::start_in(&token, &url, "j", &["--threads", "1"]);
    place.check(&url, "j", 1000, &[]);
    let prometheus = Prometheus::start(&place, worker.address(), "secret\n");
    let series = |expression: &str| prometheus.query(expression).as_array().map_or(0, Vec::len);
    wait_until("Prometheus to be there", || prometheus.ask("status/buildinfo").is_some());
    wait_until("two scrapes", || {
        let scraped = prometheus.query("count_over_time(anabranch_mass{job=\"j\"}[1m])");
        scraped[0]["value"][1].as_str().is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 1))
    });
    let board: Value = serde_json::from_str(&deploy("grafana.json")).expect("JSON");
    let queries = expressions(&board);
    assert!(queries.len() >= 15, "{queries:?}");
    for query in &queries {
        assert!(series(query) > 0, "{query} finds nothing");
    }
    let jobs = prometheus.ask("label/job/values").expect("an answer");
    assert!(jobs["data"].as_array().is_some_and(|jobs| jobs.contains(&Value::from("j"))), "{jobs}");
    assert_eq!(prometheus.query("anabranch_mass")[0]["value"][1], "1000");
    // Every rule is evaluated without a fault, and none fires; then one must.
    let alerts = || prometheus.ask("alerts").expect("an answer")["data"]["alerts"].clone();
    wait_until("the rules to be evaluated", || {
        let rules = prometheus.ask("rules").expect("an answer");
        let rules = rules["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        rules.len() == 7 && rules.iter().all(|rule| rule["health"] == "ok")
    });
    assert_eq!(alerts(), Value::Array(Vec::new()));
    Wire::to(&server).publish("anabranch.j.rows", &[], b"nonsense");
    wait_until("the alert", || alerts()[0]["labels"]["alertname"] == "AnabranchSetAside");
    assert_eq!(alerts()[0]["state"], "firing");
}
