//! The correspondence between what a minibatch opened and what others opened since (paper eq. bnpopt), for any family
//! and process.
//!
//! ```text
//! r_kj = A(η₀ + S_k + S_j) + score(stats_k + stats_j)
//! ```
//!
//! Components that the worker started from keep their ids; only those born after its snapshot are in question.

use super::{Correspondence, gains, solve};
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

/// Finds where the components that a worker opened from version `base` belong in the current posterior.
pub fn correspond<F: Conjugate, P: Process>(
    current: &Posterior<F, P>,
    base: u64,
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
        Identification::Optimal => Correspondence::from_matching(&match_evidence(current, &since, new), &ids),
    };
    Found {
        correspondence: correspondence.expect("ids are distinct and a matching is one-to-one"),
        solved: true,
    }
}

fn match_evidence<F: Conjugate, P: Process>(
    current: &Posterior<F, P>,
    since: &[&Component],
    new: &[Evidence],
) -> Vec<Option<usize>> {
    let (family, process) = (current.family(), current.process());
    let score = |evidence: &Evidence| family.log_partition(&evidence.stats) + process.score(&evidence.labels);
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    let mut joined = Evidence::empty(family.n_features());
    let gains = gains(
        new,
        since,
        score,
        |component| component.expectation(family).log_partition + process.score(&component.evidence().labels),
        |evidence, component| {
            joined.clone_from(evidence);
            joined.absorb(component.evidence());
            score(&joined)
        },
        empty,
    );
    solve(&gains)
}
