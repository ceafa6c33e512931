//! A parallel Markov chain over partitions with sub-cluster splits (Chang and Fisher 2013), exact for any number of rows.
//!
//! A sweep has two parts, each of which leaves the posterior of the partition unchanged:
//!
//! 1. *Restricted Gibbs* (`labels.rs`): weights and parameters of the clusters are drawn, then all labels at once, on
//!    several threads. It opens no cluster and empties none.
//! 2. *Splits and merges* (`moves.rs`): the rows of one cluster, or of two, get two sub-clusters, which are drawn by a few
//!    sweeps of their own; a Metropolis–Hastings step accepts the split along them, or the merge.
//!
//! The paper keeps sub-clusters from sweep to sweep. The acceptance probability then has a factor that cannot be computed,
//! and the paper leaves it out. Here sub-clusters are drawn anew for every proposal, starting from two rows that do not
//! depend on the partition, so that the probability of the reverse move is known (Jain and Neal 2004). The model at the
//! end is the last partition.

mod labels;
mod moves;

use anabranch::batch::Batch;
use anabranch::engine::Flow;
use anabranch::family::DrawNatural;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::publish::{Run, State};
use crate::totals::Totals;
use crate::{Config, FitError, Fitted, seed};

/// Clusters that the chain starts with, around rows far from each other.
const START: usize = 10;

/// Share of the rows that keep their labels in a sweep.
const KEPT: f64 = 0.1;

/// Runs all sweeps, or until the observer asks to stop.
pub(crate) fn run<F: DrawNatural>(
    rows: &Batch,
    config: &Config,
    sweeps: usize,
    mut run: Run<'_, F>,
) -> Result<Fitted<F>, FitError> {
    let mut chain = Chain::new(run.family, rows, run.process.alpha(), config);
    for _ in 0..sweeps {
        chain.sweep();
        if run.step(rows.n_rows(), &chain.state())? == Flow::Stop {
            break;
        }
    }
    run.finish(&chain.state(), Vec::new())
}

/// The partition, with the sums of each cluster.
struct Chain<'a, F> {
    family: &'a F,
    rows: &'a Batch,
    alpha: f64,
    /// `A(η₀)`.
    empty: f64,
    truncation: usize,
    /// Share of the rows that keep their labels in a sweep.
    kept: f64,
    threads: usize,
    seed: u64,
    sweeps: u64,
    /// Cluster of each row.
    labels: Vec<u32>,
    totals: Totals,
    ids: Vec<u64>,
    next_id: u64,
}

impl<'a, F: DrawNatural> Chain<'a, F> {
    fn new(family: &'a F, rows: &'a Batch, alpha: f64, config: &Config) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        let all: Vec<usize> = (0..rows.n_rows()).collect();
        let nearest = seed::nearest_seed(family, rows, &all, START.min(config.truncation), &mut rng);
        let mut chain = Self {
            family,
            rows,
            alpha,
            empty: family.log_partition(&vec![0.0; family.n_features()]),
            truncation: config.truncation,
            kept: KEPT,
            threads: config.threads,
            seed: config.seed,
            sweeps: 0,
            labels: nearest.iter().map(|label| *label as u32).collect(),
            totals: Totals::empty(0, family.n_features()),
            ids: Vec::new(),
            next_id: 0,
        };
        let k = nearest.iter().max().map_or(1, |last| last + 1);
        chain.ids = (0..k as u64).collect();
        chain.next_id = k as u64;
        chain.totals = chain.sums();
        chain
    }

    /// One sweep: labels, then splits and merges.
    fn sweep(&mut self) {
        self.sweeps += 1;
        self.draw_labels();
        self.split_and_merge();
    }

    fn k(&self) -> usize {
        self.ids.len()
    }

    /// The generator of one job of this sweep, whatever thread does it.
    fn rng(&self, part: u64, job: u64) -> Xoshiro256PlusPlus {
        let mixed = [self.sweeps, part, job].iter().fold(self.seed, |mixed, key| {
            (mixed ^ key.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        });
        Xoshiro256PlusPlus::seed_from_u64(mixed)
    }

    fn state(&self) -> State<'_> {
        State { totals: &self.totals, ids: &self.ids, next_id: self.next_id, mass: self.rows.n_rows() as f64 }
    }
}

