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
        self.ln_constant - self.half_power * q.ln_1p()
    }
}
