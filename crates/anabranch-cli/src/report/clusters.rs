//! The picture of the clusters: points by colour under ellipses, or a histogram for one column.

use super::{EllipseData, FAR_OUT, ReportData, ScatterData, WIDTH};
use crate::picture::{
    Axis, Colour, Direction, Dots, Figure, Layer, LegendEntry, LegendMark, Panel, Path, Stroke,
    component_colour, counted, grouped, histogram,
};
use anabranch::family::bulk;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// More points only darken the picture and swell the file.
const MOST_POINTS: usize = 5_000;
/// More ellipses than this cannot be told apart.
const MOST_ELLIPSES: usize = 300;
/// Ellipses may cover this many times the area of the rows.
const COVERAGE: f64 = 1.5;
/// How many of the largest components carry their id.
const LABELLED: usize = 12;
const HEIGHT: f64 = 470.0;
/// Room around the rows where some are outside, as a share of their range.
const MARGIN: f64 = 0.04;

/// The clusters in the plane, or along the line.
pub(super) fn figure(data: &ReportData) -> Figure {
    let nothing = ScatterData::default();
    let points = data.points.as_ref().unwrap_or(&nothing);
    let largest = largest_first(&data.ellipses);
    if points.y.is_empty() && !points.x.is_empty() {
        line(points, &largest, data.clusters.len())
    } else {
        plane(points, &largest, &data.ellipses, data.clusters.len())
    }
}

fn largest_first(ellipses: &[EllipseData]) -> Vec<&EllipseData> {
    let mut sorted: Vec<&EllipseData> = ellipses.iter().collect();
    sorted.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id)));
    sorted.truncate(MOST_ELLIPSES);
    sorted
}

/// The largest components whose ellipses can still be told apart: in a projection they cover each other.
fn apart<'a, 'b>(rows: &[(f64, f64, Option<u64>)], largest: &'b [&'a EllipseData]) -> &'b [&'a EllipseData] {
    let span = |value: fn(&(f64, f64, Option<u64>)) -> f64| {
        let finite = || rows.iter().map(value).filter(|v| v.is_finite());
        finite().fold(f64::NEG_INFINITY, f64::max) - finite().fold(f64::INFINITY, f64::min)
    };
    let room = COVERAGE * span(|row| row.0) * span(|row| row.1);
    let mut covered = 0.0;
    let n = largest.iter().take_while(|e| {
        let [xx, xy, yy] = e.covariance;
        // Half axes of two standard deviations make π·4·√|Σ|.
        covered += 4.0 * std::f64::consts::PI * (xx * yy - xy * xy).max(0.0).sqrt();
        covered <= room
    });
    let n = n.count().max(LABELLED);
    &largest[..n.min(largest.len())]
}

/// One ellipse for each cluster, from the moments of its components, the largest first.
fn of_clusters(ellipses: &[EllipseData]) -> Vec<EllipseData> {
    let mut parts: BTreeMap<u64, Vec<&EllipseData>> = BTreeMap::new();
    for ellipse in ellipses {
        if let Some(cluster) = ellipse.cluster {
            parts.entry(cluster).or_default().push(ellipse);
        }
    }
    let whole = |(cluster, parts): (u64, Vec<&EllipseData>)| {
        let weight: f64 = parts.iter().map(|part| part.weight).sum();
        let mean_of = |value: &dyn Fn(&EllipseData) -> f64| {
            parts.iter().map(|part| part.weight * value(part)).sum::<f64>() / weight.max(f64::MIN_POSITIVE)
        };
        let mean = [mean_of(&|part| part.mean[0]), mean_of(&|part| part.mean[1])];
        let moment = |place: usize, (i, j): (usize, usize)| {
            mean_of(&|part| part.covariance[place] + (part.mean[i] - mean[i]) * (part.mean[j] - mean[j]))
        };
        let covariance = [moment(0, (0, 0)), moment(1, (0, 1)), moment(2, (1, 1))];
        EllipseData { id: cluster, cluster: Some(cluster), weight, mean, covariance }
    };
    let mut all: Vec<EllipseData> = parts.into_iter().map(whole).collect();
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id)));
    all
}

