//! A finished model as Python looks at it: predictions for many rows, arrays of parameters, draws.

use std::sync::{Arc, OnceLock};

use anabranch::clusters::{Clusters, Cut, Leaf, Measure, RowClusters, Rule, Tree};
use anabranch::family::{AnyFamily, Conjugate, Family};
use anabranch::identify::ComponentId;
use anabranch::infer::Between;
use anabranch::posterior::{Ask, Component, Posterior, Predictor};
use anabranch::process::{AnyProcess, Process};
use anabranch_io::Schema;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Fault;
use crate::rows::{Edge, Rows};

/// Rows that are predicted between two looks at Ctrl-C.
const SLAB: usize = 1 << 15;

/// Rows that are worth a thread.
const LEAST_ROWS: usize = 256;

/// A posterior with its predictive densities.
pub struct View {
    posterior: Arc<Posterior<AnyFamily, AnyProcess>>,
    predictor: Predictor,
    schema: Schema,
    cut: Cut,
    between: Option<Between>,
    tree: OnceLock<Tree>,
}

/// Rows that were drawn, and the positions of their components.
type Drawn<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<i64>>);

/// How the tree is cut, where it is said.
#[derive(Clone, Copy, Debug)]
pub struct HowToCut {
    pub rule: Option<Rule>,
    pub min_size: Option<f64>,
    pub noise: bool,
}

/// What is predicted of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The position of the most probable component.
    Label,
    /// The probability of each component.
    Probabilities,
    /// The log density.
    LogDensity,
    /// The share of ordinary rows that are as unlikely or more.
    Tail,
    /// The row with its missing values filled in, then the standard deviation of each value that was, 0 elsewhere.
    Imputed,
}

