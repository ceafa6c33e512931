//! Tells the server, for as long as a minibatch is being worked on, that it is.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use tokio::task::JoinHandle;

/// A message that is ours while this lives.
pub(super) struct Kept {
    message: Arc<Message>,
    ticker: JoinHandle<()>,
}

impl Kept {
    /// Reports progress three times in every `ack_wait`.
    pub(super) fn new(message: Message, ack_wait: Duration) -> Self {
        let message = Arc::new(message);
        let ours = Arc::clone(&message);
        let ticker = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ack_wait / 3).await;
                // Lost progress costs a second delivery, which the fold makes harmless.
                let _ = ours.ack_with(AckKind::Progress).await;
            }
        });
        Self { message, ticker }
    }

    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// The minibatch is settled.
    pub(super) async fn ack(self) {
        let _ = self.message.ack().await;
    }

    /// Somebody else shall take it, after a while.
    pub(super) async fn hand_back(self, after: Duration) {
        let _ = self.message.ack_with(AckKind::Nak(Some(after))).await;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ticker.abort();
    }
}
