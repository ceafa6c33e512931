//! E- and M-steps on the labels that are possible, when rows that stand together share few components.
//!
//! Rows are taken in blocks. A block's components are those that any of its rows could belong to in the last full E-step;
//! all other responsibilities are 0 and stay so. The products run on these components alone, as small dense ones.

use super::mixture::Workspace;
use crate::math::product::{responsibilities_times_rows, rows_times_parameters};
use crate::math::softmax::softmax_rows;

/// Rows of a block.
const ROWS: usize = 64;

/// Gathering what is spread costs time: it pays when at most this share of the labels is possible.
const WORTHWHILE: f64 = 0.6;

/// The components of each block of rows.
pub(super) struct Blocks {
    components: Vec<Vec<usize>>,
    phi: Vec<f64>,
    ln_weights: Vec<f64>,
    responsibilities: Vec<f64>,
    sums: Vec<f64>,
}

impl Blocks {
    /// Finds the components of each block; `None` when there is little to be saved.
    pub(super) fn find(responsibilities: &[f64], k: usize) -> Option<Self> {
        let mut possible = 0;
        let mut components = Vec::with_capacity(responsibilities.len() / (ROWS * k.max(1)) + 1);
        let mut any = vec![false; k];
        for block in responsibilities.chunks(ROWS * k.max(1)) {
            any.fill(false);
            for row in block.chunks_exact(k) {
                any.iter_mut().zip(row).for_each(|(any, r)| *any |= *r > 0.0);
            }
            let found: Vec<usize> = (0..k).filter(|&ix| any[ix]).collect();
            possible += found.len();
            components.push(found);
        }
        let worthwhile = (possible as f64) < WORTHWHILE * (k * components.len()) as f64;
        worthwhile.then(|| Self {
            components,
            phi: Vec::new(),
            ln_weights: Vec::new(),
            responsibilities: Vec::new(),
            sums: Vec::new(),
        })
    }

    /// The E-step within the possible labels.
    pub(super) fn assign(&mut self, memory: &mut Workspace, k: usize, f: usize) {
        let blocks = memory.features.chunks(ROWS * f).zip(memory.responsibilities.chunks_mut(ROWS * k));
        for (((rows, out), ln_totals), components) in
            blocks.zip(memory.ln_totals.chunks_mut(ROWS)).zip(&self.components)
        {
            self.phi.clear();
            self.ln_weights.clear();
            for &ix in components {
                self.phi.extend_from_slice(&memory.phi[ix * f..(ix + 1) * f]);
                self.ln_weights.push(memory.ln_weights[ix]);
            }
            let width = components.len();
            self.responsibilities.clear();
            self.responsibilities.resize(ln_totals.len() * width, 0.0);
            rows_times_parameters(rows, &self.phi, f, &mut self.responsibilities);
            for row in self.responsibilities.chunks_exact_mut(width) {
                row.iter_mut().zip(&self.ln_weights).for_each(|(score, weight)| *score += weight);
            }
            softmax_rows(&mut self.responsibilities, width, ln_totals);
            for (row, out) in self.responsibilities.chunks_exact(width).zip(out.chunks_exact_mut(k)) {
                components.iter().zip(row).for_each(|(ix, r)| out[*ix] = *r);
            }
        }
    }

    /// `sums (k × f) += responsibilities (n × k)ᵀ · rows (n × f)`.
    pub(super) fn accumulate(
        &mut self,
        responsibilities: &[f64],
        rows: &[f64],
        k: usize,
        f: usize,
        sums: &mut [f64],
    ) {
        let blocks = rows.chunks(ROWS * f).zip(responsibilities.chunks(ROWS * k));
        for ((rows, responsibilities), components) in blocks.zip(&self.components) {
            self.responsibilities.clear();
            for row in responsibilities.chunks_exact(k) {
                self.responsibilities.extend(components.iter().map(|ix| row[*ix]));
            }
            self.sums.clear();
            self.sums.resize(components.len() * f, 0.0);
            responsibilities_times_rows(&self.responsibilities, rows, f, &mut self.sums);
            for (ix, part) in components.iter().zip(self.sums.chunks_exact(f)) {
                sums[ix * f..(ix + 1) * f].iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that stand together share two of many components.
    fn standing_together(n: usize, k: usize) -> Vec<f64> {
        let mut responsibilities = vec![0.0; n * k];
        for (ix, row) in responsibilities.chunks_exact_mut(k).enumerate() {
            let first = ix * k / n;
            row[first] = 0.25;
            row[(first + 1) % k] = 0.75;
        }
        responsibilities
    }

    #[test]
    fn products_on_possible_labels_are_those_on_all() {
        // Neither a multiple of the rows of a block.
        let (n, k, f) = (301, 12, 5);
        let rows: Vec<f64> = (0..n * f).map(|i| (i as f64 * 0.37).sin()).collect();
        let responsibilities = standing_together(n, k);
        let mut blocks = Blocks::find(&responsibilities, k).expect("most labels are impossible");
        let (mut sums, mut all) = (vec![0.0; k * f], vec![0.0; k * f]);
        blocks.accumulate(&responsibilities, &rows, k, f, &mut sums);
        responsibilities_times_rows(&responsibilities, &rows, f, &mut all);
        assert!(sums.iter().zip(&all).all(|(a, b)| (a - b).abs() < 1e-12));

        // The other labels are so unlikely that a full E-step would give them nothing either.
        let phi: Vec<f64> = (0..k * f).map(|i| (i as f64 * 0.91).cos()).collect();
        let mut memory = Workspace {
            features: rows.clone(),
            phi: phi.clone(),
            ln_weights: vec![0.0; k],
            responsibilities,
            ln_totals: vec![0.0; n],
            ..Workspace::default()
        };
        let possible: Vec<bool> = memory.responsibilities.iter().map(|r| *r > 0.0).collect();
        blocks.assign(&mut memory, k, f);
        let mut scores = vec![0.0; n * k];
        rows_times_parameters(&rows, &phi, f, &mut scores);
        for (block, components) in blocks.components.iter().enumerate() {
            for row in block * ROWS..((block + 1) * ROWS).min(n) {
                for ix in (0..k).filter(|ix| !components.contains(ix)) {
                    assert!(!possible[row * k + ix]);
                    scores[row * k + ix] = -1e6;
                }
            }
        }
        softmax_rows(&mut scores, k, &mut vec![0.0; n]);
        assert!(scores.iter().zip(&memory.responsibilities).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn dense_labels_are_not_worth_it() {
        assert!(Blocks::find(&[0.25; 400], 4).is_none());
    }
}
