//! A replica: the fold of the journal as far as it was read.

use std::sync::Arc;

use anabranch::central::{Absorb, BatchId, BatchSet, Entry, Fold, Part, Void};
use anabranch::family::Conjugate;
use anabranch::posterior::{Evidence, Posterior};
use anabranch::process::Process;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::frame::{FrameFault, Parts};
use super::record::{Record, RecordFault};
use super::{Append, Sequence};
use crate::kind::{Count, EntryOf, FoldOf, Kind, MemoryOf};

/// No stream gets this far, and the model file refuses more.
const MAX_BATCH: u64 = 1 << 62;
/// The expected counts of an increment differ from its mass by rounding only.
const MASS_ROUNDING: f64 = 1e-6;

/// What became of one message of the journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// A part of a record, and more are to come.
    Part,
    /// The journal begins.
    Begun,
    /// A minibatch was absorbed, alone or as the first of a sum; so many components appeared.
    Absorbed(BatchId, u64),
    /// Components were merged or split, or the prior was changed.
    Upkeep,
    /// A minibatch was set aside.
    Aside(BatchId),
    /// The model was finished.
    Finished,
    /// It changed nothing.
    Void(VoidReason),
}

/// Why a record has no effect.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum VoidReason {
    /// The core's reasons.
    #[error(transparent)]
    Core(#[from] Void),
    /// The journal has begun already.
    #[error("the journal has begun already")]
    Begun,
    /// Nothing can be folded before the beginning.
    #[error("the journal has not begun")]
    NotBegun,
    /// The minibatch was set aside or absorbed before.
    #[error("minibatch {0:?} is settled already")]
    Settled(BatchId),
    /// Components have appeared that its judge had not seen.
    #[error("it was judged before component {0} appeared")]
    Judged(u64),
    /// Numbers that no rows have.
    #[error("impossible numbers")]
    Improper,
    /// Not a record, or a record with parts missing.
    #[error("{0}")]
    Unreadable(String),
}

/// Why a replica cannot go on.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ReplicaFault {
    /// A newer program wrote it. Going on without it would make this replica differ from the others.
    #[error("journal message {at}: {what}")]
    Newer {
        /// Where it stands.
        at: Sequence,
        /// What it is.
        what: String,
    },
    /// Messages are missing: they were trimmed behind a snapshot that this replica has not loaded.
    #[error("the journal goes on at {found}, this replica has read up to {position}")]
    Gap {
        /// Last message read.
        position: Sequence,
        /// Next message there is.
        found: Sequence,
    },
}

/// What happened in the journal so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Records that counted.
    pub counted: u64,
    /// Entries that were matched against too old a posterior.
    pub superseded: u64,
    /// Minibatches that came again after they were settled.
    pub repeated: u64,
    /// Everything else that changed nothing.
    pub other_void: u64,
    /// Components that appeared.
    pub born: u64,
}

/// The fold of the journal up to a position.
#[derive(Clone, Debug)]
pub struct Replica<K: Kind> {
    pub(super) fold: Option<FoldOf<K>>,
    pub(super) about: Option<Arc<K::About>>,
    /// Data in the posterior, where its mass does not tell.
    pub(super) count: Count,
    pub(super) position: Sequence,
    pub(super) last_birth_message: Sequence,
    pub(super) aside: BatchSet,
    pub(super) tally: Tally,
    pub(super) parts: Parts,
    /// Rows of the one who made the beginning or the snapshot: the sample differs between replicas, the first rows do not.
    pub(super) memory: Arc<MemoryOf<K>>,
    /// Minibatches that were settled when the model was finished last.
    pub(super) finished: Option<u64>,
}

impl<K: Kind> Default for Replica<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Kind> Replica<K> {
    /// Before the first message.
    pub fn new() -> Self {
        Self {
            fold: None,
            about: None,
            count: Count::default(),
            position: 0,
            last_birth_message: 0,
            aside: BatchSet::default(),
            tally: Tally::default(),
            parts: Parts::default(),
            memory: Arc::default(),
            finished: None,
        }
    }

