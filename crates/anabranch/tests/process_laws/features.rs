//! Whole runs of the beta process with 64 logical workers, and the features of small pictures found again.

use std::collections::BTreeSet;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, Central, Entry, Fold};
use anabranch::engine::{self, Config, Schedule, minibatch_rng};
use anabranch::family::LinearGaussian;
use anabranch::identify::{Identification, Target, correspond};
use anabranch::infer::{FeatureSettings, Inference, PriorChoice};
use anabranch::posterior::{FeaturePredictor, Posterior};
use anabranch::process::{Beta, Bound, Parameter};
use anabranch_testkit::pictures::{SIDE, block_pictures, blocks};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::support::{Numbered, cut, fingerprint};

const DIMENSIONS: usize = SIDE * SIDE;

fn process() -> Beta {
    Beta::new(Parameter::Learned { learned: 1.0 }, 1.0, Bound::Paper).unwrap()
}

fn family() -> LinearGaussian {
    LinearGaussian::new(DIMENSIONS, 0.25, 1.0).unwrap()
}

fn config(workers: usize, schedule: Schedule) -> Config<FeatureSettings> {
    Config {
        threads: 2,
        workers,
        schedule,
        seed: 5,
        bootstrap_rows: 400,
        prior: PriorChoice::Estimated,
        ..Config::new(FeatureSettings::default())
    }
}

fn pictures(n: usize, seed: u64) -> Batch {
    Batch::new(DIMENSIONS, block_pictures(n, 0.5, seed).0).unwrap()
}

/// The first 400 rows alone, then minibatches of 50.
fn fitted(rows: &Batch, config: &Config<FeatureSettings>) -> Fold<LinearGaussian, Beta> {
    let mut batches = vec![rows.head(400)];
    batches.extend(cut(&rows.tail(400), 50));
    let central = Central::new(family(), process());
    let mut source = Numbered::in_order(&batches);
    engine::bootstrap(&central, &mut source, config, &mut ()).unwrap();
    engine::run(&central, &mut source, config, &mut ()).unwrap();
    engine::finish(&central, config);
    central.checkpoint()
}

/// MASS for features that share rows, ONCE, IDENT and PROPER.
fn assert_holds(fold: &Fold<LinearGaussian, Beta>, n_batches: u64, mass: f64) {
    use anabranch::family::Conjugate;
    let posterior = fold.posterior();
    assert_eq!(fold.absorbed().len(), n_batches, "ONCE");
    assert!((posterior.mass() - mass).abs() < 1e-9 * mass, "MASS: {} of {mass}", posterior.mass());
    for component in posterior.components() {
        let labels = component.evidence().labels;
        assert!(labels.expected_count <= mass * (1.0 + 1e-9), "MASS: more rows than there are");
        assert!((labels.expected_count - component.evidence().stats[0]).abs() < 1e-6 * mass);
        assert!(labels.log_p_empty <= 0.0 && component.born() <= posterior.version());
        assert!(posterior.family().log_partition(&component.evidence().stats).is_finite(), "PROPER");
    }
    let ids: BTreeSet<_> = posterior.components().iter().map(|c| c.id()).collect();
    assert_eq!(ids.len(), posterior.components().len(), "IDENT");
    assert!(ids.iter().all(|id| id.0 < fold.next_id()), "IDENT: an id may come again");
}

/// Each generating feature is a feature of the model, cell by cell, and there is no other of any weight.
fn assert_found(posterior: &Posterior<LinearGaussian, Beta>, context: &str) {
    let predictor = FeaturePredictor::new(posterior);
    for (ix, block) in blocks().iter().enumerate() {
        let distance =
            |mean: &Vec<f64>| mean.iter().zip(block).map(|(m, b)| (m - b).abs()).fold(0.0, f64::max);
        let nearest = predictor.means().iter().map(distance).fold(f64::INFINITY, f64::min);
        assert!(nearest < 0.2, "{context}: block {ix} is {nearest} from every feature");
    }
    let large =
        posterior.components().iter().filter(|c| c.expected_count() > 0.01 * posterior.mass()).count();
    assert_eq!(large, blocks().len(), "{context}");
}

