//! The flags as they are typed. What they mean together is decided by each command.

use std::path::PathBuf;

use anabranch::infer::PriorChoice;
use anabranch::process::Parameter;

use crate::failure::Failure;
use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Show what a model has learned
    Inspect(InspectArgs),
    /// Show the clusters of a model: components that no valley of the density parts
    Clusters(ClustersArgs),
    /// Draw rows from a model
    Sample(SampleArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
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
    /// Live page, prediction and metrics over http
    #[command(hide = true)]
    Serve(Later),
}

/// Whatever is typed behind a command that is not built yet.
#[derive(Debug, Args)]
pub struct Later {
    /// Ignored.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub rest: Vec<String>,
}

/// How rows are read; the same for every command that reads.
#[derive(Args, Clone, Debug, Default)]
pub struct ReadArgs {
    /// Format of the input; otherwise found from the extension or the first bytes
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<InputFormat>,
    /// Columns to keep, by name or number from 1; `-name` drops one
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub columns: Option<Vec<String>>,
    /// What to do with a row that is ragged, missing a value, not a finite number, or outside the family's domain
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    pub on_bad_row: BadRow,
    /// Whether the first line of text names the columns; otherwise found by looking
    #[arg(long, value_name = "WHETHER")]
    pub header: Option<YesNo>,
    /// Character between the cells of text; otherwise found by looking
    #[arg(long, value_name = "CHAR")]
    pub delimiter: Option<char>,
    /// Bytes that one piece of the input may take, such as a minibatch or an archive: 512M, 4G
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub max_memory: u64,
}

/// A number of bytes, with K, M, G or T for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        Some((at, 't' | 'T')) => (&text[..at], 1 << 40),
        _ => (text, 1_u64),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a number of bytes such as 512M or 4G".to_owned())
}

/// Formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "each variant is the name of a format")]
pub enum InputFormat {
    Csv,
    Tsv,
    Npy,
    Parquet,
    Arrow,
    Jsonl,
    /// Documents as a sparse matrix of scipy
    Npz,
    /// Documents as Blei's LDA-C reads them
    Ldac,
    /// Documents of the UCI repository
    Uci,
}

/// What to do with a bad row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BadRow {
    /// Stop and name file, row, column and value
    #[default]
    Fail,
    /// Leave it out and count it
    Skip,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "yes means yes")]
pub enum YesNo {
    Yes,
    No,
}

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "on means on")]
pub enum OnOff {
    #[default]
    On,
    Off,
}

/// Which nonparametric model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModelKind {
    /// Dirichlet process mixture
    #[default]
    Dp,
    /// Pitman–Yor mixture: sizes that fall like a power, with many small clusters
    Py,
    /// Hierarchical Dirichlet process topics of documents
    Hdp,
    /// Beta process features: a row has any number of them, and they add up
    Bp,
}

/// What a concentration that is to be learned starts from.
pub const LEARNED_CONCENTRATION: Parameter = Parameter::Learned { learned: 5.0 };
/// The discount of a Pitman–Yor mixture, unless told.
pub const DISCOUNT: Parameter = Parameter::Given(0.5);
/// What a discount that is to be learned starts from.
pub const LEARNED_DISCOUNT: Parameter = Parameter::Learned { learned: 0.5 };

fn concentration(text: &str) -> Result<Parameter, String> {
    parameter(text, LEARNED_CONCENTRATION)
}

fn discount(text: &str) -> Result<Parameter, String> {
    parameter(text, LEARNED_DISCOUNT)
}

