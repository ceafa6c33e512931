//! Cholesky factors of packed symmetric matrices: `M = UᵀU`, `log |M|`, solves and the inverse.
//!
//! A symmetric `D × D` matrix is stored as its upper triangle, row after row:
//!
//! ```text
//! (0,0) (0,1) … (0,D−1)  (1,1) … (1,D−1)  …  (D−1,D−1)          D(D+1)/2 numbers
//! ```
//!
//! The factor `U` is upper triangular in the same layout, so that a row of it is contiguous and every inner loop below
//! runs along one. Matrices of 14 to 24 rows are factored and inverted in whole vectors instead: there the rows of a triangle are too
//! short for a loop each, and long enough for vectors.

use pulp::{Arch, Simd, WithSimd};

use super::log_product::LogProduct;
use super::product::add_scaled;

/// Numbers in the upper triangle of a `D × D` matrix.
pub const fn packed_len(dimensions: usize) -> usize {
    dimensions * (dimensions + 1) / 2
}

/// Where row `row` starts (at its diagonal entry) in a packed matrix.
pub const fn row_start(dimensions: usize, row: usize) -> usize {
    row * (2 * dimensions + 1 - row) / 2
}

/// A pivot below this share of its diagonal entry is rounding, not information: subtracting sums of the size of the
/// diagonal leaves a few units of 2e-16.
const PIVOT_SHARE: f64 = 4.0 * f64::EPSILON;

/// Writes `U` with `UᵀU = matrix` and returns `log |matrix|`; `None` when the matrix is not positive definite to
/// working precision.
pub fn factor(dimensions: usize, matrix: &[f64], factor: &mut [f64]) -> Option<f64> {
    debug_assert_eq!(matrix.len(), packed_len(dimensions));
    if Square::suits(dimensions) {
        return Arch::new().dispatch(Factor { dimensions, matrix, factor });
    }
    factor.copy_from_slice(matrix);
    let mut determinant = LogProduct::default();
    let mut start = 0;
    for row in 0..dimensions {
        let len = dimensions - row;
        let (current, below) = factor[start..].split_at_mut(len);
        let pivot = current[0];
        let resolved = pivot > PIVOT_SHARE * matrix[start] && pivot.is_finite();
        if !resolved {
            return None;
        }
        determinant.multiply(pivot);
        let root = pivot.sqrt();
        let inverse_root = 1.0 / root;
        current[0] = root;
        for value in &mut current[1..] {
            *value *= inverse_root;
        }
        subtract_outer_product(&current[1..], below);
        start += len;
    }
    Some(determinant.ln())
}

/// `below −= v vᵀ` on the packed matrix of the remaining rows.
fn subtract_outer_product(v: &[f64], below: &mut [f64]) {
    let mut rest = below;
    for (ix, &scale) in v.iter().enumerate() {
        let (row, next) = rest.split_at_mut(v.len() - ix);
        for (value, other) in row.iter_mut().zip(&v[ix..]) {
            *value -= scale * other;
        }
        rest = next;
    }
}

/// Solves `Uᵀ y = b` in place. `|y|² = bᵀ M⁻¹ b`.
pub fn solve_lower(dimensions: usize, factor: &[f64], b: &mut [f64]) {
    let mut start = 0;
    for row in 0..dimensions {
        let len = dimensions - row;
        let u = &factor[start..start + len];
        let value = b[row] / u[0];
        b[row] = value;
        for (rest, coefficient) in b[row + 1..].iter_mut().zip(&u[1..]) {
            *rest -= coefficient * value;
        }
        start += len;
    }
}

/// Solves `U x = y` in place.
pub fn solve_upper(dimensions: usize, factor: &[f64], y: &mut [f64]) {
    for row in (0..dimensions).rev() {
        let start = row_start(dimensions, row);
        let u = &factor[start..start + dimensions - row];
        let known = dot(&u[1..], &y[row + 1..dimensions]);
        y[row] = (y[row] - known) / u[0];
    }
}

/// `Uᵀ w` in place.
pub fn multiply_lower(dimensions: usize, factor: &[f64], w: &mut [f64]) {
    // Entry `column` of the product needs the entries of `w` up to itself: descend, so that they are still there.
    for column in (0..dimensions).rev() {
        w[column] =
            (0..=column).map(|row| factor[row_start(dimensions, row) + column - row] * w[row]).sum::<f64>();
    }
}

