//! Rows of data, checked once at the edge: a minibatch `y_m` of the paper (§2.1).

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;

use thiserror::Error;

/// Data of any kind that a worker learns from at once: dense rows, or whatever else a model is learned from.
pub trait Minibatch: Clone + Debug + Send + Sync + 'static {
    /// One datum on its own, as a run remembers it.
    type Row: Clone + Debug + Send + Sync + 'static;

    /// Number of data.
    fn n_rows(&self) -> usize;

    /// What this minibatch adds to MASS.
    fn mass(&self) -> f64;

    /// How often a datum counts.
    fn weight(&self, row: usize) -> f64;

    /// One datum.
    fn to_row(&self, row: usize) -> Self::Row;

    /// A minibatch of these data, or `None` when there are none.
    fn from_rows<'a>(rows: impl Iterator<Item = &'a Self::Row>) -> Option<Self>;

    /// The same data, which count as often as this says, where data can.
    fn counting(self, _weights: Vec<f64>) -> Self {
        self
    }

    /// Adds the data of another minibatch of the same stream after its own.
    fn append(&mut self, other: &Self);

    /// The data of these numbers alone.
    fn part(&self, rows: Range<usize>) -> Self;
}

/// A dense block of rows with optional weights. Every value is finite, or NaN where it is missing.
///
/// ```
/// use anabranch::batch::Batch;
/// let batch = Batch::new(2, vec![0.0, 1.0, 2.0, 3.0]).unwrap();
/// assert_eq!(batch.n_rows(), 2);
/// assert_eq!(batch.row(1), &[2.0, 3.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    dimensions: usize,
    values: Vec<f64>,
    weights: Option<Vec<f64>>,
    /// Whether a value is missing.
    missing: bool,
}

/// Why a block of numbers is not a batch.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum BatchError {
    /// A row has no columns.
    #[error("rows have no columns")]
    NoColumns,
    /// The number of values is not a multiple of the number of columns.
    #[error("{values} values do not fill rows of {dimensions} columns")]
    Ragged {
        /// Number of values given.
        values: usize,
        /// Number of columns of a row.
        dimensions: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row}, column {column}: {value} is not a finite number")]
    NotFinite {
        /// Row within the batch, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// The offending value.
        value: f64,
    },
    /// There are more or fewer weights than rows.
    #[error("{weights} weights for {rows} rows")]
    WeightCount {
        /// Number of weights given.
        weights: usize,
        /// Number of rows.
        rows: usize,
    },
    /// A weight is negative, NaN or infinite.
    #[error("row {row}: weight {value} is not a finite number of at least 0")]
    Weight {
        /// Row within the batch, from 0.
        row: usize,
        /// The offending weight.
        value: f64,
    },
}

/// The columns of a row whose values are missing.
pub(crate) fn missing_columns(x: &[f64]) -> Vec<usize> {
    (0..x.len()).filter(|column| x[*column].is_nan()).collect()
}

impl Batch {
    /// Rows of `dimensions` columns, one after another, without missing values.
    pub fn new(dimensions: usize, values: Vec<f64>) -> Result<Self, BatchError> {
        Self::of(dimensions, values, |value| value.is_finite())
    }

    /// The same, where NaN stands for a value that is missing.
    ///
    /// ```
    /// use anabranch::batch::Batch;
    /// let batch = Batch::with_missing(2, vec![0.0, f64::NAN]).unwrap();
    /// assert_eq!(batch.missing_cells(), 1);
    /// assert!(Batch::with_missing(1, vec![f64::INFINITY]).is_err());
    /// ```
    pub fn with_missing(dimensions: usize, values: Vec<f64>) -> Result<Self, BatchError> {
        let batch = Self::of(dimensions, values, |value| !value.is_infinite())?;
        let missing = batch.values.iter().fold(false, |any, value| any | value.is_nan());
        Ok(Self { missing, ..batch })
    }

    fn of(dimensions: usize, values: Vec<f64>, is_good: impl Fn(&f64) -> bool) -> Result<Self, BatchError> {
        if dimensions == 0 {
            return Err(BatchError::NoColumns);
        }
        if !values.len().is_multiple_of(dimensions) {
            return Err(BatchError::Ragged { values: values.len(), dimensions });
        }
        // Without a branch for each value: nearly always all are good.
        if !values.iter().fold(true, |all, value| all & is_good(value)) {
            let ix = values.iter().position(|value| !is_good(value)).unwrap_or(0);
            return Err(BatchError::NotFinite {
                row: ix / dimensions,
                column: ix % dimensions,
                value: values[ix],
            });
        }
        Ok(Self { dimensions, values, weights: None, missing: false })
    }

