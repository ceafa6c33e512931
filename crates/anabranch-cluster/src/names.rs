//! What a job's streams, subjects and minibatches are called.

use std::fmt;
use std::str::FromStr;

use anabranch::central::BatchId;

use crate::error::ClusterError;
use crate::protocol::Append;

/// A name that can stand in subjects and in names of streams.
///
/// ```
/// use anabranch_cluster::JobName;
/// assert!("clicks-2024_a".parse::<JobName>().is_ok());
/// assert!("a.b".parse::<JobName>().is_err() && "".parse::<JobName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName(String);

const LONGEST: usize = 64;
/// Set in the names of minibatches that belong to a source; those of anybody's rows are numbered below.
const OF_A_SOURCE: u64 = 1 << 61;
/// Bits for the minibatches of one source; the source's number stands above.
const NUMBER_BITS: u32 = 32;
/// Sources are numbered below this, so that every name stays below what the model file takes.
pub(crate) const MAX_SOURCES: u64 = 1 << 29;

impl FromStr for JobName {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if text.is_empty() || text.len() > LONGEST || !text.chars().all(good) {
            return Err(ClusterError::JobName(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JobName {
    /// The stream of one of the job's queues. The first one has the name that it has in a job of one queue.
    pub(crate) fn batches_stream(&self, queue: u32) -> String {
        match queue {
            0 => format!("anabranch-{}-batches", self.0),
            _ => format!("anabranch-{}-batches-{queue}", self.0),
        }
    }

    /// Whether a stream is one of the job's queues.
    pub(crate) fn is_queue(&self, stream: &str) -> bool {
        let queue = stream.strip_prefix(&self.batches_stream(0));
        queue.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('-').is_some_and(|queue| queue.parse::<u32>().is_ok())
        })
    }

    pub(crate) fn journal_stream(&self) -> String {
        format!("anabranch-{}-journal", self.0)
    }

    pub(crate) fn dead_stream(&self) -> String {
        format!("anabranch-{}-dead", self.0)
    }

    pub(crate) fn settings_bucket(&self) -> String {
        format!("anabranch-{}", self.0)
    }

    pub(crate) fn workers_bucket(&self) -> String {
        format!("anabranch-{}-workers", self.0)
    }

    pub(crate) fn snapshots_bucket(&self) -> String {
        format!("anabranch-{}-snapshots", self.0)
    }

    /// Where `submit` publishes the minibatches of one source that go into this queue.
    pub(crate) fn batch_subject(&self, source: u64, queue: u32) -> String {
        match queue {
            0 => format!("anabranch.{}.batch.{source}", self.0),
            _ => format!("anabranch.{}.batch.{source}.{queue}", self.0),
        }
    }

    /// Where anybody may publish rows.
    pub fn rows_subject(&self) -> String {
        format!("anabranch.{}.rows", self.0)
    }

    /// Where minibatches go that no worker could learn from.
    pub fn dead_subject(&self) -> String {
        format!("anabranch.{}.dead", self.0)
    }

    /// What a queue takes: the first one also rows from anybody.
    pub(crate) fn all_batches(&self, queue: u32) -> Vec<String> {
        match queue {
            0 => vec![format!("anabranch.{}.batch.*", self.0), self.rows_subject()],
            _ => vec![format!("anabranch.{}.batch.*.{queue}", self.0)],
        }
    }

    pub(crate) fn journal_subject(&self, lane: Append) -> String {
        match lane {
            Append::Plain => format!("anabranch.{}.journal.plain", self.0),
            Append::Births => format!("anabranch.{}.journal.births", self.0),
        }
    }

    /// Where the holder of the lease tells the folded state.
    pub(crate) fn state_subject(&self) -> String {
        format!("anabranch.{}.state", self.0)
    }

    pub(crate) fn lane(&self, subject: &str) -> Append {
        if subject.ends_with(".births") { Append::Births } else { Append::Plain }
    }

    pub(crate) fn all_journal(&self) -> Vec<String> {
        vec![format!("anabranch.{}.journal.*", self.0)]
    }

    /// The source that a subject belongs to; 0 for rows from anybody.
    pub(crate) fn source_of(&self, subject: &str) -> Option<u64> {
        if subject == self.rows_subject() {
            return Some(0);
        }
        let source = subject.strip_prefix(&format!("anabranch.{}.batch.", self.0))?.split('.').next()?;
        source.parse().ok().filter(|source| *source < MAX_SOURCES)
    }
}

/// The name of a minibatch: its source (0: anybody) and its number within; `None` when there are too many.
pub(crate) fn batch_id(source: u64, number: u64) -> Option<BatchId> {
    match source {
        0 => (number < OF_A_SOURCE).then_some(BatchId(number)),
        _ => (source < MAX_SOURCES && number < 1 << NUMBER_BITS)
            .then_some(BatchId(OF_A_SOURCE | source << NUMBER_BITS | number)),
    }
}

/// How many minibatches of a source are in a set of runs of ids.
pub(crate) fn count_of_source(runs: &[(u64, u64)], source: u64) -> u64 {
    let first = OF_A_SOURCE | source << NUMBER_BITS;
    let last = first + (1 << NUMBER_BITS) - 1;
    let within = runs.iter().filter(|(from, to)| *to >= first && *from <= last);
    within.map(|(from, to)| to.min(&last) - from.max(&first) + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_mean_something_to_the_server_are_refused() {
        for bad in ["", "a.b", "a b", "*", ">", "a/b", "ä", "a\n", &"x".repeat(65)] {
            let error = bad.parse::<JobName>().unwrap_err();
            assert!(matches!(error, ClusterError::JobName(name) if name == bad));
        }
    }

    #[test]
    fn a_subject_tells_its_source() {
        let job: JobName = "j".parse().unwrap();
        assert_eq!(job.source_of("anabranch.j.rows"), Some(0));
        assert_eq!([0, 3].map(|queue| job.source_of(&job.batch_subject(7, queue))), [Some(7); 2]);
        assert_eq!(job.source_of("anabranch.j.batch.x"), None);
        assert_eq!(job.source_of("anabranch.j.batch.99999999999"), None);
    }

    #[test]
    fn the_queues_of_a_job_are_known_by_their_names() {
        let job: JobName = "j".parse().unwrap();
        assert!([0, 1, 12].into_iter().all(|queue| job.is_queue(&job.batches_stream(queue))));
        for other in ["anabranch-j-journal", "anabranch-j-batches-", "anabranch-j-batches-1-batches"] {
            assert!(!job.is_queue(other), "{other}");
        }
    }

    #[test]
    fn minibatches_of_sources_are_counted_apart() {
        let id = |source, number| batch_id(source, number).unwrap().0;
        let runs = [(id(0, 5), id(0, 9)), (id(1, 0), id(1, 3)), (id(2, 7), id(2, 7))];
        assert_eq!([1, 2, 3].map(|source| count_of_source(&runs, source)), [4, 1, 0]);
    }

    #[test]
    fn names_never_wrap_around() {
        assert!(batch_id(MAX_SOURCES - 1, (1 << 32) - 1).unwrap().0 < 1 << 62);
        assert_eq!(batch_id(1, 1 << 32), None);
        assert_eq!(batch_id(MAX_SOURCES, 0), None);
        assert_eq!(batch_id(0, 1 << 61), None);
    }
}
