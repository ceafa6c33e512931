//! What was read of which input, so that a run that goes on finds its place again, and notices when it is another input.
//!
//! A checkpoint keeps for each input its rows that were learned from and a checksum of the first of them; and the
//! minibatches that had another number of rows than the others, such as the last one of a file that has grown since. Rows
//! are compared and not bytes: a file may have been compressed, renamed, or written anew with more rows at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use anabranch::central::{BatchId, BatchSet};
use serde::{Deserialize, Serialize};

use crate::error::ReadError;

/// Checksums are taken after 1, 2, 4 … rows, up to this many.
const MOST_HEADS: usize = 9;

/// Rows that the last checksum covers.
pub(crate) const HEAD_ROWS: u64 = 1 << (MOST_HEADS - 1);

/// What a run has read: how it finds its place again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The inputs, in their order, up to the last that was learned from.
    pub inputs: Vec<InputRead>,
    /// Minibatches with another number of rows than usual.
    pub sizes: BTreeMap<u64, u64>,
}

/// What was learned from one input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRead {
    /// What messages call it.
    pub name: String,
    /// Good rows.
    pub rows: u64,
    /// Rows under the checksum.
    pub head_rows: u64,
    /// CRC-32 of the numbers of those rows.
    pub head: u32,
}

/// Rows of the minibatches of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Rows of minibatch 0.
    pub first: u64,
    /// Rows of all others.
    pub size: u64,
}

/// One input as it is read.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: String,
    rows: u64,
    hasher: crc32fast::Hasher,
    /// Checksums after 1, 2, 4 … rows.
    heads: Vec<u32>,
}

impl Seen {
    /// The checksum of so many rows, a power of two.
    fn head(&self, rows: u64) -> Option<u32> {
        rows.is_power_of_two().then(|| self.heads.get(rows.trailing_zeros() as usize).copied()).flatten()
    }

    /// What was learned when only so many rows were.
    fn learned(&self, rows: u64) -> InputRead {
        let most = (1u64 << self.heads.len()) / 2;
        let head_rows = if rows == 0 { 0 } else { most.min(1 << rows.ilog2()) };
        InputRead { name: self.name.clone(), rows, head_rows, head: self.head(head_rows).unwrap_or(0) }
    }
}

#[derive(Debug, Default)]
struct Log {
    seen: Vec<Seen>,
    /// What an earlier run has read.
    then: Reading,
    cut: Cut,
    sizes: BTreeMap<u64, u64>,
}

/// What is being read. Whoever reads writes it; whoever saves a checkpoint reads it.
#[derive(Clone, Debug, Default)]
pub struct ReadLog(Arc<Mutex<Log>>);

impl ReadLog {
    fn log(&self) -> MutexGuard<'_, Log> {
        // The log is whole between any two statements: whoever panicked left nothing half done.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Another input, behind those so far.
    pub(crate) fn add_input(&self, name: String) {
        self.log().seen.push(Seen { name, ..Seen::default() });
    }

    /// What an earlier run has read: what is read now must begin like it.
    pub fn expect(&self, then: Reading) {
        let mut log = self.log();
        log.sizes = then.sizes.clone();
        log.then = then;
    }

    /// Good rows of an input so far.
    pub(crate) fn rows(&self, input: usize) -> u64 {
        self.log().seen[input].rows
    }

    /// Rows of an input that were read, each as its numbers; refused when they are not those of the earlier run.
    pub(crate) fn read<'a>(
        &self,
        input: usize,
        rows: impl Iterator<Item = &'a [f64]>,
    ) -> Result<(), ReadError> {
        let mut log = self.log();
        let seen = &mut log.seen[input];
        for row in rows {
            seen.rows += 1;
            if seen.rows <= HEAD_ROWS {
                row.iter().for_each(|value| seen.hasher.update(&value.to_bits().to_le_bytes()));
            }
            if seen.rows == 1 << seen.heads.len() && seen.heads.len() < MOST_HEADS {
                seen.heads.push(seen.hasher.clone().finalize());
            }
        }
        log.check(input)
    }

    /// Rows of an input that were passed over.
    pub(crate) fn passed(&self, input: usize, rows: u64) -> Result<(), ReadError> {
        let mut log = self.log();
        log.seen[input].rows += rows;
        log.check(input)
    }

    /// The input has no more rows.
    pub(crate) fn ended(&self, input: usize) -> Result<(), ReadError> {
        let log = self.log();
        match (log.seen.get(input), log.then.inputs.get(input)) {
            (Some(seen), Some(then)) if seen.rows < then.rows => Err(ReadError::Shorter {
                file: seen.name.clone(),
                rows: seen.rows,
                then: then.name.clone(),
                then_rows: then.rows,
            }),
            _ => Ok(()),
        }
    }

    /// There are no more inputs.
    pub(crate) fn all_ended(&self) -> Result<(), ReadError> {
        let log = self.log();
        match log.then.inputs.get(log.seen.len()) {
            Some(then) => Err(ReadError::InputMissing { then: then.name.clone() }),
            None => Ok(()),
        }
    }

    /// How the stream is cut into minibatches.
    pub fn cut(&self, cut: Cut) {
        self.log().cut = cut;
    }

    /// Rows of a minibatch: as many as it had, if it was learned from, and as usual if not.
    pub fn size(&self, batch: BatchId) -> u64 {
        let log = self.log();
        log.sizes.get(&batch.0).copied().unwrap_or(log.cut.usual(batch))
    }

    /// A minibatch was cut; it may have fewer rows than usual.
    pub fn note(&self, batch: BatchId, rows: u64) {
        let mut log = self.log();
        match rows == log.cut.usual(batch) {
            true => log.sizes.remove(&batch.0),
            false => log.sizes.insert(batch.0, rows),
        };
    }

    /// Rows of the minibatches up to and with this one.
    pub fn rows_up_to(&self, last: BatchId) -> u64 {
        self.log().rows_up_to(last)
    }

    /// What a run that goes on from these minibatches has to know.
    pub fn reading(&self, absorbed: &BatchSet) -> Reading {
        let log = self.log();
        let Some((_, last)) = absorbed.runs().last().copied() else { return Reading::default() };
        let mut left = log.rows_up_to(BatchId(last));
        let mut inputs = Vec::new();
        for (ix, seen) in log.seen.iter().enumerate() {
            if left == 0 {
                break;
            }
            let input = match log.then.inputs.get(ix) {
                // Not reached again yet.
                Some(then) if then.rows > seen.rows => {
                    InputRead { rows: then.rows.min(left), ..then.clone() }
                }
                _ => seen.learned(seen.rows.min(left)),
            };
            left -= input.rows;
            inputs.push(input);
        }
        let sizes = log.sizes.iter().map(|(batch, rows)| (*batch, *rows));
        Reading { inputs, sizes: sizes.filter(|(batch, _)| absorbed.contains(BatchId(*batch))).collect() }
    }
}

