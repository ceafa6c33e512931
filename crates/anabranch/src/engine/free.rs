//! Free running: each logical worker reads the newest posterior when it picks a minibatch up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender};

use super::{Event, Job, Shared, receive};
use crate::batch::Minibatch;
use crate::family::Conjugate;
use crate::infer::Inference;
use crate::posterior::Posterior;
use crate::process::Process;

/// Minibatches that logical workers hold, each with the snapshot its worker took.
pub(super) struct InFlight<F, P, B> {
    waiting: Arc<Mutex<VecDeque<Held<F, P, B>>>>,
    /// Minibatches that may wait for a thread: logical workers beyond the threads.
    workers: usize,
}

type Held<F, P, B> = (Job<B>, Arc<Posterior<F, P>>);

impl<F, P, B> Clone for InFlight<F, P, B> {
    fn clone(&self) -> Self {
        Self { waiting: Arc::clone(&self.waiting), workers: self.workers }
    }
}

impl<F: Conjugate, P: Process, B: Minibatch> InFlight<F, P, B> {
    pub(super) fn new(workers: usize) -> Self {
        Self { waiting: Arc::default(), workers }
    }

    /// Lets free logical workers pick minibatches up, and returns the one that has waited longest.
    fn next<I: Inference<F, P, Batch = B>>(
        &self,
        shared: &Shared<'_, F, P, I>,
        jobs: &Receiver<Job<B>>,
    ) -> Option<Held<F, P, B>> {
        let ready = {
            let mut waiting = self.waiting.lock().expect("no holder of this lock panics");
            let spare = self.workers.saturating_sub(shared.config.threads).saturating_add(1);
            while waiting.len() < spare {
                let Ok(job) = jobs.try_recv() else { break };
                waiting.push_back((job, shared.central.snapshot()));
            }
            waiting.pop_front()
        };
        ready.or_else(|| receive(jobs).map(|job| (job, shared.central.snapshot())))
    }
}

/// The life of a thread: take the oldest minibatch, infer, absorb.
pub(super) fn work<F: Conjugate, P: Process, I: Inference<F, P>>(
    shared: &Shared<'_, F, P, I>,
    in_flight: &InFlight<F, P, I::Batch>,
    jobs: &Receiver<Job<I::Batch>>,
    events: &Sender<Event>,
) {
    let mut workspace = I::Workspace::default();
    while let Some((mut job, snapshot)) = in_flight.next(shared, jobs) {
        let increment = shared.infer(&mut job, &snapshot, &mut workspace);
        drop(snapshot);
        shared.absorb(job, increment, events);
    }
}
