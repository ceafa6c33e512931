//! What can be drawn inside a panel, as plain data.

use super::palette::Colour;

/// How a line is stroked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stroke {
    /// Without gaps.
    #[default]
    Solid,
    /// With gaps: references and estimates.
    Dashed,
}

/// How neighbouring points of a line are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// By the shortest way.
    #[default]
    Straight,
    /// Level until the next point: a quantity that changes at once.
    Step,
}

/// The way something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From left to right.
    Horizontal,
    /// From bottom to top.
    Vertical,
}

/// Points of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Dots {
    /// Their colour.
    pub colour: Colour,
    /// Where they lie.
    pub points: Vec<(f64, f64)>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// From where to where it reaches across.
    pub across: (f64, f64),
    /// How long it is.
    pub value: f64,
    /// Its colour.
    pub colour: Colour,
    /// What is written at its end; may be empty.
    pub label: String,
}

/// One kind of mark in a panel; later layers lie above earlier ones.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Layer {
    /// A line through points, broken where a value is missing.
    Line {
        /// Points in order.
        points: Vec<(f64, f64)>,
        /// How they are joined.
        path: Path,
        /// Its colour.
        colour: Colour,
        /// Solid or dashed.
        stroke: Stroke,
    },
    /// Many points, one path for each colour.
    Scatter {
        /// Points by colour.
        dots: Vec<Dots>,
        /// Radius of a point on the canvas.
        radius: f64,
    },
    /// The ellipse at two standard deviations of a normal density (linear axes only).
    Ellipse {
        /// Centre.
        mean: [f64; 2],
        /// Variance of x, covariance, variance of y.
        covariance: [f64; 3],
        /// Its colour.
        colour: Colour,
    },
    /// Bars standing on zero, or on the end of a logarithmic axis.
    Bars {
        /// The bars.
        bars: Vec<Bar>,
        /// Which way they grow.
        direction: Direction,
    },
    /// A line across the whole panel.
    Rule {
        /// The value of y (horizontal) or x (vertical) at which it lies.
        at: f64,
        /// Which way it runs.
        direction: Direction,
        /// Its colour.
        colour: Colour,
        /// Solid or dashed.
        stroke: Stroke,
        /// Written beside it; may be empty.
        label: String,
    },
    /// A text beside a place; left out where it would cover another one.
    Label {
        /// The place.
        at: (f64, f64),
        /// The text.
        text: String,
        /// Its colour.
        colour: Colour,
    },
}

impl Layer {
    /// The places that the axes must reach; a coordinate that does not matter is NaN.
    pub(crate) fn reach(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Line { points, .. } => points.clone(),
            Self::Scatter { dots, .. } => dots.iter().flat_map(|d| d.points.iter().copied()).collect(),
            Self::Ellipse { mean: [x, y], covariance: [xx, _, yy], .. } => {
                let (dx, dy) = (2.0 * xx.max(0.0).sqrt(), 2.0 * yy.max(0.0).sqrt());
                vec![(x - dx, y - dy), (x + dx, y + dy)]
            }
            Self::Bars { bars, direction } => {
                bars.iter().flat_map(|bar| bar_reach(bar, *direction)).collect()
            }
            Self::Rule { at, direction: Direction::Horizontal, .. } => vec![(f64::NAN, *at)],
            Self::Rule { at, direction: Direction::Vertical, .. } => vec![(*at, f64::NAN)],
            Self::Label { .. } => Vec::new(),
        }
    }
}

/// Both corners of a bar; its foot is at zero, which a logarithmic axis leaves out by itself.
fn bar_reach(bar: &Bar, direction: Direction) -> [(f64, f64); 2] {
    let (from, to) = bar.across;
    match direction {
        Direction::Vertical => [(from, 0.0), (to, bar.value)],
        Direction::Horizontal => [(0.0, from), (bar.value, to)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipse_reaches_two_standard_deviations() {
        let ellipse =
            Layer::Ellipse { mean: [1.0, 2.0], covariance: [4.0, 0.0, 0.25], colour: Colour::ACCENT };
        assert_eq!(ellipse.reach(), [(-3.0, 1.0), (5.0, 3.0)]);
    }
}
