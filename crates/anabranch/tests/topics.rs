//! The hierarchical model: its bound against enumeration, its objective, identification against brute force, prediction,
//! and the invariants on whole runs with 64 logical workers.

use std::collections::BTreeSet;

use anabranch::batch::Minibatch;
use anabranch::central::{BatchId, Central, Entry, Memory};
use anabranch::documents::Documents;
use anabranch::engine::{self, BatchSource, Config, Event, Flow, Schedule};
use anabranch::family::{Conjugate, Topic};
use anabranch::identify::{ComponentId, Identification, Target, correspond};
use anabranch::infer::{Inference, PriorChoice, TopicSettings};
use anabranch::posterior::{Evidence, Posterior, TopicPredictor, halves};
use anabranch::process::{Bound, Hierarchical, LabelStatistics, Parameter, Population, Process};
use anabranch_testkit::assignment::best_partial;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const WORKERS: usize = 64;

type Centre = Central<Topic, Hierarchical, Documents>;

fn process() -> Hierarchical {
    Hierarchical::new(1.0, 1.0, Bound::Paper).unwrap()
}

fn centre(n_words: usize) -> Centre {
    Central::new(Topic::new(n_words, 0.05).unwrap(), process()).with_memory(Memory::default())
}

/// Documents of one or two of `k` topics with ten words each of their own, and a few words of all.
fn corpus(k: u32, n: usize, seed: u64) -> Documents {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let n_words = 10 * k + 5;
    let document = |_| {
        let topics = [rng.random_range(0..k), rng.random_range(0..k)];
        let mut counts = vec![0.0; n_words as usize];
        for n in 0..30 {
            let word = match n % 6 {
                0 => 10 * k + rng.random_range(0..5),
                _ => 10 * topics[usize::from(n % 3 == 0)] + rng.random_range(0..10),
            };
            counts[word as usize] += 1.0;
        }
        (0..n_words).zip(counts).filter(|(_, count)| *count > 0.0).collect()
    };
    Documents::new(n_words as usize, (0..n).map(document).collect::<Vec<_>>()).unwrap()
}

fn config(schedule: Schedule, workers: usize) -> Config<TopicSettings> {
    let inference = TopicSettings { max_new: 6, ..TopicSettings::default() };
    Config { threads: 3, workers, schedule, seed: 3, bootstrap_rows: 100, ..Config::new(inference) }
}

/// Minibatches with their names, some of them twice.
struct Named(Vec<(BatchId, Documents)>);

impl BatchSource for Named {
    type Batch = Documents;
    type Error = std::convert::Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, Documents)>, Self::Error> {
        Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
    }
}

fn cut(documents: &Documents, n: usize) -> Vec<(BatchId, Documents)> {
    let starts = (0..documents.len()).step_by(n);
    starts.enumerate().map(|(ix, first)| (BatchId(ix as u64), documents.slice(first, n))).collect()
}

