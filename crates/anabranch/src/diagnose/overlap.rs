//! How far components share rows, by drawing rows and labelling them.
//!
//! ```text
//! x ~ p(x | component k), m rows for each k, each counted t_k / m times
//! π_j(x) = t_j p_j(x) / Σ_l t_l p_l(x)            over k and its neighbours
//! shared(j, l) = Σ_x π_j π_l                       rows that two independent draws of a label send to j and to l
//! ```
//!
//! Each component gets the same number of draws, so that small ones are measured as well as large ones.

use std::collections::BTreeMap;

use rand::Rng;

use crate::family::Family;
use crate::math::log_sum_exp::log_sum_exp;
use crate::posterior::Posterior;
use crate::process::Process;

/// Densities that are evaluated in all, at most about this many.
const DENSITIES: usize = 1 << 19;
/// Rows drawn from a component, at least and at most.
const DRAWS: (usize, usize) = (16, 512);
/// A smaller responsibility is no confusion.
const NEGLIGIBLE: f64 = 1e-9;

/// How far components share rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlap {
    /// `E[max_k π_k]`; `None` without components.
    pub(super) label_certainty: Option<f64>,
    /// `E[π_k]` over rows of component `k`; `None` for components without rows.
    pub(super) certainty: Vec<Option<f64>>,
    /// Rows that two components share, `Σ π_j π_l`, for pairs of places, the smaller first, that share anything.
    shared: BTreeMap<(usize, usize), f64>,
    /// Rows drawn in all.
    pub(super) rows_drawn: usize,
}

impl Overlap {
    /// The partners of each component with the rows that they share, those that share most first.
    pub(super) fn partners(&self) -> Vec<Vec<(usize, f64)>> {
        let mut partners = vec![Vec::new(); self.certainty.len()];
        for ((a, b), rows) in &self.shared {
            partners[*a].push((*b, *rows));
            partners[*b].push((*a, *rows));
        }
        for of_one in &mut partners {
            of_one.sort_by(|a: &(usize, f64), b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        }
        partners
    }

    /// Rows that two components share, for pairs of places, the smaller first, that share anything.
    pub(crate) fn shared(&self) -> &BTreeMap<(usize, usize), f64> {
        &self.shared
    }

    /// Pairs, the smaller place first, in which either is among the `most` partners of the other, with the rows shared.
    pub(super) fn closest_pairs(&self, most: usize) -> BTreeMap<(usize, usize), f64> {
        let mut pairs = BTreeMap::new();
        for (own, partners) in self.partners().iter().enumerate() {
            pairs.extend(partners.iter().take(most).map(|(p, rows)| ((own.min(*p), own.max(*p)), *rows)));
        }
        pairs
    }

    fn share(&mut self, a: (usize, f64), b: (usize, f64), weight: f64) {
        *self.shared.entry((a.0.min(b.0), a.0.max(b.0))).or_default() += weight * a.1 * b.1;
    }
}

/// Draws rows from each component and labels them by it and its neighbours.
pub(crate) fn overlap<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    near: &[Vec<usize>],
    rng: &mut dyn Rng,
) -> Overlap {
    let family = posterior.family();
    let n_live = posterior.components().iter().filter(|c| c.expected_count() > 0.0).count();
    let widest = near.iter().map(|others| others.len() + 1).max().unwrap_or(1);
    let draws = (DENSITIES / (n_live * widest).max(1)).clamp(DRAWS.0, DRAWS.1);
    let k = posterior.components().len();
    let mut overlap = Overlap { certainty: vec![None; k], ..Overlap::default() };
    let mut row = vec![0.0; family.dimensions()];
    let (mut highest_total, mut mass) = (0.0, 0.0);
    for (own, component) in posterior.components().iter().enumerate() {
        if component.expected_count() <= 0.0 {
            continue;
        }
        let around: Vec<usize> = std::iter::once(own).chain(near[own].iter().copied()).collect();
        let weight = component.expected_count() / draws as f64;
        let mut own_total = 0.0;
        for _ in 0..draws {
            family.sample(&component.evidence().stats, rng, &mut row);
            let labels = label(posterior, &around, &row);
            own_total += labels[0].1;
            highest_total += weight * labels.iter().map(|(_, pi)| *pi).fold(0.0, f64::max);
            let sharing: Vec<(usize, f64)> = labels.into_iter().filter(|(_, pi)| *pi > NEGLIGIBLE).collect();
            for (ix, a) in sharing.iter().enumerate() {
                sharing[ix + 1..].iter().for_each(|b| overlap.share(*a, *b, weight));
            }
        }
        mass += component.expected_count();
        overlap.certainty[own] = Some(own_total / draws as f64);
        overlap.rows_drawn += draws;
    }
    overlap.label_certainty = (mass > 0.0).then(|| highest_total / mass);
    overlap
}

