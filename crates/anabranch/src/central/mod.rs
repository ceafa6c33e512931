//! The central posterior: an ordered journal, and snapshots that readers take without waiting (paper Figure 1c, 1d).
//!
//! Appending is optimistic. A worker identifies its new components against the newest snapshot and appends; when a
//! component was created in between, the entry is void and the worker identifies again. That is the paper's lock, held
//! only while the entry is folded.

mod admission;
mod batch_set;
mod change;
mod difference;
mod forget;
mod journal;
mod memory;
mod merge;
mod rounds;
mod section;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;

pub use batch_set::{BatchId, BatchSet};
pub use change::{Change, What};
pub use difference::Difference;
pub(crate) use journal::ROUNDING;
pub use journal::{Absorb, Aside, Entry, Fold, Moment, Part, Void};
pub use memory::{Behind, Memory, SAMPLE_ROWS};
pub use merge::Joined;
pub use rounds::in_flight;
pub(crate) use rounds::{End, Flight, Rounds};
pub use section::Section;

use crate::batch::{Batch, Minibatch};
use crate::family::Conjugate;
use crate::identify::{self, Identification};
use crate::infer::{Between, Increment};
use crate::posterior::{HalfLife, Posterior};
use crate::process::Process;
use crate::sync::{Mutex, switch_point};

/// What became of an increment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absorbed {
    /// False when the minibatch was in the journal already, so that nothing changed.
    pub counted: bool,
    /// Assignment problems that were solved for it.
    pub matchings: u64,
    /// Times that the entry was void because components had appeared in the meantime.
    pub conflicts: u64,
    /// Components it added.
    pub created: u64,
}

/// The central posterior of one process, with what it remembers of the minibatches.
#[derive(Debug)]
pub struct Central<F, P, B: Minibatch = Batch> {
    fold: Mutex<Fold<F, P>>,
    snapshot: ArcSwap<Posterior<F, P>>,
    memory: Mutex<Memory<B>>,
    /// Held while the model is looked after: a state is one before that or after it.
    tending: Mutex<()>,
    section: section::Clock,
    /// What the minibatches of a deterministic run read, from one run to the next.
    rounds: Mutex<Option<Rounds<F, P>>>,
    /// What was appended since, where somebody keeps the same journal elsewhere.
    recorded: Option<Mutex<Vec<Entry<F, P>>>>,
    /// What became of components since, where somebody wants to know.
    changes: Option<Mutex<Vec<Change>>>,
}

impl<F: Conjugate, P: Process> Central<F, P> {
    /// Starts from the prior.
    pub fn new(family: F, process: P) -> Self {
        Self::from_fold(Fold::new(family, process))
    }

    /// Goes on from a fold of earlier entries.
    pub fn from_fold(fold: Fold<F, P>) -> Self {
        let snapshot = ArcSwap::from_pointee(fold.posterior().clone());
        Self {
            fold: Mutex::new(fold),
            snapshot,
            memory: Mutex::new(Memory::default()),
            tending: Mutex::default(),
            section: section::Clock::default(),
            rounds: Mutex::new(None),
            recorded: None,
            changes: None,
        }
    }
}

impl<F: Conjugate, P: Process, B: Minibatch> Central<F, P, B> {
    /// The same posterior with rows that an earlier run remembered, or with room for another kind of rows.
    pub fn with_memory<C: Minibatch>(self, memory: Memory<C>) -> Central<F, P, C> {
        Central {
            fold: self.fold,
            snapshot: self.snapshot,
            memory: Mutex::new(memory),
            tending: self.tending,
            section: self.section,
            rounds: self.rounds,
            recorded: self.recorded,
            changes: self.changes,
        }
    }

    /// The same posterior, which from now on notes the entries that count, for whoever keeps the same journal elsewhere.
    pub fn recording(mut self) -> Self {
        self.recorded = Some(Mutex::default());
        self
    }

