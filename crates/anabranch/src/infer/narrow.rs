//! Scores in single precision: they rule components out, and nothing else.
//!
//! ```text
//! | fl(φ_k · T(x)) − φ_k · T(x) |  ≤  e_k |T(x)|,      e_k = r / (1 − r) |φ_k|,   r = (f + 8) u,   u = 2⁻²⁴
//! ```
//!
//! A term of the product is rounded twice when its factors are narrowed, once when they are multiplied, and at most `f` times
//! when the terms are added up, in whatever order; the sizes of the terms add up to at most `|φ_k| |T(x)|` (Cauchy and
//! Schwarz). The rest of the eight covers the arithmetic of the bounds themselves. The logarithm of the weight is part of
//! `φ_k`, whose first feature is 1.
//!
//! A component whose bound from above lies below the bounds from below of as many others as a row has labels, or too far below the best of them,
//! cannot be a label. What is left, hardly more than the labels, is scored in double precision, and from those scores the
//! labels are chosen: they are those of the product in double precision. Where the bounds are too wide to rule much out
//! (clusters that are very narrow or very far out), the product is computed in double precision.

use pulp::{Arch, Simd, WithSimd, as_arrays, bytemuck};

use super::labels::{Block, Chosen, MOST};
use crate::math::product::{dot, rows_times_parameters};
use crate::math::softmax::LN_NEGLIGIBLE;
use crate::parallel;

/// Half the distance of 1 to the next number in single precision.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// Roundings of a term beside those of the sum, and of the bounds themselves.
const ROUNDINGS: f64 = 8.0;

/// Parameters and features that are longer than this are not narrowed: products of shorter ones cannot overflow, and what
/// underflows is far below what is rounded.
const LONGEST: f64 = 1e15;

/// The score of a component that no row can belong to.
const IMPOSSIBLE: f32 = -1e30;

/// Columns are filled up to a multiple of this many.
const GROUP: usize = 8;

/// Components whose bounds are compared at a time.
const LANES: usize = 32;

/// Fewer features, components, or rows, are not worth narrowing the parameters.
const LEAST_FEATURES: usize = 32;
const LEAST_COMPONENTS: usize = 2 * MOST;
const LEAST_ROWS: usize = 32;

/// A bound that is this far from the score rules little out.
const WIDE: f32 = 16.0;

/// Where more than this share of the scores must be computed one by one, all of them at once are faster.
const MOST_COMPUTED: f64 = 1.0 / 8.0;

/// Parameters in single precision, and how far scores may be off.
#[derive(Clone, Debug, Default)]
pub(super) struct Narrow {
    parameters: Vec<f32>,
    /// `e_k` of each component; infinite where the parameters are too long.
    errors: Vec<f32>,
    n_components: usize,
}

/// Rows with the parameters that they are scored by, in double precision.
#[derive(Clone, Copy)]
pub(super) struct Scored<'a> {
    pub(super) features: &'a [f64],
    pub(super) phi: &'a [f64],
    pub(super) ln_weights: &'a [f64],
    pub(super) n_features: usize,
}

impl Scored<'_> {
    /// The score of a row in double precision.
    #[inline(always)]
    pub(super) fn score<S: Simd>(&self, simd: S, x: &[f64], column: usize) -> f64 {
        let f = self.n_features;
        dot(simd, x, &self.phi[column * f..(column + 1) * f]) + self.ln_weights[column]
    }

    /// Whether labels are chosen faster with narrow parameters.
    pub(super) fn suits(&self) -> bool {
        self.n_features >= LEAST_FEATURES
            && self.ln_weights.len() >= LEAST_COMPONENTS
            && self.features.len() >= LEAST_ROWS * self.n_features
    }
}

impl Narrow {
    /// Narrows the parameters.
    pub(super) fn prepare(&mut self, Scored { phi, ln_weights, n_features, .. }: Scored<'_>) {
        self.n_components = ln_weights.len();
        let width = self.n_components.next_multiple_of(GROUP);
        self.parameters.resize(width * n_features, 0.0);
        self.errors.resize(width, 0.0);
        let (parameters, errors) = (&mut self.parameters, &mut self.errors);
        Arch::new().dispatch(NarrowParameters { phi, ln_weights, n_features, parameters, errors });
    }

