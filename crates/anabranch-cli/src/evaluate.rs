//! How well clusters agree with labels that somebody knew.

use anabranch::batch::Batch;
use anabranch::clusters::{Clusters, RowClusters};
use anabranch::family::{AnyFamily, Family};
use anabranch::identify::ComponentId;
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
    /// Adjusted Rand index of the clusters.
    pub clusters_adjusted_rand: f64,
    /// The same of the clusters.
    pub clusters_normalized_mutual_information: f64,
}

/// Rows by component, by cluster and by label.
struct Tables {
    clusters: RowClusters,
    components: Contingency,
    by_cluster: Contingency,
}

impl Tables {
    fn new<P: Process>(posterior: &Posterior<AnyFamily, P>, clusters: &Clusters) -> Self {
        let clusters = RowClusters::new(posterior, clusters.clone());
        Self { clusters, components: Contingency::default(), by_cluster: Contingency::default() }
    }

    fn add(&mut self, row: &[f64], component: Option<ComponentId>, label: i64) {
        let name = |id: Option<ComponentId>| id.map_or(u64::MAX, |id| id.0);
        self.components.add(name(component), label);
        self.by_cluster.add(name(component.and_then(|id| self.clusters.of(id, row))), label);
    }

    fn add_rows(&mut self, predictor: &Predictor, rows: &Batch, labels: &[i64], threads: usize) {
        let found = predictor.labels(rows, threads);
        for ((row, component), label) in rows.rows().zip(found).zip(labels) {
            self.add(row, component, *label);
        }
    }

    fn summarise(&self) -> Result<Agreement, Failure> {
        let of = |table: &Contingency| Some((table.adjusted_rand()?, table.normalized_mutual_information()?));
        match (of(&self.components), of(&self.by_cluster)) {
            (Some((adjusted_rand, normalized_mutual_information)), Some(clusters)) => Ok(Agreement {
                adjusted_rand,
                normalized_mutual_information,
                clusters_adjusted_rand: clusters.0,
                clusters_normalized_mutual_information: clusters.1,
            }),
            _ => Err(Failure::input("no row could be compared with --labels")),
        }
    }
}

/// Labels every row of a source and compares with the true labels, in order.
pub fn agreement<P: Process>(
    posterior: &Posterior<AnyFamily, P>,
    clusters: &Clusters,
    source: &mut dyn Source,
    labels: &[i64],
    threads: usize,
) -> Result<Agreement, Failure> {
    let predictor = Predictor::new(posterior);
    let mut tables = Tables::new(posterior, clusters);
    let mut rows = 0_u64;
    while let Some(batch) = source.next_batch(ROWS_AT_ONCE)? {
        let mut good = Vec::with_capacity(batch.values().len());
        let mut known = Vec::with_capacity(batch.n_rows());
        for row in batch.rows() {
            let label = labels.get(rows as usize).ok_or_else(|| count_mismatch(None, labels.len()))?;
            rows += 1;
            // A row outside the domain was skipped while fitting and has no cluster.
            if posterior.family().check(row).is_ok() {
                good.extend_from_slice(row);
                known.push(*label);
            }
        }
        let good = Batch::with_missing(batch.dimensions(), good).map_err(Failure::input)?;
        tables.add_rows(&predictor, &good, &known, threads);
    }
    if rows != labels.len() as u64 {
        return Err(count_mismatch(Some(rows), labels.len()));
    }
    tables.summarise()
}

/// The same for rows in memory.
pub fn agreement_of_rows<P: Process>(
    posterior: &Posterior<AnyFamily, P>,
    clusters: &Clusters,
    rows: &Batch,
    labels: &[i64],
    threads: usize,
) -> Result<Agreement, Failure> {
    let mut tables = Tables::new(posterior, clusters);
    tables.add_rows(&Predictor::new(posterior), rows, labels, threads);
    tables.summarise()
}
