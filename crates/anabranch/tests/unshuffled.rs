//! A stream that is not shuffled: clusters come one after the other, close to those that are known already.

mod support;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{self, Config, Schedule};
use anabranch::family::Gaussian;
use anabranch::posterior::Predictor;
use anabranch::process::{Bound, Dirichlet};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

const D: usize = 10;
const CLUSTERS: usize = 12;
const ROWS: usize = 1000;
/// Rows that are fitted first: those of the first quarter of the clusters.
const FIRST: usize = 3 * ROWS;

/// Rows of each cluster in turn. Centres are so close that the prior explains a single new row worse than its neighbours do.
fn in_turn(rows_each: usize, seed: u64) -> Vec<[f64; D]> {
    let centres = &mut Xoshiro256PlusPlus::seed_from_u64(7);
    let noise = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut rows = Vec::new();
    for _ in 0..CLUSTERS {
        let centre: [f64; D] = std::array::from_fn(|_| 0.65 * normal(centres));
        rows.extend((0..rows_each).map(|_| centre.map(|c| c + 0.7 * normal(noise))));
    }
    rows
}

fn normal(rng: &mut impl rand::Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn batch(rows: &[[f64; D]]) -> Batch {
    Batch::new(D, rows.concat()).unwrap()
}

/// The centre after these rows in this order, the first of them fitted alone.
fn learned(rows: &[[f64; D]]) -> Central<Gaussian, Dirichlet> {
    let family = Gaussian::from_rows(&batch(&rows[..FIRST])).unwrap();
    let central = Central::new(family, Dirichlet::new(5.0, Bound::Paper).unwrap());
    let config = Config {
        threads: 1,
        workers: 2,
        schedule: Schedule::Deterministic,
        bootstrap_rows: FIRST,
        ..Config::default()
    };
    let minibatches = std::iter::once(batch(&rows[..FIRST])).chain(rows[FIRST..].chunks(200).map(batch));
    let mut source = minibatches.collect::<Vec<_>>().into_iter().enumerate();
    let Ok(_) = engine::bootstrap(&central, &mut source, &config, &mut ());
    let Ok(()) = engine::run(&central, &mut source, &config, &mut ());
    engine::finish(&central, &config);
    central
}

fn held_out(central: &Central<Gaussian, Dirichlet>) -> f64 {
    Predictor::new(&central.snapshot()).mean_ln_density(&batch(&in_turn(100, 99))).unwrap()
}

#[test]
fn clusters_that_come_one_after_the_other_are_found_nearly_as_well_as_shuffled_ones() {
    let mut rows = in_turn(ROWS, 1);
    let sorted = learned(&rows);
    support::assert_snapshot_invariants(&sorted.snapshot());
    assert!((sorted.snapshot().mass() - rows.len() as f64).abs() < 1e-6);
    rows.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(3));
    let shuffled = learned(&rows);
    let (sorted, shuffled) = (held_out(&sorted), held_out(&shuffled));
    // Without births from rows that are merely less familiar, the sorted stream ends 0.28 below.
    assert!(sorted > shuffled - 0.15, "sorted {sorted}, shuffled {shuffled}");
}
