//! The Dirichlet bound lies below the exact expectation (invariant BOUND), checked by enumeration and by test vectors.

use anabranch::process::{Bound, Dirichlet, LabelStatistics, Population, Process};
use anabranch_testkit::expectation::{by_enumeration, dirichlet_by_convolution};
use anabranch_testkit::partitions::{counts, ln_eppf_dirichlet, set_partitions};
use anabranch_testkit::random::{hard_label_matrix, label_matrix};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

/// Sums of at most a few thousand products of order one to ten: rounding stays well below this.
const ROUNDING: f64 = 1e-10;
/// The vectors come from another implementation, with N up to 300.
const VECTOR_TOLERANCE: f64 = 1e-9;
const BOUNDS: [Bound; 2] = [Bound::Paper, Bound::Conditional];

fn process(alpha: f64, bound: Bound) -> Dirichlet {
    Dirichlet::new(alpha, bound).unwrap()
}

/// The bound for as many data as the expected counts add up to.
fn bound_of(process: Dirichlet, components: &[LabelStatistics]) -> f64 {
    process.bound(components, components.iter().map(|stats| stats.expected_count).sum())
}

/// The score of a component among as many as it is: the number does not matter to a Dirichlet process.
fn score(process: Dirichlet, stats: &LabelStatistics) -> f64 {
    process.score(stats, Population::of([stats], stats.expected_count))
}

fn statistics(pi: &[Vec<f64>]) -> Vec<LabelStatistics> {
    let mut components = vec![LabelStatistics::default(); pi[0].len()];
    for row in pi {
        row.iter().zip(&mut components).for_each(|(p, stats)| stats.observe(*p, 1.0));
    }
    components
}

/// Label matrices from nearly hard to nearly uniform, with a concentration of the process over six decades.
fn random_cases(n_cases: usize) -> impl Iterator<Item = (f64, Vec<Vec<f64>>)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2015);
    (0..n_cases).map(move |_| {
        let (n, k) = (rng.random_range(1..=7), rng.random_range(1..=4));
        let concentration = 10f64.powf(rng.random_range(-2.0..1.5));
        let alpha = 10f64.powf(rng.random_range(-3.0..3.0));
        (alpha, label_matrix(&mut rng, n, k, concentration))
    })
}

#[test]
fn the_eppf_sums_to_one_over_all_partitions() {
    for alpha in [1e-3, 0.5, 1.0, 40.0] {
        for n in 0..=8 {
            let total: f64 =
                set_partitions(n).iter().map(|z| ln_eppf_dirichlet(&counts(z, n), alpha).exp()).sum();
            assert!((total - 1.0).abs() < ROUNDING, "α = {alpha}, n = {n}: {total}");
        }
    }
}

#[test]
fn for_a_given_partition_the_bound_is_its_log_probability() {
    for alpha in [1e-3, 1.0, 40.0] {
        for z in set_partitions(7) {
            let sizes = counts(&z, 7);
            let mut components = vec![LabelStatistics::default(); 7];
            z.iter().for_each(|block| components[*block].observe(1.0, 1.0));
            for bound in BOUNDS {
                let value = bound_of(process(alpha, bound), &components);
                assert!((value - ln_eppf_dirichlet(&sizes, alpha)).abs() < ROUNDING, "{bound:?} {z:?}");
            }
        }
    }
}

#[test]
fn the_bound_is_below_the_exact_expectation() {
    for (alpha, pi) in random_cases(500) {
        let exact = by_enumeration(&pi, |counts| ln_eppf_dirichlet(counts, alpha));
        for bound in BOUNDS {
            let value = bound_of(process(alpha, bound), &statistics(&pi));
            assert!(value <= exact + ROUNDING, "{bound:?}: {value} > {exact} for α = {alpha}, {pi:?}");
        }
    }
}

#[test]
fn the_gap_is_at_most_six_tenths_of_a_nat_per_component() {
    // The largest gap of one component is 0.5895.
    for (alpha, pi) in random_cases(500) {
        let exact = dirichlet_by_convolution(&pi, alpha);
        let value = bound_of(process(alpha, Bound::Paper), &statistics(&pi));
        assert!(exact - value <= 0.59 * pi[0].len() as f64, "{exact} {value}");
    }
}

