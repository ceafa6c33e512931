//! A stream of documents cut into minibatches, named, and skipped on resume.

use anabranch::central::{BatchId, BatchSet};
use anabranch::documents::Documents;
use anabranch::engine::BatchSource;
use anabranch_io::words::Bags;

use crate::failure::Failure;

/// Where documents come from.
pub trait Origin: Send {
    /// The next `n` documents, fewer at the end, `None` when there are no more.
    fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, Failure>;
}

impl Origin for Bags {
    fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, Failure> {
        Ok(Bags::next_documents(self, n)?)
    }
}

/// Minibatches of an origin: the first one of its own size, and all others.
pub struct Minibatches<O> {
    pub origin: O,
    first: usize,
    size: usize,
    next: u64,
    ahead: Option<Documents>,
    absorbed: BatchSet,
}

impl<O: Origin> Minibatches<O> {
    pub fn new(origin: O, first: usize, size: usize, absorbed: BatchSet) -> Self {
        Self { origin, first, size, next: 0, ahead: None, absorbed }
    }

    /// Reads the first minibatch, which is returned again when its turn comes.
    pub fn read_ahead(&mut self) -> Result<Option<&Documents>, Failure> {
        self.ahead = self.origin.next_documents(self.first)?;
        Ok(self.ahead.as_ref())
    }
}

impl<O: Origin> BatchSource for Minibatches<O> {
    type Batch = Documents;
    type Error = Failure;

    fn next(&mut self) -> Result<Option<(BatchId, Documents)>, Failure> {
        loop {
            let size = if self.next == 0 { self.first } else { self.size };
            let documents = match self.ahead.take() {
                Some(documents) => documents,
                None => match self.origin.next_documents(size)? {
                    Some(documents) => documents,
                    None => return Ok(None),
                },
            };
            let id = BatchId(self.next);
            self.next += 1;
            if !self.absorbed.contains(id) {
                return Ok(Some((id, documents)));
            }
        }
    }
}