    /// Chooses the labels of some rows. False, and labels that mean nothing, when the bounds are too wide to rule much out.
    pub(super) fn assign(&self, labels: &mut Block<'_>, scored: Scored<'_>) -> bool {
        self.with_scores(scored, |scores, lengths, longest| {
            self.resolves(longest)
                && Arch::new().dispatch(Decide { narrow: self, labels, scored, scores, lengths })
        })
    }

    /// Finds the component with the largest score of each row. False when the bounds are too wide to rule much out.
    pub(super) fn largest(&self, scored: Scored<'_>, largest: &mut [usize]) -> bool {
        self.with_scores(scored, |scores, lengths, longest| {
            longest.is_finite()
                && Arch::new().dispatch(Largest { narrow: self, largest, scored, scores, lengths })
        })
    }

    /// Calls `work` with the scores of some rows, their lengths and the longest of those; with no scores if that is infinite.
    fn with_scores(&self, scored: Scored<'_>, work: impl FnOnce(&[f32], &[f32], f32) -> bool) -> bool {
        let f = scored.n_features;
        let (n, width) = (scored.features.len() / f, self.errors.len());
        parallel::with_buffer((n * (f + width + 1)).div_ceil(2), |buffer| {
            let (features, rest) = bytemuck::cast_slice_mut::<f64, f32>(buffer).split_at_mut(n * f);
            let (lengths, scores) = rest.split_at_mut(n);
            let scores = &mut scores[..n * width];
            let rows = NarrowRows { rows: scored.features, n_features: f, out: features, lengths };
            let longest = Arch::new().dispatch(rows);
            if longest.is_finite() {
                rows_times_parameters(features, &self.parameters, f, scores);
            }
            work(scores, lengths, longest)
        })
    }

    /// Scores that may be computed one by one.
    fn most_computed(&self, n_rows: usize) -> usize {
        (MOST_COMPUTED * (n_rows * self.n_components) as f64) as usize + MOST * n_rows
    }

    /// Whether the scores of rows no longer than this are near enough for most components.
    fn resolves(&self, longest: f32) -> bool {
        // What is not a number is wide.
        let near = self.errors[..self.n_components].iter().filter(|error| **error * longest <= WIDE).count();
        (self.n_components - near) as f64 <= MOST_COMPUTED * self.n_components as f64
    }
}

/// Narrows numbers; returns their length.
#[inline(always)]
fn narrow_row(row: &[f64], out: &mut [f32]) -> f64 {
    let mut squares = [0.0_f64; GROUP];
    let mut pieces = row.chunks_exact(GROUP);
    let mut out = out.chunks_exact_mut(GROUP);
    for (row, out) in (&mut pieces).zip(&mut out) {
        for i in 0..GROUP {
            out[i] = row[i] as f32;
            squares[i] += row[i] * row[i];
        }
    }
    for (i, (value, out)) in pieces.remainder().iter().zip(out.into_remainder()).enumerate() {
        *out = *value as f32;
        squares[i] += value * value;
    }
    squares.iter().sum::<f64>().sqrt()
}

/// A number of single precision that is not below this one.
#[inline(always)]
fn above(value: f64) -> f32 {
    (value + 2.0 * UNIT * value.abs()) as f32
}

/// A number of single precision that is not above this one.
#[inline(always)]
fn below(value: f64) -> f32 {
    (value - 2.0 * UNIT * value.abs()) as f32
}

/// The loop of [`Narrow::prepare`] for the registers of the machine.
struct NarrowParameters<'a> {
    phi: &'a [f64],
    ln_weights: &'a [f64],
    n_features: usize,
    parameters: &'a mut [f32],
    errors: &'a mut [f32],
}

impl WithSimd for NarrowParameters<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { phi, ln_weights, n_features: f, parameters, errors } = self;
        let mut columns = parameters.chunks_exact_mut(f).zip(errors.iter_mut());
        for ((phi, ln_weight), (out, error)) in phi.chunks_exact(f).zip(ln_weights).zip(&mut columns) {
            let length = narrow_row(phi, out) + ln_weight.abs();
            let representable = length <= LONGEST;
            out[0] = (phi[0] + ln_weight) as f32;
            let share = (f as f64 + ROUNDINGS) * UNIT;
            // From 16 million features on nothing is certain.
            *error = if share < 1.0 { above(share / (1.0 - share) * length.max(1.0)) } else { f32::INFINITY };
            if *ln_weight == f64::NEG_INFINITY {
                out.fill(0.0);
                (out[0], *error) = (IMPOSSIBLE, 0.0);
            } else if !representable {
                out.fill(0.0);
                *error = f32::INFINITY;
            }
        }
        for (out, error) in columns {
            out.fill(0.0);
            (out[0], *error) = (IMPOSSIBLE, 0.0);
        }
    }
}

