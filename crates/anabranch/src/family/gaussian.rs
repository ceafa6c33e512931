//! Gaussian components with full covariance under a normal-inverse-Wishart prior.
//!
//! ```text
//! T(x) = (1, x, upper triangle of xxᵀ)                          in the coordinates of the frame
//! κ = κ₀ + n,   ν = ν₀ + n,   m = (κ₀m₀ + Σx) / κ
//! Ψ = Ψ₀ + Σ(x − x̄)(x − x̄)ᵀ + κ₀n/κ · (x̄ − m₀)(x̄ − m₀)ᵀ
//! A = νD/2 · log 2 + log Γ_D(ν/2) − ν/2 · log |Ψ| + D/2 · log(2π/κ) + n · c
//! φ = (½E log|Σ⁻¹| − ½(D/κ + ν mᵀΨ⁻¹m) + c,   νΨ⁻¹m,   −½νΨ⁻¹ (twice off the diagonal))
//! p(x | S) = t_{ν−D+1}( m, (κ+1)Ψ / (κ(ν−D+1)) )
//! ```
//!
//! The constant `c = −D/2 · log 2π − Σ log scale` belongs to every row, so it sits in the count entry: `log h(x) = 0`, and
//! `A(S) − A(0)` is the marginal likelihood of the rows in data units.

use std::sync::OnceLock;

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::dependent;
use super::error::{PriorError, require_len};
use super::frame::{PRIOR_SHARE, are_moments};
use super::gaps::{self, Gap};
use super::normal_inverse_wishart::{NormalInverseWishart, add_scatter, factor_or_repair};
use super::panel;
use super::profile;
use super::student_t::{self, StudentT};
use super::type_two;
use super::{
    Conjugate, DomainError, DrawNatural, EMPTY_COUNT, Envelope, FEW_ROUNDINGS, Family, Frame, Partition,
    Predictive, Summary, draw,
};
use crate::batch::Batch;
use crate::math::cholesky::{self, packed_len, row_start, with_scratch};
use crate::math::special::{LN_2PI, ln_multigamma, multi_digamma};
use crate::parallel;

/// A Gaussian with unknown mean and unknown full covariance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawGaussian", into = "RawGaussian")]
pub struct Gaussian {
    frame: Frame,
    prior: NormalInverseWishart,
    /// `c` of the module documentation.
    ln_row_constant: f64,
    /// Cholesky factor of the covariance that the prior expects, `Ψ₀/ν₀`.
    prior_factor: Vec<f64>,
    /// Logarithms of the scales of the frame.
    ln_scales: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGaussian {
    frame: Frame,
    prior: NormalInverseWishart,
}

impl TryFrom<RawGaussian> for Gaussian {
    type Error = PriorError;

    fn try_from(raw: RawGaussian) -> Result<Self, PriorError> {
        Gaussian::new(raw.frame, raw.prior)
    }
}

impl From<Gaussian> for RawGaussian {
    fn from(family: Gaussian) -> Self {
        RawGaussian { frame: family.frame, prior: family.prior }
    }
}

/// Posterior parameters that are not matrices.
struct Posterior {
    kappa: f64,
    dof: f64,
    ln_determinant: f64,
}

/// Expected covariance of the default prior, in the frame: clusters are taken to be about a third as wide as the data.
const DEFAULT_COVARIANCE: f64 = 0.1;
/// Rows that the default prior mean counts for.
const DEFAULT_KAPPA: f64 = 0.1;

impl Gaussian {
    /// A family whose prior is given in the coordinates of the frame.
    pub fn new(frame: Frame, prior: NormalInverseWishart) -> Result<Self, PriorError> {
        prior.validate(frame.dimensions())?;
        let ln_row_constant = -0.5 * frame.dimensions() as f64 * LN_2PI - frame.ln_scale();
        let d = frame.dimensions();
        let covariance: Vec<f64> = prior.psi.iter().map(|entry| entry / prior.dof).collect();
        let mut prior_factor = vec![0.0; packed_len(d)];
        cholesky::factor(d, &covariance, &mut prior_factor).ok_or(PriorError::NotPositiveDefinite)?;
        let ln_scales = frame.scale().iter().map(|scale| scale.ln()).collect();
        Ok(Self { frame, prior, ln_row_constant, prior_factor, ln_scales })
    }

