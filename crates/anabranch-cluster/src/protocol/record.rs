//! What stands in the journal: the beginning, entries of the core, minibatches that were set aside, and ends of the stream.

use anabranch::central::BatchId;
use anabranch_io::journal::{EntryFault, decode_entry, encode_entry};
use anabranch_io::model::ModelFault;
use thiserror::Error;

use super::pack::{PACKED, pack, unpack};
use crate::kind::{Count, EntryOf, Kind, MemoryOf};

/// One record of the journal.
#[derive(Clone, Debug)]
pub enum Record<K: Kind> {
    /// The model after the bootstrap, with the rows that it remembers. The first one counts; it holds the names of the
    /// minibatches that went into it.
    Begin(Box<(K::Model, MemoryOf<K>)>),
    /// An entry of the core.
    Entry(EntryOf<K>),
    /// The same, of data whose number the mass does not tell.
    Counted {
        /// How many data its minibatches held.
        count: Count,
        /// The entry.
        entry: EntryOf<K>,
    },
    /// An entry that was judged by one who saw all components there are: it counts while the next new one gets this number.
    /// So a split counts once, however often it is sent, and what follows from it names the same components everywhere.
    Judged {
        /// Number of the next new component.
        next_id: u64,
        /// The entry.
        entry: EntryOf<K>,
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
const COUNTED: u8 = b'C';
const JUDGED: u8 = b'J';
const ASIDE: u8 = b'A';
const FINISHED: u8 = b'F';
/// Why our own entries can be written.
const HAS_A_KIND: &str = "the entries we make have a kind on the wire";
/// Reasons are for people: longer ones are cut.
const REASON_BYTES: usize = 2000;

impl<K: Kind> Record<K> {
    /// The bytes of the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (tag, body) = match self {
            Self::Begin(begun) => (BEGIN, K::to_bytes(&begun.0, &begun.1)),
            Self::Entry(entry) => (ENTRY, encode_entry(entry).expect(HAS_A_KIND)),
            Self::Counted { count, entry } => {
                let entry = encode_entry(entry).expect(HAS_A_KIND);
                let Count { rows, left_out } = count;
                (COUNTED, [&rows.to_le_bytes()[..], &left_out.to_le_bytes(), &entry].concat())
            }
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
        if K::IS_SPARSE { pack(bytes) } else { bytes }
    }

    /// A record from bytes that may be anything.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordFault> {
        let (tag, body) =
            bytes.split_first().ok_or_else(|| RecordFault::Damaged("an empty record".into()))?;
        match *tag {
            PACKED if K::IS_SPARSE => {
                let bytes = unpack(body).ok_or_else(|| RecordFault::Damaged("a packed record".into()))?;
                Self::from_bytes(&bytes)
            }
            BEGIN => {
                let begun = K::from_bytes(body).map_err(from_model)?;
                Ok(Self::Begin(Box::new(begun)))
            }
            ENTRY => decode_entry(body).map(Self::Entry).map_err(from_entry),
            COUNTED => {
                let (rows, rest) = number(body)?;
                let (left_out, entry) = number(rest)?;
                let count = Count { rows, left_out: f64::from_bits(left_out) };
                decode_entry(entry).map(|entry| Self::Counted { count, entry }).map_err(from_entry)
            }
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
    use anabranch::posterior::Evidence;
    use anabranch::process::LabelStatistics;
    use proptest::prelude::*;

    use super::*;
    use crate::kind::{Mixture, Topics};

    type Record = super::Record<Mixture>;

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for tag in [BEGIN, ENTRY, COUNTED, PACKED, JUDGED, ASIDE, FINISHED, b'?'] {
                let bytes = [&[tag], bytes.as_slice()].concat();
                let _ = Record::from_bytes(&bytes);
                let _ = super::Record::<Topics>::from_bytes(&bytes);
            }
        }
    }

    #[test]
    fn an_entry_of_a_newer_version_is_named() {
        let entry = Record::Entry(Entry::Retire { id: ComponentId(1), into: ComponentId(2) });
        let mut bytes = entry.to_bytes();
        bytes[5] = 9;
        let fault = Record::from_bytes(&bytes).unwrap_err();
        assert_eq!(fault, RecordFault::Newer("written in entry format 9, this program reads up to 5".into()));
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
    fn a_counted_entry_survives_the_way() {
        let labels = LabelStatistics { log_p_empty: -1.0, expected_count: 2.0, label_entropy: 0.5 };
        let evidence = vec![(ComponentId(3), Evidence { stats: vec![4.0, 1.0, 3.0], labels })];
        let entry = Entry::Replace { mass: 4.0, evidence: evidence.clone() };
        let sent = Count { rows: 7, left_out: 2.5 };
        let bytes = super::Record::<Topics>::Counted { count: sent, entry }.to_bytes();
        let Ok(super::Record::<Topics>::Counted { count, entry: Entry::Replace { evidence: came, .. } }) =
            super::Record::from_bytes(&bytes)
        else {
            panic!()
        };
        assert_eq!((count, came), (sent, evidence));
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let record = Record::Aside { batch: BatchId(3), reason: "ä".repeat(REASON_BYTES) };
        let Ok(Record::Aside { batch, reason }) = Record::from_bytes(&record.to_bytes()) else { panic!() };
        assert_eq!((batch, reason.len()), (BatchId(3), REASON_BYTES));
    }
}
