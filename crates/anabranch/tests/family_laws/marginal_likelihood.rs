//! `A` against brute force: the prior's kernel times the likelihood of the rows, integrated over the parameters.
//!
//! ```text
//! exp A(S) · Π_j h(x_j) = ∫ kernel(θ) Π_j p(x_j | θ) dθ
//! ```
//!
//! Nothing here knows how a posterior is updated, and kernels have no constants to get wrong.

use std::f64::consts::PI;

use anabranch::family::{Categorical, Diagonal, Family, Frame, Gaussian, Multinomial, Spherical};
use anabranch_testkit::quadrature::{integrate_line, integrate_positive, integrate_unit};

use crate::cases::{self, stats_of};

/// The quadrature's own error.
const QUADRATURE: f64 = 1e-8;
/// The same for the coarser grid in three parameters.
const COARSE_QUADRATURE: f64 = 1e-6;

const STEP: f64 = 0.04;

fn ln_gauss(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((2.0 * PI * variance).ln() + (x - mean).powi(2) / variance)
}

/// `A(S) + Σ log h`.
fn claimed(family: &impl Family, rows: &[Vec<f64>]) -> f64 {
    let stats = stats_of(family, rows, &vec![1.0; rows.len()]);
    family.log_partition(&stats) + rows.iter().map(|row| family.ln_base(row)).sum::<f64>()
}

fn assert_close(what: &str, claimed: f64, integral: f64, tolerance: f64) {
    let found = integral.ln();
    assert!((claimed - found).abs() < tolerance, "{what}: A gives {claimed}, the integral {found}");
}

#[test]
fn the_niw_partition_function_is_its_integral() {
    let prior = cases::niw(1);
    let (m, kappa, psi, dof) = (prior.mean[0], prior.kappa, prior.psi[0], prior.dof);
    let family = Gaussian::with_prior_in_data_units(Frame::identity(1), prior).unwrap();
    for rows in [vec![], vec![vec![0.4], vec![-1.3], vec![2.0]]] {
        let integral = integrate_positive(1.0, STEP, |variance| {
            integrate_line(m, 1.0, STEP, |mean| {
                let kernel = -0.5 * ((dof + 2.0) * variance.ln() + psi / variance)
                    - 0.5 * (variance.ln() + kappa * (mean - m).powi(2) / variance);
                let likelihood: f64 = rows.iter().map(|x| ln_gauss(x[0], mean, variance)).sum();
                (kernel + likelihood).exp()
            })
        });
        assert_close("niw", claimed(&family, &rows), integral, QUADRATURE);
    }
}

#[test]
fn the_normal_gamma_partition_function_is_its_integral() {
    let prior = cases::normal_gammas(1)[0];
    let family = Diagonal::with_prior_in_data_units(Frame::identity(1), vec![prior]).unwrap();
    for rows in [vec![], vec![vec![0.4], vec![-1.3], vec![2.0]]] {
        let integral = integrate_positive(1.0, STEP, |precision| {
            integrate_line(prior.mean, 1.0, STEP, |mean| {
                let kernel = (prior.a - 1.0) * precision.ln() - prior.b * precision + 0.5 * precision.ln()
                    - 0.5 * prior.kappa * precision * (mean - prior.mean).powi(2);
                let likelihood: f64 = rows.iter().map(|x| ln_gauss(x[0], mean, 1.0 / precision)).sum();
                (kernel + likelihood).exp()
            })
        });
        assert_close("normal-gamma", claimed(&family, &rows), integral, QUADRATURE);
    }
}

#[test]
fn the_spherical_partition_function_is_its_integral() {
    let prior = cases::spherical_prior(2);
    let family = Spherical::with_prior_in_data_units(Frame::identity(2), prior.clone()).unwrap();
    for rows in [vec![], vec![vec![0.4, 1.0], vec![-1.3, 0.2], vec![2.0, -0.5]]] {
        // Given the precision the two means are independent: the inner integrals multiply.
        let integral = integrate_positive(1.0, STEP, |precision| {
            let of_column = |d: usize| {
                integrate_line(prior.mean[d], 1.0, STEP, |mean| {
                    let kernel =
                        0.5 * precision.ln() - 0.5 * prior.kappa * precision * (mean - prior.mean[d]).powi(2);
                    let likelihood: f64 = rows.iter().map(|x| ln_gauss(x[d], mean, 1.0 / precision)).sum();
                    (kernel + likelihood).exp()
                })
            };
            ((prior.a - 1.0) * precision.ln() - prior.b * precision).exp() * of_column(0) * of_column(1)
        });
        assert_close("spherical", claimed(&family, &rows), integral, COARSE_QUADRATURE);
    }
}

