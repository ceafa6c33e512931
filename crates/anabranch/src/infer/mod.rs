//! Minibatch inference: a worker learns `q_m` from the central posterior `q_o` and its own rows (paper Figure 1b).
//!
//! What leaves this folder is an [`Increment`]: what the minibatch taught about each component, never a posterior.

mod ascent;
mod birth;
mod bootstrap;
mod cells;
mod court;
mod features;
mod labels;
mod look;
mod merge;
mod missing;
mod mixture;
mod model;
mod narrow;
mod nearest;
mod ordinary;
mod path;
mod repeats;
mod skip;
mod split;
mod surprise;
mod topics;
pub mod upkeep;

pub use bootstrap::{Bootstrap, Outlook, PriorChoice, bootstrap};
pub use cells::spread;
pub use features::FeatureSettings;
pub use mixture::{InferenceReport, Workspace, infer};
pub use model::Inference;
pub use path::Between;
pub use repeats::copies;

pub use topics::TopicSettings;

use serde::{Deserialize, Serialize};

use crate::identify::ComponentId;
use crate::posterior::{Evidence, Told};

/// What the E-step's product of features and parameters is computed in.
///
/// The labels are the same: single precision only rules out what a row cannot belong to, by a bound on its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Single precision for what can be ruled out, double precision for what is left.
    #[default]
    Mixed,
    /// Double precision for all.
    Double,
}

/// How minibatch inference runs. The defaults suit data nobody has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Components that one minibatch may open (the paper's truncation).
    pub max_new: usize,
    /// Iterations of coordinate ascent at most.
    pub max_iterations: usize,
    /// The ascent stops when an iteration gains less than this for each row …
    pub absolute_tolerance: f64,
    /// … or less than this share of the objective's size.
    pub relative_tolerance: f64,
    /// A row may seed a component when the probability that it belongs to none of the known ones exceeds this.
    pub birth_threshold: f64,
    /// Whether rows also seed components when most of their minibatch is explained worse than usual: the stream has changed.
    pub surprise: bool,
    /// What the scores of rows are computed in.
    pub precision: Precision,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_new: 50,
            max_iterations: 30,
            absolute_tolerance: 1e-3,
            relative_tolerance: 1e-8,
            birth_threshold: 0.1,
            surprise: true,
            precision: Precision::default(),
        }
    }
}

/// The components that data are compared with when they are looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// With all of them.
    Everywhere,
    /// With those that were possible for each datum at the last look everywhere, where the inference remembers them.
    WherePossible,
}

/// What a minibatch taught: evidence for components the worker knew, and for components it opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Increment {
    /// Version of the snapshot that served as prior.
    pub base: u64,
    /// Weight of the rows; MASS says that the expected counts add up to it.
    pub mass: f64,
    /// How probable the rows are under that snapshot, where the model tells it.
    pub familiarity: Option<Told>,
    /// Evidence for known components, in the order of their ids.
    pub existing: Vec<(ComponentId, Evidence)>,
    /// Evidence of each new component.
    pub new: Vec<Evidence>,
}

impl Increment {
    /// Nothing was learned.
    pub(crate) fn nothing(base: u64) -> Self {
        Self { base, mass: 0.0, familiarity: None, existing: vec![], new: vec![] }
    }

    /// `Σ_k t_k` over all components.
    pub fn expected_mass(&self) -> f64 {
        let existing = self.existing.iter().map(|(_, evidence)| evidence);
        existing.chain(&self.new).map(|evidence| evidence.labels.expected_count).sum()
    }
}
