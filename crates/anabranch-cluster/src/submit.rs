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
    /// What tells these rows from others, in this order; not known of sources that an older program submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<u64>,
    /// The same of the first minibatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<u64>,
}

/// Tells rows from others.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// One more row.
    pub fn add(&mut self, row: &[f64]) {
        for value in row {
            self.0 = (self.0 ^ value.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 ^= self.0 >> 32;
        }
    }

    /// One more line of text.
    pub fn add_line(&mut self, line: &[u8]) {
        for piece in line.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.add(&[f64::from_bits(u64::from_le_bytes(word))]);
        }
    }

    /// Of all rows so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// The number of a source, which it gets when its name is seen first.
pub(crate) async fn register(job: &Job, name: &str) -> Result<u64, ClusterError> {
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
    match number < MAX_SOURCES {
        true => Ok(number),
        false => Err(ClusterError::Damaged("the job has too many sources".into())),
    }
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

/// A minibatch that the server has not acknowledged yet.
#[derive(Debug)]
struct UnderWay {
    number: u64,
    rows: u64,
    /// Of all rows up to and with these.
    digest: Digest,
    message: Bytes,
    answer: Option<PublishAckFuture>,
}

/// A source that is being published.
#[derive(Debug)]
pub struct Submission<'a> {
    job: &'a Job,
    number: u64,
    state: SourceState,
    under_way: VecDeque<UnderWay>,
    noted: u64,
    waits: u64,
}

impl<'a> Submission<'a> {
    /// Starts a source, or takes it up where its last submitter left it.
    pub async fn start(job: &'a Job, name: &str) -> Result<Self, ClusterError> {
        let number = register(job, name).await?;
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

    /// The source that begins with these rows, where there is one: the same rows under another name.
    pub async fn beginning_with(job: &Job, head: Digest) -> Result<Option<String>, ClusterError> {
        let found = sources(job).await?.into_iter().find(|(_, state)| state.head == Some(head.value()));
        Ok(found.map(|(_, state)| state.name))
    }

    /// True when the source was never submitted.
    pub async fn is_new(job: &Job, name: &str) -> Result<bool, ClusterError> {
        Ok(!sources(job).await?.iter().any(|(_, state)| state.name == name))
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

    /// Publishes the next minibatch, of this many rows; the digest is that of all rows up to its end. Waits while the server has no room.
    pub async fn publish(&mut self, message: Vec<u8>, rows: u64, digest: Digest) -> Result<(), ClusterError> {
        let limit = self.job.message_limit();
        if message.len() > limit {
            return Err(ClusterError::TooLarge { bytes: message.len(), limit });
        }
        if self.state.finished {
            // It has grown: whoever waits for it waits for the new rows too.
            self.state.finished = false;
            self.note().await?;
        }
        let number = self.state.published + self.under_way.len() as u64;
        let message = Bytes::from(message);
        let answer = self.send(number, &message).await;
        self.under_way.push_back(UnderWay { number, rows, digest, message, answer });
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
        self.job.context.send_publish(self.job.subject_of(self.number, number), publish).await.ok()
    }

    /// Waits until the oldest publish is acknowledged, and sends it again for as long as it is not.
    async fn settle_one(&mut self) -> Result<(), ClusterError> {
        let Some(UnderWay { number, rows, digest, message, mut answer }) = self.under_way.pop_front() else {
            return Ok(());
        };
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
        self.state.digest = Some(digest.value());
        self.state.head = self.state.head.or(self.state.digest.filter(|_| self.state.published == 1));
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
        self.settle().await?;
        self.note().await?;
        Ok(&self.state)
    }

    async fn settle(&mut self) -> Result<(), ClusterError> {
        while !self.under_way.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    /// The same, and there are no more rows.
    pub async fn finish(mut self) -> Result<SourceState, ClusterError> {
        self.settle().await?;
        self.state.finished = true;
        self.note().await?;
        Ok(self.state)
    }
}
