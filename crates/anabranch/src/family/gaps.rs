//! Missing values of many rows under one normal density: eight rows side by side, each with missing columns of its own.
//!
//! ```text
//! x_M | x_O ~ N(Λ_MM⁻¹ b, Λ_MM⁻¹),   b = l_M − Λ_MO x_O,   Λ_MM = L D Lᵀ,   y = L⁻¹ b
//! log ∫ exp(φ · T(x)) dx_M − φ · T(x_O) = c + ½ (m log 2π − log |D|) + ½ Σ y²/d,      c = Σ_M log scale
//! entropy of x_M                        = c + ½ (m log 2π − log |D|) + ½ m
//! ```
//!
//! with `l = νΨ⁻¹m` and `Λ = νΨ⁻¹` of the component. Rows with fewer missing values than others of the eight have ones on the rest of the
//! diagonal.

use pulp::{Arch, Simd, WithSimd};

use super::panel::{LANES, Lanes, factor, subtract};
use crate::math::cholesky::row_start;
use crate::math::product::{responsibilities_times_rows, rows_times_parameters};
use crate::math::special::LN_2PI;
use crate::parallel;

/// Rows whose products with the precision, and with each other, are taken at a time.
const ROWS: usize = 128;

/// A row with missing values.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    /// `T(x)` of what is known.
    pub features: &'a [f64],
    /// The missing columns, ascending.
    pub missing: &'a [usize],
    /// How often the row counts.
    pub share: f64,
}

