//! The journal: entries in order, and the fold that makes the central posterior of them (paper eq. centralupdate).
//!
//! In process the order is that of a mutex, in a cluster that of a replicated stream. Same entries, same fold.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use super::{BatchId, BatchSet};
use crate::family::Family;
use crate::identify::{ComponentId, Target};
use crate::posterior::{Component, Evidence, Posterior};
use crate::process::Process;

/// One entry of the journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Entry<F, P> {
    /// A minibatch joins the posterior.
    Absorb(Absorb),
    /// A component ends; its evidence goes to another one, which the id redirects to from now on.
    Retire {
        /// The component that ends.
        id: ComponentId,
        /// The component that takes its evidence.
        into: ComponentId,
    },
    /// The prior or the process's parameters were estimated anew. Evidence never contains them, so it stays.
    Prior {
        /// The family with its new prior.
        family: F,
        /// The process with its new parameters.
        process: P,
    },
}

/// What one minibatch taught, with its components identified.
#[derive(Clone, Debug, PartialEq)]
pub struct Absorb {
    /// The minibatch; an id that is in the journal already makes the entry void.
    pub batch: BatchId,
    /// Version that the new components were identified against.
    pub base: u64,
    /// Weight of the rows.
    pub mass: f64,
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
    /// The entry names a component that never existed.
    #[error("component {0} does not exist")]
    UnknownComponent(ComponentId),
    /// Two new components of one minibatch are identified with the same component (SIGMA).
    #[error("two components of one minibatch are identified with component {0}")]
    NotOneToOne(ComponentId),
    /// A component cannot be retired into itself.
    #[error("component {0} cannot be merged into itself")]
    IntoItself(ComponentId),
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
    posterior: Posterior<F, P>,
    absorbed: BatchSet,
    last_birth: u64,
    next_id: u64,
}

impl<F: Family, P: Process> Fold<F, P> {
    /// An empty journal.
    pub fn new(family: F, process: P) -> Self {
        Self {
            posterior: Posterior::prior(family, process),
            absorbed: BatchSet::default(),
            last_birth: 0,
            next_id: 0,
        }
    }

    /// Goes on from a stored posterior, the set of minibatches that are in it, the next free id, and the version in which
    /// the newest component appeared (it may have ended since).
    pub fn resume(posterior: Posterior<F, P>, absorbed: BatchSet, next_id: u64, last_birth: u64) -> Self {
        let living = posterior.components().iter().map(|c| c.born()).max().unwrap_or(0);
        let last_birth = last_birth.max(living);
        Self { posterior, absorbed, last_birth, next_id }
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
            Entry::Absorb(absorb) => self.absorb(absorb),
            Entry::Retire { id, into } => self.retire(*id, *into),
            Entry::Prior { family, process } => {
                self.change_prior(family.clone(), process.clone());
                Ok(())
            }
        }
    }

    fn absorb(&mut self, entry: &Absorb) -> Result<(), Void> {
        self.check(entry)?;
        let version = self.posterior.version + 1;
        for (id, evidence) in &entry.existing {
            self.add(*id, evidence);
        }
        for (target, evidence) in &entry.new {
            match target {
                Target::Existing(id) => self.add(*id, evidence),
                Target::New => {
                    let id = ComponentId(self.next_id);
                    self.next_id += 1;
                    self.last_birth = version;
                    self.posterior.components.push(Arc::new(Component::new(id, version, evidence.clone())));
                }
            }
        }
        self.absorbed.insert(entry.batch);
        self.posterior.mass += entry.mass;
        self.posterior.version = version;
        Ok(())
    }

    fn check(&self, entry: &Absorb) -> Result<(), Void> {
        if self.absorbed.contains(entry.batch) {
            return Err(Void::AlreadyAbsorbed(entry.batch));
        }
        if !entry.new.is_empty() && self.last_birth > entry.base {
            return Err(Void::Superseded { created: self.last_birth, base: entry.base });
        }
        let expected = self.posterior.family.n_features();
        let evidence = entry.existing.iter().map(|(_, e)| e).chain(entry.new.iter().map(|(_, e)| e));
        if let Some(odd) = evidence.map(|e| e.stats.len()).find(|found| *found != expected) {
            return Err(Void::Features { expected, found: odd });
        }
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
        match named.chain(matched).find(|id| self.living(*id).is_none()) {
            Some(id) => Err(Void::UnknownComponent(id)),
            None => Ok(()),
        }
    }

    /// Position of the component that holds the evidence of `id` today.
    fn living(&self, id: ComponentId) -> Option<usize> {
        self.posterior.position(self.posterior.resolve(id))
    }

    fn add(&mut self, id: ComponentId, evidence: &Evidence) {
        let ix = self.living(id).expect("check() has found every component");
        let grown = self.posterior.components[ix].with_more(evidence);
        self.posterior.components[ix] = Arc::new(grown);
    }

    fn retire(&mut self, id: ComponentId, into: ComponentId) -> Result<(), Void> {
        let from = self.living(id).ok_or(Void::UnknownComponent(id))?;
        let target = self.living(into).ok_or(Void::UnknownComponent(into))?;
        if from == target {
            return Err(Void::IntoItself(id));
        }
        let (ended, survivor) =
            (self.posterior.components[from].clone(), self.posterior.components[target].id());
        self.add(survivor, ended.evidence());
        self.posterior.components.remove(from);
        Arc::make_mut(&mut self.posterior.redirects).insert(ended.id(), survivor);
        self.posterior.version += 1;
        Ok(())
    }

    fn change_prior(&mut self, family: F, process: P) {
        for component in &mut self.posterior.components {
            *component = Arc::new(component.under_new_prior());
        }
        self.posterior.family = Arc::new(family);
        self.posterior.process = process;
        self.posterior.version += 1;
    }
}
