//! True labels of rows, for scoring: whole numbers as they are, strings as codes.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{BadCell, ColumnRef, ReadError};
use crate::format::csv;
use crate::format::npy;
use crate::input;
use crate::options::{Format, Input, ReadOptions};
use crate::rows::is_missing_word;

/// Names that a header of a column of labels usually has.
const HEADERS: [&str; 9] =
    ["label", "labels", "class", "classes", "cluster", "target", "category", "species", "y"];

/// One label per row, from an npy array of integers or booleans, or from text with one column.
///
/// Text that is all whole numbers gives those numbers; otherwise every different string gets the
/// next code. A first line above numbers is a header; above strings it is one only when it is a
/// usual name for labels, such as `label` or `class`.
pub fn read_labels(path: &Path) -> Result<Vec<i64>, ReadError> {
    let source = Input::Path(path.to_owned());
    let file = source.label();
    // A label may have spaces in it.
    let whole_lines = ReadOptions { delimiter: Some(b','), ..Default::default() };
    let opened = match input::open(&source, None, None, None, None) {
        // Nothing but text comes without an extension.
        Err(ReadError::UnknownExtension { .. }) => input::open(&source, Some(Format::Csv), None, None, None),
        opened => opened,
    };
    let labels = match opened? {
        None => Vec::new(),
        Some(opened) => match opened.format {
            Format::Npy => npy::read_integers(opened)?,
            Format::Csv | Format::Tsv => from_text(&csv::read_single_column(opened, &whole_lines)?, &file)?,
            format => {
                return Err(ReadError::damaged(&file, format, "labels are read from npy, csv and text only"));
            }
        },
    };
    match labels.is_empty() {
        true => Err(ReadError::Empty { file }),
        false => Ok(labels),
    }
}

fn from_text(cells: &[(u64, String)], file: &str) -> Result<Vec<i64>, ReadError> {
    let Some(((_, first), rest)) = cells.split_first() else {
        return Ok(Vec::new());
    };
    if let (None, Some(numbers)) = (whole_number(first), whole_numbers(rest))
        && !rest.is_empty()
        && !is_missing_word(first.as_bytes())
    {
        return Ok(numbers);
    }
    let rows = match HEADERS.iter().any(|header| first.eq_ignore_ascii_case(header)) {
        true => rest,
        false => cells,
    };
    if let Some((row, (line, _))) =
        rows.iter().enumerate().find(|(_, (_, cell))| is_missing_word(cell.as_bytes()))
    {
        return Err(ReadError::BadRow {
            file: file.to_owned(),
            row: row as u64 + 1,
            line: Some(*line),
            problem: BadCell::Missing { column: ColumnRef::Position(1) },
        });
    }
    Ok(whole_numbers(rows).unwrap_or_else(|| codes(rows)))
}

fn whole_number(cell: &str) -> Option<i64> {
    cell.parse().ok()
}

fn whole_numbers(cells: &[(u64, String)]) -> Option<Vec<i64>> {
    cells.iter().map(|(_, cell)| whole_number(cell)).collect()
}

fn codes(cells: &[(u64, String)]) -> Vec<i64> {
    let mut codes = HashMap::new();
    cells
        .iter()
        .map(|(_, cell)| {
            let next = codes.len() as i64;
            *codes.entry(cell.as_str()).or_insert(next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Result<Vec<i64>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("labels.csv");
        std::fs::write(&path, text).unwrap();
        read_labels(&path).map_err(|error| error.to_string().replace(path.to_str().unwrap(), "labels.csv"))
    }

    #[test]
    fn whole_numbers_are_kept_and_a_header_above_them_is_passed_over() {
        assert_eq!(labels("3\n-1\n3\n"), Ok(vec![3, -1, 3]));
        assert_eq!(labels("anything\n3\n-1\n"), Ok(vec![3, -1]));
    }

    #[test]
    fn strings_get_codes_by_first_appearance() {
        assert_eq!(labels("cat\ndog\ncat\n"), Ok(vec![0, 1, 0]));
        assert_eq!(labels("Label\ncat\ndog\n\"cat\"\n"), Ok(vec![0, 1, 0]));
        assert_eq!(labels("1\ntwo\n1"), Ok(vec![0, 1, 0]));
        assert_eq!(labels("Iris setosa\nIris virginica\n"), Ok(vec![0, 1]));
        assert_eq!(labels("only"), Ok(vec![0]));
    }

    #[test]
    fn what_is_no_list_of_labels_is_refused() {
        assert_eq!(labels("").unwrap_err(), "labels.csv has no rows");
        assert_eq!(labels("1,2\n3,4\n").unwrap_err(), "labels.csv: row 1 (line 1) has 2 columns, expected 1");
        assert_eq!(labels("cat\nNA\n").unwrap_err(), "labels.csv: row 2 (line 2), column 1 has no value");
    }
}
