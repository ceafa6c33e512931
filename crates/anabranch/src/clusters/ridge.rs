//! Uphill from a mean, and over the ridge between two components.
//!
//! ```text
//! x ← (Σ_k r_k(x) Λ_k)⁻¹ Σ_k r_k(x) Λ_k μ_k                               a step uphill, never down
//! x(a) = ((1−a)Λ_i + aΛ_j)⁻¹ ((1−a)Λ_i μ_i + aΛ_j μ_j),   0 ≤ a ≤ 1        the ridge
//! ```
//!
//! All peaks and saddles of two normals lie on their ridge (Ray and Lindsay 2005), so that the lowest density on it is that of
//! the pass between them. Other components lift the pass of the whole mixture a little above that. Near a peak Newton's steps take
//! the place of steps that have grown short.

use super::normals::{Normals, Share};
use super::saddles;
use crate::math::cholesky;

/// With more columns a matrix of all second derivatives takes more memory than a step of Newton's is worth.
const MOST_COLUMNS: usize = 512;
/// Steps uphill at most: what has not arrived by then is joined to its peak by a ridge.
const STEPS: usize = 60;
/// A step shorter than this many standard deviations has arrived.
const ARRIVED: f64 = 1e-5;
/// Peaks closer than this many standard deviations are one.
const SAME_PEAK: f64 = 0.1;
/// Peaks whose log densities differ by more are not.
const SAME_HEIGHT: f64 = 0.05;
/// Steps are lengthened while they lead up, since they grow short on flat ground.
const LONGER: f64 = 2.0;
/// A step is lengthened at most this many times.
const LONGEST: f64 = 1e4;
/// A step that was lengthened, or one of Newton's, goes at most this many standard deviations: a longer one could cross a
/// valley.
const FARTHEST: f64 = 0.3;

/// A peak.
#[derive(Clone, Debug)]
pub(super) struct Top {
    /// Log density there.
    pub(super) height: f64,
    /// The first component, from the highest peak down, that leads to the same place.
    pub(super) first: usize,
    pub(super) place: Vec<f64>,
    /// The component with the largest share of the density there.
    pub(super) strongest: usize,
}

impl Top {
    /// Whether two are the same place.
    pub(super) fn is(&self, normals: &Normals, other: &Self) -> bool {
        let apart = |by: usize| normals.distance(by, &self.place, &other.place);
        (self.height - other.height).abs() < SAME_HEIGHT
            && apart(self.strongest) < SAME_PEAK
            && apart(other.strongest) < SAME_PEAK
    }
}

/// The peak uphill of each mean.
pub(super) fn tops(normals: &Normals) -> Vec<Top> {
    let k = normals.heights().len();
    let mut tops = uphill(normals, (0..k).map(|ix| normals.mean(ix).to_vec()).collect());
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|a, b| tops[*b].height.total_cmp(&tops[*a].height).then(a.cmp(b)));
    let mut firsts: Vec<usize> = Vec::new();
    for ix in order {
        let near =
            firsts.iter().rev().take_while(|first| tops[**first].height - tops[ix].height < SAME_HEIGHT);
        let same = near.copied().filter(|first| tops[*first].is(normals, &tops[ix])).last();
        match same {
            Some(first) => (tops[ix].first, tops[ix].height) = (first, tops[first].height),
            None => {
                tops[ix].first = ix;
                firsts.push(ix);
            }
        }
    }
    tops
}

