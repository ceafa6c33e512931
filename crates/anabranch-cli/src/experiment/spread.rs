//! Means and spreads over trials.

use serde::Serialize;

/// The mean of a few measurements, with their standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    /// Mean.
    pub(super) mean: f64,
    /// Standard deviation, 0 for a single measurement.
    pub(super) deviation: f64,
    /// Measurements.
    pub(super) n: usize,
}

impl Spread {
    /// Of these measurements; NaN when there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let deviation = if n > 1 { (squares / (n as f64 - 1.0)).sqrt() } else { 0.0 };
        Self { mean, deviation, n }
    }

    /// `mean ± deviation` with this many decimals.
    pub(super) fn text(&self, decimals: usize) -> String {
        match self.n {
            1 => format!("{:.decimals$}", self.mean),
            _ => format!("{:.decimals$} ± {:.decimals$}", self.mean, self.deviation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::of([1.0, 2.0, 4.0]);
        assert!((spread.deviation - (7.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of([3.0]).text(1), "3.0");
    }
}
