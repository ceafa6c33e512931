//! The E-step over many rows: chunk by chunk through the two matrix products, shared by threads.
//!
//! ```text
//! r_jk ∝ exp( φ_k · T(x_j) + w_k ),     S_k = Σ_j r_jk T(x_j)
//! ```
//!
//! Features are made anew for each chunk, which costs little beside the products and keeps memory at the size of a chunk.
//! Rows are cut into a fixed number of parts whose sums are added in order, so that threads do not show in the result.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch::batch::Batch;
use anabranch::family::Family;
use anabranch::math::product::{responsibilities_times_rows, rows_times_parameters};
use anabranch::math::softmax::softmax_rows;

use crate::totals::Totals;

/// Rows that are worked on at once: a few hundred make the products efficient, more would leave the cache.
const CHUNK: usize = 512;

/// Parts of a pass. More than the threads of most machines, and few enough that their sums are cheap to add.
const PARTS: usize = 16;

/// What the E-step needs of the components.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    /// Natural parameters `φ_k`, expected or drawn, component after component.
    pub(crate) phi: Vec<f64>,
    /// Logarithms of the weights `w_k`, expected or drawn.
    pub(crate) ln_weights: Vec<f64>,
}

/// The scores `φ_k · T(x_j) + w_k` of a chunk of rows, with the features they were made of.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    pub(crate) features: Vec<f64>,
    pub(crate) scores: Vec<f64>,
}

impl Scores {
    /// Fills both for these rows.
    pub(crate) fn fill<'r, F: Family>(
        &mut self,
        family: &F,
        rows: impl ExactSizeIterator<Item = &'r [f64]>,
        parameters: &Parameters,
    ) {
        let (n, f, k) = (rows.len(), family.n_features(), parameters.ln_weights.len());
        self.features.resize(n * f, 0.0);
        for (row, out) in rows.zip(self.features.chunks_exact_mut(f)) {
            family.features(row, out);
        }
        self.scores.resize(n * k, 0.0);
        rows_times_parameters(&self.features, &parameters.phi, f, &mut self.scores);
        for row in self.scores.chunks_exact_mut(k) {
            row.iter_mut().zip(&parameters.ln_weights).for_each(|(score, ln_weight)| *score += ln_weight);
        }
    }
}

/// Sees the responsibilities of a chunk: its first row, and `r_jk` row after row.
pub(crate) type Visit<'v> = dyn FnMut(usize, &[f64]) + 'v;

/// The sums of some rows under the parameters.
pub(crate) fn assign<F: Family>(
    family: &F,
    rows: &Batch,
    range: Range<usize>,
    parameters: &Parameters,
    visit: &mut Visit<'_>,
) -> Totals {
    let (f, k) = (family.n_features(), parameters.ln_weights.len());
    let mut totals = Totals::empty(k, f);
    let mut chunk = Scores::default();
    let mut sums = vec![0.0; k * f];
    let mut ln_totals = vec![0.0; CHUNK];
    let mut first = range.start;
    while first < range.end {
        let n = CHUNK.min(range.end - first);
        chunk.fill(family, (first..first + n).map(|row| rows.row(row)), parameters);
        softmax_rows(&mut chunk.scores, k, &mut ln_totals[..n]);
        responsibilities_times_rows(&chunk.scores, &chunk.features, f, &mut sums);
        totals.stats.iter_mut().zip(&sums).for_each(|(total, sum)| *total += sum);
        for row in chunk.scores.chunks_exact(k) {
            for (labels, r) in totals.labels.iter_mut().zip(row).filter(|(_, r)| **r > 0.0) {
                labels.observe(*r, 1.0);
            }
        }
        visit(first, &chunk.scores);
        first += n;
    }
    totals
}

/// Fewer rows than this are not worth a thread.
const WORTH_THREADS: usize = 4 * CHUNK;

/// The sums of these rows under the parameters, on several threads where there are enough of them.
pub(crate) fn sweep<F: Family>(
    family: &F,
    rows: &Batch,
    range: Range<usize>,
    parameters: &Parameters,
    threads: usize,
) -> Totals {
    if range.len() < WORTH_THREADS {
        return assign(family, rows, range, parameters, &mut |_, _| {});
    }
    let parts = in_parts(range.len(), threads, |part| {
        let part = range.start + part.start..range.start + part.end;
        assign(family, rows, part, parameters, &mut |_, _| {})
    });
    let mut totals = Totals::empty(parameters.ln_weights.len(), family.n_features());
    parts.iter().for_each(|part| totals.add(part));
    totals
}

/// Cuts `n` rows into parts, works on them on several threads, and returns what came out in the order of the rows.
pub(crate) fn in_parts<T: Send>(n: usize, threads: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let size = n.div_ceil(PARTS).max(1);
    let ranges: Vec<Range<usize>> =
        (0..n.div_ceil(size)).map(|ix| ix * size..((ix + 1) * size).min(n)).collect();
    in_parallel(ranges.len(), threads, |ix| work(ranges[ix].clone()))
}

/// Does jobs `0..n` on several threads and returns their results in order.
pub(crate) fn in_parallel<T: Send>(n: usize, threads: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads.clamp(1, n.max(1));
    if threads == 1 {
        return (0..n).map(job).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<T>>> = Mutex::new((0..n).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let ix = next.fetch_add(1, Ordering::Relaxed);
                    if ix >= n {
                        break;
                    }
                    let result = job(ix);
                    done.lock().expect("no holder of this lock panics")[ix] = Some(result);
                }
            });
        }
    });
    let done = done.into_inner().expect("no holder of this lock panics");
    done.into_iter().map(|result| result.expect("every job was done")).collect()
}

#[cfg(test)]
mod tests {
    use anabranch::family::{Conjugate, Gaussian};
    use anabranch::math::log_sum_exp::log_sum_exp;
    use anabranch_testkit::streams::{Columns, stream};

    use super::*;

    #[test]
    fn a_sweep_agrees_with_loops_and_does_not_depend_on_threads() {
        let rows = Batch::new(2, stream(Columns::Reals, 3, 2600, 4, 2)).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let (f, k) = (family.n_features(), 3);
        let mut phi = vec![0.0; k * f];
        for (ix, phi) in phi.chunks_exact_mut(f).enumerate() {
            let mut stats = vec![0.0; f];
            family.features(rows.row(ix), &mut stats);
            family.expected_natural(&stats, phi);
        }
        let parameters = Parameters { phi, ln_weights: vec![-0.5, -1.0, -2.0] };
        let found = sweep(&family, &rows, 0..2600, &parameters, 1);
        assert_eq!(found, sweep(&family, &rows, 0..2600, &parameters, 3));
        let mut expected = vec![0.0; k * f];
        let mut features = vec![0.0; f];
        for row in rows.rows() {
            family.features(row, &mut features);
            let score = |c: usize| {
                let dot: f64 = (0..f).map(|i| parameters.phi[c * f + i] * features[i]).sum();
                dot + parameters.ln_weights[c]
            };
            let scores: Vec<f64> = (0..k).map(score).collect();
            let total = log_sum_exp(&scores);
            for c in 0..k {
                (0..f).for_each(|i| expected[c * f + i] += (scores[c] - total).exp() * features[i]);
            }
        }
        for (found, expected) in found.stats.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-8 * (1.0 + expected.abs()), "{found} {expected}");
        }
    }
}
