//! Looking after the model while the stream goes on: the prior again, and merges.
//!
//! Nothing here changes a posterior. Each function looks at a snapshot and says what could be better; the engine makes
//! journal entries of it.

use super::Precision;
use super::labels::Labels;
use super::merge::Overlapping;
use super::narrow::Scored;
use crate::batch::Batch;
use crate::family::{Family, Partition};
use crate::identify::ComponentId;
use crate::math::special::digamma;
use crate::parallel;
use crate::posterior::Posterior;
use crate::process::Process;

/// Steps of type-II maximum likelihood at a time.
const PRIOR_STEPS: usize = 3;

/// Rounds of merges at a time; a component takes part in one merge a round.
const MERGE_ROUNDS: usize = 12;

/// Rows whose features are worth a thread.
const ROWS: usize = 256;

/// The family with its prior estimated anew from the components that are large enough to tell; `None` when they are too
/// few or the family has no estimate.
pub fn refit<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Option<F> {
    let enough = enough_to_tell(posterior.family());
    let components: Vec<&[f64]> = posterior
        .components()
        .iter()
        .map(|component| component.evidence().stats.as_slice())
        .filter(|stats| stats[0] >= enough)
        .collect();
    let mut fitted = posterior.family().refit(&components, Partition::Clusters)?;
    for _ in 1..PRIOR_STEPS {
        fitted = fitted.refit(&components, Partition::Clusters)?;
    }
    Some(fitted)
}

/// Rows that a component needs to say something about the prior.
pub(super) fn enough_to_tell<F: Family>(family: &F) -> f64 {
    3.0 + family.dimensions() as f64 / 2.0
}

/// Merges `(ends, into)`, in this order, that raise the objective of `horizon` times the data. The sample stands for all
/// rows when the overlap of components is judged.
pub fn merges<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    sample: &Batch,
    horizon: f64,
    precision: Precision,
) -> Vec<(ComponentId, ComponentId)> {
    let family = posterior.family();
    let f = family.n_features();
    let living = living(posterior);
    let mut ids: Vec<ComponentId> = living.iter().map(|ix| posterior.components()[*ix].id()).collect();
    let mut totals: Vec<f64> = Vec::with_capacity(ids.len() * f);
    let mut phi: Vec<f64> = Vec::with_capacity(ids.len() * f);
    for component in living.iter().map(|ix| &posterior.components()[*ix]) {
        totals.extend_from_slice(&component.evidence().stats);
        phi.extend_from_slice(&component.expectation(family).phi);
    }
    let mut labels = labels(posterior, sample, &phi, &living, precision);
    let sampled = posterior.mass() / sample.mass();
    let row_weight = |row: usize| sampled * sample.weights().map_or(1.0, |weights| weights[row]);
    let mut merged = Vec::new();
    for _ in 0..MERGE_ROUNDS {
        let pairs = Overlapping {
            family,
            process: posterior.process(),
            totals: &totals,
            phi: &phi,
            labels: &labels.by_component(ids.len()),
            row_weight: &row_weight,
            observations: posterior.mass(),
            horizon,
        }
        .pairs();
        if pairs.is_empty() {
            break;
        }
        let k = ids.len();
        let mut stays = vec![true; k];
        let mut into = vec![None; k];
        for &(keep, end) in &pairs {
            stays[end] = false;
            into[end] = Some(keep);
            merged.push((ids[end], ids[keep]));
            for i in 0..f {
                totals[keep * f + i] += totals[end * f + i];
            }
            family.expected_natural(&totals[keep * f..(keep + 1) * f], &mut phi[keep * f..(keep + 1) * f]);
        }
        labels.join(&into);
        let mut next = 0..;
        let names: Vec<Option<usize>> =
            stays.iter().map(|stays| if *stays { next.next() } else { None }).collect();
        labels.rename(&names);
        retain_chunks(&mut ids, 1, &stays);
        retain_chunks(&mut totals, f, &stays);
        retain_chunks(&mut phi, f, &stays);
    }
    merged
}

/// Keeps the chunks of `len` values whose flag is set.
fn retain_chunks<T: Copy>(values: &mut Vec<T>, len: usize, flags: &[bool]) {
    let mut to = 0;
    for (from, _) in flags.iter().enumerate().filter(|(_, flag)| **flag) {
        values.copy_within(from * len..(from + 1) * len, to * len);
        to += 1;
    }
    values.truncate(to * len);
}