/// [`super::Family::ln_integrals`] of a normal density, whose `φ` begins with this and whose table is `l`, then `Λ` row after row.
pub(super) fn ln_integrals(
    (first, table): (f64, &[f64]),
    ln_scales: &[f64],
    gaps: &[Gap<'_>],
    out: &mut [f64],
) {
    let d = ln_scales.len();
    for (gaps, out) in gaps.chunks(ROWS).zip(out.chunks_mut(ROWS)) {
        with_known(table, d, gaps, |x, pulls| {
            with_lanes(most_missing(gaps), |y, lower, _| {
                Arch::new().dispatch(LnMissing { table, ln_scales, gaps, pulls, out, y, lower });
            });
            // φ · T(x) = c + lᵀx − ½ xᵀΛx.
            for ((x, pulls), out) in x.chunks_exact(d).zip(pulls.chunks_exact(d)).zip(out) {
                let terms = x.iter().zip(pulls).zip(table);
                *out += first + terms.map(|((x, pull), linear)| x * (linear - 0.5 * pull)).sum::<f64>();
            }
        });
    }
}

/// [`super::Family::add_expected`] of the same.
pub(super) fn add_expected(table: &[f64], ln_scales: &[f64], gaps: &[Gap<'_>], sums: &mut [f64]) -> f64 {
    let d = ln_scales.len();
    let mut entropy = 0.0;
    parallel::with_buffer(2 * d * d, |buffer| {
        let (moments, products) = buffer.split_at_mut(d * d);
        moments.fill(0.0);
        for gaps in gaps.chunks(ROWS) {
            with_known(table, d, gaps, |x, pulls| {
                let spread = &mut *moments;
                entropy += with_lanes(most_missing(gaps), |y, lower, covariance| {
                    let (pulls, x) = (&*pulls, &mut *x);
                    Arch::new().dispatch(Expect {
                        table,
                        ln_scales,
                        gaps,
                        pulls,
                        x,
                        spread,
                        y,
                        lower,
                        covariance,
                    })
                });
                // What pulled is done with: rows as often as they count take the place.
                for ((gap, x), weighted) in gaps.iter().zip(x.chunks_exact(d)).zip(pulls.chunks_exact_mut(d))
                {
                    sums[0] += gap.share * gap.features[0];
                    for ((weighted, x), sum) in weighted.iter_mut().zip(x).zip(&mut sums[1..=d]) {
                        *weighted = gap.share * x;
                        *sum += *weighted;
                    }
                }
                responsibilities_times_rows(pulls, x, d, products);
            });
            moments.iter_mut().zip(&*products).for_each(|(moment, product)| *moment += product);
        }
        for i in 0..d {
            let packed = &mut sums[1 + d + row_start(d, i)..][..d - i];
            packed.iter_mut().zip(&moments[i * d + i..]).for_each(|(sum, moment)| *sum += moment);
        }
    });
    entropy
}

/// Lends what is known of the rows, zeros for the rest, and `Λ x` of that.
fn with_known(table: &[f64], d: usize, gaps: &[Gap<'_>], work: impl FnOnce(&mut [f64], &mut [f64])) {
    parallel::with_buffer(2 * gaps.len() * d, |buffer| {
        let (x, pulls) = buffer.split_at_mut(gaps.len() * d);
        for (gap, x) in gaps.iter().zip(x.chunks_exact_mut(d)) {
            x.copy_from_slice(&gap.features[1..=d]);
        }
        rows_times_parameters(x, &table[d..], d, pulls);
        work(x, pulls);
    });
}

/// Lends a vector and two triangles of eight rows with so many missing values. Not from within what is dispatched: a closure that is called from
/// elsewhere has none of the machine's wide registers.
fn with_lanes<R>(m: usize, work: impl FnOnce(&mut [Lanes], &mut [Lanes], &mut [Lanes]) -> R) -> R {
    let triangle = m * (m + 1) / 2;
    parallel::with_buffer((m + 2 * triangle) * LANES, |buffer| {
        let (y, rest) = buffer.as_chunks_mut::<LANES>().0.split_at_mut(m);
        let (lower, covariance) = rest.split_at_mut(triangle);
        work(y, lower, covariance)
    })
}

/// Missing values of a row, at most.
fn most_missing(gaps: &[Gap<'_>]) -> usize {
    gaps.iter().map(|gap| gap.missing.len()).max().unwrap_or(0)
}

/// Factors `Λ_MM` of up to eight rows, makes `y` of them, and returns `log |D|`.
#[inline(always)]
fn condition(
    (linear, precision): (&[f64], &[f64]),
    gaps: &[Gap<'_>],
    pulls: &[f64],
    lower: &mut [Lanes],
    y: &mut [Lanes],
) -> Lanes {
    let (d, m) = (linear.len(), y.len());
    lower.fill([0.0; LANES]);
    (0..m).for_each(|a| lower[a * (a + 1) / 2 + a] = [1.0; LANES]);
    y.fill([0.0; LANES]);
    for (lane, (gap, pull)) in gaps.iter().zip(pulls.chunks_exact(d)).enumerate() {
        let mut at = 0;
        for (a, i) in gap.missing.iter().enumerate() {
            let row = &precision[i * d..(i + 1) * d];
            for j in &gap.missing[..=a] {
                lower[at][lane] = row[*j];
                at += 1;
            }
            y[a][lane] = linear[*i] - pull[*i];
        }
    }
    let ln_determinant = factor(m, lower);
    for a in 1..m {
        let row = &lower[a * (a + 1) / 2..];
        let (known, rest) = y.split_at_mut(a);
        (0..a).for_each(|c| subtract(&mut rest[0], &row[c], &known[c]));
    }
    ln_determinant
}

/// `c + ½ (m log 2π − log |D|)`.
#[inline(always)]
fn constant(ln_scales: &[f64], missing: &[usize], ln_determinant: f64) -> f64 {
    let ln_scale: f64 = missing.iter().map(|column| ln_scales[*column]).sum();
    0.5 * (missing.len() as f64 * LN_2PI - ln_determinant) + ln_scale
}

struct LnMissing<'a> {
    table: &'a [f64],
    ln_scales: &'a [f64],
    gaps: &'a [Gap<'a>],
    pulls: &'a [f64],
    out: &'a mut [f64],
    y: &'a mut [Lanes],
    lower: &'a mut [Lanes],
}

impl WithSimd for LnMissing<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { table, ln_scales, gaps, pulls, out, y, lower } = self;
        let d = ln_scales.len();
        let eights = gaps.chunks(LANES).zip(pulls.chunks(LANES * d));
        for ((gaps, pulls), out) in eights.zip(out.chunks_mut(LANES)) {
            let m = most_missing(gaps);
            let (y, lower) = (&mut y[..m], &mut lower[..m * (m + 1) / 2]);
            let ln_determinant = condition(table.split_at(d), gaps, pulls, lower, y);
            let mut squares = [0.0; LANES];
            for (a, y) in y.iter().enumerate() {
                let inverse = &lower[a * (a + 1) / 2 + a];
                (0..LANES).for_each(|l| squares[l] += y[l] * y[l] * inverse[l]);
            }
            for (lane, (gap, out)) in gaps.iter().zip(out).enumerate() {
                *out = constant(ln_scales, gap.missing, ln_determinant[lane]) + 0.5 * squares[lane];
            }
        }
    }
}

/// Fills the rows with what is expected of their missing values, and adds the spread of those.
struct Expect<'a> {
    table: &'a [f64],
    ln_scales: &'a [f64],
    gaps: &'a [Gap<'a>],
    pulls: &'a [f64],
    x: &'a mut [f64],
    /// `Σ share · Cov`, row after row, on and above the diagonal.
    spread: &'a mut [f64],
    y: &'a mut [Lanes],
    lower: &'a mut [Lanes],
    covariance: &'a mut [Lanes],
}

