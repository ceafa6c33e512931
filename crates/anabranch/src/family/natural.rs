//! Draws of a component's parameters, in the form that the E-step multiplies with: what a Markov chain needs of a family.

use rand::Rng;

use super::Family;

/// A family whose parameters can be drawn from their posterior.
pub trait DrawNatural: Family {
    /// Draws `θ` given the statistics and writes its natural parameter: `log p(x | θ) = φ · T(x) + log h(x)`, exactly.
    ///
    /// The mean of the draws is what [`Conjugate::expected_natural`](super::Conjugate::expected_natural) writes.
    fn draw_natural(&self, stats: &[f64], rng: &mut dyn Rng, phi: &mut [f64]);
}

/// The logarithm of a probability is kept above this, so that zero times it is zero and not NaN.
pub(super) const LEAST_LN: f64 = -1e5;

/// Writes the logarithms of a draw from a Dirichlet distribution with these pseudo-counts.
pub(super) fn draw_ln_dirichlet(
    pseudo_counts: impl Iterator<Item = f64>,
    rng: &mut dyn Rng,
    out: &mut [f64],
) {
    for (value, count) in out.iter_mut().zip(pseudo_counts) {
        *value = super::draw::ln_gamma_variate(count, rng).max(f64::MIN);
    }
    let total = crate::math::log_sum_exp::log_sum_exp(out);
    out.iter_mut().for_each(|value| *value = (*value - total).max(LEAST_LN));
}
