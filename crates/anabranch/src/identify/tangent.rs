//! The best matching when the process bounds the number of components by tangents.
//!
//! ```text
//! max_σ [ … + F(E K_σ) ]  =  max_{K₀} max_σ [ … + tangent of F at K₀ ]
//! ```
//!
//! `F` is the supremum of its tangents, so one assignment for each number of components that can be left finds the best
//! correspondence of all. A process in which the number enters linearly needs one.

use super::{Gains, solve};
use crate::process::{LabelStatistics, Population, Process};

/// The labels of all components that a correspondence is about.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Of the components that the minibatch opened (rows).
    pub new: &'a [LabelStatistics],
    /// Of those that appeared in the centre since (columns).
    pub since: &'a [LabelStatistics],
    /// Of all others, which stay as they are.
    pub rest: &'a [LabelStatistics],
    /// Number of data, those of the minibatch included.
    pub observations: f64,
}

/// For each new component the one of the centre that it is joined with, so that likelihood and process together gain
/// most; with the objective, up to the likelihood of all components apart.
pub fn match_components<P: Process>(
    process: &P,
    likelihood: &Gains,
    labels: Labels<'_>,
) -> (Vec<Option<usize>>, f64) {
    let occupied = |of: &[LabelStatistics]| of.iter().map(LabelStatistics::probability_occupied).sum::<f64>();
    let (opened, appeared) = (occupied(labels.new), occupied(labels.since));
    let most = occupied(labels.rest) + opened + appeared;
    let mut best: Option<(Vec<Option<usize>>, f64)> = None;
    for touching in process.tangents(most - opened.min(appeared), most) {
        let all = Population { observations: labels.observations, occupied: touching as f64 };
        let found = match_under(process, likelihood, labels, all);
        if best.as_ref().is_none_or(|(_, objective)| found.1 > *objective) {
            best = Some(found);
        }
    }
    best.unwrap_or_else(|| (vec![None; labels.new.len()], f64::NEG_INFINITY))
}

fn match_under<P: Process>(
    process: &P,
    likelihood: &Gains,
    labels: Labels<'_>,
    all: Population,
) -> (Vec<Option<usize>>, f64) {
    let score = |stats: &LabelStatistics| process.score(stats, all);
    let scores = |of: &[LabelStatistics]| of.iter().map(score).collect::<Vec<f64>>();
    let (new, since) = (scores(labels.new), scores(labels.since));
    let mut gains = likelihood.clone();
    for (row, (own, alone)) in labels.new.iter().zip(&new).enumerate() {
        for (col, (other, other_alone)) in labels.since.iter().zip(&since).enumerate() {
            let mut joined = *own;
            joined += *other;
            gains.values[row * since.len() + col] += score(&joined) - (alone + other_alone);
        }
    }
    let columns = solve(&gains);
    let apart: f64 = new.iter().chain(&since).chain(&scores(labels.rest)).sum();
    let objective = process.normaliser(all) + apart + gains.total(&columns);
    (columns, objective)
}
