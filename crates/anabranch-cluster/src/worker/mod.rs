//! A worker: takes minibatches from the queue, learns, and appends what it learned. Any number of them, on any machine.
//!
//! ```text
//! queue ──▶ minibatch ──▶ threads infer ──▶ sum ──▶ author ──▶ journal        mod.rs, minibatch.rs, sums.rs
//! journal ──▶ replica ──▶ posterior                                           ../reader.rs
//! lease ──▶ bootstrap, snapshots, upkeep                                      bootstrap.rs, duties.rs, upkeep.rs
//! ```

mod bootstrap;
mod duties;
mod handed;
mod health;
mod keep;
mod minibatch;
mod pace;
mod sums;
mod threads;
mod upkeep;

#[cfg(test)]
pub(crate) use health::Pulse;
pub(crate) use health::Seen;
pub(crate) use minibatch::{MINIBATCH_HEADER, REASON_HEADER, SUBJECT_HEADER};
pub use upkeep::finish;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch::central::BatchId;
use anabranch::engine::Config;
use arc_swap::ArcSwap;
use async_nats::jetstream::consumer::{Consumer, pull};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::task::JoinSet;

use self::health::Shown;
use self::keep::Hands;
use self::sums::{MOST_HELD, Sums};
use self::threads::Threads;
use crate::error::{ClusterError, Doing};
use crate::job::Job;
use crate::kind::{Kind, MemoryOf, WorkspaceOf};
use crate::metrics::{Metrics, Spent, get};
use crate::operate::is_paused;
use crate::patience::patiently;
use crate::protocol::Replica;
use crate::reader::{Central, follow};
use crate::snapshots;
use crate::states;
use crate::web::{self, Door};

/// How long one request for minibatches waits.
const POLL: Duration = Duration::from_millis(500);
/// Minibatches that are fetched ahead besides one for each thread: small ones are learned from faster than others come.
const AHEAD: usize = 2;
/// How often the wish to stop is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// What is under way when a worker is asked to stop may take this long; the rest is handed back.
const GRACE: Duration = Duration::from_secs(20);

/// Makes the first model: the part of the bootstrap that knows families and priors.
pub trait Founder<K: Kind>: Send + Sync + 'static {
    /// The number of rows in a message, or why it cannot be read.
    fn check(&self, message: &[u8]) -> Result<usize, String>;

    /// The model of the first minibatches, with the rows that it remembers. Their names are in it afterwards.
    fn found(&self, founding: Founding) -> Result<(K::Model, MemoryOf<K>), String>;
}

/// The first minibatches of a job.
#[derive(Debug)]
pub struct Founding {
    /// Each with its name.
    pub messages: Vec<(BatchId, Bytes)>,
    /// True when no more are to come.
    pub everything: bool,
}

/// Says that there is nothing more to do.
pub type Until<K> = Box<dyn Fn(&Replica<K>) -> bool + Send + Sync>;

