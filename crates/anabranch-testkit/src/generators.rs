//! The paper's synthetic stream (§4): a mixture of Gaussians whose clusters come from a normal–inverse-Wishart.
//!
//! ```text
//! Σ_k ~ IW(Ψ, ν),  μ_k ~ N(m₀, Σ_k / κ),  weight_k ~ U(0, 1) normalised        D = 2: m₀ = 0, κ = 1e-3, Ψ = I, ν = 4
//! ```
//!
//! A cluster keeps the lower triangular `B` with `Σ⁻¹ = B Bᵀ` (Bartlett's decomposition): drawing is a back
//! substitution in `Bᵀ`, the density needs `|Bᵀ(x − μ)|²` and the diagonal of `B`. Nothing is inverted.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{ChiSquared, Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A normal–inverse-Wishart distribution with `Ψ = scale·I`.
#[derive(Clone, Debug)]
pub struct NormalInverseWishart {
    /// Mean of the means, `m₀`; its length is the dimension.
    pub mean: Vec<f64>,
    /// `κ`: how many data the mean is worth.
    pub kappa: f64,
    /// `Ψ = scale·I`.
    pub scale: f64,
    /// Degrees of freedom `ν > D − 1`.
    pub dof: f64,
}

impl NormalInverseWishart {
    /// What the paper's synthetic clusters are drawn from.
    pub fn of_the_paper() -> Self {
        Self { mean: vec![0.0; 2], kappa: 1e-3, scale: 1.0, dof: 4.0 }
    }

    /// Draws one cluster.
    pub fn draw(&self, rng: &mut impl Rng) -> Gaussian {
        let d = self.mean.len();
        let mut precision_factor = vec![vec![0.0; d]; d];
        for (i, row) in precision_factor.iter_mut().enumerate() {
            for entry in row.iter_mut().take(i) {
                *entry = normal(rng) / self.scale.sqrt();
            }
            let chi_squared =
                ChiSquared::new(self.dof - i as f64).expect("more degrees of freedom than D − 1");
            row[i] = (chi_squared.sample(rng) / self.scale).sqrt();
        }
        let mut cluster = Gaussian { mean: self.mean.clone(), precision_factor };
        cluster.mean = cluster.draw_with_spread(rng, 1.0 / self.kappa.sqrt());
        cluster
    }
}

/// A Gaussian with mean `μ` and precision `Σ⁻¹ = B Bᵀ`.
#[derive(Clone, Debug)]
pub struct Gaussian {
    /// The mean.
    pub mean: Vec<f64>,
    /// `B`, lower triangular, row by row.
    pub precision_factor: Vec<Vec<f64>>,
}

impl Gaussian {
    /// Draws one datum.
    pub fn draw(&self, rng: &mut impl Rng) -> Vec<f64> {
        self.draw_with_spread(rng, 1.0)
    }

    /// `μ + spread·B⁻ᵀ z` for standard normal `z`: covariance `spread²·Σ`.
    fn draw_with_spread(&self, rng: &mut impl Rng, spread: f64) -> Vec<f64> {
        let d = self.mean.len();
        let mut y: Vec<f64> = (0..d).map(|_| spread * normal(rng)).collect();
        for i in (0..d).rev() {
            let below: f64 = (i + 1..d).map(|j| self.precision_factor[j][i] * y[j]).sum();
            y[i] = (y[i] - below) / self.precision_factor[i][i];
        }
        y.iter().zip(&self.mean).map(|(y, mean)| y + mean).collect()
    }

    /// Log-density.
    pub fn ln_density(&self, x: &[f64]) -> f64 {
        let d = self.mean.len();
        let offset: Vec<f64> = x.iter().zip(&self.mean).map(|(x, mean)| x - mean).collect();
        let whitened = (0..d).map(|i| (i..d).map(|j| self.precision_factor[j][i] * offset[j]).sum::<f64>());
        let squared: f64 = whitened.map(|w| w * w).sum();
        let ln_diagonal: f64 = (0..d).map(|i| self.precision_factor[i][i].ln()).sum();
        ln_diagonal - 0.5 * (squared + d as f64 * std::f64::consts::TAU.ln())
    }
}

/// A mixture of Gaussians: the truth behind a synthetic stream.
#[derive(Clone, Debug)]
pub struct Mixture {
    /// Weights, summing to one.
    pub weights: Vec<f64>,
    /// Clusters, one for each weight.
    pub clusters: Vec<Gaussian>,
}

impl Mixture {
    /// `k` clusters with weights from U(0, 1), normalised.
    pub fn draw(rng: &mut impl Rng, k: usize, clusters_from: &NormalInverseWishart) -> Self {
        let clusters = (0..k).map(|_| clusters_from.draw(rng)).collect();
        let raw: Vec<f64> = (0..k).map(|_| rng.random::<f64>()).collect();
        let total: f64 = raw.iter().sum();
        Self { weights: raw.iter().map(|w| w / total).collect(), clusters }
    }