    /// A family whose prior is given in the units of the data.
    pub fn with_prior_in_data_units(frame: Frame, prior: NormalInverseWishart) -> Result<Self, PriorError> {
        require_len("the prior mean", frame.dimensions(), prior.mean.len())?;
        require_len("the prior scatter matrix", packed_len(frame.dimensions()), prior.psi.len())?;
        let framed = prior.framed(&frame);
        Self::new(frame, framed)
    }

    /// A weak prior in the frame of the first rows.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let frame = Frame::from_rows(rows)?;
        let frame = dependent::with_intervals(frame, rows)?;
        let d = frame.dimensions();
        let dof = d as f64 + 2.0;
        // E Σ = Ψ₀ / (ν₀ − D − 1), and ν₀ − D − 1 = 1.
        let psi = vec![DEFAULT_COVARIANCE; d];
        Self::new(frame, NormalInverseWishart::with_diagonal_psi(vec![0.0; d], DEFAULT_KAPPA, &psi, dof))
    }

    /// The same family of values that stand for intervals of these widths.
    pub fn with_resolution(mut self, widths: Vec<f64>) -> Result<Self, PriorError> {
        self.frame = self.frame.with_resolution(widths)?;
        Ok(self)
    }

    /// Columns that are constant or follow from others: they count as known up to an interval.
    pub fn dependent_columns(&self) -> Vec<usize> {
        (0..self.frame.dimensions()).filter(|column| dependent::has_interval(&self.frame, *column)).collect()
    }

    /// The frame in which statistics and prior are kept.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The prior, in the coordinates of the frame.
    pub fn prior(&self) -> &NormalInverseWishart {
        &self.prior
    }

    /// Writes `m`, `Ψ` and its Cholesky factor.
    fn posterior(&self, stats: &[f64], mean: &mut [f64], psi: &mut [f64], factor: &mut [f64]) -> Posterior {
        let d = self.dimensions();
        let prior = &self.prior;
        psi.copy_from_slice(&prior.psi);
        mean.copy_from_slice(&prior.mean);
        let count = stats[0].max(0.0);
        let kappa = prior.kappa + count;
        if count > EMPTY_COUNT {
            let (sum, squares) = stats[1..].split_at(d);
            add_scatter(count, prior.kappa / kappa, &prior.mean, sum, squares, psi);
            for (mean, sum) in mean.iter_mut().zip(sum) {
                *mean = (prior.kappa * *mean + sum) / kappa;
            }
        }
        let ln_determinant = factor_or_repair(d, psi, factor);
        Posterior { kappa, dof: prior.dof + count, ln_determinant }
    }

    fn ln_partition_of(&self, posterior: &Posterior, count: f64) -> f64 {
        let d = self.dimensions() as f64;
        let half_dof = 0.5 * posterior.dof;
        half_dof * (d * std::f64::consts::LN_2 - posterior.ln_determinant)
            + ln_multigamma(self.dimensions(), half_dof)
            + 0.5 * d * (LN_2PI - posterior.kappa.ln())
            + count * self.ln_row_constant
    }

    /// Scratch for a mean, a row, `Ψ` and its factor.
    fn with_posterior<R>(
        &self,
        stats: &[f64],
        work: impl FnOnce(Posterior, &mut [f64], &mut [f64], &mut [f64]) -> R,
    ) -> R {
        let d = self.dimensions();
        with_scratch(2 * d + 2 * packed_len(d), |scratch| {
            let (mean, rest) = scratch.split_at_mut(d);
            let (row, rest) = rest.split_at_mut(d);
            let (psi, factor) = rest.split_at_mut(packed_len(d));
            let posterior = self.posterior(stats, mean, psi, factor);
            work(posterior, mean, row, factor)
        })
    }
}

/// Writes the upper triangle of `xxᵀ`.
#[inline(always)]
pub(super) fn write_products(x: &[f64], mut products: &mut [f64]) {
    for (i, &value) in x.iter().enumerate() {
        let (row, rest) = products.split_at_mut(x.len() - i);
        for (product, other) in row.iter_mut().zip(&x[i..]) {
            *product = value * other;
        }
        products = rest;
    }
}

