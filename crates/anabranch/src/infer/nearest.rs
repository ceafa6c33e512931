//! The nearest of many centres, for each of many points.
//!
//! ```text
//! |x − c|² / 2 = |x|² / 2 − ( c · x − |c|² / 2 ):    the nearest centre has the largest score
//! ```
//!
//! Scores are a product like that of the E-step, with `T(x) = (1, x)` and `φ = (−|c|²/2, c)`, and are ruled out in single precision
//! as there.

use pulp::{Arch, Simd, WithSimd};

use super::Precision;
use super::narrow::{Narrow, Scored};
use crate::math::product::rows_times_parameters;
use crate::math::softmax::max_of;
use crate::parallel;

/// Products of points and centres that are held at a time: they stay in the cache.
const PRODUCTS: usize = 32_768;

/// Points, and the memory that it takes to find their nearest centres again and again.
pub(super) struct Nearest {
    points: Vec<f64>,
    centres: Vec<f64>,
    n_features: usize,
    precision: Precision,
    narrow: Narrow,
    nearest: Vec<usize>,
}

impl Nearest {
    /// Points of `m` coordinates each.
    pub(super) fn new(points: &[f64], m: usize, precision: Precision) -> Self {
        let points: Vec<f64> = points.chunks_exact(m).flat_map(|x| with_first(1.0, x)).collect();
        let nearest = vec![0; points.len() / (m + 1)];
        Self { points, centres: Vec::new(), n_features: m + 1, precision, narrow: Narrow::default(), nearest }
    }

    /// The nearest of these centres for each point; of equally near ones the first.
    pub(super) fn join(&mut self, centres: &[f64]) -> &[usize] {
        let Self { points, centres: phi, n_features, precision, narrow, nearest } = self;
        let f = *n_features;
        let k = centres.len() / (f - 1);
        phi.clear();
        for centre in centres.chunks_exact(f - 1) {
            phi.extend(with_first(-0.5 * centre.iter().map(|v| v * v).sum::<f64>(), centre));
        }
        let ln_weights = vec![0.0; k];
        let scored = Scored { features: points, phi, ln_weights: &ln_weights, n_features: f };
        let narrows = *precision == Precision::Mixed;
        if narrows {
            narrow.prepare(scored);
        }
        let at_a_time = (PRODUCTS / k).max(1);
        let blocks = points.chunks(at_a_time * f).zip(nearest.chunks_mut(at_a_time));
        parallel::each(blocks, 1, |(features, nearest)| {
            if narrows && narrow.largest(Scored { features, ..scored }, nearest) {
                return;
            }
            parallel::with_buffer(nearest.len() * k, |products| {
                rows_times_parameters(features, phi, f, products);
                Arch::new().dispatch(Closest { products, k, nearest });
            });
        });
        nearest
    }
}

/// A row with one more entry before the others.
fn with_first(first: f64, row: &[f64]) -> impl Iterator<Item = f64> {
    std::iter::once(first).chain(row.iter().copied())
}

/// Takes the closest of the centres from the scores of all of them.
struct Closest<'a> {
    products: &'a [f64],
    k: usize,
    nearest: &'a mut [usize],
}

impl WithSimd for Closest<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        for (row, nearest) in self.products.chunks_exact(self.k).zip(self.nearest) {
            *nearest = position_of(row, max_of(row));
        }
    }
}

/// Where a value stands in a row; 0 where it does not.
#[inline(always)]
fn position_of(row: &[f64], value: f64) -> usize {
    const TOGETHER: usize = 16;
    let piece = |piece: &[f64]| piece.iter().fold(false, |any, other| any | (*other == value));
    let first = row.chunks(TOGETHER).position(piece).unwrap_or(0) * TOGETHER;
    row[first..].iter().position(|other| *other == value).map_or(0, |ix| first + ix)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn the_nearest_is_that_of_a_plain_loop_in_either_precision_near_and_far_from_the_origin() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        let mut normals = |n: usize, offset: f64| -> Vec<f64> {
            (0..n)
                .map(|_| {
                    let z: f64 = StandardNormal.sample(rng);
                    offset + z
                })
                .collect()
        };
        for (m, offset) in [(1, 0.0), (2, 3.0), (20, 0.0), (20, 1e5), (3, 1e9)] {
            let (points, centres) = (normals(150 * m, offset), normals(40 * m, offset));
            let distance = |row: usize, ix: usize| -> f64 {
                (0..m).map(|i| (points[row * m + i] - centres[ix * m + i]).powi(2)).sum()
            };
            // Products of numbers so far from 0 keep only some digits of a distance.
            let kept = 1e-13 * (1.0 + offset * offset) * m as f64;
            for precision in [Precision::Mixed, Precision::Double] {
                let mut nearest = Nearest::new(&points, m, precision);
                for (row, found) in nearest.join(&centres).iter().enumerate() {
                    let least = (0..40).map(|ix| distance(row, ix)).fold(f64::INFINITY, f64::min);
                    assert!(distance(row, *found) <= least + kept, "{m} {offset} {precision:?}");
                }
            }
        }
    }
}
