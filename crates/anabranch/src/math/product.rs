//! The two matrix products of the hot path: `X Φᵀ` (E-step) and `RᵀX` (M-step), row-major.

use faer::linalg::matmul::matmul;
use faer::traits::RealField;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::{Simd, as_arrays};

/// `out (n × k) = rows (n × f) · parameters (k × f)ᵀ`.
pub fn rows_times_parameters<T: RealField>(rows: &[T], parameters: &[T], n_features: usize, out: &mut [T]) {
    let n = rows.len() / n_features;
    let k = parameters.len() / n_features;
    matmul(
        MatMut::from_row_major_slice_mut(out, n, k),
        Accum::Replace,
        MatRef::from_row_major_slice(rows, n, n_features),
        MatRef::from_row_major_slice(parameters, k, n_features).transpose(),
        T::one_impl(),
        Par::Seq,
    );
}

/// `out (k × f) = responsibilities (n × k)ᵀ · rows (n × f)`.
pub fn responsibilities_times_rows(
    responsibilities: &[f64],
    rows: &[f64],
    n_features: usize,
    out: &mut [f64],
) {
    let n = rows.len() / n_features;
    let k = out.len() / n_features;
    matmul(
        MatMut::from_row_major_slice_mut(out, k, n_features),
        Accum::Replace,
        MatRef::from_row_major_slice(responsibilities, n, k).transpose(),
        MatRef::from_row_major_slice(rows, n, n_features),
        1.0,
        Par::Seq,
    );
}

/// `Σ_i a_i b_i`, in four registers of partial sums that do not wait for each other.
#[inline(always)]
pub(crate) fn dot<S: Simd>(simd: S, a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_tail), (b, b_tail)) = (S::as_simd_f64s(a), S::as_simd_f64s(b));
    let ((a_fours, a_rest), (b_fours, b_rest)) = (as_arrays::<4, _>(a), as_arrays::<4, _>(b));
    let mut sums = [simd.splat_f64s(0.0); 4];
    for (a, b) in a_fours.iter().zip(b_fours) {
        for i in 0..4 {
            sums[i] = simd.mul_add_e_f64s(a[i], b[i], sums[i]);
        }
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        sums[0] = simd.mul_add_e_f64s(*a, *b, sums[0]);
    }
    let (a, b) = (simd.partial_load_f64s(a_tail), simd.partial_load_f64s(b_tail));
    sums[1] = simd.mul_add_e_f64s(a, b, sums[1]);
    let sums = [simd.add_f64s(sums[0], sums[1]), simd.add_f64s(sums[2], sums[3])];
    simd.reduce_sum_f64s(simd.add_f64s(sums[0], sums[1]))
}

/// `out += scale · row`.
#[inline(always)]
pub(crate) fn add_scaled<S: Simd>(simd: S, scale: f64, row: &[f64], out: &mut [f64]) {
    let ((row, row_tail), (out, out_tail)) = (S::as_simd_f64s(row), S::as_mut_simd_f64s(out));
    let scales = simd.splat_f64s(scale);
    for (out, value) in out.iter_mut().zip(row) {
        *out = simd.mul_add_e_f64s(scales, *value, *out);
    }
    out_tail.iter_mut().zip(row_tail).for_each(|(out, value)| *out += scale * value);
}

/// `|a − b|²`.
#[inline(always)]
pub(crate) fn squared_distance<S: Simd>(simd: S, a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_tail), (b, b_tail)) = (S::as_simd_f64s(a), S::as_simd_f64s(b));
    let mut sum = simd.splat_f64s(0.0);
    for (a, b) in a.iter().zip(b) {
        let difference = simd.sub_f64s(*a, *b);
        sum = simd.mul_add_e_f64s(difference, difference, sum);
    }
    let difference = simd.sub_f64s(simd.partial_load_f64s(a_tail), simd.partial_load_f64s(b_tail));
    simd.reduce_sum_f64s(simd.mul_add_e_f64s(difference, difference, sum))
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};

    use super::*;

    #[test]
    fn products_agree_with_loops() {
        let (n, k, f) = (7, 5, 3);
        let rows: Vec<f64> = (0..n * f).map(|i| (i as f64 * 0.37).sin()).collect();
        let parameters: Vec<f64> = (0..k * f).map(|i| (i as f64 * 0.91).cos()).collect();
        let mut scores = vec![f64::NAN; n * k];
        rows_times_parameters(&rows, &parameters, f, &mut scores);
        let mut sums = vec![f64::NAN; k * f];
        responsibilities_times_rows(&scores, &rows, f, &mut sums);
        for row in 0..n {
            for col in 0..k {
                let dot: f64 = (0..f).map(|i| rows[row * f + i] * parameters[col * f + i]).sum();
                assert!((dot - scores[row * k + col]).abs() < 1e-14);
            }
        }
        for col in 0..k {
            for i in 0..f {
                let dot: f64 = (0..n).map(|row| scores[row * k + col] * rows[row * f + i]).sum();
                assert!((dot - sums[col * f + i]).abs() < 1e-13);
            }
        }
    }

    struct Check<'a>(&'a [f64], &'a mut [f64]);

    impl WithSimd for Check<'_> {
        type Output = (f64, f64);

        fn with_simd<S: Simd>(self, simd: S) -> (f64, f64) {
            let found = (dot(simd, self.0, self.1), squared_distance(simd, self.0, self.1));
            add_scaled(simd, 2.5, self.0, self.1);
            found
        }
    }

    #[test]
    fn products_of_two_rows_agree_with_loops() {
        for len in [0, 1, 7, 8, 21, 32, 75] {
            let a: Vec<f64> = (0..len).map(|i| (i as f64 * 0.37).sin()).collect();
            let mut b: Vec<f64> = (0..len).map(|i| (i as f64 * 0.91).cos()).collect();
            let product: f64 = (0..len).map(|i| a[i] * b[i]).sum();
            let distance: f64 = (0..len).map(|i| (a[i] - b[i]).powi(2)).sum();
            let sums: Vec<f64> = (0..len).map(|i| b[i] + 2.5 * a[i]).collect();
            let found = Arch::new().dispatch(Check(&a, &mut b));
            assert!((found.0 - product).abs() < 1e-13 && (found.1 - distance).abs() < 1e-13);
            assert!(b.iter().zip(&sums).all(|(b, sum)| (b - sum).abs() < 1e-14));
        }
    }
}
