//! Expectation maximisation for the topics of a minibatch, with the central posterior as prior.
//!
//! ```text
//! documents   ζ_wk ∝ π_jk θ_kw,   n_jk = Σ_w c_w ζ_wk,   π_jk ∝ α₀ β_k + n_jk
//! topics      Δ_kw = Σ_j c_jw ζ_jwk,   θ_kw ∝ η + S_kw + Δ_kw
//! weights     β_k ∝ t_k + Σ_j P_jk,   with γ left for what is new
//!
//! objective   Σ_jw c_jw log Σ_k π_jk θ_kw + Σ_jk α₀ β_k log π_jk + Σ_kw (η + S_kw) log θ_kw
//! ```
//!
//! This is the log of the joint density at the point `(π, θ)` in the natural parameters of both, where a Dirichlet density
//! has no `− 1` in its exponents. Its mode predicts clearly better than mean-field variational Bayes does, which charges
//! every rare word `e^{ψ(x)} ≈ x − ½`. Each step maximises a lower bound of it over its own block, so that it never falls
//! while `β` and the topics of the documents stay the same.

use super::corpus::Corpus;
use super::mixed::{Mixed, Scratch, View};
use crate::family::Topic;
use crate::infer::Increment;
use crate::math::special::ln_gamma;
use crate::posterior::{Evidence, Posterior};
use crate::process::{Hierarchical, LabelStatistics, Process};

/// Steps with all topics.
const FIRST_STEPS: usize = 3;

/// A topic as the ascent sees it.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Position in the posterior, or `None` for a new topic.
    pub(super) known: Option<usize>,
    /// Tables before the minibatch, `t_k`.
    tables: f64,
    /// Words before the minibatch, with their pseudo-counts: `Vη + S_k0`.
    tokens: f64,
}

/// What documents say of one topic, before it is spread over the vocabulary.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gain {
    /// `Δ_k0`.
    pub(super) tokens: f64,
    /// `Σ_j P_jk`, about.
    pub(super) tables: f64,
}

/// The state of one minibatch's inference. Known topics come first among the columns.
pub(super) struct Ascent<'a> {
    pub(super) posterior: &'a Posterior<Topic, Hierarchical>,
    pub(super) corpus: &'a Corpus,
    pub(super) columns: Vec<Column>,
    pub(super) documents: Vec<Mixed>,
    /// `η + S_kw` of the words that occur, word after word.
    before: Vec<f64>,
    /// `Δ_kw`, likewise.
    gained: Vec<f64>,
    pub(super) gains: Vec<Gain>,
    pub(super) theta: Vec<f64>,
    /// `α₀ β_k`.
    pub(super) weights: Vec<f64>,
    scratch: Scratch,
}

impl<'a> Ascent<'a> {
    /// The known topics, and documents that could have any of them.
    pub(super) fn start(posterior: &'a Posterior<Topic, Hierarchical>, corpus: &'a Corpus) -> Self {
        let living: Vec<usize> = (0..posterior.components().len())
            .filter(|ix| {
                posterior.process().existing_mass(&posterior.components()[*ix].evidence().labels) > 0.0
            })
            .collect();
        let (k, family) = (living.len(), posterior.family());
        let evidence: Vec<&Evidence> =
            living.iter().map(|ix| posterior.components()[*ix].evidence()).collect();
        // Word after word: neighbours of a word in each topic's list are at hand when their turn comes.
        let mut before = Vec::with_capacity(corpus.words.len() * k);
        for word in &corpus.words {
            before.extend(evidence.iter().map(|evidence| family.eta() + evidence.stats[1 + *word as usize]));
        }
        let columns = living.iter().zip(&evidence).map(|(ix, evidence)| Column {
            known: Some(*ix),
            tables: posterior.process().existing_mass(&evidence.labels),
            tokens: evidence.stats[0] + family.eta() * family.n_words() as f64,
        });
        let columns = columns.collect();
        let mut ascent = Self {
            posterior,
            corpus,
            documents: Vec::new(),
            gained: vec![0.0; before.len()],
            theta: Vec::new(),
            gains: vec![Gain::default(); k],
            before,
            columns,
            weights: Vec::new(),
            scratch: Scratch::default(),
        };
        ascent.weigh();
        ascent.maximise();
        ascent.spread();
        ascent
    }

    /// Every document may have words of every topic again.
    pub(super) fn spread(&mut self) {
        self.documents = (0..self.corpus.len())
            .map(|ix| Mixed::everything(&self.weights, self.corpus.tokens(ix)))
            .collect();
    }

