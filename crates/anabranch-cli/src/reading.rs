//! From the reading flags to a stream of minibatches: rows checked against the family, named, and skipped on resume.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anabranch::batch::{Batch, Minibatch};
use anabranch::central::{BatchId, BatchSet};
use anabranch::engine::BatchSource;
use anabranch::family::{AnyFamily, DomainError, Family};
use anabranch_io::{
    Cut, Held, Input, InputRead, OnBadRow, OnMissing, ReadLog, ReadOptions, Reading, Source, open,
};

use crate::args::{BadRow, InputFormat, Missing, ReadArgs, YesNo};
use crate::failure::Failure;
use crate::picture::short_number;
use crate::stop;

/// Rows that are read at a time when their number does not matter.
pub const ROWS_AT_ONCE: usize = 8192;

/// Rows that are read between two looks at a slow stream.
const PIECE: usize = 64;

/// How often somebody looks while no row comes.
const TICK: Duration = Duration::from_millis(20);

/// The options of the reader.
pub fn options(args: &ReadArgs) -> Result<ReadOptions, Failure> {
    let format = match args.format {
        None => None,
        Some(InputFormat::Rows(format)) => Some(format),
        Some(InputFormat::Npz | InputFormat::Ldac | InputFormat::Uci | InputFormat::Txt) => {
            return Err(Failure::input("--format: these are documents, not rows")
                .with_hint("documents are fitted with --model hdp"));
        }
    };
    if args.text.is_some() {
        return Err(Failure::input("--text names a column of documents; this is a model of rows"));
    }
    let delimiter =
        match args.delimiter {
            None => None,
            Some(c) => Some(u8::try_from(c).ok().filter(u8::is_ascii).ok_or_else(|| {
                Failure::input(format!("--delimiter {c:?} is not a single ASCII character"))
            })?),
        };
    Ok(ReadOptions {
        format,
        columns: args.columns.clone(),
        on_bad_row: on_bad_row(args),
        has_header: args.header.map(|header| header == YesNo::Yes),
        delimiter,
        interrupted: Some(stop::asked),
        max_memory: Some(args.max_memory),
        ..ReadOptions::default()
    })
}

/// The options of the reader for models that take missing values.
pub fn options_with_missing(args: &ReadArgs) -> Result<ReadOptions, Failure> {
    let on_missing = match args.missing {
        None | Some(Missing::Model) => OnMissing::Keep,
        Some(Missing::Fail) => OnMissing::Refuse,
        Some(Missing::Skip) => OnMissing::Skip,
    };
    Ok(ReadOptions { on_missing, ..options(args)? })
}

pub fn on_bad_row(args: &ReadArgs) -> OnBadRow {
    match args.on_bad_row {
        BadRow::Fail => OnBadRow::Fail,
        BadRow::Skip => OnBadRow::Skip,
    }
}

/// Opens the inputs of a command.
pub fn open_inputs(inputs: &[String], options: &ReadOptions) -> Result<Box<dyn Source>, Failure> {
    let inputs: Vec<Input> = inputs.iter().map(|argument| Input::from_argument(argument)).collect();
    if inputs.iter().filter(|input| matches!(input, Input::Stdin)).count() > 1 {
        return Err(Failure::input("standard input can be read once, not twice"));
    }
    Ok(open(&inputs, options)?)
}

/// Everything that is left of a source, for data that must fit in memory.
pub fn read_all(source: &mut dyn Source) -> Result<Batch, Failure> {
    let mut values = Vec::new();
    let dimensions = source.schema().dimensions();
    while let Some(batch) = source.next_batch(ROWS_AT_ONCE)? {
        values.extend_from_slice(batch.values());
    }
    Batch::with_missing(dimensions, values).map_err(Failure::input)
}

/// What messages call the rows of these inputs.
pub fn input_name(inputs: &[String]) -> String {
    match inputs {
        [one] if one == "-" => "standard input".to_owned(),
        several => several.join(" + "),
    }
}

