//! What distinguishes each cluster: the columns in which it differs most from the rest.
//!
//! ```text
//! m = Σ_k t_k μ_k / n,     v = Σ_k t_k (σ_k² + μ_k²) / n − m²            over the components of a cluster, and over all others
//! difference = (m − m_rest) / √v_rest
//! ```

use serde::Serialize;

use super::{Cluster, Clusters};
use crate::family::{Family, Summary};
use crate::identify::ComponentId;
use crate::posterior::Posterior;
use crate::process::Process;

/// One column of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The column, by its place.
    pub column: usize,
    /// Mean of the cluster's rows.
    pub mean: f64,
    /// Standard deviation of the cluster's rows.
    pub spread: f64,
    /// How far the mean lies from that of all other rows, in their standard deviations; from 0 where there are no others.
    pub deviations: f64,
}

/// For each cluster its columns, the one that differs most first. In columns of categories the mean is that of their codes.
pub fn differences<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    clusters: &Clusters,
) -> Vec<Vec<Difference>> {
    let d = posterior.family().dimensions();
    let summaries: Vec<(ComponentId, f64, Summary)> = posterior
        .components()
        .iter()
        .filter(|component| component.expected_count() > 0.0)
        .map(|c| (c.id(), c.expected_count(), posterior.family().summary(&c.evidence().stats)))
        .collect();
    // Sums around one place: squares of values far from zero keep no digits of their spread.
    let total: f64 = summaries.iter().map(|(_, rows, _)| rows).sum();
    let centre: Vec<f64> =
        (0..d).map(|c| summaries.iter().map(|(_, rows, s)| rows / total * s.mean[c]).sum()).collect();
    let sums = |of: &dyn Fn(ComponentId) -> bool, column: usize| {
        let mut sums = [0.0; 3];
        for (_, rows, summary) in summaries.iter().filter(|(id, ..)| of(*id)) {
            let mean = summary.mean[column] - centre[column];
            sums[0] += rows;
            sums[1] += rows * mean;
            sums[2] += rows * (mean * mean + summary.spread[column].powi(2));
        }
        sums
    };
    let all: Vec<[f64; 3]> = (0..d).map(|column| sums(&|_| true, column)).collect();
    let of_cluster = |cluster: &Cluster| {
        let is_part = |id: ComponentId| cluster.components.binary_search(&id).is_ok();
        let mut columns: Vec<Difference> = (0..d)
            .map(|column| {
                let own = sums(&is_part, column);
                let rest = [0, 1, 2].map(|ix| all[column][ix] - own[ix]);
                let (mean, spread) = moments(own);
                let (rest_mean, rest_spread) =
                    if clusters.clusters().len() > 1 { moments(rest) } else { (0.0, 0.0) };
                let deviations = if rest_spread > 0.0 { (mean - rest_mean) / rest_spread } else { 0.0 };
                Difference { column, mean: mean + centre[column], spread, deviations }
            })
            .collect();
        columns
            .sort_by(|a, b| b.deviations.abs().total_cmp(&a.deviations.abs()).then(a.column.cmp(&b.column)));
        columns
    };
    clusters.clusters().iter().map(of_cluster).collect()
}

fn moments([rows, sum, squares]: [f64; 3]) -> (f64, f64) {
    if rows <= 0.0 {
        return (0.0, 0.0);
    }
    let mean = sum / rows;
    (mean, (squares / rows - mean * mean).max(0.0).sqrt())
}