/// Replaces the factor `U` by the packed inverse `M⁻¹ = U⁻¹ U⁻ᵀ`. `row_buffer` has at least D entries.
pub fn invert_from_factor(dimensions: usize, factor: &mut [f64], row_buffer: &mut [f64]) {
    if Square::suits(dimensions) {
        Arch::new().dispatch(Invert { dimensions, factor });
        return;
    }
    invert_triangle(dimensions, factor, row_buffer);
    // (M⁻¹)_ij = Σ_{k ≥ j} V_ik V_jk with V = U⁻¹ needs nothing that was overwritten before it.
    for i in 0..dimensions {
        let start_i = row_start(dimensions, i);
        for j in i..dimensions {
            let start_j = row_start(dimensions, j);
            let len = dimensions - j;
            let sum = dot(&factor[start_i + j - i..start_i + j - i + len], &factor[start_j..start_j + len]);
            factor[start_i + j - i] = sum;
        }
    }
}

/// Rows of a panel of [`whitening`]: whole vectors, whatever their length.
const PANEL: usize = 8;

/// Columns of a panel that are multiplied at a time.
const COLUMNS: usize = 4;

/// Columns of a matrix with whole vectors of them.
const fn whole(dimensions: usize) -> usize {
    dimensions.next_multiple_of(COLUMNS)
}

/// Columns of the panel that begins with this row: up to its diagonal.
const fn panel_columns(dimensions: usize, first: usize) -> usize {
    if first + PANEL < whole(dimensions) { first + PANEL } else { whole(dimensions) }
}

/// `V = U⁻ᵀ` in panels of eight rows, column after column, with zeros above the diagonal and around: what [`whitened_square`] takes.
pub fn whitening(dimensions: usize, factor: &[f64]) -> Vec<f64> {
    let mut inverse = factor.to_vec();
    invert_triangle(dimensions, &mut inverse, &mut vec![0.0; dimensions]);
    let entry = |row: usize, column: usize| match column <= row && row < dimensions {
        true => inverse[row_start(dimensions, column) + row - column],
        false => 0.0,
    };
    let panel = |first| {
        let rows = move |column| (first..first + PANEL).map(move |row| (row, column));
        (0..panel_columns(dimensions, first)).flat_map(rows)
    };
    let cells = (0..dimensions).step_by(PANEL).flat_map(panel);
    cells.map(|(row, column)| entry(row, column)).collect()
}

/// `|V (x − m)|² = (x − m)ᵀ M⁻¹ (x − m)`; where it is above `most`, anything above that. A panel's rows are summed in registers, so that no
/// row waits for the one before as in [`solve_lower`].
pub fn whitened_square(whitening: &[f64], x: &[f64], mean: &[f64], most: f64) -> f64 {
    debug_assert_eq!(x.len(), mean.len());
    if x.len() <= FEW_COLUMNS {
        return whitened_square_of_few(whitening, x, mean);
    }
    Arch::new().dispatch(WhitenedSquare { whitening, x, mean, most })
}

/// So few columns are quicker one by one.
const FEW_COLUMNS: usize = 3;

#[inline]
fn whitened_square_of_few(whitening: &[f64], x: &[f64], mean: &[f64]) -> f64 {
    let mut whitened = [0.0; FEW_COLUMNS];
    for (column, (x, mean)) in whitening.chunks_exact(PANEL).zip(x.iter().zip(mean)) {
        for (sum, entry) in whitened.iter_mut().zip(column) {
            *sum += entry * (x - mean);
        }
    }
    whitened.iter().map(|value| value * value).sum()
}

struct WhitenedSquare<'a> {
    whitening: &'a [f64],
    x: &'a [f64],
    mean: &'a [f64],
    most: f64,
}

impl WithSimd for WhitenedSquare<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        match size_of::<S::f64s>() / size_of::<f64>() {
            1 => self.square::<S, PANEL>(simd),
            2 => self.square::<S, { PANEL / 2 }>(simd),
            4 => self.square::<S, { PANEL / 4 }>(simd),
            _ => self.square::<S, { PANEL / 8 }>(simd),
        }
    }
}

