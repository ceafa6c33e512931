//! Inference for mixtures: features once, births, coordinate ascent, surplus emptied, one consistent state exported.

use rand::Rng;

use super::ascent::{Ascent, Column};
use super::birth;
use super::labels::Labels;
use super::missing::Holes;
use super::skip::Screen;
use super::surprise;
use super::{Increment, Settings};
use crate::batch::Batch;
use crate::family::Family;
use crate::posterior::Posterior;
use crate::process::{LabelStatistics, Process};

/// Memory that one worker reuses from minibatch to minibatch.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) features: Vec<f64>,
    pub(super) phi: Vec<f64>,
    /// Rows with missing values, and the entropy of those for each column.
    pub(super) holes: Holes,
    pub(super) hidden: Vec<f64>,
    pub(super) labels: Labels,
    pub(super) screen: Screen,
    pub(super) sums: Vec<f64>,
    pub(super) ln_weights: Vec<f64>,
    /// Where the known components that rows can belong to stand in the posterior.
    pub(super) places: Vec<usize>,
    /// For each column, the sums that its parameters were computed from, its term of the objective there, and whether that was
    /// in the last M-step.
    pub(super) anchors: Vec<f64>,
    pub(super) terms: Vec<f64>,
    pub(super) changed: Vec<bool>,
    pub(super) columns: Vec<Column>,
    pub(super) flags: Vec<bool>,
    pub(super) names: Vec<Option<usize>>,
    pub(super) statistics: Vec<LabelStatistics>,
    pub(super) sorted: Vec<f64>,
    /// Places of the densities of rows, with their weights.
    pub(super) looked: Vec<(i32, f32)>,
    /// Terms of the density of one row.
    pub(super) density_terms: Vec<f64>,
    /// What was possible when rows were looked at again, piece by piece.
    pub(super) possible: Vec<Labels>,
}

/// How the ascent went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InferenceReport {
    /// The objective after each iteration; it never falls (ELBO).
    pub objective: Vec<f64>,
    /// Rows that the posterior explained badly.
    pub novel_rows: usize,
    /// Components that births proposed.
    pub proposed: usize,
    /// Proposed components that were emptied back into the others.
    pub emptied: usize,
}

/// Learns from one minibatch with the central posterior as prior.
///
/// Every row is in the family's domain (the edge has checked). Deterministic given the state of `rng`.
pub fn infer<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    batch: &Batch,
    settings: &Settings,
    rng: &mut impl Rng,
    workspace: &mut Workspace,
) -> (Increment, InferenceReport) {
    let mut report = InferenceReport::default();
    // No rows, or only rows of weight 0: there is nothing to learn and nothing to open a component for.
    if batch.mass() <= 0.0 {
        return (Increment::nothing(posterior.version()), report);
    }
    let mut ascent = Ascent::start(posterior, batch, settings.precision, workspace);
    let familiarity = surprise::familiarity(&mut ascent);
    let births = birth::propose(&ascent, settings, rng);
    report.novel_rows = births.novel.len();
    report.proposed = births.n_components;
    if births.n_components == 0 {
        // Nothing new: the E-step that found that out is the whole inference, and one M-step ends it.
        ascent.accumulate();
        return (Increment { familiarity, ..ascent.export() }, report);
    }
    ascent.open(&births);
    ascent.climb(settings, &mut report.objective);
    loop {
        let emptied = ascent.empty_surplus(posterior.process().least_count());
        report.emptied += emptied;
        if emptied == 0 {
            break;
        }
        ascent.climb(settings, &mut Vec::new());
    }
    (Increment { familiarity, ..ascent.export() }, report)
}
