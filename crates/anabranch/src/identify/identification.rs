//! The correspondence between what a minibatch opened and what others opened since (paper eq. bnpopt), for any family
//! and process.
//!
//! ```text
//! r_kj = A(η₀ + S_k + S_j) + score(stats_k + stats_j)
//! ```
//!
//! Components that the worker started from keep their ids; only those born after its snapshot are in question.

use super::{Correspondence, Labels, gains, match_components};
use crate::family::Conjugate;
use crate::posterior::{Component, Evidence, Posterior};
use crate::process::Process;

/// How the new components of different workers are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identification {
    /// The correspondence that maximises the objective.
    #[default]
    Optimal,
    /// The k-th new component of one worker with the k-th of the other: the paper's ablation.
    ByPosition,
}

/// A correspondence, and whether an assignment problem had to be solved for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Where each new component goes.
    pub correspondence: Correspondence,
    /// True when both sides had something new.
    pub solved: bool,
}

/// Finds where the components that a worker opened from version `base` belong in the current posterior; `mass` is the weight
/// of its minibatch.
pub fn correspond<F: Conjugate, P: Process>(
    current: &Posterior<F, P>,
    base: u64,
    mass: f64,
    new: &[Evidence],
    identification: Identification,
) -> Found {
    let since: Vec<&Component> =
        current.components().iter().map(|c| &**c).filter(|component| component.born() > base).collect();
    if new.is_empty() || since.is_empty() {
        return Found { correspondence: Correspondence::all_new(new.len()), solved: false };
    }
    let ids: Vec<_> = since.iter().map(|component| component.id()).collect();
    let correspondence = match identification {
        Identification::ByPosition => Correspondence::by_position(new.len(), &ids),
        Identification::Optimal => {
            Correspondence::from_matching(&match_evidence(current, base, &since, mass, new), &ids)
        }
    };
    Found {
        correspondence: correspondence.expect("ids are distinct and a matching is one-to-one"),
        solved: true,
    }
}

fn match_evidence<F: Conjugate, P: Process>(
    current: &Posterior<F, P>,
    base: u64,
    since: &[&Component],
    mass: f64,
    new: &[Evidence],
) -> Vec<Option<usize>> {
    let family = current.family();
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    let mut joined = Evidence::empty(family.n_features());
    let likelihood = gains(
        new,
        since,
        |evidence| family.log_partition(&evidence.stats),
        |component| component.expectation(family).log_partition,
        |evidence, component| {
            joined.clone_from(evidence);
            joined.absorb(component.evidence());
            family.log_partition(&joined.stats)
        },
        empty,
    );
    let of = |component: &Component| component.evidence().labels;
    let known = current.components().iter().filter(|component| component.born() <= base);
    let labels = Labels {
        new: &new.iter().map(|evidence| evidence.labels).collect::<Vec<_>>(),
        since: &since.iter().map(|component| of(component)).collect::<Vec<_>>(),
        rest: &known.map(|component| of(component)).collect::<Vec<_>>(),
        observations: current.mass() + mass,
    };
    match_components(current.process(), &likelihood, labels).0
}
