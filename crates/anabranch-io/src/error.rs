//! Why rows could not be read: file, row, column, value, and what to do about it.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::input::{burst, was_told_to_end};
use crate::options::Format;
use crate::schema::MAX_CATEGORIES;

/// How a message names a column: by name when the file has names, else by 1-based position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnRef {
    /// The name in the file.
    Name(String),
    /// The position in the file, from 1.
    Position(usize),
}

impl ColumnRef {
    /// As a flag names it.
    fn as_typed(&self) -> String {
        match self {
            ColumnRef::Name(name) if name.contains([' ', ',']) => format!("{name:?}"),
            ColumnRef::Name(name) => name.clone(),
            ColumnRef::Position(position) => position.to_string(),
        }
    }
}

impl fmt::Display for ColumnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnRef::Name(name) => write!(f, "column {name:?}"),
            ColumnRef::Position(position) => write!(f, "column {position}"),
        }
    }
}

/// What is wrong with one row.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum BadCell {
    /// The cell is empty, null or absent.
    #[error("{column} has no value")]
    Missing {
        /// The column.
        column: ColumnRef,
    },
    /// The cell is NaN, `NA` or infinite.
    #[error("{column}: {value} is not a finite number")]
    NotFinite {
        /// The column.
        column: ColumnRef,
        /// The cell as written.
        value: String,
    },
    /// The cell is no number at all.
    #[error("{column}: {value:?} is not a number")]
    NotANumber {
        /// The column.
        column: ColumnRef,
        /// The cell as written, shortened.
        value: String,
    },
    /// The cell does not say when the row was.
    #[error("{column}: {value:?} is not a time")]
    NotATime {
        /// The column.
        column: ColumnRef,
        /// The cell as written, shortened.
        value: String,
    },
    /// The row was later than now.
    #[error("{column}: {value:?} is in the future")]
    Future {
        /// The column.
        column: ColumnRef,
        /// The cell as written, shortened.
        value: String,
    },
    /// The row has more or fewer cells than the first.
    #[error("has {found} columns, expected {expected}")]
    Ragged {
        /// Columns of the file.
        expected: usize,
        /// Columns of this row.
        found: usize,
    },
    /// The line is not JSON.
    #[error("is not valid JSON: {detail}")]
    NotJson {
        /// What the parser says.
        detail: String,
    },
    /// The line is JSON of another shape than the first line.
    #[error("is {found}, expected {expected}")]
    JsonShape {
        /// What the first line was.
        expected: &'static str,
        /// What this line is.
        found: &'static str,
    },
}

/// The place of a row: `data.csv: row 3 (line 4)`.
fn place(file: &str, row: u64, line: Option<u64>) -> String {
    match line {
        Some(line) => format!("{file}: row {row} (line {line})"),
        None => format!("{file}: row {row}"),
    }
}

/// A message reads "row 3, column ..." for a cell and "row 3 has ..." for a row.
fn separator(problem: &BadCell) -> &'static str {
    match problem {
        BadCell::Ragged { .. } | BadCell::NotJson { .. } | BadCell::JsonShape { .. } => "",
        _ => ",",
    }
}

