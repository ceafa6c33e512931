//! Affine coordinates in which sums of squares lose no precision.
//!
//! ```text
//! x′ = (x − shift) / scale        (per column)        log p(x) = log p(x′) − Σ_d log scale_d
//! ```
//!
//! Where values are rounded, the frame also knows the width of the interval that each of them stands for (`grid.rs`).
//!
//! `Σ x²` of data at offset 1e8 keeps no digit of a unit variance. A frame is fixed once, from the first rows, and
//! everything a Gaussian family stores (statistics, prior) is in its coordinates; densities and summaries are in the
//! units of the data.

use serde::{Deserialize, Serialize};

use super::error::{PriorError, REAL_LIMIT, require_len, require_some};
use super::{DomainError, EMPTY_COUNT, grid};
use crate::batch::Batch;

/// A shift and a scale per column, and how exact its values are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawFrame")]
pub struct Frame {
    shift: Vec<f64>,
    scale: Vec<f64>,
    /// Widths of the intervals that values stand for; none where all values are exact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resolution: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFrame {
    shift: Vec<f64>,
    scale: Vec<f64>,
    #[serde(default)]
    resolution: Vec<f64>,
}

impl TryFrom<RawFrame> for Frame {
    type Error = PriorError;

    fn try_from(raw: RawFrame) -> Result<Self, PriorError> {
        let frame = Frame::new(raw.shift, raw.scale)?;
        if raw.resolution.is_empty() { Ok(frame) } else { frame.with_resolution(raw.resolution) }
    }
}

/// Deviations below this share of the mean are the rounding of the mean, not a spread.
const CONSTANT_SHARE: f64 = 1e-13;
/// A scale is a number whose square, and the inverse of it, are doubles: covariances are in squared units.
const SCALE_RANGE: std::ops::RangeInclusive<f64> = 1e-150..=1e150;
/// An interval, in standard deviations of its column: more would bury what the rows show.
const WIDEST_INTERVAL: f64 = 1e3;
/// Of a column's values, this share and at least one at either end may be far out …
const FEW_SHARE: f64 = 0.01;
/// … and those are, for the scale of a column, that are beyond the others by more than so many times their range.
const FAR_OUT: f64 = 10.0;
/// A shift leaves room for a framed row to be mapped back.
const LARGEST_SHIFT: f64 = 1e300;

/// Whether values of this scale can stand for intervals of this width.
fn is_width(width: f64, scale: f64) -> bool {
    width >= 0.0 && width / scale <= WIDEST_INTERVAL
}

impl Frame {
    /// A frame of these shifts and scales.
    pub fn new(shift: Vec<f64>, scale: Vec<f64>) -> Result<Self, PriorError> {
        require_some("the frame", shift.len())?;
        require_len("the scale of the frame", shift.len(), scale.len())?;
        if let Some(&value) = shift.iter().find(|v| !(-LARGEST_SHIFT..=LARGEST_SHIFT).contains(*v)) {
            let expected = "a number from -1e300 to 1e300";
            return Err(PriorError::Parameter { what: "a shift of the frame", value, expected });
        }
        if let Some(&value) = scale.iter().find(|v| !SCALE_RANGE.contains(v)) {
            return Err(PriorError::Parameter {
                what: "a scale of the frame",
                value,
                expected: "a number from 1e-150 to 1e150",
            });
        }
        Ok(Self { shift, scale, resolution: Vec::new() })
    }

    /// The same frame of values that stand for intervals of these widths, in the units of the data; 0 for exact values.
    pub fn with_resolution(mut self, resolution: Vec<f64>) -> Result<Self, PriorError> {
        require_len("the resolution of the frame", self.dimensions(), resolution.len())?;
        if let Some(ix) =
            resolution.iter().zip(&self.scale).position(|(width, scale)| !is_width(*width, *scale))
        {
            let expected = "a number of at least 0 and at most 1000 standard deviations of its column";
            return Err(PriorError::Parameter { what: "a resolution", value: resolution[ix], expected });
        }
        self.resolution = if resolution.iter().all(|width| *width == 0.0) { Vec::new() } else { resolution };
        Ok(self)
    }