    /// The same rows, each counted `weights[row]` times.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<Self, BatchError> {
        if weights.len() != self.n_rows() {
            return Err(BatchError::WeightCount { weights: weights.len(), rows: self.n_rows() });
        }
        if let Some(row) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(BatchError::Weight { row, value: weights[row] });
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.values.len() / self.dimensions
    }

    /// Whether a value is missing.
    pub fn has_missing(&self) -> bool {
        self.missing
    }

    /// How many values are missing.
    pub fn missing_cells(&self) -> usize {
        if self.missing { self.values.iter().filter(|value| value.is_nan()).count() } else { 0 }
    }

    /// Number of columns.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.dimensions..(row + 1) * self.dimensions]
    }

    /// All rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f64> {
        self.values.chunks_exact(self.dimensions)
    }

    /// All rows in order, to be changed into others of finite numbers.
    pub(crate) fn rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, f64> {
        self.values.chunks_exact_mut(self.dimensions)
    }

    /// The rows that count at all.
    pub(crate) fn weighty(&self) -> Cow<'_, Self> {
        match &self.weights {
            Some(weights) if weights.iter().any(|weight| *weight <= 0.0) => {
                let kept: Vec<usize> = (0..self.n_rows()).filter(|row| weights[*row] > 0.0).collect();
                Cow::Owned(self.select(&kept))
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// The first `n` rows, or all of them.
    pub fn head(&self, n: usize) -> Self {
        self.slice(0..n.min(self.n_rows()))
    }

    /// The rows from number `first` on.
    pub fn tail(&self, first: usize) -> Self {
        self.slice(first.min(self.n_rows())..self.n_rows())
    }

    /// These rows, in this order.
    pub fn select(&self, order: &[usize]) -> Self {
        let mut values = Vec::with_capacity(order.len() * self.dimensions);
        order.iter().for_each(|row| values.extend_from_slice(self.row(*row)));
        Self {
            dimensions: self.dimensions,
            missing: self.missing && values.iter().any(|value| value.is_nan()),
            values,
            weights: self.weights.as_ref().map(|weights| order.iter().map(|row| weights[*row]).collect()),
        }
    }

    /// All rows in pieces of `n`, the last of which may be shorter.
    pub fn pieces(&self, n: usize) -> impl Iterator<Item = Self> {
        let rows = self.n_rows();
        (0..rows).step_by(n.max(1)).map(move |first| self.slice(first..(first + n.max(1)).min(rows)))
    }

    pub(crate) fn slice(&self, rows: Range<usize>) -> Self {
        let values = &self.values[rows.start * self.dimensions..rows.end * self.dimensions];
        Self {
            dimensions: self.dimensions,
            missing: self.missing && values.iter().any(|value| value.is_nan()),
            values: values.to_vec(),
            weights: self.weights.as_ref().map(|weights| weights[rows].to_vec()),
        }
    }

    /// All values, row after row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The weights, if rows are weighted.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// Σ weights, or the number of rows: what this batch adds to MASS.
    pub fn mass(&self) -> f64 {
        match &self.weights {
            Some(weights) => weights.iter().sum(),
            None => self.n_rows() as f64,
        }
    }
}

impl Minibatch for Batch {
    type Row = Vec<f64>;

    fn n_rows(&self) -> usize {
        Batch::n_rows(self)
    }

    fn mass(&self) -> f64 {
        Batch::mass(self)
    }

    fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[row])
    }

    fn to_row(&self, row: usize) -> Vec<f64> {
        self.row(row).to_vec()
    }

    fn from_rows<'a>(rows: impl Iterator<Item = &'a Vec<f64>>) -> Option<Self> {
        let mut rows = rows.peekable();
        let dimensions = rows.peek()?.len();
        Self::with_missing(dimensions, rows.flatten().copied().collect()).ok()
    }

    fn counting(mut self, weights: Vec<f64>) -> Self {
        debug_assert_eq!(weights.len(), Batch::n_rows(&self), "every row has a weight");
        self.weights = Some(weights);
        self
    }

    fn append(&mut self, other: &Self) {
        debug_assert_eq!(self.dimensions, other.dimensions, "rows of one stream have the same columns");
        if self.weights.is_some() || other.weights.is_some() {
            let before = self.n_rows();
            let weights = self.weights.get_or_insert_with(|| vec![1.0; before]);
            weights.extend((0..other.n_rows()).map(|row| other.weight(row)));
        }
        self.values.extend_from_slice(&other.values);
        self.missing |= other.missing;
    }

    fn part(&self, rows: Range<usize>) -> Self {
        self.slice(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_named_by_row_and_column() {
        let error = Batch::new(2, vec![0.0, 1.0, f64::NAN, 3.0]).unwrap_err();
        assert!(matches!(error, BatchError::NotFinite { row: 1, column: 0, .. }));
    }

    #[test]
    fn ragged_values_are_refused() {
        assert_eq!(Batch::new(2, vec![0.0; 3]), Err(BatchError::Ragged { values: 3, dimensions: 2 }));
    }

    #[test]
    fn weights_make_the_mass() {
        let batch = Batch::new(1, vec![1.0, 2.0]).unwrap().with_weights(vec![0.5, 2.0]).unwrap();
        assert_eq!(batch.mass(), 2.5);
        assert!(Batch::new(1, vec![1.0]).unwrap().with_weights(vec![-1.0]).is_err());
    }

    #[test]
    fn appended_rows_keep_their_weights() {
        let plain = Batch::new(1, vec![1.0, 2.0]).unwrap();
        let weighted = Batch::new(1, vec![3.0]).unwrap().with_weights(vec![0.5]).unwrap();
        let mut all = plain.clone();
        all.append(&plain);
        assert_eq!((all.values(), all.weights()), (&[1.0, 2.0, 1.0, 2.0][..], None));
        all.append(&weighted);
        all.append(&plain.head(1));
        assert_eq!(all.weights(), Some(&[1.0, 1.0, 1.0, 1.0, 0.5, 1.0][..]));
        assert_eq!(all.mass(), 5.5);
    }
}
