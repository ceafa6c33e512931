//! The files in `deploy/`, as far as they can be tried without a container: the servers take their configuration, its
//! permissions are enough, and the workers understand their flags.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, Version, binary, free_port, wait_until};
use crate::support::{Place, Worker, anabranch};
use crate::wire::Wire;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/anabranch-cli is two below")
}

pub fn deploy(name: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(name)).expect("a file of the repository")
}

/// The block behind a line, without its indentation: the lines that are indented further than it.
fn block(text: &str, head: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().skip_while(|line| line.trim() != head);
    let outer = indentation(lines.next().expect("the head is there"));
    lines
        .take_while(|line| line.trim().is_empty() || indentation(line) > outer)
        .map(|line| line.trim_start().to_owned() + "\n")
        .collect()
}

/// `nats-server -t`: reads the configuration and says what is wrong with it.
fn is_taken(server: &Path, config: &PathBuf) {
    let mut command = Command::new(server);
    command.arg("-t").arg("-c").arg(config);
    command.envs([("SERVER_NAME", "n0"), ("POD_NAME", "n0")]);
    command.envs(ROLES.map(|role| (format!("{}_PASSWORD", role.to_uppercase()), "secret")));
    let output = command.output().expect("the server starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn servers_take_the_configurations() {
    let Some(server) = binary(Version::Current) else { return };
    let place = Place::new();
    let Some(tls) = certificates(&place) else { return };
    for text in [deploy("nats.conf"), block(&deploy("kubernetes.yaml"), "server.conf: |")] {
        assert_eq!(text.matches("/etc/nats/tls/").count(), 6, "clients and servers speak TLS");
        let config = place.path("server.conf");
        std::fs::write(&config, text.replace("/etc/nats/tls", &tls)).expect("a file");
        is_taken(&server, &config);
    }
}

/// What `deploy/certificates` makes, where there is an openssl.
fn certificates(place: &Place) -> Option<String> {
    let folder = place.path("tls").to_string_lossy().into_owned();
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: there is no openssl on this machine");
        return None;
    }
    let output = Command::new(root().join("deploy/certificates")).arg(&folder).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder)
}

/// The servers' own part of the configuration: certificates and roles.
#[test]
fn the_servers_certificates_are_those_that_clients_are_given() {
    let place = Place::new();
    let Some(tls) = certificates(&place) else { return };
    let text = deploy("nats.conf").replace("/etc/nats/tls", &tls);
    let (from, to) = (text.find("tls {").expect("a block"), text.find("cluster {").expect("a block"));
    let Some(server) =
        Server::start(Version::Current, &place.path("n0"), &(text[from..to].to_owned() + &roles(&text)))
    else {
        return;
    };
    let url = |role: &str| format!("tls://{role}:secret@127.0.0.1:{}", server.port);
    let ca = format!("{tls}/ca.pem");
    let ours = ["--tls-ca", ca.as_str()];
    place.submit(&url("submitter"), "j", &place.rows("train.csv", 1000, 91), &ours).ok();
    let worker = Worker::start_with(&url("worker"), "j", &[&["--threads", "1"][..], &ours].concat());
    let reader = url("reader");
    let pull = ["pull", "--to", &reader, "--job", "j", "--out", "m", "--wait", "--json"];
    assert_eq!(place.run(&[&pull[..], &ours].concat()).json()["observations"].as_u64(), Some(1000));
    worker.stop().ok();
    // Without the authority nobody is believed.
    assert!(place.run(&pull).refusal().contains("refuses us"));
}

