//! What an operator does: lists and deletes jobs, pauses them, and decides about minibatches that were set aside.

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use async_nats::{HeaderMap, jetstream};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;

use crate::connect::{ConnectTo, connect};
use crate::error::{ClusterError, Doing, fault, has_code};
use crate::job::{Job, NO_STREAM};
use crate::names::JobName;
use crate::submit::{NUMBER_HEADER, register};
use crate::worker::{MINIBATCH_HEADER, REASON_HEADER, SUBJECT_HEADER};

const PAUSED: &str = "paused";
/// What a server calls a message that is not there.
const NO_MESSAGE: u64 = 10037;
/// The same, when it shall be deleted.
const NOTHING_TO_DELETE: u64 = 10057;

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields of `jobs --json`, described in docs/cluster.md")]
pub struct JobSummary {
    pub job: String,
    pub pending: u64,
    pub dead: u64,
    pub journal_last: u64,
    pub bytes: u64,
}

/// All jobs of a server.
pub async fn jobs(to: &ConnectTo) -> Result<Vec<JobSummary>, ClusterError> {
    let (_, context) = connect(to).await?;
    let mut all = Vec::new();
    let mut streams = context.streams();
    while let Some(info) = streams.next().await {
        all.push(info.doing("listing the jobs")?);
    }
    let state = |name: &str| all.iter().find(|info| info.config.name == name).map(|info| &info.state);
    let mut found = Vec::new();
    for info in &all {
        let name = info.config.name.strip_prefix("anabranch-").and_then(|name| name.strip_suffix("-journal"));
        let Some(Ok(job)) = name.map(str::parse::<JobName>) else { continue };
        let queues = all.iter().filter(|info| job.is_queue(&info.config.name)).map(|info| &info.state);
        let others = other_streams(&job);
        let others = others.iter().filter_map(|name| state(name));
        found.push(JobSummary {
            pending: queues.clone().map(|queue| queue.messages).sum(),
            dead: state(&job.dead_stream()).map_or(0, |state| state.messages),
            journal_last: info.state.last_sequence,
            bytes: queues.chain(others).map(|state| state.bytes).sum(),
            job: job.to_string(),
        });
    }
    found.sort_by(|a, b| a.job.cmp(&b.job));
    Ok(found)
}

/// The streams of a job besides its queues. That of its settings is the last: a deletion that was cut off can be repeated.
fn other_streams(job: &JobName) -> [String; 5] {
    [
        job.journal_stream(),
        job.dead_stream(),
        format!("KV_{}", job.workers_bucket()),
        format!("OBJ_{}", job.snapshots_bucket()),
        format!("KV_{}", job.settings_bucket()),
    ]
}

/// Removes a job with everything in it, also what is left of one.
pub async fn delete(to: &ConnectTo, job: &JobName) -> Result<(), ClusterError> {
    let (_, context) = connect(to).await?;
    delete_streams(&context, job).await
}

pub(crate) async fn delete_streams(context: &jetstream::Context, job: &JobName) -> Result<(), ClusterError> {
    let doing = "deleting the job";
    let mut queues = Vec::new();
    let mut names = context.stream_names();
    while let Some(name) = names.next().await {
        queues.extend(Some(name.doing(doing)?).filter(|name| job.is_queue(name)));
    }
    let mut deleted = 0;
    for name in queues.into_iter().chain(other_streams(job)) {
        match context.delete_stream(name).await {
            Ok(_) => deleted += 1,
            Err(error) if has_code(&error, NO_STREAM) => {}
            Err(error) => return Err(fault(doing)(error.into())),
        }
    }
    if deleted > 0 { Ok(()) } else { Err(ClusterError::NoJob(job.to_string())) }
}

/// Workers of a job that is paused take no minibatches; what they hold they finish.
pub async fn pause(job: &Job) -> Result<(), ClusterError> {
    job.settings.put(PAUSED, Bytes::from_static(b"yes")).await.doing("pausing the job")?;
    Ok(())
}

/// They take minibatches again.
pub async fn resume(job: &Job) -> Result<(), ClusterError> {
    job.settings.delete(PAUSED).await.doing("resuming the job")
}

/// Whether a job is paused.
pub(crate) async fn is_paused(job: &Job) -> Result<bool, ClusterError> {
    Ok(job.settings.get(PAUSED).await.doing("asking whether the job is paused")?.is_some())
}

/// A minibatch that was set aside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dead {
    /// Its number among those that were set aside.
    pub number: u64,
    /// Why.
    pub reason: String,
    /// Where it was published.
    pub subject: String,
    /// Its name.
    pub minibatch: Option<u64>,
    /// Bytes of its rows.
    pub bytes: usize,
    /// Its rows as they came.
    #[serde(skip)]
    pub payload: Bytes,
}

async fn dead_stream(job: &Job) -> Result<Stream, ClusterError> {
    job.context.get_stream(job.name.dead_stream()).await.doing("opening what was set aside")
}

async fn read(stream: &Stream, number: u64) -> Result<Option<Dead>, ClusterError> {
    let message = match stream.get_raw_message(number).await {
        Ok(message) => message,
        Err(error) if has_code(&error, NO_MESSAGE) => return Ok(None),
        Err(error) => return Err(fault("reading what was set aside")(error.into())),
    };
    let header = |headers: &HeaderMap, name: &str| headers.get(name).map(|value| value.as_str().to_owned());
    let text = |name| header(&message.headers, name);
    Ok(Some(Dead {
        number,
        reason: text(REASON_HEADER).unwrap_or_default(),
        subject: text(SUBJECT_HEADER).unwrap_or_default(),
        minibatch: text(MINIBATCH_HEADER).and_then(|name| name.parse().ok()),
        bytes: message.payload.len(),
        payload: message.payload,
    }))
}

/// What was set aside: the first so many from a number on.
pub async fn dead(job: &Job, from: u64, most: usize) -> Result<Vec<Dead>, ClusterError> {
    let stream = dead_stream(job).await?;
    let state = &stream.cached_info().state;
    let mut found = Vec::new();
    for number in from.max(state.first_sequence).max(1)..=state.last_sequence {
        if found.len() >= most {
            break;
        }
        found.extend(read(&stream, number).await?);
    }
    Ok(found)
}

/// One of them.
pub async fn dead_one(job: &Job, number: u64) -> Result<Dead, ClusterError> {
    read(&dead_stream(job).await?, number).await?.ok_or(ClusterError::NoDead(number))
}

/// Publishes one of them again, under a name that follows from its number: cut off and repeated it counts once.
pub async fn requeue(job: &Job, number: u64, payload: Bytes) -> Result<(), ClusterError> {
    let doing = "publishing it again";
    let stream = dead_stream(job).await?;
    // Numbers begin anew in another stream.
    let born = stream.cached_info().created.unix_timestamp_nanos();
    let source = register(job, &format!("set aside since {born}")).await?;
    let publish = PublishMessage::build().payload(payload).header(NUMBER_HEADER, number.to_string());
    let answer = job.context.send_publish(job.subject_of(source, number), publish).await.doing(doing)?;
    answer.await.doing(doing)?;
    drop_dead(job, number).await
}

/// Forgets one of them.
pub async fn drop_dead(job: &Job, number: u64) -> Result<(), ClusterError> {
    match dead_stream(job).await?.delete_message(number).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, NO_MESSAGE) || has_code(&error, NOTHING_TO_DELETE) => {
            Err(ClusterError::NoDead(number))
        }
        Err(error) => Err(fault("forgetting it")(error.into())),
    }
}
