//! How well clusters agree with labels that somebody knew.

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Family};
use anabranch::metric::Contingency;
use anabranch::posterior::{Posterior, Predictor};
use anabranch::process::Process;
use anabranch_io::Source;

use crate::failure::Failure;
use crate::fit::count_mismatch;

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
) -> Result<Agreement, Failure> {
    let predictor = Predictor::new(posterior);
    let mut table = Contingency::default();
    let mut rows = 0_u64;
    while let Some(batch) = source.next_batch(8192)? {
        for row in batch.rows() {
            let label = labels.get(rows as usize).ok_or_else(|| count_mismatch(rows + 1, labels.len()))?;
            rows += 1;
            // A row outside the domain was skipped while fitting and has no cluster.
            if posterior.family().check(row).is_ok() {
                table.add(predictor.label(row).map_or(u64::MAX, |id| id.0), *label);
            }
        }
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
) -> Result<Agreement, Failure> {
    let predictor = Predictor::new(posterior);
    let mut table = Contingency::default();
    for (row, label) in rows.rows().zip(labels) {
        table.add(predictor.label(row).map_or(u64::MAX, |id| id.0), *label);
    }
    summarise(&table)
}

fn summarise(table: &Contingency) -> Result<Agreement, Failure> {
    match (table.adjusted_rand(), table.normalized_mutual_information()) {
        (Some(adjusted_rand), Some(normalized_mutual_information)) => {
            Ok(Agreement { adjusted_rand, normalized_mutual_information })
        }
        _ => Err(Failure::input("no row could be compared with --labels")),
    }
}
