//! Pairs of components that may be one, by what is lost when one component stands for both.
//!
//! ```text
//! p_jl(x) = [t_j p_j(x) + t_l p_l(x)] / (t_j + t_l)         the two as they are
//! q(x)    = p(x | S_j + S_l)                                the one that a merge would leave
//! cost    = (t_j + t_l) · E_{x ~ p_jl}[ log p_jl(x) − log q(x) ]  /  min(t_j, t_l)
//! ```
//!
//! The expectation is a mean over rows drawn from both, all three densities at the same rows: what they have in common does
//! not add to the error. Two equal normal clusters cost 0.02 at a distance of two standard deviations, where they have one
//! mode, 0.13 at three and 0.34 at four.

use rand::Rng;

use super::overlap::Overlap;
use crate::family::Family;
use crate::identify::ComponentId;
use crate::math::log_sum_exp::log_sum_exp;
use crate::posterior::{Component, Posterior};
use crate::process::Process;

/// A pair is a likely duplicate when the cost is below this, in nats.
pub const LIKELY_DUPLICATE: f64 = 0.05;
/// A pair that shares less than this part of the smaller one's rows is not looked at.
const SHARES: f64 = 0.02;
/// Partners of a component that are looked at, the ones that share most.
const PARTNERS: usize = 4;
/// Rows drawn from each component of a pair.
const DRAWS: usize = 512;

/// Two components that may be one.
#[derive(Clone, Debug, PartialEq)]
pub struct Duplicate {
    /// The larger one.
    pub first: ComponentId,
    /// The smaller one.
    pub second: ComponentId,
    /// Log density that is lost for each row of the smaller one if one component stands for both, in nats.
    pub cost_per_row: f64,
    /// Part of the smaller one's rows that a drawn label sends to the other: `Σ π_j π_l / t`.
    pub shared: f64,
}

/// The likely duplicates, the likeliest first.
pub(super) fn duplicates<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    overlap: &Overlap,
    rng: &mut dyn Rng,
) -> Vec<Duplicate> {
    let mut found = Vec::new();
    for (pair, shared) in overlap.closest_pairs(PARTNERS) {
        let (a, b) = (&posterior.components()[pair.0], &posterior.components()[pair.1]);
        let (large, small) = if a.expected_count() >= b.expected_count() { (a, b) } else { (b, a) };
        let shared = shared / small.expected_count();
        if shared < SHARES {
            continue;
        }
        let cost_per_row = cost(posterior.family(), large, small, rng);
        if cost_per_row < LIKELY_DUPLICATE {
            found.push(Duplicate { first: large.id(), second: small.id(), cost_per_row, shared });
        }
    }
    found.sort_by(|a, b| {
        a.cost_per_row.total_cmp(&b.cost_per_row).then((a.first, a.second).cmp(&(b.first, b.second)))
    });
    found
}

/// What is lost for each row of `small` when one component stands for both.
fn cost<F: Family>(family: &F, large: &Component, small: &Component, rng: &mut dyn Rng) -> f64 {
    let mut joined = large.evidence().clone();
    joined.absorb(small.evidence());
    let merged = family.predictive(&joined.stats);
    let (rows, rows_of_small) = (large.expected_count() + small.expected_count(), small.expected_count());
    let mut row = vec![0.0; family.dimensions()];
    let mut lost = 0.0;
    for from in [large, small] {
        let weight = from.expected_count() / DRAWS as f64;
        for _ in 0..DRAWS {
            family.sample(&from.evidence().stats, rng, &mut row);
            let part =
                |c: &Component| (c.expected_count() / rows).ln() + c.predictive(family).ln_density(&row);
            lost += weight * (log_sum_exp(&[part(large), part(small)]) - merged.ln_density(&row));
        }
    }
    lost / rows_of_small
}

#[cfg(test)]
mod tests {
    use anabranch_testkit::quadrature::integrate_line;

    use super::super::diagnose;
    use super::super::overlap::tests::{line, rng};
    use super::*;

    fn normal(x: f64, mean: f64, variance: f64) -> f64 {
        (-0.5 * (x - mean).powi(2) / variance).exp() / (std::f64::consts::TAU * variance).sqrt()
    }

    #[test]
    fn the_cost_of_two_normals_is_that_of_the_integral() {
        for (share, distance) in [(0.5, 1.0), (0.5, 2.0), (0.5, 3.0), (0.2, 3.0), (0.05, 4.0)] {
            let posterior = line(&[(1e6 * (1.0 - share), 0.0), (1e6 * share, distance)]);
            let (large, small) = (&posterior.components()[0], &posterior.components()[1]);
            let found = cost(posterior.family(), large, small, &mut rng());
            // A merge keeps mean and variance of the two.
            let (mean, variance) = (share * distance, 1.0 + share * (1.0 - share) * distance * distance);
            let exact = integrate_line(mean, 2.0, 0.02, |x| {
                let pair = (1.0 - share) * normal(x, 0.0, 1.0) + share * normal(x, distance, 1.0);
                let ratio = pair.ln() - normal(x, mean, variance).ln();
                if ratio.is_finite() { pair * ratio } else { 0.0 }
            }) / share;
            // A divergence D has a standard deviation of about √(2D) for each row drawn: four of them, and the digits of t.
            let sampling = 4.0 * (2.0 * exact / (share * 2.0 * DRAWS as f64)).sqrt() + 1e-3;
            assert!(
                (found - exact).abs() < sampling,
                "{share} {distance}: {found}, exact {exact} ± {sampling}"
            );
        }
    }

    #[test]
    fn a_cluster_that_was_counted_twice_is_found() {
        let found = diagnose(&line(&[(300.0, 0.0), (500.0, 40.0), (700.0, 0.02)]), &mut rng());
        assert_eq!(found.duplicates.len(), 1, "{found:?}");
        let pair = &found.duplicates[0];
        assert_eq!((pair.first, pair.second), (ComponentId(2), ComponentId(0)));
        assert!(pair.cost_per_row.abs() < 0.01, "{pair:?}");
        // π_j π_l is 0.3 · 0.7 everywhere, for 1,000 rows, of which the smaller one has 300.
        assert!((pair.shared - 0.7).abs() < 0.01, "{pair:?}");
        assert_eq!(found.distinct_components(), 2);
    }

    #[test]
    fn clusters_four_deviations_apart_are_no_duplicates() {
        let found = diagnose(&line(&[(300.0, 0.0), (300.0, 4.0)]), &mut rng());
        assert!(found.duplicates.is_empty(), "{found:?}");
        assert_eq!(found.distinct_components(), 2);
    }

    #[test]
    fn a_chain_of_duplicates_is_one_component() {
        let found = diagnose(&line(&[(300.0, 0.0), (300.0, 0.1), (300.0, 0.2), (300.0, 50.0)]), &mut rng());
        assert_eq!(found.duplicates.len(), 3, "{found:?}");
        assert_eq!(found.distinct_components(), 2);
    }

    #[test]
    fn near_empty_components_are_named() {
        let found = diagnose(&line(&[(300.0, 0.0), (1.5, 30.0), (0.0, 60.0), (2.5, 90.0)]), &mut rng());
        let ids: Vec<u64> = found.near_empty().map(|component| component.id.0).collect();
        assert_eq!(ids, vec![1, 2]);
    }
}
