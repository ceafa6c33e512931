//! A posterior from stored parts, refused unless every invariant holds: a file may be old, cut or hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use super::{Component, Familiarity, Past, Posterior, Tail};
use crate::family::Conjugate;
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

impl<F: Conjugate, P: Process> Posterior<F, P> {
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
            nothing: Arc::new(Component::nothing(&family)),
            family: Arc::new(family),
            process,
            components: components.into_iter().map(Arc::new).collect(),
            redirects: Arc::new(redirects),
            mass,
            pass: 0,
            familiarity: Familiarity::default(),
            tail: Tail::default(),
            past: Past::default(),
        };
        posterior.check_redirects()?;
        let sum = posterior.expected_mass();
        if mass.is_finite() && mass >= 0.0 && (mass - sum).abs() <= MASS_ROUNDING * (1.0 + mass) {
            Ok(posterior)
        } else {
            Err(RestoreError::Mass { mass, sum })
        }
    }

    /// Every retired id leads to a living component. Each step is taken once, however long the chains are.
    fn check_redirects(&self) -> Result<(), RestoreError> {
        let mut sound = BTreeSet::new();
        for id in self.redirects.keys() {
            if self.position(*id).is_some() {
                return Err(RestoreError::Redirect(*id));
            }
            let mut chain = Vec::new();
            let mut at = *id;
            while self.position(at).is_none() && !sound.contains(&at) {
                chain.push(at);
                match self.redirects.get(&at) {
                    // A chain longer than the number of redirects is a circle.
                    Some(next) if chain.len() <= self.redirects.len() => at = *next,
                    _ => return Err(RestoreError::Redirect(*id)),
                }
            }
            sound.extend(chain);
        }
        Ok(())
    }
}

fn check<F: Conjugate>(component: &Component, family: &F, version: u64) -> Result<(), RestoreError> {
    let (id, evidence) = (component.id(), component.evidence());
    let (expected, found) = (family.n_features(), evidence.stats.len());
    if expected != found {
        return Err(RestoreError::Features { id, expected, found });
    }
    if component.born() > version {
        return Err(RestoreError::Born(id));
    }
    let labels = evidence.labels;
    let sane = family.admits(&evidence.stats)
        && labels.expected_count.is_finite()
        && labels.expected_count >= 0.0
        && labels.log_p_empty <= 0.0
        && labels.label_entropy.is_finite();
    // PROPER: a component whose log-partition is not finite would poison every prediction.
    let proper = sane && {
        let expectation = component.expectation(family);
        expectation.log_partition.is_finite() && expectation.phi.iter().all(|v| v.is_finite())
    };
    if proper { Ok(()) } else { Err(RestoreError::Improper(id)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Bernoulli;
    use crate::posterior::Evidence;
    use crate::process::{Bound, Dirichlet};

    /// One living component, number 0, and these redirects.
    fn restore(redirects: impl IntoIterator<Item = (u64, u64)>) -> Result<(), RestoreError> {
        let family = Bernoulli::new(vec![1.0], vec![1.0]).unwrap();
        let component = Component::new(ComponentId(0), 0, Evidence::empty(family.n_features()));
        Posterior::restore(Parts {
            version: 0,
            family,
            process: Dirichlet::new(1.0, Bound::Paper).unwrap(),
            components: vec![component],
            redirects: redirects.into_iter().map(|(a, b)| (ComponentId(a), ComponentId(b))).collect(),
            mass: 0.0,
        })
        .map(|_| ())
    }

    #[test]
    fn redirects_lead_to_living_components() {
        assert_eq!(restore([(2, 1), (1, 0), (3, 1)]), Ok(()));
        assert_eq!(restore([(1, 2)]), Err(RestoreError::Redirect(ComponentId(1))));
        assert_eq!(restore([(0, 0)]), Err(RestoreError::Redirect(ComponentId(0))));
        assert_eq!(restore([(1, 2), (2, 1)]), Err(RestoreError::Redirect(ComponentId(1))));
    }

    /// Walking each chain to its end would take 2·10¹⁰ steps.
    #[test]
    fn a_long_chain_of_redirects_is_checked_in_one_walk() {
        const N: u64 = 200_000;
        assert_eq!(restore((1..N).map(|id| (id, id - 1))), Ok(()));
        assert_eq!(restore((1..N).map(|id| (id, (id + 1) % N))), Ok(()));
    }

    /// log Γ and ψ of a negative number may be finite: the sign itself has to be checked.
    #[test]
    fn negative_counts_are_refused() {
        use crate::family::{AnyFamily, Categorical, Multinomial, Poisson};
        let families: [AnyFamily; 4] = [
            Bernoulli::new(vec![1.0; 2], vec![1.0; 2]).unwrap().into(),
            Categorical::new(vec![vec![1.0; 2]]).unwrap().into(),
            Poisson::new(vec![1.0; 2], vec![1.0; 2]).unwrap().into(),
            Multinomial::new(vec![1.0; 2], 5.0).unwrap().into(),
        ];
        for family in families {
            let check_stats = |stats: Vec<f64>| {
                let evidence = Evidence { stats, labels: Default::default() };
                check(&Component::new(ComponentId(0), 0, evidence), &family, 0)
            };
            assert_eq!(check_stats(vec![5.0, 3.0, 2.0]), Ok(()), "{family:?}");
            assert_eq!(
                check_stats(vec![5.0, 3.0, -1.5]),
                Err(RestoreError::Improper(ComponentId(0))),
                "{family:?}"
            );
        }
    }

    /// The scatter matrix of these would hold infinities.
    #[test]
    fn sums_that_no_rows_have_are_refused() {
        use crate::family::{Frame, Gaussian, NormalInverseWishart};
        let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0], 0.1, &[0.1], 4.0);
        let family = Gaussian::new(Frame::identity(1), prior).unwrap();
        assert!(family.admits(&[12.0, 12e75, 12e150]) && family.admits(&[0.0; 3]));
        assert!(!family.admits(&[12.0, 1e300, 12.0]) && !family.admits(&[12.0, 0.0, 1e300]));
        assert!(!family.admits(&[0.0, 1.0, 1.0]) && !family.admits(&[f64::NAN, 0.0, 0.0]));
    }

    #[test]
    fn more_ones_than_rows_are_refused() {
        let family = Bernoulli::new(vec![1.0], vec![1.0]).unwrap();
        assert!(family.admits(&[5.0, 5.0]) && !family.admits(&[5.0, 7.5]));
    }
}