/// A number, or `auto`.
fn parameter(text: &str, auto: Parameter) -> Result<Parameter, String> {
    match text.trim() {
        "auto" => Ok(auto),
        number => match number.parse() {
            Ok(value) => Ok(Parameter::Given(value)),
            Err(_) => Err("neither a number nor `auto`".to_owned()),
        },
    }
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

/// When minibatches join the posterior.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ScheduleKind {
    /// Each as soon as it can
    #[default]
    Free,
    /// In order: seed and workers fix the result on any number of threads
    Deterministic,
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
        help = "Rows of the first minibatch, which is fitted alone before the workers start; 0 starts them at once [default: 20000; 0 with --identify off]"
    )]
    pub bootstrap: Option<u32>,
    /// Threads that infer [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Logical workers: minibatches in flight, each with the posterior it started from [default: threads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub workers: Option<u32>,
    /// When minibatches join the posterior
    #[arg(long, value_name = "WHEN", default_value = "free")]
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
#[derive(Args, Debug)]
pub struct FitArgs {
    /// Files, or `-` for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// What a component is: gaussian, diagonal, spherical, bernoulli, categorical, poisson, multinomial, or several joined
    /// by `+` with their columns, such as gaussian:height,weight+categorical:colour
    #[arg(long, value_name = "FAMILY", default_value = "gaussian")]
    pub family: String,
    /// Nonparametric model
    #[arg(long, value_name = "MODEL", default_value = "dp")]
    pub model: ModelKind,
    /// Algorithm; all but sda hold the rows in memory
    #[arg(long, value_name = "NAME", default_value = "sda")]
    pub algorithm: Algorithm,
    /// Other algorithms.
    #[command(flatten)]
    pub rival: RivalArgs,
    /// py: discount, from 0 (a Dirichlet process) to below 1 (many small clusters); `auto` learns it from the stream
    /// [default: 0.5]
    #[arg(long, allow_hyphen_values = true, value_name = "D", value_parser = discount)]
    pub discount: Option<Parameter>,
    /// Passes over the data: each further one replaces what the last one learned, so that every row counts once
    #[arg(long, value_name = "P", default_value_t = 1)]
    pub passes: u32,
    /// Keep the first rows (100,000 unless told) and learn from them again until the model settles, when the input ends: for
    /// streams that cannot be read twice
    #[arg(long, value_name = "ROWS", num_args = 0..=1, require_equals = true, default_missing_value = "100000")]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub polish: Option<usize>,
    /// Prior.
    #[command(flatten)]
    pub prior: PriorArgs,
    /// Topics.
    #[command(flatten)]
    pub topics: TopicArgs,
    /// Features.
    #[command(flatten)]
    pub features: FeatureArgs,
    /// Engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Reading.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Held-out rows, kept in memory: their mean log predictive density is reported
    #[arg(long, value_name = "FILE")]
    pub test: Option<String>,
    /// True labels of the input's rows (npy, or text with one a line): reports how well the clusters agree with them; reads
    /// the input a second time
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Save the state of the run in this folder while it goes on
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between checkpoints; 0 saves after every minibatch
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "checkpoint")]
    pub checkpoint_every: f64,
    /// Go on from the checkpoint, if there is one, with the same input and flags
    #[arg(long, requires = "checkpoint")]
    pub resume: bool,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Fit on a cluster: publish the rows to this NATS server, work on them, and fetch the model
    #[arg(long, value_name = "URL")]
    pub cluster: Option<String>,
    /// Name of the cluster's job, which stays there afterwards [default: a job of its own, removed at the end]
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub job: Option<String>,
    /// Credentials.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// What only `--model hdp` understands.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct TopicArgs {
    /// hdp: the words of the documents, one a line in the order of their numbers
    #[arg(long, value_name = "FILE")]
    pub vocabulary: Option<PathBuf>,
    /// hdp: concentration of the topics: larger expects more of them
    #[arg(long, allow_hyphen_values = true, value_name = "GAMMA", default_value_t = 1.0)]
    pub gamma: f64,
    /// hdp: concentration of a document: larger expects more topics in each
    #[arg(long, allow_hyphen_values = true, value_name = "ALPHA0", default_value_t = 1.0)]
    pub alpha0: f64,
    /// hdp: pseudo-count of each word in a topic: smaller expects topics of fewer words
    #[arg(long, allow_hyphen_values = true, value_name = "ETA", default_value_t = 0.05)]
    pub eta: f64,
}

impl Default for TopicArgs {
    fn default() -> Self {
        Self { vocabulary: None, gamma: 1.0, alpha0: 1.0, eta: 0.05 }
    }
}

