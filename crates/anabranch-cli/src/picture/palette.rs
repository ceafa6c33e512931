//! Colours: seven hues that stay apart for colour-blind eyes, in three lightnesses, chosen by component id.

use serde::Serialize;
use std::fmt;

/// A colour of the screen, red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// Titles and direct labels.
    pub const INK: Self = Self(0x1f, 0x29, 0x33);
    /// Axis labels, subtitles and notes: still 4.5:1 against the background.
    pub const SOFT_INK: Self = Self(0x5b, 0x67, 0x74);
    /// Axis lines.
    pub const AXIS: Self = Self(0xa3, 0xad, 0xb8);
    /// Lines of the grid.
    pub const GRID: Self = Self(0xe6, 0xea, 0xee);
    /// The card on which everything is drawn.
    pub const PAPER: Self = Self(0xff, 0xff, 0xff);
    /// The one colour of a picture that needs only one.
    pub const ACCENT: Self = Self(0x1f, 0x6f, 0xa8);
    /// A second quantity beside the accent.
    pub const SECOND: Self = Self(0x00, 0x7a, 0x59);
    /// What stands against the accent: a reference, a warning, a near-empty component.
    pub const CONTRAST: Self = Self(0xb0, 0x4d, 0x06);
    /// What belongs to no component.
    pub const UNASSIGNED: Self = Self(0xa9, 0xb0, 0xb7);

    /// The colour moved by `share` (0 to 1) of the way towards `other`.
    pub fn towards(self, other: Self, share: f64) -> Self {
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// Hues after Okabe and Ito's rule (apart under each kind of colour blindness), darkened to show on white.
const HUES: [Colour; 7] = [
    Colour(0x00, 0x72, 0xb2),
    Colour(0xcf, 0x86, 0x00),
    Colour(0x00, 0x8f, 0x68),
    Colour(0xc9, 0x4f, 0x0a),
    Colour(0xb0, 0x5a, 0x8c),
    Colour(0x3a, 0x9b, 0xd6),
    Colour(0x84, 0x7a, 0x1e),
];

/// The colour of a component: always the same for the same id, different for the 20 ids that follow it.
pub fn component_colour(id: u64) -> Colour {
    let hues = HUES.len() as u64;
    let hue = HUES[(id % hues) as usize];
    match (id / hues) % 3 {
        0 => hue,
        1 => hue.towards(Colour(0, 0, 0), 0.38),
        _ => hue.towards(Colour(0xff, 0xff, 0xff), 0.24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Relative luminance of the web's contrast rule.
    fn luminance(colour: Colour) -> f64 {
        let part = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(colour.0) + 0.7152 * part(colour.1) + 0.0722 * part(colour.2)
    }

    fn contrast_on_paper(colour: Colour) -> f64 {
        1.05 / (luminance(colour) + 0.05)
    }

    #[test]
    fn twenty_one_neighbouring_ids_have_different_colours() {
        for start in [0, 5, u64::MAX - 20] {
            let colours: BTreeSet<_> = (0..21).map(|ix| component_colour(start + ix)).collect();
            assert!(colours.len() >= 20, "{start}");
        }
    }

    #[test]
    fn every_component_colour_shows_on_the_background() {
        assert!((0..21).all(|id| contrast_on_paper(component_colour(id)) > 2.0));
    }

    #[test]
    fn text_is_readable_on_the_background() {
        assert!(contrast_on_paper(Colour::INK) > 7.0);
        assert!(contrast_on_paper(Colour::SOFT_INK) > 4.5);
        assert!(contrast_on_paper(Colour::CONTRAST) > 4.5);
    }

    #[test]
    fn colours_are_written_in_hexadecimal() {
        assert_eq!(Colour(0, 0x72, 0xb2).to_string(), "#0072b2");
    }
}
