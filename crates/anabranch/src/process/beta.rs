//! Lower bound on the regulariser of a beta process: data with any number of features each (the Indian buffet process).
//!
//! ```text
//! log p(Z) = −α Σ_{n≤N} c/(c + n − 1) + Σ_k [ log(α c) + log B(m_k, N − m_k + c) ]          over features with m_k > 0
//!
//! paper         P log(α c) + t-only interpolation of φ_N from (0, 0)        φ_N(m) = log B(m, N − m + c),  φ_N(0) = 0
//! conditional   P log(α c) + P·Φ_N(t / P),   P = 1 − e^s,   Φ_N = linear interpolation of φ_N on 1 … N
//! ```
//!
//! Columns carry marks (the features), so equal columns are told apart and no factorial is in the way. `φ_N` is convex on
//! the integers, and Jensen's inequality does the rest. `N` is one number for all features.

use serde::{Deserialize, Serialize};

use super::{Bound, LabelStatistics, MassLaw, Parameter, Population, Process, ProcessError};
use crate::math::special::{digamma, ln_gamma};

/// Rate of the exponential prior of `α`: its mean is 5.
const RATE: f64 = 0.2;

/// A beta process with mass `α > 0` and concentration `c > 0`; `c = 1` is the Indian buffet process.
///
/// ```
/// use anabranch::process::{Beta, Bound, LabelStatistics, Population, Process};
/// let process = Beta::new(2.0, 1.0, Bound::Paper).unwrap();
/// let mut in_both = LabelStatistics::default();
/// in_both.observe(1.0, 2.0);
/// let all = Population { observations: 2.0, occupied: 1.0 };
/// // log 2 + log B(2, 1) = log 2 − log 2
/// assert!(process.score(&in_both, all).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Beta {
    alpha: Parameter,
    concentration: f64,
    bound: Bound,
}

/// What is read from a file, before `Beta::new` has looked at it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    alpha: Parameter,
    concentration: f64,
    bound: Bound,
}

impl TryFrom<Unchecked> for Beta {
    type Error = ProcessError;

    fn try_from(raw: Unchecked) -> Result<Self, ProcessError> {
        Self::new(raw.alpha, raw.concentration, raw.bound)
    }
}

impl Beta {
    /// A process with this mass and concentration, scored with this bound.
    pub fn new(alpha: impl Into<Parameter>, concentration: f64, bound: Bound) -> Result<Self, ProcessError> {
        let alpha = alpha.into();
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(alpha.value()) {
            return Err(ProcessError::Alpha { alpha: alpha.value() });
        }
        if !positive(concentration) {
            return Err(ProcessError::Concentration { concentration });
        }
        Ok(Self { alpha, concentration, bound })
    }

    /// The mass `α`: how many features the first datum is expected to have.
    pub fn alpha(&self) -> f64 {
        self.alpha.value()
    }

    /// The mass and whether it is learned.
    pub fn mass(&self) -> Parameter {
        self.alpha
    }

    /// The concentration `c`.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// Which bound features are scored with.
    pub fn bound_kind(&self) -> Bound {
        self.bound
    }

    /// `log B(m, N − m + c)`.
    fn ln_beta(&self, count: f64, observations: f64) -> f64 {
        let absent = observations - count + self.concentration;
        ln_gamma(count) + ln_gamma(absent) - ln_gamma(observations + self.concentration)
    }

    /// `Φ_N(x)` for `1 ≤ x ≤ N`: the chord between neighbouring integers.
    fn interpolated(&self, count: f64, observations: f64) -> f64 {
        let count = count.clamp(1.0, observations.max(1.0));
        let below = count.floor();
        let value = self.ln_beta(below, observations);
        // At N itself there is no next integer, and the slope may be infinite.
        if count == below {
            return value;
        }
        let above = (below + 1.0).min(observations);
        value + (count - below) * (self.ln_beta(above, observations) - value) / (above - below)
    }

