//! Where features begin: directions of the rows that are independent of each other and have two values each.
//!
//! ```text
//! x = Σ_k z_k θ_k + ε:    C = Σ_k p_k(1 − p_k) θ_k θ_kᵀ + σ² I
//! ```
//!
//! Eigenvalues of `C` above the edge of noise are those of the features' span. In it, once it is made round, the features are
//! the directions whose projections are independent: found as in FastICA (Hyvärinen 1999), first by `tanh`, then by the
//! posterior mean of two values under noise. The third moment, to which normal noise adds nothing, tells how many rows have
//! the feature, and so how long it is. Whether `z` or `1 − z` is the feature follows from the mean: `x̄ = Σ p_k θ_k`.

use faer::{MatRef, Side};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::state::dot;
use crate::batch::{Batch, Minibatch};
use crate::math::product::{responsibilities_times_rows, rows_times_parameters};

/// Columns at most: beyond, an eigenvalue problem takes longer than the search.
const MOST_COLUMNS: usize = 1000;
/// Directions at most.
const MOST: usize = 100;
/// Rows for each column, at least.
const ROWS_EACH: usize = 4;
/// The largest eigenvalue of noise varies by about so much.
const EDGE: f64 = 1.02;
/// Steps with `tanh`, and in all.
const FIRST_STEPS: usize = 30;
const STEPS: usize = 80;
/// Directions have settled when none turns by more than this (1 − cosine).
const SETTLED: f64 = 1e-6;
/// Shares of rows are kept within these.
const SHARES: std::ops::RangeInclusive<f64> = 0.01..=0.99;
/// Noise around the two values, in units of their variance, at least.
const LEAST_NOISE: f64 = 0.02;
/// What is left of the mean is a feature of all rows when its square is more than this part of theirs.
const CONSTANT: f64 = 0.1;

/// Rows in the span of their features, scaled so that what is no noise has variance 1 in every direction.
pub(super) struct Signal {
    mean: Vec<f64>,
    /// Noise of a cell.
    noise: f64,
    /// Orthonormal directions, one after the other, and the deviations along them.
    directions: Vec<f64>,
    deviations: Vec<f64>,
    /// Row by row.
    round: Vec<f64>,
    /// Weights that sum to 1.
    weights: Vec<f64>,
}

/// Features to begin with, and how probable each is for each row.
pub(super) struct Independent {
    pub(super) noise: f64,
    pub(super) features: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Independent {
    /// Mean square of a cell of a feature.
    pub(super) fn scale(&self) -> f64 {
        let squares = self.features.iter().map(|(mean, _)| dot(mean, mean) / mean.len() as f64);
        squares.sum::<f64>() / self.features.len() as f64
    }
}

impl Signal {
    /// `None` where rows are too few for their columns, show nothing but noise, or hardly any.
    pub(super) fn of(rows: &Batch, most: usize) -> Option<Self> {
        let (n, d) = (rows.n_rows(), rows.dimensions());
        if d > MOST_COLUMNS || n < ROWS_EACH * d {
            return None;
        }
        let mass = rows.mass();
        let weights: Vec<f64> = (0..n).map(|row| rows.weight(row) / mass).collect();
        let mut mean = vec![0.0; d];
        for (row, weight) in rows.rows().zip(&weights) {
            mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += weight * x);
        }
        let centred: Vec<f64> =
            rows.rows().flat_map(|row| row.iter().zip(&mean).map(|(x, mean)| x - mean)).collect();
        let weighted: Vec<f64> = centred
            .chunks_exact(d)
            .zip(&weights)
            .flat_map(|(row, w)| row.iter().map(move |x| w * x))
            .collect();
        let mut covariance = vec![0.0; d * d];
        responsibilities_times_rows(&weighted, &centred, d, &mut covariance);
        let eigen = MatRef::from_row_major_slice(&covariance, d, d).self_adjoint_eigen(Side::Lower).ok()?;
        let (values, vectors) = (eigen.S().column_vector(), eigen.U());
        // The largest first.
        let values: Vec<f64> = (0..d).rev().map(|ix| values[ix].max(0.0)).collect();
        let (k, noise) = beyond_noise(&values, n)?;
        // Rows that fill most of their space are not a few features and the same noise everywhere.
        if 2 * k > d {
            return None;
        }
        let k = k.min(most).min(MOST);
        let directions: Vec<f64> =
            (0..k).flat_map(|ix| (0..d).map(move |row| vectors[(row, d - 1 - ix)])).collect();
        let deviations: Vec<f64> = values[..k].iter().map(|value| (value - noise).sqrt()).collect();
        let mut round = vec![0.0; n * k];
        rows_times_parameters(&centred, &directions, d, &mut round);
        for row in round.chunks_exact_mut(k) {
            row.iter_mut().zip(&deviations).for_each(|(value, deviation)| *value /= deviation);
        }
        Some(Self { mean, noise, directions, deviations, round, weights })
    }

