//! Merges of components, judged by the change of the whole objective.
//!
//! ```text
//! Δ = [A(S_j + S_l) + A(0) − A(S_j) − A(S_l)]  +  [score(jl) − score(j) − score(l)]  +  ΔH
//! ΔH = Σ_n [ π_j log π_j + π_l log π_l − (π_j + π_l) log(π_j + π_l) ]  ≤  0
//! ```
//!
//! Births are seeded generously, because a cluster that got no seed is not found later; this takes back what the data
//! do not support. The entropy term comes from rows: all of them, or a sample that stands for all. Without it everything
//! that overlaps would merge.
//!
//! A merge is final while the stream goes on, so it must be right for more than the rows at hand: it is judged as if there
//! were `horizon` times the data. A true difference grows with the data, a difference by chance does not outgrow the prior.

use super::labels::ByComponent;
use crate::family::Family;
use crate::math::product::rows_times_parameters;
use crate::process::{LabelStatistics, Population, Process};

/// Partners that are tried for each component: the ones that explain its rows best.
const PARTNERS: usize = 6;

/// The smallest components are tried with each other: what they expect of a row is still so vague that any large component
/// seems to explain it better.
const SMALLEST: usize = 12;

/// Components whose partners are looked up in one matrix product.
const BLOCK: usize = 256;

/// Components with the rows that tell how far they overlap.
pub(super) struct Overlapping<'a, F, P> {
    pub(super) family: &'a F,
    pub(super) process: &'a P,
    /// Statistics of each component.
    pub(super) totals: &'a [f64],
    /// Expected natural parameter of each component.
    pub(super) phi: &'a [f64],
    /// The rows of each component.
    pub(super) labels: &'a ByComponent,
    /// How many data a row stands for.
    pub(super) row_weight: &'a dyn Fn(usize) -> f64,
    /// Weight of the data.
    pub(super) observations: f64,
    /// Times the data that a merge must be right for.
    pub(super) horizon: f64,
}

struct Pair {
    keep: usize,
    end: usize,
    gain: f64,
}

impl<F: Family, P: Process> Overlapping<'_, F, P> {
    /// Pairs `(keep, end)` whose merges raise the objective, best first; no component is in two of them.
    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        let k = self.totals.len() / self.family.n_features();
        let alone: Vec<f64> = (0..k).map(|column| self.family.log_partition(&self.grown(column))).collect();
        let mut pairs = self.candidates();
        pairs.retain_mut(|pair| {
            pair.gain = self.gain(pair, &alone);
            pair.gain > 0.0
        });
        pairs.sort_by(|a, b| b.gain.total_cmp(&a.gain).then((a.keep, a.end).cmp(&(b.keep, b.end))));
        let mut busy = vec![false; k];
        // A pair's gain holds for the state it was computed in: each component takes part in one merge a round.
        pairs.retain(|pair| {
            let free = !busy[pair.keep] && !busy[pair.end];
            busy[pair.keep] |= free;
            busy[pair.end] |= free;
            free
        });
        pairs.into_iter().map(|pair| (pair.keep, pair.end)).collect()
    }

    /// For each component, the others under which its rows are likeliest; and all pairs of the smallest.
    fn candidates(&self) -> Vec<Pair> {
        let f = self.family.n_features();
        let k = self.totals.len() / f;
        let partners = PARTNERS.min(k.saturating_sub(1));
        let mut pairs = Vec::with_capacity(k * partners);
        let mut scores = Vec::new();
        for first in (0..k).step_by(BLOCK) {
            let last = (first + BLOCK).min(k);
            scores.clear();
            scores.resize((last - first) * k, 0.0);
            rows_times_parameters(&self.totals[first * f..last * f], self.phi, f, &mut scores);
            for (own, row) in (first..last).zip(scores.chunks_exact(k)) {
                let mut others: Vec<usize> = (0..k).filter(|&other| other != own).collect();
                if partners > 0 && partners < others.len() {
                    others.select_nth_unstable_by(partners - 1, |a, b| row[*b].total_cmp(&row[*a]));
                }
                pairs.extend(others[..partners].iter().map(|&other| Pair {
                    keep: own.min(other),
                    end: own.max(other),
                    gain: 0.0,
                }));
            }
        }
        let mut by_size: Vec<usize> = (0..k).collect();
        by_size.sort_by(|a, b| self.totals[a * f].total_cmp(&self.totals[b * f]));
        let smallest = &by_size[..SMALLEST.min(k)];
        for (ix, a) in smallest.iter().enumerate() {
            let others = smallest[ix + 1..].iter();
            pairs.extend(others.map(|b| Pair { keep: *a.min(b), end: *a.max(b), gain: 0.0 }));
        }
        pairs.sort_by_key(|pair| (pair.keep, pair.end));
        pairs.dedup_by_key(|pair| (pair.keep, pair.end));
        pairs
    }

    /// Statistics of a component if there were `horizon` times the data, all like those at hand.
    fn grown(&self, column: usize) -> Vec<f64> {
        let f = self.family.n_features();
        self.totals[column * f..(column + 1) * f].iter().map(|s| s * self.horizon).collect()
    }

    fn gain(&self, pair: &Pair, alone: &[f64]) -> f64 {
        let (a, b) = (self.grown(pair.keep), self.grown(pair.end));
        let joined: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let empty = self.family.log_partition(&vec![0.0; a.len()]);
        let likelihood = self.family.log_partition(&joined) + empty - alone[pair.keep] - alone[pair.end];
        // The entropy only falls, so certain labels are the most that the other terms can give: most pairs end here.
        // What the last of them added is what its end takes away: the tangent at one fewer is exact.
        let all =
            Population { observations: self.horizon * self.observations, occupied: alone.len() as f64 - 1.0 };
        let score = |count: f64, log_p_empty: f64| {
            let stats = LabelStatistics { log_p_empty, expected_count: count, label_entropy: 0.0 };
            self.process.score(&stats, all)
        };
        let certain = |count: f64| score(count, f64::NEG_INFINITY);
        let at_most = certain(joined[0]) - certain(a[0]) - certain(b[0]);
        if likelihood + at_most.max(0.0) <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let [first, second, both] = self.labels(pair);
        let labels = score(joined[0], both.log_p_empty)
            - score(a[0], first.log_p_empty)
            - score(b[0], second.log_p_empty);
        likelihood + labels + both.label_entropy - first.label_entropy - second.label_entropy
    }

    /// What the rows say of the labels of the two, and of both as one.
    fn labels(&self, pair: &Pair) -> [LabelStatistics; 3] {
        let mut labels = [LabelStatistics::default(); 3];
        self.labels.of_pair(pair.keep, pair.end, |row, a, b| {
            let weight = self.horizon * (self.row_weight)(row);
            labels[0].observe(a, weight);
            labels[1].observe(b, weight);
            labels[2].observe(a + b, weight);
        });
        labels
    }
}
