//! Lower bound on the Dirichlet-process regulariser (paper §3.1, eq. dpreg).
//!
//! ```text
//! E[log p(z)]  ≥  log Γ(α) − log Γ(α + N) + Σ_k (1 − e^{s_k}) log α + count(s_k, t_k)
//!
//! paper         count = log Γ(max{2, t})
//! conditional   count = P·L(t / P),   P = 1 − e^s,   L = linear interpolation of log Γ at the integers
//! ```
//!
//! `t / P` is the expected count given that the component is occupied at all. Conditioning first makes Jensen's
//! inequality lose less, from the same two statistics: `P·L(t/P) ≥ L(t) ≥ log Γ(max{2, t})`.

use serde::{Deserialize, Serialize};

use super::count::count_term;
use super::learn::Sizes;
use super::{Bound, LabelStatistics, MassLaw, Parameter, Population, Process, ProcessError};
use crate::math::special::ln_gamma;

/// A Dirichlet process with concentration `α > 0`.
///
/// ```
/// use anabranch::process::{Bound, Dirichlet, LabelStatistics, Population, Process};
/// let process = Dirichlet::new(1.0, Bound::Paper).unwrap();
/// let mut four_data = LabelStatistics::default();
/// four_data.observe(1.0, 4.0);
/// let all = Population::of([&four_data], 4.0);
/// assert!((process.score(&four_data, all) - 6f64.ln()).abs() < 1e-12); // log Γ(4) = log 3!
/// assert!(Dirichlet::new(0.0, Bound::Paper).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Dirichlet {
    alpha: Parameter,
    bound: Bound,
}

/// What is read from a file, before `Dirichlet::new` has looked at it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    alpha: Parameter,
    bound: Bound,
}

impl TryFrom<Unchecked> for Dirichlet {
    type Error = ProcessError;

    fn try_from(raw: Unchecked) -> Result<Self, ProcessError> {
        Self::new(raw.alpha, raw.bound)
    }
}

impl Dirichlet {
    /// A process with this concentration, scored with this bound.
    pub fn new(alpha: impl Into<Parameter>, bound: Bound) -> Result<Self, ProcessError> {
        let alpha = alpha.into();
        if alpha.value().is_finite() && alpha.value() > 0.0 {
            Ok(Self { alpha, bound })
        } else {
            Err(ProcessError::Alpha { alpha: alpha.value() })
        }
    }

    /// The concentration.
    pub fn alpha(&self) -> f64 {
        self.alpha.value()
    }

    /// The concentration and whether it is learned.
    pub fn concentration(&self) -> Parameter {
        self.alpha
    }

    /// Which bound components are scored with.
    pub fn bound_kind(&self) -> Bound {
        self.bound
    }
}

/// `log Γ(α) − log Γ(α + N)`.
pub(super) fn ln_normaliser(alpha: f64, observations: f64) -> f64 {
    ln_gamma(alpha) - ln_gamma(alpha + observations)
}

impl Process for Dirichlet {
    fn score(&self, stats: &LabelStatistics, _: Population) -> f64 {
        stats.probability_occupied() * self.alpha().ln() + count_term(self.bound, stats, 0.0)
    }

    fn normaliser(&self, all: Population) -> f64 {
        ln_normaliser(self.alpha(), all.observations)
    }

    /// `t`: a datum joins a cluster in proportion to its size.
    fn existing_mass(&self, stats: &LabelStatistics) -> f64 {
        stats.expected_count
    }

    /// `α`, whatever there is.
    fn mass_law(&self) -> MassLaw {
        MassLaw::Counts
    }

    fn new_mass<'a>(&self, _: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        self.alpha()
    }

    fn suited<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> Self {
        let alpha = Sizes::of(components).map_or(self.alpha, |sizes| sizes.alpha(0.0).into());
        Self { alpha, ..*self }
    }

    /// `α` under a Gamma prior.
    fn learned<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>, _: f64) -> Option<Self> {
        let sizes = Sizes::of(components).filter(|_| self.alpha.is_learned())?;
        Some(Self { alpha: self.alpha.updated(sizes.alpha(0.0)), ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concentration_that_is_not_positive_and_finite_is_refused_by_value() {
        for alpha in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            assert!(Dirichlet::new(alpha, Bound::Paper).is_err(), "{alpha}");
        }
        let error = Dirichlet::new(-1.0, Bound::Paper).unwrap_err();
        assert_eq!(error.to_string(), "concentration alpha = -1 is not a finite number above 0");
    }

    #[test]
    fn a_file_cannot_smuggle_in_a_bad_concentration() {
        let read = serde_json::from_str::<Dirichlet>;
        assert_eq!(
            read(r#"{"alpha":2.0,"bound":"conditional"}"#).unwrap(),
            Dirichlet::new(2.0, Bound::Conditional).unwrap()
        );
        assert!(read(r#"{"alpha":-2.0,"bound":"paper"}"#).is_err());
        assert!(read(r#"{"alpha":{"learned":-2.0},"bound":"paper"}"#).is_err());
    }

    #[test]
    fn an_all_but_empty_component_scores_all_but_zero() {
        let mut stats = LabelStatistics::default();
        stats.observe(1e-300, 1.0);
        let all = Population::of([&stats], 1.0);
        let score = Dirichlet::new(2.0, Bound::Conditional).unwrap().score(&stats, all);
        assert!(score > 0.0 && score < 1e-299, "{score}");
    }
}
