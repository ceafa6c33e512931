//! Concentration and discount from the sizes of the clusters: the most probable ones under weak priors.
//!
//! ```text
//! log p(α, d | sizes) = Σ_{i<K} log(α + i d) + log Γ(α + 1) − log Γ(α + N) + Σ_k w_d(n_k)  +  log Gamma(α; 1, 1/5)
//! ```
//!
//! The prior of `α` has mean 5, that of `d` is uniform on [0, 1). Clusters that hold less than a row are leftovers of the
//! inference and no clusters: counting them would drive `α` up without end.

use super::count::count_term;
use super::{Bound, LabelStatistics};
use crate::math::special::ln_gamma;

/// Rate of the Gamma prior of `α`.
const RATE: f64 = 0.2;
/// Expected count from which a component counts as a cluster.
const REAL: f64 = 1.0;
/// `log α` is sought between these.
const LN_ALPHA: (f64, f64) = (-7.0, 9.5);
/// The largest discount that is tried.
const MOST_DISCOUNT: f64 = 0.95;
/// Steps of a golden section: each leaves 62 % of the interval, so that 1e-8 of it is left.
const STEPS: usize = 40;

/// The clusters that parameters are learned from.
pub(super) struct Sizes {
    clusters: Vec<LabelStatistics>,
    observations: f64,
}

impl Sizes {
    /// The real clusters among the components; `None` when there is none.
    pub(super) fn of<'a>(components: impl Iterator<Item = &'a LabelStatistics>) -> Option<Self> {
        let clusters: Vec<LabelStatistics> =
            components.filter(|stats| stats.expected_count >= REAL).copied().collect();
        let observations = clusters.iter().map(|stats| stats.expected_count).sum();
        (!clusters.is_empty()).then_some(Self { clusters, observations })
    }

    /// The most probable `α` for this discount.
    pub(super) fn alpha(&self, discount: f64) -> f64 {
        highest(LN_ALPHA, |ln_alpha| self.of_alpha(ln_alpha.exp(), discount)).0.exp()
    }

    /// The most probable discount for this `α`.
    pub(super) fn discount(&self, alpha: f64) -> f64 {
        highest((0.0, MOST_DISCOUNT), |d| self.of_alpha(alpha, d) + self.of_counts(d)).0
    }

    /// The most probable pair `(α, d)`.
    pub(super) fn both(&self) -> (f64, f64) {
        let given_discount = |d: f64| highest(LN_ALPHA, |ln_alpha| self.of_alpha(ln_alpha.exp(), d));
        let (discount, _) = highest((0.0, MOST_DISCOUNT), |d| given_discount(d).1 + self.of_counts(d));
        (given_discount(discount).0.exp(), discount)
    }

    /// The terms that `α` is in.
    fn of_alpha(&self, alpha: f64, discount: f64) -> f64 {
        let new_clusters: f64 = (1..self.clusters.len()).map(|i| (alpha + i as f64 * discount).ln()).sum();
        new_clusters + ln_gamma(alpha + 1.0) - ln_gamma(alpha + self.observations) - RATE * alpha
    }

    fn of_counts(&self, discount: f64) -> f64 {
        self.clusters.iter().map(|stats| count_term(Bound::Conditional, stats, discount)).sum()
    }
}

/// Where a function with one maximum is highest, and how high, by golden section.
fn highest((mut low, mut high): (f64, f64), function: impl Fn(f64) -> f64) -> (f64, f64) {
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (function(left), function(right));
    for _ in 0..STEPS {
        if at_left >= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = function(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = function(right);
        }
    }
    // A maximum at the end of the interval is never met by the section itself.
    let ends = [(low, function(low)), (high, function(high)), (0.5 * (low + high), at_left.max(at_right))];
    ends.into_iter().fold((low, f64::NEG_INFINITY), |best, end| if end.1 > best.1 { end } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_golden_section_finds_maxima_inside_and_at_the_ends() {
        assert!((highest((-3.0, 5.0), |x| -(x - 1.25) * (x - 1.25)).0 - 1.25).abs() < 1e-6);
        assert!(highest((0.0, 1.0), |x| -x).0 < 1e-7);
        assert!(highest((0.0, 1.0), |x| x).0 > 1.0 - 1e-7);
    }

    #[test]
    fn leftovers_are_no_clusters() {
        let stats = |count: f64| {
            let mut stats = LabelStatistics::default();
            stats.observe(1.0, count);
            stats
        };
        let real = [stats(40.0), stats(7.0), stats(13.0)];
        let with_leftovers = [stats(40.0), stats(0.01), stats(7.0), stats(13.0), stats(0.2)];
        let alpha = |components: &[LabelStatistics]| Sizes::of(components.iter()).unwrap().alpha(0.0);
        assert_eq!(alpha(&real), alpha(&with_leftovers));
        assert!(Sizes::of([stats(0.5)].iter()).is_none());
    }
}