/// What is outlined.
#[derive(Clone, Copy, PartialEq)]
enum Outlined {
    Components,
    /// Where components cover each other.
    Clusters,
}

fn plane_subtitle(n_components: usize, n_clusters: usize, drawn: usize, outlined: Outlined) -> String {
    if drawn == n_components {
        return subtitle(n_components, n_clusters);
    }
    let told = match outlined {
        Outlined::Clusters => ", which are outlined, since components cover each other here".to_owned(),
        Outlined::Components => {
            format!("; the {drawn} largest components are drawn, so that they can be told apart")
        }
    };
    format!("{} components in {}{told}.", grouped(n_components as f64), counted(n_clusters as u64, "cluster"))
}

fn plane(
    points: &ScatterData,
    largest: &[&EllipseData],
    ellipses: &[EllipseData],
    n_clusters: usize,
) -> Figure {
    let shown = sample(points);
    let (x, y) = (usual(shown.iter().map(|row| row.0)), usual(shown.iter().map(|row| row.1)));
    let is_inside = |row: &(f64, f64, Option<u64>)| x.range.contains(&row.0) && y.range.contains(&row.1);
    let inside: Vec<_> = shown.iter().copied().filter(is_inside).collect();
    let outside = shown.len() - inside.len();
    let n_components = ellipses.len();
    let clusters = of_clusters(ellipses);
    let few = apart(&inside, largest);
    let (largest, outlined) = match few.len() < n_components && (2..=few.len()).contains(&clusters.len()) {
        true => (clusters.iter().collect(), Outlined::Clusters),
        false => (few.to_vec(), Outlined::Components),
    };
    let largest = largest.as_slice();
    // Ellipses are drawn at two standard deviations.
    let scale = if outlined == Outlined::Clusters { 0.25 } else { 1.0 };
    let mut layers = vec![Layer::Scatter { dots: by_colour(&shown), radius: 1.4 }];
    // Large components first, so that small ones lie above them.
    layers.extend(largest.iter().map(|e| Layer::Ellipse {
        mean: e.mean,
        covariance: e.covariance.map(|entry| scale * entry),
        colour: colour_of(e),
    }));
    layers.extend(first_of_each(largest).into_iter().take(LABELLED).map(|e| label(e, e.mean[1])));
    Figure {
        name: "clusters".to_owned(),
        title: "Where the clusters lie".to_owned(),
        subtitle: plane_subtitle(n_components, n_clusters, largest.len(), outlined),
        description: format!(
            "Scatter of {} rows coloured by cluster, with {} {}.",
            grouped(shown.len() as f64),
            largest.len(),
            match outlined {
                Outlined::Components => "component ellipses at two standard deviations",
                Outlined::Clusters => "cluster ellipses at one standard deviation",
            }
        ),
        width: WIDTH,
        legend: plane_legend(&shown, outlined),
        panels: vec![Panel {
            height: HEIGHT,
            x: within(Axis::linear(or(&points.x_label, "first coordinate")), &x),
            y: within(Axis::linear(or(&points.y_label, "second coordinate")), &y),
            layers,
        }],
        notes: sample_note(shown.len(), points.x.len().min(points.y.len()))
            .into_iter()
            .chain(outside_note(outside))
            .collect(),
    }
}

/// Where nearly all values are, and from where to where they reach.
struct Usual {
    range: RangeInclusive<f64>,
    reach: (f64, f64),
}

fn usual(values: impl Iterator<Item = f64> + Clone) -> Usual {
    let range = bulk(values.clone(), FAR_OUT);
    let inside = values.filter(|value| range.contains(value));
    let reach =
        inside.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), value| (from.min(value), to.max(value)));
    Usual { range, reach }
}

