//! What a worker has in its hands: tells the server, for as long as a minibatch is being worked on, that it is, and gives
//! back what is left when the worker goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::central::BatchId;
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::{Crew, handed};
use crate::kind::Kind;

/// The messages that a worker holds, each under a number of its own.
#[derive(Default)]
pub(super) struct Hands {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    next: u64,
    messages: BTreeMap<u64, (BatchId, Arc<Acker>)>,
}

impl Hands {
    /// Takes a message, and reports progress three times in every `ack_wait`.
    pub(super) fn take(self: &Arc<Self>, batch: BatchId, message: Message, ack_wait: Duration) -> Kept {
        let (message, acker) = message.split();
        let acker = Arc::new(acker);
        let ours = Arc::clone(&acker);
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
        held.messages.insert(number, (batch, Arc::clone(&acker)));
        Kept { batch, message, acker, number, ticker, hands: Arc::clone(self) }
    }

    /// Takes out everything that nobody has let go of.
    fn empty(&self) -> Vec<(BatchId, Arc<Acker>)> {
        std::mem::take(&mut self.held.lock().expect("no holder panics").messages).into_values().collect()
    }
}

/// A message that is ours while this lives.
pub(super) struct Kept {
    batch: BatchId,
    message: async_nats::Message,
    acker: Arc<Acker>,
    number: u64,
    ticker: JoinHandle<()>,
    hands: Arc<Hands>,
}

impl Kept {
    pub(super) fn message(&self) -> &async_nats::Message {
        &self.message
    }

    /// The rows were learned from: the server has them still, should they be needed again.
    pub(super) fn let_rows_go(&mut self) {
        self.message.payload = Bytes::new();
    }

    /// The minibatch is settled.
    pub(super) async fn ack(self) {
        let _ = self.acker.ack_with(AckKind::Ack).await;
        self.let_go();
    }

    /// It failed: somebody else shall try, after a while.
    pub(super) async fn fail(self, after: Duration) {
        let _ = self.acker.ack_with(AckKind::Nak(Some(after))).await;
        self.let_go();
    }

    fn let_go(&self) {
        self.hands.held.lock().expect("no holder panics").messages.remove(&self.number);
    }
}

impl<K: Kind> Crew<K> {
    /// Gives minibatches back that nothing was tried with: others need not wait for them, and it is no failure.
    pub(super) async fn hand_back(&self, kept: Vec<Kept>) {
        self.note_handed(kept.iter().map(|kept| kept.batch)).await;
        for kept in kept {
            kept.fail(Duration::ZERO).await;
        }
    }

    /// The same for all that is in the hands of a worker that goes; what it goes because of has failed.
    pub(super) async fn let_all_go(&self, have_failed: bool) {
        let left = self.hands.empty();
        if !have_failed {
            self.note_handed(left.iter().map(|(batch, _)| *batch)).await;
        }
        for (_, acker) in left {
            let _ = acker.ack_with(AckKind::Nak(None)).await;
        }
    }

    async fn note_handed(&self, batches: impl Iterator<Item = BatchId>) {
        let batches: Vec<BatchId> = batches.collect();
        handed::note(&self.job, &batches, |batch| self.central.with(|replica| replica.is_settled(batch)))
            .await;
    }

    /// Deliveries after which nobody was heard of, or that failed, this one included.
    pub(super) async fn tries(&self, batch: BatchId, delivered: u64) -> u64 {
        match delivered >= u64::from(self.job.spec.max_deliver) {
            true => delivered.saturating_sub(handed::times(&self.job, batch).await),
            false => delivered,
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ticker.abort();
    }
}
