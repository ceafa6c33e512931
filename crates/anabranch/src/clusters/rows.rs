//! The cluster of a row.
//!
//! It is that of its most probable component, unless that one is common ground: a wide component that several clusters rise out
//! of, such as heavy tails or noise. Such a component is no hill, and each of its rows belongs to the cluster of the most probable
//! component that is not common ground.

use super::Clusters;
use crate::family::Family;
use crate::identify::ComponentId;
use crate::posterior::{Posterior, Predictor};
use crate::process::Process;

/// Clusters, prepared for many rows.
pub struct RowClusters {
    clusters: Clusters,
    /// The components that are hills; none where all are.
    hills: Option<Predictor>,
}

impl RowClusters {
    /// For rows that a predictor of this snapshot labels.
    pub fn new<F: Family, P: Process>(posterior: &Posterior<F, P>, clusters: Clusters) -> Self {
        let common = clusters.common();
        let hills = (!common.is_empty())
            .then(|| Predictor::among(posterior, |id| common.binary_search(&id).is_err()));
        Self { clusters, hills }
    }

    /// The name of the cluster of a row with this most probable component; `None` for noise.
    pub fn of(&self, component: ComponentId, row: &[f64]) -> Option<ComponentId> {
        let own = self.clusters.of(component)?;
        match &self.hills {
            Some(hills) if self.clusters.common().binary_search(&component).is_ok() => {
                hills.label(row).map_or(Some(own), |hill| self.clusters.of(hill))
            }
            _ => Some(own),
        }
    }
}
