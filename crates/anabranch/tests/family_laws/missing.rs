//! Missing values against brute force: sums and integrals over all that they could be.

use std::f64::consts::FRAC_PI_2;

use anabranch::family::{AnyFamily, Conjugate, Family, Gap};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cases::{Case, cases, features_of};

/// The quadrature's own error at the steps used here.
const QUADRATURE: f64 = 1e-6;

/// Values that a column can take, with the weight of each in a sum or integral.
fn values_of(family: &AnyFamily, column: usize) -> Vec<(f64, f64)> {
    let whole = |n: u32| (0..n).map(|value| (f64::from(value), 1.0)).collect();
    match family {
        AnyFamily::Bernoulli(_) => whole(2),
        AnyFamily::Categorical(family) => whole(family.pseudo_counts()[column].len() as u32),
        AnyFamily::Poisson(_) => whole(150),
        AnyFamily::Product(family) => {
            let block = family.blocks().iter().find(|block| block.columns.contains(&column)).unwrap();
            let place = block.columns.iter().position(|own| *own == column).unwrap();
            values_of(&block.family, place)
        }
        // The double-exponential rule of the line, for tails of any weight.
        _ => (-100..=100)
            .map(|k| {
                let t = f64::from(k) * 0.05;
                let inner = FRAC_PI_2 * t.sinh();
                (0.3 + inner.sinh(), 0.05 * inner.cosh() * FRAC_PI_2 * t.cosh())
            })
            .filter(|(value, weight)| value.abs() < 1e70 && weight.is_finite())
            .collect(),
    }
}

/// Calls `visit` with the row and its weight for all that the missing values could be.
fn fill(
    family: &AnyFamily,
    x: &mut [f64],
    missing: &[usize],
    weight: f64,
    visit: &mut impl FnMut(&[f64], f64),
) {
    let Some((column, rest)) = missing.split_first() else { return visit(x, weight) };
    for (value, own) in values_of(family, *column) {
        x[*column] = value;
        fill(family, x, rest, weight * own, visit);
    }
    x[*column] = f64::NAN;
}

/// Every family with every set of one or two missing columns, and all of at most two.
fn each(mut check: impl FnMut(&Case, &[f64], &[usize], &[f64])) -> usize {
    let mut checked = 0;
    for case in
        cases().iter().filter(|case| !case.name.starts_with("multinomial") && !case.name.contains('5'))
    {
        let d = case.family.dimensions();
        let pairs = (0..d).flat_map(|i| (i + 1..d).map(move |j| vec![i, j]));
        for (ix, missing) in (0..d).map(|i| vec![i]).chain(pairs).enumerate() {
            let mut x = case.rows[ix % case.rows.len()].clone();
            missing.iter().for_each(|column| x[*column] = f64::NAN);
            case.family.check(&x).unwrap();
            check(case, &case.weighted_stats(), &missing, &x);
            checked += 1;
        }
    }
    checked
}

#[test]
fn what_is_missing_is_integrated_out_exactly() {
    let checked = each(|case, stats, missing, x| {
        let family = &case.family;
        let mut phi = vec![0.0; family.n_features()];
        family.expected_natural(stats, &mut phi);
        let score = |features: &[f64]| phi.iter().zip(features).map(|(a, b)| a * b).sum::<f64>();
        let (mut total, mut expected) = (0.0, vec![0.0; phi.len()]);
        fill(family, &mut x.to_vec(), missing, 1.0, &mut |x, weight| {
            let features = features_of(family, x);
            let p = weight * (score(&features) + family.ln_base(x)).exp();
            // Far out, squares overflow where nothing is left.
            if p > 0.0 {
                total += p;
                expected.iter_mut().zip(&features).for_each(|(sum, f)| *sum += p * f);
            }
        });
        let mut table = Vec::new();
        family.missing_table(&phi, &mut table);
        let features = features_of(family, x);
        // Twice, one of them as often as half a row.
        let gap = |share: f64| Gap { features: &features, missing, share };
        let gaps = [gap(0.5), gap(1.0)];
        let mut integrals = [0.0; 2];
        family.ln_integrals(&phi, &table, &gaps, &mut integrals);
        assert_eq!(integrals[0], integrals[1]);
        let found = family.ln_base(x) + integrals[0];
        assert!((found - total.ln()).abs() < QUADRATURE, "{} {missing:?}: {found} {}", case.name, total.ln());
        // Many components side by side, of which this is one.
        let mut panel = Vec::new();
        family.missing_panel(&phi.repeat(11), &mut panel);
        let mut scores = vec![score(&features) + family.ln_base(x); 22];
        family.integrate(&panel, missing, &[&features, &features], &mut scores);
        assert!(
            scores.iter().all(|score| (score - found).abs() < 1e-10),
            "{} {missing:?}: {scores:?}",
            case.name
        );
        let mut sums = vec![0.0; phi.len()];
        let entropy = family.add_expected(&phi, &table, &gaps, &mut sums) / 1.5;
        sums.iter_mut().for_each(|sum| *sum /= 1.5);
        let known = entropy + score(&sums);
        assert!((known - integrals[0]).abs() < 1e-9, "{} {missing:?}: {known} {}", case.name, integrals[0]);
        for (ix, (found, expected)) in sums.iter().zip(&expected).enumerate() {
            let expected = expected / total;
            let off = (found - expected).abs() / (1.0 + expected.abs());
            assert!(off < QUADRATURE, "{} {missing:?} feature {ix}: {found} {expected}", case.name);
        }
    });
    assert_eq!(checked, 6 * (1 + 3 + 6) + 7 + 21);
}

