//! The model file: one safetensors file with a versioned, checksummed JSON header (`docs/model-format.md`).
//!
//! Writing goes to a temporary name, is synced and renamed, so that a reader sees the old file or the new one and never
//! a part. Reading checks lengths, the checksum and every invariant before anything is believed.

mod decode;
mod encode;
mod stored;
mod topics;

use std::path::{Path, PathBuf};

use anabranch::central::{BatchId, Behind, Fold, Memory};
use anabranch::clusters::Cut;
use anabranch::engine::minibatch_rng;
use anabranch::family::{AnyFamily, Family};
use anabranch::infer::Between;
use anabranch::posterior::{Familiarity, Past, RestoreError, Tail};
use anabranch::process::AnyProcess;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use stored::{StoredFamily, StoredProcess};
pub use topics::{TextProvenance, TopicModel, TopicProvenance};

use crate::held::Held;
use crate::output::replace_file;
use crate::schema::Schema;
use crate::seen::{InputRead, Reading};

/// The version of the format that this program writes; it reads this one and older ones.
pub const FORMAT_VERSION: u32 = 1;

/// A model as it is stored: enough to predict, and to go on learning.
#[derive(Clone, Debug)]
pub struct StoredModel<F, P> {
    /// The posterior with the set of minibatches that are in it.
    pub fold: Fold<F, P>,
    /// Where it came from.
    pub provenance: Provenance,
}

/// A mixture of rows.
pub type Model = StoredModel<AnyFamily, AnyProcess>;

/// How a model was made; a run that goes on must agree with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Names and categories of the columns.
    pub schema: Schema,
    /// Seed of the run.
    pub seed: u64,
    /// Rows of the first minibatch.
    pub bootstrap_rows: u64,
    /// Rows of every further minibatch.
    pub batch_size: u64,
    /// Rows absorbed.
    pub observations: u64,
    /// Bad rows that were skipped.
    pub skipped_rows: u64,
    /// Assignment problems solved.
    pub matchings: u64,
    /// Entries that had to be identified again.
    pub conflicts: u64,
    /// Algorithm that fitted the model.
    pub algorithm: String,
    /// How its clusters are cut.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub cut: Cut,
    /// Between how many components the data cannot tell, where that was found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Between>,
    /// Whether the prior was given, and is not estimated again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prior_given: bool,
    /// What each column has held, where any of them was empty or always the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// What it was learned from, where it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned_from: Vec<InputRead>,
}

impl Provenance {
    /// Of a model of these columns that has learned nothing yet.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            seed: 0,
            bootstrap_rows: 0,
            batch_size: 0,
            observations: 0,
            skipped_rows: 0,
            matchings: 0,
            conflicts: 0,
            algorithm: "sda".into(),
            cut: Cut::default(),
            between: None,
            prior_given: false,
            held: Vec::new(),
            learned_from: Vec::new(),
        }
    }
}

/// A file says how clusters are cut where that is not as usual: older programs know no other way.
fn is_usual(cut: &Cut) -> bool {
    *cut == Cut::default()
}

/// Why a file is not a model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no model of ours.
    #[error("{path}: not an anabranch model: {reason}")]
    NotAModel {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The file was written by a newer program.
    #[error("{path}: written in model format {found}, this program reads up to {FORMAT_VERSION}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: u32,
    },
    /// What was learned could not be read again.
    #[error("{path}: not written, because it could not be read again: {reason}")]
    NotKept {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// The bytes are not those that were written.
    #[error("{path}: damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
}

impl ModelError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Newer { .. } => Some("update anabranch, or fit the model again with this version".into()),
            Self::NotAModel { .. } => Some("models are written by `anabranch fit --out MODEL`".into()),
            Self::Damaged { .. } => Some("fetch the file again, or resume from a checkpoint".into()),
            Self::NotKept { .. } => {
                Some("look for enormous numbers in the rows: their sums do not fit into a model".into())
            }
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("check the path; relative paths start at the current directory".into())
            }
            Self::Io { .. } => None,
        }
    }
}

