//! Columns of counts under Gamma priors.
//!
//! ```text
//! T(x) = (1, x),   log h(x) = −Σ_d log x_d!
//! a = a₀ + Σx,   b = b₀ + n                                     per column
//! A = Σ_d log Γ(a) − a log b
//! φ = ( −Σ_d a/b,   ψ(a) − log b )
//! p(x | S) = Γ(a + x) / (Γ(a) x!) · (b/(b+1))^a · (1/(b+1))^x   negative binomial
//! ```

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::error::{PriorError, require_len, require_positive, require_some};
use super::natural::LEAST_LN;
use super::{
    Conjugate, DomainError, DrawNatural, Envelope, Family, Partition, Predictive, Summary, counts, draw,
    type_two,
};
use crate::batch::Batch;
use crate::math::special::{digamma, ln_gamma, ln_gamma_ratio};

/// Independent columns of counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawPoisson")]
pub struct Poisson {
    shape: Vec<f64>,
    rate: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPoisson {
    shape: Vec<f64>,
    rate: Vec<f64>,
}

impl TryFrom<RawPoisson> for Poisson {
    type Error = PriorError;

    fn try_from(raw: RawPoisson) -> Result<Self, PriorError> {
        Poisson::new(raw.shape, raw.rate)
    }
}

/// Shape and rate of the expected count of one column.
#[derive(Clone, Copy)]
struct Gamma {
    shape: f64,
    rate: f64,
}

impl Gamma {
    fn ln_partition(self) -> f64 {
        ln_gamma(self.shape) - self.shape * self.rate.ln()
    }

    fn mean(self) -> f64 {
        self.shape / self.rate
    }
}

/// The mean that is assumed where the first rows hold zeros only: "less than one in as many rows as were seen" says
/// nothing about the size of later counts, and a prior rate of 1/mean must stay finite.
const LEAST_MEAN: f64 = 0.1;

impl Poisson {
    /// Shape (`a₀`) and rate (`b₀`) of the prior of each column; the expected count is `a₀/b₀`.
    pub fn new(shape: Vec<f64>, rate: Vec<f64>) -> Result<Self, PriorError> {
        require_some("the prior", shape.len())?;
        require_len("the prior rate", shape.len(), rate.len())?;
        require_positive("a prior shape", &shape)?;
        require_positive("a prior rate", &rate)?;
        Ok(Self { shape, rate })
    }

    /// Shape 1 and the mean of the first rows: an exponential distribution over the expected count.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let means = counts::column_means(rows, counts::check_counts)?;
        let rate = means.iter().map(|mean| 1.0 / mean.max(LEAST_MEAN)).collect();
        Self::new(vec![1.0; means.len()], rate)
    }

    /// Prior shapes, per column.
    pub fn shape(&self) -> &[f64] {
        &self.shape
    }

    /// Prior rates, per column.
    pub fn rate(&self) -> &[f64] {
        &self.rate
    }

    fn columns<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = Gamma> + 'a {
        let prior = self.shape.iter().zip(&self.rate);
        prior.zip(&stats[1..]).map(|((shape, rate), sum)| Gamma { shape: shape + sum, rate: rate + stats[0] })
    }
}

impl Conjugate for Poisson {
    fn n_features(&self) -> usize {
        1 + self.dimensions()
    }

    fn admits(&self, stats: &[f64]) -> bool {
        counts::are_sums(stats)
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        self.columns(stats).map(Gamma::ln_partition).sum()
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let mut ln_partition = 0.0;
        let (constant, rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        for (value, column) in rest.iter_mut().zip(self.columns(stats)) {
            *value = digamma(column.shape) - column.rate.ln();
            constant[0] -= column.mean();
            ln_partition += column.ln_partition();
        }
        ln_partition
    }
}

impl Family for Poisson {
    fn dimensions(&self) -> usize {
        self.shape.len()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        counts::check_counts(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
        counts::known_or(x, std::iter::repeat(0.0), &mut out[1..]);
    }

    fn ln_base(&self, x: &[f64]) -> f64 {
        -x.iter().map(|x| counts::ln_factorial(*x)).sum::<f64>()
    }

    /// `log Σ_x e^{φx} / x! = e^φ`, and so is the mean.
    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        table.clear();
        table.extend(phi[1..].iter().map(|ln_rate| ln_rate.exp()));
    }

