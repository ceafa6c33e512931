//! What a report is made of, as plain data.

use anabranch::clusters::{Clusters, Measure, Tree};
use serde::Serialize;

use crate::doubts::Doubts;

/// Everything that a report shows. Parts that are empty are said to be empty, not hidden.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReportData {
    /// Heading of the page.
    pub title: String,
    /// One sentence below the heading; may be empty.
    pub subtitle: String,
    /// Names and values worth knowing first: rows, components, seconds.
    pub facts: Vec<(String, String)>,
    /// A sample of the rows, in the plane.
    pub points: Option<ScatterData>,
    /// The components in the same plane.
    pub ellipses: Vec<EllipseData>,
    /// Component ids with the expected number of their rows.
    pub sizes: Vec<(u64, f64)>,
    /// How the run went on, in the order of minibatches.
    pub trace: Vec<TraceRow>,
    /// Held-out log-likelihood per row of the mixture that made the data, where it is known.
    pub reference_log_likelihood: Option<f64>,
    /// The components with their parameters.
    pub component_table: Vec<ComponentRow>,
    /// The clusters, the largest first.
    pub clusters: Vec<ClusterRow>,
    /// How they join; `None` where nobody looked.
    pub tree: Option<TreeData>,
    /// Names of the columns of the data.
    pub column_names: Vec<String>,
    /// What is doubtful about the model; `None` where nobody looked.
    pub doubts: Option<Doubts>,
    /// The rows of the sample that the model explains worst, the worst first.
    pub worst_rows: Vec<BadRow>,
    /// What the reader has to know before trusting the rest.
    pub warnings: Vec<String>,
}

/// Rows in the plane.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ScatterData {
    /// Level coordinate of each row.
    pub x: Vec<f64>,
    /// Upright coordinate of each row; empty for data of one column, which is drawn as a histogram.
    pub y: Vec<f64>,
    /// The most probable component of each row; missing ones count as unassigned.
    pub component: Vec<Option<u64>>,
    /// The cluster of each row; empty where nobody looked.
    pub cluster: Vec<Option<u64>>,
    /// Name of the level coordinate.
    pub x_label: String,
    /// Name of the upright coordinate.
    pub y_label: String,
}

/// A component in the plane.
#[derive(Clone, Debug, Serialize)]
pub struct EllipseData {
    /// Which component.
    pub id: u64,
    /// The cluster that it is part of.
    pub cluster: Option<u64>,
    /// Its share of the rows.
    pub weight: f64,
    /// Its centre; the second number is unused for data of one column.
    pub mean: [f64; 2],
    /// Variance of x, covariance, variance of y.
    pub covariance: [f64; 3],
}

/// A cluster with what sets it apart.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterRow {
    /// Its name.
    pub name: u64,
    /// Expected number of its rows.
    pub rows: f64,
    /// Its share of all rows.
    pub weight: f64,
    /// How many components it is made of.
    pub components: usize,
    /// The highest pass to another cluster, as a part of its peak.
    pub valley: Option<f64>,
    /// True where it is too small and counts as noise.
    pub noise: bool,
    /// What it has in the columns in which it differs most from the rest, and by how many of their standard deviations.
    pub differences: Vec<(String, f64)>,
}

/// How clusters join, from the last join down: a binary tree drawn from left to right.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TreeData {
    /// Clusters from left to right, with their rows.
    pub leaves: Vec<(u64, f64)>,
    /// Joins from the highest pass down: places of two nodes (leaves first, then earlier joins), and the log height of the pass
    /// under the highest peak; `None` where nothing connects them.
    pub joins: Vec<(usize, usize, Option<f64>)>,
    /// Log height of the peak of each leaf.
    pub peaks: Vec<f64>,
    /// True where heights are log densities, false where they tell how many rows components share.
    pub density: bool,
}

impl TreeData {
    /// The joins of a tree between the clusters that a cut left.
    pub fn new(tree: &Tree, clusters: &Clusters) -> Self {
        let all = clusters.clusters();
        let place = |leaf: usize| {
            let component = tree.leaves[leaf].component;
            all.iter().position(|cluster| cluster.components.binary_search(&component).is_ok())
        };
        // The node that each cluster is part of so far.
        let mut node: Vec<usize> = (0..all.len()).collect();
        let mut joins = Vec::new();
        for join in &tree.joins {
            let (Some(a), Some(b)) = (place(join.left), place(join.right)) else { continue };
            let (a, b) = (node[a], node[b]);
            if a != b {
                let made = all.len() + joins.len();
                joins.push((a, b, join.height.is_finite().then_some(join.height)));
                node.iter_mut().filter(|own| **own == a || **own == b).for_each(|own| *own = made);
            }
        }
        Self {
            leaves: all.iter().map(|cluster| (cluster.name.0, cluster.rows)).collect(),
            peaks: all.iter().map(|cluster| cluster.peak).collect(),
            joins,
            density: tree.measure == Measure::Density,
        }
    }
}

/// The state of a run after a minibatch.
#[derive(Clone, Debug, Serialize)]
pub struct TraceRow {
    /// Seconds since the start.
    pub seconds: f64,
    /// Number of the minibatch, from 1.
    pub minibatch: u64,
    /// Components in the model.
    pub components: u64,
    /// Matchings solved since the start.
    pub matchings: u64,
    /// Matchings since the start for which the model had changed under the worker.
    pub conflicts: u64,
    /// Mean held-out log-likelihood per row, where it was measured.
    pub test_log_likelihood: Option<f64>,
}

/// A component with its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct ComponentRow {
    /// Which component.
    pub id: u64,
    /// The cluster that it is part of.
    pub cluster: Option<u64>,
    /// Expected number of its rows.
    pub count: f64,
    /// Its share of all rows.
    pub weight: f64,
    /// What it is in each column.
    pub cells: Vec<String>,
    /// What these are sorted by, where not by their letters.
    pub order: Vec<Option<f64>>,
}

/// A row that is explained badly.
#[derive(Clone, Debug, Serialize)]
pub struct BadRow {
    /// Number of the row in the input, from 1.
    pub row: u64,
    /// Log predictive density.
    pub log_density: f64,
    /// The component that it is taken for.
    pub component: Option<u64>,
}
