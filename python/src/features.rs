//! Features that add up, for Python: the class behind `LatentFeatures`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch::batch::Batch;
use anabranch::central::{Fold, Memory};
use anabranch::family::LinearGaussian;
use anabranch::infer::{FeatureSettings, PriorChoice};
use anabranch::learner::course::Course;
use anabranch::posterior::{FeaturePredictor, Posterior};
use anabranch::process::{Beta, Process};
use anabranch_cli::{FeatureModel, LARGEST_CELL, Largest};
use anabranch_io::Schema;
use anabranch_io::model::Provenance;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::engine::schema_of;
use crate::error::Fault;
use crate::learn::Tally;
use crate::options::{FeatureOptions, Parameters};
use crate::rows::{Lent, Rows};
use crate::run::{CourseOf, Kind, Known, Pickled, Run, Shown};
use crate::view::in_slabs;

/// Features of rows.
pub struct Bp;

impl Kind for Bp {
    type Family = LinearGaussian;
    type Process = Beta;
    type Inference = FeatureSettings;
    type Predictor = FeaturePredictor;

    fn predictor(posterior: &Posterior<LinearGaussian, Beta>) -> FeaturePredictor {
        FeaturePredictor::new(posterior)
    }
}

/// The parameters of features and what was learned.
#[pyclass(frozen, module = "anabranch._core")]
pub struct Features {
    options: FeatureOptions,
    run: Run<Bp>,
    schema: Mutex<Option<Schema>>,
    /// Whether the model file said that its variances were given.
    prior_given: bool,
}

/// What is asked of rows.
#[derive(Clone, Copy)]
enum Wanted {
    Probabilities,
    Bound,
}

type Parts = (String, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u64>, Option<(Vec<String>, bool, bool)>);

#[pymethods]
impl Features {
    /// Parameters as JSON.
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        let options = FeatureOptions::parse(options)?;
        Ok(Self { options, run: Run::default(), schema: Mutex::new(None), prior_given: false })
    }

    /// Rows handed over so far.
    #[getter]
    fn rows_seen(&self) -> u64 {
        self.run.rows_seen()
    }

    /// Names of the columns with whether they were named; `None` before there are any.
    #[getter]
    fn schema(&self) -> Option<(Vec<String>, bool)> {
        self.lock().as_ref().map(|schema| (schema.names().map(str::to_owned).collect(), schema.named))
    }

    /// Learns on so many threads from now on; they change no result.
    fn set_threads(&self, threads: usize) {
        self.run.set_threads(threads);
    }

    /// Refuses cells that nothing can be learned from, before any of them is.
    #[pyo3(signature = (rows, names=None))]
    fn check(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, names: Option<Vec<String>>) -> PyResult<()> {
        let lent = Lent::borrow(rows)?;
        let rows = lent.rows();
        let schema = self.lock().clone().unwrap_or_else(|| schema_of(names, rows.columns()));
        rows.expect_columns(schema.dimensions())?;
        py.detach(|| {
            (0..rows.len()).try_for_each(|row| rows.with(row, row + 1, |x| check(x, row, &schema))?)
        })?;
        Ok(())
    }

    /// Learns from rows.
    #[pyo3(signature = (rows, names=None, passes=1, callback=None))]
    fn learn(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        names: Option<Vec<String>>,
        passes: u32,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let lent = Lent::borrow(rows)?;
        let rows = lent.rows();
        let columns = {
            let mut known = self.lock();
            known.get_or_insert_with(|| schema_of(names, rows.columns())).dimensions()
        };
        rows.expect_columns(columns)?;
        let cut = |first: usize, last: usize| {
            let mut values = Vec::with_capacity((last - first) * columns);
            rows.copy(first, last, &mut values)?;
            Batch::new(columns, values).map_err(Fault::input)
        };
        self.run.learn(py, || self.course(), rows.len(), cut, passes, callback)
    }

    /// Prepares what whoever looks will see, so that no mistake is found later than here.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.run.look(py).map(|_| ())
    }

    /// The probability of each feature in each row, one row after another, and the number of features.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, usize)> {
        self.asked(py, rows, Wanted::Probabilities, threads)
    }

    /// A lower bound of the log density of each row.
    fn log_density<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.asked(py, rows, Wanted::Bound, threads).map(|(values, _)| values)
    }

    /// Ids, counts and parameters as arrays.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shown = self.run.look(py)?;
        let (posterior, predictor) = (shown.fold.posterior(), &shown.predictor);
        let (family, process) = (posterior.family(), posterior.process());
        let vector = |values: Vec<f64>| PyArray1::from_vec(py, values);
        let attributes = PyDict::new(py);
        let ids = predictor.ids().iter().map(|id| id.0 as i64).collect();
        attributes.set_item("ids", PyArray1::from_vec(py, ids))?;
        let masses = posterior.components().iter().map(|c| process.existing_mass(&c.evidence().labels));
        attributes.set_item("counts", vector(masses.filter(|mass| *mass > 0.0).collect()))?;
        let means: Vec<f64> = predictor.means().iter().flatten().copied().collect();
        let shape = [predictor.ids().len(), family.dimensions()];
        attributes.set_item("components", vector(means).reshape(shape)?)?;
        attributes.set_item("noise", family.noise().sqrt())?;
        attributes.set_item("feature_scale", family.scale().sqrt())?;
        attributes.set_item("alpha", process.alpha())?;
        attributes.set_item("mass", posterior.mass())?;
        Ok(attributes)
    }

    /// The bytes of the model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let shown = self.run.look(py)?;
        Ok(PyBytes::new(py, &self.model(&shown)?.to_bytes()))
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
        let model = FeatureModel::from_bytes(bytes).map_err(Fault::input)?;
        let mut features = Self::new(options)?;
        let made = model.provenance;
        features.prior_given = made.prior_given;
        let tally = Tally { rows: made.observations, matchings: made.matchings, conflicts: made.conflicts };
        let course = features.course()?.going_on(model.fold, Memory::default(), true);
        features.run = Run::of(Known { course, tally });
        features.schema = Mutex::new(Some(made.schema));
        Ok(features)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        let restore = slf.get_type().getattr("_restore")?;
        let this = slf.get();
        let options = serde_json::to_string(&this.options).map_err(Fault::input)?;
        let Some(known) = this.run.known()? else {
            return Ok((restore, (options, None, None, Vec::new(), None)));
        };
        let provenance = this.provenance(known.tally)?;
        let nothing = |waiting: &Batch| {
            Ok(Fold::new(this.options.family(waiting.dimensions())?, this.options.asked()?.0))
        };
        let Pickled { checkpoint, waiting, numbers } = known.leave(nothing, |fold, memory| {
            FeatureModel { fold, provenance: provenance.clone() }.to_checkpoint_bytes(memory)
        })?;
        let schema = this.schema().map(|(names, named)| (names, named, this.prior_given));
        Ok((restore, (options, checkpoint, waiting, numbers, schema)))
    }

    #[staticmethod]
    fn _restore(
        options: &str,
        checkpoint: Option<Vec<u8>>,
        waiting: Option<Vec<u8>>,
        numbers: Vec<u64>,
        schema: Option<(Vec<String>, bool, bool)>,
    ) -> PyResult<Self> {
        let mut features = Self::new(options)?;
        let Some((names, named, prior_given)) = schema else { return Ok(features) };
        features.prior_given = prior_given;
        let pickled = Pickled { checkpoint, waiting, numbers };
        let known = Known::find(features.course()?, &pickled, |bytes| {
            let (model, memory) = FeatureModel::from_checkpoint_bytes(bytes).map_err(Fault::input)?;
            Ok((model.fold, memory))
        })?;
        features.run = Run::of(known);
        features.schema = Mutex::new(Some(Schema { named, ..schema_of(Some(names), 0) }));
        Ok(features)
    }
}

