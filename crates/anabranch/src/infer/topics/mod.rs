//! Inference for topics: documents mix topics, and a minibatch of them teaches what the topics' words are.
//!
//! ```text
//! G₀ ~ DP(γ, Dirichlet(η))     G_j ~ DP(α₀, G₀)     word n of document j ~ a topic drawn from G_j
//! ```
//!
//! The sticks of a document are integrated out: given the topics' weights `β`, a word joins topic `k` of its document with
//! the mass `α₀β_k + n_jk` (the Chinese restaurant franchise). The cost of a document is its distinct words times the
//! topics it has, after a first look at all of them; nothing is as long as the vocabulary but what leaves for the centre.

mod ascent;
mod corpus;
mod merge;
mod mixed;
mod seed;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;

use self::ascent::Ascent;
use self::corpus::Corpus;
use super::upkeep::Merges;
use super::{Bootstrap, Increment, Inference, Look, Outlook, PriorChoice};
use crate::documents::Documents;
use crate::family::Topic;
use crate::identify::ComponentId;
use crate::posterior::{Evidence, Posterior};
use crate::process::Hierarchical;

/// Sweeps in which a document may have any topic, before it forgets those it has no words of.
const OPEN_SWEEPS: usize = 1;
/// Steps of each document in such a sweep, and in all others.
const OPEN_STEPS: usize = 10;
const STEPS: usize = 2;
/// Documents of a sample that judge merges.
const JUDGES: usize = 2000;
/// Rounds of merges at a time; a topic takes part in one merge a round.
const MERGE_ROUNDS: usize = 12;
/// Documents that are looked at again in one piece.
const PIECE: usize = 1000;
/// Seeds are this many times denser when more documents are to come.
const MORE_SEEDS: usize = 4;
/// With more tables than this times `K^1.5` there are too few topics, and less novelty opens one: 60 or so for some ten
/// thousand tables, and 350 for a hundred and thirty thousand.
const CROWDED: f64 = 20.0;
const CROWDED_NOVELTY: f64 = 0.8;
/// Words that a document needs to say that it is of no known topic.
const TELLING_WORDS: f64 = 10.0;

/// How the topics of a minibatch are found. The defaults suit articles and posts.
///
/// ```
/// use anabranch::central::{Central, Memory};
/// use anabranch::documents::Documents;
/// use anabranch::engine::{self, Config};
/// use anabranch::family::Topic;
/// use anabranch::infer::TopicSettings;
/// use anabranch::process::{Bound, Hierarchical};
///
/// // Documents of two kinds: words 0, 1, 2 or words 3, 4, 5.
/// let document = |ix: u32| (0..3).map(|w| (3 * (ix % 2) + w, f64::from(1 + (ix + w) % 3))).collect();
/// let documents = Documents::new(6, (0..60).map(document))?;
/// let process = Hierarchical::new(1.0, 1.0, Bound::Paper)?;
/// let central = Central::new(Topic::new(6, 0.05)?, process).with_memory(Memory::<Documents>::default());
/// let config = Config::new(TopicSettings::default());
/// let mut source = [documents].into_iter().enumerate();
/// engine::bootstrap(&central, &mut source, &config, &mut ())?;
/// engine::finish(&central, &config);
/// assert_eq!(central.snapshot().mass(), 360.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSettings {
    /// Topics that one minibatch may open.
    pub max_new: usize,
    /// Sweeps over a minibatch.
    pub sweeps: usize,
    /// Sweeps over the first minibatch.
    pub first_sweeps: usize,
    /// A document forgets a topic that has fewer of its words than this. At 0 it forgets none, and the objective never
    /// falls.
    pub least_words: f64,
    /// Documents of the first minibatch for each topic that it begins with, when it is all there is; a fourth of that when
    /// more will come, because the topics that documents need grow with their number …
    pub documents_per_seed: usize,
    /// … which are no more than this.
    pub most_seeds: usize,
    /// A document may seed a topic when the known ones explain it better than the frequencies of all words do by less than
    /// this share of what is usual.
    pub novelty: f64,
    /// A new topic stays when it has at least this many documents.
    pub least_documents: f64,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            max_new: 10,
            sweeps: 4,
            first_sweeps: 25,
            least_words: 0.1,
            documents_per_seed: 16,
            most_seeds: 250,
            novelty: 0.5,
            least_documents: 2.0,
        }
    }
}

