//! Where an axis is marked: steps of 1, 2 or 5 times a power of ten.

use super::number;

/// More marks than this would be a fault in the arithmetic, not a finer axis.
const MOST_TICKS: f64 = 60.0;

/// A marked place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// About `target` round values within `[min, max]`.
pub(crate) fn linear(min: f64, max: f64, target: usize) -> Vec<Tick> {
    let step = nice_step((max - min) / target.max(1) as f64);
    let first = (min / step - 1e-9).ceil();
    let steps = ((max - first * step) / step + 1e-9).floor().clamp(0.0, MOST_TICKS) as u32;
    let largest = min.abs().max(max.abs());
    let mut ticks: Vec<Tick> = Vec::new();
    for ix in 0..=steps {
        // A product keeps rounding errors from adding up, as repeated sums would.
        let value = (first + f64::from(ix)) * step;
        // Where a step is below the precision of the numbers, neighbours coincide.
        if value <= max + step * 1e-9 && ticks.last().is_none_or(|tick| tick.value < value) {
            ticks.push(Tick { value, label: number::tick(value, step, largest) });
        }
    }
    ticks
}

/// Powers of ten within `[min, max]`, with 2 and 5 between them when there is room, or round values when the
/// axis spans too little for powers.
pub(crate) fn logarithmic(min: f64, max: f64, target: usize) -> Vec<Tick> {
    let decades = (max / min).log10();
    let mantissas: &[f64] = if decades <= 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let stride = (decades / target.max(1) as f64).ceil().max(1.0);
    let mut ticks = Vec::new();
    let mut exponent = (min.log10().floor() / stride).floor() * stride;
    while exponent <= max.log10() + 1e-9 {
        for mantissa in mantissas {
            let value = mantissa * 10f64.powf(exponent);
            if value >= min * (1.0 - 1e-9) && value <= max * (1.0 + 1e-9) {
                ticks.push(Tick { value, label: number::compact(value) });
            }
        }
        exponent += stride;
    }
    if ticks.len() < 3 { linear(min, max, target + 2) } else { ticks }
}

/// The round step (1, 2 or 5 times a power of ten) nearest to `rough` by ratio.
fn nice_step(rough: f64) -> f64 {
    if !(rough.is_finite() && rough > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let mantissa = rough / power;
    // The bounds are the geometric means √2, √10 and √50.
    let nice = match mantissa {
        m if m < 1.414 => 1.0,
        m if m < 3.162 => 2.0,
        m if m < 7.071 => 5.0,
        _ => 10.0,
    };
    nice * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn steps_are_one_two_or_five() {
        for (rough, nice) in [(0.9, 1.0), (1.6, 2.0), (3.5, 5.0), (8.0, 10.0), (0.016, 0.02)] {
            assert!((nice_step(rough) - nice).abs() < 1e-12, "{rough}");
        }
        assert_eq!(nice_step(f64::NAN), 1.0);
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        assert_eq!(labels(&linear(-0.3, 1.05, 5)), ["−0.2", "0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&linear(0.0, 43_000.0, 5)), ["0", "10k", "20k", "30k", "40k"]);
    }

    #[test]
    fn log_ticks_are_powers_of_ten_or_one_two_five() {
        assert_eq!(labels(&logarithmic(1.0, 1e5, 6)), ["1", "10", "100", "1,000", "10k", "100k"]);
        assert_eq!(labels(&logarithmic(1.0, 60.0, 6)), ["1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn a_wide_log_axis_skips_powers() {
        assert!(logarithmic(1e-100, 1e100, 6).len() <= 8);
    }

    #[test]
    fn a_narrow_log_axis_falls_back_to_round_values() {
        assert!(logarithmic(3.1, 4.4, 5).len() >= 3);
    }

    #[test]
    fn an_axis_beyond_the_precision_of_numbers_still_ends() {
        assert!(linear(1e17, 1e17 + 16.0, 5).len() <= 62);
    }
}
