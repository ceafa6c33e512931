//! Merges among the components that one minibatch opened, judged by the exact change of the objective.
//!
//! ```text
//! Δ = [A(S_j + S_l) + A(0) − A(S_j) − A(S_l)]  +  [score(jl) − score(j) − score(l)]  +  ΔH
//! ΔH = Σ_n [ π_j log π_j + π_l log π_l − (π_j + π_l) log(π_j + π_l) ]  ≤  0
//! ```
//!
//! Births are seeded generously, because a cluster that got no seed is not found later; this takes back what the data
//! do not support. The rows are at hand, so the entropy term is exact; without it everything that overlaps would merge.
//!
//! A merge is final while the stream goes on, so it must be right for more than the rows at hand: it is judged as if there
//! were `horizon` times the data. A true difference grows with the data, a difference by chance does not outgrow the prior.

use super::ascent::Ascent;
use crate::family::Family;
use crate::math::product::rows_times_parameters;
use crate::process::{LabelStatistics, Process};

/// Partners that are tried for each component: the ones that explain its rows best.
const PARTNERS: usize = 6;

/// Merges pairs of new components for as long as that raises the objective. Returns how many ended.
pub(super) fn merge_new<F: Family, P: Process>(ascent: &mut Ascent<'_, F, P>, horizon: f64) -> usize {
    let first_new = ascent.columns().iter().take_while(|column| column.is_known()).count();
    let mut pairs = candidates(ascent, first_new);
    pairs.retain_mut(|pair| {
        pair.gain = gain(ascent, pair, horizon);
        pair.gain > 0.0
    });
    pairs.sort_by(|a, b| b.gain.total_cmp(&a.gain).then((a.keep, a.end).cmp(&(b.keep, b.end))));
    let mut busy = vec![false; ascent.columns().len()];
    let mut ended = vec![true; ascent.columns().len()];
    let mut merged = 0;
    for pair in pairs {
        // A pair's gain holds for the state it was computed in: each component takes part in one merge a round.
        if !busy[pair.keep] && !busy[pair.end] {
            busy[pair.keep] = true;
            busy[pair.end] = true;
            ended[pair.end] = false;
            ascent.join_columns(pair.keep, pair.end);
            merged += 1;
        }
    }
    ascent.keep(&ended);
    merged
}

struct Pair {
    keep: usize,
    end: usize,
    gain: f64,
}

/// For each new component, the new components under which its rows are likeliest.
fn candidates<F: Family, P: Process>(ascent: &Ascent<'_, F, P>, first_new: usize) -> Vec<Pair> {
    let f = ascent.n_features();
    let sums = &ascent.memory.sums[first_new * f..];
    let phi = &ascent.memory.phi[first_new * f..];
    let k = sums.len() / f;
    let mut scores = vec![0.0; k * k];
    rows_times_parameters(sums, phi, f, &mut scores);
    let mut pairs = Vec::new();
    for (own, row) in scores.chunks_exact(k.max(1)).enumerate() {
        let mut others: Vec<usize> = (0..k).filter(|&other| other != own).collect();
        let partners = PARTNERS.min(others.len());
        if partners > 0 && partners < others.len() {
            others.select_nth_unstable_by(partners - 1, |a, b| row[*b].total_cmp(&row[*a]));
        }
        pairs.extend(others[..partners].iter().map(|other| {
            let (low, high) = (own.min(*other) + first_new, own.max(*other) + first_new);
            Pair { keep: low, end: high, gain: 0.0 }
        }));
    }
    pairs.sort_by_key(|pair| (pair.keep, pair.end));
    pairs.dedup_by_key(|pair| (pair.keep, pair.end));
    pairs
}

/// The change of the objective if there were `horizon` times the data, all like those at hand.
fn gain<F: Family, P: Process>(ascent: &Ascent<'_, F, P>, pair: &Pair, horizon: f64) -> f64 {
    let f = ascent.n_features();
    let (family, process) = (ascent.posterior().family(), ascent.posterior().process());
    let grown = |column: usize| -> Vec<f64> {
        ascent.memory.sums[column * f..(column + 1) * f].iter().map(|s| s * horizon).collect()
    };
    let (a, b) = (grown(pair.keep), grown(pair.end));
    let joined: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let empty = ascent.columns()[pair.end].log_partition();
    let likelihood =
        family.log_partition(&joined) + empty - family.log_partition(&a) - family.log_partition(&b);
    // The entropy only falls, so certain labels are the most that the other terms can give: most pairs end here.
    let at_most =
        process.score(&certain(joined[0])) - process.score(&certain(a[0])) - process.score(&certain(b[0]));
    if likelihood + at_most.max(0.0) <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let [first, second, both] = label_statistics(ascent, pair, horizon);
    let labels = process.score(&both) - process.score(&first) - process.score(&second);
    likelihood + labels + both.label_entropy - first.label_entropy - second.label_entropy
}

fn certain(count: f64) -> LabelStatistics {
    LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: count, label_entropy: 0.0 }
}

fn label_statistics<F: Family, P: Process>(
    ascent: &Ascent<'_, F, P>,
    pair: &Pair,
    horizon: f64,
) -> [LabelStatistics; 3] {
    let k = ascent.columns().len();
    let mut labels = [LabelStatistics::default(); 3];
    for (row_ix, row) in ascent.memory.responsibilities.chunks_exact(k).enumerate() {
        let (a, b) = (row[pair.keep], row[pair.end]);
        if a + b > 0.0 {
            let weight = horizon * ascent.weight(row_ix);
            labels[0].observe(a, weight);
            labels[1].observe(b, weight);
            labels[2].observe(a + b, weight);
        }
    }
    labels
}