    /// Adds new topics; `labels` says for each document which of them, if any, all its words begin with.
    pub(super) fn open(&mut self, n_new: usize, labels: &[Option<usize>]) {
        let (old, wide) = (self.columns.len(), self.columns.len() + n_new);
        let family = self.posterior.family();
        let widen = |values: &[f64], fill: f64| {
            let mut wider = vec![fill; self.corpus.words.len() * wide];
            for (to, from) in wider.chunks_exact_mut(wide.max(1)).zip(values.chunks_exact(old.max(1))) {
                to[..old].copy_from_slice(&from[..old]);
            }
            wider
        };
        self.before = widen(&self.before, family.eta());
        self.gained = widen(&self.gained, 0.0);
        let tokens = family.eta() * family.n_words() as f64;
        self.columns.resize(wide, Column { known: None, tables: 0.0, tokens });
        self.gains.resize(wide, Gain::default());
        for (ix, label) in labels.iter().enumerate() {
            let Some(new) = label else { continue };
            let (words, counts) = self.corpus.document(ix);
            for (word, count) in words.iter().zip(counts) {
                self.gained[*word as usize * wide + old + new] += count;
                self.gains[old + new].tokens += count;
            }
            self.gains[old + new].tables += 1.0;
        }
        self.weigh();
        self.maximise();
        self.spread();
    }

    /// `α₀ β_k` from the tables so far.
    pub(super) fn weigh(&mut self) {
        let process = self.posterior.process();
        let tables = self.columns.iter().zip(&self.gains).map(|(column, gain)| column.tables + gain.tables);
        let total = process.gamma() + tables.clone().sum::<f64>();
        self.weights = tables.map(|t| process.alpha0() * t / total).collect();
    }

    /// `θ` from the words so far.
    fn maximise(&mut self) {
        let k = self.columns.len();
        let inverse: Vec<f64> = self
            .columns
            .iter()
            .zip(&self.gains)
            .map(|(column, gain)| 1.0 / (column.tokens + gain.tokens))
            .collect();
        self.theta.resize(self.before.len(), 0.0);
        let rows = self.before.chunks_exact(k.max(1)).zip(self.gained.chunks_exact(k.max(1)));
        for (theta, (before, gained)) in self.theta.chunks_exact_mut(k.max(1)).zip(rows) {
            for (((theta, before), gained), inverse) in theta.iter_mut().zip(before).zip(gained).zip(&inverse)
            {
                *theta = (before + gained) * inverse;
            }
        }
    }

    /// One sweep over all documents, `steps` steps each, and then the topics anew. Documents forget topics with fewer than
    /// `least` words.
    pub(super) fn sweep(&mut self, steps: usize, least: f64) {
        let k = self.columns.len();
        self.gained.iter_mut().for_each(|x| *x = 0.0);
        let mut gains = vec![Gain::default(); k];
        let topics = View { theta: &self.theta, weights: &self.weights };
        for (ix, mixed) in self.documents.iter_mut().enumerate() {
            let document = self.corpus.document(ix);
            if document.0.is_empty() {
                continue;
            }
            if mixed.topics.len() == k {
                // Most topics have nothing to do with a document, and it soon knows.
                mixed.settle(document, &topics, FIRST_STEPS, &mut self.scratch);
                mixed.forget(least);
            }
            mixed.settle(document, &topics, steps, &mut self.scratch);
            mixed.forget(least);
            let (gained, places) = (&mut self.gained, &mixed.topics);
            mixed.labels(
                document,
                &topics,
                &mut self.scratch,
                |place, word, count, zeta| {
                    let topic = places[place] as usize;
                    gained[word as usize * k + topic] += count * zeta;
                    gains[topic].tokens += count * zeta;
                },
                |_, _| {},
            );
            for (topic, count) in mixed.topics.iter().zip(&mixed.counts) {
                // The chance that none of so many words is of the topic, were they many and alike.
                gains[*topic as usize].tables -= (-count).exp_m1();
            }
        }
        self.gains = gains;
        self.maximise();
    }

    /// The objective at the topics and documents as they are, up to a constant.
    pub(super) fn objective(&self) -> f64 {
        let topics = View { theta: &self.theta, weights: &self.weights };
        let total_weight: f64 = self.weights.iter().sum();
        let mut scratch = Scratch::default();
        let mut objective = self.topics_term();
        for (ix, mixed) in self.documents.iter().enumerate() {
            let ln_norm = (self.corpus.tokens(ix) + total_weight).ln();
            mixed.labels(
                self.corpus.document(ix),
                &topics,
                &mut scratch,
                |_, _, _, _| {},
                |count, total| objective += count * (total.ln() - ln_norm),
            );
            for (topic, count) in mixed.topics.iter().zip(&mixed.counts) {
                let weight = self.weights[*topic as usize];
                objective += weight * ((weight + count).ln() - ln_norm);
            }
        }
        objective
    }

    /// `Σ_kw (η + S_kw) log θ_kw`, up to a constant: words that do not occur only feel the denominator.
    fn topics_term(&self) -> f64 {
        let k = self.columns.len().max(1);
        let mut seen = vec![0.0; k];
        let mut term = 0.0;
        for (before, theta) in self.before.chunks_exact(k).zip(self.theta.chunks_exact(k)) {
            for ((before, theta), seen) in before.iter().zip(theta).zip(&mut seen) {
                term += before * theta.ln();
                *seen += before;
            }
        }
        let rest = self
            .columns
            .iter()
            .zip(&self.gains)
            .zip(&seen)
            .map(|((column, gain), seen)| (column.tokens - seen) * (column.tokens + gain.tokens).ln());
        term - rest.sum::<f64>()
    }

