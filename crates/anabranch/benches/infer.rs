//! How long a minibatch without news takes (ids `infer/n=500/d=20/k=200`), how that grows with the number of components
//! (`infer_many/n=256/d=20/k=10000`), and the two products beneath it (`scores`, `sums`).
//!
//! `make bench` prints the products in multiply-adds a second: two of them are one GFLOP/s each 1e9. The machine's own
//! limit is printed by `make bench-products`.

mod known;

use std::fmt;

use anabranch::batch::Batch;
use anabranch::central::Fold;
use anabranch::family::Gaussian;
use anabranch::infer::{Settings, Workspace, infer};
use anabranch::math::product::{responsibilities_times_rows, rows_times_parameters};
use anabranch::process::Dirichlet;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

fn main() {
    divan::main();
}

/// Shown as `n=500/d=20/k=200`.
#[derive(Clone, Copy)]
struct Shape {
    n: usize,
    d: usize,
    k: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={}/d={}/k={}", self.n, self.d, self.k)
    }
}

const fn shape(n: usize, d: usize, k: usize) -> Shape {
    Shape { n, d, k }
}

/// Rows that a component has seen.
const ROWS_EACH: usize = 40;

/// Clusters in a cube, each with rows around it, and a minibatch of rows from all of them.
fn clusters(Shape { n, d, k }: Shape) -> (Fold<Gaussian, Dirichlet>, Batch) {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(k as u64);
    let centres: Vec<f64> = (0..k * d).map(|_| rng.random_range(-10.0..10.0)).collect();
    let row = |rng: &mut Xoshiro256PlusPlus, cluster: usize| -> Vec<f64> {
        let noise = |rng: &mut Xoshiro256PlusPlus| -> f64 { StandardNormal.sample(rng) };
        centres[cluster * d..(cluster + 1) * d].iter().map(|c| c + noise(rng)).collect()
    };
    let batch = |rng: &mut Xoshiro256PlusPlus, n: usize| {
        let values = (0..n).flat_map(|_| {
            let cluster = rng.random_range(0..k);
            row(rng, cluster)
        });
        Batch::new(d, values.collect()).expect("finite")
    };
    let family = Gaussian::from_rows(&batch(rng, 1000)).expect("rows with spread");
    let fold = known::fold(&family, k, ROWS_EACH, |cluster| row(rng, cluster));
    (fold, batch(rng, n))
}

fn minibatch(bencher: Bencher, shape: Shape) {
    let (fold, batch) = clusters(shape);
    // Nothing new may be opened: the inference of almost every minibatch.
    let settings = Settings { max_new: 0, ..Settings::default() };
    let mut workspace = Workspace::default();
    let mut once = || {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(0);
        infer(black_box(fold.posterior()), black_box(&batch), &settings, rng, &mut workspace)
    };
    once();
    bencher.counter(ItemsCount::new(shape.n)).bench_local(once);
}

#[divan::bench(name = "infer", args = [shape(50, 2, 150), shape(256, 2, 100), shape(256, 20, 300), shape(500, 20, 200)])]
fn one_minibatch(bencher: Bencher, shape: Shape) {
    minibatch(bencher, shape);
}

#[divan::bench(
    name = "infer_many",
    args = [shape(256, 20, 100), shape(256, 20, 300), shape(256, 20, 1000), shape(256, 20, 3000), shape(256, 20, 10000)],
    sample_count = 10
)]
fn many_components(bencher: Bencher, shape: Shape) {
    minibatch(bencher, shape);
}

/// Numbers without a pattern.
fn numbers(len: usize) -> Vec<f64> {
    (0..len).map(|ix| (ix * 7919 % 1009) as f64 / 1009.0 - 0.5).collect()
}

const PRODUCTS: [Shape; 3] = [shape(50, 2, 150), shape(500, 20, 200), shape(10_000, 64, 500)];

fn n_features(d: usize) -> usize {
    1 + d + d * (d + 1) / 2
}

#[divan::bench(name = "scores", args = PRODUCTS)]
fn scores(bencher: Bencher, Shape { n, d, k }: Shape) {
    let f = n_features(d);
    let (rows, parameters, mut out) = (numbers(n * f), numbers(k * f), vec![0.0; n * k]);
    let count = ItemsCount::new(n * f * k);
    bencher.counter(count).bench_local(|| rows_times_parameters(black_box(&rows), &parameters, f, &mut out));
}

#[divan::bench(name = "sums", args = PRODUCTS)]
fn sums(bencher: Bencher, Shape { n, d, k }: Shape) {
    let f = n_features(d);
    let (responsibilities, rows, mut out) = (numbers(n * k), numbers(n * f), vec![0.0; k * f]);
    let count = ItemsCount::new(n * f * k);
    bencher
        .counter(count)
        .bench_local(|| responsibilities_times_rows(black_box(&responsibilities), &rows, f, &mut out));
}
