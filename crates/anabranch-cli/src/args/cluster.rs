//! The commands of a cluster.

use std::path::PathBuf;

use anabranch::process::Parameter;
use clap::Args;

use super::engine::BoundKind;
use super::input::ReadArgs;
use super::model::{ModelKind, PriorArgs, TopicArgs, concentration, discount};

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
    /// Queues that minibatches are dealt out to, for many workers: servers lead one or several each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub queues: u32,
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
    /// Nonparametric model
    #[arg(long, value_name = "MODEL", default_value = "dp")]
    pub model: ModelKind,
    /// Topics.
    #[command(flatten)]
    pub topics: TopicArgs,
    /// bp: standard deviation of the noise, in the units of the data; learned with --feature-scale unless both are given
    #[arg(long, allow_hyphen_values = true, value_name = "SD")]
    pub noise: Option<f64>,
    /// bp: standard deviation of the cells of a feature
    #[arg(long, allow_hyphen_values = true, value_name = "SD")]
    pub feature_scale: Option<f64>,
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
    /// Rows that one worker fits alone before the others start [default: 20000; 2000 with --model hdp or bp]
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
    /// Address of `/health/live` and `/health/ready` alone, without a token: for probes
    #[arg(long, value_name = "ADDRESS")]
    pub health_listen: Option<std::net::SocketAddr>,
    /// Not ready when rows wait and nothing has moved for this long
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    pub stalled_after: u64,
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
    /// Go on: write the model again whenever it has changed, until asked to stop
    #[arg(long, conflicts_with_all = ["wait", "finish"])]
    pub follow: bool,
    /// --follow: look this often
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub every: u64,
    /// Finish the model that is written as `fit` does at its end: prior, first rows, merges. The job is left alone
    #[arg(long)]
    pub finish: bool,
    /// Print what it holds as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `anabranch jobs`
#[derive(Args, Debug)]
pub struct JobsArgs {
    /// NATS server, or several separated by commas [default: $ANABRANCH_NATS, then nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Login.
    #[command(flatten)]
    pub login: LoginArgs,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

/// `anabranch delete`
#[derive(Args, Debug)]
pub struct DeleteArgs {
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Yes, with its queue, journal and model
    #[arg(long)]
    pub yes: bool,
}

/// `anabranch pause` and `anabranch resume`
#[derive(Args, Debug)]
pub struct PauseArgs {
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What to do with minibatches that were set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DeadAction {
    /// All of them, with the reasons
    List,
    /// The rows of one, as they came
    Show,
    /// Publish them again
    Requeue,
    /// Forget them
    Drop,
}

/// `anabranch dead`
#[derive(Args, Debug)]
pub struct DeadArgs {
    /// What to do
    #[arg(value_name = "ACTION", default_value = "list")]
    pub action: DeadAction,
    /// Numbers from the list
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<u64>,
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// requeue, drop: all there are
    #[arg(long, conflicts_with = "numbers")]
    pub all: bool,
    /// requeue: these rows instead of those of the one number
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub with: Option<PathBuf>,
    /// list: print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// `anabranch watch`
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Look this often
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub every: u64,
    /// Print every look as one line of JSON
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
