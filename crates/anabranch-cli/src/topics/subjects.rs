//! The subjects of a model of topics, as they are shown.

use std::io::Write;

use anabranch::subjects::{Join, Subject, Subjects, all_words, subjects, telling_words};
use anabranch_io::model::TopicModel;
use serde::Serialize;

use crate::failure::Failure;
use crate::picture::counted;

/// Words that a subject is named by, and that are shown of it.
const NAME: usize = 3;
const WORDS: usize = 8;

/// The subjects of a model, with the words that tell what they are about.
pub(super) struct Shown<'m> {
    pub(super) found: Subjects,
    pub(super) model: &'m TopicModel,
    all: Vec<f64>,
}

/// A subject in `inspect --json` and `fit --json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// Share of all words.
    weight: f64,
    /// The words that tell best what it is about.
    words: Vec<String>,
    /// Ids of its topics, the largest first.
    topics: Vec<u64>,
}

/// How subjects would go on to join: numbers of subjects from 0, and of what has been joined after them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    parts: [usize; 2],
    loss: f64,
}

impl<'m> Shown<'m> {
    pub(super) fn of(model: &'m TopicModel) -> Self {
        let posterior = model.fold.posterior();
        Self { found: subjects(posterior), model, all: all_words(posterior) }
    }

    /// Whether the subjects are more than the topics once more.
    pub(super) fn are_groups(&self) -> bool {
        self.found.list.iter().any(|subject| subject.topics.len() > 1)
    }

    /// The words that tell best what these counts are about.
    pub(super) fn words(&self, counts: &[f64], n: usize) -> Vec<&'m str> {
        let words = telling_words(counts, &self.all, n);
        words.into_iter().map(|word| self.model.vocabulary.words()[word as usize].as_str()).collect()
    }

    /// A few words that name a subject.
    pub(super) fn name(&self, subject: &Subject) -> String {
        self.words(&subject.counts, NAME).join(" ")
    }

    /// Share of all words.
    pub(super) fn weight(&self, subject: &Subject) -> f64 {
        subject.mass / self.model.fold.posterior().mass().max(f64::MIN_POSITIVE)
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let components = self.model.fold.posterior().components();
        let row = |subject: &Subject| Row {
            weight: self.weight(subject),
            words: self.words(&subject.counts, WORDS).into_iter().map(str::to_owned).collect(),
            topics: subject.topics.iter().map(|ix| components[*ix].id().0).collect(),
        };
        self.found.list.iter().map(row).collect()
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.found.joins.iter().map(|Join { parts, loss }| Step { parts: *parts, loss: *loss }).collect()
    }

    /// A line for each, where they are more than the topics once more.
    pub(super) fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        if !self.are_groups() {
            return Ok(());
        }
        writeln!(
            out,
            "{}, by the words that tell most of them:",
            counted(self.found.list.len() as u64, "subject")
        )?;
        for subject in &self.found.list {
            let topics = counted(subject.topics.len() as u64, "topic");
            let words = self.words(&subject.counts, WORDS).join(" ");
            writeln!(out, "{:>12.1} %  {topics:>11}  {words}", 100.0 * self.weight(subject))?;
        }
        writeln!(out, "the largest topics:")?;
        Ok(())
    }
}
