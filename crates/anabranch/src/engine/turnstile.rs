//! Deterministic running: minibatch `b` reads the posterior after minibatch `b − W` and joins after `b − 1`.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use crossbeam_channel::{Receiver, Sender};

use super::{Event, Job, Shared, receive};
use crate::family::Conjugate;
use crate::infer::Inference;
use crate::posterior::Posterior;
use crate::process::Process;

/// Lets minibatches pass in order and remembers the last `W` posteriors.
pub(super) struct Turnstile<F, P> {
    state: Arc<(Mutex<State<F, P>>, Condvar)>,
    workers: u64,
}

struct State<F, P> {
    /// Minibatches that have passed.
    passed: u64,
    /// Posteriors after `passed − history.len() + 1, …, passed` minibatches.
    history: VecDeque<Arc<Posterior<F, P>>>,
    /// A thread ended by panic: nobody waits for its turn any more.
    broken: bool,
}

impl<F, P> Clone for Turnstile<F, P> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), workers: self.workers }
    }
}

impl<F: Conjugate, P: Process> Turnstile<F, P> {
    pub(super) fn new(workers: usize, start: Arc<Posterior<F, P>>) -> Self {
        let state = State { passed: 0, history: VecDeque::from([start]), broken: false };
        Self { state: Arc::new((Mutex::new(state), Condvar::new())), workers: workers as u64 }
    }

    /// Waits for the posterior after minibatch `turn − W`; `None` when another thread broke down.
    fn snapshot(&self, turn: u64) -> Option<Arc<Posterior<F, P>>> {
        let wanted = (turn + 1).saturating_sub(self.workers);
        let state = self.wait_until(wanted)?;
        let newest = state.history.len() - 1;
        Some(Arc::clone(&state.history[newest - (state.passed - wanted) as usize]))
    }

    fn wait_until(&self, passed: u64) -> Option<std::sync::MutexGuard<'_, State<F, P>>> {
        let (lock, changed) = &*self.state;
        let mut state = lock.lock().expect("no holder of this lock panics");
        while state.passed < passed && !state.broken {
            state = changed.wait(state).expect("no holder of this lock panics");
        }
        (!state.broken).then_some(state)
    }

    fn pass(&self, after: Arc<Posterior<F, P>>) {
        let (lock, changed) = &*self.state;
        let mut state = lock.lock().expect("no holder of this lock panics");
        state.passed += 1;
        state.history.push_back(after);
        // The next minibatch to pass needs the posterior W − 1 minibatches back; older ones nobody asks for.
        while state.history.len() as u64 > self.workers {
            state.history.pop_front();
        }
        changed.notify_all();
    }
}

/// Wakes the others when a thread panics, so that they end instead of waiting for its turn.
struct BreakOnPanic<F: Conjugate, P: Process>(Turnstile<F, P>);

impl<F: Conjugate, P: Process> Drop for BreakOnPanic<F, P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (lock, changed) = &*self.0.state;
            if let Ok(mut state) = lock.lock() {
                state.broken = true;
            }
            changed.notify_all();
        }
    }
}

/// The life of a thread: infer from the posterior of the minibatch's turn, wait for the turn, absorb.
pub(super) fn work<F: Conjugate, P: Process, I: Inference<F, P>>(
    shared: &Shared<'_, F, P, I>,
    turnstile: &Turnstile<F, P>,
    jobs: &Receiver<Job<I::Batch>>,
    events: &Sender<Event>,
) {
    let _guard = BreakOnPanic(turnstile.clone());
    let mut workspace = I::Workspace::default();
    while let Some(mut job) = receive(jobs) {
        let turn = job.turn;
        let Some(snapshot) = turnstile.snapshot(turn) else { return };
        let increment = shared.infer(&mut job, &snapshot, &mut workspace);
        drop(snapshot);
        match turnstile.wait_until(turn) {
            Some(state) => drop(state),
            None => return,
        }
        shared.absorb(job, increment, events);
        turnstile.pass(shared.central.snapshot());
    }
}