/// Shows the usual values where others would squeeze them.
fn within(axis: Axis, usual: &Usual) -> Axis {
    let (from, to) = usual.reach;
    let margin = MARGIN * (to - from);
    if usual.range.end().is_finite() { axis.with_range(from - margin, to + margin) } else { axis }
}

fn outside_note(rows: usize) -> Option<String> {
    let verb = if rows == 1 { "lies" } else { "lie" };
    (rows > 0).then(|| format!("{} {verb} outside the picture.", counted(rows as u64, "row")))
}

/// The colour of a component: that of its cluster.
fn colour_of(ellipse: &EllipseData) -> Colour {
    component_colour(ellipse.cluster.unwrap_or(ellipse.id))
}

/// The largest component of each cluster; all where there are no clusters.
fn first_of_each<'a>(largest: &[&'a EllipseData]) -> Vec<&'a EllipseData> {
    let mut seen = std::collections::BTreeSet::new();
    largest.iter().copied().filter(|e| e.cluster.is_none_or(|cluster| seen.insert(cluster))).collect()
}

fn label(ellipse: &EllipseData, y: f64) -> Layer {
    let colour = colour_of(ellipse).towards(Colour::INK, 0.55);
    Layer::Label { at: (ellipse.mean[0], y), text: ellipse.cluster.unwrap_or(ellipse.id).to_string(), colour }
}

fn subtitle(components: usize, clusters: usize) -> String {
    match (components, clusters) {
        (0, _) => "No component has been found yet.".to_owned(),
        (1, _) => "One component.".to_owned(),
        (n, 0) => format!("{} components.", grouped(n as f64)),
        (n, 1) => format!("{} components in one cluster.", grouped(n as f64)),
        (n, m) if m <= LABELLED => {
            format!("{} components in {m} clusters, each with its name.", grouped(n as f64))
        }
        (n, m) => format!(
            "{} components in {m} clusters; the {LABELLED} largest carry their name where there is room.",
            grouped(n as f64)
        ),
    }
}

/// Every n-th row, spread over the whole sample, with its cluster (its component, where nobody looked for clusters).
fn sample(points: &ScatterData) -> Vec<(f64, f64, Option<u64>)> {
    let n_rows = points.x.len().min(points.y.len());
    let stride = n_rows.div_ceil(MOST_POINTS).max(1);
    let groups = if points.cluster.is_empty() { &points.component } else { &points.cluster };
    let row = |ix: usize| (points.x[ix], points.y[ix], groups.get(ix).copied().flatten());
    (0..n_rows).step_by(stride).map(row).filter(|(x, y, _)| x.is_finite() && y.is_finite()).collect()
}

fn by_colour(rows: &[(f64, f64, Option<u64>)]) -> Vec<Dots> {
    let mut groups: BTreeMap<Colour, Vec<(f64, f64)>> = BTreeMap::new();
    for (x, y, component) in rows {
        let colour = component.map_or(Colour::UNASSIGNED, component_colour);
        groups.entry(colour).or_default().push((*x, *y));
    }
    groups.into_iter().map(|(colour, points)| Dots { colour, points }).collect()
}

fn plane_legend(rows: &[(f64, f64, Option<u64>)], outlined: Outlined) -> Vec<LegendEntry> {
    let entry = |mark, colour, text: &str| LegendEntry { mark, colour, text: text.to_owned() };
    let mut legend = vec![
        entry(LegendMark::Dot, component_colour(0), "row, in the colour of its cluster"),
        match outlined {
            Outlined::Components => {
                entry(LegendMark::Ring, component_colour(0), "component at 2 standard deviations")
            }
            Outlined::Clusters => {
                entry(LegendMark::Ring, component_colour(0), "cluster at 1 standard deviation")
            }
        },
    ];
    if rows.iter().any(|row| row.2.is_none()) {
        legend.push(entry(LegendMark::Dot, Colour::UNASSIGNED, "row without a cluster"));
    }
    legend
}

