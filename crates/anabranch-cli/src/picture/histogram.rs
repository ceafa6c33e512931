//! Counts of values in bins of equal width.

use super::is_drawable;
use super::layer::Bar;
use super::palette::Colour;

/// Fewer bins hide the shape, more show noise.
const BINS: (f64, f64) = (10.0, 80.0);

/// Vertical bars with the number of values in each bin; NaN and infinities are left out.
///
/// Bins are half as wide as by Freedman and Diaconis' rule (twice the interquartile range over the cube root
/// of the count), because the values come from several clusters, each narrower than the whole.
pub fn histogram(values: &[f64], colour: Colour) -> Vec<Bar> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| is_drawable(*v)).collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    if min == max {
        let half = min.abs().max(1.0) * 0.05;
        return vec![bar(min - half, min + half, sorted.len(), colour)];
    }
    let bins = bin_count(&sorted);
    let width = (max - min) / bins as f64;
    let mut counts = vec![0usize; bins];
    for value in &sorted {
        // The largest value belongs to the last bin.
        counts[(((value - min) / width) as usize).min(bins - 1)] += 1;
    }
    let edge = |ix: usize| min + width * ix as f64;
    counts.iter().enumerate().map(|(ix, count)| bar(edge(ix), edge(ix + 1), *count, colour)).collect()
}

fn bar(from: f64, to: f64, count: usize, colour: Colour) -> Bar {
    Bar { across: (from, to), value: count as f64, colour, label: String::new() }
}

fn bin_count(sorted: &[f64]) -> usize {
    let quartile = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    let width = (quartile(0.75) - quartile(0.25)) / (sorted.len() as f64).cbrt();
    let bins = (sorted[sorted.len() - 1] - sorted[0]) / width;
    if bins.is_finite() { bins.ceil().clamp(BINS.0, BINS.1) as usize } else { BINS.1 as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawable_value_is_counted_once() {
        let mut values: Vec<f64> = (0..1000).map(|ix| f64::from(ix % 37)).collect();
        values.extend([f64::NAN, f64::INFINITY]);
        let bars = histogram(&values, Colour::ACCENT);
        assert_eq!(bars.iter().map(|bar| bar.value).sum::<f64>(), 1000.0);
    }

    #[test]
    fn no_values_and_equal_values_are_no_trouble() {
        assert!(histogram(&[f64::NAN], Colour::ACCENT).is_empty());
        assert_eq!(histogram(&[3.0; 5], Colour::ACCENT).len(), 1);
    }
}
