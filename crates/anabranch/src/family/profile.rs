//! Upper bounds of a quadratic score from its first coordinates: the others are chosen as well as they can be.
//!
//! ```text
//! φ · T(x) = c + bᵀx − ½xᵀPx  ≤  max over x_p, …, x_{D−1}  =  c' + b'ᵀy − ½yᵀP'y      with y = (x_0, …, x_{p−1})
//! c' = c + b_r²/2P_rr,   b' = b − b_r P_·r/P_rr,   P' = P − P_·r P_r·/P_rr              for one coordinate r at a time
//! ```
//!
//! `P'` is the precision of the first coordinates alone. The bound has the features `(1, y, upper triangle of yyᵀ)`, which
//! are some of those of the score.

use crate::math::cholesky::{packed_len, row_start, with_scratch};

/// Below this many columns scores are cheap enough.
const LEAST_COLUMNS: usize = 8;
/// Coordinates of the bound: two fifths of all, but not more than this.
const MOST_COORDINATES: usize = 12;

/// Coordinates that the bound keeps, of `d`; 0 where there is no use in it.
pub(super) fn coordinates(d: usize) -> usize {
    if d < LEAST_COLUMNS { 0 } else { (2 * d / 5).min(MOST_COORDINATES) }
}

/// Features of the bound.
pub(super) fn n_features(d: usize) -> usize {
    match coordinates(d) {
        0 => 0,
        p => 1 + p + packed_len(p),
    }
}

/// Takes the features of the bound from all features.
pub(super) fn features(d: usize, all: &[f64], out: &mut [f64]) {
    let p = coordinates(d);
    out[..=p].copy_from_slice(&all[..=p]);
    let mut to = 1 + p;
    for row in 0..p {
        let from = 1 + d + row_start(d, row);
        out[to..to + p - row].copy_from_slice(&all[from..from + p - row]);
        to += p - row;
    }
}

/// Writes the parameters of the bound.
pub(super) fn parameters(d: usize, phi: &[f64], out: &mut [f64]) {
    let p = coordinates(d);
    with_scratch(d + packed_len(d), |scratch| {
        let (b, precision) = scratch.split_at_mut(d);
        b.copy_from_slice(&phi[1..=d]);
        for row in 0..d {
            let at = row_start(d, row);
            let entries = &phi[1 + d + at..1 + d + at + d - row];
            precision[at] = -2.0 * entries[0];
            precision[at + 1..at + d - row].iter_mut().zip(&entries[1..]).for_each(|(p, e)| *p = -e);
        }
        let mut constant = phi[0];
        for last in (p..d).rev() {
            constant += eliminate(d, last, b, precision);
        }
        out[0] = constant;
        out[1..=p].copy_from_slice(&b[..p]);
        let mut to = 1 + p;
        for row in 0..p {
            let at = row_start(d, row);
            out[to] = -0.5 * precision[at];
            out[to + 1..to + p - row].iter_mut().zip(&precision[at + 1..]).for_each(|(o, e)| *o = -e);
            to += p - row;
        }
    });
}

/// Chooses coordinate `r` as well as can be; returns what that adds to the constant.
fn eliminate(d: usize, r: usize, b: &mut [f64], precision: &mut [f64]) -> f64 {
    let pivot = precision[row_start(d, r)];
    let share_of_b = b[r] / pivot;
    for i in 0..r {
        let at = row_start(d, i);
        let coupling = precision[at + r - i];
        b[i] -= coupling * share_of_b;
        let share = coupling / pivot;
        for j in i..r {
            precision[at + j - i] -= share * precision[row_start(d, j) + r - j];
        }
    }
    0.5 * b[r] * share_of_b
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const D: usize = 10;

    /// Features of a row, and the parameters of a quadratic score with a peak.
    fn features_of(x: &[f64]) -> Vec<f64> {
        let products = (0..D).flat_map(|i| (i..D).map(move |j| (i, j))).map(|(i, j)| x[i] * x[j]);
        std::iter::once(1.0).chain(x.iter().copied()).chain(products).collect()
    }

    /// `3 − ½|A(x − m)|²`, with a random `A`, and where its peak is.
    fn score(rng: &mut Xoshiro256PlusPlus) -> (Vec<f64>, Vec<f64>) {
        let a: Vec<f64> = (0..D * D).map(|_| rng.random_range(-1.0..1.0)).collect();
        let m: Vec<f64> = (0..D).map(|_| rng.random_range(-2.0..2.0)).collect();
        let p = |i: usize, j: usize| {
            (0..D).map(|k| a[k * D + i] * a[k * D + j]).sum::<f64>() + if i == j { 0.1 } else { 0.0 }
        };
        let linear: Vec<f64> = (0..D).map(|i| (0..D).map(|j| p(i, j) * m[j]).sum()).collect();
        let square: f64 = linear.iter().zip(&m).map(|(l, m)| l * m).sum();
        let mut phi = vec![3.0 - 0.5 * square];
        phi.extend(&linear);
        for i in 0..D {
            phi.extend((i..D).map(|j| if i == j { -0.5 * p(i, j) } else { -p(i, j) }));
        }
        (phi, m)
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_bound_is_above_every_score_and_touches_the_peak() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(3);
        for _ in 0..20 {
            let (phi, peak) = score(rng);
            let mut bound = vec![0.0; n_features(D)];
            parameters(D, &phi, &mut bound);
            let bound_at = |x: &[f64]| {
                let mut kept = vec![0.0; n_features(D)];
                features(D, &features_of(x), &mut kept);
                dot(&bound, &kept)
            };
            assert!((bound_at(&peak) - 3.0).abs() < 1e-9, "at its peak a score is its own bound");
            for _ in 0..200 {
                let x: Vec<f64> = (0..D).map(|_| rng.random_range(-3.0..3.0)).collect();
                assert!(bound_at(&x) >= dot(&phi, &features_of(&x)) - 1e-9);
            }
        }
    }

    #[test]
    fn the_bound_is_the_best_that_the_other_coordinates_allow() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(4);
        let (phi, _) = score(rng);
        let mut bound = vec![0.0; n_features(D)];
        parameters(D, &phi, &mut bound);
        let mut x: Vec<f64> = (0..D).map(|_| rng.random_range(-1.0..1.0)).collect();
        // Climb coordinate by coordinate: a parabola through three points has its peak in the middle formula.
        for _ in 0..5000 {
            for r in coordinates(D)..D {
                let mut at = |value: f64| {
                    x[r] = value;
                    dot(&phi, &features_of(&x))
                };
                let (low, middle, high) = (at(-1.0), at(0.0), at(1.0));
                x[r] = 0.5 * (high - low) / (2.0 * middle - high - low);
            }
        }
        let mut kept = vec![0.0; n_features(D)];
        features(D, &features_of(&x), &mut kept);
        assert!((dot(&bound, &kept) - dot(&phi, &features_of(&x))).abs() < 1e-6);
    }

    #[test]
    fn few_columns_have_no_bound() {
        assert_eq!((n_features(2), n_features(7)), (0, 0));
        assert_eq!(n_features(20), 45);
    }
}
