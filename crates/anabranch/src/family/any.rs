//! Every family as one type, for the edges: model files, the wire, Python.
//!
//! Inside the mathematics code is generic over [`Family`]; here each call is a `match` and a delegation.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::error::{PriorError, require_len};
use super::{
    Absence, Bernoulli, Block, Categorical, Conjugate, Diagonal, DomainError, DrawNatural, Family, Gap,
    Gaussian, Multinomial, Partition, Poisson, Predictive, Product, Spherical, Summary,
};
use crate::batch::Batch;

/// One of the families of this crate. Deserialising one validates it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnyFamily {
    /// Full covariance.
    Gaussian(Gaussian),
    /// A variance per column.
    Diagonal(Diagonal),
    /// One variance for all columns.
    Spherical(Spherical),
    /// Zeros and ones.
    Bernoulli(Bernoulli),
    /// Category codes.
    Categorical(Categorical),
    /// Independent counts.
    Poisson(Poisson),
    /// Counts over a vocabulary.
    Multinomial(Multinomial),
    /// Blocks of columns with different families.
    Product(Product),
    /// Whether values are missing, as a block of a product beside those of the values.
    Absence(Absence),
}

macro_rules! delegate {
    ($any:expr, $family:ident => $call:expr) => {
        match $any {
            AnyFamily::Gaussian($family) => $call,
            AnyFamily::Diagonal($family) => $call,
            AnyFamily::Spherical($family) => $call,
            AnyFamily::Bernoulli($family) => $call,
            AnyFamily::Categorical($family) => $call,
            AnyFamily::Poisson($family) => $call,
            AnyFamily::Multinomial($family) => $call,
            AnyFamily::Product($family) => $call,
            AnyFamily::Absence($family) => $call,
        }
    };
}

macro_rules! from_each {
    ($($family:ident),*) => {
        $(impl From<$family> for AnyFamily {
            fn from(family: $family) -> Self {
                AnyFamily::$family(family)
            }
        })*
    };
}

from_each!(Gaussian, Diagonal, Spherical, Bernoulli, Categorical, Poisson, Multinomial, Product, Absence);

impl AnyFamily {
    /// The name that model files and the command line use.
    pub fn name(&self) -> &'static str {
        match self {
            AnyFamily::Gaussian(_) => "gaussian",
            AnyFamily::Diagonal(_) => "diagonal",
            AnyFamily::Spherical(_) => "spherical",
            AnyFamily::Bernoulli(_) => "bernoulli",
            AnyFamily::Categorical(_) => "categorical",
            AnyFamily::Poisson(_) => "poisson",
            AnyFamily::Multinomial(_) => "multinomial",
            AnyFamily::Product(_) => "product",
            AnyFamily::Absence(_) => "absence",
        }
    }

    /// The same family with whether values of these columns are missing, as often as they are in these rows.
    pub fn with_absence(self, columns: Vec<usize>, rows: &Batch) -> Result<Self, PriorError> {
        let absence = Absence::from_rows(rows, &columns)?.into();
        let mut blocks = match self {
            AnyFamily::Product(product) => product.blocks().to_vec(),
            family => vec![Block { columns: (0..family.dimensions()).collect(), family }],
        };
        blocks.push(Block { columns, family: absence });
        Product::new(blocks).map(AnyFamily::Product)
    }

    /// How often values are missing under these statistics, for each column of which that is learned; empty where it is of none.
    pub fn absent(&self, stats: &[f64]) -> Vec<(usize, f64)> {
        let AnyFamily::Product(product) = self else { return Vec::new() };
        let absences = product.parts(stats).filter(|(block, _)| block.is_absence());
        absences
            .flat_map(|(block, part)| block.columns.iter().copied().zip(block.family.summary(part).mean))
            .collect()
    }

    /// The same family whose values stand for intervals of these widths, one for each column; 0 for exact values, counts and
    /// names.
    pub fn with_resolution(self, widths: &[f64]) -> Result<Self, PriorError> {
        require_len("the resolution", self.dimensions(), widths.len())?;
        Ok(match self {
            AnyFamily::Gaussian(family) => AnyFamily::Gaussian(family.with_resolution(widths.to_vec())?),
            AnyFamily::Diagonal(family) => AnyFamily::Diagonal(family.with_resolution(widths.to_vec())?),
            AnyFamily::Spherical(family) => AnyFamily::Spherical(family.with_resolution(widths.to_vec())?),
            AnyFamily::Product(family) => AnyFamily::Product(family.with_resolution(widths)?),
            counts => match widths.iter().find(|width| **width != 0.0) {
                None => counts,
                Some(&value) => {
                    let expected = "0: counts and names are exact";
                    return Err(PriorError::Parameter { what: "the resolution", value, expected });
                }
            },
        })
    }
}