#[test]
fn conditioning_on_occupancy_never_loosens_the_bound_and_sometimes_tightens_it() {
    let mut tighter = 0;
    for (alpha, pi) in random_cases(500) {
        let components = statistics(&pi);
        let gain = bound_of(process(alpha, Bound::Conditional), &components)
            - bound_of(process(alpha, Bound::Paper), &components);
        assert!(gain >= -ROUNDING, "{gain} for {pi:?}");
        tighter += usize::from(gain > 1e-3);
    }
    assert!(tighter > 100, "tighter in only {tighter} of 500 cases");
}

#[test]
fn hard_labels_leave_no_gap() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for n in [1, 7, 60] {
        let pi = hard_label_matrix(&mut rng, n, 5);
        let exact = dirichlet_by_convolution(&pi, 0.7);
        for bound in BOUNDS {
            assert!((bound_of(process(0.7, bound), &statistics(&pi)) - exact).abs() < ROUNDING);
        }
    }
}

#[test]
fn ln_gamma_of_t_without_the_maximum_would_reward_tiny_clusters() {
    // log Γ(t) → +∞ for t → 0: a cluster of almost nothing would be worth more than one of a thousand data.
    let mut tiny = LabelStatistics::default();
    tiny.observe(1e-6, 1.0);
    let unguarded = libm::lgamma(tiny.expected_count);
    assert!(unguarded > 13.0);
    for bound in BOUNDS {
        let score = score(process(1.0, bound), &tiny);
        assert!(score.abs() < 1e-15, "{bound:?}: {score}");
    }
    // And it would be no bound at all: the same sum without the maximum exceeds the exact expectation.
    let components = statistics(&vec![vec![1.0 - 1e-6, 1e-6]; 2]);
    let exact = dirichlet_by_convolution(&vec![vec![1.0 - 1e-6, 1e-6]; 2], 1.0);
    let guarded = bound_of(process(1.0, Bound::Paper), &components);
    let removed: f64 = components.iter().map(|stats| libm::lgamma(stats.expected_count.max(2.0))).sum();
    let without_maximum: f64 = components.iter().map(|stats| libm::lgamma(stats.expected_count)).sum();
    assert!(guarded <= exact + ROUNDING);
    assert!(guarded - removed + without_maximum > exact + 10.0);
}

#[derive(Deserialize)]
struct Vector {
    alpha: f64,
    pi: Vec<Vec<f64>>,
    s: Vec<serde_json::Value>,
    t: Vec<f64>,
    normaliser: f64,
    exact: f64,
    bound_paper: f64,
    bound_cond: f64,
    per_component_paper: Vec<f64>,
    per_component_cond: Vec<f64>,
    expected_components: f64,
}

fn assert_close(name: &str, found: f64, expected: f64) {
    let close = found == expected || (found - expected).abs() <= VECTOR_TOLERANCE * expected.abs().max(1.0);
    assert!(close, "{name}: found {found}, expected {expected}");
}

#[test]
fn statistics_scores_and_bounds_equal_the_test_vectors() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("data/dp.json")).unwrap();
    assert_eq!(vectors.len(), 14);
    for v in vectors {
        let components = statistics(&v.pi);
        for (k, stats) in components.iter().enumerate() {
            // JSON has no infinity: it is written as the string "-inf".
            assert_close("s", stats.log_p_empty, v.s[k].as_f64().unwrap_or(f64::NEG_INFINITY));
            assert_close("t", stats.expected_count, v.t[k]);
            assert_close("paper", score(process(v.alpha, Bound::Paper), stats), v.per_component_paper[k]);
            assert_close("cond", score(process(v.alpha, Bound::Conditional), stats), v.per_component_cond[k]);
        }
        let occupied = components.iter().map(LabelStatistics::probability_occupied).sum();
        assert_close("expected components", occupied, v.expected_components);
        assert_close(
            "C",
            process(v.alpha, Bound::Paper)
                .normaliser(Population { observations: v.pi.len() as f64, occupied: 1.0 }),
            v.normaliser,
        );
        assert_close("exact", dirichlet_by_convolution(&v.pi, v.alpha), v.exact);
        assert_close("paper bound", bound_of(process(v.alpha, Bound::Paper), &components), v.bound_paper);
        assert_close("cond bound", bound_of(process(v.alpha, Bound::Conditional), &components), v.bound_cond);
    }
}