/// What a model is, as `--model` says it, without reading more than its header.
pub fn model_name(path: &Path) -> Result<String, ModelError> {
    let bytes = std::fs::read(path).map_err(|source| ModelError::Io { path: path.into(), source })?;
    model_name_of(&bytes).map_err(|fault| fault.at(path))
}

/// The same of the bytes of a file.
pub fn model_name_of(bytes: &[u8]) -> Result<String, ModelFault> {
    decode::model_name(bytes)
}

impl<F: StoredFamily, P: StoredProcess> StoredModel<F, P> {
    /// Writes the model, replacing the file atomically.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        self.write(path, &self.to_bytes())
    }

    /// Reads and checks a model.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(path).map_err(|source| ModelError::Io { path: path.into(), source })?;
        Self::from_bytes(&bytes).map_err(|fault| fault.at(path))
    }

    /// Writes the model with the rows that the run remembers, so that it can go on as if it had never ended.
    pub fn save_checkpoint(&self, path: &Path, memory: &Memory, reading: &Reading) -> Result<(), ModelError> {
        self.write(path, &encode::encode(self, Some(memory), Some(reading)))
    }

    /// Replaces the file with what can be read again, and with nothing else.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
        Self::from_bytes(bytes).map_err(|fault| fault.before(path))?;
        replace_file(path, bytes).map_err(|source| ModelError::Io { path: path.into(), source })
    }

    /// Reads and checks a model, the rows that its run remembered and what it had read, if it says.
    pub fn load_checkpoint(path: &Path) -> Result<(Self, Memory, Reading), ModelError> {
        let bytes = std::fs::read(path).map_err(|source| ModelError::Io { path: path.into(), source })?;
        decode::decode(&bytes).map_err(|fault| fault.at(path))
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode::encode(self, None, None)
    }

    /// The bytes of a checkpoint: the model with the rows that the run remembers.
    pub fn to_checkpoint_bytes(&self, memory: &Memory) -> Vec<u8> {
        encode::encode(self, Some(memory), None)
    }

    /// A model from the bytes of a file, with the rows that its run remembered, if it says.
    pub fn from_checkpoint_bytes(bytes: &[u8]) -> Result<(Self, Memory), ModelFault> {
        decode::decode(bytes).map(|(model, memory, _)| (model, memory))
    }

    /// A model from the bytes of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFault> {
        Self::from_checkpoint_bytes(bytes).map(|(model, _)| model)
    }
}

impl<F: StoredFamily + Family, P: StoredProcess> StoredModel<F, P> {
    /// The model as a run goes on from it with other rows, and what that run remembers: what the run that made it
    /// remembered, or rows drawn from the model where it does not say.
    pub fn going_on(self, memory: Memory) -> (Self, Memory) {
        let Self { fold, mut provenance } = self;
        let remembers = memory.sample().len() > 0;
        let memory = if remembers {
            memory
        } else {
            let mut rng = minibatch_rng(provenance.seed, BatchId(fold.absorbed().next()));
            Memory::drawn_from(fold.posterior(), &mut rng)
        };
        // Rows that come now are new: no pass over earlier ones goes on.
        let (aside, familiarity) = (fold.aside(), fold.posterior().familiarity());
        provenance.between = None;
        let unfinished = memory.first().is_some();
        let memory = if unfinished { memory } else { memory.with_behind(Behind::Model) };
        (Self { fold: fold.within(0, aside, familiarity), provenance }, memory)
    }
}

/// What is wrong with the bytes of a model, before a path is known.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ModelFault {
    /// No model of ours.
    #[error("not an anabranch model: {0}")]
    NotAModel(String),
    /// Written by a newer program.
    #[error("written in model format {0}")]
    Newer(u32),
    /// Not the bytes that were written.
    #[error("damaged: {0}")]
    Damaged(String),
}

impl ModelFault {
    /// The same of bytes that were to be written.
    fn before(self, path: &Path) -> ModelError {
        ModelError::NotKept { path: path.into(), reason: self.to_string() }
    }

