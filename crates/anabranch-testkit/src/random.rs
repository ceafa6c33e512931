//! Random responsibilities: rows of probabilities from a symmetric Dirichlet distribution.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};

/// `n` rows of `k` probabilities. A small concentration makes nearly hard labels, a large one nearly uniform.
pub fn label_matrix(rng: &mut impl Rng, n: usize, k: usize, concentration: f64) -> Vec<Vec<f64>> {
    let gamma = Gamma::new(concentration, 1.0).expect("a positive concentration");
    (0..n)
        .map(|_| {
            let row: Vec<f64> = (0..k).map(|_| gamma.sample(rng)).collect();
            let total: f64 = row.iter().sum();
            // With a tiny concentration all entries may underflow: that row is a hard label.
            if total > 0.0 { row.iter().map(|v| v / total).collect() } else { hard_row(rng, k) }
        })
        .collect()
}

/// `n` rows with a single 1, uniformly placed among `k`.
pub fn hard_label_matrix(rng: &mut impl Rng, n: usize, k: usize) -> Vec<Vec<f64>> {
    (0..n).map(|_| hard_row(rng, k)).collect()
}

fn hard_row(rng: &mut impl Rng, k: usize) -> Vec<f64> {
    let mut row = vec![0.0; k];
    row[rng.random_range(0..k)] = 1.0;
    row
}
