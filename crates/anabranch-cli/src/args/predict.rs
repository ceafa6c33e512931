//! `predict`.

use std::path::PathBuf;

use clap::Args;

use super::input::ReadArgs;
use crate::failure::Failure;

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

    /// Of so many components.
    pub fn of(self, components: usize) -> usize {
        match self {
            Self::Count(count) => count.min(components),
            Self::All => components,
        }
    }
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

/// `anabranch impute`
#[derive(Args, Debug)]
pub struct ImputeArgs {
    /// A model written by `fit --out`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Files, or `-` for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Write a file instead of standard output: csv, tsv, jsonl, parquet, arrow or npy by its name, and .gz or .zst behind that
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Draw each missing value from what the model says of it, instead of taking the mean
    #[arg(long, conflicts_with = "std")]
    pub draw: bool,
    /// Add a column NAME_std for each column of numbers: the standard deviation of what was filled in, 0 elsewhere
    #[arg(long)]
    pub std: bool,
    /// Seed of --draw
    #[arg(long, value_name = "N", default_value_t = 0, requires = "draw")]
    pub seed: u64,
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
    /// Refuses `--proba 2`, whose number would be the name of an input.
    pub fn refuse_a_number_behind_proba(&self) -> Result<(), Failure> {
        let is_number =
            |input: &&String| input.parse::<Top>().is_ok() && !std::path::Path::new(input).exists();
        match self.inputs.iter().find(is_number).filter(|_| self.proba == Some(Top::DEFAULT)) {
            Some(number) => Err(Failure::input(format!("{number}: no such file")).with_hint(format!(
                "how many components --proba tells is written behind `=`: --proba={number}"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses what only mixtures of rows answer.
    pub fn refuse_what_goes_with_mixtures(&self) -> Result<(), Failure> {
        let flags = [
            ("--keep", self.keep.is_some()),
            ("--out", self.out.is_some()),
            ("--tail", self.tail),
            ("--flag-below", self.flag_below.is_some()),
            ("--threads", self.threads.is_some()),
            ("--missing", self.read.missing.is_some()),
            ("--proba=TOP", self.proba.is_some_and(|top| top != Top::DEFAULT && top != Top::All)),
        ];
        match flags.iter().find(|(_, is_there)| *is_there) {
            Some((flag, _)) => Err(Failure::input(format!("{flag} goes with mixtures"))),
            None => Ok(()),
        }
    }
}
