//! Runs of topics and features for Python: the course of a run is the core's, its state is kept here for whoever looks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch::central::{Central, Fold, Memory};
use anabranch::engine::Observer;
use anabranch::family::Conjugate;
use anabranch::infer::Inference;
use anabranch::learner::course::Course;
use anabranch::posterior::Posterior;
use anabranch::process::Process;
use crossbeam_channel::Sender;
use pyo3::prelude::*;

use crate::drive::{abandonable, drive, first_unless_stopped};
use crate::engine::busy;
use crate::error::Fault;
use crate::learn::{Happened, Tally, Watch};

/// What is learned.
pub trait Kind: Sized + 'static {
    type Family: Conjugate;
    type Process: Process;
    type Inference: Inference<Self::Family, Self::Process>;
    /// What answers questions about data.
    type Predictor: Send + Sync;

    fn predictor(posterior: &Posterior<Self::Family, Self::Process>) -> Self::Predictor;
}

/// Data of a kind.
pub type Data<K> = <<K as Kind>::Inference as Inference<<K as Kind>::Family, <K as Kind>::Process>>::Batch;
type Centre<K> = Central<<K as Kind>::Family, <K as Kind>::Process, Data<K>>;
/// The course of a run of a kind.
pub type CourseOf<K> = Course<<K as Kind>::Family, <K as Kind>::Process, <K as Kind>::Inference>;

/// A run and what it has counted.
pub struct Known<K: Kind> {
    pub course: CourseOf<K>,
    pub tally: Tally,
}

impl<K: Kind> Clone for Known<K> {
    fn clone(&self) -> Self {
        Self { course: self.course.clone(), tally: self.tally }
    }
}

type FoldOf<K> = Fold<<K as Kind>::Family, <K as Kind>::Process>;

/// Everything of a run in bytes.
pub struct Pickled {
    /// The checkpoint of the centre, if there is one.
    pub checkpoint: Option<Vec<u8>>,
    /// The data that wait, as the first ones of a model that has learned nothing.
    pub waiting: Option<Vec<u8>>,
    /// What was counted, and whether the run has ended.
    pub numbers: Vec<u64>,
}

impl<K: Kind> Known<K> {
    fn rows(&self) -> u64 {
        self.tally.rows + self.course.waiting() as u64
    }

    /// What is needed to make it again: `write` makes bytes of a state and what it remembers, `nothing` a state that has learned
    /// nothing of such data.
    pub fn leave(
        &self,
        nothing: impl FnOnce(&Data<K>) -> Result<FoldOf<K>, Fault>,
        write: impl Fn(FoldOf<K>, &Memory<Data<K>>) -> Vec<u8>,
    ) -> Result<Pickled, Fault> {
        let Self { course, tally } = self;
        let checkpoint = course.centre().map(|centre| {
            let (fold, memory) = centre.state();
            write(fold, &memory)
        });
        let waiting = match course.waiting_data() {
            Some(waiting) => {
                Some(write(nothing(waiting)?, &Memory::restore(Vec::new(), Some(waiting.clone()))))
            }
            None => None,
        };
        let numbers = vec![tally.rows, tally.matchings, tally.conflicts, u64::from(course.has_ended())];
        Ok(Pickled { checkpoint, waiting, numbers })
    }

    /// Makes it again; `read` undoes what `write` did.
    pub fn find(
        mut course: CourseOf<K>,
        pickled: &Pickled,
        read: impl Fn(&[u8]) -> Result<(FoldOf<K>, Memory<Data<K>>), Fault>,
    ) -> Result<Self, Fault> {
        let [rows, matchings, conflicts, ended] = *pickled.numbers.as_slice() else {
            return Err(Fault::input("the pickle is damaged"));
        };
        if let Some(checkpoint) = &pickled.checkpoint {
            let (fold, memory) = read(checkpoint)?;
            course = course.going_on(fold, memory, ended > 0);
        }
        if let Some(waiting) = &pickled.waiting
            && let Some(waiting) = read(waiting)?.1.first()
        {
            course.add(waiting);
        }
        Ok(Self { course, tally: Tally { rows, matchings, conflicts } })
    }
}

/// A run that was ended for whoever looks.
pub struct Shown<K: Kind> {
    pub fold: Fold<K::Family, K::Process>,
    pub memory: Memory<Data<K>>,
    pub tally: Tally,
    pub predictor: K::Predictor,
}

