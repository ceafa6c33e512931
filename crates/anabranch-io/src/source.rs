//! Files joined end to end and cut into batches.

use std::collections::VecDeque;

use anabranch::batch::Batch;

use crate::error::ReadError;
use crate::format::{self, Pick, Reader, Role};
use crate::input::{self, Opened};
use crate::kept::{Keep, KeptColumn, Rows};
use crate::options::{Format, Input, MAX_MEMORY, ReadOptions};
use crate::rows::{Categories, Sink};
use crate::schema::Schema;
use crate::seen::{HEAD_ROWS, ReadLog};
use crate::select::{self, Header, Wanted};

/// Rows that are passed over at a time when skipping.
const SKIPPED_AT_ONCE: usize = 4096;

/// Bytes of rows that are read between two looks at the memory that they take.
const PIECE_BYTES: usize = 64 << 20;

/// A stream of rows.
pub trait Source: Send {
    /// The columns of every batch, with the categories seen so far.
    fn schema(&self) -> &Schema;

    /// The next `max_rows` good rows, whatever files they come from; fewer only at the end, then
    /// `None`. The first call fails when there is no row at all.
    ///
    /// The same input is always cut into the same batches, however often rows are bad and wherever
    /// files end: resuming a fit depends on it.
    fn next_batch(&mut self, max_rows: usize) -> Result<Option<Batch>, ReadError>;

    /// The next `max_rows` rows, good and bad, with the cells that are passed through: fewer at the end, and where standard input
    /// pauses; then `None`. For sources that were opened with [`ReadOptions::passage`].
    fn next_rows(&mut self, max_rows: usize) -> Result<Option<Rows>, ReadError> {
        let batch = self.next_batch(max_rows)?;
        Ok(batch.map(|batch| Rows { batch, bad: vec![], kept: vec![] }))
    }

    /// The columns that are passed through.
    fn kept_columns(&self) -> &[KeptColumn] {
        &[]
    }

    /// Number of rows of all inputs, bad ones included, when every input says.
    fn rows_hint(&self) -> Option<u64>;

    /// Passes over `n` good rows, as if they had been read; returns how many there were.
    fn skip_rows(&mut self, n: u64) -> Result<u64, ReadError>;

    /// Bad rows left out so far.
    fn skipped_rows(&self) -> u64;

    /// When the rows were that were handed out since the last time, in seconds, where they say ([`ReadOptions::time`]).
    fn take_times(&mut self) -> Vec<f64> {
        Vec::new()
    }

    /// Missing values of the rows read so far, where they are kept.
    fn missing_cells(&self) -> u64 {
        0
    }

    /// What is read of which input, where that can be told.
    fn log(&self) -> ReadLog {
        ReadLog::default()
    }
}

/// Opens inputs as one stream of rows. Files are looked at here, so that a missing file or a column
/// that differs is told before the first row is read.
pub fn open(inputs: &[Input], options: &ReadOptions) -> Result<Box<dyn Source>, ReadError> {
    let Some(first) = inputs.first() else {
        return Err(ReadError::NoInput);
    };
    let mut joined: Option<Joined> = None;
    for input in inputs {
        match &mut joined {
            Some(joined) => joined.add(input)?,
            None => joined = Joined::start(input, options)?,
        }
    }
    match joined {
        Some(joined) => Ok(Box::new(joined)),
        None => Err(ReadError::Empty { file: first.label() }),
    }
}

/// A file of the stream.
enum Part {
    /// Open, its columns chosen.
    Ready(Box<dyn Reader>),
    /// To be opened when its turn comes: thousands of files must not be open at once.
    Later(Input),
}

/// Inputs joined end to end.
struct Joined {
    options: ReadOptions,
    /// The first file with columns, for messages.
    first: String,
    parts: VecDeque<Part>,
    /// Inputs that have ended: the number of the one in front.
    ended: usize,
    log: ReadLog,
    sink: Sink,
    rows_hint: Option<u64>,
    /// Good rows read or passed over.
    good_rows: u64,
    /// After an error nothing more is read: where the stream stands is no longer known.
    failed: bool,
}