/// Writes the rows and columns of a packed matrix that are named.
fn select(dimensions: usize, matrix: &[f64], columns: &[usize], out: &mut [f64]) {
    let mut at = 0;
    for (ix, i) in columns.iter().enumerate() {
        let start = row_start(dimensions, *i);
        for j in &columns[ix..] {
            out[at] = matrix[start + j - i];
            at += 1;
        }
    }
}

impl Conjugate for Gaussian {
    fn n_features(&self) -> usize {
        1 + self.dimensions() + packed_len(self.dimensions())
    }

    fn admits(&self, stats: &[f64]) -> bool {
        let (sums, squares) = stats[1..].split_at(self.dimensions());
        are_moments(stats[0], sums, squares)
    }

    fn is_possible(&self, stats: &[f64]) -> bool {
        let d = self.dimensions();
        let (count, (sums, squares)) = (stats[0], stats[1..].split_at(d));
        self.admits(stats)
            && with_scratch(2 * packed_len(d), |scratch| {
                let (scatter, factor) = scratch.split_at_mut(packed_len(d));
                let mean = |i: usize| if count > EMPTY_COUNT { sums[i] / count } else { 0.0 };
                for i in 0..d {
                    let row = row_start(d, i);
                    for (ix, sum) in (row..).zip(&sums[i..]) {
                        scatter[ix] = PRIOR_SHARE * self.prior.psi[ix] + squares[ix] - mean(i) * sum;
                    }
                }
                cholesky::factor(d, scatter, factor).is_some()
            })
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        self.with_posterior(stats, |posterior, _, _, _| self.ln_partition_of(&posterior, stats[0]))
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let d = self.dimensions();
        self.with_posterior(stats, |posterior, mean, row, factor| {
            cholesky::invert_from_factor(d, factor, row);
            let precision = &*factor;
            let dof = posterior.dof;
            let (constant, rest) = phi.split_at_mut(1);
            let (linear, quadratic) = rest.split_at_mut(d);
            cholesky::multiply_symmetric(d, precision, mean, linear);
            let distance: f64 = linear.iter().zip(&*mean).map(|(p, m)| p * m).sum();
            linear.iter_mut().for_each(|value| *value *= dof);
            for (value, entry) in quadratic.iter_mut().zip(precision) {
                *value = -dof * entry;
            }
            for column in 0..d {
                quadratic[row_start(d, column)] *= 0.5;
            }
            let ln_precision =
                multi_digamma(d, 0.5 * dof) + d as f64 * std::f64::consts::LN_2 - posterior.ln_determinant;
            constant[0] =
                0.5 * (ln_precision - d as f64 / posterior.kappa - dof * distance) + self.ln_row_constant;
            self.ln_partition_of(&posterior, stats[0])
        })
    }
}