/// Narrows rows of features and writes their lengths; returns the longest, infinite if a row is too long.
struct NarrowRows<'a> {
    rows: &'a [f64],
    n_features: usize,
    out: &'a mut [f32],
    lengths: &'a mut [f32],
}

impl WithSimd for NarrowRows<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> f32 {
        let Self { rows, n_features: f, out, lengths } = self;
        let mut longest = 0.0_f32;
        for ((row, out), length) in rows.chunks_exact(f).zip(out.chunks_exact_mut(f)).zip(lengths) {
            let exact = narrow_row(row, out);
            *length = if exact <= LONGEST { above(exact) } else { f32::INFINITY };
            longest = longest.max(*length);
        }
        longest
    }
}

/// Scores in double precision what the scores at hand do not rule out, and chooses the labels. False when that is too much.
struct Decide<'a, 'b> {
    narrow: &'a Narrow,
    labels: &'a mut Block<'b>,
    scored: Scored<'a>,
    scores: &'a [f32],
    lengths: &'a [f32],
}

impl WithSimd for Decide<'_, '_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let Self { narrow, labels, scored, .. } = self;
        let (k, width, errors) = (narrow.n_components, narrow.errors.len(), &*narrow.errors);
        let mut left = narrow.most_computed(self.lengths.len());
        let rows = scored.features.chunks_exact(scored.n_features);
        let rows = rows.zip(self.scores.chunks_exact(width)).zip(self.lengths);
        for (row, ((x, scores), length)) in rows.enumerate() {
            let mut cut = least_possible(simd, scores, errors, *length);
            let (mut chosen, mut best) = (Chosen::default(), f64::NEG_INFINITY);
            for (group, (scores, errors)) in groups(scores).iter().zip(groups(errors)).enumerate() {
                if !any_reaches(scores, errors, *length, cut) {
                    continue;
                }
                for ix in 0..GROUP {
                    let column = group * GROUP + ix;
                    if scores[ix] + errors[ix] * length < cut || column >= k {
                        continue;
                    }
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    let score = scored.score(simd, x, column);
                    if score.is_nan() {
                        continue;
                    }
                    chosen.add(score, column as u32);
                    best = best.max(score);
                    cut = cut.max(below(chosen.least_of_all().max(best + LN_NEGLIGIBLE)));
                }
            }
            labels.put(row, &chosen, best + LN_NEGLIGIBLE);
        }
        true
    }
}

/// Finds the component with the largest score; only where several can have it, scores are computed in double precision.
/// False when that is too much.
struct Largest<'a> {
    narrow: &'a Narrow,
    largest: &'a mut [usize],
    scored: Scored<'a>,
    scores: &'a [f32],
    lengths: &'a [f32],
}

impl WithSimd for Largest<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let Self { narrow, scored, .. } = self;
        let (k, width, errors) = (narrow.n_components, narrow.errors.len(), &*narrow.errors);
        let mut left = narrow.most_computed(self.lengths.len());
        let rows = scored.features.chunks_exact(scored.n_features);
        let rows = rows.zip(self.scores.chunks_exact(width)).zip(self.lengths).zip(self.largest);
        for (((x, scores), length), largest) in rows {
            let cut = max_of_lanes(simd, &lower_bounds(simd, scores, errors, *length));
            // The first that can be it, and its score if there are others.
            let (mut first, mut best) = (None, None);
            for (group, (scores, errors)) in groups(scores).iter().zip(groups(errors)).enumerate() {
                if !any_reaches(scores, errors, *length, cut) {
                    continue;
                }
                for ix in 0..GROUP {
                    let column = group * GROUP + ix;
                    if scores[ix] + errors[ix] * length < cut || column >= k {
                        continue;
                    }
                    let Some(known) = first else {
                        first = Some(column);
                        continue;
                    };
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    let other = scored.score(simd, x, column);
                    let known = best.unwrap_or_else(|| scored.score(simd, x, known));
                    first = if other > known { Some(column) } else { first };
                    best = Some(other.max(known));
                }
            }
            *largest = first.unwrap_or(0);
        }
        true
    }
}

