//! The result of a fit of topics as one JSON object, or as a few lines; the names of its fields are a contract.

use std::io::Write;

use serde::Serialize;

use super::subjects::{Row, Shown};
use super::{TOP_WORDS, largest_first, top_words};
use crate::args::OutputArgs;
use crate::failure::Failure;
use crate::picture::{counted, grouped};
use crate::printing::{Effort, print_json, print_places};

/// Topics that the summary shows.
const SHOWN: usize = 10;

/// What `fit --model hdp --json` prints.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    /// Documents absorbed.
    pub observations: u64,
    /// Words of the vocabulary.
    pub dimensions: usize,
    /// Topics.
    pub components: usize,
    /// Subjects: topics that are about the same.
    pub subjects: Vec<Row>,
    /// Topics with at least one table.
    pub effective_components: usize,
    /// Words absorbed: the sum over all topics.
    pub mass: f64,
    /// Expected number of tables: topics of documents.
    pub tables: f64,
    /// Seconds of the fit, reading included, evaluation and reports not.
    pub seconds: f64,
    /// Processor seconds of the same.
    pub cpu_seconds: f64,
    /// Minibatches in the model.
    pub minibatches: u64,
    /// Assignment problems solved.
    pub matchings: u64,
    /// Entries that had to be identified again.
    pub conflicts: u64,
    /// Lines that were no documents.
    pub skipped_rows: u64,
    /// Words that were not in the vocabulary.
    pub unknown_words: f64,
    /// Mean log-probability of a held-out word by document completion.
    pub test_log_likelihood: Option<f64>,
    /// Held-out words.
    pub test_words: Option<f64>,
    /// Mean NPMI coherence of the topics.
    pub coherence: Option<f64>,
    /// The most memory held.
    pub peak_rss_bytes: Option<u64>,
    /// Threads that inferred.
    pub threads: usize,
    /// Logical workers.
    pub workers: usize,
    /// Seed.
    pub seed: u64,
    /// Algorithm.
    pub algorithm: &'static str,
    /// Model.
    pub model: &'static str,
    /// Family.
    pub family: &'static str,
    /// Concentration of the topics.
    pub gamma: f64,
    /// Concentration of a document.
    pub alpha0: f64,
    /// Pseudo-count of a word.
    pub eta: f64,
    /// True when the run was stopped before the end of the input.
    pub stopped: bool,
    /// Version of the program.
    pub version: &'static str,
}

impl Outcome {
    /// What the page of a report begins with.
    pub(super) fn facts(&self, are_groups: bool) -> Vec<(String, String)> {
        let number = |name: &str, value: f64| (name.to_owned(), grouped(value.round()));
        let mut facts = vec![
            number("documents", self.observations as f64),
            number("words", self.mass),
            number("topics", self.components as f64),
        ];
        facts.extend(are_groups.then(|| number("subjects", self.subjects.len() as f64)));
        let likelihood = |likelihood| ("held-out, per word".to_owned(), format!("{likelihood:.4}"));
        facts.extend(self.test_log_likelihood.map(likelihood));
        facts
    }

    /// Prints the outcome as JSON or as a few lines.
    pub fn print(&self, shown: &Shown<'_>, output: &OutputArgs) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        if output.json {
            return print_json(&mut out, self, "result");
        }
        writeln!(
            out,
            "{}, {} of a vocabulary of {} → {}",
            counted(self.observations, "document"),
            counted(self.mass.round() as u64, "word"),
            grouped(self.dimensions as f64),
            counted(self.components as u64, "topic"),
        )?;
        Effort {
            seconds: self.seconds,
            threads: self.threads,
            cpu_seconds: self.cpu_seconds,
            minibatches: self.minibatches,
            matchings: self.matchings,
            conflicts: self.conflicts,
        }
        .print(&mut out)?;
        if self.skipped_rows > 0 {
            writeln!(out, "{} skipped", counted(self.skipped_rows, "bad line"))?;
        }
        if self.unknown_words > 0.0 {
            writeln!(out, "{} not in the vocabulary", counted(self.unknown_words as u64, "word"))?;
        }
        if let Some(likelihood) = self.test_log_likelihood {
            writeln!(out, "held-out log-likelihood per word {likelihood:.4} (document completion)")?;
        }
        let model = shown.model;
        shown.print(&mut out)?;
        for topic in largest_first(model.fold.posterior()).into_iter().take(SHOWN) {
            let words = top_words(topic, TOP_WORDS);
            let words: Vec<&str> =
                words.iter().map(|word| model.vocabulary.words()[*word as usize].as_str()).collect();
            let share = 100.0 * topic.evidence().stats[0] / self.mass.max(f64::MIN_POSITIVE);
            writeln!(out, "{:>6} {share:>5.1} %  {}", topic.id(), words.join(" "))?;
        }
        print_places(&mut out, output)
    }
}
