//! The rows that wait for a full minibatch, as a pickle holds them beside the model.

use anabranch_io::Schema;
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::rows::Buffer;

/// How to read the numbers: the values of all rows, then their weights.
#[derive(Serialize, Deserialize)]
struct Leftover {
    schema: Schema,
    rows: usize,
    weighted: bool,
}

/// The columns and sizes as JSON, and the numbers as bytes.
pub fn leave(schema: &Schema, buffer: &Buffer) -> Result<(String, Vec<u8>), Fault> {
    let Buffer { values, weights, rows } = buffer;
    let leftover = Leftover { schema: schema.clone(), rows: *rows, weighted: weights.is_some() };
    let numbers = values.iter().chain(weights.iter().flatten());
    let bytes = numbers.flat_map(|value| value.to_le_bytes()).collect();
    Ok((serde_json::to_string(&leftover).map_err(Fault::input)?, bytes))
}

/// The columns and the rows that were left.
pub fn find(leftover: &str, bytes: &[u8]) -> Result<(Schema, Buffer), Fault> {
    let damaged = || Fault::input("the pickle is damaged");
    let Leftover { schema, rows, weighted } = serde_json::from_str(leftover).map_err(|_| damaged())?;
    let numbers: Vec<f64> =
        bytes.chunks_exact(8).filter_map(|b| b.try_into().ok()).map(f64::from_le_bytes).collect();
    let n_values = rows.checked_mul(schema.dimensions()).ok_or_else(damaged)?;
    let n_weights = if weighted { rows } else { 0 };
    if n_values.checked_add(n_weights) != Some(numbers.len()) {
        return Err(damaged());
    }
    let (values, weights) = numbers.split_at(n_values);
    let buffer = Buffer { values: values.to_vec(), weights: weighted.then(|| weights.to_vec()), rows };
    Ok((schema, buffer))
}