    /// The entries that have counted since [`Central::recording`] or the last call, in their order.
    pub fn take_recorded(&self) -> Vec<Entry<F, P>> {
        let recorded =
            self.recorded.as_ref().map(|recorded| recorded.lock().expect("no holder of this lock panics"));
        recorded.map(|mut recorded| std::mem::take(&mut *recorded)).unwrap_or_default()
    }

    /// The same posterior, which from now on notes what becomes of components.
    pub fn watching(mut self) -> Self {
        self.changes = Some(Mutex::default());
        self
    }

    /// What has become of components since [`Central::watching`] or the last call, in the order of the journal.
    pub fn take_changes(&self) -> Vec<Change> {
        let changes =
            self.changes.as_ref().map(|changes| changes.lock().expect("no holder of this lock panics"));
        changes.map(|mut changes| std::mem::take(&mut *changes)).unwrap_or_default()
    }

    /// Notes what no entry says.
    pub(crate) fn note(&self, what: What) {
        if let Some(changes) = &self.changes {
            let now = self.snapshot();
            let change = Change { what, version: now.version(), rows: now.rows() };
            changes.lock().expect("no holder of this lock panics").push(change);
        }
    }

    /// The fold so far with the rows remembered so far: what a run can go on from.
    pub fn state(&self) -> (Fold<F, P>, Memory<B>) {
        // Whoever panicked while he looked after the model ends the run, but not the state: every entry is whole.
        let _whole = self.tending.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Whoever keeps rows holds this lock until they have joined: both are of one moment.
        self.remembered(|memory| (self.checkpoint(), memory.clone()))
    }

    /// A centre of its own in the same state: it goes on as this one would.
    pub fn fork(&self) -> Self {
        let (fold, memory) = self.state();
        let rounds = self.rounds.lock().expect("no holder of this lock panics").clone();
        Self { rounds: Mutex::new(rounds), ..Central::from_fold(fold).with_memory(memory) }
    }

    /// The rows remembered so far.
    pub fn memory(&self) -> Memory<B> {
        self.remembered(|memory| memory.clone())
    }

    /// Between how many components the rows cannot tell, where that has been found out.
    pub fn between(&self) -> Option<Between> {
        self.remembered(|memory| memory.between())
    }

    /// Offers the rows of a minibatch to the sample. Offering them twice changes nothing, and so do the rows of a further
    /// pass, which are cut into other minibatches and would look like copies.
    pub fn remember(&self, batch: BatchId, rows: &B) {
        self.remember_at(batch, rows, None);
    }

    /// The same of a minibatch of this clock.
    pub(crate) fn remember_at(&self, batch: BatchId, rows: &B, at: Option<Moment>) {
        let snapshot = self.snapshot();
        let halvings = snapshot.past().halvings_at(at.map(|at| at.clock));
        self.remembered(|memory| match snapshot.pass() {
            0 => memory.offer_at(batch, rows, halvings),
            _ => memory.look_anew(),
        });
    }

    /// Forgets like this from now on, where it is told.
    pub(crate) fn forget(&self, half_life: Option<HalfLife>) {
        if let Some(half_life) = half_life {
            let mut fold = self.fold.lock().expect("no holder of this lock panics");
            fold.forget(half_life);
            self.snapshot.store(Arc::new(fold.posterior().clone()));
        }
    }

    /// Looks after the model at this line of its growth. Nobody takes a state meanwhile.
    pub(crate) fn tend_at(&self, lines: u32, tend: impl FnOnce()) {
        let _whole = self.tending.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tend();
        self.remembered(|memory| memory.set_tended(lines));
    }

    pub(crate) fn remembered<T>(&self, look: impl FnOnce(&mut Memory<B>) -> T) -> T {
        look(&mut self.memory.lock().expect("no holder of this lock panics"))
    }

    /// The newest posterior. Never waits, whatever the writers do.
    pub fn snapshot(&self) -> Arc<Posterior<F, P>> {
        switch_point();
        self.snapshot.load_full()
    }

    /// The fold so far: the posterior together with the set of minibatches in it, at one version.
    pub fn checkpoint(&self) -> Fold<F, P> {
        self.fold.lock().expect("no holder of this lock panics").clone()
    }