/// The peaks uphill of some places.
pub(super) fn uphill(normals: &Normals, from: Vec<Vec<f64>>) -> Vec<Top> {
    let d = normals.dimensions();
    // A plain step leads up and may yet cross a valley. Where saddles are looked for it goes no farther than others.
    let shortest = if d <= saddles::MOST_COLUMNS { 0.0 } else { 1.0 };
    let top = |place| Top { height: f64::NEG_INFINITY, first: 0, place, strongest: 0 };
    let mut tops: Vec<Top> = from.into_iter().map(top).collect();
    let mut strides: Vec<f64> = vec![1.0; tops.len()];
    // Where a plain step would have led: one that leads down is taken back to it.
    let mut plain: Vec<Vec<f64>> = tops.iter().map(|top| top.place.clone()).collect();
    let mut ahead = plain.clone();
    let mut climbing: Vec<usize> = (0..tops.len()).collect();
    for _ in 0..STEPS {
        let points: Vec<f64> = climbing.iter().flat_map(|ix| ahead[*ix].iter().copied()).collect();
        let mut on = Vec::new();
        normals.look(&points, |at, height, shares| {
            let ix = climbing[at];
            if height < tops[ix].height {
                // Plain steps never lead down: what seems to is rounding.
                if ahead[ix] != plain[ix] {
                    ahead[ix].clone_from(&plain[ix]);
                    strides[ix] = 1.0;
                    on.push(ix);
                }
                return;
            }
            let strongest = strongest(shares);
            tops[ix] = Top { height, first: 0, place: ahead[ix].clone(), strongest };
            let from = &tops[ix].place;
            normals.meeting(shares, &mut plain[ix]);
            let newton = if d <= MOST_COLUMNS {
                let (gradient, hessian) = normals.curvature(from, shares);
                down_the_bowl(d, &gradient, &hessian)
            } else {
                None
            };
            if let Some(step) = newton {
                ahead[ix].iter_mut().zip(from.iter().zip(&step)).for_each(|(to, (x, s))| *to = x + s);
                let length = normals.distance(strongest, &ahead[ix], from);
                if length > ARRIVED {
                    let part = (FARTHEST / length).min(1.0);
                    ahead[ix]
                        .iter_mut()
                        .zip(from.iter().zip(&step))
                        .for_each(|(to, (x, s))| *to = x + part * s);
                    on.push(ix);
                }
                return;
            }
            let length = normals.distance(strongest, &plain[ix], from);
            if length > ARRIVED {
                let stride = strides[ix].min(FARTHEST / length).max(shortest);
                ahead[ix]
                    .iter_mut()
                    .zip(from.iter().zip(&plain[ix]))
                    .for_each(|(to, (x, p))| *to = x + stride * (p - x));
                strides[ix] = (LONGER * stride).min(LONGEST);
                on.push(ix);
            }
        });
        climbing = on;
        if climbing.is_empty() {
            break;
        }
    }
    tops
}

pub(super) fn strongest(shares: &[Share]) -> usize {
    shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |share| share.0)
}

/// Newton's step where the log density is curved like that of one peak.
fn down_the_bowl(d: usize, gradient: &[f64], hessian: &[f64]) -> Option<Vec<f64>> {
    let bowl: Vec<f64> =
        (0..d).flat_map(|i| hessian[i * d + i..(i + 1) * d].iter().map(|value| -value)).collect();
    let mut factor = vec![0.0; bowl.len()];
    cholesky::factor(d, &bowl, &mut factor)?;
    let mut step = gradient.to_vec();
    cholesky::solve_lower(d, &factor, &mut step);
    cholesky::solve_upper(d, &factor, &mut step);
    Some(step)
}

/// Places on a ridge, as log a/(1−a): of a narrow and a wide component most of the ridge lies near one end.
const PLACES: [f64; 6] = [-5.0, -2.7, -0.9, 0.9, 2.7, 5.0];
/// Places between the two beside the lowest.
const BETWEEN: usize = 6;
/// How far beyond the outermost place the lowest may be.
const BEYOND: f64 = 2.5;

