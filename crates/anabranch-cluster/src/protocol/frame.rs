//! Records cut into messages that a server takes, and put together again.
//!
//! ```text
//! "ANBP"  version u16  0 u16  part u32  parts u32  crc32 of the piece u32  name of the record u64  piece
//! ```
//!
//! A record stands in the journal where its last part stands. Parts of an author who died are forgotten after
//! [`Parts::PATIENCE`] messages, counted in the journal and not on a clock, so that all replicas forget alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::Sequence;

const MAGIC: &[u8; 4] = b"ANBP";
const VERSION: u16 = 1;
/// Bytes in front of a piece.
pub(super) const HEAD: usize = 28;
/// More parts than any record of ours has.
const MAX_PARTS: u32 = 1 << 16;

/// Why a message of the journal is not a part of a record.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameFault {
    /// Somebody else wrote to our subject.
    #[error("not a message of anabranch")]
    Foreign,
    /// Written by a newer program.
    #[error("written in frame format {0}, this program reads up to {VERSION}")]
    Newer(u16),
    /// Not the bytes that were sent.
    #[error("a damaged message")]
    Damaged,
}

/// Cuts a record into messages of at most `limit` bytes. `name` tells it from every other record.
///
/// ```
/// use anabranch_cluster::protocol::{Parts, split};
/// let record = vec![7; 1000];
/// let mut parts = Parts::default();
/// let messages = split(&record, 42, 400);
/// assert_eq!(messages.len(), 3);
/// let whole: Vec<_> = (1..).zip(&messages).filter_map(|(at, m)| parts.add(at, m).unwrap()).collect();
/// assert_eq!(whole, [record]);
/// ```
pub fn split(record: &[u8], name: u64, limit: usize) -> Vec<Vec<u8>> {
    let piece = limit.saturating_sub(HEAD).max(1);
    let total = record.len().div_ceil(piece).max(1);
    let mut pieces = record.chunks(piece);
    (0..total)
        .map(|part| {
            let piece = pieces.next().unwrap_or(&[]);
            let mut message = Vec::with_capacity(HEAD + piece.len());
            message.extend_from_slice(MAGIC);
            message.extend_from_slice(&VERSION.to_le_bytes());
            message.extend_from_slice(&[0; 2]);
            message.extend_from_slice(&(part as u32).to_le_bytes());
            message.extend_from_slice(&(total as u32).to_le_bytes());
            message.extend_from_slice(&crc32fast::hash(piece).to_le_bytes());
            message.extend_from_slice(&name.to_le_bytes());
            message.extend_from_slice(piece);
            message
        })
        .collect()
}

struct Frame<'a> {
    part: u32,
    parts: u32,
    name: u64,
    piece: &'a [u8],
}

fn read(message: &[u8]) -> Result<Frame<'_>, FrameFault> {
    let head = message.get(..HEAD).filter(|head| head.starts_with(MAGIC)).ok_or(FrameFault::Foreign)?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let version = u16::from_le_bytes([head[4], head[5]]);
    if version > VERSION {
        return Err(FrameFault::Newer(version));
    }
    let (part, parts, piece) = (word(8), word(12), &message[HEAD..]);
    if part >= parts || parts > MAX_PARTS || crc32fast::hash(piece) != word(16) {
        return Err(FrameFault::Damaged);
    }
    let name = u64::from_le_bytes(head[20..28].try_into().expect("eight bytes"));
    Ok(Frame { part, parts, name, piece })
}

/// Records whose last part has not come yet.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    open: BTreeMap<u64, Open>,
}

#[derive(Clone, Debug)]
struct Open {
    first: Sequence,
    parts: u32,
    /// Shared by all copies of a replica: they may be megabytes.
    pieces: BTreeMap<u32, Arc<[u8]>>,
}

impl Parts {
    /// Messages after which a record without its last part is given up.
    pub const PATIENCE: u64 = 4096;

    /// Takes the message at `at`; returns the record when this was the last part of a whole one.
    ///
    /// A last part whose others are missing is dropped: its author sees that the record is not in, and sends it again.
    pub fn add(&mut self, at: Sequence, message: &[u8]) -> Result<Option<Vec<u8>>, FrameFault> {
        self.open.retain(|_, open| open.first + Self::PATIENCE >= at);
        let Frame { part, parts, name, piece } = read(message)?;
        if parts == 1 {
            return Ok(Some(piece.to_vec()));
        }
        let open = self.open.entry(name).or_insert(Open { first: at, parts, pieces: BTreeMap::new() });
        if open.parts != parts {
            return Err(FrameFault::Damaged);
        }
        open.pieces.insert(part, piece.into());
        if part + 1 < parts {
            return Ok(None);
        }
        let open = self.open.remove(&name).expect("it was inserted above");
        let whole = open.pieces.len() == parts as usize;
        Ok(whole.then(|| open.pieces.into_values().collect::<Vec<_>>().concat()))
    }