    fn expect_columns(&self, table: &[f64], times: &[f64], out: &mut [f64]) {
        out[1..]
            .iter_mut()
            .zip(times.iter().zip(table))
            .for_each(|(out, (times, mean))| *out += times * mean);
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let columns = self.columns(stats).map(|column| NegativeBinomial {
            shape: column.shape,
            // log b/(b+1) and log 1/(b+1), exact for large and for small b.
            ln_none: -column.shape * column.rate.recip().ln_1p(),
            ln_each: -column.rate.ln_1p(),
        });
        Box::new(PoissonPredictive { columns: columns.collect() })
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        for (out, column) in out.iter_mut().zip(self.columns(stats)) {
            let expected = draw::ln_gamma_variate(column.shape, rng).exp() / column.rate;
            *out = draw::poisson(expected, rng);
        }
    }

    fn summary(&self, stats: &[f64]) -> Summary {
        let mean: Vec<f64> = self.columns(stats).map(Gamma::mean).collect();
        let spread = mean.iter().map(|mean| mean.sqrt()).collect();
        Summary { mean, spread, covariance: None, probabilities: None }
    }

    /// `Σ (√x − √y)²`: the root makes the spread of a Poisson count the same (½) at every mean.
    fn embedding_len(&self) -> usize {
        self.dimensions()
    }

    /// Square roots, whose spread depends little on the rate.
    fn embed(&self, x: &[f64], out: &mut [f64]) {
        let means = self.shape.iter().zip(&self.rate).map(|(shape, rate)| shape / rate);
        counts::known_or(x, means, out);
        out.iter_mut().for_each(|out| *out = out.sqrt());
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        // Pieces of a cluster are purer than clusters: a prior made of them would never let them merge.
        if partition == Partition::Pieces || components.is_empty() {
            return None;
        }
        let n = components.len() as f64;
        let mut moments = vec![(0.0, 0.0); self.dimensions()];
        for stats in components {
            for ((mean, mean_ln), column) in moments.iter_mut().zip(self.columns(stats)) {
                *mean += column.shape / column.rate / n;
                *mean_ln += (digamma(column.shape) - column.rate.ln()) / n;
            }
        }
        let (mut shape, mut rate) = (self.shape.clone(), self.rate.clone());
        for (ix, (mean, mean_ln)) in moments.into_iter().enumerate() {
            if let Some((_, fitted)) = type_two::gamma_prior(mean, mean_ln, f64::INFINITY) {
                // Estimated from n components, the prior counts for at most n rows.
                rate[ix] = fitted.min(type_two::max_counts(components.len(), partition));
                shape[ix] = mean * rate[ix];
            }
        }
        Self::new(shape, rate).ok()
    }
}

impl DrawNatural for Poisson {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let (constant, rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        for (value, column) in rest.iter_mut().zip(self.columns(stats)) {
            *value = (draw::ln_gamma_variate(column.shape, rng) - column.rate.ln()).max(LEAST_LN);
            constant[0] -= value.exp();
        }
    }
}

struct NegativeBinomial {
    shape: f64,
    ln_none: f64,
    ln_each: f64,
}

impl NegativeBinomial {
    fn rate(&self) -> f64 {
        (-self.ln_each).exp_m1()
    }
}

struct PoissonPredictive {
    columns: Vec<NegativeBinomial>,
}

impl Predictive for PoissonPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        let columns = self.columns.iter().zip(x).filter(|(_, x)| !x.is_nan());
        columns
            .map(|(column, &x)| {
                ln_gamma_ratio(column.shape, x) - counts::ln_factorial(x)
                    + column.ln_none
                    + x * column.ln_each
            })
            .sum()
    }

    fn conditional(&self, x: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for (ix, (column, _)) in self.columns.iter().zip(x).enumerate().filter(|(_, (_, x))| x.is_nan()) {
            mean[ix] = column.shape / column.rate();
            variance[ix] = mean[ix] * (1.0 + 1.0 / column.rate());
        }
    }

    fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        for (column, x) in self.columns.iter().zip(x).filter(|(_, x)| x.is_nan()) {
            let expected = draw::ln_gamma_variate(column.shape, rng).exp() / column.rate();
            *x = draw::poisson(expected, rng);
        }
    }

    /// Not linear in the counts: all that is said is that it is a probability.
    fn envelope(&self, _theta: &mut [f64]) -> Envelope {
        Envelope::PROBABILITY
    }
}
