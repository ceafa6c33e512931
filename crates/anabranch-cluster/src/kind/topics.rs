//! Topics of documents: bags of words over a vocabulary that the founder has fixed.

use std::path::Path;

use anabranch::central::Memory;
use anabranch::documents::Documents;
use anabranch::engine::Config;
use anabranch::family::Topic;
use anabranch::infer::{PriorChoice, TopicSettings};
use anabranch::process::Hierarchical;
use anabranch_io::Input;
use anabranch_io::model::{ModelError, ModelFault, TextProvenance, TopicModel, TopicProvenance};
use anabranch_io::words::{BagOptions, Bags, Vocabulary, WordChoice};

use super::{Count, FoldOf, Kind};
use crate::rows::message_limits;
use crate::spec::{JobSpec, ModelSpec};

/// Topics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Topics;

/// How the documents of so many messages are read: as those of strangers, and with these words, if they are known.
pub fn document_options(
    spec: &JobSpec,
    messages: usize,
    vocabulary: Option<Vocabulary>,
    text: TextProvenance,
) -> BagOptions {
    let TextProvenance { tokenizer, choice, phrases, .. } = text;
    BagOptions {
        // What the founder has found does not grow.
        choice: WordChoice { size: choice.size.filter(|_| vocabulary.is_none()), ..choice },
        vocabulary,
        tokenizer,
        phrases,
        on_bad_row: spec.on_bad_row,
        limits: Some(message_limits(spec.batch_size).times(messages as u64)),
        ..BagOptions::default()
    }
}

impl Kind for Topics {
    type Family = Topic;
    type Process = Hierarchical;
    type Inference = TopicSettings;
    type About = (Vocabulary, TopicProvenance);
    type Model = TopicModel;

    /// The mass is the number of words.
    const IS_COUNTED: bool = true;

    /// A minibatch has few of the words.
    const IS_SPARSE: bool = true;

    fn config(spec: &JobSpec) -> Config<TopicSettings> {
        let inference = TopicSettings { max_new: spec.max_new as usize, ..TopicSettings::default() };
        let prior = match &spec.model {
            ModelSpec::Topics(topics) if topics.eta.is_some() => PriorChoice::Given,
            _ => PriorChoice::Estimated,
        };
        Config { seed: spec.seed, prior, ..Config::new(inference) }
    }

    fn decode(
        message: &[u8],
        (vocabulary, provenance): &Self::About,
        _family: &Topic,
        spec: &JobSpec,
    ) -> Result<(Documents, f64), String> {
        let text = provenance.text.clone().unwrap_or_default();
        let options = document_options(spec, 1, Some(vocabulary.clone()), text);
        let read = || {
            let mut bags = Bags::open(&[Input::Memory(message.to_vec())], options)?;
            let documents = bags.next_documents(usize::MAX)?;
            Ok((documents, bags.unknown_words()))
        };
        match read().map_err(|error: anabranch_io::ReadError| error.to_string())? {
            (Some(documents), unknown) => Ok((documents, unknown)),
            (None, _) => Err("it has no documents".into()),
        }
    }

    fn model(
        fold: FoldOf<Self>,
        (vocabulary, provenance): &Self::About,
        count: Count,
        conflicts: u64,
    ) -> TopicModel {
        let provenance = TopicProvenance {
            documents: count.rows,
            unknown_words: count.left_out,
            conflicts,
            ..provenance.clone()
        };
        TopicModel { fold, vocabulary: vocabulary.clone(), provenance }
    }

    fn parts(model: TopicModel) -> (FoldOf<Self>, Self::About, Count) {
        let TopicModel { fold, vocabulary, provenance } = model;
        let count = Count { rows: provenance.documents, left_out: provenance.unknown_words };
        (fold, (vocabulary, provenance), count)
    }

    fn save(model: &TopicModel, path: &Path) -> Result<(), ModelError> {
        model.save(path)
    }

    fn to_bytes(model: &TopicModel, memory: &Memory<Documents>) -> Vec<u8> {
        model.to_bytes(Some(memory))
    }

    fn from_bytes(bytes: &[u8]) -> Result<(TopicModel, Memory<Documents>), ModelFault> {
        TopicModel::from_bytes(bytes)
    }
}
