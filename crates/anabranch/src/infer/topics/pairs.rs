//! What two topics lose when they become one, by the objective of topics whose words and shares are integrated out:
//!
//! ```text
//! Σ_k [A(S_k) − A(0)]                                                            the words of the topics
//! + Σ_j [log Γ(α₀) − log Γ(α₀ + N_j) + Σ_k E log Γ(α₀β_k + n_jk) − log Γ(α₀β_k)] the topics of the documents
//! − Σ_jw c_jw Σ_k ζ_jwk log ζ_jwk                                                the entropy of the words' labels
//! ```
//!
//! Topics with much the same words are compared; that no pair gains says nothing of the whole way down (`infer/path.rs`).

use std::collections::BTreeSet;

use super::ascent::Ascent;
use super::mixed::{Scratch, View, present};
use crate::math::special::ln_gamma;

/// Each topic is compared with so many whose word probabilities are nearest, by the Bhattacharyya coefficient.
const NEIGHBOURS: usize = 5;
/// Roots of probabilities below this tell nothing.
const RARE: f64 = 1e-4;
/// Counts below this are nothing.
const NOTHING: f64 = 1e-9;

/// `A(S) − A(0)` over a vocabulary.
struct Words {
    eta: f64,
    absent: f64,
    all: f64,
}

impl Words {
    fn new(ascent: &Ascent<'_>) -> Self {
        let eta = ascent.family.eta();
        Self { eta, absent: ln_gamma(eta), all: eta * ascent.family.n_words() as f64 }
    }

    /// Of these words and so many others.
    fn evidence(&self, counts: impl Iterator<Item = f64>, total: f64) -> f64 {
        let counted = counts.filter(|s| *s > NOTHING);
        counted.map(|s| ln_gamma(self.eta + s) - self.absent).sum::<f64>() + ln_gamma(self.all)
            - ln_gamma(self.all + total)
    }
}

/// `E[log Γ(a + n) − log Γ(a)]` for a topic that has `n` words of a document in expectation: `P·(log Γ(a + n/P) − log Γ(a))`.
fn share(a: f64, n: f64) -> f64 {
    let present = present(n);
    if present > 0.0 { present * (ln_gamma(a + n / present) - ln_gamma(a)) } else { 0.0 }
}

fn entropy(z: f64) -> f64 {
    if z > 0.0 { -z * z.ln() } else { 0.0 }
}

/// The objective; the documents stand for `scale` times as many.
pub(super) fn objective(ascent: &Ascent<'_>, scale: f64) -> f64 {
    let (words, n) = (Words::new(ascent), ascent.corpus.words.len().max(1));
    let by_topic = ascent.by_topic();
    let of = |(topic, counts): (usize, &[f64])| {
        words.evidence(counts.iter().copied(), ascent.tokens(topic) - words.all)
    };
    let of_topics: f64 = by_topic.chunks_exact(n).enumerate().map(of).sum();
    let alpha0 = ascent.process.alpha0();
    let topics = View { theta: &ascent.theta, weights: &ascent.weights };
    let (mut of_documents, mut scratch) = (0.0, Scratch::default());
    for (ix, mixed) in ascent.documents.iter().enumerate() {
        of_documents -= ln_gamma(alpha0 + ascent.corpus.tokens(ix)) - ln_gamma(alpha0);
        for (topic, n) in mixed.topics.iter().zip(&mixed.counts) {
            of_documents += share(ascent.weights[*topic as usize], *n);
        }
        let labels = |_: usize, _: u32, count: f64, zeta: f64| of_documents += count * entropy(zeta);
        mixed.labels(ascent.corpus.document(ix), &topics, &mut scratch, labels, |_, _| {});
    }
    of_topics + scale * of_documents
}

/// `(gain, one, other)` of pairs that are alike, the best first; the documents stand for `scale` times as many.
pub(super) fn gains(ascent: &Ascent<'_>, scale: f64) -> Vec<(f64, usize, usize)> {
    let (words, n, by_topic) = (Words::new(ascent), ascent.corpus.words.len().max(1), ascent.by_topic());
    let counts: Vec<&[f64]> = by_topic.chunks_exact(n).collect();
    let pairs = alike(&counts);
    let total = |topic: usize| ascent.tokens(topic) - words.all;
    let alone: Vec<f64> =
        (0..counts.len()).map(|k| words.evidence(counts[k].iter().copied(), total(k))).collect();
    let mut shares: Vec<Vec<f64>> = vec![Vec::new(); counts.len()];
    for mixed in &ascent.documents {
        mixed.topics.iter().zip(&mixed.counts).for_each(|(topic, n)| shares[*topic as usize].push(*n));
    }
    let of = |topic: usize, a: f64| shares[topic].iter().map(|n| share(a, *n)).sum::<f64>();
    let weights = &ascent.weights;
    let apart: Vec<f64> = (0..counts.len()).map(|topic| of(topic, weights[topic])).collect();
    let together = together(ascent, &pairs);
    let mut gains: Vec<(f64, usize, usize)> = pairs
        .iter()
        .zip(&together)
        .map(|(&(j, l), both)| {
            let joined = counts[j].iter().zip(counts[l]).map(|(a, b)| a + b);
            let weight = weights[j] + weights[l];
            let gain = words.evidence(joined, total(j) + total(l)) - alone[j] - alone[l]
                + scale * (of(j, weight) + of(l, weight) - apart[j] - apart[l] + both);
            (gain, j, l)
        })
        .collect();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    gains
}

