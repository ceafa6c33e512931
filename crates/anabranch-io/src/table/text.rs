//! Tables as text: delimited, or one JSON object for each row.

use std::fmt::Write;

use super::{Block, Field, Kind, Values};

/// Digits of a number in JSON, which people read.
const SHORT_DIGITS: i32 = 7;

/// The line of the names.
pub(super) fn head(delimiter: u8, fields: &[Field]) -> Vec<u8> {
    let mut out = String::new();
    for (ix, field) in fields.iter().enumerate() {
        if ix > 0 {
            out.push(delimiter as char);
        }
        quoted(delimiter, &field.name, &mut out);
    }
    out.push('\n');
    out.into_bytes()
}

/// Rows with a delimiter between cells; a cell that is missing is empty.
pub(super) fn delimited(delimiter: u8, fields: &[Field], block: &Block) -> Vec<u8> {
    let mut out = String::with_capacity(block.rows * 12 * fields.len());
    for row in 0..block.rows {
        for (ix, values) in block.columns.iter().enumerate() {
            if ix > 0 {
                out.push(delimiter as char);
            }
            match values {
                Values::Integers(cells) => put(cells[row], &mut out),
                Values::Numbers(cells) => put(cells[row], &mut out),
                Values::Flags(cells) => put(cells[row].map(u8::from), &mut out),
                Values::Cells(cells) => quoted(delimiter, cells.get(row), &mut out),
            }
        }
        out.push('\n');
    }
    out.into_bytes()
}

fn put(value: Option<impl std::fmt::Display>, out: &mut String) {
    if let Some(value) = value {
        write!(out, "{value}").expect("a string takes everything");
    }
}

/// A cell in quotes where it needs them.
fn quoted(delimiter: u8, cell: &str, out: &mut String) {
    let plain = !cell.bytes().any(|byte| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r'));
    if plain {
        out.push_str(cell);
    } else {
        out.push('"');
        out.push_str(&cell.replace('"', "\"\""));
        out.push('"');
    }
}

/// One object for each row; a cell that is missing is null.
pub(super) fn json_lines(fields: &[Field], block: &Block) -> Vec<u8> {
    let names: Vec<String> = fields.iter().map(|field| json_string(&field.name)).collect();
    let mut out = String::with_capacity(block.rows * 24 * fields.len());
    for row in 0..block.rows {
        out.push('{');
        for (ix, (values, field)) in block.columns.iter().zip(fields).enumerate() {
            if ix > 0 {
                out.push(',');
            }
            out.push_str(&names[ix]);
            out.push(':');
            match values {
                Values::Integers(cells) => put_or_null(cells[row], &mut out),
                Values::Numbers(cells) => short_or_null(cells[row], &mut out),
                Values::Flags(cells) => put_or_null(cells[row], &mut out),
                Values::Cells(cells) => match (cells.get(row), field.kind) {
                    ("", _) => out.push_str("null"),
                    (text, Kind::Json) => out.push_str(text),
                    (text, Kind::Number) => number_or_null(text, &mut out),
                    (text, _) => out.push_str(&json_string(text)),
                },
            }
        }
        out.push_str("}\n");
    }
    out.into_bytes()
}

fn put_or_null(value: Option<impl std::fmt::Display>, out: &mut String) {
    match value {
        Some(value) => put(Some(value), out),
        None => out.push_str("null"),
    }
}

/// The text of a number as a number of JSON.
fn number_or_null(text: &str, out: &mut String) {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => put(Some(value), out),
        _ => out.push_str("null"),
    }
}

fn short_or_null(value: Option<f64>, out: &mut String) {
    match value.filter(|value| value.is_finite()) {
        Some(value) => put(Some(short(value)), out),
        None => out.push_str("null"),
    }
}

/// A number rounded to so many digits that people read.
pub fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = SHORT_DIGITS - 1 - value.abs().log10().floor() as i32;
    if !(-300..=300).contains(&digits) {
        return value;
    }
    let scale = 10.0_f64.powi(digits.abs());
    let rounded = if digits >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale };
    if rounded.is_finite() { rounded } else { value }
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Cells;

    fn cells(texts: &[&str]) -> Values {
        let mut cells = Cells::default();
        texts.iter().for_each(|text| cells.push(text));
        Values::Cells(cells)
    }

    fn block() -> (Vec<Field>, Block) {
        let fields = [
            ("row", Kind::Integer),
            ("na,me", Kind::Text),
            ("x", Kind::Number),
            ("y", Kind::Number),
            ("flag", Kind::Flag),
        ];
        let columns = vec![
            Values::Integers(vec![Some(1), None]),
            cells(&["a \"b\", c", ""]),
            Values::Numbers(vec![Some(-1.0 / 3.0), None]),
            cells(&[" 2.50", "x"]),
            Values::Flags(vec![Some(true), None]),
        ];
        (fields.map(|(name, kind)| Field::new(name, kind)).to_vec(), Block { rows: 2, columns })
    }

    #[test]
    fn text_is_quoted_where_it_must_be() {
        let (fields, block) = block();
        let text = [head(b',', &fields), delimited(b',', &fields, &block)].concat();
        let expected = "row,\"na,me\",x,y,flag\n1,\"a \"\"b\"\", c\",-0.3333333333333333, 2.50,1\n,,,x,\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn objects_have_short_numbers_and_null_for_nothing() {
        let (fields, block) = block();
        let text = String::from_utf8(json_lines(&fields, &block)).unwrap();
        let expected = "{\"row\":1,\"na,me\":\"a \\\"b\\\", c\",\"x\":-0.3333333,\"y\":2.5,\"flag\":true}\n\
            {\"row\":null,\"na,me\":null,\"x\":null,\"y\":null,\"flag\":null}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn short_numbers_have_seven_digits() {
        assert_eq!(short(123_456_789.0), 123_456_800.0);
        assert_eq!(short(-0.000_123_456_789), -0.000_123_456_8);
        assert_eq!((short(0.0), short(5e-324), short(f64::MAX)), (0.0, 5e-324, f64::MAX));
    }
}
