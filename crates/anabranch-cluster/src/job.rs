//! The streams and buckets of a job: created with limits, or checked when they exist.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::kv::Store;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{Context, consumer::Consumer};

use crate::connect::{ConnectTo, connect};
use crate::error::{ClusterError, Doing, fault, in_words, server_code};
use crate::names::JobName;
use crate::patience::patiently;
use crate::protocol::{Parts, split};
use crate::spec::JobSpec;

/// The durable consumer that all workers share.
const WORKERS: &str = "workers";
/// A worker that is silent for this long has left.
pub(crate) const WORKER_LIFE: Duration = Duration::from_secs(30);
/// Room for the message's head beside a piece of a record.
const MARGIN: usize = 1024;
/// Pieces of what is attached to settings: every server takes messages of this size.
const ATTACHED_PIECE: usize = 64 << 10;
/// What a server calls a stream that is not there.
pub(crate) const NO_STREAM: u64 = 10059;
pub(crate) const SPEC_KEY: &str = "job";

/// Whether a job may be created.
#[derive(Clone, Debug)]
pub enum Access {
    /// Create it with these settings, or check that it has them. What is too long for settings is attached to them.
    Create(Box<JobSpec>, Vec<u8>),
    /// It must exist.
    Open,
}

/// A job on a server.
#[derive(Clone)]
pub struct Job {
    pub(crate) client: Client,
    pub(crate) context: Context,
    pub(crate) name: JobName,
    pub(crate) spec: JobSpec,
    /// The queues of minibatches.
    pub(crate) batches: Vec<Stream>,
    pub(crate) journal: Stream,
    pub(crate) settings: Store,
    pub(crate) workers: Store,
    pub(crate) snapshots: ObjectStore,
}

