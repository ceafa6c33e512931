//! The commands of a cluster: the same flags as those of the command line, results as JSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_cli::cluster::call;
use pyo3::prelude::*;

use crate::error::Fault;

/// A wish to stop that one thread can tell another.
#[pyclass(frozen, module = "anabranch._core")]
#[derive(Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Asks to stop.
    fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `submit`, `worker`, `pull` or `status` until it is done or asked to stop, and returns its result as JSON.
/// The GIL is free meanwhile.
#[pyfunction]
pub fn cluster(py: Python<'_>, args: Vec<String>, rows: Option<&[u8]>, stop: &Stop) -> PyResult<String> {
    let rows = rows.map(<[u8]>::to_vec);
    let asked = Arc::clone(&stop.0);
    let stopped = Arc::new(move || asked.load(Ordering::SeqCst));
    py.detach(|| call(&args, rows, stopped)).map_err(|failure| Fault::from(failure).into())
}