#[test]
fn the_features_of_small_pictures_are_found_again_by_one_worker_and_by_sixteen() {
    let rows = pictures(2000, 1);
    for workers in [1, 16] {
        let fold = fitted(&rows, &config(workers, Schedule::Deterministic));
        assert_holds(&fold, 33, 2000.0);
        assert_found(fold.posterior(), &format!("W = {workers}"));
        let noise = fold.posterior().family().noise();
        assert!((noise - 0.25).abs() < 0.02, "the noise is {noise}, not 0.25");
    }
}

/// Rows of 16 columns that have each of `k` normal vectors with a probability between 0.15 and 0.5, and the vectors.
fn planted(k: usize, n: usize, noise: f64, seed: u64) -> (Batch, Vec<Vec<f64>>) {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let normal = |rng: &mut Xoshiro256PlusPlus| -> f64 { StandardNormal.sample(rng) };
    let features: Vec<Vec<f64>> = (0..k).map(|_| (0..16).map(|_| normal(rng)).collect()).collect();
    let shares: Vec<f64> = (0..k).map(|_| rng.random_range(0.15..0.5)).collect();
    let mut values = Vec::with_capacity(16 * n);
    for _ in 0..n {
        let mut row: Vec<f64> = (0..16).map(|_| noise * normal(rng)).collect();
        for (feature, share) in features.iter().zip(&shares) {
            if rng.random_bool(*share) {
                row.iter_mut().zip(feature).for_each(|(x, f)| *x += f);
            }
        }
        values.extend(row);
    }
    (Batch::new(16, values).unwrap(), features)
}

/// Sums that overlap in every column: births from what is unexplained alone find combinations of them.
#[test]
fn planted_features_are_as_many_as_there_are() {
    for (k, noise, workers) in [(3, 0.5, 16), (6, 0.2, 1), (6, 0.5, 16)] {
        let (rows, features) = planted(k, 1200, noise, k as u64);
        let central = Central::new(LinearGaussian::new(16, 1.0, 1.0).unwrap(), process());
        let config = config(workers, Schedule::Deterministic);
        let mut batches = vec![rows.head(600)];
        batches.extend(cut(&rows.tail(600), 100));
        let mut source = Numbered::in_order(&batches);
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        engine::run(&central, &mut source, &config, &mut ()).unwrap();
        engine::finish(&central, &config);
        let posterior = central.snapshot();
        assert_eq!(posterior.components().len(), k, "noise {noise}, W = {workers}");
        let found = FeaturePredictor::new(&posterior);
        for feature in &features {
            let distance = |mean: &Vec<f64>| {
                let square: f64 = mean.iter().zip(feature).map(|(m, f)| (m - f) * (m - f)).sum();
                (square / 16.0).sqrt()
            };
            let nearest = found.means().iter().map(distance).fold(f64::INFINITY, f64::min);
            assert!(nearest < 0.1, "noise {noise}: a feature is {nearest} from every one that was found");
        }
        let learned = posterior.family().noise().sqrt();
        assert!((learned / noise - 1.0).abs() < 0.05, "the noise is {learned}, not {noise}");
    }
}

