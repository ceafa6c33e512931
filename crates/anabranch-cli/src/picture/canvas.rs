//! The sheet under a figure: SVG elements with rounded coordinates and escaped text.

use super::palette::Colour;
use super::text::escape;
use std::fmt::Write;

/// The embedded family first; the others serve browsers, which do not have it.
const FONTS: &str = "'Anabranch Sans', Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/// Which side of its anchor a text lies on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TextStyle {
    pub(crate) size: f64,
    pub(crate) colour: Colour,
    pub(crate) anchor: Anchor,
    pub(crate) bold: bool,
    /// A rim in the colour of the paper keeps text legible over marks.
    pub(crate) halo: bool,
}

impl TextStyle {
    pub(crate) fn new(size: f64, colour: Colour) -> Self {
        Self { size, colour, anchor: Anchor::Start, bold: false, halo: false }
    }

    pub(crate) fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub(crate) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(crate) fn with_halo(self) -> Self {
        Self { halo: true, ..self }
    }
}

/// Elements drawn so far.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

impl Canvas {
    /// A filled rectangle with corners rounded by `radius`.
    pub(crate) fn rect(&mut self, [x, y, width, height]: [f64; 4], radius: f64, fill: Colour) {
        let [x, y, width, height, radius] = [x, y, width.max(0.0), height.max(0.0), radius].map(coordinate);
        let rounding = if radius == "0" { String::new() } else { format!(r#" rx="{radius}""#) };
        self.push(&format!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}"{rounding} fill="{fill}"/>"#
        ));
    }

    /// A straight line.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour, width: f64, extra: &str) {
        let [x1, y1, x2, y2, width] = [from.0, from.1, to.0, to.1, width].map(coordinate);
        self.push(&format!(
            r#"<path d="M{x1} {y1}L{x2} {y2}" stroke="{colour}" stroke-width="{width}" fill="none"{extra}/>"#
        ));
    }

    /// Path data with ready-made attributes; nothing for empty data.
    pub(crate) fn path(&mut self, data: &str, attributes: &str) {
        if !data.is_empty() {
            self.push(&format!(r#"<path d="{data}" {attributes}/>"#));
        }
    }

    /// Text with its baseline at `y`.
    pub(crate) fn text(&mut self, x: f64, y: f64, style: TextStyle, text: &str) {
        let mut attributes = format!(
            r#"x="{}" y="{}" font-size="{}" fill="{}""#,
            coordinate(x),
            coordinate(y),
            style.size,
            style.colour
        );
        match style.anchor {
            Anchor::Start => {}
            Anchor::Middle => attributes.push_str(r#" text-anchor="middle""#),
            Anchor::End => attributes.push_str(r#" text-anchor="end""#),
        }
        if style.bold {
            attributes.push_str(r#" font-weight="600""#);
        }
        if style.halo {
            let paper = Colour::PAPER;
            let _ = write!(
                attributes,
                r#" stroke="{paper}" stroke-width="3" stroke-linejoin="round" paint-order="stroke""#
            );
        }
        self.push(&format!("<text {attributes}>{}</text>", escape(text)));
    }

    /// Opens a group that is cut at the borders of a rectangle.
    pub(crate) fn open_clip(&mut self, id: &str, [x, y, width, height]: [f64; 4]) {
        let id = escape(id);
        let [x, y, width, height] = [x, y, width, height].map(coordinate);
        self.push(&format!(
            r#"<clipPath id="{id}"><rect x="{x}" y="{y}" width="{width}" height="{height}"/></clipPath>"#
        ));
        self.push(&format!(r#"<g clip-path="url(#{id})">"#));
    }

    /// Closes the group.
    pub(crate) fn close_clip(&mut self) {
        self.push("</g>");
    }

    /// The whole picture. `namespace` is what a file needs and a page does not.
    pub(crate) fn finish(self, size: (f64, f64), title: &str, description: &str, namespace: &str) -> String {
        let [width, height] = [size.0, size.1].map(coordinate);
        let (title, description) = (escape(title), escape(description));
        let paper = Colour::PAPER;
        format!(
            r#"<svg{namespace} viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{title}. {description}" font-family="{FONTS}">
<title>{title}</title>
<desc>{description}</desc>
<rect width="{width}" height="{height}" fill="{paper}"/>
{body}</svg>
"#,
            body = self.body
        )
    }

    fn push(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

/// A coordinate with at most two decimals: finer than a pixel at twice the size.
pub(crate) fn coordinate(value: f64) -> String {
    rounded(value, 2)
}

/// A coordinate of one among thousands of points: a tenth of a unit is enough, and keeps the file small.
pub(crate) fn coarse(value: f64) -> String {
    rounded(value, 1)
}

fn rounded(value: f64, decimals: usize) -> String {
    let value = if value.is_finite() { value.clamp(-1e6, 1e6) } else { 0.0 };
    let digits = format!("{value:.decimals$}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    if digits == "-0" { "0".to_owned() } else { digits.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_always_numbers() {
        assert_eq!(coordinate(12.0), "12");
        assert_eq!(coordinate(-0.001), "0");
        assert_eq!(coordinate(1.0 / 3.0), "0.33");
        assert_eq!(coordinate(f64::NAN), "0");
        assert_eq!(coordinate(f64::INFINITY), "0");
        assert_eq!(coarse(7.25), "7.2");
    }

    #[test]
    fn text_on_the_canvas_is_escaped() {
        let mut canvas = Canvas::default();
        canvas.text(0.0, 0.0, TextStyle::new(12.0, Colour::INK), "<&\"");
        assert!(canvas.body.contains("&lt;&amp;&quot;"));
    }
}
