//! One document: its topics, and how many of its words each one has.
//!
//! ```text
//! ζ_wk ∝ π_k θ_kw       n_k = Σ_w c_w ζ_wk       π_k ∝ α₀ β_k + n_k
//! ```

use std::collections::BTreeMap;

/// The topics that a document has words of.
#[derive(Clone, Debug, Default)]
pub(super) struct Mixed {
    /// Columns, ascending.
    pub(super) topics: Vec<u32>,
    /// Expected number of words of each.
    pub(super) counts: Vec<f64>,
}

/// Memory that one document after another uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    weights: Vec<f64>,
    shares: Vec<f64>,
    near: Near,
}

/// The few topics of a document on its few words, side by side: in the table of all of them each number is a journey.
#[derive(Clone, Debug, Default)]
struct Near {
    n_words: usize,
    /// `θ_kw`, topic after topic.
    theta: Vec<f64>,
    /// `c_w / Σ_k π_k θ_kw`.
    per_word: Vec<f64>,
}

impl Near {
    fn gather(&mut self, places: &[u32], words: &[u32], topics: &View<'_>) {
        self.n_words = words.len();
        self.theta.clear();
        self.theta.resize(places.len() * words.len(), 0.0);
        for (at, word) in words.iter().enumerate() {
            let row = topics.row(*word);
            let to = self.theta[at..].iter_mut().step_by(words.len());
            to.zip(places).for_each(|(theta, topic)| *theta = row[*topic as usize]);
        }
    }

    /// Adds `Σ_w c_w θ_kw / Σ_l π_l θ_lw` to each topic's share.
    fn add_shares(&mut self, weights: &[f64], counts: &[f64], shares: &mut [f64]) {
        /// Sums at once: one alone would wait for itself.
        const AT_ONCE: usize = 4;
        let n = self.n_words.max(1);
        self.per_word.clear();
        self.per_word.resize(self.n_words, 0.0);
        for (weight, row) in weights.iter().zip(self.theta.chunks_exact(n)) {
            self.per_word.iter_mut().zip(row).for_each(|(total, theta)| *total += weight * theta);
        }
        self.per_word.iter_mut().zip(counts).for_each(|(total, count)| *total = count / *total);
        let (mut rows, mut sums) = (self.theta.chunks_exact(AT_ONCE * n), shares.chunks_exact_mut(AT_ONCE));
        for (rows, sums) in (&mut rows).zip(&mut sums) {
            let (first, last) = rows.split_at(2 * n);
            let ((a, b), (c, d)) = (first.split_at(n), last.split_at(n));
            let four = a.iter().zip(b).zip(c.iter().zip(d));
            for (share, ((a, b), (c, d))) in self.per_word.iter().zip(four) {
                sums[0] += share * a;
                sums[1] += share * b;
                sums[2] += share * c;
                sums[3] += share * d;
            }
        }
        for (row, sum) in rows.remainder().chunks_exact(n).zip(sums.into_remainder()) {
            self.per_word.iter().zip(row).for_each(|(share, theta)| *sum += share * theta);
        }
    }
}

/// The probability that a document has any word of a topic of which it has so many in expectation, were they many and alike.
pub(super) fn present(n: f64) -> f64 {
    -(-n).exp_m1()
}

/// Topics as the words of a document see them.
pub(super) struct View<'a> {
    /// `θ_kw`, word after word.
    pub(super) theta: &'a [f64],
    /// `α₀ β_k`.
    pub(super) weights: &'a [f64],
}

impl View<'_> {
    fn row(&self, word: u32) -> &[f64] {
        let k = self.weights.len();
        &self.theta[word as usize * k..(word as usize + 1) * k]
    }
}

/// `Σ a·b`, in eight sums at once: one sum alone would wait for itself.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

impl Mixed {
    /// All topics, with the document's words shared out by weight.
    pub(super) fn everything(weights: &[f64], tokens: f64) -> Self {
        let total: f64 = weights.iter().sum();
        Self {
            topics: (0..weights.len() as u32).collect(),
            counts: weights.iter().map(|weight| tokens * weight / total).collect(),
        }
    }

    /// `steps` steps of expectation maximisation with the topics as they are, or fewer when the counts stand still.
    pub(super) fn settle(
        &mut self,
        (words, counts): (&[u32], &[f64]),
        topics: &View<'_>,
        steps: usize,
        scratch: &mut Scratch,
    ) {
        /// The counts stand still when less than this share of the words moves.
        const STILL: f64 = 1e-3;
        let tokens: f64 = counts.iter().sum();
        let whole = self.topics.len() == topics.weights.len();
        if !whole && steps > 0 {
            scratch.near.gather(&self.topics, words, topics);
        }
        for _ in 0..steps {
            let Scratch { weights, shares, near } = scratch;
            self.fill_weights(topics, weights);
            shares.clear();
            shares.resize(weights.len(), 0.0);
            if whole {
                for (word, count) in words.iter().zip(counts) {
                    let row = topics.row(*word);
                    let share = count / dot(weights, row);
                    shares.iter_mut().zip(row).for_each(|(sum, theta)| *sum += share * theta);
                }
            } else {
                near.add_shares(weights, counts, shares);
            }
            let mut moved = 0.0;
            for ((count, weight), share) in self.counts.iter_mut().zip(weights).zip(shares) {
                let now = *weight * *share;
                moved += (now - *count).abs();
                *count = now;
            }
            if moved < STILL * tokens {
                break;
            }
        }
    }