impl WithSimd for Expect<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> f64 {
        let Self { table, ln_scales, gaps, pulls, x, spread, y, lower, covariance } = self;
        let d = ln_scales.len();
        let mut entropy = 0.0;
        let eights = gaps.chunks(LANES).zip(pulls.chunks(LANES * d));
        for ((gaps, pulls), x) in eights.zip(x.chunks_mut(LANES * d)) {
            let m = most_missing(gaps);
            let len = m * (m + 1) / 2;
            let (y, lower, covariance) = (&mut y[..m], &mut lower[..len], &mut covariance[..len]);
            let ln_determinant = condition(table.split_at(d), gaps, pulls, lower, y);
            solve_upper(lower, y);
            invert(m, lower, covariance);
            for (lane, (gap, x)) in gaps.iter().zip(x.chunks_exact_mut(d)).enumerate() {
                let mut at = 0;
                for (a, i) in gap.missing.iter().enumerate() {
                    x[*i] = y[a][lane];
                    for j in &gap.missing[..=a] {
                        spread[j * d + i] += gap.share * covariance[at][lane];
                        at += 1;
                    }
                }
                let m = gap.missing.len();
                entropy +=
                    gap.share * (constant(ln_scales, gap.missing, ln_determinant[lane]) + 0.5 * m as f64);
            }
        }
        entropy
    }
}

/// `L⁻ᵀ D⁻¹ y` in the place of `y`.
#[inline(always)]
fn solve_upper(lower: &[Lanes], y: &mut [Lanes]) {
    for (a, y) in y.iter_mut().enumerate() {
        let inverse = &lower[a * (a + 1) / 2 + a];
        (0..LANES).for_each(|l| y[l] *= inverse[l]);
    }
    for a in (1..y.len()).rev() {
        let (rest, known) = y.split_at_mut(a);
        let row = &lower[a * (a + 1) / 2..];
        (0..a).for_each(|c| subtract(&mut rest[c], &row[c], &known[0]));
    }
}

