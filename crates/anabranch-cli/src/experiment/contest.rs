//! One algorithm on one set of rows: how long it took, and how good it was on the way and at the end.

use std::sync::Arc;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{Config, Event, Flow, Observer, Schedule};
use anabranch::family::AnyFamily;
use anabranch::identify::Identification;
use anabranch::infer::{PriorChoice, Settings};
use anabranch::learner::run::Run;
use anabranch::posterior::{Posterior, Predictor};
use anabranch::process::{Bound, Dirichlet};
use anabranch_rivals as rivals;
use serde::Serialize;

use super::check_stop;
use crate::failure::Failure;
use crate::resources::Stopwatch;
use crate::stop;

/// Moments of a run that are evaluated, for each tenfold growth of its steps.
const MOMENTS_PER_DECADE: f64 = 10.0;

/// Held-out rows that moments are evaluated on; the end is evaluated on all of them.
const TRACE_ROWS: usize = 2000;

/// What is to be learned, and how.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) rows: Batch,
    pub(super) test: Batch,
    pub(super) family: AnyFamily,
    pub(super) alpha: f64,
    pub(super) batch_size: usize,
    /// Components that a minibatch may open.
    pub(super) max_new: usize,
    /// The most components of the others.
    pub(super) truncation: usize,
    /// Logical workers.
    pub(super) workers: usize,
    pub(super) threads: usize,
    /// Multiplies the default iterations of the others; small for quick runs.
    pub(super) effort: f64,
}

/// Who learns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Contestant {
    /// The engine, as in the paper: the workers start at once.
    Sda(Identification),
    /// The engine with its first minibatch of so many rows fitted alone, the default of `fit`.
    Bootstrapped(usize),
    /// Another algorithm.
    Rival(rivals::Algorithm),
}

impl Contestant {
    /// Those of the table, the engine first.
    pub(super) fn all(bootstrap: usize) -> Vec<Self> {
        let engine = [Self::Sda(Identification::Optimal), Self::Bootstrapped(bootstrap)];
        engine.into_iter().chain(rivals::Algorithm::ALL.map(Self::Rival)).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sda(Identification::Optimal) => "sda",
            Self::Sda(Identification::ByPosition) => "sda without identification",
            Self::Bootstrapped(_) => "sda with bootstrap",
            Self::Rival(algorithm) => algorithm.name(),
        }
    }
}

/// The state of a run after some steps.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Moment {
    pub(super) cpu_seconds: f64,
    pub(super) step: u64,
    pub(super) components: usize,
    pub(super) matchings: u64,
    /// Mean log predictive density of held-out rows.
    pub(super) likelihood: f64,
}

/// A finished run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trial {
    pub(super) algorithm: &'static str,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    /// Mean log predictive density of all held-out rows.
    pub(super) likelihood: f64,
    pub(super) components: usize,
    pub(super) matchings: u64,
    pub(super) moments: Vec<Moment>,
    #[serde(skip)]
    pub(super) posterior: Arc<Posterior<AnyFamily, Dirichlet>>,
}

/// Remembers posteriors with the time they took, to be evaluated when the clock has stopped.
struct Recorder {
    clock: Stopwatch,
    steps: u64,
    matchings: u64,
    counts_steps: bool,
    moments: Vec<(Moment, Arc<Posterior<AnyFamily, Dirichlet>>)>,
}

impl Observer<AnyFamily, Dirichlet> for Recorder {
    fn observe(&mut self, event: &Event, central: &Central<AnyFamily, Dirichlet>) -> Flow {
        let before = self.steps;
        self.steps = if self.counts_steps { before + 1 } else { event.batch.0 + 1 };
        self.matchings += event.absorbed.matchings;
        let moment = |step: u64| (MOMENTS_PER_DECADE * (step as f64).log10()).floor();
        if before == 0 || moment(self.steps) > moment(before) {
            let moment = Moment {
                cpu_seconds: self.clock.cpu_seconds(),
                step: self.steps,
                components: event.components,
                matchings: self.matchings,
                likelihood: f64::NAN,
            };
            self.moments.push((moment, central.snapshot()));
        }
        if stop::asked() { Flow::Stop } else { Flow::Continue }
    }
}

