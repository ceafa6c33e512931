//! What a job is: decided once, by whoever creates it, and the same for every worker.

use anabranch::infer::PriorChoice;
use anabranch::process::{Bound, Parameter};
use anabranch_io::OnBadRow;
use anabranch_io::journal::{ENTRY_VERSION, SUMS_SINCE};
use serde::{Deserialize, Serialize};

use crate::error::ClusterError;

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
    /// Bytes of the journal.
    pub journal_bytes: u64,
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
            journal_bytes: 1 << 30,
        }
    }
}

impl JobSpec {
    /// Reads the settings of a job that somebody created, maybe with a newer program.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<Self, ClusterError> {
        let value: serde_json::Value = serde_json::from_slice(bytes)
            .map_err(|error| ClusterError::Damaged(format!("the job's settings: {error}")))?;
        // The version first: a newer program may have settings that we cannot read.
        let format = value.get("entry_format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if format > u64::from(ENTRY_VERSION) {
            return Err(ClusterError::Newer(format!(
                "the job's journal is in entry format {format}, this program knows up to {ENTRY_VERSION}"
            )));
        }
        serde_json::from_value(value)
            .map_err(|error| ClusterError::Damaged(format!("the job's settings: {error}")))
    }

    /// Whether an entry may hold several minibatches: the workers of an older job may not know that.
    pub(crate) fn has_sums(&self) -> bool {
        self.entry_format >= SUMS_SINCE.into()
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("settings hold only text and numbers")
    }

    /// The first setting in which two jobs differ, as name, value here, value there.
    pub(crate) fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        let (a, b) = (serde_json::to_value(self).ok()?, serde_json::to_value(other).ok()?);
        let (a, b) = (a.as_object()?, b.as_object()?);
        // A job keeps the format that it was created with, and newer programs write in it.
        a.iter().filter(|(name, _)| *name != "entry_format").find_map(|(name, mine)| {
            let theirs = b.get(name)?;
            (mine != theirs).then(|| (name.clone(), mine.to_string(), theirs.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_and_a_newer_format_is_refused_before_anything_else_is_read() {
        let spec = JobSpec::default();
        assert_eq!(JobSpec::from_json(&spec.to_json()).unwrap(), spec);
        let error = JobSpec::from_json(br#"{"entry_format": 4, "something": "new"}"#).unwrap_err();
        assert_eq!(error.to_string(), "the job's journal is in entry format 4, this program knows up to 3");
    }

    #[test]
    fn the_setting_that_differs_is_named() {
        let (a, b) = (JobSpec::default(), JobSpec { alpha: 2.0.into(), ..JobSpec::default() });
        assert_eq!(a.difference(&b), Some(("alpha".into(), "5.0".into(), "2.0".into())));
        assert_eq!(a.difference(&a), None);
        assert_eq!(a.difference(&JobSpec { entry_format: 2, ..JobSpec::default() }), None);
    }
}
