//! From the flags of the engine to its settings: the same for every model.

use anabranch::engine::{Config, Schedule, WORKERS};
use anabranch::identify::Identification;
use anabranch::infer::{Precision, PriorChoice};
use anabranch::process::{AnyProcess, Bound, Parameter, ProcessError};

use crate::args::{BoundKind, DISCOUNT, EngineArgs, ModelKind, OnOff, PrecisionKind, ScheduleKind};
use crate::failure::Failure;

impl EngineArgs {
    /// Threads and logical workers after their defaults.
    pub(crate) fn parallelism(&self) -> (usize, usize) {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = self.threads.map_or(cores, |n| n as usize);
        let workers = match self.schedule {
            ScheduleKind::Deterministic => WORKERS,
            ScheduleKind::Free => threads,
        };
        (threads, self.workers.map_or(workers, |n| n as usize))
    }

    /// Rows that are fitted alone before the workers start. The ablation has none by itself: it shows nothing once everything
    /// is found.
    pub(crate) fn bootstrap_rows(&self, unless_told: usize) -> usize {
        match (self.bootstrap, self.identify) {
            (Some(rows), _) => rows as usize,
            (None, OnOff::Off) => 0,
            (None, OnOff::On) => unless_told,
        }
    }

    /// How a run with this inference is carried out.
    pub fn config<I>(&self, inference: I, prior: PriorChoice, bootstrap_rows: usize) -> Config<I> {
        let (threads, workers) = self.parallelism();
        Config {
            threads,
            workers,
            schedule: match self.schedule {
                ScheduleKind::Free => Schedule::Free,
                ScheduleKind::Deterministic if self.workers.is_none() => Schedule::Growing,
                ScheduleKind::Deterministic => Schedule::Deterministic,
            },
            seed: self.seed,
            identification: match self.identify {
                OnOff::On => Identification::Optimal,
                OnOff::Off => Identification::ByPosition,
            },
            inference,
            prior,
            bootstrap_rows,
            // The ablation is of the paper's method.
            upkeep: self.identify == OnOff::On,
            polish: None,
            max_components: None,
            half_life: None,
        }
    }

    /// The process of a mixture: Pitman–Yor where there is a discount.
    pub(crate) fn process(&self, discount: Option<Parameter>) -> Result<AnyProcess, Failure> {
        mixture_process(self.alpha, discount, self.bound.into())
    }
}

impl From<PrecisionKind> for Precision {
    fn from(kind: PrecisionKind) -> Self {
        match kind {
            PrecisionKind::Mixed => Self::Mixed,
            PrecisionKind::F64 => Self::Double,
        }
    }
}

impl From<BoundKind> for Bound {
    fn from(kind: BoundKind) -> Self {
        match kind {
            BoundKind::Paper => Self::Paper,
            BoundKind::Conditional => Self::Conditional,
        }
    }
}

/// A Dirichlet process, or Pitman–Yor where there is a discount; errors name the flags.
pub(crate) fn mixture_process(
    alpha: Parameter,
    discount: Option<Parameter>,
    bound: Bound,
) -> Result<AnyProcess, Failure> {
    AnyProcess::new(alpha, discount, bound).map_err(|error| {
        let flag = if matches!(error, ProcessError::Discount { .. }) { "--discount" } else { "--alpha" };
        Failure::input(format!("{flag}: {error}"))
    })
}

/// The discount of a mixture that `--model` and `--discount` ask for.
pub(crate) fn discount(model: ModelKind, given: Option<Parameter>) -> Option<Parameter> {
    (model == ModelKind::Py).then(|| given.unwrap_or(DISCOUNT))
}

/// The parameter as a flag says it: one that is learned may have come to another value.
pub(crate) fn as_flag(parameter: Parameter) -> String {
    if parameter.is_learned() { "auto".to_owned() } else { parameter.value().to_string() }
}

/// The bound as `--bound` says it.
pub(crate) fn bound_name(process: &AnyProcess) -> &'static str {
    match process.bound_kind() {
        Bound::Paper => "paper",
        Bound::Conditional => "conditional",
    }
}
