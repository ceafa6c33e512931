//! Row-wise softmax with its entropy, vectorised under run-time dispatch: the non-linear half of the E-step.
//!
//! ```text
//! r_jk = exp(l_jk − m_j) / Z_j,    m_j = max_k l_jk,    Z_j = Σ_k exp(l_jk − m_j)
//! ```
//!
//! Responsibilities below [`NEGLIGIBLE`] become exactly 0 and the row is normalised over the rest, so that mass is kept
//! to rounding while components that a row cannot belong to stay untouched.

use pulp::Arch;

/// Responsibilities below this are set to 0 before the row is normalised.
pub const NEGLIGIBLE: f64 = 1e-12;

/// ln of [`NEGLIGIBLE`]: entries this far below a row's maximum vanish.
pub const LN_NEGLIGIBLE: f64 = -27.631021115928547;

/// Replaces each row of `scores` (rows of `width` columns) by its softmax and writes `log Σ_k exp(score)` of each row.
pub fn softmax_rows(scores: &mut [f64], width: usize, ln_totals: &mut [f64]) {
    debug_assert_eq!(scores.len(), width * ln_totals.len());
    if width == 0 {
        return;
    }
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (row, ln_total) in scores.chunks_exact_mut(width).zip(ln_totals) {
                *ln_total = softmax_row(row);
            }
        },
    );
}

/// One row of [`softmax_rows`], for loops that are under run-time dispatch already. A row of nothing has the total −∞.
#[inline(always)]
pub fn softmax_row(row: &mut [f64]) -> f64 {
    if row.is_empty() {
        return f64::NEG_INFINITY;
    }
    let max = max_of(row);
    let mut lanes = [0.0_f64; 8];
    let mut chunks = row.chunks_exact_mut(8);
    for chunk in &mut chunks {
        for (value, lane) in chunk.iter_mut().zip(&mut lanes) {
            *value = exp_or_zero(*value - max);
            *lane += *value;
        }
    }
    let mut total: f64 = lanes.iter().sum();
    for value in chunks.into_remainder() {
        *value = exp_or_zero(*value - max);
        total += *value;
    }
    let inverse = 1.0 / total;
    for value in row.iter_mut() {
        *value *= inverse;
    }
    max + total.ln()
}

/// The largest value; −∞ of nothing.
#[inline(always)]
pub fn max_of(row: &[f64]) -> f64 {
    let mut lanes = [f64::NEG_INFINITY; 8];
    let mut chunks = row.chunks_exact(8);
    for chunk in &mut chunks {
        for (value, lane) in chunk.iter().zip(&mut lanes) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let tail = chunks.remainder().iter().copied().fold(f64::NEG_INFINITY, f64::max);
    lanes.iter().copied().fold(tail, f64::max)
}

/// `e^x` for `x ≤ 0`, exactly 0 below [`LN_NEGLIGIBLE`]; relative error below 3e-16 elsewhere.
///
/// Cody–Waite reduction `x = k·ln 2 + r`, `|r| ≤ ln 2 / 2`, and the Taylor polynomial of degree 13 in `r`. No branch
/// and no call, so that the loop around it vectorises.
#[inline(always)]
fn exp_or_zero(x: f64) -> f64 {
    // Adding 1.5·2^52 leaves round(x / ln 2) in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let clamped = if x > -700.0 { x } else { -700.0 };
    let rounded = clamped * std::f64::consts::LOG2_E + ROUND;
    let k = rounded - ROUND;
    let r = (clamped - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut p = 1.0 / 6_227_020_800.0;
    p = p * r + 1.0 / 479_001_600.0;
    p = p * r + 1.0 / 39_916_800.0;
    p = p * r + 1.0 / 3_628_800.0;
    p = p * r + 1.0 / 362_880.0;
    p = p * r + 1.0 / 40_320.0;
    p = p * r + 1.0 / 5_040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    let power = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    if x > LN_NEGLIGIBLE { p * power } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The polynomial and the reduction together lose at most two units in the last place.
    const EXP_RELATIVE_ERROR: f64 = 5e-16;

    #[test]
    fn exponential_agrees_with_the_standard_library() {
        let mut x = LN_NEGLIGIBLE + 1e-9;
        while x <= 0.0 {
            let expected = x.exp();
            assert!((exp_or_zero(x) / expected - 1.0).abs() < EXP_RELATIVE_ERROR, "x = {x}");
            x += 0.000_917;
        }
        assert_eq!(exp_or_zero(0.0), 1.0);
        assert_eq!(exp_or_zero(f64::NEG_INFINITY), 0.0);
    }

    #[test]
    fn rows_sum_to_one_and_report_their_log_total() {
        for width in [1_usize, 3, 8, 19] {
            let mut scores: Vec<f64> = (0..width * 3).map(|i| -((i * 7 % 11) as f64)).collect();
            let expected: Vec<f64> =
                scores.chunks(width).map(|row| row.iter().map(|v| v.exp()).sum::<f64>().ln()).collect();
            let mut totals = vec![0.0; 3];
            softmax_rows(&mut scores, width, &mut totals);
            for (row, (total, expected)) in scores.chunks(width).zip(totals.iter().zip(&expected)) {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-14);
                assert!((total - expected).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn hopeless_components_get_exactly_nothing() {
        let mut scores = vec![0.0, -40.0, -1.0];
        softmax_rows(&mut scores, 3, &mut [0.0]);
        assert_eq!(scores[1], 0.0);
        assert_eq!(scores[0] + scores[2], 1.0);
    }
}
