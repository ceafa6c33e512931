//! How many components there are: statistics of the labels and the score of a component (paper §3.1, eq. dpreg).
//!
//! ```text
//! E[log p(z)]  ≥  C(N) + Σ_k score(s_k, t_k)
//! s_k = Σ_j w_j log(1 − π_jk)      t_k = Σ_j w_j π_jk      e_k = −Σ_j w_j π_jk log π_jk
//! ```
//!
//! The score depends on one component at a time; that is what turns identification into an assignment problem.

use std::fmt::Debug;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

mod dirichlet;
mod hierarchical;

pub use dirichlet::{Bound, Dirichlet, DirichletError};
pub use hierarchical::{Hierarchical, HierarchicalError};

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
    /// Components share data: no sum is known.
    Overlapping,
}

/// A prior on partitions whose expected log-probability has a lower bound that is a sum over components.
pub trait Process: Clone + Debug + Send + Sync + 'static {
    /// The term of one component; zero for a component without data.
    fn score(&self, stats: &LabelStatistics) -> f64;

    /// The constant `C` of the bound for this many observations. It does not depend on the correspondence.
    fn normaliser(&self, n_observations: f64) -> f64;

    /// The mass `m_k` of a component with these statistics when the next datum chooses.
    fn existing_mass(&self, stats: &LabelStatistics) -> f64;

    /// The mass of a component that does not exist yet, given all that do.
    fn new_mass<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> f64;

    /// What adds up to the mass of the data.
    fn mass_law(&self) -> MassLaw {
        MassLaw::Counts
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
