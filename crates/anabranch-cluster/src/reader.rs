//! Following the journal: the newest snapshot, then every message behind it, for as long as the process lives.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch::posterior::Posterior;
use arc_swap::ArcSwapOption;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{ClusterError, Doing};
use crate::job::{Job, last_sequence};
use crate::kind::Kind;
use crate::metrics::{Metrics, add};
use crate::patience::patiently;
use crate::protocol::{Applied, Replica, ReplicaFault, Sequence, State, Told};
use crate::snapshots;
use crate::states::Hearsay;

/// A posterior as workers read it.
pub(crate) type Snapshot<K> = Posterior<<K as Kind>::Family, <K as Kind>::Process>;

/// How long the journal may be silent before we ask whether the server still knows us.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long a journal may look older than what was read of it.
const CATCH_UP: Duration = Duration::from_secs(20);
const MESSAGES_AT_ONCE: usize = 200;
/// How often one who is told looks whether he still is.
const GLANCE: Duration = Duration::from_millis(50);

/// The replica of this process, shared by all its threads.
pub(crate) struct Central<K: Kind> {
    replica: Mutex<Replica<K>>,
    posterior: ArcSwapOption<Snapshot<K>>,
    position: watch::Sender<Sequence>,
    /// The last message that was read from the journal itself, and the checksum of its bytes.
    last_read: Mutex<(Sequence, u32)>,
    pub(crate) hearsay: Hearsay,
    /// Microseconds from one append to the next, as the holder of the lease would have it.
    pub(crate) told_pace: AtomicU64,
}

impl<K: Kind> Central<K> {
    pub(crate) fn new(replica: Replica<K>) -> Arc<Self> {
        let posterior = ArcSwapOption::new(replica.posterior().cloned().map(Arc::new));
        let position = watch::Sender::new(replica.position());
        Arc::new(Self {
            replica: Mutex::new(replica),
            posterior,
            position,
            last_read: Mutex::default(),
            hearsay: Hearsay::default(),
            told_pace: AtomicU64::new(0),
        })
    }

    /// The newest posterior, without waiting; `None` until the journal has begun.
    pub(crate) fn posterior(&self) -> Option<Arc<Snapshot<K>>> {
        self.posterior.load_full()
    }

    /// A copy of the replica. Components are shared, so this is cheap.
    pub(crate) fn replica(&self) -> Replica<K> {
        self.replica.lock().expect("no holder of this lock panics").clone()
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&Replica<K>) -> T) -> T {
        look(&self.replica.lock().expect("no holder of this lock panics"))
    }

    /// Tells when messages are read.
    pub(crate) fn positions(&self) -> watch::Receiver<Sequence> {
        self.position.subscribe()
    }

    /// Waits until a message has been read.
    pub(crate) async fn reaches(&self, position: Sequence) {
        let mut positions = self.positions();
        // The sender lives as long as we do.
        let _ = positions.wait_for(|at| *at >= position).await;
    }

    fn read(
        &self,
        at: Sequence,
        lane: crate::protocol::Append,
        message: &[u8],
    ) -> Result<Applied, ReplicaFault> {
        let mut replica = self.replica.lock().expect("no holder of this lock panics");
        let applied = replica.read(at, lane, message)?;
        if !matches!(applied, Applied::Part | Applied::Void(_) | Applied::Aside(_)) {
            self.posterior.store(replica.posterior().cloned().map(Arc::new));
        }
        let position = replica.position();
        drop(replica);
        *self.last_read.lock().expect("no holder of this lock panics") = (at, crc32fast::hash(message));
        self.position.send_replace(position);
        Ok(applied)
    }

    /// Goes where a state leads. It is put together beside the lock, and counts unless the replica has moved meanwhile.
    pub(crate) fn take(&self, state: &State) -> Told {
        let mut there = self.replica();
        let from = there.position();
        let told = there.take(state);
        if told != Told::Taken {
            return told;
        }
        let mut replica = self.replica.lock().expect("no holder of this lock panics");
        if replica.position() != from {
            return if replica.position() >= state.to() { Told::Old } else { Told::Missed };
        }
        *replica = there;
        self.posterior.store(replica.posterior().cloned().map(Arc::new));
        self.position.send_replace(replica.position());
        Told::Taken
    }

    pub(crate) fn replace(&self, newer: Replica<K>) {
        let mut replica = self.replica.lock().expect("no holder of this lock panics");
        if newer.position() > replica.position() {
            *replica = newer;
            self.posterior.store(replica.posterior().cloned().map(Arc::new));
            self.position.send_replace(replica.position());
        }
    }
}

