//! Rows that live in Python's memory: dense arrays of either precision in any order, and sparse rows of counts.
//!
//! Nothing is copied as a whole. A minibatch is copied out when its turn comes, converted on the way.

use anabranch::batch::Batch;
use anabranch::central::Moment;
use anabranch::family::{AnyFamily, Family};
use anabranch_io::{Schema, time};
use numpy::ndarray::{ArrayView1, ArrayView2, s};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::Fault;

/// What is wrong with a matrix whose parts do not fit together.
const INCONSISTENT: &str = "the sparse matrix is inconsistent";

/// Arrays that Python lends for the length of a call.
#[derive(Debug)]
pub enum Lent<'py> {
    F64(PyReadonlyArray2<'py, f64>),
    F32(PyReadonlyArray2<'py, f32>),
    /// The three arrays of a matrix in compressed sparse rows, and its number of columns.
    Sparse {
        data: PyReadonlyArray1<'py, f64>,
        indices: PyReadonlyArray1<'py, i32>,
        starts: PyReadonlyArray1<'py, i32>,
        columns: usize,
    },
}

impl<'py> Lent<'py> {
    /// Borrows a two-dimensional array of floats, or a tuple `(data, indices, indptr, columns)`.
    pub fn borrow(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.cast::<PyArray2<f64>>() {
            return Ok(Self::F64(array.try_readonly()?));
        }
        if let Ok(array) = object.cast::<PyArray2<f32>>() {
            return Ok(Self::F32(array.try_readonly()?));
        }
        type Parts<'py> =
            (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>, usize);
        let (data, indices, starts, columns) = object.extract::<Parts<'py>>().map_err(|_| {
            PyTypeError::new_err(
                "rows are a two-dimensional array of floats or sparse rows with 32-bit indices",
            )
        })?;
        let (data, indices, starts) = (data.try_readonly()?, indices.try_readonly()?, starts.try_readonly()?);
        Ok(Self::Sparse { data, indices, starts, columns })
    }

    /// The same rows as something that other threads may read.
    pub fn rows(&self) -> Rows<'_> {
        match self {
            Self::F64(array) => Rows::F64(array.as_array()),
            Self::F32(array) => Rows::F32(array.as_array()),
            Self::Sparse { data, indices, starts, columns } => Rows::Sparse {
                data: data.as_array(),
                indices: indices.as_array(),
                starts: starts.as_array(),
                columns: *columns,
            },
        }
    }
}

/// Rows to be read from any thread.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    F64(ArrayView2<'a, f64>),
    F32(ArrayView2<'a, f32>),
    Sparse {
        data: ArrayView1<'a, f64>,
        indices: ArrayView1<'a, i32>,
        starts: ArrayView1<'a, i32>,
        columns: usize,
    },
}

