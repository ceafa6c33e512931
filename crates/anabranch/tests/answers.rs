//! Answers in blocks are those of the plain loop over all components, for every family.

mod support;

use std::collections::BTreeMap;

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Conjugate, Family};
use anabranch::identify::ComponentId;
use anabranch::math::log_sum_exp::log_sum_exp;
use anabranch::posterior::{Ask, Component, Evidence, Parts, Posterior, Predictor};
use anabranch::process::{Dirichlet, LabelStatistics, Process};
use anabranch_testkit::streams::Columns;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use support::{ALL_FAMILIES, default_family, model, process, rows_of};

/// What the issue of a density may be off by: components that are left out are far below it, roundings too.
const DENSITY: f64 = 1e-9;

/// Densities far out are large numbers, of which the same share is rounding.
const SHARE: f64 = 1e-13;

/// Probabilities that are left out are below this.
const PROBABILITY: f64 = 1e-9;

/// A posterior whose components hold some of the rows each: many, one, next to nothing or nothing.
fn posterior(family: &AnyFamily, rows: &Batch, k: usize, seed: u64) -> Posterior<AnyFamily, Dirichlet> {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let f = family.n_features();
    let mut features = vec![0.0; f];
    let components: Vec<Component> = (0..k)
        .map(|ix| {
            let mut evidence = Evidence::empty(f);
            let (n, weight) = match ix % 7 {
                3 => (1, 1.0),
                4 => (2, 1e-7),
                5 => (0, 1.0),
                6 => (20, 1000.0),
                _ => (rng.random_range(2..40), rng.random_range(0.2..1.0)),
            };
            let first = rng.random_range(0..rows.n_rows());
            for row in 0..n {
                // Rows of one group follow each other at a distance.
                family.features(rows.row((first + row * k) % rows.n_rows()), &mut features);
                evidence.stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += weight * value);
                let mut labels = LabelStatistics::default();
                labels.observe(1.0, weight);
                evidence.labels += labels;
            }
            Component::new(ComponentId(2 * ix as u64), 1, evidence)
        })
        .collect();
    let mass = components.iter().map(|c| c.expected_count()).sum();
    let parts = Parts {
        version: 1,
        family: family.clone(),
        process: process(),
        components,
        redirects: BTreeMap::new(),
        mass,
    };
    Posterior::restore(parts).unwrap()
}

/// The plain loop: `log weight + log density` of every component with its id, and of a new one.
fn scores(posterior: &Posterior<AnyFamily, Dirichlet>, x: &[f64]) -> (Vec<(ComponentId, f64)>, f64) {
    let (family, process) = (posterior.family(), posterior.process());
    let mass = |c: &Component| process.existing_mass(&c.evidence().labels);
    let new = process.new_mass(posterior.components().iter().map(|c| &c.evidence().labels));
    let living: Vec<_> = posterior.components().iter().filter(|c| mass(c) > 0.0).collect();
    let total: f64 = new + living.iter().map(|c| mass(c)).sum::<f64>();
    let score = |mass: f64, stats: &[f64]| (mass / total).ln() + family.predictive(stats).ln_density(x);
    let known = living.iter().map(|c| (c.id(), score(mass(c), &c.evidence().stats)));
    (known.collect(), score(new, &vec![0.0; family.n_features()]))
}

/// The rows of the model, and rows ever farther out.
fn asked(family: &AnyFamily, rows: &Batch, n: usize, seed: u64) -> Batch {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut values = Vec::new();
    while values.len() < n * rows.dimensions() {
        let mut row = rows.row(rng.random_range(0..rows.n_rows())).to_vec();
        let factor = [1.0, 1.0, 1.0, 3.0, -30.0, 1e4, 1e8, 1e25][rng.random_range(0..8)];
        row.iter_mut().for_each(|value| *value = (*value * factor).clamp(-1e60, 1e60));
        // Counts stay counts and codes stay codes.
        if family.check(&row).is_err() {
            row.iter_mut().for_each(|value| *value = value.abs().min(1e6).round());
        }
        if family.check(&row).is_ok() {
            values.extend(row);
        }
    }
    Batch::new(rows.dimensions(), values).unwrap()
}

