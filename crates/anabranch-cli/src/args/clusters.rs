//! `clusters`.

use std::path::PathBuf;

use clap::Args;

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
    /// Clusters with fewer rows belong to the one over their highest pass; 10, or 2 % of the rows where these are
    /// fewer than 500 (at least 3); 0 with --count
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