fn fitted(documents: &Documents, schedule: Schedule, workers: usize) -> Centre {
    let central = centre(documents.n_words());
    let config = config(schedule, workers);
    let mut source = Named(cut(documents, 20));
    let rest = source.0.split_off(5);
    let first = documents.slice(0, 100);
    engine::bootstrap(&central, &mut Named(vec![(BatchId(0), first)]), &config, &mut ()).unwrap();
    let mut source = Named(rest);
    engine::run(&central, &mut source, &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    central
}

/// The tables of documents whose words choose topics independently: every combination of labels is tried.
#[test]
fn the_bound_lies_below_the_exact_expectation_for_every_gamma() {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(5);
    const K: usize = 3;
    for case in 0..40 {
        let (documents, words) = (2 + case % 2, 3);
        let mut zeta = || -> Vec<f64> {
            let raw: Vec<f64> = (0..K).map(|_| rng.random::<f64>().powi(3) + 1e-6).collect();
            let total: f64 = raw.iter().sum();
            raw.iter().map(|x| x / total).collect()
        };
        let labels: Vec<Vec<f64>> = (0..documents * words).map(|_| zeta()).collect();
        for gamma in [0.2, 1.0, 3.0] {
            for bound in [Bound::Paper, Bound::Conditional] {
                let process = Hierarchical::new(gamma, 1.0, bound).unwrap();
                let mut exact = 0.0;
                let n = labels.len();
                for code in 0..K.pow(n as u32) {
                    let label = |ix: usize| code / K.pow(ix as u32) % K;
                    let chance: f64 = (0..n).map(|ix| labels[ix][label(ix)]).product();
                    let tables = |k: usize| {
                        (0..documents).filter(|j| (0..words).any(|w| label(j * words + w) == k)).count()
                    };
                    // Γ(n) of at most three tables, by hand.
                    let ln_factorial = |n: usize| [0.0, 0.0, 0.0, 2f64.ln()][n];
                    let score = |n: usize| if n == 0 { 0.0 } else { gamma.ln() + ln_factorial(n) };
                    exact += chance * (0..K).map(|k| score(tables(k))).sum::<f64>();
                }
                let score = (0..K).map(|k| {
                    let mut stats = LabelStatistics::default();
                    for j in 0..documents {
                        let absent: f64 = (0..words).map(|w| 1.0 - labels[j * words + w][k]).product();
                        stats.observe(1.0 - absent, 1.0);
                    }
                    process.score(&stats, Population::of([&stats], documents as f64))
                });
                let bound_value = score.sum::<f64>();
                assert!(bound_value <= exact + 1e-9, "gamma {gamma} {bound:?}: {bound_value} > {exact}");
                assert!(bound_value > exact - 3.0, "gamma {gamma} {bound:?}: {bound_value} ≪ {exact}");
            }
        }
    }
}

/// Scores over weighted tables, computed in another language (`tests/data/hdp_stats.json`).
#[test]
fn scores_equal_the_test_vectors() {
    let vectors: Vec<serde_json::Value> = serde_json::from_str(include_str!("data/hdp_stats.json")).unwrap();
    assert_eq!(vectors.len(), 6);
    for v in vectors {
        let number = |name: &str| v[name].as_f64().unwrap();
        // JSON has no infinity: it is written as the string "-inf".
        let list = |name: &str| -> Vec<f64> {
            let entries = v[name].as_array().unwrap().iter();
            entries.map(|x| x.as_f64().unwrap_or(f64::NEG_INFINITY)).collect()
        };
        let score = |bound: Bound, s: &str| -> f64 {
            let process = Hierarchical::new(number("gamma"), 1.0, bound).unwrap();
            let pairs = list(s).into_iter().zip(list("t"));
            let stats = pairs.map(|(log_p_empty, expected_count)| LabelStatistics {
                log_p_empty,
                expected_count,
                label_entropy: 0.0,
            });
            stats.map(|stats| process.score(&stats, Population::of([&stats], 1.0))).sum()
        };
        assert!((score(Bound::Paper, "s") - number("score_paper")).abs() < 1e-9, "{v}");
        let conditional = score(Bound::Conditional, "s_exact");
        assert!((conditional - number("score_conditional")).abs() < 1e-9, "{v}");
        assert!(conditional <= number("exact") + 1e-9, "{v}");
    }
}

/// One word, `c` times: the responsibilities can be read off the sums, and the table's probability follows from them.
#[test]
fn a_table_stands_with_the_probability_that_a_word_sits_at_it() {
    let documents = corpus(4, 200, 9);
    let central = fitted(&documents, Schedule::Deterministic, 1);
    let posterior = central.snapshot();
    let settings = TopicSettings { least_words: 0.0, max_new: 0, ..TopicSettings::default() };
    let one = Documents::new(documents.n_words(), [vec![(41, 3.0)]]).unwrap();
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
    let increment = settings.infer(&posterior, &one, rng, &mut ());
    let mut words = 0.0;
    for (_, evidence) in &increment.existing {
        let zeta = evidence.stats[42] / 3.0;
        assert!((evidence.labels.expected_count - (1.0 - (1.0 - zeta).powi(3))).abs() < 1e-9);
        assert!((evidence.labels.log_p_empty - 3.0 * (1.0 - zeta).ln()).abs() < 1e-6);
        words += evidence.stats[42];
    }
    assert!((words - 3.0).abs() < 1e-9 && increment.mass == 3.0 && increment.new.is_empty());
}

#[test]
fn the_objective_never_falls() {
    let documents = corpus(5, 300, 2);
    let central = fitted(&documents, Schedule::Deterministic, 2);
    let settings = TopicSettings { least_words: 0.0, sweeps: 40, ..TopicSettings::default() };
    let fresh = corpus(5, 60, 77);
    let objectives = settings.objectives(&central.snapshot(), &fresh);
    assert_eq!(objectives.len(), 40);
    for pair in objectives.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs(), "{pair:?}");
    }
    assert!(objectives[39] > objectives[0], "it stood still");
}

