//! Rows with missing values: what is missing is integrated out, component by component.
//!
//! ```text
//! q(x_mis | z = k) ∝ exp(φ_k · T(x)) h(x)
//! l_jk = log ∫ exp(φ_k · T(x)) h(x) dx_mis + ψ(m_k + n_k)              what a row scores by
//! Δ_k  = Σ_j r_jk E[T(x_j) | x_obs, k]                                 what it teaches
//! e_k  = Σ_j r_jk (l_jk − φ_k · E[T(x_j) | x_obs, k] − ψ) − r log r    what it adds to the entropy
//! ```
//!
//! That is the ascent on the same objective with the missing values among the unknowns: each step still maximises it over its own
//! block. The integral is exact in every family; of a normal density with full covariance it takes one factorisation for each
//! component and row, of which many are done side by side. Complete rows never come here.

use super::Precision;
use super::labels::Labels;
use super::narrow::Scored;
use crate::batch::{Batch, missing_columns};
use crate::family::{Family, Gap};
use crate::math::product::rows_times_parameters;
use crate::parallel;

/// Rows that are scored at a time.
const ROWS: usize = 128;

/// A label of a row is possible if it is at most so much less probable than the best one, here e⁻⁹: each costs a factorisation. What the others would
/// add to the objective is less than their probabilities.
const LN_POSSIBLE: f64 = -9.0;

/// The rows of a batch that have missing values.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes {
    /// By how many columns are missing, together where they are the same.
    rows: Vec<Hole>,
    /// The missing columns, ascending.
    patterns: Vec<Vec<usize>>,
    /// Whether each row of the batch is one of them; empty where none is.
    flags: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    row: usize,
    pattern: usize,
}

/// What the components say of missing columns, one table for each.
pub(super) struct Tables(Vec<Vec<f64>>);

impl Tables {
    pub(super) fn new<F: Family>(family: &F, phi: &[f64]) -> Self {
        Self(parallel::map(phi.chunks_exact(family.n_features()), |phi| {
            let mut table = Vec::new();
            family.missing_table(phi, &mut table);
            table
        }))
    }
}