/// Responsibilities of some components for a row, in their order.
fn label<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    among: &[usize],
    row: &[f64],
) -> Vec<(usize, f64)> {
    let score = |ix: &usize| {
        let component = &posterior.components()[*ix];
        let mass = posterior.process().existing_mass(&component.evidence().labels);
        mass.ln() + component.predictive(posterior.family()).ln_density(row)
    };
    let scores: Vec<f64> = among.iter().map(score).collect();
    let total = log_sum_exp(&scores);
    among.iter().zip(scores).map(|(ix, score)| (*ix, (score - total).exp())).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use anabranch_testkit::quadrature::integrate_line;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::family::{Conjugate, Frame, Gaussian, NormalInverseWishart};
    use crate::identify::ComponentId;
    use crate::posterior::{Component, Evidence, Parts};
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    /// Three standard errors of the share of some 1,000 draws.
    const SAMPLING: f64 = 0.04;

    /// Components on a line with these counts and means and a variance of 1, under a weak prior.
    pub(crate) fn line(places: &[(f64, f64)]) -> Posterior<Gaussian, Dirichlet> {
        let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0], 1e-4, &[0.1], 3.0);
        let family = Gaussian::new(Frame::identity(1), prior).unwrap();
        let components = places.iter().zip(0..).map(|((count, mean), id)| {
            // Half the rows a standard deviation to the left, half to the right.
            let mut stats = vec![0.0; family.n_features()];
            let mut features = stats.clone();
            for x in [mean - 1.0, mean + 1.0] {
                family.features(&[x], &mut features);
                stats.iter_mut().zip(&features).for_each(|(s, f)| *s += 0.5 * count * f);
            }
            let labels = LabelStatistics {
                log_p_empty: f64::NEG_INFINITY,
                expected_count: *count,
                label_entropy: 0.0,
            };
            Component::new(ComponentId(id), 0, Evidence { stats, labels })
        });
        let components = components.collect();
        let mass = places.iter().map(|(count, _)| count).sum();
        let process = Dirichlet::new(5.0, Bound::Paper).unwrap();
        Posterior::restore(Parts {
            version: 0,
            family,
            process,
            components,
            redirects: BTreeMap::new(),
            mass,
        })
        .unwrap()
    }

    pub(crate) fn rng() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(7)
    }

    fn measured(posterior: &Posterior<Gaussian, Dirichlet>) -> Overlap {
        overlap(posterior, &super::super::neighbours::neighbours(posterior), &mut rng())
    }

    fn densities(posterior: &Posterior<Gaussian, Dirichlet>, x: f64) -> Vec<f64> {
        let family = posterior.family();
        let density = |c: &Component| c.expected_count() * c.predictive(family).ln_density(&[x]).exp();
        posterior.components().iter().map(|c| density(c)).collect()
    }

    #[test]
    fn what_is_drawn_agrees_with_the_integral() {
        let posterior = line(&[(4000.0, 0.0), (1000.0, 2.5)]);
        let found = measured(&posterior);
        let integral = |f: &dyn Fn(f64, f64) -> f64| {
            integrate_line(1.0, 2.0, 0.02, |x| {
                let parts = densities(&posterior, x);
                f(parts[0], parts[1])
            })
        };
        let right = integral(&|a, b| a.max(b)) / 5000.0;
        let own = integral(&|a, b| a * a / (a + b)) / 4000.0;
        let rows = integral(&|a, b| a * b / (a + b));
        let shared = found.shared[&(0, 1)];
        assert!((found.label_certainty.unwrap() - right).abs() < SAMPLING, "{found:?} {right}");
        assert!((found.certainty[0].unwrap() - own).abs() < SAMPLING, "{found:?} {own}");
        assert!((shared / rows - 1.0).abs() < 0.15, "{shared} {rows}");
        assert_eq!(found.partners(), [vec![(1, shared)], vec![(0, shared)]]);
    }

    #[test]
    fn components_far_apart_share_nothing() {
        let found = measured(&line(&[(100.0, 0.0), (100.0, 1e4)]));
        assert!(found.label_certainty.unwrap() > 0.999);
        assert!(found.shared.values().all(|rows| *rows < 0.1), "{:?}", found.shared);
    }

    #[test]
    fn a_component_without_rows_is_left_out() {
        let found = measured(&line(&[(100.0, 0.0), (0.0, 1.0)]));
        assert_eq!(found.certainty[1], None);
        assert_eq!(found.certainty[0], Some(1.0));
        assert!(found.shared.is_empty());
    }
}
