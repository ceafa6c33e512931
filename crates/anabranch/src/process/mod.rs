//! How many components there are: statistics of the labels and the score of a component (paper §3.1, eq. dpreg).
//!
//! ```text
//! E[log p(z)]  ≥  C(N) + Σ_k score(s_k, t_k)
//! s_k = Σ_j w_j log(1 − π_jk)      t_k = Σ_j w_j π_jk      e_k = −Σ_j w_j π_jk log π_jk
//! ```
//!
//! The score depends on one component at a time; that is what turns identification into an assignment problem.

use std::fmt::Debug;
use std::ops::{AddAssign, RangeInclusive};

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod any;
mod beta;
mod count;
mod dirichlet;
mod hierarchical;
mod learn;
mod parameter;
mod pitman_yor;

pub use any::AnyProcess;
pub use beta::Beta;
pub use dirichlet::Dirichlet;
pub use hierarchical::{Hierarchical, HierarchicalError};
pub use parameter::Parameter;
pub use pitman_yor::PitmanYor;

/// Which lower bound of the term that a cluster's size adds a component is scored with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// From the expected count alone, as published.
    #[default]
    Paper,
    /// Conditional on being occupied at all: never looser than the published bound, from the same statistics.
    Conditional,
}

/// Why there is no such process.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ProcessError {
    /// The concentration is zero, negative, NaN or infinite.
    #[error("concentration alpha = {alpha} is not a finite number above 0")]
    Alpha {
        /// The offending value.
        alpha: f64,
    },
    /// The discount is negative, 1 or more, or NaN.
    #[error("discount d = {discount} is not in [0, 1)")]
    Discount {
        /// The offending value.
        discount: f64,
    },
    /// The concentration of a beta process is zero, negative, NaN or infinite.
    #[error("concentration c = {concentration} is not a finite number above 0")]
    Concentration {
        /// The offending value.
        concentration: f64,
    },
    /// The concentration is not above minus the discount.
    #[error("concentration alpha = {alpha} is not above minus the discount, -{discount}")]
    BelowDiscount {
        /// The offending value.
        alpha: f64,
        /// The discount.
        discount: f64,
    },
}

/// What a component remembers of the labels of its data: three sums, which are added and never subtracted.
///
/// A certain label (`π = 1`) makes `log_p_empty` minus infinity. That is right and harmless as long as one only adds:
/// `(−∞) − (−∞)` would be NaN. JSON has no infinity, so these are stored in binary (the model file is).
///
/// ```
/// use anabranch::process::LabelStatistics;
/// let mut stats = LabelStatistics::default();
/// stats.observe(0.5, 1.0);
/// stats.observe(1.0, 2.0);
/// assert_eq!(stats.expected_count, 2.5);
/// assert_eq!(stats.probability_occupied(), 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelStatistics {
    /// `s = Σ log(1 − π) ≤ 0`: log-probability that no datum belongs to the component. May be `−∞`.
    pub log_p_empty: f64,
    /// `t = Σ π ≥ 0`: expected number of data in the component.
    pub expected_count: f64,
    /// `e = −Σ π log π ≥ 0`: the component's share of the entropy of the labels, needed to judge merges.
    pub label_entropy: f64,
}

impl LabelStatistics {
    /// Adds a datum that belongs to the component with probability `pi`, counted `weight` times.
    ///
    /// Responsibilities that left `[0, 1]` by rounding are clipped.
    pub fn observe(&mut self, pi: f64, weight: f64) {
        debug_assert!(!pi.is_nan() && weight >= 0.0, "π = {pi}, weight = {weight}");
        let pi = pi.clamp(0.0, 1.0);
        // Without this, a weight of 0 on a certain label would be 0·(−∞) = NaN.
        if weight == 0.0 || pi == 0.0 {
            return;
        }
        self.log_p_empty += weight * (-pi).ln_1p();
        self.expected_count += weight * pi;
        // log 1 = 0 exactly, and π = 0 has returned: both ends of the interval add nothing.
        self.label_entropy -= weight * pi * pi.ln();
    }

    /// The statistics of `share` times the data; nothing at all for a share of 0.
    pub fn scaled(self, share: f64) -> Self {
        if share <= 0.0 {
            // 0·(−∞) would be NaN.
            return Self::default();
        }
        Self {
            log_p_empty: share * self.log_p_empty,
            expected_count: share * self.expected_count,
            label_entropy: share * self.label_entropy,
        }
    }

    /// `P = 1 − e^s`, the probability that the component has at least one datum.
    pub fn probability_occupied(&self) -> f64 {
        // exp_m1 keeps this exact when the component is all but empty.
        -self.log_p_empty.exp_m1()
    }
}

impl AddAssign for LabelStatistics {
    /// Statistics of the union of two disjoint sets of data.
    fn add_assign(&mut self, other: Self) {
        self.log_p_empty += other.log_p_empty;
        self.expected_count += other.expected_count;
        self.label_entropy += other.label_entropy;
    }
}

/// Which sums over the components make the mass of the data (MASS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MassLaw {
    /// Each datum belongs to one component: the expected counts `Σ t`.
    Counts,
    /// Labels belong to something else than what the mass counts, as the tables of a document do to its words: the first
    /// sums `Σ S[0]` of the family.
    Features,
    /// Components share data: no sum is known, but none has more than there are.
    Overlapping,
}

