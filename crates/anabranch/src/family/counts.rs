//! What the families of counts, codes and bits share: domain checks, column means and the Dirichlet's `E log θ`.
//!
//! ```text
//! E log θ_v = ψ(λ_v) − ψ(Σλ),     A = Σ_v log Γ(λ_v) − log Γ(Σλ)
//! ```

use super::{DomainError, PriorError};
use crate::batch::Batch;
use crate::math::special::{digamma, ln_gamma};

/// The largest count a column may hold: above it doubles skip whole numbers.
pub(crate) const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Refuses values that are not whole numbers from 0 to 2⁵³, nor missing.
pub(crate) fn check_counts(x: &[f64]) -> Result<(), DomainError> {
    let is_count = |v: f64| (0.0..=LARGEST_COUNT).contains(&v) && v.fract() == 0.0;
    match x.iter().position(|&v| !is_count(v) && !v.is_nan()) {
        None => Ok(()),
        Some(column) => {
            Err(DomainError { column, value: x[column], expected: "a whole number of at least 0" })
        }
    }
}

/// True for sums of counts: finite and not negative.
pub(crate) fn are_sums(stats: &[f64]) -> bool {
    stats.iter().all(|s| s.is_finite() && *s >= 0.0)
}

/// Weighted mean of each column of rows that pass `check`.
pub(crate) fn column_means(
    rows: &Batch,
    check: impl Fn(&[f64]) -> Result<(), DomainError>,
) -> Result<Vec<f64>, PriorError> {
    let mass = rows.mass();
    let has_mass = mass > 0.0;
    if !has_mass {
        return Err(PriorError::NoRows);
    }
    let mut means = vec![0.0; rows.dimensions()];
    let mut known = vec![0.0; rows.dimensions()];
    for (row, x) in rows.rows().enumerate() {
        check(x).map_err(|source| PriorError::Row { row, source })?;
        let share = rows.weights().map_or(1.0, |weights| weights[row]) / mass;
        for ((mean, known), x) in means.iter_mut().zip(&mut known).zip(x).filter(|(_, x)| !x.is_nan()) {
            *mean += share * x;
            *known += share;
        }
    }
    if rows.has_missing() {
        means.iter_mut().zip(&known).filter(|(_, known)| **known > 0.0).for_each(|(mean, n)| *mean /= n);
    }
    Ok(means)
}

/// Writes a row with these values where one is missing.
pub(crate) fn known_or(x: &[f64], otherwise: impl Iterator<Item = f64>, out: &mut [f64]) {
    for (out, (x, otherwise)) in out.iter_mut().zip(x.iter().zip(otherwise)) {
        *out = if x.is_nan() { otherwise } else { *x };
    }
}

/// `log x!`; 0 where `x` is missing.
pub(crate) fn ln_factorial(x: f64) -> f64 {
    // Most counts are 0 or 1.
    if x > 1.0 { ln_gamma(x + 1.0) } else { 0.0 }
}

/// Writes `E log θ` under a Dirichlet distribution and returns its log-partition function.
pub(crate) fn dirichlet_natural(pseudo_counts: impl Iterator<Item = f64>, phi: &mut [f64]) -> f64 {
    let (mut ln_partition, mut total) = (0.0, 0.0);
    for (value, count) in phi.iter_mut().zip(pseudo_counts) {
        *value = digamma(count);
        ln_partition += ln_gamma(count);
        total += count;
    }
    let of_total = digamma(total);
    phi.iter_mut().for_each(|value| *value -= of_total);
    ln_partition - ln_gamma(total)
}
