//! Why a row or a prior is refused, and the checks that refuse it.
//!
//! A model file is input like any other: whatever passes these checks must never lead to a panic, a NaN or an infinity
//! later. Positive parameters therefore lie in `1e-100 ..= 1e100` and real ones within `±1e75`, far outside any use and
//! far inside what products of two of them can hold.

/// A row lies outside a family's domain.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("column {column}: {value} is not {expected}")]
pub struct DomainError {
    /// Column of the row, from 0.
    pub column: usize,
    /// The offending value.
    pub value: f64,
    /// What the family takes there, for example "0 or 1".
    pub expected: &'static str,
}

/// A family cannot be made of these parameters or of these rows.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PriorError {
    /// A default prior needs at least one row (of positive weight).
    #[error("a prior cannot be guessed from no rows")]
    NoRows,
    /// A family has at least one column, a categorical column at least one category, a product at least one block.
    #[error("{what} is empty")]
    Empty {
        /// What is empty.
        what: &'static str,
    },
    /// Two parts of the parameters do not belong together.
    #[error("{what} has {found} entries, expected {expected}")]
    Length {
        /// Which parameter.
        what: &'static str,
        /// Entries it must have.
        expected: usize,
        /// Entries it has.
        found: usize,
    },
    /// A parameter is not a finite number, not positive where it must be, or absurdly large or small.
    #[error("{what} is {value}, expected {expected}")]
    Parameter {
        /// Which parameter.
        what: &'static str,
        /// The offending value.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// An inverse-Wishart distribution of `D` columns needs more than `D − 1` degrees of freedom.
    #[error("{dof} degrees of freedom are too few for {dimensions} columns: more than {} are needed", dimensions - 1)]
    DegreesOfFreedom {
        /// The offending degrees of freedom.
        dof: f64,
        /// Columns of a row.
        dimensions: usize,
    },
    /// The prior scatter matrix is not positive definite.
    #[error("the prior scatter matrix is not positive definite")]
    NotPositiveDefinite,
    /// A spherical family was given a frame that scales its columns differently.
    #[error("column {column}: a spherical family scales all columns alike")]
    NotIsotropic {
        /// First column whose scale differs from column 0.
        column: usize,
    },
    /// The blocks of a product do not use every column exactly once.
    #[error("column {column} is not in exactly one block of the product")]
    Partition {
        /// The first offending column.
        column: usize,
    },
    /// A row from which a prior should be guessed lies outside the domain.
    #[error("row {row}, {source}")]
    Row {
        /// Row within the batch, from 0.
        row: usize,
        /// What is wrong with it.
        source: DomainError,
    },
}

/// Smallest and largest positive parameter.
const POSITIVE_RANGE: std::ops::RangeInclusive<f64> = 1e-100..=1e100;
/// Largest absolute value of a real parameter and of a framed row.
pub(crate) const REAL_LIMIT: f64 = 1e75;

pub(crate) fn require_len(what: &'static str, expected: usize, found: usize) -> Result<(), PriorError> {
    if found == expected { Ok(()) } else { Err(PriorError::Length { what, expected, found }) }
}

pub(crate) fn require_some(what: &'static str, found: usize) -> Result<(), PriorError> {
    if found > 0 { Ok(()) } else { Err(PriorError::Empty { what }) }
}

pub(crate) fn require_positive(what: &'static str, values: &[f64]) -> Result<(), PriorError> {
    match values.iter().find(|v| !POSITIVE_RANGE.contains(v)) {
        None => Ok(()),
        Some(&value) => Err(PriorError::Parameter { what, value, expected: "a number from 1e-100 to 1e100" }),
    }
}

pub(crate) fn require_real(what: &'static str, values: &[f64]) -> Result<(), PriorError> {
    match values.iter().find(|v| !(-REAL_LIMIT..=REAL_LIMIT).contains(*v)) {
        None => Ok(()),
        Some(&value) => Err(PriorError::Parameter { what, value, expected: "a number from -1e75 to 1e75" }),
    }
}
