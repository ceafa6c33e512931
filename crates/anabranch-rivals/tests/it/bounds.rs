//! The evidence lower bound: it never falls, and it is what it says it is.

use anabranch::family::{Conjugate, Family};
use anabranch_rivals::{Algorithm, Config};

use crate::support::{FAMILIES, model, quiet};

/// Rounding of a bound that is a sum of thousands of terms.
const ROUNDING: f64 = 1e-9;

fn assert_never_falls(objective: &[f64], what: &str) {
    for (step, pair) in objective.windows(2).enumerate() {
        assert!(
            pair[1] >= pair[0] - ROUNDING * pair[0].abs(),
            "{what}, step {step}: {} → {}",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn the_bound_of_batch_inference_never_falls() {
    for name in FAMILIES {
        for problem in 0..12 {
            let n = [30, 120, 400][problem as usize % 3];
            let (family, rows) = model(name, 100 + problem, n, 1 + problem as usize % 6);
            let config = Config {
                truncation: [1, 2, 7, 20][problem as usize % 4],
                iterations: Some(25),
                seed: problem,
                tolerance: 0.0,
                ..Config::default()
            };
            let alpha = [0.1, 1.0, 10.0][problem as usize % 3];
            let fitted = quiet(Algorithm::Batch, &rows, family, alpha, &config);
            assert!(fitted.objective.len() > 1 || config.truncation == 1);
            assert_never_falls(&fitted.objective, &format!("{name}, problem {problem}"));
        }
    }
}

#[test]
fn the_bound_of_memoized_inference_never_falls_from_lap_to_lap() {
    for name in FAMILIES {
        for problem in 0..4 {
            let (family, rows) = model(name, 200 + problem, 400, 2 + problem as usize);
            let config = Config {
                truncation: 16,
                batch_size: [17, 50, 130, 400][problem as usize],
                iterations: Some(9),
                seed: problem,
                tolerance: 0.0,
                ..Config::default()
            };
            let fitted = quiet(Algorithm::Movb, &rows, family, 1.0, &config);
            assert_never_falls(&fitted.objective, &format!("{name}, problem {problem}"));
        }
    }
}

/// With one component there is nothing to approximate: the bound is the log marginal likelihood.
#[test]
fn with_one_component_the_bound_is_the_evidence() {
    for name in FAMILIES {
        let (family, rows) = model(name, 7, 60, 2);
        let mut stats = vec![0.0; family.n_features()];
        let mut features = stats.clone();
        let empty = family.log_partition(&stats);
        let mut base = 0.0;
        for row in rows.rows() {
            family.features(row, &mut features);
            stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
            base += family.ln_base(row);
        }
        let evidence = family.log_partition(&stats) - empty + base;
        let config = Config { truncation: 1, iterations: Some(3), ..Config::default() };
        for algorithm in [Algorithm::Batch, Algorithm::Movb] {
            let fitted = quiet(algorithm, &rows, family.clone(), 1.0, &config);
            let bound = *fitted.objective.last().unwrap();
            assert!((bound - evidence).abs() < ROUNDING * evidence.abs(), "{name}: {bound} {evidence}");
        }
    }
}

/// The bound lies below the evidence of the truncated model, here by enumeration of all labels.
#[test]
fn the_bound_lies_below_the_exact_evidence() {
    use anabranch::math::log_sum_exp::log_sum_exp;
    use anabranch_testkit::partitions::label_vectors;
    const K: usize = 3;
    let (family, rows) = model("gaussian", 3, 7, 2);
    let f = family.n_features();
    let empty = family.log_partition(&vec![0.0; f]);
    let alpha: f64 = 1.3;
    let terms: Vec<f64> = label_vectors(7, K)
        .map(|z| {
            let mut stats = vec![vec![0.0; f]; K];
            let mut features = vec![0.0; f];
            for (row, label) in rows.rows().zip(&z) {
                family.features(row, &mut features);
                stats[*label].iter_mut().zip(&features).for_each(|(s, v)| *s += v);
            }
            let likelihood: f64 = stats.iter().map(|s| family.log_partition(s) - empty).sum();
            likelihood + ln_prior_of_labels(&z, alpha)
        })
        .collect();
    let evidence = log_sum_exp(&terms);
    let config = Config { truncation: K, iterations: Some(200), tolerance: 0.0, ..Config::default() };
    let fitted = quiet(Algorithm::Batch, &rows, family, alpha, &config);
    let bound = *fitted.objective.last().unwrap();
    assert!(bound < evidence && bound > evidence - 5.0, "{bound} {evidence}");
}

/// Labels one after another: stick by stick, with the expectations of beta variables (Pólya's urn on each stick).
fn ln_prior_of_labels(z: &[usize], alpha: f64) -> f64 {
    let (mut stopped, mut passed) = ([0.0; 3], [0.0; 3]);
    let mut ln_p = 0.0;
    for label in z {
        for stick in 0..2 {
            let total = 1.0 + alpha + stopped[stick] + passed[stick];
            if *label == stick {
                ln_p += f64::ln((1.0 + stopped[stick]) / total);
                stopped[stick] += 1.0;
                break;
            }
            ln_p += f64::ln((alpha + passed[stick]) / total);
            passed[stick] += 1.0;
        }
    }
    ln_p
}
