//! What can go wrong with a cluster, in words that say what to do.

use std::error::Error as StdError;

use async_nats::jetstream;
use thiserror::Error;

use crate::connect::OLDEST_SERVER;
use crate::protocol::{ReplicaFault, Sequence, SnapshotFault};

/// Why something could not be done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Not a name of a job.
    #[error("`{0}` is not a name for a job")]
    JobName(String),
    /// Nobody answers.
    #[error("cannot reach a NATS server at {url}: {reason}")]
    Unreachable {
        /// Where we looked, without the password.
        url: String,
        /// What the client said.
        reason: String,
    },
    /// Wrong credentials or certificates.
    #[error("the NATS server at {url} refuses us: {reason}")]
    Login {
        /// Where.
        url: String,
        /// What the client said.
        reason: String,
    },
    /// The server lacks what we need.
    #[error("the server at {url} is NATS {found}; anabranch needs {}.{} or newer", OLDEST_SERVER.0, OLDEST_SERVER.1)]
    TooOld {
        /// Where.
        url: String,
        /// Its version.
        found: String,
    },
    /// The server has no streams.
    #[error("the NATS server at {url} has no JetStream: {reason}")]
    NoJetStream {
        /// Where.
        url: String,
        /// What it said.
        reason: String,
    },
    /// The job was not created yet.
    #[error("there is no job `{0}`")]
    NoJob(String),
    /// Nothing of this number was set aside.
    #[error("no minibatch that was set aside has number {0}")]
    NoDead(u64),
    /// The job has other settings.
    #[error("job `{job}` was created with {what} {then}, this command has {now}")]
    Differs {
        /// The job.
        job: String,
        /// The setting.
        what: String,
        /// Its value in the job.
        then: String,
        /// Its value now.
        now: String,
    },
    /// A stream was made by somebody else, in a way that would lose data.
    #[error("stream `{stream}` has {what} {found}, a job needs {needed}")]
    Stream {
        /// The stream.
        stream: String,
        /// Which of its settings.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        needed: String,
    },
    /// A limit or the disk is full.
    #[error("the server is out of space while {doing}: {reason}")]
    OutOfSpace {
        /// What we were doing.
        doing: &'static str,
        /// What the server said.
        reason: String,
    },
    /// Somebody with a newer program is here.
    #[error("{0}")]
    Newer(String),
    /// Something stored is not what was written.
    #[error("{0}")]
    Damaged(String),
    /// The journal is not the one that this worker has read: a server lost its end, or it was restored from a backup.
    #[error(
        "this worker has read message {position} of a journal that {now}: it was replaced by another one"
    )]
    Replaced {
        /// Last message read.
        position: Sequence,
        /// What the journal is like now.
        now: String,
    },
    /// A message is larger than the server takes.
    #[error("a minibatch has {bytes} bytes, the server takes messages of {limit}")]
    TooLarge {
        /// Bytes of the minibatch.
        bytes: usize,
        /// What the server takes.
        limit: usize,
    },
    /// The first minibatches could not be learned from.
    #[error("the bootstrap failed: {0}")]
    Founding(String),
    /// The address of the endpoint.
    #[error("{0}")]
    Listen(String),
    /// Anything else that a server says.
    #[error("{doing}: {reason}")]
    Server {
        /// What we were doing.
        doing: &'static str,
        /// What the server or the client said.
        reason: String,
    },
}

impl ClusterError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::JobName(_) => "use up to 64 letters, digits, `-` and `_`",
            Self::Unreachable { .. } => {
                "start one with `nats-server -js`, or name another, such as nats://HOST:4222"
            }
            Self::Login { .. } => {
                "pass --creds FILE, put user and password into the URL, or pass --tls-ca FILE"
            }
            Self::TooOld { .. } => "update the server; see docs/cluster.md",
            Self::NoJetStream { .. } => "start the server with `-js`, or enable JetStream for this account",
            Self::NoJob(_) => "create it with `anabranch submit --job NAME INPUT`",
            Self::NoDead(_) => "list them with `anabranch dead --job NAME`",
            Self::Differs { .. } => "pass the same flags as before, or choose another --job",
            Self::Stream { .. } => "choose another --job, or let anabranch create the streams",
            Self::OutOfSpace { .. } => {
                "free space on the server, raise its limits, or let workers catch up; nothing that was acknowledged is lost"
            }
            Self::Newer(_) => "update anabranch on this machine",
            Self::Replaced { .. } => "start the worker again: it reads the journal as it is",
            Self::TooLarge { .. } => "pass a smaller --batch-size",
            Self::Listen(_) => "pass --listen 127.0.0.1:0, or a token in ANABRANCH_TOKEN",
            _ => return None,
        })
    }

    /// True when waiting helps: a full stream, a server that restarts.
    pub fn passes(&self) -> bool {
        matches!(self, Self::OutOfSpace { .. } | Self::Server { .. })
    }
}

/// Codes of the server that mean: no room.
const FULL: [u64; 6] = [10002, 10023, 10028, 10047, 10077, 10122];

/// The server's own code somewhere behind an error of the client.
pub(crate) fn server_code(error: &(dyn StdError + 'static)) -> Option<u64> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(server) = error.downcast_ref::<jetstream::Error>() {
            return Some(server.error_code().0);
        }
        next = error.source();
    }
    None
}

/// Whether the server said this, also where the client keeps nothing of it but the text.
pub(crate) fn has_code(error: &(dyn StdError + 'static), code: u64) -> bool {
    server_code(error) == Some(code) || in_words(error).contains(&format!("error code {code}"))
}

/// The whole chain of an error in one line.
pub(crate) fn in_words(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}

/// An error of the client while doing something.
pub(crate) fn fault(doing: &'static str) -> impl Fn(async_nats::Error) -> ClusterError {
    move |error| {
        let reason = in_words(&*error);
        let full = server_code(&*error).is_some_and(|code| FULL.contains(&code))
            || FULL.iter().any(|code| reason.contains(&format!("error code {code}")))
            || reason.contains("no space left")
            || reason.contains("maximum bytes exceeded")
            || reason.contains("insufficient storage")
            || reason.contains("resource limits exceeded");
        match full {
            true => ClusterError::OutOfSpace { doing, reason },
            false => ClusterError::Server { doing, reason },
        }
    }
}

/// The same for the client's typed errors.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, ClusterError>;
}

impl<T, E: StdError + Send + Sync + 'static> Doing<T> for Result<T, E> {
    fn doing(self, what: &'static str) -> Result<T, ClusterError> {
        self.map_err(|error| fault(what)(Box::new(error)))
    }
}

impl From<ReplicaFault> for ClusterError {
    fn from(fault: ReplicaFault) -> Self {
        match fault {
            ReplicaFault::Newer { .. } => Self::Newer(fault.to_string()),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<SnapshotFault> for ClusterError {
    fn from(fault: SnapshotFault) -> Self {
        match fault {
            SnapshotFault::Newer(_) => Self::Newer(fault.to_string()),
            other => Self::Damaged(other.to_string()),
        }
    }
}
