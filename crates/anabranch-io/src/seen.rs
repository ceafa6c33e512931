//! What was read of which input, so that a run that goes on finds its place again, and notices when it is another input.
//!
//! A checkpoint keeps for each input its rows that were learned from and a checksum of the first of them; and the
//! minibatches that had another number of rows than the others, such as the last one of a file that has grown since. Rows
//! are compared and not bytes: a file may have been compressed, renamed, or written anew with more rows at its end.
//!
//! A model keeps the same of all inputs that it has learned from, so that no row is learned twice when it goes on with other
//! inputs or is merged with other models.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use anabranch::central::{BatchId, BatchSet};
use serde::{Deserialize, Serialize};

use crate::error::ReadError;

/// Checksums are taken after 1, 2, 4 … rows, up to this many.
const MOST_HEADS: usize = 9;

/// Rows that the last checksum covers.
pub(crate) const HEAD_ROWS: u64 = 1 << (MOST_HEADS - 1);

/// Inputs of fewer rows may well begin alike without being the same.
const TELLING_ROWS: u64 = 8;

/// Inputs that a model remembers: the last ones.
const MOST_INPUTS: usize = 1000;

/// What a run has read: how it finds its place again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The inputs, in their order, up to the last that was learned from.
    pub inputs: Vec<InputRead>,
    /// Minibatches with another number of rows than usual.
    pub sizes: BTreeMap<u64, u64>,
    /// The first minibatch of these inputs: those before are of the model that the run went on from.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: u64,
}

fn is_zero(start: &u64) -> bool {
    *start == 0
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

impl InputRead {
    /// True when both begin with the same rows, as far as few rows can tell.
    pub fn begins_like(&self, other: &Self) -> bool {
        self.head_rows >= TELLING_ROWS && (self.head_rows, self.head) == (other.head_rows, other.head)
    }

    /// All inputs of both, or the last ones where they are very many.
    pub fn joined(mut earlier: Vec<Self>, later: Vec<Self>) -> Vec<Self> {
        earlier.extend(later);
        earlier.split_off(earlier.len().saturating_sub(MOST_INPUTS))
    }
}

/// Rows of the minibatches of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The first minibatch: those before belong to another stream.
    pub start: u64,
    /// Rows of minibatch 0.
    pub first: u64,
    /// Rows of all others.
    pub size: u64,
}

/// One input as it is read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "StoredSeen", into = "StoredSeen")]
pub struct Seen {
    name: String,
    rows: u64,
    hasher: crc32fast::Hasher,
    /// Checksums after 1, 2, 4 … rows.
    heads: Vec<u32>,
}

/// The same as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredSeen {
    name: String,
    rows: u64,
    checksum: u32,
    heads: Vec<u32>,
}

impl From<StoredSeen> for Seen {
    fn from(StoredSeen { name, rows, checksum, heads }: StoredSeen) -> Self {
        Self { name, rows, hasher: crc32fast::Hasher::new_with_initial(checksum), heads }
    }
}

impl From<Seen> for StoredSeen {
    fn from(Seen { name, rows, hasher, heads }: Seen) -> Self {
        Self { name, rows, checksum: hasher.finalize(), heads }
    }
}

