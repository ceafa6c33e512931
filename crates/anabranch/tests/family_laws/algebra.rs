//! Laws of the log-partition function: predictive ratios, gradients, sums of increments.

use anabranch::family::{
    AnyFamily, Categorical, Conjugate, Diagonal, Family, Frame, Gaussian, NormalGamma, NormalInverseWishart,
};

use crate::cases::{self, cases, features_of, stats_of};

/// Roundings of differences of numbers near 100.
const ROUNDING: f64 = 1e-11;
/// A fourth-order difference quotient with steps near 1e-3: truncation `h⁴` and rounding `ε·A/h`.
const DIFFERENCE_QUOTIENT: f64 = 2e-9;

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

#[test]
fn the_first_feature_is_one_and_every_feature_is_written() {
    for case in cases() {
        for row in &case.rows {
            let features = features_of(&case.family, row);
            assert_eq!(features[0], 1.0, "{}", case.name);
            assert!(features.iter().all(|f| f.is_finite()), "{}", case.name);
        }
    }
}

#[test]
fn the_predictive_is_the_ratio_of_partition_functions() {
    for case in cases() {
        for stats in [vec![0.0; case.family.n_features()], case.weighted_stats()] {
            let predictive = case.family.predictive(&stats);
            let before = case.family.log_partition(&stats);
            for row in &case.rows {
                let after = case.family.log_partition(&sum(&stats, &features_of(&case.family, row)));
                let ratio = after - before + case.family.ln_base(row);
                let density = predictive.ln_density(row);
                assert!(
                    (density - ratio).abs() < ROUNDING * (1.0 + before.abs()),
                    "{}: {density} {ratio}",
                    case.name
                );
            }
        }
    }
}

/// `(−A(+2h) + 8A(+h) − 8A(−h) + A(−2h)) / 12h`.
fn slope(family: &AnyFamily, stats: &[f64], entry: usize) -> f64 {
    let h = 1e-3 * (1.0 + 0.1 * stats[entry].abs());
    let at = |steps: f64| {
        let mut moved = stats.to_vec();
        moved[entry] += steps * h;
        family.log_partition(&moved)
    };
    (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * h)
}

#[test]
fn the_gradient_of_the_partition_function_is_the_expected_natural_parameter() {
    for case in cases() {
        let stats = case.weighted_stats();
        let mut phi = vec![f64::NAN; stats.len()];
        let returned = case.family.expected_natural(&stats, &mut phi);
        let ln_partition = case.family.log_partition(&stats);
        assert!((returned - ln_partition).abs() < ROUNDING * (1.0 + ln_partition.abs()), "{}", case.name);
        for (entry, expected) in phi.iter().enumerate() {
            let found = slope(&case.family, &stats, entry);
            let error = (found - expected).abs() / (1.0 + expected.abs());
            assert!(error < DIFFERENCE_QUOTIENT, "{}, entry {entry}: slope {found}, φ {expected}", case.name);
        }
    }
}

#[test]
fn expected_log_likelihood_is_below_the_predictive() {
    // Jensen: E log p(x|θ) ≤ log E p(x|θ), and they approach each other as the posterior narrows.
    for case in cases() {
        let narrow: Vec<f64> = case.weighted_stats().iter().map(|s| 1e6 * s).collect();
        for (stats, gap) in [(case.weighted_stats(), f64::INFINITY), (narrow, 1e-4)] {
            let mut phi = vec![0.0; stats.len()];
            case.family.expected_natural(&stats, &mut phi);
            let predictive = case.family.predictive(&stats);
            for row in &case.rows {
                let features = features_of(&case.family, row);
                let expected =
                    phi.iter().zip(&features).map(|(p, f)| p * f).sum::<f64>() + case.family.ln_base(row);
                let difference = predictive.ln_density(row) - expected;
                assert!(difference > -1e-9 && difference < gap, "{}: {difference}", case.name);
            }
        }
    }
}

#[test]
fn increments_commute_and_add() {
    for case in cases() {
        let (first, second) = case.rows.split_at(case.rows.len() / 2);
        let weights = vec![1.0; case.rows.len()];
        let a = stats_of(&case.family, first, &weights);
        let b = stats_of(&case.family, second, &weights);
        assert_eq!(sum(&a, &b), sum(&b, &a));
        let together = case.family.log_partition(&stats_of(&case.family, &case.rows, &weights));
        let merged = case.family.log_partition(&sum(&b, &a));
        assert!((together - merged).abs() < ROUNDING * (1.0 + together.abs()), "{}", case.name);
        // One row after another: the product of predictives is the marginal likelihood.
        let mut stats = vec![0.0; a.len()];
        let mut chained = case.family.log_partition(&stats);
        for row in &case.rows {
            chained += case.family.predictive(&stats).ln_density(row) - case.family.ln_base(row);
            stats = sum(&stats, &features_of(&case.family, row));
        }
        assert!((together - chained).abs() < ROUNDING * (1.0 + together.abs()), "{}", case.name);
    }
}

