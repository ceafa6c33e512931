//! A replica as bytes, so that a new worker need not read the journal from its beginning.
//!
//! ```text
//! "ANBS"  version u16  0 u16  length of the head u32  head (JSON)  checkpoint  parts of open records  crc32 u32 of all before
//! ```

use std::sync::Arc;

use anabranch::central::BatchSet;
use anabranch_io::model::ModelFault;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::frame::Parts;
use super::pack::{PACKED, pack, unpack};
use super::{Replica, Sequence, Tally};
use crate::kind::Kind;

/// The version of snapshots that this program writes; it reads this one and older ones.
pub const SNAPSHOT_VERSION: u16 = 1;

const MAGIC: &[u8; 4] = b"ANBS";
const FRONT: usize = 12;
const CHECKSUM: usize = 4;

/// Why bytes are not a snapshot.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum SnapshotFault {
    /// Written by a newer program.
    #[error("the snapshot is written in format {0}, this program reads up to {SNAPSHOT_VERSION}")]
    Newer(u16),
    /// The model in it was.
    #[error("the model of the snapshot: {0}")]
    Model(#[from] ModelFault),
    /// Not the bytes that were written.
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    position: Sequence,
    model_bytes: u64,
    last_birth_message: Sequence,
    aside: Vec<(u64, u64)>,
    tally: Tally,
    finished: Option<u64>,
}

impl<K: Kind> Replica<K> {
    /// The replica as bytes; `None` before the journal has begun.
    pub fn to_snapshot(&self) -> Option<Vec<u8>> {
        let model = K::to_bytes(&self.model()?, &self.memory);
        let model = if K::IS_SPARSE { pack(model) } else { model };
        let head = Head {
            position: self.position,
            model_bytes: model.len() as u64,
            last_birth_message: self.last_birth_message,
            aside: self.aside.runs().to_vec(),
            tally: self.tally,
            finished: self.finished,
        };
        let head = serde_json::to_vec(&head).expect("a head holds only numbers");
        let mut bytes = Vec::with_capacity(FRONT + head.len() + model.len() + CHECKSUM);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&SNAPSHOT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&model);
        bytes.extend_from_slice(&self.parts.to_bytes());
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Some(bytes)
    }

    /// A replica that goes on where the snapshot was made: it reads the message after its position next.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotFault> {
        let front = bytes.get(..FRONT).filter(|front| front.starts_with(MAGIC));
        let front = front.ok_or(SnapshotFault::Damaged("it does not begin like one"))?;
        let version = u16::from_le_bytes([front[4], front[5]]);
        if version > SNAPSHOT_VERSION {
            return Err(SnapshotFault::Newer(version));
        }
        let length = u32::from_le_bytes(front[8..12].try_into().expect("four bytes")) as usize;
        let short = SnapshotFault::Damaged("it is cut short");
        let content = bytes.len().checked_sub(CHECKSUM).filter(|end| *end >= FRONT).ok_or(short.clone())?;
        let (content, checksum) = bytes.split_at(content);
        if crc32fast::hash(content).to_le_bytes() != checksum {
            return Err(SnapshotFault::Damaged("the checksum does not match"));
        }
        let (head, rest) = content[FRONT..].split_at_checked(length).ok_or(short.clone())?;
        let head: Head =
            serde_json::from_slice(head).map_err(|_| SnapshotFault::Damaged("its head is not readable"))?;
        let model_bytes = usize::try_from(head.model_bytes).unwrap_or(usize::MAX);
        let (model, parts) = rest.split_at_checked(model_bytes).ok_or(short)?;
        let unpacked = match model.split_first().filter(|_| K::IS_SPARSE) {
            // A model that is not packed begins with the length of its header, a multiple of eight.
            Some((&PACKED, packed)) => {
                Some(unpack(packed).ok_or(SnapshotFault::Damaged("its model is not readable"))?)
            }
            _ => None,
        };
        let (model, memory) = K::from_bytes(unpacked.as_deref().unwrap_or(model))?;
        let (fold, about, count) = K::parts(model);
        Ok(Self {
            fold: Some(fold),
            about: Some(Arc::new(about)),
            count,
            position: head.position,
            last_birth_message: head.last_birth_message,
            aside: BatchSet::from_runs(head.aside).ok_or(SnapshotFault::Damaged("its runs overlap"))?,
            tally: head.tally,
            finished: head.finished,
            memory: Arc::new(memory),
            parts: Parts::from_bytes(parts)
                .ok_or(SnapshotFault::Damaged("its open records are not readable"))?,
        })
    }
}
