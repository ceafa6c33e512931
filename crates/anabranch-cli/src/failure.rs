//! What went wrong, whose fault it is, and what to do about it: a message, a hint, an exit code.

use std::fmt::Display;

use anabranch::family::PriorError;
#[cfg(feature = "cluster")]
use anabranch_cluster::ClusterError;
use anabranch_io::ReadError;
use anabranch_io::model::ModelError;
use anabranch_io::printable::printable;

use crate::report::ReportError;

/// The exit code of a command that was stopped with Ctrl-C: 128 and the number of the signal, as shells have it.
pub const STOPPED: u8 = 130;

/// A command that did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The input or the flags are wrong.
    Input {
        /// What is wrong, and where.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// We are wrong, or the machine is.
    Internal {
        /// What happened.
        message: String,
    },
    /// Nobody reads our output any more, which is no fault at all.
    BrokenPipe,
    /// Somebody asked to stop; what has become of the output.
    Stopped(String),
    /// Several things went wrong one beside the other.
    Several(Vec<Failure>),
}

/// Steps that are all tried, whatever becomes of the others.
#[derive(Debug, Default)]
pub struct Tried {
    failures: Vec<Failure>,
}

impl Tried {
    /// Notes how a step ended; its value when it went well.
    pub fn note<T, E: Into<Failure>>(&mut self, step: Result<T, E>) -> Option<T> {
        step.map_err(|failure| self.failures.push(failure.into())).ok()
    }

    /// An error when a step failed, with all that did.
    pub fn done(mut self) -> Result<(), Failure> {
        match self.failures.len() {
            0 => Ok(()),
            1 => Err(self.failures.remove(0)),
            _ => Err(Failure::Several(self.failures)),
        }
    }

    /// The same, after a step without which the others make no sense.
    pub fn give_up<T>(self) -> Result<T, Failure> {
        self.done().and(Err(Failure::Internal { message: "a step failed without a reason".to_owned() }))
    }
}

impl Failure {
    /// The user's input or flags.
    pub fn input(message: impl Display) -> Self {
        Self::Input { message: message.to_string(), hint: None }
    }

    /// The same, with what to do.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Input { message, .. } => Self::Input { message, hint: Some(hint.into()) },
            other => other,
        }
    }

    /// The same message behind the name of a flag.
    pub fn naming(self, flag: &str) -> Self {
        match self {
            Self::Input { message, hint } => Self::Input { message: format!("{flag}: {message}"), hint },
            other => other,
        }
    }

    /// Something that this build does not do, because a feature of the package was left out of it.
    #[cfg(not(all(feature = "cluster", feature = "png")))]
    pub(crate) fn left_out(does_not: &str, feature: &str) -> Self {
        Self::input(format!("this build {does_not}: it was made without the feature `{feature}`"))
            .with_hint(format!("build it with `--features {feature}`, or without `--no-default-features`"))
    }

    /// Prints the message and returns the exit code.
    pub fn report(&self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Stopped(message) => {
                eprintln!("{}", shown(message));
                STOPPED
            }
            Self::Several(failures) => failures.iter().map(Self::report).max().unwrap_or(0),
            Self::Input { message, hint } => {
                eprintln!("error: {}", shown(message));
                if let Some(hint) = hint {
                    eprintln!("hint: {}", shown(hint));
                }
                1
            }
            Self::Internal { message } => {
                eprintln!("error: {}", shown(message));
                eprintln!("hint: this is not your fault; please report it with the command you ran");
                2
            }
        }
    }
}

/// Names of files and columns may hold what a terminal would obey; lines stay lines.
fn shown(message: &str) -> String {
    message.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Input { message: error.to_string(), hint: error.hint() }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Input { message: error.to_string(), hint: error.hint() }
    }
}

impl From<PriorError> for Failure {
    fn from(error: PriorError) -> Self {
        Self::input(error)
    }
}

#[cfg(feature = "cluster")]
impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Self::Input { message: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Draw { .. } => Self::Internal { message: error.to_string() },
            _ => Self::input(error),
        }
    }
}

/// Writing to standard output.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::input(format!("cannot write: {error}")),
        }
    }
}
