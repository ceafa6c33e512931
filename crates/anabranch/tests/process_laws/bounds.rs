//! BOUND: the bound lies below the exact expectation, and meets it for certain labels. (Dirichlet: `dirichlet_bound.rs`.)

use anabranch::process::{Beta, LabelStatistics, PitmanYor, Population, Process};
use anabranch_testkit::expectation::by_enumeration;
use anabranch_testkit::partitions::{counts, ln_density_beta, ln_eppf_pitman_yor, set_partitions};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use crate::cases::{BOUNDS, PITMAN_YOR, ROUNDING, assert_close, label_matrices, statistics};

#[test]
fn pitman_yor_bounds_are_below_the_exact_expectation_whatever_tangent_is_taken() {
    for pi in label_matrices(150, 6) {
        let components = statistics(&pi);
        let n = pi.len() as f64;
        for (alpha, discount) in PITMAN_YOR {
            let exact = by_enumeration(&pi, |counts| ln_eppf_pitman_yor(counts, alpha, discount));
            for bound in BOUNDS {
                let process = PitmanYor::new(alpha, discount, bound).unwrap();
                let best = process.bound(&components, n);
                for touching in 1..=6 {
                    let all = Population { observations: n, occupied: f64::from(touching) };
                    let scores: f64 = components.iter().map(|stats| process.score(stats, all)).sum();
                    let value = process.normaliser(all) + scores;
                    assert!(value <= exact + ROUNDING, "{bound:?} ({alpha}, {discount}): {value} > {exact}");
                    assert!(value <= best + ROUNDING, "the tangent at {touching} beats that of the bound");
                }
            }
        }
    }
}

#[test]
fn for_a_given_partition_the_pitman_yor_bound_is_its_log_probability() {
    for (alpha, discount) in PITMAN_YOR {
        for z in set_partitions(6) {
            let exact = ln_eppf_pitman_yor(&counts(&z, 6), alpha, discount);
            let mut components = vec![LabelStatistics::default(); 6];
            z.iter().for_each(|block| components[*block].observe(1.0, 1.0));
            // The published term joins sizes 0 and 2 by a chord: at 1 it is exact only without a discount.
            let conditional = PitmanYor::new(alpha, discount, BOUNDS[1]).unwrap();
            assert!((conditional.bound(&components, 6.0) - exact).abs() < ROUNDING, "{z:?}");
            let paper = PitmanYor::new(alpha, discount, BOUNDS[0]).unwrap().bound(&components, 6.0);
            assert!(paper <= exact + ROUNDING && (discount > 0.0 || paper >= exact - ROUNDING), "{z:?}");
        }
    }
}

#[test]
fn conditioning_on_occupancy_never_loosens_a_pitman_yor_bound() {
    for pi in label_matrices(300, 7) {
        let components = statistics(&pi);
        for (alpha, discount) in PITMAN_YOR {
            let of =
                |bound| PitmanYor::new(alpha, discount, bound).unwrap().bound(&components, pi.len() as f64);
            assert!(of(BOUNDS[1]) >= of(BOUNDS[0]) - ROUNDING, "({alpha}, {discount}) {pi:?}");
        }
    }
}

#[derive(Deserialize)]
struct PitmanYorVector {
    alpha: f64,
    discount: f64,
    pi: Vec<Vec<f64>>,
    exact: f64,
    bound_paper: f64,
    bound_cond: f64,
    touching: u64,
    existing_mass: Vec<f64>,
    new_mass: f64,
}

#[test]
fn pitman_yor_bounds_and_masses_equal_the_test_vectors() {
    let vectors: Vec<PitmanYorVector> = serde_json::from_str(include_str!("../data/py.json")).unwrap();
    assert_eq!(vectors.len(), 12);
    for v in vectors {
        let components = statistics(&v.pi);
        let n = v.pi.len() as f64;
        let [paper, conditional] = BOUNDS.map(|bound| PitmanYor::new(v.alpha, v.discount, bound).unwrap());
        assert_close("paper", paper.bound(&components, n), v.bound_paper);
        assert_close("conditional", conditional.bound(&components, n), v.bound_cond);
        assert!(v.bound_cond <= v.exact + ROUNDING);
        assert_eq!(Population::of(&components, n).occupied.floor().max(1.0) as u64, v.touching);
        for (stats, mass) in components.iter().zip(&v.existing_mass) {
            assert_close("existing mass", paper.existing_mass(stats), *mass);
        }
        assert_close("new mass", paper.new_mass(components.iter()), v.new_mass);
        let total: f64 = components.iter().map(|stats| paper.existing_mass(stats)).sum();
        assert_close("all masses", total + paper.new_mass(components.iter()), n + v.alpha);
    }
}