#[test]
fn the_beta_partition_function_is_its_integral() {
    let family = cases::bernoulli(1);
    let (ones, zeros) = (family.ones()[0], family.zeros()[0]);
    for rows in [vec![], vec![vec![1.0], vec![0.0], vec![1.0]]] {
        let integral = integrate_unit(STEP, |p, q| {
            let kernel = (ones - 1.0) * p.ln() + (zeros - 1.0) * q.ln();
            (kernel + rows.iter().map(|x| if x[0] == 1.0 { p.ln() } else { q.ln() }).sum::<f64>()).exp()
        });
        assert_close("beta", claimed(&family, &rows), integral, QUADRATURE);
    }
}

#[test]
fn the_gamma_partition_function_is_its_integral() {
    let family = cases::poisson(1);
    let (shape, rate) = (family.shape()[0], family.rate()[0]);
    // Logarithms of 3!, 0! and 5!.
    let rows = vec![(vec![3.0], 6.0_f64.ln()), (vec![0.0], 0.0), (vec![5.0], 120.0_f64.ln())];
    let integral = integrate_positive(1.0, STEP, |mean| {
        let kernel = (shape - 1.0) * mean.ln() - rate * mean;
        let likelihood: f64 =
            rows.iter().map(|(x, ln_factorial)| x[0] * mean.ln() - mean - ln_factorial).sum();
        (kernel + likelihood).exp()
    });
    let rows: Vec<_> = rows.into_iter().map(|(x, _)| x).collect();
    assert_close("gamma", claimed(&family, &rows), integral, QUADRATURE);
}

/// `∫ Π_v θ_v^{power_v − 1}` over the simplex of two or three corners.
fn dirichlet_integral(powers: &[f64]) -> f64 {
    integrate_unit(STEP, |first, rest| {
        let outer = (powers[0] - 1.0) * first.ln();
        if powers.len() == 2 {
            return (outer + (powers[1] - 1.0) * rest.ln()).exp();
        }
        // θ = (first, rest·u, rest·(1 − u)), with Jacobian `rest`.
        rest * integrate_unit(STEP, |u, v| {
            (outer + (powers[1] - 1.0) * (rest * u).ln() + (powers[2] - 1.0) * (rest * v).ln()).exp()
        })
    })
}

#[test]
fn the_dirichlet_partition_function_is_its_integral() {
    for lambda in [vec![0.4, 2.3], vec![1.7, 0.6, 3.0]] {
        let family = Multinomial::new(lambda.clone(), 3.0).unwrap();
        let rows = vec![[2.0, 1.0, 3.0][..lambda.len()].to_vec(), vec![1.0; lambda.len()]];
        let powers: Vec<f64> = (0..lambda.len()).map(|v| lambda[v] + rows[0][v] + rows[1][v]).collect();
        // 3!/(2!1!) · 2!/(1!1!), and 6!/(2!1!3!) · 3!/(1!1!1!).
        let coefficient: f64 = if lambda.len() == 2 { 3.0 * 2.0 } else { 60.0 * 6.0 };
        assert_close("multinomial prior", claimed(&family, &[]), dirichlet_integral(&lambda), QUADRATURE);
        let integral = coefficient * dirichlet_integral(&powers);
        assert_close("multinomial", claimed(&family, &rows), integral, QUADRATURE);

        let family = Categorical::new(vec![lambda.clone()]).unwrap();
        let rows = vec![vec![0.0], vec![1.0], vec![1.0]];
        let mut powers = lambda;
        powers[0] += 1.0;
        powers[1] += 2.0;
        assert_close("categorical", claimed(&family, &rows), dirichlet_integral(&powers), QUADRATURE);
    }
}
