//! What the commands say when the server is missing, old, closed, full or not what they need.

use std::io::Write;
use std::net::TcpListener;

use crate::server::{Server, Version, free_port};
use crate::support::{Place, anabranch};

#[test]
fn a_server_that_is_not_there_is_named_without_the_password() {
    let place = Place::new();
    let url = format!("nats://me:secret@127.0.0.1:{}", free_port());
    let ran = place.run(&["status", "--to", &url, "--job", "j"]);
    assert!(ran.refusal().starts_with("cannot reach a NATS server at nats://127.0.0.1:"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: start one with `nats-server -js`"));
}

#[test]
fn the_address_comes_from_the_environment_when_no_flag_gives_it() {
    let url = format!("nats://127.0.0.1:{}", free_port());
    let output =
        anabranch().args(["status", "--job", "j"]).env("ANABRANCH_NATS", &url).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stderr).contains(&url));
}

#[test]
fn secrets_come_from_files_and_those_that_others_see_are_told() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let file = place.path("url");
    let url = format!("nats://me:secret@127.0.0.1:{}", free_port());
    std::fs::write(&file, format!("{url}\n")).expect("a file");
    let ask = |more: &[&str], variables: &[(&str, &str)]| {
        let mut command = anabranch();
        command.args(["status", "--job", "j"]).args(more).envs(variables.iter().copied());
        String::from_utf8_lossy(&command.output().expect("it starts").stderr).into_owned()
    };
    let path = file.to_string_lossy().into_owned();
    for (mode, is_open) in [(0o600, false), (0o640, true)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
        let said = ask(&[], &[("ANABRANCH_NATS_FILE", &path)]);
        assert!(said.contains("cannot reach a NATS server at nats://127.0.0.1:"), "{said}");
        assert_eq!(said.contains("warning: others can read"), is_open, "{said}");
    }
    let said = ask(&["--to", &url], &[]);
    assert!(said.starts_with("warning: everybody on this machine can see the password"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    let said = ask(&[], &[("ANABRANCH_NATS", "")]);
    assert!(said.starts_with("error: ANABRANCH_NATS is empty"), "{said}");
    let said = ask(&[], &[("ANABRANCH_NATS", &url), ("ANABRANCH_NATS_FILE", &path)]);
    assert!(said.starts_with("error: ANABRANCH_NATS and ANABRANCH_NATS_FILE are both set"), "{said}");
}

#[test]
fn a_name_that_cannot_be_a_job_is_refused_before_anything_is_asked() {
    let ran = Place::new().run(&["worker", "--to", "nats://127.0.0.1:1", "--job", "a.b"]);
    assert_eq!(ran.refusal(), "--job: `a.b` is not a name for a job");
    assert!(ran.stderr.contains("hint: use up to 64 letters"));
}

/// A listener that says what servers of long ago say.
#[test]
fn a_server_that_is_too_old_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let info = format!(
                "INFO {{\"server_id\":\"x\",\"server_name\":\"x\",\"version\":\"2.2.6\",\"go\":\"go1\",\"host\":\"127.0.0.1\",\
                 \"port\":{port},\"headers\":true,\"max_payload\":1048576,\"proto\":1}}\r\n"
            );
            let _ = stream.write_all(info.as_bytes());
            let mut reader = std::io::BufReader::new(stream.try_clone().expect("a copy"));
            let mut line = String::new();
            while std::io::BufRead::read_line(&mut reader, &mut line).is_ok_and(|n| n > 0) {
                if line.starts_with("PING") {
                    let _ = stream.write_all(b"PONG\r\n");
                }
                line.clear();
            }
        }
    });
    let url = format!("nats://127.0.0.1:{port}");
    let ran = Place::new().run(&["status", "--to", &url, "--job", "j"]);
    assert_eq!(ran.refusal(), format!("the server at {url} is NATS 2.2.6; anabranch needs 2.9 or newer"));
}

#[test]
fn a_server_without_streams_is_refused() {
    let place = Place::new();
    let Some(server) = Server::start_without_streams(Version::Current, &place.path("n0"), "") else { return };
    let ran = place.run(&["status", "--to", &server.url(), "--job", "j"]);
    assert!(ran.refusal().contains("has no JetStream"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: start the server with `-js`"));
}

#[test]
fn a_login_that_is_wrong_is_refused_and_one_that_is_right_works() {
    let place = Place::new();
    let users = "authorization { user: me, password: secret }";
    let Some(server) = Server::start(Version::Current, &place.path("n0"), users) else { return };
    let ran = place.run(&["status", "--to", &server.url(), "--job", "j"]);
    assert!(ran.refusal().contains("refuses us"), "{}", ran.stderr);
    let url = format!("nats://me:secret@127.0.0.1:{}", server.port);
    let ran = place.run(&["status", "--to", &url, "--job", "j"]);
    assert_eq!(ran.refusal(), "there is no job `j`");
}

#[test]
fn a_server_without_room_says_so() {
    let place = Place::new();
    let small =
        format!("jetstream {{ store_dir: \"{}\", max_file_store: 20MB }}", place.path("js").display());
    let Some(server) = Server::start_without_streams(Version::Current, &place.path("n0"), &small) else {
        return;
    };
    let train = place.rows("train.csv", 100, 1);
    let ran = place.submit(&server.url(), "j", &train, &[]);
    assert!(ran.refusal().starts_with("the server is out of space while creating"), "{}", ran.stderr);
    // A job whose limits fit is welcome.
    place.submit(&server.url(), "k", &train, &["--queue-megabytes", "4", "--journal-megabytes", "4"]).ok();
}

#[test]
fn other_settings_and_other_streams_are_not_taken_for_ours() {
    let place = Place::new();
    let Some(server) = Server::start(Version::Current, &place.path("n0"), "") else { return };
    let (url, train) = (server.url(), place.rows("train.csv", 100, 1));
    place.submit(&url, "j", &train, &[]).ok();
    let ran = place.submit(&url, "j", &train, &["--alpha", "2"]);
    assert_eq!(ran.refusal(), "job `j` was created with alpha 5.0, this command has 2.0");
    let ran = place.run(&["worker", "--to", &url, "--job", "other"]);
    assert_eq!(ran.refusal(), "there is no job `other`");
    let ran = place.run(&["worker", "--to", &url, "--job", "j", "--listen", "0.0.0.0:0"]);
    assert!(ran.refusal().contains("needs a token"), "{}", ran.stderr);
}
