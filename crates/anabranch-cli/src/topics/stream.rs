//! A stream of documents cut into minibatches, named, and skipped on resume.

use anabranch::central::{BatchId, BatchSet};
use anabranch::documents::Documents;
use anabranch::engine::BatchSource;
use anabranch_io::words::Bags;
use anabranch_io::{Cut, InputRead, ReadLog, Reading};

use crate::failure::Failure;
use crate::reading::is_within;

/// Where documents come from.
pub trait Origin: Send {
    /// The next `n` documents, fewer at the end, `None` when there are no more.
    fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, Failure>;

    /// What is read of which input, where that can be told.
    fn log(&self) -> ReadLog {
        ReadLog::default()
    }
}

impl Origin for Bags {
    fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, Failure> {
        Ok(Bags::next_documents(self, n)?)
    }

    fn log(&self) -> ReadLog {
        Bags::log(self)
    }
}

/// Minibatches of an origin: the first one of its own size, and all others.
pub struct Minibatches<O> {
    pub origin: O,
    log: ReadLog,
    next: u64,
    ahead: Option<Documents>,
    absorbed: BatchSet,
}

impl<O: Origin> Minibatches<O> {
    pub fn new(origin: O, first: usize, size: usize) -> Self {
        let log = origin.log();
        log.cut(Cut { start: 0, first: first as u64, size: size as u64 });
        Self { origin, log, next: 0, ahead: None, absorbed: BatchSet::default() }
    }

    /// Names minibatches from this one on: those before are of the model that the run goes on from. Inputs that it has
    /// learned from are refused.
    pub fn go_on(&mut self, start: u64, size: usize, known: Vec<InputRead>) {
        self.log.cut(Cut { start, first: size as u64, size: size as u64 });
        self.log.refuse(known);
        self.next = start;
    }

    /// Passes over the minibatches that are in the journal already, which was made by a run that had read this.
    pub fn resume(&mut self, absorbed: BatchSet, reading: Reading) {
        self.log.expect(reading);
        self.absorbed = absorbed;
    }

    /// What is read of which input.
    pub fn log(&self) -> ReadLog {
        self.log.clone()
    }

    /// Reads the first minibatch, which is returned again when its turn comes.
    pub fn read_ahead(&mut self) -> Result<Option<&Documents>, Failure> {
        self.ahead = self.origin.next_documents(self.log.size(BatchId(0)) as usize)?;
        Ok(self.ahead.as_ref())
    }
}

impl<O: Origin> BatchSource for Minibatches<O> {
    type Batch = Documents;
    type Error = Failure;

    fn next(&mut self) -> Result<Option<(BatchId, Documents)>, Failure> {
        loop {
            let id = BatchId(self.next);
            let documents = match self.ahead.take() {
                Some(documents) => documents,
                None => match self.origin.next_documents(self.log.size(id) as usize)? {
                    Some(documents) => documents,
                    None => return Ok(None),
                },
            };
            self.next += 1;
            if !self.absorbed.contains(id) {
                let read = documents.len() as u64;
                if read < self.log.size(id) && is_within(&self.absorbed, id) {
                    // Somebody wanted to stop. Minibatches behind this one are learned, and begin behind its whole.
                    return Ok(None);
                }
                self.log.note(id, read);
                return Ok(Some((id, documents)));
            }
        }
    }
}