impl<K: Kind> Shown<K> {
    fn new(fold: Fold<K::Family, K::Process>, memory: Memory<Data<K>>, tally: Tally) -> Self {
        Self { predictor: K::predictor(fold.posterior()), fold, memory, tally }
    }
}

/// Where an estimator stands. Locks are held for a moment only, never while Python runs.
enum State<K: Kind> {
    Empty,
    /// At rest, with what was shown last.
    Idle(Box<Known<K>>, Option<Arc<Shown<K>>>),
    /// Learning: whoever looks sees the newest posterior, once there is one.
    Learning(Option<Arc<Centre<K>>>, Tally),
}

/// The state of an estimator.
pub struct Run<K: Kind>(Mutex<State<K>>);

impl<K: Kind> Default for Run<K> {
    fn default() -> Self {
        Self(Mutex::new(State::Empty))
    }
}

impl<K: Kind> Run<K> {
    /// Goes on from here.
    pub fn of(known: Known<K>) -> Self {
        Self(Mutex::new(State::Idle(Box::new(known), None)))
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // A panic elsewhere leaves the state whole: it is replaced in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Data handed over so far.
    pub fn rows_seen(&self) -> u64 {
        match &*self.lock() {
            State::Empty => 0,
            State::Idle(known, _) => known.rows(),
            State::Learning(_, tally) => tally.rows,
        }
    }

    /// Data that are missing to a complete first minibatch of so many; none once it is learned.
    pub fn missing(&self, first: usize) -> usize {
        match &*self.lock() {
            State::Idle(known, _) if known.course.centre().is_none() => {
                first.saturating_sub(known.course.waiting())
            }
            State::Empty => first,
            _ => 0,
        }
    }

    /// Learns on so many threads from now on.
    pub fn set_threads(&self, threads: usize) {
        if let State::Idle(known, _) = &mut *self.lock() {
            known.course.config_mut().threads = threads.max(1);
        }
    }

    /// The run as it stands; `None` before there is one.
    pub fn known(&self) -> PyResult<Option<Known<K>>> {
        match &*self.lock() {
            State::Empty => Ok(None),
            State::Idle(known, _) => Ok(Some((**known).clone())),
            State::Learning(..) => Err(busy()),
        }
    }

    /// Learns from so many data, `passes` times; `cut` yields those from one number up to another, and `begin` makes the run
    /// where there is none.
    pub fn learn(
        &self,
        py: Python<'_>,
        begin: impl FnOnce() -> Result<CourseOf<K>, Fault>,
        n_data: usize,
        cut: impl Fn(usize, usize) -> Result<Data<K>, Fault> + Sync,
        passes: u32,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let next = |piece: usize| {
            let (first, last) = (piece * PIECE, ((piece + 1) * PIECE).min(n_data));
            if first < last { cut(first, last).map(Some) } else { Ok(None) }
        };
        let mut loan = self.lend(begin)?;
        let Loan { run, known } = &mut loan;
        let known = known.as_mut().expect("it is given back when the loan ends");
        let (result, raised) = drive(py, callback, None, |stop, events| {
            let mut rows = None;
            for pass in 0..passes.max(1) {
                if pass > 0 {
                    let mut watch = Watch { tally: &mut known.tally, stop, events: events.clone() };
                    known.course.again(&mut watch).map_err(Fault::input)?;
                }
                let learned = run.pass(known, &next, stop, events.as_ref());
                rows = rows.or(Some(known.rows()));
                if learned.is_err() || stop.load(Ordering::Relaxed) {
                    if pass > 0 {
                        known.course.leave();
                        known.tally.rows = rows.unwrap_or_default();
                    }
                    return learned;
                }
            }
            if passes > 1 {
                let mut watch = Watch { tally: &mut known.tally, stop, events };
                known.course.end(&mut watch).map_err(Fault::input)?;
                // Data that are learned from again are no new ones.
                known.tally.rows = rows.unwrap_or_default();
            }
            Ok(())
        });
        drop(loan);
        match raised {
            Some(error) => Err(error),
            None => Ok(result?),
        }
    }

    fn pass(
        &self,
        known: &mut Known<K>,
        next: &dyn Fn(usize) -> Result<Option<Data<K>>, Fault>,
        stop: &AtomicBool,
        events: Option<&Sender<Happened>>,
    ) -> Result<(), Fault> {
        for piece in 0.. {
            match next(piece)? {
                Some(data) if !stop.load(Ordering::Relaxed) => self.step(known, &data, stop, events)?,
                _ => break,
            }
        }
        Ok(())
    }

    /// Learns from one piece.
    fn step(
        &self,
        known: &mut Known<K>,
        data: &Data<K>,
        stop: &AtomicBool,
        events: Option<&Sender<Happened>>,
    ) -> Result<(), Fault> {
        let Known { course, tally } = known;
        let (before, learned) = (course.waiting(), course.minibatches());
        course.add(data);
        let first = course.first().map_err(|error| {
            // Bad data must not stand in the way of the next ones.
            course.take_back(before);
            Fault::input(error)
        })?;
        if let Some(first) = first {
            let learn =
                move |observer: &mut dyn Observer<K::Family, K::Process, Data<K>>| first.learn(observer);
            let learned = first_unless_stopped(stop, learn)?;
            let Some((begun, event)) = learned else {
                // The first minibatch is kept, and is learned from when somebody looks.
                course.take_back(before.max(course.config().bootstrap_rows));
                return Ok(());
            };
            tally.add(&event.0);
            course.begun(begun);
            self.announce(course.centre(), *tally);
            if let Some(events) = events {
                // Whoever listens outlives the run.
                let _ = events.send(event);
            }
        }
        if !stop.load(Ordering::Relaxed) {
            course.go_on(&mut Watch { tally, stop, events: events.cloned() });
            self.announce(course.centre(), *tally);
        }
        if stop.load(Ordering::Relaxed) {
            // What nobody has learned from was not read; data of earlier calls were the first to be learned from.
            course.take_back(if course.minibatches() > learned { 0 } else { before });
        }
        Ok(())
    }

    fn announce(&self, centre: Option<&Arc<Centre<K>>>, tally: Tally) {
        if let state @ State::Learning(..) = &mut *self.lock() {
            *state = State::Learning(centre.cloned(), tally);
        }
    }

    fn lend(&self, begin: impl FnOnce() -> Result<CourseOf<K>, Fault>) -> PyResult<Loan<'_, K>> {
        let mut state = self.lock();
        let known = match std::mem::replace(&mut *state, State::Empty) {
            State::Idle(known, _) => *known,
            State::Empty => Known { course: begin()?, tally: Tally::default() },
            learning @ State::Learning(..) => {
                *state = learning;
                return Err(busy());
            }
        };
        *state = State::Learning(known.course.centre().cloned(), known.tally);
        Ok(Loan { run: self, known: Some(known) })
    }