/// Why this row, which has this number, is not in the domain of the family.
pub fn out_of_domain(input: &str, fault: &DomainError, columns: &[String], number: u64) -> Failure {
    let column = columns.get(fault.column).map_or_else(|| fault.column.to_string(), Clone::clone);
    let value = if fault.value.is_nan() { "a missing value".to_owned() } else { short_number(fault.value) };
    Failure::input(format!("{input}: row {number}, column \"{column}\": {value} is not {}", fault.expected))
        .with_hint("pass --on-bad-row skip")
}

/// Checks rows against a family's domain, after the reader has checked that they are numbers.
#[derive(Clone, Debug)]
pub struct DomainFilter {
    /// What messages call the rows.
    input: String,
    /// `None` until the first rows have decided it.
    family: Option<AnyFamily>,
    columns: Vec<String>,
    on_bad_row: OnBadRow,
    /// The largest number, where the family alone does not say.
    largest: Option<Largest>,
    rows_seen: u64,
    skipped: u64,
}

/// Numbers lie within ± this, in words too.
#[derive(Clone, Copy, Debug)]
pub struct Largest(pub f64, pub &'static str);

impl DomainFilter {
    /// For rows of these columns; messages name them after `inputs`.
    pub fn new(
        inputs: &[String],
        family: Option<AnyFamily>,
        columns: Vec<String>,
        on_bad_row: OnBadRow,
    ) -> Self {
        let input = input_name(inputs);
        Self { input, family, columns, on_bad_row, largest: None, rows_seen: 0, skipped: 0 }
    }

    /// Also refuses numbers beyond this.
    pub fn within(self, largest: Largest) -> Self {
        Self { largest: Some(largest), ..self }
    }

    fn check(&self, family: &AnyFamily, row: &[f64]) -> Result<(), DomainError> {
        if let Some(Largest(most, expected)) = self.largest
            && let Some(column) = row.iter().position(|value| value.abs() > most)
        {
            return Err(DomainError { column, value: row[column], expected });
        }
        family.check(row)
    }

    /// The family whose domain decides.
    pub fn family(&self) -> Option<&AnyFamily> {
        self.family.as_ref()
    }

    /// Rows left out so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Rows that passed so far.
    pub fn passed(&self) -> u64 {
        self.rows_seen - self.skipped
    }

    /// The rows that lie in the domain, or the first that does not.
    pub fn filter(&mut self, batch: Batch) -> Result<Batch, Failure> {
        let first_row = self.rows_seen + 1;
        self.rows_seen += batch.n_rows() as u64;
        let Some(family) = &self.family else { return Ok(batch) };
        let bad: Vec<usize> =
            (0..batch.n_rows()).filter(|row| self.check(family, batch.row(*row)).is_err()).collect();
        let Some(first_bad) = bad.first() else { return Ok(batch) };
        if self.on_bad_row == OnBadRow::Fail {
            let fault = self.check(family, batch.row(*first_bad)).expect_err("it was found bad above");
            let number = first_row + *first_bad as u64;
            return Err(out_of_domain(&self.input, &fault, &self.columns, number)
                .with_hint("choose another --family, or pass --on-bad-row skip"));
        }
        self.skipped += bad.len() as u64;
        let mut bad = bad.into_iter().peekable();
        let good: Vec<usize> = (0..batch.n_rows()).filter(|row| bad.next_if_eq(row).is_none()).collect();
        Ok(batch.select(&good))
    }
}

/// A stream cut into minibatches.
pub struct Minibatches {
    source: Box<dyn Source>,
    filter: DomainFilter,
    log: ReadLog,
    cut: Cut,
    next: u64,
    absorbed: BatchSet,
    sample: Option<RowSample>,
    /// The first minibatch, when it was read ahead to look at the data and has still to be learned from.
    ahead: Option<Batch>,
    fading: Option<Fading>,
    /// What columns have held.
    held: Vec<Held>,
    counts: Vec<Counts>,
}

/// Whether a column has grown by one with every row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counts {
    /// There was no row yet.
    Unknown,
    /// It has, to this value.
    To(f64),
    No,
}

