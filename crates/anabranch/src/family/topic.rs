//! Topics: a distribution over words with a symmetric Dirichlet prior (paper §2.2 with a Dirichlet–multinomial).
//!
//! ```text
//! T(document) = (tokens, count of word 1, …, count of word V)
//! A(S) = Σ_w log Γ(η + S_w) − log Γ(Vη + S_0)        φ = (−ψ(Vη + S_0), ψ(η + S_1), …, ψ(η + S_V))
//! ```
//!
//! The first sum is the number of tokens, so that statistics say what a topic weighs without a walk over the vocabulary.

use serde::{Deserialize, Serialize};

use super::{Conjugate, PriorError};
use crate::math::special::{digamma, ln_gamma};

/// The topics over a vocabulary, with the pseudo-count `η` of every word.
///
/// ```
/// use anabranch::family::{Conjugate, Topic};
/// let topic = Topic::new(3, 0.5).unwrap();
/// assert_eq!(topic.n_features(), 4);
/// // Three tokens, two of them the first word.
/// assert!((topic.probability(&[3.0, 2.0, 1.0, 0.0], 0) - 2.5 / 4.5).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Topic {
    n_words: usize,
    eta: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    n_words: usize,
    eta: f64,
}

impl TryFrom<Unchecked> for Topic {
    type Error = PriorError;

    fn try_from(raw: Unchecked) -> Result<Self, PriorError> {
        Self::new(raw.n_words, raw.eta)
    }
}

/// Words that a vocabulary may have: far beyond any language, and far below what overflows.
const MOST_WORDS: usize = 1 << 26;

/// Below, ψ(η) overflows; above, no count is ever heard.
const ETA: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// The first sum is that of the others to this share.
const ROUNDING: f64 = 1e-6;

impl Topic {
    /// Topics over `n_words` words, each with the pseudo-count `eta`.
    pub fn new(n_words: usize, eta: f64) -> Result<Self, PriorError> {
        if n_words == 0 || n_words > MOST_WORDS {
            return Err(PriorError::Parameter {
                what: "the number of words",
                value: n_words as f64,
                expected: "a number from 1 to 67108864",
            });
        }
        if !ETA.contains(&eta) {
            return Err(PriorError::Parameter {
                what: "eta",
                value: eta,
                expected: "a number from 1e-6 to 1e6",
            });
        }
        Ok(Self { n_words, eta })
    }

    /// Words of the vocabulary.
    pub fn n_words(&self) -> usize {
        self.n_words
    }

    /// The pseudo-count of every word.
    pub fn eta(&self) -> f64 {
        self.eta
    }

    /// The same with another pseudo-count, within what makes sense.
    pub(crate) fn with_eta(self, eta: f64) -> Self {
        Self { eta: eta.clamp(*ETA.start(), *ETA.end()), ..self }
    }

    /// The same over at least so many words, each with the same pseudo-count.
    pub(crate) fn over(self, n_words: usize) -> Self {
        Self { n_words: self.n_words.max(n_words), ..self }
    }

    /// How often a word is in these sums, which may be older than the word.
    pub(crate) fn count(stats: &[f64], word: u32) -> f64 {
        stats.get(1 + word as usize).copied().unwrap_or(0.0)
    }

    /// The expected probability of a word under a topic with these sums.
    pub fn probability(&self, stats: &[f64], word: u32) -> f64 {
        (stats[1 + word as usize] + self.eta) / (stats[0] + self.eta * self.n_words as f64)
    }
}

impl Conjugate for Topic {
    fn n_features(&self) -> usize {
        self.n_words + 1
    }

    fn widened(&self, n_features: usize) -> Option<Self> {
        (n_features > self.n_features()).then(|| Self::new(n_features - 1, self.eta).ok()).flatten()
    }

    fn admits(&self, stats: &[f64]) -> bool {
        let sum: f64 = stats[1..].iter().sum();
        stats.iter().all(|s| s.is_finite() && *s >= 0.0)
            && (sum - stats[0]).abs() <= ROUNDING * (1.0 + stats[0])
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        let absent = ln_gamma(self.eta);
        let of = |s: &f64| if *s == 0.0 { absent } else { ln_gamma(self.eta + s) };
        stats[1..].iter().map(of).sum::<f64>() - ln_gamma(self.eta * self.n_words as f64 + stats[0])
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let absent = digamma(self.eta);
        phi[0] = -digamma(self.eta * self.n_words as f64 + stats[0]);
        for (phi, s) in phi[1..].iter_mut().zip(&stats[1..]) {
            *phi = if *s == 0.0 { absent } else { digamma(self.eta + s) };
        }
        self.log_partition(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chance of a sequence of words, word after word, as Pólya's urn draws them.
    #[test]
    fn the_log_partition_is_the_marginal_likelihood_of_a_sequence() {
        let topic = Topic::new(3, 0.3).unwrap();
        let mut counts = [0.0; 4];
        let mut ln_chance = 0.0;
        for word in [0, 0, 2, 0, 2] {
            ln_chance += topic.probability(&counts, word).ln();
            counts[0] += 1.0;
            counts[1 + word as usize] += 1.0;
        }
        let marginal = topic.log_partition(&counts) - topic.log_partition(&[0.0; 4]);
        assert!((marginal - ln_chance).abs() < 1e-12, "{marginal} {ln_chance}");
    }

    #[test]
    fn the_expected_natural_parameter_is_the_gradient() {
        let topic = Topic::new(2, 0.7).unwrap();
        let stats = [5.0, 3.5, 1.5];
        let mut phi = [0.0; 3];
        topic.expected_natural(&stats, &mut phi);
        for ix in 0..3 {
            let step = |by: f64| {
                let mut moved = stats;
                moved[ix] += by;
                topic.log_partition(&moved)
            };
            let slope = (step(1e-5) - step(-1e-5)) / 2e-5;
            assert!((slope - phi[ix]).abs() < 1e-8, "{ix}: {slope} {}", phi[ix]);
        }
    }

    /// A word that comes late has the pseudo-count of every word, and takes its share from all the others.
    #[test]
    fn more_words_are_a_topic_that_has_never_had_them() {
        let narrow = Topic::new(2, 0.3).unwrap();
        let wide = narrow.widened(5).unwrap();
        assert_eq!((wide.n_words(), wide.eta()), (4, 0.3));
        assert!(narrow.widened(3).is_none() && narrow.widened(1 << 40).is_none());
        let probabilities: Vec<f64> =
            (0..4).map(|word| wide.probability(&[4.0, 1.0, 3.0, 0.0, 0.0], word)).collect();
        let expected = [1.3 / 5.2, 3.3 / 5.2, 0.3 / 5.2, 0.3 / 5.2];
        assert!(probabilities.iter().zip(expected).all(|(p, e)| (p - e).abs() < 1e-12), "{probabilities:?}");
    }

    #[test]
    fn sums_that_no_documents_have_are_refused() {
        let topic = Topic::new(2, 0.1).unwrap();
        assert!(topic.admits(&[3.0, 1.0, 2.0]) && topic.admits(&[0.0; 3]));
        assert!(!topic.admits(&[3.0, 1.0, 1.0]) && !topic.admits(&[0.0, 1.0, -1.0]));
        assert!(!topic.admits(&[f64::NAN, 0.0, 0.0]));
        assert!(
            Topic::new(0, 0.1).is_err() && Topic::new(2, 0.0).is_err() && Topic::new(2, f64::NAN).is_err()
        );
    }
}
