//! Layers onto the canvas.

use super::axis::Scale;
use super::canvas::{Anchor, Canvas, TextStyle, coarse, coordinate};
use super::label::Labels;
use super::layer::{Bar, Direction, Layer, Path, Stroke};
use super::palette::Colour;
use std::fmt::Write;

/// The drawing area of a panel: its frame (left, top, right, bottom) and its two scales.
pub(crate) struct Plot {
    pub(crate) frame: [f64; 4],
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Plot {
    /// Draws the marks of a layer; texts follow with [`Plot::write`], above every mark.
    pub(crate) fn draw(&self, canvas: &mut Canvas, layer: &Layer) {
        match layer {
            Layer::Line { points, path, colour, stroke } => {
                let attributes = format!(
                    r#"fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"{}"#,
                    dashes(*stroke)
                );
                canvas.path(&self.line_data(points, *path), &attributes);
            }
            Layer::Scatter { dots, radius } => {
                for group in dots {
                    let attributes = format!(
                        r#"fill="none" stroke="{}" stroke-width="{}" stroke-linecap="round" stroke-opacity="0.6""#,
                        group.colour,
                        coordinate(radius * 2.0)
                    );
                    canvas.path(&self.dots_data(&group.points), &attributes);
                }
            }
            Layer::Ellipse { mean, covariance, colour } => self.ellipse(canvas, *mean, *covariance, *colour),
            Layer::Bars { bars, direction } => bars.iter().for_each(|bar| self.bar(canvas, bar, *direction)),
            Layer::Rule { at, direction, colour, stroke, .. } => {
                self.rule(canvas, *at, *direction, *colour, *stroke);
            }
            Layer::Label { .. } => {}
        }
    }

    /// Writes the texts of a layer.
    pub(crate) fn write(&self, canvas: &mut Canvas, labels: &mut Labels, layer: &Layer) {
        match layer {
            Layer::Label { at, text, colour } => {
                if let Some(place) = self.place(*at) {
                    labels.beside(canvas, place, text, *colour);
                }
            }
            Layer::Rule { at, direction: Direction::Horizontal, label, colour, .. } if !label.is_empty() => {
                if let Some(y) = self.y.place(*at) {
                    labels.on_rule(canvas, y, label, *colour);
                }
            }
            Layer::Rule { at, direction: Direction::Vertical, label, colour, .. } if !label.is_empty() => {
                if let Some(x) = self.x.place(*at) {
                    labels.beside(canvas, (x, self.frame[1] + 9.0), label, *colour);
                }
            }
            Layer::Bars { bars, direction } => {
                bars.iter()
                    .filter(|bar| !bar.label.is_empty())
                    .for_each(|bar| self.bar_text(canvas, bar, *direction));
            }
            _ => {}
        }
    }

    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.x.place(x)?, self.y.place(y)?))
    }

    /// Path data of a line; a missing value lifts the pen.
    fn line_data(&self, points: &[(f64, f64)], path: Path) -> String {
        let mut data = String::new();
        let mut pen_is_down = false;
        for point in points {
            let Some((x, y)) = self.place(*point) else {
                pen_is_down = false;
                continue;
            };
            let (x, y) = (coordinate(x), coordinate(y));
            let _ = match (pen_is_down, path) {
                // A first point with a stub, so that a line of one point still shows.
                (false, _) => write!(data, "M{x} {y}h.01"),
                (true, Path::Straight) => write!(data, "L{x} {y}"),
                (true, Path::Step) => write!(data, "H{x}V{y}"),
            };
            pen_is_down = true;
        }
        data
    }

    /// Path data of points: stubs of no length, which round line ends turn into discs.
    fn dots_data(&self, points: &[(f64, f64)]) -> String {
        let mut data = String::with_capacity(points.len() * 15);
        for point in points {
            if let Some((x, y)) = self.place(*point) {
                let _ = write!(data, "M{} {}h.01", coarse(x), coarse(y));
            }
        }
        data
    }

    fn ellipse(&self, canvas: &mut Canvas, mean: [f64; 2], covariance: [f64; 3], colour: Colour) {
        let Some((x, y)) = self.place((mean[0], mean[1])) else { return };
        let (fx, fy) = (self.x.factor(), self.y.factor());
        let on_canvas = [covariance[0] * fx * fx, covariance[1] * fx * fy, covariance[2] * fy * fy];
        let Some((major, minor, degrees)) = semi_axes(on_canvas) else { return };
        let [x, y, major, minor, degrees] = [x, y, major, minor, degrees].map(coordinate);
        // Two arcs from end to end: a path needs no transform of its stroke.
        let data = format!("M-{major} 0A{major} {minor} 0 1 1 {major} 0A{major} {minor} 0 1 1 -{major} 0Z");
        canvas.path(
            &data,
            &format!(
                r#"transform="translate({x} {y}) rotate({degrees})" fill="{colour}" fill-opacity="0.1" stroke="{colour}" stroke-width="1.3""#
            ),
        );
    }

    fn bar(&self, canvas: &mut Canvas, bar: &Bar, direction: Direction) {
        let Some([left, top, right, bottom]) = self.bar_corners(bar, direction) else { return };
        let radius = if (right - left).min(bottom - top) >= 6.0 { 1.5 } else { 0.0 };
        canvas.rect([left, top, right - left, bottom - top], radius, bar.colour);
    }

    /// Left, top, right and bottom of a bar.
    fn bar_corners(&self, bar: &Bar, direction: Direction) -> Option<[f64; 4]> {
        let (across, along) = match direction {
            Direction::Vertical => (&self.x, &self.y),
            Direction::Horizontal => (&self.y, &self.x),
        };
        let (a, b) = (across.place(bar.across.0)?, across.place(bar.across.1)?);
        let (foot, end) = (along.foot(), along.place(bar.value)?);
        let ((low, high), (start, stop)) = ((a.min(b), a.max(b)), (foot.min(end), foot.max(end)));
        Some(match direction {
            Direction::Vertical => [low, start, high, stop],
            Direction::Horizontal => [start, low, stop, high],
        })
    }

    fn bar_text(&self, canvas: &mut Canvas, bar: &Bar, direction: Direction) {
        let Some([left, top, right, bottom]) = self.bar_corners(bar, direction) else { return };
        let style = TextStyle::new(11.0, Colour::INK).with_halo();
        match direction {
            Direction::Vertical => {
                canvas.text((left + right) / 2.0, top - 4.0, style.anchored(Anchor::Middle), &bar.label);
            }
            Direction::Horizontal => canvas.text(right + 5.0, (top + bottom) / 2.0 + 4.0, style, &bar.label),
        }
    }

    fn rule(&self, canvas: &mut Canvas, at: f64, direction: Direction, colour: Colour, stroke: Stroke) {
        let [left, top, right, bottom] = self.frame;
        let ends = match direction {
            Direction::Horizontal => self.y.place(at).map(|y| ((left, y), (right, y))),
            Direction::Vertical => self.x.place(at).map(|x| ((x, top), (x, bottom))),
        };
        if let Some((from, to)) = ends {
            canvas.line(from, to, colour, 1.5, dashes(stroke));
        }
    }
}

