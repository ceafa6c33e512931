//! The picture of the sizes of the components, from the largest to the smallest.

use super::{ReportData, WIDTH};
use crate::picture::{
    Axis, Bar, Colour, Direction, Figure, Layer, LegendEntry, LegendMark, Panel, Ticks, compact, grouped,
};

/// More bars than this would be thinner than a line.
const MOST_BARS: usize = 200;
/// Up to this many bars lie down, with their ids and values written out.
const MOST_NAMED: usize = 16;
/// Sizes that span more than this ratio are drawn on a logarithmic axis.
const LOG_FROM: f64 = 100.0;
/// A component below this share of all rows (and below one row in any case) is near-empty.
const NEAR_EMPTY_SHARE: f64 = 1e-4;

/// The sizes, sorted, with near-empty components marked.
pub(super) fn figure(data: &ReportData) -> Figure {
    let sorted = largest_first(&data.sizes);
    let total: f64 = sorted.iter().map(|(_, count)| count).sum();
    let near_empty = (total * NEAR_EMPTY_SHARE).max(1.0);
    let shown = &sorted[..sorted.len().min(MOST_BARS)];
    let panel = if shown.len() <= MOST_NAMED { named(shown, near_empty) } else { ranked(shown, near_empty) };
    let n_empty = sorted.iter().filter(|(_, count)| *count < near_empty).count();
    Figure {
        name: "sizes".to_owned(),
        title: "How large the components are".to_owned(),
        subtitle: subtitle(&sorted, total),
        description: format!("Bars of the expected number of rows of {} components.", shown.len()),
        width: WIDTH,
        legend: legend(n_empty, near_empty),
        panels: vec![panel],
        notes: left_out(&sorted[shown.len()..], total),
    }
}

fn largest_first(sizes: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut sorted: Vec<(u64, f64)> =
        sizes.iter().copied().filter(|(_, n)| n.is_finite() && *n >= 0.0).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    sorted
}

/// How concentrated the rows are, in words.
fn subtitle(sorted: &[(u64, f64)], total: f64) -> String {
    if sorted.is_empty() || total <= 0.0 {
        return "No component has been found yet.".to_owned();
    }
    let held = sorted.iter().scan(0.0, |held, (_, count)| {
        *held += count;
        Some(*held)
    });
    let half = 1 + held.take_while(|held| *held < total / 2.0).count();
    let noun = if half == 1 { "component holds" } else { "components hold" };
    format!("The largest {half} {noun} half of {} rows.", grouped(total))
}

fn legend(n_empty: usize, near_empty: f64) -> Vec<LegendEntry> {
    if n_empty == 0 {
        return Vec::new();
    }
    let square = |colour, text: String| LegendEntry { mark: LegendMark::Square, colour, text };
    let noun = if near_empty <= 1.0 { "row" } else { "rows" };
    vec![
        square(Colour::ACCENT, "component".to_owned()),
        square(
            Colour::CONTRAST,
            format!(
                "near-empty: fewer than {} {noun} expected ({})",
                compact(near_empty),
                grouped(n_empty as f64)
            ),
        ),
    ]
}

fn left_out(rest: &[(u64, f64)], total: f64) -> Vec<String> {
    if rest.is_empty() {
        return Vec::new();
    }
    let share = 100.0 * rest.iter().map(|(_, count)| count).sum::<f64>() / total;
    vec![format!(
        "{} smaller components, {} % of the rows, are not shown.",
        grouped(rest.len() as f64),
        compact(share)
    )]
}

/// The axis of sizes. A logarithmic one starts below the smallest bar, at a power of ten, and not below 0.01.
fn size_axis(shown: &[(u64, f64)], label: &str) -> Axis {
    let max = shown.first().map_or(0.0, |(_, n)| *n);
    let smallest = shown.iter().rev().map(|(_, n)| *n).find(|n| *n > 0.0).unwrap_or(max);
    if max / smallest <= LOG_FROM {
        return Axis::linear(label);
    }
    let low = 10f64.powf((smallest * 0.8).log10().floor()).max(0.01);
    Axis::log(format!("{label} (log scale)")).with_range(low, (max * 1.3).max(low * 10.0))
}

fn colour(count: f64, near_empty: f64) -> Colour {
    if count < near_empty { Colour::CONTRAST } else { Colour::ACCENT }
}

/// Few components: lying bars, with id and size.
fn named(shown: &[(u64, f64)], near_empty: f64) -> Panel {
    let row = |ix: usize| -(ix as f64);
    let bars = shown.iter().enumerate().map(|(ix, (_, count))| Bar {
        across: (row(ix) - 0.36, row(ix) + 0.36),
        value: *count,
        colour: colour(*count, near_empty),
        label: compact(*count),
    });
    let names = shown.iter().enumerate().map(|(ix, (id, _))| (row(ix), format!("component {id}"))).collect();
    let mut x = size_axis(shown, "expected number of rows");
    let max = shown.first().map_or(0.0, |(_, n)| *n);
    // Room for the numbers at the ends of the bars.
    x.range = Some(x.range.map_or((0.0, max * 1.1), |(low, high)| (low, high * (high / low).powf(0.08))));
    Panel {
        height: (shown.len() as f64 * 26.0).max(90.0),
        x,
        y: Axis::default().with_ticks(Ticks::Named(names)).with_range(row(shown.len()) + 0.4, 0.6),
        layers: vec![Layer::Bars { bars: bars.collect(), direction: Direction::Horizontal }],
    }
}

/// Many components: standing bars by rank.
fn ranked(shown: &[(u64, f64)], near_empty: f64) -> Panel {
    let half = if shown.len() > 100 { 0.5 } else { 0.42 };
    let bars = shown.iter().enumerate().map(|(ix, (_, count))| Bar {
        across: (ix as f64 + 1.0 - half, ix as f64 + 1.0 + half),
        value: *count,
        colour: colour(*count, near_empty),
        label: String::new(),
    });
    Panel {
        height: 280.0,
        x: Axis::linear("rank of the component, from the largest")
            .with_ticks(Ticks::Whole)
            .with_range(0.2, shown.len() as f64 + 0.8),
        y: size_axis(shown, "expected number of rows"),
        layers: vec![Layer::Bars { bars: bars.collect(), direction: Direction::Vertical }],
    }
}
