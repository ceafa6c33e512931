//! How long the tree of a posterior takes, with the default cut: ids `tree/k=350`, `tree/k=2000`, both in 20 columns.
//!
//! Components overlap as those of real data do: each has a covariance of its own and neighbours within two to four of its
//! standard deviations.

use std::fmt;

use anabranch::clusters::{Clusters, Cut};
use anabranch::family::{Conjugate, Family, Frame, Gaussian, NormalInverseWishart};
use anabranch::identify::ComponentId;
use anabranch::posterior::{Component, Evidence, Parts, Posterior};
use anabranch::process::{Bound, Dirichlet, LabelStatistics};
use divan::{Bencher, black_box};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const D: usize = 20;
const SIZES: [Size; 2] = [Size(350), Size(2000)];

/// Shown as `k=350`.
#[derive(Clone, Copy)]
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k={}", self.0)
    }
}

fn main() {
    divan::main();
}

fn posterior(k: usize) -> Posterior<Gaussian, Dirichlet> {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(k as u64);
    let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; D], 0.1, &[1.0; D], D as f64 + 2.0);
    let family = Gaussian::new(Frame::identity(D), prior).expect("a prior like any other");
    let mut features = vec![0.0; family.n_features()];
    let components = (0..k as u64).map(|id| {
        let centre: Vec<f64> = (0..D).map(|_| rng.random_range(-1.5..1.5)).collect();
        let widths: Vec<f64> = (0..D).map(|_| rng.random_range(0.3..1.5)).collect();
        let mut stats = vec![0.0; family.n_features()];
        for _ in 0..150 {
            let shared: f64 = rng.random_range(-1.0..1.0);
            let row: Vec<f64> = (0..D)
                .map(|c| centre[c] + widths[c] * (rng.random_range(-1.5..1.5) + 0.5 * shared))
                .collect();
            family.features(&row, &mut features);
            stats.iter_mut().zip(&features).for_each(|(s, f)| *s += f);
        }
        let labels =
            LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: stats[0], label_entropy: 0.0 };
        Component::new(ComponentId(id), 0, Evidence { stats, labels })
    });
    let components = components.collect();
    let process = Dirichlet::new(5.0, Bound::Paper).expect("5 is a concentration");
    let parts = Parts {
        version: 0,
        family,
        process,
        components,
        redirects: Default::default(),
        mass: 150.0 * k as f64,
    };
    Posterior::restore(parts).expect("sums of rows")
}

#[divan::bench(name = "tree", args = SIZES, sample_count = 3, sample_size = 1)]
fn tree(bencher: Bencher, Size(k): Size) {
    let posterior = posterior(k);
    bencher.bench(|| Clusters::of_snapshot(black_box(&posterior), Cut::default()));
}