fn sample_note(shown: usize, all: usize) -> Vec<String> {
    if shown == all {
        return Vec::new();
    }
    vec![format!("{} of {} rows are drawn.", grouped(shown as f64), grouped(all as f64))]
}

/// One column: a histogram under the density of the mixture, with the means of the components.
fn line(points: &ScatterData, largest: &[&EllipseData], n_clusters: usize) -> Figure {
    let usual = usual(points.x.iter().copied());
    let (inside, outside): (Vec<f64>, Vec<f64>) =
        points.x.iter().filter(|x| x.is_finite()).partition(|x| usual.range.contains(*x));
    let bars = histogram(&inside, Colour::GRID.towards(Colour::AXIS, 0.5));
    let density = mixture_curve(&bars, largest);
    let heights = bars.iter().map(|bar| bar.value).chain(density.iter().map(|p| p.1));
    // Infinite densities would leave nothing of the bars.
    let tallest = heights.filter(|height| height.is_finite()).fold(0.0, f64::max);
    let mut layers = vec![Layer::Bars { bars, direction: Direction::Vertical }];
    layers.extend(largest.iter().map(|e| mean_rule(e)));
    let (path, stroke, colour) = (Path::Straight, Stroke::Solid, Colour::ACCENT);
    layers.push(Layer::Line { points: density, path, colour, stroke });
    layers.extend(first_of_each(largest).into_iter().take(LABELLED).map(|e| label(e, tallest * 1.1)));
    let entry = |mark, colour, text: &str| LegendEntry { mark, colour, text: text.to_owned() };
    Figure {
        name: "clusters".to_owned(),
        title: "Where the clusters lie".to_owned(),
        subtitle: subtitle(largest.len(), n_clusters),
        description: format!("Histogram of {} rows with component means.", grouped(points.x.len() as f64)),
        width: WIDTH,
        legend: vec![
            entry(LegendMark::Square, Colour::GRID.towards(Colour::AXIS, 0.5), "rows"),
            entry(LegendMark::Line, Colour::ACCENT, "density of the mixture"),
            entry(LegendMark::Dashes, component_colour(0), "mean of a component"),
        ],
        panels: vec![Panel {
            height: HEIGHT * 0.7,
            x: within(Axis::linear(or(&points.x_label, "value")), &usual),
            y: Axis::linear("rows in each bin").with_range(0.0, tallest * 1.16),
            layers,
        }],
        notes: outside_note(outside.len()).into_iter().collect(),
    }
}

fn mean_rule(ellipse: &EllipseData) -> Layer {
    Layer::Rule {
        at: ellipse.mean[0],
        direction: Direction::Vertical,
        colour: colour_of(ellipse),
        stroke: Stroke::Dashed,
        label: String::new(),
    }
}

/// The density of the mixture, as rows for each bin.
fn mixture_curve(bars: &[crate::picture::Bar], components: &[&EllipseData]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else { return Vec::new() };
    let rows: f64 = bars.iter().map(|bar| bar.value).sum();
    let bin = first.across.1 - first.across.0;
    let (from, to) = (first.across.0, last.across.1);
    let density =
        |x: f64| components.iter().map(|e| e.weight * normal(x, e.mean[0], e.covariance[0])).sum::<f64>();
    let place = |ix: u32| from + (to - from) * f64::from(ix) / 400.0;
    (0..=400).map(|ix| (place(ix), rows * bin * density(place(ix)))).collect()
}

fn normal(x: f64, mean: f64, variance: f64) -> f64 {
    if !(mean.is_finite() && variance > 0.0) {
        return 0.0;
    }
    (-0.5 * (x - mean).powi(2) / variance).exp() / (std::f64::consts::TAU * variance).sqrt()
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
