//! TLS and the files that accounts of NATS are used with: the right ones work, without them the server is closed.

use std::path::PathBuf;

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer};

use crate::server::{Server, Version};
use crate::support::{Place, Worker};

/// What the client shows, and whether the server is content: rows go in, a worker learns, the model comes out.
fn works(place: &Place, url: &str, login: &[&str]) {
    let train = place.rows("train.csv", 1000, 90);
    place.submit(url, "j", &train, login).ok();
    let worker = Worker::start_with(url, "j", &[&["--threads", "1"], login].concat());
    let pull = ["pull", "--to", url, "--job", "j", "--out", "m", "--wait", "--json"];
    let pulled = place.run(&[&pull[..], login].concat()).json();
    assert_eq!(pulled["observations"].as_u64(), Some(1000));
    worker.stop().ok();
}

fn is_refused(place: &Place, url: &str, login: &[&str]) {
    let ran = place.run(&[&["status", "--to", url, "--job", "j"], login].concat());
    assert!(ran.refusal().contains("refuses us"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: pass --creds FILE"), "{}", ran.stderr);
}

fn write(place: &Place, name: &str, text: &str) -> String {
    let path: PathBuf = place.path(name);
    std::fs::write(&path, text).expect("a file");
    path.to_string_lossy().into_owned()
}

/// A certificate and its key, signed by the authority, in files.
fn certificate(place: &Place, name: &str, issuer: &Issuer<'_, rcgen::KeyPair>) -> [String; 2] {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, issuer).expect("a signature");
    [
        write(place, &format!("{name}.pem"), &certificate.pem()),
        write(place, &format!("{name}.key"), &key.serialize_pem()),
    ]
}

#[test]
fn a_server_with_certificates_is_spoken_to_with_certificates() {
    let place = Place::new();
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().expect("a key");
    let ca = write(&place, "ca.pem", &params.self_signed(&key).expect("a signature").pem());
    let issuer = Issuer::new(params, key);
    let [server_cert, server_key] = certificate(&place, "server", &issuer);
    let [our_cert, our_key] = certificate(&place, "ours", &issuer);
    let tls = format!(
        "tls {{ cert_file: \"{server_cert}\", key_file: \"{server_key}\", ca_file: \"{ca}\", verify: true }}"
    );
    let Some(server) = Server::start(Version::Current, &place.path("n0"), &tls) else { return };
    let url = format!("tls://127.0.0.1:{}", server.port);
    works(&place, &url, &["--tls-ca", &ca, "--tls-cert", &our_cert, "--tls-key", &our_key]);
    // An authority that we do not know.
    is_refused(&place, &url, &[]);
}

#[test]
fn an_nkey_opens_the_server_that_knows_it() {
    let place = Place::new();
    let (ours, other) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!("authorization {{ users: [ {{ nkey: {} }} ] }}", ours.public_key());
    let Some(server) = Server::start(Version::Current, &place.path("n0"), &users) else { return };
    let seed = write(&place, "ours.nk", &ours.seed().expect("a seed"));
    works(&place, &server.url(), &["--nkey", &seed]);
    let seed = write(&place, "other.nk", &other.seed().expect("a seed"));
    is_refused(&place, &server.url(), &["--nkey", &seed]);
}

/// A token as NATS reads it: the claims about `subject`, signed by `issuer`.
fn token(issuer: &KeyPair, subject: &KeyPair, about: serde_json::Value) -> String {
    let head = BASE64URL_NOPAD.encode(br#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let claims = serde_json::json!({
        "jti": "test", "iat": 1_700_000_000, "name": "test",
        "iss": issuer.public_key(), "sub": subject.public_key(), "nats": about,
    });
    let signed = format!("{head}.{}", BASE64URL_NOPAD.encode(claims.to_string().as_bytes()));
    let signature = issuer.sign(signed.as_bytes()).expect("a signature");
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

/// The text of a `.creds` file.
fn credentials(user: &KeyPair, token: &str) -> String {
    let seed = user.seed().expect("a seed");
    format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[test]
fn a_credentials_file_opens_an_account() {
    let place = Place::new();
    let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
    let (account, user, stranger) = (KeyPair::new_account(), KeyPair::new_user(), KeyPair::new_account());
    let unlimited = serde_json::json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
        "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let of_account = serde_json::json!({"type": "account", "version": 2, "limits": unlimited});
    let mut of_system = of_account.clone();
    of_system["limits"]["disk_storage"] = 0.into();
    of_system["limits"]["mem_storage"] = 0.into();
    let of_user = serde_json::json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
    let of_operator = serde_json::json!({"type": "operator", "version": 2});
    let operator_token = write(&place, "operator.jwt", &token(&operator, &operator, of_operator));
    let accounts = format!(
        "operator: \"{operator_token}\"\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}\n {}: {} }}",
        system.public_key(),
        system.public_key(),
        token(&operator, &system, of_system),
        account.public_key(),
        token(&operator, &account, of_account),
    );
    let Some(server) = Server::start(Version::Current, &place.path("n0"), &accounts) else { return };
    let creds = write(&place, "user.creds", &credentials(&user, &token(&account, &user, of_user.clone())));
    works(&place, &server.url(), &["--creds", &creds]);
    let creds = write(&place, "stranger.creds", &credentials(&user, &token(&stranger, &user, of_user)));
    is_refused(&place, &server.url(), &["--creds", &creds]);
}
