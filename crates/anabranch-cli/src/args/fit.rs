//! `fit` and `demo`.

use std::path::PathBuf;

use anabranch::posterior::HalfLife;
use anabranch::process::Parameter;
use anabranch_io::ALL_COLUMNS;
use clap::Args;

use super::cluster::LoginArgs;
use super::engine::{Algorithm, EngineArgs, RivalArgs};
use super::every::{Every, Span};
use super::input::ReadArgs;
use super::model::{FeatureArgs, ModelKind, PriorArgs, TopicArgs, discount};

/// Where results go; `demo` and `fit` share these.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Write the model to this file
    #[arg(long, value_name = "MODEL")]
    pub out: Option<PathBuf>,
    /// Write one row per minibatch to this csv file: seconds, components, matchings, conflicts, held-out likelihood
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write report.html and its pictures to this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// `anabranch demo`
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Rows of a mixture (dp, py), documents of topics (hdp), or pictures of 6 × 6 cells made of features (bp)
    #[arg(long, value_name = "MODEL", default_value = "dp")]
    pub model: ModelKind,
    /// Rows or documents to generate
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Clusters or topics to generate
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clusters: u32,
    /// Engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `anabranch fit`
#[derive(Args, Clone, Debug)]
pub struct FitArgs {
    /// Files, or `-` for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Reading.
    #[command(flatten)]
    pub read: ReadArgs,
    /// What a component is: gaussian, diagonal, spherical, bernoulli, categorical, poisson, multinomial, or several joined
    /// by `+` with their columns, such as gaussian:height,weight+categorical:colour or gaussian+categorical:colour
    #[arg(long, value_name = "FAMILY", default_value = "gaussian")]
    pub family: String,
    /// Learn whether values are missing too, as a column of zeros and ones for each of these columns (all unless told): components
    /// may differ by it, and densities count it
    #[arg(long, value_name = "COLUMNS", num_args = 0..=1, require_equals = true, default_missing_value = ALL_COLUMNS)]
    pub missing_informative: Option<String>,
    /// Nonparametric model
    #[arg(long, value_name = "MODEL", default_value = "dp")]
    pub model: ModelKind,
    /// py: discount, from 0 (a Dirichlet process) to below 1 (many small clusters); `auto` learns it from the stream
    /// [default: 0.5]
    #[arg(long, allow_hyphen_values = true, value_name = "D", value_parser = discount)]
    pub discount: Option<Parameter>,
    /// Topics.
    #[command(flatten)]
    pub topics: TopicArgs,
    /// Features.
    #[command(flatten)]
    pub features: FeatureArgs,
    /// Prior.
    #[command(flatten)]
    pub prior: PriorArgs,
    /// Passes over the data: each further one replaces what the last one learned, so that every row counts once
    #[arg(long, value_name = "P", default_value_t = 1)]
    pub passes: u32,
    /// Keep the first rows (100,000 unless told) and learn from them again until the model settles, when the input ends: for
    /// streams that cannot be read twice
    #[arg(long, value_name = "ROWS", num_args = 0..=1, require_equals = true, default_missing_value = "100000")]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub polish: Option<usize>,
    /// Save the state of the run in this folder while it goes on
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between checkpoints; 0 saves after every minibatch
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "checkpoint")]
    pub checkpoint_every: f64,
    /// Go on from the checkpoint, if there is one, with the same input and flags
    #[arg(long, requires = "checkpoint")]
    pub resume: bool,
    /// Go on from this model, or from this folder of checkpoints, with other rows, as if they had come behind those that it has
    /// learned from: columns, prior, process and settings are the model's
    #[arg(long, value_name = "MODEL")]
    pub from: Option<PathBuf>,
    /// Components at most: whenever there are more, the two that are closest are merged
    #[arg(long, value_name = "K", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_components: Option<usize>,
    /// Rows of the stream after which a row counts half, or a time (30s, 5m, 1h, 7d): what has changed is forgotten; `auto`
    /// forgets what the newest rows speak against
    #[arg(long, value_name = "ROWS|TIME|auto", value_parser = super::half_life::half_life)]
    pub half_life: Option<HalfLife>,
    /// The column that says when a row was, in seconds or as a timestamp: rows fade by it, and are not learned from it. Without,
    /// a half-life of time goes by when rows are read
    #[arg(long, value_name = "COLUMN", hide_short_help = true)]
    pub time: Option<String>,
    /// Write what becomes of components and clusters to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Write a first model of what has come to --out after this time, and again whenever the rows have doubled, until the first
    /// minibatch is complete; the run itself goes on as without
    #[arg(long, value_name = "TIME", requires = "out")]
    pub first_after: Option<Span>,
    /// Write the model of what was learned so far to --out again and again: after this time (2s, 5m, 1h) or number of rows
    #[arg(long, value_name = "TIME|ROWS", requires = "out")]
    pub out_every: Option<Every>,
    /// Held-out rows, kept in memory: their mean log predictive density is reported
    #[arg(long, value_name = "FILE")]
    pub test: Option<String>,
    /// True labels of the input's rows (npy, or text with one a line): reports how well the clusters agree with them; reads
    /// the input a second time
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Fit on a cluster: publish the rows to this NATS server, work on them, and fetch the model
    #[arg(long, value_name = "URL")]
    pub cluster: Option<String>,
    /// Name of the cluster's job, which stays there afterwards [default: a job of its own, removed at the end]
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Credentials.
    #[command(flatten)]
    pub login: LoginArgs,
    /// Engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Algorithm; all but sda hold the rows in memory
    #[arg(long, value_name = "NAME", default_value = "sda")]
    pub algorithm: Algorithm,
    /// Other algorithms.
    #[command(flatten)]
    pub rival: RivalArgs,
}
