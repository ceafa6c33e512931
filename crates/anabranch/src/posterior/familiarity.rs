//! How well rows are usually explained before they are learned: by that a stream shows that it has changed.

use serde::{Deserialize, Serialize};

/// The mean, over minibatches by their weight, of the median log-density of a minibatch's rows before they were learned.
///
/// Densities are those of the snapshot that the minibatch was learned from, up to the base measure of the family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Familiarity {
    /// Sum of the medians, each times the weight of its minibatch.
    pub total: f64,
    /// Weight of those minibatches.
    pub mass: f64,
}

impl Familiarity {
    /// The usual median; `None` until a minibatch has told one.
    pub fn usual(&self) -> Option<f64> {
        (self.mass > 0.0).then(|| self.total / self.mass)
    }

    pub(crate) fn observe(&mut self, median: f64, mass: f64) {
        self.total += mass * median;
        self.mass += mass;
    }
}