impl Joined {
    /// The first input with columns decides the schema; `None` when this one has none.
    fn start(input: &Input, options: &ReadOptions) -> Result<Option<Self>, ReadError> {
        let first = input.label();
        let Some(mut reader) = open_reader(input, options)? else {
            return Ok(None);
        };
        let wanted = options.expect.as_ref().map(Wanted::Model);
        let chosen = select::choose(reader.header(), options, wanted, &first)?;
        let (schema, categories) = match &options.expect {
            Some(model) => (model.clone(), Categories::Closed),
            None => (select::schema_of(reader.header(), &chosen, options, &first)?, Categories::Open),
        };
        let mut sink = Sink::new(schema, categories, options.on_bad_row).on_missing(options.on_missing);
        if options.time.is_some() {
            sink = sink.timed();
        }
        if let Some(keep) = &options.passage {
            let kept = match keep {
                Keep::Nothing => vec![],
                Keep::All => (0..reader.header().width()).collect(),
                Keep::Columns(names) => select::keep(reader.header(), names, &first)?,
            };
            let is_number = |ix: &usize| {
                let slot = chosen.iter().position(|chosen| chosen == ix);
                reader.is_number(*ix) || slot.is_some_and(|slot| !sink.is_categorical(slot))
            };
            let column = |ix: &usize| KeptColumn {
                name: reader.header().names[*ix].clone(),
                is_number: is_number(ix),
            };
            let columns = kept.iter().map(column).collect();
            sink = sink.keeping(columns);
        }
        let picks = picks(reader.header(), &chosen, &sink, options, &first)?;
        reader.select(&picks)?;
        let log = ReadLog::default();
        log.add_input(first.clone());
        Ok(Some(Self {
            options: options.clone(),
            first,
            ended: 0,
            log,
            rows_hint: reader.rows(),
            parts: VecDeque::from([Part::Ready(reader)]),
            sink,
            good_rows: 0,
            failed: false,
        }))
    }

    /// Adds a further input. A plain file is checked and closed again; a pipe can be read only once
    /// and waits for its turn.
    fn add(&mut self, input: &Input) -> Result<(), ReadError> {
        let checkable = match input {
            Input::Path(path) if input::is_regular_file(input) || !path.exists() || path.is_dir() => true,
            Input::Path(_) | Input::Stdin => false,
            Input::Memory(_) => true,
        };
        if !checkable {
            self.rows_hint = None;
            self.log.add_input(input.label());
            self.parts.push_back(Part::Later(input.clone()));
            return Ok(());
        }
        let Some(reader) = self.open_later(input)? else {
            return Ok(());
        };
        self.log.add_input(input.label());
        self.rows_hint = self.rows_hint.zip(reader.rows()).map(|(sum, rows)| sum.saturating_add(rows));
        self.parts.push_back(match input {
            Input::Memory(_) => Part::Ready(reader),
            _ => Part::Later(input.clone()),
        });
        Ok(())
    }

    /// Opens a file that is not the first and lines its columns up with the schema.
    fn open_later(&self, input: &Input) -> Result<Option<Box<dyn Reader>>, ReadError> {
        let Some(mut reader) = open_reader(input, &self.options)? else {
            return Ok(None);
        };
        let wanted = match &self.options.expect {
            Some(model) => Wanted::Model(model),
            None => Wanted::FirstFile(self.sink.schema(), &self.first),
        };
        let chosen = select::choose(reader.header(), &self.options, Some(wanted), &input.label())?;
        let picks = picks(reader.header(), &chosen, &self.sink, &self.options, &input.label())?;
        reader.select(&picks)?;
        Ok(Some(reader))
    }

    /// The file whose turn it is; `None` when all are done.
    fn current(&mut self) -> Result<Option<&mut Box<dyn Reader>>, ReadError> {
        while let Some(Part::Later(input)) = self.parts.front() {
            let opened = match self.open_later(input) {
                Err(ReadError::Stopped { .. }) => {
                    self.parts.clear();
                    return Ok(None);
                }
                opened => opened?,
            };
            match opened {
                Some(reader) => self.parts[0] = Part::Ready(reader),
                None => self.pop()?,
            }
        }
        Ok(self.parts.front_mut().and_then(|part| match part {
            Part::Ready(reader) => Some(reader),
            Part::Later(_) => None,
        }))
    }

