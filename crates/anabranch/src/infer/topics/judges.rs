//! Documents that judge topics: half of the words of each say what it is about, the others how well that was said.
//!
//! Documents that the topics have not learned from are scored as they are. One that they have learned from is scored without
//! what it taught: of the words `S_kw` of a topic, those of the document, `c_w ζ_wk`, are taken away first.
//!
//! While more documents are to come, documents that have been learned from say as they are what the topics will be worth once
//! their words are better known (`infer/court.rs`).

use rand::SeedableRng;
use rand_distr::{Binomial, Distribution};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::ascent::Ascent;
use super::corpus::Corpus;
use super::mixed::{Mixed, Scratch, View};
use crate::documents::Documents;
use crate::infer::path::Bench;
use crate::parallel;

/// Which half a word goes to is always drawn from the same seed.
const SEED: u64 = 0x5EED;
/// Steps with all topics, and with those that are left.
const FIRST_STEPS: usize = 4;
const STEPS: usize = 30;
/// A topic with fewer words of a document than this adds nothing to what it is about.
const LEAST: f64 = 0.01;
/// A difference below this for each held-out word is none that a reader would notice.
const TRIFLE: f64 = 0.002;
/// One document tells two sets of topics apart by so many nats for each of its held-out words at most.
const FAR: f64 = 20.0;

/// Differences within so many standard errors are chance.
const DOUBT: f64 = 1.0;

/// What the topics know of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing.
    Fresh,
    /// They have learned from them, and each is scored as it is.
    Learned,
    /// They have learned from them, and each is scored without what it taught.
    LeftOut,
}

/// Documents that say what topics predict now, and those that say what they will be worth for `horizon` times the data.
pub(super) struct Judges {
    now: Panel,
    learned: Option<Panel>,
    horizon: f64,
}

/// Documents over the words of some corpus.
struct Panel {
    standing: Standing,
    documents: Vec<Judge>,
    /// What is no difference for a document of the usual length.
    trifle: f64,
}

struct Judge {
    /// Numbers of its distinct words.
    words: Vec<u32>,
    /// How often each of them is there, is observed, and is held out.
    counts: [Vec<f64>; 3],
}

impl Judges {
    /// Documents that have been spared, and as many of those that are learned from; all words are among those of the corpus.
    pub(super) fn of_spared(spared: &Documents, learned: &Documents, corpus: &Corpus, horizon: f64) -> Self {
        let learned = learned.slice(0, spared.len());
        Self {
            now: Panel::new(spared, corpus, Standing::Fresh),
            learned: (horizon > 1.0).then(|| Panel::new(&learned, corpus, Standing::Learned)),
            horizon,
        }
    }

    /// Documents that have been learned from; all words are among those of the corpus.
    pub(super) fn of_learned(documents: &Documents, corpus: &Corpus, horizon: f64) -> Self {
        Self {
            now: Panel::new(documents, corpus, Standing::LeftOut),
            learned: (horizon > 1.0).then(|| Panel::new(documents, corpus, Standing::Learned)),
            horizon,
        }
    }

    /// Documents that say what topics predict now.
    pub(super) fn len(&self) -> usize {
        self.now.documents.len()
    }

    /// The log-probabilities of the held-out words of each document.
    pub(super) fn scores(&self, ascent: &Ascent<'_>) -> Scores {
        let learned = self.learned.as_ref().map(|panel| panel.scores(ascent));
        Scores { now: self.now.scores(ascent), learned: learned.unwrap_or_default() }
    }
}

/// What each of the documents says.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    now: Vec<f64>,
    learned: Vec<f64>,
}

impl Panel {
    /// Documents that have no word in one of their halves do not judge.
    fn new(documents: &Documents, corpus: &Corpus, standing: Standing) -> Self {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(SEED);
        let of = |ix: usize| {
            let words = documents.words(ix).iter().filter_map(|word| corpus.number(*word)).collect();
            let whole = documents.counts(ix).to_vec();
            // Of fractions of a word there are no halves.
            let observed: Vec<f64> = whole
                .iter()
                .map(|count| {
                    Binomial::new(count.floor() as u64, 0.5).map_or(0.0, |half| half.sample(rng) as f64)
                })
                .collect();
            let held_out = whole.iter().zip(&observed).map(|(count, seen)| count.floor() - seen).collect();
            Judge { words, counts: [whole, observed, held_out] }
        };
        let documents = (0..documents.len()).map(of);
        let documents: Vec<Judge> = documents
            .filter(|judge| {
                judge.words.len() == judge.counts[0].len()
                    && judge.counts.iter().all(|counts| counts.iter().sum::<f64>() > 0.0)
            })
            .collect();
        let held_out: f64 = documents.iter().flat_map(|judge| &judge.counts[2]).sum();
        let trifle = TRIFLE * held_out / documents.len().max(1) as f64;
        Self { standing, documents, trifle }
    }

    fn scores(&self, ascent: &Ascent<'_>) -> Vec<f64> {
        parallel::map(self.documents.iter(), |judge| self.score(judge, ascent))
    }

