//! ELBO: the objective of a minibatch never falls, and what leaves the worker is one consistent state of all its rows,
//! for every family, with births, weights and known components, on awkward data.

mod support;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, Central};
use anabranch::family::{AnyFamily, Conjugate, Family};
use anabranch::identify::Identification;
use anabranch::infer::{Increment, InferenceReport, Settings, Workspace, infer};
use anabranch::posterior::{Evidence, Posterior};
use anabranch::process::Dirichlet;
use anabranch_testkit::streams::{Columns, separated};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use support::{ALL_FAMILIES, MASS_ROUNDING, Model, cut, default_family, model, process, rows_of};

/// The objective is a sum of a few hundred terms, each about as large as itself.
const OBJECTIVE_ROUNDING: f64 = 1e-11;
/// A dot product of a few hundred entries in another order than a plain sum.
const SUM_ROUNDING: f64 = 1e-10;

type Snapshot = Posterior<AnyFamily, Dirichlet>;

fn settings() -> Settings {
    // No tolerance: every iteration that rounding allows is taken and checked.
    Settings { absolute_tolerance: 0.0, relative_tolerance: 0.0, max_iterations: 25, ..Settings::default() }
}

fn learn(snapshot: &Snapshot, batch: &Batch, settings: &Settings, seed: u64) -> (Increment, InferenceReport) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    infer(snapshot, batch, settings, &mut rng, &mut Workspace::default())
}

fn prior(family: AnyFamily) -> Snapshot {
    Posterior::prior(family, process())
}

/// The posterior after these batches.
fn trained(family: AnyFamily, batches: &[Batch]) -> Snapshot {
    let central = Central::new(family, process());
    for (ix, batch) in batches.iter().enumerate() {
        let (increment, _) = learn(&central.snapshot(), batch, &settings(), ix as u64);
        central.absorb(BatchId(ix as u64), increment, Identification::Optimal).unwrap();
    }
    (*central.snapshot()).clone()
}

fn assert_never_falls(objective: &[f64], what: &str) {
    assert!(objective.iter().all(|v| v.is_finite()), "{what}: {objective:?}");
    for pair in objective.windows(2) {
        let slack = OBJECTIVE_ROUNDING * pair[0].abs().max(1.0);
        assert!(pair[1] >= pair[0] - slack, "{what}: fell from {} to {}", pair[0], pair[1]);
    }
}

fn all_evidence(increment: &Increment) -> impl Iterator<Item = &Evidence> {
    increment.existing.iter().map(|(_, evidence)| evidence).chain(&increment.new)
}

/// One state: every component's count is that of its labels, and all of them together are exactly the rows.
fn assert_one_state(increment: &Increment, family: &AnyFamily, batch: &Batch, what: &str) {
    assert_eq!(increment.mass, batch.mass(), "{what}");
    let mass = increment.expected_mass();
    assert!(
        (mass - batch.mass()).abs() <= MASS_ROUNDING * (1.0 + mass),
        "{what}: {mass} of {}",
        batch.mass()
    );
    for evidence in all_evidence(increment) {
        let (count, labels) = (evidence.stats[0], evidence.labels.expected_count);
        assert!((count - labels).abs() <= SUM_ROUNDING * (1.0 + labels), "{what}: {count} and {labels}");
    }
    let (mut total, mut row) = (vec![0.0; family.n_features()], vec![0.0; family.n_features()]);
    let mut size = vec![1.0; family.n_features()];
    for (row_ix, x) in batch.rows().enumerate() {
        family.features(x, &mut row);
        let weight = batch.weights().map_or(1.0, |w| w[row_ix]);
        for ((total, size), value) in total.iter_mut().zip(&mut size).zip(&row) {
            *total += weight * value;
            *size += weight * value.abs();
        }
    }
    for (feature, (total, size)) in total.iter().zip(&size).enumerate() {
        let found: f64 = all_evidence(increment).map(|evidence| evidence.stats[feature]).sum();
        assert!((found - total).abs() <= SUM_ROUNDING * size, "{what}: feature {feature}: {found}, {total}");
    }
}

fn assert_lawful(snapshot: &Snapshot, batch: &Batch, settings: &Settings, what: &str) -> Increment {
    let (increment, report) = learn(snapshot, batch, settings, 17);
    assert_never_falls(&report.objective, what);
    assert_one_state(&increment, snapshot.family(), batch, what);
    increment
}

