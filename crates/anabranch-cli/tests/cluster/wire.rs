//! A client of NATS in a few lines: a program of somebody else's, for messages that the command would not send and questions
//! that it does not ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::server::Server;

/// A server that does not answer for this long has nobody to answer.
const ANSWER: Duration = Duration::from_secs(5);

pub struct Wire(BufReader<TcpStream>);

impl Wire {
    /// Panics when the server is not there.
    pub fn to(server: &Server) -> Self {
        Self::login(server, "")
    }

    /// The same, as this user.
    pub fn of(server: &Server, user: &str, password: &str) -> Self {
        Self::login(server, &format!(",\"user\":\"{user}\",\"pass\":\"{password}\""))
    }

    fn login(server: &Server, login: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
        stream.set_read_timeout(Some(ANSWER)).expect("a time-out");
        let mut wire = Self(BufReader::new(stream));
        wire.send(format!("CONNECT {{\"verbose\":false,\"headers\":true{login}}}\r\n").as_bytes());
        wire.settle();
        wire
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("the server listens");
    }

    /// The next line; `None` when there is none in time.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|n| *n > 0).map(|_| line)
    }

    /// Waits until the server has seen everything so far.
    fn settle(&mut self) {
        self.send(b"PING\r\n");
        while !self.line().expect("an answer").starts_with("PONG") {}
    }

    /// Whether the server lets us publish there. Nothing that matters is said.
    pub fn may_publish(&mut self, subject: &str) -> bool {
        self.send(format!("PUB {subject} 0\r\n\r\nPING\r\n").as_bytes());
        let mut may = true;
        loop {
            let line = self.line().expect("an answer");
            match line.starts_with("PONG") {
                true => return may,
                false => may &= !line.contains("Permissions Violation"),
            }
        }
    }

    pub fn publish(&mut self, subject: &str, headers: &[(&str, &str)], payload: &[u8]) {
        let mut head = String::from("NATS/1.0\r\n");
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str("\r\n");
        let line = format!("HPUB {subject} {} {}\r\n{head}", head.len(), head.len() + payload.len());
        self.send(&[line.as_bytes(), payload, b"\r\n"].concat());
        self.settle();
    }

    /// What a request answers; `None` when nobody does.
    pub fn ask(&mut self, subject: &str, payload: &str) -> Option<Value> {
        let line = format!("SUB _INBOX.x 1\r\nPUB {subject} _INBOX.x {}\r\n{payload}\r\n", payload.len());
        self.send(line.as_bytes());
        let length = loop {
            let line = self.line()?;
            if line.starts_with("MSG ") {
                break line.split_whitespace().last()?.parse::<usize>().ok()?;
            }
        };
        let mut answer = vec![0; length + 2];
        self.0.read_exact(&mut answer).ok()?;
        self.send(b"UNSUB 1\r\n");
        serde_json::from_slice(&answer[..length]).ok()
    }
}