impl Cut {
    fn usual(self, batch: BatchId) -> u64 {
        if batch.0 == 0 { self.first } else { self.size }
    }
}

impl Log {
    fn rows_up_to(&self, last: BatchId) -> u64 {
        let cut = self.cut;
        let usual = cut.first.saturating_add(cut.size.saturating_mul(last.0));
        self.sizes.range(..=last.0).fold(usual, |rows, (batch, size)| {
            rows.saturating_sub(cut.usual(BatchId(*batch))).saturating_add(*size)
        })
    }

    /// Whether an input is still the one that it was.
    fn check(&self, input: usize) -> Result<(), ReadError> {
        let (seen, Some(then)) = (&self.seen[input], self.then.inputs.get(input)) else { return Ok(()) };
        if seen.rows >= then.head_rows && then.head_rows > 0 && seen.head(then.head_rows) != Some(then.head) {
            return Err(ReadError::OtherInput { file: seen.name.clone(), then: then.name.clone() });
        }
        let last = input + 1 == self.then.inputs.len();
        if !last && seen.rows > then.rows {
            return Err(ReadError::GrownWithin {
                file: seen.name.clone(),
                then_rows: then.rows,
                next: self.then.inputs[input + 1].name.clone(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Cut = Cut { first: 300, size: 100 };

    fn log(inputs: &[(&str, u64)], then: Reading) -> Result<ReadLog, ReadError> {
        let log = ReadLog::default();
        log.cut(CUT);
        log.expect(then);
        inputs.iter().for_each(|(name, _)| log.add_input((*name).to_owned()));
        for (ix, (name, rows)) in inputs.iter().enumerate() {
            let start = name.len() as f64;
            let rows: Vec<[f64; 1]> = (0..*rows).map(|row| [start + row as f64]).collect();
            log.read(ix, rows.iter().map(|row| &row[..]))?;
            log.ended(ix)?;
        }
        log.all_ended()?;
        Ok(log)
    }

    fn absorbed(last: u64) -> BatchSet {
        BatchSet::from_runs(vec![(0, last)]).unwrap()
    }

    #[test]
    fn rows_are_shared_out_to_the_inputs_they_came_from() {
        let log = log(&[("a", 350), ("bb", 0), ("c", 500)], Reading::default()).unwrap();
        let rows = |last| log.reading(&absorbed(last)).inputs.iter().map(|i| i.rows).collect::<Vec<_>>();
        assert_eq!(rows(0), [300]);
        assert_eq!(rows(1), [350, 0, 50]);
        assert_eq!(rows(3), [350, 0, 250]);
    }

    #[test]
    fn an_input_that_begins_alike_is_the_same_and_any_other_is_not() {
        let then = log(&[("a", 350)], Reading::default()).unwrap();
        for last in [0, 1] {
            let then = then.reading(&absorbed(last));
            assert!(log(&[("b", 350)], then.clone()).is_ok(), "only the name differs");
            assert!(log(&[("a", 9000), ("c", 7)], then.clone()).is_ok(), "it has grown");
            assert!(matches!(log(&[("bb", 9000)], then.clone()), Err(ReadError::OtherInput { .. })));
            assert!(matches!(log(&[("a", 299)], then.clone()), Err(ReadError::Shorter { .. })));
            assert!(matches!(log(&[], then.clone()), Err(ReadError::InputMissing { .. })));
        }
    }

    #[test]
    fn an_input_may_not_grow_when_another_one_was_read_behind_it() {
        let then = log(&[("a", 350), ("c", 500)], Reading::default()).unwrap();
        let (one, both) = (then.reading(&absorbed(0)), then.reading(&absorbed(1)));
        assert!(log(&[("a", 351), ("c", 500)], one).is_ok());
        assert!(matches!(log(&[("a", 351), ("c", 500)], both), Err(ReadError::GrownWithin { .. })));
    }

    #[test]
    fn short_minibatches_are_counted_as_they_were() {
        let log = ReadLog::default();
        log.cut(CUT);
        log.note(BatchId(0), 300);
        log.note(BatchId(2), 17);
        log.note(BatchId(4), 1);
        assert_eq!(log.rows_up_to(BatchId(3)), 517);
        assert_eq!(log.size(BatchId(2)), 17);
        // Only what was learned from is a fact about the stream; the rest is cut anew.
        assert_eq!(log.reading(&absorbed(3)).sizes, BTreeMap::from([(2, 17)]));
        log.note(BatchId(2), 100);
        assert_eq!(log.rows_up_to(BatchId(4)), 601);
    }
}
