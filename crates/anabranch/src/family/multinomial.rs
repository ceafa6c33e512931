//! Rows of counts over a vocabulary of `V` columns under a Dirichlet prior.
//!
//! ```text
//! T(x) = (1, x),   log h(x) = log N! − Σ_v log x_v!,   N = Σ_v x_v
//! λ_v = λ₀_v + Σx_v
//! A = Σ_v log Γ(λ_v) − log Γ(Σ_v λ_v)
//! φ = ( 0,   ψ(λ_v) − ψ(Σλ) )
//! p(x | S, N) = N!/Πx_v! · Γ(Σλ)/Γ(Σλ + N) · Π_v Γ(λ_v + x_v)/Γ(λ_v)
//! ```
//!
//! The length `N` of a row is given, not modelled.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::error::{PriorError, require_positive, require_some};
use super::natural::draw_ln_dirichlet;
use super::{
    Conjugate, DomainError, DrawNatural, Envelope, Family, Partition, Predictive, Summary, counts, draw,
    type_two,
};
use crate::batch::Batch;
use crate::math::special::{digamma, ln_gamma, ln_gamma_ratio};

/// Counts over a vocabulary, for example words of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawMultinomial")]
pub struct Multinomial {
    pseudo_counts: Vec<f64>,
    /// Length of the rows that [`Family::sample`] draws and [`Family::summary`] describes.
    typical_total: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMultinomial {
    pseudo_counts: Vec<f64>,
    typical_total: f64,
}

impl TryFrom<RawMultinomial> for Multinomial {
    type Error = PriorError;

    fn try_from(raw: RawMultinomial) -> Result<Self, PriorError> {
        Multinomial::new(raw.pseudo_counts, raw.typical_total)
    }
}

/// Pseudo-counts of the default prior, per column: half of a Jeffreys prior evenly, half as the first rows are.
const DEFAULT_PSEUDO_COUNT: f64 = 0.5;
/// Longest row that is drawn word by word.
const LONGEST_SAMPLE: f64 = 1e6;

impl Multinomial {
    /// Prior pseudo-counts of each column, and the length of a typical row (the total of a row is not modelled, but
    /// samples and summaries need one).
    pub fn new(pseudo_counts: Vec<f64>, typical_total: f64) -> Result<Self, PriorError> {
        require_some("the prior", pseudo_counts.len())?;
        require_positive("a pseudo-count", &pseudo_counts)?;
        let usable = (0.0..=counts::LARGEST_COUNT).contains(&typical_total) && typical_total.fract() == 0.0;
        if !usable {
            let expected = "a whole number of at least 0";
            return Err(PriorError::Parameter { what: "the typical total", value: typical_total, expected });
        }
        Ok(Self { pseudo_counts, typical_total })
    }

    /// Half a pseudo-count per column in all, shared out half evenly and half as in the first rows.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let means = counts::column_means(rows, check)?;
        let total: f64 = means.iter().sum();
        let even = 1.0 / means.len() as f64;
        let mass = DEFAULT_PSEUDO_COUNT * means.len() as f64;
        let share = |mean: &f64| if total > 0.0 { 0.5 * even + 0.5 * mean / total } else { even };
        let pseudo_counts = means.iter().map(|mean| mass * share(mean)).collect();
        Self::new(pseudo_counts, total.round().min(counts::LARGEST_COUNT))
    }

    /// Prior pseudo-counts, per column.
    pub fn pseudo_counts(&self) -> &[f64] {
        &self.pseudo_counts
    }

    /// Length of a typical row.
    pub fn typical_total(&self) -> f64 {
        self.typical_total
    }

    fn posterior<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        self.pseudo_counts.iter().zip(&stats[1..]).map(|(prior, sum)| prior + sum)
    }
}

impl Conjugate for Multinomial {
    fn n_features(&self) -> usize {
        1 + self.dimensions()
    }

