//! Prediction from a snapshot: the density that every algorithm reports, and labels by component id.
//!
//! ```text
//! p(x) = Σ_k m_k/(N + α) · p(x | component k)  +  α/(N + α) · p(x | prior)
//! ```
//!
//! with the family's exact posterior predictive; `m_k = t_k` and the mass `α` of a new component come from the process.

use std::sync::Arc;

use super::Posterior;
use crate::batch::Batch;
use crate::family::{Family, Predictive};
use crate::identify::ComponentId;
use crate::math::log_sum_exp::log_sum_exp;
use crate::process::Process;

/// The predictive densities of a snapshot, prepared once for many rows.
pub struct Predictor {
    ids: Vec<ComponentId>,
    ln_weights: Vec<f64>,
    predictives: Vec<Arc<dyn Predictive>>,
    ln_weight_new: f64,
    prior: Box<dyn Predictive>,
}

impl Predictor {
    /// Prepares every component of the snapshot.
    pub fn new<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Self {
        let family = posterior.family();
        let process = posterior.process();
        let mut predictor = Self {
            ids: Vec::new(),
            ln_weights: Vec::new(),
            predictives: Vec::new(),
            ln_weight_new: 0.0,
            prior: family.predictive(&vec![0.0; family.n_features()]),
        };
        let new_mass = process.new_mass(posterior.components().iter().map(|c| &c.evidence().labels));
        let mut total = new_mass;
        for component in posterior.components() {
            let mass = process.existing_mass(&component.evidence().labels);
            // An emptied component has no say; its logarithm would be −∞.
            if mass > 0.0 {
                total += mass;
                predictor.ids.push(component.id());
                predictor.ln_weights.push(mass.ln());
                predictor.predictives.push(Arc::clone(component.predictive(family)));
            }
        }
        let ln_total = total.ln();
        predictor.ln_weights.iter_mut().for_each(|w| *w -= ln_total);
        predictor.ln_weight_new = new_mass.ln() - ln_total;
        predictor
    }

    /// Ids of the components, in the order of [`Predictor::responsibilities`].
    pub fn ids(&self) -> &[ComponentId] {
        &self.ids
    }

    /// Log predictive density of a row.
    pub fn ln_density(&self, x: &[f64]) -> f64 {
        let mut terms = Vec::with_capacity(self.ids.len() + 1);
        self.ln_density_with(x, &mut terms)
    }

    /// Mean log predictive density of the rows (weighted where they are), or `None` when there are none.
    pub fn mean_ln_density(&self, batch: &Batch) -> Option<f64> {
        let mut terms = Vec::with_capacity(self.ids.len() + 1);
        let mut total = 0.0;
        for (row_ix, row) in batch.rows().enumerate() {
            total += batch.weights().map_or(1.0, |w| w[row_ix]) * self.ln_density_with(row, &mut terms);
        }
        (batch.mass() > 0.0).then(|| total / batch.mass())
    }

    /// The most probable component of a row; `None` when the model has no component yet.
    pub fn label(&self, x: &[f64]) -> Option<ComponentId> {
        let mut best: Option<(ComponentId, f64)> = None;
        for ((id, ln_weight), predictive) in self.ids.iter().zip(&self.ln_weights).zip(&self.predictives) {
            let score = ln_weight + predictive.ln_density(x);
            if best.is_none_or(|(_, highest)| score > highest) {
                best = Some((*id, score));
            }
        }
        best.map(|(id, _)| id)
    }

    /// Probabilities of the existing components for a row, in the order of [`Predictor::ids`]; they sum to 1.
    pub fn responsibilities(&self, x: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.extend(self.ln_weights.iter().zip(&self.predictives).map(|(w, p)| w + p.ln_density(x)));
        let total = log_sum_exp(out);
        // Far out, every density underflows to −∞: fall back to the weights instead of 0/0.
        if total == f64::NEG_INFINITY {
            out.copy_from_slice(&self.ln_weights);
        }
        let total = log_sum_exp(out);
        out.iter_mut().for_each(|v| *v = (*v - total).exp());
    }

    fn ln_density_with(&self, x: &[f64], terms: &mut Vec<f64>) -> f64 {
        terms.clear();
        terms.extend(self.ln_weights.iter().zip(&self.predictives).map(|(w, p)| w + p.ln_density(x)));
        terms.push(self.ln_weight_new + self.prior.ln_density(x));
        log_sum_exp(terms)
    }
}
