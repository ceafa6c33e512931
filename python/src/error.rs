//! Errors of the core as Python exceptions: the words of the command line, with its flags as Python's parameters.

use std::fmt::Display;

use anabranch_cli::Failure;
use anabranch_io::ReadError;
use anabranch_io::model::ModelError;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

/// What is wrong, before there is a Python interpreter at hand to say it.
#[derive(Debug)]
pub enum Fault {
    /// The data or the parameters are wrong.
    Input(String),
    /// A file cannot be read or written.
    File(String),
    /// We are wrong.
    Internal(String),
}

impl Fault {
    /// The data or the parameters.
    pub fn input(message: impl Display) -> Self {
        Self::Input(message.to_string())
    }

    /// The same, with what to do.
    pub fn with_hint(message: impl Display, hint: Option<impl Display>) -> Self {
        match hint {
            Some(hint) => Self::Input(python_words(&format!("{message}\nhint: {hint}"))),
            None => Self::Input(python_words(&message.to_string())),
        }
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Input(message) => PyValueError::new_err(message),
            Fault::File(message) => PyOSError::new_err(message),
            Fault::Internal(message) => PyRuntimeError::new_err(message),
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Input { message, hint } => Self::with_hint(message, hint),
            Failure::Internal { message } | Failure::Stopped(message) => Self::Internal(message),
            Failure::BrokenPipe => Self::Internal("broken pipe".into()),
            Failure::Several(failures) => {
                let message = |failure| match Self::from(failure) {
                    Self::Input(message) | Self::File(message) | Self::Internal(message) => message,
                };
                Self::Input(failures.into_iter().map(message).collect::<Vec<_>>().join("\n"))
            }
        }
    }
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        Self::with_hint(&error, error.hint())
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        match (&error, error.hint()) {
            (ModelError::Io { .. }, Some(hint)) => Self::File(format!("{error}\nhint: {hint}")),
            (ModelError::Io { .. }, None) => Self::File(error.to_string()),
            (_, hint) => Self::with_hint(&error, hint),
        }
    }
}

/// `--prior-mean` is `prior_mean` in Python.
fn python_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split("--");
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(piece.len());
        out.push_str(&piece[..end].replace('-', "_"));
        out.push_str(&piece[end..]);
    }
    out
}
