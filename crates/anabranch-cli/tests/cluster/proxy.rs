//! A way to a server that can be cut and healed, closed at a word, or that makes a worker one of another version.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use crate::server::wait_until;

/// Passes bytes on while it is whole.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    state: Mutex<State>,
    changed: Condvar,
    translation: Option<[&'static [u8]; 2]>,
}

#[derive(Default)]
struct State {
    cut: bool,
    open: Vec<TcpStream>,
    gate: Option<Gate>,
}

/// Nothing that the client sends passes from the first bytes with the word on, once that has passed a number of times.
struct Gate {
    word: &'static [u8],
    passes: usize,
    closed: bool,
}

impl Proxy {
    pub fn to(server: u16) -> Self {
        Self::start(server, State::default(), None)
    }

    /// The client's bytes stop at this word, when it has passed so many times.
    pub fn with_gate(server: u16, word: &'static str, passes: usize) -> Self {
        let gate = Gate { word: word.as_bytes(), passes, closed: false };
        Self::start(server, State { gate: Some(gate), ..State::default() }, None)
    }

    /// What the client calls by the first name, the server and everybody else call by the second, of the same length.
    pub fn with_translation(server: u16, names: [&'static [u8]; 2]) -> Self {
        Self::start(server, State::default(), Some(names))
    }

    fn start(server: u16, state: State, translation: Option<[&'static [u8]; 2]>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = listener.local_addr().expect("it is bound").port();
        let shared =
            Arc::new(Shared { server, state: Mutex::new(state), changed: Condvar::new(), translation });
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|client| ours.connect(client)));
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends every connection and lets nobody through.
    pub fn cut(&self) {
        let mut state = self.shared.state.lock().expect("no holder panics");
        state.cut = true;
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn heal(&self) {
        self.shared.state.lock().expect("no holder panics").cut = false;
    }

    /// Waits until somebody has said the word.
    pub fn wait_for_the_word(&self) {
        wait_until("the word at the gate", || {
            let state = self.shared.state.lock().expect("no holder panics");
            state.gate.as_ref().is_some_and(|gate| gate.closed)
        });
    }

    /// What was held back goes on its way, and everything after it.
    pub fn open_the_gate(&self) {
        self.shared.state.lock().expect("no holder panics").gate = None;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.server)) else { return };
        let mut state = self.state.lock().expect("no holder panics");
        if state.cut {
            return;
        }
        state.open.extend([client.try_clone(), server.try_clone()].into_iter().flatten());
        drop(state);
        let [ours, theirs] = self.translation.unwrap_or_default();
        self.pass(&client, &server, [ours, theirs], true);
        self.pass(&server, &client, [theirs, ours], false);
    }

    fn pass(self: &Arc<Self>, from: &TcpStream, to: &TcpStream, names: [&'static [u8]; 2], guarded: bool) {
        let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
            while let Ok(n) = from.read(&mut piece) {
                if n == 0 {
                    break;
                }
                if guarded {
                    shared.wait_at_the_gate(&piece[..n]);
                }
                bytes.extend_from_slice(&piece[..n]);
                let whole = translate(&mut bytes, names);
                if to.write_all(&bytes[..whole]).is_err() {
                    break;
                }
                bytes.drain(..whole);
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }

    fn wait_at_the_gate(&self, bytes: &[u8]) {
        let mut state = self.state.lock().expect("no holder panics");
        if let Some(gate) = &mut state.gate {
            let said = bytes.windows(gate.word.len()).filter(|window| *window == gate.word).count();
            gate.closed |= said > gate.passes;
            gate.passes = gate.passes.saturating_sub(said);
        }
        let closed = |state: &mut State| state.gate.as_ref().is_some_and(|gate| gate.closed);
        let _state = self.changed.wait_while(state, closed).expect("no holder panics");
    }
}

/// Replaces the first name by the second, and returns the bytes in which no name can have begun that is not at its end yet.
fn translate(bytes: &mut [u8], [from, to]: [&[u8]; 2]) -> usize {
    if from.is_empty() {
        return bytes.len();
    }
    for at in 0..(bytes.len() + 1).saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    let begun = (1..from.len()).rev().find(|length| bytes.ends_with(&from[..*length]));
    bytes.len() - begun.unwrap_or(0)
}

#[test]
fn names_are_translated_also_when_they_come_in_two_pieces() {
    let mut bytes = b"xANBP1yANB".to_vec();
    assert_eq!(translate(&mut bytes, [b"ANBP1", b"ANBP2"]), 7);
    assert_eq!(bytes, b"xANBP2yANB");
    assert_eq!(translate(&mut bytes, [b"", b""]), 10);
}
