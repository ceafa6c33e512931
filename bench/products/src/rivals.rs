//! The crates behind one interface.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// A number that can be multiplied here.
pub trait Scalar: Copy + Default + Send + Sync + 'static {
    fn from_f64(value: f64) -> Self;
}

impl Scalar for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
}

impl Scalar for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

/// The two products, row-major.
pub trait Product<T> {
    /// `out (n × k) = rows (n × f) · parameters (k × f)ᵀ`
    fn scores(&self, rows: &[T], parameters: &[T], f: usize, out: &mut [T]);
    /// `out (k × f) = responsibilities (n × k)ᵀ · rows (n × f)`
    fn sums(&self, responsibilities: &[T], rows: &[T], f: usize, out: &mut [T]);
}

pub struct FaerProduct;
pub struct GemmProduct;
pub struct MatrixMultiply;

macro_rules! implement {
    ($scalar:ty, $matrixmultiply:path) => {
        impl Product<$scalar> for FaerProduct {
            fn scores(&self, rows: &[$scalar], parameters: &[$scalar], f: usize, out: &mut [$scalar]) {
                let (n, k) = (rows.len() / f, parameters.len() / f);
                let out = MatMut::from_row_major_slice_mut(out, n, k);
                let rows = MatRef::from_row_major_slice(rows, n, f);
                let parameters = MatRef::from_row_major_slice(parameters, k, f).transpose();
                matmul(out, Accum::Replace, rows, parameters, 1.0, Par::Seq);
            }
            fn sums(&self, responsibilities: &[$scalar], rows: &[$scalar], f: usize, out: &mut [$scalar]) {
                let (n, k) = (rows.len() / f, out.len() / f);
                let out = MatMut::from_row_major_slice_mut(out, k, f);
                let responsibilities = MatRef::from_row_major_slice(responsibilities, n, k).transpose();
                let rows = MatRef::from_row_major_slice(rows, n, f);
                matmul(out, Accum::Replace, responsibilities, rows, 1.0, Par::Seq);
            }
        }

        impl Product<$scalar> for GemmProduct {
            fn scores(&self, rows: &[$scalar], parameters: &[$scalar], f: usize, out: &mut [$scalar]) {
                let (n, k, stride) = (rows.len() / f, parameters.len() / f, f as isize);
                let (out, a, b) = (out.as_mut_ptr(), rows.as_ptr(), parameters.as_ptr());
                // SAFETY: the three slices hold matrices of these sizes and strides.
                unsafe { multiply(n, k, f, out, (k as isize, 1), a, (stride, 1), b, (1, stride)) }
            }
            fn sums(&self, responsibilities: &[$scalar], rows: &[$scalar], f: usize, out: &mut [$scalar]) {
                let (n, k, stride) = (rows.len() / f, out.len() / f, f as isize);
                let (out, a, b) = (out.as_mut_ptr(), responsibilities.as_ptr(), rows.as_ptr());
                // SAFETY: the three slices hold matrices of these sizes and strides.
                unsafe { multiply(k, f, n, out, (stride, 1), a, (1, k as isize), b, (stride, 1)) }
            }
        }

        impl Product<$scalar> for MatrixMultiply {
            fn scores(&self, rows: &[$scalar], parameters: &[$scalar], f: usize, out: &mut [$scalar]) {
                let (n, k, stride) = (rows.len() / f, parameters.len() / f, f as isize);
                let (a, b, c) = (rows.as_ptr(), parameters.as_ptr(), out.as_mut_ptr());
                // SAFETY: the three slices hold matrices of these sizes and strides.
                unsafe { $matrixmultiply(n, f, k, 1.0, a, stride, 1, b, 1, stride, 0.0, c, k as isize, 1) }
            }
            fn sums(&self, responsibilities: &[$scalar], rows: &[$scalar], f: usize, out: &mut [$scalar]) {
                let (n, k, stride) = (rows.len() / f, out.len() / f, f as isize);
                let (a, b, c) = (responsibilities.as_ptr(), rows.as_ptr(), out.as_mut_ptr());
                // SAFETY: the three slices hold matrices of these sizes and strides.
                unsafe { $matrixmultiply(k, n, f, 1.0, a, 1, k as isize, b, stride, 1, 0.0, c, stride, 1) }
            }
        }
    };
}

implement!(f64, matrixmultiply::dgemm);
implement!(f32, matrixmultiply::sgemm);

/// `out (m × n) = a (m × k) · b (k × n)`, each with its strides of rows and columns.
///
/// # Safety
/// The pointers must be valid for matrices of these sizes and strides.
#[allow(clippy::too_many_arguments)]
unsafe fn multiply<T: Scalar + 'static>(
    m: usize,
    n: usize,
    k: usize,
    out: *mut T,
    out_stride: (isize, isize),
    a: *const T,
    a_stride: (isize, isize),
    b: *const T,
    b_stride: (isize, isize),
) {
    let (zero, one) = (T::from_f64(0.0), T::from_f64(1.0));
    // SAFETY: as the caller promises.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out,
            out_stride.1,
            out_stride.0,
            false,
            a,
            a_stride.1,
            a_stride.0,
            b,
            b_stride.1,
            b_stride.0,
            zero,
            one,
            false,
            false,
            false,
            gemm::Parallelism::None,
        )
    }
}