/// `log g`, `g ~ Gamma(shape, 1)`: normalised, a few of them are a draw from a Dirichlet distribution.
fn ln_gamma_draw(shape: f64, rng: &mut impl Rng) -> f64 {
    // g = g₁ u^(1/shape) keeps the logarithm of numbers that are too small for a double.
    let boosted = Gamma::new(shape + 1.0, 1.0).expect("a shape above 1");
    boosted.sample(rng).ln() + (1.0 - rng.random::<f64>()).ln() / shape
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use anabranch::family::{AnyFamily, Bernoulli, Conjugate, Family, Frame, Gaussian, NormalInverseWishart};
    use anabranch_testkit::partitions::{counts, ln_eppf_dirichlet, set_partitions};

    use super::*;

    /// Blocks numbered as they appear.
    fn canonical(labels: &[u32]) -> Vec<usize> {
        let mut names = Vec::new();
        let number = |label: &u32| {
            names.iter().position(|known| known == label).unwrap_or_else(|| {
                names.push(*label);
                names.len() - 1
            })
        };
        labels.iter().map(number).collect()
    }

    /// The exact posterior of every partition, by enumeration: EPPF times marginal likelihood.
    fn exact(family: &AnyFamily, rows: &Batch, alpha: f64) -> BTreeMap<Vec<usize>, f64> {
        let n = rows.n_rows();
        let f = family.n_features();
        let empty = family.log_partition(&vec![0.0; f]);
        let ln_p = |z: &Vec<usize>| {
            let evidence: f64 = (0..n)
                .map(|block| {
                    let mut stats = vec![0.0; f];
                    let mut features = vec![0.0; f];
                    for row in (0..n).filter(|row| z[*row] == block) {
                        family.features(rows.row(row), &mut features);
                        stats.iter_mut().zip(&features).for_each(|(s, v)| *s += v);
                    }
                    family.log_partition(&stats) - empty
                })
                .sum();
            evidence + ln_eppf_dirichlet(&counts(z, n), alpha)
        };
        let partitions = set_partitions(n);
        let weights: Vec<f64> = partitions.iter().map(|z| ln_p(z).exp()).collect();
        let total: f64 = weights.iter().sum();
        partitions.into_iter().zip(weights.iter().map(|w| w / total)).collect()
    }

    fn cases() -> Vec<(AnyFamily, Batch, f64)> {
        let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0], 0.3, &[1.0], 3.0);
        let gaussian = Gaussian::new(Frame::identity(1), prior).unwrap();
        let coins = Bernoulli::new(vec![0.4; 3], vec![0.7; 3]).unwrap();
        let numbers = Batch::new(1, vec![-2.0, -1.2, 0.1, 0.3, 2.5]).unwrap();
        let bits = [[1, 0, 1], [1, 1, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0]].concat();
        let bits = Batch::new(3, bits.into_iter().map(f64::from).collect()).unwrap();
        vec![(gaussian.into(), numbers, 1.0), (coins.into(), bits, 2.5)]
    }

    /// Total variation distance that independent draws would stay below by far: 52 cells, √(52 / 4n) with room for the
    /// correlation of a chain.
    const TOTAL_VARIATION: f64 = 0.03;

    #[test]
    fn the_chain_visits_partitions_as_often_as_the_exact_posterior_says() {
        const SWEEPS: usize = 30_000;
        for (family, rows, alpha) in cases() {
            let exact = exact(&family, &rows, alpha);
            let config = Config { seed: 4, ..Config::default() };
            let mut chain = Chain::new(&family, &rows, alpha, &config);
            // Of five rows a tenth is none: with half of them kept, both parts of a sweep do their share.
            chain.kept = 0.5;
            let mut visits: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
            for _ in 0..SWEEPS {
                chain.sweep();
                *visits.entry(canonical(&chain.labels)).or_default() += 1;
            }
            let share = |z: &Vec<usize>| visits.get(z).copied().unwrap_or(0) as f64 / SWEEPS as f64;
            let distance: f64 = exact.iter().map(|(z, p)| (p - share(z)).abs()).sum::<f64>() / 2.0;
            assert!(distance < TOTAL_VARIATION, "{}: {distance}", family.name());
        }
    }

    #[test]
    fn threads_do_not_show_in_the_chain() {
        let rows = anabranch_testkit::streams::separated(1, 5, 400, 2, 12.0);
        let rows = Batch::new(2, rows).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let labels = |threads: usize| {
            let config = Config { threads, seed: 9, ..Config::default() };
            let mut chain = Chain::new(&family, &rows, 1.0, &config);
            (0..5).for_each(|_| chain.sweep());
            chain.labels
        };
        assert_eq!(labels(1), labels(4));
    }

    #[test]
    fn clusters_far_apart_are_all_found() {
        let rows = Batch::new(2, anabranch_testkit::streams::separated(1, 20, 50, 2, 40.0)).unwrap();
        let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; 2], 1e-3, &[1.0, 1.0], 4.0);
        let frame = Frame::from_rows(&rows).unwrap();
        let family = Gaussian::with_prior_in_data_units(frame, prior).unwrap();
        let mut chain = Chain::new(&family, &rows, 1.0, &Config::default());
        (0..60).for_each(|_| chain.sweep());
        // A sample of the posterior: a stray cluster may come and go.
        let large = chain.totals.counts().iter().filter(|count| **count >= 40.0).count();
        assert_eq!(large, 20, "{:?}", chain.totals.counts());
    }
}