/// Three servers with a configuration of `deploy`, as it is but for addresses, names and folders.
fn three_servers(place: &Place, text: &str, tls: &str) -> Option<Vec<Server>> {
    binary(Version::Current)?;
    let routes = [0; 3].map(|_: u16| free_port());
    let mut text: String = text
        .lines()
        .filter(|line| {
            !["server_name:", "port: 4222", "http_port:"].iter().any(|head| line.starts_with(head))
        })
        .map(|line| line.to_owned() + "\n")
        .collect();
    text = text.replace("/etc/nats/tls", tls).replace("max_file_store: 20GB", "max_file_store: 4GB");
    for role in ROLES {
        text = text.replace(&format!("${}_PASSWORD", role.to_uppercase()), "secret");
    }
    for (ix, port) in routes.iter().enumerate() {
        for host in [format!("nats-{ix}:6222"), format!("nats-{ix}.nats:6222")] {
            text = text.replace(&host, &format!("127.0.0.1:{port}"));
        }
    }
    let start = |(ix, port): (usize, &u16)| {
        let folder = place.path(&format!("n{ix}"));
        let own = text
            .replace("store_dir: /data", &format!("store_dir: \"{}\"", folder.join("js").display()))
            .replace("port: 6222", &format!("listen: \"127.0.0.1:{port}\""));
        Server::start_without_streams(Version::Current, &folder, &own).expect("the binary is there")
    };
    Some(routes.iter().enumerate().map(start).collect())
}

/// The address that a deployment gives to a role, with the ports of these servers.
fn address(text: &str, role: &str, servers: &[Server]) -> String {
    let line = text.lines().find(|line| line.contains(&format!("tls://{role}:"))).expect("an address");
    let mut url = line[line.find("tls://").expect("it is there")..].trim_end_matches('"').to_owned();
    let variable = format!("{}_PASSWORD", role.to_uppercase());
    for password in [format!("${{{variable}}}"), format!("$({variable})")] {
        url = url.replace(&password, "secret");
    }
    for (ix, server) in servers.iter().enumerate() {
        for host in [format!("nats-{ix}:4222"), format!("nats-{ix}.nats:4222")] {
            url = url.replace(&host, &format!("127.0.0.1:{}", server.port));
        }
    }
    assert!(!url.contains("nats-") && !url.contains('$'), "{url}");
    url
}

/// Servers of both deployments, with TLS among them and to everybody, and their own commands for a whole job.
#[test]
fn the_commands_of_both_deployments_do_a_job_on_their_servers() {
    let (compose, kubernetes) = (deploy("compose.yaml"), deploy("kubernetes.yaml"));
    let deployments = [(deploy("nats.conf"), &compose), (block(&kubernetes, "server.conf: |"), &kubernetes)];
    for (configuration, file) in deployments {
        let place = Place::new();
        let Some(tls) = certificates(&place) else { return };
        let Some(servers) = three_servers(&place, &configuration, &tls) else { return };
        let words = |text: &str, name: &str| -> Vec<String> {
            let found = commands(text).into_iter().find(|words| words[0] == name).expect("a command");
            let anywhere = ["0.0.0.0:9177", "0.0.0.0:9178"];
            let local = |word: &String| {
                if anywhere.contains(&word.as_str()) {
                    "127.0.0.1:0".into()
                } else {
                    word.replace("/etc/anabranch", &tls)
                }
            };
            found.iter().map(local).collect()
        };
        let run = |name: &str, role: &str, more: &[&str]| {
            let url = address(&compose, role, &servers);
            let output = anabranch()
                .args(words(&compose, name))
                .args(more)
                .current_dir(place.path(""))
                .env("ANABRANCH_NATS", url)
                .output()
                .expect("it starts");
            (
                output.status.success(),
                String::from_utf8_lossy(&output.stdout).into_owned()
                    + &String::from_utf8_lossy(&output.stderr),
            )
        };
        place.rows("train.csv", 1000, 95);
        let sizes = [
            "train.csv",
            "--batch-size",
            "50",
            "--bootstrap",
            "500",
            "--queue-megabytes",
            "64",
            "--journal-megabytes",
            "64",
        ];
        let mut said = String::new();
        wait_until("the servers to find each other", || {
            let (is_done, text) = run("submit", "submitter", &sizes);
            said = text;
            is_done || said.contains("was created with")
        });
        assert!(said.contains("1,000 rows"), "{said}");
        let mut worker = anabranch()
            .args(words(file, "worker"))
            .env("ANABRANCH_NATS", address(file, "worker", &servers))
            .env("ANABRANCH_TOKEN", "x")
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        let (is_done, said) = run("pull", "reader", &["--out", "m", "--wait", "--json"]);
        let _ = worker.kill();
        let _ = worker.wait();
        assert!(is_done && said.contains("\"observations\":1000"), "{said}");
        let (is_done, said) = run("status", "reader", &[]);
        assert!(is_done && said.contains("finished"), "{said}");
    }
}

