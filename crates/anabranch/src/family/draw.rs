//! Draws of the distributions that posteriors are made of, safe at the edges of their parameters.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma, StandardNormal};

/// A standard normal number.
pub(crate) fn normal(rng: &mut dyn Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// A uniform number, 0 excluded and 1 included.
fn uniform(rng: &mut dyn Rng) -> f64 {
    1.0 - rng.random::<f64>()
}

/// `log g` with `g ~ Gamma(shape, rate 1)`.
///
/// For small shapes almost all of the mass lies below the smallest double, so the logarithm is drawn:
/// `g = g₁ · u^{1/shape}` with `g₁ ~ Gamma(shape + 1)`.
pub(crate) fn ln_gamma_variate(shape: f64, rng: &mut dyn Rng) -> f64 {
    let boosted = Gamma::new(shape.max(0.0) + 1.0, 1.0).expect("a shape of at least 1 is valid");
    boosted.sample(rng).ln() + uniform(rng).ln() / shape
}

/// `g ~ Gamma(shape, rate 1)`, at least 1e-150: its inverse root is then a row that still has a square.
pub(crate) fn gamma_variate(shape: f64, rng: &mut dyn Rng) -> f64 {
    ln_gamma_variate(shape, rng).exp().max(1e-150)
}

/// Overwrites pseudo-counts with a draw from their Dirichlet distribution.
pub(crate) fn dirichlet_in_place(pseudo_counts: &mut [f64], rng: &mut dyn Rng) {
    for value in pseudo_counts.iter_mut() {
        *value = ln_gamma_variate(*value, rng);
    }
    let max = pseudo_counts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        // Shapes so small that every logarithm overflowed: the draw is a corner, whichever is as good as another.
        pseudo_counts.fill(0.0);
        pseudo_counts[0] = 1.0;
        return;
    }
    let mut sum = 0.0;
    for value in pseudo_counts.iter_mut() {
        *value = (*value - max).exp();
        sum += *value;
    }
    pseudo_counts.iter_mut().for_each(|value| *value /= sum);
}

/// The index of a category drawn with these probabilities.
pub(crate) fn category(probabilities: &[f64], rng: &mut dyn Rng) -> usize {
    let mut left = uniform(rng) * probabilities.iter().sum::<f64>();
    for (ix, probability) in probabilities.iter().enumerate() {
        left -= probability;
        if left <= 0.0 {
            return ix;
        }
    }
    probabilities.len() - 1
}

/// A count from the Poisson distribution; above 1e15 the normal limit, whose counts are whole numbers still.
pub(crate) fn poisson(mean: f64, rng: &mut dyn Rng) -> f64 {
    const NORMAL_FROM: f64 = 1e15;
    if mean >= NORMAL_FROM {
        return (mean + mean.sqrt() * normal(rng)).round().min(super::counts::LARGEST_COUNT);
    }
    match rand_distr::Poisson::new(mean) {
        Ok(distribution) => distribution.sample(rng),
        Err(_) => 0.0, // a mean of 0
    }
}
