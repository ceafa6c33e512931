//! Algorithms, and how the model is fitted.

use anabranch::process::Parameter;
use clap::{Args, ValueEnum};

use super::model::concentration;

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "on means on")]
pub enum OnOff {
    #[default]
    On,
    Off,
}

/// When minibatches join the posterior.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ScheduleKind {
    /// In order: seed and workers fix the result on any number of threads
    #[default]
    Deterministic,
    /// Each as soon as it can
    Free,
}

/// Which bound on the process serves the identification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BoundKind {
    /// The bound of the paper
    #[default]
    Paper,
    /// Its conditional refinement: tighter, from the same statistics
    Conditional,
}

/// What the scores of rows are computed in. The labels are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PrecisionKind {
    /// Single precision for what a row cannot belong to, double precision for what is left
    #[default]
    Mixed,
    /// Double precision for all
    F64,
}

/// How the model is fitted; `demo` and `fit` share these.
#[derive(Args, Clone, Debug)]
pub struct EngineArgs {
    /// Rows of a minibatch
    #[arg(long, value_name = "ROWS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: u32,
    /// Components that a minibatch after the first may open
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max_new: usize,
    /// Rows of the first minibatch, which is fitted alone before the workers start; 0 starts them at once
    #[arg(
        long,
        value_name = "ROWS",
        help = "Rows of the first minibatch, which is fitted alone before the workers start; 0 starts them at once [default: 20000; 2000 with --model hdp or bp; 0 with --identify off]"
    )]
    pub bootstrap: Option<u32>,
    /// Threads that infer [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Logical workers: minibatches in flight, each with the posterior it started from [default: at most 64, fewer at first; threads with --schedule free]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Option<u32>,
    /// When minibatches join the posterior
    #[arg(long, value_name = "WHEN", default_value = "deterministic")]
    pub schedule: ScheduleKind,
    /// Seed of everything random
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Concentration of the process: larger expects more components; `auto` learns it from the stream
    #[arg(long, allow_hyphen_values = true, value_name = "ALPHA", default_value = "5", value_parser = concentration)]
    pub alpha: Parameter,
    /// Find the correspondence of new components, or join them by position (the paper's ablation)
    #[arg(long, value_name = "WHETHER", default_value = "on")]
    pub identify: OnOff,
    /// Bound on the process that the identification uses
    #[arg(long, value_name = "BOUND", default_value = "paper")]
    pub bound: BoundKind,
    /// What the scores of rows are computed in; the labels are the same
    #[arg(long, value_name = "PRECISION", default_value = "mixed")]
    pub precision: PrecisionKind,
}

/// Which algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// Streaming, distributed, asynchronous (the paper's)
    #[default]
    Sda,
    /// Batch variational inference, truncated (Blei and Jordan 2006)
    Batch,
    /// Stochastic variational inference, truncated (Hoffman et al. 2013)
    Svi,
    /// Memoized online variational inference (Hughes and Sudderth 2013)
    Movb,
    /// Sequential variational approximation (Lin 2013)
    Sva,
    /// Sub-cluster splits Markov chain (Chang and Fisher 2013)
    Subcluster,
}

/// What only the algorithms other than sda understand.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct RivalArgs {
    /// The most components of every algorithm but sda
    #[arg(long, value_name = "K", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub truncation: u32,
    /// Iterations (batch), passes (svi), laps (movb) or sweeps (subcluster) at most [default: 100, 10, 20, 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: Option<u32>,
    /// Delay τ of svi's rate (t + τ)^-κ
    #[arg(long, value_name = "TAU", default_value_t = 10.0)]
    pub rate_delay: f64,
    /// Power κ of svi's rate: above 0.5 and up to 1 for convergence
    #[arg(long, value_name = "KAPPA", default_value_t = 0.5)]
    pub rate_power: f64,
}
