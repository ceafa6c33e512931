//! Gaussian components with independent columns, each under a normal-gamma prior.
//!
//! ```text
//! T(x) = (1, x, x²)                                             in the coordinates of the frame
//! κ = κ₀ + n,   m = (κ₀m₀ + Σx) / κ,   a = a₀ + n/2
//! b = b₀ + ½Σ(x − x̄)² + ½ · κ₀n/κ · (x̄ − m₀)²
//! A = Σ_d [ log Γ(a) − a log b + ½ log(2π/κ) ] + n · c
//! φ = ( Σ_d ½[ψ(a) − log b − 1/κ − (a/b)m²] + c,   (a/b)m,   −½ a/b )
//! p(x | S) = Π_d t_{2a}( m, b(κ+1) / (aκ) )
//! ```
//!
//! `c = −D/2 · log 2π − Σ log scale`, as for the full Gaussian.

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
use crate::batch::Batch;
use crate::math::special::{LN_2PI, digamma, ln_gamma};

/// Parameters of one normal-gamma distribution: precision `λ ~ Gamma(a, b)`, mean `μ | λ ~ N(m, 1/(κλ))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalGamma {
    /// Expected mean `m`.
    pub mean: f64,
    /// Rows that the expected mean counts for, `κ > 0`.
    pub kappa: f64,
    /// Shape of the precision, `a > 0`.
    pub a: f64,
    /// Rate of the precision, `b > 0`; the expected variance is `b / (a − 1)`.
    pub b: f64,
}

impl NormalGamma {
    fn validate(&self) -> Result<(), PriorError> {
        require_real("the prior mean", &[self.mean])?;
        require_positive("kappa", &[self.kappa])?;
        require_positive("the prior shape a", &[self.a])?;
        require_positive("the prior rate b", &[self.b])
    }

    /// After `count` values with this sum and sum of squares.
    fn updated(&self, count: f64, sum: f64, squares: f64) -> Self {
        if count <= EMPTY_COUNT {
            return *self;
        }
        let kappa = self.kappa + count;
        let data_mean = sum / count;
        // A sum of squares is not negative, whatever cancellation says.
        let within = (squares - data_mean * sum).max(0.0);
        let between = self.kappa * count / kappa * (data_mean - self.mean).powi(2);
        Self {
            mean: (self.kappa * self.mean + sum) / kappa,
            kappa,
            a: self.a + 0.5 * count,
            b: self.b + 0.5 * (within + between),
        }
    }

    fn ln_partition(&self) -> f64 {
        ln_gamma(self.a) - self.a * self.b.ln() + 0.5 * (LN_2PI - self.kappa.ln())
    }

    /// `b(κ + 1)/κ`: half the squared width of the predictive t, times its degrees of freedom.
    fn widened_rate(&self) -> f64 {
        self.b * (1.0 + 1.0 / self.kappa)
    }
}

/// A Gaussian with unknown mean and variance in every column, columns independent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawDiagonal", into = "RawDiagonal")]
pub struct Diagonal {
    frame: Frame,
    prior: Vec<NormalGamma>,
    /// `c` of the module documentation.
    ln_row_constant: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDiagonal {
    frame: Frame,
    prior: Vec<NormalGamma>,
}

impl TryFrom<RawDiagonal> for Diagonal {
    type Error = PriorError;

    fn try_from(raw: RawDiagonal) -> Result<Self, PriorError> {
        Diagonal::new(raw.frame, raw.prior)
    }
}

impl From<Diagonal> for RawDiagonal {
    fn from(family: Diagonal) -> Self {
        RawDiagonal { frame: family.frame, prior: family.prior }
    }
}

/// The default prior: worth a tenth of a row for the mean, and `E[variance] = b/(a − 1) = 0.1` in the frame.
const DEFAULT_PRIOR: NormalGamma = NormalGamma { mean: 0.0, kappa: 0.1, a: 1.5, b: 0.05 };

impl Diagonal {
    /// A family whose priors, one per column, are given in the coordinates of the frame.
    pub fn new(frame: Frame, prior: Vec<NormalGamma>) -> Result<Self, PriorError> {
        require_len("the prior", frame.dimensions(), prior.len())?;
        prior.iter().try_for_each(NormalGamma::validate)?;
        let ln_row_constant = -0.5 * frame.dimensions() as f64 * LN_2PI - frame.ln_scale();
        Ok(Self { frame, prior, ln_row_constant })
    }

    /// A family whose priors are given in the units of the data.
    pub fn with_prior_in_data_units(frame: Frame, mut prior: Vec<NormalGamma>) -> Result<Self, PriorError> {
        for ((column, shift), scale) in prior.iter_mut().zip(frame.shift()).zip(frame.scale()) {
            column.mean = (column.mean - shift) / scale;
            column.b = column.b / scale / scale;
        }
        Self::new(frame, prior)
    }

    /// A weak prior in the frame of the first rows.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let frame = Frame::from_rows(rows)?;
        let prior = vec![DEFAULT_PRIOR; frame.dimensions()];
        Self::new(frame, prior)
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

