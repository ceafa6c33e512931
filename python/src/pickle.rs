//! What a pickle holds beside the checkpoint: the rows that wait for a full minibatch, how far the model had got, and what was
//! shown last, so that it answers at once.

use anabranch::learner::look::{Kept, Shown};
use anabranch_io::model::Model;
use anabranch_io::{Schema, Seen};
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::learn::{Learned, Tally};
use crate::options::Options;
use crate::rows::Buffer;

/// Everything of an estimator in bytes.
pub struct Pickled {
    /// The checkpoint of the centre, if there is one.
    pub checkpoint: Option<Vec<u8>>,
    /// The checkpoint of what was shown, if something was.
    pub shown: Option<Vec<u8>>,
    /// The columns and sizes, as JSON.
    pub leftover: String,
    /// The rows of the buffers.
    pub numbers: Vec<u8>,
}

/// How to read the numbers: of each buffer the values of all rows, then their weights, then their times.
#[derive(Serialize, Deserialize)]
struct Leftover {
    schema: Schema,
    rows: usize,
    weighted: bool,
    #[serde(default)]
    timed: bool,
    /// The column that says when rows were.
    #[serde(default)]
    time: Option<String>,
    ended: u64,
    #[serde(default)]
    seen: Option<Seen>,
    #[serde(default)]
    shown: Option<Last>,
}

/// What was shown last.
#[derive(Serialize, Deserialize)]
struct Last {
    kept: Kept,
    tally: Tally,
    rows: usize,
    weighted: bool,
    #[serde(default)]
    timed: bool,
}

fn numbers(buffer: &Buffer) -> impl Iterator<Item = u8> {
    let numbers =
        buffer.values.iter().chain(buffer.weights.iter().flatten()).chain(buffer.times.iter().flatten());
    numbers.flat_map(|value| value.to_le_bytes())
}

/// What is needed to make the estimator again.
pub fn leave(learned: &Learned, options: &Options) -> Result<Pickled, Fault> {
    let checkpoint = learned.checkpoint(options);
    let checkpoint = checkpoint.map(|(model, memory)| model.to_checkpoint_bytes(&memory));
    let Buffer { weights, times, rows, .. } = &learned.buffer;
    let mut bytes: Vec<u8> = numbers(&learned.buffer).collect();
    let shown = learned.last_shown(|shown, tally, since| {
        bytes.extend(numbers(since));
        let (fold, memory, kept) = shown.keep();
        let model = Model { fold, provenance: learned.provenance(options) };
        let (rows, weighted, timed) = (since.rows, since.weights.is_some(), since.times.is_some());
        (model.to_checkpoint_bytes(&memory), Last { kept, tally, rows, weighted, timed })
    });
    let (shown, last) = shown.unzip();
    let leftover = Leftover {
        schema: learned.schema.clone(),
        rows: *rows,
        weighted: weights.is_some(),
        timed: times.is_some(),
        time: learned.time.clone(),
        ended: learned.ended,
        seen: Some(learned.seen.clone()),
        shown: last,
    };
    let leftover = serde_json::to_string(&leftover).map_err(Fault::input)?;
    Ok(Pickled { checkpoint, shown, leftover, numbers: bytes })
}

/// What was learned.
pub fn find(pickled: &Pickled) -> Result<Learned, Fault> {
    let damaged = || Fault::input("the pickle is damaged");
    let Pickled { checkpoint, shown, leftover, numbers } = pickled;
    let leftover: Leftover = serde_json::from_str(leftover).map_err(|_| damaged())?;
    let columns = leftover.schema.dimensions();
    let mut numbers =
        numbers.chunks_exact(8).filter_map(|b| b.try_into().ok()).map(f64::from_le_bytes).fuse();
    let mut buffer = |rows: usize, weighted: bool, timed: bool| {
        let n = rows.checked_mul(columns).ok_or_else(damaged)?;
        let values: Vec<f64> = numbers.by_ref().take(n).collect();
        let mut one_each = |there: bool| there.then(|| numbers.by_ref().take(rows).collect::<Vec<f64>>());
        let (weights, times) = (one_each(weighted), one_each(timed));
        let whole = values.len() == n && weights.iter().chain(&times).all(|values| values.len() == rows);
        if whole { Ok(Buffer { values, weights, times, rows }) } else { Err(damaged()) }
    };
    let waiting = buffer(leftover.rows, leftover.weighted, leftover.timed)?;
    let mut learned = match checkpoint {
        Some(checkpoint) => {
            let (model, memory) = Model::from_checkpoint_bytes(checkpoint).map_err(Fault::input)?;
            Learned::from_checkpoint(model, memory)
        }
        None => Learned::new(leftover.schema),
    };
    if let (Some(shown), Some(Last { kept, tally, rows, weighted, timed })) = (shown, leftover.shown) {
        let since = buffer(rows, weighted, timed)?;
        let (model, memory) = Model::from_checkpoint_bytes(shown).map_err(Fault::input)?;
        learned.show_again(Shown::restore(model.fold, memory, kept), tally, since);
    }
    if numbers.next().is_some() {
        return Err(damaged());
    }
    learned.seen = leftover.seen.unwrap_or(learned.seen);
    (learned.buffer, learned.ended, learned.time) = (waiting, leftover.ended, leftover.time.or(learned.time));
    Ok(learned)
}
