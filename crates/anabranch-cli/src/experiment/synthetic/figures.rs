//! The six panels of the paper's Figure 3.

use anabranch::identify::Identification;

use super::{MANY, Measured, Scaled, below_truth};
use crate::picture::{
    Axis, Bar, Colour, Direction, Figure, Layer, LegendEntry, LegendMark, Panel, Path, Stroke, Ticks,
    component_colour,
};
use crate::report::WIDTH;

/// Likelihoods further below the truth are not drawn.
const LOWEST: f64 = -1.0;

pub(super) fn all(measured: &Measured) -> Vec<Figure> {
    vec![
        workers(measured, Identification::ByPosition, "identify-off", "Workers, without identification"),
        workers(measured, Identification::Optimal, "identify-on", "Workers, with identification"),
        traces(measured),
        identification(measured),
        growth(measured),
        last(measured),
    ]
}

fn line(points: Vec<(f64, f64)>, colour: Colour, stroke: Stroke) -> Layer {
    Layer::Line { points, path: Path::Straight, colour, stroke }
}

/// The mean over trials as a line, with a stroke of one standard deviation at each number of workers.
fn mean_line(
    measured: &Measured,
    identification: Identification,
    colour: Colour,
    value: impl Fn(&Scaled) -> f64,
) -> Vec<Layer> {
    let spread = |workers: &usize| (*workers as f64, measured.scaled(identification, *workers, &value));
    let points: Vec<_> = measured.plan.workers.iter().map(spread).collect();
    let mut layers = vec![line(points.iter().map(|(x, s)| (*x, s.mean)).collect(), colour, Stroke::Solid)];
    for (x, s) in points {
        layers.push(line(vec![(x, s.mean - s.deviation), (x, s.mean + s.deviation)], colour, Stroke::Solid));
    }
    layers
}

fn worker_axis(label: &str) -> Axis {
    Axis::linear(label).with_ticks(Ticks::Whole).with_range(0.0, MANY as f64 + 1.0)
}

/// (a) and (b): time and likelihood against workers.
fn workers(measured: &Measured, identification: Identification, name: &str, title: &str) -> Figure {
    let lowest = measured.scaled.iter().map(below_truth).fold(0.0, f64::min);
    let top = 0.05 * lowest.abs().max(0.1);
    Figure {
        name: name.into(),
        title: title.into(),
        subtitle: "Mean and standard deviation over trials. Both pictures have the same scale of likelihood."
            .into(),
        description: format!("{title}: likelihood and processor seconds against logical workers."),
        width: WIDTH,
        legend: Vec::new(),
        panels: vec![
            Panel {
                height: 220.0,
                x: worker_axis(""),
                y: Axis::linear("held-out log-likelihood of a row, minus that of the truth")
                    .with_range(lowest * 1.1 - 0.02, top),
                layers: mean_line(measured, identification, Colour::ACCENT, below_truth),
            },
            Panel {
                height: 140.0,
                x: worker_axis("logical workers"),
                y: Axis::linear("processor seconds"),
                layers: mean_line(measured, identification, Colour::SECOND, |s| s.trial.cpu_seconds),
            },
        ],
        notes: Vec::new(),
    }
}

/// (c): likelihood against time for all algorithms.
fn traces(measured: &Measured) -> Figure {
    let names = measured.algorithms();
    let mut layers = vec![Layer::Rule {
        at: 0.0,
        direction: Direction::Horizontal,
        colour: Colour::CONTRAST,
        stroke: Stroke::Dashed,
        label: "true mixture".into(),
    }];
    for raced in &measured.raced {
        let ix = names.iter().position(|name| *name == raced.trial.algorithm).unwrap_or(0);
        let points =
            raced.trial.moments.iter().map(|m| (m.cpu_seconds.max(1e-4), m.likelihood - raced.truth));
        layers.push(line(points.collect(), component_colour(ix as u64), Stroke::Solid));
    }
    let entry = |(ix, name): (usize, &&'static str)| LegendEntry {
        mark: LegendMark::Line,
        colour: component_colour(ix as u64),
        text: (*name).to_owned(),
    };
    Figure {
        name: "traces".into(),
        title: "Likelihood against time".into(),
        subtitle: format!(
            "A line for each trial. sda: {MANY} workers, as in the paper; with bootstrap: its first minibatch is fitted alone."
        ),
        description:
            "Held-out log-likelihood minus that of the truth over processor seconds for all algorithms."
                .into(),
        width: WIDTH,
        legend: names.iter().enumerate().map(entry).collect(),
        panels: vec![Panel {
            height: 380.0,
            x: Axis::log("processor seconds (log scale)"),
            y: Axis::linear("held-out log-likelihood of a row, minus that of the truth")
                .with_range(LOWEST, 0.06),
            layers,
        }],
        notes: vec![format!("Lines begin where they rise above {LOWEST}.")],
    }
}

