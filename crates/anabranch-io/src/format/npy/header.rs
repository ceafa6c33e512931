//! The header of an npy file: versions 1 to 3.
//!
//! ```text
//! \x93NUMPY  major minor  length(u16 or u32)  {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }
//! ```

use std::io::Read;

use super::Dtype;
use crate::error::ReadError;
use crate::options::Format;
use crate::select::MAX_COLUMNS;

/// numpy itself refuses headers beyond 10,000 bytes unless told otherwise.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// Which index runs fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Row after row.
    C,
    /// Column after column.
    Fortran,
}

/// What the numbers of a file are and where they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub(crate) dtype: Dtype,
    pub(crate) order: Order,
    pub(crate) rows: u64,
    pub(crate) columns: usize,
    pub(crate) data_offset: u64,
}

impl NpyHeader {
    pub(crate) fn row_bytes(&self) -> usize {
        self.columns * self.dtype.size()
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        self.rows.saturating_mul(self.row_bytes() as u64)
    }
}

/// Reads and checks the header.
pub(crate) fn read(input: &mut impl Read, file: &str) -> Result<NpyHeader, ReadError> {
    let damaged = |detail: String| ReadError::damaged(file, Format::Npy, detail);
    let mut start = [0; 8];
    fill(input, &mut start, file)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(damaged("it does not start with \\x93NUMPY".to_owned()));
    }
    let wide = match start[6] {
        1 => false,
        2 | 3 => true,
        version => return Err(damaged(format!("version {version} is unknown"))),
    };
    let mut length = [0; 4];
    fill(input, &mut length[..if wide { 4 } else { 2 }], file)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER_BYTES {
        return Err(damaged(format!("its header of {length} bytes is longer than {MAX_HEADER_BYTES}")));
    }
    let mut text = vec![0; length];
    fill(input, &mut text, file)?;
    let text = String::from_utf8_lossy(&text);
    let data_offset = 8 + if wide { 4 } else { 2 } + length as u64;
    interpret(text.trim(), data_offset).map_err(damaged)
}

fn fill(input: &mut impl Read, out: &mut [u8], file: &str) -> Result<(), ReadError> {
    input.read_exact(out).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => ReadError::damaged(file, Format::Npy, "its header is cut short"),
        _ => ReadError::io(file, error),
    })
}

/// From the dictionary to types and sizes.
fn interpret(text: &str, data_offset: u64) -> Result<NpyHeader, String> {
    let entries = dictionary(text)
        .ok_or_else(|| format!("its header {:?} cannot be read", crate::rows::shorten(text)))?;
    let entry = |key: &str| {
        let found = entries.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value).ok_or_else(|| format!("its header has no {key:?}"))
    };
    let descr = entry("descr")?;
    let dtype = quoted(descr).and_then(Dtype::parse).ok_or_else(|| refuse_dtype(descr))?;
    let order = match entry("fortran_order")? {
        "True" => Order::Fortran,
        "False" => Order::C,
        other => return Err(format!("fortran_order is {:?}", crate::rows::shorten(other))),
    };
    let shape = entry("shape")?;
    let (rows, columns) = rows_and_columns(shape)?;
    let columns = usize::try_from(columns).ok().filter(|columns| (1..=MAX_COLUMNS).contains(columns));
    let columns =
        columns.ok_or_else(|| format!("shape {shape} has no columns or more than {MAX_COLUMNS}"))?;
    let header = NpyHeader { dtype, order, rows, columns, data_offset };
    if rows.checked_mul(header.row_bytes() as u64).and_then(|bytes| bytes.checked_add(data_offset)).is_none()
    {
        return Err(format!("shape {shape} is larger than any file"));
    }
    Ok(header)
}

fn refuse_dtype(descr: &str) -> String {
    let dtype = quoted(descr).unwrap_or(descr);
    let what = match dtype.trim_start_matches(['<', '>', '|', '=']).chars().next() {
        Some('O') => "Python objects",
        Some('U' | 'S' | 'a') => "strings",
        Some('[') => "records",
        Some('c') => "complex numbers",
        Some('M' | 'm') => "times",
        _ => "numbers of a kind that is not read",
    };
    format!("dtype {} holds {what}; float, integer and bool arrays are read", crate::rows::shorten(dtype))
}

