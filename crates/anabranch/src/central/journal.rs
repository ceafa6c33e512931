//! The journal: entries in order, and the fold that makes the central posterior of them (paper eq. centralupdate).
//!
//! In process the order is that of a mutex, in a cluster that of a replicated stream. Same entries, same fold.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{BatchId, BatchSet};
use crate::family::Conjugate;
use crate::identify::{ComponentId, Target};
use crate::posterior::{Component, Evidence, Familiarity, Posterior, Tail, Told};
use crate::process::Process;

/// When a minibatch was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The clock of the stream at its end: rows, or seconds.
    pub clock: f64,
    /// What its older rows have faded by at that clock already.
    pub faded: f64,
}

/// One entry of the journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Entry<F, P> {
    /// A minibatch joins the posterior.
    Absorb(Absorb),
    /// A minibatch joins the posterior, at this clock of the stream.
    Timed {
        /// The clock at its end: rows, or seconds.
        clock: f64,
        /// What its older rows have faded by at that clock already: it is forgotten.
        faded: f64,
        /// What it taught.
        absorb: Absorb,
    },
    /// Several minibatches join the posterior at once: what they taught, added up. All of them count, or none.
    Sum {
        /// The minibatches besides the one that `absorb` names.
        also: Vec<BatchId>,
        /// What they taught together.
        absorb: Absorb,
    },
    /// A component ends; its evidence goes to another one, which the id redirects to from now on.
    Retire {
        /// The component that ends.
        id: ComponentId,
        /// The component that takes its evidence.
        into: ComponentId,
    },
    /// A component ends as one and goes on as several. The first part keeps the id.
    Split {
        /// The component that hides several.
        id: ComponentId,
        /// At least two; shares add up to 1 and offsets to 0, so that no datum is lost or counted twice.
        parts: Vec<Part>,
    },
    /// The prior or the process's parameters were estimated anew, or the family has more features from now on. Evidence never
    /// contains them, so it stays; void where the family has fewer features than before.
    Prior {
        /// The family with its new prior.
        family: F,
        /// The process with its new parameters.
        process: P,
    },
    /// All evidence so far is set aside: it counts until a [`Entry::Replace`] brings what the same rows say later.
    SetAside,
    /// What came since the last [`Entry::SetAside`] is set aside, and what was set aside then stays. Void when a part of that
    /// has been replaced.
    Exchange,
    /// The rows that were set aside were learned from again, all at once, with a better posterior.
    Replace {
        /// Weight of the rows: the weight that was set aside.
        mass: f64,
        /// What they say now.
        evidence: Vec<(ComponentId, Evidence)>,
    },
    /// How probable rows usually are, now that the model is another one than those that they were told by.
    Ordinary(Tail),
    /// Another pass over the same data begins: minibatches count anew, and each takes the place of its share of the old
    /// evidence, so that at any moment every datum counts once.
    Pass,
}

/// A part of a component: it takes `share · S + offset` of its statistics, however much they have grown since the split was
/// judged, and its share of the labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Share of the data.
    pub share: f64,
    /// What the part has beyond its share of the statistics: as much as the others lack.
    pub offset: Vec<f64>,
}

/// Evidence that was set aside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aside {
    /// Weight of its rows.
    pub mass: f64,
    /// Share of it that still counts.
    pub share: f64,
}

/// What one minibatch taught, with its components identified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absorb {
    /// The minibatch; an id that is in the journal already makes the entry void.
    pub batch: BatchId,
    /// Version that the new components were identified against.
    pub base: u64,
    /// Pass over the data, from 0.
    pub pass: u32,
    /// Weight of the rows.
    pub mass: f64,
    /// How probable the rows were before they were learned, where the model tells it.
    pub familiarity: Option<Told>,
    /// Evidence for known components.
    pub existing: Vec<(ComponentId, Evidence)>,
    /// Evidence for components the worker opened, each with the component it was identified with.
    pub new: Vec<(Target, Evidence)>,
}

