//! Stochastic variational inference (Hoffman, Blei, Wang and Paisley 2013) with truncated sticks.
//!
//! ```text
//! S ← (1 − ρ_t) S + ρ_t · N/|b| · S_b
//! ```
//!
//! `S_b` are the sums of a random minibatch under the parameters of `S`. Global parameters are linear in `S`, so this is the
//! step along the natural gradient. The sums always stand for all `N` rows.

use anabranch::batch::Batch;
use anabranch::engine::Flow;
use anabranch::family::Family;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::mixture::Mixture;
use crate::publish::Run;
use crate::sweep::sweep;
use crate::{Config, FitError, Fitted, seed};

/// Runs all passes, or until the observer asks to stop.
pub(crate) fn run<F: Family>(
    rows: &Batch,
    config: &Config,
    passes: usize,
    mut run: Run<'_, F>,
) -> Result<Fitted<F>, FitError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(config.seed);
    let rows = &shuffled(rows, &mut rng);
    let n = rows.n_rows();
    let start = seed::start(run.family, rows, config.truncation, &mut rng);
    let mut mixture = Mixture::new(run.family, run.process.alpha(), start);
    let mut firsts: Vec<usize> = (0..n).step_by(config.batch_size).collect();
    let mut t = 0;
    'passes: for _ in 0..passes {
        firsts.shuffle(&mut rng);
        mixture.order();
        for first in &firsts {
            let range = *first..(first + config.batch_size).min(n);
            t += 1;
            let size = range.len();
            let sums = sweep(mixture.family, rows, range, &mixture.parameters(), config.threads);
            mixture.totals.move_towards(&sums.scaled(n as f64 / size as f64), config.rate.of_step(t));
            if run.step(size, &mixture.state(n))? == Flow::Stop {
                break 'passes;
            }
        }
    }
    run.finish(&mixture.state(n), Vec::new())
}

/// The rows in random order, so that consecutive ones are a random minibatch.
pub(crate) fn shuffled(rows: &Batch, rng: &mut impl Rng) -> Batch {
    let mut order: Vec<usize> = (0..rows.n_rows()).collect();
    order.shuffle(rng);
    let values = order.iter().flat_map(|row| rows.row(*row)).copied().collect();
    Batch::new(rows.dimensions(), values).expect("the same rows are a batch again")
}

#[cfg(test)]
mod tests {
    use anabranch::family::Gaussian;
    use anabranch_testkit::streams::{Columns, stream};

    use super::*;

    /// Hoffman et al., §2.3: over a random minibatch, the expectation of the noisy step is the step with all rows.
    #[test]
    fn the_steps_of_all_minibatches_average_to_that_of_all_rows() {
        let rows = Batch::new(2, stream(Columns::Reals, 5, 600, 4, 2)).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let start = seed::start(&family, &rows, 6, &mut rng);
        let mixture = Mixture::new(&family, 1.0, start);
        let parameters = mixture.parameters();
        let after = |range: std::ops::Range<usize>| {
            let sums =
                sweep(&family, &rows, range.clone(), &parameters, 1).scaled(600.0 / range.len() as f64);
            let mut totals = mixture.totals.clone();
            totals.move_towards(&sums, 0.3);
            totals.stats
        };
        let whole = after(0..600);
        let parts: Vec<Vec<f64>> = (0..12).map(|b| after(b * 50..(b + 1) * 50)).collect();
        for (ix, expected) in whole.iter().enumerate() {
            let mean = parts.iter().map(|stats| stats[ix]).sum::<f64>() / 12.0;
            assert!((mean - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{mean} {expected}");
        }
    }
}
