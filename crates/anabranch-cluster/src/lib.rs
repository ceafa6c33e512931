//! The same workers and the same journal on many machines, over NATS JetStream.
//!
//! ```text
//!             batches (work queue)          journal (ordered)           snapshots (objects)
//! submit ───▶ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ ───▶ worker ──▶ ▒▒▒▒▒▒▒▒▒▒ ──▶ every worker folds it   ──▶ ▒▒▒
//! anyone ───▶                         ▲                        │                          │
//!                                     └──── posterior ◀────────┴──────────────────────────┘
//! ```
//!
//! No server of ours holds state. [`protocol`] is the part that must be right, and it does no input or output; the rest
//! binds it to a server. The mathematics is that of the in-process engine and knows nothing of this crate.

pub mod protocol;

mod append;
mod connect;
mod error;
mod job;
mod kind;
mod lease;
mod metrics;
mod names;
mod operate;
mod patience;
mod reader;
mod rows;
mod snapshots;
mod spec;
mod states;
mod status;
mod submit;
mod web;
mod worker;

pub use connect::{ConnectTo, DEFAULT_URL, OLDEST_SERVER, connect};
pub use error::ClusterError;
pub use job::{Access, Job};
pub use kind::{
    BatchOf, Count, EntryOf, Features, FoldOf, Kind, MemoryOf, Mixture, Topics, WorkspaceOf, document_options,
};
pub use names::JobName;
pub use operate::{Dead, JobSummary, dead, dead_one, delete, drop_dead, jobs, pause, requeue, resume};
pub use reader::{Follower, fetch_replica};
pub use rows::{decode_rows, encode_rows, message_limits};
pub use spec::{FeatureSpec, JobSpec, ModelSpec, PriorSpec, TopicSpec, WordSpec};
pub use status::{SourceStatus, Status, WorkerStatus, status};
pub use submit::{Digest, SourceState, Submission};
pub use worker::{Founder, Founding, Report, Until, WorkerConfig, finish, work};
