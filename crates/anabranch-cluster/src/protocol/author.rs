//! The author of a sum of increments: appends it, and appends it again until it is in the journal, whatever gets lost.
//!
//! ```text
//! identify ──▶ append ──▶ read the journal up to the entry; in → done, else ─────────────────────┐
//!    ▲            ├─────▶ refused: somebody came first; read on ─────────────────────────────────┤
//!    │            └─────▶ no answer: read the journal to its end; in → done, else ───────────────┤
//!    └───────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A sum counts as a whole. Where somebody else has settled one of its minibatches it is void for ever, and the others are to be
//! learned again.

use anabranch::central::{Absorb, Entry};
use anabranch::identify::{Identification, correspond};

use super::{Record, Replica, Sequence, Sum};
use crate::kind::Kind;

/// Times that an entry without new components is appended before it is believed that the journal will not have it. One whose
/// parts came too far apart is forgotten, and sent again.
const ATTEMPTS: u64 = 3;

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
pub enum Step<K: Kind> {
    /// Append this record.
    Append {
        /// The record.
        record: Box<Record<K>>,
        /// Its lane.
        lane: Append,
        /// Condition that saves a useless entry; the server may ignore it.
        expect: Expectation,
    },
    /// Let the replica read up to this message.
    ReadTo(Sequence),
    /// Let the replica read to the end of the journal as it is now.
    ReadAll,
    /// The minibatches are settled and can be acknowledged.
    Done(Outcome),
    /// Some of them were settled by somebody else: the sum is void, and the others are to be learned again.
    Overtaken(Outcome),
    /// The journal does not take it, for no reason that will pass.
    Rejected(Outcome),
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

/// A sum on its way into the journal.
#[derive(Clone, Debug)]
pub struct Author {
    sum: Sum,
    identification: Identification,
    waiting_for: Option<Sequence>,
    /// The last birth that we expected when the server refused.
    refused_at: Option<Sequence>,
    outcome: Outcome,
}

impl Author {
    /// Of what some minibatches taught.
    pub fn new(sum: Sum, identification: Identification) -> Self {
        Self { sum, identification, waiting_for: None, refused_at: None, outcome: Outcome::default() }
    }

    /// The next step. The replica has begun, and never goes back.
    pub fn next<K: Kind>(&mut self, replica: &Replica<K>, event: Event) -> Step<K> {
        match event {
            Event::Ready => self.check_or_append(replica),
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

    fn check_or_append<K: Kind>(&mut self, replica: &Replica<K>) -> Step<K> {
        let batches = &self.sum.batches;
        match batches.iter().filter(|batch| replica.is_settled(**batch)).count() {
            0 => {}
            settled if settled == batches.len() => return Step::Done(self.outcome),
            _ => return Step::Overtaken(self.outcome),
        }
        if let Some(at) = self.waiting_for.take() {
            if replica.position() < at {
                self.waiting_for = Some(at);
                return Step::ReadTo(at);
            }
            if self.sum.opens() {
                self.outcome.conflicts += 1;
            } else if self.outcome.appends >= ATTEMPTS {
                return Step::Rejected(self.outcome);
            }
        }
        let Some(current) = replica.posterior() else { return Step::ReadAll };
        let Sum { batches, base, mass, count, familiarity, existing, new } = &self.sum;
        let found = correspond(current, *base, *mass, new, self.identification);
        self.outcome.matchings += u64::from(found.solved);
        self.outcome.appends += 1;
        let lane = if new.is_empty() { Append::Plain } else { Append::Births };
        let last_birth = replica.last_birth_message();
        // A server that refuses although nothing new is there (it has trimmed the last birth, or is confused) is not asked twice.
        let expect = match lane {
            Append::Births if self.refused_at != Some(last_birth) => Expectation::LastBirth(last_birth),
            _ => Expectation::None,
        };
        let targets = found.correspondence.targets().iter().copied();
        let (first, also) = batches.split_first().expect("a sum has at least one minibatch");
        let absorb = Absorb {
            batch: *first,
            base: current.version(),
            pass: current.pass(),
            mass: *mass,
            familiarity: familiarity.clone(),
            existing: existing.iter().map(|(id, evidence)| (*id, evidence.clone())).collect(),
            new: targets.zip(new.iter().cloned()).collect(),
        };
        let entry = match also {
            [] => Entry::Absorb(absorb),
            also => Entry::Sum { also: also.to_vec(), absorb },
        };
        let record =
            if K::IS_COUNTED { Record::Counted { count: *count, entry } } else { Record::Entry(entry) };
        Step::Append { record: Box::new(record), lane, expect }
    }
}
