//! A short lease: one worker at a time does what needs doing once (the bootstrap, snapshots, upkeep of the model).
//!
//! Nothing is wrong when two hold it for a moment: the fold decides what counts. It saves work, and clocks need not agree:
//! whoever wants it watches the holder's entry, and takes it when it has not changed for [`LIFE`] by his own clock.

use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{Operation, Store};
use bytes::Bytes;

const KEY: &str = "lease";
/// A holder that is silent for this long has lost it.
pub(crate) const LIFE: Duration = Duration::from_secs(10);

/// One worker's view of the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    store: Store,
    me: String,
    held: Option<u64>,
    seen: Option<(u64, Instant)>,
}

impl Lease {
    pub(crate) fn new(store: Store, me: &str) -> Self {
        Self { store, me: me.to_owned(), held: None, seen: None }
    }

    /// Renews or tries to take it; true while it is ours. Called several times in a [`LIFE`].
    pub(crate) async fn tend(&mut self) -> bool {
        let mine = Bytes::from(self.me.clone());
        if let Some(revision) = self.held {
            self.held = self.store.update(KEY, mine, revision).await.ok();
            return self.held.is_some();
        }
        match self.store.entry(KEY).await {
            Ok(Some(entry)) if entry.operation == Operation::Put => match self.seen {
                Some((revision, since)) if revision == entry.revision => {
                    if since.elapsed() > LIFE {
                        self.held = self.store.update(KEY, mine, revision).await.ok();
                    }
                }
                _ => self.seen = Some((entry.revision, Instant::now())),
            },
            Ok(_) => self.held = self.store.create(KEY, mine).await.ok(),
            Err(_) => {}
        }
        self.held.is_some()
    }

    /// Gives back what `me` holds, so that nobody has to wait.
    pub(crate) async fn release_of(store: &Store, me: &str) {
        if let Ok(Some(entry)) = store.entry(KEY).await
            && entry.value == me.as_bytes()
        {
            // A failure costs the others a few seconds, nothing more.
            let _ = store.delete_expect_revision(KEY, Some(entry.revision)).await;
        }
    }
}
