//! Exact `E[log p(z)]` under independent categorical labels, `P(z_j = k) = π_jk`.
//!
//! ```text
//! by enumeration    Σ_z Π_j π_{j z_j} log p(z)                                              any exchangeable p, N ≤ 10
//! by convolution    Σ_k Σ_n P(n_k = n) 1[n > 0] (log α + log Γ(n)) − Σ_{i<N} log(α + i)     Dirichlet process, any N
//! ```

use crate::partitions::{counts, label_vectors};

/// Sums over all label vectors. `ln_p` sees the number of data with each label; vectors of probability 0 are left out.
pub fn by_enumeration(pi: &[Vec<f64>], ln_p: impl Fn(&[usize]) -> f64) -> f64 {
    let n_labels = pi.first().map_or(1, Vec::len);
    label_vectors(pi.len(), n_labels)
        .map(|labels| {
            let probability: f64 = labels.iter().zip(pi).map(|(label, row)| row[*label]).product();
            if probability > 0.0 { probability * ln_p(&counts(&labels, n_labels)) } else { 0.0 }
        })
        .sum()
}

/// Exact for the Dirichlet process and any number of data: counts are Poisson–binomial.
pub fn dirichlet_by_convolution(pi: &[Vec<f64>], alpha: f64) -> f64 {
    let n_labels = pi.first().map_or(0, Vec::len);
    let ln_normaliser: f64 = (0..pi.len()).map(|i| (alpha + i as f64).ln()).sum();
    let components: f64 = (0..n_labels)
        .map(|label| {
            let column: Vec<f64> = pi.iter().map(|row| row[label]).collect();
            expected_block_term(&poisson_binomial(&column), alpha)
        })
        .sum();
    components - ln_normaliser
}

/// `E[log α + log Γ(n); n > 0]`, with `log Γ(n)` as the running sum of `log 1 + … + log(n − 1)`.
fn expected_block_term(count_distribution: &[f64], alpha: f64) -> f64 {
    let (mut sum, mut ln_gamma) = (0.0, 0.0);
    for (n, probability) in count_distribution.iter().enumerate().skip(1) {
        if n > 1 {
            ln_gamma += ((n - 1) as f64).ln();
        }
        sum += probability * (alpha.ln() + ln_gamma);
    }
    sum
}

/// `P(n = 0), …, P(n = N)` of the number of successes in independent trials.
pub fn poisson_binomial(success: &[f64]) -> Vec<f64> {
    let mut distribution = vec![0.0; success.len() + 1];
    distribution[0] = 1.0;
    for (trial, p) in success.iter().enumerate() {
        for n in (0..=trial).rev() {
            distribution[n + 1] += distribution[n] * p;
            distribution[n] *= 1.0 - p;
        }
    }
    distribution
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::partitions::ln_eppf_dirichlet;
    use crate::random::label_matrix;

    #[test]
    fn enumeration_and_convolution_agree() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for alpha in [0.01, 1.0, 30.0] {
            let pi = label_matrix(&mut rng, 6, 3, 0.8);
            let enumerated = by_enumeration(&pi, |counts| ln_eppf_dirichlet(counts, alpha));
            assert!((enumerated - dirichlet_by_convolution(&pi, alpha)).abs() < 1e-11);
        }
    }

    #[test]
    fn equal_trials_are_binomial() {
        assert_eq!(poisson_binomial(&[0.5; 3]), [0.125, 0.375, 0.375, 0.125]);
    }
}