impl Family for Gaussian {
    fn dimensions(&self) -> usize {
        self.frame.dimensions()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        self.frame.check(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        let d = self.dimensions();
        out[0] = 1.0;
        let (framed, squares) = out[1..].split_at_mut(d);
        self.frame.apply_or(x, std::iter::repeat(&0.0), framed);
        write_products(framed, squares);
    }

    fn leading_len(&self) -> usize {
        let d = self.dimensions();
        leading_columns(d).map_or(0, |columns| 1 + d + packed_len(columns))
    }

    /// All columns, and the products of the first.
    fn leading_features(&self, x: &[f64], out: &mut [f64]) {
        let d = self.dimensions();
        out[0] = 1.0;
        let (framed, squares) = out[1..].split_at_mut(d);
        self.frame.apply_or(x, std::iter::repeat(&0.0), framed);
        write_products(&framed[..leading_columns(d).unwrap_or(0)], squares);
    }

    fn ln_base(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn screen_len(&self) -> usize {
        profile::n_features(self.dimensions())
    }

    fn screen_features(&self, features: &[f64], out: &mut [f64]) {
        profile::features(self.dimensions(), features, out);
    }

    fn screen(&self, phi: &[f64], out: &mut [f64]) {
        profile::parameters(self.dimensions(), phi, out);
    }

    /// `νΨ⁻¹m`, then `νΨ⁻¹`, row after row.
    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        let d = self.dimensions();
        let (linear, quadratic) = phi[1..].split_at(d);
        table.clear();
        table.extend_from_slice(linear);
        table.resize(d + d * d, 0.0);
        let precision = &mut table[d..];
        let mut at = 0;
        for i in 0..d {
            for j in i..d {
                let entry = if i == j { -2.0 * quadratic[at] } else { -quadratic[at] };
                precision[i * d + j] = entry;
                precision[j * d + i] = entry;
                at += 1;
            }
        }
    }

    fn ln_integrals(&self, phi: &[f64], table: &[f64], gaps: &[Gap<'_>], out: &mut [f64]) {
        gaps::ln_integrals((phi[0], table), &self.ln_scales, gaps, out);
    }

    fn add_expected(&self, _phi: &[f64], table: &[f64], gaps: &[Gap<'_>], sums: &mut [f64]) -> f64 {
        gaps::add_expected(table, &self.ln_scales, gaps, sums)
    }

    fn missing_panel(&self, phi: &[f64], panel: &mut Vec<f64>) {
        panel::fill(self.dimensions(), phi.chunks_exact(self.n_features()), panel);
    }

    fn integrate(&self, panel: &[f64], missing: &[usize], features: &[&[f64]], scores: &mut [f64]) {
        let ln_scale: f64 = missing.iter().map(|column| self.ln_scales[*column]).sum();
        let constant = 0.5 * missing.len() as f64 * LN_2PI + ln_scale;
        panel::add((self.dimensions(), panel), (missing, constant), features, scores);
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let d = self.dimensions();
        self.with_posterior(stats, |posterior, mean, _, factor| {
            let widening = 1.0 + 1.0 / posterior.kappa;
            let ln_determinant =
                posterior.ln_determinant + d as f64 * widening.ln() + 2.0 * self.frame.ln_scale();
            let density = StudentT::new(d, posterior.dof - (d as f64 - 1.0), ln_determinant);
            let frame = self.frame.clone();
            Box::new(GaussianPredictive {
                frame,
                mean: mean.to_vec(),
                factor: factor.to_vec(),
                whitening: cholesky::whitening(d, factor),
                widening,
                density,
                kappa: posterior.kappa,
                dof: posterior.dof,
                ln_determinant: posterior.ln_determinant + 2.0 * self.frame.ln_scale(),
                psi: OnceLock::new(),
            }) as Box<dyn Predictive>
        })
    }

    /// Bartlett: `Σ⁻¹ = U⁻¹ A Aᵀ U⁻ᵀ` with `A` lower triangular, `A_ii² ~ χ²_{ν−i}`, and `Ψ = UᵀU`; so
    /// `Uᵀ A⁻ᵀ z` has covariance `Σ`. Given `Σ`, a row is `m + √(1 + 1/κ)` times that.
    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        let d = self.dimensions();
        self.with_posterior(stats, |posterior, mean, _, factor| {
            for i in (0..d).rev() {
                let chi = (2.0 * draw::gamma_variate(0.5 * (posterior.dof - i as f64), rng)).sqrt();
                let known: f64 = out[i + 1..].iter().map(|w| w * draw::normal(rng)).sum();
                out[i] = (draw::normal(rng) - known) / chi;
            }
            cholesky::multiply_lower(d, factor, out);
            let widening = (1.0 + 1.0 / posterior.kappa).sqrt();
            for (value, mean) in out.iter_mut().zip(&*mean) {
                *value = mean + widening * *value;
            }
            self.frame.restore(out);
        });
    }

    /// The expected covariance; the inverse of the expected precision where `ν ≤ D + 1` and there is no expectation.
    fn summary(&self, stats: &[f64]) -> Summary {
        let d = self.dimensions();
        let mut psi = vec![0.0; packed_len(d)];
        let mut mean = vec![0.0; d];
        let posterior = self.posterior(stats, &mut mean, &mut psi, &mut vec![0.0; packed_len(d)]);
        let excess = posterior.dof - d as f64 - 1.0;
        let divisor = if excess > 0.0 { excess } else { posterior.dof };
        let scale = self.frame.scale();
        self.frame.restore(&mut mean);
        let framed = |i: usize, j: usize| psi[row_start(d, i.min(j)) + i.abs_diff(j)] / divisor;
        let entry = |i: usize, j: usize| (framed(i, j) * scale[i] * scale[j]).clamp(-f64::MAX, f64::MAX);
        Summary {
            mean,
            spread: (0..d).map(|i| framed(i, i).sqrt() * scale[i]).collect(),
            covariance: Some((0..d * d).map(|ix| entry(ix / d, ix % d)).collect()),
            probabilities: None,
        }
    }

    fn is_normal(&self) -> bool {
        true
    }

    fn resolution(&self, column: usize) -> Option<f64> {
        Some(self.frame.resolution(column))
    }

    fn embedding_len(&self) -> usize {
        self.dimensions()
    }

    /// Coordinates in which the prior's covariance is a multiple of the identity.
    fn embed(&self, x: &[f64], out: &mut [f64]) {
        self.frame.apply_or(x, self.prior.mean.iter(), out);
        cholesky::solve_lower(self.dimensions(), &self.prior_factor, out);
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        if components.is_empty() {
            return None;
        }
        let d = self.dimensions();
        let n = components.len() as f64;
        let mut precision = vec![0.0; packed_len(d)];
        let mut pull = vec![0.0; d];
        let mut ln_determinants = 0.0;
        let posteriors = parallel::map(components.iter(), |stats| {
            self.with_posterior(stats, |posterior, mean, row, factor| {
                cholesky::invert_from_factor(d, factor, row);
                factor.iter_mut().for_each(|entry| *entry *= posterior.dof);
                cholesky::multiply_symmetric(d, factor, mean, row);
                let ln_determinant = multi_digamma(d, 0.5 * posterior.dof)
                    + d as f64 * std::f64::consts::LN_2
                    - posterior.ln_determinant;
                (posterior.kappa, mean.to_vec(), row.to_vec(), factor.to_vec(), ln_determinant)
            })
        });
        for (_, _, pulled, factor, ln_determinant) in &posteriors {
            precision.iter_mut().zip(factor).for_each(|(sum, entry)| *sum += entry / n);
            pull.iter_mut().zip(pulled).for_each(|(sum, value)| *sum += value / n);
            ln_determinants += ln_determinant;
        }
        let mut covariance = vec![0.0; packed_len(d)];
        let ln_determinant = cholesky::factor(d, &precision, &mut covariance)?;
        cholesky::invert_from_factor(d, &mut covariance, &mut vec![0.0; d]);
        let mut mean = vec![0.0; d];
        cholesky::multiply_symmetric(d, &covariance, &pull, &mut mean);
        for column in 0..d {
            covariance[row_start(d, column)] += type_two::LEAST_VARIANCE;
        }
        let mut spread = 0.0;
        let mut product = vec![0.0; d];
        for (kappa, own, _, precision, _) in &posteriors {
            let away: Vec<f64> = own.iter().zip(&mean).map(|(own, mean)| own - mean).collect();
            cholesky::multiply_symmetric(d, precision, &away, &mut product);
            spread += (away.iter().zip(&product).map(|(a, b)| a * b).sum::<f64>() + d as f64 / kappa) / n;
        }
        let dof = type_two::wishart_dof(
            d,
            ln_determinants / n,
            ln_determinant,
            type_two::max_dof(d, components.len(), partition),
        );
        let psi = covariance.iter().map(|entry| dof * entry).collect();
        let kappa = (d as f64 / spread).min(type_two::max_rows(components.len(), partition));
        Self::new(self.frame.clone(), NormalInverseWishart { mean, kappa, psi, dof }).ok()
    }
}

impl DrawNatural for Gaussian {
    /// `Λ = C Cᵀ` with `U C = B` and Bartlett's lower triangular `B`, then `μ = m + Λ^{-1/2} z / √κ`.
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let d = self.dimensions();
        self.with_posterior(stats, |posterior, mean, row, factor| {
            let mut bartlett = vec![0.0; d * d];
            let mut ln_precision = -posterior.ln_determinant;
            for column in 0..d {
                let chi = (2.0 * draw::gamma_variate(0.5 * (posterior.dof - column as f64), rng)).sqrt();
                bartlett[column * d + column] = chi;
                ln_precision += 2.0 * chi.ln();
                (column + 1..d).for_each(|below| bartlett[column * d + below] = draw::normal(rng));
            }
            // Bᵀ w = z, from the last entry up; μ − m = Uᵀ w / √κ.
            for i in (0..d).rev() {
                let known: f64 = (i + 1..d).map(|j| bartlett[i * d + j] * row[j]).sum();
                row[i] = (draw::normal(rng) - known) / bartlett[i * d + i];
            }
            cholesky::multiply_lower(d, factor, row);
            let scale = 1.0 / posterior.kappa.sqrt();
            mean.iter_mut().zip(&*row).for_each(|(mean, step)| *mean += scale * step);
            bartlett.chunks_exact_mut(d).for_each(|column| cholesky::solve_upper(d, factor, column));
            let precision = |i: usize, j: usize| -> f64 {
                bartlett.chunks_exact(d).map(|column| column[i] * column[j]).sum()
            };
            let (constant, rest) = phi.split_at_mut(1);
            let (linear, quadratic) = rest.split_at_mut(d);
            linear.fill(0.0);
            let mut at = 0;
            for i in 0..d {
                for j in i..d {
                    let entry = precision(i, j);
                    quadratic[at] = if i == j { -0.5 * entry } else { -entry };
                    at += 1;
                    linear[i] += entry * mean[j];
                    if i != j {
                        linear[j] += entry * mean[i];
                    }
                }
            }
            let square: f64 = linear.iter().zip(&*mean).map(|(l, m)| l * m).sum();
            constant[0] = 0.5 * (ln_precision - square) + self.ln_row_constant;
        });
    }
}

/// Half of the columns have a quarter of the features. Of few columns, all are looked at as quickly.
fn leading_columns(dimensions: usize) -> Option<usize> {
    (dimensions >= LEAST_TO_HALVE).then_some(dimensions / 2)
}

const LEAST_TO_HALVE: usize = 32;

struct GaussianPredictive {
    frame: Frame,
    mean: Vec<f64>,
    factor: Vec<f64>,
    whitening: Vec<f64>,
    widening: f64,
    density: StudentT,
    kappa: f64,
    dof: f64,
    /// `log |Ψ|` in the units of the data.
    ln_determinant: f64,
    /// `Ψ` and the logarithms of the frame's scales, for rows with missing values.
    psi: OnceLock<(Vec<f64>, Vec<f64>)>,
}

impl GaussianPredictive {
    /// `(x − m)ᵀ Ψ⁻¹ (x − m)` of a row of the frame; where it is above `most`, anything above that.
    fn squared_distance(&self, framed: &[f64], most: f64) -> f64 {
        cholesky::whitened_square(&self.whitening, framed, &self.mean, most)
    }