    /// Independent directions from a random start.
    pub(super) fn independent(&self, rng: &mut impl Rng) -> Option<Independent> {
        let (k, d) = (self.deviations.len(), self.mean.len());
        let start: Vec<f64> = (0..k * k).map(|_| StandardNormal.sample(rng)).collect();
        let mut turn = orthogonal(&start, k)?;
        let mut along = vec![0.0; self.round.len()];
        for step in 0..STEPS {
            rows_times_parameters(&self.round, &turn, k, &mut along);
            let values = (step >= FIRST_STEPS).then(|| self.two_values(&along, &turn));
            let next = orthogonal(&self.turned(&mut along, &turn, values.as_deref()), k)?;
            let cosines = next.chunks_exact(k).zip(turn.chunks_exact(k)).map(|(a, b)| dot(a, b).abs());
            let settled = cosines.fold(1.0, f64::min) > 1.0 - SETTLED;
            turn = next;
            if settled && step > FIRST_STEPS {
                break;
            }
        }
        rows_times_parameters(&self.round, &turn, k, &mut along);
        let values = self.two_values(&along, &turn);
        // A direction in the span, in the units of the rows, as long as its two values are apart.
        let mut means: Vec<Vec<f64>> = (0..k)
            .map(|ix| {
                let mut mean = vec![0.0; d];
                for (along, (deviation, direction)) in turn[ix * k..(ix + 1) * k]
                    .iter()
                    .zip(self.deviations.iter().zip(self.directions.chunks_exact(d)))
                {
                    let by = along * deviation * values[ix].apart;
                    mean.iter_mut().zip(direction).for_each(|(mean, x)| *mean += by * x);
                }
                mean
            })
            .collect();
        let flipped = self.flipped(&means, &values)?;
        let mut rest = self.mean.clone();
        let mut features = Vec::with_capacity(k + 1);
        for (ix, flipped) in flipped.into_iter().enumerate() {
            let mut mean = std::mem::take(&mut means[ix]);
            let mut column: Vec<f64> =
                along.iter().skip(ix).step_by(k).map(|y| values[ix].upper(*y)).collect();
            let mut share = values[ix].share;
            if flipped {
                mean.iter_mut().for_each(|m| *m = -*m);
                column.iter_mut().for_each(|pi| *pi = 1.0 - *pi);
                share = 1.0 - share;
            }
            rest.iter_mut().zip(&mean).for_each(|(rest, m)| *rest -= share * m);
            features.push((mean, column));
        }
        let mut found = Independent { noise: self.noise, features };
        if dot(&rest, &rest) > CONSTANT * found.scale() * d as f64 {
            found.features.push((rest, vec![1.0; self.weights.len()]));
        }
        Some(found)
    }

