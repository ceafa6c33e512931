//! A model of topics as it is stored: the same container, with a vocabulary instead of columns.

use std::collections::BTreeSet;
use std::path::Path;

use anabranch::central::{Fold, Memory, SAMPLE_ROWS};
use anabranch::documents::{Document, Documents};
use anabranch::family::Topic;
use anabranch::posterior::{Familiarity, Tail};
use anabranch::process::Hierarchical;
use safetensors::tensor::TensorView;
use serde::{Deserialize, Serialize};

use super::decode::{self, Position, check_possible, damaged};
use super::encode::{self, Block};
use super::{AsideHeader, ModelError, ModelFault, tensor};
use crate::output::replace_file;
use crate::seen::{InputRead, Reading};
use crate::words::{Tokenizer, Vocabulary, WordChoice};

/// What the header calls it.
pub(super) const KIND: &str = "hdp";

/// A model of topics: enough to predict, and to go on learning.
#[derive(Clone, Debug)]
pub struct TopicModel {
    /// The posterior with the set of minibatches that are in it.
    pub fold: Fold<Topic, Hierarchical>,
    /// The words.
    pub vocabulary: Vocabulary,
    /// Where it came from.
    pub provenance: TopicProvenance,
}

/// How a model of topics was made; a run that goes on must agree with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicProvenance {
    /// Seed of the run.
    pub seed: u64,
    /// Documents of the first minibatch.
    pub bootstrap_documents: u64,
    /// Documents of every further minibatch.
    pub batch_size: u64,
    /// Documents absorbed.
    pub documents: u64,
    /// Lines that were no documents.
    pub skipped: u64,
    /// Words that were not in the vocabulary.
    pub unknown_words: f64,
    /// Assignment problems solved.
    pub matchings: u64,
    /// Entries that had to be identified again.
    pub conflicts: u64,
    /// NPMI coherence of each topic over a sample of the documents, in the order of the components.
    #[serde(default)]
    pub coherence: Vec<Option<f64>>,
    /// What it has learned from, as far as that can be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned_from: Vec<InputRead>,
    /// How text became words, and which of them were taken, where that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextProvenance>,
}

/// How text became words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextProvenance {
    /// How text becomes words, with what was found in the first documents.
    pub tokenizer: Tokenizer,
    /// Which words were taken.
    pub choice: WordChoice,
    /// Whether phrases were looked for.
    pub phrases: bool,
    /// The column, or field, that held the documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

impl TextProvenance {
    /// What decides which words there are, before any document was read.
    pub fn told(&self) -> Self {
        let tokenizer =
            Tokenizer { common: BTreeSet::new(), phrases: BTreeSet::new(), ..self.tokenizer.clone() };
        Self { tokenizer, column: None, ..self.clone() }
    }
}

#[derive(Serialize, Deserialize)]
struct TopicHeader {
    writer: String,
    model: String,
    family: Topic,
    process: Hierarchical,
    version: u64,
    next_id: u64,
    last_birth: u64,
    mass: f64,
    #[serde(default)]
    pass: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aside: Option<AsideHeader>,
    vocabulary: Vec<String>,
    provenance: TopicProvenance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tended: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reading: Option<Reading>,
}

