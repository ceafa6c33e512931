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
        for _ in 0..steps {
            let Scratch { weights, shares } = scratch;
            self.fill_weights(topics, weights);
            shares.clear();
            shares.resize(weights.len(), 0.0);
            for (word, count) in words.iter().zip(counts) {
                let row = topics.row(*word);
                if weights.len() == row.len() {
                    let share = count / dot(weights, row);
                    shares.iter_mut().zip(row).for_each(|(sum, theta)| *sum += share * theta);
                } else {
                    let theta = |topic: &u32| row[*topic as usize];
                    let total: f64 =
                        weights.iter().zip(&self.topics).map(|(w, topic)| w * theta(topic)).sum();
                    let share = count / total;
                    shares.iter_mut().zip(&self.topics).for_each(|(sum, topic)| *sum += share * theta(topic));
                }
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
