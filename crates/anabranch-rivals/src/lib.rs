//! The algorithms that the paper compares with (§4), behind the interface of the engine: the same families, the same
//! prior, the same observer, and a result that is an ordinary model.
//!
//! | [`Algorithm`] | source | passes over the rows |
//! |---|---|---|
//! | `Batch` | mean-field inference with truncated sticks (Blei and Jordan 2006) | one for each iteration |
//! | `Svi` | stochastic variational inference (Hoffman, Blei, Wang and Paisley 2013) | a few, by minibatches |
//! | `Movb` | memoized online inference with births, merges and deletes (Hughes and Sudderth 2013) | one for each lap, and some rows again for deletes |
//! | `Sva` | sequential variational approximation (Lin 2013) | one |
//! | `Subcluster` | parallel Markov chain with sub-cluster splits (Chang and Fisher 2013) | one for each sweep |
//!
//! They are no streams: all rows are in memory, unweighted, in the family's domain. No files, no sockets, no clock.
//!
//! ```
//! use anabranch::batch::Batch;
//! use anabranch::family::Gaussian;
//! use anabranch::posterior::Predictor;
//! use anabranch::process::{Bound, Dirichlet};
//! use anabranch_rivals::{Algorithm, Config, fit};
//!
//! let rows = (0..400).map(|i| f64::from(i % 2) * 10.0 + f64::from((i * 7) % 20) / 20.0);
//! let rows = Batch::new(1, rows.collect())?;
//! let family = Gaussian::from_rows(&rows)?;
//! let config = Config { truncation: 10, ..Config::default() };
//! let fitted = fit(Algorithm::Batch, &rows, family, Dirichlet::new(1.0, Bound::Paper)?, &config, &mut ())?;
//! let predictor = Predictor::new(fitted.fold.posterior());
//! assert_ne!(predictor.label(&[0.5]), predictor.label(&[10.5]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod mixture;
mod movb;
mod publish;
mod rate;
mod seed;
mod stick;
mod subcluster;
mod sva;
mod svi;
mod sweep;
mod totals;

use anabranch::batch::Batch;
use anabranch::central::Fold;
use anabranch::engine::Observer;
use anabranch::family::DrawNatural;
use anabranch::posterior::RestoreError;
use anabranch::process::Dirichlet;
use thiserror::Error;

use publish::Run;
pub use rate::{Rate, RateError};

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Mean-field variational inference over all rows, truncated.
    Batch,
    /// Stochastic variational inference by minibatches, truncated.
    Svi,
    /// Memoized online variational inference with births, merges and deletes.
    Movb,
    /// Sequential variational approximation: each row once, components opened on the way.
    Sva,
    /// Markov chain with sub-cluster splits.
    Subcluster,
}

impl Algorithm {
    /// Every algorithm, in the order of the table above.
    pub const ALL: [Self; 5] = [Self::Batch, Self::Svi, Self::Movb, Self::Sva, Self::Subcluster];

    /// The name that the command line and model files use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Svi => "svi",
            Self::Movb => "movb",
            Self::Sva => "sva",
            Self::Subcluster => "subcluster",
        }
    }

    /// Iterations, passes, laps or sweeps unless told otherwise.
    pub fn default_iterations(self) -> usize {
        match self {
            Self::Batch => 100,
            Self::Svi => 10,
            Self::Movb => 20,
            Self::Sva => 1,
            Self::Subcluster => 100,
        }
    }
}

/// How an algorithm runs. Each takes what concerns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Threads that share a pass over the rows. The result does not depend on their number.
    pub threads: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// The most components there may be.
    pub truncation: usize,
    /// Rows of a minibatch (`Svi`, `Movb`), and between two reports (`Sva`).
    pub batch_size: usize,
    /// Iterations, passes, laps or sweeps at most; `None` is the algorithm's own default.
    pub iterations: Option<usize>,
    /// How far a step of `Svi` goes.
    pub rate: Rate,
    /// An iteration or a lap that raises the lower bound by less than this for each row is the last one.
    pub tolerance: f64,
}

impl Default for Config {
    /// The truncation is that of the paper.
    fn default() -> Self {
        Self {
            threads: 1,
            seed: 0,
            truncation: 200,
            batch_size: 256,
            iterations: None,
            rate: Rate::default(),
            tolerance: 1e-5,
        }
    }
}

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Fitted<F> {
    /// The model, as the engine would have left it.
    pub fold: Fold<F, Dirichlet>,
    /// The evidence lower bound of all rows after each step, where the algorithm has one.
    pub objective: Vec<f64>,
}

/// Why there is no model.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum FitError {
    /// There is nothing to learn from.
    #[error("there are no rows")]
    NoRows,
    /// A truncation or a minibatch of nothing.
    #[error("{0} is 0")]
    Zero(&'static str),
    /// Rows of different weight.
    #[error("rows with weights are for the engine only")]
    Weighted,
    /// The sums are no posterior: numbers beyond what the family can hold.
    #[error(transparent)]
    Improper(#[from] RestoreError),
}

/// Runs an algorithm over the rows until it is done or the observer asks to stop.
///
/// The observer is called on this thread after each step: an iteration, a minibatch or a sweep, named 0, 1, 2, …
pub fn fit<F: DrawNatural>(
    algorithm: Algorithm,
    rows: &Batch,
    family: F,
    process: Dirichlet,
    config: &Config,
    observer: &mut dyn Observer<F, Dirichlet>,
) -> Result<Fitted<F>, FitError> {
    if rows.is_empty() {
        return Err(FitError::NoRows);
    }
    if rows.weights().is_some() {
        return Err(FitError::Weighted);
    }
    if config.truncation == 0 {
        return Err(FitError::Zero("the truncation"));
    }
    if config.batch_size == 0 {
        return Err(FitError::Zero("the size of a minibatch"));
    }
    let iterations = config.iterations.unwrap_or(algorithm.default_iterations()).max(1);
    let run = Run::new(&family, process, observer);
    match algorithm {
        Algorithm::Batch => batch::run(rows, config, iterations, run),
        Algorithm::Svi => svi::run(rows, config, iterations, run),
        Algorithm::Movb => movb::run(rows, config, iterations, run),
        Algorithm::Sva => sva::run(rows, config, run),
        Algorithm::Subcluster => subcluster::run(rows, config, iterations, run),
    }
}
