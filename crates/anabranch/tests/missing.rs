//! Rows with missing values: the objective still rises, every row counts once, and clusters are found with a third of the cells.

mod support;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{self, Config, Schedule};
use anabranch::family::{AnyFamily, Block, Diagonal, Family, Gaussian, Multinomial, Product};
use anabranch::infer::{Settings, Workspace, infer};
use anabranch::metric::Contingency;
use anabranch::posterior::{Posterior, Predictor};
use anabranch::process::Dirichlet;
use anabranch_testkit::streams::separated;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use support::{ALL_FAMILIES, Model, Numbered, cut, model, process};

/// The objective is a sum of a few hundred terms, each about as large as itself.
const OBJECTIVE_ROUNDING: f64 = 1e-10;

/// The rows with so large a share of their cells removed.
fn holed(rows: &Batch, share: f64, seed: u64) -> Batch {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let values =
        rows.values().iter().map(|value| if rng.random::<f64>() < share { f64::NAN } else { *value });
    Batch::with_missing(rows.dimensions(), values.collect()).unwrap()
}

/// No tolerance: every iteration that rounding allows is taken and checked.
fn to_the_end() -> Settings {
    Settings { absolute_tolerance: 0.0, relative_tolerance: 0.0, max_iterations: 25, ..Settings::default() }
}

fn families() -> impl Iterator<Item = &'static str> {
    ALL_FAMILIES.into_iter().filter(|name| *name != "multinomial")
}

#[test]
fn the_objective_never_falls_and_every_row_counts_once() {
    let settings = to_the_end();
    for name in families() {
        for seed in [1, 2, 3] {
            let Model { family, rows } = model(name, seed, 300, 4);
            let batch = holed(&rows, 0.3, seed);
            let prior: Posterior<AnyFamily, Dirichlet> = Posterior::prior(family, process());
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (increment, report) = infer(&prior, &batch, &settings, &mut rng, &mut Workspace::default());
            for pair in report.objective.windows(2) {
                let slack = OBJECTIVE_ROUNDING * pair[0].abs().max(1.0);
                assert!(pair[1] >= pair[0] - slack, "{name}: fell from {} to {}", pair[0], pair[1]);
            }
            assert!(report.objective.len() > 2, "{name}");
            assert!((increment.expected_mass() - 300.0).abs() < 1e-9, "{name}");
            for evidence in &increment.new {
                assert!((evidence.stats[0] - evidence.labels.expected_count).abs() < 1e-9, "{name}");
            }
        }
    }
}

/// The objective of minibatches that bring no new component is told by the entropy that components keep.
#[test]
fn the_whole_engine_takes_rows_with_missing_values_of_every_family() {
    for name in families() {
        let Model { family, rows } = model(name, 5, 1200, 4);
        let batches: Vec<Batch> =
            cut(&rows, 300).iter().enumerate().map(|(ix, batch)| holed(batch, 0.3, ix as u64)).collect();
        let central = Central::new(family, process());
        let config = Config {
            schedule: Schedule::Deterministic,
            workers: 2,
            seed: 3,
            bootstrap_rows: 600,
            ..Config::default()
        };
        let mut source = Numbered::in_order(&batches);
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        engine::run(&central, &mut source, &config, &mut ()).unwrap();
        engine::finish(&central, &config);
        let snapshot = central.snapshot();
        assert!((snapshot.expected_mass() - 1200.0).abs() < 1e-6, "{name}");
        assert!(snapshot.objective().is_finite(), "{name}");
        assert!(
            snapshot.components().iter().all(|c| c.evidence().stats.iter().all(|s| s.is_finite())),
            "{name}"
        );
    }
}

