//! Lower bound on the Pitman–Yor regulariser: clusters whose sizes fall like a power of their rank.
//!
//! ```text
//! log p(z) = F(K) + log Γ(α + 1) − log Γ(α + N) + Σ_k w_d(n_k)        F(K) = Σ_{i=1}^{K−1} log(α + i d)
//!
//! E F(K)  ≥  F(K₀) + b (E K − K₀),   b = log(α + K₀ d),   E K = Σ_k (1 − e^{s_k})        for every integer K₀ ≥ 1
//! ```
//!
//! `F` is convex on the integers, so that every tangent lies below it, and the one at `K₀ = ⌊E K⌋` is the best. A tangent
//! is a sum over components; the largest over all `K₀` is the bound itself, which is why identification tries each of
//! them ([`Process::tangents`]). The terms of the sizes are in `count.rs`. With `d = 0` all of it is the Dirichlet process.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::count::count_term;
use super::dirichlet::ln_normaliser;
use super::learn::Sizes;
use super::{Bound, LabelStatistics, MassLaw, Parameter, Population, Process, ProcessError};
use crate::math::special::ln_gamma;

/// A Pitman–Yor process with concentration `α > −d` and discount `0 ≤ d < 1`.
///
/// ```
/// use anabranch::process::{Bound, LabelStatistics, PitmanYor, Process};
/// let process = PitmanYor::new(1.0, 0.5, Bound::Paper).unwrap();
/// let mut four_data = LabelStatistics::default();
/// four_data.observe(1.0, 4.0);
/// assert_eq!(process.existing_mass(&four_data), 3.5);
/// assert_eq!(process.new_mass([four_data, four_data].iter()), 2.0); // α + 2 d
/// assert!(PitmanYor::new(1.0, 1.0, Bound::Paper).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct PitmanYor {
    alpha: Parameter,
    discount: Parameter,
    bound: Bound,
}

/// What is read from a file, before `PitmanYor::new` has looked at it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    alpha: Parameter,
    discount: Parameter,
    bound: Bound,
}

impl TryFrom<Unchecked> for PitmanYor {
    type Error = ProcessError;

    fn try_from(raw: Unchecked) -> Result<Self, ProcessError> {
        Self::new(raw.alpha, raw.discount, raw.bound)
    }
}

impl PitmanYor {
    /// A process with this concentration and discount, scored with this bound.
    pub fn new(
        alpha: impl Into<Parameter>,
        discount: impl Into<Parameter>,
        bound: Bound,
    ) -> Result<Self, ProcessError> {
        let process = Self { alpha: alpha.into(), discount: discount.into(), bound };
        let (alpha, discount) = (process.alpha(), process.discount());
        if !(0.0..1.0).contains(&discount) {
            return Err(ProcessError::Discount { discount });
        }
        if alpha.is_finite() && alpha > -discount {
            Ok(process)
        } else if discount == 0.0 {
            Err(ProcessError::Alpha { alpha })
        } else {
            Err(ProcessError::BelowDiscount { alpha, discount })
        }
    }

    /// The concentration.
    pub fn alpha(&self) -> f64 {
        self.alpha.value()
    }

    /// The discount.
    pub fn discount(&self) -> f64 {
        self.discount.value()
    }

    /// The concentration and whether it is learned.
    pub fn concentration(&self) -> Parameter {
        self.alpha
    }

    /// The discount and whether it is learned.
    pub fn discount_parameter(&self) -> Parameter {
        self.discount
    }

    /// Which bound components are scored with.
    pub fn bound_kind(&self) -> Bound {
        self.bound
    }

    /// `b = log(α + K₀ d)`, what one more component adds at `K₀` of them.
    fn slope(&self, touching: f64) -> f64 {
        (self.alpha() + touching * self.discount()).ln()
    }

    /// `F(K₀)`.
    fn ln_openings(&self, touching: f64) -> f64 {
        (1..touching as u64).map(|i| self.slope(i as f64)).sum()
    }
}

/// `K₀`: where the tangent touches.
fn touching(all: Population) -> f64 {
    all.occupied.floor().max(1.0)
}

impl Process for PitmanYor {
    fn score(&self, stats: &LabelStatistics, all: Population) -> f64 {
        let slope = self.slope(touching(all));
        stats.probability_occupied() * slope + count_term(self.bound, stats, self.discount())
    }

