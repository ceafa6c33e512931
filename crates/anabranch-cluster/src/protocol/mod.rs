//! The protocol without any input or output: what a replica makes of the journal, and what the author of an increment does
//! next. Synchronous and deterministic, so that a simulation can try thousands of schedules.
//!
//! ```text
//! journal (ordered) ──▶ parts ──▶ record ──▶ fold          every replica does the same and gets the same
//! increments ──▶ sum ──▶ author ──▶ append, wait, identify again, done
//! ```
//!
//! **The fold is the arbiter.** The order of the journal decides which records count. That a server refuses an append on a
//! stale expectation only saves the way; nothing here is wrong when it does not.

mod author;
mod frame;
mod pack;
mod record;
mod replica;
mod snapshot;
mod state;
mod sum;

pub use author::{Append, Author, Event, Expectation, Outcome, Step};
pub use frame::{FrameFault, Parts, split};
pub use record::{Record, RecordFault};
pub use replica::{Applied, Replica, ReplicaFault, Tally, VoidReason};
pub use snapshot::{SNAPSHOT_VERSION, SnapshotFault};
pub use state::{State, Told};
pub use sum::Sum;

/// Where in the journal something stands: the sequence number of its message, from 1.
pub type Sequence = u64;
