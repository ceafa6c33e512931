//! Watches a run of topics: progress, the figures of the journal, prevalence over time, and checkpoints.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anabranch::central::Central;
use anabranch::documents::Documents;
use anabranch::engine::{Event, Flow, Observer};
use anabranch::family::Topic;
use anabranch::process::Hierarchical;
use anabranch_io::model::{TopicModel, TopicProvenance};
use anabranch_io::words::Vocabulary;

use crate::failure::Failure;
use crate::fit::Progress;
use crate::stop;

/// Moments that are kept for the picture of prevalence.
const MOST_MOMENTS: usize = 64;

/// How many words each topic had when so many documents had been absorbed.
#[derive(Clone, Debug)]
pub struct Moment {
    pub documents: u64,
    pub words: Vec<(u64, f64)>,
}

/// Where and how often the state is saved.
pub struct Saving {
    pub file: PathBuf,
    pub every: Duration,
    pub last: Instant,
}

/// The observer of a run.
pub struct Watch {
    pub progress: Progress,
    pub provenance: TopicProvenance,
    pub moments: Vec<Moment>,
    /// Every how many minibatches a moment is kept.
    stride: u64,
    seen: u64,
    pub vocabulary: Vocabulary,
    pub saving: Option<Saving>,
    pub stopped: bool,
    pub failure: Option<Failure>,
    /// Documents are counted in the first pass only.
    pub counting: bool,
}

impl Watch {
    pub fn new(
        progress: Progress,
        provenance: TopicProvenance,
        vocabulary: Vocabulary,
        saving: Option<Saving>,
    ) -> Self {
        Self {
            progress,
            provenance,
            moments: Vec::new(),
            stride: 1,
            seen: 0,
            vocabulary,
            saving,
            stopped: false,
            failure: None,
            counting: true,
        }
    }

    /// Minibatches that this run has absorbed.
    pub fn minibatches(&self) -> u64 {
        self.seen
    }

    fn remember(&mut self, central: &Central<Topic, Hierarchical, Documents>) {
        if !self.seen.is_multiple_of(self.stride) {
            return;
        }
        let snapshot = central.snapshot();
        let words = snapshot.components().iter().map(|c| (c.id().0, c.evidence().stats[0])).collect();
        self.moments.push(Moment { documents: self.provenance.documents, words });
        if self.moments.len() > MOST_MOMENTS {
            let mut keep = false;
            self.moments.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
    }

    fn save(&mut self, central: &Central<Topic, Hierarchical, Documents>) -> Result<(), Failure> {
        let Some(saving) = self.saving.as_mut().filter(|saving| saving.last.elapsed() >= saving.every) else {
            return Ok(());
        };
        let (fold, memory) = central.state();
        let model =
            TopicModel { fold, vocabulary: self.vocabulary.clone(), provenance: self.provenance.clone() };
        model.save_checkpoint(&saving.file, &memory)?;
        saving.last = Instant::now();
        Ok(())
    }
}

impl Observer<Topic, Hierarchical, Documents> for Watch {
    fn observe(&mut self, event: &Event, central: &Central<Topic, Hierarchical, Documents>) -> Flow {
        self.seen += 1;
        if event.absorbed.counted && self.counting {
            self.provenance.documents += event.rows;
        }
        self.provenance.matchings += event.absorbed.matchings;
        self.provenance.conflicts += event.absorbed.conflicts;
        self.progress.update(self.provenance.documents, event.components);
        if self.counting {
            self.remember(central);
        }
        if let Err(failure) = self.save(central) {
            self.failure.get_or_insert(failure);
        }
        self.stopped |= stop::asked();
        if self.stopped || self.failure.is_some() { Flow::Stop } else { Flow::Continue }
    }
}
