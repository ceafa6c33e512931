//! Which components a row can belong to, and how probably: a few for each row, however many components there are.
//!
//! ```text
//! r_jk ∝ exp(l_jk)  for the [`MOST`] largest scores l_jk of row j,   r_jk = 0 for the others
//! ```
//!
//! Of all labels that are possible for at most so many components a row, these are the ones with the largest objective
//! (Hughes and Sudderth 2016), so that the ascent stays one. The M-step costs as much as the labels that are possible, and
//! so does an E-step that does not ask again which those are.

use pulp::{Arch, Simd, WithSimd};

use super::Precision;
use super::narrow::{Narrow, Scored};
use crate::batch::Batch;
use crate::math::product::{add_scaled, dot, rows_times_parameters};
use crate::math::softmax::{LN_NEGLIGIBLE, max_of, softmax_row};
use crate::parallel;
use crate::process::LabelStatistics;

/// Components that a row can belong to, at most.
pub(super) const MOST: usize = 8;

/// Scores that are held at a time: they stay in the cache between the product and the choice.
const SCORES: usize = 32_768;

/// Rows that are scored at a time, at most: few enough for every thread to have some.
const MOST_ROWS: usize = 128;

/// Components whose sums are worth a thread's look at all labels.
const LEAST_COMPONENTS: usize = 4;

/// Rows that are looked at again at a time.
const ROWS: usize = 128;

/// Rows whose labels are counted at a time.
const COUNTED: usize = 2048;

/// Scores that are compared at a time.
const TOGETHER: usize = 16;

/// The possible labels of each row. A row has [`MOST`] places, of which it uses the first ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    components: Vec<u32>,
    probabilities: Vec<f64>,
    used: Vec<u8>,
    ln_totals: Vec<f64>,
    narrow: Narrow,
}

/// The labels of some rows in turn.
pub(super) struct Block<'a> {
    components: &'a mut [u32],
    probabilities: &'a mut [f64],
    used: &'a mut [u8],
    ln_totals: &'a mut [f64],
}

impl Labels {
    /// Rows without a label.
    pub(super) fn clear(&mut self, n_rows: usize) {
        self.components.resize(n_rows * MOST, 0);
        self.probabilities.resize(n_rows * MOST, 0.0);
        self.used.clear();
        self.used.resize(n_rows, 0);
        self.ln_totals.clear();
        self.ln_totals.resize(n_rows, f64::NEG_INFINITY);
    }

    /// For each row, `log Σ_k exp(l_jk)` over the components that it can belong to.
    pub(super) fn ln_totals(&self) -> &[f64] {
        &self.ln_totals
    }

    /// The labels of one row.
    pub(super) fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> {
        let places = row * MOST..row * MOST + usize::from(self.used[row]);
        let components = self.components[places.clone()].iter().map(|ix| *ix as usize);
        components.zip(self.probabilities[places].iter().copied())
    }

    /// The labels of each row in turn.
    pub(super) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = (usize, f64)>> {
        (0..self.used.len()).map(|row| self.row(row))
    }

    /// The E-step over all components: scores are `φ_k · T(x) + ln w_k`.
    pub(super) fn assign(&mut self, scored: Scored<'_>, precision: Precision) {
        let Scored { features, phi, ln_weights, n_features } = scored;
        let (n, k) = (features.len() / n_features, ln_weights.len());
        self.clear(n);
        if k == 0 {
            return;
        }
        let narrows = precision == Precision::Mixed && scored.suits();
        let mut narrow = std::mem::take(&mut self.narrow);
        if narrows {
            narrow.prepare(scored);
        }
        let rows_at_a_time = (SCORES / k).clamp(16, MOST_ROWS);
        let blocks = self.blocks(rows_at_a_time).zip(features.chunks(rows_at_a_time * n_features));
        parallel::each(blocks, 1, |(mut labels, features)| {
            if narrows && narrow.assign(&mut labels, Scored { features, ..scored }) {
                return;
            }
            parallel::with_buffer(features.len() / n_features * k, |scores| {
                rows_times_parameters(features, phi, n_features, scores);
                Arch::new().dispatch(Choose { labels, scores, ln_weights });
            });
        });
        self.narrow = narrow;
    }

