//! What a report is made of, as plain data.

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
    /// Its share of the rows.
    pub weight: f64,
    /// Its centre; the second number is unused for data of one column.
    pub mean: [f64; 2],
    /// Variance of x, covariance, variance of y.
    pub covariance: [f64; 3],
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
    /// Expected number of its rows.
    pub count: f64,
    /// Its share of all rows.
    pub weight: f64,
    /// Mean of each column.
    pub mean: Vec<f64>,
    /// Standard deviation of each column.
    pub spread: Vec<f64>,
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
