//! What the laws share: statistics of label matrices, random matrices, and the parameters that are tried.

use anabranch::process::{Bound, LabelStatistics};
use anabranch_testkit::random::label_matrix;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Sums of at most a few thousand products of order one to ten: rounding stays well below this.
pub(crate) const ROUNDING: f64 = 1e-10;
/// The vectors come from another implementation.
pub(crate) const VECTOR_TOLERANCE: f64 = 1e-9;

pub(crate) const BOUNDS: [Bound; 2] = [Bound::Paper, Bound::Conditional];

pub(crate) fn statistics(pi: &[Vec<f64>]) -> Vec<LabelStatistics> {
    let mut components = vec![LabelStatistics::default(); pi[0].len()];
    for row in pi {
        row.iter().zip(&mut components).for_each(|(p, stats)| stats.observe(*p, 1.0));
    }
    components
}

/// Concentrations and discounts from a Dirichlet process to the edge of the domain, `α` below 0 included.
pub(crate) const PITMAN_YOR: [(f64, f64); 8] =
    [(1.0, 0.0), (0.01, 0.1), (5.0, 0.25), (1.0, 0.5), (-0.4, 0.5), (30.0, 0.7), (0.3, 0.95), (-0.9, 0.91)];

/// Label matrices from nearly hard to nearly uniform.
pub(crate) fn label_matrices(n_cases: usize, seed: u64) -> impl Iterator<Item = Vec<Vec<f64>>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..n_cases).map(move |_| {
        let (n, k) = (rng.random_range(1..=7), rng.random_range(1..=4));
        let concentration = 10f64.powf(rng.random_range(-2.0..1.5));
        label_matrix(&mut rng, n, k, concentration)
    })
}

pub(crate) fn assert_close(name: &str, found: f64, expected: f64) {
    let close = found == expected || (found - expected).abs() <= VECTOR_TOLERANCE * expected.abs().max(1.0);
    assert!(close, "{name}: found {found}, expected {expected}");
}