    /// The labels in pieces of so many rows.
    pub(super) fn blocks(&mut self, n_rows: usize) -> impl Iterator<Item = Block<'_>> {
        let labels =
            self.components.chunks_mut(n_rows * MOST).zip(self.probabilities.chunks_mut(n_rows * MOST));
        let rows = self.used.chunks_mut(n_rows).zip(self.ln_totals.chunks_mut(n_rows));
        labels.zip(rows).map(|((components, probabilities), (used, ln_totals))| Block {
            components,
            probabilities,
            used,
            ln_totals,
        })
    }

    /// Takes the labels of a row from the scores of all components, those that are at most so far from the best.
    #[inline(always)]
    pub(super) fn choose(&mut self, row: usize, scores: &[f64], ln_negligible: f64) {
        let Self { components, probabilities, used, ln_totals, .. } = self;
        Block { components, probabilities, used, ln_totals }.choose(row, scores, ln_negligible);
    }

    /// The E-step over the labels that are possible and all components from `first` on.
    pub(super) fn assign_more(&mut self, scored: Scored<'_>, first: usize) {
        let blocks = self.blocks(ROWS).zip(scored.features.chunks(ROWS * scored.n_features));
        parallel::each(blocks, 1, |(labels, features)| {
            Arch::new().dispatch(AssignMore { labels, scored: Scored { features, ..scored }, first });
        });
    }

    /// The E-step over the labels that are possible, for rows of which the parameters of a label have `changed`.
    /// Rows with a flag are left out; without flags none is.
    pub(super) fn assign_again(
        &mut self,
        features: &[f64],
        phi: &[f64],
        ln_weights: &[f64],
        changed: &[bool],
        left_out: &[bool],
        n_features: usize,
    ) {
        let blocks = self.blocks(ROWS).zip(features.chunks(ROWS * n_features)).enumerate();
        parallel::each(blocks, 1, |(block, (labels, features))| {
            let left_out = left_out.get(block * ROWS..).unwrap_or_default();
            Arch::new().dispatch(AssignAgain {
                labels,
                features,
                phi,
                ln_weights,
                changed,
                left_out,
                n_features,
            });
        });
    }

    /// The M-step's sums: `sums (k × f) += Σ_j w_j r_jk T(x_j)`, over the rows in their order.
    /// Rows with a flag are left out; without flags none is.
    pub(super) fn accumulate(
        &self,
        features: &[f64],
        batch: &Batch,
        left_out: &[bool],
        n_features: usize,
        sums: &mut [f64],
    ) {
        let (labels, weights) = (self, batch.weights());
        let k = sums.len() / n_features;
        // Threads share the components, not the rows: a sum has the same terms in the same order on any number of them.
        let at_a_time = k.div_ceil(parallel::pieces()).max(LEAST_COMPONENTS);
        parallel::each(sums.chunks_mut(at_a_time * n_features).enumerate(), 1, |(piece, sums)| {
            let first = piece * at_a_time;
            Arch::new().dispatch(Accumulate { labels, features, weights, left_out, n_features, first, sums });
        });
    }

    /// What the rows of the batch say of the labels of each component, over the rows in their order.
    pub(super) fn count(&self, batch: &Batch, statistics: &mut [LabelStatistics]) {
        for (ix, row) in self.rows().enumerate() {
            let weight = batch.weights().map_or(1.0, |weights| weights[ix]);
            row.for_each(|(component, probability)| statistics[component].observe(probability, weight));
        }
    }

    /// Tells which of `k` components any row belongs to.
    pub(super) fn touched(&self, k: usize, touched: &mut Vec<bool>) {
        touched.clear();
        touched.resize(k, false);
        for (ix, probability) in self.rows().flatten() {
            touched[ix] |= probability > 0.0;
        }
    }

    /// Renames the components; labels of a component without a new name are taken away.
    pub(super) fn rename(&mut self, new_names: &[Option<usize>]) {
        for (row, used) in self.used.iter_mut().enumerate() {
            let first = row * MOST;
            let mut kept = 0;
            for place in first..first + usize::from(*used) {
                if let Some(name) = new_names[self.components[place] as usize] {
                    self.components[first + kept] = name as u32;
                    self.probabilities[first + kept] = self.probabilities[place];
                    kept += 1;
                }
            }
            *used = kept as u8;
        }
    }

    /// A copy with other names, as [`Labels::rename`] gives them.
    pub(super) fn renamed(&self, new_names: &[Option<usize>]) -> Self {
        let mut labels = self.clone();
        labels.rename(new_names);
        labels
    }

    /// The labels of a row become those of another one.
    pub(super) fn copy_row(&mut self, row: usize, other: &Self, from: usize) {
        let (to, source) = (row * MOST..(row + 1) * MOST, from * MOST..(from + 1) * MOST);
        self.components[to.clone()].copy_from_slice(&other.components[source.clone()]);
        self.probabilities[to].copy_from_slice(&other.probabilities[source]);
        self.used[row] = other.used[from];
        self.ln_totals[row] = other.ln_totals[from];
    }

    /// The labels of one component become those of another.
    pub(super) fn join(&mut self, from: &[Option<usize>]) {
        for (row, used) in self.used.iter_mut().enumerate() {
            let first = row * MOST;
            let mut kept = 0;
            for place in first..first + usize::from(*used) {
                let ix = self.components[place];
                let name = from[ix as usize].map_or(ix, |into| into as u32);
                let probability = self.probabilities[place];
                match self.components[first..first + kept].iter().position(|known| *known == name) {
                    Some(known) => self.probabilities[first + known] += probability,
                    None => {
                        self.components[first + kept] = name;
                        self.probabilities[first + kept] = probability;
                        kept += 1;
                    }
                }
            }
            *used = kept as u8;
        }
    }

    /// The labels of a row by other scores of the components that are possible for it.
    pub(super) fn rescore(&mut self, row: usize, mut score: impl FnMut(usize) -> f64) {
        let places = row * MOST..row * MOST + usize::from(self.used[row]);
        let probabilities = &mut self.probabilities[places.clone()];
        for (component, out) in self.components[places].iter().zip(probabilities.iter_mut()) {
            *out = score(*component as usize);
        }
        self.ln_totals[row] = softmax_row(probabilities);
    }

    /// The component becomes the only label of a row.
    pub(super) fn give(&mut self, row: usize, component: usize) {
        self.components[row * MOST] = component as u32;
        self.probabilities[row * MOST] = 1.0;
        self.used[row] = 1;
    }

    /// The same labels by component.
    pub(super) fn by_component(&self, k: usize) -> ByComponent {
        let blocks = (0..self.used.len()).step_by(COUNTED);
        let counts = parallel::map(blocks, |first| {
            let mut counts = vec![0; k];
            let rows = first..(first + COUNTED).min(self.used.len());
            rows.flat_map(|row| self.row(row)).for_each(|(ix, _)| counts[ix] += 1);
            counts
        });
        let mut ends = vec![0; k + 1];
        for ix in 0..k {
            ends[ix + 1] = ends[ix] + counts.iter().map(|counts| counts[ix]).sum::<usize>();
        }
        let mut rows = vec![(0, 0.0); ends[k]];
        // As in the M-step, threads share the components.
        let at_a_time = k.div_ceil(parallel::pieces()).max(LEAST_COMPONENTS);
        let mut left = rows.as_mut_slice();
        let pieces = (0..k).step_by(at_a_time).map(|first| {
            let last = (first + at_a_time).min(k);
            let piece;
            (piece, left) = std::mem::take(&mut left).split_at_mut(ends[last] - ends[first]);
            (&ends[first..last], piece)
        });
        parallel::each(pieces.enumerate(), 1, |(piece, (starts, out))| {
            let first = piece * at_a_time;
            let mut next: Vec<usize> = starts.iter().map(|start| start - starts[0]).collect();
            for (row, labels) in self.rows().enumerate() {
                for (ix, probability) in labels {
                    if let Some(next) = next.get_mut(ix.wrapping_sub(first)) {
                        out[*next] = (row as u32, probability);
                        *next += 1;
                    }
                }
            }
        });
        ByComponent { ends, rows }
    }
}

