//! How a job stands.

use std::time::Duration;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use crate::error::{ClusterError, Doing};
use crate::for_kind;
use crate::job::Job;
use crate::kind::Kind;
use crate::names::count_of_source;
use crate::operate::is_paused;
use crate::patience::patiently;
use crate::reader::fetch_replica;
use crate::snapshots;
use crate::submit::sources;

/// A worker as it shows itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields of `status --json`, described in docs/cluster.md")]
pub struct WorkerStatus {
    pub id: String,
    pub host: String,
    pub process: u32,
    pub threads: u32,
    pub version: String,
    pub seconds: f64,
    pub journal_position: u64,
    pub lease: bool,
    pub minibatches: u64,
    pub rows: u64,
    pub conflicts: u64,
    pub infer_seconds: f64,
    pub append_seconds: f64,
}

/// A source and how much of it is done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields of `status --json`, described in docs/cluster.md")]
pub struct SourceStatus {
    pub number: u64,
    pub name: String,
    pub published: u64,
    pub absorbed: u64,
    pub set_aside: u64,
    pub rows: u64,
    pub finished: bool,
}

/// A job as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields of `status --json`, described in docs/cluster.md")]
pub struct Status {
    pub job: String,
    /// Minibatches in the queue, those that workers hold included.
    pub pending: u64,
    /// Of those, the ones that workers hold.
    pub held: u64,
    pub queue_bytes: u64,
    pub absorbed: u64,
    pub set_aside: u64,
    /// True when all that was submitted is in, and the model was finished.
    pub finished: bool,
    /// True when workers take no minibatches.
    pub paused: bool,
    /// Rows or documents in the posterior.
    pub rows: u64,
    /// Their weight: rows, or the words of the documents.
    pub mass: f64,
    pub components: u64,
    /// Entries that were void because components had appeared.
    pub conflicts: u64,
    /// Entries that were void because their minibatch was settled.
    pub repeated: u64,
    pub version: u64,
    /// Records of the journal that counted.
    pub entries: u64,
    /// Checksum of the model: equal for all replicas that have read the same journal.
    pub fingerprint: u32,
    pub journal_first: u64,
    pub journal_last: u64,
    pub journal_bytes: u64,
    pub snapshot: u64,
    pub sources: Vec<SourceStatus>,
    pub workers: Vec<WorkerStatus>,
}

/// Looks at everything. Reads the journal behind the newest snapshot.
pub async fn status(job: &Job) -> Result<Status, ClusterError> {
    for_kind!(job.spec, K => patiently(|| look::<K>(job)).await)
}

async fn look<K: Kind>(job: &Job) -> Result<Status, ClusterError> {
    let doing = "asking how the job stands";
    let replica = fetch_replica::<K>(job).await?;
    let waiting = job.waiting().await?;
    let mut held = 0;
    for queue in job.queues().await? {
        held += queue.get_info().await.doing(doing)?.num_ack_pending as u64;
    }
    let journal = job.journal.get_info().await.doing(doing)?.state;
    let snapshot = snapshots::newest(job).await?;
    let absorbed = replica.fold().map(|fold| fold.absorbed().runs().to_vec()).unwrap_or_default();
    let sources = sources(job).await?.into_iter().map(|(number, source)| SourceStatus {
        absorbed: count_of_source(&absorbed, number),
        set_aside: count_of_source(replica.aside().runs(), number),
        number,
        name: source.name,
        published: source.published,
        rows: source.rows,
        finished: source.finished,
    });
    Ok(Status {
        job: job.name.to_string(),
        pending: waiting.messages,
        held,
        queue_bytes: waiting.bytes,
        absorbed: replica.absorbed(),
        set_aside: replica.aside().len(),
        finished: replica.is_finished(),
        paused: is_paused(job).await?,
        rows: replica.rows(),
        mass: replica.posterior().map_or(0.0, |posterior| posterior.mass()),
        components: replica.posterior().map_or(0, |posterior| posterior.components().len() as u64),
        conflicts: replica.tally().superseded,
        repeated: replica.tally().repeated,
        version: replica.posterior().map_or(0, |posterior| posterior.version()),
        entries: replica.tally().counted,
        fingerprint: replica.fingerprint(),
        journal_first: journal.first_sequence,
        journal_last: journal.last_sequence,
        journal_bytes: journal.bytes,
        snapshot,
        sources: sources.collect(),
        workers: workers(job).await?,
    })
}

async fn workers(job: &Job) -> Result<Vec<WorkerStatus>, ClusterError> {
    let doing = "listing the workers";
    let mut found = Vec::new();
    let mut keys = job.workers.keys().await.doing(doing)?;
    loop {
        // An empty bucket may leave us waiting on an old server.
        let Ok(Some(key)) = tokio::time::timeout(Duration::from_secs(2), keys.next()).await else { break };
        let Ok(key) = key else { break };
        if let Ok(Some(value)) = job.workers.get(key).await {
            found.extend(serde_json::from_slice::<WorkerStatus>(&value).ok());
        }
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}
