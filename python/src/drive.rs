//! The calling thread while others work: it hands rows over, delivers events, and listens to Ctrl-C.
//!
//! Python code, be it the user's iterator, the callback or a signal handler, runs here and nowhere else. The interpreter's
//! lock is held only while it runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anabranch::batch::Minibatch;
use anabranch::central::Central;
use anabranch::engine::{Event, Flow, Observer};
use anabranch::family::Conjugate;
use anabranch::process::Process;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyKeyboardInterrupt, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::error::Fault;
use crate::learn::{Happened, TICK};
use crate::rows::{Beside, Buffer, Lent};

/// Events that may wait for a slow callback before the workers wait too.
const WAITING_EVENTS: usize = 1024;

/// A Python iterator of `(rows, weights or None, times or None)` whose blocks go to the workers.
pub struct Feed {
    pub iterator: Py<PyIterator>,
    pub blocks: Sender<Buffer>,
    pub columns: usize,
}

impl Feed {
    /// Asks the iterator for its next block; `None` at its end.
    fn pull(&self, py: Python<'_>) -> PyResult<Option<Buffer>> {
        let Some(item) = self.iterator.bind(py).clone().next() else { return Ok(None) };
        type Numbers<'py> = Option<PyReadonlyArray1<'py, f64>>;
        let (rows, weights, times) = item?.extract::<(Bound<'_, PyAny>, Numbers<'_>, Numbers<'_>)>()?;
        let lent = Lent::borrow(&rows)?;
        let rows = lent.rows();
        rows.expect_columns(self.columns)?;
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let times = times.as_ref().map(|times| times.as_slice()).transpose()?;
        let beside = Beside { weights, times };
        beside.check()?;
        let mut block = Buffer::default();
        block.push(rows, beside, 0, rows.len())?;
        Ok(Some(block))
    }
}

/// The calling thread's view of a run.
struct Desk<'a> {
    stop: &'a AtomicBool,
    events: Receiver<Happened>,
    callback: Option<Py<PyAny>>,
    error: Option<PyErr>,
    last_look: Instant,
}

impl Desk<'_> {
    /// Delivers an event to the callback.
    fn deliver(&mut self, (event, changes): Happened) {
        let Some(callback) = &self.callback else { return };
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        let done = Python::attach(|py| {
            let Event { batch, rows, version, components, mass, absorbed } = event;
            let (matchings, conflicts, created) = (absorbed.matchings, absorbed.conflicts, absorbed.created);
            let changes = serde_json::to_string(&changes).unwrap_or_default();
            let fields = (batch.0, rows, version, components, mass, matchings, conflicts, created, changes);
            match callback.call1(py, fields) {
                // As in scipy: the polite way to end.
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                    self.stop.store(true, Ordering::Relaxed);
                    Ok(())
                }
                other => other.map(|_| ()),
            }
        });
        self.note(done);
        self.look();
    }

    /// Gives Python's signal handlers a chance, now and then.
    fn look(&mut self) {
        if self.last_look.elapsed() >= TICK {
            self.last_look = Instant::now();
            let signalled = Python::attach(|py| py.check_signals());
            self.note(signalled);
        }
    }

    /// The first error ends the run and is raised when all is at rest.
    fn note(&mut self, result: PyResult<()>) {
        if let Err(error) = result {
            self.stop.store(true, Ordering::Relaxed);
            self.error.get_or_insert(error);
        }
    }

    /// Hands a block over, however long the workers take; false when they want no more.
    fn hand_over(&mut self, feed: &Feed, block: Buffer) -> bool {
        let mut block = block;
        loop {
            match feed.blocks.send_timeout(block, TICK) {
                Ok(()) => return !self.stop.load(Ordering::Relaxed),
                Err(SendTimeoutError::Disconnected(_)) => return false,
                Err(SendTimeoutError::Timeout(again)) => block = again,
            }
            self.attend();
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
        }
    }

    /// What has happened meanwhile.
    fn attend(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.deliver(event);
        }
        self.look();
    }

    /// Pulls blocks until the iterator ends, fails or is no longer wanted.
    fn feed(&mut self, feed: Feed) {
        loop {
            let block = match Python::attach(|py| feed.pull(py)) {
                Ok(Some(block)) => block,
                Ok(None) => return,
                Err(error) if Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) => {
                    return self.note(Err(error));
                }
                // What came before the error is learned from.
                Err(error) => {
                    self.error.get_or_insert(error);
                    return;
                }
            };
            if !self.hand_over(&feed, block) {
                return;
            }
            self.attend();
        }
    }

    /// Waits for the end of the run.
    fn wait(&mut self) {
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(event) => self.deliver(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
        }
    }
}

/// Runs `work` on another thread until it ends. What Python raised meanwhile comes second.
pub fn drive<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    feed: Option<Feed>,
    work: impl FnOnce(&AtomicBool, Option<Sender<Happened>>) -> T + Send,
) -> (T, Option<PyErr>) {
    let stop = AtomicBool::new(false);
    let (to_desk, events) = bounded(WAITING_EVENTS);
    let listens = callback.is_some();
    py.detach(|| {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                // Kept to the end: when it goes, the desk knows that the work is done.
                let to_desk = to_desk;
                work(&stop, listens.then(|| to_desk.clone()))
            });
            let mut desk = Desk { stop: &stop, events, callback, error: None, last_look: Instant::now() };
            if let Some(feed) = feed {
                desk.feed(feed);
            }
            desk.wait();
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (result, desk.error)
        })
    })
}

/// Learns from a first minibatch, unless the run is to stop; with what happened.
pub fn first_unless_stopped<F: Conjugate, P: Process, B: Minibatch, T: Send + 'static>(
    stop: &AtomicBool,
    learn: impl FnOnce(&mut dyn Observer<F, P, B>) -> T + Send + 'static,
) -> Result<Option<(T, Happened)>, Fault> {
    unless_stopped(stop, move || {
        let mut seen = None;
        let learned = learn(&mut |event: &Event, centre: &Central<F, P, B>| {
            seen = Some((*event, centre.take_changes()));
            Flow::Continue
        });
        (learned, seen.expect("a minibatch that is there is learned from"))
    })
}

/// Runs `work` on a thread of its own, which is left to itself when the run is to stop: it may take seconds, and nothing of it
/// is half done. `None` after a stop.
fn unless_stopped<T: Send + 'static>(
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Fault> {
    let (done, result) = bounded(1);
    // Nobody waits any more after a stop.
    std::thread::spawn(move || drop(done.send(work())));
    loop {
        match result.recv_timeout(TICK) {
            Ok(result) => return Ok(Some(result)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Fault::Internal(
                    "the first minibatch was not learned from; please report it".into(),
                ));
            }
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Runs `work` on another thread; Ctrl-C leaves it to itself. For work that shares nothing and may take seconds.
pub fn abandonable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, result) = bounded(1);
    py.detach(|| {
        let worker = std::thread::spawn(move || done.send(work()));
        loop {
            match result.recv_timeout(TICK) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(_) => unreachable!("the result is sent before the sender goes"),
                },
            }
        }
    })
}
