//! Publishing minibatches: each with a name of its own, so that a submission that was cut off can be taken up again.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use crate::error::{ClusterError, Doing, fault};
use crate::job::Job;
use crate::names::MAX_SOURCES;

/// Header with the number of a minibatch within its source.
pub(crate) const NUMBER_HEADER: &str = "Anabranch-Batch";
/// Publishes that may be under way.
const WINDOW: usize = 64;
/// Minibatches between two notes of how far we are.
const NOTE_EVERY: u64 = 256;

/// How far a source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// What the source is called.
    pub name: String,
    /// Minibatches that the server has acknowledged.
    pub published: u64,
    /// Rows in them.
    pub rows: u64,
    /// True when there are no more.
    pub finished: bool,
}

/// The key under which a source is registered. The number of a source is the revision of that entry: the server gives
/// every revision once, so that two sources never share a number, whatever happens to conditions.
fn source_key(name: &str) -> String {
    // FNV-1a, twice with different starts: 128 bits of a name that may hold anything.
    let hash =
        |start: u64| name.bytes().fold(start, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("source.{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x6c62_272e_07bb_0142))
}

fn progress_key(number: u64) -> String {
    format!("progress.{number}")
}

/// All sources of a job with their numbers, in the order of registration.
pub(crate) async fn sources(job: &Job) -> Result<Vec<(u64, SourceState)>, ClusterError> {
    let doing = "reading the list of sources";
    let mut found = Vec::new();
    let mut keys = job.settings.keys().await.doing(doing)?;
    while let Some(key) = keys.next().await {
        let key = key.doing(doing)?;
        let Some(number) = key.strip_prefix("progress.").and_then(|number| number.parse::<u64>().ok()) else {
            continue;
        };
        if let Some(state) = read_state(job, number).await? {
            found.push((number, state));
        }
    }
    found.sort_by_key(|(number, _)| *number);
    Ok(found)
}

async fn read_state(job: &Job, number: u64) -> Result<Option<SourceState>, ClusterError> {
    let bytes = job.settings.get(progress_key(number)).await.doing("reading how far a source is")?;
    let damaged = |error| ClusterError::Damaged(format!("the state of source {number}: {error}"));
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(damaged)).transpose()
}

/// A source that is being published.
#[derive(Debug)]
pub struct Submission<'a> {
    job: &'a Job,
    number: u64,
    state: SourceState,
    under_way: VecDeque<(u64, u64, Bytes, Option<PublishAckFuture>)>,
    noted: u64,
    waits: u64,
}

impl<'a> Submission<'a> {
    /// Starts a source, or takes it up where its last submitter left it.
    pub async fn start(job: &'a Job, name: &str) -> Result<Self, ClusterError> {
        let key = source_key(name);
        let doing = "registering the source";
        let number = match job.settings.create(&key, Bytes::copy_from_slice(name.as_bytes())).await {
            Ok(revision) => revision,
            Err(_) => {
                let entry = job.settings.entry(&key).await.doing(doing)?;
                entry
                    .ok_or_else(|| ClusterError::Server { doing, reason: "it was not accepted".into() })?
                    .revision
            }
        };
        if number >= MAX_SOURCES {
            return Err(ClusterError::Damaged("the job has too many sources".into()));
        }
        let new = SourceState { name: name.to_owned(), ..SourceState::default() };
        let known = read_state(job, number).await?;
        let first = known.is_none();
        let state = known.unwrap_or(new);
        let mut submission =
            Self { job, number, noted: state.published, state, under_way: VecDeque::new(), waits: 0 };
        if first {
            submission.note().await?;
        }
        Ok(submission)
    }

    /// Where the source stands: minibatches before `published` need not be sent again.
    pub fn state(&self) -> &SourceState {
        &self.state
    }

    /// The number of the source within the job.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Times that the server had no room and we waited for the workers.
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// Publishes the next minibatch, of this many rows. Waits while the server has no room.
    pub async fn publish(&mut self, message: Vec<u8>, rows: u64) -> Result<(), ClusterError> {
        let limit = self.job.message_limit();
        if message.len() > limit {
            return Err(ClusterError::TooLarge { bytes: message.len(), limit });
        }
        let number = self.state.published + self.under_way.len() as u64;
        let message = Bytes::from(message);
        let answer = self.send(number, &message).await;
        self.under_way.push_back((number, rows, message, answer));
        while self.under_way.len() >= WINDOW {
            self.settle_one().await?;
        }
        if self.state.published >= self.noted + NOTE_EVERY {
            self.note().await?;
        }
        Ok(())
    }

    async fn send(&self, number: u64, message: &Bytes) -> Option<PublishAckFuture> {
        let publish = PublishMessage::build()
            .payload(message.clone())
            .message_id(format!("{}-{number}", self.number))
            .header(NUMBER_HEADER, number.to_string());
        self.job.context.send_publish(self.job.name.batch_subject(self.number), publish).await.ok()
    }

    /// Waits until the oldest publish is acknowledged, and sends it again for as long as it is not.
    async fn settle_one(&mut self) -> Result<(), ClusterError> {
        let Some((number, rows, message, mut answer)) = self.under_way.pop_front() else { return Ok(()) };
        let mut pause = Duration::from_millis(50);
        loop {
            let outcome = match answer.take() {
                Some(answer) => answer.await.map(|_| ()).map_err(|error| fault("publishing")(error.into())),
                None => Err(ClusterError::Server { doing: "publishing", reason: "no connection".into() }),
            };
            match outcome {
                Ok(()) => break,
                Err(ClusterError::OutOfSpace { .. }) => self.waits += 1,
                Err(error) if !error.passes() => return Err(error),
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
            answer = self.send(number, &message).await;
        }
        self.state.published += 1;
        self.state.rows += rows;
        Ok(())
    }

    /// Writes down how far we are. There is one submitter of a source, so nothing is overwritten.
    async fn note(&mut self) -> Result<(), ClusterError> {
        let json = Bytes::from(serde_json::to_vec(&self.state).expect("text and numbers"));
        loop {
            match self.job.settings.put(progress_key(self.number), json.clone()).await {
                Ok(_) => {
                    self.noted = self.state.published;
                    return Ok(());
                }
                Err(error) => match fault("noting how far the submission is")(error.into()) {
                    passing if passing.passes() => tokio::time::sleep(Duration::from_millis(200)).await,
                    error => return Err(error),
                },
            }
        }
    }

    /// Waits for all that is under way, and writes down where the source stands.
    pub async fn pause(&mut self) -> Result<&SourceState, ClusterError> {
        while !self.under_way.is_empty() {
            self.settle_one().await?;
        }
        self.note().await?;
        Ok(&self.state)
    }

    /// The same, and there are no more rows.
    pub async fn finish(mut self) -> Result<SourceState, ClusterError> {
        self.state.finished = true;
        self.pause().await?;
        Ok(self.state)
    }
}
