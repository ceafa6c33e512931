//! A row cut into blocks of columns, each with a family of its own, independent given the component.
//!
//! ```text
//! T(x) = ( T_1(x_{c_1}), T_2(x_{c_2}), … )        each block keeps its leading 1
//! A = Σ_b A_b,     φ = (φ_1, φ_2, …),     p(x | S) = Π_b p_b(x_{c_b} | S_b)
//! ```
//!
//! The count entry of every block holds the same number, and the first one of all is the first entry of `T`. Whether values are missing is a
//! block too ([`Absence`](super::Absence)), over columns that others describe.

use std::ops::Range;

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::error::{PriorError, require_len, require_some};
use super::{
    AnyFamily, Conjugate, DomainError, DrawNatural, Envelope, Family, Gap, Partition, Predictive, Summary,
};
use crate::math::cholesky::with_scratch;

/// Columns and the family that describes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Columns of the row, in the order in which the family takes them.
    pub columns: Vec<usize>,
    /// What these columns are.
    pub family: AnyFamily,
}

/// Independent blocks of columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawProduct", into = "RawProduct")]
pub struct Product {
    blocks: Vec<Block>,
    dimensions: usize,
    n_features: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProduct {
    blocks: Vec<Block>,
}

impl TryFrom<RawProduct> for Product {
    type Error = PriorError;

    fn try_from(raw: RawProduct) -> Result<Self, PriorError> {
        Product::new(raw.blocks)
    }
}

impl From<Product> for RawProduct {
    fn from(family: Product) -> Self {
        RawProduct { blocks: family.blocks }
    }
}

impl Product {
    /// Blocks that use each of the columns `0..D` exactly once; whether a column is missing may be said once besides.
    pub fn new(blocks: Vec<Block>) -> Result<Self, PriorError> {
        require_some("the product", blocks.len())?;
        for block in &blocks {
            require_len("the columns of a block", block.family.dimensions(), block.columns.len())?;
        }
        let of_values = || blocks.iter().filter(|block| !block.is_absence());
        let dimensions = of_values().map(|block| block.columns.len()).sum();
        require_some("the product", dimensions)?;
        let (mut used, mut marked) = (vec![false; dimensions], vec![false; dimensions]);
        for block in &blocks {
            let used = if block.is_absence() { &mut marked } else { &mut used };
            for &column in &block.columns {
                match used.get_mut(column) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err(PriorError::Partition { column }),
                }
            }
        }
        let n_features = blocks.iter().map(|block| block.family.n_features()).sum();
        Ok(Self { blocks, dimensions, n_features })
    }

    /// The same family whose values stand for intervals of these widths, one for each column.
    pub fn with_resolution(mut self, widths: &[f64]) -> Result<Self, PriorError> {
        for block in self.blocks.iter_mut().filter(|block| !block.is_absence()) {
            let own: Vec<f64> = block.columns.iter().map(|column| widths[*column]).collect();
            block.family = block.family.clone().with_resolution(&own)?;
        }
        Ok(self)
    }

    /// The blocks, in the order of their features.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Each block with its part of a feature row.
    pub(super) fn parts<'a>(&'a self, stats: &'a [f64]) -> impl Iterator<Item = (&'a Block, &'a [f64])> + 'a {
        let mut rest = stats;
        self.blocks.iter().map(move |block| {
            let (part, after) = rest.split_at(block.family.n_features());
            rest = after;
            (block, part)
        })
    }
}

/// The parts of a list in which each stands behind its length.
fn push_behind_its_length(part: &[f64], all: &mut Vec<f64>) {
    all.push(part.len() as f64);
    all.extend_from_slice(part);
}

fn each_behind_its_length(all: &[f64]) -> impl Iterator<Item = &[f64]> {
    let mut rest = all;
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first()?;
        let (part, after) = after.split_at(*len as usize);
        rest = after;
        Some(part)
    })
}

impl Block {
    /// Whether it says which values are missing, and not what they are.
    pub fn is_absence(&self) -> bool {
        matches!(self.family, AnyFamily::Absence(_))
    }