    /// Appends one entry and shows the result to readers; a void entry changes nothing.
    pub fn append(&self, entry: &Entry<F, P>) -> Result<(), Void> {
        self.enter(|_| Some(Cow::Borrowed(entry)))
    }

    /// Makes room for features that nobody has seen, where the family lets a stream bring them.
    fn widen(&self, n_features: usize) -> Result<(), Void> {
        if self.snapshot().family().n_features() >= n_features {
            return Ok(());
        }
        self.enter(|now| {
            let family = now.family().widened(n_features)?;
            Some(Cow::Owned(Entry::Prior { family, process: now.process().clone() }))
        })
    }

    /// Appends the entry that follows from the posterior as it is, if any.
    fn enter<'e>(
        &self,
        entry: impl FnOnce(&Posterior<F, P>) -> Option<Cow<'e, Entry<F, P>>>,
    ) -> Result<(), Void> {
        let asked = Instant::now();
        let mut fold = self.fold.lock().expect("no holder of this lock panics");
        let entered = Instant::now();
        let Some(entry) = entry(fold.posterior()) else { return Ok(()) };
        let entry = &*entry;
        let before =
            self.changes.as_ref().map(|changes| (changes, self.snapshot.load_full(), fold.next_id()));
        let old = fold.apply(entry).map(|()| {
            if let Some((changes, before, next_id)) = before {
                let found = change::of(entry, &before, next_id, &fold);
                changes.lock().expect("no holder of this lock panics").extend(found);
            }
            if let Some(recorded) = &self.recorded {
                recorded.lock().expect("no holder of this lock panics").push(entry.clone());
            }
            switch_point();
            self.snapshot.swap(Arc::new(fold.posterior().clone()))
        });
        drop(fold);
        self.section.passed(entered - asked, entered.elapsed());
        // Nobody waits while the memory of what changed is given back.
        old.map(drop)
    }

    /// The rounds of a deterministic run that goes on: those of the last run, if nothing has changed since.
    pub(crate) fn rounds(&self, flight: Flight) -> Rounds<F, P> {
        let last = self.rounds.lock().expect("no holder of this lock panics").take();
        let now = self.snapshot();
        last.filter(|rounds| rounds.go_on(flight, now.version())).unwrap_or_else(|| Rounds::new(flight, now))
    }

    /// Keeps the rounds for the next run.
    pub(crate) fn keep_rounds(&self, rounds: Rounds<F, P>) {
        *self.rounds.lock().expect("no holder of this lock panics") = Some(rounds);
    }

    /// What the lock around the fold has cost so far: nothing that is learned depends on it.
    pub fn section(&self) -> Section {
        self.section.read()
    }

    /// Identifies the new components of an increment, absorbs it, and tries again for as long as others come first.
    ///
    /// Nobody waits for ever: an entry is tried again only because another one was absorbed. An increment that this
    /// posterior cannot have led to, as one from outside may be, is refused and changes nothing.
    pub fn absorb(
        &self,
        batch: BatchId,
        increment: Increment,
        identification: Identification,
    ) -> Result<Absorbed, Void> {
        admission::admit(&self.snapshot(), &increment)?;
        self.join(batch, increment, identification, None)
    }

    /// Absorbs an increment of this process, and keeps its rows among the first ones while these are fewer than `most`. When
    /// they are enough, what they have taught is set aside, to be replaced when they are learned from again.
    pub(crate) fn join_and_keep(
        &self,
        batch: BatchId,
        rows: &B,
        increment: Increment,
        identification: Identification,
        most: usize,
    ) -> Result<Absorbed, Void> {
        // Rows without weight teach nothing, and rows beyond the first ones are not kept: nobody waits for those.
        if increment.mass <= 0.0 || !self.remembered(|memory| self.holds_first_rows_alone(memory)) {
            return self.join(batch, increment, identification, None);
        }
        self.remembered(|memory| {
            if memory.behind() == Behind::Model {
                self.append(&Entry::SetAside)?;
                memory.set_behind(Behind::SetAside);
            }
            let keeps = self.holds_first_rows_alone(memory);
            let outcome = self.join(batch, increment, identification, None)?;
            if keeps && outcome.counted {
                memory.keep(rows.clone());
                if memory.first().is_some_and(|first| first.n_rows() >= most) {
                    self.set_aside(memory)?;
                }
            }
            Ok(outcome)
        })
    }

    /// Sets aside what the first rows have taught, if they are all rows so far and it has not been done.
    pub(crate) fn set_first_aside(&self) {
        self.remembered(|memory| {
            if memory.first().is_some() && self.holds_first_rows_alone(memory) {
                self.set_aside(memory).expect("nothing of what was set aside has been replaced");
            }
        });
    }

    /// Sets aside what the first rows have taught, and nothing else.
    fn set_aside(&self, memory: &mut Memory<B>) -> Result<(), Void> {
        match memory.behind() {
            Behind::SetAside => {
                memory.set_behind(Behind::Nothing);
                self.append(&Entry::Exchange)
            }
            Behind::Nothing | Behind::Model => self.append(&Entry::SetAside),
        }
    }

    /// Whether the first rows behind a model are still to be kept.
    pub(crate) fn keeps_behind(&self) -> bool {
        self.snapshot().past().half_life.is_none()
            && self.remembered(|memory| memory.behind() != Behind::Nothing)
    }

    /// Whether the posterior has seen the first rows that are kept and no others, but for those of a model before them, and
    /// they have not been set aside.
    fn holds_first_rows_alone(&self, memory: &Memory<B>) -> bool {
        let fold = self.fold.lock().expect("no holder of this lock panics");
        let (seen, kept) = (fold.posterior().mass(), memory.first().map_or(0.0, Minibatch::mass));
        let before = match (memory.behind(), fold.aside()) {
            (Behind::Model, _) => return memory.first().is_none(),
            (Behind::SetAside, Some(Aside { mass, share: 1.0 })) => mass,
            (Behind::Nothing, None) => 0.0,
            _ => return false,
        };
        fold.posterior().pass() == 0 && (seen - before - kept).abs() <= ROUNDING * seen
    }

    /// Absorbs an increment that was learned from this posterior in this process, at this clock of the stream.
    pub(crate) fn join(
        &self,
        batch: BatchId,
        increment: Increment,
        identification: Identification,
        at: Option<Moment>,
    ) -> Result<Absorbed, Void> {
        let Increment { base, mass, familiarity, existing, mut new } = increment;
        let told = existing.iter().map(|(_, evidence)| evidence).chain(&new);
        self.widen(told.map(|evidence| evidence.stats.len()).max().unwrap_or(0))?;
        let mut outcome = Absorbed::default();
        let mut entry = Absorb { batch, base, pass: 0, mass, familiarity, existing, new: Vec::new() };
        loop {
            let current = self.snapshot();
            new.iter_mut().for_each(|evidence| evidence.widen(current.family().n_features()));
            let found = identify::correspond(&current, base, mass, &new, identification);
            outcome.matchings += u64::from(found.solved);
            entry.base = current.version();
            entry.pass = current.pass();
            entry.new = found.correspondence.targets().iter().copied().zip(new.iter().cloned()).collect();
            let created = entry.new.iter().filter(|(t, _)| matches!(t, identify::Target::New)).count() as u64;
            let attempt = match at {
                Some(Moment { clock, faded }) => Entry::Timed { clock, faded, absorb: entry },
                None => Entry::Absorb(entry),
            };
            match self.append(&attempt) {
                Ok(()) => return Ok(Absorbed { counted: true, created, ..outcome }),
                Err(Void::Superseded { .. }) => outcome.conflicts += 1,
                Err(Void::AlreadyAbsorbed(_)) => return Ok(outcome),
                Err(void) => return Err(void),
            }
            let (Entry::Absorb(again) | Entry::Timed { absorb: again, .. }) = attempt else {
                unreachable!("it was built as one of these above")
            };
            entry = again;
        }
    }
}