/// Why an entry has no effect.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Void {
    /// The minibatch is in the journal already.
    #[error("minibatch {0:?} is in the journal already")]
    AlreadyAbsorbed(BatchId),
    /// A component was created after the version that the new components were identified against.
    #[error(
        "components were created in version {created}, after version {base} that this entry was matched against"
    )]
    Superseded {
        /// Version in which the newest component appeared.
        created: u64,
        /// Version the entry was matched against.
        base: u64,
    },
    /// The entry names a component that never existed, or one that has ended where that matters.
    #[error("component {0} does not exist")]
    UnknownComponent(ComponentId),
    /// Two new components of one minibatch are identified with the same component (SIGMA).
    #[error("two components of one minibatch are identified with component {0}")]
    NotOneToOne(ComponentId),
    /// A component cannot be retired into itself.
    #[error("component {0} cannot be merged into itself")]
    IntoItself(ComponentId),
    /// The parts of a split do not make the whole.
    #[error("the {parts} parts of component {id} are not the whole of it")]
    NotTheWhole {
        /// The component to be split.
        id: ComponentId,
        /// Parts of the entry.
        parts: usize,
    },
    /// The minibatch belongs to another pass over the data.
    #[error("the minibatch is of pass {found}, the journal is in pass {current}")]
    OtherPass {
        /// Pass of the journal.
        current: u32,
        /// Pass of the entry.
        found: u32,
    },
    /// Not the weight that was set aside.
    #[error("{found} rows' worth of evidence cannot replace {aside}")]
    NotAside {
        /// Weight set aside.
        aside: f64,
        /// Weight of the replacement.
        found: f64,
    },
    /// The entry's evidence does not fit the family.
    #[error("evidence has {found} features, the family has {expected}")]
    Features {
        /// Features of the family.
        expected: usize,
        /// Features of the evidence.
        found: usize,
    },
    /// The evidence holds sums that no rows have.
    #[error("the evidence holds impossible numbers")]
    Improper,
    /// The expected counts do not add up to the weight of the rows (MASS).
    #[error("the mass {mass} is not the sum {sum} of the expected counts")]
    Mass {
        /// The mass that the increment tells.
        mass: f64,
        /// Σ t.
        sum: f64,
    },
    /// The increment starts from a version that the posterior has not reached.
    #[error("it was learned from version {base}, the posterior is at version {version}")]
    NotYet {
        /// Version the increment was learned from.
        base: u64,
        /// Version of the posterior.
        version: u64,
    },
}

/// The central posterior as the fold of the journal so far.
#[derive(Clone, Debug)]
pub struct Fold<F, P> {
    pub(super) posterior: Posterior<F, P>,
    pub(super) absorbed: BatchSet,
    pub(super) last_birth: u64,
    pub(super) next_id: u64,
    pub(super) aside: Option<Aside>,
}

/// Sums of weights that should be equal differ by less than this share.
pub(crate) const ROUNDING: f64 = 1e-9;

/// A part of a split must be like rows when this share of its whole is added. How large the parts are is an estimate, and
/// where they lie far apart, a small error of it moves many squares from one to the other.
const SMEAR: f64 = 0.02;

/// Evidence that counts this much.
fn weighed(evidence: &Evidence, weight: f64) -> Cow<'_, Evidence> {
    if weight == 1.0 { Cow::Borrowed(evidence) } else { Cow::Owned(evidence.scaled(weight)) }
}

impl<F: Conjugate, P: Process> Fold<F, P> {
    /// An empty journal.
    pub fn new(family: F, process: P) -> Self {
        Self {
            posterior: Posterior::prior(family, process),
            absorbed: BatchSet::default(),
            last_birth: 0,
            next_id: 0,
            aside: None,
        }
    }

    /// Goes on from a stored posterior, the set of minibatches that are in it, the next free id, and the version in which
    /// the newest component appeared (it may have ended since).
    pub fn resume(posterior: Posterior<F, P>, absorbed: BatchSet, next_id: u64, last_birth: u64) -> Self {
        let living = posterior.components().iter().map(|c| c.born()).max().unwrap_or(0);
        let last_birth = last_birth.max(living);
        Self { posterior, absorbed, last_birth, next_id, aside: None }
    }

    /// Goes on within this pass, with this much evidence set aside; the components hold it in their layers.
    pub fn within(mut self, pass: u32, aside: Option<Aside>, familiarity: Familiarity) -> Self {
        self.posterior.pass = pass;
        self.posterior.familiarity = familiarity;
        self.aside = aside;
        self
    }

    /// The same fold, for which rows are usually this probable.
    pub fn with_tail(mut self, tail: Tail) -> Self {
        self.posterior.tail = tail;
        self
    }

    /// The same fold under another process. Evidence never contains the process, so it stays.
    pub fn under<Q: Process>(self, process: Q) -> Fold<F, Q> {
        let Self { posterior, absorbed, last_birth, next_id, aside } = self;
        Fold { posterior: posterior.under(process), absorbed, last_birth, next_id, aside }
    }

