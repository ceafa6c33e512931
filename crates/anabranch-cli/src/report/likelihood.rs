//! The picture of the held-out likelihood over time.

use super::{ReportData, WIDTH};
use crate::picture::{Axis, Colour, Direction, Figure, Layer, Panel, Path, Stroke, significant};

/// Times that span more than this ratio are drawn on a logarithmic axis.
const LOG_FROM: f64 = 300.0;

/// The likelihood, or nothing when it was never measured.
pub(super) fn figure(data: &ReportData) -> Option<Figure> {
    let points: Vec<(f64, f64)> = data
        .trace
        .iter()
        .filter_map(|row| Some((row.seconds, row.test_log_likelihood?)))
        .filter(|(seconds, value)| seconds.is_finite() && value.is_finite())
        .collect();
    let last = points.last()?.1;
    let x = time_axis(&points);
    let reference = data.reference_log_likelihood.filter(|value| value.is_finite());
    let y = likelihood_axis(points.iter().map(|p| p.1).chain(reference));
    let (path, stroke, colour) = (Path::Straight, Stroke::Solid, Colour::ACCENT);
    let mut layers: Vec<Layer> = reference.map(rule).into_iter().collect();
    layers.push(Layer::Line { points, path, colour, stroke });
    Some(Figure {
        name: "likelihood".to_owned(),
        title: "How well the model predicts held-out rows".to_owned(),
        subtitle: subtitle(last, reference),
        description: "Mean log-likelihood of held-out rows over the seconds of the run.".to_owned(),
        width: WIDTH,
        legend: Vec::new(),
        panels: vec![Panel { height: 280.0, x, y, layers }],
        notes: Vec::new(),
    })
}

/// Room above the highest value for the name of the reference line.
fn likelihood_axis(values: impl Iterator<Item = f64>) -> Axis {
    let (min, max) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    let axis = Axis::linear("mean log-likelihood of a held-out row (higher is better)");
    let span = max - min;
    if span > 0.0 { axis.with_range(min - span * 0.06, max + span * 0.1) } else { axis }
}

fn time_axis(points: &[(f64, f64)]) -> Axis {
    let positive = || points.iter().map(|p| p.0).filter(|s| *s > 0.0);
    let (min, max) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    let all_positive = positive().count() == points.len();
    if all_positive && max / min > LOG_FROM {
        Axis::log("seconds since the start (log scale)")
    } else {
        Axis::linear("seconds since the start")
    }
}

fn subtitle(last: f64, reference: Option<f64>) -> String {
    let last_label = significant(last, 4);
    match reference {
        Some(reference) => {
            let side = if last < reference { "below" } else { "above" };
            let gap = significant((last - reference).abs(), 2);
            format!("Last value {last_label}, {gap} {side} the mixture that made the data.")
        }
        None => format!("Last value {last_label}."),
    }
}

fn rule(at: f64) -> Layer {
    Layer::Rule {
        at,
        direction: Direction::Horizontal,
        colour: Colour::CONTRAST,
        stroke: Stroke::Dashed,
        label: "true mixture".to_owned(),
    }
}