    /// The posterior, once the journal has begun.
    pub fn posterior(&self) -> Option<&Posterior<K::Family, K::Process>> {
        self.fold.as_ref().map(Fold::posterior)
    }

    /// What data are made of, seed and batch size, once the journal has begun.
    pub fn about(&self) -> Option<&Arc<K::About>> {
        self.about.as_ref()
    }

    /// Rows or documents in the posterior.
    pub fn rows(&self) -> u64 {
        if K::IS_COUNTED {
            self.count.rows
        } else {
            self.posterior().map_or(0, |all| all.mass().round() as u64)
        }
    }

    /// Last message read.
    pub fn position(&self) -> Sequence {
        self.position
    }

    /// Last message that could have created components.
    pub fn last_birth_message(&self) -> Sequence {
        self.last_birth_message
    }

    /// Minibatches that are in the posterior.
    pub fn absorbed(&self) -> u64 {
        self.fold.as_ref().map_or(0, |fold| fold.absorbed().len())
    }

    /// Minibatches that are absorbed or set aside.
    pub fn settled(&self) -> u64 {
        self.absorbed() + self.aside.len()
    }

    /// True when the model was finished and nothing has joined since.
    pub fn is_finished(&self) -> bool {
        self.finished == Some(self.settled())
    }

    /// A sample of rows, and the first rows until they have been learned from again.
    pub fn memory(&self) -> &MemoryOf<K> {
        &self.memory
    }

    /// Takes in the sample of rows that this worker has seen.
    pub fn pool(&mut self, memory: &MemoryOf<K>) {
        Arc::make_mut(&mut self.memory).pool(memory);
    }

    /// The replica of somebody who has gone on alone: it is no longer one of the journal.
    pub(crate) fn go_on_from(&mut self, fold: FoldOf<K>) {
        self.fold = Some(fold);
    }

    /// The fold, for whoever looks after the model; `None` before the journal has begun.
    pub fn fold(&self) -> Option<&FoldOf<K>> {
        self.fold.as_ref()
    }

    /// Minibatches that were set aside.
    pub fn aside(&self) -> &BatchSet {
        &self.aside
    }

    /// What happened so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// True when nothing can happen to the minibatch any more.
    pub fn is_settled(&self, batch: BatchId) -> bool {
        self.is_absorbed(batch) || self.aside.contains(batch)
    }

    /// True when the minibatch is in the posterior.
    pub fn is_absorbed(&self, batch: BatchId) -> bool {
        self.fold.as_ref().is_some_and(|fold| fold.absorbed().contains(batch))
    }

    /// A checksum of all that replicas must agree on: components with their ids and sums, redirects, settled minibatches.
    pub fn fingerprint(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        let mut add = |number: u64| hasher.update(&number.to_le_bytes());
        if let Some(fold) = &self.fold {
            let posterior = fold.posterior();
            add(posterior.version());
            add(posterior.mass().to_bits());
            add(posterior.familiarity().total.to_bits());
            add(posterior.tail().mass().to_bits());
            for component in posterior.components() {
                add(component.id().0);
                component.evidence().stats.iter().for_each(|value| add(value.to_bits()));
            }
            posterior
                .redirects()
                .iter()
                .for_each(|(from, into)| [from.0, into.0].into_iter().for_each(&mut add));
            fold.absorbed()
                .runs()
                .iter()
                .for_each(|(first, last)| [*first, *last].into_iter().for_each(&mut add));
        }
        self.aside.runs().iter().for_each(|(first, last)| [*first, *last].into_iter().for_each(&mut add));
        hasher.finalize()
    }

    /// The model at this position.
    pub fn model(&self) -> Option<K::Model> {
        let (fold, about) = (self.fold.clone()?, self.about.as_deref()?);
        Some(K::model(fold, about, self.count, self.tally.superseded))
    }