impl Block<'_> {
    /// [`Labels::choose`] for a row of these.
    #[inline(always)]
    fn choose(&mut self, row: usize, scores: &[f64], ln_negligible: f64) {
        let cut = max_of(scores) + ln_negligible;
        let mut chosen = Chosen::default();
        // Most are impossible: a few at a time are asked whether any of them is not.
        for (piece, scores) in scores.chunks(TOGETHER).enumerate() {
            let cut = cut.max(chosen.least_of_all());
            if scores.iter().fold(false, |any, score| any | (*score >= cut)) {
                for (ix, score) in scores.iter().enumerate().filter(|(_, score)| **score >= cut) {
                    chosen.add(*score, (piece * TOGETHER + ix) as u32);
                }
            }
        }
        self.put(row, &chosen, cut);
    }

    /// The labels of a row become the chosen components with a score of at least `cut`.
    #[inline(always)]
    pub(super) fn put(&mut self, row: usize, chosen: &Chosen, cut: f64) {
        let first = row * MOST;
        let mut used = 0;
        for (score, component) in chosen.scores.iter().zip(&chosen.components).take(chosen.used) {
            self.probabilities[first + used] = *score;
            self.components[first + used] = *component;
            used += usize::from(*score >= cut);
        }
        self.used[row] = used as u8;
        self.ln_totals[row] = softmax_row(&mut self.probabilities[first..first + used]);
    }
}