    /// The same frame of values that stand for the intervals of the grids that these rows lie on.
    fn with_grids_of(self, rows: &Batch) -> Result<Self, PriorError> {
        let usable = |(width, scale): (f64, &f64)| if is_width(width, *scale) { width } else { 0.0 };
        let resolution = grid::widths(rows).into_iter().zip(&self.scale).map(usable).collect();
        self.with_resolution(resolution)
    }

    /// The units of the data: nothing is shifted or scaled.
    pub fn identity(dimensions: usize) -> Self {
        Self { shift: vec![0.0; dimensions], scale: vec![1.0; dimensions], resolution: Vec::new() }
    }

    /// Mean, standard deviation and resolution of the rows, column by column; without a few values that are far out, which would hide what
    /// the others show.
    ///
    /// A column without spread is scaled by `max(1, 1e-8 · |mean|)`: it says nothing about the unit of later values, so
    /// the unit of the data is kept as far as their precision allows.
    pub fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let moments = column_moments(rows)?;
        let scale = moments.iter().map(|m| if m.is_constant() { m.fallback_scale() } else { m.deviation });
        let scale = scale.map(into_range).collect();
        Self::new(moments.iter().map(|m| m.mean).collect(), scale)?.with_grids_of(rows)
    }

    /// The mean of each column and one scale for all: the root mean square of the columns' standard deviations.
    pub fn isotropic_from_rows(rows: &Batch) -> Result<Self, PriorError> {
        let moments = column_moments(rows)?;
        // Divided by the largest first, so that squares of 1e200 do not overflow.
        let largest = moments.iter().map(|m| m.deviation).fold(0.0, f64::max);
        let scale = if moments.iter().all(Moments::is_constant) {
            moments.iter().map(Moments::fallback_scale).fold(1.0, f64::max)
        } else {
            let squares = moments.iter().map(|m| (m.deviation / largest).powi(2)).sum::<f64>();
            largest * (squares / moments.len() as f64).sqrt()
        };
        let n = moments.len();
        Self::new(moments.iter().map(|m| m.mean).collect(), vec![into_range(scale); n])?.with_grids_of(rows)
    }

    /// Number of columns.
    pub fn dimensions(&self) -> usize {
        self.shift.len()
    }

    /// What is subtracted from each column.
    pub fn shift(&self) -> &[f64] {
        &self.shift
    }

    /// What each column is divided by.
    pub fn scale(&self) -> &[f64] {
        &self.scale
    }

    /// Width of the interval that a value of this column stands for; 0 where values are exact.
    pub fn resolution(&self, column: usize) -> f64 {
        self.resolution.get(column).copied().unwrap_or(0.0)
    }

    /// `Σ log scale`: the log of the volume of a unit cube of the frame, in data units.
    pub fn ln_scale(&self) -> f64 {
        self.scale.iter().map(|s| s.ln()).sum()
    }

    /// Writes the framed row with these values, of the frame, where one is missing.
    pub(crate) fn apply_or<'a>(&self, x: &[f64], otherwise: impl Iterator<Item = &'a f64>, out: &mut [f64]) {
        self.apply(x, out);
        for (out, otherwise) in out.iter_mut().zip(otherwise) {
            *out = if out.is_nan() { *otherwise } else { *out };
        }
    }

    /// Writes the framed row.
    pub fn apply(&self, x: &[f64], out: &mut [f64]) {
        for (((out, x), shift), scale) in out.iter_mut().zip(x).zip(&self.shift).zip(&self.scale) {
            *out = (x - shift) / scale;
        }
    }

    /// Maps a framed row back to the units of the data, in place.
    pub fn restore(&self, framed: &mut [f64]) {
        for ((value, shift), scale) in framed.iter_mut().zip(&self.shift).zip(&self.scale) {
            *value = *value * scale + shift;
        }
    }

    /// Squared Euclidean distance of two rows in the frame.
    pub fn squared_distance(&self, x: &[f64], y: &[f64]) -> f64 {
        x.iter().zip(y).zip(&self.scale).map(|((x, y), scale)| ((x - y) / scale).powi(2)).sum()
    }

    /// Refuses rows whose squares would overflow in the frame.
    pub fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        let framed =
            || x.iter().zip(&self.shift).zip(&self.scale).map(|((x, shift), scale)| (x - shift) / scale);
        let is_far = |framed: f64| framed.abs() > REAL_LIMIT;
        // Without a branch for each column: nearly all rows are good.
        if !framed().fold(false, |any, framed| any | is_far(framed)) {
            return Ok(());
        }
        let column = framed().position(is_far).unwrap_or(0);
        let expected = "a number within 1e75 standard deviations of the first rows";
        Err(DomainError { column, value: x[column], expected })
    }
}

