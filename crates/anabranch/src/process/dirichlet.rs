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
use thiserror::Error;

use super::{LabelStatistics, Process};
use crate::math::special::ln_gamma;

/// Which lower bound of `E[log Γ(n); n > 0]` a component is scored with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// `log Γ(max{2, t})`, as published.
    #[default]
    Paper,
    /// `P·L(t/P)`: never looser than the published bound, from the same statistics.
    Conditional,
}

/// A Dirichlet process with concentration `α > 0`.
///
/// ```
/// use anabranch::process::{Bound, Dirichlet, LabelStatistics, Process};
/// let process = Dirichlet::new(1.0, Bound::Paper).unwrap();
/// let mut four_data = LabelStatistics::default();
/// four_data.observe(1.0, 4.0);
/// assert!((process.score(&four_data) - 6f64.ln()).abs() < 1e-12); // log Γ(4) = log 3!
/// assert!(Dirichlet::new(0.0, Bound::Paper).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Dirichlet {
    alpha: f64,
    bound: Bound,
}

/// Why there is no such Dirichlet process.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum DirichletError {
    /// The concentration is zero, negative, NaN or infinite.
    #[error("concentration alpha = {alpha} is not a finite number above 0")]
    Alpha {
        /// The offending value.
        alpha: f64,
    },
}

/// What is read from a file, before `Dirichlet::new` has looked at it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    alpha: f64,
    bound: Bound,
}

impl TryFrom<Unchecked> for Dirichlet {
    type Error = DirichletError;

    fn try_from(raw: Unchecked) -> Result<Self, DirichletError> {
        Self::new(raw.alpha, raw.bound)
    }
}

impl Dirichlet {
    /// A process with this concentration, scored with this bound.
    pub fn new(alpha: f64, bound: Bound) -> Result<Self, DirichletError> {
        if alpha.is_finite() && alpha > 0.0 {
            Ok(Self { alpha, bound })
        } else {
            Err(DirichletError::Alpha { alpha })
        }
    }

    /// The concentration.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Which bound components are scored with.
    pub fn bound_kind(&self) -> Bound {
        self.bound
    }

    /// The whole lower bound on `E[log p(z)]`, with `N = Σ t` (invariant MASS).
    pub fn bound(&self, components: &[LabelStatistics]) -> f64 {
        let n_observations = components.iter().map(|stats| stats.expected_count).sum();
        self.normaliser(n_observations) + components.iter().map(|stats| self.score(stats)).sum::<f64>()
    }
}

impl Process for Dirichlet {
    fn score(&self, stats: &LabelStatistics) -> f64 {
        let count_term = match self.bound {
            Bound::Paper => ln_gamma(stats.expected_count.max(2.0)),
            Bound::Conditional => conditional_count_term(stats),
        };
        stats.probability_occupied() * self.alpha.ln() + count_term
    }

    fn normaliser(&self, n_observations: f64) -> f64 {
        ln_gamma(self.alpha) - ln_gamma(self.alpha + n_observations)
    }

    /// `t`: a datum joins a cluster in proportion to its size.
    fn existing_mass(&self, stats: &LabelStatistics) -> f64 {
        stats.expected_count
    }

    /// `α`, whatever there is.
    fn new_mass<'a>(&self, _: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        self.alpha
    }
}

/// `P·L(t/P) ≤ E[log Γ(n); n > 0]`.
fn conditional_count_term(stats: &LabelStatistics) -> f64 {
    let occupied = stats.probability_occupied();
    // L vanishes up to 2, so a component that is all but empty (t/P → 1) needs no quotient of tiny numbers.
    if stats.expected_count <= 2.0 * occupied {
        return 0.0;
    }
    occupied * interpolated_ln_gamma(stats.expected_count / occupied)
}

/// `L(c)`: 0 up to 2, else `log Γ(⌊c⌋) + (c − ⌊c⌋) log ⌊c⌋`, the chord between neighbouring integers.
fn interpolated_ln_gamma(count: f64) -> f64 {
    if count <= 2.0 {
        return 0.0;
    }
    let below = count.floor();
    ln_gamma(below) + (count - below) * below.ln()
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
    }

    #[test]
    fn a_component_without_data_scores_exactly_zero() {
        for bound in [Bound::Paper, Bound::Conditional] {
            assert_eq!(Dirichlet::new(0.3, bound).unwrap().score(&LabelStatistics::default()), 0.0);
        }
    }

    #[test]
    fn an_all_but_empty_component_scores_all_but_zero() {
        let mut stats = LabelStatistics::default();
        stats.observe(1e-300, 1.0);
        let score = Dirichlet::new(2.0, Bound::Conditional).unwrap().score(&stats);
        assert!(score > 0.0 && score < 1e-299, "{score}");
    }

    #[test]
    fn the_interpolation_meets_ln_gamma_at_the_integers_and_is_continuous() {
        for integer in 2..200 {
            let count = f64::from(integer);
            let exact = ln_gamma(count);
            assert_eq!(interpolated_ln_gamma(count), exact);
            assert!((interpolated_ln_gamma(count.next_down()) - exact).abs() <= 1e-12 * (1.0 + exact));
        }
    }
}