fn dashes(stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::Solid => "",
        Stroke::Dashed => r#" stroke-dasharray="6 4""#,
    }
}

/// Half axes at two standard deviations and the angle of the longer one, by the eigenvalues of a symmetric
/// 2×2 matrix; `None` for a matrix with NaN. Round-off below zero counts as zero.
fn semi_axes([xx, xy, yy]: [f64; 3]) -> Option<(f64, f64, f64)> {
    if !(xx + xy + yy).is_finite() {
        return None;
    }
    let mean = (xx + yy) / 2.0;
    let radius = ((xx - yy) / 2.0).hypot(xy);
    let (major, minor) = ((mean + radius).max(0.0).sqrt() * 2.0, (mean - radius).max(0.0).sqrt() * 2.0);
    let degrees = (0.5 * (2.0 * xy).atan2(xx - yy)).to_degrees();
    // A half axis of no length would make the arc a line that some viewers leave out.
    (major.is_finite() && minor.is_finite()).then_some((major.max(0.5), minor.max(0.5), degrees))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semi_axes_follow_the_covariance() {
        let (major, minor, degrees) = semi_axes([9.0, 0.0, 1.0]).unwrap();
        assert_eq!((major, minor, degrees), (6.0, 2.0, 0.0));
        // Eigenvalues of [[2, 1], [1, 2]] are 3 and 1, the longer axis lies at 45 degrees.
        let (major, minor, degrees) = semi_axes([2.0, 1.0, 2.0]).unwrap();
        assert!((major - 2.0 * 3f64.sqrt()).abs() < 1e-12 && (minor - 2.0).abs() < 1e-12);
        assert!((degrees - 45.0).abs() < 1e-9);
    }

    #[test]
    fn a_covariance_with_nan_has_no_ellipse() {
        assert_eq!(semi_axes([f64::NAN, 0.0, 1.0]), None);
        assert_eq!(semi_axes([0.0, 0.0, 0.0]), Some((0.5, 0.5, 0.0)));
    }
}