    /// The file in front has no more rows.
    fn pop(&mut self) -> Result<(), ReadError> {
        self.parts.pop_front();
        self.ended += 1;
        self.log.ended(self.ended - 1)
    }

    /// Reads on, file after file, until the sink has `target` rows or the input ends.
    fn fill(&mut self, target: usize) -> Result<(), ReadError> {
        while self.sink.rows() < target {
            // Opens the next file where needed; borrowed again below, apart from the sink.
            self.current()?;
            let Some(Part::Ready(reader)) = self.parts.front_mut() else {
                break;
            };
            let before = self.sink.rows();
            // In pieces, so that memory is looked at before it is gone.
            let piece = target.min(before + self.sink.rows_of(PIECE_BYTES));
            let allowed = self.options.limits.map(|limits| limits.rows_of(self.sink.schema().dimensions()));
            let left = allowed.map(|rows| rows.saturating_sub(self.good_rows + self.sink.skipped()));
            // One more than may be there tells that there are more.
            let piece =
                left.map_or(piece, |left| piece.min(left.saturating_add(1).try_into().unwrap_or(usize::MAX)));
            let read = reader.read(piece, &mut self.sink);
            self.log.read(self.ended, self.sink.finished(before))?;
            match read {
                Err(ReadError::Stopped { within_record, .. }) => {
                    self.sink.cut_off(within_record);
                    self.parts.clear();
                    break;
                }
                read => read?,
            }
            let seen = self.good_rows + self.sink.skipped() + self.sink.rows() as u64;
            if let Some(rows) = allowed.filter(|rows| seen > *rows) {
                return Err(ReadError::TooManyRows { file: self.first.clone(), rows });
            }
            let limit = self.options.max_memory.unwrap_or(MAX_MEMORY);
            if self.sink.bytes() > limit {
                let what = format!("a minibatch of rows of {} columns", self.sink.schema().dimensions());
                return Err(ReadError::too_large(&self.first, what, limit));
            }
            if reader.paused() {
                break;
            }
            if self.sink.rows() < piece {
                self.pop()?;
                if self.parts.is_empty() {
                    self.log.all_ended()?;
                }
            }
        }
        Ok(())
    }

    fn check_not_empty(&self) -> Result<(), ReadError> {
        if self.good_rows > 0 {
            return Ok(());
        }
        let file = self.first.clone();
        match (self.sink.skipped(), self.sink.first_flaw()) {
            (skipped, Some(reason)) => {
                Err(ReadError::AllSkipped { file, skipped, reason: reason.to_owned() })
            }
            _ => Err(ReadError::Empty { file }),
        }
    }

    fn read_batch(&mut self, max_rows: usize) -> Result<Option<Batch>, ReadError> {
        let max_rows = max_rows.max(1);
        self.sink.reserve(max_rows);
        self.fill(max_rows)?;
        self.good_rows += self.sink.rows() as u64;
        if self.sink.rows() == 0 {
            self.check_not_empty()?;
            return Ok(None);
        }
        let values = self.sink.take();
        let batch =
            Batch::with_missing(self.sink.schema().dimensions(), values).expect("the sink keeps whole rows");
        Ok(Some(batch))
    }

    fn read_rows(&mut self, max_rows: usize) -> Result<Option<Rows>, ReadError> {
        let max_rows = max_rows.max(1);
        self.sink.reserve(max_rows);
        self.fill(max_rows)?;
        self.good_rows += self.sink.good() as u64;
        if self.sink.rows() == 0 {
            self.check_not_empty()?;
            return Ok(None);
        }
        let (bad, kept) = self.sink.take_kept();
        let batch = Batch::with_missing(self.sink.schema().dimensions(), self.sink.take())
            .expect("the sink keeps whole rows");
        Ok(Some(Rows { batch, bad, kept }))
    }