    /// `E[s g(wᵀs)] − E[g′(wᵀs)] w` for every direction `w`; `g` is `tanh`, or the posterior mean of two values.
    fn turned(&self, along: &mut [f64], turn: &[f64], values: Option<&[TwoValues]>) -> Vec<f64> {
        let k = self.deviations.len();
        let mut slopes = vec![0.0; k];
        for (row, weight) in along.chunks_exact_mut(k).zip(&self.weights) {
            for (ix, y) in row.iter_mut().enumerate() {
                let (value, slope) = match values {
                    None => {
                        let value = y.tanh();
                        (value, 1.0 - value * value)
                    }
                    Some(values) => {
                        let upper = values[ix].upper(*y);
                        (upper, upper * (1.0 - upper) * values[ix].apart / values[ix].noise)
                    }
                };
                slopes[ix] += weight * slope;
                *y = weight * value;
            }
        }
        let mut turned = vec![0.0; k * k];
        responsibilities_times_rows(along, &self.round, k, &mut turned);
        for ((turned, turn), slope) in turned.chunks_exact_mut(k).zip(turn.chunks_exact(k)).zip(&slopes) {
            turned.iter_mut().zip(turn).for_each(|(turned, turn)| *turned -= slope * turn);
        }
        turned
    }

    /// The two values along each direction.
    fn two_values(&self, along: &[f64], turn: &[f64]) -> Vec<TwoValues> {
        let k = self.deviations.len();
        let mut thirds = vec![0.0; k];
        for (row, weight) in along.chunks_exact(k).zip(&self.weights) {
            thirds.iter_mut().zip(row).for_each(|(third, y)| *third += weight * y * y * y);
        }
        let noises = turn.chunks_exact(k).map(|turn| {
            let squares = turn.iter().zip(&self.deviations).map(|(t, deviation)| (t / deviation).powi(2));
            self.noise * squares.sum::<f64>()
        });
        thirds.into_iter().zip(noises).map(|(third, noise)| TwoValues::with(third, noise)).collect()
    }

    /// Which directions are features the other way round: `x̄ − Σ p_k θ_k` is a sum of those, by least squares.
    fn flipped(&self, means: &[Vec<f64>], values: &[TwoValues]) -> Option<Vec<bool>> {
        let k = means.len();
        let mut rest = self.mean.clone();
        for (mean, values) in means.iter().zip(values) {
            rest.iter_mut().zip(mean).for_each(|(rest, m)| *rest -= values.share * m);
        }
        let gram: Vec<f64> = means.iter().flat_map(|a| means.iter().map(|b| dot(a, b))).collect();
        let right: Vec<f64> = means.iter().map(|mean| -dot(mean, &rest)).collect();
        let eigen = MatRef::from_row_major_slice(&gram, k, k).self_adjoint_eigen(Side::Lower).ok()?;
        let (values, vectors) = (eigen.S().column_vector(), eigen.U());
        let mut times = vec![0.0; k];
        for ix in (0..k).filter(|ix| values[*ix] > 1e-9 * values[k - 1]) {
            let along: f64 = (0..k).map(|row| vectors[(row, ix)] * right[row]).sum::<f64>() / values[ix];
            (0..k).for_each(|row| times[row] += along * vectors[(row, ix)]);
        }
        Some(times.into_iter().map(|times| times > 0.5).collect())
    }
}

/// Two values with mean 0 and variance 1, of which rows have the upper one with probability `share`, under noise.
struct TwoValues {
    share: f64,
    apart: f64,
    noise: f64,
    ln_odds: f64,
}

impl TwoValues {
    /// The two values with this third moment, `(1 − 2p)/√(p(1 − p))`.
    fn with(third: f64, noise: f64) -> Self {
        let share = 0.5 * (1.0 - third / (4.0 + third * third).sqrt());
        let share = share.clamp(*SHARES.start(), *SHARES.end());
        let apart = 1.0 / (share * (1.0 - share)).sqrt();
        Self { share, apart, noise: noise.max(LEAST_NOISE), ln_odds: (share / (1.0 - share)).ln() }
    }

    /// Probability of the upper value.
    fn upper(&self, y: f64) -> f64 {
        let middle = (0.5 - self.share) * self.apart;
        1.0 / (1.0 + (-self.ln_odds - (y - middle) * self.apart / self.noise).exp())
    }
}