#[test]
fn the_density_of_what_is_known_is_the_integral_of_the_density() {
    each(|case, stats, missing, x| {
        for stats in [stats, &vec![0.0; stats.len()]] {
            let predictive = case.family.predictive(stats);
            let mut total = 0.0;
            fill(&case.family, &mut x.to_vec(), missing, 1.0, &mut |x, weight| {
                total += weight * predictive.ln_density(x).exp();
            });
            // A prior of counts has a long tail.
            let tolerance = if stats[0] > 0.0 { QUADRATURE } else { 1e-3 };
            let found = predictive.ln_density(x);
            assert!(
                (found - total.ln()).abs() < tolerance,
                "{} {missing:?}: {found} {}",
                case.name,
                total.ln()
            );
        }
    });
}

#[test]
fn missing_values_have_the_moments_of_the_density_given_the_others() {
    each(|case, stats, missing, x| {
        let (family, predictive) = (&case.family, case.family.predictive(stats));
        let d = x.len();
        let (mut total, mut first, mut second) = (0.0, vec![0.0; d], vec![0.0; d]);
        fill(family, &mut x.to_vec(), missing, 1.0, &mut |x, weight| {
            let p = weight * predictive.ln_density(x).exp();
            // Far out, squares overflow where nothing is left.
            if p > 1e-100 {
                total += p;
                for column in missing {
                    first[*column] += p * x[*column];
                    second[*column] += p * x[*column] * x[*column];
                }
            }
        });
        let (mut mean, mut variance) = (vec![f64::NAN; d], vec![f64::NAN; d]);
        predictive.conditional(x, &mut mean, &mut variance);
        for column in 0..d {
            if !missing.contains(&column) {
                assert!(mean[column].is_nan() && variance[column].is_nan());
                continue;
            }
            let expected = first[column] / total;
            let square = second[column] / total - expected * expected;
            let off = (mean[column] - expected).abs() + (variance[column] - square).abs() / (1.0 + square);
            assert!(
                off < 1e-4,
                "{} {missing:?} {column}: {} {expected}, {} {square}",
                case.name,
                mean[column],
                variance[column]
            );
        }
    });
}

#[test]
fn drawn_values_have_the_mean_and_variance_that_are_told() {
    const DRAWS: usize = 20_000;
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(4);
    for case in
        cases().iter().filter(|case| !case.name.starts_with("multinomial") && case.family.dimensions() >= 3)
    {
        let mut x = case.rows[0].clone();
        x[0] = f64::NAN;
        x[2] = f64::NAN;
        let predictive = case.family.predictive(&case.weighted_stats());
        let d = x.len();
        let (mut mean, mut variance) = (vec![f64::NAN; d], vec![f64::NAN; d]);
        predictive.conditional(&x, &mut mean, &mut variance);
        let (mut sums, mut squares) = (vec![0.0; d], vec![0.0; d]);
        for _ in 0..DRAWS {
            let mut drawn = x.clone();
            predictive.draw_missing(&mut drawn, rng);
            assert_eq!(drawn[1], x[1]);
            for column in [0, 2] {
                sums[column] += drawn[column] / DRAWS as f64;
                squares[column] += (drawn[column] - mean[column]).powi(2) / DRAWS as f64;
            }
        }
        for column in [0, 2] {
            let error = (variance[column] / DRAWS as f64).sqrt();
            assert!((sums[column] - mean[column]).abs() < 5.0 * error, "{} {column}", case.name);
            // Fourth moments of a t of few degrees of freedom are large.
            let share = squares[column] / variance[column];
            assert!((0.85..1.2).contains(&share), "{} {column}: {share}", case.name);
        }
    }
}

#[test]
fn of_a_row_that_is_all_missing_nothing_is_said() {
    for case in cases().iter().filter(|case| !case.name.starts_with("multinomial")) {
        let x = vec![f64::NAN; case.family.dimensions()];
        assert_eq!(case.family.predictive(&case.weighted_stats()).ln_density(&x), 0.0, "{}", case.name);
        let features = features_of(&case.family, &x);
        assert!(features.iter().all(|value| value.is_finite()), "{}", case.name);
        let mut point = vec![0.0; case.family.embedding_len()];
        case.family.embed(&x, &mut point);
        assert!(point.iter().all(|value| value.is_finite()), "{}", case.name);
    }
}

#[test]
fn a_multinomial_row_is_refused_with_the_reason() {
    for case in cases().iter().filter(|case| case.name.starts_with("multinomial")) {
        let error = case.family.check(&vec![f64::NAN; case.family.dimensions()]).unwrap_err();
        assert!(error.to_string().contains("share their total"), "{error}");
    }
}
