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
use crate::math::cholesky::with_scratch;
use crate::math::product::rows_times_parameters;
use crate::parallel;
use crate::process::{LabelStatistics, Population, Process};

/// Partners that are tried for each component: the ones that explain its rows best.
const PARTNERS: usize = 6;

/// The smallest components are tried with each other: what they expect of a row is still so vague that any large component
/// seems to explain it better.
const SMALLEST: usize = 12;

/// Pairs that are worth a thread.
const PAIRS: usize = 4;

/// Components whose partners are looked up in one matrix product.
const BLOCK: usize = 16;

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
    /// Weights of the rows, if they have any.
    pub(super) weights: Option<&'a [f64]>,
    /// How many data a row of weight 1 stands for.
    pub(super) row_weight: f64,
    /// Weight of the data.
    pub(super) observations: f64,
    /// Times the data that a merge must be right for.
    pub(super) horizon: f64,
}

/// A component by itself, for `horizon` times the data.
struct Alone {
    log_partition: f64,
    labels: LabelStatistics,
}

struct Pair {
    keep: usize,
    end: usize,
    gain: f64,
}

impl<F: Family, P: Process> Overlapping<'_, F, P> {
    /// Pairs `(keep, end)` whose merges raise the objective, best first; no component is in two of them.
    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        self.ranked(true)
    }

    /// All pairs that could be merged, best first, whether or not that raises the objective; no component is in two of them.
    pub(super) fn best_pairs(&self) -> Vec<(usize, usize)> {
        self.ranked(false)
    }

    fn ranked(&self, rising: bool) -> Vec<(usize, usize)> {
        let k = self.totals.len() / self.family.n_features();
        let f = self.family.n_features();
        let empty = self.family.log_partition(&vec![0.0; f]);
        let alone = parallel::map(0..k, |column| {
            let log_partition = with_scratch(f, |grown| {
                grown.iter_mut().zip(self.of(column)).for_each(|(grown, s)| *grown = s * self.horizon);
                self.family.log_partition(grown)
            });
            Alone { log_partition, labels: self.labels_of(column) }
        });
        let mut pairs = self.candidates();
        parallel::each(pairs.iter_mut(), PAIRS, |pair| {
            pair.gain = with_scratch(f, |joined| self.gain(pair, &alone, empty, rising, joined));
        });
        pairs.retain(|pair| !rising || pair.gain > 0.0);
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
        let blocks = parallel::map((0..k).step_by(BLOCK), |first| {
            let last = (first + BLOCK).min(k);
            let mut pairs = Vec::with_capacity((last - first) * partners);
            parallel::with_buffer((last - first) * k, |scores| {
                rows_times_parameters(&self.totals[first * f..last * f], self.phi, f, scores);
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
            });
            pairs
        });
        let mut pairs: Vec<Pair> = blocks.into_iter().flatten().collect();
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

    /// Statistics of a component.
    fn of(&self, column: usize) -> &[f64] {
        let f = self.family.n_features();
        &self.totals[column * f..(column + 1) * f]
    }

    /// What a merge gains, given each component alone and the log-partition of none, all for `horizon` times the data. Where
    /// only `rising` ones are asked for, one that cannot be has no gain.
    fn gain(&self, pair: &Pair, alone: &[Alone], empty: f64, rising: bool, joined: &mut [f64]) -> f64 {
        let (a, b) = (self.of(pair.keep), self.of(pair.end));
        for ((joined, a), b) in joined.iter_mut().zip(a).zip(b) {
            *joined = a * self.horizon + b * self.horizon;
        }
        let (count_a, count_b) = (a[0] * self.horizon, b[0] * self.horizon);
        let likelihood = self.family.log_partition(joined) + empty
            - alone[pair.keep].log_partition
            - alone[pair.end].log_partition;
        // The entropy only falls, so certain labels are the most that the other terms can give: most pairs end here.
        // What the last of them added is what its end takes away: the tangent at one fewer is exact.
        let all =
            Population { observations: self.horizon * self.observations, occupied: alone.len() as f64 - 1.0 };
        let score = |count: f64, log_p_empty: f64| {
            let stats = LabelStatistics { log_p_empty, expected_count: count, label_entropy: 0.0 };
            self.process.score(&stats, all)
        };
        let certain = |count: f64| score(count, f64::NEG_INFINITY);
        let at_most = certain(joined[0]) - certain(count_a) - certain(count_b);
        if rising && likelihood + at_most.max(0.0) <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let [first, second] = [pair.keep, pair.end].map(|column| alone[column].labels);
        let both = self.labels_of_both(pair, alone);
        let labels = score(joined[0], both.log_p_empty)
            - score(count_a, first.log_p_empty)
            - score(count_b, second.log_p_empty);
        likelihood + labels + both.label_entropy - first.label_entropy - second.label_entropy
    }

    fn weight(&self, row: usize) -> f64 {
        self.horizon * self.row_weight * self.weights.map_or(1.0, |weights| weights[row])
    }

    /// What the rows say of the labels of one component.
    fn labels_of(&self, column: usize) -> LabelStatistics {
        let mut labels = LabelStatistics::default();
        for &(row, probability) in self.labels.of(column) {
            labels.observe(probability, self.weight(row as usize));
        }
        labels
    }

    /// What they say of the labels of both as one: the rows that can belong to both are counted together instead.
    fn labels_of_both(&self, pair: &Pair, alone: &[Alone]) -> LabelStatistics {
        let (mut both, mut apart) = (alone[pair.keep].labels, LabelStatistics::default());
        both += alone[pair.end].labels;
        self.labels.of_both(pair.keep, pair.end, |row, a, b| {
            let weight = self.weight(row);
            apart.observe(a, weight);
            apart.observe(b, weight);
            both.observe(a + b, weight);
        });
        LabelStatistics {
            // What is certain of one is certain of both.
            log_p_empty: if both.log_p_empty.is_finite() {
                both.log_p_empty - apart.log_p_empty
            } else {
                both.log_p_empty
            },
            expected_count: both.expected_count - apart.expected_count,
            label_entropy: both.label_entropy - apart.label_entropy,
        }
    }
}