/// Exact `E[log p(Z)]` by trying all columns of each feature: features are independent given their probabilities.
fn exact_beta(pi: &[Vec<f64>], alpha: f64, c: f64) -> f64 {
    let n = pi.len();
    let nobody = ln_density_beta(&[], n, alpha, c);
    let of = |feature: usize| -> f64 {
        (0..1_usize << n)
            .map(|bits| {
                let column: Vec<bool> = (0..n).map(|row| bits >> row & 1 == 1).collect();
                let probability: f64 = column
                    .iter()
                    .zip(pi)
                    .map(|(has, row)| if *has { row[feature] } else { 1.0 - row[feature] })
                    .product();
                if probability == 0.0 {
                    return 0.0;
                }
                probability * (ln_density_beta(std::slice::from_ref(&column), n, alpha, c) - nobody)
            })
            .sum()
    };
    nobody + (0..pi[0].len()).map(of).sum::<f64>()
}

/// Probabilities of features, from hard to soft, with some that are certain.
fn feature_matrices(n_cases: usize) -> impl Iterator<Item = Vec<Vec<f64>>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    (0..n_cases).map(move |case| {
        let (n, k) = (rng.random_range(1..=8), rng.random_range(1..=3));
        let power = [0.1, 1.0, 6.0][case % 3];
        let mut cell = || {
            let value: f64 = rng.random();
            if value > 0.9 { 1.0 } else { value.powf(power) }
        };
        (0..n).map(|_| (0..k).map(|_| cell()).collect()).collect()
    })
}

#[test]
fn beta_bounds_are_below_the_exact_expectation_and_meet_it_for_certain_features() {
    for (case, pi) in feature_matrices(300).enumerate() {
        let (alpha, c) = ([0.2, 1.0, 9.0][case % 3], [0.3, 1.0, 4.0][case / 3 % 3]);
        let n = pi.len() as f64;
        let hard: Vec<Vec<f64>> = pi.iter().map(|row| row.iter().map(|p| p.round()).collect()).collect();
        let values = BOUNDS.map(|bound| {
            let process = Beta::new(alpha, c, bound).unwrap();
            let value = process.bound(&statistics(&pi), n);
            let exact = exact_beta(&pi, alpha, c);
            assert!(value <= exact + ROUNDING, "{bound:?} ({alpha}, {c}): {value} > {exact} for {pi:?}");
            let certain = process.bound(&statistics(&hard), n) - exact_beta(&hard, alpha, c);
            assert!(certain.abs() < ROUNDING, "{bound:?}: off by {certain} for {hard:?}");
            value
        });
        assert!(values[1] >= values[0] - ROUNDING, "conditioning loosened the bound");
    }
}

#[derive(Deserialize)]
struct BetaVector {
    alpha: f64,
    concentration: f64,
    pi: Vec<Vec<f64>>,
    exact: f64,
    bound_cond: f64,
    bound_hull: f64,
    normaliser: f64,
}

#[test]
fn beta_bounds_equal_the_test_vectors() {
    let vectors: Vec<BetaVector> = serde_json::from_str(include_str!("../data/ibp.json")).unwrap();
    assert_eq!(vectors.len(), 12);
    for v in vectors {
        let components = statistics(&v.pi);
        let n = v.pi.len() as f64;
        let [paper, conditional] = BOUNDS.map(|bound| Beta::new(v.alpha, v.concentration, bound).unwrap());
        assert_close("normaliser", paper.normaliser(Population::of(&components, n)), v.normaliser);
        assert_close("hull", paper.bound(&components, n), v.bound_hull);
        assert_close("conditional", conditional.bound(&components, n), v.bound_cond);
        assert!(v.bound_cond <= v.exact + ROUNDING);
    }
}
