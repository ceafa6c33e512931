//! The cluster against real servers on loopback, with worker processes that are killed, paused and cut off.
//!
//! `make cluster`, a part of `make test`, fetches the servers and runs these; otherwise each test says that it was skipped.

mod deploy;
mod document;
mod errors;
mod faults;
mod health;
mod kinds;
mod logins;
mod operate;
mod power;
mod prometheus;
mod proxy;
mod queues;
mod server;
mod streams;
mod support;
#[path = "../transcript/mod.rs"]
mod transcript;
mod whole;
mod wire;