/// The part of a configuration with the roles, all with one password.
fn roles(text: &str) -> String {
    let text = &text[text.find("# Four roles.").expect("the roles")..];
    ROLES.iter().fold(text.to_owned(), |text, role| {
        text.replace(&format!("${}_PASSWORD", role.to_uppercase()), "secret")
    })
}

const ROLES: [&str; 4] = ["submitter", "worker", "reader", "operator"];

#[test]
fn each_role_may_do_its_work() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), &roles(&deploy("nats.conf")))
    else {
        return;
    };
    let url = |role: &str| format!("nats://{role}:secret@127.0.0.1:{}", server.port);
    let train = place.rows("train.csv", 1000, 90);
    place.submit(&url("submitter"), "j", &train, &["--snapshot-entries", "3"]).ok();
    let worker = Worker::start_with(&url("worker"), "j", &["--threads", "1"]);
    place.check(&url("reader"), "j", 1000, &[&worker]);
    assert_eq!(
        place.submit(&url("submitter"), "j", &train, &[]).refusal(),
        "job `j` was created with snapshot_entries 3, this command has 1000"
    );
    let reader = url("reader");
    let status = || place.run(&["status", "--to", &reader, "--job", "j", "--json"]).json();
    wait_until("a snapshot and the list of workers", || {
        status()["snapshot"] != 0 && status()["workers"].as_array().is_some_and(|workers| workers.len() == 1)
    });
    let mut anybody = Wire::of(&server, "submitter", "secret");
    anybody.publish("anabranch.j.rows", &[], b"nonsense");
    wait_until("it to be set aside", || status()["set_aside"] == 1);
    worker.stop().ok();
    let operator = url("operator");
    let run = |words: &[&str]| place.run(&[words, &["--to", &operator]].concat());
    run(&["pause", "--job", "j"]).ok();
    run(&["resume", "--job", "j"]).ok();
    run(&["dead", "requeue", "--all", "--job", "j"]).ok();
    assert!(place.run(&["jobs", "--to", &reader]).ok().contains("j: 1 pending, 0 set aside"));
    run(&["delete", "--job", "j", "--yes"]).ok();
}

#[test]
fn each_role_is_denied_what_is_not_its_work() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), &roles(&deploy("nats.conf")))
    else {
        return;
    };
    // Who may, of submitter, worker, reader and operator.
    let rights = [
        ("anabranch.j.rows", "s__o"),
        ("anabranch.j.batch.7", "s__o"),
        ("anabranch.j.batch.7.3", "s__o"),
        ("anabranch.j.journal.plain", "_w_o"),
        ("anabranch.j.journal.births", "_w_o"),
        ("anabranch.j.state", "_w_o"),
        ("anabranch.j.dead", "_w_o"),
        ("$KV.anabranch-j.job", "s__o"),
        ("$KV.anabranch-j.progress.7", "s__o"),
        ("$KV.anabranch-j.paused", "___o"),
        ("$KV.anabranch-j.lease", "_w_o"),
        ("$KV.anabranch-j.handed", "_w_o"),
        ("$KV.anabranch-j-workers.worker.1", "_w_o"),
        ("$O.anabranch-j-snapshots.M.x", "_w_o"),
        ("$JS.ACK.anabranch-j-batches.workers.1.1.1.1.1", "_w_o"),
        ("$JS.API.STREAM.INFO.anabranch-j-journal", "swro"),
        ("$JS.API.STREAM.CREATE.anabranch-j-journal", "s__o"),
        ("$JS.API.STREAM.UPDATE.anabranch-j-journal", "___o"),
        ("$JS.API.STREAM.DELETE.anabranch-j-journal", "___o"),
        ("$JS.API.STREAM.MSG.DELETE.anabranch-j-dead", "___o"),
        ("$JS.API.STREAM.PURGE.anabranch-j-journal", "_w_o"),
        ("$JS.API.CONSUMER.MSG.NEXT.anabranch-j-batches.workers", "_w_o"),
        ("$JS.API.CONSUMER.CREATE.anabranch-j-batches.workers", "_w_o"),
        ("$JS.API.CONSUMER.DELETE.anabranch-j-batches.workers", "_w_o"),
        ("$JS.API.CONSUMER.CREATE.anabranch-j-journal.x", "swro"),
        ("somebody.else", "____"),
    ];
    let mut wires = ROLES.map(|role| Wire::of(&server, role, "secret"));
    for (subject, expected) in rights {
        let found: String = ROLES
            .iter()
            .zip(&mut wires)
            .map(|(role, wire)| if wire.may_publish(subject) { &role[..1] } else { "_" })
            .collect();
        assert_eq!(found, expected, "{subject}");
    }
}