impl WhitenedSquare<'_> {
    /// With `N` vectors to a column of a panel.
    #[inline(always)]
    fn square<S: Simd, const N: usize>(self, simd: S) -> f64 {
        let dimensions = self.x.len();
        let zero = simd.splat_f64s(0.0);
        let (x, x_rest) = self.x.as_chunks::<COLUMNS>();
        let (mean, mean_rest) = self.mean.as_chunks::<COLUMNS>();
        // Columns behind the last are at their mean.
        let mut rest = [0.0; COLUMNS];
        for ((out, x), mean) in rest.iter_mut().zip(x_rest).zip(mean_rest) {
            *out = x - mean;
        }
        let mut squares = [zero; N];
        let mut panels = self.whitening;
        for first in (0..dimensions).step_by(PANEL) {
            let (panel, below) = panels.split_at(PANEL * panel_columns(dimensions, first));
            let (panel, _) = S::as_simd_f64s(panel);
            let mut sums = [[zero; N]; COLUMNS];
            for (columns, (x, mean)) in panel.chunks_exact(COLUMNS * N).zip(x.iter().zip(mean)) {
                let mut offsets = [0.0; COLUMNS];
                for c in 0..COLUMNS {
                    offsets[c] = x[c] - mean[c];
                }
                add_columns(simd, &offsets, columns, &mut sums);
            }
            if panel.len() > x.len() * COLUMNS * N {
                add_columns(simd, &rest, &panel[x.len() * COLUMNS * N..], &mut sums);
            }
            for r in 0..N {
                let even = simd.add_f64s(sums[0][r], sums[2][r]);
                let whitened = simd.add_f64s(even, simd.add_f64s(sums[1][r], sums[3][r]));
                squares[r] = simd.mul_add_e_f64s(whitened, whitened, squares[r]);
            }
            panels = below;
            if sum(simd, squares) > self.most {
                break;
            }
        }
        sum(simd, squares)
    }
}

/// `S ← S + V b` of some columns, each with sums of its own.
#[inline(always)]
fn add_columns<S: Simd, const N: usize>(
    simd: S,
    b: &[f64; COLUMNS],
    columns: &[S::f64s],
    sums: &mut [[S::f64s; N]; COLUMNS],
) {
    for c in 0..COLUMNS {
        let b = simd.splat_f64s(b[c]);
        for r in 0..N {
            sums[c][r] = simd.mul_add_e_f64s(b, columns[c * N + r], sums[c][r]);
        }
    }
}

#[inline(always)]
fn sum<S: Simd, const N: usize>(simd: S, vectors: [S::f64s; N]) -> f64 {
    let mut all = vectors[0];
    for vector in &vectors[1..] {
        all = simd.add_f64s(all, *vector);
    }
    simd.reduce_sum_f64s(all)
}

/// `U ← U⁻¹`, row by row from the bottom: `V_i· = (e_i − Σ_{k>i} u_ik V_k·) / u_ii`.
fn invert_triangle(dimensions: usize, factor: &mut [f64], row_buffer: &mut [f64]) {
    for row in (0..dimensions).rev() {
        let start = row_start(dimensions, row);
        let len = dimensions - row;
        let (head, below) = factor[start..].split_at_mut(len);
        let saved = &mut row_buffer[..len];
        saved.copy_from_slice(head);
        let inverse_pivot = 1.0 / saved[0];
        head.fill(0.0);
        head[0] = inverse_pivot;
        let mut below_start = 0;
        for k in 1..len {
            let scale = -saved[k] * inverse_pivot;
            let row_k = &below[below_start..below_start + len - k];
            for (value, other) in head[k..].iter_mut().zip(row_k) {
                *value += scale * other;
            }
            below_start += len - k;
        }
    }
}

/// Rows and columns of a [`Square`]: a multiple of every vector's length.
const SIDE: usize = 24;
/// Rows are worked on from a multiple of this on: zeros before the diagonal do no harm.
const STEP: usize = 8;

/// Rows from which on padding pays.
const LEAST: usize = 14;

/// A matrix of up to [`SIDE`] rows on the stack, each padded with zeros.
struct Square([[f64; SIDE]; SIDE]);

impl Square {
    /// Smaller ones are done before the padding is filled, larger ones have long rows.
    fn suits(dimensions: usize) -> bool {
        (LEAST..=SIDE).contains(&dimensions)
    }

    #[inline(always)]
    fn unpack(dimensions: usize, packed: &[f64]) -> Self {
        let mut square = Self([[0.0; SIDE]; SIDE]);
        let mut start = 0;
        for (row, out) in square.0[..dimensions].iter_mut().enumerate() {
            let len = dimensions - row;
            copy(&packed[start..start + len], &mut out[row..dimensions]);
            start += len;
        }
        square
    }
}

/// Copies a few numbers: rows of a triangle are too short for a call each. The compiler makes one of every plain loop, so 0 is
/// added, which changes no number but −0.
#[inline(always)]
fn copy(from: &[f64], to: &mut [f64]) {
    let ((from, rest), (to, to_rest)) = (from.as_chunks::<4>(), to.as_chunks_mut::<4>());
    for (to, from) in to.iter_mut().zip(from) {
        for i in 0..4 {
            to[i] = from[i] + 0.0;
        }
    }
    for (to, from) in to_rest.iter_mut().zip(rest).take(3) {
        *to = *from + 0.0;
    }
}