fn agreement(family: AnyFamily, rows: &Batch, per_cluster: usize) -> (f64, usize) {
    let central = Central::new(family, process());
    let config = Config { seed: 3, bootstrap_rows: rows.n_rows(), ..Config::default() };
    let mut source = Numbered::in_order(std::slice::from_ref(rows));
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    let predictor = Predictor::new(&central.snapshot());
    let mut table = Contingency::default();
    for (ix, label) in predictor.labels(rows, 1).into_iter().enumerate() {
        table.add(label.unwrap().0, (ix / per_cluster) as i64);
    }
    (table.adjusted_rand().unwrap(), central.snapshot().components().len())
}

#[test]
fn clusters_are_found_with_a_third_of_the_cells_missing() {
    let complete = Batch::new(4, separated(7, 3, 60, 4, 6.0)).unwrap();
    let rows = holed(&complete, 0.3, 1);
    assert!(rows.missing_cells() > 180);
    let gaussian = Gaussian::from_rows(&rows).unwrap().into();
    let diagonal = Diagonal::from_rows(&rows).unwrap().into();
    for family in [gaussian, diagonal] {
        let name = AnyFamily::name(&family);
        let (rand, components) = agreement(family, &rows, 60);
        // A row in a hundred has no cell left, and is anybody's.
        assert!(rand > 0.9 && components == 3, "{name}: {rand} {components}");
    }
}

/// Two groups of the same values, of which one lacks most of three columns and the other lacks few.
fn alike_but_for_holes(per_cluster: usize) -> Batch {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(8);
    let complete = separated(7, 1, 2 * per_cluster, 4, 6.0);
    let cell = |(ix, value): (usize, f64)| {
        let share = [0.0, if ix / 4 < per_cluster { 0.9 } else { 0.1 }][usize::from(ix % 4 > 0)];
        if rng.random::<f64>() < share { f64::NAN } else { value }
    };
    Batch::with_missing(4, complete.into_iter().enumerate().map(cell).collect()).unwrap()
}

#[test]
fn clusters_that_differ_by_what_is_missing_are_found_on_request() {
    let rows = alike_but_for_holes(400);
    for family in
        [AnyFamily::from(Gaussian::from_rows(&rows).unwrap()), Diagonal::from_rows(&rows).unwrap().into()]
    {
        let name = family.name();
        let (_, components) = agreement(family.clone(), &rows, 400);
        assert_eq!(components, 1, "{name}");
        let (rand, components) = agreement(family.with_absence(vec![0, 1, 2, 3], &rows).unwrap(), &rows, 400);
        // The majority of three columns is wrong in a row of thirty-six.
        assert!(rand > 0.8 && components == 2, "{name}: {rand} {components}");
    }
}

#[test]
fn the_objective_rises_where_absence_is_learned_too() {
    let settings = to_the_end();
    let batch = alike_but_for_holes(150);
    let family =
        AnyFamily::from(Gaussian::from_rows(&batch).unwrap()).with_absence(vec![3, 1], &batch).unwrap();
    let prior: Posterior<AnyFamily, Dirichlet> = Posterior::prior(family, process());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let (increment, report) = infer(&prior, &batch, &settings, &mut rng, &mut Workspace::default());
    for pair in report.objective.windows(2) {
        assert!(
            pair[1] >= pair[0] - OBJECTIVE_ROUNDING * pair[0].abs(),
            "fell from {} to {}",
            pair[0],
            pair[1]
        );
    }
    assert!((increment.expected_mass() - 300.0).abs() < 1e-9);
}

#[test]
fn a_product_refuses_missing_counts_of_its_multinomial_block_alone() {
    let rows = Batch::new(2, vec![1.0, 2.0, 3.0, 1.0]).unwrap();
    let block = |columns: [usize; 2], family: AnyFamily| Block { columns: columns.to_vec(), family };
    let product = Product::new(vec![
        block([0, 3], Multinomial::from_rows(&rows).unwrap().into()),
        block([1, 2], Diagonal::from_rows(&rows).unwrap().into()),
    ])
    .unwrap();
    assert!(product.check(&[1.0, f64::NAN, f64::NAN, 2.0]).is_ok());
    assert_eq!(product.check(&[1.0, 1.0, 1.0, f64::NAN]).unwrap_err().column, 3);
}
