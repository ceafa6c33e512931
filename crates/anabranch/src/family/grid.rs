//! Rounded values: the width of the grid that a column lies on.
//!
//! ```text
//! x = x₀ + i·w,   i an integer        w: the greatest common divisor of all differences
//! ```
//!
//! A value that was rounded to a multiple of `w` says `x ± w/2`. Taken for exact, values that many rows share look like
//! clusters of no width; so the grid is found, and each value counts as the interval that it stands for.

use crate::batch::Batch;

/// Two differences are multiples of the same width when they are off by less than this share of it.
const OFF: f64 = 0.02;
/// The same, when all values are looked at again in the end.
const OFF_IN_THE_END: f64 = 0.05;
/// A grid of more steps than this, from the smallest value to the largest, is as good as none.
const MOST_STEPS: f64 = 1e5;
/// So many different values that lie on a grid do so by no chance; fewer must repeat, this many times each.
const ENOUGH_VALUES: usize = 5;
const REPEATS: usize = 2;
/// Decimals that few values may have.
const MOST_DECIMALS: i32 = 7;

/// The width of each column's grid; 0 where there is none.
pub(super) fn widths(rows: &Batch) -> Vec<f64> {
    (0..rows.dimensions()).map(|column| width(rows, column).unwrap_or(0.0)).collect()
}

fn width(rows: &Batch, column: usize) -> Option<f64> {
    let values = || rows.rows().map(|row| row[column]).filter(|value| !value.is_nan());
    let first = values().next()?;
    // Halves: the difference of two doubles may be none.
    let range = values().map(|value| (0.5 * value - 0.5 * first).abs()).fold(0.0, f64::max);
    if !(range.is_finite() && range > 0.0) {
        return None;
    }
    let differences = || values().map(|value| (0.5 * value - 0.5 * first).abs()).filter(|d| *d > 0.0);
    let least = range / MOST_STEPS;
    let mut width: f64 = 0.0;
    let mut longest: f64 = 0.0;
    for difference in differences() {
        width = if width == 0.0 { difference } else { common_divisor(width, difference, least)? };
        // A long difference tells the width more exactly than a short one.
        if difference > longest {
            longest = difference;
            width = difference / (difference / width).round();
        }
    }
    let off = |difference: f64| (difference / width - (difference / width).round()).abs();
    if width < least || differences().any(|difference| off(difference) > OFF_IN_THE_END) {
        return None;
    }
    // Twice the half; a grid that is wider than any double is none.
    let width = 2.0 * width;
    if width.is_infinite() {
        return None;
    }
    match different_values(values()) {
        ENOUGH_VALUES.. => Some(width),
        few if values().count() >= REPEATS * few => Some(decimal(width, first).unwrap_or(width)),
        _ => None,
    }
}

/// The power of ten, at most 1, that the width and a value are multiples of: few values lie on wider grids than they were
/// rounded to.
fn decimal(width: f64, value: f64) -> Option<f64> {
    let is_multiple = |x: f64, unit: f64| (x / unit - (x / unit).round()).abs() <= OFF;
    (0..MOST_DECIMALS)
        .map(|digits| 0.1_f64.powi(digits))
        .find(|unit| is_multiple(width, *unit) && is_multiple(value, *unit))
}

/// Euclid's algorithm on numbers that are a little off; `None` when it ends below `least`.
fn common_divisor(width: f64, difference: f64, least: f64) -> Option<f64> {
    let (mut width, mut other) = (width, difference);
    loop {
        let rest = (other - (other / width).round() * width).abs();
        if rest <= OFF * width {
            return Some(width);
        }
        (other, width) = (width, rest);
        // The rest of a quotient that is no number is none either.
        if width.is_nan() || width < least {
            return None;
        }
    }
}

/// How many different values there are, as far as that matters.
fn different_values(values: impl Iterator<Item = f64>) -> usize {
    let mut different: Vec<f64> = Vec::with_capacity(ENOUGH_VALUES);
    for value in values {
        if !different.contains(&value) {
            different.push(value);
            if different.len() >= ENOUGH_VALUES {
                break;
            }
        }
    }
    different.len()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Decimals are not exact, and those of single precision less so.
    const DECIMALS: f64 = 1e-5;

    fn found(values: Vec<f64>) -> f64 {
        widths(&Batch::new(1, values).unwrap())[0]
    }

    #[test]
    fn the_width_of_rounded_values_is_found() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(3);
        let mut rounded = |width: f64, offset: f64, n: usize| -> Vec<f64> {
            (0..n).map(|_| offset + width * (rng.random_range(-20.0_f64..20.0) / width).round()).collect()
        };
        for (width, offset) in
            [(1.0, 0.0), (0.1, 0.0), (0.25, 0.1), (5.0, 2.0), (1.0 / 255.0, 0.0), (3.7, -1e3)]
        {
            for n in [12, 300, 5000] {
                let values = rounded(width, offset, n);
                let single = values.iter().map(|value| f64::from(*value as f32)).collect();
                // Few values may by chance all lie on a wider grid.
                let steps = found(values.clone()) / width;
                assert!(
                    (steps - steps.round()).abs() < DECIMALS && steps > 0.5,
                    "{width} {offset} {n}: {steps}"
                );
                assert!(n < 300 || (steps - 1.0).abs() < DECIMALS, "{width} {offset} {n}: {steps}");
                // Where single precision resolves the steps.
                if offset.abs() < 10.0 && width >= 0.1 {
                    assert!((found(single) / width - steps).abs() < 1e-3 * steps, "{width} {offset} {n}");
                }
            }
        }
    }

    #[test]
    fn values_that_are_not_rounded_have_no_grid() {
        for seed in 0..200 {
            let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
            for n in [1, 2, 3, 4, 5, 6, 8, 10, 20, 1000] {
                let values: Vec<f64> = (0..n).map(|_| rng.random::<f64>()).collect();
                assert_eq!(found(values.clone()), 0.0, "{n} {seed}");
                assert_eq!(
                    found(values.iter().map(|value| f64::from(*value as f32)).collect()),
                    0.0,
                    "{n} {seed}"
                );
                // Half of the rows are 0: the others are still no multiples of anything.
                assert!(
                    n < 8 || found(values.iter().flat_map(|value| [*value, 0.0]).collect()) == 0.0,
                    "{n} {seed}"
                );
            }
        }
    }

    #[test]
    fn what_is_constant_or_too_fine_or_too_large_has_no_grid() {
        assert_eq!(found(vec![3.0; 100]), 0.0);
        assert_eq!(found((0..1000).map(|ix| f64::from(ix * ix * 7 % 1_000_003)).collect()), 0.0);
        assert_eq!(found(vec![f64::MAX, -f64::MAX, 0.0, 1.0]), 0.0);
        let extremes =
            [f64::MAX, -f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e-300, 1e300, 1.0, 0.0, -0.0, 3e-324];
        for a in extremes {
            for b in extremes {
                for c in extremes {
                    let width = found([a, b, c].repeat(4));
                    assert!(width.is_finite() && width >= 0.0, "{a:e} {b:e} {c:e}: {width:e}");
                }
            }
        }
        assert_eq!(found(vec![0.0, 1.0, 1.0, 0.0]), 1.0, "zeros and ones");
        assert_eq!(found(vec![0.0, 100.0, 100.0, 0.0]), 1.0, "integers, whatever their difference");
        assert_eq!(found(vec![0.5, 2.0, 2.0, 0.5]), 0.1);
        assert_eq!(found([0.3_f64.sqrt(), 1.0].repeat(2)), 1.0 - 0.3_f64.sqrt(), "no decimals tell");
    }
}