impl Holes {
    pub(super) fn of(batch: &Batch) -> Self {
        if !batch.has_missing() {
            return Self::default();
        }
        let rows = batch.rows().map(missing_columns).enumerate().filter(|(_, missing)| !missing.is_empty());
        let mut rows: Vec<(usize, Vec<usize>, usize)> =
            rows.map(|(row, missing)| (missing.len(), missing, row)).collect();
        rows.sort_unstable();
        let mut holes = Self { flags: vec![false; batch.n_rows()], ..Self::default() };
        for (_, missing, row) in rows {
            holes.flags[row] = true;
            if holes.patterns.last() != Some(&missing) {
                holes.patterns.push(missing);
            }
            holes.rows.push(Hole { row, pattern: holes.patterns.len() - 1 });
        }
        holes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether each row of the batch has missing values; empty where none has.
    pub(super) fn flags(&self) -> &[bool] {
        &self.flags
    }

    /// The E-step of all rows of the batch over all components.
    pub(super) fn assign<F: Family>(
        &self,
        family: &F,
        scored: Scored<'_>,
        precision: Precision,
        labels: &mut Labels,
    ) {
        if self.is_empty() {
            return labels.assign(scored, precision);
        }
        labels.clear(self.flags.len());
        let complete: Vec<usize> = (0..self.flags.len()).filter(|row| !self.flags[*row]).collect();
        if !complete.is_empty() {
            let features = complete.iter().flat_map(|row| row_of(scored.features, *row, scored.n_features));
            let features: Vec<f64> = features.copied().collect();
            let mut found = Labels::default();
            found.assign(Scored { features: &features, ..scored }, precision);
            complete.iter().enumerate().for_each(|(ix, row)| labels.copy_row(*row, &found, ix));
        }
        self.assign_own(family, scored, labels);
    }

    /// The E-step of these rows over all components.
    pub(super) fn assign_own<F: Family>(&self, family: &F, scored: Scored<'_>, labels: &mut Labels) {
        let Scored { features, phi, ln_weights, n_features: f } = scored;
        let k = ln_weights.len();
        if self.is_empty() || k == 0 {
            return;
        }
        let mut panel = Vec::new();
        family.missing_panel(phi, &mut panel);
        let found = parallel::map(self.rows.chunks(ROWS), |rows| {
            let mut own = Labels::default();
            own.clear(rows.len());
            let known: Vec<f64> =
                rows.iter().flat_map(|hole| row_of(features, hole.row, f)).copied().collect();
            let mut scores = vec![0.0; rows.len() * k];
            rows_times_parameters(&known, phi, f, &mut scores);
            let known: Vec<&[f64]> = known.chunks_exact(f).collect();
            let mut first = 0;
            for alike in rows.chunk_by(|a, b| a.pattern == b.pattern) {
                let range = first..first + alike.len();
                first = range.end;
                let missing = &self.patterns[alike[0].pattern];
                let scores = &mut scores[range.start * k..range.end * k];
                family.integrate(&panel, missing, &known[range.clone()], scores);
                for (row, scores) in range.zip(scores.chunks_exact_mut(k)) {
                    scores.iter_mut().zip(ln_weights).for_each(|(score, weight)| *score += weight);
                    own.choose(row, scores, LN_POSSIBLE);
                }
            }
            own
        });
        self.put(&found, labels);
    }

    /// The E-step of all rows of the batch over the labels that are possible.
    pub(super) fn assign_again<F: Family>(
        &self,
        family: &F,
        scored: Scored<'_>,
        changed: &[bool],
        labels: &mut Labels,
    ) {
        let Scored { features, phi, ln_weights, n_features: f } = scored;
        labels.assign_again(features, phi, ln_weights, changed, &self.flags, f);
        if self.is_empty() {
            return;
        }
        let k = ln_weights.len();
        let tables = Tables::new(family, phi);
        let moved = |hole: &&Hole| labels.row(hole.row).any(|(component, _)| changed[component]);
        let moved: Vec<Hole> = self.rows.iter().filter(moved).copied().collect();
        let mut gaps = vec![Vec::new(); k];
        for hole in &moved {
            for (component, share) in labels.row(hole.row) {
                gaps[component].push(self.gap(features, f, *hole, share));
            }
        }
        let scores = parallel::map(gaps.iter().enumerate(), |(component, gaps)| {
            let mut scores = vec![0.0; gaps.len()];
            family.ln_integrals(row_of(phi, component, f), &tables[component], gaps, &mut scores);
            scores.iter_mut().for_each(|score| *score += ln_weights[component]);
            scores
        });
        let mut next = vec![0; k];
        for hole in &moved {
            labels.rescore(hole.row, |component| {
                next[component] += 1;
                scores[component][next[component] - 1]
            });
        }
    }

    fn gap<'a>(&'a self, features: &'a [f64], n_features: usize, hole: Hole, share: f64) -> Gap<'a> {
        let missing = &self.patterns[hole.pattern];
        Gap { features: row_of(features, hole.row, n_features), missing, share }
    }

    fn put(&self, found: &[Labels], labels: &mut Labels) {
        for (rows, found) in self.rows.chunks(ROWS).zip(found) {
            rows.iter().enumerate().for_each(|(ix, hole)| labels.copy_row(hole.row, found, ix));
        }
    }

    /// Adds what these rows are expected to be to the sums, and the entropy of what is missing to that of each component.
    pub(super) fn accumulate<F: Family>(
        &self,
        family: &F,
        labels: &Labels,
        (features, phi): (&[f64], &[f64]),
        batch: &Batch,
        (sums, entropies): (&mut [f64], &mut [f64]),
    ) {
        if self.is_empty() {
            return;
        }
        let f = family.n_features();
        let tables = Tables::new(family, phi);
        let mut gaps = vec![Vec::new(); entropies.len()];
        for hole in &self.rows {
            let weight = batch.weights().map_or(1.0, |weights| weights[hole.row]);
            for (ix, probability) in labels.row(hole.row).filter(|(_, probability)| *probability > 0.0) {
                gaps[ix].push(self.gap(features, f, *hole, weight * probability));
            }
        }
        let columns = sums.chunks_exact_mut(f).zip(entropies).zip(gaps).enumerate();
        let columns = columns.filter(|(_, (_, gaps))| !gaps.is_empty());
        parallel::each(columns, 1, |(ix, ((sums, entropy), gaps))| {
            *entropy += family.add_expected(row_of(phi, ix, f), &tables[ix], &gaps, sums);
        });
    }

    /// Writes `E[T(x) | x_obs, k]` of a row over the features of what is known of it, and returns the entropy of what is not; a complete
    /// row stays as it is.
    pub(super) fn expect<F: Family>(
        family: &F,
        phi: &[f64],
        table: &[f64],
        x: &[f64],
        features: &mut [f64],
    ) -> f64 {
        let missing = missing_columns(x);
        if missing.is_empty() {
            return 0.0;
        }
        let mut expected = vec![0.0; features.len()];
        let gap = Gap { features, missing: &missing, share: 1.0 };
        let entropy = family.add_expected(phi, table, &[gap], &mut expected);
        features.copy_from_slice(&expected);
        entropy
    }
}

impl std::ops::Index<usize> for Tables {
    type Output = [f64];

    fn index(&self, component: usize) -> &[f64] {
        &self.0[component]
    }
}

fn row_of(values: &[f64], row: usize, len: usize) -> &[f64] {
    &values[row * len..(row + 1) * len]
}