/// Why rows could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No input was given.
    #[error("no input was given")]
    NoInput,
    /// The path does not exist.
    #[error("{file}: no such file")]
    NotFound {
        /// The path.
        file: String,
    },
    /// The path is a directory.
    #[error("{file}: is a directory")]
    Directory {
        /// The path.
        file: String,
    },
    /// The operating system refuses.
    #[error("{file}: {error}")]
    Io {
        /// The path.
        file: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// The extension stands for no format.
    #[error("{file}: cannot tell the format from the extension")]
    UnknownExtension {
        /// The path.
        file: String,
    },
    /// The name is no format.
    #[error("unknown format {format:?}")]
    UnknownFormat {
        /// The name given.
        format: String,
    },
    /// The format is known, and not in this build.
    #[error("{file}: this build reads no {format}: it was made without the feature `{feature}`")]
    LeftOut {
        /// The input.
        file: String,
        /// Its format.
        format: Format,
        /// The feature that brings the format.
        feature: &'static str,
    },
    /// There is no row in any input.
    #[error("{file} has no rows")]
    Empty {
        /// The input, or the first of several.
        file: String,
    },
    /// Every row is bad.
    #[error("{file} has no good rows: all {skipped} were skipped, the first was {reason}")]
    AllSkipped {
        /// The input, or the first of several.
        file: String,
        /// Number of bad rows.
        skipped: u64,
        /// File, row and problem of the first.
        reason: String,
    },
    /// A row is bad and bad rows are not skipped.
    #[error("{}{} {problem}", place(file, *row, *line), separator(problem))]
    BadRow {
        /// The file.
        file: String,
        /// The row of data, from 1 (a header is not counted).
        row: u64,
        /// The line of text on which the row starts, from 1.
        line: Option<u64>,
        /// What is wrong.
        problem: BadCell,
    },
    /// The file breaks the rules of its format.
    #[error("{file}: not a valid {format} file: {detail}")]
    Damaged {
        /// The file.
        file: String,
        /// The format it was read as.
        format: Format,
        /// What is wrong.
        detail: String,
    },
    /// A line or record is too long to be one.
    #[error("{file}: the row at line {line} is longer than {limit} bytes")]
    TooLong {
        /// The file.
        file: String,
        /// The line on which it starts, from 1.
        line: u64,
        /// The most bytes a row may have.
        limit: usize,
    },
    /// A column holds values that are no numbers.
    #[error("{file}: {column} has type {kind}, which is not a number")]
    ColumnType {
        /// The file.
        file: String,
        /// The column.
        column: ColumnRef,
        /// The type in the words of the format.
        kind: String,
    },
    /// The selection or the model names a column that the file lacks.
    #[error("{file}: no column {column:?}; the columns are {available}")]
    NoSuchColumn {
        /// The file.
        file: String,
        /// The name or position asked for.
        column: String,
        /// The columns of the file.
        available: String,
    },
    /// The columns of the file are not those that the model was made on.
    #[error("{file}: no column {column:?}; the model was made on {expected}, the file has {found}")]
    OtherColumns {
        /// The file.
        file: String,
        /// The first column of the model that the file lacks.
        column: String,
        /// The columns of the model.
        expected: String,
        /// The columns of the file, as far as they were chosen.
        found: String,
    },
    /// Two columns of a file have the same name.
    #[error("{file}: two columns are called {column:?}")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
    },
    /// The selection names a column twice.
    #[error("column {column:?} is chosen twice")]
    ChosenTwice {
        /// The name.
        column: String,
    },
    /// The first line has other cells than the second, and begins with a mark.
    #[error(
        "{file}: the first line begins with # and has {expected} columns, the next has {found}: it looks like a comment"
    )]
    Comment {
        /// The file.
        file: String,
        /// Columns of the first line.
        expected: usize,
        /// Columns of the second.
        found: usize,
    },
    /// Text in an encoding that is not read.
    #[error("{file}: the text is UTF-16; UTF-8 is read")]
    Utf16 {
        /// The file.
        file: String,
    },
    /// The selection leaves no column.
    #[error("{file}: the selection leaves no column")]
    NoColumns {
        /// The file.
        file: String,
    },
    /// The file has another number of columns than needed.
    #[error("{file}: has {found} columns, {wanted_by} {expected}")]
    Width {
        /// The file.
        file: String,
        /// Columns of the file.
        found: usize,
        /// Columns needed.
        expected: usize,
        /// "the model has", or the first file's name with "has".
        wanted_by: String,
    },
    /// Two input files have different columns.
    #[error("{file}: its columns ({found}) are not those of {first} ({expected})")]
    ColumnsDiffer {
        /// The file.
        file: String,
        /// Its columns.
        found: String,
        /// The first file.
        first: String,
        /// The columns of the first file.
        expected: String,
    },
    /// A column has too many different strings.
    #[error("{file}: row {row}, {column} has more than {MAX_CATEGORIES} different values")]
    TooManyCategories {
        /// The file.
        file: String,
        /// The row, from 1.
        row: u64,
        /// The column.
        column: ColumnRef,
    },
    /// A file of documents breaks the rules of its format.
    #[error("{file}:{} {detail}", line.map_or_else(String::new, |line| format!(" line {line}:")))]
    Bag {
        /// The file.
        file: String,
        /// The line, from 1, where there are lines.
        line: Option<u64>,
        /// What is wrong.
        detail: String,
    },
    /// Nothing tells the format of a file of documents.
    #[error("{file}: cannot tell the format of the documents")]
    UnknownBag {
        /// The file.
        file: String,
    },
    /// A piece of the input is larger than it may be.
    #[error("{file}: {what} takes more than {limit} bytes")]
    TooLarge {
        /// The file.
        file: String,
        /// Which piece.
        what: String,
        /// The most bytes that it may take.
        limit: u64,
    },
    /// The input has more rows than it may.
    #[error("{file}: it has more than {rows} rows")]
    TooManyRows {
        /// The file.
        file: String,
        /// The most rows that it may have.
        rows: u64,
    },
    /// A run is to go on from a checkpoint, with another input.
    #[error("{file}: its rows are not those of {then}, which the checkpoint has learned from")]
    OtherInput {
        /// The input.
        file: String,
        /// What it was called then.
        then: String,
    },
    /// A run is to go on from a checkpoint, and the input has lost rows.
    #[error("{file}: has {rows} rows, the checkpoint has learned from {then_rows} of {then}")]
    Shorter {
        /// The input.
        file: String,
        /// Its rows.
        rows: u64,
        /// What it was called then.
        then: String,
        /// Its rows then.
        then_rows: u64,
    },
    /// A run is to go on from a checkpoint, and an input has rows more where others were read behind it.
    #[error("{file}: has more than the {then_rows} rows that the checkpoint has learned from before {next}")]
    GrownWithin {
        /// The input.
        file: String,
        /// Its rows then.
        then_rows: u64,
        /// The input that was read behind it.
        next: String,
    },
    /// A run is to go on from a checkpoint, without one of its inputs.
    #[error("the checkpoint has learned from {then}, which is not among the inputs")]
    InputMissing {
        /// What it was called then.
        then: String,
    },
    /// Rows are to be learned a second time.
    #[error("{file}: begins with the rows of {then}, which the model has learned from")]
    LearnedBefore {
        /// The input.
        file: String,
        /// What it was called then.
        then: String,
    },
    /// Somebody asked to stop while nothing came. What was read before is good.
    #[error("{file}: stopped before its end")]
    Stopped {
        /// The input.
        file: String,
        /// True when a record was cut off there.
        within_record: bool,
    },
    /// A list of numbers given by the user cannot be used.
    #[error("{value:?} {detail}")]
    Vector {
        /// The text given.
        value: String,
        /// What is wrong with it.
        detail: String,
    },
}

