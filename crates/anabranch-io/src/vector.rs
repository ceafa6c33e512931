//! A flag whose value is a number, a comma list for the columns, or a file of numbers.

use std::path::PathBuf;

use crate::error::ReadError;
use crate::options::{Input, ReadOptions};
use crate::rows::parse_number;
use crate::source::open;

/// One number per column from the value of a flag such as `--prior-mean`.
///
/// ```
/// use anabranch_io::vector::parse_vector;
/// assert_eq!(parse_vector("0.5", 3)?, [0.5, 0.5, 0.5]);
/// assert_eq!(parse_vector("1, 2, 3", 3)?, [1.0, 2.0, 3.0]);
/// # Ok::<(), anabranch_io::ReadError>(())
/// ```
pub fn parse_vector(value: &str, dimensions: usize) -> Result<Vec<f64>, ReadError> {
    if let Ok(number) = parse_number(value.as_bytes()) {
        return Ok(vec![number; dimensions]);
    }
    let path = PathBuf::from(value);
    let numbers = match path.exists() {
        true => from_file(path, dimensions)?,
        false => from_list(value)?,
    };
    match numbers.len() == dimensions {
        true => Ok(numbers),
        false => Err(refuse(value, format!("holds {} numbers for {dimensions} columns", numbers.len()))),
    }
}

fn from_list(value: &str) -> Result<Vec<f64>, ReadError> {
    let number = |cell: &str| {
        parse_number(cell.as_bytes()).map_err(|_| match value.contains(',') {
            true => refuse(value, format!("has the entry {:?}, which is not a finite number", cell.trim())),
            false => refuse(value, "is neither a finite number nor a file".to_owned()),
        })
    };
    value.split(',').map(number).collect()
}

/// All numbers of a file, row after row: one row or one column both make a vector.
fn from_file(path: PathBuf, dimensions: usize) -> Result<Vec<f64>, ReadError> {
    let mut source = open(&[Input::Path(path)], &ReadOptions::default())?;
    let mut numbers = Vec::new();
    // A file with too many numbers is refused, not read to its end.
    while numbers.len() <= dimensions {
        match source.next_batch(dimensions + 1)? {
            Some(batch) => numbers.extend_from_slice(batch.values()),
            None => break,
        }
    }
    Ok(numbers)
}

fn refuse(value: &str, detail: String) -> ReadError {
    ReadError::Vector { value: value.to_owned(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(value: &str) -> String {
        parse_vector(value, 2).unwrap_err().to_string()
    }

    #[test]
    fn a_file_may_hold_a_row_or_a_column() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["1,2\n", "1\n2\n", "a,b\n1,2\n"] {
            let path = folder.path().join("mean.csv");
            std::fs::write(&path, text).unwrap();
            assert_eq!(parse_vector(path.to_str().unwrap(), 2).unwrap(), [1.0, 2.0]);
        }
    }

    #[test]
    fn what_is_no_vector_is_refused_with_the_reason() {
        assert_eq!(refused("1,2,3"), "\"1,2,3\" holds 3 numbers for 2 columns");
        assert_eq!(refused("1,x"), "\"1,x\" has the entry \"x\", which is not a finite number");
        assert_eq!(refused("nowhere.csv"), "\"nowhere.csv\" is neither a finite number nor a file");
        assert_eq!(refused("inf"), "\"inf\" is neither a finite number nor a file");
    }
}
