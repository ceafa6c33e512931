//! NATS servers on loopback, one or three, that can be killed, started again and configured.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::wire::Wire;

/// Everything here waits for conditions this long: the machine may be busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The servers that `scripts/nats-set-up` fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Current,
    Oldest,
}

/// Where a server is, or `None`, said aloud, when it was not fetched.
pub fn binary(version: Version) -> Option<PathBuf> {
    if std::env::var_os("ANABRANCH_CLUSTER_TESTS").is_none() {
        eprintln!("skipped: `make cluster` fetches the servers and runs this test");
        return None;
    }
    let name = if version == Version::Current { "current" } else { "oldest" };
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/anabranch-cli is two below");
    let path = root.join("target/nats").join(name).join("nats-server");
    if path.exists() {
        return Some(path);
    }
    assert!(version == Version::Oldest, "there is no {}: run scripts/nats-set-up", path.display());
    eprintln!("skipped: there is no Debian package nats-server on this machine");
    None
}

/// A port that nobody uses now, and that nobody else gets: each is handed out once, and they lie below those that the system
/// gives to whoever connects.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    loop {
        let port = 20_000 + (start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until the condition holds; `what` says in the failure what was waited for.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One server process.
pub struct Server {
    binary: PathBuf,
    pub port: u16,
    config: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// Starts a server whose configuration has these further lines.
    pub fn start(version: Version, folder: &Path, more: &str) -> Option<Self> {
        let jetstream =
            format!("jetstream {{ store_dir: \"{}\", max_file_store: 2GB }}", folder.join("js").display());
        Self::start_without_streams(version, folder, &format!("{jetstream}\n{more}"))
    }

    /// The same without JetStream, unless the lines ask for it.
    pub fn start_without_streams(version: Version, folder: &Path, more: &str) -> Option<Self> {
        let binary = binary(version)?;
        std::fs::create_dir_all(folder).expect("a folder for the server");
        let port = free_port();
        let name = folder.file_name().map_or("n".into(), |name| name.to_string_lossy().into_owned());
        let config = folder.join("server.conf");
        let text = format!("host: 127.0.0.1\nport: {port}\nserver_name: {name}\n{more}\n");
        std::fs::write(&config, text).expect("a configuration");
        let mut server = Self { binary, port, config, log: folder.join("server.log"), child: None };
        server.go_on();
        Some(server)
    }

    /// Starts it again after a kill, on the same port and the same files.
    pub fn go_on(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).expect("a log");
        let child = Command::new(&self.binary)
            .arg("-c")
            .arg(&self.config)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        self.child = Some(child);
        let port = self.port;
        wait_until("the server to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three servers that keep three copies of everything.
pub struct Three {
    pub servers: Vec<Server>,
}

impl Three {
    pub fn start(version: Version, folder: &Path) -> Option<Self> {
        binary(version)?;
        let routes: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let all: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let servers = routes
            .iter()
            .enumerate()
            .map(|(ix, port)| {
                let cluster = format!(
                    "cluster {{ name: c, listen: \"127.0.0.1:{port}\", routes: [{}] }}",
                    all.join(", ")
                );
                Server::start(version, &folder.join(format!("n{ix}")), &cluster).expect("the binary is there")
            })
            .collect();
        Some(Self { servers })
    }

    pub fn url(&self) -> String {
        self.servers.iter().map(Server::url).collect::<Vec<_>>().join(",")
    }

    /// The server that leads a stream, asked of those that live.
    pub fn leader(&self, stream: &str) -> usize {
        let mut leader = None;
        wait_until("a leader", || {
            let alive = self.servers.iter().filter(|server| server.child.is_some());
            leader = alive.filter_map(|server| self.led_by(server, stream)).next();
            leader.is_some()
        });
        leader.expect("it was waited for")
    }

    fn led_by(&self, server: &Server, stream: &str) -> Option<usize> {
        let info = Wire::to(server).ask(&format!("$JS.API.STREAM.INFO.{stream}"), "")?;
        let leader: usize = info["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok()?;
        self.servers[leader].child.is_some().then_some(leader)
    }
}
