//! Minibatches that workers gave back untouched. A server counts deliveries, and these are none that failed.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch::central::BatchId;
use async_nats::jetstream::kv::Operation;

use crate::job::Job;

const KEY: &str = "handed";
/// Workers that leave together are in each other's way this often at most; a lost note costs one delivery.
const ATTEMPTS: u32 = 30;

type Times = BTreeMap<u64, u64>;

async fn read(job: &Job) -> Option<(Times, Option<u64>)> {
    match job.settings.entry(KEY).await.ok()? {
        Some(entry) if entry.operation == Operation::Put => {
            Some((serde_json::from_slice(&entry.value).unwrap_or_default(), Some(entry.revision)))
        }
        _ => Some((Times::new(), None)),
    }
}

/// How often a minibatch was given back.
pub(super) async fn times(job: &Job, batch: BatchId) -> u64 {
    read(job).await.and_then(|(times, _)| times.get(&batch.0).copied()).unwrap_or(0)
}

/// Notes that these are given back, and forgets those that are settled.
pub(super) async fn note(job: &Job, batches: &[BatchId], is_settled: impl Fn(BatchId) -> bool) {
    if batches.is_empty() {
        return;
    }
    for attempt in 0..ATTEMPTS {
        if let Some((mut times, revision)) = read(job).await {
            times.retain(|batch, _| !is_settled(BatchId(*batch)));
            batches.iter().for_each(|batch| *times.entry(batch.0).or_default() += 1);
            let json = serde_json::to_vec(&times).expect("numbers").into();
            let noted = match revision {
                Some(revision) => job.settings.update(KEY, json, revision).await.is_ok(),
                None => job.settings.create(KEY, json).await.is_ok(),
            };
            if noted {
                return;
            }
        }
        let spread = u64::from(std::process::id() % 16);
        tokio::time::sleep(Duration::from_millis(5 + spread * u64::from(attempt.min(8)))).await;
    }
}