    fn at(self, path: &Path) -> ModelError {
        let path = path.to_path_buf();
        match self {
            Self::NotAModel(reason) => ModelError::NotAModel { path, reason },
            Self::Newer(found) => ModelError::Newer { path, found },
            Self::Damaged(reason) => ModelError::Damaged { path, reason },
        }
    }
}

impl From<RestoreError> for ModelFault {
    fn from(error: RestoreError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// The JSON header inside the safetensors metadata.
#[derive(Debug, Serialize, Deserialize)]
struct Header<F, P> {
    writer: String,
    model: String,
    family: F,
    process: P,
    version: u64,
    next_id: u64,
    last_birth: u64,
    mass: f64,
    #[serde(default)]
    pass: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aside: Option<AsideHeader>,
    #[serde(default)]
    familiarity: Familiarity,
    #[serde(default, skip_serializing_if = "Tail::is_empty")]
    tail: Tail,
    /// What has become of the past, where it fades.
    #[serde(default, skip_serializing_if = "Past::is_whole")]
    past: Past,
    provenance: Provenance,
    /// Lines of growth at which the model has been looked after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tended: Option<u32>,
    /// Halvings of the sample, where the past fades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    halvings: Option<(f64, f64)>,
    /// What the first rows came behind, where that is a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    behind: Option<BehindHeader>,
    /// Where a run that goes on finds its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reading: Option<Reading>,
}

/// Whether what the model said is set aside while the first rows behind it are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BehindHeader {
    Model,
    SetAside,
}

/// Evidence that is to be replaced, when there is some.
#[derive(Debug, Serialize, Deserialize)]
struct AsideHeader {
    mass: f64,
    share: f64,
}

/// Names of the tensors.
mod tensor {
    pub(super) const ID: &str = "component.id";
    pub(super) const BORN: &str = "component.born";
    pub(super) const STATS: &str = "component.stats";
    pub(super) const LABELS: &str = "component.labels";
    pub(super) const REDIRECT: &str = "redirect";
    pub(super) const ABSORBED: &str = "absorbed";
    /// Those of every model, in the order of the checksum.
    pub(super) const ALWAYS: [&str; 6] = [ABSORBED, BORN, ID, LABELS, STATS, REDIRECT];
    pub(super) const LASTING_LABELS: &str = "lasting.labels";
    pub(super) const LASTING_STATS: &str = "lasting.stats";
    pub(super) const PASSING_LABELS: &str = "passing.labels";
    pub(super) const PASSING_STATS: &str = "passing.stats";
    pub(super) const SAMPLE_KEYS: &str = "sample.keys";
    pub(super) const SAMPLE_ROWS: &str = "sample.rows";
    pub(super) const FIRST_ROWS: &str = "first.rows";
    pub(super) const FIRST_WEIGHTS: &str = "first.weights";
    pub(super) const SAMPLE_STARTS: &str = "sample.starts";
    pub(super) const SAMPLE_WORDS: &str = "sample.words";
    pub(super) const SAMPLE_COUNTS: &str = "sample.counts";
    pub(super) const FIRST_STARTS: &str = "first.starts";
    pub(super) const FIRST_WORDS: &str = "first.words";
    pub(super) const FIRST_COUNTS: &str = "first.counts";
    pub(super) const SAMPLE_WEIGHTS: &str = "sample.weights";
    /// Those of a run that is to go on, in the order of the checksum, after the others.
    pub(super) const AT_TIMES: [&str; 15] = [
        LASTING_LABELS,
        LASTING_STATS,
        PASSING_LABELS,
        PASSING_STATS,
        SAMPLE_KEYS,
        SAMPLE_ROWS,
        FIRST_ROWS,
        FIRST_WEIGHTS,
        SAMPLE_STARTS,
        SAMPLE_WORDS,
        SAMPLE_COUNTS,
        FIRST_STARTS,
        FIRST_WORDS,
        FIRST_COUNTS,
        SAMPLE_WEIGHTS,
    ];
}

/// CRC-32 of the header text and then of each tensor's bytes.
fn checksum<'a>(header: &str, tensors: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.as_bytes());
    tensors.for_each(|bytes| hasher.update(bytes));
    format!("{:08x}", hasher.finalize())
}
