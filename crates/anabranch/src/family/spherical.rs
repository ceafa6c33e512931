//! Gaussian components with one variance for all columns.
//!
//! ```text
//! λ ~ Gamma(a₀, b₀),   μ | λ ~ N(m₀, I/(κ₀λ)),   x | μ, λ ~ N(μ, I/λ)
//! T(x) = (1, x, |x|²)                                           in the coordinates of the frame
//! κ = κ₀ + n,   m = (κ₀m₀ + Σx) / κ,   a = a₀ + nD/2
//! b = b₀ + ½[Σ|x|² − |Σx|²/n] + ½ · κ₀n/κ · |x̄ − m₀|²
//! A = log Γ(a) − a log b + D/2 · log(2π/κ) + n · c
//! φ = ( D/2 · [ψ(a) − log b − 1/κ] − ½(a/b)|m|² + c,   (a/b)m,   −½ a/b )
//! p(x | S) = t_{2a}( m, b(κ+1) / (aκ) · I )
//! ```
//!
//! `A` is the normal-gamma's: integrating out `μ` leaves `(2π/κ)^{D/2}` times a gamma integral. The frame scales all
//! columns alike, or a sphere in it would not be one in the data. `c = −D/2 · log 2π − Σ log scale`.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::error::{PriorError, require_len, require_positive, require_real};
use super::frame::{PRIOR_SHARE, are_moments, scatter_of};
use super::student_t::{self, StudentT};
use super::type_two;
use super::{
    Conjugate, DomainError, DrawNatural, EMPTY_COUNT, Envelope, FEW_ROUNDINGS, Family, Frame, Partition,
    Predictive, Summary, draw,
};
use crate::batch::{Batch, missing_columns};
use crate::math::special::{LN_2PI, digamma, ln_gamma};

/// Prior of a spherical Gaussian: `λ ~ Gamma(a, b)`, `μ | λ ~ N(m, I/(κλ))`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SphericalPrior {
    /// Expected mean `m`.
    pub mean: Vec<f64>,
    /// Rows that the expected mean counts for, `κ > 0`.
    pub kappa: f64,
    /// Shape of the precision, `a > 0`.
    pub a: f64,
    /// Rate of the precision, `b > 0`; the expected variance of a column is `b / (a − 1)`.
    pub b: f64,
}

/// A Gaussian with unknown mean and one unknown variance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSpherical", into = "RawSpherical")]
pub struct Spherical {
    frame: Frame,
    prior: SphericalPrior,
    /// `c` of the module documentation.
    ln_row_constant: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpherical {
    frame: Frame,
    prior: SphericalPrior,
}

impl TryFrom<RawSpherical> for Spherical {
    type Error = PriorError;

    fn try_from(raw: RawSpherical) -> Result<Self, PriorError> {
        Spherical::new(raw.frame, raw.prior)
    }
}

impl From<Spherical> for RawSpherical {
    fn from(family: Spherical) -> Self {
        RawSpherical { frame: family.frame, prior: family.prior }
    }
}

/// Posterior parameters but for the mean.
struct Posterior {
    kappa: f64,
    a: f64,
    b: f64,
}

impl Posterior {
    fn widened_rate(&self) -> f64 {
        self.b * (1.0 + 1.0 / self.kappa)
    }
}

/// Rows that the default prior mean counts for.
const DEFAULT_KAPPA: f64 = 0.1;
/// Shape and rate of the default prior: `E[variance] = b/(a − 1) = 0.1` in the frame.
const DEFAULT_SHAPE_AND_RATE: (f64, f64) = (1.5, 0.05);

impl Spherical {
    /// A family whose prior is given in the coordinates of the frame, which must scale all columns alike.
    pub fn new(frame: Frame, prior: SphericalPrior) -> Result<Self, PriorError> {
        if let Some(column) = frame.scale().iter().position(|scale| *scale != frame.scale()[0]) {
            return Err(PriorError::NotIsotropic { column });
        }
        require_len("the prior mean", frame.dimensions(), prior.mean.len())?;
        require_real("the prior mean", &prior.mean)?;
        require_positive("kappa", &[prior.kappa])?;
        require_positive("the prior shape a", &[prior.a])?;
        require_positive("the prior rate b", &[prior.b])?;
        let ln_row_constant = -0.5 * frame.dimensions() as f64 * LN_2PI - frame.ln_scale();
        Ok(Self { frame, prior, ln_row_constant })
    }

