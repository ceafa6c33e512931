//! Predictive densities integrate, and predictive probabilities sum, to one.

use anabranch::family::{AnyFamily, Conjugate, Family, Predictive};
use anabranch_testkit::quadrature::{for_each_code_row, for_each_composition, integrate_line};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cases::{self, cases};

/// The quadrature's own error at the steps used here.
const QUADRATURE: f64 = 1e-6;
/// Roundings of a sum of probabilities.
const ROUNDING: f64 = 1e-11;
/// Five standard errors of 200 000 importance weights, whose coefficient of variation is about 1.
const MONTE_CARLO: f64 = 0.012;

/// `∫ p(x) dx` over all of 1, 2 or 3 columns.
fn integral(predictive: &dyn Predictive, dimensions: usize) -> f64 {
    fn nested(predictive: &dyn Predictive, x: &mut [f64], column: usize) -> f64 {
        let step = if x.len() < 3 { 0.05 } else { 0.1 };
        let cell = std::cell::RefCell::new(x);
        integrate_line(0.2, 1.5, step, |value| {
            let mut x = cell.borrow_mut();
            x[column] = value;
            if column + 1 == x.len() {
                predictive.ln_density(&x).exp()
            } else {
                nested(predictive, &mut x, column + 1)
            }
        })
    }
    nested(predictive, &mut vec![0.0; dimensions], 0)
}

fn real_valued(family: &AnyFamily) -> bool {
    matches!(family, AnyFamily::Gaussian(_) | AnyFamily::Diagonal(_) | AnyFamily::Spherical(_))
}

#[test]
fn real_predictives_integrate_to_one_in_one_two_and_three_columns() {
    let mut checked = 0;
    for case in cases().iter().filter(|case| real_valued(&case.family) && case.family.dimensions() <= 3) {
        for stats in [vec![0.0; case.family.n_features()], case.weighted_stats()] {
            let total = integral(&*case.family.predictive(&stats), case.family.dimensions());
            assert!((total - 1.0).abs() < QUADRATURE, "{}: {total}", case.name);
            checked += 1;
        }
    }
    assert_eq!(checked, 18);
}

/// `E_q[p/q]` with `q` the multivariate Cauchy in 5 columns, whose constant `Γ(3)/π³` is known without a gamma function.
fn importance_integral_of_five_columns(predictive: &dyn Predictive) -> f64 {
    const DRAWS: usize = 200_000;
    const WIDTH: f64 = 1.5;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let mut sum = 0.0;
    for _ in 0..DRAWS {
        let divisor = normal().abs();
        let z: Vec<f64> = (0..5).map(|_| normal() / divisor).collect();
        let square: f64 = z.iter().map(|z| z * z).sum();
        let ln_q = (2.0 / std::f64::consts::PI.powi(3)).ln() - 3.0 * square.ln_1p() - 5.0 * WIDTH.ln();
        let x: Vec<f64> = z.iter().map(|z| 0.2 + WIDTH * z).collect();
        sum += (predictive.ln_density(&x) - ln_q).exp();
    }
    sum / DRAWS as f64
}

#[test]
fn student_t_integrates_to_one_in_odd_dimensions() {
    // The authors' code halves the number of columns as an integer, which is wrong in 1, 3, 5, … columns only.
    for d in [1, 3] {
        let family = cases::gaussian(d);
        let total = integral(&*family.predictive(&vec![0.0; family.n_features()]), d);
        assert!((total - 1.0).abs() < QUADRATURE, "{d} columns: {total}");
    }
    for case in cases().iter().filter(|case| case.family.dimensions() == 5) {
        if !matches!(case.family, AnyFamily::Gaussian(_) | AnyFamily::Spherical(_)) {
            continue;
        }
        for stats in [vec![0.0; case.family.n_features()], case.weighted_stats()] {
            let total = importance_integral_of_five_columns(&*case.family.predictive(&stats));
            assert!((total - 1.0).abs() < MONTE_CARLO, "{}: {total}", case.name);
        }
    }
}

#[test]
fn bernoulli_and_categorical_predictives_sum_to_one() {
    for case in cases() {
        let categories = match &case.family {
            AnyFamily::Bernoulli(family) => vec![2; family.dimensions()],
            AnyFamily::Categorical(family) => family.pseudo_counts().iter().map(Vec::len).collect(),
            _ => continue,
        };
        for stats in [vec![0.0; case.family.n_features()], case.weighted_stats()] {
            let predictive = case.family.predictive(&stats);
            let mut total = 0.0;
            for_each_code_row(&categories, &mut |x| total += predictive.ln_density(x).exp());
            assert!((total - 1.0).abs() < ROUNDING, "{}: {total}", case.name);
        }
    }
}

#[test]
fn multinomial_predictives_sum_to_one_over_all_rows_of_a_length() {
    for case in cases().iter().filter(|case| matches!(case.family, AnyFamily::Multinomial(_))) {
        for stats in [vec![0.0; case.family.n_features()], case.weighted_stats()] {
            let predictive = case.family.predictive(&stats);
            for length in [0, 1, 4] {
                let mut total = 0.0;
                for_each_composition(length, case.family.dimensions(), &mut |x| {
                    total += predictive.ln_density(x).exp()
                });
                assert!((total - 1.0).abs() < ROUNDING, "{}: {total}", case.name);
            }
        }
    }
}

#[test]
fn negative_binomials_sum_to_one() {
    let family = cases::poisson(2);
    for stats in [vec![0.0; 3], vec![4.5, 7.0, 2.0]] {
        let predictive = family.predictive(&stats);
        let mut total = 0.0;
        // The tail beyond 400 is below (1/(b + 1))^400 with b > 0.3.
        for x in 0..400 {
            for y in 0..400 {
                total += predictive.ln_density(&[f64::from(x), f64::from(y)]).exp();
            }
        }
        assert!((total - 1.0).abs() < ROUNDING, "{total}");
    }
}
