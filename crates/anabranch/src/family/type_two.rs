//! Type-II maximum likelihood: the prior that makes the components it is the prior of most probable.
//!
//! One step of expectation–maximisation over the components' parameters, in closed form given their posteriors. For the
//! normal-inverse-Wishart prior, with `Λ_k` the precision of component `k`:
//!
//! ```text
//! M = mean E[Λ_k]             Ψ₀ = ν₀ M⁻¹
//! μ₀ = M⁻¹ mean E[Λ_k] m_k    κ₀ = D / mean[ (m_k − μ₀)ᵀE[Λ_k](m_k − μ₀) + D/κ_k ]
//! ν₀ = argmax  ν/2·(D log ν − log|M|) − νD/2·log 2 − log Γ_D(ν/2) + (ν−D−1)/2·mean E log|Λ| − νD/2
//! ```
//!
//! Statistics never contain the prior, so a new one costs nothing but the next posteriors.

use super::Partition;
#[cfg(test)]
use crate::math::special::ln_gamma;
use crate::math::special::{digamma, ln_multigamma};

/// Added to every variance, in units of the data's own: a column that is constant within clusters has no width, and a
/// prior without width is no prior.
pub(super) const LEAST_VARIANCE: f64 = 1e-8;

/// The most degrees of freedom that components can ask for.
///
/// Alike components ask for infinitely many, and then no other covariance is possible. Pieces of clusters are always
/// alike; a few clusters may be by chance. So the prior counts for three rows a column, and one more for each cluster.
pub(super) fn max_dof(dimensions: usize, n_components: usize, partition: Partition) -> f64 {
    (match partition {
        Partition::Clusters => 3 * dimensions + 2 + n_components,
        Partition::Pieces => 3 * dimensions + 2,
        Partition::Level => 10 * (dimensions + 2),
    }) as f64
}

/// The most rows that the prior's idea of where clusters are can count for.
pub(super) fn max_rows(n_components: usize, partition: Partition) -> f64 {
    match partition {
        Partition::Clusters | Partition::Pieces => n_components as f64,
        Partition::Level => 1.0,
    }
}

/// The same of the pseudo-counts of columns.
pub(super) fn max_counts(n_components: usize, partition: Partition) -> f64 {
    match partition {
        Partition::Clusters | Partition::Pieces => n_components as f64,
        Partition::Level => 10.0,
    }
}

/// The degrees of freedom that fit precisions with this mean log-determinant, whose mean has log-determinant
/// `ln_determinant_of_mean`.
pub(super) fn wishart_dof(
    dimensions: usize,
    mean_ln_determinant: f64,
    ln_determinant_of_mean: f64,
    max_dof: f64,
) -> f64 {
    let d = dimensions as f64;
    // Terms that do not depend on ν are left out.
    let objective = |nu: f64| {
        0.5 * nu * (d * nu.ln() - ln_determinant_of_mean)
            - 0.5 * nu * d * std::f64::consts::LN_2
            - ln_multigamma(dimensions, 0.5 * nu)
            + 0.5 * nu * mean_ln_determinant
            - 0.5 * nu * d
    };
    // At least one degree beyond an expected covariance that exists.
    let lowest = d + 2.0;
    golden_section(lowest.ln(), max_dof.max(lowest).ln(), |ln_nu| objective(ln_nu.exp())).exp()
}

/// The maximum of a function with one peak, to a millionth of the interval.
fn golden_section(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut a, mut b) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut f_a, mut f_b) = (f(a), f(b));
    for _ in 0..30 {
        if f_a >= f_b {
            (high, b, f_b) = (b, a, f_a);
            a = high - RATIO * (high - low);
            f_a = f(a);
        } else {
            (low, a, f_a) = (a, b, f_b);
            b = low + RATIO * (high - low);
            f_b = f(b);
        }
    }
    0.5 * (low + high)
}