    /// `Ψ = UᵀU`.
    fn psi(&self) -> &(Vec<f64>, Vec<f64>) {
        self.psi.get_or_init(|| {
            let d = self.mean.len();
            let mut psi = vec![0.0; packed_len(d)];
            for row in 0..d {
                let u = &self.factor[row_start(d, row)..row_start(d, row + 1)];
                for (i, a) in u.iter().enumerate() {
                    let start = row_start(d, row + i);
                    u[i..].iter().zip(&mut psi[start..]).for_each(|(b, out)| *out += a * b);
                }
            }
            (psi, self.frame.scale().iter().map(|scale| scale.ln()).collect())
        })
    }

    /// Calls `work` with the columns that are known, `(x − m)ᵀ Ψ⁻¹ (x − m)` of them and `log |Ψ|` in the units of the data.
    fn with_known<R>(&self, x: &[f64], work: impl FnOnce(usize, f64, f64) -> R) -> R {
        let known: Vec<usize> = (0..x.len()).filter(|column| !x[*column].is_nan()).collect();
        let (d, n) = (x.len(), known.len());
        with_scratch(n + 2 * packed_len(n), |scratch| {
            let (centred, rest) = scratch.split_at_mut(n);
            let (psi, factor) = rest.split_at_mut(packed_len(n));
            let (full, ln_scales) = self.psi();
            select(d, full, &known, psi);
            let mut ln_determinant = factor_or_repair(n, psi, factor);
            for (out, column) in centred.iter_mut().zip(&known) {
                let (shift, scale) = (self.frame.shift()[*column], self.frame.scale()[*column]);
                *out = (x[*column] - shift) / scale - self.mean[*column];
                ln_determinant += 2.0 * ln_scales[*column];
            }
            cholesky::solve_lower(n, factor, centred);
            work(n, centred.iter().map(|y| y * y).sum(), ln_determinant)
        })
    }