    /// Forgets topics with fewer than `least` words, but never the largest.
    pub(super) fn forget(&mut self, least: f64) {
        let largest = self.counts.iter().copied().fold(0.0, f64::max);
        let least = least.min(largest);
        let mut kept = 0;
        for ix in 0..self.topics.len() {
            if self.counts[ix] >= least {
                self.topics[kept] = self.topics[ix];
                self.counts[kept] = self.counts[ix];
                kept += 1;
            }
        }
        self.topics.truncate(kept);
        self.counts.truncate(kept);
    }

    /// All `k` topics, those that it has no words of with none.
    pub(super) fn reopen(&mut self, k: usize) {
        let mut counts = vec![0.0; k];
        self.topics.iter().zip(&self.counts).for_each(|(topic, count)| counts[*topic as usize] = *count);
        (self.topics, self.counts) = ((0..k as u32).collect(), counts);
    }

    /// Gives topics new names; those with the same name become one.
    pub(super) fn join(&mut self, name: impl Fn(u32) -> u32) {
        let mut joined: BTreeMap<u32, f64> = BTreeMap::new();
        for (topic, count) in self.topics.iter().zip(&self.counts) {
            *joined.entry(name(*topic)).or_default() += count;
        }
        (self.topics, self.counts) = joined.into_iter().unzip();
    }

    /// `α₀ β_k + n_k` of the document's topics.
    pub(super) fn fill_weights(&self, topics: &View<'_>, weights: &mut Vec<f64>) {
        weights.clear();
        weights.extend(self.topics.iter().zip(&self.counts).map(|(k, n)| topics.weights[*k as usize] + n));
    }

    /// Calls `visit(place of the topic, word, c·ζ)` for each word and topic, and `each(word's count, Σ_k π̃_k θ_kw)` for
    /// each word, where `π̃ = α₀β + n` is not normalised.
    pub(super) fn labels(
        &self,
        (words, counts): (&[u32], &[f64]),
        topics: &View<'_>,
        scratch: &mut Scratch,
        mut visit: impl FnMut(usize, u32, f64, f64),
        mut each: impl FnMut(f64, f64),
    ) {
        self.fill_weights(topics, &mut scratch.weights);
        let weights = &scratch.weights;
        for (word, count) in words.iter().zip(counts) {
            let row = topics.row(*word);
            let total: f64 =
                weights.iter().zip(&self.topics).map(|(w, topic)| w * row[*topic as usize]).sum();
            each(*count, total);
            for (place, (weight, topic)) in weights.iter().zip(&self.topics).enumerate() {
                visit(place, *word, *count, weight * row[*topic as usize] / total);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some of the topics, in numbers that fill groups of four and do not, against the formulas one by one.
    #[test]
    fn a_document_settles_on_its_topics_as_the_formulas_say() {
        let (n_topics, n_words) = (12, 9);
        let theta: Vec<f64> =
            (0..n_topics * n_words).map(|ix| 0.01 + f64::from((ix * 7919 % 101) as u32) / 100.0).collect();
        let prior: Vec<f64> = (0..n_topics).map(|k| 0.1 + 0.05 * k as f64).collect();
        let view = View { theta: &theta, weights: &prior };
        let (words, counts) = ([0, 2, 3, 5, 8], [1.0, 3.0, 2.0, 1.0, 4.0]);
        for topics in [vec![4], vec![0, 3, 5], vec![1, 2, 6, 11], vec![0, 2, 3, 7, 8, 9, 10]] {
            let mut expected: Vec<f64> = topics.iter().map(|k| 1.0 + f64::from(*k)).collect();
            let mut mixed = Mixed { topics: topics.clone(), counts: expected.clone() };
            mixed.settle((&words, &counts), &view, 3, &mut Scratch::default());
            for _ in 0..3 {
                let weight = |place: usize| prior[topics[place] as usize] + expected[place];
                let at = |place: usize, word: u32| theta[word as usize * n_topics + topics[place] as usize];
                let shares = |place: usize| {
                    let of_word = |(word, count): (&u32, &f64)| {
                        let total: f64 = (0..topics.len()).map(|k| weight(k) * at(k, *word)).sum();
                        count * weight(place) * at(place, *word) / total
                    };
                    words.iter().zip(&counts).map(of_word).sum::<f64>()
                };
                expected = (0..topics.len()).map(shares).collect();
            }
            for (found, expected) in mixed.counts.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
            assert!((mixed.counts.iter().sum::<f64>() - 11.0).abs() < 1e-9, "every word is of some topic");
        }
    }
}