#[test]
fn both_deployments_have_the_same_roles() {
    let kubernetes = block(&deploy("kubernetes.yaml"), "server.conf: |");
    let plain: String = deploy("nats.conf").lines().map(|line| line.trim_start().to_owned() + "\n").collect();
    assert_eq!(roles(kubernetes.trim_end()), roles(plain.trim_end()));
}

/// Read as YAML by somebody else's parser, where there is one.
#[test]
fn the_files_are_yaml() {
    let parses = "import sys, yaml; [list(yaml.safe_load_all(open(path))) for path in sys.argv[1:]]";
    let python =
        |words: &[&str]| Command::new("python3").args(words).current_dir(root().join("deploy")).output();
    if !python(&["-c", "import yaml"]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no python3 with yaml on this machine");
        return;
    }
    let output = python(&[
        "-c",
        parses,
        "compose.yaml",
        "kubernetes.yaml",
        "alerts.yaml",
        "alerts-test.yaml",
        "prometheus.yaml",
    ])
    .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every list that begins like a command of ours.
fn commands(text: &str) -> Vec<Vec<String>> {
    let lists = text.lines().filter_map(|line| line.split_once('[')?.1.split_once(']')).map(|(list, _)| list);
    let words = |list: &str| -> Vec<String> {
        list.split(", ").map(|word| word.trim_matches('"').replace("${ANABRANCH_JOB:-job}", "job")).collect()
    };
    let lists = lists.map(words).map(|words| match words.first().map(String::as_str) {
        Some("anabranch") => words[1..].to_vec(),
        _ => words,
    });
    lists
        .filter(|words| {
            words.first().is_some_and(|word| ["worker", "submit", "pull", "status"].contains(&word.as_str()))
        })
        .collect()
}

#[test]
fn the_commands_are_understood() {
    let found = [commands(&deploy("compose.yaml")), commands(&deploy("kubernetes.yaml"))];
    assert_eq!(found.each_ref().map(Vec::len), [4, 1], "{found:?}");
    let place = Place::new();
    let Some(tls) = certificates(&place) else { return };
    for words in found.concat() {
        assert!(words.iter().any(|word| word == "--tls-ca"), "{words:?}");
        let mut words: Vec<String> = words.iter().map(|word| word.replace("/etc/anabranch", &tls)).collect();
        if words[0] == "pull" {
            words.extend(["--out".into(), "m".into()]);
        }
        // Nobody listens there, so what is said is about the server and not about the flags.
        let output = anabranch()
            .args(&words)
            .env("ANABRANCH_NATS", "nats://anabranch:x@127.0.0.1:1,127.0.0.1:2")
            .env("ANABRANCH_TOKEN", "x")
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("cannot reach a NATS server at nats://127.0.0.1:1,127.0.0.1:2"),
            "{words:?}: {said}"
        );
    }
}
