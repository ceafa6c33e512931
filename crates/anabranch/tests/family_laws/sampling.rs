//! Samples follow the predictive, and summaries describe them.

use anabranch::family::{AnyFamily, Conjugate, DrawNatural, Family, Frame, Gaussian, NormalInverseWishart};
use anabranch_testkit::quadrature::integrate_interval;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cases::{self, cases};

const DRAWS: usize = 20_000;
/// Six standard errors of a mean of `DRAWS` draws, in standard deviations (the suite looks at about a hundred means).
const MEAN_TOLERANCE: f64 = 6.0 / 141.0;
/// Six standard errors of a variance of near-Gaussian draws, `√(2/DRAWS)` each, and 1 % for the posterior's own width.
const VARIANCE_TOLERANCE: f64 = 0.07;
/// Five standard errors of a share of `DRAWS` draws.
const SHARE_TOLERANCE: f64 = 0.018;

fn draws(family: &AnyFamily, stats: &[f64]) -> Vec<Vec<f64>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20_151_207);
    let mut row = || {
        let mut row = vec![f64::NAN; family.dimensions()];
        family.sample(stats, &mut rng, &mut row);
        row
    };
    (0..DRAWS).map(|_| row()).collect()
}

#[test]
fn samples_have_the_mean_and_spread_of_the_summary() {
    for case in cases() {
        // Many rows, so that the spread of the parameters themselves is small.
        let stats: Vec<f64> = case.weighted_stats().iter().map(|s| 50.0 * s).collect();
        let summary = case.family.summary(&stats);
        let draws = draws(&case.family, &stats);
        let mean_of = |f: &dyn Fn(&[f64]) -> f64| draws.iter().map(|row| f(row)).sum::<f64>() / DRAWS as f64;
        for row in &draws {
            case.family.check(row).expect("samples are in the domain");
        }
        for column in 0..case.family.dimensions() {
            let (expected, spread) = (summary.mean[column], summary.spread[column]);
            let mean = mean_of(&|row| row[column]);
            assert!((mean - expected).abs() <= MEAN_TOLERANCE * spread, "{}: {mean} {expected}", case.name);
            let variance = mean_of(&|row| (row[column] - expected).powi(2));
            let error = (variance - spread * spread).abs();
            assert!(
                error <= VARIANCE_TOLERANCE * spread * spread,
                "{}: {variance} {}",
                case.name,
                spread * spread
            );
        }
        let d = case.family.dimensions();
        for (ix, expected) in summary.covariance.iter().flatten().enumerate() {
            let (i, j) = (ix / d, ix % d);
            let found = mean_of(&|row| (row[i] - summary.mean[i]) * (row[j] - summary.mean[j]));
            let unit = summary.spread[i] * summary.spread[j];
            assert!((found - expected).abs() < VARIANCE_TOLERANCE * unit, "{} ({i}, {j})", case.name);
        }
    }
}

#[test]
fn categories_are_drawn_as_often_as_the_summary_says() {
    for case in cases().iter().filter(|case| matches!(case.family, AnyFamily::Categorical(_))) {
        let stats = case.weighted_stats();
        let draws = draws(&case.family, &stats);
        for (column, probabilities) in case.family.summary(&stats).probabilities.unwrap().iter().enumerate() {
            for (code, expected) in probabilities.iter().enumerate() {
                let share =
                    draws.iter().filter(|row| row[column] == code as f64).count() as f64 / DRAWS as f64;
                assert!((share - expected).abs() < SHARE_TOLERANCE, "{}", case.name);
            }
        }
    }
}

#[test]
fn samples_of_a_vague_prior_fill_boxes_as_the_predictive_density_says() {
    // Few degrees of freedom: here a wrong Bartlett decomposition shows, which many rows would hide.
    for family in [AnyFamily::from(cases::gaussian(2)), cases::diagonal(2).into(), cases::spherical(2).into()]
    {
        let stats = vec![0.0; family.n_features()];
        let predictive = family.predictive(&stats);
        let draws = draws(&family, &stats);
        for (from, to) in [(-1.0, 1.0), (0.0, 4.0), (0.5, 30.0)] {
            let expected = integrate_interval(from, to, 0.05, |x| {
                integrate_interval(from, to, 0.05, |y| predictive.ln_density(&[x, y]).exp())
            });
            let inside = |row: &&Vec<f64>| row.iter().all(|v| (from..to).contains(v));
            let share = draws.iter().filter(inside).count() as f64 / DRAWS as f64;
            assert!((share - expected).abs() < SHARE_TOLERANCE, "{}: {share} {expected}", family.name());
        }
    }
}

