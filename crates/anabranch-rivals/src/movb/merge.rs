//! Merges with the exact change of the bound (Hughes and Sudderth 2013, §3.2).
//!
//! ```text
//! Δ = [A(S_j + S_l) + A(η₀) − A(S_j) − A(S_l)]  +  [sticks after − sticks before]  +  H_jl − e_j − e_l
//! H_jl = −Σ_n (r_nj + r_nl) log (r_nj + r_nl)
//! ```
//!
//! Only the entropy `H_jl` needs the rows: it is summed for chosen pairs while the minibatches pass by, and kept for each
//! minibatch like everything else.

use anabranch::family::Family;
use anabranch::math::product::rows_times_parameters;

use super::Memoized;
use crate::mixture::Mixture;
use crate::stick;

/// Partners that are tried for each component: the ones that explain its rows best.
const PARTNERS: usize = 4;

/// Pairs whose entropy is followed through a lap.
#[derive(Default)]
pub(super) struct Pairs {
    pairs: Vec<(usize, usize)>,
    /// For each minibatch, the entropy of each pair.
    entropies: Vec<Vec<f64>>,
}

impl Pairs {
    /// The pairs that could gain: the entropy of a merged pair is smaller, so without it the change is a bound on the gain.
    pub(super) fn choose<F: Family>(mixture: &Mixture<'_, F>) -> Self {
        let (k, f) = (mixture.k(), mixture.totals.n_features());
        let parameters = mixture.parameters();
        let mut scores = vec![0.0; k * k];
        rows_times_parameters(&mixture.totals.stats, &parameters.phi, f, &mut scores);
        let mut pairs = Vec::new();
        for (own, row) in scores.chunks_exact(k).enumerate() {
            let mut others: Vec<usize> = (0..k).filter(|other| *other != own).collect();
            others.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
            pairs.extend(others.iter().take(PARTNERS).map(|other| (own.min(*other), own.max(*other))));
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs.retain(|pair| gain_without_entropy(mixture, *pair) > 0.0);
        Self { pairs, entropies: Vec::new() }
    }

    /// Starts a lap over this many minibatches.
    pub(super) fn begin(&mut self, n_batches: usize) {
        self.entropies = vec![vec![0.0; self.pairs.len()]; n_batches];
    }

    /// Adds the entropies of some rows of a minibatch.
    pub(super) fn track(&mut self, b: usize, responsibilities: &[f64], k: usize) {
        if self.pairs.is_empty() {
            return;
        }
        let entropies = &mut self.entropies[b];
        for row in responsibilities.chunks_exact(k) {
            for ((j, l), entropy) in self.pairs.iter().zip(entropies.iter_mut()) {
                let r = row[*j] + row[*l];
                if r > 0.0 {
                    *entropy -= r * r.ln();
                }
            }
        }
    }
}

fn joined_stats<F: Family>(mixture: &Mixture<'_, F>, (j, l): (usize, usize)) -> Vec<f64> {
    mixture.totals.of(j).iter().zip(mixture.totals.of(l)).map(|(a, b)| a + b).collect()
}

fn gain_without_entropy<F: Family>(mixture: &Mixture<'_, F>, (j, l): (usize, usize)) -> f64 {
    let likelihood = mixture.evidence_of(&joined_stats(mixture, (j, l)))
        - mixture.evidence_of(mixture.totals.of(j))
        - mixture.evidence_of(mixture.totals.of(l));
    let counts = mixture.totals.counts();
    let mut merged = counts.clone();
    merged[j] += merged[l];
    merged.remove(l);
    likelihood + stick::evidence(&merged, mixture.alpha) - stick::evidence(&counts, mixture.alpha)
}

impl<F: Family> Memoized<'_, F> {
    /// Merges the pairs of the last lap that raise the bound, each component once. Returns how many ended.
    pub(super) fn merge(&mut self, pairs: &Pairs) -> usize {
        let gain = |mixture: &Mixture<'_, F>, ix: usize| {
            let (j, l) = pairs.pairs[ix];
            let joined: f64 = pairs.entropies.iter().map(|batch| batch[ix]).sum();
            let labels = &mixture.totals.labels;
            gain_without_entropy(mixture, (j, l)) + joined - labels[j].label_entropy - labels[l].label_entropy
        };
        let mut ranked: Vec<(usize, f64)> = (0..pairs.pairs.len())
            .map(|ix| (ix, gain(&self.mixture, ix)))
            .filter(|(_, gain)| *gain > 0.0)
            .collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut busy = vec![false; self.mixture.k()];
        let mut ended = vec![false; self.mixture.k()];
        for (ix, _) in ranked {
            let (j, l) = pairs.pairs[ix];
            // Earlier merges have moved the sticks: the gain is computed for the state of now.
            if busy[j] || busy[l] || gain(&self.mixture, ix) <= 0.0 {
                continue;
            }
            (busy[j], busy[l], ended[l]) = (true, true, true);
            for (b, part) in self.memo.iter_mut().enumerate() {
                join(part, j, l, pairs.entropies[b][ix]);
            }
            let entropy = pairs.entropies.iter().map(|batch| batch[ix]).sum();
            join(&mut self.mixture.totals, j, l, entropy);
        }
        let kept: Vec<usize> = (0..self.mixture.k()).filter(|ix| !ended[*ix]).collect();
        let merged = self.mixture.k() - kept.len();
        if merged > 0 {
            self.select(&kept);
        }
        merged
    }
}

/// Gives the sums of `l` to `j`, whose labels now have this entropy; `l` is left empty.
fn join(totals: &mut crate::totals::Totals, j: usize, l: usize, entropy: f64) {
    let f = totals.n_features();
    for ix in 0..f {
        totals.stats[j * f + ix] += totals.stats[l * f + ix];
        totals.stats[l * f + ix] = 0.0;
    }
    let ended = std::mem::take(&mut totals.labels[l]);
    totals.labels[j] += ended;
    totals.labels[j].label_entropy = entropy;
}