#[test]
fn the_probabilities_of_the_next_word_add_up_to_one() {
    let documents = corpus(4, 200, 6);
    let central = fitted(&documents, Schedule::Deterministic, 1);
    let predictor = TopicPredictor::new(&central.snapshot());
    for ix in 0..20 {
        let proportions = predictor.proportions(&documents.entries(ix).collect::<Vec<_>>());
        let shares = proportions.topics.iter().sum::<f64>() + proportions.new;
        assert!((shares - 1.0).abs() < 1e-12, "{shares}");
        let words = 0..documents.n_words() as u32;
        let total: f64 = words.map(|word| predictor.probability(&proportions, word)).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
    }
    // A model that has seen nothing finds every word alike.
    let nothing = TopicPredictor::new(&centre(7).snapshot());
    let proportions = nothing.proportions(&[(3, 2.0)]);
    assert_eq!((proportions.new, nothing.probability(&proportions, 0)), (1.0, 1.0 / 7.0));
}

#[test]
fn topics_are_found_and_predict_better_than_word_frequencies() {
    let documents = corpus(6, 600, 4);
    let (observed, held_out) = halves(&corpus(6, 100, 5));
    let mut frequency = vec![0.5; documents.n_words()];
    for ix in 0..documents.len() {
        documents.entries(ix).for_each(|(word, count)| frequency[word as usize] += count);
    }
    let total: f64 = frequency.iter().sum();
    let plain: f64 = (0..held_out.len())
        .flat_map(|ix| held_out.entries(ix).collect::<Vec<_>>())
        .map(|(word, count)| count * (frequency[word as usize] / total).ln())
        .sum::<f64>()
        / held_out.tokens();
    for workers in [1, 16] {
        let central = fitted(&documents, Schedule::Deterministic, workers);
        let found = TopicPredictor::new(&central.snapshot()).completion(&observed, &held_out).unwrap();
        // The words of two topics of ten instead of six: log 3 less the common words.
        assert!(found > plain + 0.6, "W = {workers}: {found} against {plain}");
    }
}

/// Evidence of a topic whose words are certain.
fn evidence(family: &Topic, tables: f64, words: &[f64]) -> Evidence {
    let mut labels = LabelStatistics::default();
    labels.observe(0.9, tables);
    let mut stats = vec![0.0; family.n_features()];
    stats[0] = words.iter().sum();
    stats[1..].copy_from_slice(words);
    Evidence { stats, labels }
}

#[test]
fn identification_agrees_with_brute_force() {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(12);
    let family = Topic::new(6, 0.1).unwrap();
    let mut matched = 0;
    for _ in 0..60 {
        let mut topic = |peak: usize| {
            let mut words: Vec<f64> = (0..6).map(|_| f64::from(rng.random_range(0..3u32))).collect();
            words[peak] += f64::from(rng.random_range(0..20u32));
            evidence(&family, f64::from(rng.random_range(1..6u32)), &words)
        };
        let central = Central::new(family, process());
        let first: Vec<Evidence> = (0..3).map(&mut topic).collect();
        let second: Vec<Evidence> = (1..4).map(&mut topic).collect();
        let mass = |all: &[Evidence]| all.iter().map(|e| e.stats[0]).sum();
        let increment = anabranch::infer::Increment {
            base: 0,
            mass: mass(&first),
            familiarity: None,
            existing: vec![],
            new: first.clone(),
        };
        central.absorb(BatchId(0), increment, Identification::Optimal).unwrap();
        let posterior: std::sync::Arc<Posterior<Topic, Hierarchical>> = central.snapshot();
        let found = correspond(&posterior, 0, 0.0, &second, Identification::Optimal);
        let score = |e: &Evidence| {
            family.log_partition(&e.stats) + process().score(&e.labels, posterior.population())
        };
        let nothing = score(&Evidence::empty(family.n_features()));
        let gain = |k: usize, j: usize| {
            let mut both = second[k].clone();
            both.absorb(&first[j]);
            score(&both) - score(&second[k]) - score(&first[j]) + nothing
        };
        let (best, _) = best_partial(3, 3, &gain);
        let targets = found.correspondence.targets();
        let value: f64 = (0..3)
            .map(|k| match targets[k] {
                Target::Existing(ComponentId(j)) => gain(k, j as usize),
                Target::New => 0.0,
            })
            .sum();
        assert!((value - best).abs() < 1e-9, "{value} {best}");
        matched += found.correspondence.n_matched();
    }
    assert!(matched > 40 && matched < 180, "{matched}: matching and refusing are both tried");
}

