//! Columns of zeros and ones under Beta priors.
//!
//! ```text
//! T(x) = (1, x)
//! a = a₀ + Σx,   b = b₀ + n − Σx                                per column
//! A = Σ_d log Γ(a) + log Γ(b) − log Γ(a + b)
//! φ = ( Σ_d ψ(b) − ψ(a + b),   ψ(a) − ψ(b) )
//! p(x = 1 | S) = a / (a + b)
//! ```

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::error::{PriorError, require_len, require_positive, require_some};
use super::natural::draw_ln_dirichlet;
use super::{
    Conjugate, DomainError, DrawNatural, Envelope, Family, Partition, Predictive, Summary, counts, draw,
    type_two,
};
use crate::batch::Batch;
use crate::math::special::{digamma, ln_gamma, ln_gamma_ratio};

/// A sum of 1e12 terms is off by less than this share.
const ROUNDING_SHARE: f64 = 1e-6;

/// Independent columns of zeros and ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawBernoulli")]
pub struct Bernoulli {
    ones: Vec<f64>,
    zeros: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBernoulli {
    ones: Vec<f64>,
    zeros: Vec<f64>,
}

impl TryFrom<RawBernoulli> for Bernoulli {
    type Error = PriorError;

    fn try_from(raw: RawBernoulli) -> Result<Self, PriorError> {
        Bernoulli::new(raw.ones, raw.zeros)
    }
}

/// Pseudo-counts of ones and of zeros.
#[derive(Clone, Copy)]
struct Beta {
    ones: f64,
    zeros: f64,
}

impl Beta {
    fn ln_partition(self) -> f64 {
        ln_gamma(self.ones) - ln_gamma_ratio(self.zeros, self.ones)
    }

    fn mean(self) -> f64 {
        self.ones / (self.ones + self.zeros)
    }
}

impl Bernoulli {
    /// Pseudo-counts of ones (`a₀`) and of zeros (`b₀`) for each column.
    pub fn new(ones: Vec<f64>, zeros: Vec<f64>) -> Result<Self, PriorError> {
        require_some("the prior", ones.len())?;
        require_len("the pseudo-counts of zeros", ones.len(), zeros.len())?;
        require_positive("a pseudo-count of ones", &ones)?;
        require_positive("a pseudo-count of zeros", &zeros)?;
        Ok(Self { ones, zeros })
    }

    /// One pseudo-row per column, shared out as the first rows are: half Jeffreys (½, ½), half their mean.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let means = counts::column_means(rows, check_bits)?;
        let ones: Vec<f64> = means.iter().map(|mean| 0.25 + 0.5 * mean).collect();
        let zeros = ones.iter().map(|ones| 1.0 - ones).collect();
        Self::new(ones, zeros)
    }

    /// Prior pseudo-counts of ones, per column.
    pub fn ones(&self) -> &[f64] {
        &self.ones
    }

    /// Prior pseudo-counts of zeros, per column.
    pub fn zeros(&self) -> &[f64] {
        &self.zeros
    }

    fn columns<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = Beta> + 'a {
        self.ones.iter().zip(&self.zeros).zip(&stats[1..]).map(|((ones, zeros), sum)| Beta {
            ones: ones + sum.max(0.0),
            // Roundings of two different sums may leave a little less than nothing.
            zeros: zeros + (stats[0] - sum).max(0.0),
        })
    }
}

fn check_bits(x: &[f64]) -> Result<(), DomainError> {
    match x.iter().position(|&v| v != 0.0 && v != 1.0 && !v.is_nan()) {
        None => Ok(()),
        Some(column) => Err(DomainError { column, value: x[column], expected: "0 or 1" }),
    }
}

impl Conjugate for Bernoulli {
    fn n_features(&self) -> usize {
        1 + self.dimensions()
    }

