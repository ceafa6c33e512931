//! The first minibatch: components and prior found together, whatever the units, and nothing lost.

mod support;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{self, Config, Event, Flow};
use anabranch::family::{AnyFamily, Conjugate, Family, Gaussian, Partition};
use anabranch::infer::PriorChoice;
use anabranch::metric::Contingency;
use anabranch::posterior::Predictor;
use anabranch::process::Dirichlet;
use anabranch_testkit::generators::{NormalInverseWishart, Synthetic, synthetic};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use support::{ALL_FAMILIES, Model, Numbered, assert_snapshot_invariants, model, process};

/// Roundings of sums of thousands of log-partitions.
const ROUNDING: f64 = 1e-9;

fn fitted(family: AnyFamily, rows: &Batch, prior: PriorChoice) -> Central<AnyFamily, Dirichlet> {
    let central = Central::new(family, process());
    let config = Config { prior, seed: 3, bootstrap_rows: rows.n_rows(), ..Config::default() };
    let mut source = Numbered::in_order(std::slice::from_ref(rows));
    let mut events = 0;
    let mut count = |_: &Event, _: &Central<AnyFamily, Dirichlet>| {
        events += 1;
        Flow::Continue
    };
    let flow = engine::bootstrap(&central, &mut source, &config, &mut count).unwrap();
    assert_eq!((flow, events), (Flow::Continue, 1));
    central
}

fn paper_rows(seed: u64, n: usize, k: usize) -> (Synthetic, Batch) {
    let data = synthetic(seed, n, k, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, data.rows.clone()).unwrap();
    (data, rows)
}

fn agreement(central: &Central<AnyFamily, Dirichlet>, rows: &Batch, labels: &[usize]) -> f64 {
    let predictor = Predictor::new(&central.snapshot());
    let mut table = Contingency::default();
    rows.rows()
        .zip(labels)
        .for_each(|(row, label)| table.add(predictor.label(row).unwrap().0, *label as i64));
    table.adjusted_rand().unwrap()
}

#[test]
fn every_family_keeps_its_mass_and_its_invariants() {
    for name in ALL_FAMILIES {
        for prior in [PriorChoice::Given, PriorChoice::Estimated] {
            let Model { family, rows } = model(name, 5, 400, 4);
            let snapshot = fitted(family, &rows, prior).snapshot();
            assert_snapshot_invariants(&snapshot);
            assert!((snapshot.expected_mass() - 400.0).abs() < 400.0 * ROUNDING, "{name}");
        }
    }
}

#[test]
fn an_estimated_prior_makes_the_components_more_probable() {
    for name in ALL_FAMILIES {
        let Model { family, rows } = model(name, 8, 600, 6);
        let snapshot = fitted(family.clone(), &rows, PriorChoice::Given).snapshot();
        let components: Vec<&[f64]> =
            snapshot.components().iter().map(|c| c.evidence().stats.as_slice()).collect();
        assert!(components.len() >= 2, "{name}: six clusters are not one");
        let evidence = |family: &AnyFamily| -> f64 {
            let nothing = family.log_partition(&vec![0.0; family.n_features()]);
            components.iter().map(|stats| family.log_partition(stats) - nothing).sum()
        };
        let refitted = family.refit(&components, Partition::Clusters).expect("several components can tell");
        let (before, after) = (evidence(&family), evidence(&refitted));
        assert!(after >= before - ROUNDING * before.abs(), "{name}: {before} → {after}");
    }
}