    fn normaliser(&self, all: Population) -> f64 {
        if self.discount() == 0.0 {
            return ln_normaliser(self.alpha(), all.observations);
        }
        if all.observations <= 0.0 {
            return 0.0;
        }
        let touching = touching(all);
        let tangent = self.ln_openings(touching) - touching * self.slope(touching);
        tangent + ln_gamma(self.alpha() + 1.0) - ln_gamma(self.alpha() + all.observations)
    }

    /// `t − d(1 − e^s)`, the expectation of `n − d` over the times that there is a cluster: never negative.
    fn existing_mass(&self, stats: &LabelStatistics) -> f64 {
        stats.expected_count - self.discount() * stats.probability_occupied()
    }

    /// `α + d·Σ_k(1 − e^{s_k})`: every cluster makes room for more.
    fn mass_law(&self) -> MassLaw {
        MassLaw::Counts
    }

    fn new_mass<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        let occupied: f64 = components.map(LabelStatistics::probability_occupied).sum();
        let mass = self.alpha() + self.discount() * occupied;
        // A negative α is for after the first cluster; the first datum has nowhere else to go.
        if mass > 0.0 { mass } else { self.alpha() + self.discount() }
    }

    /// `α + d`, what the second cluster of all has: the mass of all clusters to come together is theirs to share.
    fn candidate_mass<'a>(&self, _: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        self.alpha() + self.discount()
    }

    /// `1 − d`, the mass of a cluster of one datum: such clusters are the most frequent ones.
    fn least_count(&self) -> f64 {
        1.0 - self.discount()
    }

    fn tangents(&self, fewest: f64, most: f64) -> RangeInclusive<u64> {
        let last = most.floor().max(1.0) as u64;
        if self.discount() == 0.0 { last..=last } else { fewest.floor().max(1.0) as u64..=last }
    }

    fn suited<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> Self {
        let alpha = Sizes::of(components).map_or(self.alpha, |sizes| sizes.alpha(self.discount()).into());
        Self { alpha, ..*self }
    }

    fn learned<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>, _: f64) -> Option<Self> {
        let sizes = Sizes::of(components)?;
        let (alpha, discount) = match (self.alpha.is_learned(), self.discount.is_learned()) {
            (false, false) => return None,
            (true, false) => (sizes.alpha(self.discount()), self.discount()),
            (false, true) => (self.alpha(), sizes.discount(self.alpha())),
            (true, true) => sizes.both(),
        };
        Some(Self { alpha: self.alpha.updated(alpha), discount: self.discount.updated(discount), ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_outside_the_domain_are_refused_by_value() {
        let error = |alpha: f64, discount: f64| {
            PitmanYor::new(alpha, discount, Bound::Paper).unwrap_err().to_string()
        };
        assert_eq!(error(1.0, 1.0), "discount d = 1 is not in [0, 1)");
        assert_eq!(error(1.0, -0.1), "discount d = -0.1 is not in [0, 1)");
        assert_eq!(error(1.0, f64::NAN), "discount d = NaN is not in [0, 1)");
        assert_eq!(error(-0.5, 0.5), "concentration alpha = -0.5 is not above minus the discount, -0.5");
        assert_eq!(error(0.0, 0.0), "concentration alpha = 0 is not a finite number above 0");
        assert!(PitmanYor::new(-0.2, 0.5, Bound::Paper).is_ok());
    }

    #[test]
    fn a_file_cannot_smuggle_in_a_bad_discount() {
        let read = serde_json::from_str::<PitmanYor>;
        let good = r#"{"alpha":2.0,"discount":{"learned":0.25},"bound":"conditional"}"#;
        let learned = Parameter::Learned { learned: 0.25 };
        assert_eq!(read(good).unwrap(), PitmanYor::new(2.0, learned, Bound::Conditional).unwrap());
        assert!(read(r#"{"alpha":2.0,"discount":1.5,"bound":"paper"}"#).is_err());
    }

    #[test]
    fn the_first_datum_has_somewhere_to_go_for_a_negative_concentration() {
        let process = PitmanYor::new(-0.2, 0.5, Bound::Paper).unwrap();
        assert!(process.new_mass([].iter()) > 0.0);
    }

    #[test]
    fn given_parameters_are_never_learned() {
        let mut stats = LabelStatistics::default();
        stats.observe(1.0, 9.0);
        assert_eq!(PitmanYor::new(1.0, 0.5, Bound::Paper).unwrap().learned([stats].iter(), 9.0), None);
    }
}