#[test]
fn sixty_four_workers_keep_every_invariant() {
    let documents = corpus(5, 1500, 8);
    for schedule in [Schedule::Free, Schedule::Deterministic] {
        for identification in [Identification::Optimal, Identification::ByPosition] {
            let central = centre(documents.n_words());
            let config = Config { identification, ..config(schedule, WORKERS) };
            let batches = cut(&documents, 5);
            // Each fourth one comes again, and once more at the end.
            let again = batches.iter().filter(|(id, _)| id.0 % 4 == 0).cloned();
            let mut named: Vec<_> = batches.iter().cloned().chain(again.clone()).chain(again).collect();
            named.sort_by_key(|(id, _)| id.0 / 7);
            let n_named = named.len();
            let mut events = 0;
            let mut observe = |event: &Event, central: &Centre| {
                events += 1;
                let now = central.snapshot();
                // MASS: every word that was absorbed is in exactly one topic, in expectation.
                assert!((now.expected_mass() - now.mass()).abs() < 1e-6 * (1.0 + now.mass()));
                assert!(event.mass <= documents.tokens() + 1e-6);
                Flow::Continue
            };
            engine::run(&central, &mut Named(named), &config, &mut observe).unwrap();
            engine::finish(&central, &config);
            assert_eq!(events, n_named);
            let fold = central.checkpoint();
            let posterior = fold.posterior();
            assert!((posterior.mass() - documents.tokens()).abs() < 1e-6 * documents.tokens(), "ONCE");
            assert_eq!(fold.absorbed().len(), batches.len() as u64);
            let ids: BTreeSet<_> = posterior.components().iter().map(|c| c.id()).collect();
            assert_eq!(ids.len(), posterior.components().len(), "SIGMA");
            for component in posterior.components() {
                assert!(posterior.family().admits(&component.evidence().stats), "PROPER");
            }
        }
    }
}

/// ORDER: entries that touch only known topics commute.
#[test]
fn minibatches_without_new_topics_commute() {
    let documents = corpus(4, 200, 3);
    let start = fitted(&documents, Schedule::Deterministic, 1).checkpoint();
    let settings = TopicSettings { max_new: 0, ..TopicSettings::default() };
    let batches: Vec<Documents> = (0..3).map(|seed| corpus(4, 20, 50 + seed)).collect();
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
    let increments: Vec<_> =
        batches.iter().map(|batch| settings.infer(start.posterior(), batch, rng, &mut ())).collect();
    let fold = |order: [usize; 3]| {
        let central = Central::from_fold(start.clone());
        for ix in order {
            let id = BatchId(1000 + ix as u64);
            central.absorb(id, increments[ix].clone(), Identification::Optimal).unwrap();
        }
        central.snapshot()
    };
    let (one, other) = (fold([0, 1, 2]), fold([2, 0, 1]));
    for (a, b) in one.components().iter().zip(other.components()) {
        assert_eq!(a.id(), b.id());
        for (x, y) in a.evidence().stats.iter().zip(&b.evidence().stats) {
            assert!((x - y).abs() <= 1e-9 * (1.0 + x.abs()), "{x} {y}");
        }
    }
}

#[test]
fn the_seed_and_the_workers_fix_the_result() {
    let documents = corpus(4, 300, 15);
    let run = |threads: usize| {
        let central = centre(documents.n_words());
        let config = Config { threads, ..config(Schedule::Deterministic, 8) };
        let mut source = Named(cut(&documents, 10));
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        engine::run(&central, &mut source, &config, &mut ()).unwrap();
        engine::finish(&central, &config);
        let posterior = central.snapshot();
        posterior.components().iter().map(|c| (c.id(), c.evidence().clone())).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(3));
}