impl TopicSettings {
    fn learn(
        &self,
        posterior: &Posterior<Topic, Hierarchical>,
        batch: &Documents,
        rng: &mut impl Rng,
    ) -> Increment {
        let corpus = Corpus::new(batch);
        let mut ascent = Ascent::start(posterior, &corpus);
        if corpus.words.is_empty() {
            return ascent.export(self.least_words);
        }
        if ascent.columns.is_empty() {
            let all: Vec<usize> = (0..corpus.len()).filter(|ix| corpus.tokens(*ix) > 0.0).collect();
            self.seed(
                &mut ascent,
                &all,
                (all.len() * MORE_SEEDS / self.documents_per_seed.max(1)).clamp(1, self.max_new.max(1)),
                rng,
            );
        } else {
            self.open_sweeps(&mut ascent);
            let novel = self.novel(&ascent);
            let per_seed = (self.documents_per_seed / MORE_SEEDS).max(1);
            let seeds = (novel.len() / per_seed).min(self.max_new);
            if seeds > 0 {
                self.seed(&mut ascent, &novel, seeds, rng);
            }
        }
        self.climb(&mut ascent, self.sweeps);
        self.empty(&mut ascent);
        ascent.export(self.least_words)
    }

    /// Opens topics around documents that lie far apart.
    fn seed(&self, ascent: &mut Ascent<'_>, documents: &[usize], seeds: usize, rng: &mut impl Rng) {
        let (n_new, nearest) = seed::nearest_seed(ascent.corpus, documents, seeds, rng);
        let mut labels = vec![None; ascent.corpus.len()];
        documents.iter().zip(nearest).for_each(|(ix, label)| labels[*ix] = Some(label));
        ascent.open(n_new, &labels);
        self.open_sweeps(ascent);
    }

    /// Lets documents choose among all topics, with the weights as they are.
    fn open_sweeps(&self, ascent: &mut Ascent<'_>) {
        for _ in 0..OPEN_SWEEPS {
            ascent.sweep(OPEN_STEPS, self.least_words);
        }
        ascent.weigh();
    }

    /// Sweeps until there were enough, with the weights of the topics anew after each.
    fn climb(&self, ascent: &mut Ascent<'_>, sweeps: usize) {
        for _ in 0..sweeps {
            ascent.sweep(STEPS, self.least_words);
            ascent.weigh();
        }
    }

    /// The objective after each of some sweeps over a minibatch in which no topic is opened and the weights stay: with
    /// `least_words` at 0 it never falls (ELBO).
    pub fn objectives(&self, posterior: &Posterior<Topic, Hierarchical>, batch: &Documents) -> Vec<f64> {
        let corpus = Corpus::new(batch);
        let mut ascent = Ascent::start(posterior, &corpus);
        let mut sweep = |_| {
            ascent.sweep(STEPS, self.least_words);
            ascent.objective()
        };
        (0..self.sweeps).map(&mut sweep).collect()
    }

    /// Ends new topics that hardly any document has.
    fn empty(&self, ascent: &mut Ascent<'_>) {
        while ascent.empty_surplus(self.least_documents, self.least_documents) > 0 {
            self.open_sweeps(ascent);
        }
    }

    /// Documents whose known topics explain them hardly better than the frequencies of all words do.
    fn novel(&self, ascent: &Ascent<'_>) -> Vec<usize> {
        let posterior = ascent.posterior;
        let (family, corpus) = (posterior.family(), ascent.corpus);
        let total = posterior.mass() + family.eta() * family.n_words() as f64;
        let ln_frequency: Vec<f64> = corpus
            .words
            .iter()
            .map(|word| {
                let all = posterior.components().iter().map(|c| c.evidence().stats[1 + *word as usize]);
                ((all.sum::<f64>() + family.eta()) / total).ln()
            })
            .collect();
        let telling: Vec<(usize, f64)> = (0..corpus.len())
            .filter(|ix| corpus.tokens(*ix) >= TELLING_WORDS)
            .map(|ix| {
                let (words, counts) = corpus.document(ix);
                let plain: f64 = words.iter().zip(counts).map(|(w, c)| c * ln_frequency[*w as usize]).sum();
                (ix, ascent.ln_explained(ix) - plain / corpus.tokens(ix))
            })
            .collect();
        let usual = telling.iter().map(|(_, gain)| gain).sum::<f64>() / telling.len().max(1) as f64;
        let tables: f64 = posterior.components().iter().map(|c| c.expected_count()).sum();
        let crowded = tables > CROWDED * (ascent.columns.len() as f64).powf(1.5);
        let novelty = if crowded { self.novelty.max(CROWDED_NOVELTY) } else { self.novelty };
        telling.into_iter().filter(|(_, gain)| *gain < novelty * usual).map(|(ix, _)| ix).collect()
    }
}