    /// Mean log-probability of a word of each document, under its topics.
    pub(super) fn ln_explained(&self, document: usize) -> f64 {
        let topics = View { theta: &self.theta, weights: &self.weights };
        let total_weight: f64 = self.weights.iter().sum();
        let (mut tokens, mut sum) = (0.0, 0.0);
        self.documents[document].labels(
            self.corpus.document(document),
            &topics,
            &mut Scratch::default(),
            |_, _, _, _| {},
            |count, total| {
                tokens += count;
                sum += count * total.ln();
            },
        );
        sum / tokens - (tokens + total_weight).ln()
    }

    /// Ends new topics with fewer than `tables` tables or `tokens` words; a sweep must follow, in which their words go to
    /// the others. Returns how many ended.
    pub(super) fn empty_surplus(&mut self, tables: f64, tokens: f64) -> usize {
        let mut stays: Vec<bool> = self
            .columns
            .iter()
            .zip(&self.gains)
            .map(|(column, gain)| column.known.is_some() || (gain.tables >= tables && gain.tokens >= tokens))
            .collect();
        if !stays.contains(&true) {
            // Every word must stay somewhere: the largest of the small ones remains.
            let largest =
                (0..stays.len()).max_by(|a, b| self.gains[*a].tokens.total_cmp(&self.gains[*b].tokens));
            largest.into_iter().for_each(|ix| stays[ix] = true);
        }
        let ended = stays.iter().filter(|stays| !**stays).count();
        if ended > 0 {
            self.keep(&stays);
        }
        ended
    }

    fn keep(&mut self, stays: &[bool]) {
        let kept: Vec<usize> = (0..stays.len()).filter(|ix| stays[*ix]).collect();
        let narrow = |values: &[f64]| -> Vec<f64> {
            values.chunks_exact(stays.len()).flat_map(|row| kept.iter().map(|ix| row[*ix])).collect()
        };
        self.before = narrow(&self.before);
        self.gained = narrow(&self.gained);
        self.columns = kept.iter().map(|ix| self.columns[*ix].clone()).collect();
        self.gains = kept.iter().map(|ix| self.gains[*ix]).collect();
        self.weigh();
        self.theta.truncate(self.before.len());
        self.maximise();
        self.spread();
    }

    /// What the minibatch taught, from one more look at its words with the topics as they are now.
    pub(super) fn export(&mut self, least: f64) -> Increment {
        let (k, family) = (self.columns.len(), self.posterior.family());
        let mut evidence: Vec<Option<Evidence>> = vec![None; k];
        let topics = View { theta: &self.theta, weights: &self.weights };
        let mut mass = 0.0;
        for (ix, mixed) in self.documents.iter_mut().enumerate() {
            let document = self.corpus.document(ix);
            if document.0.is_empty() {
                continue;
            }
            mixed.settle(document, &topics, 1, &mut self.scratch);
            mixed.forget(least);
            let mut ln_absent = vec![0.0; mixed.topics.len()];
            let places = &mixed.topics;
            mixed.labels(
                document,
                &topics,
                &mut self.scratch,
                |place, number, count, zeta| {
                    let topic = places[place] as usize;
                    let word = self.corpus.words[number as usize] as usize;
                    let evidence =
                        evidence[topic].get_or_insert_with(|| Evidence::empty(family.n_words() + 1));
                    evidence.stats[0] += count * zeta;
                    evidence.stats[1 + word] += count * zeta;
                    if zeta > 0.0 {
                        evidence.labels.label_entropy -= count * zeta * zeta.ln();
                        ln_absent[place] += count * (-zeta.min(1.0)).ln_1p();
                    }
                },
                |count, _| mass += count,
            );
            for (topic, ln_absent) in mixed.topics.iter().zip(&ln_absent) {
                let table = table(*ln_absent);
                if let Some(evidence) = &mut evidence[*topic as usize] {
                    evidence.labels += table;
                }
            }
        }
        let mut increment = Increment { mass, ..Increment::nothing(self.posterior.version()) };
        for (column, evidence) in self.columns.iter().zip(evidence) {
            let Some(evidence) = evidence.filter(|e| e.stats[0] > 0.0) else { continue };
            match column.known {
                Some(ix) => increment.existing.push((self.posterior.components()[ix].id(), evidence)),
                None => increment.new.push(evidence),
            }
        }
        increment
    }
}

/// The table of a topic in a document that has no word of it with this log-probability.
fn table(ln_absent: f64) -> LabelStatistics {
    LabelStatistics { log_p_empty: ln_absent, expected_count: -ln_absent.exp_m1(), label_entropy: 0.0 }
}

/// The log-probability that a document seats `n` words of a topic at one table, with `present` its chance of having any:
/// `P·(log α₀ + log Γ(n / P))`.
pub(super) fn ln_seating(alpha0: f64, present: f64, n: f64) -> f64 {
    if present <= 0.0 {
        return 0.0;
    }
    present * (alpha0.ln() + ln_gamma((n / present).max(1.0)))
}
