//! SIGMA: the correspondence that is found is the best of all, by trying all.

use anabranch::identify::{Gains, Labels, gains, match_components};
use anabranch::process::{Beta, Bound, LabelStatistics, PitmanYor, Process};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use crate::cases::{ROUNDING, assert_close};

/// All partial one-to-one maps from rows to columns.
fn partial_maps(n_rows: usize, n_cols: usize) -> Vec<Vec<Option<usize>>> {
    (0..n_rows).fold(vec![vec![]], |maps, _| {
        let choices = || std::iter::once(None).chain((0..n_cols).map(Some));
        maps.iter()
            .flat_map(|map| choices().map(move |choice| (map, choice)))
            .filter(|(map, choice)| choice.is_none() || !map.contains(choice))
            .map(|(map, choice)| map.iter().copied().chain([choice]).collect())
            .collect()
    })
}

/// The whole bound after joining by `sigma`, with the gain in likelihood: no assignment, no tangent but the last.
fn objective<P: Process>(
    process: &P,
    likelihood: &Gains,
    labels: &Labels<'_>,
    sigma: &[Option<usize>],
) -> f64 {
    let mut all: Vec<LabelStatistics> = labels.since.iter().chain(labels.rest).copied().collect();
    for (row, column) in sigma.iter().enumerate() {
        match column {
            Some(column) => all[*column] += labels.new[row],
            None => all.push(labels.new[row]),
        }
    }
    likelihood.total(sigma) + process.bound(&all, labels.observations)
}

fn random_labels(rng: &mut Xoshiro256PlusPlus, k: usize) -> Vec<LabelStatistics> {
    let of = |rng: &mut Xoshiro256PlusPlus| {
        let mut stats = LabelStatistics::default();
        for _ in 0..rng.random_range(1..9) {
            stats.observe(rng.random::<f64>().powi(2), 1.0);
        }
        stats
    };
    (0..k).map(|_| of(rng)).collect()
}

fn assert_best<P: Process>(process: &P, rng: &mut Xoshiro256PlusPlus) -> usize {
    let (k_new, k_since) = (rng.random_range(0..=4), rng.random_range(0..=4));
    let (new, since) = (random_labels(rng, k_new), random_labels(rng, k_since));
    let rest = random_labels(rng, 3);
    let values = (0..k_new * k_since).map(|_| rng.random_range(-4.0..3.0)).collect();
    let likelihood = Gains::new(k_new, k_since, values);
    let labels = Labels { new: &new, since: &since, rest: &rest, observations: 60.0 };
    let (found, value) = match_components(process, &likelihood, labels);
    let reached = objective(process, &likelihood, &labels, &found);
    assert!((reached - value).abs() < ROUNDING, "the objective that was told is another: {value} {reached}");
    for sigma in partial_maps(k_new, k_since) {
        let other = objective(process, &likelihood, &labels, &sigma);
        assert!(
            other <= reached + ROUNDING,
            "{process:?}: {sigma:?} is better than {found:?} by {}",
            other - reached
        );
    }
    found.iter().flatten().count()
}

#[test]
fn no_correspondence_is_better_under_a_pitman_yor_process() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
    let mut matched = 0;
    for case in 0..400 {
        let discount = [0.0, 0.2, 0.6, 0.95][case % 4];
        let alpha = 10f64.powf(rng.random_range(-2.0..1.5));
        for bound in [Bound::Paper, Bound::Conditional] {
            matched += assert_best(&PitmanYor::new(alpha, discount, bound).unwrap(), &mut rng);
        }
    }
    assert!(matched > 400, "too little is matched to show anything: {matched}");
}

#[test]
fn no_correspondence_is_better_under_a_beta_process() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
    let mut matched = 0;
    for case in 0..200 {
        let concentration = [0.4, 1.0, 3.0][case % 3];
        let alpha = 10f64.powf(rng.random_range(-2.0..1.5));
        for bound in [Bound::Paper, Bound::Conditional] {
            matched += assert_best(&Beta::new(alpha, concentration, bound).unwrap(), &mut rng);
        }
    }
    assert!(matched > 100, "too little is matched to show anything: {matched}");
}

