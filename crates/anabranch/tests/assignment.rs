//! The assignment is exact: against brute force, against test vectors, and blocks against the whole.

use std::collections::BTreeSet;

use anabranch::identify::{ComponentId, Correspondence, CorrespondenceError, Gains, Target, gains, solve};
use anabranch_testkit::assignment::{best_partial, best_square};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

/// Sums of at most 45 gains of order ten, in a different order than the oracle's.
const ROUNDING: f64 = 1e-11;
/// The vectors' objectives are sums of scores of order a thousand from another implementation.
const VECTOR_TOLERANCE: f64 = 1e-9;

/// Gains of one of four kinds: mixed signs, all negative, all positive, small integers (many ties and zeros).
fn random_gains(rng: &mut Xoshiro256PlusPlus, largest: usize) -> Gains {
    let (n_rows, n_cols) = (rng.random_range(0..=largest), rng.random_range(0..=largest));
    let kind = rng.random_range(0..4);
    let draw = |rng: &mut Xoshiro256PlusPlus| match kind {
        0 => rng.random_range(-5.0..5.0),
        1 => rng.random_range(-5.0..0.0),
        2 => rng.random_range(0.0..5.0),
        _ => f64::from(rng.random_range(-2..4)),
    };
    Gains::new(n_rows, n_cols, (0..n_rows * n_cols).map(|_| draw(rng)).collect())
}

fn assert_one_to_one_and_positive(gains: &Gains, columns: &[Option<usize>]) {
    assert_eq!(columns.len(), gains.n_rows);
    let used: Vec<usize> = columns.iter().flatten().copied().collect();
    assert_eq!(used.iter().collect::<BTreeSet<_>>().len(), used.len(), "a column is used twice: {columns:?}");
    for (row, col) in columns.iter().enumerate() {
        assert!(col.is_none_or(|col| gains.get(row, col) > 0.0), "row {row} is in a pair that gains nothing");
    }
}

#[test]
fn no_matching_is_better_on_six_thousand_random_problems() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1955);
    for _ in 0..6000 {
        let gains = random_gains(&mut rng, 6);
        let columns = solve(&gains);
        assert_one_to_one_and_positive(&gains, &columns);
        let (best, _) = best_partial(gains.n_rows, gains.n_cols, &|row, col| gains.get(row, col));
        assert!((gains.total(&columns) - best).abs() < ROUNDING, "{gains:?} {columns:?} {best}");
    }
}

/// Random scores of a problem with `rows` new minibatch and `cols` new central components.
struct Scores {
    joined: Vec<Vec<f64>>,
    minibatch_alone: Vec<f64>,
    central_alone: Vec<f64>,
    empty: f64,
}

impl Scores {
    fn gains(&self) -> Gains {
        let rows: Vec<usize> = (0..self.minibatch_alone.len()).collect();
        let cols: Vec<usize> = (0..self.central_alone.len()).collect();
        let (row, col) = (|k: &usize| self.minibatch_alone[*k], |j: &usize| self.central_alone[*j]);
        gains(&rows, &cols, row, col, |k, j| self.joined[*k][*j], self.empty)
    }

    /// What the objective is when everybody stays alone; pairs add their gains.
    fn apart(&self) -> f64 {
        self.minibatch_alone.iter().sum::<f64>() + self.central_alone.iter().sum::<f64>()
    }

    /// The paper's square matrix R′: minibatch components, then dummies; central components, then dummies.
    fn square(&self, k: usize, j: usize) -> f64 {
        match (k < self.minibatch_alone.len(), j < self.central_alone.len()) {
            (true, true) => self.joined[k][j],
            (true, false) => self.minibatch_alone[k],
            (false, true) => self.central_alone[j],
            (false, false) => self.empty,
        }
    }
}

#[test]
fn the_gains_solve_the_papers_square_problem() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(88);
    for _ in 0..500 {
        let (n_rows, n_cols) = (rng.random_range(0..4), rng.random_range(0..4));
        let mut draw = |n: usize| (0..n).map(|_| rng.random_range(-3.0..3.0)).collect::<Vec<f64>>();
        let scores = Scores {
            joined: (0..n_rows).map(|_| draw(n_cols)).collect(),
            minibatch_alone: draw(n_rows),
            central_alone: draw(n_cols),
            empty: draw(1)[0],
        };
        let gains = scores.gains();
        let found = scores.apart() + gains.total(&solve(&gains));
        let (best, _) = best_square(n_rows + n_cols, &|k, j| scores.square(k, j));
        assert!((found - best).abs() < ROUNDING, "{found} {best}");
    }
}

#[derive(Deserialize)]
struct Vector {
    source: String,
    joined: Vec<Vec<f64>>,
    minibatch_alone: Vec<f64>,
    central_alone: Vec<f64>,
    empty: f64,
    sigma: Vec<i64>,
    objective: f64,
}

