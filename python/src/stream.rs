//! Rows as a stream, cut into minibatches that do not depend on how the rows were handed over.

use std::sync::atomic::{AtomicBool, Ordering};

use anabranch::batch::Batch;
use anabranch::central::{BatchId, BatchSet, Moment};
use anabranch::engine::BatchSource;
use anabranch::family::AnyFamily;
use anabranch_io::{Schema, Source};
use crossbeam_channel::Receiver;

use crate::error::Fault;
use crate::rows::{Beside, Buffer, Edge, Rows, Taken};

/// Where rows come from.
pub trait RowStream: Send {
    /// Appends up to `n` rows to the buffer; fewer only at the end.
    fn fill(&mut self, n: usize, buffer: &mut Buffer) -> Result<(), Fault>;

    /// The columns with the categories found so far, where they are found while reading.
    fn schema(&self) -> Option<&Schema> {
        None
    }
}

/// An array in Python's memory.
pub struct ArrayStream<'a> {
    rows: Rows<'a>,
    beside: Beside<'a>,
    at: usize,
}

impl<'a> ArrayStream<'a> {
    /// From the first row on.
    pub fn new(rows: Rows<'a>, beside: Beside<'a>) -> Self {
        Self { rows, beside, at: 0 }
    }
}

impl RowStream for ArrayStream<'_> {
    fn fill(&mut self, n: usize, buffer: &mut Buffer) -> Result<(), Fault> {
        let last = (self.at + n).min(self.rows.len());
        buffer.push(self.rows, self.beside, self.at, last)?;
        self.at = last;
        Ok(())
    }
}

/// Blocks of rows that another thread hands over.
pub struct BlockStream {
    blocks: Receiver<Buffer>,
    current: Buffer,
    at: usize,
    columns: usize,
}

impl BlockStream {
    /// Blocks of this many columns, until the sender goes away.
    pub fn new(blocks: Receiver<Buffer>, columns: usize) -> Self {
        Self { blocks, current: Buffer::default(), at: 0, columns }
    }
}

impl RowStream for BlockStream {
    fn fill(&mut self, n: usize, buffer: &mut Buffer) -> Result<(), Fault> {
        let mut wanted = n;
        while wanted > 0 {
            if self.at == self.current.rows {
                let Ok(block) = self.blocks.recv() else { return Ok(()) };
                (self.current, self.at) = (block, 0);
            }
            let last = (self.at + wanted).min(self.current.rows);
            buffer.push_from(&self.current, self.at, last, self.columns);
            wanted -= last - self.at;
            self.at = last;
        }
        Ok(())
    }
}

/// Files, read by the readers of the command line.
pub struct FileStream(pub Box<dyn Source>);

impl RowStream for FileStream {
    fn fill(&mut self, n: usize, buffer: &mut Buffer) -> Result<(), Fault> {
        if n == 0 {
            return Ok(());
        }
        if let Some(batch) = self.0.next_batch(n)? {
            buffer.values.extend_from_slice(batch.values());
            let times = self.0.take_times();
            let times = (!times.is_empty()).then_some(&times[..]);
            buffer.push_beside(Beside { weights: None, times }, batch.n_rows());
        }
        Ok(())
    }

    fn schema(&self) -> Option<&Schema> {
        Some(self.0.schema())
    }
}

/// A stream whose rows are noted when they come: those of the buffer behind so many.
pub struct Noted<'a> {
    pub stream: &'a mut dyn RowStream,
    pub come: &'a mut (dyn FnMut(&Buffer, usize) + Send),
    /// Whether rows fade by their times: those that say none are of now.
    pub timed: bool,
}

impl RowStream for Noted<'_> {
    fn fill(&mut self, n: usize, buffer: &mut Buffer) -> Result<(), Fault> {
        let before = buffer.rows;
        let filled = self.stream.fill(n, buffer);
        if self.timed {
            buffer.stamp();
        }
        (self.come)(buffer, before);
        filled
    }

    fn schema(&self) -> Option<&Schema> {
        self.stream.schema()
    }
}

/// Cuts a stream into full minibatches; what is left stays in the buffer.
pub struct Cutter<'a> {
    pub stream: &'a mut dyn RowStream,
    pub buffer: &'a mut Buffer,
    pub schema: &'a Schema,
    pub family: &'a AnyFamily,
    /// Rows of a minibatch.
    pub size: usize,
    /// Names that minibatches have already.
    pub taken: &'a mut BatchSet,
    /// Rows cut off so far.
    pub before: u64,
    /// Seconds after which rows count half, where they fade so.
    pub fades: Option<f64>,
    /// When the last minibatch was.
    pub at: Option<Moment>,
    pub stop: &'a AtomicBool,
}

impl BatchSource for Cutter<'_> {
    type Batch = Batch;
    type Error = Fault;

    fn next(&mut self) -> Result<Option<(BatchId, Batch)>, Fault> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.stream.fill(self.size.saturating_sub(self.buffer.rows), self.buffer)?;
        if self.buffer.rows < self.size {
            return Ok(None);
        }
        let Self { schema, family, before, fades, .. } = *self;
        let (batch, at) = self.buffer.take(&Edge { schema, family, before, fades })?;
        self.before += batch.n_rows() as u64;
        self.at = at;
        Ok(Some((claim(self.taken), batch)))
    }

    fn clock(&self) -> Option<f64> {
        self.at.map(|at| at.clock)
    }

    fn faded(&self) -> f64 {
        self.at.map_or(0.0, |at| at.faded)
    }
}

/// The first name that no minibatch has.
pub fn claim(taken: &mut BatchSet) -> BatchId {
    let id = match taken.runs().first() {
        Some((0, last)) => BatchId(last + 1),
        _ => BatchId(0),
    };
    taken.insert(id);
    id
}

/// One minibatch.
pub struct One {
    next: Option<(BatchId, Batch)>,
    at: Option<Moment>,
}

impl One {
    /// A minibatch under this name.
    pub fn new(id: BatchId, (batch, at): Taken) -> Self {
        Self { next: Some((id, batch)), at }
    }
}

impl BatchSource for One {
    type Batch = Batch;
    type Error = std::convert::Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, Batch)>, Self::Error> {
        Ok(self.next.take())
    }

    fn clock(&self) -> Option<f64> {
        self.at.map(|at| at.clock)
    }

    fn faded(&self) -> f64 {
        self.at.map_or(0.0, |at| at.faded)
    }
}