/// The largest scores so far, of at most [`MOST`] components.
#[derive(Default)]
pub(super) struct Chosen {
    scores: [f64; MOST],
    components: [u32; MOST],
    used: usize,
    /// Where the least of them is, when all places are taken.
    least: usize,
}

impl Chosen {
    /// What a score must exceed to find a place.
    #[inline(always)]
    pub(super) fn least_of_all(&self) -> f64 {
        if self.used < MOST { f64::NEG_INFINITY } else { self.scores[self.least] }
    }

    /// Takes a score in, if it is among the largest. Of equal ones the first stays.
    #[inline(always)]
    pub(super) fn add(&mut self, score: f64, component: u32) {
        let place = if self.used < MOST {
            self.used += 1;
            self.used - 1
        } else if score > self.scores[self.least] {
            self.least
        } else {
            return;
        };
        (self.scores[place], self.components[place]) = (score, component);
        if self.used == MOST {
            self.least = (1..MOST).fold(0, |least, ix| {
                // Of two equal ones the later component goes first.
                let before = (self.scores[least], std::cmp::Reverse(self.components[least]));
                if (self.scores[ix], std::cmp::Reverse(self.components[ix])) < before { ix } else { least }
            });
        }
    }
}

/// The loop of [`Labels::assign`] for the registers of the machine.
struct Choose<'a> {
    labels: Block<'a>,
    scores: &'a mut [f64],
    ln_weights: &'a [f64],
}

impl WithSimd for Choose<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { mut labels, scores, ln_weights } = self;
        for (ix, row) in scores.chunks_exact_mut(ln_weights.len()).enumerate() {
            row.iter_mut().zip(ln_weights).for_each(|(score, weight)| *score += weight);
            labels.choose(ix, row, LN_NEGLIGIBLE);
        }
    }
}

/// The loop of [`Labels::assign_more`] for the registers of the machine.
struct AssignMore<'a> {
    labels: Block<'a>,
    scored: Scored<'a>,
    first: usize,
}

impl WithSimd for AssignMore<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mut labels, scored, first } = self;
        for (row, x) in scored.features.chunks_exact(scored.n_features).enumerate() {
            let known = labels.used[row] as usize;
            let (mut chosen, mut best) = (Chosen::default(), f64::NEG_INFINITY);
            for ix in 0..known + scored.ln_weights.len() - first {
                let component =
                    if ix < known { labels.components[row * MOST + ix] } else { (first + ix - known) as u32 };
                let score = scored.score(simd, x, component as usize);
                if score >= chosen.least_of_all() {
                    chosen.add(score, component);
                    best = best.max(score);
                }
            }
            labels.put(row, &chosen, best + LN_NEGLIGIBLE);
        }
    }
}

/// The loop of [`Labels::assign_again`] for the registers of the machine.
struct AssignAgain<'a> {
    labels: Block<'a>,
    features: &'a [f64],
    phi: &'a [f64],
    ln_weights: &'a [f64],
    changed: &'a [bool],
    left_out: &'a [bool],
    n_features: usize,
}

impl WithSimd for AssignAgain<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { labels, features, phi, ln_weights, changed, left_out, n_features } = self;
        for (row, x) in features.chunks_exact(n_features).enumerate() {
            if left_out.get(row).is_some_and(|left_out| *left_out) {
                continue;
            }
            let places = row * MOST..row * MOST + usize::from(labels.used[row]);
            if !labels.components[places.clone()].iter().any(|ix| changed[*ix as usize]) {
                continue;
            }
            let probabilities = &mut labels.probabilities[places.clone()];
            for (ix, out) in labels.components[places].iter().zip(probabilities.iter_mut()) {
                let ix = *ix as usize;
                *out = dot(simd, x, &phi[ix * n_features..(ix + 1) * n_features]) + ln_weights[ix];
            }
            labels.ln_totals[row] = softmax_row(probabilities);
        }
    }
}

