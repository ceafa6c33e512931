//! Columns of category codes under Dirichlet priors.
//!
//! ```text
//! T(x) = (1, one-hot(x_1), …, one-hot(x_D)),   F = 1 + Σ_d C_d
//! λ_dc = λ₀_dc + Σ [x_d = c]
//! A = Σ_d [ Σ_c log Γ(λ_dc) − log Γ(Σ_c λ_dc) ]
//! φ = ( 0,   ψ(λ_dc) − ψ(Σ_c λ_dc) )
//! p(x | S) = Π_d λ_{d,x_d} / Σ_c λ_dc
//! ```
//!
//! The **last category of every column is "other"**: codes from `C_d − 1` upwards count there, so that a category that
//! first appears in the middle of a stream has a place.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::error::{PriorError, require_positive, require_some};
use super::natural::draw_ln_dirichlet;
use super::{
    Conjugate, DomainError, DrawNatural, Envelope, Family, Partition, Predictive, Summary, counts, draw,
    type_two,
};
use crate::batch::Batch;
use crate::math::log_sum_exp::log_sum_exp;
use crate::math::special::{digamma, ln_gamma};

/// Independent columns of category codes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawCategorical", into = "RawCategorical")]
pub struct Categorical {
    pseudo_counts: Vec<Vec<f64>>,
    n_features: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCategorical {
    pseudo_counts: Vec<Vec<f64>>,
}

impl TryFrom<RawCategorical> for Categorical {
    type Error = PriorError;

    fn try_from(raw: RawCategorical) -> Result<Self, PriorError> {
        Categorical::new(raw.pseudo_counts)
    }
}

impl From<Categorical> for RawCategorical {
    fn from(family: Categorical) -> Self {
        RawCategorical { pseudo_counts: family.pseudo_counts }
    }
}

/// Codes of the first rows above this share the category "other": a column of row numbers is not categorical.
pub(crate) const MOST_CATEGORIES: usize = 1024;

impl Categorical {
    /// Prior pseudo-counts of every category of every column, "other" last.
    pub fn new(pseudo_counts: Vec<Vec<f64>>) -> Result<Self, PriorError> {
        require_some("the prior", pseudo_counts.len())?;
        for column in &pseudo_counts {
            require_some("the categories of a column", column.len())?;
            require_positive("a pseudo-count", column)?;
        }
        let n_features = 1 + pseudo_counts.iter().map(Vec::len).sum::<usize>();
        Ok(Self { pseudo_counts, n_features })
    }

    /// The categories of the first rows and "other", with one pseudo-row per column shared out evenly.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        counts::column_means(rows, counts::check_counts)?;
        let columns = (0..rows.dimensions()).map(|column| {
            let largest = rows.rows().map(|x| x[column]).fold(0.0, f64::max);
            let known = (largest as usize).saturating_add(1).min(MOST_CATEGORIES);
            let categories = known + 1;
            vec![1.0 / categories as f64; categories]
        });
        Self::new(columns.collect())
    }

    /// Prior pseudo-counts, per column and category.
    pub fn pseudo_counts(&self) -> &[Vec<f64>] {
        &self.pseudo_counts
    }

    /// Each column's prior pseudo-counts with its statistics.
    fn columns<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = (&'a [f64], &'a [f64])> + 'a {
        let mut rest = &stats[1..];
        self.pseudo_counts.iter().map(move |prior| {
            let (counts, after) = rest.split_at(prior.len());
            rest = after;
            (prior.as_slice(), counts)
        })
    }

    fn posterior<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = Vec<f64>> + 'a {
        self.columns(stats).map(|(prior, counts)| prior.iter().zip(counts).map(|(p, c)| p + c).collect())
    }
}

/// The category that a code counts for.
fn category_of(code: f64, categories: usize) -> usize {
    // The cast saturates, so any large code is "other".
    (code as usize).min(categories - 1)
}

fn ln_partition_of(prior: &[f64], counts: &[f64]) -> f64 {
    let (mut ln_partition, mut total) = (0.0, 0.0);
    for (prior, count) in prior.iter().zip(counts) {
        ln_partition += ln_gamma(prior + count);
        total += prior + count;
    }
    ln_partition - ln_gamma(total)
}

impl Conjugate for Categorical {
    fn n_features(&self) -> usize {
        self.n_features
    }

