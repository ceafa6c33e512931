//! The log-gamma and digamma functions and their multivariate forms.
//!
//! ```text
//! log Γ(x)   ≈ (x − ½) log x − x + ½ log 2π + c(x),   c(x) = Σ_n B_2n / (2n(2n−1) x^{2n−1})
//! ψ(x)       ≈ log x − 1/(2x) − Σ_n B_2n / (2n x^{2n})
//! log Γ_D(x) = D(D−1)/4 · log π + Σ_{i=1..D} log Γ(x + (1−i)/2)
//! ψ_D(x)     = Σ_{i=1..D} ψ(x + (1−i)/2)
//! ```
//!
//! The two series are used above 10, where their first omitted terms are below rounding.

use std::f64::consts::PI;

use super::log_product::LogProduct;

/// `log 2π`.
pub const LN_2PI: f64 = 1.837_877_066_409_345_3;
/// `log π`.
pub const LN_PI: f64 = 1.144_729_885_849_400_2;

/// From here on the asymptotic series hold to a unit in the last place: at 10 the first omitted term of ψ is
/// `B₁₆/(16·10¹⁶) ≈ 4e-17`.
const STIRLING_FROM: f64 = 10.0;

/// `log Γ(x)` for `x > 0`.
pub fn ln_gamma(x: f64) -> f64 {
    if x >= STIRLING_FROM {
        return (x - 0.5) * x.ln() - x + 0.5 * LN_2PI + stirling_correction(x);
    }
    libm::lgamma_r(x).0
}

/// `c(x) = log Γ(x) − [(x − ½) log x − x + ½ log 2π]` for `x ≥ STIRLING_FROM`.
fn stirling_correction(x: f64) -> f64 {
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    inverse
        * (1.0 / 12.0
            - square
                * (1.0 / 360.0
                    - square
                        * (1.0 / 1260.0
                            - square
                                * (1.0 / 1680.0
                                    - square
                                        * (1.0 / 1188.0
                                            - square * (691.0 / 360_360.0 - square * (1.0 / 156.0)))))))
}

/// `log Γ(x + step) − log Γ(x)` for `x > 0`, `step ≥ 0`.
///
/// The difference of two log-gammas loses `x log x · ε`; for large `x` the leading terms are subtracted by hand.
pub fn ln_gamma_ratio(x: f64, step: f64) -> f64 {
    if x < STIRLING_FROM {
        return ln_gamma(x + step) - ln_gamma(x);
    }
    let top = x + step;
    (top - 0.5) * (step / x).ln_1p() + step * (x.ln() - 1.0) + stirling_correction(top)
        - stirling_correction(x)
}

/// The digamma function `ψ(x) = d/dx log Γ(x)` for `x > 0`, to 1e-13 (absolute where ψ is small).
pub fn digamma(x: f64) -> f64 {
    let mut shifted = x;
    let mut below = 0.0;
    // ψ(x) = ψ(x + 1) − 1/x climbs to where the series holds. The largest term, 1/x, is added last for tiny x.
    if x < 1e-6 {
        // ψ(x) = −1/x − γ + π²x/6 − ζ(3)x²; the next term is 1e-18.
        return -1.0 / x - EULER_GAMMA + x * (PI * PI / 6.0 - x * APERY);
    }
    while shifted < STIRLING_FROM {
        below += 1.0 / shifted;
        shifted += 1.0;
    }
    digamma_series(shifted) - below
}

/// Euler's γ.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;
/// `ζ(3)`.
const APERY: f64 = 1.202_056_903_159_594_3;

/// ψ by its asymptotic series, for `x ≥ STIRLING_FROM`.
fn digamma_series(x: f64) -> f64 {
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = square
        * (1.0 / 12.0
            - square
                * (1.0 / 120.0
                    - square
                        * (1.0 / 252.0
                            - square
                                * (1.0 / 240.0
                                    - square
                                        * (1.0 / 132.0
                                            - square * (691.0 / 32_760.0 - square * (1.0 / 12.0)))))));
    x.ln() - 0.5 * inverse - series
}

/// `log Γ_D(x)` for `x > (D − 1)/2`.
pub fn ln_multigamma(dimensions: usize, x: f64) -> f64 {
    let d = dimensions as f64;
    0.25 * d * (d - 1.0) * LN_PI + sum_over_halves(dimensions, x, ln_gamma_descending)
}

/// `ψ_D(x) = d/dx log Γ_D(x)` for `x > (D − 1)/2`.
pub fn multi_digamma(dimensions: usize, x: f64) -> f64 {
    sum_over_halves(dimensions, x, digamma_descending)
}

/// Splits `x, x − ½, x − 1, …` (D terms) into the two chains whose steps are 1.
fn sum_over_halves(dimensions: usize, x: f64, chain: fn(usize, f64) -> f64) -> f64 {
    let whole = dimensions.div_ceil(2);
    let half = dimensions / 2;
    let mut sum = 0.0;
    if whole > 0 {
        sum += chain(whole, x);
    }
    if half > 0 {
        sum += chain(half, x - 0.5);
    }
    sum
}

/// `log Γ(x) + log Γ(x − 1) + … ` (n terms), climbing from the smallest by `Γ(y + 1) = yΓ(y)`: one log-gamma for all.
fn ln_gamma_descending(n: usize, x: f64) -> f64 {
    let smallest = x - (n - 1) as f64;
    let (mut current, mut all) = (LogProduct::default(), LogProduct::default());
    for step in 0..n - 1 {
        current.multiply(smallest + step as f64);
        all.multiply_by(&current);
    }
    n as f64 * ln_gamma(smallest) + all.ln()
}

