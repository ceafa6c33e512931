//! How alike two posteriors of the same columns are: do they label rows the same way, and give them the same density?
//!
//! Fits of the same data with two seeds, or of two halves of the data, tell how stable a result is.

use rand::{Rng, RngExt};

use crate::family::Family;
use crate::metric::Contingency;
use crate::posterior::{Posterior, Predictor};
use crate::process::Process;

/// How alike two posteriors are, measured on rows drawn from the components of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Adjusted Rand index of the labels that the two give to the same rows.
    pub adjusted_rand: f64,
    /// Mean of `log p₁(x) − log p₂(x)`: the information lost when the second stands for the first, in nats.
    pub divergence: f64,
    /// Rows that were drawn.
    pub rows_drawn: usize,
}

/// Draws rows from the components of `first` and looks at them with both. `None` when `first` has no rows.
pub fn compare<F: Family, P: Process, G: Family, Q: Process>(
    first: &Posterior<F, P>,
    second: &Posterior<G, Q>,
    n_rows: usize,
    rng: &mut dyn Rng,
) -> Option<Comparison> {
    debug_assert_eq!(first.family().dimensions(), second.family().dimensions(), "the same columns");
    let masses: Vec<f64> = first.components().iter().map(|c| c.expected_count()).collect();
    let total: f64 = masses.iter().sum();
    if total <= 0.0 || n_rows == 0 {
        return None;
    }
    let (ours, theirs) = (Predictor::new(first), Predictor::new(second));
    let mut row = vec![0.0; first.family().dimensions()];
    let mut table = Contingency::default();
    let mut divergence = 0.0;
    for _ in 0..n_rows {
        let mut left = rng.random::<f64>() * total;
        let reached = |mass: &f64| {
            left -= mass;
            left < 0.0
        };
        let drawn = masses.iter().position(reached).unwrap_or(masses.len() - 1);
        first.family().sample(&first.components()[drawn].evidence().stats, rng, &mut row);
        let label = |predictor: &Predictor| predictor.label(&row).map_or(u64::MAX, |id| id.0);
        table.add(label(&ours), label(&theirs) as i64);
        divergence += (ours.ln_density(&row) - theirs.ln_density(&row)) / n_rows as f64;
    }
    Some(Comparison { adjusted_rand: table.adjusted_rand()?, divergence, rows_drawn: n_rows })
}

#[cfg(test)]
mod tests {
    use super::super::overlap::tests::{line, rng};
    use super::*;

    #[test]
    fn a_posterior_is_like_itself() {
        let posterior = line(&[(300.0, 0.0), (200.0, 2.0), (100.0, 9.0)]);
        let same = compare(&posterior, &posterior, 500, &mut rng()).unwrap();
        assert_eq!((same.adjusted_rand, same.divergence), (1.0, 0.0));
    }

    #[test]
    fn a_cluster_cut_in_two_lowers_the_agreement_and_not_the_density() {
        let whole = line(&[(2000.0, 0.0), (2000.0, 30.0)]);
        let cut = line(&[(1000.0, -0.01), (1000.0, 0.01), (2000.0, 30.0)]);
        let found = compare(&whole, &cut, 2000, &mut rng()).unwrap();
        assert!(found.adjusted_rand < 0.9, "{found:?}");
        assert!(found.divergence.abs() < 0.01, "{found:?}");
    }

    /// Two normals of variance 1 at a distance of d: half of d².
    #[test]
    fn the_divergence_of_two_normals_is_the_known_one() {
        let found = compare(&line(&[(1e6, 0.0)]), &line(&[(1e6, 1.0)]), 20_000, &mut rng()).unwrap();
        assert!((found.divergence - 0.5).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn nothing_cannot_be_compared() {
        assert_eq!(compare(&line(&[]), &line(&[(5.0, 0.0)]), 10, &mut rng()), None);
    }
}