fn check(posterior: &Posterior<AnyFamily, Dirichlet>, rows: &Batch) -> Result<(), TestCaseError> {
    let predictor = Predictor::new(posterior);
    let labels = predictor.labels(rows, 2);
    let densities = predictor.ln_densities(rows, 1);
    let mut probabilities = vec![0.0; predictor.ids().len()];
    let mut tops = Vec::new();
    predictor.answer(rows.values(), Ask::Everything, |row, answer| {
        let mut top = Vec::new();
        answer.top(3, &mut top);
        tops.push(top);
        assert_eq!(answer.label(), labels[row], "row {row}: with and without the density");
    });
    for (row, x) in rows.rows().enumerate() {
        let (known, new) = scores(posterior, x);
        let label = known.iter().fold(None, |best: Option<(ComponentId, f64)>, (id, score)| {
            if best.is_none_or(|(_, highest)| *score > highest) { Some((*id, *score)) } else { best }
        });
        let own = labels[row].map(|id| known.iter().find(|(other, _)| *other == id).unwrap().1);
        // The loop divides before the logarithm: a last bit may differ.
        let best = label.map(|(_, score)| score);
        prop_assert!(
            labels[row] == label.map(|(id, _)| id)
                || best.zip(own).is_some_and(|(a, b)| (a - b).abs() <= SHARE * a.abs()),
            "row {row} {x:?}: {:?} {own:?} instead of {label:?}",
            labels[row]
        );
        let all: Vec<f64> = known.iter().map(|(_, score)| *score).chain([new]).collect();
        let density = log_sum_exp(&all);
        let allowed = DENSITY + SHARE * density.abs();
        prop_assert!(
            density == densities[row] || (density - densities[row]).abs() <= allowed,
            "row {row} {x:?}: {} instead of {density}",
            densities[row]
        );
        prop_assert_eq!(predictor.ln_density(x), densities[row], "one row as in a block");
        prop_assert_eq!(predictor.label(x), labels[row]);
        predictor.responsibilities(x, &mut probabilities);
        prop_assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let total = log_sum_exp(&all[..known.len()]);
        if total.is_finite() {
            for (probability, (_, score)) in probabilities.iter().zip(&known) {
                prop_assert!(
                    (probability - (score - total).exp()).abs() <= PROBABILITY + SHARE * total.abs()
                );
            }
        }
        let first = tops[row].first().map(|(place, _)| probabilities[*place]);
        prop_assert_eq!(first, probabilities.iter().copied().max_by(f64::total_cmp));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn answers_are_those_of_the_plain_loop_for_every_family(
        seed in any::<u32>(),
        name in prop::sample::select(&ALL_FAMILIES[..]),
        k in 1_usize..60,
        n in 1_usize..230,
    ) {
        let seed = u64::from(seed);
        let model = model(name, seed, 300, 9);
        let posterior = posterior(&model.family, &model.rows, k, seed);
        check(&posterior, &asked(&model.family, &model.rows, n, seed))?;
    }

    #[test]
    fn answers_are_those_of_the_plain_loop_in_many_columns(
        seed in any::<u32>(),
        name in prop::sample::select(&["gaussian", "diagonal", "spherical"][..]),
        d in prop::sample::select(&[5, 9, 16, 23, 32, 41][..]),
        offset in 0.0_f64..5.0,
        narrow in 0.0_f64..4.0,
    ) {
        let seed = u64::from(seed);
        // Clusters that are far from zero, and narrow beside their distances.
        let rows = rows_of(Columns::Reals, seed, 400, 12, d);
        let values = rows.values().iter().enumerate().map(|(ix, value)| {
            let group = (ix / d % 12) as f64;
            value * 10.0_f64.powf(-narrow) + group * (1.0 + (ix % d) as f64).sin() + 10.0_f64.powf(offset)
        });
        let rows = Batch::new(d, values.collect()).unwrap();
        let family = default_family(name, &rows);
        let posterior = posterior(&family, &rows, 40, seed);
        check(&posterior, &asked(&family, &rows, 100, seed))?;
    }
}

#[test]
fn a_model_without_components_knows_the_density_of_its_prior_and_no_label() {
    for name in ALL_FAMILIES {
        let model = model(name, 1, 50, 3);
        let posterior = posterior(&model.family, &model.rows, 0, 1);
        let predictor = Predictor::new(&posterior);
        assert_eq!(predictor.label(model.rows.row(0)), None);
        let expected =
            model.family.predictive(&vec![0.0; model.family.n_features()]).ln_density(model.rows.row(0));
        assert!((predictor.ln_density(model.rows.row(0)) - expected).abs() < 1e-12);
    }
}

#[test]
fn the_mean_density_is_the_same_to_the_last_bit_on_any_number_of_threads() {
    let model = model("gaussian", 3, 3000, 9);
    let posterior = posterior(&model.family, &model.rows, 30, 3);
    let predictor = Predictor::new(&posterior);
    let one = predictor.mean_ln_density_on(&model.rows, 1).unwrap();
    assert_eq!(one, predictor.mean_ln_density_on(&model.rows, 3).unwrap());
}
