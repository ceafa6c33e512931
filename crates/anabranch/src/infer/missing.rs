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
//! component and each set of missing columns. Complete rows never come here.

use pulp::{Arch, Simd, WithSimd};

use super::labels::Labels;
use super::narrow::Scored;
use crate::batch::{Batch, missing_columns};
use crate::family::Family;
use crate::math::product::{add_scaled, dot, rows_times_parameters};
use crate::parallel;

/// Rows that are scored at a time.
const ROWS: usize = 128;

/// The rows of a batch that have missing values.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes {
    /// Together where the same columns are missing.
    rows: Vec<Hole>,
    /// The missing columns, ascending.
    patterns: Vec<Vec<usize>>,
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

/// The conditions of the components on one set of missing columns, as far as they were asked for.
#[derive(Default)]
struct Conditions {
    pattern: Option<usize>,
    of: Vec<Vec<f64>>,
    known: Vec<bool>,
}

impl Holes {
    pub(super) fn of(batch: &Batch) -> Self {
        if !batch.has_missing() {
            return Self::default();
        }
        let rows = batch.rows().map(missing_columns).enumerate().filter(|(_, missing)| !missing.is_empty());
        let mut rows: Vec<(Vec<usize>, usize)> = rows.map(|(row, missing)| (missing, row)).collect();
        rows.sort_unstable();
        let mut holes = Self::default();
        for (missing, row) in rows {
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

    /// The E-step of these rows over all components.
    pub(super) fn assign<F: Family>(&self, family: &F, scored: Scored<'_>, labels: &mut Labels) {
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
            let mut condition = Vec::new();
            let mut first = 0;
            for alike in rows.chunk_by(|a, b| a.pattern == b.pattern) {
                let missing = &self.patterns[alike[0].pattern];
                family.condition_panel(&panel, k, missing, &mut condition);
                for row in first..first + alike.len() {
                    let (x, scores) = (row_of(&known, row, f), &mut scores[row * k..(row + 1) * k]);
                    family.add_ln_missing(&panel, missing, &condition, x, scores);
                    scores.iter_mut().zip(ln_weights).for_each(|(score, weight)| *score += weight);
                    own.choose(row, scores);
                }
                first += alike.len();
            }
            own
        });
        self.put(&found, labels);
    }

    /// The E-step of these rows over the labels that are possible.
    pub(super) fn assign_again<F: Family>(
        &self,
        family: &F,
        scored: Scored<'_>,
        changed: &[bool],
        labels: &mut Labels,
    ) {
        if self.is_empty() {
            return;
        }
        let Scored { features, phi, ln_weights, n_features: f } = scored;
        let tables = Tables::new(family, phi);
        let found = parallel::map(self.rows.chunks(ROWS), |rows| {
            let mut own = Labels::default();
            own.clear(rows.len());
            let mut conditions = Conditions::default();
            for (ix, hole) in rows.iter().enumerate() {
                own.copy_row(ix, labels, hole.row);
                if labels.row(hole.row).any(|(component, _)| changed[component]) {
                    let (x, missing) = (row_of(features, hole.row, f), &self.patterns[hole.pattern]);
                    own.rescore(ix, |component| {
                        let table = &tables.0[component];
                        let condition = conditions.of(family, &tables, component, *hole, missing, false);
                        dot_of(x, row_of(phi, component, f))
                            + ln_weights[component]
                            + family.ln_missing(table, missing, condition, x)
                    });
                }
            }
            own
        });
        self.put(&found, labels);
    }

    fn put(&self, found: &[Labels], labels: &mut Labels) {
        for (rows, found) in self.rows.chunks(ROWS).zip(found) {
            rows.iter().enumerate().for_each(|(ix, hole)| labels.copy_row(hole.row, found, ix));
        }
    }

    /// Adds what the missing values of these rows are expected to be to sums that hold what is known, and the entropy of them to that
    /// of each component.
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
        let mut rows = vec![Vec::new(); entropies.len()];
        for hole in &self.rows {
            let weight = batch.weights().map_or(1.0, |weights| weights[hole.row]);
            for (ix, probability) in labels.row(hole.row).filter(|(_, probability)| *probability > 0.0) {
                rows[ix].push((*hole, weight * probability));
            }
        }
        let columns = sums.chunks_exact_mut(f).zip(entropies).zip(rows).enumerate();
        parallel::each(columns, 1, |(ix, ((sums, entropy), rows))| {
            let (table, phi) = (&tables.0[ix], row_of(phi, ix, f));
            let (mut condition, mut last) = (Vec::new(), None);
            let mut expected = vec![0.0; f];
            for (hole, share) in rows {
                let (x, missing) = (row_of(features, hole.row, f), &self.patterns[hole.pattern]);
                if last.replace(hole.pattern) != Some(hole.pattern) {
                    family.condition(table, missing, true, &mut condition);
                }
                expected.copy_from_slice(x);
                family.expect_missing(table, missing, &condition, &mut expected);
                // What is known was added with the labels.
                Arch::new().dispatch(Add { scale: share, row: &expected, out: sums });
                Arch::new().dispatch(Add { scale: -share, row: x, out: sums });
                let more = dot_of(phi, &expected) - dot_of(phi, x);
                *entropy += share * (family.ln_missing(table, missing, &condition, x) - more);
            }
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
        let mut condition = Vec::new();
        family.condition(table, &missing, true, &mut condition);
        let score = |features: &[f64]| phi.iter().zip(features).map(|(a, b)| a * b).sum::<f64>();
        let integral = score(features) + family.ln_missing(table, &missing, &condition, features);
        family.expect_missing(table, &missing, &condition, features);
        integral - score(features)
    }
}

impl std::ops::Index<usize> for Tables {
    type Output = [f64];

    fn index(&self, component: usize) -> &[f64] {
        &self.0[component]
    }
}

impl Conditions {
    fn of<F: Family>(
        &mut self,
        family: &F,
        tables: &Tables,
        component: usize,
        hole: Hole,
        missing: &[usize],
        moments: bool,
    ) -> &[f64] {
        if self.pattern.replace(hole.pattern) != Some(hole.pattern) {
            self.known.clear();
            self.known.resize(tables.0.len(), false);
            self.of.resize(tables.0.len(), Vec::new());
        }
        if !std::mem::replace(&mut self.known[component], true) {
            family.condition(&tables.0[component], missing, moments, &mut self.of[component]);
        }
        &self.of[component]
    }
}

/// A product of two rows for the registers of the machine.
fn dot_of(a: &[f64], b: &[f64]) -> f64 {
    struct Dot<'a>(&'a [f64], &'a [f64]);
    impl WithSimd for Dot<'_> {
        type Output = f64;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> f64 {
            dot(simd, self.0, self.1)
        }
    }
    Arch::new().dispatch(Dot(a, b))
}

/// `out += scale · row`.
struct Add<'a> {
    scale: f64,
    row: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        add_scaled(simd, self.scale, self.row, self.out);
    }
}

fn row_of(values: &[f64], row: usize, len: usize) -> &[f64] {
    &values[row * len..(row + 1) * len]
}
