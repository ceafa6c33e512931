//! How probable the rows of a minibatch are before they are learned: what makes a later row unusual.
//!
//! ```text
//! log p(x) = log [ Σ_k m_k p(x | component k)  +  α p(x | prior) ] − log (Σ_k m_k + α)
//! ```
//!
//! with exact predictive densities. Preparing those costs more than the few rows: the least probable rows, about which later questions
//! are, are all looked at, and of the others one in [`STRIDE`], which counts for so many, over the components that the E-step found
//! possible for it. For the least probable rows all components count: far out, where tails are heavy, it is others that explain a row.

use super::ascent::Ascent;
use crate::family::Family;
use crate::math::log_sum_exp::log_sum_exp;
use crate::posterior::{Densities, densities, place};
use crate::process::Process;

/// The share of the rows that are all looked at.
const LOW_SHARE: f64 = 0.12;

/// Of the others, one in so many.
const STRIDE: usize = 8;

/// The densities of the rows, given an ascent that has just assigned them to known components.
pub(super) fn of_rows<F: Family, P: Process>(ascent: &mut Ascent<'_, F, P>) -> Densities {
    let mut sorted = std::mem::take(&mut ascent.memory.sorted);
    let mut looked = std::mem::take(&mut ascent.memory.looked);
    sorted.clear();
    sorted.extend(ascent.ln_explained());
    looked.clear();
    look(ascent, &mut sorted, &mut looked);
    let found = densities(&mut looked);
    (ascent.memory.sorted, ascent.memory.looked) = (sorted, looked);
    found
}

fn look<F: Family, P: Process>(ascent: &Ascent<'_, F, P>, sorted: &mut [f64], looked: &mut Vec<(i32, f32)>) {
    let low = (LOW_SHARE * sorted.len() as f64) as usize;
    if sorted.is_empty() {
        return;
    }
    let cut = *sorted.select_nth_unstable_by(low, f64::total_cmp).1;
    let posterior = ascent.posterior();
    let labels = || posterior.components().iter().map(|c| &c.evidence().labels);
    let new_mass = posterior.process().new_mass(labels());
    let total = new_mass + labels().map(|labels| posterior.process().existing_mass(labels)).sum::<f64>();
    let prior = posterior.nothing().predictive(posterior.family());
    let ln_masses: Vec<f64> = labels().map(|labels| posterior.process().existing_mass(labels).ln()).collect();
    let mut terms = Vec::with_capacity(ln_masses.len());
    let mut passed = 0;
    for (row, explained) in ascent.ln_explained().iter().enumerate() {
        let weight = ascent.weight(row) as f32;
        let is_low = *explained < cut;
        passed += usize::from(!is_low);
        if weight <= 0.0 || (!is_low && passed % STRIDE != 1) {
            continue;
        }
        let x = ascent.batch().row(row);
        let known = if is_low {
            let all = posterior.components().iter().zip(&ln_masses).filter(|(_, mass)| mass.is_finite());
            terms.clear();
            terms.extend(all.map(|(c, mass)| mass + c.predictive(posterior.family()).ln_density(x)));
            log_sum_exp(&terms)
        } else {
            ascent.ln_density_of_possible(row)
        };
        let ln_density = log_sum_exp(&[known, new_mass.ln() + prior.ln_density(x)]) - total.ln();
        let share = if is_low { 1.0 } else { STRIDE as f32 };
        looked.push((place(ln_density), share * weight));
    }
}
