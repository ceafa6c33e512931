//! The picture of a run's growth: components, and matchings with their conflicts, over minibatches.

use super::{ReportData, TraceRow, WIDTH};
use crate::picture::{
    Axis, Colour, Figure, Layer, LegendEntry, LegendMark, Panel, Path, Stroke, Ticks, grouped,
};

/// More steps than this cannot be seen; the rest is thinned out.
const MOST_STEPS: usize = 1_500;

/// Two panels over the same axis, because counts of components and of matchings share no scale.
/// `None` where there was one minibatch, and nothing grew.
pub(super) fn figure(data: &ReportData) -> Option<Figure> {
    if data.trace.last().is_none_or(|last| last.minibatch < 2) {
        return None;
    }
    let rows = thinned(&data.trace);
    let components = vec![curve(&rows, |row| row.components, Colour::SECOND, Stroke::Solid)];
    let matchings = vec![
        curve(&rows, |row| row.matchings, Colour::ACCENT, Stroke::Solid),
        curve(&rows, |row| row.conflicts, Colour::CONTRAST, Stroke::Dashed),
    ];
    let entry = |mark, colour, text: &str| LegendEntry { mark, colour, text: text.to_owned() };
    Some(Figure {
        name: "growth".to_owned(),
        title: "How the model grew".to_owned(),
        subtitle: subtitle(data.trace.last(), data.sizes.len() as u64),
        description: "Number of components, and cumulative matchings and conflicts, over minibatches."
            .to_owned(),
        width: WIDTH,
        legend: vec![
            entry(LegendMark::Line, Colour::SECOND, "components"),
            entry(LegendMark::Line, Colour::ACCENT, "matchings solved"),
            entry(
                LegendMark::Dashes,
                Colour::CONTRAST,
                "of these in conflict: the model had changed meanwhile",
            ),
        ],
        panels: vec![
            panel("components", "", components, 180.0),
            panel("matchings since the start", "minibatches (log scale)", matchings, 180.0),
        ],
        notes: Vec::new(),
    })
}

fn panel(y: &str, x: &str, layers: Vec<Layer>, height: f64) -> Panel {
    Panel {
        height,
        x: Axis::log(x).with_ticks(Ticks::Whole),
        y: Axis::linear(y).with_ticks(Ticks::Whole),
        layers,
    }
}

fn subtitle(last: Option<&TraceRow>, at_the_end: u64) -> String {
    let Some(row) = last else { return "No minibatch has been seen yet.".to_owned() };
    let share = if row.matchings == 0 { 0.0 } else { 100.0 * row.conflicts as f64 / row.matchings as f64 };
    // The end of a run merges and splits once more.
    let then = if row.components == at_the_end {
        String::new()
    } else {
        format!(", {} once the run had ended", grouped(at_the_end as f64))
    };
    format!(
        "{} components after {} minibatches{then}; {} matchings, {} of them in conflict ({share:.1} %).",
        grouped(row.components as f64),
        grouped(row.minibatch as f64),
        grouped(row.matchings as f64),
        grouped(row.conflicts as f64),
    )
}

/// Fewer rows, evenly by ratio rather than by number: the axis is logarithmic. First and last stay.
fn thinned(trace: &[TraceRow]) -> Vec<&TraceRow> {
    if trace.len() <= MOST_STEPS {
        return trace.iter().collect();
    }
    let ratio = (trace.len() as f64).powf(1.0 / MOST_STEPS as f64);
    let mut next = 0.0;
    let keep = |(ix, row)| {
        let wanted = ix as f64 >= next || ix + 1 == trace.len();
        if wanted {
            next = (ix as f64 * ratio).max(ix as f64 + 0.5);
        }
        wanted.then_some(row)
    };
    trace.iter().enumerate().filter_map(keep).collect()
}

fn curve(rows: &[&TraceRow], count: fn(&TraceRow) -> u64, colour: Colour, stroke: Stroke) -> Layer {
    let points = rows.iter().map(|row| (row.minibatch as f64, count(row) as f64)).collect();
    Layer::Line { points, path: Path::Step, colour, stroke }
}
