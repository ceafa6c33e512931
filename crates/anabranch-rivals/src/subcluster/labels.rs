//! Restricted Gibbs: all labels drawn at once, given drawn weights and parameters.
//!
//! ```text
//! (π_1, …, π_K, π_rest) ~ Dirichlet(n_1, …, n_K, α),    θ_k ~ p(θ | rows of k),    P(z_j = k) ∝ π_k p(x_j | θ_k),  k ∈ F
//! ```
//!
//! A label may only move to a cluster that exists, and no cluster may end here, or there would be no way back. So a random
//! tenth of the rows, chosen without looking at the labels, keeps its labels; `F` are the clusters that have one of these
//! rows, and the labels that move are those of the other rows in `F`. Given the choice, neither `F` nor the set of rows
//! that move changes, so the step is a Gibbs step.

use anabranch::family::DrawNatural;
use anabranch::math::softmax::softmax_rows;
use rand::{Rng, RngExt};

use super::{Chain, ln_gamma_draw};
use crate::sweep::{Parameters, Scores, in_parts};
use crate::totals::Totals;

/// Rows whose scores are computed at once.
const CHUNK: usize = 512;

/// Jobs of a sweep have different generators.
const CHOICE: u64 = 0;
const PARAMETERS: u64 = 1;
const LABELS: u64 = 2;

impl<F: DrawNatural> Chain<'_, F> {
    /// Draws weights, parameters and labels, and sums the rows of each cluster anew.
    pub(super) fn draw_labels(&mut self) {
        let mut rng = self.rng(CHOICE, 0);
        let kept: Vec<bool> = (0..self.rows.n_rows()).map(|_| rng.random::<f64>() < self.kept).collect();
        let mut column_of: Vec<Option<u32>> = vec![None; self.k()];
        let mut clusters: Vec<u32> = Vec::new();
        for (label, _) in self.labels.iter().zip(&kept).filter(|(_, kept)| **kept) {
            column_of[*label as usize].get_or_insert_with(|| {
                clusters.push(*label);
                clusters.len() as u32 - 1
            });
        }
        if clusters.len() > 1 {
            let parameters = self.draw_parameters(&clusters);
            let moves = |row: usize| !kept[row] && column_of[self.labels[row] as usize].is_some();
            let parts = in_parts(self.rows.n_rows(), self.threads, |range| {
                let mut rng = self.rng(LABELS, range.start as u64);
                let movable: Vec<usize> = range.filter(|row| moves(*row)).collect();
                let labels = draw_columns(self.family, self.rows, &movable, &parameters, &mut rng);
                (movable, labels)
            });
            for (movable, columns) in parts {
                for (row, column) in movable.into_iter().zip(columns) {
                    self.labels[row] = clusters[column];
                }
            }
        }
        self.totals = self.sums();
    }

    fn draw_parameters(&self, clusters: &[u32]) -> Parameters {
        let f = self.family.n_features();
        let mut rng = self.rng(PARAMETERS, 0);
        let mut phi = vec![0.0; clusters.len() * f];
        let mut ln_weights = Vec::with_capacity(clusters.len());
        for (cluster, phi) in clusters.iter().zip(phi.chunks_exact_mut(f)) {
            let stats = self.totals.of(*cluster as usize);
            ln_weights.push(ln_gamma_draw(stats[0], &mut rng));
            self.family.draw_natural(stats, &mut rng, phi);
        }
        Parameters { phi, ln_weights }
    }

    /// The sums of every cluster, from the labels.
    pub(super) fn sums(&self) -> Totals {
        let f = self.family.n_features();
        let parts = in_parts(self.rows.n_rows(), self.threads, |range| {
            let mut totals = Totals::empty(self.k(), f);
            let mut features = vec![0.0; f];
            for row in range {
                self.family.features(self.rows.row(row), &mut features);
                let label = self.labels[row] as usize;
                let stats = &mut totals.stats[label * f..(label + 1) * f];
                stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
                totals.labels[label].observe(1.0, 1.0);
            }
            totals
        });
        let mut totals = Totals::empty(self.k(), f);
        parts.iter().for_each(|part| totals.add(part));
        totals
    }
}

/// Draws a column for each of these rows, in proportion to its weight and likelihood.
fn draw_columns<F: DrawNatural>(
    family: &F,
    rows: &anabranch::batch::Batch,
    movable: &[usize],
    parameters: &Parameters,
    rng: &mut impl Rng,
) -> Vec<usize> {
    let k = parameters.ln_weights.len();
    let mut chunk = Scores::default();
    let mut ln_totals = vec![0.0; CHUNK];
    let mut columns = Vec::with_capacity(movable.len());
    for some in movable.chunks(CHUNK) {
        chunk.fill(family, some.iter().map(|row| rows.row(*row)), parameters);
        softmax_rows(&mut chunk.scores, k, &mut ln_totals[..some.len()]);
        columns.extend(chunk.scores.chunks_exact(k).map(|row| draw_column(row, rng)));
    }
    columns
}

fn draw_column(probabilities: &[f64], rng: &mut impl Rng) -> usize {
    let mut left = rng.random::<f64>();
    let mut last = 0;
    for (ix, probability) in probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        left -= probability;
        last = ix;
        if left < 0.0 {
            break;
        }
    }
    last
}
