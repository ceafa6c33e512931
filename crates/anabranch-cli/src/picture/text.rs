//! Text in a picture: escaping for XML, its width in our font, and breaking into lines.

use std::borrow::Cow;

/// Advance widths of the embedded font for U+0020…U+007E, in thousandths of the font size.
const ADVANCES: [u16; 95] = [
    281, 278, 403, 631, 638, 812, 639, 222, 362, 362, 500, 659, 280, 460, 276, 357, 625, 464, 605, 636, 642,
    608, 624, 571, 616, 624, 276, 280, 659, 659, 659, 507, 936, 676, 651, 727, 719, 598, 587, 743, 740, 264,
    543, 652, 562, 889, 753, 761, 635, 761, 639, 638, 642, 741, 676, 949, 642, 665, 625, 362, 357, 362, 469,
    452, 497, 564, 621, 558, 621, 582, 361, 609, 591, 237, 237, 544, 237, 869, 585, 597, 609, 609, 372, 523,
    364, 581, 557, 812, 540, 557, 541, 362, 327, 362, 659,
];

/// Width of a character outside the table: a little more than a digit, so that labels never collide.
const OTHER_ADVANCE: u16 = 660;

/// The text, safe inside XML and HTML elements and double-quoted attributes.
///
/// Control characters, which XML 1.0 cannot carry at all, become spaces.
///
/// ```
/// assert_eq!(anabranch_cli::picture::escape("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| replacement(c).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match replacement(c) {
            Some(entity) => escaped.push_str(entity),
            None => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn replacement(c: char) -> Option<&'static str> {
    match c {
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '&' => Some("&amp;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        '\u{FFFE}' | '\u{FFFF}' => Some(" "),
        c if c.is_control() => Some(" "),
        _ => None,
    }
}

/// Width of `text` at `size`, in the same unit.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let thousandths: u32 = text.chars().map(|c| u32::from(advance(c))).sum();
    f64::from(thousandths) * size / 1000.0
}

fn advance(c: char) -> u16 {
    (c as usize).checked_sub(0x20).and_then(|ix| ADVANCES.get(ix)).copied().unwrap_or(OTHER_ADVANCE)
}

/// `text` broken between words into lines no wider than `limit` (a longer word keeps a line of its own).
pub(crate) fn wrap(text: &str, size: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + width(" ", size) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text` cut to `limit`, with an ellipsis where something is missing.
pub(crate) fn shorten(text: &str, size: f64, limit: f64) -> String {
    if width(text, size) <= limit {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if width(&kept, size) + width("…", size) * 2.0 > limit {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escape("<a href=\"x\">&'\u{1}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39; ");
        assert!(matches!(escape("plain text"), Cow::Borrowed(_)));
    }

    #[test]
    fn wide_letters_are_wider_than_narrow_ones() {
        assert!(width("WWW", 10.0) > 2.0 * width("iii", 10.0));
    }

    #[test]
    fn wrapped_lines_keep_every_word_and_fit() {
        let lines = wrap("one two three four five six", 10.0, 60.0);
        assert_eq!(lines.join(" "), "one two three four five six");
        assert!(lines.iter().all(|line| width(line, 10.0) <= 60.0));
    }

    #[test]
    fn a_long_name_is_cut_to_its_place() {
        let cut = shorten(&"temperature ".repeat(20), 12.0, 100.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 100.0, "{cut}");
    }
}