    /// The same fold with its components under other ids, from which `next_id` is free. Who ended is known under its new id.
    pub(crate) fn renamed(mut self, ids: &BTreeMap<ComponentId, ComponentId>, next_id: u64) -> Self {
        let new = |id: ComponentId| ids.get(&id).copied();
        let components = &mut self.posterior.components;
        for component in components.iter_mut() {
            if let Some(id) = new(component.id()) {
                *component = Arc::new(component.called(id));
            }
        }
        components.sort_by_key(|component| component.id());
        let redirects = self.posterior.redirects.iter();
        self.posterior.redirects =
            Arc::new(redirects.filter_map(|(from, to)| Some((new(*from)?, new(*to)?))).collect());
        self.next_id = next_id;
        self
    }

    /// Evidence that was set aside.
    pub fn aside(&self) -> Option<Aside> {
        self.aside
    }

    /// The posterior after the entries so far.
    pub fn posterior(&self) -> &Posterior<F, P> {
        &self.posterior
    }

    /// The minibatches that are in the posterior.
    pub fn absorbed(&self) -> &BatchSet {
        &self.absorbed
    }

    /// The version in which the newest component appeared.
    pub fn last_birth(&self) -> u64 {
        self.last_birth
    }

    /// The id that the next new component will get. Ids are never used twice.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Folds one entry, or says why it is void; a void entry changes nothing.
    pub fn apply(&mut self, entry: &Entry<F, P>) -> Result<(), Void> {
        match entry {
            Entry::Absorb(absorb) => self.absorb(absorb, None),
            Entry::Timed { clock, faded, absorb } => {
                self.absorb(absorb, Some(Moment { clock: *clock, faded: *faded }))
            }
            Entry::Sum { also, absorb } => self.absorb_sum(also, absorb),
            Entry::Retire { id, into } => self.retire(*id, *into),
            Entry::Split { id, parts } => self.split(*id, parts),
            Entry::Prior { family, process } => self.change_prior(family.clone(), process.clone()),
            Entry::SetAside => {
                self.set_aside();
                Ok(())
            }
            Entry::Exchange => self.exchange(),
            Entry::Replace { mass, evidence } => self.replace(*mass, evidence),
            Entry::Ordinary(tail) => {
                if !tail.is_possible() {
                    return Err(Void::Improper);
                }
                self.posterior.tail = tail.clone();
                self.posterior.version += 1;
                Ok(())
            }
            Entry::Pass => {
                self.set_aside();
                self.absorbed = BatchSet::default();
                self.posterior.pass += 1;
                Ok(())
            }
        }
    }

    fn absorb(&mut self, entry: &Absorb, at: Option<Moment>) -> Result<(), Void> {
        self.check(entry)?;
        if at.is_some_and(|at| !(at.clock.is_finite() && at.faded.is_finite() && at.faded >= 0.0)) {
            return Err(Void::Improper);
        }
        let version = self.posterior.version + 1;
        let weight = self.age(entry, at.map(|at| at.clock));
        for (id, evidence) in &entry.existing {
            self.add(*id, &weighed(evidence, weight));
        }
        for (target, evidence) in &entry.new {
            let evidence = &weighed(evidence, weight);
            match target {
                Target::Existing(id) => self.add(*id, evidence),
                Target::New => {
                    let id = ComponentId(self.next_id);
                    self.next_id += 1;
                    self.last_birth = version;
                    let mut evidence = evidence.clone().into_owned();
                    evidence.widen(self.posterior.family.n_features());
                    self.posterior.components.push(Arc::new(Component::new(id, version, evidence)));
                }
            }
        }
        self.absorbed.insert(entry.batch);
        if let Some(told) = &entry.familiarity {
            self.posterior.familiarity = self.posterior.familiarity.after(told.median, weight * entry.mass);
            self.posterior.tail.add(&told.densities, self.posterior.doublings());
        }
        self.posterior.mass += weight * entry.mass;
        self.posterior.past.forgotten += (1.0 - weight) * entry.mass + at.map_or(0.0, |at| at.faded);
        self.end_faded();
        if self.posterior.pass > 0 {
            self.posterior.mass -= self.give_way(entry.mass);
        }
        self.posterior.version = version;
        Ok(())
    }

    fn absorb_sum(&mut self, also: &[BatchId], entry: &Absorb) -> Result<(), Void> {
        let mut named = BTreeSet::from([entry.batch]);
        for batch in also {
            if self.absorbed.contains(*batch) {
                return Err(Void::AlreadyAbsorbed(*batch));
            }
            if !named.insert(*batch) {
                return Err(Void::Improper);
            }
        }
        self.absorb(entry, None)?;
        also.iter().for_each(|batch| {
            self.absorbed.insert(*batch);
        });
        Ok(())
    }