/// `out += share · row`, from the vectors that hold `column` on. Lengths that the compiler knows leave no loop.
#[inline(always)]
fn add_from<S: Simd>(simd: S, column: usize, share: f64, row: &[f64; SIDE], out: &mut [f64; SIDE]) {
    match column / STEP {
        0 => add_scaled(simd, share, &row[..], &mut out[..]),
        1 => add_scaled(simd, share, &row[STEP..], &mut out[STEP..]),
        _ => add_scaled(simd, share, &row[2 * STEP..], &mut out[2 * STEP..]),
    }
}

/// [`factor`] in whole vectors: row `i` of `U` is that of the matrix without what the rows above it account for.
struct Factor<'a> {
    dimensions: usize,
    matrix: &'a [f64],
    factor: &'a mut [f64],
}

impl WithSimd for Factor<'_> {
    type Output = Option<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Option<f64> {
        let Self { dimensions, matrix, factor } = self;
        let Square(mut u) = Square::unpack(dimensions, matrix);
        let mut determinant = LogProduct::default();
        let mut start = 0;
        for row in 0..dimensions {
            let (above, rest) = u.split_at_mut(row);
            let current = &mut rest[0];
            let diagonal = current[row];
            for known in &*above {
                add_from(simd, row, -known[row], known, current);
            }
            let pivot = current[row];
            let resolved = pivot > PIVOT_SHARE * diagonal && pivot.is_finite();
            if !resolved {
                return None;
            }
            determinant.multiply(pivot);
            let root = pivot.sqrt();
            let inverse_root = 1.0 / root;
            current[row..].iter_mut().for_each(|value| *value *= inverse_root);
            current[row] = root;
            let len = dimensions - row;
            copy(&current[row..dimensions], &mut factor[start..start + len]);
            start += len;
        }
        Some(determinant.ln())
    }
}

/// [`invert_from_factor`] in whole vectors: `V = U⁻¹` from the bottom row up, then `M⁻¹ = Σ_k v_k v_kᵀ` over the columns
/// of `V`.
struct Invert<'a> {
    dimensions: usize,
    factor: &'a mut [f64],
}

impl WithSimd for Invert<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { dimensions, factor } = self;
        // Row by row, from the bottom, `U` becomes `V`.
        let Square(mut v) = Square::unpack(dimensions, factor);
        let mut columns = [[0.0; SIDE]; SIDE];
        for row in (0..dimensions).rev() {
            let (head, below) = v[row..dimensions].split_first_mut().expect("the row is there");
            let mut sum = [0.0; SIDE];
            for (column, known) in (row + 1..).zip(&*below) {
                add_from(simd, column, head[column], known, &mut sum);
            }
            let inverse_pivot = 1.0 / head[row];
            for column in row + 1..dimensions {
                head[column] = -inverse_pivot * sum[column];
                columns[column][row] = head[column];
            }
            head[row] = inverse_pivot;
            columns[row][row] = inverse_pivot;
        }
        let mut start = 0;
        for row in 0..dimensions {
            let len = dimensions - row;
            let mut sum = [0.0; SIDE];
            for column in row..dimensions {
                add_from(simd, row, v[row][column], &columns[column], &mut sum);
            }
            copy(&sum[row..dimensions], &mut factor[start..start + len]);
            start += len;
        }
    }
}