impl Rows<'_> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(array) => array.nrows(),
            Self::F32(array) => array.nrows(),
            Self::Sparse { starts, .. } => starts.len().saturating_sub(1),
        }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        match self {
            Self::F64(array) => array.ncols(),
            Self::F32(array) => array.ncols(),
            Self::Sparse { columns, .. } => *columns,
        }
    }

    /// Refuses rows of another width than the model's.
    pub fn expect_columns(&self, columns: usize) -> Result<(), Fault> {
        match self.columns() {
            found if found == columns => Ok(()),
            found => Err(Fault::input(format!("rows have {found} columns, the model has {columns}"))),
        }
    }

    /// Calls `work` with the rows `first..last`, one after another: where they lie, or copied where they lie otherwise.
    pub fn with<R>(&self, first: usize, last: usize, work: impl FnOnce(&[f64]) -> R) -> Result<R, Fault> {
        if let Self::F64(array) = self
            && let Some(values) = array.as_slice()
        {
            return Ok(work(&values[first * array.ncols()..last * array.ncols()]));
        }
        let mut values = Vec::with_capacity((last - first) * self.columns());
        self.copy(first, last, &mut values)?;
        Ok(work(&values))
    }

    /// The cells of a row that are not 0, ascending, each once.
    pub fn entries(&self, row: usize, out: &mut Vec<(u32, f64)>) -> Result<(), Fault> {
        out.clear();
        match self {
            Self::F64(array) => out.extend((0..).zip(array.row(row).iter().copied())),
            Self::F32(array) => out.extend((0..).zip(array.row(row).iter().map(|value| f64::from(*value)))),
            Self::Sparse { data, indices, starts, columns } => {
                for entry in starts[row] as usize..starts[row + 1] as usize {
                    let found = data.get(entry).zip(indices.get(entry));
                    let cell = found.and_then(|(value, column)| {
                        Some((u32::try_from(*column).ok().filter(|c| (*c as usize) < *columns)?, *value))
                    });
                    out.push(cell.ok_or_else(|| Fault::input(INCONSISTENT))?);
                }
                out.sort_by_key(|(column, _)| *column);
                // A matrix may hold a cell in several pieces.
                out.dedup_by(|next, kept| {
                    next.0 == kept.0 && {
                        kept.1 += next.1;
                        true
                    }
                });
            }
        }
        out.retain(|(_, value)| *value != 0.0);
        Ok(())
    }

    /// Appends the rows `first..last` to `out`.
    pub fn copy(&self, first: usize, last: usize, out: &mut Vec<f64>) -> Result<(), Fault> {
        match self {
            Self::F64(array) => match array.as_slice() {
                Some(values) => out.extend_from_slice(&values[first * array.ncols()..last * array.ncols()]),
                None => out.extend(array.slice(s![first..last, ..]).iter()),
            },
            Self::F32(array) => out.extend(array.slice(s![first..last, ..]).iter().map(|v| f64::from(*v))),
            Self::Sparse { data, indices, starts, columns } => {
                for row in first..last {
                    let at = out.len();
                    out.resize(at + columns, 0.0);
                    for entry in starts[row] as usize..starts[row + 1] as usize {
                        let found = data.get(entry).zip(indices.get(entry));
                        let cell = found.and_then(|(value, column)| {
                            out.get_mut(at + usize::try_from(*column).ok()?).map(|cell| (cell, value))
                        });
                        // A matrix may hold a cell in several pieces.
                        let (cell, value) = cell.ok_or_else(|| Fault::input(INCONSISTENT))?;
                        *cell += value;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is said of rows beside their values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    pub weights: Option<&'a [f64]>,
    /// When each was, in seconds.
    pub times: Option<&'a [f64]>,
}

impl Beside<'_> {
    /// Refuses the first time that is none, or in the future, with its row from 1.
    pub fn check(&self) -> Result<(), Fault> {
        let times = self.times.unwrap_or_default();
        let latest = time::latest();
        let Some(row) = times.iter().position(|time| !(time.is_finite() && *time <= latest)) else {
            return Ok(());
        };
        let (number, value) = (row + 1, times[row]);
        Err(if value.is_finite() {
            Fault::with_hint(
                format!("times: row {number}: {value} is in the future"),
                Some("everything else would have faded by then; numbers are seconds, not milliseconds"),
            )
        } else {
            Fault::with_hint(
                format!("times: row {number}: {value} is not a time"),
                Some("times are numbers of seconds or timestamps, one for each row"),
            )
        })
    }

    fn of(self, first: usize, last: usize) -> Self {
        Self {
            weights: self.weights.map(|weights| &weights[first..last]),
            times: self.times.map(|times| &times[first..last]),
        }
    }
}

/// Rows with their weights and times on the way to becoming minibatches.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    pub values: Vec<f64>,
    /// One for each row, or none at all.
    pub weights: Option<Vec<f64>>,
    /// The same of when they were.
    pub times: Option<Vec<f64>>,
    pub rows: usize,
}

/// A minibatch, and when it was where the past fades by that.
pub type Taken = (Batch, Option<Moment>);

impl Buffer {
    /// Appends rows; rows without weights beside rows with weights count 1.
    pub fn push(
        &mut self,
        rows: Rows<'_>,
        beside: Beside<'_>,
        first: usize,
        last: usize,
    ) -> Result<(), Fault> {
        rows.copy(first, last, &mut self.values)?;
        self.push_beside(beside.of(first, last), last - first);
        Ok(())
    }

    /// Appends the rows `first..last` of another buffer of as many columns.
    pub fn push_from(&mut self, other: &Self, first: usize, last: usize, columns: usize) {
        self.values.extend_from_slice(&other.values[first * columns..last * columns]);
        let beside = Beside { weights: other.weights.as_deref(), times: other.times.as_deref() };
        self.push_beside(beside.of(first, last), last - first);
    }

    /// Appends what is said of `n` rows whose values were appended.
    pub fn push_beside(&mut self, Beside { weights, times }: Beside<'_>, n: usize) {
        if let Some(times) = times {
            self.times.get_or_insert_default().extend_from_slice(times);
        }
        if weights.is_some() || self.weights.is_some() {
            let mine = self.weights.get_or_insert_with(|| vec![1.0; self.rows]);
            match weights {
                Some(weights) => mine.extend_from_slice(weights),
                None => mine.resize(self.rows + n, 1.0),
            }
        }
        self.rows += n;
    }

    /// Rows that do not say when they were are of now.
    pub fn stamp(&mut self) {
        let times = self.times.get_or_insert_default();
        if times.len() < self.rows {
            times.resize(self.rows, time::now());
        }
    }

    /// Forgets all rows but the first `rows`.
    pub fn truncate(&mut self, rows: usize, columns: usize) {
        self.values.truncate(rows * columns);
        self.weights.iter_mut().chain(&mut self.times).for_each(|values| values.truncate(rows));
        self.rows = rows;
    }

    /// The rows as a minibatch, checked; the buffer is empty afterwards.
    pub fn take(&mut self, edge: &Edge<'_>) -> Result<Taken, Fault> {
        let Self { values, weights, times, rows } = std::mem::take(self);
        let columns = edge.schema.dimensions();
        debug_assert_eq!(values.len(), rows * columns);
        edge.check(&values)?;
        let batch =
            Batch::with_missing(columns, values).map_err(|error| Fault::Internal(error.to_string()))?;
        let batch = match weights {
            Some(weights) => batch.with_weights(weights).map_err(Fault::input)?,
            None => batch,
        };
        let (Some(times), Some(half_life)) = (times, edge.fades) else { return Ok((batch, None)) };
        let whole = batch.mass();
        let (batch, clock) = time::weigh(batch, &times, half_life).map_err(Fault::input)?;
        let faded = (whole - batch.mass()).max(0.0);
        Ok((batch, Some(Moment { clock, faded })))
    }
}

/// The same evidence in one form, whether a row comes twice or has weight 2: rows of weight 0 left out, and equal rows
/// joined, in the order of their values. Rows that are all different and weigh the same stay as they are.
pub fn joined(batch: Batch) -> Batch {
    let weight = |row: usize| batch.weights().map_or(1.0, |weights| weights[row]);
    let mut order: Vec<usize> = (0..batch.n_rows()).filter(|row| weight(*row) > 0.0).collect();
    let compare = |a: &usize, b: &usize| {
        let cells = batch.row(*a).iter().zip(batch.row(*b)).map(|(a, b)| a.total_cmp(b));
        cells.reduce(std::cmp::Ordering::then).unwrap_or(std::cmp::Ordering::Equal)
    };
    let mut sorted = order.clone();
    sorted.sort_by(compare);
    let different = sorted.windows(2).all(|pair| compare(&pair[0], &pair[1]).is_ne());
    let plain = different && order.iter().all(|row| weight(*row) == 1.0);
    if order.is_empty() || plain && order.len() == batch.n_rows() && batch.weights().is_none() {
        return batch;
    }
    if !plain {
        order = sorted;
    }
    let (mut values, mut weights): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut last: Option<usize> = None;
    for row in order {
        match (last, weights.last_mut()) {
            (Some(before), Some(sum)) if compare(&before, &row).is_eq() => *sum += weight(row),
            _ => {
                values.extend_from_slice(batch.row(row));
                weights.push(weight(row));
            }
        }
        last = Some(row);
    }
    let columns = batch.dimensions();
    let whole = Batch::with_missing(columns, values).expect("rows of a batch are no infinities");
    if plain { whole } else { whole.with_weights(weights).expect("sums of weights are weights") }
}

/// What rows are checked against when they come in.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'a> {
    /// The columns, for messages.
    pub schema: &'a Schema,
    /// The domain.
    pub family: &'a AnyFamily,
    /// Rows that came before, for messages.
    pub before: u64,
    /// Seconds after which rows count half, where they fade so.
    pub fades: Option<f64>,
}

impl Edge<'_> {
    /// Refuses the first row that is infinite or outside the domain, with its number from 1. NaN is a missing value.
    pub fn check(&self, values: &[f64]) -> Result<(), Fault> {
        let columns = self.schema.dimensions();
        for (row_ix, row) in values.chunks_exact(columns).enumerate() {
            let place = |column: usize| {
                let name = &self.schema.columns[column].name;
                format!("row {}, column \"{name}\"", self.before + row_ix as u64 + 1)
            };
            if let Some(column) = row.iter().position(|value| value.is_infinite()) {
                return Err(Fault::input(format!(
                    "{}: {} is not a finite number",
                    place(column),
                    row[column]
                )));
            }
            if let Err(fault) = self.family.check(row) {
                let nan = fault.value.is_nan();
                let value = if nan { "a missing value (NaN)".to_owned() } else { fault.value.to_string() };
                let message = format!("{}: {value} is not {}", place(fault.column), fault.expected);
                return Err(Fault::with_hint(message, Some("choose another family")));
            }
        }
        Ok(())
    }
}
