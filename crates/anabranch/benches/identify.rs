//! How long the assignment of `identify/` takes: ids `assignment/n=5`, `20`, `100`, `500`.
//!
//! Gains are structured as a stream makes them: each component has one true partner that gains much, a fifth of the
//! other pairs gain a little (overlapping clusters under a vague prior), the rest lose. A dense variant, all pairs
//! positive, is the hard case.

use std::fmt;

use anabranch::identify::{Gains, solve};
use divan::{Bencher, black_box};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SIZES: [Size; 4] = [Size(5), Size(20), Size(100), Size(500)];

/// Shown as `n=5`, so that ids say what the number is.
#[derive(Clone, Copy)]
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={}", self.0)
    }
}

fn main() {
    divan::main();
}

fn square(n: usize, gain: impl Fn(&mut Xoshiro256PlusPlus, bool) -> f64) -> Gains {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(n as u64);
    // Partners are shifted so that no solver profits from looking at the diagonal first.
    let values = (0..n * n).map(|ix| gain(&mut rng, (ix / n + n / 3) % n == ix % n)).collect();
    Gains::new(n, n, values)
}

fn structured(rng: &mut Xoshiro256PlusPlus, partners: bool) -> f64 {
    match (partners, rng.random::<f64>() < 0.2) {
        (true, _) => rng.random_range(5.0..50.0),
        (false, true) => rng.random_range(0.0..10.0),
        (false, false) => rng.random_range(-100.0..0.0),
    }
}

#[divan::bench(name = "assignment", args = SIZES)]
fn assignment(bencher: Bencher, Size(n): Size) {
    let gains = square(n, structured);
    bencher.bench(|| solve(black_box(&gains)));
}

#[divan::bench(name = "assignment_dense", args = SIZES)]
fn assignment_dense(bencher: Bencher, Size(n): Size) {
    let gains = square(n, |rng, _| rng.random_range(0.0..10.0));
    bencher.bench(|| solve(black_box(&gains)));
}