    /// A family whose prior is given in the units of the data.
    pub fn with_prior_in_data_units(frame: Frame, mut prior: SphericalPrior) -> Result<Self, PriorError> {
        require_len("the prior mean", frame.dimensions(), prior.mean.len())?;
        let data_mean = prior.mean.clone();
        frame.apply(&data_mean, &mut prior.mean);
        prior.b = prior.b / frame.scale()[0] / frame.scale()[0];
        Self::new(frame, prior)
    }

    /// A weak prior in the isotropic frame of the first rows.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let frame = Frame::isotropic_from_rows(rows)?;
        let (a, b) = DEFAULT_SHAPE_AND_RATE;
        let mean = vec![0.0; frame.dimensions()];
        Self::new(frame, SphericalPrior { mean, kappa: DEFAULT_KAPPA, a, b })
    }

    /// The same family of values that stand for intervals of these widths.
    pub fn with_resolution(mut self, widths: Vec<f64>) -> Result<Self, PriorError> {
        self.frame = self.frame.with_resolution(widths)?;
        Ok(self)
    }

    /// The frame in which statistics and prior are kept.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The prior, in the coordinates of the frame.
    pub fn prior(&self) -> &SphericalPrior {
        &self.prior
    }

    fn posterior(&self, stats: &[f64]) -> Posterior {
        let prior = &self.prior;
        let count = stats[0];
        if count <= EMPTY_COUNT {
            return Posterior { kappa: prior.kappa, a: prior.a, b: prior.b };
        }
        let kappa = prior.kappa + count;
        let d = self.dimensions();
        let sums = &stats[1..=d];
        let explained: f64 = sums.iter().map(|sum| sum / count * sum).sum();
        let between: f64 = sums.iter().zip(&prior.mean).map(|(sum, mean)| (sum / count - mean).powi(2)).sum();
        // A sum of squares is not negative, whatever cancellation says.
        let within = (stats[d + 1] - explained).max(0.0);
        Posterior {
            kappa,
            a: prior.a + 0.5 * count * d as f64,
            b: prior.b + 0.5 * (within + prior.kappa * count / kappa * between),
        }
    }

    fn means<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let prior = &self.prior;
        let (count, empty) = (stats[0], stats[0] <= EMPTY_COUNT);
        prior.mean.iter().zip(&stats[1..]).map(move |(mean, sum)| {
            if empty { *mean } else { (prior.kappa * mean + sum) / (prior.kappa + count) }
        })
    }

    fn ln_partition_of(&self, posterior: &Posterior, count: f64) -> f64 {
        ln_gamma(posterior.a) - posterior.a * posterior.b.ln()
            + 0.5 * self.dimensions() as f64 * (LN_2PI - posterior.kappa.ln())
            + count * self.ln_row_constant
    }
}

impl Conjugate for Spherical {
    fn n_features(&self) -> usize {
        2 + self.dimensions()
    }

    fn admits(&self, stats: &[f64]) -> bool {
        let (sums, square) = stats[1..].split_at(self.dimensions());
        // One sum holds the squares of all columns.
        are_moments(stats[0], sums, &[square[0] / self.dimensions() as f64])
    }

    fn is_possible(&self, stats: &[f64]) -> bool {
        let (sums, square) = stats[1..].split_at(self.dimensions());
        let length = sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt();
        let within = scatter_of(stats[0], length, square[0]);
        self.admits(stats) && PRIOR_SHARE * self.prior.b + 0.5 * within > 0.0
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        self.ln_partition_of(&self.posterior(stats), stats[0])
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let d = self.dimensions();
        let posterior = self.posterior(stats);
        let precision = posterior.a / posterior.b;
        let mut square = 0.0;
        for (value, mean) in phi[1..].iter_mut().zip(self.means(stats)) {
            *value = precision * mean;
            square += *value * mean;
        }
        phi[d + 1] = -0.5 * precision;
        let ln_precision = digamma(posterior.a) - posterior.b.ln();
        phi[0] = 0.5 * (d as f64 * (ln_precision - 1.0 / posterior.kappa) - square) + self.ln_row_constant;
        self.ln_partition_of(&posterior, stats[0])
    }
}