/// Bounds from above on the passes of pairs: their means, and the middle of each ridge.
pub(super) fn bounds(normals: &Normals, pairs: &[(usize, usize)]) -> Vec<f64> {
    let d = normals.dimensions();
    let mut points = vec![0.0; pairs.len() * d];
    for (pair, point) in pairs.iter().zip(points.chunks_exact_mut(d)) {
        on_ridge(normals, *pair, 0.0, point);
    }
    let mut bounds: Vec<f64> = pairs.iter().map(|pair| lower_end(normals, *pair)).collect();
    normals.look(&points, |at, height, _| bounds[at] = bounds[at].min(height));
    bounds
}

fn lower_end(normals: &Normals, (i, j): (usize, usize)) -> f64 {
    normals.heights()[i].min(normals.heights()[j])
}

/// The lowest place of a ridge among some that were looked at.
#[derive(Clone, Debug)]
pub(super) struct Lowest {
    /// Log density there.
    pub(super) height: f64,
    /// Where it is, as log a/(1−a), and the two places beside it.
    at: f64,
    beside: (f64, f64),
}

/// A first look along the ridge of a pair.
pub(super) fn first_look(normals: &Normals, pair: (usize, usize)) -> Lowest {
    let end = PLACES[PLACES.len() - 1];
    let (from, to) = ends(normals, pair, end);
    let places = PLACES.map(|place| from + (place + end) / (2.0 * end) * (to - from));
    lowest(normals, pair, &places, (from - BEYOND, to + BEYOND))
}

/// The part of a ridge, as log a/(1−a), that is worth a look: at least as far as `end` on both sides, and from one standard
/// deviation of one component to one of the other. With `z` the distance of the means in each one's standard deviations, the
/// ridge has gone the part `f` of its way where a/(1−a) = (z_i/z_j)² f/(1−f).
pub(super) fn ends(normals: &Normals, (i, j): (usize, usize), end: f64) -> (f64, f64) {
    let ln_distance = |of: usize| normals.distance(of, normals.mean(i), normals.mean(j)).max(1.0).ln();
    let (i, j) = (ln_distance(i), ln_distance(j));
    (f64::min(-end, i - 2.0 * j - 1.0), f64::max(end, 2.0 * i - j + 1.0))
}

/// The lowest of these places, which ascend between two others.
fn lowest(normals: &Normals, pair: (usize, usize), places: &[f64], ends: (f64, f64)) -> Lowest {
    let d = normals.dimensions();
    let mut points = vec![0.0; places.len() * d];
    for (u, point) in places.iter().zip(points.chunks_exact_mut(d)) {
        on_ridge(normals, pair, *u, point);
    }
    let mut found = Lowest { height: f64::INFINITY, at: 0.0, beside: ends };
    normals.look(&points, |ix, height, _| {
        if height < found.height {
            let left = ix.checked_sub(1).map_or(ends.0, |ix| places[ix]);
            let right = places.get(ix + 1).copied().unwrap_or(ends.1);
            found = Lowest { height, at: places[ix], beside: (left, right) };
        }
    });
    found
}

/// The log density of the pass between two components, from a first look along their ridge.
pub(super) fn pass(normals: &Normals, pair: (usize, usize), found: &Lowest) -> f64 {
    let (left, right) = found.beside;
    let half = |from: f64, to: f64| {
        (1..=BETWEEN / 2).map(move |ix| from + (to - from) * ix as f64 / (BETWEEN / 2 + 1) as f64)
    };
    let places: Vec<f64> = half(left, found.at).chain(half(found.at, right)).collect();
    let nearer = lowest(normals, pair, &places, found.beside);
    // A ridge that falls towards its end has no pass of its own: the way from the end up is the peak's.
    nearer.height.min(found.height).min(lower_end(normals, pair))
}

pub(super) fn on_ridge(normals: &Normals, (i, j): (usize, usize), u: f64, out: &mut [f64]) {
    // Near an end, what is left of 1 has no digits.
    let (of_i, of_j) = (1.0 / (1.0 + u.exp()), 1.0 / (1.0 + (-u).exp()));
    normals.meeting(&[(i, of_i), (j, of_j)], out);
}