/// True when rows that pass [`Frame::check`] can have this count, these sums and these sums of squares or products.
///
/// Larger ones overflow on the way to a scatter matrix.
pub(crate) fn are_moments(count: f64, sums: &[f64], squares: &[f64]) -> bool {
    /// More rows than anyone counts, and few enough to multiply with the largest square.
    const MOST_ROWS: f64 = 1e100;
    /// A sum of 1e12 terms is off by less than this share.
    const ROUNDING_SHARE: f64 = 1e-6;
    let rows = count * (1.0 + ROUNDING_SHARE);
    let (most_sum, most_square) = (rows * REAL_LIMIT, rows * REAL_LIMIT * REAL_LIMIT);
    (0.0..=MOST_ROWS).contains(&count)
        && sums.iter().all(|sum| sum.abs() <= most_sum)
        && squares.iter().all(|square| square.abs() <= most_square)
}

/// `Σ(x − x̄)²` of rows with this count, sum and sum of squares: negative where there are no such rows.
pub(crate) fn scatter_of(count: f64, sum: f64, square: f64) -> f64 {
    if count <= EMPTY_COUNT { square } else { square - sum / count * sum }
}

/// Share of the prior that may stand in for squares that are missing.
pub(crate) const PRIOR_SHARE: f64 = 0.5;

fn into_range(scale: f64) -> f64 {
    scale.clamp(*SCALE_RANGE.start(), *SCALE_RANGE.end())
}

struct Moments {
    mean: f64,
    deviation: f64,
}

impl Moments {
    fn is_constant(&self) -> bool {
        let resolved = self.deviation > CONSTANT_SHARE * self.mean.abs();
        !resolved
    }

    fn fallback_scale(&self) -> f64 {
        (1e-8 * self.mean.abs()).max(1.0)
    }
}

fn column_moments(rows: &Batch) -> Result<Vec<Moments>, PriorError> {
    let mass = rows.mass();
    let has_mass = mass > 0.0;
    if !has_mass {
        return Err(PriorError::NoRows);
    }
    let weight = |row: usize| rows.weights().map_or(1.0, |w| w[row]);
    Ok((0..rows.dimensions())
        .map(|column| {
            let bulk = bulk(rows.rows().map(|x| x[column]), FAR_OUT);
            let known = || rows.rows().enumerate().filter(|(_, x)| bulk.contains(&x[column]));
            let all = !rows.has_missing() && bulk == EVERYTHING;
            let mass = if all { mass } else { known().map(|(row, _)| weight(row)).sum() };
            if mass <= 0.0 {
                return Moments { mean: 0.0, deviation: 0.0 };
            }
            let values = || known().map(|(row, x)| (weight(row) / mass, x[column]));
            // A sum of values near the largest double may round above it.
            let mean = values().map(|(w, v)| w * v).sum::<f64>().clamp(-LARGEST_SHIFT, LARGEST_SHIFT);
            let largest = values().map(|(_, v)| (0.5 * v - 0.5 * mean).abs()).fold(0.0, f64::max);
            let deviation = if largest > 0.0 {
                let unit = |v: f64| (0.5 * v - 0.5 * mean) / largest;
                // The square root is at most 1, the product at most twice the largest double.
                largest * values().map(|(w, v)| w * unit(v).powi(2)).sum::<f64>().sqrt() * 2.0
            } else {
                0.0
            };
            Moments { mean, deviation: deviation.min(f64::MAX) }
        })
        .collect())
}

const EVERYTHING: std::ops::RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