    fn admits(&self, stats: &[f64]) -> bool {
        counts::are_sums(stats)
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        self.columns(stats).map(|(prior, counts)| ln_partition_of(prior, counts)).sum()
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let (constant, mut rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        let mut ln_partition = 0.0;
        for (prior, counts) in self.columns(stats) {
            let (column, after) = rest.split_at_mut(prior.len());
            ln_partition += counts::dirichlet_natural(prior.iter().zip(counts).map(|(p, c)| p + c), column);
            rest = after;
        }
        ln_partition
    }
}

impl Family for Categorical {
    fn dimensions(&self) -> usize {
        self.pseudo_counts.len()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        counts::check_counts(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        out[0] = 1.0;
        let mut start = 1;
        for (code, column) in x.iter().zip(&self.pseudo_counts) {
            if !code.is_nan() {
                out[start + category_of(*code, column.len())] = 1.0;
            }
            start += column.len();
        }
    }

    fn ln_base(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        table.clear();
        table.extend(self.columns(phi).map(|(_, ln)| log_sum_exp(ln)));
        let d = table.len();
        for (column, (_, ln)) in self.columns(phi).enumerate() {
            let total = table[column];
            table.extend(ln.iter().map(|ln| (ln - total).exp()));
        }
        debug_assert_eq!(table.len(), d + self.n_features - 1);
    }

    fn expect_columns(&self, table: &[f64], times: &[f64], out: &mut [f64]) {
        let mut places = out[1..].iter_mut().zip(&table[self.dimensions()..]);
        for (categories, times) in self.pseudo_counts.iter().zip(times) {
            places.by_ref().take(categories.len()).for_each(|(out, share)| *out += times * share);
        }
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let columns = self.posterior(stats).map(|mut column| {
            let ln_total = column.iter().sum::<f64>().ln();
            column.iter_mut().for_each(|count| *count = count.ln() - ln_total);
            column
        });
        Box::new(CategoricalPredictive { ln_probabilities: columns.collect() })
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        for (out, mut probabilities) in out.iter_mut().zip(self.posterior(stats)) {
            draw::dirichlet_in_place(&mut probabilities, rng);
            *out = draw::category(&probabilities, rng) as f64;
        }
    }

    /// Mean and spread are those of the codes, which say little; `probabilities` say it all.
    fn summary(&self, stats: &[f64]) -> Summary {
        let probabilities: Vec<Vec<f64>> = self.posterior(stats).map(normalised).collect();
        let moment = |column: &Vec<f64>, power: i32| -> f64 {
            column.iter().enumerate().map(|(code, p)| p * (code as f64).powi(power)).sum()
        };
        let mean: Vec<f64> = probabilities.iter().map(|column| moment(column, 1)).collect();
        let spread =
            probabilities.iter().zip(&mean).map(|(column, m)| (moment(column, 2) - m * m).max(0.0).sqrt());
        Summary { spread: spread.collect(), mean, covariance: None, probabilities: Some(probabilities) }
    }

    fn categories(&self, column: usize) -> Option<usize> {
        Some(self.pseudo_counts[column].len())
    }

    /// Hamming distance: the number of columns whose categories differ.
    fn embedding_len(&self) -> usize {
        self.n_features() - 1
    }

    /// One indicator for each category, such that squared distances count the columns that differ.
    fn embed(&self, x: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let mut start = 0;
        for (code, cells) in x.iter().zip(&self.pseudo_counts) {
            if !code.is_nan() {
                out[start + category_of(*code, cells.len())] = std::f64::consts::FRAC_1_SQRT_2;
            }
            start += cells.len();
        }
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        // Pieces of a cluster are purer than clusters: a prior made of them would never let them merge.
        if partition == Partition::Pieces || components.is_empty() {
            return None;
        }
        let n = components.len() as f64;
        let mut mean_ln: Vec<Vec<f64>> =
            self.pseudo_counts.iter().map(|cells| vec![0.0; cells.len()]).collect();
        for stats in components {
            for (means, cells) in mean_ln.iter_mut().zip(self.posterior(stats)) {
                let of_total = digamma(cells.iter().sum());
                means
                    .iter_mut()
                    .zip(&cells)
                    .for_each(|(mean, cell)| *mean += (digamma(*cell) - of_total) / n);
            }
        }
        let mut refitted = self.clone();
        for (cells, mean_ln) in refitted.pseudo_counts.iter_mut().zip(&mean_ln) {
            type_two::dirichlet_step(cells, mean_ln, type_two::max_counts(components.len(), partition));
        }
        Some(refitted)
    }
}

impl DrawNatural for Categorical {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let (constant, mut rest) = phi.split_at_mut(1);
        constant[0] = 0.0;
        for (prior, counts) in self.columns(stats) {
            let (column, after) = rest.split_at_mut(prior.len());
            draw_ln_dirichlet(prior.iter().zip(counts).map(|(p, c)| p + c), rng, column);
            rest = after;
        }
    }
}

fn normalised(mut counts: Vec<f64>) -> Vec<f64> {
    let total: f64 = counts.iter().sum();
    counts.iter_mut().for_each(|count| *count /= total);
    counts
}

struct CategoricalPredictive {
    ln_probabilities: Vec<Vec<f64>>,
}

impl Predictive for CategoricalPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        let known = self.ln_probabilities.iter().zip(x).filter(|(_, x)| !x.is_nan());
        known.map(|(column, x)| column[category_of(*x, column.len())]).sum()
    }

    /// Of the codes, which say little.
    fn conditional(&self, x: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for (ix, (ln, _)) in self.ln_probabilities.iter().zip(x).enumerate().filter(|(_, (_, x))| x.is_nan())
        {
            let moment = |power: i32| -> f64 {
                ln.iter().enumerate().map(|(code, ln)| ln.exp() * (code as f64).powi(power)).sum()
            };
            mean[ix] = moment(1);
            variance[ix] = (moment(2) - moment(1).powi(2)).max(0.0);
        }
    }

    fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        for (ln, x) in self.ln_probabilities.iter().zip(x).filter(|(_, x)| x.is_nan()) {
            let probabilities: Vec<f64> = ln.iter().map(|ln| ln.exp()).collect();
            *x = draw::category(&probabilities, rng) as f64;
        }
    }

    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        for (out, ln) in theta[1..].iter_mut().zip(self.ln_probabilities.iter().flatten()) {
            *out = -ln;
        }
        Envelope::LINEAR
    }
}
