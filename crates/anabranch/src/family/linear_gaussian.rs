//! Features that add up: a row is the sum of the features it has, and noise.
//!
//! ```text
//! x = Σ_k z_k θ_k + ε,   ε ~ N(0, σ_x² I),   θ_k ~ N(0, σ_A² I),   q(θ_k) = N(μ_k, I/τ_k)
//!
//! S = ( Σ_n π_n,  Σ_n π_n (x_n − Σ_{l≠k} π_nl μ_l) )
//! τ = 1/σ_A² + S₀/σ_x²,   τμ = S₁/σ_x²,   A = |τμ|²/(2τ) − D/2 · log τ + D/2 · log 2π
//! ```
//!
//! The sums hold neither variance, so that both can be learned while the stream goes on.

use serde::{Deserialize, Serialize};

use super::error::{require_positive, require_some};
use super::{Conjugate, DomainError, PriorError};
use crate::math::special::LN_2PI;

/// Features with a normal prior under normal noise.
///
/// ```
/// use anabranch::family::LinearGaussian;
/// let family = LinearGaussian::new(2, 0.25, 1.0).unwrap();
/// // Three rows with the feature, whose remainders sum to (3, 0): shrunk towards 0 by the prior.
/// let (mean, precision) = family.feature(&[3.0, 3.0, 0.0]);
/// assert_eq!((mean[0], precision), (12.0 / 13.0, 13.0));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct LinearGaussian {
    dimensions: usize,
    noise: f64,
    scale: f64,
}

/// What is read from a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    dimensions: usize,
    noise: f64,
    scale: f64,
}

impl TryFrom<Unchecked> for LinearGaussian {
    type Error = PriorError;

    fn try_from(raw: Unchecked) -> Result<Self, PriorError> {
        Self::new(raw.dimensions, raw.noise, raw.scale)
    }
}

/// Learned variances stay within what may be given.
const VARIANCES: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

impl LinearGaussian {
    /// Rows of this many columns, with the variances `σ_x²` of the noise and `σ_A²` of the features.
    pub fn new(dimensions: usize, noise: f64, scale: f64) -> Result<Self, PriorError> {
        require_some("a row of features", dimensions)?;
        require_positive("the variance of the noise", &[noise])?;
        require_positive("the variance of the features", &[scale])?;
        Ok(Self { dimensions, noise, scale })
    }

    /// Sums of products of features and rows stay far inside what a model may hold while numbers lie within ± this.
    pub const LARGEST: f64 = 1e40;
    /// The same in words.
    pub const DOMAIN: &str = "a number within ±1e40";

    /// Checks that a row lies in the domain.
    pub fn check(&self, row: &[f64]) -> Result<(), DomainError> {
        let inside = |value: &f64| value.abs() <= Self::LARGEST;
        match row.iter().position(|value| !inside(value)) {
            None => Ok(()),
            Some(column) => Err(DomainError { column, value: row[column], expected: Self::DOMAIN }),
        }
    }

    /// Columns of a row.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Variance `σ_x²` of the noise.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// Variance `σ_A²` of the features.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The same with other variances, kept within what a machine can hold.
    pub(crate) fn with_variances(&self, noise: f64, scale: f64) -> Self {
        let kept = |value: f64| value.clamp(*VARIANCES.start(), *VARIANCES.end());
        Self { dimensions: self.dimensions, noise: kept(noise), scale: kept(scale) }
    }

    /// Mean `μ` and precision `τ` of a feature with these sums.
    pub fn feature(&self, stats: &[f64]) -> (Vec<f64>, f64) {
        let precision = self.precision(stats);
        (stats[1..].iter().map(|s| s / self.noise / precision).collect(), precision)
    }

    fn precision(&self, stats: &[f64]) -> f64 {
        1.0 / self.scale + stats[0] / self.noise
    }
}

impl Conjugate for LinearGaussian {
    fn n_features(&self) -> usize {
        1 + self.dimensions
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        let precision = self.precision(stats);
        let square: f64 = stats[1..].iter().map(|s| (s / self.noise) * (s / self.noise)).sum();
        0.5 * (square / precision + self.dimensions as f64 * (LN_2PI - precision.ln()))
    }

    /// `φ · (1, x) = E[log N(x | θ, σ_x² I)]` up to the terms of `x` alone: what a row says when it has no other feature.
    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let (mean, precision) = self.feature(stats);
        let square: f64 = mean.iter().map(|m| m * m).sum();
        phi[0] = -0.5 * (square + self.dimensions as f64 / precision) / self.noise;
        phi[1..].iter_mut().zip(&mean).for_each(|(phi, m)| *phi = m / self.noise);
        self.log_partition(stats)
    }

    fn admits(&self, stats: &[f64]) -> bool {
        stats.iter().all(|s| s.abs() <= 1e150)
            && stats[0] >= 0.0
            && (stats[0] > 0.0 || stats.iter().all(|s| *s == 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `A(S) − A(0)` is the log marginal likelihood of rows with the feature, against rows without: by numerical
    /// integration over the one number that a feature of one column is.
    #[test]
    fn the_log_partition_is_an_integral() {
        let family = LinearGaussian::new(1, 0.7, 2.0).unwrap();
        let rows = [1.2, -0.4, 0.9];
        let stats = [3.0, rows.iter().sum()];
        let ln_normal = |x: f64, mean: f64, variance: f64| {
            -0.5 * ((x - mean) * (x - mean) / variance + variance.ln() + LN_2PI)
        };
        let step = 1e-3;
        let integral: f64 = (-20_000..20_000)
            .map(|ix| {
                let theta = f64::from(ix) * step;
                let with: f64 =
                    rows.iter().map(|x| ln_normal(*x, theta, 0.7) - ln_normal(*x, 0.0, 0.7)).sum();
                (ln_normal(theta, 0.0, 2.0) + with).exp() * step
            })
            .sum();
        let gain = family.log_partition(&stats) - family.log_partition(&[0.0, 0.0]);
        assert!((gain - integral.ln()).abs() < 1e-9, "{gain} {}", integral.ln());
    }

    #[test]
    fn the_gradient_of_the_log_partition_is_the_expectation() {
        let family = LinearGaussian::new(2, 0.3, 1.5).unwrap();
        let stats = [4.0, 2.5, -1.0];
        let mut phi = [0.0; 3];
        family.expected_natural(&stats, &mut phi);
        for ix in 0..3 {
            let moved = |step: f64| {
                let mut moved = stats;
                moved[ix] += step;
                family.log_partition(&moved)
            };
            let gradient = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((gradient - phi[ix]).abs() < 1e-6, "{ix}: {gradient} {}", phi[ix]);
        }
    }

    #[test]
    fn variances_that_are_none_are_refused() {
        assert!(LinearGaussian::new(2, 0.0, 1.0).is_err());
        assert!(LinearGaussian::new(2, 1.0, f64::NAN).is_err());
        assert!(LinearGaussian::new(0, 1.0, 1.0).is_err());
        let family = LinearGaussian::new(1, 1.0, 1.0).unwrap();
        assert!(!family.admits(&[-1.0, 0.0]) && !family.admits(&[0.0, 1.0]) && family.admits(&[0.0, 0.0]));
    }
}
