//! One axis: which values it spans, where they lie on the canvas, and how it is marked.

use super::is_drawable;
use super::tick::{self, Tick};

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// Equal differences are equal distances.
    #[default]
    Linear,
    /// Equal ratios are equal distances; values that are not positive are left out.
    Log,
}

/// How an axis is marked.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Ticks {
    /// At round numbers.
    #[default]
    Round,
    /// At round whole numbers: ranks, counts.
    Whole,
    /// At given places with given names.
    Named(Vec<(f64, String)>),
}

/// What an axis shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Linear or logarithmic.
    pub scaling: Scaling,
    /// Where it is marked.
    pub ticks: Ticks,
    /// The span; taken from the data when absent.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis that takes its span from the data.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// A logarithmic axis that takes its span from the data.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scaling: Scaling::Log, ..Self::default() }
    }

    /// The same axis with a fixed span.
    pub fn with_range(mut self, min: f64, max: f64) -> Self {
        self.range = Some((min, max));
        self
    }

    /// The same axis marked otherwise.
    pub fn with_ticks(mut self, ticks: Ticks) -> Self {
        self.ticks = ticks;
        self
    }

    /// The span of the axis for these values; `None` when none of them can be shown.
    pub(crate) fn span(&self, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        let shown = values.filter(|v| self.shows(*v));
        let (min, max) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
        if min > max {
            return None;
        }
        match self.range {
            Some((lo, hi)) if lo < hi && self.shows(lo) && self.shows(hi) => Some((lo, hi)),
            _ => Some(self.padded(min, max)),
        }
    }

    pub(crate) fn shows(&self, value: f64) -> bool {
        // The bound keeps the padding of a logarithmic axis away from subnormal numbers.
        is_drawable(value) && (self.scaling == Scaling::Linear || value > 1e-290)
    }

    /// The span with some air, but never below zero for quantities that are not.
    fn padded(&self, min: f64, max: f64) -> (f64, f64) {
        if self.scaling == Scaling::Log {
            let air = (max / min).powf(0.03).max(1.12);
            return (min / air, max * air);
        }
        let least = (min.abs().max(max.abs()) * 1e-9).max(1e-280);
        let air = if max - min > least { (max - min) * 0.04 } else { min.abs().max(1.0) * 0.5 };
        let low = if min >= 0.0 { (min - air).max(0.0) } else { min - air };
        (low, max + air)
    }

    /// Marks within the span.
    pub(crate) fn marks(&self, span: (f64, f64), target: usize) -> Vec<Tick> {
        match (&self.ticks, self.scaling) {
            (Ticks::Named(names), _) => {
                let inside = names.iter().filter(|(at, _)| (span.0..=span.1).contains(at));
                inside.map(|(at, name)| Tick { value: *at, label: name.clone() }).collect()
            }
            (Ticks::Round, Scaling::Linear) => tick::linear(span.0, span.1, target),
            (Ticks::Round, Scaling::Log) => tick::logarithmic(span.0, span.1, target),
            (Ticks::Whole, Scaling::Linear) => whole(tick::linear(span.0, span.1, target)),
            (Ticks::Whole, Scaling::Log) => whole(tick::logarithmic(span.0, span.1, target)),
        }
    }
}

fn whole(mut ticks: Vec<Tick>) -> Vec<Tick> {
    ticks.retain(|tick| (tick.value - tick.value.round()).abs() <= tick.value.abs() * 1e-9);
    for tick in &mut ticks {
        if let Some(whole) = tick.label.strip_suffix(".0") {
            tick.label = whole.to_owned();
        }
    }
    ticks
}

/// From values to places on the canvas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    scaling: Scaling,
    span: (f64, f64),
    pixels: (f64, f64),
}

impl Scale {
    pub(crate) fn new(axis: &Axis, span: (f64, f64), pixels: (f64, f64)) -> Self {
        Self { scaling: axis.scaling, span, pixels }
    }

    /// Where a value lies, unless it cannot be shown. Far outside the plot it is cut, to keep coordinates sane.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.scaling {
            Scaling::Linear => (value - self.span.0) / (self.span.1 - self.span.0),
            Scaling::Log if value <= 0.0 => return None,
            Scaling::Log => (value / self.span.0).ln() / (self.span.1 / self.span.0).ln(),
        };
        if value.is_nan() || share.is_nan() {
            return None;
        }
        Some(self.pixels.0 + share.clamp(-20.0, 20.0) * (self.pixels.1 - self.pixels.0))
    }

    /// Where bars stand: at zero, or at the lower end when zero is not on the axis.
    pub(crate) fn foot(&self) -> f64 {
        match self.scaling {
            Scaling::Linear => self.place(0f64.clamp(self.span.0, self.span.1)).unwrap_or(self.pixels.0),
            Scaling::Log => self.pixels.0,
        }
    }

    /// Canvas units per unit of value (a linear axis).
    pub(crate) fn factor(&self) -> f64 {
        (self.pixels.1 - self.pixels.0) / (self.span.1 - self.span.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_ignores_what_cannot_be_shown() {
        let values = [f64::NAN, 1.0, f64::INFINITY, 3.0, f64::MAX];
        let (min, max) = Axis::linear("x").span(values.into_iter()).unwrap();
        assert!(min > 0.8 && max < 3.2, "{min} {max}");
        assert_eq!(Axis::linear("x").span([f64::NAN].into_iter()), None);
        assert_eq!(Axis::log("x").span([0.0, -3.0].into_iter()), None);
    }

    #[test]
    fn a_single_value_gets_a_span_around_it() {
        let (min, max) = Axis::linear("x").span([5.0].into_iter()).unwrap();
        assert!(min < 5.0 && 5.0 < max);
    }

    #[test]
    fn padding_does_not_push_counts_below_zero() {
        assert_eq!(Axis::linear("n").span([0.0, 10.0].into_iter()).unwrap().0, 0.0);
    }

    #[test]
    fn equal_ratios_are_equal_distances_on_a_log_axis() {
        let scale = Scale::new(&Axis::log("n"), (1.0, 100.0), (0.0, 200.0));
        assert!((scale.place(10.0).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(scale.place(0.0), None);
    }

    #[test]
    fn whole_ticks_have_no_fractions() {
        let axis = Axis::linear("n").with_ticks(Ticks::Whole);
        assert!(
            axis.marks((0.0, 2.0), 8)
                .iter()
                .all(|tick| !tick.label.contains('.') || tick.label.ends_with(".0"))
        );
    }
}