    /// Takes this much weight from what was set aside; returns how much there was to take.
    fn give_way(&mut self, mass: f64) -> f64 {
        let Some(Aside { mass: whole, share }) = self.aside else { return 0.0 };
        let left = whole * share - mass;
        let taken = if left > ROUNDING * whole { mass } else { whole * share };
        let share = if left > ROUNDING * whole { left / whole } else { 0.0 };
        for component in &mut self.posterior.components {
            *component = Arc::new(component.with_share(share));
        }
        self.aside = (share > 0.0).then_some(Aside { mass: whole, share });
        taken
    }

    fn check(&self, entry: &Absorb) -> Result<(), Void> {
        if entry.pass != self.posterior.pass {
            return Err(Void::OtherPass { current: self.posterior.pass, found: entry.pass });
        }
        if self.absorbed.contains(entry.batch) {
            return Err(Void::AlreadyAbsorbed(entry.batch));
        }
        if !entry.new.is_empty() && self.last_birth > entry.base {
            return Err(Void::Superseded { created: self.last_birth, base: entry.base });
        }
        if entry.familiarity.as_ref().is_some_and(|told| !told.is_possible()) {
            return Err(Void::Improper);
        }
        self.check_features(entry.existing.iter().map(|(_, e)| e).chain(entry.new.iter().map(|(_, e)| e)))?;
        let mut targets = BTreeSet::new();
        for (target, _) in &entry.new {
            match target {
                Target::Existing(id) if !targets.insert(*id) => return Err(Void::NotOneToOne(*id)),
                _ => {}
            }
        }
        let named = entry.existing.iter().map(|(id, _)| *id);
        let matched = entry.new.iter().filter_map(|(target, _)| match target {
            Target::Existing(id) => Some(*id),
            Target::New => None,
        });
        match named.chain(matched).find(|id| self.living(*id).is_none() && !self.has_faded(*id)) {
            Some(id) => Err(Void::UnknownComponent(id)),
            None => Ok(()),
        }
    }

