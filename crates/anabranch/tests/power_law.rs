//! Clusters whose sizes fall like a power: a Pitman–Yor process finds more of the small ones than a Dirichlet process.

use std::collections::BTreeMap;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{self, Config, Schedule};
use anabranch::family::Gaussian;
use anabranch::posterior::Predictor;
use anabranch::process::{AnyProcess, Bound};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

const ALPHA: f64 = 1.0;
const DISCOUNT: f64 = 0.7;

/// Rows in the plane, ten deviations apart, in clusters with the sizes of a Pitman–Yor process; and their clusters.
fn power_law(n: usize, seed: u64) -> (Batch, Vec<usize>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut sizes, mut labels): (Vec<f64>, Vec<usize>) = (Vec::new(), Vec::new());
    for seat in 0..n {
        let mut at = rng.random::<f64>() * (ALPHA + seat as f64);
        let found = sizes.iter().position(|size| {
            at -= size - DISCOUNT;
            at < 0.0
        });
        let label = found.unwrap_or(sizes.len());
        if found.is_none() {
            sizes.push(0.0);
        }
        sizes[label] += 1.0;
        labels.push(label);
    }
    for ix in (1..n).rev() {
        labels.swap(ix, rng.random_range(0..=ix));
    }
    let side = (sizes.len() as f64).sqrt().ceil() as usize;
    let mut places: Vec<usize> = (0..side * side).collect();
    for ix in (1..places.len()).rev() {
        places.swap(ix, rng.random_range(0..=ix));
    }
    let mut values = Vec::new();
    for label in &labels {
        for centre in [places[*label] % side, places[*label] / side] {
            let epsilon: f64 = StandardNormal.sample(&mut rng);
            values.push(10.0 * centre as f64 + epsilon);
        }
    }
    (Batch::new(2, values).unwrap(), labels)
}

/// Clusters of two to nineteen rows of which one component has more than half, and which are more than half of it.
fn small_clusters_found(rows: &Batch, labels: &[usize], process: AnyProcess) -> usize {
    let first = rows.head(rows.n_rows() / 4);
    let central = Central::new(Gaussian::from_rows(&first).unwrap(), process);
    let config = Config {
        threads: 2,
        workers: 8,
        schedule: Schedule::Deterministic,
        bootstrap_rows: first.n_rows(),
        ..Config::default()
    };
    let rest = rows.tail(first.n_rows());
    let mut source = std::iter::once(first).chain(rest.pieces(256).collect::<Vec<_>>()).enumerate();
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    engine::run(&central, &mut source, &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    let predictor = Predictor::new(&central.snapshot());
    let (mut sizes, mut components, mut pairs) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (row, label) in rows.rows().zip(labels) {
        let component = predictor.label(row).unwrap();
        *sizes.entry(*label).or_insert(0_usize) += 1;
        *components.entry(component).or_insert(0_usize) += 1;
        *pairs.entry((*label, component)).or_insert(0_usize) += 1;
    }
    let is_found = |((label, component), count): (&(usize, _), &usize)| {
        (2..20).contains(&sizes[label]) && 2 * count > sizes[label] && 2 * count > components[component]
    };
    pairs.iter().filter(|pair| is_found((pair.0, pair.1))).count()
}

#[test]
fn a_pitman_yor_process_finds_more_of_the_small_clusters() {
    let (mut dirichlet, mut pitman_yor) = (0, 0);
    for seed in 0..3 {
        let (rows, labels) = power_law(8000, seed);
        let process =
            |discount: Option<f64>| AnyProcess::new(ALPHA, discount.map(Into::into), Bound::Paper).unwrap();
        dirichlet += small_clusters_found(&rows, &labels, process(None));
        pitman_yor += small_clusters_found(&rows, &labels, process(Some(DISCOUNT)));
    }
    assert!(pitman_yor > dirichlet, "{pitman_yor} found by Pitman–Yor, {dirichlet} by Dirichlet");
}