/// How many of the eigenvalues, the largest first, are above the edge of what noise would give, and the noise.
fn beyond_noise(values: &[f64], rows: usize) -> Option<(usize, f64)> {
    let mut trailing: f64 = values.iter().sum();
    for (k, value) in values.iter().enumerate() {
        let left = (values.len() - k) as f64;
        let noise = trailing / left;
        let edge = noise * (1.0 + (left / rows as f64).sqrt()).powi(2);
        if *value <= EDGE * edge {
            return (k > 0 && noise > 0.0).then_some((k, noise));
        }
        trailing -= value;
    }
    None
}

/// The orthogonal matrix nearest to this one: `(WWᵀ)^{−1/2} W`.
fn orthogonal(matrix: &[f64], k: usize) -> Option<Vec<f64>> {
    let mut gram = vec![0.0; k * k];
    rows_times_parameters(matrix, matrix, k, &mut gram);
    let eigen = MatRef::from_row_major_slice(&gram, k, k).self_adjoint_eigen(Side::Lower).ok()?;
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    // (UᵀW) with rows divided by the root of their eigenvalue, then U times that.
    let columns: Vec<f64> =
        (0..k).flat_map(|row| (0..k).map(move |ix| (row, ix))).map(|at| vectors[at]).collect();
    let mut turned = vec![0.0; k * k];
    responsibilities_times_rows(&columns, matrix, k, &mut turned);
    for (ix, row) in turned.chunks_exact_mut(k).enumerate() {
        let value = values[ix];
        if !(value.is_finite() && value > 0.0) {
            return None;
        }
        row.iter_mut().for_each(|entry| *entry /= value.sqrt());
    }
    // U · turned: rows of U times columns of `turned`.
    let transposed: Vec<f64> = (0..k).flat_map(|col| turned.iter().skip(col).step_by(k).copied()).collect();
    let mut found = vec![0.0; k * k];
    rows_times_parameters(&columns, &transposed, k, &mut found);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_moment_of_two_values_tells_how_often_each_is_had() {
        for share in [0.1, 0.3, 0.5, 0.8] {
            let (upper, lower) = (
                (1.0_f64 - share) / f64::sqrt(share * (1.0 - share)),
                -share / f64::sqrt(share * (1.0 - share)),
            );
            let third = share * upper.powi(3) + (1.0 - share) * lower.powi(3);
            let found = TwoValues::with(third, 0.1);
            assert!((found.share - share).abs() < 1e-12 && (found.apart - (upper - lower)).abs() < 1e-12);
            // Bayes' rule with two normal densities.
            let density = |mean: f64| (-(0.3 - mean) * (0.3 - mean) / 0.2).exp();
            let (with, without) = (share * density(upper), (1.0 - share) * density(lower));
            assert!((found.upper(0.3) - with / (with + without)).abs() < 1e-12);
        }
    }

    #[test]
    fn the_nearest_orthogonal_matrix_is_orthogonal_and_leaves_orthogonal_ones_alone() {
        let found = orthogonal(&[2.0, 1.0, -0.5, 1.5], 2).unwrap();
        assert!(
            (dot(&found[..2], &found[..2]) - 1.0).abs() < 1e-12
                && dot(&found[..2], &found[2..]).abs() < 1e-12
        );
        let again = orthogonal(&found, 2).unwrap();
        assert!(found.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(orthogonal(&[0.0; 4], 2).is_none());
    }

    #[test]
    fn eigenvalues_of_noise_alone_are_no_signal() {
        let noise: Vec<f64> = (0..20).map(|ix| 1.0 + 0.005 * f64::from(20 - ix)).collect();
        assert!(beyond_noise(&noise, 1000).is_none());
        let mut values = vec![9.0, 5.0];
        values.extend(&noise);
        let (k, found) = beyond_noise(&values, 1000).unwrap();
        assert!(k == 2 && (found - 1.05).abs() < 0.01, "{k} {found}");
        assert!(beyond_noise(&[2.0, 0.0], 100).is_none(), "without noise there is no edge");
    }
}