#[test]
fn every_column_of_a_barely_proper_wishart_draw_has_the_marginal_of_one_column() {
    // 0.3 degrees of freedom more than D − 1: χ²'s of 2.3, 1.3 and 0.3 in the wrong order would differ by column.
    let prior =
        |d: usize, dof: f64| NormalInverseWishart::with_diagonal_psi(vec![0.0; d], 1.0, &vec![1.0; d], dof);
    let three = AnyFamily::from(Gaussian::new(Frame::identity(3), prior(3, 2.3)).unwrap());
    let one = Gaussian::new(Frame::identity(1), prior(1, 0.3)).unwrap();
    let density = one.predictive(&[0.0; 3]);
    let draws = draws(&three, &vec![0.0; three.n_features()]);
    for width in [1.0, 3.0, 10.0] {
        let expected = integrate_interval(-width, width, 0.05, |x| density.ln_density(&[x]).exp());
        for column in 0..3 {
            let share = draws.iter().filter(|row| row[column].abs() < width).count() as f64 / DRAWS as f64;
            assert!((share - expected).abs() < SHARE_TOLERANCE, "column {column}: {share} {expected}");
        }
    }
}

#[test]
fn the_counts_of_a_vague_prior_are_negative_binomial() {
    let family = AnyFamily::from(cases::poisson(1));
    let predictive = family.predictive(&[0.0, 0.0]);
    let draws = draws(&family, &[0.0, 0.0]);
    for count in 0..6 {
        let count = f64::from(count);
        let share = draws.iter().filter(|row| row[0] == count).count() as f64 / DRAWS as f64;
        assert!((share - predictive.ln_density(&[count]).exp()).abs() < SHARE_TOLERANCE);
    }
}

/// The mean of the draws is the expectation that the E-step uses, and the mean of their densities is the predictive: two
/// formulas of other files.
#[test]
fn drawn_parameters_average_to_their_expectation_and_to_the_predictive_density() {
    const PARAMETER_DRAWS: usize = 4000;
    /// Seven standard errors, estimated from the draws themselves.
    const STANDARD_ERRORS: f64 = 7.0;
    for case in cases() {
        // Three times the rows: the fourth moments that the standard errors rest on are then finite.
        let stats: Vec<f64> = case.weighted_stats().iter().map(|s| 3.0 * s).collect();
        let f = case.family.n_features();
        let mut expected = vec![0.0; f];
        case.family.expected_natural(&stats, &mut expected);
        let x = case.rows[0].clone();
        let mut features = vec![0.0; f];
        case.family.features(&x, &mut features);
        let density = case.family.predictive(&stats).ln_density(&x).exp();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut phi = vec![f64::NAN; f];
        // The last entry is the density of one row.
        let (mut sums, mut squares) = (vec![0.0; f + 1], vec![0.0; f + 1]);
        for _ in 0..PARAMETER_DRAWS {
            case.family.draw_natural(&stats, &mut rng, &mut phi);
            let score: f64 = phi.iter().zip(&features).map(|(p, t)| p * t).sum();
            let drawn = phi.iter().copied().chain([(score + case.family.ln_base(&x)).exp()]);
            for ((sum, square), value) in sums.iter_mut().zip(&mut squares).zip(drawn) {
                *sum += value;
                *square += value * value;
            }
        }
        let n = PARAMETER_DRAWS as f64;
        for (ix, expected) in expected.iter().chain([&density]).enumerate() {
            let mean = sums[ix] / n;
            let error = ((squares[ix] / n - mean * mean).max(0.0) / n).sqrt();
            let rounding = 1e-9 * (1.0 + expected.abs());
            assert!(
                (mean - expected).abs() <= STANDARD_ERRORS * error + rounding,
                "{} entry {ix}: {mean} ± {error}, expected {expected}",
                case.name
            );
        }
    }
}