    fn admits(&self, stats: &[f64]) -> bool {
        counts::are_sums(stats)
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        let (mut ln_partition, mut total) = (0.0, 0.0);
        for count in self.posterior(stats) {
            ln_partition += ln_gamma(count);
            total += count;
        }
        ln_partition - ln_gamma(total)
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let (constant, rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        counts::dirichlet_natural(self.posterior(stats), rest)
    }
}

/// Counts of one row share their total: where one is missing, nothing says how large that was.
fn check(x: &[f64]) -> Result<(), DomainError> {
    if let Some(column) = x.iter().position(|x| x.is_nan()) {
        let expected = "a count in every column: the counts of a multinomial row share their total";
        return Err(DomainError { column, value: x[column], expected });
    }
    counts::check_counts(x)
}

impl Family for Multinomial {
    fn dimensions(&self) -> usize {
        self.pseudo_counts.len()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        check(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
        out[1..].copy_from_slice(x);
    }

    fn ln_base(&self, x: &[f64]) -> f64 {
        counts::ln_factorial(x.iter().sum()) - x.iter().map(|x| counts::ln_factorial(*x)).sum::<f64>()
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let pseudo_counts: Vec<f64> = self.posterior(stats).collect();
        Box::new(MultinomialPredictive { total: pseudo_counts.iter().sum(), pseudo_counts })
    }

    /// Draws a row of the typical total.
    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        let mut probabilities: Vec<f64> = self.posterior(stats).collect();
        draw::dirichlet_in_place(&mut probabilities, rng);
        out.fill(0.0);
        if self.typical_total > LONGEST_SAMPLE {
            // So many words that their shares are the probabilities.
            for (out, probability) in out.iter_mut().zip(&probabilities) {
                *out = (self.typical_total * probability).round();
            }
            return;
        }
        for _ in 0..self.typical_total as usize {
            out[draw::category(&probabilities, rng)] += 1.0;
        }
    }

    /// Expected counts in a row of the typical total; the expected probabilities are in `probabilities`.
    fn summary(&self, stats: &[f64]) -> Summary {
        let total: f64 = self.posterior(stats).sum();
        let shares: Vec<f64> = self.posterior(stats).map(|count| count / total).collect();
        let n = self.typical_total;
        Summary {
            mean: shares.iter().map(|p| n * p).collect(),
            spread: shares.iter().map(|p| (n * p * (1.0 - p)).sqrt()).collect(),
            covariance: None,
            probabilities: Some(vec![shares]),
        }
    }

    /// Squared Hellinger distance of the proportions; an empty row is as far as can be from all but empty rows.
    fn embedding_len(&self) -> usize {
        self.dimensions()
    }

    /// Square roots of the proportions: distances are Hellinger's. An empty row lies at the origin.
    fn embed(&self, x: &[f64], out: &mut [f64]) {
        let total = x.iter().sum::<f64>().max(1.0);
        out.iter_mut().zip(x).for_each(|(out, x)| *out = (0.5 * x / total).sqrt());
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        // Pieces of a cluster are purer than clusters: a prior made of them would never let them merge.
        if partition == Partition::Pieces || components.is_empty() {
            return None;
        }
        let n = components.len() as f64;
        let mut mean_ln = vec![0.0; self.dimensions()];
        for stats in components {
            let of_total = digamma(self.posterior(stats).sum());
            mean_ln
                .iter_mut()
                .zip(self.posterior(stats))
                .for_each(|(mean, cell)| *mean += (digamma(cell) - of_total) / n);
        }
        let mut refitted = self.clone();
        type_two::dirichlet_step(
            &mut refitted.pseudo_counts,
            &mean_ln,
            type_two::max_counts(components.len(), partition),
        );
        Some(refitted)
    }
}

impl DrawNatural for Multinomial {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let (constant, rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        draw_ln_dirichlet(self.posterior(stats), rng, rest);
    }
}

struct MultinomialPredictive {
    pseudo_counts: Vec<f64>,
    total: f64,
}

impl Predictive for MultinomialPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        let n: f64 = x.iter().sum();
        let columns = self.pseudo_counts.iter().zip(x).filter(|(_, x)| **x > 0.0);
        let ln_columns: f64 =
            columns.map(|(count, &x)| ln_gamma_ratio(*count, x) - counts::ln_factorial(x)).sum();
        ln_columns + counts::ln_factorial(n) - ln_gamma_ratio(self.total, n)
    }

    /// Not linear in the counts: all that is said is that it is a probability.
    fn envelope(&self, _theta: &mut [f64]) -> Envelope {
        Envelope::PROBABILITY
    }
}
