//! What a job is: decided once, by whoever creates it, and the same for every worker.

use anabranch::infer::PriorChoice;
use anabranch::process::{Beta, Bound, Hierarchical, Parameter};
use anabranch_io::OnBadRow;
use anabranch_io::journal::{ENTRY_VERSION, ORDINARY_SINCE, SUMS_SINCE};
use anabranch_io::model::TextProvenance;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ClusterError;

/// The newest format of jobs that this program knows.
const NEWEST: u16 = ENTRY_VERSION as u16;

/// The format of jobs of other models than mixtures: the first one that has them.
const OTHER_MODELS: u16 = 4;

/// The first format with several queues: who does not know it would leave rows in all but one.
const SEVERAL_QUEUES: u16 = 5;

/// The settings of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Format of the journal's entries. Workers that do not know it stay away.
    pub entry_format: u16,
    /// What `--family` says.
    pub family: String,
    /// What the prior flags say.
    pub prior: PriorSpec,
    /// Concentration.
    pub alpha: Parameter,
    /// Discount of a Pitman–Yor mixture; without one it is a Dirichlet process.
    pub discount: Option<Parameter>,
    /// Which bound components are scored with.
    pub bound: Bound,
    /// Rows of a minibatch.
    pub batch_size: u32,
    /// Rows that the bootstrap waits for.
    pub bootstrap_rows: u32,
    /// Components that a minibatch may open.
    pub max_new: u32,
    /// Seed.
    pub seed: u64,
    /// Columns to keep, by name or position.
    pub columns: Option<Vec<String>>,
    /// What to do with bad rows.
    pub on_bad_row: OnBadRow,
    /// Deliveries after which a minibatch is set aside.
    pub max_deliver: u32,
    /// Seconds after which a silent worker's minibatch goes to another one.
    pub ack_wait: u32,
    /// A snapshot is due after this many messages of the journal …
    pub snapshot_entries: u64,
    /// … or this many seconds.
    pub snapshot_seconds: u64,
    /// Copies of every stream.
    pub replicas: u32,
    /// Bytes of minibatches that may wait.
    pub queue_bytes: u64,
    /// Queues that minibatches are dealt out to.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub queues: u32,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// What is learned.
    #[serde(default, skip_serializing_if = "ModelSpec::is_mixture")]
    pub model: ModelSpec,
    /// Checksum of what belongs to the settings and is too long for them.
    #[serde(rename = "vocabulary", default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<u32>,
}

/// What is learned, with the settings that belong to it alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSpec {
    /// A mixture.
    #[default]
    Mixture,
    /// Topics of documents.
    Topics(Box<TopicSpec>),
    /// Features that add up.
    Features(FeatureSpec),
}

/// Settings of topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSpec {
    /// Concentrations.
    pub process: Hierarchical,
    /// Pseudo-count of a word, where it is not learned.
    pub eta: Option<f64>,
    /// Where the words come from.
    pub words: WordSpec,
    /// How text becomes words.
    pub text: TextProvenance,
}

/// Where the vocabulary comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WordSpec {
    /// The first documents: whoever makes the first model finds it there.
    Found,
    /// So many words without names.
    Numbered(u64),
    /// It is attached to the settings, one word a line.
    Attached,
}

/// Settings of features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSpec {
    /// How many features a row has.
    pub process: Beta,
    /// Variance of the noise and of the features, where they are not learned.
    pub variances: Option<(f64, f64)>,
}

impl ModelSpec {
    fn name(&self) -> &'static str {
        match self {
            Self::Mixture => "mixture",
            Self::Topics(_) => "topics",
            Self::Features(_) => "features",
        }
    }

    fn is_mixture(&self) -> bool {
        *self == Self::Mixture
    }
}

/// Prior flags as they were typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names of the flags")]
pub struct PriorSpec {
    pub mean: Option<String>,
    pub kappa: Option<f64>,
    pub scale: Option<String>,
    pub dof: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
}

impl PriorSpec {
    /// A prior that somebody has given a part of is not estimated.
    pub fn choice(&self) -> PriorChoice {
        let Self { mean, kappa, scale, dof, resolution: _ } = self;
        let given = mean.is_some() || kappa.is_some() || scale.is_some() || dof.is_some();
        if given { PriorChoice::Given } else { PriorChoice::Estimated }
    }
}

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            entry_format: ENTRY_VERSION.into(),
            family: "gaussian".into(),
            prior: PriorSpec::default(),
            alpha: Parameter::Given(5.0),
            discount: None,
            bound: Bound::Paper,
            batch_size: 1000,
            bootstrap_rows: anabranch::engine::BOOTSTRAP_ROWS as u32,
            max_new: 50,
            seed: 0,
            columns: None,
            on_bad_row: OnBadRow::Fail,
            max_deliver: 10,
            ack_wait: 30,
            snapshot_entries: 1000,
            snapshot_seconds: 60,
            replicas: 1,
            queue_bytes: 256 << 20,
            queues: 1,
            journal_bytes: 1 << 30,
            model: ModelSpec::Mixture,
            attached: None,
        }
    }
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

