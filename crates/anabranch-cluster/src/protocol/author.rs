//! The author of an increment: appends it, and appends it again until it is in the journal, whatever gets lost.
//!
//! ```text
//! identify ──▶ append ──▶ known components only: done (an entry that repeats is void, and then the minibatch is in anyway)
//!    ▲            ├─────▶ with new components: read the journal up to the entry; in → done, else ┐
//!    │            ├─────▶ refused: somebody came first; read on ──────────────────────────────────┤
//!    │            └─────▶ no answer: read the journal to its end; in → done, else ─────────────────┤
//!    └───────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use anabranch::central::{Absorb, BatchId, Entry};
use anabranch::identify::{Identification, correspond};
use anabranch::infer::Increment;

use super::{Record, Replica, Sequence};

/// In which lane of the journal a record travels. All lanes are one order; a server can look at the last message of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Append {
    /// Records that create no components.
    Plain,
    /// The beginning, entries with new components, and splits.
    Births,
}

/// What the journal's lane of births must look like for an append to be worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Anything.
    None,
    /// Its last message is this one (0: there is none).
    LastBirth(Sequence),
}

/// What happened since the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing: this is the first step, or the replica has read what [`Step::ReadTo`] or [`Step::ReadAll`] asked for.
    Ready,
    /// The record is in the journal, at this place.
    Appended(Sequence),
    /// The server refused it because the expectation was stale.
    Refused,
    /// No answer: it may be in the journal or not, or come later.
    Unknown,
}

/// What the author wants next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Append this record.
    Append {
        /// The record.
        record: Box<Record>,
        /// Its lane.
        lane: Append,
        /// Condition that saves a useless entry; the server may ignore it.
        expect: Expectation,
    },
    /// Let the replica read up to this message.
    ReadTo(Sequence),
    /// Let the replica read to the end of the journal as it is now.
    ReadAll,
    /// The minibatch is settled and can be acknowledged.
    Done(Outcome),
}

/// How it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Assignment problems solved.
    pub matchings: u64,
    /// Times that somebody else's components came first.
    pub conflicts: u64,
    /// Appends, useless ones included.
    pub appends: u64,
}

/// An increment on its way into the journal.
#[derive(Clone, Debug)]
pub struct Author {
    batch: BatchId,
    increment: Increment,
    identification: Identification,
    lane: Append,
    waiting_for: Option<Sequence>,
    /// The last birth that we expected when the server refused.
    refused_at: Option<Sequence>,
    outcome: Outcome,
}

impl Author {
    /// An increment of this minibatch, as inference made it.
    pub fn new(batch: BatchId, mut increment: Increment, identification: Identification) -> Self {
        only_touched(&mut increment);
        Self {
            batch,
            increment,
            identification,
            lane: Append::Plain,
            waiting_for: None,
            refused_at: None,
            outcome: Outcome::default(),
        }
    }

    /// The minibatch.
    pub fn batch(&self) -> BatchId {
        self.batch
    }

    /// The next step. The replica has begun, and never goes back.
    pub fn next(&mut self, replica: &Replica, event: Event) -> Step {
        match event {
            Event::Ready => self.check_or_append(replica),
            // Nothing but the minibatch being in can make an entry of known components void.
            Event::Appended(_) if self.lane == Append::Plain => Step::Done(self.outcome),
            Event::Appended(at) => {
                self.waiting_for = Some(at);
                if replica.position() >= at { self.check_or_append(replica) } else { Step::ReadTo(at) }
            }
            Event::Refused => {
                self.outcome.conflicts += 1;
                self.refused_at = Some(replica.last_birth_message());
                Step::ReadAll
            }
            Event::Unknown => Step::ReadAll,
        }
    }

    fn check_or_append(&mut self, replica: &Replica) -> Step {
        if replica.is_settled(self.batch) {
            return Step::Done(self.outcome);
        }
        if let Some(at) = self.waiting_for.take() {
            if replica.position() < at {
                self.waiting_for = Some(at);
                return Step::ReadTo(at);
            }
            self.outcome.conflicts += 1;
        }
        let Some(current) = replica.posterior() else { return Step::ReadAll };
        let Increment { base, mass, familiarity, existing, new } = &self.increment;
        let found = correspond(current, *base, *mass, new, self.identification);
        self.outcome.matchings += u64::from(found.solved);
        self.outcome.appends += 1;
        self.lane = if new.is_empty() { Append::Plain } else { Append::Births };
        let last_birth = replica.last_birth_message();
        // A server that refuses although nothing new is there (it has trimmed the last birth, or is confused) is not asked twice.
        let expect = match self.lane {
            Append::Births if self.refused_at != Some(last_birth) => Expectation::LastBirth(last_birth),
            _ => Expectation::None,
        };
        let targets = found.correspondence.targets().iter().copied();
        let entry = Absorb {
            batch: self.batch,
            base: current.version(),
            pass: current.pass(),
            mass: *mass,
            familiarity: familiarity.clone(),
            existing: existing.clone(),
            new: targets.zip(new.iter().cloned()).collect(),
        };
        Step::Append { record: Box::new(Record::Entry(Entry::Absorb(entry))), lane: self.lane, expect }
    }
}

/// Leaves out components that the minibatch has not touched: what they got is less than the rounding of the minibatch's mass.
fn only_touched(increment: &mut Increment) {
    let least = f64::EPSILON * increment.mass;
    increment.existing.retain(|(_, evidence)| evidence.labels.expected_count > least);
}
