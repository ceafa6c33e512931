//! The picture of how clusters join: a hill for each cluster, down to the pass to the next, and how many rows each holds.

use super::{ReportData, TreeData, WIDTH};
use crate::picture::{
    Axis, Bar, Colour, Direction, Figure, Layer, Panel, Path, Stroke, Ticks, component_colour, counted,
    grouped,
};

/// More clusters cannot be told apart side by side: the largest are drawn.
const MOST_LEAVES: usize = 60;
/// Clusters that carry their name.
const NAMED: usize = 24;
/// Passes deeper than this under the lowest peak, in logarithms, are drawn there.
const DEEPEST: f64 = 12.0;

/// How clusters join; nothing where there is one at most.
pub(super) fn figure(data: &ReportData) -> Option<Figure> {
    let tree = data.tree.as_ref().filter(|tree| tree.leaves.len() > 1)?;
    let drawn = Drawn::new(tree);
    let total: f64 = tree.leaves.iter().map(|(_, rows)| rows).sum();
    let measure =
        if tree.density { "log density under the highest peak" } else { "log of the part of rows shared" };
    let width = drawn.order.len() as f64;
    let mut notes = Vec::new();
    if drawn.order.len() < tree.leaves.len() {
        notes.push(format!(
            "The {} largest of {} are drawn.",
            drawn.order.len(),
            counted(tree.leaves.len() as u64, "cluster")
        ));
    }
    if drawn.cut_off {
        notes.push(format!("Passes more than {DEEPEST} under the lowest peak are drawn at the bottom."));
    }
    let nowhere = || Axis::default().with_ticks(Ticks::Named(Vec::new())).with_range(-0.6, width - 0.4);
    let bars = drawn.order.iter().enumerate().map(|(x, leaf)| {
        let (name, rows) = tree.leaves[*leaf];
        Bar {
            across: (x as f64 - 0.36, x as f64 + 0.36),
            value: 100.0 * rows / total.max(f64::MIN_POSITIVE),
            colour: component_colour(name),
            label: String::new(),
        }
    });
    let bars = bars.collect();
    Some(Figure {
        name: "tree".to_owned(),
        title: "How clusters join".to_owned(),
        subtitle: format!(
            "{} clusters of {} rows: each hangs from its peak; a level line is the pass where two groups meet.",
            grouped(tree.leaves.len() as f64),
            grouped(total)
        ),
        description: format!("Tree of {} clusters with the heights of their passes.", tree.leaves.len()),
        width: WIDTH,
        legend: Vec::new(),
        panels: vec![
            Panel {
                height: 260.0,
                x: nowhere(),
                y: Axis::linear(measure).with_range(drawn.lowest, 0.09 * -drawn.lowest + 0.1),
                layers: drawn.layers,
            },
            Panel {
                height: 90.0,
                x: nowhere(),
                y: Axis::linear("% of rows"),
                layers: vec![Layer::Bars { bars, direction: Direction::Vertical }],
            },
        ],
        notes,
    })
}

/// The tree as lines.
struct Drawn {
    /// Leaves from left to right.
    order: Vec<usize>,
    layers: Vec<Layer>,
    lowest: f64,
    cut_off: bool,
}

impl Drawn {
    fn new(tree: &TreeData) -> Self {
        let n = tree.leaves.len();
        // Leaves come the largest first.
        let shown = n.min(MOST_LEAVES);
        let floor = tree.peaks.iter().copied().filter(|peak| peak.is_finite()).fold(0.0, f64::min) - DEEPEST;
        #[allow(clippy::manual_clamp, reason = "what is not a number becomes the deepest, not NaN")]
        let height_of = |height: f64| height.max(floor).min(0.0);
        let bottom = |height: Option<f64>| height_of(height.unwrap_or(f64::NEG_INFINITY));
        let lowest = tree
            .joins
            .iter()
            .map(|join| bottom(join.2))
            .chain(tree.peaks.iter().map(|peak| height_of(*peak)))
            .fold(0.0, f64::min);
        let lowest = (lowest * 1.05).min(-0.5);
        let mut members: Vec<Vec<usize>> = (0..n).map(|leaf| vec![leaf]).collect();
        for (a, b, _) in &tree.joins {
            // The larger side stays on the left.
            let rows = |node: &usize| members[*node].iter().map(|leaf| tree.leaves[*leaf].1).sum::<f64>();
            let (left, right) = if rows(a) >= rows(b) { (a, b) } else { (b, a) };
            let both = [members[*left].clone(), members[*right].clone()].concat();
            members.push(both);
        }
        let order: Vec<usize> =
            members.last().into_iter().flatten().copied().filter(|leaf| *leaf < shown).collect();
        let mut place: Vec<Option<f64>> = vec![None; members.len()];
        order.iter().enumerate().for_each(|(x, leaf)| place[*leaf] = Some(x as f64));
        let mut top: Vec<f64> = tree.peaks.iter().map(|peak| height_of(*peak)).collect();
        let mut colour: Vec<Colour> = tree.leaves.iter().map(|(name, _)| component_colour(*name)).collect();
        let mut layers = Vec::new();
        let mut line = |points: Vec<(f64, f64)>, colour: Colour| {
            layers.push(Layer::Line { points, path: Path::Straight, colour, stroke: Stroke::Solid });
        };
        for (ix, (a, b, height)) in tree.joins.iter().enumerate() {
            let pass = bottom(*height);
            let ends: Vec<(f64, usize)> =
                [*a, *b].into_iter().filter_map(|node| Some((place[node]?, node))).collect();
            for (x, node) in &ends {
                if ends.len() > 1 {
                    line(vec![(*x, top[*node]), (*x, pass)], colour[*node]);
                }
            }
            if let [(left, _), (right, _)] = ends.as_slice() {
                line(vec![(*left, pass), (*right, pass)], Colour::AXIS);
            }
            let middle = ends.iter().map(|(x, _)| x).sum::<f64>() / ends.len().max(1) as f64;
            place[n + ix] = (!ends.is_empty()).then_some(middle);
            // A node with one drawn side goes on as that side.
            top.push(if ends.len() == 1 { top[ends[0].1] } else { pass });
            colour.push(if ends.len() == 1 { colour[ends[0].1] } else { Colour::AXIS });
        }
        let label = |(x, leaf): (usize, &usize)| Layer::Label {
            // Above the end of the line, not across it.
            at: (x as f64, height_of(tree.peaks[*leaf]) - 0.03 * lowest),
            text: tree.leaves[*leaf].0.to_string(),
            colour: component_colour(tree.leaves[*leaf].0).towards(Colour::INK, 0.55),
        };
        layers.extend(order.iter().enumerate().filter(|(_, leaf)| **leaf < NAMED).map(label));
        let cut_off = tree.joins.iter().any(|join| join.2.is_none_or(|height| height < floor));
        Self { order, layers, lowest, cut_off }
    }
}
