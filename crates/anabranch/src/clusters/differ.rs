//! What distinguishes each cluster: the columns in which it differs most from the rest.
//!
//! ```text
//! m = Σ_k t_k μ_k / n,     v = Σ_k t_k (σ_k² + μ_k²) / n − m²            over the components of a cluster, and over all others
//! difference = (m − m_rest) / √v_rest
//! ```
//!
//! Of a column of categories the same is done for the share of each, and the one that is commoner by most than among the
//! others tells: μ is its probability, and σ² = μ (1 − μ). Where the others hardly have it, the deviation is that of all rows.

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
    /// In a column of categories, the code of the one that tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<usize>,
    /// Mean of the cluster's rows; the share of the category where there is one.
    pub mean: f64,
    /// Standard deviation of the cluster's rows.
    pub spread: f64,
    /// How far the mean lies from that of all other rows, in their standard deviations (for a category, those of all rows where these are larger); from 0 where there
    /// are no others.
    pub deviations: f64,
}

/// For each cluster its columns, the one that differs most first.
pub fn differences<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    clusters: &Clusters,
) -> Vec<Vec<Difference>> {
    let family = posterior.family();
    let d = family.dimensions();
    let summaries: Vec<(ComponentId, f64, Summary)> = posterior
        .components()
        .iter()
        .filter(|component| component.expected_count() > 0.0)
        .map(|c| (c.id(), c.expected_count(), family.summary(&c.evidence().stats)))
        .collect();
    // Sums around one place: squares of values far from zero keep no digits of their spread.
    let total: f64 = summaries.iter().map(|(_, rows, _)| rows).sum();
    let centre: Vec<f64> =
        (0..d).map(|c| summaries.iter().map(|(_, rows, s)| rows / total * s.mean[c]).sum()).collect();
    // Mean and variance of a column, or of the indicator of one of its categories.
    let moments_of = |summary: &Summary, column: usize, category: Option<usize>| match category {
        None => (summary.mean[column] - centre[column], summary.spread[column].powi(2)),
        Some(code) => {
            let share = summary.probabilities.as_ref().map_or(0.0, |all| all[column][code]);
            (share, share * (1.0 - share))
        }
    };
    let sums = |of: &dyn Fn(ComponentId) -> bool, (column, category): (usize, Option<usize>)| {
        let mut sums = [0.0; 3];
        for (_, rows, summary) in summaries.iter().filter(|(id, ..)| of(*id)) {
            let (mean, variance) = moments_of(summary, column, category);
            sums[0] += rows;
            sums[1] += rows * mean;
            sums[2] += rows * (mean * mean + variance);
        }
        sums
    };
    let places = |column: usize| match family.categories(column) {
        None => vec![(column, None)],
        Some(categories) => (0..categories).map(|code| (column, Some(code))).collect(),
    };
    let all: Vec<Vec<_>> = (0..d)
        .map(|column| places(column).into_iter().map(|place| (place, sums(&|_| true, place))).collect())
        .collect();
    let of_cluster = |cluster: &Cluster| {
        let is_part = |id: ComponentId| cluster.components.binary_search(&id).is_ok();
        let difference = |((column, category), all): &((usize, Option<usize>), [f64; 3])| {
            let own = sums(&is_part, (*column, *category));
            let rest = [0, 1, 2].map(|ix| all[ix] - own[ix]);
            let (mean, spread) = moments(own);
            let (rest_mean, rest_spread) =
                if clusters.clusters().len() > 1 { moments(rest) } else { (0.0, 0.0) };
            let unit = if category.is_some() { rest_spread.max(moments(*all).1) } else { rest_spread };
            let more = mean - rest_mean;
            let deviations = if rest_spread > 0.0 { more / unit } else { 0.0 };
            let mean = if category.is_none() { mean + centre[*column] } else { mean };
            (more, Difference { column: *column, category: *category, mean, spread, deviations })
        };
        let commonest = |column: &Vec<_>| {
            column.iter().map(difference).reduce(|best, other| if other.0 > best.0 { other } else { best })
        };
        let mut columns: Vec<Difference> = all.iter().filter_map(commonest).map(|(_, told)| told).collect();
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