impl ReadError {
    pub(crate) fn damaged(file: &str, format: Format, detail: impl fmt::Display) -> Self {
        Self::Damaged { file: file.to_owned(), format, detail: detail.to_string() }
    }

    pub(crate) fn bag(file: &str, line: Option<u64>, detail: String) -> Self {
        Self::Bag { file: file.to_owned(), line, detail }
    }

    pub(crate) fn too_large(file: &str, what: impl fmt::Display, limit: u64) -> Self {
        Self::TooLarge { file: file.to_owned(), what: what.to_string(), limit }
    }

    pub(crate) fn io(file: &str, error: io::Error) -> Self {
        if let Some(limit) = burst(&error) {
            return Self::too_large(file, "what it unpacks to", limit);
        }
        let file = file.to_owned();
        match error.kind() {
            _ if was_told_to_end(&error) => Self::Stopped { file, within_record: false },
            io::ErrorKind::NotFound => Self::NotFound { file },
            io::ErrorKind::IsADirectory => Self::Directory { file },
            _ => Self::Io { file, error },
        }
    }

    /// The same error, of an input that ended within a record if `cut_off`.
    pub(crate) fn cutting_off(self, cut_off: bool) -> Self {
        match self {
            Self::Stopped { file, within_record } => {
                Self::Stopped { file, within_record: within_record || cut_off }
            }
            other => other,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoInput => "name one or more files, or - for standard input",
            Self::NotFound { .. } => "check the path; relative paths start at the current directory",
            Self::Directory { .. } => "name the files in it, for example DIR/*.csv",
            Self::Io { error, .. } => return io_hint(error),
            Self::UnknownExtension { .. } => return Some(format!("pass --format with one of {}", formats())),
            Self::UnknownFormat { .. } => return Some(format!("use one of {}", formats())),
            Self::LeftOut { feature, .. } => {
                return Some(format!("build it with `--features {feature}`, or give the rows as csv or npy"));
            }
            Self::Empty { .. } => "check that the file was written completely",
            Self::AllSkipped { .. } => "look at that row, or drop the column with --columns -NAME",
            Self::BadRow { problem, .. } => return Some(bad_row_hint(problem)),
            Self::Damaged { .. } => "check that the file is complete, or name its format with --format",
            Self::TooLong { .. } => "look for a quote that is never closed, or name the format with --format",
            Self::ColumnType { .. } => {
                "drop the column with --columns -NAME, or read its strings as categories with --family gaussian+categorical:NAME"
            }
            Self::NoSuchColumn { .. } => "use a name from the list or a position counted from 1",
            Self::OtherColumns { .. } => "give rows with the columns of the model, in any order",
            Self::DuplicateColumn { .. } => "rename one of them",
            Self::ChosenTwice { .. } => "name it once",
            Self::Comment { .. } => "leave such lines out: grep -v '^#' FILE | anabranch fit -",
            Self::Utf16 { .. } => "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW",
            Self::NoColumns { .. } => "keep at least one column in --columns",
            Self::Width { .. } => "choose the columns with --columns",
            Self::ColumnsDiffer { .. } => "choose columns that all files have with --columns",
            Self::TooManyCategories { .. } => {
                "drop the column with --columns -NAME: it looks like an identifier"
            }
            Self::Bag { .. } => "check that the file is complete, or name its format with --format",
            Self::UnknownBag { .. } => {
                "pass --format with one of uci, ldac, npz, jsonl, txt, or --text with the column that holds the documents"
            }
            Self::OtherInput { .. } | Self::Shorter { .. } | Self::InputMissing { .. } => {
                "pass the same input as before, new rows behind it, or start anew without --resume"
            }
            Self::TooLarge { .. } => "allow more with --max-memory, or write the file in smaller pieces",
            Self::TooManyRows { .. } => "send them in several pieces",
            Self::LearnedBefore { .. } => "each row counts once: give the new rows alone",
            Self::GrownWithin { .. } => "give the new rows as another file, behind the others",
            Self::Stopped { .. } => return None,
            Self::Vector { .. } => "give a number, a comma-separated list or a file of numbers",
        };
        Some(hint.to_owned())
    }
}

