//! The beginning of a job: whoever holds the lease gathers the first minibatches and makes the first model of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anabranch::central::BatchId;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::select_all;

use super::keep::Kept;
use super::minibatch::unfinished;
use super::{Crew, Founding, POLL};
use crate::error::ClusterError;
use crate::kind::Kind;
use crate::protocol::{Append, Event, Expectation, Record};
use crate::submit::sources;

/// A stream that nobody has said the end of counts as quiet after this; the bootstrap then takes what there is.
const QUIET: Duration = Duration::from_secs(10);
/// Minibatches asked for at a time.
const AT_ONCE: usize = 32;

/// What was gathered.
#[derive(Default)]
struct Gathered {
    kept: Vec<(BatchId, Kept)>,
    rows: usize,
    everything: bool,
}

impl<K: Kind> Crew<K> {
    /// One attempt. It ends when the journal has begun, the lease is lost, or the worker is asked to stop.
    pub(super) async fn bootstrap(self: &Arc<Self>) -> Result<(), ClusterError> {
        let gathered = self.gather().await;
        if self.must_leave() || gathered.kept.is_empty() {
            self.hand_back(gathered.kept.into_iter().map(|(_, kept)| kept).collect()).await;
            return Ok(());
        }
        let messages = gathered.kept.iter().map(|(id, kept)| (*id, kept.message().payload.clone())).collect();
        let founding = Founding { messages, everything: gathered.everything };
        (self.config.say)(&format!("bootstrap of {} rows", gathered.rows));
        let founder = Arc::clone(&self.config.founder);
        let model = tokio::task::spawn_blocking(move || founder.found(founding)).await;
        let model = match model {
            Ok(Ok(model)) => model,
            Ok(Err(reason)) => return Err(ClusterError::Founding(reason)),
            Err(panic) => return Err(ClusterError::Founding(panic.to_string())),
        };
        let record = Record::<K>::Begin(Box::new(model)).to_bytes();
        while self.central.posterior().is_none() {
            match self.send(&record, Append::Births, Expectation::None).await {
                Event::Appended(at) => self.central.reaches(at).await,
                _ => self.read_all().await,
            }
        }
        let mut left = Vec::new();
        for (id, kept) in gathered.kept {
            // When somebody else's beginning came first, ours was void and these are still to be learned from.
            match self.central.with(|replica| replica.is_settled(id)) {
                true => kept.ack().await,
                false => left.push(kept),
            }
        }
        self.hand_back(left).await;
        Ok(())
    }

    fn must_leave(&self) -> bool {
        self.ends()
            || self.is_paused()
            || !self.holds_lease.load(Ordering::Relaxed)
            || self.central.posterior().is_some()
    }

    /// Minibatches until there are enough rows, or no more are to come.
    async fn gather(self: &Arc<Self>) -> Gathered {
        let enough = self.job.spec.bootstrap_rows.max(1) as usize;
        let ack_wait = Duration::from_secs(u64::from(self.job.spec.ack_wait));
        let mut gathered = Gathered::default();
        let mut names = BTreeSet::new();
        let mut last = Instant::now();
        while gathered.rows < enough && !self.must_leave() {
            // As many as are missing, going by the size of those that came: the rest is for all workers.
            let size = gathered.rows.checked_div(gathered.kept.len()).unwrap_or(enough).max(1);
            let missing = (enough - gathered.rows).div_ceil(size).clamp(1, AT_ONCE);
            let requests = self.queues.iter().map(|queue| async {
                let queue = queue.load_full();
                let each = missing.div_ceil(self.queues.len());
                queue.batch().max_messages(each).expires(POLL).messages().await
            });
            let answered: Vec<_> = join_all(requests).await.into_iter().flatten().collect();
            if answered.is_empty() {
                tokio::time::sleep(POLL).await;
                continue;
            }
            let mut messages = select_all(answered);
            let mut came = false;
            while let Some(message) = messages.next().await {
                let Ok(message) = message else { continue };
                came = true;
                let Some((id, delivered)) = self.name_of(&message) else {
                    self.without_name(message).await;
                    continue;
                };
                let kept = self.hands.take(id, message, ack_wait);
                let tries = self.tries(id, delivered).await;
                if tries > u64::from(self.job.spec.max_deliver.max(1)) {
                    self.set_aside(id, &unfinished(tries), kept).await;
                    continue;
                }
                // Others may have what comes when there is enough.
                if gathered.rows >= enough {
                    self.hand_back(vec![kept]).await;
                    continue;
                }
                match self.check(kept.message().payload.clone()).await {
                    // The same minibatch published twice: one is enough.
                    Ok(_) if !names.insert(id) => kept.ack().await,
                    Ok(rows) => {
                        gathered.rows += rows;
                        gathered.kept.push((id, kept));
                    }
                    Err(reason) => self.set_aside(id, &reason, kept).await,
                }
            }
            if came {
                last = Instant::now();
            } else if !gathered.kept.is_empty() {
                let finished = sources(&self.job).await.is_ok_and(|sources| {
                    !sources.is_empty() && sources.iter().all(|(_, source)| source.finished)
                });
                if finished && self.all_here(gathered.kept.len() as u64).await {
                    gathered.everything = true;
                    break;
                }
                if last.elapsed() > QUIET {
                    break;
                }
            }
        }
        gathered
    }

    async fn check(&self, message: Bytes) -> Result<usize, String> {
        let founder = Arc::clone(&self.config.founder);
        let checked = tokio::task::spawn_blocking(move || founder.check(&message)).await;
        checked.unwrap_or_else(|panic| Err(panic.to_string()))
    }

    /// True when the queues hold nothing but what we have.
    async fn all_here(&self, ours: u64) -> bool {
        self.job.waiting().await.is_ok_and(|waiting| waiting.messages <= ours)
    }
}
