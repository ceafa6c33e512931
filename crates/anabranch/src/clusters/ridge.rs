//! Uphill from a mean, and over the ridge between two components.
//!
//! ```text
//! x ← (Σ_k r_k(x) Λ_k)⁻¹ Σ_k r_k(x) Λ_k μ_k                               a step uphill, never down
//! x(a) = ((1−a)Λ_i + aΛ_j)⁻¹ ((1−a)Λ_i μ_i + aΛ_j μ_j),   0 ≤ a ≤ 1        the ridge
//! ```
//!
//! All peaks and saddles of two normals lie on their ridge (Ray and Lindsay 2005), so that the lowest density on it is that of
//! the pass between them. Where other components have a say at that place, Newton's steps lead from it to the pass of the
//! whole mixture.

use faer::linalg::solvers::Solve;
use faer::{Col, MatRef};

use super::normals::Normals;

/// Steps uphill at most: what has not arrived by then is joined to its peak by a ridge.
const STEPS: usize = 40;
/// A step shorter than this many standard deviations has arrived.
const ARRIVED: f64 = 1e-3;
/// Peaks closer than this many standard deviations are one.
const SAME_PEAK: f64 = 0.1;
/// Steps are lengthened while they lead up, since they grow short on flat ground.
const LONGER: f64 = 1.5;
/// A step is lengthened at most this many times.
const LONGEST: f64 = 16.0;

/// A step that was lengthened goes at most this many standard deviations: a longer one could cross a valley.
const FARTHEST: f64 = 0.3;

/// Where a component's rows lead uphill.
#[derive(Clone, Debug)]
pub(super) struct Top {
    /// Log density there.
    pub(super) height: f64,
    /// The first component, from the highest peak down, that leads to the same place.
    pub(super) first: usize,
}

/// The peak uphill of each mean.
pub(super) fn tops(normals: &Normals) -> Vec<Top> {
    let (d, k) = (normals.dimensions(), normals.heights().len());
    let mut places: Vec<Vec<f64>> = (0..k).map(|ix| normals.mean(ix).to_vec()).collect();
    let mut heights = normals.heights().to_vec();
    let mut strides: Vec<f64> = vec![1.0; k];
    // Where a plain step would have led: a longer one that leads down is taken back to it.
    let mut plain = places.clone();
    let mut climbing: Vec<usize> = (0..k).collect();
    for step in 0..STEPS {
        let points: Vec<f64> = climbing.iter().flat_map(|ix| places[*ix].iter().copied()).collect();
        let found = normals.shares_of_many(&points);
        let mut on = Vec::new();
        for (ix, (height, shares)) in climbing.into_iter().zip(found) {
            if step > 0 && height < heights[ix] {
                places[ix].clone_from(&plain[ix]);
                strides[ix] = 1.0;
                on.push(ix);
                continue;
            }
            heights[ix] = height;
            let mut next = vec![0.0; d];
            normals.meeting(&shares, &mut next);
            let strongest = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(ix, |share| share.0);
            let length = normals.distance(strongest, &next, &places[ix]);
            if length > ARRIVED {
                let stride = strides[ix].min(FARTHEST / length).max(1.0);
                let ahead = places[ix].iter().zip(&next).map(|(from, to)| from + stride * (to - from));
                places[ix] = ahead.collect();
                plain[ix] = next;
                strides[ix] = (LONGER * stride).min(LONGEST);
                on.push(ix);
            }
        }
        climbing = on;
        if climbing.is_empty() {
            break;
        }
    }
    gathered(normals, &places, &heights)
}

/// Peaks at the same place are one, named by the first component that leads there.
fn gathered(normals: &Normals, places: &[Vec<f64>], heights: &[f64]) -> Vec<Top> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| heights[*b].total_cmp(&heights[*a]).then(a.cmp(b)));
    let mut firsts: Vec<usize> = Vec::new();
    let mut first_of = vec![0; places.len()];
    for ix in order {
        let same = |first: &usize| {
            let apart = |by: usize| normals.distance(by, &places[ix], &places[*first]);
            apart(ix) < SAME_PEAK && apart(*first) < SAME_PEAK
        };
        first_of[ix] = firsts.iter().copied().find(|first| same(first)).unwrap_or_else(|| {
            firsts.push(ix);
            ix
        });
    }
    first_of.iter().map(|first| Top { height: heights[*first], first: *first }).collect()
}

/// Places on a ridge that are looked at first, as log a/(1−a).
const FIRST: [f64; 3] = [-1.5, 0.0, 1.5];
/// Places that are looked at where it matters: of a narrow and a wide component most of the ridge lies near one end.
const CLOSER: [f64; 9] = [-7.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 7.0];
/// Places between the two beside the lowest.
const CLOSEST: usize = 7;
/// How often the places close in on the lowest, each time to a quarter.
const ROUNDS: usize = 2;
/// Below this share of all others at the lowest place, the ridge of two is that of all.
const OTHERS: f64 = 0.01;
/// What Newton's steps may find below the lowest place that was looked at: the lowest lies between two places.
const BETWEEN: f64 = 0.1;
/// Columns up to which Newton's steps cost nothing and are always made.
const FEW_COLUMNS: usize = 3;
/// Newton's steps at most.
const NEWTON: usize = 8;
/// Columns beyond which no steps are made: they cost the third power.
const NEWTON_COLUMNS: usize = 64;