/// (d): how long one identification takes.
fn identification(measured: &Measured) -> Figure {
    let panel = |only_solved: bool, colour: Colour, x: &str, y: &str| Panel {
        height: 150.0,
        x: Axis::log(x).with_range(0.05, 2000.0),
        y: Axis::linear(y),
        layers: vec![Layer::Bars {
            bars: log_histogram(&measured.timings.microseconds(only_solved), colour),
            direction: Direction::Vertical,
        }],
    };
    Figure {
        name: "identification".into(),
        title: "How long one identification takes".into(),
        subtitle: format!(
            "Median of those that solve a matching: {:.0} µs.",
            measured.timings.median_solved()
        ),
        description: "Histograms of the microseconds of one identification.".into(),
        width: WIDTH,
        legend: Vec::new(),
        panels: vec![
            panel(true, Colour::ACCENT, "", "identifications that solve a matching"),
            panel(false, Colour::SECOND, "microseconds (log scale)", "all minibatches"),
        ],
        notes: Vec::new(),
    }
}

/// Counts in bins of equal ratio.
fn log_histogram(values: &[f64], colour: Colour) -> Vec<Bar> {
    const BINS_PER_DECADE: f64 = 8.0;
    let mut counts = std::collections::BTreeMap::<i64, usize>::new();
    for value in values.iter().filter(|v| **v > 0.0) {
        *counts.entry((value.log10() * BINS_PER_DECADE).floor() as i64).or_default() += 1;
    }
    let edge = |bin: i64| 10f64.powf(bin as f64 / BINS_PER_DECADE);
    let bar = |(bin, count): (&i64, &usize)| Bar {
        across: (edge(*bin), edge(bin + 1)),
        value: *count as f64,
        colour,
        label: String::new(),
    };
    counts.iter().map(bar).collect()
}

/// The number of clusters that made the rows.
fn true_clusters(measured: &Measured) -> Layer {
    Layer::Rule {
        at: measured.plan.clusters as f64,
        direction: Direction::Horizontal,
        colour: Colour::CONTRAST,
        stroke: Stroke::Dashed,
        label: "true clusters".into(),
    }
}

/// (e): components and matchings while the stream goes on.
fn growth(measured: &Measured) -> Figure {
    let lines = measured.timings.growth();
    let of = |value: fn(&(usize, usize, usize)) -> usize, colour: Colour| -> Vec<Layer> {
        let thin = |points: &Vec<(usize, usize, usize)>| {
            let step = (points.len() / 400).max(1);
            let shown = points.iter().enumerate().filter(|(ix, _)| ix % step == 0 || ix + 1 == points.len());
            line(shown.map(|(_, p)| (p.0 as f64, value(p) as f64)).collect(), colour, Stroke::Solid)
        };
        lines.iter().map(thin).collect()
    };
    let mut components = of(|p| p.1, Colour::ACCENT);
    components.push(true_clusters(measured));
    Figure {
        name: "growth".into(),
        title: format!("Components and matchings while the stream goes on, {MANY} workers"),
        subtitle: format!(
            "{:.0} % of the matchings are solved in the first 4 % of the minibatches.",
            100.0 * measured.timings.share_before(0.04)
        ),
        description: "Components and matchings against minibatches, a line for each trial.".into(),
        width: WIDTH,
        legend: Vec::new(),
        panels: vec![
            Panel { height: 180.0, x: Axis::linear(""), y: Axis::linear("components"), layers: components },
            Panel {
                height: 140.0,
                x: Axis::linear("minibatches"),
                y: Axis::linear("matchings solved so far"),
                layers: of(|p| p.2, Colour::SECOND),
            },
        ],
        notes: Vec::new(),
    }
}

/// (f): components and matchings at the end, against workers.
fn last(measured: &Measured) -> Figure {
    let on = Identification::Optimal;
    let mut components = mean_line(measured, on, Colour::ACCENT, |s| s.trial.components as f64);
    components.push(true_clusters(measured));
    Figure {
        name: "final".into(),
        title: "Components and matchings at the end".into(),
        subtitle: "Mean and standard deviation over trials; components that hold at least one row.".into(),
        description: "Final components and matchings against logical workers.".into(),
        width: WIDTH,
        legend: Vec::new(),
        panels: vec![
            Panel { height: 180.0, x: worker_axis(""), y: Axis::linear("components"), layers: components },
            Panel {
                height: 140.0,
                x: worker_axis("logical workers"),
                y: Axis::linear("matchings solved"),
                layers: mean_line(measured, on, Colour::SECOND, |s| s.trial.matchings as f64),
            },
        ],
        notes: Vec::new(),
    }
}