/// Runs one contestant.
pub(super) fn run(contestant: Contestant, task: &Task, seed: u64) -> Result<Trial, Failure> {
    let process = Dirichlet::new(task.alpha, Bound::Paper).map_err(Failure::input)?;
    let clock = Stopwatch::start();
    let counts_steps = !matches!(contestant, Contestant::Rival(_));
    let mut recorder = Recorder { clock, steps: 0, matchings: 0, counts_steps, moments: Vec::new() };
    let posterior = match contestant {
        Contestant::Sda(identification) => {
            through_engine(task, process, identification, 0, seed, &mut recorder)
        }
        Contestant::Bootstrapped(rows) => {
            through_engine(task, process, Identification::Optimal, rows, seed, &mut recorder)
        }
        Contestant::Rival(algorithm) => through_rival(task, process, algorithm, seed, &mut recorder)?,
    };
    let (seconds, cpu_seconds) = (recorder.clock.seconds(), recorder.clock.cpu_seconds());
    check_stop()?;
    let likelihood = |posterior: &Posterior<AnyFamily, Dirichlet>, rows: &Batch| {
        Predictor::new(posterior).mean_ln_density(rows).unwrap_or(f64::NAN)
    };
    let some = task.test.head(TRACE_ROWS);
    let moments = recorder
        .moments
        .iter()
        .map(|(moment, posterior)| Moment { likelihood: likelihood(posterior, &some), ..moment.clone() });
    let last = Moment {
        cpu_seconds,
        step: recorder.steps,
        components: posterior.components().len(),
        matchings: recorder.matchings,
        likelihood: likelihood(&posterior, &some),
    };
    Ok(Trial {
        algorithm: contestant.name(),
        seconds,
        cpu_seconds,
        likelihood: likelihood(&posterior, &task.test),
        components: posterior.effective_components(),
        matchings: recorder.matchings,
        moments: moments.chain([last]).collect(),
        posterior,
    })
}

/// The configuration of the engine for a task.
pub(super) fn engine_config(
    task: &Task,
    identification: Identification,
    bootstrap: usize,
    seed: u64,
) -> Config {
    Config {
        threads: task.threads.min(task.workers),
        workers: task.workers,
        // W minibatches are in flight: what W processors would do, on any number of them.
        schedule: Schedule::Deterministic,
        seed,
        identification,
        inference: Settings { max_new: task.max_new, surprise: bootstrap > 0, ..Settings::default() },
        prior: PriorChoice::Given,
        bootstrap_rows: bootstrap,
        upkeep: bootstrap > 0,
        polish: None,
        max_components: None,
        half_life: None,
    }
}

/// The rows as minibatches, the first of them of `first` rows.
pub(super) fn minibatches(
    rows: &Batch,
    first: usize,
    size: usize,
) -> impl Iterator<Item = Batch> + Send + '_ {
    let first = if first > 0 { first.min(rows.n_rows()) } else { size.min(rows.n_rows()) };
    let starts =
        std::iter::once((0, first)).chain((first..rows.n_rows()).step_by(size).map(move |at| (at, size)));
    let d = rows.dimensions();
    starts.map(move |(at, size)| {
        let end = (at + size).min(rows.n_rows());
        Batch::new(d, rows.values()[at * d..end * d].to_vec()).expect("rows of a batch are a batch")
    })
}

fn through_engine(
    task: &Task,
    process: Dirichlet,
    identification: Identification,
    bootstrap: usize,
    seed: u64,
    recorder: &mut Recorder,
) -> Arc<Posterior<AnyFamily, Dirichlet>> {
    let config = engine_config(task, identification, bootstrap, seed);
    let mut source = minibatches(&task.rows, bootstrap, task.batch_size).enumerate();
    let run = Run::new(Central::new(task.family.clone(), process), config);
    let Ok(()) = run.through(&mut source, recorder);
    run.centre().snapshot()
}

fn through_rival(
    task: &Task,
    process: Dirichlet,
    algorithm: rivals::Algorithm,
    seed: u64,
    recorder: &mut Recorder,
) -> Result<Arc<Posterior<AnyFamily, Dirichlet>>, Failure> {
    let iterations = (algorithm.default_iterations() as f64 * task.effort).ceil() as usize;
    let config = rivals::Config {
        threads: task.threads,
        seed,
        truncation: task.truncation,
        batch_size: task.batch_size,
        iterations: Some(iterations),
        ..rivals::Config::default()
    };
    let fitted = rivals::fit(algorithm, &task.rows, task.family.clone(), process, &config, recorder)
        .map_err(|error| Failure::Internal { message: format!("{}: {error}", algorithm.name()) })?;
    Ok(Arc::new(fitted.fold.posterior().clone()))
}
