//! A posterior from stored parts, refused unless every invariant holds: a file may be old, cut or hostile.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::{Component, Posterior};
use crate::family::Family;
use crate::identify::ComponentId;
use crate::process::Process;

/// Everything that makes a posterior.
#[derive(Clone, Debug)]
pub struct Parts<F, P> {
    /// Entries folded so far.
    pub version: u64,
    /// What a component is.
    pub family: F,
    /// How many there are.
    pub process: P,
    /// The components in ascending order of their ids.
    pub components: Vec<Component>,
    /// Retired ids and where their evidence went.
    pub redirects: BTreeMap<ComponentId, ComponentId>,
    /// Weight of the data absorbed.
    pub mass: f64,
}

/// Why stored parts are not a posterior.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum RestoreError {
    /// Ids are not strictly ascending.
    #[error("component {0} is out of order or appears twice")]
    Order(ComponentId),
    /// A component has the wrong number of statistics.
    #[error("component {id} has {found} statistics, the family has {expected}")]
    Features {
        /// The component.
        id: ComponentId,
        /// Features of the family.
        expected: usize,
        /// Statistics found.
        found: usize,
    },
    /// A component's numbers are impossible.
    #[error("component {0} holds impossible numbers")]
    Improper(ComponentId),
    /// A component claims to be born after the posterior's version.
    #[error("component {0} was born after the posterior's version")]
    Born(ComponentId),
    /// A redirect names a living component as retired, or leads nowhere.
    #[error("the redirect of component {0} leads nowhere")]
    Redirect(ComponentId),
    /// The mass is negative or not finite, or not the sum of the expected counts.
    #[error("the mass {mass} is not the sum {sum} of the expected counts")]
    Mass {
        /// The stored mass.
        mass: f64,
        /// Σ t.
        sum: f64,
    },
}

/// Sums of up to 1e12 counts in f64 differ by far less than this share.
const MASS_ROUNDING: f64 = 1e-6;

impl<F: Family, P: Process> Posterior<F, P> {
    /// Puts a posterior together and checks IDENT, PROPER and MASS.
    pub fn restore(parts: Parts<F, P>) -> Result<Self, RestoreError> {
        let Parts { version, family, process, components, redirects, mass } = parts;
        for pair in components.windows(2) {
            if pair[0].id() >= pair[1].id() {
                return Err(RestoreError::Order(pair[1].id()));
            }
        }
        components.iter().try_for_each(|component| check(component, &family, version))?;
        let posterior = Self {
            version,
            family: Arc::new(family),
            process,
            components: components.into_iter().map(Arc::new).collect(),
            redirects: Arc::new(redirects),
            mass,
        };
        posterior.check_redirects()?;
        let sum = posterior.expected_mass();
        if mass.is_finite() && mass >= 0.0 && (mass - sum).abs() <= MASS_ROUNDING * (1.0 + mass) {
            Ok(posterior)
        } else {
            Err(RestoreError::Mass { mass, sum })
        }
    }

    fn check_redirects(&self) -> Result<(), RestoreError> {
        for id in self.redirects.keys() {
            let mut at = *id;
            // A chain longer than the number of redirects is a circle.
            for _ in 0..=self.redirects.len() {
                match self.redirects.get(&at) {
                    Some(next) => at = *next,
                    None => break,
                }
            }
            if self.position(*id).is_some() || self.position(at).is_none() {
                return Err(RestoreError::Redirect(*id));
            }
        }
        Ok(())
    }
}

fn check<F: Family>(component: &Component, family: &F, version: u64) -> Result<(), RestoreError> {
    let (id, evidence) = (component.id(), component.evidence());
    let (expected, found) = (family.n_features(), evidence.stats.len());
    if expected != found {
        return Err(RestoreError::Features { id, expected, found });
    }
    if component.born() > version {
        return Err(RestoreError::Born(id));
    }
    let labels = evidence.labels;
    let sane = evidence.stats.iter().all(|s| s.is_finite())
        && labels.expected_count.is_finite()
        && labels.expected_count >= 0.0
        && labels.log_p_empty <= 0.0
        && labels.label_entropy.is_finite()
        && evidence.stats[0] >= 0.0;
    // PROPER: a component whose log-partition is not finite would poison every prediction.
    let proper = sane && {
        let expectation = component.expectation(family);
        expectation.log_partition.is_finite() && expectation.phi.iter().all(|v| v.is_finite())
    };
    if proper { Ok(()) } else { Err(RestoreError::Improper(id)) }
}