/// Shape (at most `max_shape`) and rate of the gamma distribution with this mean and this mean logarithm.
pub(super) fn gamma_prior(mean: f64, mean_ln: f64, max_shape: f64) -> Option<(f64, f64)> {
    let gap = mean.ln() - mean_ln;
    if !(gap.is_finite() && mean > 0.0) {
        return None;
    }
    // log a − ψ(a) falls from ∞ to 0: bisection on log a, between values where it is certain.
    let (mut low, mut high) = (-12.0_f64, 14.0_f64);
    for _ in 0..60 {
        let middle: f64 = 0.5 * (low + high);
        let shape = middle.exp();
        if shape.ln() - digamma(shape) > gap { low = middle } else { high = middle }
    }
    let shape = (0.5 * (low + high)).exp().min(max_shape);
    Some((shape, shape / mean))
}

/// One fixed-point step (Minka) of the Dirichlet prior towards these mean log-probabilities; at a maximum it stands.
/// Estimated from so many components, it counts for at most as many rows.
pub(super) fn dirichlet_step(pseudo_counts: &mut [f64], mean_ln: &[f64], n_components: f64) {
    let total = digamma(pseudo_counts.iter().sum());
    for (count, mean_ln) in pseudo_counts.iter_mut().zip(mean_ln) {
        *count = inverse_digamma(total + mean_ln).max(SMALLEST_PSEUDO_COUNT);
    }
    let total: f64 = pseudo_counts.iter().sum();
    if total > n_components {
        let floor = SMALLEST_PSEUDO_COUNT;
        pseudo_counts.iter_mut().for_each(|count| *count = (*count * n_components / total).max(floor));
    }
}

/// A cell that no component has used must not become impossible.
const SMALLEST_PSEUDO_COUNT: f64 = 1e-3;

/// `x` with `ψ(x) = y`, by bisection on `log x`.
fn inverse_digamma(y: f64) -> f64 {
    let (mut low, mut high) = (-20.0_f64, 20.0_f64);
    for _ in 0..70 {
        let middle: f64 = 0.5 * (low + high);
        if digamma(middle.exp()) < y { low = middle } else { high = middle }
    }
    (0.5 * (low + high)).exp()
}

/// Log marginal likelihood of gamma-distributed values, for tests of [`gamma_prior`].
#[cfg(test)]
fn ln_gamma_likelihood(shape: f64, rate: f64, mean: f64, mean_ln: f64) -> f64 {
    shape * rate.ln() - ln_gamma(shape) + (shape - 1.0) * mean_ln - rate * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bisection and golden section stop far below this.
    const SEARCH: f64 = 1e-5;

    #[test]
    fn gamma_prior_is_a_maximum_of_the_likelihood() {
        let (mean, mean_ln) = (2.0, 0.4);
        let (shape, rate) = gamma_prior(mean, mean_ln, f64::INFINITY).unwrap();
        let best = ln_gamma_likelihood(shape, rate, mean, mean_ln);
        for factor in [0.9, 0.99, 1.01, 1.1] {
            assert!(ln_gamma_likelihood(shape * factor, rate, mean, mean_ln) < best);
            assert!(ln_gamma_likelihood(shape, rate * factor, mean, mean_ln) < best);
        }
    }

    #[test]
    fn dirichlet_steps_end_where_expected_logarithms_agree() {
        let mean_ln = [-1.5, -1.0, -2.5];
        let mut counts = [1.0; 3];
        for _ in 0..500 {
            dirichlet_step(&mut counts, &mean_ln, f64::INFINITY);
        }
        let total: f64 = counts.iter().sum();
        for (count, mean_ln) in counts.iter().zip(&mean_ln) {
            assert!((digamma(*count) - digamma(total) - mean_ln).abs() < SEARCH);
        }
    }

    #[test]
    fn wishart_dof_is_found_back_from_its_expectations() {
        // Λ ~ Wishart(ν, I/ν) in D dimensions: E Λ = I and E log|Λ| = Σψ((ν+1−i)/2) + D log(2/ν).
        for (d, nu) in [(2_usize, 7.0), (5, 30.0), (20, 60.0)] {
            let expected_ln: f64 =
                (0..d).map(|i| digamma(0.5 * (nu - i as f64))).sum::<f64>() + d as f64 * (2.0_f64 / nu).ln();
            let found = wishart_dof(d, expected_ln, 0.0, 1e4);
            assert!((found / nu - 1.0).abs() < 1e-3, "D = {d}: {found} instead of {nu}");
        }
    }
}
