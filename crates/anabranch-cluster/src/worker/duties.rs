//! What a worker does besides minibatches: shows that it lives, tends the lease and, while it holds it, stores snapshots and
//! looks after the model.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::upkeep::Upkeep;
use super::{Crew, GLANCE};
use crate::kind::Kind;
use crate::lease::Lease;
use crate::metrics::add;
use crate::protocol::{Replica, Sequence};
use crate::snapshots::{self, Room};
use crate::states::Teller;
use crate::status::WorkerStatus;

const BEAT: Duration = Duration::from_secs(1);
const BEATS_PER_SIGN: u64 = 5;

/// Runs for as long as the worker does.
pub(super) async fn tend<K: Kind>(crew: Arc<Crew<K>>) {
    let mut lease = Lease::new(crew.job.settings.clone(), &crew.me);
    let mut last = (0, Instant::now());
    let mut upkeep = Upkeep::default();
    for beat in 0_u64.. {
        let held = lease.tend().await;
        crew.holds_lease.store(held, Ordering::Relaxed);
        crew.metrics.lease.store(u64::from(held), Ordering::Relaxed);
        if beat.is_multiple_of(BEATS_PER_SIGN) {
            sign(&crew).await;
        }
        if held && crew.central.posterior().is_some() {
            snapshot_if_due(&crew, &mut last).await;
            upkeep.if_due(&crew).await;
        } else {
            upkeep.resign();
        }
        tokio::time::sleep(BEAT).await;
    }
}

/// Tells the others the folded state while this worker holds the lease.
pub(super) async fn tell<K: Kind>(crew: Arc<Crew<K>>) {
    let mut teller = Teller::default();
    let mut positions = crew.central.positions();
    loop {
        if crew.holds_lease.load(Ordering::Relaxed) {
            let pace = crew.pace();
            teller.tell_if_due(&crew.job, &crew.central, pace, &crew.metrics).await;
        } else {
            teller.resign();
        }
        let _ = tokio::time::timeout(GLANCE, positions.changed()).await;
        // Not at every entry of many.
        tokio::time::sleep(GLANCE / 5).await;
    }
}

/// The last act of a worker: the lease and its entry in the list go at once.
pub(super) async fn release<K: Kind>(crew: &Crew<K>, tending: JoinHandle<()>) {
    let _ = tending.await;
    if crew.holds_lease.swap(false, Ordering::Relaxed) {
        Lease::release_of(&crew.job.settings, &crew.me).await;
    }
    let _ = crew.job.workers.delete(key(crew)).await;
}

/// Where the worker stands in the list. The word in front is what a server's permissions can name.
fn key<K: Kind>(crew: &Crew<K>) -> String {
    format!("worker.{}", crew.me)
}

/// Puts the worker on the list; the list forgets it when it is silent.
async fn sign<K: Kind>(crew: &Crew<K>) {
    let report = crew.report();
    let status = WorkerStatus {
        id: crew.me.clone(),
        host: std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
        process: std::process::id(),
        threads: crew.config.threads as u32,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seconds: crew.started.elapsed().as_secs_f64(),
        journal_position: crew.central.with(Replica::position),
        lease: crew.holds_lease.load(Ordering::Relaxed),
        minibatches: report.minibatches,
        rows: report.rows,
        conflicts: report.conflicts,
        infer_seconds: report.infer_seconds,
        append_seconds: report.append_seconds,
    };
    let json = serde_json::to_vec(&status).expect("text and numbers");
    let _ = crew.job.workers.put(key(crew), json.into()).await;
}

async fn snapshot_if_due<K: Kind>(crew: &Arc<Crew<K>>, last: &mut (Sequence, Instant)) {
    if last.0 == 0 {
        // A new holder goes by what the one before stored.
        let Ok(newest) = snapshots::newest(&crew.job).await else { return };
        *last = (newest, Instant::now());
    }
    let (stored, since) = *last;
    let messages = crew.central.with(Replica::position).saturating_sub(stored);
    let spec = &crew.job.spec;
    let room = room(crew).await;
    let by_time = messages > 0 && since.elapsed().as_secs() >= spec.snapshot_seconds;
    let by_room = messages > 0 && room == Room::Scarce;
    let done = if messages >= spec.snapshot_entries || by_time || by_room {
        let stored = snapshots::store(&crew.job, crew.replica_with_sample(), room).await;
        stored.inspect(|_| add(&crew.metrics.snapshots, 1))
    } else if room == Room::Scarce {
        // Everything is in a snapshot, and the journal is still long: a full one takes no entry that would change that.
        snapshots::trim(&crew.job, room).await.map(|()| stored)
    } else {
        return;
    };
    match done {
        Ok(position) => *last = (position.max(1), Instant::now()),
        Err(error) => {
            (crew.config.say)(&format!("warning: no snapshot: {error}"));
            *last = (stored, Instant::now());
        }
    }
}

/// A journal that is half full is cut shorter than it would be.
async fn room<K: Kind>(crew: &Crew<K>) -> Room {
    match crew.job.journal.get_info().await {
        Ok(info) if info.state.bytes > crew.job.spec.journal_bytes / 2 => Room::Scarce,
        _ => Room::Plenty,
    }
}
