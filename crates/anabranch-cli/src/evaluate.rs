//! How well clusters agree with labels that somebody knew.

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Family};
use anabranch::metric::Contingency;
use anabranch::posterior::{Posterior, Predictor};
use anabranch::process::Process;
use anabranch_io::Source;

use crate::failure::Failure;
use crate::fit::count_mismatch;

/// Rows that are labelled at a time: a thread has some hundreds of them.
const ROWS_AT_ONCE: usize = 1 << 16;

/// Agreement of two partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Adjusted Rand index.
    pub adjusted_rand: f64,
    /// Mutual information over the mean entropy.
    pub normalized_mutual_information: f64,
}

/// Labels every row of a source and compares with the true labels, in order.
pub fn agreement<P: Process>(
    posterior: &Posterior<AnyFamily, P>,
    source: &mut dyn Source,
    labels: &[i64],
    threads: usize,
) -> Result<Agreement, Failure> {
    let predictor = Predictor::new(posterior);
    let mut table = Contingency::default();
    let mut rows = 0_u64;
    while let Some(batch) = source.next_batch(ROWS_AT_ONCE)? {
        let mut good = Vec::with_capacity(batch.values().len());
        let mut known = Vec::with_capacity(batch.n_rows());
        for row in batch.rows() {
            let label = labels.get(rows as usize).ok_or_else(|| count_mismatch(rows + 1, labels.len()))?;
            rows += 1;
            // A row outside the domain was skipped while fitting and has no cluster.
            if posterior.family().check(row).is_ok() {
                good.extend_from_slice(row);
                known.push(*label);
            }
        }
        let good = Batch::new(batch.dimensions(), good).map_err(Failure::input)?;
        add(&mut table, &predictor, &good, &known, threads);
    }
    if rows != labels.len() as u64 {
        return Err(count_mismatch(rows, labels.len()));
    }
    summarise(&table)
}

/// The same for rows in memory.
pub fn agreement_of_rows<P: Process>(
    posterior: &Posterior<AnyFamily, P>,
    rows: &Batch,
    labels: &[i64],
    threads: usize,
) -> Result<Agreement, Failure> {
    let mut table = Contingency::default();
    add(&mut table, &Predictor::new(posterior), rows, labels, threads);
    summarise(&table)
}

fn add(table: &mut Contingency, predictor: &Predictor, rows: &Batch, labels: &[i64], threads: usize) {
    for (component, label) in predictor.labels(rows, threads).into_iter().zip(labels) {
        table.add(component.map_or(u64::MAX, |id| id.0), *label);
    }
}

fn summarise(table: &Contingency) -> Result<Agreement, Failure> {
    match (table.adjusted_rand(), table.normalized_mutual_information()) {
        (Some(adjusted_rand), Some(normalized_mutual_information)) => {
            Ok(Agreement { adjusted_rand, normalized_mutual_information })
        }
        _ => Err(Failure::input("no row could be compared with --labels")),
    }
}
