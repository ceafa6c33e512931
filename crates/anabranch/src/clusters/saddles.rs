//! The saddles of the whole mixture, where there are few columns.
//!
//! Every valley of the density along a ridge is where Newton's steps to a place without slope begin. Such a place is a saddle
//! when the density rises from it in one direction alone; the ways uphill on both sides lead to the two peaks that it lies between.

use faer::linalg::solvers::Solve;
use faer::{Col, MatRef, Side};

use super::normals::Normals;
use super::ridge::{Top, ends, on_ridge, strongest, uphill};
use super::union::Groups;

/// Columns up to which saddles are looked for.
pub(super) const MOST_COLUMNS: usize = 3;
/// Places on a ridge, as log a/(1−a) from one end to the other: of a narrow and a wide component most of it lies near one end.
const PLACES: usize = 96;
const END: f64 = 10.0;
/// Places that close in on the lowest of a valley, until they are this close.
const CLOSER: usize = 12;
const CLOSE: f64 = 1e-3;
/// Newton's steps at most.
const STEPS: usize = 16;
/// A step shorter than this many standard deviations has arrived.
const ARRIVED: f64 = 1e-6;
/// Saddles closer than this many standard deviations are one.
const SAME: f64 = 1e-3;
/// How far beside a saddle the ways up begin, in standard deviations.
const BESIDE: f64 = 0.02;

/// A saddle between two peaks, each named by the first component that leads to it.
pub(super) struct Saddle {
    pub(super) pair: (usize, usize),
    pub(super) height: f64,
}

