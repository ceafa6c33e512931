//! Finds the delimiter from the first two lines.

use super::records::Split;

/// Delimiters tried, the most telling first.
const CANDIDATES: [u8; 3] = [b'\t', b';', b','];

/// The candidate that both lines have equally often, else the commonest of the first line, else
/// white space when both lines have as many words, else a comma.
pub(super) fn delimiter(head: &[u8]) -> Split {
    let mut lines =
        head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let second = lines.next();
    let count = |delimiter| count_outside_quotes(first, delimiter);
    let agrees =
        |delimiter| second.is_none_or(|line| count_outside_quotes(line, delimiter) == count(delimiter));
    let commonest = |candidates: &mut dyn Iterator<Item = u8>| {
        // max_by_key keeps the last of equals; reversed, that is the most telling.
        candidates.filter(|&delimiter| count(delimiter) > 0).max_by_key(|&delimiter| count(delimiter))
    };
    let reversed = || CANDIDATES.into_iter().rev();
    if let Some(byte) = commonest(&mut reversed().filter(|&delimiter| agrees(delimiter))) {
        return Split::Byte(byte);
    }
    let words = |line: &[u8]| line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    if words(first) > 1 && !first.contains(&b'"') && second.is_none_or(|line| words(line) == words(first)) {
        return Split::Whitespace;
    }
    Split::Byte(commonest(&mut reversed()).unwrap_or(b','))
}

fn count_outside_quotes(line: &[u8], delimiter: u8) -> usize {
    let mut quoted = false;
    line.iter()
        .filter(|&&byte| {
            quoted ^= byte == b'"';
            !quoted && byte == delimiter
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_found() {
        for (head, expected) in [
            ("a,b\n1,2\n", Split::Byte(b',')),
            ("a;b\n1;2\n", Split::Byte(b';')),
            ("a\tb\n1\t2", Split::Byte(b'\t')),
            ("a b\n1  2\n", Split::Whitespace),
            ("  1.0  2.0\n 10.0  3.0\n", Split::Whitespace),
            ("a\n1\n", Split::Byte(b',')),
            ("my column\n1\n", Split::Byte(b',')),
            ("\"a;b\",c\n1,2\n", Split::Byte(b',')),
            ("a, b\n1, 2\n", Split::Byte(b',')),
            ("first name;last, name\n1;2\n", Split::Byte(b';')),
            ("1,2", Split::Byte(b',')),
            ("", Split::Byte(b',')),
            ("a;b\n1;2;3\n", Split::Byte(b';')),
        ] {
            assert_eq!(delimiter(head.as_bytes()), expected, "{head:?}");
        }
    }
}
