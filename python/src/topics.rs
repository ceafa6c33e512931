//! Topics for Python: the class behind `HDPTopics`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch::central::Fold;
use anabranch::documents::Documents;
use anabranch::family::Topic;
use anabranch::identify::ComponentId;
use anabranch::infer::TopicSettings;
use anabranch::learner::course::Course;
use anabranch::posterior::{Component, Posterior, TopicPredictor, halves};
use anabranch::process::{Hierarchical, Process};
use anabranch::subjects::{Subject, all_words, subjects, telling_words};
use anabranch_cli::topic_model;
use anabranch_io::model::{TopicModel, TopicProvenance};
use anabranch_io::words::Vocabulary;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::Fault;
use crate::learn::Tally;
use crate::options::{Parameters, TopicOptions};
use crate::rows::{Lent, Rows};
use crate::run::{CourseOf, Kind, Known, Pickled, Run, Shown};
use crate::view::in_slabs;

/// The number of the subject of each topic, and words of each subject.
type Grouped<'py> = (Bound<'py, PyArray1<i64>>, Vec<Vec<String>>);

/// Topics of documents.
pub struct Hdp;

impl Kind for Hdp {
    type Family = Topic;
    type Process = Hierarchical;
    type Inference = TopicSettings;
    type Predictor = TopicPredictor;

    fn predictor(posterior: &Posterior<Topic, Hierarchical>) -> TopicPredictor {
        TopicPredictor::new(posterior)
    }
}

/// The parameters of topics and what was learned.
#[pyclass(frozen, module = "anabranch._core")]
pub struct Topics {
    options: TopicOptions,
    run: Run<Hdp>,
    /// The words, in the order of their numbers.
    vocabulary: Mutex<Option<Vocabulary>>,
    /// What the file said that it was read from.
    made: TopicProvenance,
}

type Parts = (String, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u64>, Option<Vec<String>>);

