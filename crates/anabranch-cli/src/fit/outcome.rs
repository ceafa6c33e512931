//! The result of a fit as one JSON object; the names of its fields are a contract.

use anabranch::clusters::Clusters;
use anabranch::family::{AnyFamily, Family};
use anabranch::infer::Between;
use serde::Serialize;

use super::session::Finished;
use crate::args::EngineArgs;
use crate::evaluate::Agreement;
use crate::fit::describe;
use crate::resources::peak_rss_bytes;

/// What `fit --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Rows absorbed.
    pub observations: u64,
    /// Columns of a row.
    pub dimensions: usize,
    /// Components of the model.
    pub components: usize,
    /// Between how many components the data cannot tell: `{"fewest": …, "most": …}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components_between: Option<Between>,
    /// Components with an expected count of at least 1.
    pub effective_components: usize,
    /// Clusters: groups of components that no valley parts.
    pub clusters: usize,
    /// Sum of the expected counts.
    pub mass: f64,
    /// Rows that do not count any more, where the past fades: with the mass, those absorbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<f64>,
    /// Seconds of the fit, reading included, evaluation and reports not.
    pub seconds: f64,
    /// Processor seconds of the same.
    pub cpu_seconds: f64,
    /// Minibatches absorbed.
    pub minibatches: u64,
    /// Assignment problems solved.
    pub matchings: u64,
    /// Entries that had to be identified again.
    pub conflicts: u64,
    /// Seconds until the first minibatch had been learned and the workers began; part of `seconds`.
    pub first_minibatch_seconds: f64,
    /// Seconds that threads waited for the lock around the central posterior, all threads together.
    pub central_wait_seconds: f64,
    /// Seconds that the lock was held.
    pub central_merge_seconds: f64,
    /// Bad rows left out.
    pub skipped_rows: u64,
    /// Missing values of the others.
    pub missing_cells: u64,
    /// Width of the interval that a value of each column stands for, where any column is rounded; 0 for exact ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Vec<f64>>,
    /// Rows of each in the data that are equal, about: 1 where rows do not repeat.
    pub copies: f64,
    /// Mean log predictive density of a held-out row.
    pub test_log_likelihood: Option<f64>,
    /// Agreement with the true labels.
    pub adjusted_rand: Option<f64>,
    /// Agreement with the true labels.
    pub normalized_mutual_information: Option<f64>,
    /// Agreement of the clusters with the true labels.
    pub clusters_adjusted_rand: Option<f64>,
    /// Agreement of the clusters with the true labels.
    pub clusters_normalized_mutual_information: Option<f64>,
    /// The most memory held.
    pub peak_rss_bytes: Option<u64>,
    /// Threads that inferred.
    pub threads: usize,
    /// Logical workers.
    pub workers: usize,
    /// Seed.
    pub seed: u64,
    /// Algorithm.
    pub algorithm: String,
    /// Model.
    pub model: &'static str,
    /// Family.
    pub family: String,
    /// Concentration.
    pub alpha: f64,
    /// Discount of a Pitman–Yor process.
    pub discount: Option<f64>,
    /// True when the run was stopped before the end of the input.
    pub stopped: bool,
    /// Version of the program.
    pub version: &'static str,
}

impl Outcome {
    /// Collects the figures of a finished run.
    pub fn new(
        finished: &Finished,
        clusters: &Clusters,
        args: &EngineArgs,
        agreement: Option<Agreement>,
    ) -> Self {
        let (posterior, provenance) = (finished.posterior(), &finished.model.provenance);
        let (threads, workers) = args.parallelism();
        Self {
            observations: provenance.observations,
            dimensions: posterior.family().dimensions(),
            components: posterior.components().len(),
            components_between: provenance.between,
            effective_components: posterior.effective_components(),
            clusters: clusters.len(),
            mass: posterior.expected_mass(),
            forgotten: posterior.past().half_life.map(|_| posterior.past().forgotten),
            seconds: finished.seconds,
            cpu_seconds: finished.cpu_seconds,
            minibatches: finished.minibatches,
            matchings: provenance.matchings,
            conflicts: provenance.conflicts,
            first_minibatch_seconds: finished.first_minibatch_seconds,
            central_wait_seconds: finished.section.waiting.as_secs_f64(),
            central_merge_seconds: finished.section.merging.as_secs_f64(),
            skipped_rows: provenance.skipped_rows,
            missing_cells: finished.missing_cells,
            resolution: resolution(posterior.family()),
            copies: finished.copies,
            test_log_likelihood: finished.test_log_likelihood,
            adjusted_rand: agreement.map(|a| a.adjusted_rand),
            normalized_mutual_information: agreement.map(|a| a.normalized_mutual_information),
            clusters_adjusted_rand: agreement.map(|a| a.clusters_adjusted_rand),
            clusters_normalized_mutual_information: agreement
                .map(|a| a.clusters_normalized_mutual_information),
            peak_rss_bytes: peak_rss_bytes(),
            threads,
            workers,
            seed: provenance.seed,
            algorithm: provenance.algorithm.clone(),
            model: posterior.process().name(),
            family: describe(posterior.family()),
            alpha: posterior.process().alpha(),
            discount: posterior.process().discount().map(|discount| discount.value()),
            stopped: finished.stopped,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// The width of each column's intervals, where any column is rounded.
pub(crate) fn resolution(family: &AnyFamily) -> Option<Vec<f64>> {
    let widths = (0..family.dimensions()).map(|column| family.resolution(column).unwrap_or(0.0));
    widths.clone().any(|width| width > 0.0).then(|| widths.collect())
}
