//! A whole picture: header, legend, panels one below the other, and notes.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas, TextStyle};
use super::draw::Plot;
use super::label::Labels;
use super::layer::Layer;
use super::palette::Colour;
use super::text::{shorten, width, wrap};
use super::tick::Tick;

const MARGIN: f64 = 24.0;
const TITLE: f64 = 18.0;
const BODY: f64 = 13.0;
const SMALL: f64 = 11.5;
/// Room above a plot for the name of its upright axis.
const Y_LABEL_ROOM: f64 = 24.0;
/// Room below a plot for tick labels.
const X_TICK_ROOM: f64 = 30.0;
/// Room below the tick labels for the name of the level axis, where it has one.
const X_LABEL_ROOM: f64 = 16.0;
/// Longest tick label before it is cut.
const WIDEST_TICK: f64 = 120.0;
const NAMESPACE: &str = r#" xmlns="http://www.w3.org/2000/svg""#;

/// What stands before the text of a legend entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegendMark {
    /// A disc: points.
    Dot,
    /// A ring: ellipses.
    Ring,
    /// A line.
    Line,
    /// A dashed line.
    Dashes,
    /// A square: bars.
    Square,
}

/// One line of the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct LegendEntry {
    /// Its mark.
    pub mark: LegendMark,
    /// The colour of the mark.
    pub colour: Colour,
    /// What the mark stands for.
    pub text: String,
}

/// Two axes and what lies between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Height of the drawing area, without labels.
    pub height: f64,
    /// The level axis.
    pub x: Axis,
    /// The upright axis.
    pub y: Axis,
    /// Marks, from the lowest to the highest.
    pub layers: Vec<Layer>,
}

/// A picture with all its texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// A short name of letters, unique on a page: prefix of the ids inside the SVG.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// What to see in it.
    pub subtitle: String,
    /// The same for those who cannot see it.
    pub description: String,
    /// Width of the picture.
    pub width: f64,
    /// Marks and their meanings.
    pub legend: Vec<LegendEntry>,
    /// Panels from top to bottom.
    pub panels: Vec<Panel>,
    /// Small print.
    pub notes: Vec<String>,
}

/// A panel whose axes know their spans.
struct Spanned<'a> {
    panel: &'a Panel,
    spans: Option<[(f64, f64); 2]>,
    y_marks: Vec<Tick>,
}

impl Figure {
    /// The picture as an SVG file.
    pub fn svg(&self) -> String {
        self.render(NAMESPACE)
    }

    /// The picture as an element of an HTML page, which needs no namespace.
    pub fn inline_svg(&self) -> String {
        self.render("")
    }

    fn render(&self, namespace: &str) -> String {
        let mut canvas = Canvas::default();
        let panels: Vec<Spanned<'_>> = self.panels.iter().map(Spanned::new).collect();
        let left = MARGIN + panels.iter().map(Spanned::gutter).fold(16.0, f64::max);
        let mut y = self.header(&mut canvas);
        for (ix, panel) in panels.iter().enumerate() {
            let top = y + if panel.panel.y.label.is_empty() { 0.0 } else { Y_LABEL_ROOM };
            let frame = [left, top, self.width - MARGIN, top + panel.panel.height];
            panel.draw(&mut canvas, frame, &format!("{}-{ix}", self.name));
            y = frame[3] + panel.room_below();
        }
        y = self.footer(&mut canvas, y);
        canvas.finish((self.width, y + MARGIN - 8.0), &self.title, &self.description, namespace)
    }

    /// Title, subtitle and legend; returns how far down they reach.
    fn header(&self, canvas: &mut Canvas) -> f64 {
        let room = self.width - 2.0 * MARGIN;
        let mut y = MARGIN - 6.0;
        // Semibold runs wider than the table of widths.
        for line in wrap(&self.title, TITLE * 1.06, room) {
            y += TITLE * 1.25;
            canvas.text(MARGIN, y, TextStyle::new(TITLE, Colour::INK).bold(), &line);
        }
        y += 2.0;
        for line in wrap(&self.subtitle, BODY, room) {
            y += BODY * 1.4;
            canvas.text(MARGIN, y, TextStyle::new(BODY, Colour::SOFT_INK), &line);
        }
        y = self.draw_legend(canvas, y + 4.0);
        y + 14.0
    }

    fn draw_legend(&self, canvas: &mut Canvas, mut y: f64) -> f64 {
        if self.legend.is_empty() {
            return y;
        }
        y += 20.0;
        let mut x = MARGIN;
        for entry in &self.legend {
            let indent =
                if matches!(entry.mark, LegendMark::Line | LegendMark::Dashes) { 25.0 } else { 20.0 };
            let step = indent + width(&entry.text, SMALL) + 22.0;
            if x > MARGIN && x + step - 22.0 > self.width - MARGIN {
                (x, y) = (MARGIN, y + 18.0);
            }
            legend_mark(canvas, entry, x, y - 4.0);
            canvas.text(x + indent, y, TextStyle::new(SMALL, Colour::INK), &entry.text);
            x += step;
        }
        y
    }

    fn footer(&self, canvas: &mut Canvas, mut y: f64) -> f64 {
        for note in &self.notes {
            for line in wrap(note, SMALL, self.width - 2.0 * MARGIN) {
                y += SMALL * 1.4;
                canvas.text(MARGIN, y, TextStyle::new(SMALL, Colour::SOFT_INK), &line);
            }
        }
        y
    }
}