/// Packed symmetric matrix times vector: `out = M v`.
pub fn multiply_symmetric(dimensions: usize, matrix: &[f64], v: &[f64], out: &mut [f64]) {
    out[..dimensions].fill(0.0);
    let mut start = 0;
    for row in 0..dimensions {
        let len = dimensions - row;
        let entries = &matrix[start..start + len];
        out[row] += dot(entries, &v[row..dimensions]);
        for (ix, entry) in entries.iter().enumerate().skip(1) {
            out[row + ix] += entry * v[row];
        }
        start += len;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Calls `work` with `len` zeros: on the stack up to the 20-column Gaussian, above that from the heap.
pub fn with_scratch<R>(len: usize, work: impl FnOnce(&mut [f64]) -> R) -> R {
    const SMALL: usize = 32; // D = 2: two packed matrices and a few rows
    const LARGE: usize = 512; // D = 20: two packed matrices and a few rows
    if len <= SMALL {
        work(&mut [0.0; SMALL][..len])
    } else if len <= LARGE {
        work(&mut [0.0; LARGE][..len])
    } else {
        work(&mut vec![0.0; len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roundings of a well-conditioned 20 × 20 factorisation.
    const ROUNDING: f64 = 1e-11;

    /// `BBᵀ + I` with a fixed irregular `B`, packed.
    fn positive_definite(dimensions: usize) -> Vec<f64> {
        let b = |i: usize, k: usize| ((i * 31 + k * 17 + i * k) as f64 * 0.7).sin();
        let mut packed = Vec::new();
        for i in 0..dimensions {
            for j in i..dimensions {
                let product = (0..dimensions).map(|k| b(i, k) * b(j, k)).sum::<f64>();
                packed.push(product + f64::from(u8::from(i == j)));
            }
        }
        packed
    }

    fn entry(dimensions: usize, packed: &[f64], i: usize, j: usize) -> f64 {
        packed[row_start(dimensions, i.min(j)) + i.abs_diff(j)]
    }

    #[test]
    fn a_whitened_square_is_that_of_the_solved_row() {
        for dimensions in [1, 2, 3, 7, 8, 9, 16, 20, 24, 25, 64] {
            let mut factored = vec![0.0; packed_len(dimensions)];
            factor(dimensions, &positive_definite(dimensions), &mut factored).unwrap();
            let x: Vec<f64> = (0..dimensions).map(|i| (i as f64 * 0.9).cos()).collect();
            let mean: Vec<f64> = (0..dimensions).map(|i| (i as f64 * 0.3).sin()).collect();
            let mut solved: Vec<f64> = x.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
            solve_lower(dimensions, &factored, &mut solved);
            let expected: f64 = solved.iter().map(|v| v * v).sum();
            let panels = whitening(dimensions, &factored);
            let found = whitened_square(&panels, &x, &mean, f64::INFINITY);
            assert!((found - expected).abs() < ROUNDING * expected, "{dimensions}: {found}, {expected}");
            for most in [0.0, 0.3 * found, found] {
                let part = whitened_square(&panels, &x, &mean, most);
                assert!(
                    part > most && part <= found || part == found,
                    "{dimensions}, {most}: {part}, {found}"
                );
            }
        }
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        for dimensions in [1, 2, 3, 7, 8, 9, 16, 20, 24, 25] {
            let matrix = positive_definite(dimensions);
            let mut inverse = vec![0.0; packed_len(dimensions)];
            factor(dimensions, &matrix, &mut inverse).unwrap();
            invert_from_factor(dimensions, &mut inverse, &mut vec![0.0; dimensions]);
            for i in 0..dimensions {
                for j in 0..dimensions {
                    let product = (0..dimensions)
                        .map(|k| entry(dimensions, &matrix, i, k) * entry(dimensions, &inverse, k, j))
                        .sum::<f64>();
                    assert!((product - f64::from(u8::from(i == j))).abs() < ROUNDING);
                }
            }
        }
    }

    #[test]
    fn the_solves_undo_the_products() {
        let dimensions = 5;
        let matrix = positive_definite(dimensions);
        let mut u = vec![0.0; packed_len(dimensions)];
        factor(dimensions, &matrix, &mut u).unwrap();
        let x = [0.3, -1.0, 2.0, 0.0, 5.0];
        let mut product = [0.0; 5];
        multiply_symmetric(dimensions, &matrix, &x, &mut product);
        solve_lower(dimensions, &u, &mut product);
        let mut lower_again = product;
        solve_upper(dimensions, &u, &mut product);
        for (found, expected) in product.iter().zip(&x) {
            assert!((found - expected).abs() < ROUNDING);
        }
        multiply_lower(dimensions, &u, &mut lower_again);
        solve_lower(dimensions, &u, &mut lower_again);
        solve_upper(dimensions, &u, &mut lower_again);
        for (found, expected) in lower_again.iter().zip(&x) {
            assert!((found - expected).abs() < ROUNDING);
        }
    }

    #[test]
    fn the_log_determinant_of_two_by_two_is_the_schoolbook_one() {
        let mut u = [0.0; 3];
        let ln_determinant = factor(2, &[3.0, 1.0, 2.0], &mut u).unwrap();
        assert!((ln_determinant - 5.0_f64.ln()).abs() < ROUNDING);
    }

    #[test]
    fn what_is_not_positive_definite_to_working_precision_is_refused() {
        let mut u = [0.0; 3];
        assert_eq!(factor(2, &[1.0, 2.0, 1.0], &mut u), None);
        assert_eq!(factor(2, &[1.0, 1.0, 1.0], &mut u), None);
        assert_eq!(factor(2, &[1.0, 1.0, 1.0 + f64::EPSILON], &mut u), None);
        assert_eq!(factor(1, &[f64::NAN], &mut u[..1]), None);
        assert_eq!(factor(1, &[f64::INFINITY], &mut u[..1]), None);
    }
}
