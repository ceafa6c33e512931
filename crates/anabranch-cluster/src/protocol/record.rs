//! What stands in the journal: the beginning, entries of the core, minibatches that were set aside, and ends of the stream.

use anabranch::central::{BatchId, Memory};
use anabranch_io::journal::{EntryFault, MixtureEntry, decode_entry, encode_entry};
use anabranch_io::model::{Model, ModelFault};
use thiserror::Error;

/// One record of the journal.
#[derive(Clone, Debug)]
pub enum Record {
    /// The model after the bootstrap, with the rows that it remembers. The first one counts; it holds the names of the
    /// minibatches that went into it.
    Begin(Box<(Model, Memory)>),
    /// An entry of the core.
    Entry(MixtureEntry),
    /// An entry that was judged by one who saw all components there are: it counts while the next new one gets this number.
    /// So a split counts once, however often it is sent, and what follows from it names the same components everywhere.
    Judged {
        /// Number of the next new component.
        next_id: u64,
        /// The entry.
        entry: MixtureEntry,
    },
    /// A minibatch that no worker could learn from: from now on it is void.
    Aside {
        /// The minibatch.
        batch: BatchId,
        /// Why.
        reason: String,
    },
    /// The model was finished: everything that was submitted is in or set aside, and it was looked after once more.
    Finished {
        /// Minibatches that were settled then.
        settled: u64,
    },
}

/// Why bytes are not a record.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum RecordFault {
    /// A newer program wrote it.
    #[error("{0}")]
    Newer(String),
    /// Not a record.
    #[error("{0}")]
    Damaged(String),
}

const BEGIN: u8 = b'B';
const ENTRY: u8 = b'E';
const JUDGED: u8 = b'J';
const ASIDE: u8 = b'A';
const FINISHED: u8 = b'F';
/// Why our own entries can be written.
const HAS_A_KIND: &str = "the entries we make have a kind on the wire";
/// Reasons are for people: longer ones are cut.
const REASON_BYTES: usize = 2000;

impl Record {
    /// The bytes of the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (tag, body) = match self {
            Self::Begin(begun) => (BEGIN, begun.0.to_checkpoint_bytes(&begun.1)),
            Self::Entry(entry) => (ENTRY, encode_entry(entry).expect(HAS_A_KIND)),
            Self::Judged { next_id, entry } => {
                let entry = encode_entry(entry).expect(HAS_A_KIND);
                (JUDGED, [next_id.to_le_bytes().as_slice(), &entry].concat())
            }
            Self::Aside { batch, reason } => {
                let end = (0..=reason.len().min(REASON_BYTES)).rev().find(|at| reason.is_char_boundary(*at));
                let reason = &reason.as_bytes()[..end.unwrap_or(0)];
                (ASIDE, [&batch.0.to_le_bytes(), reason].concat())
            }
            Self::Finished { settled } => (FINISHED, settled.to_le_bytes().to_vec()),
        };
        let mut bytes = Vec::with_capacity(1 + body.len());
        bytes.push(tag);
        bytes.extend_from_slice(&body);
        bytes
    }

    /// A record from bytes that may be anything.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordFault> {
        let (tag, body) =
            bytes.split_first().ok_or_else(|| RecordFault::Damaged("an empty record".into()))?;
        match *tag {
            BEGIN => {
                let begun = Model::from_checkpoint_bytes(body).map_err(from_model)?;
                Ok(Self::Begin(Box::new(begun)))
            }
            ENTRY => decode_entry(body).map(Self::Entry).map_err(from_entry),
            JUDGED => {
                let (next_id, entry) = number(body)?;
                decode_entry(entry).map(|entry| Self::Judged { next_id, entry }).map_err(from_entry)
            }
            ASIDE => {
                let (batch, reason) = number(body)?;
                let reason = String::from_utf8_lossy(reason).into_owned();
                Ok(Self::Aside { batch: BatchId(batch), reason })
            }
            FINISHED => Ok(Self::Finished { settled: number(body)?.0 }),
            // All programs of one version write the same kinds.
            other => Err(RecordFault::Newer(format!("a record of the unknown kind {other}"))),
        }
    }
}

/// The number in front, and the rest.
fn number(body: &[u8]) -> Result<(u64, &[u8]), RecordFault> {
    let (number, rest) = body
        .split_first_chunk::<8>()
        .ok_or_else(|| RecordFault::Damaged("a record that is cut short".into()))?;
    Ok((u64::from_le_bytes(*number), rest))
}

fn from_model(fault: ModelFault) -> RecordFault {
    match fault {
        ModelFault::Newer(_) => RecordFault::Newer(fault.to_string()),
        other => RecordFault::Damaged(other.to_string()),
    }
}

fn from_entry(fault: EntryFault) -> RecordFault {
    match fault {
        EntryFault::Newer(_) => RecordFault::Newer(fault.to_string()),
        other => RecordFault::Damaged(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use anabranch::central::Entry;
    use anabranch::identify::ComponentId;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for tag in [BEGIN, ENTRY, JUDGED, ASIDE, FINISHED, b'?'] {
                let _ = Record::from_bytes(&[&[tag], bytes.as_slice()].concat());
            }
        }
    }

    #[test]
    fn an_entry_of_a_newer_version_is_named() {
        let entry = Record::Entry(Entry::Retire { id: ComponentId(1), into: ComponentId(2) });
        let mut bytes = entry.to_bytes();
        bytes[5] = 9;
        let fault = Record::from_bytes(&bytes).unwrap_err();
        assert_eq!(fault, RecordFault::Newer("written in entry format 9, this program reads up to 3".into()));
    }

    #[test]
    fn a_judged_entry_survives_the_way() {
        let entry = Entry::Retire { id: ComponentId(1), into: ComponentId(2) };
        let bytes = Record::Judged { next_id: 7, entry }.to_bytes();
        let Ok(Record::Judged { next_id, entry }) = Record::from_bytes(&bytes) else { panic!() };
        assert!(matches!(entry, Entry::Retire { id: ComponentId(1), into: ComponentId(2) }));
        assert_eq!(next_id, 7);
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let record = Record::Aside { batch: BatchId(3), reason: "ä".repeat(REASON_BYTES) };
        let Ok(Record::Aside { batch, reason }) = Record::from_bytes(&record.to_bytes()) else { panic!() };
        assert_eq!((batch, reason.len()), (BatchId(3), REASON_BYTES));
    }
}
