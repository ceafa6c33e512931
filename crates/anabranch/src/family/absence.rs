//! Which values of a row are missing: the fact itself, a zero or one for each column, under Beta priors.
//!
//! ```text
//! T(x) = (1, m),      m_d = 1 where x_d is missing
//! ```
//!
//! Beside a family of the values, as a block of a [`Product`](super::Product) over columns that the other blocks describe: a row then has the
//! density of what is known of it times the probability that the rest is missing.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{
    Bernoulli, Conjugate, DomainError, DrawNatural, Envelope, Family, Partition, Predictive, PriorError,
    Summary,
};
use crate::batch::Batch;
use crate::math::cholesky::with_scratch;

/// Independent columns, of each of which a value is missing or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Absence(Bernoulli);

impl Absence {
    /// One pseudo-row per column, shared out as these rows are, in which half of one more value is missing: a column that lacks none is
    /// expected to lack none, and a new component pays nothing for it.
    pub fn from_rows(rows: &Batch, columns: &[usize]) -> Result<Self, PriorError> {
        if let Some(column) = columns.iter().copied().find(|column| *column >= rows.dimensions()) {
            return Err(PriorError::Partition { column });
        }
        let mut missing = vec![0.5; columns.len()];
        for (row, x) in rows.rows().enumerate() {
            let weight = rows.weights().map_or(1.0, |weights| weights[row]);
            for (missing, _) in missing.iter_mut().zip(columns).filter(|(_, column)| x[**column].is_nan()) {
                *missing += weight;
            }
        }
        let ones: Vec<f64> = missing.iter().map(|missing| missing / (rows.mass() + 1.0)).collect();
        let zeros = ones.iter().map(|ones| 1.0 - ones).collect();
        Bernoulli::new(ones, zeros).map(Self)
    }

    /// Prior pseudo-counts of values that are missing (ones) and that are there (zeros), per column.
    pub fn prior(&self) -> &Bernoulli {
        &self.0
    }
}

/// Writes 1 where a value is missing and 0 where it is not.
fn mark(x: &[f64], out: &mut [f64]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = f64::from(u8::from(x.is_nan())));
}

impl Conjugate for Absence {
    fn n_features(&self) -> usize {
        self.0.n_features()
    }

    fn admits(&self, stats: &[f64]) -> bool {
        self.0.admits(stats)
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        self.0.log_partition(stats)
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        self.0.expected_natural(stats, phi)
    }
}

/// Nothing is left to integrate out: that a value is missing is known. So missing values have no table here.
impl Family for Absence {
    fn dimensions(&self) -> usize {
        self.0.dimensions()
    }

    fn check(&self, _x: &[f64]) -> Result<(), DomainError> {
        Ok(())
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
        mark(x, &mut out[1..]);
    }

    fn ln_base(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        Box::new(AbsencePredictive(self.0.predictive(stats)))
    }

    /// Values that are drawn as missing are, the others stay as they were.
    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        with_scratch(out.len(), |drawn| {
            self.0.sample(stats, rng, drawn);
            out.iter_mut().zip(drawn).filter(|(_, drawn)| **drawn == 1.0).for_each(|(x, _)| *x = f64::NAN);
        });
    }

    /// How often values are missing.
    fn summary(&self, stats: &[f64]) -> Summary {
        self.0.summary(stats)
    }

    fn embedding_len(&self) -> usize {
        self.0.embedding_len()
    }

    /// Squared distances count the columns of which one row has a value and the other has none.
    fn embed(&self, x: &[f64], out: &mut [f64]) {
        mark(x, out);
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        self.0.refit(components, partition).map(Self)
    }
}

impl DrawNatural for Absence {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        self.0.draw_natural(stats, rng, phi);
    }
}

struct AbsencePredictive(Box<dyn Predictive>);

impl Predictive for AbsencePredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        with_scratch(x.len(), |marks| {
            mark(x, marks);
            self.0.ln_density(marks)
        })
    }

    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        self.0.envelope(theta)
    }
}