impl Family for Spherical {
    fn dimensions(&self) -> usize {
        self.frame.dimensions()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        self.frame.check(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
        let (framed, square) = out[1..].split_at_mut(self.dimensions());
        self.frame.apply_or(x, std::iter::repeat(&0.0), framed);
        square[0] = framed.iter().map(|value| value * value).sum();
    }

    fn ln_base(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        let d = self.dimensions();
        let precision = -2.0 * phi[d + 1];
        let constant = 0.5 * (LN_2PI - precision.ln()) + self.frame.scale()[0].ln();
        table.clear();
        table.extend(phi[1..=d].iter().map(|linear| constant + 0.5 * linear * linear / precision));
        table.extend(phi[1..=d].iter().map(|linear| linear / precision));
        table.push(1.0 / precision);
    }

    fn expect_columns(&self, table: &[f64], times: &[f64], out: &mut [f64]) {
        let d = self.dimensions();
        for (column, times) in times.iter().enumerate() {
            let mean = table[d + column];
            out[1 + column] += times * mean;
            out[1 + d] += times * (mean * mean + table[2 * d]);
        }
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let d = self.dimensions();
        let posterior = self.posterior(stats);
        let width = 2.0 * posterior.widened_rate();
        let ln_determinant = d as f64 * width.ln() + 2.0 * self.frame.ln_scale();
        Box::new(SphericalPredictive {
            frame: self.frame.clone(),
            mean: self.means(stats).collect(),
            width,
            dof: 2.0 * posterior.a,
            density: StudentT::new(d, 2.0 * posterior.a, ln_determinant),
        })
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        let posterior = self.posterior(stats);
        let deviation = (posterior.widened_rate() / draw::gamma_variate(posterior.a, rng)).sqrt();
        for (out, mean) in out.iter_mut().zip(self.means(stats)) {
            *out = mean + deviation * draw::normal(rng);
        }
        self.frame.restore(out);
    }

    /// The expected variance; the inverse of the expected precision where `a ≤ 1` and there is no expectation.
    fn summary(&self, stats: &[f64]) -> Summary {
        let posterior = self.posterior(stats);
        let mut mean: Vec<f64> = self.means(stats).collect();
        self.frame.restore(&mut mean);
        let divisor = if posterior.a > 1.0 { posterior.a - 1.0 } else { posterior.a };
        let deviation = (posterior.b / divisor).sqrt() * self.frame.scale()[0];
        Summary { spread: vec![deviation; mean.len()], mean, covariance: None, probabilities: None }
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

    fn embed(&self, x: &[f64], out: &mut [f64]) {
        self.frame.apply_or(x, self.prior.mean.iter(), out);
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        if components.is_empty() {
            return None;
        }
        let max_shape = 0.5 * type_two::max_dof(1, components.len(), partition);
        let (n, d) = (components.len() as f64, self.dimensions());
        let posteriors: Vec<(Posterior, Vec<f64>)> =
            components.iter().map(|stats| (self.posterior(stats), self.means(stats).collect())).collect();
        let precision = posteriors.iter().map(|(p, _)| p.a / p.b).sum::<f64>() / n;
        let ln_precision = posteriors.iter().map(|(p, _)| digamma(p.a) - p.b.ln()).sum::<f64>() / n;
        let (a, b) = type_two::gamma_prior(precision, ln_precision, max_shape)?;
        let b = b + a * type_two::LEAST_VARIANCE;
        let centre = |column: usize| posteriors.iter().map(|(p, mean)| p.a / p.b * mean[column]).sum::<f64>();
        let mean: Vec<f64> = (0..d).map(|column| centre(column) / n / precision).collect();
        let spread = posteriors.iter().map(|(p, own)| {
            let away: f64 = own.iter().zip(&mean).map(|(own, mean)| (own - mean).powi(2)).sum();
            p.a / p.b * away + d as f64 / p.kappa
        });
        let kappa = (d as f64 * n / spread.sum::<f64>()).min(type_two::max_rows(components.len(), partition));
        Self::new(self.frame.clone(), SphericalPrior { mean, kappa, a, b }).ok()
    }
}

impl DrawNatural for Spherical {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let d = self.dimensions();
        let posterior = self.posterior(stats);
        let precision = draw::gamma_variate(posterior.a, rng) / posterior.b;
        let mut square = 0.0;
        for (value, mean) in phi[1..].iter_mut().zip(self.means(stats)) {
            let mean = mean + draw::normal(rng) / (posterior.kappa * precision).sqrt();
            *value = precision * mean;
            square += *value * mean;
        }
        phi[d + 1] = -0.5 * precision;
        phi[0] = 0.5 * (d as f64 * precision.ln() - square) + self.ln_row_constant;
    }
}

struct SphericalPredictive {
    frame: Frame,
    mean: Vec<f64>,
    width: f64,
    dof: f64,
    density: StudentT,
}

impl SphericalPredictive {
    /// The marginal of a t has its degrees of freedom.
    fn ln_density_of_known(&self, x: &[f64]) -> f64 {
        let (n, q) = self.known(x);
        let ln_determinant = n as f64 * (self.width.ln() + 2.0 * self.frame.scale()[0].ln());
        StudentT::new(n, self.dof, ln_determinant).ln_density(q)
    }

