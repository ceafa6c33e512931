//! The class behind every estimator: parameters, what was learned, and the four steps.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use anabranch::clusters::Rule;
use anabranch::identify::Identification;
use anabranch_io::model::{Model, Provenance};
use anabranch_io::wire::{Delivery, coordinates};
use anabranch_io::{Column, Input, OnMissing, ReadOptions, Schema, open};
use crossbeam_channel::bounded;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator};

use crate::drive::{Feed, abandonable, drive};
use crate::error::Fault;
use crate::learn::{Centre, Learned, Looker, Tally, Wires};
use crate::options::{Options, Parameters};
use crate::pickle::{self, Pickled};
use crate::rows::{Beside, Edge, Lent};
use crate::stream::{ArrayStream, BlockStream, FileStream, RowStream};
use crate::view::{HowToCut, View, Wanted};

/// Blocks that wait for the workers when rows come from an iterator.
const WAITING_BLOCKS: usize = 2;

/// Rows that are checked between two copies.
const CHECKED_AT_ONCE: usize = 1024;

/// Where an estimator stands. Locks are held for a moment only, never while Python runs.
enum State {
    /// At rest, with what was seen last by whoever looked.
    Idle(Box<Learned>, Option<Arc<View>>),
    /// Learning: whoever looks sees the newest posterior, once there is one.
    Learning { centre: Option<Arc<Centre>>, provenance: Box<Provenance> },
    /// No columns yet.
    Empty,
}

/// The parameters of an estimator and what it has learned.
#[pyclass(frozen, module = "anabranch._core")]
pub struct Engine {
    options: Options,
    /// Threads that learn; they change no result.
    threads: AtomicUsize,
    state: Mutex<State>,
}

type Parts = (String, Option<Vec<u8>>, Option<String>, Vec<u8>, Option<Vec<u8>>);

