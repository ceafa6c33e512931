//! What a job learns: everything that journal, states and snapshots leave open.
//!
//! The protocol adds evidence, identifies components and counts minibatches; what a datum is, how one learns from it and how a
//! model is stored is behind [`Kind`]. The list of kinds stands in one place, [`for_kind`](crate::for_kind).

mod features;
mod mixture;
mod topics;

use std::fmt::Debug;
use std::path::Path;

use anabranch::batch::Minibatch;
use anabranch::central::{Entry, Fold, Memory};
use anabranch::engine::Config;
use anabranch::family::Conjugate;
use anabranch::infer::Inference;
use anabranch::process::Process;
use anabranch_io::model::{ModelError, ModelFault, Provenance, StoredFamily, StoredModel, StoredProcess};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use features::Features;
pub use mixture::Mixture;
pub use topics::{Topics, document_options};

use crate::spec::JobSpec;

/// A kind of model that a cluster can learn.
pub trait Kind: Clone + Copy + Debug + Default + Send + Sync + 'static {
    /// What a component is.
    type Family: Conjugate + Serialize + DeserializeOwned;

    /// How many there are.
    type Process: Process + Serialize + DeserializeOwned;

    /// How one learns from a minibatch.
    type Inference: Inference<Self::Family, Self::Process, Batch: Minibatch, Workspace: Send>;

    /// What a model has besides its fold, which does not change while a job runs.
    type About: Clone + Debug + Send + Sync + 'static;

    /// A model as it is stored.
    type Model: Clone + Debug + Send + Sync + 'static;

    /// Whether entries say how many data they hold: where data have other weights than 1, the mass does not tell.
    const IS_COUNTED: bool;

    /// Whether evidence is mostly zeros, so that it travels without them.
    const IS_SPARSE: bool = false;

    /// How the job learns.
    fn config(spec: &JobSpec) -> Config<Self::Inference>;

    /// The data of a message and what was left out of them, or why there are none.
    fn decode(
        message: &[u8],
        about: &Self::About,
        family: &Self::Family,
        spec: &JobSpec,
    ) -> Result<(BatchOf<Self>, f64), String>;

    /// Whether a prior and a process can take the place of those that are there.
    fn can_follow(_now: (&Self::Family, &Self::Process), _next: (&Self::Family, &Self::Process)) -> bool {
        true
    }

    /// The model of a fold that was counted so, and whose entries were identified again so often.
    fn model(fold: FoldOf<Self>, about: &Self::About, count: Count, conflicts: u64) -> Self::Model;

    /// The other way.
    fn parts(model: Self::Model) -> (FoldOf<Self>, Self::About, Count);

    /// Writes the model, replacing the file atomically.
    fn save(model: &Self::Model, path: &Path) -> Result<(), ModelError>;

    /// The bytes of a checkpoint.
    fn to_bytes(model: &Self::Model, memory: &MemoryOf<Self>) -> Vec<u8>;

    /// A model from the bytes of a checkpoint, with the data that its run remembered.
    fn from_bytes(bytes: &[u8]) -> Result<(Self::Model, MemoryOf<Self>), ModelFault>;
}

/// What a kind learns from.
pub type BatchOf<K> = <<K as Kind>::Inference as Inference<<K as Kind>::Family, <K as Kind>::Process>>::Batch;
/// Memory that its inference reuses.
pub type WorkspaceOf<K> =
    <<K as Kind>::Inference as Inference<<K as Kind>::Family, <K as Kind>::Process>>::Workspace;
/// Its fold.
pub type FoldOf<K> = Fold<<K as Kind>::Family, <K as Kind>::Process>;
/// Its entries.
pub type EntryOf<K> = Entry<<K as Kind>::Family, <K as Kind>::Process>;
/// The data it remembers.
pub type MemoryOf<K> = Memory<BatchOf<K>>;

/// How many data minibatches held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Rows or documents.
    pub rows: u64,
    /// Weight of what was left out of them: words that are not in the vocabulary.
    pub left_out: f64,
}

impl Count {
    /// So many more.
    pub fn add(&mut self, more: Self) {
        self.rows = self.rows.saturating_add(more.rows);
        self.left_out += more.left_out;
    }

    /// Whether some data can have been counted so.
    pub(crate) fn is_possible(self) -> bool {
        self.left_out.is_finite() && self.left_out >= 0.0
    }
}

/// The model of rows that weigh 1 each: the mass is their number.
fn of_rows<F: StoredFamily, P: StoredProcess>(
    fold: Fold<F, P>,
    about: &Provenance,
    conflicts: u64,
) -> StoredModel<F, P> {
    let observations = fold.posterior().mass().round() as u64;
    StoredModel { fold, provenance: Provenance { observations, conflicts, ..about.clone() } }
}

/// Does something with the kind that a job's settings name: `for_kind!(spec, K => work::<K>(job))`.
#[macro_export]
macro_rules! for_kind {
    ($spec:expr, $kind:ident => $body:expr) => {
        match $spec.model {
            $crate::ModelSpec::Mixture => {
                type $kind = $crate::Mixture;
                $body
            }
            $crate::ModelSpec::Topics(_) => {
                type $kind = $crate::Topics;
                $body
            }
            $crate::ModelSpec::Features(_) => {
                type $kind = $crate::Features;
                $body
            }
        }
    };
}