/// Numbers in whole groups.
#[inline(always)]
fn groups(values: &[f32]) -> &[[f32; GROUP]] {
    values.as_chunks().0
}

/// Whether a score that may be off by so much can reach the cut.
#[inline(always)]
fn any_reaches(scores: &[f32; GROUP], errors: &[f32; GROUP], length: f32, cut: f32) -> bool {
    scores.iter().zip(errors).fold(false, |any, (score, error)| any | (score + error * length >= cut))
}

/// The largest bounds from below of some components each: every component is in one lane.
#[inline(always)]
fn lower_bounds<S: Simd>(simd: S, scores: &[f32], errors: &[f32], length: f32) -> [f32; LANES] {
    let ((scores, _), (errors, _)) = (S::as_simd_f32s(scores), S::as_simd_f32s(errors));
    let ((scores, scores_rest), (errors, errors_rest)) =
        (as_arrays::<4, _>(scores), as_arrays::<4, _>(errors));
    let minus_length = simd.splat_f32s(-length);
    let mut most = [simd.splat_f32s(f32::NEG_INFINITY); 4];
    for (scores, errors) in scores.iter().zip(errors) {
        for i in 0..4 {
            most[i] = simd.max_f32s(most[i], simd.mul_add_e_f32s(minus_length, errors[i], scores[i]));
        }
    }
    for (most, (score, error)) in most.iter_mut().zip(scores_rest.iter().zip(errors_rest)) {
        *most = simd.max_f32s(*most, simd.mul_add_e_f32s(minus_length, *error, *score));
    }
    let mut lanes = [f32::NEG_INFINITY; LANES];
    S::as_mut_simd_f32s(&mut lanes).0.iter_mut().zip(most).for_each(|(lane, most)| *lane = most);
    lanes
}

#[inline(always)]
fn max_of_lanes<S: Simd>(simd: S, lanes: &[f32; LANES]) -> f32 {
    let lanes = S::as_simd_f32s(lanes).0.iter();
    simd.reduce_max_f32s(
        lanes.fold(simd.splat_f32s(f32::NEG_INFINITY), |most, lane| simd.max_f32s(most, *lane)),
    )
}