/// What is true of all components together: besides its own statistics, a score may look at this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    /// Number of data, `N`.
    pub observations: f64,
    /// Expected number of components that have data, `Σ_k (1 − e^{s_k})`.
    pub occupied: f64,
}

impl Population {
    /// The population of these components.
    pub fn of<'a>(components: impl IntoIterator<Item = &'a LabelStatistics>, observations: f64) -> Self {
        let occupied = components.into_iter().map(LabelStatistics::probability_occupied).sum();
        Self { observations, occupied }
    }

    /// The same data in this many components.
    pub fn with_occupied(self, occupied: f64) -> Self {
        Self { occupied, ..self }
    }
}

/// A prior on partitions whose expected log-probability has a lower bound that is a sum over components.
///
/// A term of all components together, such as their number, enters as a tangent that is a sum over components too. Each
/// tangent is a bound; the population at which it touches is an argument.
pub trait Process: Clone + Debug + Send + Sync + 'static {
    /// The term of one component; zero for a component without data.
    fn score(&self, stats: &LabelStatistics, all: Population) -> f64;

    /// The part of the bound that is no sum over components. For a given tangent it does not depend on the correspondence.
    fn normaliser(&self, all: Population) -> f64;

    /// The mass `m_k` of a component with these statistics when the next datum chooses.
    fn existing_mass(&self, stats: &LabelStatistics) -> f64;

    /// The mass of all components that do not exist yet, given those that do.
    fn new_mass<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> f64;

    /// What adds up to the mass of the data.
    fn mass_law(&self) -> MassLaw;

    /// The mass that a component which a minibatch tries to open starts with.
    fn candidate_mass<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        self.new_mass(components)
    }

    /// A component that a minibatch opened is emptied back into the others when it holds less than this many data.
    fn least_count(&self) -> f64 {
        1.0
    }

    /// Numbers of components at which a tangent has to be tried, so that the best of all correspondences is found that
    /// leave between `fewest` and `most` components occupied. One suffices where the number enters linearly.
    fn tangents(&self, _fewest: f64, most: f64) -> RangeInclusive<u64> {
        let last = most.floor().max(1.0) as u64;
        last..=last
    }

    /// The process with the parameters that are to be learned estimated anew; `None` when there are none, or no data.
    fn learned<'a>(
        &self,
        _components: impl Iterator<Item = &'a LabelStatistics>,
        _observations: f64,
    ) -> Option<Self> {
        None
    }

    /// The process with the concentration that is most probable for these components, also where it is given: a given one
    /// says how readily clusters are opened, and would decide their number where data are few.
    fn suited<'a>(&self, _components: impl Iterator<Item = &'a LabelStatistics>) -> Self {
        self.clone()
    }

    /// The whole lower bound on `E[log p(z)]` of these components.
    fn bound(&self, components: &[LabelStatistics], observations: f64) -> f64 {
        let all = Population::of(components, observations);
        self.normaliser(all) + components.iter().map(|stats| self.score(stats, all)).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(data: &[(f64, f64)]) -> LabelStatistics {
        let mut stats = LabelStatistics::default();
        data.iter().for_each(|&(pi, weight)| stats.observe(pi, weight));
        stats
    }

    #[test]
    fn certain_labels_add_no_entropy_and_rule_out_emptiness() {
        let stats = observed(&[(1.0, 1.0), (0.0, 1.0), (1.0, 3.0)]);
        assert_eq!(
            stats,
            LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: 4.0, label_entropy: 0.0 }
        );
    }

    #[test]
    fn adding_minus_infinity_twice_stays_minus_infinity() {
        let mut stats = observed(&[(1.0, 1.0)]);
        stats += stats;
        assert_eq!(stats.log_p_empty, f64::NEG_INFINITY);
        assert_eq!(stats.probability_occupied(), 1.0);
    }

    #[test]
    fn a_weight_of_zero_adds_nothing_even_to_a_certain_label() {
        assert_eq!(observed(&[(1.0, 0.0)]), LabelStatistics::default());
    }

    #[test]
    fn a_responsibility_above_one_by_rounding_is_clipped() {
        assert_eq!(observed(&[(1.0 + f64::EPSILON, 1.0)]), observed(&[(1.0, 1.0)]));
    }

    #[test]
    fn a_share_of_nothing_is_nothing_even_of_certain_labels() {
        let certain = observed(&[(1.0, 4.0)]);
        assert_eq!(certain.scaled(0.0), LabelStatistics::default());
        assert_eq!(certain.scaled(0.5), observed(&[(1.0, 2.0)]));
    }

    #[test]
    fn a_tiny_responsibility_is_not_lost() {
        let stats = observed(&[(1e-20, 1.0)]);
        assert_eq!(stats.log_p_empty, -1e-20);
        assert_eq!(stats.probability_occupied(), 1e-20);
    }

    #[test]
    fn observing_parts_and_adding_equals_observing_everything() {
        let mut sum = observed(&[(0.25, 1.0)]);
        sum += observed(&[(0.5, 2.0)]);
        assert_eq!(sum, observed(&[(0.25, 1.0), (0.5, 2.0)]));
    }
}
