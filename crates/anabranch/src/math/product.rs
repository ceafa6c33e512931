//! The two matrix products of the hot path: `X Φᵀ` (E-step) and `RᵀX` (M-step), row-major.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// `out (n × k) = rows (n × f) · parameters (k × f)ᵀ`.
pub fn rows_times_parameters(rows: &[f64], parameters: &[f64], n_features: usize, out: &mut [f64]) {
    let n = rows.len() / n_features;
    let k = parameters.len() / n_features;
    matmul(
        MatMut::from_row_major_slice_mut(out, n, k),
        Accum::Replace,
        MatRef::from_row_major_slice(rows, n, n_features),
        MatRef::from_row_major_slice(parameters, k, n_features).transpose(),
        1.0,
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

#[cfg(test)]
mod tests {
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
}