#[test]
fn the_objective_never_falls_for_any_family_with_and_without_known_components() {
    for name in ALL_FAMILIES {
        for seed in 0..4 {
            let Model { family, rows } = model(name, seed, 300, 5);
            let batches = cut(&rows, 100);
            assert_lawful(&prior(family.clone()), &batches[2], &settings(), name);
            let known = trained(family, &batches[..2]);
            assert_lawful(&known, &batches[2], &settings(), name);
        }
    }
}

#[test]
fn the_objective_never_falls_with_weights() {
    for name in ALL_FAMILIES {
        let Model { family, rows } = model(name, 9, 160, 4);
        let batches = cut(&rows, 80);
        let weights = (0..80).map(|row| [0.0, 0.1, 1.0, 30.0][row % 4]).collect();
        let weighted = batches[1].clone().with_weights(weights).unwrap();
        assert_lawful(&prior(family.clone()), &weighted, &settings(), name);
        assert_lawful(&trained(family, &batches[..1]), &weighted, &settings(), name);
    }
}

#[test]
fn whole_weights_are_repetitions() {
    let rows = rows_of(Columns::Reals, 4, 30, 3, 2);
    let snapshot = trained(default_family("gaussian", &rows), std::slice::from_ref(&rows));
    let still = Settings { max_new: 0, ..settings() };
    let weighted = rows.clone().with_weights(vec![3.0; 30]).unwrap();
    let repeated: Vec<f64> = rows.rows().flat_map(|row| [row; 3]).flatten().copied().collect();
    let (by_weight, _) = learn(&snapshot, &weighted, &still, 1);
    let (by_hand, _) = learn(&snapshot, &Batch::new(2, repeated).unwrap(), &still, 1);
    assert_eq!(by_weight.existing.len(), by_hand.existing.len());
    for ((id, a), (other, b)) in by_weight.existing.iter().zip(&by_hand.existing) {
        assert_eq!(id, other);
        for (a, b) in a.stats.iter().zip(&b.stats) {
            assert!((a - b).abs() <= 1e-7 * (1.0 + a.abs()), "{a} {b}");
        }
    }
}