/// Pairs of topics with much the same words.
fn alike(counts: &[&[f64]]) -> Vec<(usize, usize)> {
    let k = counts.len();
    let totals: Vec<f64> = counts.iter().map(|counts| counts.iter().sum::<f64>().max(NOTHING)).collect();
    let mut common = vec![0.0; k * k];
    let mut roots = vec![0.0; k];
    for word in 0..counts.first().map_or(0, |counts| counts.len()) {
        for ((root, counts), total) in roots.iter_mut().zip(counts).zip(&totals) {
            *root = (counts[word].max(0.0) / total).sqrt();
        }
        for (j, root) in roots.iter().enumerate().filter(|(_, root)| **root > RARE) {
            common[j * k..j * k + j].iter_mut().zip(&roots).for_each(|(sum, other)| *sum += root * other);
        }
    }
    let mut pairs = BTreeSet::new();
    for j in 0..k {
        let near = |l: &usize| common[j.max(*l) * k + j.min(*l)];
        let mut others: Vec<usize> = (0..k).filter(|l| *l != j).collect();
        others.sort_by(|a, b| near(b).total_cmp(&near(a)));
        pairs.extend(others.iter().take(NEIGHBOURS).map(|l| (j.min(*l), j.max(*l))));
    }
    pairs.into_iter().collect()
}

/// What documents with both topics of each pair add: their shares become one, and words between the two are certain.
fn together(ascent: &Ascent<'_>, pairs: &[(usize, usize)]) -> Vec<f64> {
    let topics = View { theta: &ascent.theta, weights: &ascent.weights };
    let (mut sums, mut scratch) = (vec![0.0; pairs.len()], Scratch::default());
    for (ix, mixed) in ascent.documents.iter().enumerate() {
        let place = |topic: usize| mixed.topics.binary_search(&(topic as u32)).ok();
        let here: Vec<(usize, usize, usize)> = pairs
            .iter()
            .enumerate()
            .filter_map(|(pair, (j, l))| Some((pair, place(*j)?, place(*l)?)))
            .collect();
        if here.is_empty() {
            continue;
        }
        for (pair, j, l) in &here {
            let weight = ascent.weights[pairs[*pair].0] + ascent.weights[pairs[*pair].1];
            let (a, b) = (mixed.counts[*j], mixed.counts[*l]);
            sums[*pair] += share(weight, a + b) - share(weight, a) - share(weight, b);
        }
        // The labels of one word come one after another, so that a word is over when the last topic was seen.
        let mut shares = vec![0.0; mixed.topics.len()];
        let last = shares.len() - 1;
        let visit = |place: usize, _: u32, count: f64, zeta: f64| {
            shares[place] = zeta;
            if place == last {
                for (pair, j, l) in &here {
                    let (a, b) = (shares[*j], shares[*l]);
                    sums[*pair] += count * (entropy(a + b) - entropy(a) - entropy(b));
                }
            }
        };
        mixed.labels(ascent.corpus.document(ix), &topics, &mut scratch, visit, |_, _| {});
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::corpus::Corpus;
    use super::super::mixed::Mixed;
    use super::*;
    use crate::central::Fold;
    use crate::documents::Documents;
    use crate::family::Topic;
    use crate::process::{Bound, Hierarchical};

    /// Documents that have one topic each: labels are certain, so that the gain is the difference of two objectives.
    #[test]
    fn the_gain_of_a_merge_is_what_the_objective_gains() {
        let document = |ix: u32| vec![(ix % 3, 3.0), (3 + ix % 2, 1.0 + f64::from(ix % 4))];
        let documents = Documents::new(6, (0..12).map(document)).unwrap();
        let corpus = Corpus::new(&documents);
        let process = Hierarchical::new(1.5, 0.7, Bound::Paper).unwrap();
        let prior = Fold::new(Topic::new(6, 0.2).unwrap(), process);
        let mut ascent = Ascent::start(prior.posterior(), &corpus);
        let labels: Vec<Option<usize>> = (0..12).map(|ix| Some(ix % 3)).collect();
        ascent.open(3, &corpus, &labels);
        for (ix, label) in labels.iter().enumerate() {
            let topic = label.unwrap() as u32;
            ascent.documents[ix] = Mixed { topics: vec![topic], counts: vec![corpus.tokens(ix)] };
        }
        let before = objective(&ascent, 1.0);
        let gains = gains(&ascent, 1.0);
        assert_eq!(gains.len(), 3);
        for (gain, one, other) in gains {
            let mut joined = ascent.clone();
            let into: Vec<usize> = (0..3).map(|ix| if ix == other { one } else { ix }).collect();
            joined.join(&into);
            let after = objective(&joined, 1.0);
            assert!((after - before - gain).abs() < 1e-9, "{one} and {other}: {gain} {}", after - before);
        }
    }
}