/// Positions of the components that rows can belong to.
fn living<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Vec<usize> {
    let mass = |ix: usize| posterior.process().existing_mass(&posterior.components()[ix].evidence().labels);
    (0..posterior.components().len()).filter(|ix| mass(*ix) > 0.0).collect()
}

/// The labels of these rows, and the position in the posterior of each component that they name.
pub(super) fn labels_of<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    rows: &Batch,
    precision: Precision,
) -> (Labels, Vec<usize>) {
    let living = living(posterior);
    let expected = |ix: &usize| &posterior.components()[*ix].expectation(posterior.family()).phi;
    let phi: Vec<f64> = living.iter().flat_map(expected).copied().collect();
    (labels(posterior, rows, &phi, &living, precision), living)
}

/// One E-step of the sample on these components.
fn labels<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    sample: &Batch,
    phi: &[f64],
    components: &[usize],
    precision: Precision,
) -> Labels {
    let family = posterior.family();
    let f = family.n_features();
    let ln_weights: Vec<f64> = components
        .iter()
        .map(|ix| digamma(posterior.process().existing_mass(&posterior.components()[*ix].evidence().labels)))
        .collect();
    let mut features = vec![0.0; sample.n_rows() * f];
    let rows = sample.rows().zip(features.chunks_exact_mut(f));
    parallel::each(rows, ROWS, |(row, out)| family.features(row, out));
    let mut labels = Labels::default();
    labels.assign(Scored { features: &features, phi, ln_weights: &ln_weights, n_features: f }, precision);
    labels
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::central::{Absorb, BatchId, Entry, Fold};
    use crate::family::{Conjugate, Gaussian};
    use crate::identify::Target;
    use crate::posterior::Evidence;
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    /// Rows around 0 whose labels 0 and 1 were drawn by a coin, and rows around 9 with label 2, all certain.
    fn a_cluster_twice_and_another_once() -> (Fold<Gaussian, Dirichlet>, Batch) {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(2);
        let labels: Vec<usize> =
            (0..900).map(|ix| if ix % 3 == 0 { 2 } else { rng.random_range(0..2) }).collect();
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        let values = labels.iter().flat_map(|label| {
            let centre = if *label == 2 { 9.0 } else { 0.0 };
            [centre + normal(), normal()]
        });
        let rows = Batch::new(2, values.collect()).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut new = vec![(Target::New, Evidence::empty(family.n_features())); 3];
        let mut features = vec![0.0; family.n_features()];
        for (row, label) in rows.rows().zip(&labels) {
            family.features(row, &mut features);
            let mut certain = LabelStatistics::default();
            certain.observe(1.0, 1.0);
            new[*label].1.absorb(&Evidence { stats: features.clone(), labels: certain });
        }
        let mut fold = Fold::new(family, Dirichlet::new(5.0, Bound::Paper).unwrap());
        let entry = Absorb {
            batch: BatchId(0),
            base: 0,
            pass: 0,
            mass: 900.0,
            familiarity: None,
            existing: vec![],
            new,
        };
        fold.apply(&Entry::Absorb(entry)).unwrap();
        (fold, rows)
    }

    #[test]
    fn duplicates_merge_others_do_not_and_the_objective_rises() {
        let (mut fold, rows) = a_cluster_twice_and_another_once();
        for horizon in [1.0, 2.0] {
            assert_eq!(
                merges(fold.posterior(), &rows, horizon, Precision::Mixed),
                [(ComponentId(1), ComponentId(0))],
                "horizon {horizon}"
            );
        }
        let before = fold.posterior().objective();
        fold.apply(&Entry::Retire { id: ComponentId(1), into: ComponentId(0) }).unwrap();
        assert!(fold.posterior().objective() > before);
        assert!(merges(fold.posterior(), &rows, 1.0, Precision::Mixed).is_empty());
    }

    #[test]
    fn the_prior_that_is_estimated_makes_the_components_more_probable() {
        let (fold, _) = a_cluster_twice_and_another_once();
        let before = fold.posterior().clone();
        let family = refit(&before).unwrap();
        let mut after = fold.clone();
        after.apply(&Entry::Prior { family, process: *before.process() }).unwrap();
        assert!(after.posterior().objective() > before.objective());
    }
}
