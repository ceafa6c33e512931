//! Births: rows that the posterior explains badly seed new components, far from each other.
//!
//! ```text
//! p_new(x) = α·p(x | prior) / ( α·p(x | prior) + Σ_k m_k exp E[log p(x|θ_k)] )
//! ```
//!
//! Rows above the threshold are *novel*. Seeds are drawn among them as in k-means++: the first at random, each further
//! one with probability proportional to its squared distance to the seeds so far. Seeding on all rows instead would
//! reopen known clusters.

use rand::{Rng, RngExt};

use super::Settings;
use crate::batch::Batch;
use crate::family::Family;
use crate::posterior::Posterior;
use crate::process::Process;

/// A row that seeds or joins a new component.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NovelRow {
    /// Row of the batch.
    pub(super) row: usize,
    /// Probability that the row belongs to no known component.
    pub(super) probability: f64,
    /// The new component with the nearest seed.
    pub(super) component: usize,
}

/// The components that a minibatch proposes to open.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Births {
    pub(super) novel: Vec<NovelRow>,
    pub(super) n_components: usize,
}

/// Finds the novel rows and seeds components on them. `ln_explained` comes from the E-step over known components.
pub(super) fn propose<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    batch: &Batch,
    ln_explained: &[f64],
    settings: &Settings,
    rng: &mut impl Rng,
) -> Births {
    // Without a known component that takes rows (none, or only emptied ones) every row needs a new one.
    let must_open = ln_explained.iter().all(|ln_explained| *ln_explained == f64::NEG_INFINITY);
    let max_new = if must_open { settings.max_new.max(1) } else { settings.max_new };
    if max_new == 0 {
        return Births::default();
    }
    let mut novel = if must_open {
        (0..batch.n_rows()).map(|row| NovelRow { row, probability: 1.0, component: 0 }).collect()
    } else {
        novel_rows(posterior, batch, ln_explained, settings.birth_threshold)
    };
    let n_components = seed(posterior.family(), batch, &mut novel, max_new, rng);
    Births { novel, n_components }
}

fn novel_rows<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    batch: &Batch,
    ln_explained: &[f64],
    threshold: f64,
) -> Vec<NovelRow> {
    let family = posterior.family();
    let prior = family.predictive(&vec![0.0; family.n_features()]);
    let labels = posterior.components().iter().map(|c| &c.evidence().labels);
    let ln_new_mass = posterior.process().new_mass(labels).ln();
    let mut novel = Vec::new();
    for (row, (x, ln_explained)) in batch.rows().zip(ln_explained).enumerate() {
        let ln_new = ln_new_mass + prior.ln_density(x) - family.ln_base(x);
        let probability = 1.0 / (1.0 + (ln_explained - ln_new).exp());
        if probability > threshold {
            novel.push(NovelRow { row, probability, component: 0 });
        }
    }
    novel
}

/// Draws up to `max_new` seeds and joins every novel row to its nearest one. Returns the number of seeds.
fn seed<F: Family>(
    family: &F,
    batch: &Batch,
    novel: &mut [NovelRow],
    max_new: usize,
    rng: &mut impl Rng,
) -> usize {
    if novel.is_empty() {
        return 0;
    }
    let mut distance = vec![f64::INFINITY; novel.len()];
    let mut next = rng.random_range(0..novel.len());
    for component in 0..max_new.min(novel.len()) {
        let seed_row = novel[next].row;
        for (member, nearest) in novel.iter_mut().zip(&mut distance) {
            let to_seed = family.seed_distance(batch.row(member.row), batch.row(seed_row));
            if to_seed < *nearest {
                *nearest = to_seed;
                member.component = component;
            }
        }
        match draw_proportional(&distance, rng) {
            Some(ix) => next = ix,
            None => return component + 1,
        }
    }
    max_new.min(novel.len())
}

/// An index with probability proportional to its weight; `None` when every weight is 0.
fn draw_proportional(weights: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let mut left = rng.random::<f64>() * total;
    for (ix, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 && *weight > 0.0 {
            return Some(ix);
        }
    }
    weights.iter().rposition(|weight| *weight > 0.0)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn drawing_skips_weights_of_zero() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..1000 {
            let drawn = draw_proportional(&[0.0, 1.0, 0.0, 3.0, 0.0], &mut rng).unwrap();
            assert!(drawn == 1 || drawn == 3);
        }
        assert_eq!(draw_proportional(&[0.0, 0.0], &mut rng), None);
    }
}
