//! Finds the delimiter from the first two lines.

use super::records::Split;

/// Delimiters tried, the most telling first.
const CANDIDATES: [u8; 4] = [b'\t', b';', b',', b'|'];

/// The first candidate that both lines have equally often, else white space when both lines have
/// as many words, else the commonest candidate of the first line, else a comma.
pub(super) fn delimiter(head: &[u8]) -> Split {
    let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let mut lines = lines.filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let second = lines.next().unwrap_or(first);
    let count = |delimiter| count_outside_quotes(first, delimiter);
    let agrees = |delimiter| count_outside_quotes(second, delimiter) == count(delimiter);
    if let Some(byte) = CANDIDATES.into_iter().find(|&byte| count(byte) > 0 && agrees(byte)) {
        return Split::Byte(byte);
    }
    if words(first) > 1 && words(second) == words(first) && !first.contains(&b'"') {
        return Split::Whitespace;
    }
    let commonest = CANDIDATES.into_iter().filter(|&byte| count(byte) > 0).max_by_key(|&byte| count(byte));
    Split::Byte(commonest.unwrap_or(b','))
}

fn words(line: &[u8]) -> usize {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count()
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
            ("x;y\n1,5;2,5\n", Split::Byte(b';')),
            ("1,5;2,5\n1,5;3,5\n", Split::Byte(b';')),
            ("1,2", Split::Byte(b',')),
            ("", Split::Byte(b',')),
            ("a;b\n1;2;3\n", Split::Byte(b';')),
            ("a|b|c\n1|2|3\n", Split::Byte(b'|')),
            ("a | b\n1 | 2\n", Split::Byte(b'|')),
            ("a|b,c\n1|2,3\n", Split::Byte(b',')),
        ] {
            assert_eq!(delimiter(head.as_bytes()), expected, "{head:?}");
        }
    }
}
