//! The cluster of a row.
//!
//! It is that of its most probable component, unless that one lies low: its centre is far below the peak of its cluster, as in
//! noise and tails, or it is common ground, a wide component that several clusters rise out of. Such a component is no hill, and
//! hardly says which hill its rows stand at the foot of. For them
//!
//! ```text
//! component   argmax_k  r_k p(μ_k) / p(peak of its cluster),     k not common ground
//! ```
//!
//! with the probability `r_k` of component `k` for the row: each speaks for its cluster by how much of its peak it reaches.

use super::Clusters;
use crate::family::Family;
use crate::identify::ComponentId;
use crate::posterior::{Posterior, Predictor};
use crate::process::Process;

/// Clusters, prepared for many rows.
pub struct RowClusters {
    clusters: Clusters,
    /// The components with what they say; none where no component lies low.
    hills: Option<Predictor>,
}

impl RowClusters {
    /// For rows that a predictor of this snapshot labels.
    pub fn new<F: Family, P: Process>(posterior: &Posterior<F, P>, clusters: Clusters) -> Self {
        let any_low = posterior.components().iter().any(|component| clusters.lies_low(component.id()));
        let hills = any_low.then(|| Predictor::among(posterior, |id| clusters.say(id)));
        Self { clusters, hills }
    }

    /// The name of the cluster of a row with this most probable component; `None` for noise.
    pub fn of(&self, component: ComponentId, row: &[f64]) -> Option<ComponentId> {
        let own = self.clusters.of(component)?;
        match &self.hills {
            Some(hills) if self.clusters.lies_low(component) => {
                hills.label(row).map_or(Some(own), |hill| self.clusters.of(hill))
            }
            _ => Some(own),
        }
    }
}
