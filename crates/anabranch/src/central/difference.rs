//! What has changed between two states of one journal: whoever has the earlier one comes to the later one without the entries
//! between them, bit by bit.
//!
//! Components that changed are told as they are now, never as a difference of sums, so that one who is anywhere between the two
//! states comes to the later one as well.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::BatchSet;
use super::journal::{Aside, Fold};
use crate::family::Conjugate;
use crate::identify::ComponentId;
use crate::posterior::{Component, Evidence, Familiarity, Layers, Past, Tail};
use crate::process::Process;

/// A component that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Changed {
    id: ComponentId,
    born: u64,
    lasting: Evidence,
    passing: PassingNow,
}

/// What is to be replaced of a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum PassingNow {
    Nothing,
    /// What it was.
    Same,
    Other(Evidence),
}

/// A later state of a journal, as seen from an earlier one. Family and process travel beside it, when they changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    version: u64,
    mass: f64,
    pass: u32,
    familiarity: Familiarity,
    tail: Tail,
    aside: Option<(f64, f64)>,
    last_birth: u64,
    next_id: u64,
    absorbed: Vec<(u64, u64)>,
    redirects: Vec<(ComponentId, ComponentId)>,
    /// All components, in their order.
    living: Vec<ComponentId>,
    changed: Vec<Changed>,
}

impl<F: Conjugate, P: Process> Fold<F, P> {
    /// How this state differs from an earlier one of the same journal, or from nothing; `None` where the past fades.
    pub fn since(&self, earlier: Option<&Self>) -> Option<Difference> {
        let now = &self.posterior;
        if now.past != Past::default() {
            return None;
        }
        let before = |id: ComponentId| {
            let posterior = &earlier?.posterior;
            Some(&posterior.components[posterior.position(id)?])
        };
        let changed = now.components.iter().filter_map(|component| {
            let before = before(component.id());
            if before.is_some_and(|before| Arc::ptr_eq(before, component)) {
                return None;
            }
            let passing = match component.passing() {
                None => PassingNow::Nothing,
                Some(_) if before.is_some_and(|before| before.shares_passing(component)) => PassingNow::Same,
                Some(evidence) => PassingNow::Other(evidence.clone()),
            };
            let lasting = component.lasting().clone();
            Some(Changed { id: component.id(), born: component.born(), lasting, passing })
        });
        Some(Difference {
            version: now.version,
            mass: now.mass,
            pass: now.pass,
            familiarity: now.familiarity,
            tail: now.tail.clone(),
            aside: self.aside.map(|aside| (aside.mass, aside.share)),
            last_birth: self.last_birth,
            next_id: self.next_id,
            absorbed: self.absorbed.runs().to_vec(),
            redirects: now.redirects.iter().map(|(from, into)| (*from, *into)).collect(),
            living: now.components.iter().map(|component| component.id()).collect(),
            changed: changed.collect(),
        })
    }

    /// Whether the prior has not changed since this earlier state, not even there and back.
    pub fn has_prior_of(&self, earlier: &Self) -> bool {
        Arc::ptr_eq(&self.posterior.family, &earlier.posterior.family)
    }

    /// The state that `difference` tells, from this one; `None` where they do not fit. Numbers are believed: whoever asks
    /// compares a checksum.
    pub fn brought_to(&self, difference: &Difference, prior: Option<(F, P)>) -> Option<Self> {
        let mut now = self.posterior.clone();
        if let Some((family, process)) = prior {
            now.nothing = Arc::new(now.nothing.under_new_prior());
            (now.family, now.process) = (Arc::new(family), process);
        }
        let features = now.family.n_features();
        let share = difference.aside.map_or(1.0, |(_, share)| share);
        let mut changed = difference.changed.iter().peekable();
        let mut components = Vec::with_capacity(difference.living.len());
        for id in &difference.living {
            let known = self.posterior.position(*id).map(|ix| &self.posterior.components[ix]);
            let Some(Changed { born, lasting, passing, .. }) = changed.next_if(|changed| changed.id == *id)
            else {
                components.push(Arc::clone(known?));
                continue;
            };
            let whole = |evidence: &Evidence| evidence.stats.len() == features;
            let component = match passing {
                _ if !whole(lasting) => return None,
                PassingNow::Nothing => Component::new(*id, *born, lasting.clone()),
                PassingNow::Same => known?.with_other_lasting(*born, lasting.clone(), share),
                PassingNow::Other(passing) if whole(passing) => {
                    let layers = Layers { lasting: lasting.clone(), passing: passing.clone() };
                    Component::layered(*id, *born, layers, share)
                }
                PassingNow::Other(_) => return None,
            };
            components.push(Arc::new(component));
        }
        if changed.next().is_some() || !components.is_sorted_by_key(|component| component.id()) {
            return None;
        }
        now.components = components;
        now.redirects = Arc::new(difference.redirects.iter().copied().collect());
        (now.version, now.mass, now.pass) = (difference.version, difference.mass, difference.pass);
        (now.familiarity, now.tail) = (difference.familiarity, difference.tail.clone());
        Some(Self {
            posterior: now,
            absorbed: BatchSet::from_runs(difference.absorbed.clone())?,
            last_birth: difference.last_birth,
            next_id: difference.next_id,
            aside: difference.aside.map(|(mass, share)| Aside { mass, share }),
        })
    }
}