/// What waits in the queues of a job, what workers hold included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Job {
    /// Connects and opens or creates the job.
    pub async fn open(to: &ConnectTo, name: &JobName, access: Access) -> Result<Self, ClusterError> {
        let (client, context) = connect(to).await?;
        let spec = patiently(|| async {
            match &access {
                Access::Open => {
                    read_spec(&context, name).await?.ok_or_else(|| ClusterError::NoJob(name.to_string()))
                }
                Access::Create(wanted, attached) => agree(&context, name, wanted, attached).await,
            }
        })
        .await?;
        // Two that create the same streams at once are in each other's way: a server reserves the room twice.
        patiently(|| Self::with_streams(&client, &context, name, &spec)).await
    }

    async fn with_streams(
        client: &Client,
        context: &Context,
        name: &JobName,
        spec: &JobSpec,
    ) -> Result<Self, ClusterError> {
        let replicas = spec.replicas as usize;
        let base = stream::Config {
            storage: StorageType::File,
            num_replicas: replicas,
            discard: DiscardPolicy::New,
            duplicate_window: Duration::from_secs(120),
            ..stream::Config::default()
        };
        let queue = |queue: u32| stream::Config {
            name: name.batches_stream(queue),
            subjects: name.all_batches(queue),
            retention: RetentionPolicy::WorkQueue,
            max_bytes: clamp(spec.queue_bytes / u64::from(spec.queues)),
            description: Some("minibatches that wait for a worker".into()),
            ..base.clone()
        };
        let mut batches = Vec::new();
        for queue in (0..spec.queues).map(queue) {
            batches.push(ensure(context, queue).await?);
        }
        let journal = stream::Config {
            name: name.journal_stream(),
            subjects: name.all_journal(),
            max_bytes: clamp(spec.journal_bytes),
            description: Some("the central posterior, entry by entry".into()),
            ..base.clone()
        };
        let dead = stream::Config {
            name: name.dead_stream(),
            subjects: vec![name.dead_subject()],
            max_bytes: clamp(spec.queue_bytes / 4),
            discard: DiscardPolicy::Old,
            description: Some("minibatches that no worker could learn from, with the reason".into()),
            ..base
        };
        ensure(context, dead).await?;
        let settings = settings_bucket(context, name, replicas).await?;
        let objects = object_store::Config {
            bucket: name.snapshots_bucket(),
            num_replicas: replicas,
            storage: StorageType::File,
            ..object_store::Config::default()
        };
        Ok(Self {
            batches,
            journal: ensure(context, journal).await?,
            workers: bucket(context, name.workers_bucket(), replicas, StorageType::Memory, WORKER_LIFE)
                .await?,
            snapshots: match context.get_object_store(&objects.bucket).await {
                Ok(store) => store,
                Err(_) => {
                    context.create_object_store(objects).await.doing("creating the store of snapshots")?
                }
            },
            settings,
            name: name.clone(),
            client: client.clone(),
            context: context.clone(),
            spec: spec.clone(),
        })
    }

    /// The settings that the job was created with.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// What is attached to the settings.
    pub async fn attached(&self) -> Result<Vec<u8>, ClusterError> {
        let Some(checksum) = self.spec.attached else { return Ok(Vec::new()) };
        patiently(|| async {
            let (mut parts, doing) = (Parts::default(), "reading what belongs to the job's settings");
            for part in 0.. {
                let Some(message) = self.settings.get(attached_key(checksum, part)).await.doing(doing)?
                else {
                    break;
                };
                match parts.add(part + 1, &message) {
                    Ok(Some(whole)) if crc32fast::hash(&whole) == checksum => return Ok(whole),
                    Ok(None) => {}
                    Ok(Some(_)) | Err(_) => break,
                }
            }
            Err(ClusterError::Damaged("what belongs to the job's settings is not whole".into()))
        })
        .await
    }

    /// Its name.
    pub fn name(&self) -> &JobName {
        &self.name
    }

    /// Bytes of one message that the server takes, less room for its head.
    pub fn message_limit(&self) -> usize {
        self.client.server_info().max_payload.saturating_sub(MARGIN).max(MARGIN)
    }

    /// The subject that a minibatch of a source is published to. A minibatch that is published again goes into the same queue, which
    /// knows it.
    pub(crate) fn subject_of(&self, source: u64, number: u64) -> String {
        self.name.batch_subject(source, (number % self.batches.len() as u64) as u32)
    }

    /// What waits in all queues together.
    pub(crate) async fn waiting(&self) -> Result<Waiting, ClusterError> {
        let mut waiting = Waiting::default();
        for queue in &self.batches {
            let state = queue.get_info().await.doing("asking what waits")?.state;
            waiting.messages += state.messages;
            waiting.bytes += state.bytes;
        }
        Ok(waiting)
    }

    /// All queues of minibatches.
    pub(crate) async fn queues(&self) -> Result<Vec<Consumer<pull::Config>>, ClusterError> {
        let mut queues = Vec::new();
        for stream in &self.batches {
            queues.push(self.queue(stream).await?);
        }
        Ok(queues)
    }

    /// A queue of minibatches, shared by all workers.
    pub(crate) async fn queue(&self, stream: &Stream) -> Result<Consumer<pull::Config>, ClusterError> {
        let config = pull::Config {
            durable_name: Some(WORKERS.into()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_secs(u64::from(self.spec.ack_wait)),
            // Without end: a minibatch that fails too often is set aside by a worker, with the reason.
            max_deliver: -1,
            max_ack_pending: 20_000,
            ..pull::Config::default()
        };
        match stream.get_consumer(WORKERS).await {
            Ok(consumer) => Ok(consumer),
            Err(_) => stream.create_consumer(config).await.doing("creating the queue of minibatches"),
        }
    }

    /// Removes the job with everything in it.
    pub async fn delete(self) -> Result<(), ClusterError> {
        crate::operate::delete_streams(&self.context, &self.name).await
    }
}

fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

async fn read_spec(context: &Context, name: &JobName) -> Result<Option<JobSpec>, ClusterError> {
    let bucket = match context.get_key_value(name.settings_bucket()).await {
        Err(error)
            if server_code(&error) == Some(NO_STREAM) || in_words(&error).contains("stream not found") =>
        {
            return Ok(None);
        }
        outcome => outcome.doing("looking for the job")?,
    };
    match bucket.get(SPEC_KEY).await.doing("reading the job's settings")? {
        Some(bytes) => JobSpec::from_json(&bytes).map(Some),
        None => Ok(None),
    }
}

