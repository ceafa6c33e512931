//! Step 2 of the four, in the open: bytes in, bytes out, no estimator needed.

use anabranch::central::BatchId;
use anabranch::engine::minibatch_rng;
use anabranch::infer::{Settings, Workspace, infer as infer_minibatch, spread};
use anabranch_io::model::Model;
use anabranch_io::wire::{Delivery, coordinates};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Fault;
use crate::rows::{Beside, Buffer, Edge, Lent};

/// Step 2: what a minibatch teaches, given a snapshot; bytes in, bytes out.
#[pyfunction]
#[pyo3(signature = (snapshot, rows, weights, batch, max_new))]
pub fn infer<'py>(
    py: Python<'py>,
    snapshot: &[u8],
    rows: &Bound<'py, PyAny>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    batch: u64,
    max_new: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let lent = Lent::borrow(rows)?;
    let rows = lent.rows();
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let bytes = py.detach(|| {
        let Model { fold, provenance } = Model::from_bytes(snapshot).map_err(Fault::input)?;
        let posterior = fold.posterior();
        rows.expect_columns(provenance.schema.dimensions())?;
        let mut buffer = Buffer::default();
        buffer.push(rows, Beside { weights, times: None }, 0, rows.len())?;
        let edge = Edge { schema: &provenance.schema, family: posterior.family(), before: 0, fades: None };
        let (mut minibatch, _) = buffer.take(&edge)?;
        let batch = BatchId(batch);
        let mut rng = minibatch_rng(provenance.seed, batch);
        spread(posterior.family(), &mut minibatch, &mut rng);
        let settings = Settings { max_new, ..Settings::default() };
        let (increment, _) =
            infer_minibatch(posterior, &minibatch, &settings, &mut rng, &mut Workspace::default());
        let rows = minibatch.n_rows() as u64;
        Ok::<_, Fault>(
            Delivery { batch, coordinates: coordinates(posterior.family()), rows, increment }.to_bytes(),
        )
    })?;
    Ok(PyBytes::new(py, &bytes))
}
