//! Truncated stick-breaking weights and their variational posterior (Blei and Jordan 2006, eqs. 18–20).
//!
//! ```text
//! v_k ~ Beta(1, α)  for k < K,   v_K = 1,     π_k = v_k Π_{l<k} (1 − v_l)
//! q(v_k) = Beta(a_k, b_k),   a_k = 1 + n_k,   b_k = α + Σ_{l>k} n_l
//! E[log π_k] = ψ(a_k) − ψ(a_k + b_k) + Σ_{l<k} [ψ(b_l) − ψ(a_l + b_l)]
//! ```
//!
//! With `q(v)` at its optimum, its part of the evidence lower bound is `Σ_{k<K} log B(a_k, b_k) − log B(1, α)`.

use anabranch::math::special::{digamma, ln_gamma};

/// `(a_k, b_k)` of every stick that is free: all but the last.
fn sticks(counts: &[f64], alpha: f64) -> Vec<(f64, f64)> {
    let mut behind = 0.0;
    let mut sticks = vec![(0.0, 0.0); counts.len().saturating_sub(1)];
    for (ix, count) in counts.iter().enumerate().rev() {
        let count = count.max(0.0);
        if ix < sticks.len() {
            sticks[ix] = (1.0 + count, alpha + behind);
        }
        behind += count;
    }
    sticks
}

/// `E[log π_k]` of every component.
pub(crate) fn expected_ln_weights(counts: &[f64], alpha: f64) -> Vec<f64> {
    let mut ln_left = 0.0;
    let mut ln_weights = Vec::with_capacity(counts.len());
    for (a, b) in sticks(counts, alpha) {
        let total = digamma(a + b);
        ln_weights.push(digamma(a) - total + ln_left);
        ln_left += digamma(b) - total;
    }
    ln_weights.push(ln_left);
    ln_weights
}

/// What the sticks add to the evidence lower bound when components have these expected counts.
pub(crate) fn evidence(counts: &[f64], alpha: f64) -> f64 {
    let ln_beta = |a: f64, b: f64| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
    let prior = ln_beta(1.0, alpha);
    sticks(counts, alpha).into_iter().map(|(a, b)| ln_beta(a, b) - prior).sum()
}

/// The order of components that suits the sticks: from the largest, unless that would lower the bound (which it can only
/// because the last stick is not free). `None` when the order at hand is as good.
pub(crate) fn better_order(counts: &[f64], alpha: f64) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|a, b| counts[*b].total_cmp(&counts[*a]).then(a.cmp(b)));
    let sorted: Vec<f64> = order.iter().map(|ix| counts[*ix]).collect();
    (evidence(&sorted, alpha) > evidence(counts, alpha)).then_some(order)
}

#[cfg(test)]
mod tests {
    use anabranch_testkit::quadrature::integrate_unit;

    use super::*;

    /// Roundings of sums of logarithms of gamma functions.
    const ROUNDING: f64 = 1e-9;

    /// The sticks' part of the evidence for hard labels is the exact log-probability of the labels: the sum over all label
    /// vectors of a few data must be 1.
    #[test]
    fn hard_labels_have_the_probability_of_the_truncated_process() {
        use anabranch_testkit::partitions::{counts, label_vectors};
        for alpha in [0.3, 1.0, 7.0] {
            let total: f64 = label_vectors(5, 3)
                .map(|z| {
                    let n: Vec<f64> = counts(&z, 3).iter().map(|c| *c as f64).collect();
                    evidence(&n, alpha).exp()
                })
                .sum();
            assert!((total - 1.0).abs() < ROUNDING, "{alpha} {total}");
        }
    }

    #[test]
    fn the_first_weight_has_the_expected_logarithm_of_a_beta_variable() {
        let (n, alpha) = (3.0, 2.5);
        let expected = expected_ln_weights(&[n, 4.0], alpha)[0];
        let (a, b) = (1.0 + n, alpha + 4.0);
        let density = |v: f64, rest: f64| v.powf(a - 1.0) * rest.powf(b - 1.0);
        let mass = integrate_unit(0.05, density);
        let moment = integrate_unit(0.05, |v, rest| v.ln() * density(v, rest));
        assert!((expected - moment / mass).abs() < 1e-7, "{expected} {}", moment / mass);
    }

    #[test]
    fn weights_of_nothing_are_those_of_the_prior() {
        let ln_weights = expected_ln_weights(&[0.0; 4], 1.0);
        // E log v = ψ(1) − ψ(2) = −1 for α = 1, and so is E log (1 − v).
        for (found, expected) in ln_weights.iter().zip([-1.0, -2.0, -3.0, -3.0]) {
            assert!((found - expected).abs() < ROUNDING, "{ln_weights:?}");
        }
    }

    #[test]
    fn a_better_order_never_lowers_the_evidence() {
        for (counts, alpha) in [(vec![1.0, 5.0, 3.0, 0.0], 5.0), (vec![0.1, 0.2], 9.0), (vec![3.0, 1.0], 0.1)]
        {
            let before = evidence(&counts, alpha);
            if let Some(order) = better_order(&counts, alpha) {
                let sorted: Vec<f64> = order.iter().map(|ix| counts[*ix]).collect();
                assert!(evidence(&sorted, alpha) > before);
            }
        }
        assert_eq!(better_order(&[1.0, 5.0, 3.0, 0.0], 1.0), Some(vec![1, 2, 0, 3]));
    }
}
