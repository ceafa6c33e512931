//! The log density of the multivariate Student t, the predictive of every Gaussian family.
//!
//! ```text
//! p(x) = Γ((ν + D)/2) / Γ(ν/2) · π^{−D/2} · |M|^{−½} · (1 + q)^{−(ν + D)/2},     q = (x − m)ᵀ M⁻¹ (x − m)
//! ```
//!
//! `M` is the usual scale matrix times the degrees of freedom `ν`, which removes `ν` from everywhere else. The Γ's of
//! `D/2` are where the authors' code rounds in odd dimensions; here no half is ever an integer division.

use crate::math::special::{LN_PI, ln_gamma_ratio};

/// What a diagonal entry of `M` is divided by for a variance; for the scale of the t where it has no variance.
pub(crate) fn variance_divisor(dof: f64) -> f64 {
    if dof > 2.0 { dof - 2.0 } else { dof }
}

/// `log(1 + q)` of `q ≥ 0`: the logarithm of the rounded sum and what rounding took from it, at half of the price of `f64::ln_1p`.
#[inline]
fn ln_1p(q: f64) -> f64 {
    let sum = 1.0 + q;
    let lost = q - (sum - 1.0);
    if lost == 0.0 || !lost.is_finite() { sum.ln() } else { sum.ln() + lost / sum }
}

/// The parts of the density that do not depend on `x`.
#[derive(Clone, Debug)]
pub(crate) struct StudentT {
    ln_constant: f64,
    half_power: f64,
}

impl StudentT {
    /// Degrees of freedom `ν` and `log |M|` of a t in `dimensions` columns.
    pub(crate) fn new(dimensions: usize, dof: f64, ln_determinant: f64) -> Self {
        let half_d = 0.5 * dimensions as f64;
        let ln_constant = ln_gamma_ratio(0.5 * dof, half_d) - half_d * LN_PI - 0.5 * ln_determinant;
        Self { ln_constant, half_power: 0.5 * dof + half_d }
    }

    /// `c` of the envelope of this density.
    pub(crate) fn ln_constant(&self) -> f64 {
        self.ln_constant
    }

    /// `(ν + D)/2`, the `h` of the envelope.
    pub(crate) fn half_power(&self) -> f64 {
        self.half_power
    }

    /// `log p(x)` at squared distance `q`.
    pub(crate) fn ln_density(&self, q: f64) -> f64 {
        self.ln_constant - self.half_power * ln_1p(q)
    }

    /// The squared distance at which `log p(x)` is this.
    pub(crate) fn distance_of(&self, ln_density: f64) -> f64 {
        ((self.ln_constant - ln_density) / self.half_power).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_library_from_nothing_to_infinity() {
        let mut q = 1e-300;
        while q < 1e300 {
            let exact = f64::ln_1p(q);
            assert!((ln_1p(q) - exact).abs() <= 2.0 * f64::EPSILON * exact, "{q}: {} {exact}", ln_1p(q));
            q *= 1.013;
        }
        for q in [0.0, f64::INFINITY] {
            assert_eq!(ln_1p(q), q);
        }
        assert!(ln_1p(f64::NAN).is_nan());
    }

    #[test]
    fn the_distance_of_a_density_has_that_density() {
        let density = StudentT::new(5, 12.5, -3.0);
        for q in [0.0, 1e-3, 0.7, 40.0] {
            assert!((density.distance_of(density.ln_density(q)) - q).abs() < 1e-12 * (1.0 + q));
        }
    }
}