/// The loop of [`Labels::accumulate`] for the registers of the machine.
struct Accumulate<'a> {
    labels: &'a Labels,
    features: &'a [f64],
    weights: Option<&'a [f64]>,
    left_out: &'a [bool],
    n_features: usize,
    /// The component that the first of the sums belongs to.
    first: usize,
    sums: &'a mut [f64],
}

impl WithSimd for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { labels, features, weights, left_out, n_features, first, sums } = self;
        let k = sums.len() / n_features;
        for (row, x) in features.chunks_exact(n_features).enumerate() {
            if left_out.get(row).is_some_and(|left_out| *left_out) {
                continue;
            }
            let weight = weights.map_or(1.0, |weights| weights[row]);
            for (ix, probability) in labels.row(row).filter(|(_, probability)| *probability > 0.0) {
                let ix = ix.wrapping_sub(first);
                if ix >= k {
                    continue;
                }
                let sum = &mut sums[ix * n_features..(ix + 1) * n_features];
                add_scaled(simd, weight * probability, x, sum);
            }
        }
    }
}

/// The rows that can belong to each component, in order.
#[derive(Debug)]
pub(super) struct ByComponent {
    ends: Vec<usize>,
    rows: Vec<(u32, f64)>,
}

impl ByComponent {
    /// The rows of one component.
    pub(super) fn of(&self, component: usize) -> &[(u32, f64)] {
        &self.rows[self.ends[component]..self.ends[component + 1]]
    }