    /// Calls `work` with the missing columns, their means of the frame given the known values, the factor `C` with `CᵀC` their
    /// matrix of a t (`student_t.rs`), and its degrees of freedom.
    ///
    /// With the known columns first, `Ψ = UᵀU`: `m_M + U_OMᵀ U_OO⁻ᵀ (x_O − m_O)` and `U_MMᵀ U_MM`.
    fn with_missing<R>(&self, x: &[f64], work: impl FnOnce(&[usize], &[f64], &[f64], f64) -> R) -> R {
        let d = x.len();
        let (missing, known): (Vec<usize>, Vec<usize>) = (0..d).partition(|column| x[*column].is_nan());
        let (n, m) = (known.len(), missing.len());
        let order: Vec<usize> = known.iter().chain(&missing).copied().collect();
        let (mut psi, mut factor) = (vec![0.0; packed_len(d)], vec![0.0; packed_len(d)]);
        let (full, _) = self.psi();
        let mut at = 0;
        for (ix, i) in order.iter().enumerate() {
            for j in &order[ix..] {
                psi[at] = full[row_start(d, *i.min(j)) + i.abs_diff(*j)];
                at += 1;
            }
        }
        factor_or_repair(d, &mut psi, &mut factor);
        let mut y: Vec<f64> = known
            .iter()
            .map(|c| (x[*c] - self.frame.shift()[*c]) / self.frame.scale()[*c] - self.mean[*c])
            .chain(std::iter::repeat_n(0.0, m))
            .collect();
        // The rows of the known columns alone: below them, `y` becomes minus what they pull the others by.
        for row in 0..n {
            let u = &factor[row_start(d, row)..row_start(d, row + 1)];
            y[row] /= u[0];
            let value = y[row];
            y[row + 1..].iter_mut().zip(&u[1..]).for_each(|(rest, u)| *rest -= u * value);
        }
        let q = y[..n].iter().map(|y| y * y).sum::<f64>() / self.widening;
        let mean: Vec<f64> = missing.iter().zip(&y[n..]).map(|(c, pull)| self.mean[*c] - pull).collect();
        let widened = (self.widening * (1.0 + q)).sqrt();
        let own: Vec<f64> = factor[row_start(d, n)..].iter().map(|u| u * widened).collect();
        work(&missing, &mean, &own, self.dof - (d as f64 - 1.0) + n as f64)
    }