    /// Log-density.
    pub fn ln_density(&self, x: &[f64]) -> f64 {
        let terms: Vec<f64> =
            self.weights.iter().zip(&self.clusters).map(|(w, c)| w.ln() + c.ln_density(x)).collect();
        let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        largest + terms.iter().map(|term| (term - largest).exp()).sum::<f64>().ln()
    }

    /// Index of a cluster, with the mixture's weights.
    fn draw_label(&self, rng: &mut impl Rng) -> usize {
        let mut left = rng.random::<f64>();
        for (label, weight) in self.weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return label;
            }
        }
        // Weights may sum to a little less than one.
        self.weights.len() - 1
    }
}

/// Rows, the cluster each came from, and the mixture they came from.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Number of columns.
    pub dimensions: usize,
    /// Rows, one after another.
    pub rows: Vec<f64>,
    /// Index of the true cluster of each row.
    pub labels: Vec<usize>,
    /// The truth.
    pub mixture: Mixture,
}

/// `n` rows from a mixture of `k` clusters; the seed fixes everything.
pub fn synthetic(seed: u64, n: usize, k: usize, clusters_from: &NormalInverseWishart) -> Synthetic {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mixture = Mixture::draw(&mut rng, k, clusters_from);
    let dimensions = clusters_from.mean.len();
    let (mut rows, mut labels) = (Vec::with_capacity(n * dimensions), Vec::with_capacity(n));
    for _ in 0..n {
        let label = mixture.draw_label(&mut rng);
        rows.extend(mixture.clusters[label].draw(&mut rng));
        labels.push(label);
    }
    Synthetic { dimensions, rows, labels, mixture }
}

fn normal(rng: &mut impl Rng) -> f64 {
    StandardNormal.sample(rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty thousand draws: four standard errors of a mean of unit-variance terms are 0.03.
    const SAMPLING_ERROR: f64 = 0.03;
    const N_DRAWS: usize = 20_000;

    #[test]
    fn the_seed_fixes_the_stream() {
        let paper = NormalInverseWishart::of_the_paper();
        let (one, other) = (synthetic(3, 50, 4, &paper), synthetic(3, 50, 4, &paper));
        assert_eq!(one.rows, other.rows);
        assert_ne!(one.rows, synthetic(4, 50, 4, &paper).rows);
        assert_eq!((one.rows.len(), one.labels.len(), one.mixture.clusters.len()), (100, 50, 4));
    }

    #[test]
    fn the_density_integrates_to_one() {
        let b = vec![vec![1.3, 0.0], vec![-0.4, 0.9]];
        let gaussian = Gaussian { mean: vec![0.2, -0.1], precision_factor: b };
        let mixture = Mixture { weights: vec![0.3, 0.7], clusters: vec![gaussian.clone(), gaussian] };
        let step = 0.1;
        let grid = || (-100..=100).map(move |i| f64::from(i) * step);
        let mass: f64 =
            grid().flat_map(|x| grid().map(move |y| [x, y])).map(|x| mixture.ln_density(&x).exp()).sum();
        assert!((mass * step * step - 1.0).abs() < 1e-9, "{mass}");
    }

    #[test]
    fn draws_have_the_covariance_that_the_density_says() {
        let b = vec![vec![1.3, 0.0], vec![-0.4, 0.9]];
        let gaussian = Gaussian { mean: vec![5.0, -2.0], precision_factor: b };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        // E[−ln p(x)] is the entropy, ½ D (1 + ln 2π) − ln|B|.
        let mean_ln_density =
            (0..N_DRAWS).map(|_| gaussian.ln_density(&gaussian.draw(&mut rng))).sum::<f64>() / N_DRAWS as f64;
        let negative_entropy = (1.3f64 * 0.9).ln() - (1.0 + std::f64::consts::TAU.ln());
        assert!((mean_ln_density - negative_entropy).abs() < SAMPLING_ERROR);
    }

    #[test]
    fn the_mean_precision_of_clusters_is_that_of_the_wishart() {
        let niw = NormalInverseWishart { mean: vec![0.0; 3], kappa: 1.0, scale: 2.0, dof: 6.0 };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
        let mut precision = [[0.0; 3]; 3];
        for _ in 0..N_DRAWS {
            let b = niw.draw(&mut rng).precision_factor;
            for (i, row) in precision.iter_mut().enumerate() {
                for (j, entry) in row.iter_mut().enumerate() {
                    *entry += (0..3).map(|l| b[i][l] * b[j][l]).sum::<f64>() / N_DRAWS as f64;
                }
            }
        }
        // E Σ⁻¹ = ν Ψ⁻¹ = 3 I, with standard deviation √(2ν)/scale ≈ 1.7 on the diagonal.
        for (i, row) in precision.iter().enumerate() {
            for (j, entry) in row.iter().enumerate() {
                assert!(
                    (entry - if i == j { 3.0 } else { 0.0 }).abs() < 2.0 * SAMPLING_ERROR,
                    "{i} {j} {entry}"
                );
            }
        }
    }
}