impl Counts {
    fn then(self, value: f64) -> Self {
        match self {
            Self::Unknown => Self::To(value),
            Self::To(last) if value == last + 1.0 => Self::To(value),
            _ => Self::No,
        }
    }
}

/// How rows fade with the seconds, and what the last minibatch made of it.
#[derive(Clone, Copy, Debug)]
struct Fading {
    half_life: f64,
    clock: f64,
    faded: f64,
}

impl Minibatches {
    /// A stream from its first row. Nothing is absorbed yet.
    pub fn new(
        source: Box<dyn Source>,
        filter: DomainFilter,
        batch_size: usize,
        sample: Option<RowSample>,
    ) -> Self {
        let log = source.log();
        let cut = Cut { start: 0, first: batch_size as u64, size: batch_size as u64 };
        log.cut(cut);
        let columns = source.schema().dimensions();
        Self {
            held: vec![Held::Nothing; columns],
            counts: vec![Counts::Unknown; columns],
            source,
            filter,
            log,
            cut,
            next: 0,
            absorbed: BatchSet::default(),
            sample,
            ahead: None,
            fading: None,
        }
    }

    /// Rows fade with this half-life in seconds.
    pub fn fade(&mut self, half_life: f64) {
        self.fading = Some(Fading { half_life, clock: 0.0, faded: 0.0 });
    }

    /// What is read of which input.
    pub fn log(&self) -> ReadLog {
        self.log.clone()
    }

    fn begin_with(&mut self, first: u64) {
        self.cut.first = first;
        self.log.cut(self.cut);
    }

    /// Reads minibatch 0 of this many rows, keeps it for [`Minibatches::next`], and shows those in the domain.
    pub fn read_ahead(&mut self, rows: usize) -> Result<Option<Batch>, Failure> {
        self.begin_with(rows as u64);
        self.ahead = self.source.next_batch(rows)?;
        // A copy of the filter looks at them: they are counted when they are learned from.
        let mut filter = self.filter.clone();
        self.ahead.clone().map(|batch| filter.filter(batch)).transpose()
    }

