//! What an answer costs: a row of a block, and the latency of a single one (median and 99th percentile), beside the plain loop over all
//! components.
//!
//! `make bench-answers` prints it. Times are those of one thread.

mod known;

use std::hint::black_box;
use std::time::Instant;

use anabranch::batch::Batch;
use anabranch::central::Fold;
use anabranch::family::Gaussian;
use anabranch::math::log_sum_exp::log_sum_exp;
use anabranch::posterior::{Posterior, Predictor};
use anabranch::process::Dirichlet;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Rows that a component has seen.
const ROWS_EACH: usize = 170;

/// Clusters that overlap a little, with covariances of their own, and rows of them.
fn clusters(n: usize, d: usize, k: usize) -> (Fold<Gaussian, Dirichlet>, Batch) {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(k as u64);
    let normal = |rng: &mut Xoshiro256PlusPlus| -> f64 { StandardNormal.sample(rng) };
    let reach = if d <= 2 { 12.0 } else { 1.5 };
    let centres: Vec<f64> = (0..k * d).map(|_| reach * normal(rng)).collect();
    let shapes: Vec<f64> = (0..k * d * d).map(|_| normal(rng) / (d as f64).sqrt()).collect();
    let row = |rng: &mut Xoshiro256PlusPlus, cluster: usize| -> Vec<f64> {
        let noise: Vec<f64> = (0..d).map(|_| normal(rng)).collect();
        let shape = &shapes[cluster * d * d..(cluster + 1) * d * d];
        let stretched = |i: usize| -> f64 { (0..d).map(|j| shape[i * d + j] * noise[j]).sum() };
        (0..d).map(|i| centres[cluster * d + i] + stretched(i)).collect()
    };
    let mut values = Vec::new();
    for _ in 0..n {
        let cluster = rng.random_range(0..k);
        values.extend(row(rng, cluster));
    }
    let rows = Batch::new(d, values).expect("finite");
    let family = Gaussian::from_rows(&rows).expect("rows with spread");
    (known::fold(&family, k, ROWS_EACH, |cluster| row(rng, cluster)), rows)
}

/// The plain loop.
fn plain(posterior: &Posterior<Gaussian, Dirichlet>, x: &[f64]) -> f64 {
    let terms = posterior.components().iter().map(|component| {
        component.expected_count().ln() + component.predictive(posterior.family()).ln_density(x)
    });
    log_sum_exp(&terms.collect::<Vec<_>>())
}

/// Median and 99th percentile of the microseconds of each call.
fn latency(rows: &Batch, mut call: impl FnMut(&[f64])) -> [f64; 2] {
    rows.rows().take(200).for_each(&mut call);
    let mut times: Vec<f64> = rows
        .rows()
        .map(|row| {
            let started = Instant::now();
            call(black_box(row));
            1e6 * started.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    [times[times.len() / 2], times[times.len() * 99 / 100]]
}

fn main() {
    for (d, k) in [(2, 100), (20, 349), (64, 30)] {
        let (fold, rows) = clusters(6000, d, k);
        let posterior = fold.posterior();
        let started = Instant::now();
        let predictor = Predictor::new(posterior);
        let prepared = 1e3 * started.elapsed().as_secs_f64();
        let per_row = |work: &dyn Fn()| {
            work();
            let started = Instant::now();
            work();
            1e6 * started.elapsed().as_secs_f64() / rows.n_rows() as f64
        };
        let labels = per_row(&|| drop(black_box(predictor.labels(&rows, 1))));
        let densities = per_row(&|| drop(black_box(predictor.ln_densities(&rows, 1))));
        let few = rows.head(600);
        let [slow, slow_99] = latency(&few, |row| {
            black_box(plain(posterior, row));
        });
        println!(
            "answers/d={d}/k={k}: prepared in {prepared:.1} ms; a row of a block: label {labels:.2} µs, density {densities:.2} µs; plain loop {slow:.2} µs (99 %: {slow_99:.2})"
        );
        let [median, high] = latency(&rows, |row| {
            black_box(predictor.label(row));
        });
        println!(
            "answers/d={d}/k={k}: one row, label: median {median:.2} µs, 99 % {high:.2} µs, plain loop {:.1} times that",
            slow / median
        );
        let [median, high] = latency(&rows, |row| {
            black_box(predictor.ln_density(row));
        });
        println!(
            "answers/d={d}/k={k}: one row, density: median {median:.2} µs, 99 % {high:.2} µs, plain loop {:.1} times that",
            slow / median
        );
    }
}