#[pymethods]
impl Engine {
    /// Parameters as JSON.
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        let options = Options::parse(options)?;
        Ok(Self {
            threads: AtomicUsize::new(options.engine.threads),
            options,
            state: Mutex::new(State::Empty),
        })
    }

    /// The columns that the family names, or `None` when it takes all.
    #[getter]
    fn chosen_columns(&self) -> PyResult<Option<Vec<String>>> {
        Ok(self.options.spec()?.columns())
    }

    /// Names of the model's columns with whether they were named; `None` before there are any.
    #[getter]
    fn schema(&self) -> Option<(Vec<String>, bool)> {
        let schema = match &*self.lock() {
            State::Empty => return None,
            State::Idle(learned, _) => learned.schema.clone(),
            State::Learning { provenance, .. } => provenance.schema.clone(),
        };
        Some((schema.names().map(str::to_owned).collect(), schema.named))
    }

    /// The labels of each column of categories, `None` for columns of numbers.
    #[getter]
    fn categories(&self) -> Vec<Option<Vec<String>>> {
        match &*self.lock() {
            State::Idle(learned, _) => learned.schema.columns.iter().map(|c| c.categories.clone()).collect(),
            State::Learning { provenance, .. } => {
                provenance.schema.columns.iter().map(|c| c.categories.clone()).collect()
            }
            State::Empty => Vec::new(),
        }
    }

    /// True when the first minibatch has been learned from.
    #[getter]
    fn started(&self) -> bool {
        match &*self.lock() {
            State::Idle(learned, _) => learned.centre.is_some(),
            State::Learning { centre, .. } => centre.is_some(),
            State::Empty => false,
        }
    }

    /// Rows handed over so far.
    #[getter]
    fn rows_seen(&self) -> u64 {
        match &*self.lock() {
            State::Empty => 0,
            State::Idle(learned, _) => learned.rows_seen(),
            State::Learning { centre, .. } => {
                centre.as_ref().map_or(0, |centre| centre.snapshot().mass().round() as u64)
            }
        }
    }

    /// Learns on so many threads from now on; they change no result.
    fn set_threads(&self, threads: usize) {
        self.threads.store(threads.max(1), Ordering::Relaxed);
    }

    /// Refuses rows that the family cannot take, before any of them is learned from.
    #[pyo3(signature = (rows, names=None))]
    fn check(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, names: Option<Vec<String>>) -> PyResult<()> {
        let lent = Lent::borrow(rows)?;
        let rows = lent.rows();
        let (schema, known) = match &*self.lock() {
            State::Idle(learned, _) => {
                (learned.schema.clone(), learned.centre.as_ref().map(|centre| centre.snapshot()))
            }
            State::Learning { centre, provenance } => {
                (provenance.schema.clone(), centre.as_ref().map(|centre| centre.snapshot()))
            }
            State::Empty => (schema_of(names, rows.columns()), None),
        };
        rows.expect_columns(schema.dimensions())?;
        py.detach(|| {
            let domain = match &known {
                Some(posterior) => posterior.family().clone(),
                None => self.options.spec()?.domain(&schema)?,
            };
            let mut values = Vec::new();
            for first in (0..rows.len()).step_by(CHECKED_AT_ONCE) {
                values.clear();
                rows.copy(first, (first + CHECKED_AT_ONCE).min(rows.len()), &mut values)?;
                Edge { schema: &schema, family: &domain, before: first as u64, fades: None }
                    .check(&values)?;
            }
            Ok::<_, Fault>(())
        })?;
        Ok(())
    }

    /// Prepares what whoever looks will see, so that no mistake is found later than here.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.looked_at(py, Looker::Nobody).map(|_| ())
    }

    /// The column that says when rows were, of a model whose rows do.
    #[getter]
    fn time_column(&self) -> Option<String> {
        match &*self.lock() {
            State::Idle(learned, _) => learned.time.clone(),
            State::Learning { centre, .. } => centre.as_ref()?.snapshot().past().time.clone(),
            State::Empty => None,
        }
    }

    /// Learns from an array, or from sparse rows. `time` is the name of the times: empty when they have none.
    #[pyo3(signature = (rows, weights=None, times=None, time=None, names=None, callback=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of a method in Python")]
    fn learn(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        times: Option<PyReadonlyArray1<'_, f64>>,
        time: Option<&str>,
        names: Option<Vec<String>>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let lent = Lent::borrow(rows)?;
        let rows = lent.rows();
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let times = times.as_ref().map(|times| times.as_slice()).transpose()?;
        let beside = Beside { weights, times };
        beside.check()?;
        let mut stream = ArrayStream::new(rows, beside);
        self.run(py, schema_of(names, rows.columns()), time, &mut stream, None, callback)
    }

    /// Learns from an iterator of `(rows, weights or None, times or None)`.
    #[pyo3(signature = (iterator, columns, time=None, names=None, callback=None))]
    fn learn_iterator(
        &self,
        py: Python<'_>,
        iterator: Bound<'_, PyIterator>,
        columns: usize,
        time: Option<&str>,
        names: Option<Vec<String>>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let (blocks, receiver) = bounded(WAITING_BLOCKS);
        let feed = Feed { iterator: iterator.unbind(), blocks, columns };
        let mut stream = BlockStream::new(receiver, columns);
        self.run(py, schema_of(names, columns), time, &mut stream, Some(feed), callback)
    }

    /// Learns from files with the readers of the command line.
    #[pyo3(signature = (paths, time=None, callback=None))]
    fn learn_files(
        &self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
        time: Option<&str>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let expect = match &*self.lock() {
            State::Idle(learned, _) => {
                learned.check_times(time, &self.options)?;
                Some(learned.schema.clone())
            }
            _ => None,
        };
        let spec = self.options.spec()?;
        let inputs: Vec<Input> = paths.into_iter().map(Input::Path).collect();
        let columns = if expect.is_some() { None } else { spec.columns() };
        let options = ReadOptions {
            columns,
            categorical: spec.categorical_columns(),
            expect,
            on_missing: OnMissing::Keep,
            time: time.map(str::to_owned),
            ..ReadOptions::default()
        };
        let source = open(&inputs, &options).map_err(Fault::from)?;
        let schema = source.schema().clone();
        self.run(py, schema, time, &mut FileStream(source), None, callback)
    }

    /// The position of the most probable component of each row.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let labels = self.view(py)?.predict(py, Lent::borrow(rows)?.rows(), Wanted::Label, threads)?;
        Ok(PyArray1::from_vec(py, labels.into_iter().map(|label| label as i64).collect()))
    }

    /// The probabilities of the components, row after row, and the number of components.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, usize)> {
        let view = self.view(py)?;
        let values = view.predict(py, Lent::borrow(rows)?.rows(), Wanted::Probabilities, threads)?;
        Ok((PyArray1::from_vec(py, values), view.width(Wanted::Probabilities)))
    }

    /// The log density of each row.
    fn log_density<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let values = self.view(py)?.predict(py, Lent::borrow(rows)?.rows(), Wanted::LogDensity, threads)?;
        Ok(PyArray1::from_vec(py, values))
    }

    /// For each row the share of ordinary rows that are as unlikely or more.
    fn tail<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let values = self.view(py)?.predict(py, Lent::borrow(rows)?.rows(), Wanted::Tail, threads)?;
        Ok(PyArray1::from_vec(py, values))
    }

    /// The smallest share that any row can have as its tail.
    fn smallest_tail(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.view(py)?.smallest_tail())
    }

    /// The rows with their missing values filled in, and the standard deviations of what was, one row after another.
    fn impute<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let values = self.view(py)?.predict(py, Lent::borrow(rows)?.rows(), Wanted::Imputed, threads)?;
        Ok(PyArray1::from_vec(py, values))
    }

    /// Rows drawn from the model, and the positions of their components.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (rows, labels) = self.view(py)?.sample(py, n, seed)?;
        Ok((rows.into_any(), labels.into_any()))
    }

    /// Ids, counts and parameters as arrays.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.view(py)?.attributes(py)
    }

    /// The cluster of each component by name, −1 for noise.
    #[pyo3(signature = (count=None, valley=None, min_size=None, noise=false))]
    fn clusters<'py>(
        &self,
        py: Python<'py>,
        count: Option<usize>,
        valley: Option<f64>,
        min_size: Option<f64>,
        noise: bool,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let how = how_to_cut(count, valley, min_size, noise)?;
        Ok(PyArray1::from_vec(py, self.view(py)?.clusters(py, how)?))
    }

    /// The cluster of each row by name, −1 for noise.
    #[pyo3(signature = (rows, threads, count=None, valley=None, min_size=None, noise=false))]
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of a method in Python")]
    fn predict_clusters<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
        count: Option<usize>,
        valley: Option<f64>,
        min_size: Option<f64>,
        noise: bool,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let how = how_to_cut(count, valley, min_size, noise)?;
        let names = self.view(py)?.predict_clusters(py, Lent::borrow(rows)?.rows(), how, threads)?;
        Ok(PyArray1::from_vec(py, names))
    }

    /// The tree of the clusters as arrays.
    fn cluster_tree<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.view(py)?.cluster_tree(py)
    }

    /// The bytes of the model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.model(py)?.to_bytes()))
    }

    /// Writes the model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let model = self.model(py)?;
        py.detach(|| model.save(&path)).map_err(Fault::from)?;
        Ok(())
    }

    /// Goes on from the bytes of a model file.
    #[staticmethod]
    fn from_bytes(options: &str, bytes: &[u8]) -> PyResult<Self> {
        let model = Model::from_bytes(bytes).map_err(Fault::input)?;
        let engine = Self::new(options)?;
        *engine.lock() = State::Idle(Box::new(Learned::from_model(model)), None);
        Ok(engine)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        let restore = slf.get_type().getattr("_restore")?;
        let this = slf.get();
        let options = serde_json::to_string(&this.options).map_err(Fault::input)?;
        let learned = match &*this.lock() {
            State::Idle(learned, _) => (**learned).clone(),
            State::Empty => return Ok((restore, (options, None, None, Vec::new(), None))),
            State::Learning { .. } => return Err(busy()),
        };
        let Pickled { checkpoint, shown, leftover, numbers } = pickle::leave(&learned, &this.options)?;
        Ok((restore, (options, checkpoint, Some(leftover), numbers, shown)))
    }

    #[staticmethod]
    #[pyo3(signature = (options, checkpoint, leftover, numbers, shown=None))]
    fn _restore(
        options: &str,
        checkpoint: Option<Vec<u8>>,
        leftover: Option<String>,
        numbers: Vec<u8>,
        shown: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let engine = Self::new(options)?;
        if let Some(leftover) = leftover {
            let learned = pickle::find(&Pickled { checkpoint, shown, leftover, numbers })?;
            *engine.lock() = State::Idle(Box::new(learned), None);
        }
        Ok(engine)
    }

    /// Step 1: a snapshot of the posterior as bytes. Rows that wait for a full minibatch are learned first.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.settle(py)?;
        let checkpoint = match &*self.lock() {
            State::Idle(learned, _) => learned.checkpoint(&self.options),
            State::Learning { .. } => return Err(busy()),
            State::Empty => None,
        };
        let (model, _) = checkpoint.ok_or_else(|| Fault::input("the model has learned nothing yet"))?;
        Ok(PyBytes::new(py, &model.to_bytes()))
    }

    /// Steps 3 and 4: identifies and absorbs an increment; false when its minibatch is in the model already.
    fn absorb(&self, py: Python<'_>, increment: &[u8]) -> PyResult<bool> {
        self.settle(py)?;
        let Delivery { batch, coordinates: learned_in, rows, increment } =
            Delivery::from_bytes(increment).map_err(Fault::input)?;
        let mut state = self.lock();
        let (learned, view) = match &mut *state {
            State::Idle(learned, view) => (learned, view),
            State::Learning { .. } => return Err(busy()),
            State::Empty => return Err(Fault::input("the model has learned nothing yet").into()),
        };
        let Some(centre) = &learned.centre else {
            return Err(Fault::input("the model has learned nothing yet").into());
        };
        if coordinates(centre.snapshot().family()) != learned_in {
            return Err(Fault::with_hint(
                "the increment was learned from a snapshot of another model",
                Some("take the snapshot from the model that absorbs"),
            )
            .into());
        }
        let absorbed = centre
            .absorb(batch, increment, Identification::Optimal)
            .map_err(|void| Fault::input(format!("the increment does not fit this model: {void}")))?;
        *view = None;
        learned.outdate();
        learned.taken.insert(batch);
        let Tally { rows: all, matchings, conflicts } = &mut learned.tally;
        *all += if absorbed.counted { rows } else { 0 };
        *matchings += absorbed.matchings;
        *conflicts += absorbed.conflicts;
        Ok(absorbed.counted)
    }
}

