//! Watches a run of topics: progress, the figures of the journal, and checkpoints.

use std::path::Path;

use anabranch::central::{BatchId, Central, Fold};
use anabranch::documents::Documents;
use anabranch::engine::{Event, Flow, Observer};
use anabranch::family::Topic;
use anabranch::process::Hierarchical;
use anabranch_io::model::{TopicModel, TopicProvenance};
use anabranch_io::words::Words;
use anabranch_io::{InputRead, ReadLog};

use crate::failure::Failure;
use crate::fit::{Checkpoints, Progress};
use crate::stop;

/// The observer of a run.
pub struct Watch {
    pub progress: Progress,
    pub provenance: TopicProvenance,
    /// The words that are known by now.
    pub words: Words,
    pub checkpoints: Option<Checkpoints>,
    pub log: ReadLog,
    pub stopped: bool,
    /// Documents of the model that the run goes on from.
    pub documents_before: u64,
    /// Documents are counted in the first pass only.
    pub counting: bool,
}

impl Watch {
    pub fn new(
        progress: Progress,
        provenance: TopicProvenance,
        words: Words,
        checkpoints: Option<Checkpoints>,
        log: ReadLog,
    ) -> Self {
        Self {
            progress,
            provenance,
            words,
            checkpoints,
            log,
            stopped: false,
            documents_before: 0,
            counting: true,
        }
    }

    /// The model as it stands: with the words that are in it, of those that are known by now.
    pub fn model(&mut self, fold: Fold<Topic, Hierarchical>) -> Result<TopicModel, Failure> {
        self.count_documents(&fold);
        let known = self.words.get();
        let (vocabulary, tokenizer) = known
            .ok_or_else(|| Failure::Internal { message: "documents without a vocabulary".to_owned() })?;
        let mut provenance = self.provenance.clone();
        if self.counting {
            provenance.learned_from = InputRead::joined(provenance.learned_from, self.log.inputs());
        }
        if let Some(text) = &mut provenance.text {
            text.tokenizer = tokenizer;
        }
        let n_words = fold.posterior().family().n_words();
        let vocabulary = match vocabulary.len() > n_words {
            true => vocabulary.first(n_words).map_err(Failure::input)?,
            false => vocabulary,
        };
        Ok(TopicModel { fold, vocabulary, provenance })
    }

    /// The documents are those of the minibatches that are in the journal, which may be ahead of what was seen here.
    fn count_documents(&mut self, fold: &Fold<Topic, Hierarchical>) {
        if fold.posterior().pass() == 0 {
            let up_to = |batch| self.log.rows_up_to(BatchId(batch));
            let of_run = |(first, last): &(u64, u64)| up_to(*last) - first.checked_sub(1).map_or(0, up_to);
            let now: u64 = fold.absorbed().runs().iter().map(of_run).sum();
            self.provenance.documents = self.documents_before + now;
        }
    }

    /// Saves the state of the stream at its end, which other documents go on from.
    pub fn save_stream(&mut self, central: &Central<Topic, Hierarchical, Documents>) -> Result<(), Failure> {
        if self.checkpoints.is_none() {
            return Ok(());
        }
        let (fold, memory) = central.state();
        let reading = self.log.reading(fold.absorbed());
        let model = self.model(fold)?;
        let save = |path: &Path| model.save_checkpoint(path, &memory, &reading);
        self.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.save_stream(save))
    }

    fn save(&mut self, central: &Central<Topic, Hierarchical, Documents>) {
        if !self.checkpoints.as_ref().is_some_and(Checkpoints::due) {
            return;
        }
        let (fold, memory) = central.state();
        let reading = self.log.reading(fold.absorbed());
        let Ok(model) = self.model(fold) else { return };
        let save = |path: &Path| model.save_checkpoint(path, &memory, &reading);
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.save_on_the_way(&self.progress, save);
        }
    }
}

impl Observer<Topic, Hierarchical, Documents> for Watch {
    fn observe(&mut self, event: &Event, central: &Central<Topic, Hierarchical, Documents>) -> Flow {
        if event.absorbed.counted && self.counting {
            self.provenance.documents += event.rows;
        }
        self.provenance.matchings += event.absorbed.matchings;
        self.provenance.conflicts += event.absorbed.conflicts;
        self.progress.update(self.provenance.documents, event.components);
        self.save(central);
        self.stopped |= stop::asked();
        if self.stopped { Flow::Stop } else { Flow::Continue }
    }
}