    /// How many values are known, and their squared distance.
    fn known(&self, x: &[f64]) -> (usize, f64) {
        let (shift, scale) = (self.frame.shift(), self.frame.scale()[0]);
        let known = x.iter().zip(shift).zip(&self.mean).filter(|((x, _), _)| !x.is_nan());
        let squares = known.map(|((x, shift), mean)| ((x - shift) / scale - mean).powi(2));
        let (n, squares) = squares.fold((0, 0.0), |(n, sum), square| (n + 1, sum + square));
        (n, squares / self.width)
    }

    fn ln_density_framed(&self, framed: impl Iterator<Item = f64>) -> f64 {
        let squares = framed.zip(&self.mean).map(|(value, mean)| (value - mean) * (value - mean));
        self.density.ln_density(squares.sum::<f64>() / self.width)
    }
}

impl Predictive for SphericalPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        let framed = x.iter().zip(self.frame.shift()).zip(self.frame.scale());
        let ln_density = self.ln_density_framed(framed.map(|((x, shift), scale)| (x - shift) / scale));
        if ln_density.is_nan() { self.ln_density_of_known(x) } else { ln_density }
    }

    fn ln_density_from(&self, _x: &[f64], features: &[f64], _least: f64) -> f64 {
        self.ln_density_framed(features[1..=self.mean.len()].iter().copied())
    }

    fn conditional(&self, x: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        let (known, q) = self.known(x);
        let (shift, scale) = (self.frame.shift(), self.frame.scale()[0]);
        let width = self.width * (1.0 + q) / student_t::variance_divisor(self.dof + known as f64);
        for column in (0..x.len()).filter(|column| x[*column].is_nan()) {
            mean[column] = self.mean[column] * scale + shift[column];
            variance[column] = width * scale * scale;
        }
    }

    fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        let (known, q) = self.known(x);
        let (shift, scale) = (self.frame.shift(), self.frame.scale()[0]);
        let dof = self.dof + known as f64;
        let variance = 0.5 * self.width * (1.0 + q) / draw::gamma_variate(0.5 * dof, rng);
        for column in missing_columns(x) {
            x[column] = (self.mean[column] + variance.sqrt() * draw::normal(rng)) * scale + shift[column];
        }
    }

    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        let precision = self.density.half_power() / self.width;
        let (last, rest) = theta.split_last_mut().expect("the square is a feature");
        *last = precision;
        rest[0] = precision * self.mean.iter().map(|m| m * m).sum::<f64>();
        rest[1..].iter_mut().zip(&self.mean).for_each(|(out, mean)| *out = -2.0 * precision * mean);
        let (constant, half_power) = (self.density.ln_constant(), self.density.half_power());
        Envelope { constant, half_power, rounding: FEW_ROUNDINGS, tight: true }
    }
}