impl JobSpec {
    /// The same for another model, which older programs stay away from.
    pub fn of(self, model: ModelSpec) -> Self {
        let entry_format = if model.is_mixture() { ENTRY_VERSION.into() } else { OTHER_MODELS };
        let queues = self.queues;
        Self { model, entry_format, ..self }.with_queues(queues)
    }

    /// The same with so many queues.
    pub fn with_queues(self, queues: u32) -> Self {
        let entry_format = if queues > 1 { self.entry_format.max(SEVERAL_QUEUES) } else { self.entry_format };
        Self { queues, entry_format, ..self }
    }

    /// Reads the settings of a job that somebody created, maybe with a newer program.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<Self, ClusterError> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| ClusterError::Damaged(format!("the job's settings: {error}")))?;
        // The version first: a newer program may have settings that we cannot read.
        let format = value.get("entry_format").and_then(Value::as_u64).unwrap_or(0);
        if format > u64::from(NEWEST) {
            return Err(ClusterError::Newer(format!(
                "the job's journal is in entry format {format}, this program knows up to {NEWEST}"
            )));
        }
        let spec: Self = serde_json::from_value(value)
            .map_err(|error| ClusterError::Damaged(format!("the job's settings: {error}")))?;
        match spec.queues {
            0 => Err(ClusterError::Damaged("the job's settings: it has no queue".into())),
            _ => Ok(spec),
        }
    }

    /// Whether an entry may hold several minibatches: the workers of an older job may not know that.
    pub(crate) fn has_sums(&self) -> bool {
        self.entry_format >= SUMS_SINCE.into()
    }

    /// Whether an entry may tell how probable rows are now.
    pub(crate) fn has_ordinary(&self) -> bool {
        self.entry_format >= ORDINARY_SINCE.into()
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("settings hold only text and numbers")
    }

    /// The first setting in which two jobs differ, as name, value here, value there.
    pub(crate) fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        let (mine, theirs) = (self.model.name(), other.model.name());
        if mine != theirs {
            return Some(("model".into(), mine.into(), theirs.into()));
        }
        let (a, b) = (self.settings(), other.settings());
        let shown = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), Value::to_string);
        // A job keeps the format that it was created with, and newer programs write in it.
        a.keys().chain(b.keys()).filter(|name| *name != "entry_format").find_map(|name| {
            let (mine, theirs) = (a.get(name), b.get(name));
            (mine != theirs).then(|| (name.clone(), shown(mine), shown(theirs)))
        })
    }

    /// All settings by name, those that belong to the model among them.
    fn settings(&self) -> Map<String, Value> {
        let of = |value| match value {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        let mut all = of(serde_json::to_value(self).unwrap_or_default());
        let own = all.remove("model").and_then(|model| model.get(self.model.name()).cloned());
        all.extend(of(own.unwrap_or_default()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_and_a_newer_format_is_refused_before_anything_else_is_read() {
        let spec = JobSpec::default();
        assert_eq!(JobSpec::from_json(&spec.to_json()).unwrap(), spec);
        assert!(!String::from_utf8(spec.to_json()).unwrap().contains("queues"), "older programs know one");
        let several = JobSpec { entry_format: 3, ..spec }.with_queues(4);
        assert_eq!((several.queues, several.entry_format), (4, 5));
        assert_eq!(JobSpec::from_json(&several.to_json()).unwrap(), several);
        let error = JobSpec::from_json(br#"{"entry_format": 6, "something": "new"}"#).unwrap_err();
        assert_eq!(error.to_string(), "the job's journal is in entry format 6, this program knows up to 5");
    }

    #[test]
    fn the_setting_that_differs_is_named() {
        let (a, b) = (JobSpec::default(), JobSpec { alpha: 2.0.into(), ..JobSpec::default() });
        assert_eq!(a.difference(&b), Some(("alpha".into(), "5.0".into(), "2.0".into())));
        assert_eq!(a.difference(&a), None);
        assert_eq!(a.difference(&JobSpec { entry_format: 2, ..JobSpec::default() }), None);
        let features = |noise: f64| {
            let process = Beta::new(5.0, 1.0, Bound::Paper).unwrap();
            JobSpec::default().of(ModelSpec::Features(FeatureSpec { process, variances: Some((noise, 1.0)) }))
        };
        assert_eq!(a.difference(&features(1.0)), Some(("model".into(), "mixture".into(), "features".into())));
        let (one, two) = ("[1.0,1.0]".into(), "[2.0,1.0]".into());
        assert_eq!(features(1.0).difference(&features(2.0)), Some(("variances".into(), one, two)));
        assert_eq!(JobSpec::from_json(&features(1.0).to_json()).unwrap(), features(1.0));
        // What only one of them says is a difference too.
        let attached = JobSpec { attached: Some(7), ..JobSpec::default() };
        assert_eq!(a.difference(&attached), Some(("vocabulary".into(), "none".into(), "7".into())));
    }
}