/// The first rows say that there is little noise; the sample of the stream says how much there is.
#[test]
fn the_noise_is_learned_along_the_stream() {
    let (quiet, _) = planted(2, 600, 0.4, 9);
    let (loud, _) = planted(2, 4000, 0.6, 9);
    let central = Central::new(LinearGaussian::new(16, 1.0, 1.0).unwrap(), process());
    let config = config(1, Schedule::Deterministic);
    let mut batches = vec![quiet];
    batches.extend(cut(&loud, 200));
    let mut source = Numbered::in_order(&batches);
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    let first = central.snapshot().family().noise().sqrt();
    engine::run(&central, &mut source, &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    let last = central.snapshot().family().noise().sqrt();
    let all = ((0.16 * 600.0 + 0.36 * 4000.0) / 4600.0_f64).sqrt();
    assert!((first - 0.4).abs() < 0.02 && (last - all).abs() < 0.03, "{first}, then {last}; {all}");
}

#[test]
fn rows_get_the_features_that_made_them() {
    let fold = fitted(&pictures(1500, 2), &config(4, Schedule::Deterministic));
    let predictor = FeaturePredictor::new(fold.posterior());
    let of_block: Vec<usize> = blocks()
        .iter()
        .map(|block| {
            let distance = |mean: &[f64]| mean.iter().zip(block).map(|(m, b)| (m - b).abs()).sum::<f64>();
            (0..predictor.means().len())
                .min_by(|a, b| distance(&predictor.means()[*a]).total_cmp(&distance(&predictor.means()[*b])))
                .unwrap()
        })
        .collect();
    let (values, truth) = block_pictures(500, 0.5, 77);
    let (mut right, mut error) = (0, 0.0);
    for (row, has) in values.chunks_exact(DIMENSIONS).zip(&truth) {
        let found = predictor.look(row);
        right +=
            has.iter().zip(&of_block).filter(|(has, k)| (found.probabilities[**k] > 0.5) == **has).count();
        error += row.iter().zip(&found.reconstruction).map(|(x, r)| (x - r) * (x - r)).sum::<f64>();
    }
    // A block has five to eight cells of height 1 under noise of 0.5: about one in a hundred cannot be told.
    assert!(right as f64 > 0.98 * 2000.0, "{right} of 2000");
    let error = error / (500 * DIMENSIONS) as f64;
    assert!((error - 0.25).abs() < 0.02, "{error}");
}

#[test]
fn sixty_four_workers_keep_every_invariant_under_redelivery() {
    let rows = pictures(900, 3);
    for schedule in [Schedule::Free, Schedule::Deterministic] {
        let named: Vec<_> = (0..).map(BatchId).zip(cut(&rows, 15)).collect();
        let twice = named.iter().flat_map(|one| [one.clone(), one.clone()]).collect();
        let central = Central::new(family(), process());
        engine::run(&central, &mut Numbered::new(twice), &config(64, schedule), &mut ()).unwrap();
        assert_holds(&central.checkpoint(), 60, 900.0);
    }
}

#[test]
fn sigma_is_one_to_one_and_never_touches_what_the_worker_knew() {
    let batches = cut(&pictures(600, 4), 20);
    let central = Central::new(family(), process());
    let settings = FeatureSettings::default();
    let (mut held, mut matched) = (Vec::new(), 0);
    for (ix, batch) in batches.iter().enumerate() {
        held.push(central.snapshot());
        let base = &held[ix.saturating_sub(16)];
        let increment = settings.infer(base, batch, &mut minibatch_rng(1, BatchId(ix as u64)), &mut ());
        let known: BTreeSet<_> = base.components().iter().map(|c| c.id()).collect();
        let now = central.snapshot();
        let found = correspond(&now, increment.base, increment.mass, &increment.new, Identification::Optimal);
        let mut used = BTreeSet::new();
        for target in found.correspondence.targets() {
            let Target::Existing(id) = target else { continue };
            assert!(used.insert(*id) && !known.contains(id), "{id}");
        }
        matched += used.len();
        central.absorb(BatchId(ix as u64), increment, Identification::Optimal).unwrap();
    }
    assert!(matched > 0, "nothing was ever matched: the test shows nothing");
}

#[test]
fn entries_that_touch_only_existing_features_commute() {
    let start = fitted(&pictures(600, 5), &config(1, Schedule::Deterministic));
    let settings = FeatureSettings { max_new: 0, ..FeatureSettings::default() };
    let snapshot = start.posterior().clone();
    let entries: Vec<Entry<LinearGaussian, Beta>> = cut(&pictures(100, 6), 25)
        .iter()
        .zip(100..)
        .map(|(batch, id)| {
            let increment = settings.infer(&snapshot, batch, &mut minibatch_rng(0, BatchId(id)), &mut ());
            assert!(increment.new.is_empty());
            Entry::Absorb(anabranch::central::Absorb {
                batch: BatchId(id),
                base: snapshot.version(),
                pass: 0,
                mass: increment.mass,
                familiarity: None,
                existing: increment.existing,
                new: vec![],
            })
        })
        .collect();
    let (mut forward, mut backward) = (start.clone(), start);
    entries.iter().for_each(|entry| forward.apply(entry).unwrap());
    entries.iter().rev().for_each(|entry| backward.apply(entry).unwrap());
    for (a, b) in forward.posterior().components().iter().zip(backward.posterior().components()) {
        for (x, y) in a.evidence().stats.iter().zip(&b.evidence().stats) {
            assert!((x - y).abs() <= 1e-9 * (1.0 + x.abs()), "{x} {y}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let rows = pictures(900, 7);
    let with = |threads: usize| fitted(&rows, &Config { threads, ..config(8, Schedule::Deterministic) });
    assert_eq!(fingerprint(with(1).posterior()), fingerprint(with(3).posterior()));
}