#[test]
fn the_clusters_of_the_paper_are_found_with_and_without_their_prior() {
    // Twenty clusters, some of which overlap: a fifth may be missing or double.
    const COUNT: std::ops::RangeInclusive<usize> = 16..=24;
    // Half of what one Gaussian too few or too many costs on such data.
    const BELOW_THE_TRUTH: f64 = 0.1;
    let (data, rows) = paper_rows(2, 4000, 20);
    let truth: f64 = rows.rows().map(|row| data.mixture.ln_density(row)).sum::<f64>() / 4000.0;
    for prior in [PriorChoice::Given, PriorChoice::Estimated] {
        let family = match prior {
            PriorChoice::Estimated => Gaussian::from_rows(&rows).unwrap(),
            PriorChoice::Given => {
                let psi = anabranch::family::NormalInverseWishart::with_diagonal_psi(
                    vec![0.0; 2],
                    1e-3,
                    &[1.0; 2],
                    4.0,
                );
                let frame = anabranch::family::Frame::from_rows(&rows).unwrap();
                Gaussian::with_prior_in_data_units(frame, psi).unwrap()
            }
        };
        let central = fitted(family.into(), &rows, prior);
        let snapshot = central.snapshot();
        assert!(COUNT.contains(&snapshot.components().len()), "{prior:?}: {}", snapshot.components().len());
        let found = Predictor::new(&snapshot).mean_ln_density(&rows).unwrap();
        assert!(found > truth - BELOW_THE_TRUTH, "{prior:?}: {found} against {truth}");
    }
}

#[test]
fn units_do_not_matter_when_the_prior_is_estimated() {
    // The same arithmetic on shifted and scaled numbers rounds differently: a row on a border may change sides.
    const ALL_BUT_A_FEW_ROWS: f64 = 0.99;
    let (_, rows) = paper_rows(4, 2000, 12);
    let moved = rows.rows().flat_map(|row| [1e6 + 1000.0 * row[0], -3.0 + 0.01 * row[1]]).collect();
    let moved = Batch::new(2, moved).unwrap();
    let one = fitted(Gaussian::from_rows(&rows).unwrap().into(), &rows, PriorChoice::Estimated);
    let other = fitted(Gaussian::from_rows(&moved).unwrap().into(), &moved, PriorChoice::Estimated);
    let predictor = Predictor::new(&one.snapshot());
    let labels: Vec<usize> = rows.rows().map(|row| predictor.label(row).unwrap().0 as usize).collect();
    assert!(agreement(&other, &moved, &labels) > ALL_BUT_A_FEW_ROWS);
}

/// Rows of round clusters in four dimensions, and the same rows turned: by 30° in three planes that meet.
fn rows_and_the_same_turned() -> (Batch, Batch) {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(12);
    let mut normal = || -> f64 { StandardNormal.sample(rng) };
    let centres: Vec<[f64; 4]> = (0..9).map(|_| std::array::from_fn(|_| 4.0 * normal())).collect();
    let row = |ix: usize| centres[ix % 9].map(|centre| centre + normal());
    let rows: Vec<[f64; 4]> = (0..2700).map(row).collect();
    let (sin, cos) = 30_f64.to_radians().sin_cos();
    let turned = |row: &[f64; 4]| {
        [(0, 1), (1, 2), (2, 3)].iter().fold(*row, |mut row, (a, b)| {
            (row[*a], row[*b]) = (cos * row[*a] - sin * row[*b], sin * row[*a] + cos * row[*b]);
            row
        })
    };
    let turned: Vec<[f64; 4]> = rows.iter().map(turned).collect();
    (Batch::new(4, rows.concat()).unwrap(), Batch::new(4, turned.concat()).unwrap())
}

#[test]
fn directions_do_not_matter_when_the_prior_is_estimated() {
    // Other roundings, and seeds drawn in other coordinates: clusters are the same, their borders nearly.
    const ALL_BUT_A_FEW_ROWS: f64 = 0.99;
    const NATS: f64 = 0.005;
    let (rows, turned) = rows_and_the_same_turned();
    let one = fitted(Gaussian::from_rows(&rows).unwrap().into(), &rows, PriorChoice::Estimated);
    let other = fitted(Gaussian::from_rows(&turned).unwrap().into(), &turned, PriorChoice::Estimated);
    let predictor = Predictor::new(&one.snapshot());
    let labels: Vec<usize> = rows.rows().map(|row| predictor.label(row).unwrap().0 as usize).collect();
    assert!(agreement(&other, &turned, &labels) > ALL_BUT_A_FEW_ROWS);
    let before = predictor.mean_ln_density(&rows).unwrap();
    let after = Predictor::new(&other.snapshot()).mean_ln_density(&turned).unwrap();
    assert!((before - after).abs() < NATS, "{before} {after}");
}