/// Bounds from above on the passes of pairs: the lowest of a few places on each ridge.
pub(super) fn bounds(normals: &Normals, pairs: &[(usize, usize)]) -> Vec<f64> {
    let d = normals.dimensions();
    let mut points = vec![0.0; pairs.len() * FIRST.len() * d];
    let places = pairs.iter().flat_map(|pair| FIRST.iter().map(move |u| (*pair, *u)));
    for ((pair, u), point) in places.zip(points.chunks_exact_mut(d)) {
        on_ridge(normals, pair, u, point);
    }
    let heights = normals.ln_densities(&points);
    let lowest = |chunk: &[f64]| chunk.iter().copied().fold(f64::INFINITY, f64::min);
    let ends = |(i, j): &(usize, usize)| normals.heights()[*i].min(normals.heights()[*j]);
    pairs
        .iter()
        .zip(heights.chunks_exact(FIRST.len()))
        .map(|(pair, all)| lowest(all).min(ends(pair)))
        .collect()
}

/// The log density of the pass between two components, whose peaks have these heights.
pub(super) fn pass(normals: &Normals, pair: (usize, usize), peaks: (f64, f64)) -> f64 {
    let d = normals.dimensions();
    let look = |places: &[f64]| {
        let mut points = vec![0.0; places.len() * d];
        for (u, point) in places.iter().zip(points.chunks_exact_mut(d)) {
            on_ridge(normals, pair, *u, point);
        }
        let heights = normals.ln_densities(&points);
        let lowest = (0..places.len()).min_by(|a, b| heights[*a].total_cmp(&heights[*b])).unwrap_or(0);
        (lowest, heights[lowest], points[lowest * d..][..d].to_vec())
    };
    let (at, mut lowest, mut point) = look(&CLOSER);
    let step = |ix: usize| CLOSER.get(ix).copied();
    let mut left = at.checked_sub(1).and_then(step).unwrap_or(CLOSER[at] - 2.0);
    let mut right = step(at + 1).unwrap_or(CLOSER[at] + 2.0);
    for _ in 0..ROUNDS {
        let width = (right - left) / (CLOSEST + 1) as f64;
        let between: Vec<f64> = (1..=CLOSEST).map(|ix| left + width * ix as f64).collect();
        let (at, height, nearer) = look(&between);
        if height < lowest {
            (lowest, point) = (height, nearer);
        }
        (left, right) = (between[at] - width, between[at] + width);
    }
    let (i, j) = pair;
    let end = normals.heights()[i].min(normals.heights()[j]);
    // A ridge that falls towards its end has no pass of its own: the way from the end up is the peak's.
    if end <= lowest {
        return end;
    }
    let ours: f64 = normals.shares(&point).iter().filter(|s| s.0 == i || s.0 == j).map(|s| s.1).sum();
    if d > FEW_COLUMNS && (1.0 - ours < OTHERS || d > NEWTON_COLUMNS) {
        return lowest;
    }
    match stationary(normals, &point) {
        Some(height) if height >= lowest - BETWEEN && height <= peaks.0.min(peaks.1) => height,
        _ => lowest,
    }
}

fn on_ridge(normals: &Normals, (i, j): (usize, usize), u: f64, out: &mut [f64]) {
    let a = 1.0 / (1.0 + (-u).exp());
    normals.meeting(&[(i, 1.0 - a), (j, a)], out);
}

/// The log density of a place without slope near `from`, by Newton's steps of at most one standard deviation.
fn stationary(normals: &Normals, from: &[f64]) -> Option<f64> {
    let d = from.len();
    let mut point = from.to_vec();
    for _ in 0..NEWTON {
        let (gradient, hessian) = normals.curvature(&point);
        let matrix = MatRef::from_row_major_slice(&hessian, d, d);
        let right = Col::from_fn(d, |ix| -gradient[ix]);
        let step = matrix.partial_piv_lu().solve(&right);
        let step: Vec<f64> = (0..d).map(|ix| step[ix]).collect();
        if !step.iter().all(|value| value.is_finite()) {
            return None;
        }
        let ahead: Vec<f64> = point.iter().zip(&step).map(|(x, s)| x + s).collect();
        let strongest = normals.shares(&point).into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?.0;
        let length = normals.distance(strongest, &ahead, &point);
        if length > 1.0 {
            point.iter_mut().zip(&step).for_each(|(x, s)| *x += s / length);
            continue;
        }
        point = ahead;
        if length < ARRIVED * ARRIVED {
            return normals.ln_densities(&point).first().copied();
        }
    }
    None
}
