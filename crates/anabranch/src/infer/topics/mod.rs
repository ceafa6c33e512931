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
mod judges;
mod mixed;
mod pairs;
mod prior;
mod seed;
mod split;
mod walk;

use std::collections::{BTreeMap, VecDeque};

use rand::Rng;

use self::ascent::Ascent;
use self::corpus::Corpus;
use self::judges::Judges;
use self::walk::{Mode, Walk};
use super::path::{self, Bench, Objective};
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
/// One document of the first minibatch in so many judges what was learned from the others …
const SPARED: usize = 5;
/// … unless they are fewer than this: then the objective judges.
const LEAST_JUDGES: usize = 30;
/// Topics that a walk begins with besides, for documents of few …
const FEW_SEEDS: [usize; 2] = [8, 30];
/// … where these are no more than this: each walk costs as much as the documents are long.
const MOST_TRIED: usize = 5000;
/// All topics are split so often at most, where that finds more of them.
const SPLITS: usize = 5;
/// Documents of a sample that judge merges, and those that came after the first minibatch if they are so many.
const JUDGES: usize = 600;
const LATER_JUDGES: usize = 400;
/// How many times the data of the first minibatch its topics are judged for when more are to come.
const HORIZON: f64 = 8.0;
/// Documents for which one topic in so many stays ask for all of them.
const MOST: f64 = 2.0;
/// Sweeps with all documents once the number of topics is known.
const LAST_SWEEPS: usize = 8;
/// Documents that are looked at again in one piece.
const PIECE: usize = 1000;
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
    /// Documents for each topic that the first minibatch begins with …
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
            documents_per_seed: 4,
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
                (all.len() / self.documents_per_seed.max(1)).clamp(1, self.max_new.max(1)),
                rng,
            );
        } else {
            self.open_sweeps(&mut ascent);
            let novel = self.novel(&ascent);
            let seeds = (novel.len() / self.documents_per_seed.max(1)).min(self.max_new);
            if seeds > 0 {
                let without = ascent.clone();
                self.seed(&mut ascent, &novel, seeds, rng);
                self.climb(&mut ascent, self.sweeps);
                self.empty(&mut ascent);
                let judges = Judges::of_learned(&select(batch, &novel), &corpus, 1.0);
                let (gain, error) = judges.difference(&judges.scores(&ascent), &judges.scores(&without));
                if judges.len() == 0 || gain > error {
                    return ascent.export(self.least_words);
                }
                // The documents that asked for new topics are no better off with them.
                ascent = without;
            }
        }
        self.climb(&mut ascent, self.sweeps);
        self.empty(&mut ascent);
        ascent.export(self.least_words)
    }

    /// Topics that so many documents begin with: far too many.
    fn many_seeds(&self, documents: usize) -> usize {
        (documents / self.documents_per_seed.max(1)).clamp(2, self.most_seeds.max(2))
    }

    /// Topics of some documents from so many seeds, as many as have documents of their own.
    fn grow(&self, ascent: &mut Ascent<'_>, documents: &[usize], seeds: usize, rng: &mut impl Rng) {
        self.seed(ascent, documents, seeds, rng);
        self.climb(ascent, self.first_sweeps);
        self.empty(ascent);
    }

    /// Up to twice as many topics of the same documents, each from the words of a topic in documents that are alike in these; nothing
    /// where no topic has two such documents.
    fn halved<'a>(
        &self,
        prior: &'a Posterior<Topic, Hierarchical>,
        whole: &Ascent<'a>,
        rng: &mut impl Rng,
    ) -> Option<Ascent<'a>> {
        let halves = split::halves(whole, rng);
        if halves.n_halves <= whole.columns.len() {
            return None;
        }
        let mut ascent = Ascent::start(prior, whole.corpus);
        (ascent.family, ascent.process) = (whole.family, whole.process);
        ascent.open(halves.n_halves, &halves.pieces, &halves.labels);
        self.open_sweeps(&mut ascent);
        self.climb(&mut ascent, self.first_sweeps);
        self.empty(&mut ascent);
        Some(ascent)
    }

    /// Opens topics around documents that lie far apart.
    fn seed(&self, ascent: &mut Ascent<'_>, documents: &[usize], seeds: usize, rng: &mut impl Rng) {
        let (n_new, nearest) = seed::nearest_seed(ascent.corpus, documents, seeds, rng);
        let mut labels = vec![None; ascent.corpus.len()];
        documents.iter().zip(nearest).for_each(|(ix, label)| labels[*ix] = Some(label));
        ascent.open(n_new, ascent.corpus, &labels);
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
        let (family, corpus) = (&ascent.family, ascent.corpus);
        let total = posterior.mass() + family.eta() * family.n_words() as f64;
        let ln_frequency: Vec<f64> = corpus
            .words
            .iter()
            .map(|word| {
                let all = posterior.components().iter().map(|c| Topic::count(&c.evidence().stats, *word));
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
        // Words that came after the posterior are explained by no topic: what the others gain is as much less.
        let late = corpus.words.partition_point(|word| (*word as usize) < posterior.family().n_words());
        let share_late = |ix: usize| {
            let (words, counts) = corpus.document(ix);
            let first = words.partition_point(|word| (*word as usize) < late);
            counts[first..].iter().sum::<f64>() / corpus.tokens(ix)
        };
        let is_novel = |ix: usize, gain: f64| gain < novelty * usual || share_late(ix) > 1.0 - novelty;
        telling.into_iter().filter(|(ix, gain)| is_novel(*ix, *gain)).map(|(ix, _)| ix).collect()
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

    /// Begins with many topics around documents that lie far apart, and walks down from there to as many as there are. Documents that share
    /// their words among many copies of a topic ask for a large `α₀`, which keeps the copies apart; so few topics are a beginning, too.
    /// Documents are mixtures, and a topic may have had none of its own to begin with: so all topics are cut in two, and walk down again.
    /// Where more documents are to come and these ask for most of the topics that they began with, all of them stay: what so many
    /// topics are worth will be seen (`merges`).
    fn bootstrap(
        &self,
        prior: &Posterior<Topic, Hierarchical>,
        batch: &Documents,
        choice: PriorChoice,
        outlook: Outlook,
        rng: &mut impl Rng,
        _workspace: &mut (),
    ) -> (Bootstrap<Topic>, Option<Hierarchical>) {
        debug_assert!(prior.components().is_empty(), "a bootstrap starts from nothing");
        let corpus = Corpus::new(batch);
        let all: Vec<usize> = (0..corpus.len()).filter(|ix| corpus.tokens(*ix) > 0.0).collect();
        let (spared, kept) = match all.len() / SPARED < LEAST_JUDGES {
            true => (Vec::new(), all.clone()),
            false => {
                let (spared, kept): (Vec<_>, Vec<_>) =
                    all.iter().enumerate().partition(|(place, _)| place % SPARED == SPARED - 1);
                let numbers = |places: Vec<(usize, &usize)>| places.into_iter().map(|(_, ix)| *ix).collect();
                (numbers(spared), numbers(kept))
            }
        };
        let (spared, kept) = (select(batch, &spared), select(batch, &kept));
        let learned = Corpus::over(&kept, corpus.words.clone());
        let judges =
            |horizon: f64| (!spared.is_empty()).then(|| Judges::of_spared(&spared, &kept, &corpus, horizon));
        let (later, now) = (judges(HORIZON), judges(1.0));
        let mut ascent = Ascent::start(prior, &corpus);
        let mut between = None;
        if !all.is_empty() {
            let begin = |seeds: usize, rng: &mut _| {
                let mut first = Ascent::start(prior, &learned);
                self.grow(&mut first, &(0..learned.len()).collect::<Vec<_>>(), seeds, rng);
                let mut walk = Walk {
                    ascent: first,
                    judges: now.as_ref(),
                    mode: Mode::Learning,
                    choice,
                    scale: 1.0,
                    least_words: self.least_words,
                    pairs: Vec::new(),
                };
                walk.settle(STEPS);
                walk
            };
            let many = self.many_seeds(learned.len());
            let mut walk = begin(many, rng);
            let begun = walk.ascent.columns.len();
            let mut rich = false;
            if outlook == Outlook::MoreToCome && later.is_some() {
                walk.judges = later.as_ref();
                path::walk(&mut walk, later.as_ref(), Objective::Exact);
                walk.judges = now.as_ref();
                rich = MOST * walk.ascent.columns.len() as f64 >= begun as f64;
            }
            if !rich {
                between = Some(path::walk(&mut walk, now.as_ref(), Objective::Exact));
            }
            let mut others = VecDeque::from(FEW_SEEDS);
            while let Some(seeds) =
                others.pop_front().filter(|seeds| *seeds < many && learned.len() <= MOST_TRIED)
            {
                let mut other = begin(seeds, rng);
                let among = path::walk(&mut other, now.as_ref(), Objective::Exact);
                // Documents that ask for most of their many seeds, with more to come, ask for more of them later.
                let better =
                    if rich { other.predicts_better_than(&walk) } else { other.is_better_than(&walk) };
                if better {
                    // Where most seeds have become topics, more seeds would have become more.
                    if others.is_empty() && 2 * other.ascent.columns.len() >= seeds {
                        others.push_back(2 * seeds);
                    }
                    (walk, rich, between) = (other, false, Some(among));
                }
            }
            // Half of the words of each topic begin a topic of their own, and the way down says which are two.
            for _ in 0..SPLITS {
                let before = walk.ascent.columns.len();
                if rich || 2 * before > self.most_seeds || learned.len() > MOST_TRIED {
                    break;
                }
                let Some(halved) = self.halved(prior, &walk.ascent, rng) else { break };
                let mut other = Walk { ascent: halved, pairs: Vec::new(), ..walk };
                other.settle(STEPS);
                let among = path::walk(&mut other, now.as_ref(), Objective::Exact);
                if !other.predicts_better_than(&walk) {
                    break;
                }
                (walk, between) = (other, Some(among));
                if walk.ascent.columns.len() <= before {
                    break;
                }
            }
            if rich {
                self.grow(&mut ascent, &all, self.many_seeds(all.len()), rng);
            } else {
                ascent = walk.ascent.with_documents(&corpus);
                self.open_sweeps(&mut ascent);
                self.climb(&mut ascent, LAST_SWEEPS);
                self.empty(&mut ascent);
            }
        }
        let learned = Bootstrap {
            family: ascent.family,
            objective: ascent.objective(),
            increment: ascent.export(self.least_words),
            rounds: self.first_sweeps,
            between,
        };
        (learned, Some(ascent.process))
    }

    /// The prior of the first minibatch stays: documents that were labelled under it are gone.
    fn refit(&self, _posterior: &Posterior<Topic, Hierarchical>) -> Option<(Topic, Hierarchical)> {
        None
    }

    /// The merges down to as many topics as there are, for documents that they have learned from long ago.
    fn merges(
        &self,
        posterior: &Posterior<Topic, Hierarchical>,
        sample: &Documents,
        later: Option<&[bool]>,
        choice: PriorChoice,
        horizon: f64,
    ) -> Merges<Topic> {
        let came_later = |ix: &usize| later.is_some_and(|later| later.get(*ix) == Some(&true));
        let mut chosen: Vec<usize> = (0..sample.len()).filter(came_later).collect();
        if chosen.len() < LATER_JUDGES {
            chosen = (0..sample.len()).collect();
        }
        chosen.truncate(JUDGES);
        let documents = select(sample, &chosen);
        let corpus = Corpus::new(&documents);
        let ascent = Ascent::start(posterior, &corpus);
        if corpus.words.is_empty() || ascent.columns.is_empty() {
            return Merges { family: None, pairs: Vec::new(), between: None };
        }
        let judges = Judges::of_learned(&documents, &corpus, horizon);
        let judges = (judges.len() >= LEAST_JUDGES).then_some(judges);
        let mut walk = Walk {
            ascent,
            judges: judges.as_ref(),
            mode: Mode::Looking,
            choice,
            scale: posterior.mass() / documents.tokens(),
            least_words: self.least_words,
            pairs: Vec::new(),
        };
        walk.ascent.look(OPEN_STEPS, self.least_words);
        walk.settle(STEPS);
        let between = path::walk(&mut walk, judges.as_ref(), Objective::Estimate);
        Merges { family: None, pairs: walk.pairs, between: Some(between) }
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

/// Some of the documents.
fn select(documents: &Documents, chosen: &[usize]) -> Documents {
    let mut some = Documents::none(documents.n_words());
    for ix in chosen {
        let entries: Vec<(u32, f64)> = documents.entries(*ix).collect();
        some.push(&entries).expect("documents of documents");
    }
    some
}