#[pymethods]
impl Topics {
    /// Parameters as JSON.
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        let options = TopicOptions::parse(options)?;
        Ok(Self {
            options,
            run: Run::default(),
            vocabulary: Mutex::new(None),
            made: TopicProvenance::default(),
        })
    }

    /// Documents handed over so far.
    #[getter]
    fn rows_seen(&self) -> u64 {
        self.run.rows_seen()
    }

    /// The words; `None` before there are any.
    #[getter]
    fn words(&self) -> Option<Vec<String>> {
        self.lock().as_ref().map(|vocabulary| vocabulary.words().to_vec())
    }

    /// Documents that are missing to the first minibatch: while there are some, the vocabulary may grow.
    #[getter]
    fn missing(&self) -> usize {
        self.run.missing(self.first_rows())
    }

    /// Learns on so many threads from now on; they change no result.
    fn set_threads(&self, threads: usize) {
        self.run.set_threads(threads);
    }

    /// Refuses cells that are no counts, before any of them is learned from.
    #[pyo3(signature = (rows, words=None))]
    fn check(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, words: Option<Vec<String>>) -> PyResult<()> {
        let lent = Lent::borrow(rows)?;
        let rows = lent.rows();
        let known = self.lock().clone();
        py.detach(|| {
            let mut entries = Vec::new();
            let named = words.as_deref().or(known.as_ref().map(Vocabulary::words));
            (0..rows.len()).try_for_each(|row| document(rows, row, named, &mut entries))
        })?;
        Ok(())
    }

    /// Learns from counts.
    #[pyo3(signature = (rows, words=None, passes=1, callback=None))]
    fn learn(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        words: Option<Vec<String>>,
        passes: u32,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let lent = Lent::borrow(rows)?;
        let rows = lent.rows();
        let n_words = self.agree(rows.columns(), words)?;
        let cut = |first: usize, last: usize| documents(rows, first, last, n_words);
        self.run.learn(py, || self.course(), rows.len(), cut, passes, callback)
    }

    /// Prepares what whoever looks will see, so that no mistake is found later than here.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.run.look(py).map(|_| ())
    }

    /// The shares of the topics in each document, one document after another, and the number of topics.
    fn proportions<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, usize)> {
        let lent = Lent::borrow(rows)?;
        let rows = self.fitting(lent.rows())?;
        let shown = self.run.look(py)?;
        let (predictor, words) = (&shown.predictor, self.words());
        let width = predictor.ids().len();
        let values = in_slabs(py, rows.len(), width, threads, |first, out| {
            let mut entries = Vec::new();
            for (row, out) in (first..).zip(out.chunks_exact_mut(width)) {
                document(rows, row, words.as_deref(), &mut entries)?;
                out.copy_from_slice(&predictor.proportions(&entries).topics);
            }
            Ok(())
        })?;
        Ok((PyArray1::from_vec(py, values), width))
    }

    /// The mean log-probability of a word of each document, given its topics; NaN for one without words.
    fn log_probability<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let lent = Lent::borrow(rows)?;
        let rows = self.fitting(lent.rows())?;
        let shown = self.run.look(py)?;
        let (predictor, words) = (&shown.predictor, self.words());
        let values = in_slabs(py, rows.len(), 1, threads, |first, out| {
            let mut entries = Vec::new();
            for (row, out) in (first..).zip(out) {
                document(rows, row, words.as_deref(), &mut entries)?;
                let proportions = predictor.proportions(&entries);
                let ln = |(word, count): &(u32, f64)| count * predictor.probability(&proportions, *word).ln();
                let tokens: f64 = entries.iter().map(|(_, count)| count).sum();
                *out = entries.iter().map(ln).sum::<f64>() / tokens;
            }
            Ok(())
        })?;
        Ok(PyArray1::from_vec(py, values))
    }

    /// The mean log-probability of a word by document completion; `None` where nothing can be held out.
    fn completion(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let lent = Lent::borrow(rows)?;
        let rows = self.fitting(lent.rows())?;
        let shown = self.run.look(py)?;
        let words = self.words();
        let found = py.detach(|| {
            let mut entries = Vec::new();
            (0..rows.len()).try_for_each(|row| document(rows, row, words.as_deref(), &mut entries))?;
            let (observed, held_out) = halves(&documents(rows, 0, rows.len(), rows.columns())?);
            Ok::<_, Fault>(shown.predictor.completion(&observed, &held_out))
        })?;
        Ok(found)
    }

    /// Ids, counts and parameters as arrays.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shown = self.run.look(py)?;
        let (posterior, predictor) = (shown.fold.posterior(), &shown.predictor);
        let family = posterior.family();
        let living = posterior.components().iter();
        let living: Vec<_> =
            living.filter(|c| posterior.process().existing_mass(&c.evidence().labels) > 0.0).collect();
        let vector = |values: Vec<f64>| PyArray1::from_vec(py, values);
        let attributes = PyDict::new(py);
        let ids = predictor.ids().iter().map(|id| id.0 as i64).collect();
        attributes.set_item("ids", PyArray1::from_vec(py, ids))?;
        attributes.set_item("counts", vector(living.iter().map(|c| c.evidence().stats[0]).collect()))?;
        attributes.set_item("weights", vector(predictor.weights().to_vec()))?;
        let all_words = 0..family.n_words() as u32;
        let of = |topic: &Component| {
            let stats = &topic.evidence().stats;
            all_words.clone().map(|word| family.probability(stats, word)).collect::<Vec<f64>>()
        };
        let components: Vec<f64> = living.iter().flat_map(|topic| of(topic)).collect();
        attributes.set_item("components", vector(components).reshape([living.len(), family.n_words()])?)?;
        attributes.set_item("gamma", posterior.process().gamma())?;
        attributes.set_item("alpha0", posterior.process().alpha0())?;
        attributes.set_item("eta", family.eta())?;
        attributes.set_item("mass", posterior.expected_mass())?;
        Ok(attributes)
    }

    /// The number of the subject of each topic, and the words that tell most of each subject.
    fn subjects<'py>(&self, py: Python<'py>, n_words: usize) -> PyResult<Grouped<'py>> {
        let shown = self.run.look(py)?;
        let (posterior, vocabulary) = (shown.fold.posterior(), self.known_vocabulary()?);
        let (found, all) = py.detach(|| (subjects(posterior), all_words(posterior)));
        let subject_of = |id: &ComponentId| {
            let place = posterior.position(*id);
            let has = |subject: &Subject| place.is_some_and(|place| subject.topics.contains(&place));
            found.list.iter().position(has).map_or(-1, |number| number as i64)
        };
        let numbers = shown.predictor.ids().iter().map(subject_of).collect();
        let name = |word: u32| vocabulary.words()[word as usize].clone();
        let words =
            |subject: &Subject| telling_words(&subject.counts, &all, n_words).into_iter().map(name).collect();
        Ok((PyArray1::from_vec(py, numbers), found.list.iter().map(words).collect()))
    }

    /// The bytes of the model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let shown = self.run.look(py)?;
        Ok(PyBytes::new(py, &self.model(&shown)?.to_bytes(None)))
    }

    /// Writes the model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let shown = self.run.look(py)?;
        let model = self.model(&shown)?;
        py.detach(|| model.save(&path)).map_err(Fault::from)?;
        Ok(())
    }

    /// Goes on from the bytes of a model file.
    #[staticmethod]
    fn from_bytes(options: &str, bytes: &[u8]) -> PyResult<Self> {
        let (model, memory) = TopicModel::from_bytes(bytes).map_err(Fault::input)?;
        let mut topics = Self::new(options)?;
        let made = &model.provenance;
        let tally = Tally { rows: made.documents, matchings: made.matchings, conflicts: made.conflicts };
        let course = topics.course()?.going_on(model.fold, memory, true);
        topics.run = Run::of(Known { course, tally });
        topics.vocabulary = Mutex::new(Some(model.vocabulary));
        topics.made = model.provenance;
        Ok(topics)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        let restore = slf.get_type().getattr("_restore")?;
        let this = slf.get();
        let options = serde_json::to_string(&this.options).map_err(Fault::input)?;
        let Some(known) = this.run.known()? else {
            return Ok((restore, (options, None, None, Vec::new(), None)));
        };
        let (vocabulary, provenance) = (this.known_vocabulary()?, this.provenance(known.tally));
        let nothing = |waiting: &Documents| {
            let family = this.options.family(waiting.n_words()).map_err(Fault::input)?;
            Ok(Fold::new(family, this.options.asked()?.0))
        };
        let Pickled { checkpoint, waiting, numbers } = known.leave(nothing, |fold, memory| {
            // Documents that came before the last words know nothing of them.
            let words = vocabulary.words()[..fold.posterior().family().n_words()].to_vec();
            let vocabulary = Vocabulary::new(words).expect("the first words of a vocabulary are one");
            TopicModel { fold, vocabulary, provenance: provenance.clone() }.to_bytes(Some(memory))
        })?;
        Ok((restore, (options, checkpoint, waiting, numbers, Some(vocabulary.words().to_vec()))))
    }

    #[staticmethod]
    fn _restore(
        options: &str,
        checkpoint: Option<Vec<u8>>,
        waiting: Option<Vec<u8>>,
        numbers: Vec<u64>,
        words: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let mut topics = Self::new(options)?;
        let Some(words) = words else { return Ok(topics) };
        if let Some(checkpoint) = &checkpoint {
            topics.made = TopicModel::from_bytes(checkpoint).map_err(Fault::input)?.0.provenance;
        }
        let pickled = Pickled { checkpoint, waiting, numbers };
        let known = Known::find(topics.course()?, &pickled, |bytes| {
            let (model, memory) = TopicModel::from_bytes(bytes).map_err(Fault::input)?;
            Ok((model.fold, memory))
        })?;
        topics.run = Run::of(known);
        topics.vocabulary = Mutex::new(Some(Vocabulary::new(words).map_err(Fault::input)?));
        Ok(topics)
    }
}

