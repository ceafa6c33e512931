//! How far a step of stochastic variational inference goes: `ρ_t = (t + τ)^−κ` (Hoffman et al. 2013, eq. 26).

use thiserror::Error;

/// A sequence of steps in `(0, 1]` that become smaller. The default is the paper's `(t + 10)^−1/2`.
///
/// ```
/// use anabranch_rivals::Rate;
/// assert_eq!(Rate::new(0.0, 1.0)?.of_step(4), 0.25);
/// assert!(Rate::new(-1.0, 0.5).is_err());
/// # Ok::<(), anabranch_rivals::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    delay: f64,
    power: f64,
}

/// Why there is no such rate.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("the delay {delay} must be finite and at least 0, the power {power} above 0 and at most 1")]
pub struct RateError {
    delay: f64,
    power: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { delay: 10.0, power: 0.5 }
    }
}

impl Rate {
    /// `(t + delay)^−power`.
    pub fn new(delay: f64, power: f64) -> Result<Self, RateError> {
        if delay.is_finite() && delay >= 0.0 && power > 0.0 && power <= 1.0 {
            Ok(Self { delay, power })
        } else {
            Err(RateError { delay, power })
        }
    }

    /// The share of the way that step `t = 1, 2, …` goes.
    pub fn of_step(&self, t: u64) -> f64 {
        (t as f64 + self.delay).powf(-self.power).min(1.0)
    }
}