    /// Reads the next message. Every replica that reads the same messages is in the same state afterwards.
    pub fn read(&mut self, at: Sequence, lane: Append, message: &[u8]) -> Result<Applied, ReplicaFault> {
        if at <= self.position {
            return Ok(Applied::Part);
        }
        if at != self.position + 1 {
            return Err(ReplicaFault::Gap { position: self.position, found: at });
        }
        let newer = |what: String| ReplicaFault::Newer { at, what };
        let unreadable = |what: String| Ok(Applied::Void(VoidReason::Unreadable(what)));
        let applied = match self.parts.add(at, message) {
            Err(fault @ FrameFault::Newer(_)) => return Err(newer(fault.to_string())),
            Err(fault) => unreadable(fault.to_string()),
            Ok(None) => Ok(Applied::Part),
            Ok(Some(bytes)) => match Record::from_bytes(&bytes) {
                Ok(record) => Ok(self.apply(record)),
                Err(RecordFault::Newer(what)) => return Err(newer(what)),
                Err(fault) => unreadable(fault.to_string()),
            },
        }?;
        self.position = at;
        if lane == Append::Births {
            self.last_birth_message = at;
        }
        self.count(&applied);
        Ok(applied)
    }

    fn count(&mut self, applied: &Applied) {
        match applied {
            Applied::Part => {}
            Applied::Begun => {
                self.tally.counted += 1;
                self.tally.born +=
                    self.posterior().map_or(0, |posterior| posterior.components().len() as u64);
            }
            Applied::Absorbed(_, born) => {
                self.tally.counted += 1;
                self.tally.born += born;
            }
            Applied::Upkeep | Applied::Aside(_) | Applied::Finished => self.tally.counted += 1,
            Applied::Void(VoidReason::Core(Void::Superseded { .. })) => self.tally.superseded += 1,
            Applied::Void(VoidReason::Core(Void::AlreadyAbsorbed(_)) | VoidReason::Settled(_)) => {
                self.tally.repeated += 1;
            }
            Applied::Void(_) => self.tally.other_void += 1,
        }
    }

    fn apply(&mut self, record: Record<K>) -> Applied {
        let applied = match record {
            Record::Begin(begun) => self.begin(*begun),
            Record::Entry(entry) => self.entry(&entry),
            Record::Counted { count, .. } if !count.is_possible() => Err(VoidReason::Improper),
            Record::Counted { count, entry } => {
                let applied = self.entry(&entry);
                if matches!(applied, Ok(Applied::Absorbed(..))) {
                    self.count.add(count);
                }
                applied
            }
            Record::Judged { next_id, entry } => self.judged(next_id, &entry),
            Record::Aside { batch, .. } if batch.0 > MAX_BATCH => Err(VoidReason::Improper),
            Record::Aside { batch, .. } if self.is_settled(batch) => Err(VoidReason::Settled(batch)),
            Record::Aside { batch, .. } => {
                self.aside.insert(batch);
                Ok(Applied::Aside(batch))
            }
            Record::Finished { .. } if self.fold.is_none() => Err(VoidReason::NotBegun),
            Record::Finished { settled } => {
                self.finished = Some(settled);
                Ok(Applied::Finished)
            }
        };
        applied.unwrap_or_else(Applied::Void)
    }

    fn begin(&mut self, (model, memory): (K::Model, MemoryOf<K>)) -> Result<Applied, VoidReason> {
        if self.fold.is_some() {
            return Err(VoidReason::Begun);
        }
        let (fold, about, count) = K::parts(model);
        let runs = fold.absorbed().runs().iter();
        if let Some(batch) =
            runs.flat_map(|(first, last)| *first..=*last).find(|id| self.aside.contains(BatchId(*id)))
        {
            return Err(VoidReason::Settled(BatchId(batch)));
        }
        self.fold = Some(fold);
        (self.about, self.count) = (Some(Arc::new(about)), count);
        self.memory = Arc::new(memory);
        Ok(Applied::Begun)
    }

    fn judged(&mut self, next_id: u64, entry: &EntryOf<K>) -> Result<Applied, VoidReason> {
        match self.fold.as_ref().map(Fold::next_id) {
            Some(now) if now != next_id => Err(VoidReason::Judged(next_id)),
            _ => self.entry(entry),
        }
    }