impl<'a> Spanned<'a> {
    fn new(panel: &'a Panel) -> Self {
        let reach: Vec<(f64, f64)> = panel.layers.iter().flat_map(Layer::reach).collect();
        let spans = panel
            .x
            .span(reach.iter().map(|p| p.0))
            .and_then(|x| Some([x, panel.y.span(reach.iter().map(|p| p.1))?]));
        let target = (panel.height / 50.0).round().clamp(4.0, 9.0) as usize;
        let y_marks = spans.map(|spans| panel.y.marks(spans[1], target)).unwrap_or_default();
        Self { panel, spans, y_marks }
    }

    /// Room that the tick labels need at the left.
    fn gutter(&self) -> f64 {
        let widest = self.y_marks.iter().map(|tick| width(&tick.label, SMALL)).fold(0.0, f64::max);
        widest.min(WIDEST_TICK) + 10.0
    }

    fn room_below(&self) -> f64 {
        X_TICK_ROOM + if self.panel.x.label.is_empty() { 0.0 } else { X_LABEL_ROOM }
    }

    fn draw(&self, canvas: &mut Canvas, frame: [f64; 4], clip: &str) {
        let [left, top, right, bottom] = frame;
        canvas.text(
            MARGIN,
            top - 11.0,
            TextStyle::new(SMALL, Colour::SOFT_INK),
            &shorten(&self.panel.y.label, SMALL, right - MARGIN),
        );
        let Some([x_span, y_span]) = self.spans else {
            let style = TextStyle::new(BODY, Colour::SOFT_INK).anchored(Anchor::Middle);
            canvas.rect(
                [left, top, right - left, bottom - top],
                4.0,
                Colour::GRID.towards(Colour::PAPER, 0.5),
            );
            canvas.text((left + right) / 2.0, (top + bottom) / 2.0, style, "no data");
            return;
        };
        let plot = Plot {
            frame,
            x: Scale::new(&self.panel.x, x_span, (left, right)),
            y: Scale::new(&self.panel.y, y_span, (bottom, top)),
        };
        self.y_axis(canvas, &plot);
        canvas.open_clip(clip, [left, top, right - left, bottom - top]);
        self.panel.layers.iter().for_each(|layer| plot.draw(canvas, layer));
        canvas.close_clip();
        self.x_axis(canvas, &plot, x_span);
        let mut labels = Labels::within(frame);
        self.panel.layers.iter().for_each(|layer| plot.write(canvas, &mut labels, layer));
    }

    /// Grid lines and their labels.
    fn y_axis(&self, canvas: &mut Canvas, plot: &Plot) {
        let [left, _, right, _] = plot.frame;
        let style = TextStyle::new(SMALL, Colour::SOFT_INK).anchored(Anchor::End);
        for tick in &self.y_marks {
            if let Some(y) = plot.y.place(tick.value) {
                canvas.line((left, y), (right, y), Colour::GRID, 1.0, "");
                canvas.text(left - 8.0, y + 4.0, style, &shorten(&tick.label, SMALL, WIDEST_TICK));
            }
        }
    }

    /// The base line, its ticks with labels that keep their distance, and the name of the axis.
    fn x_axis(&self, canvas: &mut Canvas, plot: &Plot, span: (f64, f64)) {
        let [left, _, right, bottom] = plot.frame;
        canvas.line((left, bottom), (right, bottom), Colour::AXIS, 1.0, "");
        let style = TextStyle::new(SMALL, Colour::SOFT_INK).anchored(Anchor::Middle);
        let mut free_from = f64::NEG_INFINITY;
        for tick in self.panel.x.marks(span, 8) {
            let Some(x) = plot.x.place(tick.value) else { continue };
            canvas.line((x, bottom), (x, bottom + 4.0), Colour::AXIS, 1.0, "");
            let half = width(&tick.label, SMALL) / 2.0;
            if x - half >= free_from {
                canvas.text(x, bottom + 18.0, style, &tick.label);
                free_from = x + half + 6.0;
            }
        }
        let label = shorten(&self.panel.x.label, SMALL, right - left);
        canvas.text((left + right) / 2.0, bottom + 36.0, style, &label);
    }
}

fn legend_mark(canvas: &mut Canvas, entry: &LegendEntry, x: f64, y: f64) {
    let colour = entry.colour;
    match entry.mark {
        LegendMark::Dot => canvas.path(
            &format!("M{} {y}h.01", x + 5.0),
            &format!(r#"fill="none" stroke="{colour}" stroke-width="8" stroke-linecap="round""#),
        ),
        LegendMark::Ring => canvas.path(
            &format!("M{} {y}a7 5 0 1 1 14 0a7 5 0 1 1 -14 0Z", x + 0.7),
            &format!(r#"fill="{colour}" fill-opacity="0.1" stroke="{colour}" stroke-width="1.3""#),
        ),
        LegendMark::Line => canvas.line((x, y), (x + 18.0, y), colour, 2.0, ""),
        LegendMark::Dashes => canvas.line((x, y), (x + 18.0, y), colour, 1.5, r#" stroke-dasharray="5 3""#),
        LegendMark::Square => canvas.rect([x + 1.0, y - 5.0, 10.0, 10.0], 1.5, colour),
    }
}