    /// Evidence is as long as the family's features, or older than the last of them where they become more.
    fn check_features<'a>(&self, mut evidence: impl Iterator<Item = &'a Evidence>) -> Result<(), Void> {
        let family = &self.posterior.family;
        let expected = family.n_features();
        let grows = || family.widened(expected + 1).is_some();
        let fits = |found: usize| found == expected || (0 < found && found < expected && grows());
        match evidence.find(|e| !fits(e.stats.len())) {
            Some(odd) => Err(Void::Features { expected, found: odd.stats.len() }),
            None => Ok(()),
        }
    }

    /// Position of the component that holds the evidence of `id` today.
    fn living(&self, id: ComponentId) -> Option<usize> {
        self.posterior.position(self.posterior.resolve(id))
    }

    pub(super) fn add(&mut self, id: ComponentId, evidence: &Evidence) {
        let Some(ix) = self.living(id) else { return self.bring_back(id, evidence) };
        let grown = self.posterior.components[ix].with_more(evidence);
        self.posterior.components[ix] = Arc::new(grown);
    }

    /// A component that has faded is there again: a minibatch that knew it has rows for it.
    fn bring_back(&mut self, id: ComponentId, evidence: &Evidence) {
        debug_assert!(self.has_faded(id), "check() has found every component");
        let version = self.posterior.version + 1;
        let at = self.posterior.components.partition_point(|component| component.id() < id);
        let component =
            Component::new(id, version, evidence.clone()).widened(self.posterior.family.n_features());
        self.posterior.components.insert(at, Arc::new(component));
        self.last_birth = version;
    }

    fn retire(&mut self, id: ComponentId, into: ComponentId) -> Result<(), Void> {
        // What has taken the component in was not judged, so no redirect is followed from it.
        let from = self.posterior.position(id).ok_or(Void::UnknownComponent(id))?;
        let target = self.living(into).ok_or(Void::UnknownComponent(into))?;
        if from == target {
            return Err(Void::IntoItself(id));
        }
        let share = self.aside.map_or(1.0, |aside| aside.share);
        let components = &mut self.posterior.components;
        let ended = components[from].clone();
        components[target] = Arc::new(components[target].joined(&ended, share));
        let survivor = components[target].id();
        components.remove(from);
        Arc::make_mut(&mut self.posterior.redirects).insert(ended.id(), survivor);
        self.posterior.version += 1;
        Ok(())
    }

    fn split(&mut self, id: ComponentId, parts: &[Part]) -> Result<(), Void> {
        // A component that has taken another one in is not the one that was judged, so no redirect is followed.
        let ix = self.posterior.position(id).ok_or(Void::UnknownComponent(id))?;
        let expected = self.posterior.family.n_features();
        if let Some(odd) = parts.iter().map(|part| part.offset.len()).find(|found| *found != expected) {
            return Err(Void::Features { expected, found: odd });
        }
        let whole = &self.posterior.components[ix];
        let size = |i: usize| 1.0 + whole.evidence().stats[i].abs();
        let shares: f64 = parts.iter().map(|part| part.share).sum();
        let balanced =
            |i: usize| parts.iter().map(|part| part.offset[i]).sum::<f64>().abs() <= ROUNDING * size(i);
        if parts.len() < 2
            || parts.iter().any(|part| part.share.is_nan() || part.share <= 0.0)
            || (shares - 1.0).abs() > ROUNDING
            || !(0..expected).all(balanced)
        {
            return Err(Void::NotTheWhole { id, parts: parts.len() });
        }
        let version = self.posterior.version + 1;
        let share = self.aside.map_or(1.0, |aside| aside.share);
        let ids = std::iter::once(whole.id()).chain((self.next_id..).map(ComponentId));
        let born = std::iter::once(whole.born()).chain(std::iter::repeat(version));
        let mut pieces = Vec::with_capacity(parts.len());
        for ((id, born), part) in ids.zip(born).zip(parts) {
            pieces.push(whole.part(id, born, part.share, &part.offset, share));
        }
        // What is to be replaced may be anything that can be computed with; what stays must be like rows.
        let family = &self.posterior.family;
        let like_rows = |piece: &Component, share: f64| {
            let mut lasting = whole.lasting().scaled(SMEAR * share);
            lasting.absorb(piece.lasting());
            family.is_possible(&lasting.stats)
        };
        let proper = |(piece, part): (&Component, &Part)| {
            family.admits(&piece.evidence().stats) && like_rows(piece, part.share)
        };
        if !pieces.iter().zip(parts).all(proper) {
            return Err(Void::Improper);
        }
        self.next_id += parts.len() as u64 - 1;
        self.last_birth = version;
        let mut pieces = pieces.into_iter().map(Arc::new);
        self.posterior.components[ix] = pieces.next().expect("there are at least two");
        self.posterior.components.extend(pieces);
        self.posterior.version = version;
        Ok(())
    }

    fn change_prior(&mut self, family: F, process: P) -> Result<(), Void> {
        let (expected, found) = (self.posterior.family.n_features(), family.n_features());
        if found < expected {
            return Err(Void::Features { expected, found });
        }
        for component in &mut self.posterior.components {
            *component = Arc::new(component.widened(found));
        }
        self.posterior.nothing = Arc::new(self.posterior.nothing.widened(found));
        self.posterior.family = Arc::new(family);
        self.posterior.process = process;
        self.posterior.version += 1;
        Ok(())
    }

    fn set_aside(&mut self) {
        for component in &mut self.posterior.components {
            *component = Arc::new(component.to_be_replaced());
        }
        let mass = self.posterior.mass;
        self.aside = (mass > 0.0).then_some(Aside { mass, share: 1.0 });
        self.posterior.version += 1;
    }

    fn exchange(&mut self) -> Result<(), Void> {
        let Some(Aside { mass, share: 1.0 }) = self.aside else {
            let aside = self.aside.map_or(0.0, |aside| aside.mass * aside.share);
            return Err(Void::NotAside { aside, found: self.posterior.mass });
        };
        for component in &mut self.posterior.components {
            *component = Arc::new(component.exchanged());
        }
        let since = self.posterior.mass - mass;
        self.aside = (since > 0.0).then_some(Aside { mass: since, share: 1.0 });
        self.posterior.version += 1;
        Ok(())
    }

    fn replace(&mut self, mass: f64, evidence: &[(ComponentId, Evidence)]) -> Result<(), Void> {
        let aside = self.aside.map_or(0.0, |aside| aside.mass * aside.share);
        if aside == 0.0 || (aside - mass).abs() > ROUNDING * aside {
            return Err(Void::NotAside { aside, found: mass });
        }
        self.check_features(evidence.iter().map(|(_, evidence)| evidence))?;
        if let Some((id, _)) = evidence.iter().find(|(id, _)| self.living(*id).is_none()) {
            return Err(Void::UnknownComponent(*id));
        }
        self.give_way(aside);
        for (id, evidence) in evidence {
            self.add(*id, evidence);
        }
        self.posterior.version += 1;
        Ok(())
    }
}
