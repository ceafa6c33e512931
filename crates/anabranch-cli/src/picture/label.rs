//! Direct labels, placed one after another so that none covers another.

use super::canvas::{Anchor, Canvas, TextStyle};
use super::palette::Colour;
use super::text::width;

/// Font size of a direct label.
const SIZE: f64 = 11.0;
/// Distance between a place and its label.
const GAP: f64 = 6.0;

/// Left, top, right, bottom.
type Box4 = [f64; 4];

/// Labels placed so far within a frame.
pub(crate) struct Labels {
    frame: Box4,
    taken: Vec<Box4>,
}

impl Labels {
    pub(crate) fn within(frame: Box4) -> Self {
        Self { frame, taken: Vec::new() }
    }

    /// Writes the text on `at`, or to the right, left, above or below, whichever is free first.
    pub(crate) fn beside(&mut self, canvas: &mut Canvas, at: (f64, f64), text: &str, colour: Colour) {
        let (w, (x, y)) = (width(text, SIZE), at);
        let middle = y + SIZE * 0.36;
        let tries = [
            (x - w / 2.0, middle),
            (x + w / 2.0 + GAP, middle),
            (x - GAP - w * 1.5, middle),
            (x - w / 2.0, middle - SIZE - GAP),
            (x - w / 2.0, middle + SIZE + GAP),
        ];
        self.first_free(canvas, &tries, text, colour);
    }

    /// Writes the text on a line across the panel: near the left end above it, else below or at the right.
    pub(crate) fn on_rule(&mut self, canvas: &mut Canvas, y: f64, text: &str, colour: Colour) {
        let w = width(text, SIZE);
        let (left, right) = (self.frame[0] + GAP, self.frame[2] - GAP - w);
        let (above, below) = (y - GAP, y + GAP + SIZE * 0.75);
        self.first_free(
            canvas,
            &[(left, above), (left, below), (right, above), (right, below)],
            text,
            colour,
        );
    }

    fn first_free(&mut self, canvas: &mut Canvas, tries: &[(f64, f64)], text: &str, colour: Colour) {
        let w = width(text, SIZE);
        let free = tries.iter().map(|(x, y)| (*x, *y, [*x, y - SIZE * 0.8, x + w, y + SIZE * 0.25]));
        let Some((x, y, area)) = free.into_iter().find(|(_, _, area)| self.is_free(area)) else { return };
        self.taken.push(area);
        let style = TextStyle::new(SIZE, colour).anchored(Anchor::Start).bold().with_halo();
        canvas.text(x, y, style, text);
    }

    fn is_free(&self, area: &Box4) -> bool {
        let [left, top, right, bottom] = *area;
        let inside = left >= self.frame[0]
            && top >= self.frame[1]
            && right <= self.frame[2]
            && bottom <= self.frame[3];
        inside
            && self
                .taken
                .iter()
                .all(|t| right + 3.0 < t[0] || t[2] + 3.0 < left || bottom + 1.0 < t[1] || t[3] + 1.0 < top)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_one_place_do_not_overlap_and_the_rest_is_left_out() {
        let mut canvas = Canvas::default();
        let mut labels = Labels::within([0.0, 0.0, 200.0, 100.0]);
        for _ in 0..30 {
            labels.beside(&mut canvas, (100.0, 50.0), "12", Colour::INK);
        }
        assert!((2..=5).contains(&labels.taken.len()));
    }

    #[test]
    fn a_label_outside_the_frame_is_not_written() {
        let mut canvas = Canvas::default();
        let mut labels = Labels::within([0.0, 0.0, 10.0, 10.0]);
        labels.beside(&mut canvas, (5.0, 5.0), "far too long", Colour::INK);
        assert!(labels.taken.is_empty());
    }
}