    /// The prior of each column, in the coordinates of the frame.
    pub fn prior(&self) -> &[NormalGamma] {
        &self.prior
    }

    fn columns<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = NormalGamma> + 'a {
        let (sums, squares) = stats[1..].split_at(self.dimensions());
        let sums = sums.iter().zip(squares);
        self.prior.iter().zip(sums).map(|(prior, (sum, square))| prior.updated(stats[0], *sum, *square))
    }
}

impl Conjugate for Diagonal {
    fn n_features(&self) -> usize {
        1 + 2 * self.dimensions()
    }

    fn admits(&self, stats: &[f64]) -> bool {
        let (sums, squares) = stats[1..].split_at(self.dimensions());
        are_moments(stats[0], sums, squares)
    }

    fn is_possible(&self, stats: &[f64]) -> bool {
        let (sums, squares) = stats[1..].split_at(self.dimensions());
        let mut columns = self.prior.iter().zip(sums.iter().zip(squares));
        let wide = |(prior, (sum, square)): (&NormalGamma, (&f64, &f64))| {
            PRIOR_SHARE * prior.b + 0.5 * scatter_of(stats[0], *sum, *square) > 0.0
        };
        self.admits(stats) && columns.all(wide)
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        let columns: f64 = self.columns(stats).map(|column| column.ln_partition()).sum();
        columns + stats[0] * self.ln_row_constant
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let (constant, rest) = phi.split_at_mut(1);
        let (linear, quadratic) = rest.split_at_mut(self.dimensions());
        let mut ln_partition = stats[0] * self.ln_row_constant;
        constant[0] = self.ln_row_constant;
        for (column, (linear, quadratic)) in self.columns(stats).zip(linear.iter_mut().zip(quadratic)) {
            let precision = column.a / column.b;
            *linear = precision * column.mean;
            *quadratic = -0.5 * precision;
            constant[0] +=
                0.5 * (digamma(column.a) - column.b.ln() - 1.0 / column.kappa - *linear * column.mean);
            ln_partition += column.ln_partition();
        }
        ln_partition
    }
}

impl Family for Diagonal {
    fn dimensions(&self) -> usize {
        self.prior.len()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        self.frame.check(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
        let (framed, squares) = out[1..].split_at_mut(self.dimensions());
        self.frame.apply_or(x, std::iter::repeat(&0.0), framed);
        for (square, value) in squares.iter_mut().zip(framed) {
            *square = *value * *value;
        }
    }

    fn ln_base(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        let d = self.dimensions();
        let columns =
            || phi[1..=d].iter().zip(&phi[d + 1..]).map(|(linear, quadratic)| (*linear, -2.0 * quadratic));
        table.clear();
        table.extend(columns().zip(self.frame.scale()).map(|((linear, precision), scale)| {
            0.5 * (LN_2PI - precision.ln() + linear * linear / precision) + scale.ln()
        }));
        table.extend(columns().map(|(linear, precision)| linear / precision));
        table.extend(columns().map(|(linear, precision)| (linear / precision).powi(2) + 1.0 / precision));
    }

    fn expect_columns(&self, table: &[f64], times: &[f64], out: &mut [f64]) {
        let d = self.dimensions();
        for (column, times) in times.iter().enumerate() {
            out[1 + column] += times * table[d + column];
            out[1 + d + column] += times * table[2 * d + column];
        }
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let columns = self.columns(stats).map(|column| {
            let width = 2.0 * column.widened_rate();
            ColumnPredictive {
                mean: column.mean,
                width,
                density: StudentT::new(1, 2.0 * column.a, width.ln()),
            }
        });
        let ln_scale = self.frame.ln_scale();
        Box::new(DiagonalPredictive { columns: columns.collect(), frame: self.frame.clone(), ln_scale })
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        for (out, column) in out.iter_mut().zip(self.columns(stats)) {
            let variance = column.widened_rate() / draw::gamma_variate(column.a, rng);
            *out = column.mean + variance.sqrt() * draw::normal(rng);
        }
        self.frame.restore(out);
    }

    /// Expected variances; the inverse of the expected precision where `a ≤ 1` and there is no expectation.
    fn summary(&self, stats: &[f64]) -> Summary {
        let mut mean: Vec<f64> = self.columns(stats).map(|column| column.mean).collect();
        self.frame.restore(&mut mean);
        let spread = self.columns(stats).zip(self.frame.scale()).map(|(column, scale)| {
            let divisor = if column.a > 1.0 { column.a - 1.0 } else { column.a };
            (column.b / divisor).sqrt() * scale
        });
        Summary { mean, spread: spread.collect(), covariance: None, probabilities: None }
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
        self.frame.apply_or(x, self.prior.iter().map(|column| &column.mean), out);
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        if components.is_empty() {
            return None;
        }
        let max_shape = 0.5 * type_two::max_dof(1, components.len(), partition);
        let n = components.len() as f64;
        let posteriors: Vec<Vec<NormalGamma>> =
            components.iter().map(|stats| self.columns(stats).collect()).collect();
        let mut prior = self.prior.clone();
        for (ix, column) in prior.iter_mut().enumerate() {
            let own = || posteriors.iter().map(|columns| &columns[ix]);
            let precision = own().map(|p| p.a / p.b).sum::<f64>() / n;
            let ln_precision = own().map(|p| digamma(p.a) - p.b.ln()).sum::<f64>() / n;
            let (a, b) = type_two::gamma_prior(precision, ln_precision, max_shape)?;
            let b = b + a * type_two::LEAST_VARIANCE;
            let mean = own().map(|p| p.a / p.b * p.mean).sum::<f64>() / n / precision;
            let spread = own().map(|p| p.a / p.b * (p.mean - mean).powi(2) + 1.0 / p.kappa).sum::<f64>() / n;
            *column = NormalGamma {
                mean,
                kappa: (1.0 / spread).min(type_two::max_rows(components.len(), partition)),
                a,
                b,
            };
        }
        Self::new(self.frame.clone(), prior).ok()
    }
}

impl DrawNatural for Diagonal {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let (constant, rest) = phi.split_at_mut(1);
        let (linear, quadratic) = rest.split_at_mut(self.dimensions());
        constant[0] = self.ln_row_constant;
        for (column, (linear, quadratic)) in self.columns(stats).zip(linear.iter_mut().zip(quadratic)) {
            let precision = draw::gamma_variate(column.a, rng) / column.b;
            let mean = column.mean + draw::normal(rng) / (column.kappa * precision).sqrt();
            *linear = precision * mean;
            *quadratic = -0.5 * precision;
            constant[0] += 0.5 * (precision.ln() - *linear * mean);
        }
    }
}