    fn score(&self, judge: &Judge, ascent: &Ascent<'_>) -> f64 {
        let (k, scratch) = (ascent.columns.len(), &mut Scratch::default());
        let [whole, observed, held_out] = &judge.counts;
        let mut theta: Vec<f64> = Vec::with_capacity(judge.words.len() * k);
        for word in &judge.words {
            theta.extend(&ascent.theta[*word as usize * k..(*word as usize + 1) * k]);
        }
        let numbers: Vec<u32> = (0..judge.words.len() as u32).collect();
        let about = |theta: &[f64], counts: &[f64], scratch: &mut Scratch| {
            let view = View { theta, weights: &ascent.weights };
            let mut mixed = Mixed::everything(&ascent.weights, counts.iter().sum());
            mixed.settle((&numbers, counts), &view, FIRST_STEPS, scratch);
            mixed.forget(LEAST);
            mixed.settle((&numbers, counts), &view, STEPS, scratch);
            mixed
        };
        if self.standing == Standing::LeftOut {
            let mixed = about(&theta, whole, scratch);
            let mut taught = vec![0.0; numbers.len() * mixed.topics.len()];
            let view = View { theta: &theta, weights: &ascent.weights };
            let visit = |place: usize, word: u32, count: f64, zeta: f64| {
                taught[word as usize * mixed.topics.len() + place] = count * zeta;
            };
            mixed.labels((&numbers, whole), &view, scratch, visit, |_, _| {});
            for (place, topic) in mixed.topics.iter().enumerate() {
                let all = ascent.tokens(*topic as usize);
                let eta = ascent.family.eta();
                let left = (all - mixed.counts[place]).max(eta * ascent.family.n_words() as f64);
                for word in 0..numbers.len() {
                    let cell = &mut theta[word * k + *topic as usize];
                    *cell = (*cell * all - taught[word * mixed.topics.len() + place]).max(eta) / left;
                }
            }
        }
        let mixed = about(&theta, observed, scratch);
        let view = View { theta: &theta, weights: &ascent.weights };
        let mut weights = Vec::new();
        mixed.fill_weights(&view, &mut weights);
        // What is left to topics that the document has no words of, and to what is no topic yet, may be any word.
        let total = ascent.process.alpha0() + observed.iter().sum::<f64>();
        let other = (total - weights.iter().sum::<f64>()).max(0.0) / ascent.family.n_words() as f64;
        let mut sum = 0.0;
        for (word, count) in held_out.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let row = &theta[word * k..(word + 1) * k];
            let known: f64 =
                weights.iter().zip(&mixed.topics).map(|(w, topic)| w * row[*topic as usize]).sum();
            sum += count * ((known + other) / total).ln();
        }
        sum
    }

    fn difference(&self, one: &[f64], other: &[f64]) -> (f64, f64) {
        let n = one.len() as f64;
        let terms = || one.iter().zip(other).map(|(a, b)| (a - b).clamp(-FAR, FAR));
        let mean = terms().sum::<f64>() / n;
        let squares: f64 = terms().map(|d| (d - mean).powi(2)).sum();
        (mean, (squares.sqrt() / n).hypot(self.trifle))
    }
}

impl Bench for Judges {
    type Scores = Scores;

    fn difference(&self, one: &Scores, other: &Scores) -> (f64, f64) {
        let (now, error) = self.now.difference(&one.now, &other.now);
        let Some(panel) = &self.learned else { return (now, error) };
        let (learned, learned_error) = panel.difference(&one.learned, &other.learned);
        let (a, b) = (0.5 + 0.5 / self.horizon, 0.5 - 0.5 / self.horizon);
        (a * now + b * learned, (a * error).hypot(b * learned_error))
    }

    fn difference_now(&self, one: &Scores, other: &Scores) -> (f64, f64) {
        self.now.difference(&one.now, &other.now)
    }

    fn doubt(&self) -> f64 {
        DOUBT
    }

    fn expects_more(&self) -> bool {
        self.learned.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::{Absorb, BatchId, Entry, Fold};
    use crate::family::Topic;
    use crate::identify::Target;
    use crate::posterior::Evidence;
    use crate::process::{Bound, Hierarchical, LabelStatistics};

    /// One topic that has learned from some of the documents.
    fn one_topic(documents: &Documents, learned: std::ops::Range<usize>) -> Fold<Topic, Hierarchical> {
        let mut stats = vec![0.0; documents.n_words() + 1];
        for (word, count) in learned.flat_map(|ix| documents.entries(ix).collect::<Vec<_>>()) {
            stats[0] += count;
            stats[1 + word as usize] += count;
        }
        let mut labels = LabelStatistics::default();
        labels.observe(1.0, 10.0);
        let process = Hierarchical::new(1.0, 1.0, Bound::Paper).unwrap();
        let mut fold = Fold::new(Topic::new(documents.n_words(), 0.3).unwrap(), process);
        let entry = Absorb {
            batch: BatchId(0),
            base: 0,
            pass: 0,
            mass: stats[0],
            familiarity: None,
            existing: vec![],
            new: vec![(Target::New, Evidence { stats, labels })],
        };
        fold.apply(&Entry::Absorb(entry)).unwrap();
        fold
    }

    #[test]
    fn a_document_that_is_left_out_is_scored_by_what_the_others_taught() {
        let document = |ix: u32| (0..5).map(|w| (w, 1.0 + f64::from((3 * ix + w) % 4))).collect();
        let documents = Documents::new(5, (0..10).map(document)).unwrap();
        let corpus = Corpus::new(&documents);
        let (all, others) = (one_topic(&documents, 0..10), one_topic(&documents, 1..10));
        let first = documents.slice(0, 1);
        let score = |fold: &Fold<Topic, Hierarchical>, standing: Standing| {
            Panel::new(&first, &corpus, standing).scores(&Ascent::start(fold.posterior(), &corpus))
        };
        let (left_out, fresh) = (score(&all, Standing::LeftOut), score(&others, Standing::Fresh));
        assert_eq!(left_out.len(), 1, "both halves have words");
        assert!((left_out[0] - fresh[0]).abs() < 1e-9, "{left_out:?} {fresh:?}");
        assert!(score(&all, Standing::Learned)[0] > fresh[0], "what it taught makes it more probable");
    }
}