#[test]
fn seed_distance_is_a_squared_distance() {
    for case in cases() {
        for x in &case.rows {
            assert_eq!(case.family.seed_distance(x, x), 0.0, "{}", case.name);
            for y in &case.rows {
                let there = case.family.seed_distance(x, y);
                let back = case.family.seed_distance(y, x);
                assert!(there >= 0.0 && there.is_finite(), "{}", case.name);
                assert!((there - back).abs() <= ROUNDING * there, "{}", case.name);
            }
        }
    }
}

#[test]
fn codes_beyond_the_last_category_count_as_other() {
    let family = Categorical::new(vec![vec![1.0, 1.0, 0.5]]).unwrap();
    let other = features_of(&family, &[2.0]);
    assert_eq!(other, [1.0, 0.0, 0.0, 1.0]);
    let predictive = family.predictive(&[0.0; 4]);
    for code in [3.0, 4.0, 1e15] {
        assert_eq!(features_of(&family, &[code]), other);
        assert_eq!(predictive.ln_density(&[code]), predictive.ln_density(&[2.0]));
        assert_eq!(family.seed_distance(&[code], &[2.0]), 0.0);
    }
}

#[test]
fn seed_distances_are_those_of_each_family_s_geometry() {
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < ROUNDING, "{found} {expected}");
    // The frame of three columns scales by 0.8, 1.15, 1.5.
    // The prior expects variances of 1 and 4.
    let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; 2], 1.0, &[5.0, 20.0], 5.0);
    let gaussian = Gaussian::new(Frame::identity(2), prior).unwrap();
    close(gaussian.seed_distance(&[2.0, 2.0], &[0.0; 2]), 4.0 + 1.0);
    close(cases::spherical(2).seed_distance(&[1.7, 0.0], &[0.0, 1.7]), 2.0);
    close(cases::bernoulli(3).seed_distance(&[1.0, 0.0, 1.0], &[0.0, 0.0, 0.0]), 2.0);
    close(cases::poisson(2).seed_distance(&[9.0, 4.0], &[4.0, 4.0]), 1.0);
    // Proportions, so the length of a row does not matter; disjoint rows are at distance 1.
    let words = cases::multinomial(2);
    close(words.seed_distance(&[1.0, 1.0], &[5.0, 5.0]), 0.0);
    close(words.seed_distance(&[1.0, 0.0], &[0.0, 7.0]), 1.0);
    close(words.seed_distance(&[0.0, 0.0], &[0.0, 7.0]), 0.5);
}

#[test]
fn sums_of_rows_are_possible_and_those_of_a_cluster_without_width_are_not() {
    for case in cases() {
        let stats = case.weighted_stats();
        assert!(case.family.is_possible(&stats), "{}", case.name);
        assert!(case.family.is_possible(&vec![0.0; stats.len()]), "{}", case.name);
        assert!(case.family.is_possible(&features_of(&case.family, &case.rows[0])), "{}: one row", case.name);
        assert!(!case.family.is_possible(&vec![f64::NAN; stats.len()]), "{}", case.name);
    }
    // Two rows at 3 and −3 have squares of 18; a prior that expects a scatter of 2 makes up for 1 of them.
    let frame = || Frame::identity(1);
    let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0], 1.0, &[2.0], 3.0);
    let gaussian = Gaussian::new(frame(), prior).unwrap();
    let gamma = NormalGamma { mean: 0.0, kappa: 1.0, a: 2.0, b: 1.0 };
    let diagonal = Diagonal::new(frame(), vec![gamma]).unwrap();
    for family in [AnyFamily::from(gaussian), AnyFamily::from(diagonal)] {
        assert!(family.is_possible(&[2.0, 0.0, 18.0]) && family.is_possible(&[2.0, 0.0, -0.99]));
        assert!(!family.is_possible(&[2.0, 0.0, -1.01]));
        assert!(family.is_possible(&[2.0, 6.0, 17.01]) && !family.is_possible(&[2.0, 6.0, 16.99]));
    }
}
