//! `inspect`, `sample`, `experiment`, `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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

/// `anabranch completions`
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `anabranch man`
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The folder, which is made when missing
    pub folder: std::path::PathBuf,
}