    /// The marginal of a t has its degrees of freedom.
    #[cold]
    fn ln_density_of_known(&self, x: &[f64]) -> f64 {
        self.with_known(x, |n, q, ln_determinant| {
            let ln_determinant = ln_determinant + n as f64 * self.widening.ln();
            let dof = self.dof - (self.mean.len() as f64 - 1.0);
            StudentT::new(n, dof, ln_determinant).ln_density(q / self.widening)
        })
    }

    /// Of `n` columns at squared distance `q`.
    fn left_out(&self, n: usize, q: f64, ln_determinant: f64, share: f64) -> Option<f64> {
        let kappa = self.kappa - share;
        let further = self.kappa / kappa;
        let left = 1.0 - share * further * q;
        let dof = self.dof - share - (self.mean.len() as f64 - 1.0);
        if !(kappa > 0.0 && left > 0.0 && dof > 0.0) {
            return None;
        }
        let widening = 1.0 + 1.0 / kappa;
        let ln_determinant = ln_determinant + left.ln() + n as f64 * widening.ln();
        Some(StudentT::new(n, dof, ln_determinant).ln_density(further * further * q / left / widening))
    }

    /// At a row of the frame.
    fn ln_density_framed(&self, framed: &[f64], most: f64) -> f64 {
        self.density.ln_density(self.squared_distance(framed, most) / self.widening)
    }
}

impl Predictive for GaussianPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        with_scratch(self.mean.len(), |framed| {
            self.frame.apply(x, framed);
            let complete = !framed.iter().any(|value| value.is_nan());
            let ln_density = if complete { self.ln_density_framed(framed, f64::INFINITY) } else { f64::NAN };
            if ln_density.is_nan() { self.ln_density_of_known(x) } else { ln_density }
        })
    }

    fn ln_density_from(&self, _x: &[f64], features: &[f64], least: f64) -> f64 {
        let d = self.mean.len();
        // Of few columns, the distance costs no more than what it may be at most.
        let most =
            if d < LEAST_TO_HALVE { f64::INFINITY } else { self.widening * self.density.distance_of(least) };
        self.ln_density_framed(&features[1..=d], most)
    }

    /// With `c = κ/(κ − r)`: `Ψ − r c (x − m)(x − m)ᵀ` is what the others scatter by, around `m − (c − 1)(x − m)`.
    /// Of a row with missing values, the same in the columns that are known: what it taught of them is `T(x)` of theirs.
    fn ln_density_left_out(&self, x: &[f64], features: &[f64], share: f64) -> Option<f64> {
        if x.iter().any(|x| x.is_nan()) {
            return self.with_known(x, |n, q, ln_determinant| self.left_out(n, q, ln_determinant, share));
        }
        let d = self.mean.len();
        let q = self.squared_distance(&features[1..=d], f64::INFINITY);
        self.left_out(d, q, self.ln_determinant, share)
    }

    fn conditional(&self, x: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        self.with_missing(x, |missing, means, factor, dof| {
            let m = missing.len();
            for (ix, column) in missing.iter().enumerate() {
                let (shift, scale) = (self.frame.shift()[*column], self.frame.scale()[*column]);
                let square: f64 = (0..=ix).map(|row| factor[row_start(m, row) + ix - row].powi(2)).sum();
                mean[*column] = means[ix] * scale + shift;
                variance[*column] = scale * scale * square / student_t::variance_divisor(dof);
            }
        });
    }

    fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        let drawn: Vec<(usize, f64)> = self.with_missing(x, |missing, means, factor, dof| {
            let mut step: Vec<f64> = missing.iter().map(|_| draw::normal(rng)).collect();
            cholesky::multiply_lower(missing.len(), factor, &mut step);
            let spread = (0.5 / draw::gamma_variate(0.5 * dof, rng)).sqrt();
            missing
                .iter()
                .zip(means.iter().zip(step))
                .map(|(c, (mean, step))| (*c, mean + spread * step))
                .collect()
        });
        for (column, framed) in drawn {
            x[column] = framed * self.frame.scale()[column] + self.frame.shift()[column];
        }
    }

    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        self.envelope_of_first(self.mean.len(), theta)
    }

    fn leading_envelope(&self, theta: &mut [f64]) -> Option<Envelope> {
        leading_columns(self.mean.len()).map(|columns| self.envelope_of_first(columns, theta))
    }
}

