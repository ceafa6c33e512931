//! The logarithm of a product of many factors, with one logarithm.
//!
//! ```text
//! Π x_i = m · 2^e,   1 ≤ m < 2        log Π x_i = log m + e · log 2
//! ```

/// Bits of a double's mantissa.
const MANTISSA_BITS: u32 = 52;
/// The exponent's bits of 1.
const ONE: u64 = 1023;

/// A product of positive numbers that neither overflows nor underflows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogProduct {
    mantissa: f64,
    exponent: i64,
    /// The logarithms of factors without a normal exponent.
    rest: f64,
}

impl Default for LogProduct {
    fn default() -> Self {
        Self { mantissa: 1.0, exponent: 0, rest: 0.0 }
    }
}

impl LogProduct {
    /// Multiplies by a positive number.
    #[inline(always)]
    pub(crate) fn multiply(&mut self, factor: f64) {
        if !(factor.is_normal() && factor > 0.0) {
            self.rest += factor.ln();
            return;
        }
        let (mantissa, exponent) = split(factor);
        let (mantissa, carry) = split(self.mantissa * mantissa);
        self.mantissa = mantissa;
        self.exponent += exponent + carry;
    }

    /// Multiplies by another product.
    #[inline(always)]
    pub(crate) fn multiply_by(&mut self, other: &Self) {
        let (mantissa, carry) = split(self.mantissa * other.mantissa);
        self.mantissa = mantissa;
        self.exponent += other.exponent + carry;
        self.rest += other.rest;
    }

    /// The logarithm of the product.
    #[inline(always)]
    pub(crate) fn ln(&self) -> f64 {
        self.mantissa.ln() + self.exponent as f64 * std::f64::consts::LN_2 + self.rest
    }
}

/// A positive normal number as a mantissa from 1 to 2 and an exponent.
#[inline(always)]
fn split(value: f64) -> (f64, i64) {
    let bits = value.to_bits();
    let exponent = (bits >> MANTISSA_BITS) as i64 - ONE as i64;
    (f64::from_bits((bits & ((1 << MANTISSA_BITS) - 1)) | (ONE << MANTISSA_BITS)), exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_sum_of_logarithms() {
        let factors: [f64; 9] = [3.7, 1e-300, 5e-324, 2.0, 1e200, 0.1, 1.0, f64::MAX, 7e-9];
        let mut product = LogProduct::default();
        let mut twice = LogProduct::default();
        for factor in factors {
            product.multiply(factor);
        }
        let sum: f64 = factors.iter().map(|factor| factor.ln()).sum();
        assert!((product.ln() - sum).abs() < 1e-12 * sum.abs());
        twice.multiply_by(&product);
        twice.multiply_by(&product);
        assert!((twice.ln() - 2.0 * sum).abs() < 1e-12 * sum.abs());
        assert_eq!(LogProduct::default().ln(), 0.0);
    }

    #[test]
    fn what_has_no_logarithm_shows() {
        let of = |factor: f64| {
            let mut product = LogProduct::default();
            product.multiply(factor);
            product.ln()
        };
        assert_eq!(of(0.0), f64::NEG_INFINITY);
        assert_eq!(of(f64::INFINITY), f64::INFINITY);
        assert!(of(f64::NAN).is_nan());
    }
}
