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
use super::mixed::{Mixed, Scratch, View, present};
use super::prior;
use crate::family::Topic;
use crate::identify::ComponentId;
use crate::infer::Increment;
use crate::posterior::{Evidence, Posterior};
use crate::process::{Hierarchical, LabelStatistics, Process};

/// `α₀` has settled when a step moves it by less than this share: with fewer topics than before it may be a hundredth of what it was.
const SETTLED: f64 = 1e-2;

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

/// Topics and documents at some time: what was learned of the words, in single precision, and the rest as it was.
pub(super) struct Taught {
    words: Vec<f32>,
    /// Whether the words are those of the documents, or of earlier ones.
    gained: bool,
    columns: Vec<Column>,
    gains: Vec<Gain>,
    documents: Vec<Mixed>,
    family: Topic,
    process: Hierarchical,
}

/// The state of one minibatch's inference. Known topics come first among the columns.
#[derive(Clone)]
pub(super) struct Ascent<'a> {
    pub(super) posterior: &'a Posterior<Topic, Hierarchical>,
    /// Of the posterior, or as estimated since.
    pub(super) family: Topic,
    pub(super) process: Hierarchical,
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
        // The documents may have words that came after the posterior.
        let (k, family) = (living.len(), posterior.family().over(corpus.n_words));
        let evidence: Vec<&Evidence> =
            living.iter().map(|ix| posterior.components()[*ix].evidence()).collect();
        // Word after word: neighbours of a word in each topic's list are at hand when their turn comes.
        let mut before = Vec::with_capacity(corpus.words.len() * k);
        for word in &corpus.words {
            before.extend(evidence.iter().map(|e| family.eta() + Topic::count(&e.stats, *word)));
        }
        let columns = living.iter().zip(&evidence).map(|(ix, evidence)| Column {
            known: Some(*ix),
            tables: posterior.process().existing_mass(&evidence.labels),
            tokens: evidence.stats[0] + family.eta() * family.n_words() as f64,
        });
        let columns = columns.collect();
        let mut ascent = Self {
            posterior,
            family,
            process: *posterior.process(),
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

    /// Every document may have words of every topic again, and begins with what it has.
    pub(super) fn reopen(&mut self) {
        let k = self.columns.len();
        self.documents.iter_mut().for_each(|mixed| mixed.reopen(k));
    }

    /// Adds new topics; `labels` says for each of some documents over the same words which of them, if any, all its words begin with.
    pub(super) fn open(&mut self, n_new: usize, documents: &Corpus, labels: &[Option<usize>]) {
        let (old, wide) = (self.columns.len(), self.columns.len() + n_new);
        let family = self.family;
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
            let (words, counts) = documents.document(ix);
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

    /// Joins columns: each ends in the one it is told, which ends nowhere else. A sweep or a look must follow.
    pub(super) fn join(&mut self, into: &[usize]) {
        let (k, eta) = (into.len(), self.family.eta());
        let ends = || into.iter().enumerate().filter(|(ix, to)| ix != *to);
        for (before, gained) in self.before.chunks_exact_mut(k).zip(self.gained.chunks_exact_mut(k)) {
            for (ix, to) in ends() {
                before[*to] += before[ix] - eta;
                gained[*to] += gained[ix];
            }
        }
        for (ix, to) in ends() {
            let (column, gain) = (self.columns[ix].clone(), self.gains[ix]);
            self.columns[*to].tables += column.tables;
            self.columns[*to].tokens += column.tokens - eta * self.family.n_words() as f64;
            self.gains[*to].tokens += gain.tokens;
            self.gains[*to].tables += gain.tables;
        }
        let mut next = 0..;
        let stays: Vec<bool> = into.iter().enumerate().map(|(ix, to)| ix == *to).collect();
        let names: Vec<u32> =
            stays.iter().map(|stays| if *stays { next.next().unwrap_or(0) } else { 0 }).collect();
        let mut documents = std::mem::take(&mut self.documents);
        self.keep(&stays);
        for mixed in &mut documents {
            mixed.join(|topic| names[into[topic as usize]]);
        }
        self.documents = documents;
    }

    /// All that it takes to come back to the topics and documents as they are.
    pub(super) fn taught(&self) -> Taught {
        let eta = self.family.eta();
        Taught {
            words: self.before.iter().zip(&self.gained).map(|(b, g)| (b - eta + g) as f32).collect(),
            gained: self.gains.iter().any(|gain| gain.tokens > 0.0),
            columns: self.columns.clone(),
            gains: self.gains.clone(),
            documents: self.documents.clone(),
            family: self.family,
            process: self.process,
        }
    }

    /// Comes back.
    pub(super) fn come_back(&mut self, taught: &Taught) {
        let eta = taught.family.eta();
        let words = || taught.words.iter().map(|words| f64::from(*words).max(0.0));
        (self.before, self.gained) = match taught.gained {
            true => (vec![eta; taught.words.len()], words().collect()),
            false => (words().map(|words| eta + words).collect(), vec![0.0; taught.words.len()]),
        };
        (self.family, self.process) = (taught.family, taught.process);
        self.columns.clone_from(&taught.columns);
        self.gains.clone_from(&taught.gains);
        self.documents.clone_from(&taught.documents);
        self.weigh();
        self.maximise();
    }

    /// The same topics, all of them new, for other documents over the same words.
    pub(super) fn with_documents<'b>(&self, corpus: &'b Corpus) -> Ascent<'b>
    where
        'a: 'b,
    {
        let mut there = Ascent { corpus, documents: Vec::new(), ..self.clone() };
        there.spread();
        there
    }

    /// The id of a known topic.
    pub(super) fn id(&self, column: usize) -> Option<ComponentId> {
        self.columns[column].known.map(|ix| self.posterior.components()[ix].id())
    }

    /// `Vη + S_k0`.
    pub(super) fn tokens(&self, column: usize) -> f64 {
        self.columns[column].tokens + self.gains[column].tokens
    }

    /// `S_kw` of the words that occur, topic after topic.
    pub(super) fn by_topic(&self) -> Vec<f64> {
        let (k, n, eta) = (self.columns.len(), self.corpus.words.len(), self.family.eta());
        let mut words = vec![0.0; k * n];
        let rows = self.before.chunks_exact(k.max(1)).zip(self.gained.chunks_exact(k.max(1)));
        for (word, (before, gained)) in rows.enumerate() {
            for (topic, (before, gained)) in before.iter().zip(gained).enumerate() {
                words[topic * n + word] = before - eta + gained;
            }
        }
        words
    }

    /// Estimates the pseudo-count of a word anew. All topics are new.
    pub(super) fn learn_eta(&mut self, steps: usize) {
        let before = self.family;
        let totals = self.gains.iter().map(|gain| gain.tokens);
        let eta = prior::eta(before.n_words(), before.eta(), self.gained.iter().copied(), totals, steps);
        self.family = before.with_eta(eta);
        let (more, words) = (self.family.eta() - before.eta(), before.n_words() as f64);
        self.before.iter_mut().for_each(|before| *before += more);
        self.columns.iter_mut().for_each(|column| column.tokens += more * words);
        self.maximise();
    }

    /// Estimates the concentrations that are to be learned anew.
    pub(super) fn learn_concentrations(&mut self) {
        let tables = self.columns.iter().zip(&self.gains).map(|(column, gain)| column.tables + gain.tables);
        let tables: Vec<LabelStatistics> =
            tables.map(|t| LabelStatistics { expected_count: t, ..LabelStatistics::default() }).collect();
        if let Some(process) = self.process.learned(tables.iter(), 0.0) {
            self.process = process;
        }
        let before = self.process.alpha0();
        if self.process.concentrations()[1].is_learned() {
            let beta = |topic: &u32| self.weights[*topic as usize] / before;
            let counts = self
                .documents
                .iter()
                .flat_map(|mixed| mixed.topics.iter().zip(&mixed.counts).map(|(topic, n)| (beta(topic), *n)));
            let lengths = (0..self.corpus.len()).map(|ix| self.corpus.tokens(ix));
            let alpha0 = prior::alpha0(before, counts, lengths.filter(|n| *n > 0.0), SETTLED);
            self.process = self.process.with_alpha0(alpha0);
        }
        self.weigh();
    }

    /// `α₀ β_k` from the tables so far.
    pub(super) fn weigh(&mut self) {
        let process = self.process;
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
            settle(mixed, document, &topics, steps, least, &mut self.scratch);
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
                gains[*topic as usize].tables += present(*count);
            }
        }
        self.gains = gains;
        self.maximise();
    }

    /// The same for documents alone: the topics stay as they are.
    pub(super) fn look(&mut self, steps: usize, least: f64) {
        let topics = View { theta: &self.theta, weights: &self.weights };
        for (ix, mixed) in self.documents.iter_mut().enumerate() {
            let document = self.corpus.document(ix);
            if !document.0.is_empty() {
                settle(mixed, document, &topics, steps, least, &mut self.scratch);
            }
        }
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
        let (k, n_words) = (self.columns.len(), self.family.n_words());
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
                    let evidence = evidence[topic].get_or_insert_with(|| Evidence::empty(n_words + 1));
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

/// Settles a document on the topics as they are. Most of them have nothing to do with it, and it soon knows: those with fewer
/// than `least` words are forgotten.
fn settle(
    mixed: &mut Mixed,
    document: (&[u32], &[f64]),
    topics: &View<'_>,
    steps: usize,
    least: f64,
    scratch: &mut Scratch,
) {
    if mixed.topics.len() == topics.weights.len() {
        mixed.settle(document, topics, FIRST_STEPS, scratch);
        mixed.forget(least);
    }
    mixed.settle(document, topics, steps, scratch);
    mixed.forget(least);
}
