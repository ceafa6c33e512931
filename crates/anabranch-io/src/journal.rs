//! Journal entries as bytes, for whoever sends them from one process to another.
//!
//! Evidence travels as it does in an increment ([`crate::wire`]): sealed, versioned, checksummed. A prior travels as JSON, as
//! in the model file. Numbers are as they were sent: whether they can be true is for the posterior to say.

use anabranch::central::{Absorb, BatchId, Entry, Part};
use anabranch::identify::ComponentId;
use anabranch::posterior::{Densities, Evidence, Tail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::sealed::{Seal, SealFault};

/// The version of entries that this program writes; it reads this one and older ones.
pub const ENTRY_VERSION: u8 = 5;

/// The first version that has sums of minibatches.
pub const SUMS_SINCE: u8 = 3;

/// The first version that has [`Entry::Ordinary`]. There was no version 4: jobs of the cluster had that number for another reason.
pub const ORDINARY_SINCE: u8 = 5;

const ENTRY: Seal = Seal { letters: *b"ANBJ", version: ENTRY_VERSION };
/// Kinds that older programs know are written in the version that brought them.
const SUMS: Seal = Seal { version: SUMS_SINCE, ..ENTRY };
const OLDER: Seal = Seal { version: SUMS_SINCE - 1, ..ENTRY };

/// Why bytes are not an entry.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryFault {
    /// The bytes are something else.
    #[error("not a journal entry of anabranch")]
    NotAnEntry,
    /// Written by a newer program.
    #[error("written in entry format {0}, this program reads up to {ENTRY_VERSION}")]
    Newer(u8),
    /// Not the bytes that were written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// An entry of the core that this format has no kind for.
    #[error("entries of this kind cannot be sent")]
    NotSendable,
}