/// Reads the journal until something happens that cannot be repaired by reading again.
///
/// `told` says whether others tell this replica enough; then nothing is read.
pub(crate) async fn follow<K: Kind>(
    job: &Job,
    central: &Central<K>,
    metrics: &Metrics,
    told: impl Fn() -> bool,
) -> ClusterError {
    let mut pause = Duration::from_millis(50);
    let mut replaced_since = None;
    loop {
        if told() {
            tokio::time::sleep(GLANCE).await;
            continue;
        }
        let before = central.with(Replica::position);
        match follow_once(job, central, metrics, &told).await {
            // A server that has just restarted may show an old state until it has caught up.
            Err(error @ ClusterError::Replaced { .. }) => {
                if replaced_since.get_or_insert_with(Instant::now).elapsed() > CATCH_UP {
                    return error;
                }
            }
            Err(error) if !error.passes() => return error,
            Err(_) | Ok(()) => replaced_since = None,
        }
        let advanced = central.with(Replica::position) > before;
        pause = if advanced { Duration::from_millis(50) } else { (pause * 2).min(Duration::from_secs(2)) };
        tokio::time::sleep(pause).await;
    }
}

/// Whether the journal is still the one that was read: it reaches at least as far, and the last message read stands in it.
async fn check_same<K: Kind>(job: &Job, central: &Central<K>, end: Sequence) -> Result<(), ClusterError> {
    let (position, read) = *central.last_read.lock().expect("no holder of this lock panics");
    let replaced = |now: String| Err(ClusterError::Replaced { position, now });
    let reached = central.with(Replica::position);
    if end < reached {
        return Err(ClusterError::Replaced { position: reached, now: format!("ends at {end}") });
    }
    if position == 0 {
        return Ok(());
    }
    match job.journal.get_raw_message(position).await {
        Ok(message) if crc32fast::hash(&message.payload) != read => replaced("has another one there".into()),
        // Trimmed meanwhile, or no answer: then there is nothing to compare with.
        _ => Ok(()),
    }
}

async fn follow_once<K: Kind>(
    job: &Job,
    central: &Central<K>,
    metrics: &Metrics,
    told: &impl Fn() -> bool,
) -> Result<(), ClusterError> {
    let doing = "reading the journal";
    let state = job.journal.get_info().await.doing(doing)?.state;
    let position = central.with(Replica::position);
    if state.first_sequence > position + 1 {
        let newer = snapshots::load(job).await?;
        if newer.position() + 1 < state.first_sequence {
            return Err(ClusterError::Damaged(format!(
                "the journal begins at message {}, and the newest snapshot ends at {}",
                state.first_sequence,
                newer.position()
            )));
        }
        central.replace(newer);
    }
    let position = central.with(Replica::position);
    check_same(job, central, state.last_sequence).await?;
    let config = pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: position + 1 },
        ack_policy: AckPolicy::None,
        inactive_threshold: Duration::from_secs(60),
        memory_storage: true,
        num_replicas: 1,
        ..pull::Config::default()
    };
    let consumer = job.journal.create_consumer(config).await.doing(doing)?;
    let mut messages = consumer
        .stream()
        .max_messages_per_batch(MESSAGES_AT_ONCE)
        .expires(HEARTBEAT * 10)
        .heartbeat(HEARTBEAT)
        .messages()
        .await
        .doing(doing)?;
    while let Some(message) = messages.next().await {
        let message = message.doing(doing)?;
        let Ok(info) = message.info() else { continue };
        add(&metrics.read_bytes, message.payload.len() as u64);
        let (at, lane) = (info.stream_sequence, job.name.lane(&message.subject));
        let started = Instant::now();
        match central.read(at, lane, &message.payload) {
            Ok(applied) => metrics.folded(&applied, started.elapsed()),
            // Trimmed behind our back, or lost on the way: from the top.
            Err(ReplicaFault::Gap { .. }) => return Ok(()),
            Err(fault) => return Err(fault.into()),
        }
        if told() {
            return Ok(());
        }
    }
    Ok(())
}

/// A replica that goes on reading.
pub struct Follower<K: Kind> {
    central: Arc<Central<K>>,
    reading: JoinHandle<ClusterError>,
}

impl<K: Kind> std::fmt::Debug for Follower<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}

impl<K: Kind> Follower<K> {
    /// From the newest snapshot.
    pub async fn start(job: Job) -> Result<Self, ClusterError> {
        let central = Central::new(patiently(|| snapshots::load(&job)).await?);
        let ours = Arc::clone(&central);
        let reading = tokio::spawn(async move { follow(&job, &ours, &Metrics::default(), || false).await });
        Ok(Self { central, reading })
    }

    /// The replica after a while. Fails where reading again does not help.
    pub async fn after(&mut self, time: Duration) -> Result<Replica<K>, ClusterError> {
        match tokio::time::timeout(time, &mut self.reading).await {
            Err(_) => Ok(self.central.replica()),
            Ok(ended) => Err(ended.doing("reading the journal").unwrap_or_else(|error| error)),
        }
    }
}

impl<K: Kind> Drop for Follower<K> {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// The replica at the end of the journal as it is now.
pub async fn fetch_replica<K: Kind>(job: &Job) -> Result<Replica<K>, ClusterError> {
    let central = Central::new(patiently(|| snapshots::load(job)).await?);
    let end = patiently(|| last_sequence(&job.journal)).await?;
    let metrics = Metrics::default();
    tokio::select! {
        error = follow(job, &central, &metrics, || false) => return Err(error),
        () = central.reaches(end) => {}
    }
    Ok(central.replica())
}
