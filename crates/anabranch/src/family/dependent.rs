//! Columns that say nothing beside the others: constant ones, sums of others, the same quantity in another unit.
//!
//! Rows then lie in a plane, and a density across it has no width: it grows without bound with every row, and drowns what
//! tells clusters apart. Such a column counts as known up to an interval that is narrow beside its spread, or of its unit
//! where it has no spread.

use super::error::PriorError;
use super::frame::Frame;
use crate::batch::Batch;
use crate::math::cholesky::{packed_len, row_start};

/// The width of the interval, in standard deviations of the column, and in units of a constant one.
const WIDTH: f64 = 0.01;
const WIDTH_OF_CONSTANT: f64 = 1.0;
/// A column of which the others leave less than this share of the variance open depends on them.
const OPEN: f64 = 1e-7;
/// Rows that are looked at, for each column.
const ROWS_PER_COLUMN: usize = 10;
/// Rows of more columns are not looked at.
const MOST_COLUMNS: usize = 512;

/// The frame of rows whose dependent columns are known up to an interval.
pub(super) fn with_intervals(frame: Frame, rows: &Batch) -> Result<Frame, PriorError> {
    let dependent = dependent(&frame, rows);
    if !dependent.contains(&true) {
        return Ok(frame);
    }
    let is_constant = |column: usize| rows.rows().all(|row| row[column] == rows.row(0)[column]);
    let width = |(column, dependent): (usize, &bool)| match frame.resolution(column) {
        0.0 if *dependent && is_constant(column) => WIDTH_OF_CONSTANT * frame.scale()[column],
        0.0 if *dependent => WIDTH * frame.scale()[column],
        width => width,
    };
    let widths = dependent.iter().enumerate().map(width).collect();
    frame.with_resolution(widths)
}

/// Whether a column has the interval of one that depends on others, or of a constant one.
pub(super) fn has_interval(frame: &Frame, column: usize) -> bool {
    [WIDTH, WIDTH_OF_CONSTANT].iter().any(|width| width * frame.scale()[column] == frame.resolution(column))
}

/// Which columns the ones before them leave nothing open of.
fn dependent(frame: &Frame, rows: &Batch) -> Vec<bool> {
    let d = frame.dimensions();
    let complete: Vec<&[f64]> = rows.rows().filter(|row| !row.iter().any(|x| x.is_nan())).collect();
    // Few rows lie in a plane whatever they are.
    if d > MOST_COLUMNS || complete.len() < 2 * d + 2 {
        return vec![false; d];
    }
    let step = complete.len().div_ceil(ROWS_PER_COLUMN * d + 100);
    let mut framed = vec![0.0; d];
    let (mut sums, mut squares, mut n) = (vec![0.0; d], vec![0.0; packed_len(d)], 0.0);
    for row in complete.into_iter().step_by(step) {
        frame.apply(row, &mut framed);
        n += 1.0;
        for i in 0..d {
            sums[i] += framed[i];
            let at = row_start(d, i);
            squares[at..at + d - i].iter_mut().zip(&framed[i..]).for_each(|(s, x)| *s += framed[i] * x);
        }
    }
    for i in 0..d {
        let at = row_start(d, i);
        for j in i..d {
            squares[at + j - i] = squares[at + j - i] / n - sums[i] / n * sums[j] / n;
        }
    }
    eliminated(d, &mut squares)
}

/// Eliminates one column after the other; true for those of which nothing is left when their turn comes.
fn eliminated(d: usize, covariance: &mut [f64]) -> Vec<bool> {
    let variance: Vec<f64> = (0..d).map(|i| covariance[row_start(d, i)]).collect();
    let mut dependent = vec![false; d];
    for i in 0..d {
        let at = row_start(d, i);
        let open = covariance[at];
        // The unit of a constant column is arbitrary: nothing is open of what has no spread in it.
        if open.is_nan() || open <= OPEN * variance[i].max(OPEN) {
            dependent[i] = true;
            continue;
        }
        let pivot: Vec<f64> = covariance[at..at + d - i].to_vec();
        for j in i + 1..d {
            let share = pivot[j - i] / open;
            let to = row_start(d, j);
            covariance[to..to + d - j].iter_mut().zip(&pivot[j - i..]).for_each(|(c, p)| *c -= share * p);
        }
    }
    dependent
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn found(make: impl Fn(f64, f64, f64) -> Vec<f64>, n: usize) -> Vec<bool> {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(4);
        let rows: Vec<Vec<f64>> =
            (0..n).map(|_| make(rng.random(), rng.random(), 1e3 * rng.random::<f64>())).collect();
        let rows = Batch::new(rows[0].len(), rows.concat()).unwrap();
        dependent(&Frame::from_rows(&rows).unwrap(), &rows)
    }

    #[test]
    fn columns_that_follow_from_others_are_found() {
        assert_eq!(found(|a, b, c| vec![a, b, c], 500), [false; 3]);
        assert_eq!(found(|a, b, _| vec![a, 7.0, b], 500), [false, true, false]);
        assert_eq!(found(|a, b, c| vec![a, c, 2.54 * c, a + c, b], 500), [false, false, true, true, false]);
        assert_eq!(found(|a, b, c| vec![a, a + 0.01 * b, c], 500), [false; 3], "nearly is not wholly");
        assert_eq!(found(|a, b, c| vec![a, 7.0, b, c], 9), [false; 4], "few rows");
    }

    #[test]
    fn only_what_is_exact_gets_an_interval() {
        let rows = (0..200).flat_map(|ix| {
            let t = f64::from(ix);
            [
                t.sin(),
                (1.7 * t).cos(),
                t.sin() + (1.7 * t).cos(),
                f64::from(ix * ix % 17),
                f64::from(ix * ix % 17),
            ]
        });
        let rows = Batch::new(5, rows.collect()).unwrap();
        let frame = Frame::from_rows(&rows).unwrap();
        let widths: Vec<f64> = {
            let frame = with_intervals(frame.clone(), &rows).unwrap();
            (0..5).map(|column| frame.resolution(column)).collect()
        };
        assert_eq!(widths, [0.0, 0.0, WIDTH * frame.scale()[2], 1.0, 1.0]);
    }
}