/// What only `--model bp` understands.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct FeatureArgs {
    /// bp: standard deviation of the noise, in the units of the data; learned with --feature-scale unless both are given
    #[arg(long, allow_hyphen_values = true, value_name = "SD")]
    pub noise: Option<f64>,
    /// bp: standard deviation of the cells of a feature
    #[arg(long, allow_hyphen_values = true, value_name = "SD")]
    pub feature_scale: Option<f64>,
    /// bp: rows are pictures of this height and width, and the report shows the features so
    #[arg(long, value_name = "HxW")]
    pub image: Option<String>,
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

/// The prior of the components, in the units of the data.
#[derive(Args, Clone, Debug, Default)]
pub struct PriorArgs {
    /// `auto` estimates the prior from the components of the first minibatch; the default unless a flag below is given
    #[arg(long, value_name = "auto")]
    pub prior: Option<PriorKind>,
    /// Expected mean of a component: a number, a comma list for the columns, or a file
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub prior_mean: Option<String>,
    /// Rows that the prior mean counts for
    #[arg(long, allow_hyphen_values = true, value_name = "ROWS")]
    pub prior_kappa: Option<f64>,
    /// Diagonal of the scatter matrix Ψ₀ (categorical, multinomial: pseudo-count of a cell): number, comma list or file
    #[arg(long, allow_hyphen_values = true, value_name = "VALUE")]
    pub prior_scale: Option<String>,
    /// Degrees of freedom of the covariance (gaussian, diagonal, spherical)
    #[arg(long, allow_hyphen_values = true, value_name = "NU")]
    pub prior_dof: Option<f64>,
    /// Width of the interval that a rounded value stands for: `auto` finds it column by column, 0 takes values as exact;
    /// a number, a comma list for the columns, or a file
    #[arg(long, allow_hyphen_values = true, value_name = "WIDTH")]
    pub resolution: Option<String>,
}

impl PriorArgs {
    /// Given when any of its numbers is.
    pub fn choice(&self) -> PriorChoice {
        let numbers = self.prior_kappa.is_some() || self.prior_dof.is_some();
        let lists = self.prior_mean.is_some() || self.prior_scale.is_some();
        if numbers || lists { PriorChoice::Given } else { PriorChoice::Estimated }
    }
}

/// Where the prior comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PriorKind {
    /// From the data
    #[default]
    Auto,
}

