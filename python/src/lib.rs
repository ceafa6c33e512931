//! The Rust half of the Python package `anabranch`: the engine, the four steps and the command line, without the
//! conventions of scikit-learn, which are written in Python.

mod cluster;
mod describe;
mod drive;
mod engine;
mod error;
mod features;
mod infer;
mod learn;
mod merge;
mod options;
mod pickle;
mod rows;
mod run;
mod stream;
mod topics;
mod view;

/// The module `anabranch._core`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::cluster::{Stop, cluster};
    #[pymodule_export]
    use crate::describe::{describe, main};
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::features::Features;
    #[pymodule_export]
    use crate::infer::infer;
    #[pymodule_export]
    use crate::merge::merge;
    #[pymodule_export]
    use crate::topics::Topics;
}
