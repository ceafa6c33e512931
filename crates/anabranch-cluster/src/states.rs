//! States on the wire: the holder of the lease publishes them, the others take them instead of the journal's entries.
//!
//! They go to whoever listens and are kept nowhere. A state that is lost, late or wrong costs a look into the journal. One too large
//! to be sent to everybody at once is stored as a snapshot, and its place is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch::central::in_flight;
use async_nats::Subscriber;
use futures_util::StreamExt;

use crate::job::Job;
use crate::kind::Kind;
use crate::metrics::{Metrics, Spent, add};
use crate::protocol::{Parts, Replica, Sequence, State, Told, split};
use crate::reader::Central;
use crate::snapshots::{self, Room};

/// Not more often than this,
const SOONEST: Duration = Duration::from_millis(50);
/// nor more rarely, while there is something to tell, unless telling costs too much.
const LATEST: Duration = Duration::from_millis(250);
/// Telling takes at most one part in so many of the teller's time.
const REST: u32 = 10;
/// Of so many states one is whole, for those who have missed one.
const WHOLE: u64 = 16;
/// Larger states are stored: a server cuts off who has more than a few times this waiting for him.
const LARGEST: usize = 16 << 20;
/// First byte of a message that tells where a state is stored.
const STORED: u8 = b'S';

/// Who tells, as long as he holds the lease.
#[derive(Default)]
pub(crate) struct Teller<K: Kind> {
    published: Option<Replica<K>>,
    count: u64,
    last: Option<(Instant, Duration)>,
}

impl<K: Kind> Teller<K> {
    /// Somebody else holds the lease.
    pub(crate) fn resign(&mut self) {
        *self = Self::default();
    }

    /// Whether it is time to tell of this replica.
    fn is_due(&self, replica: &Replica<K>) -> bool {
        let Some(((last, cost), before)) = self.last.zip(self.published.as_ref()) else { return true };
        let since = last.elapsed();
        if replica.position() == before.position() || since < SOONEST.max(REST * cost) {
            return false;
        }
        let mass = |replica: &Replica<K>| replica.posterior().map_or(0.0, |posterior| posterior.mass());
        let now = mass(replica);
        since >= LATEST || now - mass(before) >= 0.5 * in_flight(now)
    }

    /// Tells what has changed since the last time, if it is time.
    pub(crate) async fn tell_if_due(
        &mut self,
        job: &Job,
        central: &Central<K>,
        pace: u64,
        metrics: &Metrics,
    ) {
        let replica = central.replica();
        if replica.posterior().is_none() || !self.is_due(&replica) {
            return;
        }
        let started = Instant::now();
        let earlier = self.published.take().filter(|_| !self.count.is_multiple_of(WHOLE));
        self.count += 1;
        let now = replica.clone();
        let made = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let bytes = now.state_since(earlier.as_ref(), pace).map(|state| state.to_bytes::<K>());
            (bytes, started.elapsed())
        });
        let Ok((Some(bytes), mut cost)) = made.await else { return };
        metrics.spent(Spent::Writing, cost);
        add(&metrics.states, 1);
        add(&metrics.state_bytes, bytes.len() as u64);
        let subject = job.name.state_subject();
        let bytes = if bytes.len() > LARGEST {
            match snapshots::store(job, replica.clone(), Room::Plenty).await {
                Ok(position) => {
                    // It goes through a disk and to everybody: four times as rarely.
                    cost = 4 * started.elapsed();
                    [&[STORED][..], &position.to_le_bytes()].concat()
                }
                Err(_) => return,
            }
        } else {
            bytes
        };
        for message in split(&bytes, crate::append::record_name(), job.message_limit()) {
            let _ = job.client.publish(subject.clone(), message.into()).await;
        }
        (self.published, self.last) = (Some(replica), Some((Instant::now(), cost)));
    }
}

/// When a worker was told last.
#[derive(Debug, Default)]
pub(crate) struct Hearsay {
    last: Mutex<Option<Instant>>,
    /// The message of the journal that was told last.
    to: AtomicU64,
}

impl Hearsay {
    /// Whether states come: then the journal need not be read.
    pub(crate) fn is_fresh(&self) -> bool {
        let last = *self.last.lock().expect("no holder panics");
        last.is_some_and(|last| last.elapsed() < 6 * LATEST)
    }

    /// States that lead further than those before are as good as the journal.
    fn note(&self, to: Sequence) {
        if self.to.fetch_max(to, Ordering::Relaxed) < to {
            *self.last.lock().expect("no holder panics") = Some(Instant::now());
        }
    }

    /// One was missed, or is wrong.
    fn forget(&self) {
        *self.last.lock().expect("no holder panics") = None;
    }
}

/// Takes states for as long as the worker runs.
///
/// Who `tells` himself hears what he said.
pub(crate) async fn listen<K: Kind>(
    mut states: Subscriber,
    job: Job,
    central: Arc<Central<K>>,
    metrics: Arc<Metrics>,
    tells: impl Fn() -> bool,
) {
    let mut parts = Parts::default();
    let mut count = 0;
    while let Some(message) = states.next().await {
        count += 1;
        if tells() {
            continue;
        }
        let Ok(Some(bytes)) = parts.add(count, &message.payload) else { continue };
        let started = Instant::now();
        let (told, to) = match bytes.split_first() {
            Some((&STORED, position)) => match position.try_into().map(u64::from_le_bytes) {
                Ok(position) => (take_stored(&job, &central, &metrics, position).await, position),
                Err(_) => (Told::Unfit, 0),
            },
            _ => take(&central, &metrics, bytes).await,
        };
        match told {
            Told::Taken => {
                metrics.spent(Spent::Folding, started.elapsed());
                central.hearsay.note(to);
            }
            // Who reads the journal himself is ahead, and can leave it.
            Told::Old => central.hearsay.note(to),
            Told::Missed | Told::Unfit => central.hearsay.forget(),
        }
    }
}

async fn take<K: Kind>(central: &Arc<Central<K>>, metrics: &Metrics, bytes: Vec<u8>) -> (Told, Sequence) {
    let central = Arc::clone(central);
    let size = bytes.len() as u64;
    let taken = tokio::task::spawn_blocking(move || match State::from_bytes::<K>(&bytes) {
        Some(state) => {
            let told = central.take(&state);
            if told == Told::Taken {
                central.told_pace.store(state.pace, Ordering::Relaxed);
            }
            (told, state.to())
        }
        None => (Told::Unfit, 0),
    });
    add(&metrics.read_bytes, size);
    taken.await.unwrap_or((Told::Unfit, 0))
}

async fn take_stored<K: Kind>(job: &Job, central: &Central<K>, metrics: &Metrics, position: u64) -> Told {
    if central.with(Replica::position) >= position {
        return Told::Old;
    }
    match snapshots::load_one(&job.snapshots, position, &metrics.read_bytes).await {
        Ok(newer) => {
            central.replace(newer);
            Told::Taken
        }
        Err(_) => Told::Missed,
    }
}
