//! Prediction from a posterior of topics: what a document is about, and how probable its further words are.
//!
//! ```text
//! ω_k = (α₀ β_k + n_k) / (α₀ + N)      ω_new = α₀ β_new / (α₀ + N)      p(w) = Σ_k ω_k θ_kw + ω_new / V
//! ```
//!
//! `n_k` are the words of the document that belong to topic `k`, found with the topics fixed. The probabilities of all
//! words of the vocabulary add up to 1.

use super::Posterior;
use crate::documents::Documents;
use crate::family::Topic;
use crate::identify::ComponentId;
use crate::process::{Hierarchical, Process};

/// Steps for one document at most, and the share of its words that may still move at the end.
const MOST_STEPS: usize = 100;
const STILL: f64 = 1e-4;

/// The topics of a snapshot, prepared once for many documents.
#[derive(Clone, Debug)]
pub struct TopicPredictor {
    ids: Vec<ComponentId>,
    /// `β_k`.
    weights: Vec<f64>,
    weight_new: f64,
    alpha0: f64,
    n_words: usize,
    /// Expected probabilities, word after word.
    theta: Vec<f64>,
}

/// What a document is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Proportions {
    /// Share of each topic, in the order of [`TopicPredictor::ids`].
    pub topics: Vec<f64>,
    /// Share of what is no known topic.
    pub new: f64,
}

impl TopicPredictor {
    /// Prepares every topic of the snapshot.
    pub fn new(posterior: &Posterior<Topic, Hierarchical>) -> Self {
        let (family, process) = (posterior.family(), posterior.process());
        let living: Vec<_> = posterior
            .components()
            .iter()
            .filter(|c| process.existing_mass(&c.evidence().labels) > 0.0)
            .collect();
        let new = process.new_mass(living.iter().map(|c| &c.evidence().labels));
        let masses = living.iter().map(|c| process.existing_mass(&c.evidence().labels));
        let total = new + masses.clone().sum::<f64>();
        let k = living.len();
        let mut theta = vec![0.0; family.n_words() * k];
        for (column, component) in living.iter().enumerate() {
            for word in 0..family.n_words() {
                theta[word * k + column] = family.probability(&component.evidence().stats, word as u32);
            }
        }
        Self {
            ids: living.iter().map(|c| c.id()).collect(),
            weights: masses.map(|mass| mass / total).collect(),
            weight_new: new / total,
            alpha0: process.alpha0(),
            n_words: family.n_words(),
            theta,
        }
    }

    /// The topics, in the order of [`Proportions::topics`].
    pub fn ids(&self) -> &[ComponentId] {
        &self.ids
    }

    /// The weights of the topics over all documents, in the same order.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    fn row(&self, word: u32) -> &[f64] {
        let k = self.ids.len();
        &self.theta[word as usize * k..(word as usize + 1) * k]
    }

    /// The topics of a document, which is given as `(word, count)`. Words are below the size of the vocabulary.
    pub fn proportions(&self, entries: &[(u32, f64)]) -> Proportions {
        let tokens: f64 = entries.iter().map(|(_, count)| count).sum();
        let prior: Vec<f64> = self.weights.iter().map(|weight| self.alpha0 * weight).collect();
        let known: f64 = self.weights.iter().sum();
        let mut counts: Vec<f64> =
            self.weights.iter().map(|weight| tokens * weight / known.max(f64::MIN_POSITIVE)).collect();
        let mut mixed: Vec<f64> = prior.iter().zip(&counts).map(|(a, n)| a + n).collect();
        for _ in 0..MOST_STEPS {
            let mut shares = vec![0.0; counts.len()];
            for (word, count) in entries {
                let row = self.row(*word);
                let total: f64 = mixed.iter().zip(row).map(|(weight, theta)| weight * theta).sum();
                if total > 0.0 {
                    shares.iter_mut().zip(row).for_each(|(sum, theta)| *sum += count / total * theta);
                }
            }
            let mut moved = 0.0;
            for ((count, weight), share) in counts.iter_mut().zip(&mixed).zip(&shares) {
                moved += (weight * share - *count).abs();
                *count = weight * share;
            }
            mixed.iter_mut().zip(prior.iter().zip(&counts)).for_each(|(mixed, (a, n))| *mixed = a + n);
            if moved <= STILL * tokens {
                break;
            }
        }
        let total = mixed.iter().sum::<f64>() + self.alpha0 * self.weight_new;
        Proportions {
            topics: mixed.iter().map(|weight| weight / total).collect(),
            new: self.alpha0 * self.weight_new / total,
        }
    }

    /// The probability that the next word of a document with these topics is this one.
    pub fn probability(&self, proportions: &Proportions, word: u32) -> f64 {
        let known: f64 =
            proportions.topics.iter().zip(self.row(word)).map(|(share, theta)| share * theta).sum();
        known + proportions.new / self.n_words as f64
    }

    /// Mean log-probability of a word by document completion: the topics of each document are found from its observed part,
    /// and its held-out part is scored with them. `None` when nothing is held out.
    pub fn completion(&self, observed: &Documents, held_out: &Documents) -> Option<f64> {
        let (mut sum, mut tokens) = (0.0, 0.0);
        for ix in 0..observed.len().min(held_out.len()) {
            if held_out.words(ix).is_empty() {
                continue;
            }
            let proportions = self.proportions(&observed.entries(ix).collect::<Vec<_>>());
            for (word, count) in held_out.entries(ix) {
                sum += count * self.probability(&proportions, word).ln();
                tokens += count;
            }
        }
        (tokens > 0.0).then(|| sum / tokens)
    }
}

/// Splits documents for [`TopicPredictor::completion`]: the words of each, repeated ones apart, go in turn to the observed
/// and to the held-out part, beginning with the observed one for an even place in the list and the
/// held-out one for an odd one. Fractions of a word are left out.
///
/// ```
/// use anabranch::documents::Documents;
/// use anabranch::posterior::halves;
/// let documents = Documents::new(4, [vec![(0, 3.0), (2, 1.0)]]).unwrap();
/// let (observed, held_out) = halves(&documents);
/// assert_eq!((observed.tokens(), held_out.tokens()), (2.0, 2.0));
/// ```
pub fn halves(documents: &Documents) -> (Documents, Documents) {
    let mut parts = [Documents::none(documents.n_words()), Documents::none(documents.n_words())];
    for ix in 0..documents.len() {
        let mut entries = [Vec::new(), Vec::new()];
        let mut turn = ix % 2;
        for (word, count) in documents.entries(ix) {
            let whole = count.floor();
            let (more, fewer) = ((whole / 2.0).ceil(), (whole / 2.0).floor());
            let shares = if turn == 0 { [more, fewer] } else { [fewer, more] };
            turn = (turn + whole as usize % 2) % 2;
            for (part, share) in entries.iter_mut().zip(shares) {
                if share > 0.0 {
                    part.push((word, share));
                }
            }
        }
        for (part, entries) in parts.iter_mut().zip(entries) {
            part.push(&entries).expect("parts of a document are documents");
        }
    }
    let [observed, held_out] = parts;
    (observed, held_out)
}