    /// The model of all data so far, as if they were all.
    pub fn look(&self, py: Python<'_>) -> PyResult<Arc<Shown<K>>> {
        let nothing = || Fault::input("the model has learned nothing yet");
        let known = match &*self.lock() {
            State::Idle(_, Some(shown)) => return Ok(Arc::clone(shown)),
            State::Idle(known, None) => (**known).clone(),
            State::Empty => return Err(nothing().into()),
            State::Learning(centre, tally) => {
                let centre = centre.as_ref().ok_or_else(nothing)?;
                return Ok(Arc::new(Shown::new(centre.checkpoint(), centre.memory(), *tally)));
            }
        };
        let version = (known.rows(), known.course.minibatches());
        let shown = abandonable(py, move || {
            let tally = Tally { rows: known.rows(), ..known.tally };
            let ended = known.course.ended().map_err(Fault::input)?;
            Ok::<_, Fault>(ended.map(|centre| {
                let (fold, memory) = centre.state();
                Arc::new(Shown::new(fold, memory, tally))
            }))
        })??;
        let shown = shown.ok_or_else(nothing)?;
        if let State::Idle(known, kept) = &mut *self.lock() {
            // Kept only if nobody has learned meanwhile.
            if (known.rows(), known.course.minibatches()) == version {
                *kept = Some(Arc::clone(&shown));
            }
        }
        Ok(shown)
    }
}

/// The run while somebody works on it; it is put back whatever happens.
struct Loan<'a, K: Kind> {
    run: &'a Run<K>,
    known: Option<Known<K>>,
}

impl<K: Kind> Drop for Loan<'_, K> {
    fn drop(&mut self) {
        if let Some(known) = self.known.take() {
            *self.run.lock() = State::Idle(Box::new(known), None);
        }
    }
}

/// Pieces of so many data: few enough to be copied, and enough for all workers.
const PIECE: usize = 1 << 13;
