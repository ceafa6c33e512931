//! The folded state as the holder of the lease tells it, so that others need not read every entry.
//!
//! The journal stays the only truth. A state says from which message of the journal to which it leads; a replica that stands between
//! the two takes it, compares the checksum of all that replicas must agree on, and is then where the journal would have brought it.
//! One that stands before has missed a state, and reads the journal.

use std::sync::Arc;

use anabranch::central::{BatchSet, Difference};
use anabranch_io::journal::{decode_state, encode_state};
use serde::{Deserialize, Serialize};

use super::frame::Parts;
use super::pack::{PACKED, pack, unpack};
use super::{Replica, Sequence, Tally};
use crate::kind::{Count, Kind};

/// How a replica changed from one message of the journal to a later one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    from: Sequence,
    to: Sequence,
    last_birth_message: Sequence,
    aside: Vec<(u64, u64)>,
    tally: Tally,
    finished: Option<u64>,
    has_first_rows: bool,
    parts: Vec<u8>,
    /// Family and process as JSON, where they changed.
    prior: Option<String>,
    difference: Difference,
    fingerprint: u32,
    /// Microseconds that each worker shall wait from one append to the next.
    pub pace: u64,
    /// Beside the others, where the mass does not tell it.
    #[serde(skip)]
    count: Option<Count>,
}

/// What a replica made of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is there now.
    Taken,
    /// It was as far already.
    Old,
    /// It is behind where the state begins.
    Missed,
    /// The state does not fit, or its checksum is not that of the result.
    Unfit,
}

#[derive(Serialize, Deserialize)]
struct Prior<F, P> {
    family: F,
    process: P,
}

impl State {
    /// The state of such a job as bytes.
    pub fn to_bytes<K: Kind>(&self) -> Vec<u8> {
        let bytes = match self.count {
            None => encode_state(self),
            Some(count) => encode_state(&(self, count)),
        };
        if K::IS_SPARSE { pack(bytes) } else { bytes }
    }

    /// The state of such a job from bytes that may be anything.
    pub fn from_bytes<K: Kind>(bytes: &[u8]) -> Option<Self> {
        if let Some((&PACKED, packed)) = bytes.split_first().filter(|_| K::IS_SPARSE) {
            return Self::from_bytes::<K>(&unpack(packed)?);
        }
        if !K::IS_COUNTED {
            return decode_state(bytes);
        }
        let (state, count): (Self, Count) = decode_state(bytes)?;
        Some(Self { count: Some(count), ..state })
    }

    /// The message of the journal that it leads to.
    pub fn to(&self) -> Sequence {
        self.to
    }
}

impl<K: Kind> Replica<K> {
    /// How this replica differs from an earlier one of the same journal, or from nothing; `None` where that cannot be told.
    pub fn state_since(&self, earlier: Option<&Self>, pace: u64) -> Option<State> {
        let fold = self.fold.as_ref()?;
        let before = earlier.and_then(|earlier| earlier.fold.as_ref());
        let prior = match before.is_some_and(|before| fold.has_prior_of(before)) {
            true => None,
            false => {
                let posterior = fold.posterior();
                let prior = Prior { family: posterior.family(), process: posterior.process() };
                Some(serde_json::to_string(&prior).ok()?)
            }
        };
        Some(State {
            from: earlier.map_or(0, |earlier| earlier.position),
            to: self.position,
            last_birth_message: self.last_birth_message,
            aside: self.aside.runs().to_vec(),
            tally: self.tally,
            finished: self.finished,
            has_first_rows: self.memory.first().is_some(),
            parts: self.parts.to_bytes(),
            prior,
            difference: fold.since(before)?,
            fingerprint: self.fingerprint(),
            pace,
            count: K::IS_COUNTED.then_some(self.count),
        })
    }

    /// Goes where the state leads, if this replica stands between its ends and the state is right.
    pub fn take(&mut self, state: &State) -> Told {
        let Some(fold) = self.fold.as_ref().filter(|_| self.position >= state.from) else {
            return Told::Missed;
        };
        if self.position >= state.to {
            return Told::Old;
        }
        let prior: Option<Prior<K::Family, K::Process>> =
            match state.prior.as_deref().map(serde_json::from_str).transpose() {
                Ok(prior) => prior,
                Err(_) => return Told::Unfit,
            };
        let brought = fold.brought_to(&state.difference, prior.map(|prior| (prior.family, prior.process)));
        let (Some(fold), Some(aside), Some(parts)) =
            (brought, BatchSet::from_runs(state.aside.clone()), Parts::from_bytes(&state.parts))
        else {
            return Told::Unfit;
        };
        let mut memory = Arc::clone(&self.memory);
        if !state.has_first_rows && memory.first().is_some() {
            Arc::make_mut(&mut memory).forget_first();
        }
        let there = Self {
            fold: Some(fold),
            about: self.about.clone(),
            count: state.count.unwrap_or_default(),
            position: state.to,
            last_birth_message: state.last_birth_message,
            aside,
            tally: state.tally,
            parts,
            memory,
            finished: state.finished,
        };
        if there.fingerprint() != state.fingerprint {
            return Told::Unfit;
        }
        *self = there;
        Told::Taken
    }
}