/// The peaks that some mean leads to and those that the ways up from saddles lead to besides; and the saddles near the ridges of
/// these pairs, from the highest down: their heights and the two peaks that each lies between.
pub(super) fn peaks_and_saddles(
    normals: &Normals,
    tops: &[Top],
    pairs: &[(usize, usize)],
) -> (Vec<Top>, Vec<(f64, usize, usize)>) {
    let mut peaks: Vec<Top> =
        (0..tops.len()).filter(|ix| tops[*ix].first == *ix).map(|ix| tops[ix].clone()).collect();
    let mut seen: Vec<Vec<f64>> = Vec::new();
    let mut found = Vec::new();
    for pair in pairs {
        let on_ridge = |u: f64, out: &mut [f64]| on_ridge(normals, *pair, u, out);
        let (one, other) = (&tops[pair.0].place, &tops[pair.1].place);
        let straight = |part: f64, out: &mut [f64]| {
            out.iter_mut().zip(one.iter().zip(other)).for_each(|(x, (a, b))| *x = a + part * (b - a));
        };
        let mut from = valleys(normals, ends(normals, *pair, END), CLOSE, on_ridge);
        // Other components may have moved the saddle away from the ridge: a valley between the peaks is another start.
        from.extend(valleys(normals, (0.0, 1.0), CLOSE / END, straight));
        for from in from {
            let Some((height, place, by)) = without_slope(normals, &from) else { continue };
            if seen.iter().any(|other| normals.distance(by, other, &place) < SAME) {
                continue;
            }
            let beside = beside(normals, &place);
            seen.push(place);
            let Some(beside) = beside else { continue };
            let mut ends = uphill(normals, beside.into()).into_iter().map(|end| {
                let known = peaks.iter().position(|peak| peak.is(normals, &end));
                known.unwrap_or_else(|| {
                    peaks.push(Top { first: usize::MAX, ..end });
                    peaks.len() - 1
                })
            });
            if let (Some(one), Some(other)) = (ends.next(), ends.next()) {
                found.push((height, one, other));
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    (peaks, found)
}

/// The saddles near the ridges of these pairs, from the highest down, one between any two peaks that no higher ones connect.
pub(super) fn saddles(normals: &Normals, tops: &[Top], pairs: &[(usize, usize)]) -> Vec<Saddle> {
    let (peaks, found) = peaks_and_saddles(normals, tops, pairs);
    // A peak that no mean leads to is a place on the way between others.
    let mut groups = Groups::new(peaks.len());
    let mut stands_for: Vec<usize> = peaks.iter().map(|peak| peak.first).collect();
    let mut saddles = Vec::new();
    for (height, one, other) in found {
        let [a, b] = [one, other].map(|peak| stands_for[groups.find(peak)]);
        if groups.unite(one, other) {
            stands_for[groups.find(one)] = a.min(b);
            if a < tops.len() && b < tops.len() {
                // The peaks on both sides, or who stands for a peak that no mean leads to.
                let leaf = |peak: usize, group| {
                    Some(peaks[peak].first).filter(|leaf| *leaf < tops.len()).unwrap_or(group)
                };
                saddles.push(Saddle { pair: (leaf(one, a), leaf(other, b)), height });
            }
        }
    }
    saddles
}

/// The places where the density along a way is lower than on both sides, each to within `close`.
fn valleys(
    normals: &Normals,
    (from, to): (f64, f64),
    close: f64,
    way: impl Fn(f64, &mut [f64]),
) -> Vec<Vec<f64>> {
    let step = (to - from) / (PLACES - 1) as f64;
    let (_, heights) = along(normals, from, step, PLACES, &way);
    let inner =
        (1..PLACES - 1).filter(|ix| heights[*ix] < heights[ix - 1] && heights[*ix] <= heights[ix + 1]);
    inner.map(|ix| lowest(normals, from + step * ix as f64, step, close, &way)).collect()
}

/// The lowest place of a valley.
fn lowest(
    normals: &Normals,
    mut at: f64,
    mut step: f64,
    close: f64,
    way: &impl Fn(f64, &mut [f64]),
) -> Vec<f64> {
    let d = normals.dimensions();
    loop {
        let width = 2.0 * step / (CLOSER + 1) as f64;
        let (points, heights) = along(normals, at - step + width, width, CLOSER, way);
        let least = (0..CLOSER).min_by(|a, b| heights[*a].total_cmp(&heights[*b])).unwrap_or(0);
        at += width * (least + 1) as f64 - step;
        step = width;
        if width < close {
            return points[least * d..][..d].to_vec();
        }
    }
}

/// Places at even steps along a way, and their log densities.
fn along(
    normals: &Normals,
    from: f64,
    step: f64,
    n: usize,
    way: &impl Fn(f64, &mut [f64]),
) -> (Vec<f64>, Vec<f64>) {
    let d = normals.dimensions();
    let mut points = vec![0.0; n * d];
    for (ix, point) in points.chunks_exact_mut(d).enumerate() {
        way(from + step * ix as f64, point);
    }
    let mut heights = Vec::with_capacity(n);
    normals.look(&points, |_, height, _| heights.push(height));
    (points, heights)
}

/// A place without slope near `from`, by Newton's steps of at most one standard deviation, with its log density and its
/// strongest component.
fn without_slope(normals: &Normals, from: &[f64]) -> Option<(f64, Vec<f64>, usize)> {
    let d = from.len();
    let mut point = from.to_vec();
    for _ in 0..STEPS {
        let (height, shares) = normals.look_at(&point);
        let (gradient, hessian) = normals.curvature(&point, &shares);
        let matrix = MatRef::from_row_major_slice(&hessian, d, d);
        let step = matrix.partial_piv_lu().solve(&Col::from_fn(d, |ix| -gradient[ix]));
        let ahead: Vec<f64> = (0..d).map(|ix| point[ix] + step[ix]).collect();
        let by = strongest(&shares);
        let length = normals.distance(by, &ahead, &point);
        if !length.is_finite() {
            return None;
        }
        if length < ARRIVED {
            return Some((height, ahead, by));
        }
        let part = (1.0 / length).min(1.0);
        (0..d).for_each(|ix| point[ix] += part * step[ix]);
    }
    None
}

/// Two places a little higher than a saddle, on both sides; `None` for what is no saddle.
fn beside(normals: &Normals, place: &[f64]) -> Option<[Vec<f64>; 2]> {
    let d = place.len();
    let (_, shares) = normals.look_at(place);
    let (_, hessian) = normals.curvature(place, &shares);
    let eigen = MatRef::from_row_major_slice(&hessian, d, d).self_adjoint_eigen(Side::Lower).ok()?;
    // Ascending: a saddle rises in one direction, the last.
    let values = eigen.S().column_vector();
    if !(values[d - 1] > 0.0 && (d == 1 || values[d - 2] < 0.0)) {
        return None;
    }
    let rises = eigen.U().col(d - 1);
    let end: Vec<f64> = (0..d).map(|ix| place[ix] + rises[ix]).collect();
    let step = BESIDE / normals.distance(strongest(&shares), &end, place);
    Some([1.0, -1.0].map(|sign| (0..d).map(|ix| place[ix] + sign * step * rises[ix]).collect()))
}