impl Topics {
    fn lock(&self) -> MutexGuard<'_, Option<Vocabulary>> {
        // It is replaced in one step.
        self.vocabulary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_vocabulary(&self) -> Result<Vocabulary, Fault> {
        self.lock().clone().ok_or_else(|| Fault::input("the model has learned nothing yet"))
    }

    fn fitting<'a>(&self, rows: Rows<'a>) -> Result<Rows<'a>, Fault> {
        rows.expect_columns(self.known_vocabulary()?.len())?;
        Ok(rows)
    }

    /// The number of words, with columns that are those of the vocabulary, or more words while it may grow.
    fn agree(&self, columns: usize, words: Option<Vec<String>>) -> Result<usize, Fault> {
        let may_grow = self.missing() > 0;
        let mut known = self.lock();
        let now = match words {
            Some(words) => Vocabulary::new(words),
            None => known.clone().map_or_else(|| Vocabulary::numbered(columns), Ok),
        };
        let now = now.map_err(Fault::input)?;
        if now.len() != columns {
            return Err(Fault::input(format!("rows have {columns} columns, the model has {}", now.len())));
        }
        let before = known.as_ref().map_or(&[][..], Vocabulary::words);
        let begins_alike = now.words().starts_with(before);
        if !begins_alike || (now.len() > before.len() && !before.is_empty() && !may_grow) {
            return Err(Fault::input("the words are not those that the model was begun with"));
        }
        *known = Some(now);
        Ok(columns)
    }

    /// Documents of the first minibatch, learned alone or not.
    fn first_rows(&self) -> usize {
        match self.options.asked() {
            Ok((_, config)) if config.bootstrap_rows > 0 => config.bootstrap_rows,
            _ => self.options.engine.batch_size,
        }
    }

    fn course(&self) -> Result<CourseOf<Hdp>, Fault> {
        let (process, config) = self.options.asked()?;
        let (options, size) = (self.options.clone(), self.options.engine.batch_size);
        let family = move |first: &Documents| options.family(first.n_words());
        Ok(Course::new(family, process, config, size).watching())
    }

    fn provenance(&self, tally: Tally) -> TopicProvenance {
        let engine = &self.options.engine;
        TopicProvenance {
            seed: engine.seed,
            bootstrap_documents: self.first_rows() as u64,
            batch_size: engine.batch_size as u64,
            documents: tally.rows,
            matchings: tally.matchings,
            conflicts: tally.conflicts,
            ..self.made.clone()
        }
    }

    fn model(&self, shown: &Shown<Hdp>) -> Result<TopicModel, Fault> {
        let provenance = self.provenance(shown.tally);
        let model = TopicModel { fold: shown.fold.clone(), vocabulary: self.known_vocabulary()?, provenance };
        Ok(topic_model(model, &shown.memory))
    }
}

/// The words of a row with their counts, or which cell is no count.
fn document(
    rows: Rows<'_>,
    row: usize,
    words: Option<&[String]>,
    entries: &mut Vec<(u32, f64)>,
) -> Result<(), Fault> {
    rows.entries(row, entries)?;
    let is_count = |count: f64| count >= 0.0 && count.fract() == 0.0;
    match entries.iter().find(|(_, count)| !is_count(*count)) {
        None => Ok(()),
        Some((column, count)) => {
            let column = *column as usize;
            let name = words.and_then(|words| words.get(column)).cloned().unwrap_or(column.to_string());
            let message = format!("X: row {}, column \"{name}\": {count} is not a count", row + 1);
            Err(Fault::with_hint(
                message,
                Some("counts are whole numbers of at least 0, as those of CountVectorizer"),
            ))
        }
    }
}

fn documents(rows: Rows<'_>, first: usize, last: usize, n_words: usize) -> Result<Documents, Fault> {
    let (mut documents, mut entries) = (Documents::none(n_words), Vec::new());
    for row in first..last {
        rows.entries(row, &mut entries)?;
        documents.push(&entries).map_err(Fault::input)?;
    }
    Ok(documents)
}
