//! Numbers as people read them: thousands apart, SI suffixes, no digits that mean nothing.

/// Units from large to small: factor and suffix.
const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Below this a number is read faster in full (`9,500`) than with a suffix (`9.5k`).
const SUFFIX_FROM: f64 = 10_000.0;

/// A whole number with its thousands apart: `1,234,567`. Fractions are rounded.
///
/// ```
/// assert_eq!(anabranch_cli::picture::grouped(1_234_567.0), "1,234,567");
/// ```
pub fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    signed(value, &format!("{:.0}", value.abs()))
}

/// A number of things: `1 row`, `2,000 rows`, `3 minibatches`.
///
/// ```
/// assert_eq!(anabranch_cli::picture::counted(1, "row"), "1 row");
/// ```
pub fn counted(n: u64, noun: &str) -> String {
    let ending = match noun.ends_with("ch") {
        _ if n == 1 => "",
        true => "es",
        false => "s",
    };
    format!("{} {noun}{ending}", grouped(n as f64))
}

/// A number that is read back as it is, without hundreds of zeros.
pub(crate) fn short_number(value: f64) -> String {
    let plain = value == 0.0 || (1e-7..1e16).contains(&value.abs());
    if plain || !value.is_finite() { value.to_string() } else { format!("{value:e}") }
}

/// A short number with at most three significant digits and an SI suffix: `1.25M`, `640`, `0.012`.
pub fn compact(value: f64) -> String {
    if value.is_finite() && value.abs() >= SUFFIX_FROM && value.abs() < 1e15 {
        let (factor, suffix) = unit_of(value.abs());
        return format!("{}{suffix}", significant(value / factor, 3));
    }
    significant(value, 3)
}

/// `digits` significant digits without trailing zeros; exponents only where they save the reader zeros.
///
/// ```
/// assert_eq!(anabranch_cli::picture::significant(0.012_345, 3), "0.0123");
/// assert_eq!(anabranch_cli::picture::significant(-1234.6, 3), "−1,235");
/// ```
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if !(-4.0..15.0).contains(&magnitude) {
        return format!("{:.*e}", digits.saturating_sub(1), value).replace('-', "−");
    }
    let decimals = (digits as f64 - 1.0 - magnitude).max(0.0) as usize;
    signed(value, trim_zeros(&format!("{:.decimals$}", value.abs())))
}

/// The label of a linear tick: just the decimals that the step needs, one unit for the whole axis.
pub(crate) fn tick(value: f64, step: f64, largest: f64) -> String {
    let (factor, suffix) = axis_unit(step, largest);
    let step = step / factor;
    if !(1e-6..1e15).contains(&step) || largest / factor >= 1e15 {
        return format!("{value:.2e}").replace('-', "−");
    }
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    let label = signed(value / factor, &format!("{:.decimals$}", (value / factor).abs()));
    if value == 0.0 { "0".to_owned() } else { label + suffix }
}

/// A suffix helps when the axis is large and its steps do not need many decimals in that unit.
fn axis_unit(step: f64, largest: f64) -> (f64, &'static str) {
    if (SUFFIX_FROM..1e15).contains(&largest) {
        let (factor, suffix) = unit_of(largest);
        if step / factor >= 0.009 {
            return (factor, suffix);
        }
    }
    (1.0, "")
}

fn unit_of(magnitude: f64) -> (f64, &'static str) {
    UNITS.into_iter().find(|(factor, _)| magnitude >= *factor).unwrap_or((1.0, ""))
}

/// Puts the sign back (none for a value that was rounded to zero) and groups the whole part.
fn signed(value: f64, digits: &str) -> String {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut label = String::new();
    if value < 0.0 && digits.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        label.push('−');
    }
    for (ix, digit) in whole.chars().enumerate() {
        if ix > 0 && (whole.len() - ix) % 3 == 0 {
            label.push(',');
        }
        label.push(digit);
    }
    if !fraction.is_empty() {
        label.push('.');
        label.push_str(fraction);
    }
    label
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_get_a_suffix_and_small_ones_do_not() {
        assert_eq!(compact(1_250_000.0), "1.25M");
        assert_eq!(compact(9_500.0), "9,500");
        assert_eq!(compact(640.0), "640");
        assert_eq!(compact(0.0), "0");
    }

    #[test]
    fn numbers_beyond_reading_are_written_with_an_exponent() {
        assert_eq!(significant(1.5e-9, 2), "1.5e−9");
        assert_eq!(significant(f64::NAN, 3), "–");
        assert_eq!(grouped(f64::INFINITY), "–");
    }

    #[test]
    fn ticks_share_the_decimals_of_their_step() {
        assert_eq!(tick(0.5, 0.1, 1.0), "0.5");
        assert_eq!(tick(-20.0, 10.0, 40.0), "−20");
        assert_eq!(tick(15_000.0, 5_000.0, 20_000.0), "15k");
        assert_eq!(tick(1_500_000.0, 500_000.0, 2_000_000.0), "1.5M");
        assert_eq!(tick(0.0, 500_000.0, 2_000_000.0), "0");
    }

    #[test]
    fn a_value_rounded_to_zero_has_no_sign() {
        assert_eq!(grouped(-0.2), "0");
    }
}