/// Each pass replaces what the one before it said, so that every word counts once at every moment.
#[test]
fn a_second_pass_keeps_the_mass_and_does_not_harm() {
    let documents = corpus(6, 400, 21);
    let (observed, held_out) = halves(&corpus(6, 80, 22));
    let central = fitted(&documents, Schedule::Deterministic, 4);
    let score = || TopicPredictor::new(&central.snapshot()).completion(&observed, &held_out).unwrap();
    let before = score();
    central.append(&Entry::Pass).unwrap();
    let config = config(Schedule::Deterministic, 4);
    engine::run(&central, &mut Named(cut(&documents, 20)), &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    let posterior = central.snapshot();
    assert!((posterior.mass() - documents.tokens()).abs() < 1e-6 * documents.tokens());
    assert!((posterior.expected_mass() - documents.tokens()).abs() < 1e-6 * documents.tokens());
    assert!(score() > before - 0.02, "{} after {before}", score());
}

#[test]
fn minibatches_without_words_change_nothing() {
    let central = centre(4);
    let empty = || Documents::new(4, [vec![], vec![]]).unwrap();
    let config = config(Schedule::Deterministic, 2);
    let mut source = Named(vec![(BatchId(0), empty()), (BatchId(1), empty())]);
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    engine::run(&central, &mut source, &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    assert_eq!((central.snapshot().mass(), central.snapshot().components().len()), (0.0, 0));
    assert_eq!(empty().mass(), 0.0);
}

/// The same topic twice is one topic.
#[test]
fn duplicates_merge() {
    let documents = corpus(2, 300, 31);
    let family = Topic::new(documents.n_words(), 0.05).unwrap();
    let central = Central::new(family, process()).with_memory(Memory::<Documents>::default());
    let mut halves = vec![vec![0.0; documents.n_words()]; 4];
    for ix in 0..documents.len() {
        for (word, count) in documents.entries(ix) {
            let topic = if word < 10 { 0 } else { 2 };
            // Which of the two copies a word goes to says nothing.
            halves[topic + ix % 2][word as usize] += count;
        }
    }
    let new: Vec<Evidence> = halves.iter().map(|words| evidence(&family, 150.0, words)).collect();
    let increment = anabranch::infer::Increment {
        base: 0,
        mass: documents.tokens(),
        familiarity: None,
        existing: vec![],
        new,
    };
    central.absorb(BatchId(0), increment, Identification::Optimal).unwrap();
    let found =
        TopicSettings::default().merges(&central.snapshot(), &documents, None, PriorChoice::Given, 1.0);
    let pairs: BTreeSet<BTreeSet<u64>> =
        found.pairs.iter().map(|(a, b)| BTreeSet::from([a.0, b.0])).collect();
    assert_eq!(pairs, BTreeSet::from([BTreeSet::from([0, 1]), BTreeSet::from([2, 3])]));
}

/// Topics with twenty words of their own, the first ones the most frequent, and five of the next topic; documents of three
/// topics at most.
fn planted(k: usize, n: usize, seed: u64) -> (Vec<Vec<f64>>, Documents) {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let n_words = 20 * k.max(2);
    let topics: Vec<Vec<f64>> = (0..k)
        .map(|topic| {
            let mut words = vec![0.0; n_words];
            (0..25).for_each(|rank| words[(20 * topic + rank) % n_words] += 1.0 / (3.0 + rank as f64));
            let total: f64 = words.iter().sum();
            words.iter().map(|word| word / total).collect()
        })
        .collect();
    let drawn = |weights: &[f64], mut left: f64| {
        let passed = |weight: &f64| {
            left -= weight;
            left < 0.0
        };
        weights.iter().position(passed).unwrap_or(0)
    };
    let mut documents = Documents::none(n_words);
    for _ in 0..n {
        let mixed: Vec<(usize, f64)> =
            (0..3).map(|_| (rng.random_range(0..k), rng.random::<f64>().powi(3))).collect();
        let shares: Vec<f64> = mixed.iter().map(|(_, share)| *share).collect();
        let all: f64 = shares.iter().sum();
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..60 {
            let topic = mixed[drawn(&shares, rng.random::<f64>() * all)].0;
            let word = drawn(&topics[topic], rng.random());
            *counts.entry(word as u32).or_insert(0.0) += 1.0;
        }
        documents.push(&counts.into_iter().collect::<Vec<_>>()).unwrap();
    }
    (topics, documents)
}

/// Topics with a hundredth of the words, and the mean over the planted ones of the cosine with the nearest.
fn found(posterior: &Posterior<Topic, Hierarchical>, topics: &[Vec<f64>]) -> (usize, f64) {
    let stats: Vec<&[f64]> = posterior.components().iter().map(|c| &c.evidence().stats[..]).collect();
    let cosine = |topic: &[f64], words: &[f64]| {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        dot(topic, words) / (dot(topic, topic) * dot(words, words)).sqrt()
    };
    let nearest = topics.iter().map(|topic| stats.iter().map(|s| cosine(topic, &s[1..])).fold(0.0, f64::max));
    let large = stats.iter().filter(|stats| stats[0] >= 0.01 * posterior.mass()).count();
    (large, nearest.sum::<f64>() / topics.len() as f64)
}

fn learned_centre(n_words: usize) -> Centre {
    let learned = Parameter::Learned { learned: 1.0 };
    let process = Hierarchical::new(learned, learned, Bound::Paper).unwrap();
    Central::new(Topic::new(n_words, 0.05).unwrap(), process).with_memory(Memory::default())
}

#[test]
fn as_many_topics_are_found_as_there_are() {
    for (k, n) in [(1, 300), (3, 300), (8, 600)] {
        let (topics, documents) = planted(k, n, 40 + k as u64);
        let central = learned_centre(documents.n_words());
        let config = Config { bootstrap_rows: n + 1, ..config(Schedule::Deterministic, 1) };
        let mut source = Named(vec![(BatchId(0), documents)]);
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        engine::finish(&central, &config);
        let (large, cosine) = found(&central.snapshot(), &topics);
        assert_eq!(large, k, "{n} documents");
        assert!(cosine > 0.95, "{k} topics: {cosine}");
    }
}

#[test]
fn a_stream_ends_with_as_many_topics_as_there_are() {
    let (topics, documents) = planted(4, 1000, 44);
    for workers in [1, 16] {
        let central = learned_centre(documents.n_words());
        let config = Config { bootstrap_rows: 400, ..config(Schedule::Deterministic, workers) };
        let mut first = Named(vec![(BatchId(0), documents.slice(0, 400))]);
        engine::bootstrap(&central, &mut first, &config, &mut ()).unwrap();
        let rest = cut(&documents.slice(400, 600), 50);
        let rest = rest.into_iter().map(|(id, documents)| (BatchId(id.0 + 1), documents)).collect();
        engine::run(&central, &mut Named(rest), &config, &mut ()).unwrap();
        engine::finish(&central, &config);
        let (large, cosine) = found(&central.snapshot(), &topics);
        assert_eq!(large, topics.len(), "W = {workers}");
        assert!(cosine > 0.95, "W = {workers}: {cosine}");
    }
}

#[test]
fn concentrations_are_learned_unless_they_are_given() {
    let (_, documents) = planted(3, 300, 43);
    let bootstrapped = |central: Centre, prior: PriorChoice| {
        let config = Config { bootstrap_rows: 301, prior, ..config(Schedule::Deterministic, 1) };
        let mut source = Named(vec![(BatchId(0), documents.clone())]);
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        let now = central.snapshot();
        (now.process().gamma(), now.process().alpha0(), now.family().eta())
    };
    let given = bootstrapped(centre(documents.n_words()), PriorChoice::Given);
    assert_eq!(given, (1.0, 1.0, 0.05));
    let learned = bootstrapped(learned_centre(documents.n_words()), PriorChoice::Estimated);
    assert!(learned.0 != 1.0 && learned.1 != 1.0 && learned.2 != 0.05, "{learned:?}");
}

/// Words are numbered as they come, and no minibatch knows of words that come after it.
#[test]
fn words_that_come_along_the_stream_are_learned_and_counted_once() {
    let all = corpus(4, 400, 11);
    let mut numbers: Vec<u32> = Vec::new();
    let mut named = Vec::new();
    // Topics come one after another.
    let newest = |ix: &usize| all.words(*ix).iter().filter(|word| **word < 40).max().map(|word| word / 10);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(newest);
    let first = 40;
    for piece in [&order[..first]].into_iter().chain(order[first..].chunks(20)) {
        let mut documents = Vec::new();
        for ix in piece {
            let mut entries: Vec<(u32, f64)> = Vec::new();
            for (word, count) in all.entries(*ix) {
                let number = numbers.iter().position(|known| *known == word).unwrap_or_else(|| {
                    numbers.push(word);
                    numbers.len() - 1
                });
                entries.push((number as u32, count));
            }
            entries.sort_by_key(|(word, _)| *word);
            documents.push(entries);
        }
        let batch = Documents::new(numbers.len(), documents).unwrap();
        named.push((BatchId(named.len() as u64), batch));
    }
    let widths: BTreeSet<usize> = named.iter().map(|(_, batch)| batch.n_words()).collect();
    assert!(widths.len() > 2, "{widths:?}");
    let mut counts = vec![0.0; numbers.len()];
    for (_, batch) in &named {
        (0..batch.len())
            .flat_map(|ix| batch.entries(ix))
            .for_each(|(word, count)| counts[word as usize] += count);
    }
    for (schedule, workers) in
        [(Schedule::Deterministic, 1), (Schedule::Deterministic, WORKERS), (Schedule::Free, WORKERS)]
    {
        let central = centre(named[0].1.n_words());
        let config = config(schedule, workers);
        let mut first = Named(vec![named[0].clone()]);
        engine::bootstrap(&central, &mut first, &config, &mut ()).unwrap();
        engine::run(&central, &mut Named(named[1..].to_vec()), &config, &mut ()).unwrap();
        engine::finish(&central, &config);
        let found = central.snapshot();
        assert_eq!(found.family().n_words(), numbers.len());
        assert!((found.mass() - all.tokens()).abs() < 1e-6);
        for (word, count) in counts.iter().enumerate() {
            let sum: f64 = found.components().iter().map(|c| c.evidence().stats[1 + word]).sum();
            assert!((sum - count).abs() < 1e-6, "{schedule:?}, {workers}: word {word} {sum} of {count}");
        }
    }
}

#[test]
fn features_come_but_never_go() {
    let central = centre(5);
    let narrow = Entry::Prior { family: Topic::new(4, 0.05).unwrap(), process: process() };
    assert!(central.append(&narrow).is_err());
    let wide = Entry::Prior { family: Topic::new(7, 0.05).unwrap(), process: process() };
    central.append(&wide).unwrap();
    assert_eq!((central.snapshot().family().n_features(), central.snapshot().version()), (8, 1));
}

/// Documents that have one topic each: nothing is easier, and nothing keeps copies of a topic apart as well as a large `α₀`.
#[test]
fn documents_of_one_topic_each_have_as_many_topics_as_there_are() {
    for (k, n) in [(1, 300), (3, 600), (5, 400)] {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(60 + k);
        let document = |_| {
            let topic = rng.random_range(0..k as u32);
            let mut counts = vec![0.0; 12];
            (0..40).for_each(|_| counts[rng.random_range(0..12)] += 1.0);
            (12 * topic..).zip(counts).filter(|(_, count)| *count > 0.0).collect()
        };
        let documents = Documents::new(12 * k as usize, (0..n).map(document).collect::<Vec<_>>()).unwrap();
        let learned = || Parameter::Learned { learned: 1.0 };
        let process = Hierarchical::new(learned(), learned(), Bound::Paper).unwrap();
        let family = Topic::new(documents.n_words(), 0.05).unwrap();
        let central = Central::new(family, process).with_memory(Memory::<Documents>::default());
        let config = Config { bootstrap_rows: 2000, ..Config::new(TopicSettings::default()) };
        let mut source = Named(vec![(BatchId(0), documents)]);
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        engine::finish(&central, &config);
        let snapshot = central.snapshot();
        assert_eq!(snapshot.components().len() as u64, k);
        let tables: f64 = snapshot.components().iter().map(|c| c.expected_count()).sum();
        assert!(tables < 1.01 * n as f64, "{k} topics have {tables} tables in {n} documents");
    }
}