    /// The open records as bytes, for a snapshot.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put =
            |numbers: &[u64]| numbers.iter().for_each(|n| bytes.extend_from_slice(&n.to_le_bytes()));
        put(&[self.open.len() as u64]);
        for (name, open) in &self.open {
            put(&[*name, open.first, u64::from(open.parts), open.pieces.len() as u64]);
            for (part, piece) in &open.pieces {
                put(&[u64::from(*part), piece.len() as u64]);
            }
        }
        for piece in self.open.values().flat_map(|open| open.pieces.values()) {
            bytes.extend_from_slice(piece);
        }
        bytes
    }

    /// The open records of a snapshot; `None` when the bytes are not those of [`Parts::to_bytes`].
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut number = || {
            let (front, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(u64::from_le_bytes(*front))
        };
        let mut table = Vec::new();
        for _ in 0..number()? {
            let (name, first, parts, pieces) = (number()?, number()?, number()?, number()?);
            let mut lengths = Vec::new();
            for _ in 0..pieces {
                lengths.push((u32::try_from(number()?).ok()?, usize::try_from(number()?).ok()?));
            }
            table.push((name, first, u32::try_from(parts).ok()?, lengths));
        }
        let mut open = BTreeMap::new();
        for (name, first, parts, lengths) in table {
            let mut pieces = BTreeMap::new();
            for (part, length) in lengths {
                let (piece, behind) = rest.split_at_checked(length)?;
                rest = behind;
                pieces.insert(part, piece.into());
            }
            open.insert(name, Open { first, parts, pieces });
        }
        rest.is_empty().then_some(Self { open })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_survive_interleaving_and_repeats(
            lengths in proptest::collection::vec(0..2000_usize, 1..5), order in any::<u64>(), limit in 30..500_usize
        ) {
            let records: Vec<Vec<u8>> = lengths.iter().map(|n| (0..*n).map(|i| (i * n) as u8).collect()).collect();
            let mut queues: Vec<_> = records.iter().zip(1..).map(|(r, name)| split(r, name, limit)).collect();
            queues.iter_mut().for_each(|queue| queue.reverse());
            let (mut parts, mut whole, mut at, mut state) = (Parts::default(), Vec::new(), 0, order);
            while queues.iter().any(|queue| !queue.is_empty()) {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let pick = (state >> 33) as usize % queues.len();
                let Some(message) = queues[pick].last().cloned() else { continue };
                // A part other than the last may come twice.
                if state & 7 != 0 || queues[pick].len() == 1 {
                    queues[pick].pop();
                }
                at += 1;
                prop_assert!(message.len() <= limit.max(HEAD + 1));
                whole.extend(parts.add(at, &message).unwrap());
            }
            let (mut whole, mut records) = (whole, records);
            whole.sort();
            records.sort();
            prop_assert_eq!(whole, records);
            prop_assert!(parts.open.is_empty());
        }

        #[test]
        fn any_bytes_are_a_part_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Parts::default().add(1, &bytes);
            let _ = Parts::default().add(1, &[MAGIC.as_slice(), &bytes].concat());
            let _ = Parts::from_bytes(&bytes);
        }
    }

    #[test]
    fn open_records_survive_a_snapshot() {
        let (one, two) = (split(&[1; 100], 1, HEAD + 40), split(&[2; 100], 2, HEAD + 60));
        let mut parts = Parts::default();
        parts.add(1, &one[0]).unwrap();
        parts.add(2, &two[0]).unwrap();
        parts.add(3, &one[1]).unwrap();
        let bytes = parts.to_bytes();
        let mut again = Parts::from_bytes(&bytes).unwrap();
        assert_eq!(again.add(4, &one[2]), Ok(Some(vec![1; 100])));
        assert_eq!(again.add(5, &two[1]), Ok(Some(vec![2; 100])));
        assert!(Parts::from_bytes(&bytes[..bytes.len() - 1]).is_none());
    }

    #[test]
    fn a_record_without_its_first_part_is_dropped() {
        let messages = split(&[1; 100], 9, HEAD + 40);
        let mut parts = Parts::default();
        assert_eq!(parts.add(1, &messages[1]), Ok(None));
        assert_eq!(parts.add(2, &messages[2]), Ok(None));
        assert!(parts.open.is_empty());
    }

    #[test]
    fn parts_of_a_dead_author_are_forgotten() {
        let messages = split(&[1; 100], 9, HEAD + 60);
        let mut parts = Parts::default();
        parts.add(1, &messages[0]).unwrap();
        let late = 2 + Parts::PATIENCE;
        assert_eq!(parts.add(late, &messages[1]), Ok(None));
        assert!(parts.open.is_empty());
    }

    #[test]
    fn newer_and_damaged_messages_are_told_apart() {
        let mut message = split(&[1; 10], 9, 100).remove(0);
        *message.last_mut().unwrap() ^= 1;
        assert_eq!(Parts::default().add(1, &message), Err(FrameFault::Damaged));
        message[4] = 2;
        assert_eq!(Parts::default().add(1, &message), Err(FrameFault::Newer(2)));
    }
}