impl Conjugate for AnyFamily {
    fn n_features(&self) -> usize {
        delegate!(self, family => family.n_features())
    }

    fn admits(&self, stats: &[f64]) -> bool {
        delegate!(self, family => family.admits(stats))
    }

    fn is_possible(&self, stats: &[f64]) -> bool {
        delegate!(self, family => family.is_possible(stats))
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        delegate!(self, family => family.log_partition(stats))
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        delegate!(self, family => family.expected_natural(stats, phi))
    }
}

impl Family for AnyFamily {
    fn dimensions(&self) -> usize {
        delegate!(self, family => family.dimensions())
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        delegate!(self, family => family.check(x))
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        delegate!(self, family => family.features(x, out))
    }

    fn leading_len(&self) -> usize {
        delegate!(self, family => family.leading_len())
    }

    fn leading_features(&self, x: &[f64], out: &mut [f64]) {
        delegate!(self, family => family.leading_features(x, out))
    }

    fn ln_base(&self, x: &[f64]) -> f64 {
        delegate!(self, family => family.ln_base(x))
    }

    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        delegate!(self, family => family.missing_table(phi, table));
    }

    fn expect_columns(&self, table: &[f64], times: &[f64], out: &mut [f64]) {
        delegate!(self, family => family.expect_columns(table, times, out));
    }

    fn ln_integrals(&self, phi: &[f64], table: &[f64], gaps: &[Gap<'_>], out: &mut [f64]) {
        delegate!(self, family => family.ln_integrals(phi, table, gaps, out));
    }

    fn add_expected(&self, phi: &[f64], table: &[f64], gaps: &[Gap<'_>], sums: &mut [f64]) -> f64 {
        delegate!(self, family => family.add_expected(phi, table, gaps, sums))
    }

    fn missing_panel(&self, phi: &[f64], panel: &mut Vec<f64>) {
        delegate!(self, family => family.missing_panel(phi, panel));
    }

    fn integrate(&self, panel: &[f64], missing: &[usize], features: &[&[f64]], scores: &mut [f64]) {
        delegate!(self, family => family.integrate(panel, missing, features, scores));
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        delegate!(self, family => family.predictive(stats))
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        delegate!(self, family => family.sample(stats, rng, out))
    }

    fn summary(&self, stats: &[f64]) -> Summary {
        delegate!(self, family => family.summary(stats))
    }

    fn is_normal(&self) -> bool {
        delegate!(self, family => family.is_normal())
    }

    fn resolution(&self, column: usize) -> Option<f64> {
        delegate!(self, family => family.resolution(column))
    }

    fn categories(&self, column: usize) -> Option<usize> {
        delegate!(self, family => family.categories(column))
    }

    fn embedding_len(&self) -> usize {
        delegate!(self, family => family.embedding_len())
    }

    fn embed(&self, x: &[f64], out: &mut [f64]) {
        delegate!(self, family => family.embed(x, out))
    }

    fn screen_len(&self) -> usize {
        delegate!(self, family => family.screen_len())
    }

    fn screen_features(&self, features: &[f64], out: &mut [f64]) {
        delegate!(self, family => family.screen_features(features, out))
    }

    fn screen(&self, phi: &[f64], out: &mut [f64]) {
        delegate!(self, family => family.screen(phi, out))
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        delegate!(self, family => family.refit(components, partition).map(AnyFamily::from))
    }
}

impl DrawNatural for AnyFamily {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        delegate!(self, family => family.draw_natural(stats, rng, phi))
    }
}