/// One tangent alone is not enough: somewhere the best correspondence needs another one than that of "nothing joined".
#[test]
fn the_scan_over_tangents_finds_what_one_tangent_misses() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut missed = 0;
    for _ in 0..300 {
        let process = PitmanYor::new(0.05, 0.9, Bound::Conditional).unwrap();
        let (new, since) = (random_labels(&mut rng, 5), random_labels(&mut rng, 5));
        let likelihood = Gains::new(5, 5, (0..25).map(|_| rng.random_range(-3.0..3.0)).collect());
        let labels = Labels { new: &new, since: &since, rest: &[], observations: 50.0 };
        let apart: Vec<LabelStatistics> = new.iter().chain(&since).copied().collect();
        let all = anabranch::process::Population::of(&apart, 50.0);
        let score = |stats: &LabelStatistics| process.score(stats, all);
        let mut one_tangent = likelihood.clone();
        for (row, own) in new.iter().enumerate() {
            for (col, other) in since.iter().enumerate() {
                let mut joined = *own;
                joined += *other;
                one_tangent.values[row * 5 + col] += score(&joined) - score(own) - score(other);
            }
        }
        let single = objective(&process, &likelihood, &labels, &anabranch::identify::solve(&one_tangent));
        let scanned = match_components(&process, &likelihood, labels).1;
        assert!(scanned >= single - ROUNDING);
        missed += usize::from(scanned > single + 1e-6);
    }
    assert!(missed > 0, "one tangent was always enough");
}

#[derive(Deserialize)]
struct Global {
    alpha: f64,
    discount: f64,
    joined: Vec<Vec<f64>>,
    minibatch_alone: Vec<f64>,
    central_alone: Vec<f64>,
    empty: f64,
    new: Vec<Stats>,
    since: Vec<Stats>,
    sigma: Vec<i64>,
    objective: f64,
}

#[derive(Deserialize)]
struct Stats {
    s: serde_json::Value,
    t: f64,
}

fn read(stats: &[Stats]) -> Vec<LabelStatistics> {
    let of = |stats: &Stats| LabelStatistics {
        // JSON has no infinity: it is written as the string "-inf".
        log_p_empty: stats.s.as_f64().unwrap_or(f64::NEG_INFINITY),
        expected_count: stats.t,
        label_entropy: 0.0,
    };
    stats.iter().map(of).collect()
}

#[test]
fn the_global_optimum_of_the_test_vectors_is_found() {
    let vectors: Vec<Global> = serde_json::from_str(include_str!("../data/py_matching.json")).unwrap();
    assert_eq!(vectors.len(), 4);
    for v in vectors {
        let process = PitmanYor::new(v.alpha, v.discount, Bound::Conditional).unwrap();
        let (new, since) = (read(&v.new), read(&v.since));
        let rows: Vec<usize> = (0..new.len()).collect();
        let cols: Vec<usize> = (0..since.len()).collect();
        let likelihood = gains(
            &rows,
            &cols,
            |k| v.minibatch_alone[*k],
            |j| v.central_alone[*j],
            |k, j| v.joined[*k][*j],
            v.empty,
        );
        let labels = Labels { new: &new, since: &since, rest: &[], observations: 1.0 };
        let (found, value) = match_components(&process, &likelihood, labels);
        let sigma: Vec<i64> = found.iter().map(|column| column.map_or(-1, |ix| ix as i64)).collect();
        assert_eq!(sigma, v.sigma);
        // The vectors keep the likelihood of all components and leave the normaliser of N out, which is log Γ(α + 1) −
        // log Γ(α + 1) = 0 for the one observation that is claimed here.
        let alone: f64 = v.minibatch_alone.iter().chain(&v.central_alone).sum();
        assert_close("objective", value + alone, v.objective);
    }
}
