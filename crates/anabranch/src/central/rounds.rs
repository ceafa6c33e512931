//! Which posterior a minibatch reads when the seed alone is to fix the result.

use std::sync::Arc;

use crate::family::Conjugate;
use crate::posterior::Posterior;
use crate::process::Process;

/// Minibatches in rounds of half the logical workers: those of a round read the posterior after the round before last, so
/// that as many are in flight as there are workers. A single worker reads the newest.
///
/// A run that goes on where another one ended goes on in the same round.
#[derive(Debug)]
pub struct Rounds<F, P> {
    workers: u64,
    joined: u64,
    /// Version of the posterior after the last of them.
    version: u64,
    /// The posterior after the round before last, and after the last one.
    ends: [Arc<Posterior<F, P>>; 2],
}

impl<F, P> Clone for Rounds<F, P> {
    fn clone(&self) -> Self {
        Self { ends: self.ends.clone(), ..*self }
    }
}

impl<F: Conjugate, P: Process> Rounds<F, P> {
    /// The first round starts from this posterior.
    pub(crate) fn new(workers: usize, start: Arc<Posterior<F, P>>) -> Self {
        Self { workers: workers.max(1) as u64, joined: 0, version: start.version(), ends: [Arc::clone(&start), start] }
    }

    /// Minibatches that have joined.
    pub(crate) fn joined(&self) -> u64 {
        self.joined
    }

    /// Whether these are rounds of so many workers, and a posterior of this version is where they have come to.
    pub(crate) fn go_on(&self, workers: usize, version: u64) -> bool {
        self.workers == workers.max(1) as u64 && self.version == version
    }

    fn size(&self) -> u64 {
        (self.workers / 2).max(1)
    }

    /// The posterior that this minibatch reads; `None` while its round has to wait.
    pub(crate) fn read_by(&self, minibatch: u64) -> Option<Arc<Posterior<F, P>>> {
        let ended = self.joined / self.size();
        let lag = u64::from(self.workers > 1);
        match (minibatch / self.size()).saturating_sub(lag) {
            wanted if wanted > ended => None,
            wanted => {
                debug_assert!(wanted + 1 >= ended, "the round before last is the oldest that anybody reads");
                Some(Arc::clone(&self.ends[usize::from(wanted == ended)]))
            }
        }
    }

    /// The next minibatch has joined, and this is the posterior now; returns whether a round has ended.
    pub(crate) fn pass(&mut self, now: Arc<Posterior<F, P>>) -> bool {
        self.joined += 1;
        self.version = now.version();
        let ends = self.joined.is_multiple_of(self.size());
        if ends {
            self.ends.swap(0, 1);
            self.ends[1] = now;
        }
        ends
    }
}
