//! The flags as they are typed. What they mean together is decided by `request` and each command.

mod cluster;
mod clusters;
mod engine;
mod every;
mod fit;
pub mod half_life;
mod input;
mod look;
mod merge;
mod model;
mod predict;

use clap::{Parser, Subcommand};

pub use cluster::{
    ClusterArgs, DeadAction, DeadArgs, DeleteArgs, JobsArgs, LoginArgs, PauseArgs, PullArgs, StatusArgs,
    StreamArgs, SubmitArgs, WatchArgs, WorkerArgs,
};
pub use clusters::ClustersArgs;
pub use engine::{Algorithm, BoundKind, EngineArgs, OnOff, PrecisionKind, RivalArgs, ScheduleKind};
pub use every::{Every, Span};
pub use fit::{DemoArgs, FitArgs, OutputArgs};
pub use input::{BadRow, InputFormat, Missing, ReadArgs, YesNo};
pub use look::{
    CompletionsArgs, ExperimentArgs, ExperimentName, InspectArgs, ManArgs, SampleArgs, SampleFormat,
};
pub use merge::MergeArgs;
pub use model::{
    DISCOUNT, ENGLISH, FeatureArgs, LEARNED_CONCENTRATION, LEARNED_DISCOUNT, ModelKind, PriorArgs, PriorKind,
    TopicArgs,
};
pub use predict::{ImputeArgs, PredictArgs, Share, Top};

/// Clusters streams of data with as many components as the data asks for.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, max_term_width = 100)]
#[command(
    after_help = "Start with `anabranch demo`. Exit codes: 0 done, 1 the input or the flags are wrong, 2 our fault."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate the paper's synthetic stream, fit it on all cores, and write a report with pictures
    Demo(DemoArgs),
    /// Fit a mixture to files or to standard input
    Fit(Box<FitArgs>),
    /// Label rows with the components of a model
    Predict(PredictArgs),
    /// Fill in the missing values of rows
    Impute(ImputeArgs),
    /// Show what a model has learned
    Inspect(InspectArgs),
    /// Show the clusters of a model: components that no valley of the density parts
    Clusters(ClustersArgs),
    /// Put models together that were learned apart, from rows of their own
    Merge(MergeArgs),
    /// Draw rows from a model
    Sample(SampleArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(ManArgs),
    /// Repeat the paper's figures and table: data files, pictures and a page
    Experiment(ExperimentArgs),
    /// Publish minibatches to a cluster
    Submit(Box<SubmitArgs>),
    /// Work on minibatches of a cluster, together with any number of others
    Worker(WorkerArgs),
    /// Fetch the current model of a cluster
    Pull(PullArgs),
    /// Show how a cluster's job stands
    Status(StatusArgs),
    /// Show how a cluster's job goes on, again and again
    Watch(WatchArgs),
    /// List the jobs of a cluster
    Jobs(JobsArgs),
    /// Let the workers of a cluster's job rest
    Pause(PauseArgs),
    /// Let them go on
    Resume(PauseArgs),
    /// List, show, publish again or forget minibatches that were set aside
    Dead(DeadArgs),
    /// Remove a job from a cluster, with everything in it
    Delete(DeleteArgs),
}
