//! How well rows are usually explained before they are learned: by that a stream shows that it has changed.

use serde::{Deserialize, Serialize};

/// Nats that one minibatch's median can differ from the usual: a cluster far from everything would make nearer ones seem
/// familiar for ever.
const FARTHEST: f64 = 10.0;

/// No log-density of data is of this size.
const LARGEST: f64 = 1e100;

/// Weight of data beyond which the older ones count less and less.
const WINDOW: f64 = 100_000.0;

/// The mean, over the last minibatches by their weight, of the median log-density of a minibatch's rows before they were
/// learned.
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

    /// What it is of the minibatches of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { total: self.total + other.total, mass: self.mass + other.mass }
    }

    /// What it is when the minibatches so far count this share.
    pub(crate) fn faded(self, share: f64) -> Self {
        Self { total: share * self.total, mass: share * self.mass }
    }

    /// What it is after one more minibatch. Finite whatever the numbers are, if they are finite.
    pub(crate) fn after(self, median: f64, mass: f64) -> Self {
        let median = self.usual().map_or(median, |usual| median.clamp(usual - FARTHEST, usual + FARTHEST));
        let (median, mass) = (median.clamp(-LARGEST, LARGEST), mass.min(WINDOW));
        let kept = ((WINDOW - mass) / self.mass).min(1.0);
        let before = if self.mass > 0.0 { kept } else { 0.0 };
        Self { total: before * self.total + mass * median, mass: before * self.mass + mass }
    }
}
