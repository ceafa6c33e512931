//! Bounds on the predictive densities of all components at once, in single precision: they rule components out, and nothing else.
//!
//! ```text
//! log p(x | component k)  ≤  c_k − h_k log(1 + y⁺/h_k),     y = θ_k · T(x)          (c_k − y where h_k = ∞)
//! | fl(θ_k · T(x)) − θ_k · T(x) |  ≤  e_k |T(x)|,           e_k = (r/(1 − r) + δ_k) |θ_k|,   r = (f + 8) 2⁻²⁴
//! ```
//!
//! The right-hand side falls with `y`, so that `y` taken too small by the error of its product gives a bound. A term of the product is rounded
//! twice when its factors are narrowed, once when they are multiplied and at most `f` times in the sum; the sizes of the terms
//! add up to at most `|θ_k| |T(x)|`. `δ_k` is what `θ_k` itself may be off by. The logarithm in single precision is
//! `max(log(u) − ε, t − t²/2)` of `u = 1 + t`, which is below `log(1 + t)`.
//!
//! Parameters lie in panels of two registers' width, feature after feature, so that a few rows and one panel are multiplied without leaving
//! the registers: for a block of rows, and for a single one.

use pulp::{Arch, Simd, WithSimd};

use crate::family::Envelope;

/// Half the distance of 1 to the next number in single precision.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// Roundings of a term beside those of the sum, and of the bound itself.
const ROUNDINGS: f64 = 8.0;

/// Parameters and features that are longer than this are not narrowed: products of shorter ones cannot overflow.
const LONGEST: f64 = 1e15;

/// More than the logarithm of a number of single precision is off, beside its share below.
const LN_ROUNDING: f32 = 4e-7;

/// More units than the arithmetic of the bend rounds by.
const BEND_ROUNDINGS: f64 = 32.0;

/// Rows that are multiplied with a panel at a time: with two registers for each, one for a feature of a row and two for the
/// panel, all sixteen registers are in use.
const ROWS: usize = 6;

/// Bounds that are compared at a time.
pub(crate) const TOGETHER: usize = 8;

/// The bounds of many components.
#[derive(Debug, Default)]
pub(crate) struct Envelopes {
    n_features: usize,
    /// Components in a panel.
    width: usize,
    panels: Vec<f32>,
    /// For each component of each panel: `e_k`, `c_k` with the logarithm of the weight, `h_k` and its inverse.
    errors: Vec<f32>,
    constants: Vec<f32>,
    half_powers: Vec<f32>,
    inverses: Vec<f32>,
    /// Whether `h` is finite, for all components.
    bent: bool,
}

/// What one component adds.
pub(crate) struct Member<'a> {
    pub(crate) theta: &'a [f64],
    pub(crate) envelope: Envelope,
    pub(crate) ln_weight: f64,
}

impl Envelopes {
    /// Narrows the bounds of the components.
    pub(crate) fn new<'a>(n_features: usize, members: impl ExactSizeIterator<Item = Member<'a>>) -> Self {
        let width = Arch::new().dispatch(PanelWidth);
        // Whoever compares bounds takes eight at a time.
        let padded = members.len().next_multiple_of(width.max(8));
        let mut all = Self {
            n_features,
            width,
            panels: vec![0.0; padded * n_features],
            errors: vec![0.0; padded],
            constants: vec![f32::NEG_INFINITY; padded],
            half_powers: vec![1.0; padded],
            inverses: vec![0.0; padded],
            bent: false,
        };
        for (ix, member) in members.enumerate() {
            all.put(ix, &member);
        }
        all
    }

    fn put(&mut self, ix: usize, Member { theta, envelope, ln_weight }: &Member<'_>) {
        let length = theta.iter().map(|v| v * v).sum::<f64>().sqrt();
        let share = (self.n_features as f64 + ROUNDINGS) * UNIT;
        let certain = length <= LONGEST && share < 0.5 && envelope.rounding.is_finite();
        if certain {
            let panel = ix / self.width * self.width * self.n_features;
            for (feature, value) in theta.iter().enumerate() {
                self.panels[panel + feature * self.width + ix % self.width] = *value as f32;
            }
        }
        let error = (share / (1.0 - share) + envelope.rounding) * length.max(f64::MIN_POSITIVE.sqrt());
        self.errors[ix] = if certain { above(error).max(f32::MIN_POSITIVE) } else { f32::INFINITY };
        self.constants[ix] = above(above(envelope.constant + ln_weight).into());
        if envelope.half_power < f64::INFINITY {
            self.bent = true;
            // A little smaller is as safe: h log(1 + y/h) grows with h.
            let half_power = (envelope.half_power * (1.0 - BEND_ROUNDINGS * UNIT)).min(1e30) as f32;
            self.half_powers[ix] = half_power;
            self.inverses[ix] = 1.0 / half_power;
        } else {
            // Where others bend: a power so large that nothing is lost.
            self.half_powers[ix] = 1e30;
            self.inverses[ix] = 1e-30;
        }
    }

    /// Bounds that are written for a row.
    pub(crate) fn padded(&self) -> usize {
        self.constants.len()
    }

    /// Numbers of single precision that [`Envelopes::bound`] works in, beside the bounds.
    pub(crate) fn scratch_len(&self, n_rows: usize) -> usize {
        n_rows.next_multiple_of(ROWS) * (self.n_features + 1)
    }

    /// Writes a bound from above of `log weight + log density` for each row and component, [`Envelopes::padded`] to a row.
    /// A bound that is not a number says nothing.
    pub(crate) fn bound(&self, features: &[f64], scratch: &mut [f32], out: &mut [f32]) {
        Arch::new().dispatch(Bound { all: self, features, scratch, out });
    }
}

