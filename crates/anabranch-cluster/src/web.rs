//! The endpoint of a worker: `/health` and `/metrics`, nothing else. Loopback unless told, and beyond it only with a token.

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
    /// Whether the worker is well, and in which words (JSON).
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
    TcpListener::bind(address)
        .await
        .map_err(|error| ClusterError::Listen(format!("--listen {address}: {error}")))
}

/// Answers requests for ever.
pub(crate) async fn serve(listener: TcpListener, token: Option<String>, page: Arc<dyn Page>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (token, page) = (token.clone(), Arc::clone(&page));
        tokio::spawn(async move {
            // A visitor who is slow or gone is no concern of ours.
            let _ = tokio::time::timeout(PATIENCE, answer(stream, token.as_deref(), &*page)).await;
        });
    }
}

async fn answer(mut stream: TcpStream, token: Option<&str>, page: &dyn Page) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await? {
            0 => break,
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    let (status, kind, body) = respond(&String::from_utf8_lossy(&head), token, page);
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

fn respond(head: &str, token: Option<&str>, page: &dyn Page) -> (&'static str, &'static str, String) {
    let text = |status, body: &str| (status, "text/plain; charset=utf-8", format!("{body}\n"));
    let mut lines = head.lines();
    let mut request = lines.next().unwrap_or("").split(' ');
    let (method, path) = (request.next().unwrap_or(""), request.next().unwrap_or(""));
    if let Some(token) = token {
        let given = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("authorization").then(|| value.trim().strip_prefix("Bearer "))?
        });
        if !given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) {
            return text("401 Unauthorized", "send `Authorization: Bearer TOKEN`");
        }
    }
    match (method, path.split('?').next().unwrap_or("")) {
        ("GET", "/health") => {
            let (well, body) = page.health();
            (if well { "200 OK" } else { "503 Service Unavailable" }, "application/json", format!("{body}\n"))
        }
        ("GET", "/metrics") => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", page.metrics()),
        ("GET", _) => text("404 Not Found", "there are /health and /metrics"),
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
        fn health(&self) -> (bool, String) {
            (self.0, "{}".into())
        }

        fn metrics(&self) -> String {
            "a 1\n".into()
        }
    }

    #[test]
    fn health_and_metrics_are_all_there_is() {
        let status = |head: &str| respond(head, None, &Fixed(true)).0;
        assert_eq!(status("GET /health HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET /metrics?x HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404 Not Found");
        assert_eq!(status("POST /health HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status(""), "405 Method Not Allowed");
        assert_eq!(respond("GET /health HTTP/1.1\r\n", None, &Fixed(false)).0, "503 Service Unavailable");
    }

    #[test]
    fn a_token_is_asked_for_everywhere() {
        let status = |head: &str| respond(head, Some("secret"), &Fixed(true)).0;
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