    fn pass_over(&mut self, n: u64) -> Result<u64, ReadError> {
        let mut passed = 0;
        while passed < n {
            if self.current()?.is_none() {
                break;
            }
            // The first rows tell whether it is the same input, so they are looked at.
            let looked_at = self.log.rows(self.ended) >= HEAD_ROWS;
            if let (true, Some(reader)) = (looked_at, self.current()?) {
                let leapt = reader.leap(n - passed)?;
                self.log.passed(self.ended, leapt)?;
                passed += leapt;
                self.good_rows += leapt;
                if leapt > 0 {
                    continue;
                }
            }
            let most = if looked_at { SKIPPED_AT_ONCE } else { HEAD_ROWS as usize };
            let target = usize::try_from(n - passed).unwrap_or(usize::MAX).min(most);
            self.fill(target)?;
            let rows = self.sink.rows() as u64;
            self.sink.discard();
            passed += rows;
            self.good_rows += rows;
            if rows == 0 {
                break;
            }
        }
        Ok(passed)
    }

    fn note_failure<T>(&mut self, result: Result<T, ReadError>) -> Result<T, ReadError> {
        if result.is_err() {
            self.failed = true;
            self.parts.clear();
            self.sink.discard();
        }
        result
    }
}

impl Source for Joined {
    fn schema(&self) -> &Schema {
        self.sink.schema()
    }

    fn next_batch(&mut self, max_rows: usize) -> Result<Option<Batch>, ReadError> {
        if self.failed {
            return Ok(None);
        }
        let result = self.read_batch(max_rows);
        self.note_failure(result)
    }

    fn next_rows(&mut self, max_rows: usize) -> Result<Option<Rows>, ReadError> {
        if self.failed {
            return Ok(None);
        }
        let result = self.read_rows(max_rows);
        self.note_failure(result)
    }

    fn kept_columns(&self) -> &[KeptColumn] {
        self.sink.kept_columns()
    }

    fn rows_hint(&self) -> Option<u64> {
        self.rows_hint
    }

    fn skip_rows(&mut self, n: u64) -> Result<u64, ReadError> {
        if self.failed {
            return Ok(0);
        }
        let result = self.pass_over(n);
        self.note_failure(result)
    }

    fn skipped_rows(&self) -> u64 {
        self.sink.skipped()
    }

    fn missing_cells(&self) -> u64 {
        self.sink.missing_cells()
    }

    fn take_times(&mut self) -> Vec<f64> {
        self.sink.take_times()
    }

    fn log(&self) -> ReadLog {
        self.log.clone()
    }
}

fn open_reader(input: &Input, options: &ReadOptions) -> Result<Option<Box<dyn Reader>>, ReadError> {
    let (piece, all) = match options.limits {
        Some(limits) => (Some(limits.bytes), Some(limits.bytes)),
        None => (options.max_memory, None),
    };
    match input::open(input, options.format, options.interrupted, piece, all)? {
        Some(Opened { name, format: Format::Parquet, .. }) if options.limits.is_some() => {
            Err(ReadError::damaged(
                &name,
                Format::Parquet,
                "it is not read from strangers; Arrow, npy and JSON lines are",
            ))
        }
        Some(opened) => format::reader(opened, options),
        None => Ok(None),
    }
}

/// What is read of a file: first the cells that are passed through, so that those of a bad row are there too.
fn picks(
    header: &Header,
    chosen: &[usize],
    sink: &Sink,
    options: &ReadOptions,
    file: &str,
) -> Result<Vec<Pick>, ReadError> {
    let kept = sink.kept_columns();
    let mut picks = Vec::with_capacity(kept.len() + chosen.len());
    for column in kept {
        picks.push(Pick { ix: header.require(&column.name, file)?, role: Role::Kept });
    }
    picks.extend(chosen.iter().enumerate().map(|(slot, &ix)| {
        let role = if sink.is_categorical(kept.len() + slot) { Role::Category } else { Role::Number };
        Pick { ix, role }
    }));
    if let Some(time) = &options.time {
        picks.push(Pick { ix: header.require(time, file)?, role: Role::Time });
    }
    Ok(picks)
}