impl Features {
    fn lock(&self) -> MutexGuard<'_, Option<Schema>> {
        // It is replaced in one step.
        self.schema.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_schema(&self) -> Result<Schema, Fault> {
        self.lock().clone().ok_or_else(|| Fault::input("the model has learned nothing yet"))
    }

    fn asked<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        wanted: Wanted,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, usize)> {
        let lent = Lent::borrow(rows)?;
        let (rows, schema): (Rows<'_>, Schema) = (lent.rows(), self.known_schema()?);
        rows.expect_columns(schema.dimensions())?;
        let shown = self.run.look(py)?;
        let width = match wanted {
            Wanted::Probabilities => shown.predictor.ids().len(),
            Wanted::Bound => 1,
        };
        let values = in_slabs(py, rows.len(), width, threads, |first, out| {
            for (row, out) in (first..).zip(out.chunks_exact_mut(width)) {
                rows.with(row, row + 1, |x| {
                    check(x, row, &schema)?;
                    let found = shown.predictor.look(x);
                    match wanted {
                        Wanted::Probabilities => out.copy_from_slice(&found.probabilities),
                        Wanted::Bound => out[0] = found.ln_density_bound,
                    }
                    Ok::<_, Fault>(())
                })??;
            }
            Ok(())
        })?;
        Ok((PyArray1::from_vec(py, values), width))
    }

    fn course(&self) -> Result<CourseOf<Bp>, Fault> {
        let (process, mut config) = self.options.asked()?;
        if self.prior_given {
            config.prior = PriorChoice::Given;
        }
        let one = self.options.family(1)?;
        let family = move |first: &Batch| LinearGaussian::new(first.dimensions(), one.noise(), one.scale());
        Ok(Course::new(family, process, config, self.options.engine.batch_size).watching())
    }

    fn provenance(&self, tally: Tally) -> Result<Provenance, Fault> {
        let (_, config) = self.options.asked()?;
        let batch_size = self.options.engine.batch_size;
        let first = if config.bootstrap_rows > 0 { config.bootstrap_rows } else { batch_size };
        Ok(Provenance {
            seed: config.seed,
            bootstrap_rows: first as u64,
            batch_size: batch_size as u64,
            observations: tally.rows,
            matchings: tally.matchings,
            conflicts: tally.conflicts,
            prior_given: self.prior_given || config.prior == PriorChoice::Given,
            ..Provenance::new(self.known_schema()?)
        })
    }

    fn model(&self, shown: &Shown<Bp>) -> Result<FeatureModel, Fault> {
        Ok(FeatureModel { fold: shown.fold.clone(), provenance: self.provenance(shown.tally)? })
    }
}

/// Refuses a cell that nothing can be learned from, by the number of its row from 1 and the name of its column.
fn check(x: &[f64], row: usize, schema: &Schema) -> Result<(), Fault> {
    let Largest(most, expected) = LARGEST_CELL;
    match x.iter().position(|value| !value.is_finite() || value.abs() > most) {
        None => Ok(()),
        Some(column) => {
            let (name, value) = (&schema.columns[column].name, x[column]);
            let expected = if value.is_finite() { expected } else { "a finite number" };
            Err(Fault::input(format!("X: row {}, column \"{name}\": {value} is not {expected}", row + 1)))
        }
    }
}
