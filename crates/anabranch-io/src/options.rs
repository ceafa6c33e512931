//! What to read and how: inputs, formats and the choices of the user.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::kept::Keep;
use crate::schema::Schema;

/// Where bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, a named pipe or any other path that can be opened.
    Path(PathBuf),
    /// Standard input, read once.
    Stdin,
    /// Bytes held in memory.
    Memory(Vec<u8>),
}

impl Input {
    /// `-` is standard input, everything else a path.
    pub fn from_argument(argument: &str) -> Self {
        match argument {
            "-" => Self::Stdin,
            path => Self::Path(PathBuf::from(path)),
        }
    }

    /// How messages call this input.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
            Self::Memory(_) => "memory".to_owned(),
        }
    }
}

/// A format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Text with a delimiter; comma, semicolon, tab or white space is found by looking.
    Csv,
    /// Text with tabs.
    Tsv,
    /// An array of numpy.
    Npy,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC, file or stream.
    Arrow,
    /// One JSON object or array per line.
    Jsonl,
}

impl Format {
    /// Every format, in the order of the documentation.
    pub const ALL: [Format; 6] =
        [Format::Csv, Format::Tsv, Format::Npy, Format::Parquet, Format::Arrow, Format::Jsonl];

    /// The name used by `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Npy => "npy",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Jsonl => "jsonl",
        }
    }

    /// The format that an extension (without its dot) stands for.
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "csv" | "txt" | "dat" => Some(Format::Csv),
            "tsv" | "tab" => Some(Format::Tsv),
            "npy" => Some(Format::Npy),
            "parquet" | "pq" => Some(Format::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Some(Format::Arrow),
            "jsonl" | "ndjson" | "jsonlines" => Some(Format::Jsonl),
            _ => None,
        }
    }

    /// The format that the name of a file stands for, compressed or not.
    pub fn from_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        match extension.to_ascii_lowercase().as_str() {
            "gz" | "gzip" | "zst" | "zstd" => {
                Self::from_extension(Path::new(path.file_stem()?).extension()?.to_str()?)
            }
            other => Self::from_extension(other),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = ReadError;

    fn from_str(text: &str) -> Result<Self, ReadError> {
        let lower = text.to_ascii_lowercase();
        Format::ALL
            .into_iter()
            .find(|format| format.name() == lower)
            .ok_or_else(|| ReadError::UnknownFormat { format: text.to_owned() })
    }
}

/// What to do with a row that is ragged or has a missing, non-numeric or non-finite cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadRow {
    /// Stop with an error that names file, row, column and value.
    #[default]
    Fail,
    /// Leave the row out and count it.
    Skip,
}

/// What to do with a value that is missing: an empty cell, `NA`, `null`, NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnMissing {
    /// The row is a bad one ([`OnBadRow`]).
    #[default]
    Refuse,
    /// Leave the row out and count it.
    Skip,
    /// It is NaN in its row, and counted.
    Keep,
}

/// Stands for every column in [`ReadOptions::categorical`].
pub const ALL_COLUMNS: &str = "*";

/// The choices of a reader. The default finds everything out by looking.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; otherwise found from the extension or the first bytes.
    pub format: Option<Format>,
    /// Columns to keep, in this order, by name or 1-based position; `-name` drops one.
    pub columns: Option<Vec<String>>,
    /// What to do with bad rows.
    pub on_bad_row: OnBadRow,
    /// What to do with missing values.
    pub on_missing: OnMissing,
    /// Whether text has a header line; otherwise found by looking.
    pub has_header: Option<bool>,
    /// The delimiter of text; otherwise found by looking.
    pub delimiter: Option<u8>,
    /// Columns whose cells are category labels, by name or 1-based position; [`ALL_COLUMNS`] means every one.
    pub categorical: Vec<String>,
    /// The schema of a fitted model: its columns in its order, its categories.
    pub expect: Option<Schema>,
    /// The column that says when a row was, by name or 1-based position: seconds or timestamps. It is none of the others.
    pub time: Option<String>,
    /// Rows that go out again: which cells are passed through. Bad rows are then told in their place, and what is there is handed
    /// out when standard input pauses.
    pub passage: Option<Keep>,
    /// Asked while a pipe or standard input is quiet: true ends it there; a record that is not complete is left out.
    pub interrupted: Option<fn() -> bool>,
    /// Bytes that one piece of an input may take, such as a batch of Arrow or an archive; otherwise [`MAX_MEMORY`].
    pub max_memory: Option<u64>,
    /// What all of it may come to, for bytes of somebody whom nobody knows. Such inputs are not read as Parquet, whose pages say
    /// too late how large they are.
    pub limits: Option<Limits>,
}

/// What an input may come to once it is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes: unpacked, and as rows of numbers.
    pub bytes: u64,
    /// Rows, bad ones included.
    pub rows: u64,
}

impl Limits {
    /// Those of so many inputs together.
    pub fn times(self, n: u64) -> Self {
        Self { bytes: self.bytes.saturating_mul(n), rows: self.rows.saturating_mul(n) }
    }

    /// Rows of so many columns.
    pub(crate) fn rows_of(self, dimensions: usize) -> u64 {
        self.rows.min(self.bytes / (size_of::<f64>() * dimensions.max(1)) as u64)
    }
}

/// Bytes that one piece of an input may take unless told, and bytes that a stream may take on disk where any place of it is
/// needed. A small compressed file can claim to be, and be, anything.
pub const MAX_MEMORY: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_parsed_from_its_name() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
    }

    #[test]
    fn a_dash_is_standard_input() {
        assert_eq!(Input::from_argument("-"), Input::Stdin);
        assert_eq!(Input::from_argument("a.csv"), Input::Path("a.csv".into()));
    }
}
