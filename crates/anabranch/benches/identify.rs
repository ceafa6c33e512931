//! How long identification takes: the assignment alone (ids `assignment/n=5`, `20`, `100`, `500`), and all of it, from the
//! evidence of two workers to a correspondence (ids `identify/k=20+20/d=2`, `d=20`).
//!
//! Gains are structured as a stream makes them: each component has one true partner that gains much, a fifth of the
//! other pairs gain a little (overlapping clusters under a vague prior), the rest lose. A dense variant, all pairs
//! positive, is the hard case.

use std::fmt;

use anabranch::batch::Batch;
use anabranch::central::{Absorb, BatchId, Entry, Fold};
use anabranch::family::{Conjugate, Family, Gaussian};
use anabranch::identify::{Gains, Identification, Target, correspond, solve};
use anabranch::posterior::Evidence;
use anabranch::process::{Bound, Dirichlet, LabelStatistics};
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

/// The evidence that a worker has of each of `k` clusters in `d` columns, 15 rows each; workers see the same clusters.
fn evidence(family: &Gaussian, k: usize, d: usize, worker: u64) -> Vec<Evidence> {
    let mut centres = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(worker);
    let mut features = vec![0.0; family.n_features()];
    let one = |_| {
        let centre: Vec<f64> = (0..d).map(|_| centres.random_range(-3.0..3.0)).collect();
        let mut evidence = Evidence::empty(family.n_features());
        for _ in 0..15 {
            let row: Vec<f64> = centre.iter().map(|c| c + rng.random_range(-0.5..0.5)).collect();
            family.features(&row, &mut features);
            let mut labels = LabelStatistics::default();
            labels.observe(0.999, 1.0);
            evidence.absorb(&Evidence { stats: features.clone(), labels });
        }
        evidence
    };
    (0..k).map(one).collect()
}

#[divan::bench(name = "identify", args = [Columns(2), Columns(20)])]
fn identify(bencher: Bencher, Columns(d): Columns) {
    let corners: Vec<f64> = (0..4 * d).map(|ix| if ix < 2 * d { -1.0 } else { 1.0 }).collect();
    let family = Gaussian::from_rows(&Batch::new(d, corners).expect("finite")).expect("rows with spread");
    let mut fold = Fold::new(family.clone(), Dirichlet::new(5.0, Bound::Paper).expect("positive"));
    let new = evidence(&family, 20, d, 1).into_iter().map(|e| (Target::New, e)).collect();
    let entry =
        Absorb { batch: BatchId(0), base: 0, pass: 0, mass: 300.0, familiarity: None, existing: vec![], new };
    fold.apply(&Entry::Absorb(entry)).expect("the journal is empty");
    let ours = evidence(&family, 20, d, 2);
    let posterior = fold.posterior();
    let found = correspond(posterior, 0, 0.0, &ours, Identification::Optimal);
    assert_eq!(found.correspondence.n_matched(), 20, "both workers saw the same clusters");
    bencher.bench(|| correspond(black_box(posterior), 0, 0.0, black_box(&ours), Identification::Optimal));
}

/// Shown as `k=20+20/d=2`.
#[derive(Clone, Copy)]
struct Columns(usize);

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k=20+20/d={}", self.0)
    }
}