    /// Which of the block's own columns are among these, which ascend.
    fn own_places(&self, columns: &[usize]) -> Vec<usize> {
        (0..self.columns.len()).filter(|place| columns.binary_search(&self.columns[*place]).is_ok()).collect()
    }

    /// Calls `work` with rows as this block sees them.
    fn with_gaps<R>(
        &self,
        gaps: &[Gap<'_>],
        features: Range<usize>,
        work: impl FnOnce(&[Gap<'_>]) -> R,
    ) -> R {
        let missing: Vec<Vec<usize>> = gaps.iter().map(|gap| self.own_places(gap.missing)).collect();
        let own = gaps.iter().zip(&missing).map(|(gap, missing)| Gap {
            features: &gap.features[features.clone()],
            missing,
            share: gap.share,
        });
        work(&own.collect::<Vec<_>>())
    }

    /// Calls `work` with this block's columns of a row.
    fn with_columns<R>(&self, x: &[f64], work: impl FnOnce(&[f64]) -> R) -> R {
        with_scratch(self.columns.len(), |row| {
            self.gather(x, row);
            work(row)
        })
    }

    fn gather(&self, x: &[f64], row: &mut [f64]) {
        row.iter_mut().zip(&self.columns).for_each(|(value, column)| *value = x[*column]);
    }

    fn scatter(&self, row: &[f64], x: &mut [f64]) {
        row.iter().zip(&self.columns).for_each(|(value, column)| x[*column] = *value);
    }
}

impl Conjugate for Product {
    fn n_features(&self) -> usize {
        self.n_features
    }

    fn admits(&self, stats: &[f64]) -> bool {
        self.parts(stats).all(|(block, part)| block.family.admits(part))
    }

    fn is_possible(&self, stats: &[f64]) -> bool {
        self.parts(stats).all(|(block, part)| block.family.is_possible(part))
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        self.parts(stats).map(|(block, part)| block.family.log_partition(part)).sum()
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let mut rest = phi;
        let mut ln_partition = 0.0;
        for (block, part) in self.parts(stats) {
            let (phi, after) = rest.split_at_mut(part.len());
            ln_partition += block.family.expected_natural(part, phi);
            rest = after;
        }
        ln_partition
    }
}

impl Family for Product {
    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        self.blocks.iter().try_for_each(|block| {
            let result = block.with_columns(x, |row| block.family.check(row));
            result.map_err(|error| DomainError { column: block.columns[error.column], ..error })
        })
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        let mut rest = out;
        for block in &self.blocks {
            let (part, after) = rest.split_at_mut(block.family.n_features());
            block.with_columns(x, |row| block.family.features(row, part));
            rest = after;
        }
    }

    fn ln_base(&self, x: &[f64]) -> f64 {
        self.blocks.iter().map(|block| block.with_columns(x, |row| block.family.ln_base(row))).sum()
    }

    /// The tables of the blocks, each behind its length.
    fn missing_table(&self, phi: &[f64], table: &mut Vec<f64>) {
        table.clear();
        let mut own = Vec::new();
        for (block, phi) in self.parts(phi) {
            own.clear();
            block.family.missing_table(phi, &mut own);
            push_behind_its_length(&own, table);
        }
    }

    fn ln_integrals(&self, phi: &[f64], table: &[f64], gaps: &[Gap<'_>], out: &mut [f64]) {
        out.fill(0.0);
        let mut own = vec![0.0; gaps.len()];
        let mut first = 0;
        for (block, table) in self.blocks.iter().zip(each_behind_its_length(table)) {
            let part = first..first + block.family.n_features();
            first = part.end;
            let phi = &phi[part.clone()];
            block.with_gaps(gaps, part, |gaps| block.family.ln_integrals(phi, table, gaps, &mut own));
            out.iter_mut().zip(&own).for_each(|(out, own)| *out += own);
        }
    }

    fn add_expected(&self, phi: &[f64], table: &[f64], gaps: &[Gap<'_>], sums: &mut [f64]) -> f64 {
        let (mut first, mut entropy) = (0, 0.0);
        for (block, table) in self.blocks.iter().zip(each_behind_its_length(table)) {
            let part = first..first + block.family.n_features();
            first = part.end;
            let (phi, sums) = (&phi[part.clone()], &mut sums[part.clone()]);
            entropy += block.with_gaps(gaps, part, |gaps| block.family.add_expected(phi, table, gaps, sums));
        }
        entropy
    }

    /// The panels of the blocks, each behind its length.
    fn missing_panel(&self, phi: &[f64], panel: &mut Vec<f64>) {
        panel.clear();
        let (mut own, mut first) = (Vec::new(), 0);
        for block in &self.blocks {
            let part = first..first + block.family.n_features();
            first = part.end;
            let phi: Vec<f64> =
                phi.chunks_exact(self.n_features()).flat_map(|phi| &phi[part.clone()]).copied().collect();
            block.family.missing_panel(&phi, &mut own);
            push_behind_its_length(&own, panel);
        }
    }

    fn integrate(&self, panel: &[f64], missing: &[usize], features: &[&[f64]], scores: &mut [f64]) {
        let mut first = 0;
        for (block, panel) in self.blocks.iter().zip(each_behind_its_length(panel)) {
            let part = first..first + block.family.n_features();
            first = part.end;
            let features: Vec<&[f64]> = features.iter().map(|row| &row[part.clone()]).collect();
            block.family.integrate(panel, &block.own_places(missing), &features, scores);
        }
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let blocks = self.parts(stats).map(|(block, part)| BlockPredictive {
            columns: block.columns.clone(),
            n_features: part.len(),
            predictive: block.family.predictive(part),
        });
        Box::new(ProductPredictive { blocks: blocks.collect() })
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        // Values first, then which of them are missing.
        for absence in [false, true] {
            for (block, part) in self.parts(stats).filter(|(block, _)| block.is_absence() == absence) {
                with_scratch(block.columns.len(), |row| {
                    block.gather(out, row);
                    block.family.sample(part, rng, row);
                    block.scatter(row, out);
                });
            }
        }
    }

    /// The blocks' summaries, column by column. Where a block has a covariance, all have one: blocks are independent.
    /// Columns without categories have empty `probabilities`.
    fn summary(&self, stats: &[f64]) -> Summary {
        let d = self.dimensions;
        let of_values = self.parts(stats).filter(|(block, _)| !block.is_absence());
        let summaries: Vec<_> =
            of_values.map(|(block, part)| (&block.columns, block.family.summary(part))).collect();
        let mut mean = vec![0.0; d];
        let mut spread = vec![0.0; d];
        for (columns, summary) in &summaries {
            for (ix, &column) in columns.iter().enumerate() {
                mean[column] = summary.mean[ix];
                spread[column] = summary.spread[ix];
            }
        }
        let covariance = summaries.iter().any(|(_, summary)| summary.covariance.is_some());
        let probabilities = summaries.iter().any(|(_, summary)| summary.probabilities.is_some());
        Summary {
            covariance: covariance.then(|| block_covariance(&summaries, &spread)),
            probabilities: probabilities.then(|| column_probabilities(&summaries, d)),
            mean,
            spread,
        }
    }

    fn is_normal(&self) -> bool {
        self.blocks.iter().all(|block| block.family.is_normal())
    }

    fn resolution(&self, column: usize) -> Option<f64> {
        self.blocks.iter().find_map(|block| {
            let place = block.columns.iter().position(|own| *own == column)?;
            block.family.resolution(place)
        })
    }

    fn categories(&self, column: usize) -> Option<usize> {
        self.blocks.iter().find_map(|block| {
            let place = block.columns.iter().position(|own| *own == column)?;
            block.family.categories(place)
        })
    }

    fn embedding_len(&self) -> usize {
        self.blocks.iter().map(|block| block.family.embedding_len()).sum()
    }

    fn embed(&self, x: &[f64], out: &mut [f64]) {
        let mut start = 0;
        for block in &self.blocks {
            let end = start + block.family.embedding_len();
            block.with_columns(x, |x| block.family.embed(x, &mut out[start..end]));
            start = end;
        }
    }

    fn refit(&self, components: &[&[f64]], partition: Partition) -> Option<Self> {
        let mut blocks = self.blocks.clone();
        let mut start = 0;
        for block in &mut blocks {
            let end = start + block.family.n_features();
            let parts: Vec<&[f64]> = components.iter().map(|stats| &stats[start..end]).collect();
            if let Some(family) = block.family.refit(&parts, partition) {
                block.family = family;
            }
            start = end;
        }
        Self::new(blocks).ok()
    }
}

impl DrawNatural for Product {
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]) {
        let mut rest = phi;
        for (block, part) in self.parts(stats) {
            let (phi, after) = rest.split_at_mut(part.len());
            block.family.draw_natural(part, rng, phi);
            rest = after;
        }
    }
}

fn block_covariance(summaries: &[(&Vec<usize>, Summary)], spread: &[f64]) -> Vec<f64> {
    let d = spread.len();
    let mut full = vec![0.0; d * d];
    for (column, spread) in spread.iter().enumerate() {
        full[column * d + column] = spread * spread;
    }
    for (columns, summary) in summaries {
        for (ix, value) in summary.covariance.iter().flatten().enumerate() {
            full[columns[ix / columns.len()] * d + columns[ix % columns.len()]] = *value;
        }
    }
    full
}

fn column_probabilities(summaries: &[(&Vec<usize>, Summary)], dimensions: usize) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); dimensions];
    for (columns, summary) in summaries {
        // A multinomial block has one list for all of its columns: it is kept at the first.
        for (column, probabilities) in columns.iter().zip(summary.probabilities.iter().flatten()) {
            all[*column] = probabilities.clone();
        }
    }
    all
}

