//! Which families and processes a model file can hold.

use anabranch::family::{AnyFamily, Conjugate, Family, LinearGaussian};
use anabranch::process::{AnyProcess, Beta, Process};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A family that a model file can hold.
pub trait StoredFamily: Conjugate + Serialize + DeserializeOwned {
    /// Columns of a row.
    fn columns(&self) -> usize;
}

/// A process that a model file can hold.
pub trait StoredProcess: Process + Serialize + DeserializeOwned {
    /// The model that it makes, as `--model` says it.
    fn model(&self) -> &'static str;
}

impl StoredFamily for AnyFamily {
    fn columns(&self) -> usize {
        self.dimensions()
    }
}

impl StoredFamily for LinearGaussian {
    fn columns(&self) -> usize {
        self.dimensions()
    }
}

impl StoredProcess for AnyProcess {
    fn model(&self) -> &'static str {
        self.name()
    }
}

impl StoredProcess for Beta {
    fn model(&self) -> &'static str {
        "bp"
    }
}
