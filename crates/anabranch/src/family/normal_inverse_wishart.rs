//! The normal-inverse-Wishart distribution: its parameters, and the scatter matrix of a posterior kept proper.
//!
//! ```text
//! Σ ~ IW(Ψ₀, ν₀),   μ | Σ ~ N(m₀, Σ/κ₀)
//! Ψ = Ψ₀ + Σ(x − x̄)(x − x̄)ᵀ + κ₀n/κ · (x̄ − m₀)(x̄ − m₀)ᵀ
//! ```

use serde::{Deserialize, Serialize};

use super::Frame;
use super::error::{PriorError, require_len, require_positive, require_real};
use crate::math::cholesky::{self, packed_len, row_start};

/// Parameters of a normal-inverse-Wishart distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalInverseWishart {
    /// Expected mean `m₀`.
    pub mean: Vec<f64>,
    /// Rows that the expected mean counts for, `κ₀ > 0`.
    pub kappa: f64,
    /// Scatter matrix `Ψ₀`: upper triangle, row after row.
    pub psi: Vec<f64>,
    /// Degrees of freedom `ν₀ > D − 1`; the expected covariance is `Ψ₀ / (ν₀ − D − 1)`.
    pub dof: f64,
}

impl NormalInverseWishart {
    /// A prior whose scatter matrix is diagonal.
    pub fn with_diagonal_psi(mean: Vec<f64>, kappa: f64, psi_diagonal: &[f64], dof: f64) -> Self {
        let d = psi_diagonal.len();
        let mut psi = vec![0.0; packed_len(d)];
        for (column, value) in psi_diagonal.iter().enumerate() {
            psi[row_start(d, column)] = *value;
        }
        Self { mean, kappa, psi, dof }
    }

    pub(crate) fn validate(&self, dimensions: usize) -> Result<(), PriorError> {
        require_len("the prior mean", dimensions, self.mean.len())?;
        require_len("the prior scatter matrix", packed_len(dimensions), self.psi.len())?;
        require_real("the prior mean", &self.mean)?;
        require_real("the prior scatter matrix", &self.psi)?;
        require_positive("kappa", &[self.kappa])?;
        require_positive("the degrees of freedom", &[self.dof])?;
        for column in 0..dimensions {
            require_positive(
                "the diagonal of the prior scatter matrix",
                &[self.psi[row_start(dimensions, column)]],
            )?;
        }
        // Below this excess log Γ_D(ν/2) has no digits left.
        const LEAST_EXCESS: f64 = 1e-6;
        let enough = self.dof - (dimensions as f64 - 1.0) >= LEAST_EXCESS;
        if !enough {
            return Err(PriorError::DegreesOfFreedom { dof: self.dof, dimensions });
        }
        let mut factor = vec![0.0; packed_len(dimensions)];
        match cholesky::factor(dimensions, &self.psi, &mut factor) {
            Some(_) => Ok(()),
            None => Err(PriorError::NotPositiveDefinite),
        }
    }

    /// The same distribution with columns shifted and divided: `m → (m − shift)/scale`, `Ψ_ij → Ψ_ij / (scale_i scale_j)`.
    pub(crate) fn framed(mut self, frame: &Frame) -> Self {
        let d = frame.dimensions();
        let data_mean = self.mean.clone();
        frame.apply(&data_mean, &mut self.mean);
        let scale = frame.scale();
        for i in 0..d {
            for j in i..d {
                self.psi[row_start(d, i) + j - i] /= scale[i] * scale[j];
            }
        }
        self
    }
}

/// `Ψ += Σ(x − x̄)(x − x̄)ᵀ + n · prior_share · (x̄ − m₀)(x̄ − m₀)ᵀ`.
///
/// The two parts are formed apart: each is a square, so cancellation in the first cannot eat the second or `Ψ₀`.
pub(crate) fn add_scatter(
    count: f64,
    prior_share: f64,
    prior_mean: &[f64],
    sum: &[f64],
    squares: &[f64],
    psi: &mut [f64],
) {
    let d = sum.len();
    let inverse_count = 1.0 / count;
    let mut start = 0;
    for i in 0..d {
        let mean_i = sum[i] * inverse_count;
        let offset_i = mean_i - prior_mean[i];
        let pull_i = count * prior_share * offset_i;
        let end = start + d - i;
        // A sum of squares is not negative, whatever cancellation says.
        psi[start] += (squares[start] - mean_i * sum[i]).max(0.0) + pull_i * offset_i;
        let row = psi[start + 1..end].iter_mut().zip(&squares[start + 1..end]);
        for ((value, square), (sum_j, prior_mean_j)) in row.zip(sum[i + 1..].iter().zip(&prior_mean[i + 1..]))
        {
            *value += (square - mean_i * sum_j) + pull_i * (sum_j * inverse_count - prior_mean_j);
        }
        start = end;
    }
}

/// Factors `Ψ`; when cancellation has made it indefinite, after the smallest repair that helps (PROPER).
pub(crate) fn factor_or_repair(dimensions: usize, psi: &mut [f64], factor: &mut [f64]) -> f64 {
    match cholesky::factor(dimensions, psi, factor) {
        Some(ln_determinant) => ln_determinant,
        None => repair(dimensions, psi, factor),
    }
}

/// Inflates the diagonal by a growing share of itself, from the rounding of one sum upwards.
///
/// The diagonal holds at least `Ψ₀`, so this terminates: with correlations clamped to ±1, a diagonal inflated `D` times
/// dominates.
#[cold]
fn repair(dimensions: usize, psi: &mut [f64], factor: &mut [f64]) -> f64 {
    const FIRST_SHARE: f64 = 16.0 * f64::EPSILON;
    const GROWTH: f64 = 8.0;
    let diagonal = |psi: &[f64], i: usize| psi[row_start(dimensions, i)];
    for i in 0..dimensions {
        for j in i + 1..dimensions {
            let bound = diagonal(psi, i).sqrt() * diagonal(psi, j).sqrt();
            let ix = row_start(dimensions, i) + j - i;
            // Not `clamp`, which panics when the bound is NaN.
            psi[ix] = psi[ix].max(-bound).min(bound);
        }
    }
    let mut share = FIRST_SHARE;
    while share < 16.0 * dimensions as f64 {
        for i in 0..dimensions {
            psi[row_start(dimensions, i)] *= 1.0 + share;
        }
        if let Some(ln_determinant) = cholesky::factor(dimensions, psi, factor) {
            return ln_determinant;
        }
        share *= GROWTH;
    }
    debug_assert!(psi.iter().any(|v| !v.is_finite()), "a dominant diagonal has a Cholesky factor");
    factor.fill(0.0);
    let mut ln_determinant = 0.0;
    for i in 0..dimensions {
        let variance = diagonal(psi, i).clamp(f64::MIN_POSITIVE, f64::MAX);
        factor[row_start(dimensions, i)] = variance.sqrt();
        ln_determinant += variance.ln();
    }
    ln_determinant
}
