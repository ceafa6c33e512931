//! One way to watch a run: progress bars, traces, checkpoints and live pages are observers.

use crate::batch::{Batch, Minibatch};
use crate::central::{Absorbed, BatchId, Central};
use crate::family::Conjugate;
use crate::posterior::Posterior;
use crate::process::Process;

/// One minibatch has joined the posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// The minibatch.
    pub batch: BatchId,
    /// Its rows.
    pub rows: u64,
    /// Version of the posterior afterwards (or a later one, under free running).
    pub version: u64,
    /// Components afterwards.
    pub components: usize,
    /// Weight absorbed so far, be it forgotten since.
    pub mass: f64,
    /// Matchings, conflicts, and whether the minibatch counted.
    pub absorbed: Absorbed,
}

impl Event {
    /// The event of a minibatch that has just joined.
    pub(super) fn after<F: Conjugate, P: Process>(
        batch: BatchId,
        rows: &impl Minibatch,
        posterior: &Posterior<F, P>,
        absorbed: Absorbed,
    ) -> Self {
        Self {
            batch,
            rows: rows.n_rows() as u64,
            version: posterior.version(),
            components: posterior.components().len(),
            mass: posterior.rows(),
            absorbed,
        }
    }
}

/// What an observer wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Read no further, absorb what was read, and return.
    Stop,
}

/// Watches a run from the calling thread; a slow observer never holds a lock that a worker needs.
pub trait Observer<F, P, B: Minibatch = Batch> {
    /// Called once for each minibatch; the newest snapshot or a checkpoint can be taken from `central`.
    fn observe(&mut self, event: &Event, central: &Central<F, P, B>) -> Flow;
}

/// Watches nothing.
impl<F, P, B: Minibatch> Observer<F, P, B> for () {
    fn observe(&mut self, _: &Event, _: &Central<F, P, B>) -> Flow {
        Flow::Continue
    }
}

/// Any function of the event is an observer.
impl<F, P, B: Minibatch, T: FnMut(&Event, &Central<F, P, B>) -> Flow> Observer<F, P, B> for T {
    fn observe(&mut self, event: &Event, central: &Central<F, P, B>) -> Flow {
        self(event, central)
    }
}
