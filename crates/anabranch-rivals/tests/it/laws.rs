//! What holds for every algorithm and every family.

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{Event, Flow};
use anabranch::family::{AnyFamily, Frame, Gaussian, NormalInverseWishart};
use anabranch::posterior::Predictor;
use anabranch::process::Dirichlet;
use anabranch_rivals::{Algorithm, Config, FitError, fit};
use anabranch_testkit::streams::separated;

use crate::support::{FAMILIES, model, process, quiet};

/// Sums of a few hundred responsibilities, each rounded to 1e-16.
const MASS_ROUNDING: f64 = 1e-9;

fn small() -> Config {
    Config { truncation: 12, batch_size: 40, iterations: Some(6), seed: 3, ..Config::default() }
}

#[test]
fn every_row_is_in_the_model_once_whatever_the_family() {
    for name in FAMILIES {
        for algorithm in Algorithm::ALL {
            let (family, rows) = model(name, 5, 210, 4);
            let fitted = quiet(algorithm, &rows, family, 1.0, &small());
            let posterior = fitted.fold.posterior();
            assert_eq!(posterior.mass(), 210.0, "{name} {algorithm:?}");
            assert!(
                (posterior.expected_mass() - 210.0).abs() < 210.0 * MASS_ROUNDING,
                "{name} {algorithm:?}"
            );
            let density = Predictor::new(posterior).mean_ln_density(&rows).unwrap();
            assert!(density.is_finite(), "{name} {algorithm:?}");
        }
    }
}

#[test]
fn the_seed_fixes_the_result_on_any_number_of_threads() {
    // Enough rows that threads have something to share.
    let (family, rows) = model("gaussian", 2, 3000, 5);
    for algorithm in Algorithm::ALL {
        let of = |threads: usize, seed: u64| {
            let config = Config {
                threads,
                seed,
                truncation: 10,
                batch_size: 600,
                iterations: Some(3),
                ..Config::default()
            };
            let fitted = quiet(algorithm, &rows, family.clone(), 1.0, &config);
            let components = fitted.fold.posterior().components().iter();
            components.map(|c| c.evidence().stats.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(1, 7), of(3, 7), "{algorithm:?}");
        // The sequential one has nothing random in it.
        assert_eq!(of(1, 7) == of(1, 8), algorithm == Algorithm::Sva, "{algorithm:?}");
    }
}

#[test]
fn an_observer_that_asks_to_stop_gets_a_model_of_all_that_was_learned() {
    for algorithm in Algorithm::ALL {
        let (family, rows) = model("gaussian", 4, 500, 4);
        let mut events = 0;
        let mut stop_at_once = |event: &Event, central: &Central<AnyFamily, Dirichlet>| {
            events += 1;
            assert_eq!(event.components, central.snapshot().components().len());
            Flow::Stop
        };
        let config = Config { iterations: Some(1000), ..small() };
        let fitted = fit(algorithm, &rows, family, process(1.0), &config, &mut stop_at_once).unwrap();
        assert!(events <= 2, "{algorithm:?}: {events} events");
        let posterior = fitted.fold.posterior();
        let expected = if algorithm == Algorithm::Sva { 40.0 } else { 500.0 };
        assert!((posterior.expected_mass() - expected).abs() < 1e-6, "{algorithm:?}");
    }
}

#[test]
fn events_count_the_steps_and_end_with_the_model() {
    for algorithm in Algorithm::ALL {
        let (family, rows) = model("gaussian", 4, 300, 4);
        let mut steps = Vec::new();
        let mut watch = |event: &Event, _: &Central<AnyFamily, Dirichlet>| {
            steps.push(event.batch.0);
            Flow::Continue
        };
        let fitted = fit(algorithm, &rows, family, process(1.0), &small(), &mut watch).unwrap();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{algorithm:?} {steps:?}");
        assert!(fitted.fold.absorbed().len() > *steps.last().unwrap(), "{algorithm:?}");
    }
}

#[test]
fn clusters_far_apart_are_told_apart_by_all() {
    const CLUSTERS: usize = 6;
    let rows = Batch::new(2, separated(11, CLUSTERS, 80, 2, 30.0)).unwrap();
    // In the order of a stream, not cluster by cluster.
    let order = (0..rows.n_rows()).map(|ix| (ix % CLUSTERS) * 80 + ix / CLUSTERS);
    let mixed = Batch::new(2, order.flat_map(|ix| rows.row(ix)).copied().collect()).unwrap();
    for algorithm in Algorithm::ALL {
        let config = Config { truncation: 40, batch_size: 48, ..Config::default() };
        // Clusters of about this size are expected: after its first row a component does not take rows from afar.
        let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; 2], 1e-3, &[17.0, 17.0], 20.0);
        let frame = Frame::from_rows(&mixed).unwrap();
        let family = Gaussian::with_prior_in_data_units(frame, prior).unwrap().into();
        let fitted = quiet(algorithm, &mixed, family, 1.0, &config);
        let predictor = Predictor::new(fitted.fold.posterior());
        let label = |ix: usize| predictor.label(rows.row(ix)).unwrap();
        for cluster in 0..CLUSTERS {
            let other = (cluster + 1) % CLUSTERS;
            let shared = (0..80).filter(|ix| label(cluster * 80 + ix) == label(other * 80)).count();
            assert_eq!(shared, 0, "{algorithm:?}: clusters {cluster} and {other} share a component");
        }
    }
}

#[test]
fn what_cannot_be_learned_from_is_refused() {
    let (family, rows) = model("gaussian", 4, 30, 2);
    let refused = |rows: &Batch, config: &Config| {
        fit(Algorithm::Batch, rows, family.clone(), process(1.0), config, &mut ()).unwrap_err()
    };
    assert_eq!(refused(&Batch::new(2, vec![]).unwrap(), &small()), FitError::NoRows);
    assert_eq!(refused(&rows, &Config { truncation: 0, ..small() }), FitError::Zero("the truncation"));
    let weighted = rows.clone().with_weights(vec![2.0; 30]).unwrap();
    assert_eq!(refused(&weighted, &small()), FitError::Weighted);
}

#[test]
fn a_single_row_is_enough() {
    for algorithm in Algorithm::ALL {
        let (family, rows) = model("gaussian", 4, 1, 1);
        let fitted = quiet(algorithm, &rows, family, 1.0, &small());
        assert!((fitted.fold.posterior().expected_mass() - 1.0).abs() < MASS_ROUNDING, "{algorithm:?}");
    }
}
