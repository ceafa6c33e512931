//! Parameters that are learned are those that made the sizes.

use anabranch::process::{Bound, Dirichlet, LabelStatistics, Parameter, PitmanYor, Process};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Cluster sizes of `n` data that sit down one by one.
fn seated(n: usize, alpha: f64, discount: f64, seed: u64) -> Vec<LabelStatistics> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut sizes: Vec<f64> = Vec::new();
    for seat in 0..n {
        let mut at = rng.random::<f64>() * (alpha + seat as f64);
        let found = sizes.iter().position(|size| {
            at -= size - discount;
            at < 0.0
        });
        match found {
            Some(ix) => sizes[ix] += 1.0,
            None => sizes.push(1.0),
        }
    }
    let certain = |size: &f64| {
        let mut stats = LabelStatistics::default();
        stats.observe(1.0, *size);
        stats
    };
    sizes.iter().map(certain).collect()
}

const AUTO: Parameter = Parameter::Learned { learned: 0.5 };

#[test]
fn a_discount_is_found_again_and_none_where_there_is_none() {
    for (alpha, discount) in [(1.0, 0.7), (5.0, 0.4), (10.0, 0.0)] {
        let sizes = seated(8000, alpha, discount, 3);
        let learned = PitmanYor::new(AUTO, AUTO, Bound::Paper).unwrap().learned(sizes.iter(), 0.0).unwrap();
        // Fewer than a hundred clusters, as the last case has, tell the discount to a tenth or so.
        assert!((learned.discount() - discount).abs() < 0.15, "{} of {discount}", learned.discount());
    }
}

#[test]
fn a_concentration_is_found_again() {
    for alpha in [2.0, 10.0] {
        let sizes = seated(8000, alpha, 0.0, 4);
        let learned = Dirichlet::new(AUTO, Bound::Paper).unwrap().learned(sizes.iter(), 0.0).unwrap();
        assert!((learned.alpha() / alpha).ln().abs() < 0.5, "{} of {alpha}", learned.alpha());
    }
}

/// What is learned is a maximum: no neighbour makes the sizes more probable.
#[test]
fn no_neighbour_is_more_probable() {
    let sizes = seated(3000, 1.0, 0.6, 5);
    let n: f64 = sizes.iter().map(|stats| stats.expected_count).sum();
    let learned = PitmanYor::new(AUTO, AUTO, Bound::Conditional).unwrap().learned(sizes.iter(), 0.0).unwrap();
    let probability = |alpha: f64, discount: f64| {
        // The exponential prior of mean 5.
        PitmanYor::new(alpha, discount, Bound::Conditional).unwrap().bound(&sizes, n) - alpha / 5.0
    };
    let best = probability(learned.alpha(), learned.discount());
    for (ratio, step) in [(1.1, 0.0), (0.9, 0.0), (1.0, 0.02), (1.0, -0.02), (1.1, -0.01), (0.9, 0.01)] {
        assert!(probability(learned.alpha() * ratio, learned.discount() + step) < best);
    }
}

#[test]
fn given_parameters_stay_while_the_other_is_learned() {
    let sizes = seated(3000, 1.0, 0.6, 6);
    let only_discount = PitmanYor::new(1.0, AUTO, Bound::Paper).unwrap().learned(sizes.iter(), 0.0).unwrap();
    assert_eq!(only_discount.alpha(), 1.0);
    assert!((only_discount.discount() - 0.6).abs() < 0.1);
    let only_alpha = PitmanYor::new(AUTO, 0.6, Bound::Paper).unwrap().learned(sizes.iter(), 0.0).unwrap();
    assert_eq!(only_alpha.discount(), 0.6);
    assert!(Dirichlet::new(3.0, Bound::Paper).unwrap().learned(sizes.iter(), 0.0).is_none());
}
