//! Mean-field variational inference for a Dirichlet process mixture, truncated (Blei and Jordan 2006).
//!
//! Each iteration is one E-step over all rows and one M-step; both maximise the evidence lower bound over their own block,
//! and so does putting the components into the order that suits the sticks. The bound never falls.

use anabranch::batch::Batch;
use anabranch::engine::Flow;
use anabranch::family::Family;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::mixture::{Mixture, base_measure};
use crate::publish::Run;
use crate::sweep::sweep;
use crate::{Config, FitError, Fitted, seed};

/// Runs to convergence, to the last iteration, or until the observer asks to stop.
pub(crate) fn run<F: Family>(
    rows: &Batch,
    config: &Config,
    iterations: usize,
    mut run: Run<'_, F>,
) -> Result<Fitted<F>, FitError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(config.seed);
    let start = seed::start(run.family, rows, config.truncation, &mut rng);
    let mut mixture = Mixture::new(run.family, run.process.alpha(), start);
    let base = base_measure(run.family, rows);
    let enough = config.tolerance * rows.n_rows() as f64;
    let mut objective: Vec<f64> = Vec::new();
    for _ in 0..iterations {
        mixture.order();
        let all = 0..rows.n_rows();
        mixture.totals = sweep(mixture.family, rows, all, &mixture.parameters(), config.threads);
        let bound = mixture.objective() + base;
        let gain = objective.last().map_or(f64::INFINITY, |last| bound - last);
        objective.push(bound);
        if run.step(rows.n_rows(), &mixture.state(rows.n_rows()))? == Flow::Stop || gain <= enough {
            break;
        }
    }
    run.finish(&mixture.state(rows.n_rows()), objective)
}