/// A number of single precision that is not below this one.
fn above(value: f64) -> f32 {
    (value + 4.0 * UNIT * value.abs()) as f32
}

/// Two registers.
struct PanelWidth;

impl WithSimd for PanelWidth {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> usize {
        2 * size_of::<S::f32s>() / size_of::<f32>()
    }
}

/// The loop of [`Envelopes::bound`] for the registers of the machine.
struct Bound<'a> {
    all: &'a Envelopes,
    features: &'a [f64],
    scratch: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for Bound<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { all, features, scratch, out } = self;
        let (f, padded) = (all.n_features, all.padded());
        let n = features.len() / f;
        let (narrowed, lengths) = scratch.split_at_mut(n.next_multiple_of(ROWS) * f);
        for ((rows, narrowed), lengths) in
            features.chunks(ROWS * f).zip(narrowed.chunks_exact_mut(ROWS * f)).zip(lengths.chunks_mut(ROWS))
        {
            narrow_rows(rows, f, narrowed, lengths);
        }
        for (panel_ix, panel) in all.panels.chunks_exact(all.width * f).enumerate() {
            let at = panel_ix * all.width;
            let groups = narrowed.chunks_exact(ROWS * f).zip(out.chunks_mut(ROWS * padded));
            // Loops and no closures: those would not be compiled for the registers of the machine.
            if n == 1 {
                multiply::<S, 1>(simd, narrowed, panel, padded, at, out);
                continue;
            }
            for (rows, out) in groups {
                multiply::<S, ROWS>(simd, rows, panel, padded, at, out);
            }
        }
        for (out, length) in out.chunks_exact_mut(padded).zip(&*lengths) {
            if all.bent { bend(all, *length, out) } else { straight(all, *length, out) }
        }
    }
}

/// Narrows a few rows, feature by feature, and writes their lengths, infinite where a row is too long.
#[inline(always)]
fn narrow_rows(rows: &[f64], f: usize, out: &mut [f32], lengths: &mut [f32]) {
    for (ix, row) in rows.chunks_exact(f).enumerate() {
        let mut squares = [0.0_f64; 8];
        let (eights, rest) = row.as_chunks::<8>();
        for eight in eights {
            for i in 0..8 {
                squares[i] += eight[i] * eight[i];
            }
        }
        let mut square = 0.0;
        for value in rest.iter() {
            square += value * value;
        }
        let length = (square + squares.iter().sum::<f64>()).sqrt();
        let short = length <= LONGEST;
        lengths[ix] = if short { above(length) } else { f32::INFINITY };
        let scale = if short { 1.0 } else { 0.0 };
        for (group, value) in out.chunks_exact_mut(ROWS).zip(row) {
            // What is too long may be infinite, and is not used.
            group[ix] = (*value * scale) as f32;
        }
    }
}