    /// The same in pieces, for whoever waits and wants to look at what has come, also while no more comes.
    pub fn read_ahead_while(
        &mut self,
        rows: usize,
        mut look: impl FnMut(usize, &dyn Fn() -> Option<Batch>, &anabranch_io::Schema),
    ) -> Result<Option<Batch>, Failure> {
        self.begin_with(rows as u64);
        let (source, filter) = (&mut self.source, &self.filter);
        let mut come: Option<Batch> = None;
        let (pieces, waiting) = sync_channel(1);
        let read: Result<(), Failure> = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut left = rows;
                while left > 0 {
                    let Some(piece) = source.next_batch(left.min(PIECE))? else { break };
                    left -= piece.n_rows();
                    // Whoever waits leaves after the last piece only.
                    let _ = pieces.send((piece, source.schema().clone()));
                }
                Ok(())
            });
            let mut schema = None;
            loop {
                match waiting.recv_timeout(TICK) {
                    Ok((piece, known)) => {
                        schema = Some(known);
                        match &mut come {
                            Some(come) => come.append(&piece),
                            None => come = Some(piece),
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if let (Some(come), Some(schema)) = (&come, &schema) {
                    // A row outside the domain is told when it is learned from.
                    let good = || filter.clone().filter(come.clone()).ok();
                    look(come.n_rows(), &good, schema);
                }
            }
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        read?;
        self.ahead = come;
        let mut filter = self.filter.clone();
        self.ahead.clone().map(|batch| filter.filter(batch)).transpose()
    }

    /// Rows of the minibatch that was read ahead, before any was left out.
    pub fn rows_ahead(&self) -> usize {
        self.ahead.as_ref().map_or(0, Batch::n_rows)
    }

    /// Names minibatches from this one on: those before are of the model that the run goes on from. Inputs that it has
    /// learned from are refused.
    pub fn go_on(&mut self, start: u64, known: Vec<InputRead>) {
        self.cut.start = start;
        self.next = start;
        self.log.cut(self.cut);
        self.log.refuse(known);
    }

    /// Passes over the minibatches that are in the journal already, which was made by a run that had read this; minibatch 0
    /// has `first_rows` rows unless it was short.
    pub fn resume(&mut self, absorbed: BatchSet, first_rows: u64, reading: Reading) -> Result<(), Failure> {
        self.begin_with(first_rows);
        // A checkpoint of version 0.1 does not say how many rows its last minibatch had.
        let exact = !reading.inputs.is_empty();
        self.log.expect(reading);
        let absorbed = absorbed.since(self.cut.start);
        let begun = absorbed.runs().first().filter(|(first, _)| *first == self.cut.start);
        if let Some((_, last)) = begun.copied() {
            let last = BatchId(last);
            let wanted = self.log.rows_up_to(last);
            let missing = wanted - self.pass_over(wanted)?;
            let may_be_missing = match (exact, last) {
                (true, _) => 0,
                (false, BatchId(0)) => wanted,
                (false, _) => self.cut.size - 1,
            };
            if missing > 0 && stop::asked() {
                return Err(Failure::input("stopped before the first new row: the checkpoint is as it was"));
            }
            if missing > may_be_missing {
                return Err(Failure::input(format!(
                    "the checkpoint has learned from {wanted} rows, the input has {}",
                    wanted - missing
                ))
                .with_hint("pass the same input as before, or start anew without --resume"));
            }
            if missing > 0 {
                self.log.note(last, self.log.size(last) - missing);
            }
            self.next = last.0 + 1;
        }
        self.absorbed = absorbed;
        self.held.fill(Held::Several);
        self.counts.fill(Counts::No);
        Ok(())
    }

    /// Passes over rows that were learned from before. Those left out then are counted again.
    fn pass_over(&mut self, rows: u64) -> Result<u64, Failure> {
        if self.filter.on_bad_row == OnBadRow::Fail {
            let passed = self.source.skip_rows(rows)?;
            self.filter.rows_seen += passed;
            return Ok(passed);
        }
        let mut passed = 0;
        while passed < rows {
            let at_once = (rows - passed).min(ROWS_AT_ONCE as u64) as usize;
            let Some(batch) = self.source.next_batch(at_once)? else { break };
            passed += batch.n_rows() as u64;
            self.filter.filter(batch)?;
        }
        self.source.take_times();
        Ok(passed)
    }

    /// Rows of the whole input, when it says.
    pub fn rows_hint(&self) -> Option<u64> {
        self.source.rows_hint()
    }

    /// Replaces the family that rows are checked against.
    pub fn check_against(&mut self, family: AnyFamily) {
        self.filter.family = Some(family);
    }

    /// Rows left out by the reader and by the family's domain.
    pub fn skipped_rows(&self) -> u64 {
        self.source.skipped_rows() + self.filter.skipped()
    }

    /// What each column has held so far, as far as that is known.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// Columns of numbers that count the rows.
    pub fn counting_columns(&self) -> Vec<usize> {
        let columns = self.schema().columns.iter().zip(&self.counts).enumerate();
        let counting = columns
            .filter(|(_, (column, counts))| column.categories.is_none() && matches!(counts, Counts::To(_)));
        counting.map(|(place, _)| place).collect()
    }

    fn look(&mut self, batch: &Batch) {
        Held::look(&mut self.held, batch);
        for (column, counts) in self.counts.iter_mut().enumerate() {
            let mut rows = batch.rows();
            while *counts != Counts::No
                && let Some(row) = rows.next()
            {
                *counts = counts.then(row[column]);
            }
        }
    }

    /// Missing values of the rows that were read.
    pub fn missing_cells(&self) -> u64 {
        self.source.missing_cells()
    }

    /// The sample of rows, if one was asked for.
    pub fn take_sample(&mut self) -> Option<RowSample> {
        self.sample.take()
    }

    /// The columns, with every category seen so far.
    pub fn schema(&self) -> &anabranch_io::Schema {
        self.source.schema()
    }
}

impl BatchSource for Minibatches {
    type Batch = Batch;
    type Error = Failure;

    fn next(&mut self) -> Result<Option<(BatchId, Batch)>, Failure> {
        loop {
            let id = BatchId(self.next);
            let batch = match self.ahead.take() {
                Some(batch) => Some(batch),
                None => self.source.next_batch(self.log.size(id) as usize)?,
            };
            let Some(mut batch) = batch else { return Ok(None) };
            let times = self.source.take_times();
            if let Some(fading) = &mut self.fading {
                (batch, fading.clock) =
                    anabranch_io::time::weigh(batch, &times, fading.half_life).map_err(Failure::input)?;
            }
            self.next += 1;
            if !self.absorbed.contains(id) {
                let rows = batch.n_rows() as u64;
                if rows < self.log.size(id) && is_within(&self.absorbed, id) {
                    // Somebody wanted to stop. Minibatches behind this one are learned, and begin behind its whole.
                    return Ok(None);
                }
                self.log.note(id, rows);
            }
            let before = self.filter.passed();
            let batch = self.filter.filter(batch)?;
            if self.absorbed.contains(id) {
                continue;
            }
            if let Some(sample) = &mut self.sample {
                sample.add(&batch, before + 1);
            }
            self.look(&batch);
            if let Some(fading) = &mut self.fading {
                fading.faded = (batch.n_rows() as f64 - batch.mass()).max(0.0);
            }
            return Ok(Some((id, batch)));
        }
    }

    fn clock(&self) -> Option<f64> {
        self.fading.map(|fading| fading.clock)
    }

    fn faded(&self) -> f64 {
        self.fading.map_or(0.0, |fading| fading.faded)
    }
}

/// True when later minibatches are in the set.
pub fn is_within(absorbed: &BatchSet, id: BatchId) -> bool {
    absorbed.runs().last().is_some_and(|(_, last)| *last > id.0)
}

/// A uniform sample of the rows of a stream, of bounded size (Vitter's algorithm R).
#[derive(Clone, Debug)]
pub struct RowSample {
    rows: Vec<f64>,
    numbers: Vec<u64>,
    dimensions: usize,
    places: Places,
}

/// Where things of a stream go in a uniform sample of it (Vitter's algorithm R).
#[derive(Clone, Debug)]
pub struct Places {
    capacity: usize,
    seen: u64,
    rng: rand_xoshiro::Xoshiro256PlusPlus,
}

impl Places {
    /// A sample of up to `capacity`.
    pub fn new(capacity: usize, seed: u64) -> Self {
        use rand::SeedableRng;
        let rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5A11);
        Self { capacity, seen: 0, rng }
    }

    /// The place of the next one, which is new or takes that of an earlier one; `None` when it is not in the sample.
    pub fn next(&mut self) -> Option<usize> {
        use rand::RngExt;
        self.seen += 1;
        let place = match self.seen <= self.capacity as u64 {
            true => self.seen as usize - 1,
            false => self.rng.random_range(0..self.seen) as usize,
        };
        (place < self.capacity).then_some(place)
    }
}

impl RowSample {
    /// Keeps up to `capacity` rows.
    pub fn new(dimensions: usize, capacity: usize, seed: u64) -> Self {
        Self { rows: Vec::new(), numbers: Vec::new(), dimensions, places: Places::new(capacity, seed) }
    }

    /// Gives every row of the batch the same chance as all before it; the first has this number in the stream.
    pub fn add(&mut self, batch: &Batch, first_number: u64) {
        for (number, row) in (first_number..).zip(batch.rows()) {
            match self.places.next() {
                Some(place) if place < self.numbers.len() => {
                    self.rows[place * self.dimensions..(place + 1) * self.dimensions].copy_from_slice(row);
                    self.numbers[place] = number;
                }
                Some(_) => {
                    self.rows.extend_from_slice(row);
                    self.numbers.push(number);
                }
                None => {}
            }
        }
    }

    /// The sampled rows, one after another.
    pub fn values(&self) -> &[f64] {
        &self.rows
    }

    /// The number of each sampled row in the stream, from 1, without the rows that were skipped.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }
}