#[test]
fn sigma_and_objective_equal_the_test_vectors() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("data/matching.json")).unwrap();
    assert_eq!(vectors.len(), 36);
    for v in vectors {
        let scores = Scores {
            joined: v.joined,
            minibatch_alone: v.minibatch_alone,
            central_alone: v.central_alone,
            empty: v.empty,
        };
        let gains = scores.gains();
        let columns = solve(&gains);
        // −1 stands for a new component.
        let expected: Vec<Option<usize>> = v.sigma.iter().map(|j| usize::try_from(*j).ok()).collect();
        assert_eq!(columns, expected, "{}", v.source);
        let objective = scores.apart() + gains.total(&columns);
        assert!(
            (objective - v.objective).abs() < VECTOR_TOLERANCE * v.objective.abs().max(1.0),
            "{}",
            v.source
        );
    }
}

#[test]
fn independent_blocks_give_the_same_as_the_whole() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(12);
    for _ in 0..300 {
        let (a, b) = (random_gains(&mut rng, 8), random_gains(&mut rng, 8));
        let whole = block_diagonal(&a, &b);
        let shifted = solve(&b).into_iter().map(|col| col.map(|col| col + a.n_cols));
        let parts: Vec<Option<usize>> = solve(&a).into_iter().chain(shifted).collect();
        assert_eq!(solve(&whole), parts);
    }
}

fn block_diagonal(a: &Gains, b: &Gains) -> Gains {
    let (n_rows, n_cols) = (a.n_rows + b.n_rows, a.n_cols + b.n_cols);
    let value = |row: usize, col: usize| match (row < a.n_rows, col < a.n_cols) {
        (true, true) => a.get(row, col),
        (false, false) => b.get(row - a.n_rows, col - a.n_cols),
        _ => -1.0,
    };
    let values = (0..n_rows).flat_map(|row| (0..n_cols).map(move |col| (row, col)));
    Gains::new(n_rows, n_cols, values.map(|(row, col)| value(row, col)).collect())
}

#[test]
fn an_optimum_stays_optimal_when_the_sides_are_swapped() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(40);
    for _ in 0..200 {
        let gains = random_gains(&mut rng, 40);
        let transposed = (0..gains.n_cols).flat_map(|col| (0..gains.n_rows).map(move |row| (row, col)));
        let values = transposed.map(|(row, col)| gains.get(row, col)).collect();
        let swapped = Gains::new(gains.n_cols, gains.n_rows, values);
        let difference = gains.total(&solve(&gains)) - swapped.total(&solve(&swapped));
        assert!(difference.abs() < ROUNDING * 100.0, "{difference}");
    }
}

fn any_target() -> impl Strategy<Value = Target> {
    // Few ids, so that about half of the lists repeat one.
    prop_oneof![Just(Target::New), (0u64..12).prop_map(|id| Target::Existing(ComponentId(id)))]
}

proptest! {
    #[test]
    fn a_correspondence_exists_exactly_when_no_id_repeats(targets in prop::collection::vec(any_target(), 0..8)) {
        let ids: Vec<_> = targets.iter().filter(|target| **target != Target::New).collect();
        let repeats = (1..ids.len()).any(|ix| ids[..ix].contains(&ids[ix]));
        match Correspondence::new(targets.clone()) {
            Ok(sigma) => {
                prop_assert!(!repeats);
                prop_assert_eq!(sigma.n_matched(), ids.len());
                prop_assert_eq!(sigma.targets(), &targets[..]);
            }
            Err(CorrespondenceError::NotOneToOne { target, first, second }) => {
                prop_assert!(repeats && first < second);
                prop_assert_eq!(targets[first], Target::Existing(target));
                prop_assert_eq!(targets[second], Target::Existing(target));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn what_solve_finds_is_always_a_correspondence(
        n_rows in 0usize..7, n_cols in 0usize..7, pool in prop::collection::vec(-3.0f64..3.0, 36)
    ) {
        let gains = Gains::new(n_rows, n_cols, pool[..n_rows * n_cols].to_vec());
        let ids: Vec<ComponentId> = (0..n_cols as u64).map(|id| ComponentId(100 + id)).collect();
        let columns = solve(&gains);
        let sigma = Correspondence::from_matching(&columns, &ids).unwrap();
        prop_assert_eq!(sigma.n_matched(), columns.iter().flatten().count());
    }

    #[test]
    fn by_position_joins_as_many_as_it_can(n in 0usize..9, m in 0u64..9) {
        let ids: Vec<ComponentId> = (0..m).map(ComponentId).collect();
        let sigma = Correspondence::by_position(n, &ids).unwrap();
        prop_assert_eq!(sigma.targets().len(), n);
        prop_assert_eq!(sigma.n_matched(), n.min(ids.len()));
    }
}
