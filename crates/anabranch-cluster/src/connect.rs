//! The way to the server: addresses, credentials, reconnecting, and whether the server can do what we need.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::context::{ContextBuilder, RequestErrorKind};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};

use crate::error::{ClusterError, in_words};

/// Where a server listens unless told.
pub const DEFAULT_URL: &str = "nats://127.0.0.1:4222";

/// The oldest server that has all we use (2.9: consistent pull consumers and object stores).
pub const OLDEST_SERVER: (u32, u32) = (2, 9);

/// How long one answer of the server may take before we ask again.
const ANSWER: Duration = Duration::from_secs(5);
const SLOWEST_RECONNECT: Duration = Duration::from_secs(5);
/// How long servers may take to choose a leader, for which a majority of them has to be there.
const ELECTION: Duration = Duration::from_secs(60);
/// How often they are asked meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// What a server says of JetStream that has no leader.
const NO_LEADER: u64 = 10008;

/// Where to go, and with what in hand.
#[derive(Clone, Debug, Default)]
pub struct ConnectTo {
    /// One or several addresses separated by commas; user and password or a token may stand in them.
    pub url: String,
    /// A credentials file (`.creds`).
    pub creds: Option<PathBuf>,
    /// A file with an nkey seed.
    pub nkey: Option<PathBuf>,
    /// Certificates of the authority that signed the server's.
    pub tls_ca: Option<PathBuf>,
    /// Our certificate, for servers that ask for one.
    pub tls_cert: Option<PathBuf>,
    /// The key of our certificate.
    pub tls_key: Option<PathBuf>,
    /// How the server's monitoring calls us.
    pub name: String,
    /// Told when there is something to wait for.
    pub say: Option<fn(&str)>,
}

/// The addresses without what stands before an `@`.
pub(crate) fn redacted(url: &str) -> String {
    let one = |url: &str| match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        _ => url.to_owned(),
    };
    url.split(',').map(str::trim).map(one).collect::<Vec<_>>().join(",")
}

/// User and password, or a token, that stand in an address.
fn login_of(url: &str) -> Option<(String, Option<String>)> {
    let (_, rest) = url.split_once("://")?;
    let (login, _) = rest.rsplit_once('@')?;
    Some(match login.split_once(':') {
        Some((user, password)) => (unescaped(user), Some(unescaped(password))),
        None => (unescaped(login), None),
    })
}

/// Undoes `%40` and the like; what is no such escape stays as it is.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = (*first == b'%').then(|| behind.get(..2)).flatten();
        let code = code
            .and_then(|two| std::str::from_utf8(two).ok())
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits longer after each failure, up to a few seconds; differently for each process, so that they do not come at once.
fn backoff(attempt: usize) -> Duration {
    let spread = 0.75 + f64::from(std::process::id() % 64) / 128.0;
    let seconds = 0.05 * f64::from(1 << attempt.min(8)) * spread;
    Duration::from_secs_f64(seconds).min(SLOWEST_RECONNECT)
}

/// Connects and checks the server.
pub async fn connect(to: &ConnectTo) -> Result<(Client, jetstream::Context), ClusterError> {
    let url = redacted(&to.url);
    let unreachable = |reason: String| ClusterError::Unreachable { url: url.clone(), reason };
    let login = |reason: String| ClusterError::Login { url: url.clone(), reason };
    let mut options = ConnectOptions::new()
        .name(&to.name)
        .connection_timeout(ANSWER)
        .ping_interval(Duration::from_secs(5))
        .request_timeout(Some(ANSWER))
        .reconnect_delay_callback(backoff);
    match to.url.split(',').find_map(|url| login_of(url.trim())) {
        Some((user, Some(password))) => options = options.user_and_password(user, password),
        Some((token, None)) => options = options.token(token),
        None => {}
    }
    if let Some(creds) = &to.creds {
        options =
            options.credentials_file(creds).await.map_err(|e| login(format!("{}: {e}", creds.display())))?;
    }
    if let Some(nkey) = &to.nkey {
        let seed = std::fs::read_to_string(nkey).map_err(|e| login(format!("{}: {e}", nkey.display())))?;
        options = options.nkey(seed.trim().to_owned());
    }
    if let Some(ca) = &to.tls_ca {
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    if let (Some(cert), Some(key)) = (&to.tls_cert, &to.tls_key) {
        options = options.add_client_certificate(cert.clone(), key.clone()).require_tls(true);
    }
    let addresses: Vec<&str> = to.url.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
    let client = options.connect(addresses).await.map_err(|error| match error.kind() {
        ConnectErrorKind::Authentication
        | ConnectErrorKind::AuthorizationViolation
        | ConnectErrorKind::Tls => login(in_words(&error)),
        // What TLS does not like comes as an error of the socket.
        _ if in_words(&error).contains("certificate") => login(in_words(&error)),
        _ => unreachable(in_words(&error)),
    })?;
    let found = client.server_info().version;
    if !is_new_enough(&found) {
        return Err(ClusterError::TooOld { url, found });
    }
    let context = ContextBuilder::new().timeout(ANSWER).backpressure_on_inflight(true).build(client.clone());
    // Asked in plain JSON: the client's own type for this answer does not know that of old servers.
    let no_jetstream = |reason: String| ClusterError::NoJetStream { url: url.clone(), reason };
    let asked = Instant::now();
    let mut is_told = false;
    let answer = loop {
        let answer = context.request::<_, _, serde_json::Value>("INFO", b"").await;
        let has_leader = match &answer {
            Ok(answer) => answer["error"]["err_code"].as_u64() != Some(NO_LEADER),
            Err(error) => error.kind() != RequestErrorKind::TimedOut,
        };
        if has_leader || asked.elapsed() > ELECTION {
            break answer.map_err(|error| no_jetstream(in_words(&error)))?;
        }
        if let Some(say) = to.say.filter(|_| !std::mem::replace(&mut is_told, true)) {
            let seconds = ELECTION.as_secs();
            say(&format!("the servers at {url} have no leader yet: waiting for up to {seconds} s"));
        }
        tokio::time::sleep(ASK_AGAIN).await;
    };
    if let Some(error) = answer.get("error") {
        return Err(no_jetstream(error["description"].as_str().unwrap_or("it is disabled").to_owned()));
    }
    Ok((client, context))
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= OLDEST_SERVER,
        // A build without a number comes from somebody who knows.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_repeated() {
        assert_eq!(redacted("nats://me:secret@host:4222, tls://token@b"), "nats://host:4222,tls://b");
        assert_eq!(redacted("host:4222"), "host:4222");
    }

    #[test]
    fn logins_stand_before_the_host() {
        assert_eq!(login_of("nats://me:s%40c:ret@host:1"), Some(("me".into(), Some("s@c:ret".into()))));
        assert_eq!(login_of("tls://token%2@host"), Some(("token%2".into(), None)));
        assert_eq!(login_of("nats://host:4222"), None);
        assert_eq!(login_of("host:4222"), None);
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(is_new_enough("2.10.1") && is_new_enough("2.9.10") && is_new_enough("3.0.0-beta.1"));
        assert!(!is_new_enough("2.8.4") && !is_new_enough("1.4.1"));
    }

    #[test]
    fn waiting_grows_and_ends_growing() {
        assert!(backoff(1) < backoff(4) && backoff(4) < backoff(40));
        assert!(backoff(usize::MAX) <= SLOWEST_RECONNECT);
    }
}