fn bad_row_hint(problem: &BadCell) -> String {
    let hint = match problem {
        BadCell::NotANumber { value, .. } if value.starts_with('#') => {
            "leave comments out: grep -v '^#' FILE | anabranch fit -"
        }
        BadCell::NotANumber { value, .. } if has_decimal_comma(value) => {
            "numbers are read with a decimal point, not with a comma: write them so, for instance with sed 's/,/./g' in a file \
             whose columns are separated by something else"
        }
        BadCell::NotANumber { value, .. } if has_thousands(value) => {
            "numbers are read without commas between thousands: write 11,355.44 as 11355.44"
        }
        BadCell::NotANumber { column, .. } => {
            let name = column.as_typed();
            return format!(
                "leave the column out with --columns -{name}, read its strings as categories with --family \
                 gaussian+categorical:{name}, or skip such rows with --on-bad-row skip"
            );
        }
        BadCell::Missing { .. } => {
            "skip such rows with --on-bad-row skip, or repair the file; mixtures learn from the other values of such rows \
             with --missing model"
        }
        BadCell::NotATime { .. } => {
            "times are numbers of seconds or timestamps such as 2024-05-01T12:30:05Z; skip such rows with --on-bad-row skip"
        }
        BadCell::Future { .. } => {
            "everything else would have faded by then; numbers are seconds, not milliseconds; skip such rows with --on-bad-row skip"
        }
        _ => "skip such rows with --on-bad-row skip, or repair the file",
    };
    hint.to_owned()
}

/// Whether it would be a number if its comma were a point.
fn has_decimal_comma(value: &str) -> bool {
    value.matches(',').count() == 1 && value.replace(',', ".").parse::<f64>().is_ok()
}

/// Whether it would be a number without its commas.
fn has_thousands(value: &str) -> bool {
    value.contains(',') && value.replace(',', "").parse::<f64>().is_ok()
}

fn io_hint(error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Some("check the permissions of the file".to_owned()),
        io::ErrorKind::UnexpectedEof => Some("the file ends early: check that it is complete".to_owned()),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            Some("the compressed data is damaged: compress the file again".to_owned())
        }
        _ => None,
    }
}

fn formats() -> String {
    Format::ALL.map(Format::name).join(", ")
}
