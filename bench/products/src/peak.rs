//! What the processor and its memory can do at most, on one thread.

use std::hint::black_box;
use std::time::Instant;

use pulp::{Arch, Simd, WithSimd};

/// Independent chains: enough to hide the latency of a multiply-add (4 cycles, two a cycle), few enough for registers.
const CHAINS: usize = 12;
const STEPS: usize = 20_000;
const TRIES: usize = 400;

/// GFLOP/s of multiply-adds of f64 in registers.
pub fn gflops_f64() -> f64 {
    best_of(|| Arch::new().dispatch(Chains64))
}

/// GFLOP/s of multiply-adds of f32 in registers.
pub fn gflops_f32() -> f64 {
    best_of(|| Arch::new().dispatch(Chains32))
}

/// The best of many tries; `work` returns the operations that it did.
fn best_of(work: impl Fn() -> usize) -> f64 {
    let mut gflops = 0.0_f64;
    for _ in 0..TRIES {
        let start = Instant::now();
        let operations = work();
        gflops = gflops.max(operations as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    gflops
}

struct Chains64;
struct Chains32;

macro_rules! chains {
    ($kind:ty, $splat:ident, $multiply_add:ident, $lanes:ident) => {
        impl WithSimd for $kind {
            type Output = usize;

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> usize {
                let (scale, shift) = (simd.$splat(black_box(0.999)), simd.$splat(black_box(0.001)));
                let mut chains = [simd.$splat(black_box(1.0)); CHAINS];
                for _ in 0..STEPS {
                    for chain in &mut chains {
                        *chain = simd.$multiply_add(*chain, scale, shift);
                    }
                }
                black_box(chains);
                2 * STEPS * CHAINS * S::$lanes
            }
        }
    };
}

chains!(Chains64, splat_f64s, mul_add_f64s, F64_LANES);
chains!(Chains32, splat_f32s, mul_add_f32s, F32_LANES);

/// GB/s of `a = b + s·c`, three arrays of `len` numbers of 8 bytes.
pub fn triad(len: usize) -> f64 {
    let len = len / 8;
    let (mut a, b, c) = (vec![0.0_f64; len], vec![1.0_f64; len], vec![2.0_f64; len]);
    let scale = black_box(0.5);
    let repeats = ((32 << 20) / len).max(1);
    let mut seconds = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..repeats {
            Arch::new().dispatch(
                #[inline(always)]
                || a.iter_mut().zip(b.iter().zip(&c)).for_each(|(a, (b, c))| *a = b + scale * c),
            );
            black_box(&mut a);
        }
        seconds = seconds.min(start.elapsed().as_secs_f64() / repeats as f64);
    }
    (3 * 8 * len) as f64 / seconds / 1e9
}