#[test]
fn an_estimated_prior_is_a_journal_entry_and_a_given_one_is_not() {
    let (_, rows) = paper_rows(6, 500, 5);
    let family: AnyFamily = Gaussian::from_rows(&rows).unwrap().into();
    let given = fitted(family.clone(), &rows, PriorChoice::Given).snapshot();
    // One entry absorbs the rows, and one sets them aside to be looked at again.
    assert_eq!((given.version(), given.family()), (2, &family));
    let estimated = fitted(family.clone(), &rows, PriorChoice::Estimated).snapshot();
    assert_eq!(estimated.version(), 3);
    assert_ne!(estimated.family(), &family);
}

#[test]
fn rows_without_weight_count_for_nothing_in_the_first_minibatch() {
    // None of its rows has weight, or only those behind the ones that the first stages look at.
    for (name, weighty) in ALL_FAMILIES.into_iter().map(|name| (name, 0)).chain([("gaussian", 200)]) {
        let Model { family, rows } = model(name, 5, 900, 4);
        let first = if weighty > 0 { model(name, 6, 6000, 4).rows } else { rows.head(300) };
        let weights = (0..first.n_rows()).map(|row| f64::from(u8::from(row + weighty >= first.n_rows())));
        let empty = first.clone().with_weights(weights.collect()).unwrap();
        let central = Central::new(family, process());
        let config = Config { seed: 3, bootstrap_rows: first.n_rows(), ..Config::default() };
        let mut source = Numbered::in_order(&[empty, rows.clone()]);
        let mut watch = |_: &Event, central: &Central<AnyFamily, Dirichlet>| {
            let snapshot = central.snapshot();
            let (mass, counted) = (snapshot.mass(), snapshot.expected_mass());
            assert!((mass - counted).abs() <= ROUNDING * mass, "{name}: {counted} of {mass}");
            Flow::Continue
        };
        engine::bootstrap(&central, &mut source, &config, &mut watch).unwrap();
        engine::run(&central, &mut source, &config, &mut watch).unwrap();
        engine::finish(&central, &config);
        let snapshot = central.snapshot();
        assert_snapshot_invariants(&snapshot);
        let all = 900.0 + weighty as f64;
        assert!((snapshot.mass() - all).abs() < all * ROUNDING, "{name}");
        assert!((snapshot.expected_mass() - all).abs() < all * ROUNDING, "{name}");
    }
}

#[test]
fn copies_of_rows_count_each() {
    let Model { family, rows } = model("gaussian", 5, 150, 3);
    let copies = Batch::new(rows.dimensions(), rows.values().repeat(4)).unwrap();
    let central = Central::new(family, process());
    let config = Config { seed: 3, bootstrap_rows: 600, ..Config::default() };
    engine::bootstrap(&central, &mut Numbered::in_order(&[copies]), &config, &mut ()).unwrap();
    let snapshot = central.snapshot();
    assert_snapshot_invariants(&snapshot);
    let [mass, counted] = [snapshot.mass(), snapshot.expected_mass()].map(|mass| (mass - 600.0).abs());
    assert!(mass < 600.0 * ROUNDING && counted < 600.0 * ROUNDING, "{mass}, {counted}");
}

#[test]
fn one_row_or_one_value_makes_one_component() {
    for rows in [Batch::new(2, vec![3.0, 4.0]).unwrap(), Batch::new(2, [3.0, 4.0].repeat(300)).unwrap()] {
        let family = Gaussian::from_rows(&rows).unwrap().into();
        let snapshot = fitted(family, &rows, PriorChoice::Estimated).snapshot();
        assert_eq!(snapshot.components().len(), 1);
    }
}

#[test]
fn a_cluster_is_not_kept_in_pieces() {
    // Far-out rows may stand alone; a cluster in pieces would make dozens.
    for (k, most) in [(1, 3), (3, 6)] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
        let row = |ix: usize| {
            let centre = 10.0 * (ix % k) as f64;
            let noise: [f64; 2] = std::array::from_fn(|_| StandardNormal.sample(&mut rng));
            [centre + noise[0], noise[1] - centre]
        };
        let rows = Batch::new(2, (0..5000).flat_map(row).collect()).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap().into();
        let n = fitted(family, &rows, PriorChoice::Estimated).snapshot().components().len();
        assert!((k..=most).contains(&n), "{n} components for {k} clusters");
    }
}