struct ColumnPredictive {
    mean: f64,
    width: f64,
    density: StudentT,
}

struct DiagonalPredictive {
    columns: Vec<ColumnPredictive>,
    frame: Frame,
    ln_scale: f64,
}

impl DiagonalPredictive {
    fn ln_density_framed(&self, framed: impl Iterator<Item = f64>) -> f64 {
        let columns = self.columns.iter().zip(framed).map(|(column, framed)| {
            let centred = framed - column.mean;
            column.density.ln_density(centred * centred / column.width)
        });
        columns.sum::<f64>() - self.ln_scale
    }

    fn ln_density_of_known(&self, x: &[f64]) -> f64 {
        let frame = self.frame.shift().iter().zip(self.frame.scale());
        let known = self.columns.iter().zip(x).zip(frame).filter(|((_, x), _)| !x.is_nan());
        let columns = known.map(|((column, x), (shift, scale))| {
            let centred = (x - shift) / scale - column.mean;
            column.density.ln_density(centred * centred / column.width) - scale.ln()
        });
        columns.sum()
    }
}

impl Predictive for DiagonalPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        let framed = x.iter().zip(self.frame.shift()).zip(self.frame.scale());
        let ln_density = self.ln_density_framed(framed.map(|((x, shift), scale)| (x - shift) / scale));
        if ln_density.is_nan() { self.ln_density_of_known(x) } else { ln_density }
    }

    fn ln_density_from(&self, _x: &[f64], features: &[f64], _least: f64) -> f64 {
        self.ln_density_framed(features[1..=self.columns.len()].iter().copied())
    }

    fn conditional(&self, x: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        let frame = self.frame.shift().iter().zip(self.frame.scale());
        let columns = self.columns.iter().zip(x).zip(frame).enumerate().filter(|(_, ((_, x), _))| x.is_nan());
        for (ix, ((column, _), (shift, scale))) in columns {
            mean[ix] = column.mean * scale + shift;
            // `h = (ν + 1)/2`.
            let dof = 2.0 * column.density.half_power() - 1.0;
            variance[ix] = scale * scale * column.width / student_t::variance_divisor(dof);
        }
    }

    fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        let frame = self.frame.shift().iter().zip(self.frame.scale());
        for ((column, x), (shift, scale)) in
            self.columns.iter().zip(x).zip(frame).filter(|((_, x), _)| x.is_nan())
        {
            let dof = 2.0 * column.density.half_power() - 1.0;
            let variance = 0.5 * column.width / draw::gamma_variate(0.5 * dof, rng);
            *x = (column.mean + variance.sqrt() * draw::normal(rng)) * scale + shift;
        }
    }

    /// Columns are independent: their distances add up, and the heaviest tail counts.
    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        let (constant, rest) = theta.split_at_mut(1);
        let (linear, quadratic) = rest.split_at_mut(self.columns.len());
        let mut envelope = Envelope {
            constant: -self.ln_scale,
            half_power: f64::INFINITY,
            rounding: FEW_ROUNDINGS,
            tight: self.columns.len() == 1,
        };
        for (column, (linear, quadratic)) in self.columns.iter().zip(linear.iter_mut().zip(quadratic)) {
            let precision = column.density.half_power() / column.width;
            *quadratic = precision;
            *linear = -2.0 * precision * column.mean;
            constant[0] += precision * column.mean * column.mean;
            envelope.constant += column.density.ln_constant();
            envelope.half_power = envelope.half_power.min(column.density.half_power());
        }
        envelope
    }
}
