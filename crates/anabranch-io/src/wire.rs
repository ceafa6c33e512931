//! What one minibatch taught, as bytes on the way to the centre: from another thread, process or machine.
//!
//! Bytes that pass are whole and written by this program; whether they fit a posterior is for
//! [`Central::absorb`](anabranch::central::Central::absorb) to say.

use anabranch::central::BatchId;
use anabranch::family::AnyFamily;
use anabranch::infer::Increment;
use anabranch::posterior::Densities;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::sealed::{Seal, SealFault};

/// The version of the encoding.
const VERSION: u8 = 2;

const DELIVERY: Seal = Seal {
    letters: *"abΔ".as_bytes().first_chunk().expect("two letters of one byte and one of two"),
    version: VERSION,
};

/// An increment with the name of its minibatch, so that it counts once however often it arrives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The minibatch.
    pub batch: BatchId,
    /// [`coordinates`] of the family that the increment was learned with.
    pub coordinates: u32,
    /// Rows of the minibatch.
    pub rows: u64,
    /// What it taught.
    pub increment: Increment,
}

/// Why bytes are not a delivery.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum WireError {
    /// Something else altogether.
    #[error("not an increment: it does not begin like one")]
    NotAnIncrement,
    /// Written by a newer program.
    #[error("the increment is in encoding {0}, this program reads {VERSION}")]
    Newer(u8),
    /// Cut or changed on the way.
    #[error("the increment is damaged: {0}")]
    Damaged(String),
}

impl Delivery {
    /// The delivery as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let densities = self.increment.familiarity.as_ref().map(|told| &told.densities);
        DELIVERY.close(&(self, densities))
    }

    /// A delivery from bytes that may be cut, damaged or something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        // The first version told no densities.
        let opened: Result<(Self, Option<Densities>), SealFault> = match bytes.get(4) {
            Some(1) => DELIVERY.open(bytes).map(|delivery| (delivery, None)),
            _ => DELIVERY.open(bytes),
        };
        let (mut delivery, densities) = opened.map_err(|fault| match fault {
            SealFault::Foreign => WireError::NotAnIncrement,
            SealFault::Newer(version) => WireError::Newer(version),
            SealFault::Damaged(reason) => WireError::Damaged(reason),
        })?;
        if let (Some(told), Some(densities)) = (&mut delivery.increment.familiarity, densities) {
            told.densities = densities;
        }
        Ok(delivery)
    }
}

/// A number that tells apart the coordinates in which families keep their sums: their names and frames, not their priors,
/// which may be estimated anew. Increments of other coordinates have the right shape and the wrong meaning.
pub fn coordinates(family: &AnyFamily) -> u32 {
    let family_json = serde_json::to_value(family).expect("a family holds only text, numbers and lists");
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(family.name().as_bytes());
    hash_frames(&family_json, &mut hasher);
    hasher.finalize()
}

/// Adds every part called `frame`, wherever it is: a product has one in each block.
fn hash_frames(value: &serde_json::Value, hasher: &mut crc32fast::Hasher) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "frame" => hasher.update(field.to_string().as_bytes()),
                    _ => hash_frames(field, hasher),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| hash_frames(item, hasher)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use anabranch::batch::Batch;
    use anabranch::family::{Diagonal, Gaussian};
    use anabranch::identify::ComponentId;
    use anabranch::posterior::{Evidence, Told};
    use anabranch::process::LabelStatistics;

    use super::*;

    fn delivery() -> Delivery {
        let labels =
            LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: 2.5, label_entropy: 0.1 };
        let evidence = Evidence { stats: vec![2.5, -1e75, 0.1 + 0.2], labels };
        Delivery {
            batch: BatchId(7),
            coordinates: 3,
            rows: 5,
            increment: Increment {
                base: 4,
                mass: 5.0,
                familiarity: Some(Told { median: -3.5, densities: vec![(-7, 1.5), (3, 2.0)] }),
                existing: vec![(ComponentId(9), evidence.clone())],
                new: vec![evidence],
            },
        }
    }

    #[test]
    fn a_delivery_survives_the_way_bit_by_bit() {
        assert_eq!(Delivery::from_bytes(&delivery().to_bytes()), Ok(delivery()));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let bytes = delivery().to_bytes();
        for end in 0..bytes.len() {
            assert!(Delivery::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
        }
        for ix in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[ix] ^= 0x40;
            assert!(Delivery::from_bytes(&changed).is_err(), "byte {ix}");
        }
        assert_eq!(Delivery::from_bytes(b"PK"), Err(WireError::NotAnIncrement));
    }

    #[test]
    fn coordinates_tell_frames_and_families_apart() {
        let rows = |scale: f64| Batch::new(1, vec![0.0, scale, 3.0 * scale]).unwrap();
        let gaussian = |scale: f64| AnyFamily::from(Gaussian::from_rows(&rows(scale)).unwrap());
        let diagonal = AnyFamily::from(Diagonal::from_rows(&rows(1.0)).unwrap());
        assert_eq!(coordinates(&gaussian(1.0)), coordinates(&gaussian(1.0)));
        assert_ne!(coordinates(&gaussian(1.0)), coordinates(&gaussian(2.0)));
        assert_ne!(coordinates(&gaussian(1.0)), coordinates(&diagonal));
    }
}
