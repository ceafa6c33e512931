//! What a worker has in its hands: tells the server, for as long as a minibatch is being worked on, that it is, and gives
//! back what is left when the worker goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use tokio::task::JoinHandle;

/// The messages that a worker holds, each under a number of its own.
#[derive(Default)]
pub(super) struct Hands {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    next: u64,
    messages: BTreeMap<u64, Arc<Message>>,
}

impl Hands {
    /// Takes a message, and reports progress three times in every `ack_wait`.
    pub(super) fn take(self: &Arc<Self>, message: Message, ack_wait: Duration) -> Kept {
        let message = Arc::new(message);
        let ours = Arc::clone(&message);
        let ticker = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ack_wait / 3).await;
                // Lost progress costs a second delivery, which the fold makes harmless.
                let _ = ours.ack_with(AckKind::Progress).await;
            }
        });
        let mut held = self.held.lock().expect("no holder panics");
        let number = held.next;
        held.next += 1;
        held.messages.insert(number, Arc::clone(&message));
        Kept { message, number, ticker, hands: Arc::clone(self) }
    }

    /// Gives back everything that nobody has let go of: others need not wait for it.
    pub(super) async fn empty(&self) {
        let left = std::mem::take(&mut self.held.lock().expect("no holder panics").messages);
        for message in left.into_values() {
            let _ = message.ack_with(AckKind::Nak(None)).await;
        }
    }
}

/// A message that is ours while this lives.
pub(super) struct Kept {
    message: Arc<Message>,
    number: u64,
    ticker: JoinHandle<()>,
    hands: Arc<Hands>,
}

impl Kept {
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// The minibatch is settled.
    pub(super) async fn ack(self) {
        let _ = self.message.ack_with(AckKind::Ack).await;
        self.let_go();
    }

    /// Somebody else shall take it, after a while.
    pub(super) async fn hand_back(self, after: Duration) {
        let _ = self.message.ack_with(AckKind::Nak(Some(after))).await;
        self.let_go();
    }

    fn let_go(&self) {
        self.hands.held.lock().expect("no holder panics").messages.remove(&self.number);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ticker.abort();
    }
}
