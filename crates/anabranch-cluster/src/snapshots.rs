//! Snapshots in the object store, and the trimming of the journal behind them.
//!
//! An object is called after the last message that is in it. It counts once it has been read back and understood. Two are kept, and
//! the journal reaches back to the older one while there is room: a snapshot that turns out damaged then costs nothing but time. A
//! writer that dies on the way leaves no object at all.

use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::jetstream::object_store::{ObjectMetadata, ObjectStore};
use futures_util::StreamExt;
use tokio::io::AsyncReadExt;

use crate::error::{ClusterError, Doing, fault};
use crate::job::Job;
use crate::kind::Kind;
use crate::protocol::{Replica, Sequence};

/// How much room the journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Enough.
    Plenty,
    /// So little that it is cut behind the newest snapshot.
    Scarce,
}

/// Snapshots that are kept: should the newest be damaged, there is another.
const KEPT: usize = 2;
/// Pieces that objects are cut into, where the server takes messages of that size.
const PIECE: usize = 128 << 10;

fn object_name(position: Sequence) -> String {
    format!("s{position:020}")
}

/// A snapshot in the store.
struct Stored {
    position: Sequence,
    /// What the subject of its pieces ends with.
    pieces: String,
}

/// All snapshots, the newest first.
async fn stored(store: &ObjectStore) -> Result<Vec<Stored>, ClusterError> {
    let mut found = Vec::new();
    let mut objects = store.list().await.doing("listing snapshots")?;
    while let Some(object) = objects.next().await {
        let object = object.doing("listing snapshots")?;
        let position = object.name.strip_prefix('s').and_then(|number| number.parse().ok());
        found.extend(position.map(|position| Stored { position, pieces: object.nuid }));
    }
    found.sort_unstable_by_key(|snapshot| std::cmp::Reverse(snapshot.position));
    Ok(found)
}

/// The position of the newest snapshot; 0 when there is none.
pub(crate) async fn newest(job: &Job) -> Result<Sequence, ClusterError> {
    Ok(stored(&job.snapshots).await?.first().map_or(0, |snapshot| snapshot.position))
}

/// The newest replica that can be loaded, or an empty one.
pub(crate) async fn load<K: Kind>(job: &Job) -> Result<Replica<K>, ClusterError> {
    for Stored { position, .. } in stored(&job.snapshots).await? {
        match load_one(&job.snapshots, position, &AtomicU64::new(0)).await {
            Ok(replica) => return Ok(replica),
            Err(newer @ ClusterError::Newer(_)) => return Err(newer),
            // Damaged, or removed while we looked: the next one will do, and the journal reaches back to it.
            Err(_) => {}
        }
    }
    Ok(Replica::new())
}

/// One snapshot; its bytes are added to `read`.
pub(crate) async fn load_one<K: Kind>(
    store: &ObjectStore,
    position: Sequence,
    read: &AtomicU64,
) -> Result<Replica<K>, ClusterError> {
    let mut object = store.get(object_name(position)).await.doing("fetching a snapshot")?;
    let mut bytes = Vec::new();
    object.read_to_end(&mut bytes).await.doing("fetching a snapshot")?;
    read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let replica = tokio::task::spawn_blocking(move || Replica::from_snapshot(&bytes)).await;
    Ok(replica.doing("reading a snapshot")??)
}

/// Stores a replica, confirms it, trims the journal and removes what is no longer needed. Returns its position.
pub(crate) async fn store<K: Kind>(
    job: &Job,
    replica: Replica<K>,
    room: Room,
) -> Result<Sequence, ClusterError> {
    let position = replica.position();
    let bytes =
        tokio::task::spawn_blocking(move || replica.to_snapshot()).await.doing("making a snapshot")?;
    let Some(bytes) = bytes else { return Ok(0) };
    let name = object_name(position);
    let meta = ObjectMetadata {
        name: name.clone(),
        chunk_size: Some(PIECE.min(job.message_limit())),
        ..ObjectMetadata::default()
    };
    job.snapshots.put(meta, &mut bytes.as_slice()).await.doing("storing a snapshot")?;
    if let Err(error) = load_one::<K>(&job.snapshots, position, &AtomicU64::new(0)).await {
        let _ = job.snapshots.delete(&name).await;
        return Err(error);
    }
    trim(job, room).await?;
    Ok(position)
}

/// Keeps the two newest snapshots, and the journal behind the older of them or, where room is scarce, behind the newest.
pub(crate) async fn trim(job: &Job, room: Room) -> Result<(), ClusterError> {
    let stored = stored(&job.snapshots).await?;
    let kept = match room {
        Room::Plenty => stored.get(1),
        Room::Scarce => stored.first(),
    };
    if let Some(kept) = kept {
        // Removes everything below this message.
        let trimmed = job.journal.purge().sequence(kept.position + 1).await;
        trimmed.map_err(|error| fault("trimming the journal")(error.into()))?;
    }
    for Stored { position, .. } in stored.iter().skip(KEPT) {
        job.snapshots.delete(object_name(*position)).await.doing("removing an old snapshot")?;
    }
    sweep(job, &stored[..stored.len().min(KEPT)]).await
}

/// Removes what stands in the store's stream before the first piece of any kept snapshot: pieces whose writer died before he
/// could name them, and the notes that removed snapshots leave, of which there would be more and more.
async fn sweep(job: &Job, kept: &[Stored]) -> Result<(), ClusterError> {
    let doing = "sweeping the store of snapshots";
    let bucket = job.name.snapshots_bucket();
    let stream = job.context.get_stream(format!("OBJ_{bucket}")).await.doing(doing)?;
    let mut first_piece = None;
    for Stored { pieces, .. } in kept {
        let subject = format!("$O.{bucket}.C.{pieces}");
        let at = stream.get_first_raw_message_by_subject(subject, 1).await.doing(doing)?.sequence;
        first_piece = Some(first_piece.map_or(at, |first: u64| first.min(at)));
    }
    if let Some(first) = first_piece {
        let swept = stream.purge().sequence(first).await;
        swept.map_err(|error| fault(doing)(error.into()))?;
    }
    Ok(())
}