    /// `Σ_{n≤N} c/(c + n − 1)`, the expected number of features for each unit of `α`.
    fn harmonic(&self, observations: f64) -> f64 {
        self.concentration * (digamma(self.concentration + observations) - digamma(self.concentration))
    }
}

impl Process for Beta {
    fn score(&self, stats: &LabelStatistics, all: Population) -> f64 {
        let occupied = stats.probability_occupied();
        let count = stats.expected_count;
        let count_term = match self.bound {
            Bound::Paper if count < 1.0 => count * self.ln_beta(1.0, all.observations.max(1.0)),
            Bound::Paper => self.interpolated(count, all.observations),
            // A feature that is all but absent needs no quotient of tiny numbers: t/P → 1.
            Bound::Conditional if occupied < f64::MIN_POSITIVE => 0.0,
            Bound::Conditional => occupied * self.interpolated(count / occupied, all.observations),
        };
        occupied * (self.alpha() * self.concentration).ln() + count_term
    }

    fn normaliser(&self, all: Population) -> f64 {
        -self.alpha() * self.harmonic(all.observations)
    }

    /// `t`: the next datum has the feature with probability `t / (N + c)`.
    fn existing_mass(&self, stats: &LabelStatistics) -> f64 {
        stats.expected_count
    }

    /// `α c`: the next datum is expected to have `α c / (N + c)` features that none had before.
    fn new_mass<'a>(&self, _: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        self.alpha() * self.concentration
    }

    /// Features share data.
    fn mass_law(&self) -> MassLaw {
        MassLaw::Overlapping
    }

    /// The number of features is Poisson with mean `α Σ c/(c + n − 1)`; the prior of `α` is exponential with mean 5.
    fn learned<'a>(
        &self,
        components: impl Iterator<Item = &'a LabelStatistics>,
        observations: f64,
    ) -> Option<Self> {
        let features = components.filter(|stats| stats.expected_count >= 1.0).count();
        if features == 0 || !self.alpha.is_learned() {
            return None;
        }
        let alpha = features as f64 / (self.harmonic(observations) + RATE);
        Some(Self { alpha: self.alpha.updated(alpha), ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_outside_the_domain_are_refused_by_value() {
        let error = Beta::new(1.0, 0.0, Bound::Paper).unwrap_err();
        assert_eq!(error.to_string(), "concentration c = 0 is not a finite number above 0");
        assert!(Beta::new(0.0, 1.0, Bound::Paper).is_err());
        let read = serde_json::from_str::<Beta>;
        assert!(read(r#"{"alpha":1.0,"concentration":1.0,"bound":"paper"}"#).is_ok());
        assert!(read(r#"{"alpha":1.0,"concentration":-1.0,"bound":"paper"}"#).is_err());
    }

    #[test]
    fn a_feature_of_every_datum_has_a_finite_score() {
        let mut stats = LabelStatistics::default();
        stats.observe(1.0, 30.0);
        let all = Population { observations: 30.0, occupied: 1.0 };
        for bound in [Bound::Paper, Bound::Conditional] {
            for concentration in [0.5, 1.0, 3.0] {
                assert!(Beta::new(1.0, concentration, bound).unwrap().score(&stats, all).is_finite());
            }
        }
    }

    #[test]
    fn the_mass_that_is_learned_makes_the_number_of_features_expected() {
        let mut stats = LabelStatistics::default();
        stats.observe(1.0, 5.0);
        let process = Beta::new(Parameter::Learned { learned: 1.0 }, 1.0, Bound::Paper).unwrap();
        let learned = process.learned([stats; 12].iter(), 100.0).unwrap();
        let harmonic: f64 = (1..=100).map(|n| 1.0 / f64::from(n)).sum();
        assert!((learned.alpha() - 12.0 / (harmonic + 0.2)).abs() < 1e-12);
        assert!(Beta::new(1.0, 1.0, Bound::Paper).unwrap().learned([stats].iter(), 9.0).is_none());
    }
}
