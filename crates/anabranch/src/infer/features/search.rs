//! How many features, and which: births from what is unexplained, removals and subtractions, kept when the objective rises.
//!
//! A row is a sum of features, so the rows with the least that is unexplained, and yet more than noise, are those that miss
//! a single feature: births start from them. What was found as a sum of two features is mended by subtracting one.

use rand::{Rng, RngExt};

use super::state::{State, dot};

/// A new feature that less than this many rows have is removed.
const LEAST_ROWS: f64 = 1.0;
/// Sweeps after each try, at most.
const SETTLE: usize = 6;
/// A try is given up when what it lacks is more than this many times what the last sweep gained.
const HOPE: f64 = 1.0;
/// Sweeps at the end of a round.
const FINISH: usize = 5;
/// Births in a row that may fail.
const FAILURES: usize = 6;
/// A row is unexplained beyond noise when its square exceeds its expectation by this many standard deviations.
const BEYOND_NOISE: f64 = 2.0;
/// Rows count as alike when their squared distance is within this many standard deviations of noise.
const ALIKE: f64 = 3.0;
/// Rounds of births, removals and subtractions.
const ROUNDS: usize = 30;
/// An objective has risen when it is higher by this.
const RISE: f64 = 1e-6;

/// Which variances are learned on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variances {
    /// Both.
    Learned,
    /// Neither.
    Given,
}

/// Opens features for as long as that raises the objective; returns how many.
pub(super) fn births(state: &mut State<'_>, most: usize, failures: usize, rng: &mut impl Rng) -> usize {
    let mut objective = state.objective();
    let (mut opened, mut failed) = (0, 0);
    while opened < most && failed < failures {
        let Some((mean, rows)) = candidate(state, failed < failures.div_ceil(2), rng) else { break };
        let mut with = state.clone();
        with.open(mean, rows);
        match rises_above(&mut with, objective) {
            Some(now) => {
                (*state, objective) = (with, now);
                opened += 1;
                failed = 0;
            }
            None => failed += 1,
        }
    }
    opened
}

/// Sweeps until the objective is above another one, and returns it; `None` when it cannot be expected to rise so far.
fn rises_above(state: &mut State<'_>, objective: f64) -> Option<f64> {
    let mut last = state.objective();
    for _ in 0..SETTLE {
        state.sweep();
        drop_empty(state);
        let now = state.objective();
        if now > objective + RISE {
            return Some(now);
        }
        if objective - now > HOPE * (now - last) {
            return None;
        }
        last = now;
    }
    None
}

/// A vector that some rows miss, and how many rows: the mean of what is unexplained of rows that are alike.
fn candidate(state: &State<'_>, least: bool, rng: &mut impl Rng) -> Option<(Vec<f64>, f64)> {
    let d = state.family.dimensions();
    let noise = state.family.noise();
    let spread = (2.0 * d as f64).sqrt();
    let remainders = state.remainders();
    let rows: Vec<&[f64]> = remainders.chunks_exact(d).collect();
    let mut unexplained: Vec<(f64, usize)> = rows
        .iter()
        .enumerate()
        .map(|(row, residual)| (dot(residual, residual) / noise, row))
        .filter(|(square, _)| *square > d as f64 + BEYOND_NOISE * spread)
        .collect();
    if unexplained.is_empty() {
        return None;
    }
    unexplained.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let among = if least { unexplained.len().div_ceil(4) } else { unexplained.len() };
    let mut mean = rows[unexplained[rng.random_range(0..among)].1].to_vec();
    let mut alike = 1.0;
    // The first look compares two noisy rows, the others a row with a mean.
    for noises in [2.0, 1.0, 1.0] {
        let near = noises * (d as f64 + ALIKE * spread);
        let close: Vec<&&[f64]> = rows
            .iter()
            .filter(|row| {
                let distance: f64 = row.iter().zip(&mean).map(|(r, m)| (r - m) * (r - m)).sum();
                distance / noise < near
            })
            .collect();
        if close.is_empty() {
            break;
        }
        alike = close.len() as f64;
        let mut sum = vec![0.0; d];
        close.iter().for_each(|row| sum.iter_mut().zip(**row).for_each(|(sum, r)| *sum += r));
        mean = sum.into_iter().map(|sum| sum / alike).collect();
    }
    Some((mean, alike))
}

/// Removes new features that hold less than a row.
pub(super) fn drop_empty(state: &mut State<'_>) {
    let counts = state.sums().counts.clone();
    for (ix, _) in counts.iter().enumerate().rev().filter(|(_, count)| **count < LEAST_ROWS) {
        if state.is_new(ix) {
            state.remove(ix);
        }
    }
}

/// Finds the features of the rows, from those that the state begins with; returns the objective.
pub(super) fn search(state: &mut State<'_>, most: usize, variances: Variances, rng: &mut impl Rng) -> f64 {
    for _ in 0..ROUNDS {
        let mut changed = births(state, most.saturating_sub(state.features.len()), FAILURES, rng) > 0;
        settle(state, variances);
        changed |= removals(state) > 0;
        changed |= subtractions(state) > 0;
        settle(state, variances);
        if !changed {
            break;
        }
    }
    state.objective()
}

fn settle(state: &mut State<'_>, variances: Variances) {
    (0..FINISH).for_each(|_| state.sweep());
    if variances == Variances::Learned {
        state.learn_noise();
        state.learn_scale();
    }
    drop_empty(state);
}

/// Removes features that the rows explain better without.
fn removals(state: &mut State<'_>) -> usize {
    let (mut removed, mut ix) = (0, 0);
    let mut objective = state.objective();
    while ix < state.features.len() {
        let mut without = state.clone();
        without.remove(ix);
        match rises_above(&mut without, objective) {
            Some(now) => {
                (*state, objective) = (without, now);
                removed += 1;
            }
            None => ix += 1,
        }
    }
    removed
}

/// Subtracts one feature from another where that raises the objective: once, among the pairs that are most alike.
fn subtractions(state: &mut State<'_>) -> usize {
    let k = state.features.len();
    let objective = state.objective();
    let norms: Vec<f64> = state.features.iter().map(|f| dot(&f.mean, &f.mean).sqrt()).collect();
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for from in 0..k {
        for part in (0..k).filter(|part| *part != from) {
            let product = dot(&state.features[from].mean, &state.features[part].mean);
            let alike = product.abs() / (norms[from] * norms[part]).max(f64::MIN_POSITIVE);
            pairs.push((alike, from, part));
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    for (_, from, part) in pairs.into_iter().take(k) {
        let mut split = state.clone();
        split.subtract(from, part);
        if rises_above(&mut split, objective).is_some() {
            *state = split;
            return 1;
        }
    }
    0
}