/// What the arguments say about how to cut.
fn how_to_cut(
    count: Option<usize>,
    valley: Option<f64>,
    min_size: Option<f64>,
    noise: bool,
) -> Result<HowToCut, Fault> {
    let rule = match (count, valley) {
        (Some(_), Some(_)) => return Err(Fault::input("give N or valley, not both")),
        (Some(n), None) => Some(Rule::Count(n)),
        (None, Some(part)) => Some(Rule::Valley(part)),
        (None, None) => None,
    };
    Ok(HowToCut { rule, min_size, noise })
}

impl Engine {
    /// The parameters, with as many threads as there are now.
    fn options(&self) -> Options {
        let mut options = self.options.clone();
        options.engine.threads = self.threads.load(Ordering::Relaxed);
        options
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state whole: it is replaced in one step.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the learned state away for a run, checks the columns, and puts it back whatever happens.
    fn run(
        &self,
        py: Python<'_>,
        schema: Schema,
        time: Option<&str>,
        stream: &mut dyn RowStream,
        feed: Option<Feed>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let mut loan = self.lend(schema)?;
        let (learned, options) = (&mut loan.learned, self.options());
        learned.go_by(time, &options)?;
        let (result, raised) = drive(py, callback, feed, |stop, events| {
            let announce = |centre: &Arc<Centre>| {
                if let State::Learning { centre: shown, .. } = &mut *self.lock() {
                    *shown = Some(Arc::clone(centre));
                }
                events.clone()
            };
            learned.learn(stream, &options, &Wires { stop, announce: &announce })
        });
        drop(loan);
        match raised {
            Some(error) => Err(error),
            None => Ok(result?),
        }
    }

    fn lend(&self, schema: Schema) -> PyResult<Loan<'_>> {
        let mut state = self.lock();
        let learned = match &*state {
            State::Learning { .. } => return Err(busy()),
            State::Idle(learned, _) if learned.schema.dimensions() != schema.dimensions() => {
                let (found, has) = (schema.dimensions(), learned.schema.dimensions());
                return Err(Fault::input(format!("rows have {found} columns, the model has {has}")).into());
            }
            State::Idle(..) => None,
            State::Empty => Some(Learned::new(schema)),
        };
        let learned = match (learned, std::mem::replace(&mut *state, State::Empty)) {
            (Some(learned), _) => learned,
            (None, State::Idle(learned, _)) => *learned,
            (None, _) => unreachable!("it was at rest a line ago"),
        };
        *state = State::Learning {
            centre: learned.centre.clone(),
            provenance: Box::new(learned.provenance(&self.options)),
        };
        Ok(Loan { engine: self, learned })
    }