/// `anabranch experiment`
#[derive(Args, Clone, Debug)]
pub struct ExperimentArgs {
    /// Which part of the paper's evidence
    #[arg(value_name = "NAME")]
    pub name: ExperimentName,
    /// Folder for index.html, results.json, pictures and csv files
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Repetitions, each with its own seed [default: 30 for synthetic, 3 for mnist, planes and words]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trials: Option<u32>,
    /// A small version on generated data that takes seconds
    #[arg(long)]
    pub quick: bool,
    /// Folder with the data of mnist, planes or words
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Seed of everything random
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// No progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// What the server wants to see.
#[derive(Args, Clone, Debug, Default)]
pub struct LoginArgs {
    /// Credentials file of the NATS account
    #[arg(long, value_name = "FILE")]
    pub creds: Option<PathBuf>,
    /// File with an nkey seed
    #[arg(long, value_name = "FILE", conflicts_with = "creds")]
    pub nkey: Option<PathBuf>,
    /// Certificates of the authority that signed the server's; asks for TLS
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Our certificate, for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of our certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// Which job, and where.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// NATS server, or several separated by commas [default: $ANABRANCH_NATS, then nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Name of the job: letters, digits, `-` and `_`
    #[arg(long, value_name = "NAME")]
    pub job: String,
    /// Credentials.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// How a job's streams are kept; the same for everybody, so decided when the job is created.
#[derive(Args, Clone, Debug)]
pub struct StreamArgs {
    /// Copies of every stream, on as many servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=5))]
    pub replicas: u32,
    /// Seconds after which a silent worker's minibatch goes to another one
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub ack_wait: u32,
    /// Deliveries after which a minibatch is set aside
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_deliver: u32,
    /// Journal messages between snapshots
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub snapshot_entries: u64,
    /// Seconds between snapshots
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub snapshot_seconds: u64,
    /// Megabytes of minibatches that may wait; then the submitter waits
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    pub queue_megabytes: u64,
    /// Megabytes of journal between two snapshots at most
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub journal_megabytes: u64,
}

/// `anabranch submit`
#[derive(Args, Debug)]
pub struct SubmitArgs {
    /// Files, or `-` for standard input; none only creates the job, for others to feed
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Name of this input: the same name again goes on where the last submission ended [default: the paths of the files]
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// What a component is, as in `fit`
    #[arg(long, value_name = "FAMILY", default_value = "gaussian")]
    pub family: String,
    /// Prior.
    #[command(flatten)]
    pub prior: PriorArgs,
    /// Which nonparametric model: dp or py
    #[arg(long, value_name = "MODEL", default_value = "dp")]
    pub model: ModelKind,
    /// Concentration of the process: larger expects more components; `auto` learns it from the stream
    #[arg(long, allow_hyphen_values = true, value_name = "ALPHA", default_value = "5", value_parser = concentration)]
    pub alpha: Parameter,
    /// py: discount, from 0 (a Dirichlet process) to below 1 (many small clusters); `auto` learns it from the stream
    /// [default: 0.5]
    #[arg(long, allow_hyphen_values = true, value_name = "D", value_parser = discount)]
    pub discount: Option<Parameter>,
    /// Bound on the process that the identification uses
    #[arg(long, value_name = "BOUND", default_value = "paper")]
    pub bound: BoundKind,
    /// Rows of a minibatch, which is one message and one entry of the journal
    #[arg(long, value_name = "ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: u32,
    /// Components that a minibatch may open
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max_new: u32,
    /// Rows that one worker fits alone before the others start [default: 20000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub bootstrap: Option<u32>,
    /// Seed of everything random
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Reading.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Streams.
    #[command(flatten)]
    pub streams: StreamArgs,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExperimentName {
    /// The regularisation of the Dirichlet process and its lower bound (Figure 2)
    Bound,
    /// Workers, identification and rivals on the synthetic stream (Figure 3)
    Synthetic,
    /// Handwritten digits (Figure 4): needs --data unless --quick
    Mnist,
    /// Trajectories of aircraft (Figure 4): needs --data unless --quick
    Planes,
    /// Word vectors, in place of pictures of scenes: needs --data unless --quick
    Words,
    /// Pitman–Yor mixtures and beta-process features: identification on and off, small clusters
    Models,
}

/// `anabranch worker`
#[derive(Args, Debug)]
pub struct WorkerArgs {
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Threads that infer [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Address of `/health` and `/metrics`; beyond loopback ANABRANCH_TOKEN must hold what visitors have to show
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Wait for the job to be created instead of failing
    #[arg(long)]
    pub wait: bool,
    /// Print what was done as one JSON object at the end
    #[arg(long)]
    pub json: bool,
    /// No messages on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// `anabranch pull`
#[derive(Args, Debug)]
pub struct PullArgs {
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Write the model to this file
    #[arg(long, value_name = "MODEL")]
    pub out: PathBuf,
    /// Wait until every minibatch of the finished sources is in, and the workers have finished the model
    #[arg(long)]
    pub wait: bool,
    /// Finish the model that is written as `fit` does at its end: prior, first rows, merges. The job is left alone
    #[arg(long)]
    pub finish: bool,
    /// Print what it holds as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `anabranch status`
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A share of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, whole) = match text.strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text, 1.0),
        };
        match number.trim().parse::<f64>().map(|number| number / whole) {
            Ok(share) if share > 0.0 && share < 1.0 => Ok(Self(share)),
            _ => Err("a share between 0 and 1, such as 0.001 or 0.1%".to_owned()),
        }
    }
}

/// How many components are told with their probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// The most probable ones.
    Count(usize),
    /// Every one.
    All,
}

impl Top {
    /// Unless told otherwise.
    pub const DEFAULT: Self = Self::Count(5);
}

impl std::str::FromStr for Top {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<usize>() {
            _ if text == "all" => Ok(Self::All),
            Ok(count) if count > 0 => Ok(Self::Count(count)),
            _ => Err("a number from 1, or `all`".to_owned()),
        }
    }
}

