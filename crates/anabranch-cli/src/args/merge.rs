//! `merge`.

use std::path::PathBuf;

use clap::Args;

/// `anabranch merge`
#[derive(Args, Debug)]
pub struct MergeArgs {
    /// Models of `fit --out` with the same flags, or folders of `fit --checkpoint`, each from rows of its own
    #[arg(required = true, num_args = 2.., value_name = "MODEL")]
    pub models: Vec<PathBuf>,
    /// Write the model of all rows to this file
    #[arg(long, value_name = "MODEL")]
    pub out: PathBuf,
    /// Merge models that cannot tell whether they have learned from the same rows
    #[arg(long)]
    pub assume_apart: bool,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}