/// The products of a few rows and the components of one panel.
#[inline(always)]
fn multiply<S: Simd, const N: usize>(
    simd: S,
    rows: &[f32],
    panel: &[f32],
    padded: usize,
    at: usize,
    out: &mut [f32],
) {
    let (panel, _) = S::as_simd_f32s(panel);
    let mut sums = [[simd.splat_f32s(0.0); 2]; N];
    for (row, both) in rows.chunks_exact(ROWS).zip(panel.chunks_exact(2)) {
        for r in 0..N {
            let value = simd.splat_f32s(row[r]);
            sums[r][0] = simd.mul_add_e_f32s(value, both[0], sums[r][0]);
            sums[r][1] = simd.mul_add_e_f32s(value, both[1], sums[r][1]);
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_exact_mut(padded)) {
        let (out, _) = S::as_mut_simd_f32s(&mut out[at..]);
        out[0] = sums[0];
        out[1] = sums[1];
    }
}

/// Products become bounds, where densities are linear in them.
#[inline(always)]
fn straight(all: &Envelopes, length: f32, out: &mut [f32]) {
    for ((out, error), constant) in out.iter_mut().zip(&all.errors).zip(&all.constants) {
        *out = constant - (*out - error * length);
    }
}

/// Products become bounds, where densities are bent.
#[inline(always)]
fn bend(all: &Envelopes, length: f32, out: &mut [f32]) {
    let parts = all.errors.iter().zip(&all.constants).zip(all.half_powers.iter().zip(&all.inverses));
    for (out, ((error, constant), (half_power, inverse))) in out.iter_mut().zip(parts) {
        let y = *out - error * length;
        // What is not a number is 0, where the bound is highest.
        let y = if y > 0.0 { y } else { 0.0 };
        let t = y * inverse;
        let near = t - 0.5 * t * t;
        let far = ln(1.0 + t) - LN_ROUNDING;
        let lower = if far > near { far } else { near };
        *out = constant - half_power * lower;
    }
}

/// `log x` for normal `x ≥ 1`, off by less than [`LN_ROUNDING`] and sixteen units. No branch and no call, so that the loop around it vectorises.
#[inline(always)]
fn ln(x: f32) -> f32 {
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let shifted = x.to_bits().wrapping_sub(ROOT_HALF);
    let exponent = (shifted as i32) >> 23;
    let f = f32::from_bits((shifted & 0x007f_ffff) + ROOT_HALF) - 1.0;
    let mut p = 7.037_683_6e-2;
    p = p * f - 1.151_461_e-1;
    p = p * f + 1.167_699_9e-1;
    p = p * f - 1.242_014_1e-1;
    p = p * f + 1.424_932_3e-1;
    p = p * f - 1.666_805_8e-1;
    p = p * f + 2.000_071_5e-1;
    p = p * f - 2.499_999_4e-1;
    p = p * f + 3.333_333e-1;
    let square = f * f;
    exponent as f32 * std::f32::consts::LN_2 + (f + (p * f * square - 0.5 * square))
}

/// Where the largest is for the first time.
#[inline(always)]
pub(crate) fn first_of_largest(values: &[f32]) -> usize {
    let mut lanes = [f32::NEG_INFINITY; TOGETHER];
    let (chunks, tail) = values.as_chunks::<TOGETHER>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let largest = lanes.iter().chain(tail).copied().fold(f32::NEG_INFINITY, f32::max);
    for (group, chunk) in chunks.iter().enumerate() {
        if chunk.iter().fold(false, |any, value| any | (*value == largest)) {
            return group * TOGETHER + chunk.iter().position(|value| *value == largest).unwrap_or(0);
        }
    }
    chunks.len() * TOGETHER + tail.iter().position(|value| *value == largest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_of_single_precision_is_as_near_as_the_bound_says() {
        let mut x = 1.0_f64;
        while x < 1e38 {
            let narrow = x as f32;
            let exact = f64::from(narrow).ln();
            let off = (f64::from(ln(narrow)) - exact).abs();
            assert!(off <= f64::from(LN_ROUNDING) + 16.0 * UNIT * exact, "{x}: {off}");
            x *= 1.000_37;
        }
    }

    #[test]
    fn a_bound_is_above_and_near_also_for_a_single_row_and_rows_of_any_number() {
        let (f, k) = (7, 21);
        let theta: Vec<f64> = (0..k * f).map(|i| 1.0 + (i as f64 * 0.91).cos()).collect();
        for half_power in [0.7, 30.0, 1e7, f64::INFINITY] {
            let envelope = Envelope { constant: -3.0, half_power, rounding: 0.0, tight: true };
            let members = theta.chunks(f).map(|theta| Member { theta, envelope, ln_weight: -1.0 });
            let all = Envelopes::new(f, members);
            for n in [1, 2, 6, 13] {
                let features: Vec<f64> = (0..n * f).map(|i| 2.0 + (i as f64 * 0.37).sin()).collect();
                let mut scratch = vec![0.0; all.scratch_len(n)];
                let mut out = vec![f32::NAN; n * all.padded()];
                all.bound(&features, &mut scratch, &mut out);
                for (x, out) in features.chunks(f).zip(out.chunks(all.padded())) {
                    for (theta, bound) in theta.chunks(f).zip(out) {
                        let y: f64 = x.iter().zip(theta).map(|(x, t)| x * t).sum();
                        let bent =
                            if half_power.is_finite() { half_power * (y / half_power).ln_1p() } else { y };
                        let gap = f64::from(*bound) - (-4.0 - bent);
                        assert!((0.0..1e-3).contains(&gap), "{half_power} {n}: {gap}");
                    }
                    assert!(out[k..].iter().all(|bound| *bound == f32::NEG_INFINITY));
                }
            }
        }
    }
}