impl GaussianPredictive {
    /// `y = h q` with `q = (x − m)ᵀ M⁻¹ (x − m)`, term by term. Of the first `d` columns, `q` is a part of the sum of squares
    /// that all columns make, and the first rows and columns of the factor are the factor of theirs.
    fn envelope_of_first(&self, d: usize, theta: &mut [f64]) -> Envelope {
        let (constant, rest) = theta.split_at_mut(1);
        let (linear, quadratic) = rest.split_at_mut(self.mean.len());
        let linear = &mut linear[..d];
        for row in 0..d {
            let from = &self.factor[row_start(self.mean.len(), row)..];
            quadratic[row_start(d, row)..row_start(d, row + 1)].copy_from_slice(&from[..d - row]);
        }
        // |Ψ| ≤ |U|².
        let scatter: f64 = quadratic.iter().map(|v| v * v).sum();
        cholesky::invert_from_factor(d, quadratic, linear);
        let inverse = 2.0 * quadratic.iter().map(|v| v * v).sum::<f64>().sqrt();
        let scale = self.density.half_power() / self.widening;
        quadratic.iter_mut().for_each(|value| *value *= scale);
        cholesky::multiply_symmetric(d, quadratic, &self.mean[..d], linear);
        constant[0] = linear.iter().zip(&self.mean).map(|(l, m)| l * m).sum();
        linear.iter_mut().for_each(|value| *value *= -2.0);
        for row in 0..d {
            let start = row_start(d, row);
            quadratic[start + 1..start + d - row].iter_mut().for_each(|value| *value *= 2.0);
        }
        // The inverse is off by a small multiple of D roundings times the condition number (Higham 2002, chapters 10 and 14).
        let rounding = INVERSE_ROUNDINGS * d as f64 * f64::EPSILON * scatter * inverse + FEW_ROUNDINGS;
        Envelope {
            constant: self.density.ln_constant(),
            half_power: self.density.half_power(),
            rounding,
            tight: true,
        }
    }
}

/// Roundings of an inverse by its Cholesky factor for each column, in units of the condition number.
const INVERSE_ROUNDINGS: f64 = 16.0;