#[test]
fn well_separated_clusters_are_exported_as_their_exact_sums() {
    const GAP: f64 = 1000.0;
    let rows = Batch::new(2, separated(5, 4, 25, 2, GAP)).unwrap();
    let family = default_family("gaussian", &rows);
    let (increment, _) = learn(&prior(family.clone()), &rows, &Settings { max_new: 4, ..settings() }, 2);
    assert_eq!(increment.new.len(), 4, "one component for each cluster");
    let mut found: Vec<&Evidence> = increment.new.iter().collect();
    found.sort_by(|a, b| a.stats[1].total_cmp(&b.stats[1]));
    for (cluster, evidence) in cut(&rows, 25).iter().zip(found) {
        let mut sum = vec![0.0; family.n_features()];
        for x in cluster.rows() {
            let mut row = vec![0.0; family.n_features()];
            family.features(x, &mut row);
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        for (exact, found) in sum.iter().zip(&evidence.stats) {
            assert!((exact - found).abs() <= SUM_ROUNDING * (1.0 + exact.abs()), "{exact} {found}");
        }
        assert!(evidence.labels.label_entropy < SUM_ROUNDING);
    }
}

#[test]
fn a_minibatch_with_nothing_new_opens_nothing() {
    let rows = Batch::new(2, separated(6, 3, 400, 2, 60.0)).unwrap();
    let snapshot = trained(default_family("gaussian", &rows), &[rows]);
    let more = Batch::new(2, separated(7, 3, 30, 2, 60.0)).unwrap();
    let increment = assert_lawful(&snapshot, &more, &settings(), "more of the same");
    assert_eq!(increment.new, vec![]);
    assert!(!increment.existing.is_empty());
}

#[test]
fn awkward_minibatches_are_lawful_for_every_continuous_family() {
    let awkward: [(&str, Vec<f64>); 6] = [
        ("one row", vec![3.0, -4.0, 5.0]),
        ("two rows that are alike", vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
        ("identical rows", [0.1, 0.2, 0.3].repeat(50)),
        ("duplicated rows", separated(1, 2, 5, 3, 9.0).repeat(4)),
        ("a constant column", (0..60).flat_map(|i| [f64::from(i % 7), 5.0, f64::from(i % 3)]).collect()),
        ("offset", separated(2, 3, 20, 3, 12.0).iter().map(|v| v + 1e8).collect()),
    ];
    for name in ["gaussian", "diagonal", "spherical"] {
        for (what, values) in &awkward {
            let batch = Batch::new(3, values.clone()).unwrap();
            let family = default_family(name, &batch);
            let what = format!("{name}, {what}");
            assert_lawful(&prior(family.clone()), &batch, &settings(), &what);
            assert_lawful(&trained(family, std::slice::from_ref(&batch)), &batch, &settings(), &what);
        }
    }
}

#[test]
fn an_offset_of_a_hundred_million_changes_no_cluster() {
    let near = Batch::new(2, separated(3, 3, 40, 2, 40.0)).unwrap();
    let far = Batch::new(2, near.values().iter().map(|v| v + 1e8).collect()).unwrap();
    let counts = |batch: &Batch| -> Vec<i64> {
        let (increment, _) = learn(&prior(default_family("gaussian", batch)), batch, &settings(), 3);
        let mut counts: Vec<i64> =
            increment.new.iter().map(|e| e.labels.expected_count.round() as i64).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(counts(&near), counts(&far));
}

#[test]
fn more_columns_than_rows_are_lawful() {
    let rows = rows_of(Columns::Reals, 8, 7, 2, 12);
    for name in ["gaussian", "diagonal", "spherical"] {
        let family = default_family(name, &rows);
        assert_lawful(&prior(family.clone()), &rows, &settings(), name);
        assert_lawful(&trained(family, &cut(&rows, 2)), &rows, &settings(), name);
    }
}

#[test]
fn without_births_the_rows_still_go_somewhere() {
    for name in ALL_FAMILIES {
        let Model { family, rows } = model(name, 2, 60, 3);
        for closed in [
            Settings { max_new: 0, ..settings() },
            Settings { birth_threshold: 1.0, ..settings() },
            Settings { max_iterations: 0, ..settings() },
        ] {
            let first = assert_lawful(&prior(family.clone()), &rows, &closed, name);
            assert!(!first.new.is_empty(), "{name}: the first rows need a component");
            let known = trained(family.clone(), std::slice::from_ref(&rows));
            let later = assert_lawful(&known, &rows, &closed, name);
            assert!(later.new.is_empty() || closed.max_iterations == 0, "{name}: {closed:?}");
        }
    }
}

#[test]
fn components_without_mass_do_not_swallow_the_rows() {
    // A minibatch of weight 0 may leave a component that holds nothing; the next minibatch must find a place all the same.
    let rows = rows_of(Columns::Reals, 4, 10, 2, 2);
    let weightless = rows.clone().with_weights(vec![0.0; 10]).unwrap();
    let snapshot = trained(default_family("gaussian", &rows), &[weightless.clone(), weightless]);
    assert_eq!(snapshot.components().len(), 0, "rows of weight 0 are no reason for a component");
    for max_new in [0, 5] {
        assert_lawful(&snapshot, &rows, &Settings { max_new, ..settings() }, "after nothing");
    }
}

#[test]
fn surplus_components_are_emptied_back_and_not_dropped() {
    let data = separated(11, 3, 17, 2, 6.0);
    for size in [1, 50] {
        for batch in cut(&Batch::new(2, data.clone()).unwrap(), size) {
            // A component for nearly every row is proposed, so that most of them end below one row.
            let many = Settings { max_new: 50, birth_threshold: 0.0, ..settings() };
            let snapshot = trained(default_family("gaussian", &batch), std::slice::from_ref(&batch));
            let (increment, report) = learn(&snapshot, &batch, &many, 5);
            assert_one_state(&increment, snapshot.family(), &batch, "surplus");
            assert_eq!(report.proposed - report.emptied, increment.new.len());
            assert!(increment.new.iter().all(|e| e.labels.expected_count >= 1.0 - SUM_ROUNDING));
            assert!(size == 1 || report.emptied > 0, "nothing was emptied: the test shows nothing");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_minibatches_are_lawful(
        seed in 0u64..10_000, n in 1usize..60, k in 1usize..6, family in 0usize..8, max_new in 0usize..9,
    ) {
        let Model { family, rows } = model(ALL_FAMILIES[family], seed, n, k);
        let settings = Settings { max_new, ..settings() };
        let batches = cut(&rows, n.div_ceil(2));
        let known = trained(family.clone(), &batches[..1]);
        assert_lawful(&prior(family), &rows, &settings, "prior");
        assert_lawful(&known, batches.last().unwrap(), &settings, "known");
    }
}