/// How a worker runs.
pub struct WorkerConfig<K: Kind> {
    /// Threads that infer.
    pub threads: usize,
    /// Makes the first model.
    pub founder: Arc<dyn Founder<K>>,
    /// Address of `/health` and `/metrics`.
    pub listen: Option<SocketAddr>,
    /// What visitors of the endpoint must show.
    pub token: Option<String>,
    /// Address of `/health/live` and `/health/ready` alone, for which nobody has to show anything.
    pub health: Option<SocketAddr>,
    /// Rows that wait and do not move for this long are a fault.
    pub stalled_after: Duration,
    /// True when the worker shall end.
    pub stopped: Arc<dyn Fn() -> bool + Send + Sync>,
    /// True when there is nothing more to do.
    pub until: Until<K>,
    /// Where messages for people go.
    pub say: Box<dyn Fn(&str) + Send + Sync>,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Report {
    /// Minibatches finished.
    pub minibatches: u64,
    /// Their rows.
    pub rows: u64,
    /// Appends that another worker's components came before.
    pub conflicts: u64,
    /// Assignment problems solved.
    pub matchings: u64,
    /// Appends to the journal.
    pub appends: u64,
    /// Bytes of those appends.
    pub append_bytes: u64,
    /// Bytes of the journal and of states that were read.
    pub read_bytes: u64,
    /// States that were told.
    pub states: u64,
    /// Bytes of those states.
    pub state_bytes: u64,
    /// Minibatches that somebody had before.
    pub redelivered: u64,
    /// Minibatches that had to be learned from again, because somebody else had settled another one of their sum.
    pub overtaken: u64,
    /// Minibatches set aside.
    pub set_aside: u64,
    /// Seconds of inference, all threads.
    pub infer_seconds: f64,
    /// Seconds that increments were under way.
    pub append_seconds: f64,
    /// Seconds of writing entries.
    pub write_seconds: f64,
    /// Seconds of folding entries.
    pub fold_seconds: f64,
    /// Seconds without a minibatch.
    pub wait_seconds: f64,
}

/// What all tasks of a worker share.
struct Crew<K: Kind> {
    job: Job,
    me: String,
    central: Arc<Central<K>>,
    metrics: Arc<Metrics>,
    config: WorkerConfig<K>,
    learning: Config<K::Inference>,
    /// Each is another one when somebody has deleted it.
    queues: Vec<ArcSwap<Consumer<pull::Config>>>,
    pulse: health::Pulse,
    threads: Threads,
    workspaces: Mutex<Vec<WorkspaceOf<K>>>,
    /// A sample of the rows that this worker has learned from.
    sample: Mutex<MemoryOf<K>>,
    hands: Arc<Hands>,
    sums: Arc<Sums>,
    holds_lease: AtomicBool,
    paused: AtomicBool,
    started: Instant,
}

/// Works until asked to stop.
pub async fn work<K: Kind>(job: Job, config: WorkerConfig<K>) -> Result<Report, ClusterError> {
    let listener = match config.listen {
        Some(address) => Some(web::listen(address, config.token.as_deref()).await?),
        None => None,
    };
    let health = match config.health {
        Some(address) => Some(web::bind(address, "--health-listen").await?),
        None => None,
    };
    let central = Central::new(patiently(|| snapshots::load(&job)).await?);
    let paused = patiently(|| is_paused(&job)).await?;
    let crew = Arc::new(Crew {
        me: format!("{:016x}", crate::append::record_name()),
        queues: patiently(|| job.queues()).await?.into_iter().map(ArcSwap::from_pointee).collect(),
        pulse: health::Pulse::default(),
        central,
        metrics: Arc::default(),
        learning: K::config(&job.spec),
        threads: Threads::start(config.threads).doing("starting the threads that infer")?,
        workspaces: Mutex::default(),
        sample: Mutex::default(),
        hands: Arc::default(),
        sums: Arc::default(),
        holds_lease: AtomicBool::new(false),
        paused: AtomicBool::new(paused),
        started: Instant::now(),
        job,
        config,
    });
    let mut endpoint = JoinSet::new();
    if let Some(listener) = listener {
        let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        (crew.config.say)(&format!("health and metrics at http://{address}"));
        let door = Door::All(crew.config.token.clone());
        endpoint.spawn(web::serve(listener, door, Arc::new(Shown(Arc::clone(&crew)))));
    }
    if let Some(listener) = health {
        let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        (crew.config.say)(&format!("health alone at http://{address}"));
        endpoint.spawn(web::serve(listener, Door::Health, Arc::new(Shown(Arc::clone(&crew)))));
    }
    endpoint.spawn(health::watch(Arc::clone(&crew)));
    // Who may not listen reads the journal.
    if let Ok(states) = crew.job.client.subscribe(crew.job.name.state_subject()).await {
        let (job, central, metrics) =
            (crew.job.clone(), Arc::clone(&crew.central), Arc::clone(&crew.metrics));
        let tells = Arc::clone(&crew);
        let tells = move || tells.holds_lease.load(Ordering::Relaxed);
        endpoint.spawn(states::listen(states, job, central, metrics, tells));
    }
    endpoint.spawn(duties::tell(Arc::clone(&crew)));
    let told = || crew.central.hearsay.is_fresh() && !crew.holds_lease.load(Ordering::Relaxed);
    let duties = tokio::spawn(duties::tend(Arc::clone(&crew)));
    let result = tokio::select! {
        error = follow(&crew.job, &crew.central, &crew.metrics, told) => Err(error),
        done = crew.run() => done,
    };
    crew.let_all_go(matches!(result, Err(ClusterError::Founding(_)))).await;
    duties.abort();
    // The lease is released by its owner's last act, also when the worker ends with an error.
    duties::release(&crew, duties).await;
    endpoint.shutdown().await;
    // What was given back must be on its way before the process ends.
    let _ = tokio::time::timeout(POLL, crew.job.client.flush()).await;
    result.map(|()| crew.report())
}

impl<K: Kind> Crew<K> {
    fn stopped(&self) -> bool {
        (self.config.stopped)()
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    fn ends(&self) -> bool {
        self.stopped() || self.central.with(|replica| (self.config.until)(replica))
    }

    async fn run(self: &Arc<Self>) -> Result<(), ClusterError> {
        while self.central.posterior().is_none() {
            if self.ends() {
                return Ok(());
            }
            if self.holds_lease.load(Ordering::Relaxed) && !self.is_paused() {
                self.bootstrap().await?;
            }
            tokio::time::sleep(GLANCE).await;
        }
        let mut appending = JoinSet::new();
        appending.spawn(Arc::clone(self).append_sums());
        join_all(self.queues.iter().map(|queue| self.take_from(queue))).await;
        Ok(())
    }

    /// Takes minibatches from a queue until the worker ends. All queues fill the same hands, so that those that have nothing leave the
    /// room to the others.
    async fn take_from(self: &Arc<Self>, queue: &ArcSwap<Consumer<pull::Config>>) {
        let mut tasks = JoinSet::new();
        // One for each thread, and those that come next.
        let most = 2 * self.config.threads.max(1) + AHEAD;
        let queues = self.queues.len();
        while !self.ends() {
            while tasks.try_join_next().is_some() {}
            if self.is_paused() {
                tokio::time::sleep(GLANCE).await;
                continue;
            }
            let learning = self.sums.learning();
            if learning >= most {
                let _ = tokio::time::timeout(POLL, self.sums.freed()).await;
                continue;
            }
            if tasks.len() >= MOST_HELD.div_ceil(queues) {
                let _ = tokio::time::timeout(POLL, tasks.join_next()).await;
                continue;
            }
            let idle = learning == 0;
            let asked = Instant::now();
            let mut first = true;
            let queue = queue.load_full();
            let wanted = (most - learning).div_ceil(queues);
            let request = queue.batch().max_messages(wanted).expires(POLL).messages().await;
            let Ok(mut messages) = request else {
                // The server restarts, or the way to it is cut: the client reconnects by itself.
                tokio::time::sleep(POLL).await;
                continue;
            };
            while let Some(message) = messages.next().await {
                let Ok(message) = message else {
                    // The queue may be gone, and then the next request is answered as quickly.
                    tokio::time::sleep(GLANCE).await;
                    break;
                };
                if idle && std::mem::take(&mut first) {
                    self.metrics.spent(Spent::Waiting, asked.elapsed());
                }
                tasks.spawn(Arc::clone(self).minibatch(message, self.sums.begin()));
            }
        }
        let deadline = Instant::now() + GRACE;
        while !tasks.is_empty() && Instant::now() < deadline {
            let _ = tokio::time::timeout(POLL, tasks.join_next()).await;
        }
        tasks.shutdown().await;
    }

    fn report(&self) -> Report {
        let metrics = &self.metrics;
        Report {
            minibatches: get(&metrics.minibatches),
            rows: get(&metrics.rows),
            conflicts: get(&metrics.conflicts),
            matchings: get(&metrics.matchings),
            appends: get(&metrics.appends),
            append_bytes: get(&metrics.journal_bytes),
            read_bytes: get(&metrics.read_bytes),
            states: get(&metrics.states),
            state_bytes: get(&metrics.state_bytes),
            redelivered: get(&metrics.redelivered),
            overtaken: get(&metrics.overtaken),
            set_aside: get(&metrics.set_aside),
            infer_seconds: metrics.seconds(Spent::Inferring),
            append_seconds: metrics.seconds(Spent::Appending),
            write_seconds: metrics.seconds(Spent::Writing),
            fold_seconds: metrics.seconds(Spent::Folding),
            wait_seconds: metrics.seconds(Spent::Waiting),
        }
    }
}