/// As many numbers for each of `rows` rows, found on several threads; Ctrl-C ends it between slabs. `part` fills those of the rows
/// from a first one on.
pub fn in_slabs(
    py: Python<'_>,
    rows: usize,
    width: usize,
    threads: usize,
    part: impl Fn(usize, &mut [f64]) -> Result<(), Fault> + Sync,
) -> PyResult<Vec<f64>> {
    let mut out = vec![0.0; rows * width];
    let part = &part;
    for (slab, out) in out.chunks_mut((SLAB * width).max(1)).enumerate() {
        let first = slab * SLAB;
        let share = (out.len() / width.max(1)).div_ceil(threads.max(1)).max(LEAST_ROWS);
        if out.len() <= share * width {
            // A few rows: a thread, or letting go of Python, would cost more than the answer.
            part(first, out)?;
            continue;
        }
        py.detach(|| {
            std::thread::scope(|scope| {
                let parts = out.chunks_mut(share * width).enumerate();
                let jobs: Vec<_> =
                    parts.map(|(ix, out)| scope.spawn(move || part(first + ix * share, out))).collect();
                jobs.into_iter().try_for_each(|job| match job.join() {
                    Ok(done) => done,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            })
        })?;
        py.check_signals()?;
    }
    Ok(out)
}

impl View {
    /// Prepares every component.
    pub fn new(
        posterior: Arc<Posterior<AnyFamily, AnyProcess>>,
        schema: Schema,
        cut: Cut,
        between: Option<Between>,
    ) -> Self {
        let predictor = Predictor::new(&posterior);
        Self { posterior, predictor, schema, cut, between, tree: OnceLock::new() }
    }

    fn tree(&self, py: Python<'_>) -> &Tree {
        match self.tree.get() {
            Some(tree) => tree,
            None => {
                let made = py.detach(|| Tree::of(&self.posterior));
                self.tree.get_or_init(|| made)
            }
        }
    }

    /// The clusters. Without a word about how to cut, as the model says.
    fn cut(&self, py: Python<'_>, how: HowToCut) -> Result<Clusters, Fault> {
        let cut = match how {
            HowToCut { rule: None, min_size: None, noise: false } => self.cut,
            HowToCut { rule, min_size, noise } => Cut { rule: rule.unwrap_or_default(), min_size, noise },
        };
        let cut = cut.checked().map_err(Fault::input)?;
        Ok(Clusters::new(&self.posterior, self.tree(py), cut))
    }

    /// The cluster of each component, in the order of every array, by name; −1 is noise.
    pub fn clusters(&self, py: Python<'_>, how: HowToCut) -> Result<Vec<i64>, Fault> {
        let clusters = self.cut(py, how)?;
        let name = |id: &ComponentId| clusters.of(*id).map_or(-1, |name| name.0 as i64);
        Ok(self.predictor.ids().iter().map(name).collect())
    }

    /// The cluster of each row, by name; −1 is noise.
    pub fn predict_clusters(
        &self,
        py: Python<'_>,
        rows: Rows<'_>,
        how: HowToCut,
        threads: usize,
    ) -> PyResult<Vec<i64>> {
        rows.expect_columns(self.schema.dimensions())?;
        let of_rows = RowClusters::new(&*self.posterior, self.cut(py, how)?);
        let d = self.schema.dimensions();
        let names = in_slabs(py, rows.len(), 1, threads, |first, out| {
            let family = self.posterior.family();
            let edge = Edge { schema: &self.schema, family, before: first as u64, fades: None };
            rows.with(first, first + out.len(), |values| {
                edge.check(values)?;
                self.predictor.answer(values, Ask::Label, |row, answer| {
                    let name = answer.label().and_then(|id| of_rows.of(id, &values[row * d..][..d]));
                    out[row] = name.map_or(-1.0, |name| name.0 as f64);
                });
                Ok(())
            })?
        })?;
        Ok(names.into_iter().map(|name| name as i64).collect())
    }

    /// The tree as arrays: leaves with their heights, and joins of leaves from the highest pass down.
    pub fn cluster_tree<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tree = self.tree(py);
        let found = PyDict::new(py);
        let leaves =
            |value: fn(&Leaf) -> f64| PyArray1::from_vec(py, tree.leaves.iter().map(value).collect());
        let ids = tree.leaves.iter().map(|leaf| leaf.component.0 as i64).collect();
        found.set_item("component_ids", PyArray1::from_vec(py, ids))?;
        found.set_item("counts", leaves(|leaf| leaf.rows))?;
        found.set_item("heights", leaves(|leaf| leaf.height))?;
        found.set_item("peaks", leaves(|leaf| leaf.peak))?;
        let joins = tree.joins.iter().flat_map(|join| [join.left as i64, join.right as i64]).collect();
        found.set_item("joins", PyArray1::from_vec(py, joins).reshape([tree.joins.len(), 2])?)?;
        let passes = tree.joins.iter().map(|join| join.height).collect();
        found.set_item("passes", PyArray1::from_vec(py, passes))?;
        let slopes = tree.joins.iter().map(|join| join.slope).collect();
        found.set_item("slopes", PyArray1::from_vec(py, slopes))?;
        let measure = if tree.measure == Measure::Density { "density" } else { "overlap" };
        found.set_item("measure", measure)?;
        Ok(found)
    }

    /// The tail of a row that is less likely than every ordinary one.
    pub fn smallest_tail(&self) -> f64 {
        self.posterior.tail().smallest_share()
    }

    /// Numbers that are predicted for one row.
    pub fn width(&self, wanted: Wanted) -> usize {
        match wanted {
            Wanted::Probabilities => self.predictor.ids().len(),
            Wanted::Imputed => 2 * self.schema.dimensions(),
            Wanted::Label | Wanted::LogDensity | Wanted::Tail => 1,
        }
    }

    /// Predicts every row on several threads; Ctrl-C ends it between slabs.
    pub fn predict(
        &self,
        py: Python<'_>,
        rows: Rows<'_>,
        wanted: Wanted,
        threads: usize,
    ) -> PyResult<Vec<f64>> {
        rows.expect_columns(self.schema.dimensions())?;
        if wanted == Wanted::Tail && self.posterior.tail().is_empty() {
            return Err(Fault::with_hint(
                "the model does not know how unlikely ordinary rows are",
                Some("it learns that from rows after the first minibatch: fit it with more rows, or with a smaller bootstrap"),
            )
            .into());
        }
        in_slabs(py, rows.len(), self.width(wanted), threads, |first, out| {
            self.part(rows, first, wanted, out)
        })
    }

    fn part(&self, rows: Rows<'_>, first: usize, wanted: Wanted, out: &mut [f64]) -> Result<(), Fault> {
        let width = self.width(wanted);
        let (family, tail) = (self.posterior.family(), self.posterior.tail());
        let edge = Edge { schema: &self.schema, family, before: first as u64, fades: None };
        let ask = if wanted == Wanted::Label { Ask::Label } else { Ask::Everything };
        rows.with(first, first + out.len() / width.max(1), |values| {
            edge.check(values)?;
            if wanted == Wanted::Imputed {
                let d = self.schema.dimensions();
                for (x, out) in values.chunks_exact(d).zip(out.chunks_exact_mut(width)) {
                    let (mean, deviation) = out.split_at_mut(d);
                    mean.copy_from_slice(x);
                    self.predictor.impute(x, mean, deviation);
                }
                return Ok(());
            }
            self.predictor.answer(values, ask, |row, answer| {
                let out = &mut out[row * width..(row + 1) * width];
                match wanted {
                    Wanted::Label => out[0] = answer.place().unwrap_or(0) as f64,
                    Wanted::LogDensity => out[0] = answer.ln_density(),
                    Wanted::Tail => out[0] = tail.share_below(answer.ln_density()),
                    Wanted::Probabilities => answer.probabilities(out),
                    Wanted::Imputed => {}
                }
            });
            Ok(())
        })?
    }

    /// The components that have a say, in the order of every array.
    fn components(&self) -> impl Iterator<Item = &Component> {
        let component = |id: &ComponentId| {
            let ix = self.posterior.position(*id).expect("the predictor was made of this posterior");
            &*self.posterior.components()[ix]
        };
        self.predictor.ids().iter().map(component)
    }

    /// Ids, counts and parameters as arrays.
    pub fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let family = self.posterior.family();
        let d = family.dimensions();
        let summaries: Vec<_> = self.components().map(|c| family.summary(&c.evidence().stats)).collect();
        let k = summaries.len();
        let matrix = |values: Vec<f64>| PyArray1::from_vec(py, values).reshape([k, d]);
        let attributes = PyDict::new(py);
        let ids: Vec<i64> = self.predictor.ids().iter().map(|id| id.0 as i64).collect();
        let between = self.between.map_or((ids.len(), ids.len()), |between| (between.fewest, between.most));
        attributes.set_item("between", between)?;
        attributes.set_item("ids", PyArray1::from_vec(py, ids))?;
        let counts = self.components().map(|c| c.expected_count()).collect();
        attributes.set_item("counts", PyArray1::from_vec(py, counts))?;
        attributes.set_item("means", matrix(summaries.iter().flat_map(|s| s.mean.clone()).collect())?)?;
        attributes.set_item("spreads", matrix(summaries.iter().flat_map(|s| s.spread.clone()).collect())?)?;
        if summaries.iter().all(|s| s.covariance.is_some()) {
            let all: Vec<f64> =
                summaries.iter().flat_map(|s| s.covariance.clone().unwrap_or_default()).collect();
            attributes.set_item("covariances", PyArray1::from_vec(py, all).reshape([k, d, d])?)?;
        }
        let absent: Vec<_> = self.components().map(|c| family.absent(&c.evidence().stats)).collect();
        if absent.iter().any(|columns| !columns.is_empty()) {
            let mut shares = vec![f64::NAN; k * d];
            for (component, columns) in absent.iter().enumerate() {
                columns.iter().for_each(|(column, share)| shares[component * d + column] = *share);
            }
            attributes.set_item("missing", matrix(shares)?)?;
        }
        if let Some(probabilities) = self.probabilities(py)? {
            attributes.set_item("probabilities", probabilities)?;
        }
        attributes.set_item("mass", self.posterior.mass())?;
        attributes.set_item("forgotten", self.posterior.past().forgotten)?;
        attributes.set_item("alpha", self.posterior.process().alpha())?;
        let discount = self.posterior.process().discount().map(|discount| discount.value());
        attributes.set_item("discount", discount)?;
        attributes.set_item("family", family.name())?;
        attributes.set_item("version", self.posterior.version())?;
        Ok(attributes)
    }

    /// For each column of categories, the probabilities by component; `None` without such columns.
    fn probabilities<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyArray2<f64>>>>> {
        let family = self.posterior.family();
        let tables: Option<Vec<_>> =
            self.components().map(|c| family.summary(&c.evidence().stats).probabilities).collect();
        let Some(tables) = tables.filter(|tables| !tables.is_empty()) else { return Ok(None) };
        let columns = tables[0].len();
        let one = |column: usize| {
            let rows: Vec<Vec<f64>> = tables.iter().map(|table| table[column].clone()).collect();
            Ok(PyArray2::from_vec2(py, &rows)?)
        };
        (0..columns).map(one).collect::<PyResult<Vec<_>>>().map(Some)
    }

    /// Rows drawn from the mixture with the position of their components; −1 is one that nobody has seen.
    pub fn sample<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Drawn<'py>> {
        let (family, process) = (self.posterior.family(), self.posterior.process());
        let known: Vec<&Component> = self.components().collect();
        let mut masses: Vec<f64> =
            known.iter().map(|c| process.existing_mass(&c.evidence().labels)).collect();
        let labels = self.posterior.components().iter().map(|c| &c.evidence().labels);
        masses.push(process.new_mass(labels));
        let total: f64 = masses.iter().sum();
        let nothing = vec![0.0; family.n_features()];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let d = family.dimensions();
        let (mut values, mut chosen) = (vec![0.0; n * d], Vec::with_capacity(n));
        for row in values.chunks_exact_mut(d) {
            let mut left = rng.random::<f64>() * total;
            let drawn = masses.iter().position(|mass| {
                left -= mass;
                left < 0.0
            });
            let component = drawn.and_then(|ix| known.get(ix));
            family.sample(component.map_or(&nothing, |c| &c.evidence().stats), &mut rng, row);
            chosen.push(match component {
                Some(_) => drawn.unwrap_or_default() as i64,
                None => -1,
            });
        }
        Ok((PyArray1::from_vec(py, values).reshape([n, d])?, PyArray1::from_vec(py, chosen)))
    }
}