/// `anabranch predict`
#[derive(Args, Debug)]
pub struct PredictArgs {
    /// A model written by `fit --out`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Files, or `-` for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Add the TOP most probable components of each row with their probabilities [default: 5]; `all` for every component
    #[arg(long, value_name = "TOP", num_args = 0..=1, require_equals = true, default_missing_value = "5")]
    pub proba: Option<Top>,
    /// Add the log density of each row: low values are anomalies
    #[arg(long)]
    pub score: bool,
    /// Add the share of ordinary rows that are as unlikely as the row or more
    #[arg(long)]
    pub tail: bool,
    /// Mark rows so unlikely that less than this share of ordinary rows are, such as 0.1%
    #[arg(long, value_name = "SHARE")]
    pub flag_below: Option<Share>,
    /// Give only the N rows that the model explains worst, the worst first
    #[arg(long, value_name = "N", conflicts_with_all = ["proba", "score", "tail", "flag_below"])]
    pub worst: Option<usize>,
    /// Pass these columns of the input through, by name or number from 1, whether the model uses them or not; `all` for every one
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', allow_hyphen_values = true)]
    pub keep: Option<Vec<String>>,
    /// Write a file instead of standard output: csv, tsv, jsonl, parquet, arrow or npy by its name, and .gz or .zst behind that
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON lines instead of csv
    #[arg(long)]
    pub json: bool,
    /// Threads [default: all processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// No progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// Reading.
    #[command(flatten)]
    pub read: ReadArgs,
}

impl PredictArgs {
    /// Refuses what only mixtures of rows answer.
    pub fn refuse_what_goes_with_mixtures(&self) -> Result<(), Failure> {
        let flags = [
            ("--keep", self.keep.is_some()),
            ("--out", self.out.is_some()),
            ("--tail", self.tail),
            ("--flag-below", self.flag_below.is_some()),
            ("--threads", self.threads.is_some()),
            ("--proba=TOP", self.proba.is_some_and(|top| top != Top::DEFAULT && top != Top::All)),
        ];
        match flags.iter().find(|(_, is_there)| *is_there) {
            Some((flag, _)) => Err(Failure::input(format!("{flag} goes with mixtures"))),
            None => Ok(()),
        }
    }
}

/// `anabranch inspect`
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// A model written by `fit --out`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Components to show, the largest first
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub top: usize,
    /// Compare with another model of the same columns, such as a fit with another seed: do both label rows alike?
    #[arg(long, value_name = "OTHER")]
    pub against: Option<PathBuf>,
}

/// `anabranch clusters`
#[derive(Args, Debug)]
pub struct ClustersArgs {
    /// A model written by `fit --out`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Two groups are one cluster while the pass between them is at least this part of the lower of their peaks
    #[arg(long, value_name = "PART", conflicts_with = "count")]
    pub valley: Option<f64>,
    /// As many clusters
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// Clusters with fewer rows belong to the one over their highest pass; 10, or 0 with --count
    #[arg(long, value_name = "ROWS")]
    pub min_size: Option<f64>,
    /// Clusters that are too small are noise instead
    #[arg(long)]
    pub noise: bool,
    /// Store this way of cutting in the model, for `predict`, `inspect` and Python; without other flags the usual one
    #[arg(long)]
    pub keep: bool,
    /// What became of the clusters of this earlier model of the same stream
    #[arg(long, value_name = "EARLIER")]
    pub since: Option<PathBuf>,
    /// Show at which heights components and clusters join
    #[arg(long)]
    pub tree: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Clusters to show, the largest first
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub top: usize,
}

/// `anabranch sample`
#[derive(Args, Debug)]
pub struct SampleArgs {
    /// A model written by `fit --out`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows to draw
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 10)]
    pub rows: u64,
    /// Seed of the draws
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Print the component of each row too
    #[arg(long)]
    pub labels: bool,
    /// Format of the rows; npy holds categories as their codes and has no place for labels
    #[arg(long, value_enum, default_value_t = SampleFormat::Csv, conflicts_with = "labels")]
    pub format: SampleFormat,
}

/// How `sample` prints rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SampleFormat {
    /// Text with a header
    Csv,
    /// An array of numpy, 8 bytes a number
    Npy,
}

/// `anabranch completions`
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}
