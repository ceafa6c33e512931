//! Text of strangers on a terminal or in a log.

use std::borrow::Cow;

/// Characters that a terminal obeys, or that change the order in which text is shown.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text in one line, with escapes for all that a terminal would obey.
///
/// ```
/// use anabranch_io::printable::printable;
/// assert_eq!(printable("a\x1b[31mb\nc"), "a\\u{1b}[31mb\\nc");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(is_obeyed) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(
            text.chars()
                .map(|c| if is_obeyed(c) { c.escape_default().to_string() } else { c.to_string() })
                .collect(),
        ),
    }
}
