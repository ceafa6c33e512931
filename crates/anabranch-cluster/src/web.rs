//! The endpoint of a worker: `/health`, `/health/live`, `/health/ready` and `/metrics`, nothing else. Loopback unless told, and beyond it
//! only with a token. A second one has the two that a probe asks for, and no token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::error::ClusterError;

const LONGEST_HEAD: usize = 8192;
const PATIENCE: Duration = Duration::from_secs(5);

/// What the endpoint shows.
pub(crate) trait Page: Send + Sync + 'static {
    /// Whether the worker runs at all, and in which words (JSON).
    fn live(&self) -> (bool, String);
    /// Whether rows that wait move.
    fn ready(&self) -> (bool, String);
    /// The same, with where the worker stands.
    fn health(&self) -> (bool, String);
    /// The metrics.
    fn metrics(&self) -> String;
}

/// Opens the endpoint.
pub(crate) async fn listen(address: SocketAddr, token: Option<&str>) -> Result<TcpListener, ClusterError> {
    if !address.ip().is_loopback() && token.is_none() {
        return Err(ClusterError::Listen(format!(
            "--listen {address} is open to other machines and needs a token"
        )));
    }
    bind(address, "--listen").await
}

/// Opens an address that a flag gave.
pub(crate) async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, ClusterError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| ClusterError::Listen(format!("{flag} {address}: {error}")))
}

/// What is behind an address.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// Everything, for those who show the token.
    All(Option<String>),
    /// What a probe asks for, for anybody.
    Health,
}

/// Answers requests for ever.
pub(crate) async fn serve(listener: TcpListener, door: Door, page: Arc<dyn Page>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (door, page) = (door.clone(), Arc::clone(&page));
        tokio::spawn(async move {
            // A visitor who is slow or gone is no concern of ours.
            let _ = tokio::time::timeout(PATIENCE, answer(stream, &door, &*page)).await;
        });
    }
}

async fn answer(mut stream: TcpStream, door: &Door, page: &dyn Page) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await? {
            0 => break,
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    let (status, kind, body) = respond(&String::from_utf8_lossy(&head), door, page);
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

fn respond(head: &str, door: &Door, page: &dyn Page) -> (&'static str, &'static str, String) {
    let text = |status, body: &str| (status, "text/plain; charset=utf-8", format!("{body}\n"));
    let mut lines = head.lines();
    let mut request = lines.next().unwrap_or("").split(' ');
    let (method, path) = (request.next().unwrap_or(""), request.next().unwrap_or(""));
    if let Door::All(Some(token)) = door {
        let given = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("authorization").then(|| value.trim().strip_prefix("Bearer "))?
        });
        if !given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) {
            return text("401 Unauthorized", "send `Authorization: Bearer TOKEN`");
        }
    }
    let health = |(well, body): (bool, String)| {
        let status = if well { "200 OK" } else { "503 Service Unavailable" };
        (status, "application/json", format!("{body}\n"))
    };
    match (method, path.split('?').next().unwrap_or(""), door) {
        ("GET", "/health/live", _) => health(page.live()),
        ("GET", "/health/ready", _) => health(page.ready()),
        ("GET", _, Door::Health) => text("404 Not Found", "there are /health/live and /health/ready"),
        ("GET", "/health", _) => health(page.health()),
        ("GET", "/metrics", _) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", page.metrics()),
        ("GET", ..) => text("404 Not Found", "there are /health, /health/live, /health/ready and /metrics"),
        _ => text("405 Method Not Allowed", "only GET"),
    }
}

/// Compares in a time that does not tell how much was right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(bool);

    impl Page for Fixed {
        fn live(&self) -> (bool, String) {
            (true, "{}".into())
        }

        fn ready(&self) -> (bool, String) {
            self.health()
        }

        fn health(&self) -> (bool, String) {
            (self.0, "{}".into())
        }

        fn metrics(&self) -> String {
            "a 1\n".into()
        }
    }

    #[test]
    fn health_and_metrics_are_all_there_is() {
        let open = Door::All(None);
        let status = |head: &str| respond(head, &open, &Fixed(true)).0;
        assert_eq!(status("GET /health HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET /metrics?x HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404 Not Found");
        assert_eq!(status("POST /health HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status(""), "405 Method Not Allowed");
        let unwell = |head: &str| respond(head, &open, &Fixed(false)).0;
        assert_eq!(unwell("GET /health HTTP/1.1\r\n"), "503 Service Unavailable");
        assert_eq!(unwell("GET /health/ready HTTP/1.1\r\n"), "503 Service Unavailable");
        assert_eq!(unwell("GET /health/live HTTP/1.1\r\n"), "200 OK");
    }

    #[test]
    fn a_door_for_probes_shows_nothing_else() {
        let status = |head: &str| respond(head, &Door::Health, &Fixed(true)).0;
        assert_eq!(status("GET /health/ready HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET /health/live HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET /health HTTP/1.1\r\n\r\n"), "404 Not Found");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "404 Not Found");
    }

    #[test]
    fn a_token_is_asked_for_everywhere() {
        let door = Door::All(Some("secret".into()));
        let status = |head: &str| respond(head, &door, &Fixed(true)).0;
        assert_eq!(status("GET /health HTTP/1.1\r\n\r\n"), "401 Unauthorized");
        assert_eq!(status("GET /health HTTP/1.1\r\nAuthorization: Bearer secreT\r\n"), "401 Unauthorized");
        assert_eq!(status("GET /health HTTP/1.1\r\nauthorization: Bearer secret\r\n"), "200 OK");
    }

    #[tokio::test]
    async fn beyond_loopback_a_token_is_needed() {
        let error = listen("0.0.0.0:0".parse().unwrap(), None).await.unwrap_err();
        assert!(error.to_string().contains("needs a token"));
        assert!(listen("127.0.0.1:0".parse().unwrap(), None).await.is_ok());
    }
}