/// Where nearly all values are: everywhere, unless a few are beyond the others by more than `far_out` times their range.
pub fn bulk(values: impl Iterator<Item = f64>, far_out: f64) -> std::ops::RangeInclusive<f64> {
    let mut known: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    let n = known.len();
    let few = ((FEW_SHARE * n as f64) as usize).max(1);
    if n <= 2 * few + 2 {
        return EVERYTHING;
    }
    let mut place = |ix: usize| *known.select_nth_unstable_by(ix, f64::total_cmp).1;
    let (low, high) = (place(few), place(n - 1 - few));
    // Halves, whose difference is a number.
    let reach = far_out * (0.5 * high - 0.5 * low) * 2.0;
    let inside = low - reach..=high + reach;
    // Of values that hardly differ, the others are all that is known of the spread.
    let differ = high > low && reach.is_finite();
    if differ && !known.iter().all(|value| inside.contains(value)) { inside } else { EVERYTHING }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_values_that_are_far_out_do_not_set_the_scale() {
        let column = |far: &[f64]| {
            let mut values: Vec<f64> = (0..200).map(|i| f64::from(i % 20)).collect();
            values[..far.len()].copy_from_slice(far);
            Frame::from_rows(&Batch::new(1, values).unwrap()).unwrap().scale()[0]
        };
        let ordinary = column(&[]);
        for far in [&[1e6][..], &[-1e300, 1e300], &[999.0, 999.0]] {
            assert!((column(far) - ordinary).abs() < 0.1 * ordinary, "{far:?}: {}", column(far));
        }
        // So many are no exception, and so little out is not far.
        assert!(column(&[1e6; 5]) > 100.0 * ordinary);
        assert!(column(&[100.0]) > 1.1 * ordinary);
    }

    /// Roundings of values near 1e8 against a spread near 1.
    const OFFSET_ROUNDING: f64 = 1e-7;

    #[test]
    fn an_offset_of_a_hundred_million_keeps_the_spread() {
        let rows = Batch::new(1, vec![1e8 - 1.0, 1e8 + 1.0]).unwrap();
        let frame = Frame::from_rows(&rows).unwrap();
        assert!((frame.scale()[0] - 1.0).abs() < OFFSET_ROUNDING);
        let mut framed = [0.0];
        frame.apply(&[1e8 + 3.0], &mut framed);
        assert!((framed[0] - 3.0).abs() < OFFSET_ROUNDING);
        frame.restore(&mut framed);
        assert!((framed[0] - (1e8 + 3.0)).abs() < OFFSET_ROUNDING);
    }

    #[test]
    fn constant_columns_and_single_rows_get_a_usable_scale() {
        let rows = Batch::new(3, vec![0.0, 5.0, -3e12]).unwrap();
        assert_eq!(Frame::from_rows(&rows).unwrap().scale(), &[1.0, 1.0, 3e4]);
        assert_eq!(Frame::isotropic_from_rows(&rows).unwrap().scale(), &[3e4; 3]);
        // 0.1 three times has a mean that is not exactly 0.1.
        let rows = Batch::new(1, vec![0.1; 3]).unwrap();
        assert_eq!(Frame::from_rows(&rows).unwrap().scale(), &[1.0]);
    }

    #[test]
    fn the_largest_and_smallest_doubles_do_not_break_a_frame() {
        let rows = Batch::new(1, vec![f64::MAX, -f64::MAX, 1.0]).unwrap();
        assert!(Frame::from_rows(&rows).is_ok());
        assert!(Frame::isotropic_from_rows(&rows).is_ok());
        // Beside the largest double all others are 0: a grid of that width, which no scale can hold.
        let rows = Batch::new(1, [0.0, f64::MAX, 0.3, 1e8, 1.0, 2.0].repeat(3)).unwrap();
        assert_eq!(Frame::from_rows(&rows).unwrap().resolution(0), 0.0);
        assert_eq!(Frame::isotropic_from_rows(&rows).unwrap().resolution(0), 0.0);
        let rows = Batch::new(1, vec![5e-324, 0.0]).unwrap();
        let frame = Frame::from_rows(&rows).unwrap();
        assert!(frame.check(&[1e300]).is_err());
        assert!(frame.check(&[0.0]).is_ok());
    }

    #[test]
    fn no_rows_make_no_frame() {
        assert_eq!(Frame::from_rows(&Batch::new(2, vec![]).unwrap()), Err(PriorError::NoRows));
        let weightless = Batch::new(1, vec![1.0]).unwrap().with_weights(vec![0.0]).unwrap();
        assert_eq!(Frame::from_rows(&weightless), Err(PriorError::NoRows));
    }
}
