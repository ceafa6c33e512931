//! The files in `deploy/`, as far as they can be tried without a container: the servers take their configuration, its
//! permissions are enough, and the workers understand their flags.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::logins::works;
use crate::server::{Server, Version, binary};
use crate::support::{Place, anabranch};

fn deploy(name: &str) -> String {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/anabranch-cli is two below");
    std::fs::read_to_string(root.join("deploy").join(name)).expect("a file of the repository")
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
    command.envs([("SERVER_NAME", "n0"), ("POD_NAME", "n0"), ("ANABRANCH_PASSWORD", "secret")]);
    let output = command.output().expect("the server starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn servers_take_the_configurations() {
    let Some(server) = binary(Version::Current) else { return };
    let place = Place::new();
    let plain = place.path("plain.conf");
    std::fs::write(&plain, deploy("nats.conf")).expect("a file");
    is_taken(&server, &plain);
    let kubernetes = place.path("kubernetes.conf");
    std::fs::write(&kubernetes, block(&deploy("kubernetes.yaml"), "server.conf: |")).expect("a file");
    is_taken(&server, &kubernetes);
}

#[test]
fn the_permissions_are_enough() {
    let place = Place::new();
    let text = deploy("nats.conf").replace("$ANABRANCH_PASSWORD", "secret");
    let authorization = &text[text.find("authorization {").expect("a block")..];
    let Some(server) = Server::start(Version::Current, &place.path("n0"), authorization) else { return };
    works(&place, &format!("nats://anabranch:secret@127.0.0.1:{}", server.port), &[]);
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
    for mut words in found.concat() {
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
