//! The logarithm of a sum of exponentials, without overflow.
//!
//! ```text
//! log Σ_i e^{v_i}  =  m + log Σ_i e^{v_i − m},     m = max_i v_i
//! ```

/// `log Σ e^v`. The sum over nothing, or over −∞ only, is −∞; one +∞ makes it +∞; a NaN is passed on.
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !max.is_finite() {
        // `f64::max` skips NaN; the sum does not, and it also gives the right infinity.
        return values.iter().fold(max, |sum, v| if v.is_nan() { *v } else { sum });
    }
    max + values.iter().map(|v| (v - max).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few roundings of numbers near 1000.
    const ROUNDING: f64 = 1e-12;

    #[test]
    fn large_values_do_not_overflow() {
        assert!((log_sum_exp(&[1000.0, 1000.0]) - (1000.0 + 2.0_f64.ln())).abs() < ROUNDING);
        assert!((log_sum_exp(&[-1000.0, -1001.0]) - (-1000.0 + (-1.0_f64).exp().ln_1p())).abs() < ROUNDING);
    }

    #[test]
    fn nothing_sums_to_minus_infinity_and_nan_is_passed_on() {
        assert_eq!(log_sum_exp(&[]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[f64::NEG_INFINITY, 3.0]), 3.0);
        assert_eq!(log_sum_exp(&[f64::INFINITY, 3.0]), f64::INFINITY);
        assert!(log_sum_exp(&[1.0, f64::NAN]).is_nan());
        assert!(log_sum_exp(&[f64::NAN]).is_nan());
    }
}