impl Inference<Topic, Hierarchical> for TopicSettings {
    type Batch = Documents;
    type Workspace = ();

    fn infer(
        &self,
        posterior: &Posterior<Topic, Hierarchical>,
        batch: &Documents,
        rng: &mut impl Rng,
        _workspace: &mut (),
    ) -> Increment {
        self.learn(posterior, batch, rng)
    }

    /// Begins with many topics around documents that lie far apart, and lets the documents choose.
    fn bootstrap(
        &self,
        prior: &Posterior<Topic, Hierarchical>,
        batch: &Documents,
        _choice: PriorChoice,
        outlook: Outlook,
        rng: &mut impl Rng,
        _workspace: &mut (),
    ) -> Bootstrap<Topic> {
        let corpus = Corpus::new(batch);
        let mut ascent = Ascent::start(prior, &corpus);
        if !corpus.words.is_empty() {
            let all: Vec<usize> = (0..corpus.len()).filter(|ix| corpus.tokens(*ix) > 0.0).collect();
            let per_seed = match outlook {
                Outlook::Everything => self.documents_per_seed,
                Outlook::MoreToCome => self.documents_per_seed / MORE_SEEDS,
            };
            let seeds = (all.len() / per_seed.max(1)).clamp(2, self.most_seeds.max(2));
            self.seed(&mut ascent, &all, seeds, rng);
            self.climb(&mut ascent, self.first_sweeps);
            self.empty(&mut ascent);
        }
        Bootstrap {
            family: *prior.family(),
            objective: ascent.objective(),
            increment: ascent.export(self.least_words),
            rounds: self.first_sweeps,
            between: None,
        }
    }

    fn refit(&self, _posterior: &Posterior<Topic, Hierarchical>) -> Option<(Topic, Hierarchical)> {
        None
    }

    fn merges(
        &self,
        posterior: &Posterior<Topic, Hierarchical>,
        sample: &Documents,
        _later: Option<&Documents>,
        _choice: PriorChoice,
        horizon: f64,
    ) -> Merges<Topic> {
        let judges = sample.slice(0, JUDGES);
        if judges.tokens() <= 0.0 {
            return Merges { family: None, pairs: Vec::new(), between: None };
        }
        let corpus = Corpus::new(&judges);
        let mut merged = Vec::new();
        let mut now = posterior.clone();
        for _ in 0..MERGE_ROUNDS {
            let mut ascent = Ascent::start(&now, &corpus);
            self.open_sweeps(&mut ascent);
            let pairs = merge::merges(&ascent, posterior.mass() / judges.tokens(), horizon);
            if pairs.is_empty() {
                break;
            }
            for (ends, into) in &pairs {
                if let (Some(from), Some(target)) = (now.position(*ends), now.position(*into)) {
                    now.components[target] =
                        Arc::new(now.components[target].joined(&now.components[from], 1.0));
                    now.components.remove(from);
                }
            }
            merged.extend(pairs);
        }
        Merges { family: None, pairs: merged, between: None }
    }

    fn look_again(
        &self,
        posterior: &Posterior<Topic, Hierarchical>,
        batch: &Documents,
        _look: Look,
        _workspace: &mut (),
    ) -> Vec<(ComponentId, Evidence)> {
        let mut found: BTreeMap<ComponentId, Evidence> = BTreeMap::new();
        for first in (0..batch.len()).step_by(PIECE) {
            let corpus = Corpus::new(&batch.slice(first, PIECE));
            let mut ascent = Ascent::start(posterior, &corpus);
            if ascent.columns.is_empty() || corpus.words.is_empty() {
                continue;
            }
            self.open_sweeps(&mut ascent);
            for (id, evidence) in ascent.export(self.least_words).existing {
                match found.get_mut(&id) {
                    Some(known) => known.absorb(&evidence),
                    None => {
                        found.insert(id, evidence);
                    }
                }
            }
        }
        found.into_iter().collect()
    }
}