/// Where a piece of what is attached to the settings stands.
fn attached_key(checksum: u32, part: u64) -> String {
    format!("attached.{checksum:08x}.{part}")
}

async fn settings_bucket(context: &Context, name: &JobName, replicas: usize) -> Result<Store, ClusterError> {
    bucket(context, name.settings_bucket(), replicas, StorageType::File, Duration::ZERO).await
}

/// A bucket of keys and values, made as the stream that it is: the client's own way asks an old server what it cannot answer.
async fn bucket(
    context: &Context,
    name: String,
    replicas: usize,
    storage: StorageType,
    max_age: Duration,
) -> Result<Store, ClusterError> {
    let doing = "creating the job";
    if let Ok(store) = context.get_key_value(&name).await {
        return Ok(store);
    }
    let config = stream::Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: replicas,
        storage,
        max_age,
        ..stream::Config::default()
    };
    context.create_stream(config).await.doing(doing)?;
    context.get_key_value(&name).await.doing(doing)
}

/// Creates the settings, or takes those of whoever came first when they are the same.
async fn agree(
    context: &Context,
    name: &JobName,
    wanted: &JobSpec,
    attached: &[u8],
) -> Result<JobSpec, ClusterError> {
    let bucket = settings_bucket(context, name, wanted.replicas as usize).await?;
    let checksum = (!attached.is_empty()).then(|| crc32fast::hash(attached));
    let wanted = &JobSpec { attached: checksum, ..wanted.clone() };
    if let Some(checksum) = checksum {
        // Before the settings: whoever finds those finds this.
        for (part, message) in split(attached, u64::from(checksum), ATTACHED_PIECE).into_iter().enumerate() {
            let put = bucket.put(attached_key(checksum, part as u64), message.into()).await;
            put.doing("storing what belongs to the job's settings")?;
        }
    }
    if bucket.create(SPEC_KEY, wanted.to_json().into()).await.is_ok() {
        return Ok(wanted.clone());
    }
    let bytes = bucket.get(SPEC_KEY).await.doing("reading the job's settings")?;
    let there = JobSpec::from_json(&bytes.ok_or_else(|| ClusterError::NoJob(name.to_string()))?)?;
    match there.difference(wanted) {
        None => Ok(there),
        Some((what, then, now)) => Err(ClusterError::Differs { job: name.to_string(), what, then, now }),
    }
}

/// The stream as it is when it can serve, or a new one.
async fn ensure(context: &Context, config: stream::Config) -> Result<Stream, ClusterError> {
    let Ok(stream) = context.get_stream(&config.name).await else {
        return context.create_stream(config).await.doing("creating the job's streams");
    };
    let found = &stream.cached_info().config;
    let differs = |what, found: String, needed: String| ClusterError::Stream {
        stream: config.name.clone(),
        what,
        found,
        needed,
    };
    if found.retention != config.retention {
        return Err(differs(
            "retention",
            format!("{:?}", found.retention),
            format!("{:?}", config.retention),
        ));
    }
    if found.discard != config.discard {
        return Err(differs(
            "discard policy",
            format!("{:?}", found.discard),
            format!("{:?}", config.discard),
        ));
    }
    if !config.subjects.iter().all(|subject| found.subjects.contains(subject)) {
        return Err(differs("subjects", found.subjects.join(", "), config.subjects.join(", ")));
    }
    if !found.max_age.is_zero() {
        return Err(differs("a maximal age of", format!("{:?}", found.max_age), "none".into()));
    }
    Ok(stream)
}

/// The last message of a stream.
pub(crate) async fn last_sequence(stream: &Stream) -> Result<u64, ClusterError> {
    let info =
        stream.get_info().await.map_err(|error| fault("asking for the end of the journal")(error.into()))?;
    Ok(info.state.last_sequence)
}