fn rows_and_columns(shape: &str) -> Result<(u64, u64), String> {
    let bad = || format!("shape {:?} cannot be read", crate::rows::shorten(shape));
    let inner = shape.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(bad)?;
    let sizes: Vec<&str> = inner.split(',').map(str::trim).filter(|size| !size.is_empty()).collect();
    // Python 2 wrote 3L.
    let size = |text: &str| text.trim_end_matches('L').parse::<u64>().map_err(|_| bad());
    match sizes[..] {
        [rows] => Ok((size(rows)?, 1)),
        [rows, columns] => Ok((size(rows)?, size(columns)?)),
        _ => Err(format!(
            "shape {} has {} dimensions, 1 or 2 are read",
            crate::rows::shorten(shape),
            sizes.len()
        )),
    }
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text.strip_prefix(quote)?.strip_suffix(quote)
}

/// Keys and values of a Python dictionary, as text. Commas inside brackets and quotes do not count.
fn dictionary(text: &str) -> Option<Vec<(&str, &str)>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut entries = Vec::new();
    for entry in top_level(inner, ',')? {
        if entry.trim().is_empty() {
            continue;
        }
        let parts = top_level(entry, ':')?;
        let [key, value] = parts[..] else { return None };
        entries.push((quoted(key.trim())?, value.trim()));
    }
    Some(entries)
}

/// Splits at `separator` where it is in no bracket and no quote; `None` when those do not close.
fn top_level(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (ix, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, _) if c == separator && depth == 0 => {
                parts.push(&text[start..ix]);
                start = ix + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (quote.is_none() && depth == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<NpyHeader, String> {
        interpret(text, 10)
    }

    #[test]
    fn what_numpy_writes_is_understood() {
        let header = of("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }").unwrap();
        assert_eq!((header.rows, header.columns, header.order), (3, 2, Order::C));
        let header = of("{'descr': '>i4', 'fortran_order': True, 'shape': (7,), }").unwrap();
        assert_eq!((header.rows, header.columns, header.order), (7, 1, Order::Fortran));
        assert!(of("{\"shape\":(3L,2L),\"fortran_order\":False,\"descr\":\"|u1\"}").is_ok());
    }

    #[test]
    fn what_is_not_numbers_is_refused_by_name() {
        let refused = |descr: &str| {
            of(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (3,), }}")).unwrap_err()
        };
        assert_eq!(refused("'|O'"), "dtype |O holds Python objects; float, integer and bool arrays are read");
        assert_eq!(refused("'<U7'"), "dtype <U7 holds strings; float, integer and bool arrays are read");
        assert_eq!(
            refused("[('a', '<f8'), ('b', '<i4')]"),
            "dtype [('a', '<f8'), ('b', '<i4')] holds records; float, integer and bool arrays are read"
        );
        assert_eq!(
            refused("'<f2'"),
            "dtype <f2 holds numbers of a kind that is not read; float, integer and bool arrays are read"
        );
    }

    #[test]
    fn shapes_that_are_no_table_are_refused() {
        let refused = |shape: &str| {
            of(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}")).unwrap_err()
        };
        assert_eq!(refused("(2, 3, 4)"), "shape (2, 3, 4) has 3 dimensions, 1 or 2 are read");
        assert_eq!(refused("()"), "shape () has 0 dimensions, 1 or 2 are read");
        assert_eq!(refused("(-1,)"), "shape \"(-1,)\" cannot be read");
        assert_eq!(refused("(3, 0)"), "shape (3, 0) has no columns or more than 1048576");
        assert_eq!(
            refused("(18446744073709551615, 9)"),
            "shape (18446744073709551615, 9) is larger than any file"
        );
    }

    #[test]
    fn broken_dictionaries_are_refused() {
        for text in ["", "{", "{'descr'}", "{'descr': '<f8'", "{'a': (}", "{'a': ')}", "[1]"] {
            assert!(of(text).is_err(), "{text}");
        }
        assert_eq!(of("{'descr': '<f8'}").unwrap_err(), "its header has no \"fortran_order\"");
    }
}