/// `ψ(x) + ψ(x − 1) + …` (n terms), descending by `ψ(y) = ψ(y + 1) − 1/y`: one digamma for all.
fn digamma_descending(n: usize, x: f64) -> f64 {
    let mut current = digamma(x);
    let mut sum = current;
    for step in 1..n {
        current -= 1.0 / (x - step as f64);
        sum += current;
    }
    sum
}

/// `log x` of a positive number; of smaller ones than the smallest normal number it is the logarithm of that. Neither branch
/// nor call, so that the loop around it vectorises.
///
/// `x = m·2^e` with `√½ ≤ m < √2`, and `log m = 2 artanh((m − 1)/(m + 1))` by its series.
#[inline(always)]
pub(crate) fn ln_positive(x: f64) -> f64 {
    /// The bits of √½, and of 2⁵².
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    let bits = x.max(f64::MIN_POSITIVE).to_bits().wrapping_sub(ROOT_HALF);
    // An exponent as a double: added to the bits of 2⁵², without a conversion that not every machine has.
    let exponent = (bits as i64 >> 52) as u64;
    let exponent =
        f64::from_bits(TWO_52.to_bits().wrapping_add(exponent.wrapping_add(2048))) - (TWO_52 + 2048.0);
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT_HALF));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 1.0 / 21.0;
    for odd in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / odd;
    }
    2.0 * s * sum + exponent * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accuracy that is promised for each function.
    const PROMISED: f64 = 1e-13;

    fn close(found: f64, expected: f64) {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error < PROMISED, "{found} is not {expected}: relative error {error:e}");
    }

    #[test]
    fn ln_gamma_agrees_with_the_reference_on_both_sides_of_the_switch() {
        for ix in 1..4000 {
            let x = 0.01 * f64::from(ix);
            close(ln_gamma(x), libm::lgamma(x));
        }
        close(ln_gamma(1e-300), 300.0 * 10.0_f64.ln());
        close(ln_gamma(1e9), 19_723_265_827.503_716);
    }

    #[test]
    fn digamma_has_its_known_values() {
        close(digamma(1.0), -EULER_GAMMA);
        close(digamma(0.5), -EULER_GAMMA - 2.0 * 2.0_f64.ln());
        close(digamma(0.25), -EULER_GAMMA - PI / 2.0 - 3.0 * 2.0_f64.ln());
        close(digamma(10.0), 2.251_752_589_066_721);
        close(digamma(1e-5), -100_000.577_199_215_7);
        close(digamma(1e-300), -1e300);
        assert!(digamma(1.461_632_144_968_362_3).abs() < PROMISED, "the root of ψ");
    }

    #[test]
    fn digamma_obeys_its_recurrence_and_reflection() {
        for ix in 1..3000 {
            let x = 0.007 * f64::from(ix);
            close(digamma(x + 1.0) - 1.0 / x, digamma(x));
        }
        for x in [0.1, 0.3, 0.45] {
            close(digamma(1.0 - x) - digamma(x), PI / (PI * x).tan());
        }
        // Both sides of the switch to the series at tiny arguments.
        let x = 1e-6;
        close(digamma(x * 0.999_999_999) * x * 0.999_999_999, digamma(x) * x);
    }

    #[test]
    fn the_ratio_of_gammas_keeps_its_digits_at_large_counts() {
        for (x, step) in [(0.3, 0.5), (9.0, 4.0), (25.0, 2.5), (400.0, 30.0)] {
            let difference = ln_gamma(x + step) - ln_gamma(x);
            assert!(
                (ln_gamma_ratio(x, step) - difference).abs() < PROMISED * ln_gamma(x + step).abs().max(1.0)
            );
        }
        // Γ(x + 1)/Γ(x) = x, where subtracting two log-gammas would leave six digits.
        close(ln_gamma_ratio(1e12, 1.0), 1e12_f64.ln());
        close(ln_gamma_ratio(1e12, 2.0), 1e12_f64.ln() + (1e12_f64 + 1.0).ln());
    }

    #[test]
    fn the_multivariate_forms_are_the_sums_they_are_defined_by() {
        for dimensions in [1, 2, 3, 5, 20] {
            for extra in [1e-6, 0.3, 1.0, 40.0] {
                let x = 0.5 * (dimensions as f64 - 1.0) + extra;
                let terms = (0..dimensions).map(|i| x - 0.5 * i as f64);
                let d = dimensions as f64;
                let pi_term = 0.25 * d * (d - 1.0) * LN_PI;
                close(ln_multigamma(dimensions, x), pi_term + terms.clone().map(ln_gamma).sum::<f64>());
                let slope = terms.map(digamma).sum::<f64>();
                // x − i/2 cancels near the boundary, where ψ is −1/x.
                assert!((multi_digamma(dimensions, x) - slope).abs() < 1e-9 * slope.abs().max(1.0));
            }
        }
    }

    #[test]
    fn the_logarithm_without_a_call_is_the_logarithm() {
        let mut x = 1e-300;
        while x < 1e300 {
            assert!((ln_positive(x) - x.ln()).abs() <= 1e-14 * (1.0 + x.ln().abs()), "{x}");
            x *= 1.37;
        }
        assert_eq!(ln_positive(1.0), 0.0);
        assert_eq!(0.0 * ln_positive(0.0), 0.0);
    }
}