/// `L⁻ᵀ D⁻¹ L⁻¹`, by rows; `L⁻¹` takes the place of `L`.
#[inline(always)]
fn invert(n: usize, lower: &mut [Lanes], out: &mut [Lanes]) {
    for a in 1..n {
        let (above, row) = lower.split_at_mut(a * (a + 1) / 2);
        for b in 0..a {
            // Entries from `b` on are still those of `L`.
            let mut value = [0.0; LANES];
            subtract(&mut value, &row[b], &[1.0; LANES]);
            for c in b + 1..a {
                subtract(&mut value, &row[c], &above[c * (c + 1) / 2 + b]);
            }
            row[b] = value;
        }
    }
    out.fill([0.0; LANES]);
    for a in 0..n {
        let row = &lower[a * (a + 1) / 2..];
        let inverse = &row[a];
        for i in 0..=a {
            let mut scaled = *inverse;
            if i < a {
                (0..LANES).for_each(|l| scaled[l] *= row[i][l]);
            }
            let out = &mut out[i * (i + 1) / 2..];
            for j in 0..i {
                (0..LANES).for_each(|l| out[j][l] += scaled[l] * row[j][l]);
            }
            let own = if i < a { row[i] } else { [1.0; LANES] };
            (0..LANES).for_each(|l| out[i][l] += scaled[l] * own[l]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gaussian::write_products;
    use super::*;
    use crate::batch::missing_columns;
    use crate::math::cholesky::{self, packed_len};

    /// Another order of the same sums.
    const ROUNDING: f64 = 1e-9;

    /// Rows of seven columns, none to all of whose values are missing.
    fn rows(n: usize) -> Vec<Vec<f64>> {
        let mut rows: Vec<Vec<f64>> = (0..n)
            .map(|row| {
                let value = |column: usize| ((row * 7 + column) as f64 * 0.71).sin() * 2.0;
                let gone = |column: usize| (row * row + 3 * column * row + column) % 8 < row % 9;
                (0..7).map(|column| if gone(column) { f64::NAN } else { value(column) }).collect()
            })
            .collect();
        rows.sort_by_key(|row: &Vec<f64>| missing_columns(row).len());
        rows
    }

    #[test]
    fn many_rows_side_by_side_are_rows_one_by_one() {
        let d = 7;
        // Λ = BBᵀ + I, l whatever it is.
        let b = |i: usize, k: usize| ((i * 31 + k * 17 + i * k) as f64 * 0.7).sin();
        let precision =
            |i: usize, j: usize| (0..d).map(|k| b(i, k) * b(j, k)).sum::<f64>() + f64::from(u8::from(i == j));
        let mut table: Vec<f64> = (0..d).map(|i| (i as f64 * 1.3).cos()).collect();
        table.extend((0..d * d).map(|ix| precision(ix / d, ix % d)));
        let ln_scales: Vec<f64> = (0..d).map(|i| 0.1 * i as f64).collect();
        let rows = rows(ROWS + 29);
        let missing: Vec<Vec<usize>> = rows.iter().map(|row| missing_columns(row)).collect();
        assert!(missing[0].is_empty() && missing.last().unwrap().len() == d);
        let features: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| {
                let known: Vec<f64> = row.iter().map(|x| if x.is_nan() { 0.0 } else { *x }).collect();
                let mut features = vec![0.0; 1 + d + packed_len(d)];
                features[0] = 1.0;
                features[1..=d].copy_from_slice(&known);
                write_products(&known, &mut features[1 + d..]);
                features
            })
            .collect();
        let gaps: Vec<Gap<'_>> = (0..rows.len())
            .map(|ix| Gap { features: &features[ix], missing: &missing[ix], share: 0.1 + (ix % 29) as f64 })
            .collect();
        let (mut found, mut sums) = (vec![0.0; rows.len()], vec![0.0; features[0].len()]);
        ln_integrals((0.7, &table), &ln_scales, &gaps, &mut found);
        let entropy = add_expected(&table, &ln_scales, &gaps, &mut sums);

        let (mut all, mut entropies) = (vec![0.0; sums.len()], 0.0);
        for (gap, found) in gaps.iter().zip(&found) {
            let m = gap.missing.len();
            let (mut matrix, mut inverse) = (Vec::new(), vec![0.0; packed_len(m)]);
            for (ix, i) in gap.missing.iter().enumerate() {
                matrix.extend(gap.missing[ix..].iter().map(|j| precision(*i, *j)));
            }
            let ln_determinant = cholesky::factor(m, &matrix, &mut inverse).unwrap();
            cholesky::invert_from_factor(m, &mut inverse, &mut vec![0.0; m]);
            let pull: Vec<f64> = gap
                .missing
                .iter()
                .map(|i| table[*i] - (0..d).map(|j| precision(*i, j) * gap.features[1 + j]).sum::<f64>())
                .collect();
            let mut mean = vec![0.0; m];
            cholesky::multiply_symmetric(m, &inverse, &pull, &mut mean);
            let square: f64 = mean.iter().zip(&pull).map(|(a, b)| a * b).sum();
            let ln_scale: f64 = gap.missing.iter().map(|column| ln_scales[*column]).sum();
            let constant = 0.5 * (m as f64 * LN_2PI - ln_determinant) + ln_scale;
            let x = &gap.features[1..=d];
            let pull_of = |i: usize| (0..d).map(|j| precision(i, j) * x[j]).sum::<f64>();
            let known: f64 = (0..d).map(|i| x[i] * (table[i] - 0.5 * pull_of(i))).sum();
            let expected = 0.7 + known + constant + 0.5 * square;
            assert!((found - expected).abs() < ROUNDING * (1.0 + expected.abs()), "{:?}", gap.missing);
            entropies += gap.share * (constant + 0.5 * m as f64);
            let mut expected = gap.features.to_vec();
            gap.missing.iter().zip(&mean).for_each(|(column, mean)| expected[1 + column] = *mean);
            let framed = expected[1..=d].to_vec();
            write_products(&framed, &mut expected[1 + d..]);
            let mut at = 0;
            for (ix, i) in gap.missing.iter().enumerate() {
                for j in &gap.missing[ix..] {
                    expected[1 + d + row_start(d, *i) + j - i] += inverse[at];
                    at += 1;
                }
            }
            all.iter_mut().zip(&expected).for_each(|(sum, value)| *sum += gap.share * value);
        }
        assert!((entropy - entropies).abs() < ROUNDING * entropies.abs());
        for (found, expected) in sums.iter().zip(&all) {
            assert!((found - expected).abs() < ROUNDING * (1.0 + expected.abs()), "{found} {expected}");
        }
    }
}
