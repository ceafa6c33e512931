//! Models that were learned apart become one, as by the command line's `merge`.

use anabranch_io::model::Model;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Fault;

/// The bytes of the model of all rows, from the bytes of models.
#[pyfunction]
pub fn merge<'py>(
    py: Python<'py>,
    models: Vec<Vec<u8>>,
    assume_apart: bool,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let merged = py.detach(|| {
        let mut named = Vec::with_capacity(models.len());
        for (ix, bytes) in models.iter().enumerate() {
            named.push((format!("model {ix}"), Model::from_bytes(bytes).map_err(Fault::input)?));
        }
        Ok::<_, Fault>(anabranch_cli::merge(named, assume_apart, Some(threads))?.model.to_bytes())
    })?;
    Ok(PyBytes::new(py, &merged))
}