/// What a score must reach to be among the [`MOST`] largest and not negligible beside the best.
///
/// At least so many components reach what so many lanes reach. The highest such value is found by halving an interval: a
/// little lower is as safe.
#[inline(always)]
fn least_possible<S: Simd>(simd: S, scores: &[f32], errors: &[f32], length: f32) -> f32 {
    const HALVINGS: usize = 6;
    let lanes = lower_bounds(simd, scores, errors, length);
    let mut high = max_of_lanes(simd, &lanes);
    let mut low = below(f64::from(high) + LN_NEGLIGIBLE);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        let reached: i32 = lanes.iter().map(|lane| i32::from(*lane >= middle)).sum();
        let enough = reached >= MOST as i32;
        low = if enough { middle } else { low };
        high = if enough { high } else { middle };
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::infer::Precision;
    use crate::infer::labels::Labels;

    /// Scores of the two routes are sums in different orders: in units of the terms that they are made of.
    const ROUNDING: f64 = 1e-13;

    fn length(values: &[f64]) -> f64 {
        values.iter().map(|v| v * v).sum::<f64>().sqrt()
    }

    /// A number whose size is uniform on a logarithmic scale.
    fn of_size(rng: &mut impl Rng, decades: std::ops::Range<f64>) -> f64 {
        let normal: f64 = StandardNormal.sample(rng);
        normal * 10.0_f64.powf(rng.random_range(decades))
    }

    /// Labels of a row as `(component, probability)` in the order of the components.
    fn sorted(labels: &Labels, row: usize) -> Vec<(usize, f64)> {
        let mut row: Vec<(usize, f64)> = labels.row(row).collect();
        row.sort_by_key(|(ix, _)| *ix);
        row
    }

    /// Features that say nothing beside three that do.
    fn wide(three: [f64; 3]) -> [f64; LEAST_FEATURES] {
        std::array::from_fn(|ix| three.get(ix).copied().unwrap_or(0.0))
    }

    /// The labels of both routes agree but for scores that are equal to rounding.
    fn assert_same(scored: Scored<'_>, one: &Labels, other: &Labels) {
        let Scored { features, phi, ln_weights, n_features: f } = scored;
        for (row, x) in features.chunks_exact(f).enumerate() {
            let (a, b) = (sorted(one, row), sorted(other, row));
            let score = |ix: usize| (0..f).map(|i| x[i] * phi[ix * f + i]).sum::<f64>() + ln_weights[ix];
            let scale = phi.chunks_exact(f).map(length).fold(1.0, f64::max) * length(x);
            let off = ROUNDING * scale.max(1.0);
            let totals = [one.ln_totals()[row], other.ln_totals()[row]];
            assert!((totals[0] - totals[1]).abs() <= 10.0 * off, "row {row}: {totals:?}");
            assert!(a.iter().all(|(_, p)| p.is_finite()));
            for (ix, p) in &a {
                match b.iter().find(|(other, _)| other == ix) {
                    Some((_, other)) => assert!((p - other).abs() <= 10.0 * off, "row {row}: {a:?} {b:?}"),
                    None => {
                        // Equal to another one that was taken instead, or at the edge of what is negligible.
                        let edge = b.iter().map(|(ix, _)| score(*ix)).fold(f64::INFINITY, f64::min);
                        let best = b.iter().map(|(ix, _)| score(*ix)).fold(f64::NEG_INFINITY, f64::max);
                        let near = |cut: f64| (score(*ix) - cut).abs() <= 10.0 * off;
                        assert!(near(edge) || near(best + LN_NEGLIGIBLE), "row {row}: {a:?} {b:?}");
                    }
                }
            }
        }
    }

    fn check(scored: Scored<'_>) {
        let (mut by_narrow, mut by_wide) = (Labels::default(), Labels::default());
        by_narrow.assign(scored, Precision::Mixed);
        by_wide.assign(scored, Precision::Double);
        assert_same(scored, &by_narrow, &by_wide);
        assert_same(scored, &by_wide, &by_narrow);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn labels_are_those_of_double_precision_whatever_the_sizes(
            seed in any::<u64>(),
            n in 32_usize..80,
            k in 16_usize..90,
            f in 32_usize..70,
            features in -6.0..8.0,
            parameters in -6.0..20.0,
            spread in 0.0..6.0,
        ) {
            let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut x: Vec<f64> = (0..n * f).map(|_| of_size(rng, features - spread..features + 0.1)).collect();
            x.iter_mut().step_by(f).for_each(|first| *first = 1.0);
            let phi: Vec<f64> =
                (0..k * f).map(|_| of_size(rng, parameters - spread..parameters + 0.1)).collect();
            let mut ln_weights: Vec<f64> = (0..k).map(|_| of_size(rng, 0.0..1.0)).collect();
            ln_weights[seed as usize % k] = f64::NEG_INFINITY;
            check(Scored { features: &x, phi: &phi, ln_weights: &ln_weights, n_features: f });
        }

        /// Scores of clusters: quadratic forms whose terms cancel, the more so the narrower and the farther out they are.
        #[test]
        fn labels_of_clusters_are_those_of_double_precision(
            seed in any::<u64>(),
            n in 32_usize..80,
            k in 16_usize..200,
            width in -4.0..0.5,
            offset in 0.0..4.0,
        ) {
            let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut normal = || -> f64 { StandardNormal.sample(rng) };
            let (width, offset) = (10.0_f64.powf(width), 10.0_f64.powf(offset));
            let centres: Vec<f64> = (0..k).map(|_| offset + normal()).collect();
            // −(x − c)² / 2w² − ln w of widths that differ by a little and, every tenth, by a lot.
            let phi: Vec<f64> = centres.iter().enumerate().flat_map(|(ix, c)| {
                let w = width * (0.3 * normal()).exp() * if ix % 10 == 0 { 1e-3 } else { 1.0 };
                let precision = 1.0 / (w * w);
                wide([-0.5 * precision * c * c - w.ln(), precision * c, -0.5 * precision])
            }).collect();
            let features: Vec<f64> = (0..n).flat_map(|ix| {
                let x = centres[ix % k] + width * normal();
                wide([1.0, x, x * x])
            }).collect();
            let ln_weights = vec![0.0; k];
            check(Scored { features: &features, phi: &phi, ln_weights: &ln_weights, n_features: LEAST_FEATURES });
        }
    }

    #[test]
    fn the_bound_holds_and_is_near_for_parameters_of_ordinary_size() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(3);
        let (n, k, f) = (64, 40, 231);
        let features: Vec<f64> = (0..n * f).map(|_| StandardNormal.sample(rng)).collect();
        let phi: Vec<f64> = (0..k * f).map(|_| StandardNormal.sample(rng)).collect();
        let ln_weights = vec![-3.0; k];
        let mut narrow = Narrow::default();
        narrow.prepare(Scored { features: &features, phi: &phi, ln_weights: &ln_weights, n_features: f });
        let mut scores = vec![0.0_f32; n * k];
        let rows: Vec<f32> = features.iter().map(|v| *v as f32).collect();
        rows_times_parameters(&rows, &narrow.parameters, f, &mut scores);
        let mut largest = 0.0_f64;
        for (row, x) in features.chunks_exact(f).enumerate() {
            for ix in 0..k {
                let weight = ln_weights[ix] * x[0];
                let exact = (0..f).map(|i| x[i] * phi[ix * f + i]).sum::<f64>() + weight;
                let error = (f64::from(scores[row * k + ix]) - exact).abs();
                largest = largest.max(error / (f64::from(narrow.errors[ix]) * length(x)));
            }
        }
        // Roundings cancel: about √f of f units are left.
        assert!(largest < 1.0 && largest > 1e-4, "{largest}");
    }

    #[test]
    fn the_largest_of_many_is_that_of_double_precision() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(5);
        for (f, scale) in [(3, 1.0), (21, 1e-3), (21, 1e6), (40, 1e18)] {
            let (n, k) = (100, 37);
            let mut features: Vec<f64> = (0..n * f).map(|_| of_size(rng, 0.0..1.0)).collect();
            features.iter_mut().step_by(f).for_each(|first| *first = 1.0);
            let mut phi: Vec<f64> = (0..k * f).map(|_| scale * of_size(rng, 0.0..1.0)).collect();
            // The first of two that are the same.
            let twin = phi[..f].to_vec();
            phi[(k - 1) * f..].copy_from_slice(&twin);
            let scored = Scored { features: &features, phi: &phi, ln_weights: &vec![0.0; k], n_features: f };
            let (mut narrow, mut largest) = (Narrow::default(), vec![usize::MAX; n]);
            narrow.prepare(scored);
            assert_eq!(narrow.largest(scored, &mut largest), scale < 1e15);
            for (row, x) in features.chunks_exact(f).enumerate().filter(|_| scale < 1e15) {
                let score = |ix: usize| (0..f).map(|i| x[i] * phi[ix * f + i]).sum::<f64>();
                let best = (0..k).rev().max_by(|a, b| score(*a).total_cmp(&score(*b)));
                assert_eq!(Some(largest[row]), best, "row {row}");
            }
        }
    }

    #[test]
    fn most_scores_are_ruled_out() {
        let (k, f) = (200, 231);
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(4);
        let features: Vec<f64> = (0..64 * f).map(|_| StandardNormal.sample(rng)).collect();
        let phi: Vec<f64> = (0..k * f).map(|_| StandardNormal.sample(rng)).collect();
        let scored = Scored { features: &features, phi: &phi, ln_weights: &vec![0.0; k], n_features: f };
        let mut narrow = Narrow::default();
        narrow.prepare(scored);
        assert!(narrow.resolves(30.0) && !narrow.resolves(1e9) && !narrow.resolves(f32::INFINITY));
        let mut largest = vec![usize::MAX; 64];
        assert!(narrow.largest(scored, &mut largest), "no product in double precision is needed");
        assert!(largest.iter().all(|ix| *ix < k));
        let mut labels = Labels::default();
        labels.clear(64);
        let mut block = labels.blocks(64).next().unwrap();
        assert!(narrow.assign(&mut block, scored), "nor for the labels");
        assert!((0..64).all(|row| labels.row(row).count() > 0));
    }
}
