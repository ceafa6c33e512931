//! Measures the machine's limits (multiply-adds, memory) and the two products of inference with several crates, on one
//! thread: `X Φᵀ` (E-step) and `RᵀX` (M-step), all row-major, in f64 and f32.
//!
//! Prints GFLOP/s, and the share of the peak of that precision. The figure is the best of several tries: on a shared
//! machine that is the one the others disturbed least.

mod peak;
mod rivals;

use std::time::Instant;

use rivals::{FaerProduct, GemmProduct, MatrixMultiply, Product, Scalar};

/// Rows, features, components: the paper's minibatch, digits in 20 columns, and 64 columns.
const SHAPES: [(usize, usize, usize); 3] = [(50, 6, 150), (500, 231, 200), (10_000, 2_145, 500)];

fn main() {
    println!("limit,GFLOP/s or GB/s");
    let (f64_peak, f32_peak) = (peak::gflops_f64(), peak::gflops_f32());
    println!("multiply-add f64,{f64_peak:.1}");
    println!("multiply-add f32,{f32_peak:.1}");
    println!("triad from memory,{:.1}", peak::triad(64 << 20));
    println!("triad from L2,{:.1}", peak::triad(64 << 10));
    println!();
    println!("product,rows,features,components,precision,crate,GFLOP/s,share of peak");
    for shape in SHAPES {
        compare::<f64>(shape, "f64", f64_peak);
        compare::<f32>(shape, "f32", f32_peak);
    }
}

fn compare<T: Scalar>(shape: (usize, usize, usize), precision: &str, peak: f64)
where
    FaerProduct: Product<T>,
    GemmProduct: Product<T>,
    MatrixMultiply: Product<T>,
{
    let products: [(&str, &dyn Product<T>); 3] =
        [("faer", &FaerProduct), ("gemm", &GemmProduct), ("matrixmultiply", &MatrixMultiply)];
    let (n, f, k) = shape;
    let value = |ix: usize| T::from_f64(((ix * 7919 % 1009) as f64 / 1009.0) - 0.5);
    let rows: Vec<T> = (0..n * f).map(value).collect();
    let parameters: Vec<T> = (0..k * f).map(value).collect();
    let mut scores = vec![T::from_f64(0.0); n * k];
    let mut sums = vec![T::from_f64(0.0); k * f];
    for (name, product) in products {
        let e_step = best(n * f * k, || product.scores(&rows, &parameters, f, &mut scores));
        let m_step = best(n * f * k, || product.sums(&scores, &rows, f, &mut sums));
        for (step, gflops) in [("E-step", e_step), ("M-step", m_step)] {
            let share = 100.0 * gflops / peak;
            println!("{step},{n},{f},{k},{precision},{name},{gflops:.1},{share:.0} %");
        }
    }
}

/// GFLOP/s of `multiply_adds` at a time, the best of many tries.
fn best(multiply_adds: usize, mut work: impl FnMut()) -> f64 {
    let repeats = (20_000_000 / multiply_adds).max(1);
    work();
    let mut seconds = f64::INFINITY;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 1.5 {
        let try_start = Instant::now();
        (0..repeats).for_each(|_| work());
        seconds = seconds.min(try_start.elapsed().as_secs_f64() / repeats as f64);
    }
    2.0 * multiply_adds as f64 / seconds / 1e9
}