struct ProductPredictive {
    blocks: Vec<BlockPredictive>,
}

struct BlockPredictive {
    columns: Vec<usize>,
    /// Features of the block.
    n_features: usize,
    predictive: Box<dyn Predictive>,
}

impl BlockPredictive {
    fn with_columns<R>(&self, x: &[f64], work: impl FnOnce(&[f64]) -> R) -> R {
        with_scratch(self.columns.len(), |row| {
            row.iter_mut().zip(&self.columns).for_each(|(value, column)| *value = x[*column]);
            work(row)
        })
    }
}

impl Predictive for ProductPredictive {
    fn ln_density(&self, x: &[f64]) -> f64 {
        self.blocks.iter().map(|block| block.with_columns(x, |row| block.predictive.ln_density(row))).sum()
    }

    fn ln_density_from(&self, x: &[f64], features: &[f64], _least: f64) -> f64 {
        let mut rest = features;
        let mut total = 0.0;
        for block in &self.blocks {
            let (part, after) = rest.split_at(block.n_features);
            total +=
                block.with_columns(x, |row| block.predictive.ln_density_from(row, part, f64::NEG_INFINITY));
            rest = after;
        }
        total
    }

    fn conditional(&self, x: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for block in &self.blocks {
            let d = block.columns.len();
            let (mut own_mean, mut own_variance) = (vec![f64::NAN; d], vec![f64::NAN; d]);
            block.with_columns(x, |row| block.predictive.conditional(row, &mut own_mean, &mut own_variance));
            // What a block says nothing about stays as it is.
            for (place, column) in block.columns.iter().enumerate().filter(|(ix, _)| !own_mean[*ix].is_nan())
            {
                mean[*column] = own_mean[place];
                variance[*column] = own_variance[place];
            }
        }
    }

    fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        for block in &self.blocks {
            let mut row: Vec<f64> = block.columns.iter().map(|column| x[*column]).collect();
            block.predictive.draw_missing(&mut row, rng);
            block.columns.iter().zip(row).for_each(|(column, value)| x[*column] = value);
        }
    }

    /// Blocks are independent: their distances add up, and the heaviest tail counts. That of a block of probabilities, which
    /// are at most 1, is not negative either.
    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        let mut rest = theta;
        let mut all = Envelope { tight: self.blocks.len() == 1, ..Envelope::LINEAR };
        for block in &self.blocks {
            let (part, after) = rest.split_at_mut(block.n_features);
            let one = block.predictive.envelope(part);
            all.constant += one.constant;
            all.half_power = all.half_power.min(one.half_power);
            all.rounding = all.rounding.max(one.rounding);
            all.tight &= one.tight;
            rest = after;
        }
        all
    }
}
