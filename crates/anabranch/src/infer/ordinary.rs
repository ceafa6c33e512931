//! How probable the rows of a minibatch are before they are learned: what makes a later row unusual.
//!
//! ```text
//! log p(x) = log [ Σ_k m_k p(x | component k)  +  α p(x | prior) ] − log (Σ_k m_k + α)
//! ```
//!
//! with exact predictive densities. The least probable rows, about which later questions are, are all looked at; of improbable ones one
//! in a few, and of the others one in more, which counts for so many. For improbable rows all components count: far out, where tails
//! are heavy, it is others than the E-step found possible that explain a row.

use super::ascent::Ascent;
use super::{Precision, upkeep};
use crate::batch::Batch;
use crate::family::Family;
use crate::math::log_sum_exp::log_sum_exp;
use crate::posterior::{Densities, Posterior, Tail, densities, place};
use crate::process::Process;

/// The share of the rows that are all looked at.
const LOWEST_SHARE: f64 = 0.01;

/// The share of the rows that are improbable, of which one in so many is looked at …
const LOW_SHARE: f64 = 0.12;
const LOW_STRIDE: usize = 4;

/// … and of the others one in so many.
const STRIDE: usize = 8;

/// The densities of the rows, given an ascent that has just assigned them to known components.
pub(super) fn of_rows<F: Family, P: Process>(ascent: &mut Ascent<'_, F, P>) -> Densities {
    let mut sorted = std::mem::take(&mut ascent.memory.sorted);
    let mut looked = std::mem::take(&mut ascent.memory.looked);
    let mut terms = std::mem::take(&mut ascent.memory.density_terms);
    sorted.clear();
    sorted.extend(ascent.ln_explained());
    looked.clear();
    look(ascent, &mut sorted, &mut terms, &mut looked);
    let found = densities(&mut looked);
    (ascent.memory.sorted, ascent.memory.looked) = (sorted, looked);
    ascent.memory.density_terms = terms;
    found
}

/// How probable rows usually are for a later posterior, as a sample of them tells. Both have learned from the sample: each of its
/// rows is scored without what it taught.
pub(super) fn moved<F: Family, P: Process>(
    before: &Posterior<F, P>,
    after: &Posterior<F, P>,
    sample: &Batch,
    precision: Precision,
) -> Option<Tail> {
    if after.tail().is_empty() || sample.n_rows() == 0 {
        return None;
    }
    let ascending = |posterior| {
        let mut densities = upkeep::ln_densities_left_out(posterior, sample, precision);
        densities.sort_unstable_by(f64::total_cmp);
        densities
    };
    Some(after.tail().moved(&ascending(before), &ascending(after)))
}

fn look<F: Family, P: Process>(
    ascent: &Ascent<'_, F, P>,
    sorted: &mut [f64],
    terms: &mut Vec<f64>,
    looked: &mut Vec<(i32, f32)>,
) {
    if sorted.is_empty() {
        return;
    }
    let n = sorted.len() as f64;
    let (below, cut, _) = sorted.select_nth_unstable_by((LOW_SHARE * n) as usize, f64::total_cmp);
    let cut = *cut;
    let lowest = (LOWEST_SHARE * n) as usize;
    let lowest_cut = match lowest < below.len() {
        true => *below.select_nth_unstable_by(lowest, f64::total_cmp).1,
        false => cut,
    };
    let posterior = ascent.posterior();
    let labels = || posterior.components().iter().map(|c| &c.evidence().labels);
    let new_mass = posterior.process().new_mass(labels());
    let total = new_mass + labels().map(|labels| posterior.process().existing_mass(labels)).sum::<f64>();
    let prior = posterior.nothing().predictive(posterior.family());
    // Rows of each kind that have passed.
    let (mut passed_low, mut passed) = (0, 0);
    for (row, explained) in ascent.ln_explained().iter().enumerate() {
        let weight = ascent.weight(row) as f32;
        let is_low = *explained < cut;
        let stride = match is_low {
            true if *explained < lowest_cut => 1,
            true => LOW_STRIDE,
            false => STRIDE,
        };
        let number = if is_low { &mut passed_low } else { &mut passed };
        *number += usize::from(stride > 1);
        if weight <= 0.0 || (stride > 1 && *number % stride != 1) {
            continue;
        }
        let x = ascent.batch().row(row);
        let known = if is_low {
            terms.clear();
            terms.extend(posterior.components().iter().filter_map(|component| {
                let mass = posterior.process().existing_mass(&component.evidence().labels);
                (mass > 0.0).then(|| mass.ln() + component.predictive(posterior.family()).ln_density(x))
            }));
            log_sum_exp(terms)
        } else {
            ascent.ln_density_of_possible(row)
        };
        let ln_density = log_sum_exp(&[known, new_mass.ln() + prior.ln_density(x)]) - total.ln();
        looked.push((place(ln_density), stride as f32 * weight));
    }
}