impl Seen {
    /// An input of this name, of which nothing has been read.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Good rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that were read, each as its numbers.
    pub fn read<'a>(&mut self, rows: impl Iterator<Item = &'a [f64]>) {
        for row in rows {
            self.rows += 1;
            if self.rows <= HEAD_ROWS {
                row.iter().for_each(|value| self.hasher.update(&value.to_bits().to_le_bytes()));
            }
            if self.rows == 1 << self.heads.len() && self.heads.len() < MOST_HEADS {
                self.heads.push(self.hasher.clone().finalize());
            }
        }
    }

    /// What was learned, if all was.
    pub fn input(&self) -> InputRead {
        self.learned(self.rows)
    }

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
    /// What has been learned before, and may not be learned again.
    known: Vec<InputRead>,
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
        self.log().seen.push(Seen::new(name));
    }

    /// What an earlier run has read: what is read now must begin like it.
    pub fn expect(&self, then: Reading) {
        let mut log = self.log();
        log.sizes = then.sizes.clone();
        log.then = then;
    }

    /// What has been learned before: it is refused when it is read now.
    pub fn refuse(&self, known: Vec<InputRead>) {
        self.log().known = known;
    }

    /// The inputs so far that have rows.
    pub fn inputs(&self) -> Vec<InputRead> {
        let log = self.log();
        log.seen.iter().filter(|seen| seen.rows > 0).map(Seen::input).collect()
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
        log.seen[input].read(rows);
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
        log.check_new(input)?;
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
        let start = log.cut.start;
        let absorbed = absorbed.since(start);
        let Some((_, last)) = absorbed.runs().last().copied() else {
            return Reading { start, ..Reading::default() };
        };
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
        let sizes = sizes.filter(|(batch, _)| absorbed.contains(BatchId(*batch))).collect();
        Reading { inputs, sizes, start }
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
        if last.0 < cut.start {
            return 0;
        }
        let others = cut.size.saturating_mul(last.0 - cut.start);
        let usual = cut.usual(BatchId(cut.start)).saturating_add(others);
        self.sizes.range(cut.start..=last.0).fold(usual, |rows, (batch, size)| {
            rows.saturating_sub(cut.usual(BatchId(*batch))).saturating_add(*size)
        })
    }

    /// Whether an input is none of those that were learned before.
    fn check_new(&self, input: usize) -> Result<(), ReadError> {
        let Some(seen) = self.seen.get(input) else { return Ok(()) };
        let now = seen.input();
        // A file that has grown begins with what was learned of it.
        let grown = |known: &InputRead| {
            known.head_rows >= TELLING_ROWS && seen.head(known.head_rows) == Some(known.head)
        };
        match self.known.iter().find(|known| known.begins_like(&now) || grown(known)) {
            Some(known) => {
                Err(ReadError::LearnedBefore { file: seen.name.clone(), then: known.name.clone() })
            }
            None => Ok(()),
        }
    }

    /// Whether an input is still the one that it was.
    fn check(&self, input: usize) -> Result<(), ReadError> {
        if self.seen[input].heads.len() == MOST_HEADS {
            self.check_new(input)?;
        }
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

    const CUT: Cut = Cut { start: 0, first: 300, size: 100 };

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

    #[test]
    fn minibatches_of_an_earlier_stream_have_no_rows_in_this_one() {
        let log = log(&[("a", 350)], Reading::default()).unwrap();
        log.cut(Cut { start: 40, ..CUT });
        assert_eq!([39, 40, 42].map(|last| log.rows_up_to(BatchId(last))), [0, 100, 300]);
        log.note(BatchId(41), 7);
        let reading = log.reading(&absorbed(42));
        assert_eq!((reading.start, reading.inputs[0].rows), (40, 207));
    }

    #[test]
    fn rows_that_were_learned_before_are_refused_and_others_are_not() {
        let read = |name: &str, rows: u64, known: &[InputRead]| {
            let log = ReadLog::default();
            log.refuse(known.to_vec());
            log.add_input(name.to_owned());
            let rows: Vec<[f64; 1]> = (0..rows).map(|row| [name.len() as f64 + row as f64]).collect();
            log.read(0, rows.iter().map(|row| &row[..]))?;
            log.ended(0).map(|()| log.inputs())
        };
        for rows in [9, 300] {
            let known = read("a", rows, &[]).unwrap();
            let again = read("b", rows, &known);
            assert!(
                matches!(again, Err(ReadError::LearnedBefore { .. })),
                "{rows}: another name, the same rows"
            );
            assert!(read("cc", rows, &known).is_ok());
        }
        let known = read("a", 300, &[]).unwrap();
        assert!(read("a", 5000, &known).is_err(), "it has grown, and the first rows are in the model");
        let few = read("a", 5, &[]).unwrap();
        assert!(read("a", 5, &few).is_ok(), "five equal rows may be others");
    }

    #[test]
    fn a_model_remembers_the_last_of_very_many_inputs() {
        let input = |n: u64| InputRead { name: n.to_string(), rows: n, head_rows: 8, head: n as u32 };
        let all = (0..3000).fold(Vec::new(), |all, n| InputRead::joined(all, vec![input(n)]));
        assert_eq!((all.len(), all[0].rows), (MOST_INPUTS, 2000));
    }
}
