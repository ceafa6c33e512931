//! What a pickle holds beside the checkpoint: the rows that wait for a full minibatch, and how far the model had got.

use anabranch_io::Schema;
use anabranch_io::model::Model;
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::learn::Learned;
use crate::rows::Buffer;

/// How to read the numbers: the values of all rows, then their weights.
#[derive(Serialize, Deserialize)]
struct Leftover {
    schema: Schema,
    rows: usize,
    weighted: bool,
    ended: u64,
}

/// The columns and sizes as JSON, and the numbers as bytes.
pub fn leave(learned: &Learned) -> Result<(String, Vec<u8>), Fault> {
    let Buffer { values, weights, rows } = &learned.buffer;
    let (schema, ended) = (learned.schema.clone(), learned.ended);
    let leftover = Leftover { schema, rows: *rows, weighted: weights.is_some(), ended };
    let numbers = values.iter().chain(weights.iter().flatten());
    let bytes = numbers.flat_map(|value| value.to_le_bytes()).collect();
    Ok((serde_json::to_string(&leftover).map_err(Fault::input)?, bytes))
}

/// What was learned, from the bytes of the checkpoint, if there was one, and of what was left beside it.
pub fn find(checkpoint: Option<&[u8]>, leftover: &str, bytes: &[u8]) -> Result<Learned, Fault> {
    let damaged = || Fault::input("the pickle is damaged");
    let Leftover { schema, rows, weighted, ended } = serde_json::from_str(leftover).map_err(|_| damaged())?;
    let numbers: Vec<f64> =
        bytes.chunks_exact(8).filter_map(|b| b.try_into().ok()).map(f64::from_le_bytes).collect();
    let n_values = rows.checked_mul(schema.dimensions()).ok_or_else(damaged)?;
    let n_weights = if weighted { rows } else { 0 };
    if n_values.checked_add(n_weights) != Some(numbers.len()) {
        return Err(damaged());
    }
    let (values, weights) = numbers.split_at(n_values);
    let buffer = Buffer { values: values.to_vec(), weights: weighted.then(|| weights.to_vec()), rows };
    let learned = match checkpoint {
        Some(checkpoint) => {
            let (model, memory) = Model::from_checkpoint_bytes(checkpoint).map_err(Fault::input)?;
            Learned::from_checkpoint(model, memory)
        }
        None => Learned::new(schema),
    };
    Ok(Learned { buffer, ended, ..learned })
}
