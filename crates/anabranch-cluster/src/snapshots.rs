//! Snapshots in the object store, and the trimming of the journal behind them.
//!
//! An object is called after the last message that is in it. It counts once it has been read back and understood. Two are kept, and
//! the journal reaches back to the older one while there is room: a snapshot that turns out damaged then costs nothing but time. A
//! writer that dies on the way leaves no object at all.

use async_nats::jetstream::object_store::{ObjectMetadata, ObjectStore};
use futures_util::StreamExt;
use tokio::io::AsyncReadExt;

use crate::error::{ClusterError, Doing, fault};
use crate::job::Job;
use crate::protocol::{Replica, Sequence};

/// How much room the journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Enough.
    Plenty,
    /// So little that it is cut behind the newest snapshot.
    Scarce,
}

/// Pieces that objects are cut into, where the server takes messages of that size.
const PIECE: usize = 128 << 10;

fn object_name(position: Sequence) -> String {
    format!("s{position:020}")
}

/// The positions of all snapshots, the newest first.
async fn positions(store: &ObjectStore) -> Result<Vec<Sequence>, ClusterError> {
    let mut found = Vec::new();
    let mut objects = store.list().await.doing("listing snapshots")?;
    while let Some(object) = objects.next().await {
        let object = object.doing("listing snapshots")?;
        found.extend(object.name.strip_prefix('s').and_then(|number| number.parse::<Sequence>().ok()));
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// The position of the newest snapshot; 0 when there is none.
pub(crate) async fn newest(job: &Job) -> Result<Sequence, ClusterError> {
    Ok(positions(&job.snapshots).await?.first().copied().unwrap_or(0))
}

/// The newest replica that can be loaded, or an empty one.
pub(crate) async fn load(job: &Job) -> Result<Replica, ClusterError> {
    for position in positions(&job.snapshots).await? {
        match load_one(&job.snapshots, position).await {
            Ok(replica) => return Ok(replica),
            Err(newer @ ClusterError::Newer(_)) => return Err(newer),
            // Damaged, or removed while we looked: the next one will do, and the journal reaches back to it.
            Err(_) => {}
        }
    }
    Ok(Replica::new())
}

async fn load_one(store: &ObjectStore, position: Sequence) -> Result<Replica, ClusterError> {
    let mut object = store.get(object_name(position)).await.doing("fetching a snapshot")?;
    let mut bytes = Vec::new();
    object.read_to_end(&mut bytes).await.doing("fetching a snapshot")?;
    let replica = tokio::task::spawn_blocking(move || Replica::from_snapshot(&bytes)).await;
    Ok(replica.doing("reading a snapshot")??)
}

/// Stores a replica, confirms it, trims the journal and removes what is no longer needed. Returns its position.
pub(crate) async fn store(job: &Job, replica: Replica, room: Room) -> Result<Sequence, ClusterError> {
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
    if let Err(error) = load_one(&job.snapshots, position).await {
        let _ = job.snapshots.delete(&name).await;
        return Err(error);
    }
    trim(job, room).await?;
    Ok(position)
}

/// Keeps the two newest snapshots, and the journal behind the older of them or, where room is scarce, behind the newest.
pub(crate) async fn trim(job: &Job, room: Room) -> Result<(), ClusterError> {
    let positions = positions(&job.snapshots).await?;
    let kept = match room {
        Room::Plenty => positions.get(1),
        Room::Scarce => positions.first(),
    };
    if let Some(kept) = kept {
        // Removes everything below this message.
        let trimmed = job.journal.purge().sequence(kept + 1).await;
        trimmed.map_err(|error| fault("trimming the journal")(error.into()))?;
    }
    for position in positions.iter().skip(2) {
        job.snapshots.delete(object_name(*position)).await.doing("removing an old snapshot")?;
    }
    Ok(())
}