    /// All minibatches of the entry count, or none.
    fn absorb(
        &mut self,
        entry: &EntryOf<K>,
        absorb: &Absorb,
        also: &[BatchId],
    ) -> Result<Applied, VoidReason> {
        let fold = self.fold.as_mut().ok_or(VoidReason::NotBegun)?;
        let mut names = std::iter::once(&absorb.batch).chain(also);
        if let Some(batch) = names.clone().find(|batch| self.aside.contains(**batch)) {
            return Err(VoidReason::Settled(*batch));
        }
        // A repeat says so, whatever else is wrong with it: the core looks for that first.
        let repeats = names.clone().any(|batch| fold.absorbed().contains(*batch));
        let is_named = names.all(|batch| batch.0 <= MAX_BATCH);
        if !repeats && (!is_named || !is_possible(absorb, fold.posterior())) {
            return Err(VoidReason::Improper);
        }
        let before = fold.next_id();
        fold.apply(entry)?;
        Ok(Applied::Absorbed(absorb.batch, fold.next_id() - before))
    }

    fn entry(&mut self, entry: &EntryOf<K>) -> Result<Applied, VoidReason> {
        let fold = self.fold.as_mut().ok_or(VoidReason::NotBegun)?;
        match entry {
            Entry::Absorb(absorb) => self.absorb(entry, absorb, &[]),
            Entry::Sum { also, absorb } => self.absorb(entry, absorb, also),
            Entry::Prior { family, process } => {
                let (now, now_process) = (fold.posterior().family(), fold.posterior().process());
                if family.n_features() != now.n_features()
                    || !K::can_follow((now, now_process), (family, process))
                {
                    return Err(VoidReason::Improper);
                }
                fold.apply(entry)?;
                Ok(Applied::Upkeep)
            }
            Entry::Split { parts, .. } => {
                if !parts.iter().all(is_a_part) {
                    return Err(VoidReason::Improper);
                }
                let before = fold.next_id();
                fold.apply(entry)?;
                self.tally.born += fold.next_id() - before;
                Ok(Applied::Upkeep)
            }
            Entry::Replace { mass, evidence } => {
                if !is_sane(|| evidence.iter().map(|(_, evidence)| evidence), *mass, fold.posterior()) {
                    return Err(VoidReason::Improper);
                }
                fold.apply(entry)?;
                Arc::make_mut(&mut self.memory).forget_first();
                Ok(Applied::Upkeep)
            }
            other => {
                fold.apply(other)?;
                Ok(Applied::Upkeep)
            }
        }
    }
}

/// Whether some rows could have taught this (MASS, PROPER): one bad number would spoil the posterior of everybody.
fn is_possible<F: Conjugate, P: Process>(absorb: &Absorb, posterior: &Posterior<F, P>) -> bool {
    let evidence = || absorb.existing.iter().map(|(_, e)| e).chain(absorb.new.iter().map(|(_, e)| e));
    absorb.base <= posterior.version() && is_sane(evidence, absorb.mass, posterior)
}

/// The core checks that the parts make the whole and are proper; this, that there is nothing but numbers in them.
fn is_a_part(part: &Part) -> bool {
    part.share > 0.0 && part.share < 1.0 && part.offset.iter().all(|value| value.is_finite())
}

/// Whether all of it is proper, and adds up to the mass.
fn is_sane<'a, F: Conjugate, P: Process, E: Iterator<Item = &'a Evidence>>(
    evidence: impl Fn() -> E,
    mass: f64,
    posterior: &Posterior<F, P>,
) -> bool {
    let family = posterior.family();
    let is_proper = |evidence: &Evidence| {
        let labels = evidence.labels;
        evidence.stats.len() == family.n_features()
            && family.admits(&evidence.stats)
            && labels.expected_count.is_finite()
            && labels.expected_count >= 0.0
            && labels.log_p_empty <= 0.0
            && labels.label_entropy.is_finite()
    };
    // The sums that make the mass are looked at once they are there.
    mass.is_finite()
        && mass >= 0.0
        && evidence().all(is_proper)
        && (posterior.process().mass_law().accounted(evidence(), mass) - mass).abs()
            <= MASS_ROUNDING * (1.0 + mass)
}