    fn admits(&self, stats: &[f64]) -> bool {
        // Σx and n are added up apart, so Σx may lie above n by the rounding of a sum.
        let most = stats[0] * (1.0 + ROUNDING_SHARE);
        counts::are_sums(stats) && stats[1..].iter().all(|ones| *ones <= most)
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        self.columns(stats).map(Beta::ln_partition).sum()
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let mut ln_partition = 0.0;
        let (constant, rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        for (value, column) in rest.iter_mut().zip(self.columns(stats)) {
            let of_zeros = digamma(column.zeros);
            *value = digamma(column.ones) - of_zeros;
            constant[0] += of_zeros - digamma(column.ones + column.zeros);
            ln_partition += column.ln_partition();
        }
        ln_partition
    }
}

impl Family for Bernoulli {
    fn dimensions(&self) -> usize {
        self.ones.len()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        check_bits(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
        counts::known_or(x, std::iter::repeat(0.0), &mut out[1..]);
    }

    fn ln_base(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        table.clear();
        // log(1 + e^φ), for large φ too.
        table.extend(phi[1..].iter().map(|ln_odds| ln_odds.max(0.0) + (-ln_odds.abs()).exp().ln_1p()));
        table.extend(phi[1..].iter().map(|ln_odds| 1.0 / (1.0 + (-ln_odds).exp())));
    }

    fn expect_columns(&self, table: &[f64], times: &[f64], out: &mut [f64]) {
        let means = &table[self.dimensions()..];
        out[1..]
            .iter_mut()
            .zip(times.iter().zip(means))
            .for_each(|(out, (times, mean))| *out += times * mean);
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let ln_odds = self.columns(stats).map(|column| {
            let ln_total = (column.ones + column.zeros).ln();
            [column.zeros.ln() - ln_total, column.ones.ln() - ln_total]
        });
        Box::new(BernoulliPredictive { ln_probabilities: ln_odds.collect() })
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        for (out, column) in out.iter_mut().zip(self.columns(stats)) {
            let mut probabilities = [column.zeros, column.ones];
            draw::dirichlet_in_place(&mut probabilities, rng);
            *out = draw::category(&probabilities, rng) as f64;
        }
    }

    fn summary(&self, stats: &[f64]) -> Summary {
        let mean: Vec<f64> = self.columns(stats).map(Beta::mean).collect();
        let spread = mean.iter().map(|p| (p * (1.0 - p)).sqrt()).collect();
        Summary { mean, spread, covariance: None, probabilities: None }
    }

    /// Hamming distance: the number of columns that differ.
    fn embedding_len(&self) -> usize {
        self.dimensions()
    }

    /// The bits themselves: squared distances count the bits that differ.
    fn embed(&self, x: &[f64], out: &mut [f64]) {
        let means = self.ones.iter().zip(&self.zeros).map(|(ones, zeros)| ones / (ones + zeros));
        counts::known_or(x, means, out);
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        // Pieces of a cluster are purer than clusters: a prior made of them would never let them merge.
        if partition == Partition::Pieces || components.is_empty() {
            return None;
        }
        let n = components.len() as f64;
        let mut mean_ln = vec![[0.0; 2]; self.dimensions()];
        for stats in components {
            for (mean, column) in mean_ln.iter_mut().zip(self.columns(stats)) {
                let of_total = digamma(column.ones + column.zeros);
                mean[0] += (digamma(column.ones) - of_total) / n;
                mean[1] += (digamma(column.zeros) - of_total) / n;
            }
        }
        let mut refitted = self.clone();
        for ((ones, zeros), mean_ln) in refitted.ones.iter_mut().zip(&mut refitted.zeros).zip(&mean_ln) {
            let mut counts = [*ones, *zeros];
            type_two::dirichlet_step(&mut counts, mean_ln, type_two::max_counts(components.len(), partition));
            [*ones, *zeros] = counts;
        }
        Some(refitted)
    }
}

impl DrawNatural for Bernoulli {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let (constant, rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        for (value, column) in rest.iter_mut().zip(self.columns(stats)) {
            let mut ln_probabilities = [0.0; 2];
            draw_ln_dirichlet([column.zeros, column.ones].into_iter(), rng, &mut ln_probabilities);
            *value = ln_probabilities[1] - ln_probabilities[0];
            constant[0] += ln_probabilities[0];
        }
    }
}

struct BernoulliPredictive {
    ln_probabilities: Vec<[f64; 2]>,
}

impl Predictive for BernoulliPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        let known = self.ln_probabilities.iter().zip(x).filter(|(_, x)| !x.is_nan());
        known.map(|(ln, x)| ln[usize::from(*x != 0.0)]).sum()
    }

    fn conditional(&self, x: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for (ix, ([_, one], _)) in
            self.ln_probabilities.iter().zip(x).enumerate().filter(|(_, (_, x))| x.is_nan())
        {
            mean[ix] = one.exp();
            variance[ix] = mean[ix] * (1.0 - mean[ix]);
        }
    }

    fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        for ([zero, one], x) in self.ln_probabilities.iter().zip(x).filter(|(_, x)| x.is_nan()) {
            *x = draw::category(&[zero.exp(), one.exp()], rng) as f64;
        }
    }

    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        for (out, [zero, one]) in theta[1..].iter_mut().zip(&self.ln_probabilities) {
            *out = zero - one;
        }
        theta[0] = -self.ln_probabilities.iter().map(|[zero, _]| zero).sum::<f64>();
        Envelope::LINEAR
    }
}