impl TopicModel {
    /// Writes the model, replacing the file atomically.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        self.write(path, &self.to_bytes(None))
    }

    /// Writes the model with the documents that the run remembers, so that it can go on as if it had never ended.
    pub fn save_checkpoint(
        &self,
        path: &Path,
        memory: &Memory<Documents>,
        reading: &Reading,
    ) -> Result<(), ModelError> {
        self.write(path, &self.encode(Some(memory), Some(reading)))
    }

    /// Replaces the file with what can be read again, and with nothing else.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
        Self::from_bytes(bytes).map_err(|fault| fault.before(path))?;
        replace_file(path, bytes).map_err(|source| ModelError::Io { path: path.into(), source })
    }

    /// Reads and checks a model.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::load_checkpoint(path).map(|(model, ..)| model)
    }

    /// Reads and checks a model, the documents that its run remembered and what it had read, if it says.
    pub fn load_checkpoint(path: &Path) -> Result<(Self, Memory<Documents>, Reading), ModelError> {
        let bytes = std::fs::read(path).map_err(|source| ModelError::Io { path: path.into(), source })?;
        Self::decode(&bytes).map_err(|fault| fault.at(path))
    }

    /// The bytes of the file, with the documents that the run remembers where it is to go on.
    pub fn to_bytes(&self, memory: Option<&Memory<Documents>>) -> Vec<u8> {
        self.encode(memory, None)
    }

    fn encode(&self, memory: Option<&Memory<Documents>>, reading: Option<&Reading>) -> Vec<u8> {
        let posterior = self.fold.posterior();
        let header = TopicHeader {
            writer: concat!("anabranch ", env!("CARGO_PKG_VERSION")).into(),
            model: KIND.into(),
            family: *posterior.family(),
            process: *posterior.process(),
            version: posterior.version(),
            next_id: self.fold.next_id(),
            last_birth: self.fold.last_birth(),
            mass: posterior.mass(),
            pass: posterior.pass(),
            aside: self.fold.aside().map(|aside| AsideHeader { mass: aside.mass, share: aside.share }),
            vocabulary: self.vocabulary.words().to_vec(),
            provenance: self.provenance.clone(),
            tended: memory.and_then(Memory::tended),
            reading: reading.cloned(),
        };
        let header = serde_json::to_string(&header).expect("a header holds only text, numbers and lists");
        let mut blocks = encode::blocks(&self.fold);
        blocks.extend(memory.map(remembered).unwrap_or_default());
        encode::seal(&header, &blocks)
    }

    /// A model from the bytes of a file, with the documents that its run remembered, if it says.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Self, Memory<Documents>), ModelFault> {
        Self::decode(bytes).map(|(model, memory, _)| (model, memory))
    }

    fn decode(bytes: &[u8]) -> Result<(Self, Memory<Documents>, Reading), ModelFault> {
        let intact = decode::open(bytes)?;
        let kind = decode::kind(&intact.header)?;
        if kind != KIND {
            return Err(ModelFault::NotAModel(format!("it is a model `{kind}`, not one of topics")));
        }
        let header: TopicHeader =
            serde_json::from_str(&intact.header).map_err(|error| damaged(error.to_string()))?;
        let made = &header.provenance;
        check_possible([
            header.version,
            header.next_id,
            header.last_birth,
            made.bootstrap_documents,
            made.batch_size,
            made.documents,
            made.skipped,
            made.matchings,
            made.conflicts,
        ])?;
        let n_words = header.family.n_words();
        if header.vocabulary.len() != n_words {
            return Err(damaged(format!(
                "it names {} words for topics of {n_words}",
                header.vocabulary.len()
            )));
        }
        let vocabulary = Vocabulary::new(header.vocabulary).map_err(|error| damaged(error.to_string()))?;
        let [.., keys, _, _, _, s_starts, s_words, s_counts, f_starts, f_words, f_counts, _] =
            &intact.at_times;
        let sample = documents(n_words, [s_starts, s_words, s_counts].map(Option::as_ref))?;
        let first = documents(n_words, [f_starts, f_words, f_counts].map(Option::as_ref))?;
        let sample = match (keys, sample) {
            (Some(keys), Some(sample)) => {
                let keys = decode::integers(keys, 1)?;
                if keys.len() != sample.len() || keys.len() > SAMPLE_ROWS {
                    return Err(damaged("its sample of documents does not fit its keys".into()));
                }
                let row = |ix| Document { n_words, entries: sample.entries(ix).collect() };
                keys.into_iter().zip((0..sample.len()).map(row)).collect()
            }
            _ => Vec::new(),
        };
        let position = Position {
            version: header.version,
            next_id: header.next_id,
            last_birth: header.last_birth,
            mass: header.mass,
            pass: header.pass,
            familiarity: Familiarity::default(),
            tail: Tail::default(),
            aside: header.aside,
        };
        let fold = intact.fold(header.family, header.process, position)?;
        let model = Self { fold, vocabulary, provenance: header.provenance };
        let memory = Memory::restore(sample, first).with_tended(header.tended);
        Ok((model, memory, header.reading.unwrap_or_default()))
    }
}

/// Documents from where each begins, their words and their counts.
fn documents(n_words: usize, tensors: [Option<&TensorView<'_>>; 3]) -> Result<Option<Documents>, ModelFault> {
    let [Some(starts), Some(words), Some(counts)] = tensors else { return Ok(None) };
    let odd = || damaged("its documents do not fit together".into());
    let (starts, words) = (decode::integers(starts, 1)?, decode::integers(words, 1)?);
    let counts = decode::floats(counts, 1)?;
    let entries: Option<Vec<(u32, f64)>> =
        words.iter().zip(&counts).map(|(word, count)| Some((u32::try_from(*word).ok()?, *count))).collect();
    let entries = entries.filter(|entries| entries.len() == words.len() && words.len() == counts.len());
    let entries = entries.ok_or_else(odd)?;
    let mut all = Documents::none(n_words);
    for pair in starts.windows(2) {
        let range = usize::try_from(pair[0]).ok().zip(usize::try_from(pair[1]).ok());
        let (from, to) = range.filter(|(from, to)| from <= to).ok_or_else(odd)?;
        let document = entries.get(from..to).ok_or_else(odd)?;
        all.push(document).map_err(|error| damaged(error.to_string()))?;
    }
    Ok(Some(all))
}

fn remembered(memory: &Memory<Documents>) -> Vec<Block> {
    let sample: Vec<&Document> = memory.sample().map(|(_, document)| document).collect();
    let mut blocks =
        vec![encode::integers(tensor::SAMPLE_KEYS, vec![sample.len()], memory.sample().map(|(key, _)| key))];
    let of_sample = [tensor::SAMPLE_STARTS, tensor::SAMPLE_WORDS, tensor::SAMPLE_COUNTS];
    blocks.extend(lists(of_sample, sample.iter().map(|document| document.entries.clone())));
    if let Some(first) = memory.first() {
        let of_first = [tensor::FIRST_STARTS, tensor::FIRST_WORDS, tensor::FIRST_COUNTS];
        blocks.extend(lists(of_first, (0..first.len()).map(|ix| first.entries(ix).collect())));
    }
    blocks
}

fn lists(names: [&'static str; 3], documents: impl Iterator<Item = Vec<(u32, f64)>>) -> [Block; 3] {
    let (mut starts, mut entries) = (vec![0], Vec::new());
    for document in documents {
        entries.extend(document);
        starts.push(entries.len() as u64);
    }
    let [starts_name, words, counts] = names;
    [
        encode::integers(starts_name, vec![starts.len()], starts.into_iter()),
        encode::integers(words, vec![entries.len()], entries.iter().map(|(word, _)| u64::from(*word))),
        encode::floats(counts, vec![entries.len()], entries.iter().map(|(_, count)| *count)),
    ]
}
