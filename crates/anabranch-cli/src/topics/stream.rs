//! A stream of documents cut into minibatches, named, and skipped on resume.

use anabranch::central::{BatchId, BatchSet};
use anabranch::documents::Documents;
use anabranch::engine::BatchSource;
use anabranch_io::words::Bags;
use anabranch_io::{Cut, InputRead, ReadLog, Reading};

use crate::failure::Failure;
use crate::reading::{Places, is_within};

/// Documents that are kept for a report, of all in the stream.
const KEPT: usize = 2000;

/// Where documents come from.
pub trait Origin: Send {
    /// The next `n` documents, fewer at the end, `None` when there are no more.
    fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, Failure>;

    /// How the last documents begin, where they are text.
    fn beginnings(&self) -> &[String] {
        &[]
    }

    /// What is read of which input, where that can be told.
    fn log(&self) -> ReadLog {
        ReadLog::default()
    }
}

impl Origin for Bags {
    fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, Failure> {
        Ok(Bags::next_documents(self, n)?)
    }

    fn beginnings(&self) -> &[String] {
        Bags::beginnings(self)
    }

    fn log(&self) -> ReadLog {
        Bags::log(self)
    }
}

/// A document of the stream.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its number, from 1.
    pub number: u64,
    /// How it begins; empty where it was no text.
    pub beginning: String,
    pub entries: Vec<(u32, f64)>,
}

/// A uniform sample of the documents.
#[derive(Clone, Debug)]
struct Sample {
    places: Places,
    read: u64,
    kept: Vec<Kept>,
}

impl Sample {
    fn add(&mut self, documents: &Documents, beginnings: &[String]) {
        for ix in 0..documents.len() {
            self.read += 1;
            let Some(place) = self.places.next() else { continue };
            let kept = Kept {
                number: self.read,
                beginning: beginnings.get(ix).cloned().unwrap_or_default(),
                entries: documents.entries(ix).collect(),
            };
            match self.kept.get_mut(place) {
                Some(earlier) => *earlier = kept,
                None => self.kept.push(kept),
            }
        }
    }
}

/// Minibatches of an origin: the first one of its own size, and all others.
pub struct Minibatches<O> {
    pub origin: O,
    log: ReadLog,
    next: u64,
    ahead: Option<Documents>,
    absorbed: BatchSet,
    sample: Option<Sample>,
}

impl<O: Origin> Minibatches<O> {
    pub fn new(origin: O, first: usize, size: usize) -> Self {
        let log = origin.log();
        log.cut(Cut { start: 0, first: first as u64, size: size as u64 });
        Self { origin, log, next: 0, ahead: None, absorbed: BatchSet::default(), sample: None }
    }

    /// Keeps a sample of the documents.
    pub fn keep(&mut self, seed: u64) {
        self.sample = Some(Sample { places: Places::new(KEPT, seed), read: 0, kept: Vec::new() });
    }

    /// The documents that were kept, in the order of the stream.
    pub fn take_kept(&mut self) -> Vec<Kept> {
        let mut kept = self.sample.take().map_or_else(Vec::new, |sample| sample.kept);
        kept.sort_by_key(|document| document.number);
        kept
    }

    fn read(&mut self, n: usize) -> Result<Option<Documents>, Failure> {
        let documents = self.origin.next_documents(n)?;
        if let (Some(sample), Some(documents)) = (&mut self.sample, &documents) {
            sample.add(documents, self.origin.beginnings());
        }
        Ok(documents)
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
        self.ahead = self.read(self.log.size(BatchId(0)) as usize)?;
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
                None => match self.read(self.log.size(id) as usize)? {
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
