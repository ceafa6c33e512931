//! Checks of columns that hold counts, codes or bits.

use super::DomainError;

/// The largest count a column may hold: above it doubles skip whole numbers.
pub(crate) const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Refuses values that are not whole numbers from 0 to 2⁵³.
pub(crate) fn check_counts(x: &[f64]) -> Result<(), DomainError> {
    match x.iter().position(|&v| !((0.0..=LARGEST_COUNT).contains(&v) && v.fract() == 0.0)) {
        None => Ok(()),
        Some(column) => {
            Err(DomainError { column, value: x[column], expected: "a whole number of at least 0" })
        }
    }
}