/// The kinds, in the order of their numbers: a new one comes last and with a new version.
#[derive(Serialize)]
enum Sent<'a> {
    Absorb(&'a Absorb),
    Retire { id: ComponentId, into: ComponentId },
    Prior(String),
    SetAside,
    Replace { mass: f64, evidence: &'a [(ComponentId, Evidence)] },
    Pass,
    Split { id: ComponentId, parts: &'a [Part] },
    AbsorbTold(&'a Absorb, &'a Densities),
    Sum(&'a [BatchId], &'a Absorb, Option<&'a Densities>),
    Ordinary(&'a Tail),
}

/// The same kinds.
#[derive(Deserialize)]
enum Received {
    Absorb(Absorb),
    Retire { id: ComponentId, into: ComponentId },
    Prior(String),
    SetAside,
    Replace { mass: f64, evidence: Vec<(ComponentId, Evidence)> },
    Pass,
    Split { id: ComponentId, parts: Vec<Part> },
    AbsorbTold(Absorb, Densities),
    Sum(Vec<BatchId>, Absorb, Option<Densities>),
    Ordinary(Tail),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prior<F, P> {
    family: F,
    process: P,
}

/// The bytes of an entry.
///
/// ```
/// use anabranch::central::Entry;
/// use anabranch::family::Topic;
/// use anabranch::identify::ComponentId;
/// use anabranch::process::Hierarchical;
/// use anabranch_io::journal::{decode_entry, encode_entry};
/// let entry: Entry<Topic, Hierarchical> = Entry::Retire { id: ComponentId(7), into: ComponentId(3) };
/// let bytes = encode_entry(&entry)?;
/// let again = decode_entry::<Topic, Hierarchical>(&bytes)?;
/// assert!(matches!(again, Entry::Retire { id: ComponentId(7), into: ComponentId(3) }));
/// assert!(decode_entry::<Topic, Hierarchical>(&bytes[1..]).is_err());
/// # Ok::<(), anabranch_io::journal::EntryFault>(())
/// ```
pub fn encode_entry<F: Serialize, P: Serialize>(entry: &Entry<F, P>) -> Result<Vec<u8>, EntryFault> {
    if let Entry::Sum { also, absorb } = entry {
        let densities = absorb.familiarity.as_ref().map(|told| &told.densities);
        return Ok(SUMS.close(&Sent::Sum(also, absorb, densities)));
    }
    if let Entry::Ordinary(tail) = entry {
        return Ok(ENTRY.close(&Sent::Ordinary(tail)));
    }
    Ok(OLDER.close(&match entry {
        Entry::Absorb(absorb) => match &absorb.familiarity {
            Some(told) if !told.densities.is_empty() => Sent::AbsorbTold(absorb, &told.densities),
            _ => Sent::Absorb(absorb),
        },
        Entry::Retire { id, into } => Sent::Retire { id: *id, into: *into },
        Entry::Prior { family, process } => {
            let prior = Prior { family, process };
            Sent::Prior(serde_json::to_string(&prior).map_err(|_| EntryFault::NotSendable)?)
        }
        Entry::SetAside => Sent::SetAside,
        Entry::Replace { mass, evidence } => Sent::Replace { mass: *mass, evidence },
        Entry::Pass => Sent::Pass,
        Entry::Split { id, parts } => Sent::Split { id: *id, parts },
        _ => return Err(EntryFault::NotSendable),
    }))
}

/// An entry from bytes that may be anything.
pub fn decode_entry<F: DeserializeOwned, P: DeserializeOwned>(
    bytes: &[u8],
) -> Result<Entry<F, P>, EntryFault> {
    let received = ENTRY.open(bytes).map_err(|fault| match fault {
        SealFault::Foreign => EntryFault::NotAnEntry,
        SealFault::Newer(version) => EntryFault::Newer(version),
        SealFault::Damaged(reason) => EntryFault::Damaged(reason),
    })?;
    Ok(match received {
        Received::Absorb(absorb) => Entry::Absorb(absorb),
        Received::AbsorbTold(absorb, densities) => Entry::Absorb(told(absorb, Some(densities))),
        Received::Sum(also, absorb, densities) => Entry::Sum { also, absorb: told(absorb, densities) },
        Received::Retire { id, into } => Entry::Retire { id, into },
        Received::Prior(text) => {
            let Prior { family, process } =
                serde_json::from_str(&text).map_err(|error| EntryFault::Damaged(error.to_string()))?;
            Entry::Prior { family, process }
        }
        Received::SetAside => Entry::SetAside,
        Received::Replace { mass, evidence } => Entry::Replace { mass, evidence },
        Received::Pass => Entry::Pass,
        Received::Split { id, parts } => Entry::Split { id, parts },
        Received::Ordinary(tail) => Entry::Ordinary(tail),
    })
}

/// States of a journal on their way to those who follow it.
const STATE: Seal = Seal { letters: *b"ANBD", version: 1 };

/// The bytes of a state.
pub fn encode_state(state: &impl Serialize) -> Vec<u8> {
    STATE.close(state)
}

/// A state from bytes that may be anything.
pub fn decode_state<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    STATE.open(bytes).ok()
}

/// The densities travel beside what they belong to.
fn told(mut absorb: Absorb, densities: Option<Densities>) -> Absorb {
    if let (Some(told), Some(densities)) = (&mut absorb.familiarity, densities) {
        told.densities = densities;
    }
    absorb
}

#[cfg(test)]
mod tests {
    use anabranch::family::{AnyFamily, Bernoulli};
    use anabranch::identify::Target;
    use anabranch::posterior::Told;
    use anabranch::process::{AnyProcess, Bound, LabelStatistics, Parameter};
    use proptest::prelude::*;

    use super::*;

    type MixtureEntry = Entry<AnyFamily, AnyProcess>;

    fn encode_entry(entry: &MixtureEntry) -> Result<Vec<u8>, EntryFault> {
        super::encode_entry(entry)
    }

    fn decode_entry(bytes: &[u8]) -> Result<MixtureEntry, EntryFault> {
        super::decode_entry(bytes)
    }

    fn evidence(features: usize) -> impl Strategy<Value = Evidence> {
        let numbers = proptest::collection::vec(proptest::num::f64::NORMAL, features + 3);
        numbers.prop_map(|numbers| Evidence {
            stats: numbers[3..].to_vec(),
            labels: LabelStatistics {
                log_p_empty: numbers[0],
                expected_count: numbers[1],
                label_entropy: numbers[2],
            },
        })
    }

    fn absorb() -> impl Strategy<Value = Absorb> {
        (1..4_usize).prop_flat_map(|features| {
            let existing = proptest::collection::vec((0..9_u64, evidence(features)), 0..4);
            let target =
                prop_oneof![Just(Target::New), (0..9_u64).prop_map(|id| Target::Existing(ComponentId(id)))];
            let new = proptest::collection::vec((target, evidence(features)), 0..4);
            let densities = proptest::collection::vec((any::<i32>(), 0.0_f32..1e9), 0..4);
            let told = (-1e9..1e9, densities).prop_map(|(median, densities)| Told { median, densities });
            let familiarity = proptest::option::of(told);
            (any::<u64>(), any::<u64>(), 0.0..1e9, familiarity, existing, new).prop_map(
                |(batch, base, mass, familiarity, existing, new)| {
                    let existing =
                        existing.into_iter().map(|(id, evidence)| (ComponentId(id), evidence)).collect();
                    Absorb { batch: BatchId(batch), base, pass: 0, mass, familiarity, existing, new }
                },
            )
        })
    }

    fn prior() -> MixtureEntry {
        let family = Bernoulli::new(vec![0.5, 2.0], vec![1.0, 3.0]).unwrap().into();
        Entry::Prior { family, process: AnyProcess::new(2.5, None, Bound::Paper).unwrap() }
    }

    proptest! {
        #[test]
        fn an_absorb_survives_the_way(sent in absorb()) {
            let bytes = encode_entry(&Entry::Absorb(sent.clone())).unwrap();
            let Entry::Absorb(received) = decode_entry(&bytes).unwrap() else { panic!() };
            prop_assert_eq!(received, sent);
        }

        #[test]
        fn a_sum_survives_the_way(sent in absorb(), names in proptest::collection::vec(any::<u64>(), 0..4)) {
            let names: Vec<BatchId> = names.into_iter().map(BatchId).collect();
            let bytes = encode_entry(&Entry::Sum { also: names.clone(), absorb: sent.clone() }).unwrap();
            let Entry::Sum { also, absorb } = decode_entry(&bytes).unwrap() else { panic!() };
            prop_assert_eq!((also, absorb), (names, sent));
        }

        #[test]
        fn any_bytes_are_an_entry_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_entry(&bytes);
            // The same behind a head that is right, so that every kind is reached.
            for kind in 0..10_u8 {
                let content = [&[kind], bytes.as_slice()].concat();
                let checksum = crc32fast::hash(&content).to_le_bytes();
                let _ = decode_entry(&[b"ANBJ\x01".as_slice(), &checksum, &content].concat());
            }
        }

        #[test]
        fn one_changed_byte_is_noticed(sent in absorb(), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let mut bytes = encode_entry(&Entry::Absorb(sent.clone())).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            // Behind the letters is the version: an older or the newest one says the same of the same content.
            match decode_entry(&bytes) {
                Ok(Entry::Absorb(received)) => prop_assert_eq!((at, received), (4, sent)),
                received => prop_assert!(received.is_err()),
            }
        }
    }

    #[test]
    fn a_prior_survives_the_way() {
        let Entry::Prior { family, process } = prior() else { panic!() };
        let Entry::Prior { family: f, process: p } = decode_entry(&encode_entry(&prior()).unwrap()).unwrap()
        else {
            panic!()
        };
        assert_eq!((f, p.alpha()), (family, process.alpha()));
    }

    #[test]
    fn a_process_with_a_discount_survives_the_way() {
        let Entry::Prior { family, .. } = prior() else { panic!() };
        let sent =
            AnyProcess::new(Parameter::Learned { learned: 2.5 }, Some(0.25.into()), Bound::Paper).unwrap();
        let bytes = encode_entry(&Entry::Prior { family, process: sent }).unwrap();
        let Entry::Prior { process, .. } = decode_entry(&bytes).unwrap() else { panic!() };
        assert_eq!(process, sent);
    }

    proptest! {
        #[test]
        fn a_split_survives_the_way(
            number in any::<u64>(),
            sent in proptest::collection::vec(
                (proptest::num::f64::NORMAL, proptest::collection::vec(proptest::num::f64::NORMAL, 0..5)),
                0..4,
            ),
        ) {
            let sent: Vec<Part> = sent.into_iter().map(|(share, offset)| Part { share, offset }).collect();
            let bytes = encode_entry(&Entry::Split { id: ComponentId(number), parts: sent.clone() }).unwrap();
            let Entry::Split { id, parts } = decode_entry(&bytes).unwrap() else { panic!() };
            prop_assert_eq!((id, parts), (ComponentId(number), sent));
        }
    }

    #[test]
    fn minus_infinity_survives_the_way() {
        let labels =
            LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: 1.0, label_entropy: 0.0 };
        let existing = vec![(ComponentId(0), Evidence { stats: vec![1.0], labels })];
        let sent = Absorb {
            batch: BatchId(1),
            base: 2,
            pass: 3,
            mass: 1.0,
            familiarity: None,
            existing,
            new: vec![],
        };
        let Entry::Absorb(received) =
            decode_entry(&encode_entry(&Entry::Absorb(sent.clone())).unwrap()).unwrap()
        else {
            panic!()
        };
        assert_eq!(received, sent);
    }

    #[test]
    fn a_newer_entry_is_refused_with_its_version() {
        let mut bytes = encode_entry(&prior()).unwrap();
        bytes[4] = 6;
        assert_eq!(decode_entry(&bytes).unwrap_err(), EntryFault::Newer(6));
        assert_eq!(EntryFault::Newer(6).to_string(), "written in entry format 6, this program reads up to 5");
    }

    #[test]
    fn entries_that_the_version_before_knows_are_written_in_it() {
        assert_eq!(encode_entry(&prior()).unwrap()[4], 2);
        let absorb = Absorb {
            batch: BatchId(1),
            base: 0,
            pass: 0,
            mass: 0.0,
            familiarity: None,
            existing: vec![],
            new: vec![],
        };
        assert_eq!(encode_entry(&Entry::Sum { also: vec![], absorb }).unwrap()[4], SUMS_SINCE);
    }

    #[test]
    fn what_is_set_aside_and_replaced_survives_the_way() {
        let through = |entry: MixtureEntry| decode_entry(&encode_entry(&entry).unwrap()).unwrap();
        assert!(matches!(through(Entry::SetAside), Entry::SetAside));
        assert!(matches!(through(Entry::Pass), Entry::Pass));
        let told: Tail =
            serde_json::from_str(r#"{"doubling": 3, "older": [], "newer": [[-4, 2.5], [7, 1]]}"#).unwrap();
        let Entry::Ordinary(tail) = through(Entry::Ordinary(told.clone())) else { panic!() };
        assert_eq!(tail, told);
        let sent = vec![(ComponentId(3), Evidence { stats: vec![0.1, -2.0], labels: Default::default() })];
        let Entry::Replace { mass, evidence } = through(Entry::Replace { mass: 7.5, evidence: sent.clone() })
        else {
            panic!()
        };
        assert_eq!((mass, evidence), (7.5, sent));
    }

    /// A list of 2⁶³ components in 20 bytes: refused before any memory is asked for.
    #[test]
    fn counts_beyond_the_bytes_are_refused() {
        let content =
            [&[4_u8][..], &[0; 8], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &[0; 3]].concat();
        let checksum = crc32fast::hash(&content).to_le_bytes();
        let bytes = [b"ANBJ\x01".as_slice(), &checksum, &content].concat();
        assert!(matches!(decode_entry(&bytes), Err(EntryFault::Damaged(_))));
    }
}
