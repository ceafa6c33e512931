//! Deterministic running: minibatches go in rounds, and join in order.
//!
//! ```text
//! round      0        1        2        3
//! reads    start    start   after 0  after 1         two rounds are in flight
//! ```
//!
//! Nobody waits for his turn: whoever completes the next minibatch in order joins all that are ready, and the others go
//! on. A thread waits only when it is a whole round ahead.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crossbeam_channel::{Receiver, Sender};

use super::{Event, Job, Shared, receive};
use crate::central::{End, Rounds};
use crate::family::Conjugate;
use crate::infer::{Increment, Inference};
use crate::posterior::Posterior;
use crate::process::Process;

/// Minibatches that wait to join, and the posteriors that the next ones read.
pub(super) struct Turnstile<F, P, B> {
    shared: Arc<Gate<F, P, B>>,
}

type Gate<F, P, B> = (Mutex<State<F, P, B>>, Condvar);

struct State<F, P, B> {
    rounds: Rounds<F, P>,
    /// Minibatches that joined before this run: its turn 0 is this one.
    before: u64,
    ready: BTreeMap<u64, (Job<B>, Increment)>,
    /// A thread is joining those that are ready.
    joining: bool,
    /// Threads that wait for the end of a round.
    waiting: usize,
    /// A thread ended by panic: nobody waits any more.
    broken: bool,
}

const PANIC_FREE: &str = "no holder of this lock panics";

impl<F, P, B> Clone for Turnstile<F, P, B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<F: Conjugate, P: Process, B> Turnstile<F, P, B> {
    pub(super) fn new(rounds: Rounds<F, P>) -> Self {
        let before = rounds.joined();
        let (ready, joining, waiting, broken) = (BTreeMap::new(), false, 0, false);
        let state = State { rounds, before, ready, joining, waiting, broken };
        Self { shared: Arc::new((Mutex::new(state), Condvar::new())) }
    }

    /// The rounds so far, for whoever goes on.
    pub(super) fn rounds(&self) -> Rounds<F, P> {
        self.lock().rounds.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State<F, P, B>> {
        self.shared.0.lock().expect(PANIC_FREE)
    }

    /// Waits for the posterior that this minibatch reads; `None` when another thread broke down.
    fn read(&self, turn: u64) -> Option<End<F, P>> {
        let mut state = self.lock();
        let minibatch = state.before + turn;
        loop {
            if state.broken {
                return None;
            }
            if let Some(end) = state.rounds.read_by(minibatch) {
                return Some(end);
            }
            state.waiting += 1;
            state = self.shared.1.wait(state).expect(PANIC_FREE);
            state.waiting -= 1;
        }
    }

    /// Leaves a minibatch to be joined in its turn, and joins what is ready unless another thread does.
    fn leave(
        &self,
        job: Job<B>,
        increment: Increment,
        join: impl Fn(Job<B>, Increment) -> Arc<Posterior<F, P>>,
    ) {
        let mut state = self.lock();
        let minibatch = state.before + job.turn;
        state.ready.insert(minibatch, (job, increment));
        if state.joining {
            return;
        }
        state.joining = true;
        loop {
            let next = state.rounds.joined();
            let Some((job, increment)) = state.ready.remove(&next) else { break };
            drop(state);
            let after = join(job, increment);
            state = self.lock();
            if state.rounds.pass(after) && state.waiting > 0 {
                self.shared.1.notify_all();
            }
        }
        state.joining = false;
    }
}

/// Wakes the others when a thread panics, so that they end instead of waiting for it.
struct BreakOnPanic<F: Conjugate, P: Process, B>(Turnstile<F, P, B>);

impl<F: Conjugate, P: Process, B> Drop for BreakOnPanic<F, P, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Ok(mut state) = self.0.shared.0.lock() {
                state.broken = true;
            }
            self.0.shared.1.notify_all();
        }
    }
}

/// The life of a thread: infer from the posterior that the minibatch reads, leave the increment, go on.
pub(super) fn work<F: Conjugate, P: Process, I: Inference<F, P>>(
    shared: &Shared<'_, F, P, I>,
    turnstile: &Turnstile<F, P, I::Batch>,
    jobs: &Receiver<Job<I::Batch>>,
    events: &Sender<Event>,
) {
    let _guard = BreakOnPanic(turnstile.clone());
    let mut workspace = I::Workspace::default();
    while let Some(mut job) = receive(jobs) {
        let Some(read) = turnstile.read(job.turn) else { return };
        let family = read.posterior.family();
        read.unready().for_each(|component| shared.config.inference.make_ready(family, component));
        let increment = shared.infer(&mut job, &read.posterior, &mut workspace);
        drop(read);
        turnstile.leave(job, increment, |job, increment| {
            shared.absorb(job, increment, events);
            shared.central.snapshot()
        });
    }
}