    /// The rows that can belong to both of two components, with both probabilities.
    pub(super) fn of_both(&self, a: usize, b: usize, mut look: impl FnMut(usize, f64, f64)) {
        let (mut a, mut b) = (self.of(a).iter().peekable(), self.of(b).iter().peekable());
        while let (Some(&&(row_a, p_a)), Some(&&(row_b, p_b))) = (a.peek(), b.peek()) {
            if row_a == row_b {
                look(row_a as usize, p_a, p_b);
            }
            if row_a <= row_b {
                a.next();
            }
            if row_b <= row_a {
                b.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dot product in another order.
    const ROUNDING: f64 = 1e-12;

    /// Rows, parameters and weights that make soft labels.
    fn example(n: usize, k: usize, f: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let features = (0..n * f).map(|i| (i as f64 * 0.37).sin()).collect();
        let phi = (0..k * f).map(|i| (i as f64 * 0.91).cos()).collect();
        (features, phi, (0..k).map(|i| -(i as f64 * 0.1)).collect())
    }

    fn scored<'a>(features: &'a [f64], phi: &'a [f64], ln_weights: &'a [f64]) -> Scored<'a> {
        Scored { features, phi, ln_weights, n_features: phi.len() / ln_weights.len() }
    }

    fn dense(labels: &Labels, k: usize) -> Vec<f64> {
        let mut dense = vec![0.0; labels.used.len() * k];
        for (row, labels) in labels.rows().enumerate() {
            labels.for_each(|(ix, probability)| dense[row * k + ix] = probability);
        }
        dense
    }

    #[test]
    fn few_components_give_the_whole_softmax_and_many_the_largest_part() {
        for k in [1, 5, MOST, 40] {
            let (n, f) = (23, 7);
            let (features, phi, ln_weights) = example(n, k, f);
            let mut labels = Labels::default();
            labels.assign(scored(&features, &phi, &ln_weights), Precision::Double);
            let found = dense(&labels, k);
            for (row, x) in features.chunks_exact(f).enumerate() {
                let mut all: Vec<f64> = (0..k)
                    .map(|ix| {
                        let score: f64 = (0..f).map(|i| x[i] * phi[ix * f + i]).sum();
                        (score + ln_weights[ix]).exp()
                    })
                    .collect();
                let mut order = all.clone();
                order.sort_by(|a, b| b.total_cmp(a));
                let cut = order[MOST.min(k) - 1];
                all.iter_mut().for_each(|v| *v = if *v >= cut { *v } else { 0.0 });
                let total: f64 = all.iter().sum();
                assert!((labels.ln_totals()[row] - total.ln()).abs() < ROUNDING);
                for ix in 0..k {
                    assert!((found[row * k + ix] - all[ix] / total).abs() < ROUNDING, "k = {k}");
                }
            }
        }
    }

    #[test]
    fn asking_again_with_the_same_parameters_changes_nothing() {
        let (k, f) = (40, 7);
        let (features, phi, ln_weights) = example(23, k, f);
        let mut labels = Labels::default();
        labels.assign(scored(&features, &phi, &ln_weights), Precision::Double);
        let before = dense(&labels, k);
        labels.assign_again(&features, &phi, &ln_weights, &vec![true; k], &[], f);
        assert!(dense(&labels, k).iter().zip(&before).all(|(a, b)| (a - b).abs() < ROUNDING));
    }

    #[test]
    fn sums_are_those_of_a_plain_loop() {
        let (n, k, f) = (23, 40, 7);
        let (features, phi, ln_weights) = example(n, k, f);
        let mut labels = Labels::default();
        labels.assign(scored(&features, &phi, &ln_weights), Precision::Double);
        let weights: Vec<f64> = (0..n).map(|i| 0.5 + i as f64).collect();
        let batch = Batch::new(1, vec![0.0; n]).unwrap().with_weights(weights.clone()).unwrap();
        let mut sums = vec![0.0; k * f];
        labels.accumulate(&features, &batch, &[], f, &mut sums);
        let r = dense(&labels, k);
        for ix in 0..k {
            for i in 0..f {
                let sum: f64 = (0..n).map(|j| weights[j] * r[j * k + ix] * features[j * f + i]).sum();
                assert!((sum - sums[ix * f + i]).abs() < 1e-11);
            }
        }
    }

    #[test]
    fn joining_and_renaming_move_probability() {
        let (n, k, f) = (23, 40, 7);
        let (features, phi, ln_weights) = example(n, k, f);
        let mut labels = Labels::default();
        labels.assign(scored(&features, &phi, &ln_weights), Precision::Double);
        let before = dense(&labels, k);
        let mut into = vec![None; k];
        into[7] = Some(3);
        labels.join(&into);
        let joined = dense(&labels, k);
        for row in 0..n {
            let both = before[row * k + 3] + before[row * k + 7];
            assert_eq!((joined[row * k + 3], joined[row * k + 7]), (both, 0.0));
        }
        let names: Vec<Option<usize>> = (0..k).map(|ix| (ix % 2 == 1).then_some(ix / 2)).collect();
        labels.rename(&names);
        let renamed = dense(&labels, k / 2);
        assert!((0..n * k / 2).all(|i| renamed[i] == joined[i / (k / 2) * k + 2 * (i % (k / 2)) + 1]));
    }

    #[test]
    fn asking_for_more_components_beside_the_possible_ones_finds_the_labels_of_all() {
        let (n, k, f, first) = (23, 40, 7, 35);
        let (features, phi, ln_weights) = example(n, k, f);
        let mut all = Labels::default();
        all.assign(scored(&features, &phi, &ln_weights), Precision::Double);
        let mut more = Labels::default();
        more.assign(scored(&features, &phi[..first * f], &ln_weights[..first]), Precision::Double);
        more.assign_more(scored(&features, &phi, &ln_weights), first);
        assert!(dense(&more, k).iter().zip(&dense(&all, k)).all(|(a, b)| (a - b).abs() < ROUNDING));
        assert!(more.ln_totals().iter().zip(all.ln_totals()).all(|(a, b)| (a - b).abs() < ROUNDING));
        more.give(3, 2);
        assert_eq!(more.row(3).collect::<Vec<_>>(), [(2, 1.0)]);
    }

    #[test]
    fn rows_of_both_come_in_order_with_both_probabilities() {
        let (n, k, f) = (23, 10, 7);
        let (features, phi, ln_weights) = example(n, k, f);
        let mut labels = Labels::default();
        labels.assign(scored(&features, &phi, &ln_weights), Precision::Double);
        let (dense, by_component) = (dense(&labels, k), labels.by_component(k));
        let mut seen = Vec::new();
        by_component.of_both(2, 5, |row, a, b| seen.push((row, a, b)));
        let expected: Vec<_> = (0..n)
            .map(|row| (row, dense[row * k + 2], dense[row * k + 5]))
            .filter(|(_, a, b)| *a > 0.0 && *b > 0.0)
            .collect();
        assert!(!expected.is_empty() && expected.len() < n);
        assert_eq!(seen, expected);
    }
}
