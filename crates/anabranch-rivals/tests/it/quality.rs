//! Held-out likelihood on the paper's synthetic setting, small: within the band that each algorithm's users would accept.

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Frame, Gaussian, NormalInverseWishart};
use anabranch::posterior::Predictor;
use anabranch_rivals::{Algorithm, Config};
use anabranch_testkit::generators::{NormalInverseWishart as Clusters, synthetic};

use crate::support::quiet;

const CLUSTERS: usize = 20;

/// How far below the mixture that made the rows each may stay, in nats of a held-out row. A single Gaussian is more than
/// two nats below.
fn band(algorithm: Algorithm) -> f64 {
    match algorithm {
        Algorithm::Batch | Algorithm::Svi | Algorithm::Movb | Algorithm::Subcluster => 0.05,
        // One pass, nothing is taken back.
        _ => 0.20,
    }
}

#[test]
fn every_algorithm_comes_close_to_the_truth() {
    for seed in 0..2 {
        let data = synthetic(seed, 7000, CLUSTERS, &Clusters::of_the_paper());
        let of = |rows: &[f64]| Batch::new(2, rows.to_vec()).unwrap();
        let (train, test) = (of(&data.rows[..10_000]), of(&data.rows[10_000..]));
        let truth = test.rows().map(|row| data.mixture.ln_density(row)).sum::<f64>() / 2000.0;
        let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; 2], 1e-3, &[1.0, 1.0], 4.0);
        let frame = Frame::from_rows(&train).unwrap();
        let family: AnyFamily = Gaussian::with_prior_in_data_units(frame, prior).unwrap().into();
        for algorithm in Algorithm::ALL {
            let config = Config { truncation: 60, batch_size: 50, seed, ..Config::default() };
            let fitted = quiet(algorithm, &train, family.clone(), 5.0, &config);
            let found = Predictor::new(fitted.fold.posterior()).mean_ln_density(&test).unwrap();
            let k = fitted.fold.posterior().effective_components();
            println!("{algorithm:?} seed {seed}: {:+.4}, {k} components", found - truth);
            assert!(found > truth - band(algorithm), "{algorithm:?} seed {seed}: {:+.4}", found - truth);
        }
    }
}
