//! Numerical integration by double-exponential rules (Takahasi and Mori 1974), and enumeration of counts.
//!
//! ```text
//! ∫ f(x) dx = ∫ f(x(t)) x′(t) dt ≈ step · Σ_k f(x(k·step)) x′(k·step)
//!   line      x = centre + scale · sinh(π/2 · sinh t)
//!   half line x = scale · exp(π/2 · sinh t)
//!   (0, 1)    x = 1 / (1 + exp(−π · sinh t))
//! ```
//!
//! After the substitution the integrand falls off doubly exponentially, and the trapezoid rule gains digits exponentially
//! with its points: heavy tails and singular ends of an interval cost nothing extra.

use std::f64::consts::{FRAC_PI_2, PI};

/// Where `e^{−π/2 · sinh t}` has left the range of doubles in which anything could still add up.
const RANGE: f64 = 5.2;

fn trapezoid(step: f64, f: impl Fn(f64) -> f64) -> f64 {
    let last = (RANGE / step).ceil() as i32;
    let terms = (-last..=last).map(|k| f(f64::from(k) * step)).filter(|v| v.is_finite());
    step * terms.sum::<f64>()
}

/// `∫ f(x) dx` over the real line; `centre` and `scale` are where most of it lies. A step of 0.05 is good for about ten
/// digits of a smooth density.
pub fn integrate_line(centre: f64, scale: f64, step: f64, f: impl Fn(f64) -> f64) -> f64 {
    trapezoid(step, |t| {
        let inner = FRAC_PI_2 * t.sinh();
        scale * inner.cosh() * FRAC_PI_2 * t.cosh() * f(centre + scale * inner.sinh())
    })
}

/// `∫ f(x) dx` over the positive numbers.
pub fn integrate_positive(scale: f64, step: f64, f: impl Fn(f64) -> f64) -> f64 {
    trapezoid(step, |t| {
        let x = scale * (FRAC_PI_2 * t.sinh()).exp();
        x * FRAC_PI_2 * t.cosh() * f(x)
    })
}

/// `∫ f(x, 1 − x) dx` over `(0, 1)`: the complement is passed on with all of its digits near 1.
pub fn integrate_unit(step: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
    trapezoid(step, |t| {
        let e = PI * t.sinh();
        let (x, complement) = (1.0 / (1.0 + (-e).exp()), 1.0 / (1.0 + e.exp()));
        x * complement * PI * t.cosh() * f(x, complement)
    })
}

/// `∫ f(x) dx` over `(from, to)`.
pub fn integrate_interval(from: f64, to: f64, step: f64, f: impl Fn(f64) -> f64) -> f64 {
    (to - from) * integrate_unit(step, |x, _| f(from + (to - from) * x))
}

/// Calls `visit` with every way to write `total` as `parts` whole numbers.
pub fn for_each_composition(total: usize, parts: usize, visit: &mut impl FnMut(&[f64])) {
    fn extend(left: usize, parts: usize, prefix: &mut Vec<f64>, visit: &mut impl FnMut(&[f64])) {
        if parts == 1 {
            prefix.push(left as f64);
            visit(prefix);
            prefix.pop();
            return;
        }
        for first in 0..=left {
            prefix.push(first as f64);
            extend(left - first, parts - 1, prefix, visit);
            prefix.pop();
        }
    }
    extend(total, parts, &mut Vec::new(), visit);
}

/// Calls `visit` with every row of codes, column `d` running over `0..categories[d]`.
pub fn for_each_code_row(categories: &[usize], visit: &mut impl FnMut(&[f64])) {
    let rows: usize = categories.iter().product();
    for ix in 0..rows {
        let mut rest = ix;
        let codes = categories.iter().map(|n| {
            let code = rest % n;
            rest /= n;
            code as f64
        });
        visit(&codes.collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rules promise at a step of 0.05.
    const PROMISED: f64 = 1e-9;

    #[test]
    fn known_integrals_come_out() {
        let gauss = integrate_line(0.3, 1.0, 0.05, |x| (-x * x).exp());
        assert!((gauss - PI.sqrt()).abs() < PROMISED);
        let cauchy = integrate_line(0.0, 2.0, 0.05, |x| 1.0 / (1.0 + x * x));
        assert!((cauchy - PI).abs() < PROMISED);
        let gamma = integrate_positive(1.0, 0.05, |x| x.powf(2.5) * (-x).exp());
        assert!((gamma - 3.323_350_970_447_843).abs() < PROMISED);
        let arcsine = integrate_unit(0.05, |x, complement| 1.0 / (x * complement).sqrt());
        assert!((arcsine - PI).abs() < PROMISED);
        assert!((integrate_interval(1.0, 3.0, 0.05, |x| x * x) - 26.0 / 3.0).abs() < PROMISED);
    }

    #[test]
    fn enumerations_are_complete() {
        let mut compositions = 0;
        for_each_composition(4, 3, &mut |x| {
            assert_eq!(x.iter().sum::<f64>(), 4.0);
            compositions += 1;
        });
        assert_eq!(compositions, 15);
        let mut rows = Vec::new();
        for_each_code_row(&[2, 3], &mut |x| rows.push(x.to_vec()));
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[5], vec![1.0, 2.0]);
    }
}
