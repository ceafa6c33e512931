//! The page about many machines: its commands, against a server.

use crate::server::{Server, Version};
use crate::transcript::run;

#[test]
fn the_commands_of_the_page_work() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(Version::Current, &folder.path().join("server"), "") else { return };
    assert!(run("docs/cluster.md", folder.path(), &[("ANABRANCH_NATS", &server.url())]) > 0);
}