    /// Learns the rows of the buffer for good.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let (schema, waiting) = match &*self.lock() {
            State::Idle(learned, _) => (learned.schema.clone(), learned.buffer.rows),
            State::Learning { .. } => return Err(busy()),
            State::Empty => return Err(Fault::input("the model has learned nothing yet").into()),
        };
        if waiting == 0 {
            return Ok(());
        }
        let mut loan = self.lend(schema)?;
        py.detach(|| loan.learned.flush(&self.options()))?;
        Ok(())
    }

    /// The model as it stands, the rows of the buffer included.
    fn view(&self, py: Python<'_>) -> PyResult<Arc<View>> {
        self.looked_at(py, Looker::User)
    }

    fn looked_at(&self, py: Python<'_>, looker: Looker) -> PyResult<Arc<View>> {
        let nothing = || Fault::input("the model has learned nothing yet");
        let learned = match &*self.lock() {
            State::Idle(learned, Some(view)) => {
                learned.seen_by(looker);
                return Ok(Arc::clone(view));
            }
            State::Idle(learned, None) => (**learned).clone(),
            State::Empty => return Err(nothing().into()),
            State::Learning { centre, provenance } => {
                let snapshot = centre.as_ref().ok_or_else(nothing)?.snapshot();
                return Ok(Arc::new(View::new(snapshot, provenance.schema.clone(), provenance.cut, None)));
            }
        };
        let version = (learned.rows_seen(), learned.tally.rows);
        let (schema, cut) = (learned.schema.clone(), learned.cut);
        let options = self.options();
        let looked = abandonable(py, move || {
            learned.look(&options, looker, |shown, _| (shown.posterior(), shown.centre().between()))
        })??;
        let (posterior, between) = looked.ok_or_else(nothing)?;
        let view = Arc::new(View::new(posterior, schema, cut, between));
        if let State::Idle(learned, kept) = &mut *self.lock() {
            // Kept only if nobody has learned meanwhile.
            if (learned.rows_seen(), learned.tally.rows) == version {
                *kept = Some(Arc::clone(&view));
            }
        }
        Ok(view)
    }

    fn model(&self, py: Python<'_>) -> PyResult<Model> {
        let nothing = || Fault::input("the model has learned nothing yet");
        let learned = match &*self.lock() {
            State::Idle(learned, _) => (**learned).clone(),
            State::Empty => return Err(nothing().into()),
            State::Learning { centre, provenance } => {
                let fold = centre.as_ref().ok_or_else(nothing)?.checkpoint();
                let mut provenance = (**provenance).clone();
                provenance.observations = fold.posterior().mass().round() as u64;
                return Ok(Model { fold, provenance });
            }
        };
        let options = self.options();
        Ok(abandonable(py, move || learned.model(&options))??.ok_or_else(nothing)?)
    }
}

/// The learned state while a run works on it.
struct Loan<'a> {
    engine: &'a Engine,
    learned: Learned,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let schema = self.learned.schema.clone();
        let learned = std::mem::replace(&mut self.learned, Learned::new(schema));
        *self.engine.lock() = State::Idle(Box::new(learned), None);
    }
}

pub fn busy() -> PyErr {
    PyRuntimeError::new_err("the model is being fitted; wait for that to end")
}

pub fn schema_of(names: Option<Vec<String>>, columns: usize) -> Schema {
    let named = names.is_some();
    let names = names.unwrap_or_else(|| (1..=columns).map(|position| position.to_string()).collect());
    Schema { columns: names.into_iter().map(Column::number).collect(), named }
}
