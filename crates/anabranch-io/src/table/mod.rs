//! Tables that are written: columns of numbers and text, block after block, in the format that the name of the file says.
//!
//! ```text
//! Block ──encode──► Piece        any thread: text and numbers become bytes, or a record batch
//! Piece ──write───► Output       one thread, in order: compressed, into a temporary file
//!                   finish       the file appears under its name, whole
//! ```

#[cfg_attr(not(feature = "arrow"), path = "columnar_left_out.rs")]
mod columnar;
mod file;
mod npy;
mod text;

pub use text::short;

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::kept::Cells;
use crate::options::Format;
use columnar::{Columnar, RecordBatch, SchemaRef};
use file::{Compression, NewFile};
use npy::Npy;

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers, not negative.
    Integer,
    /// Numbers.
    Number,
    /// Words.
    Text,
    /// Yes or no.
    Flag,
    /// JSON as it is; for JSON lines alone.
    Json,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What its cells are.
    pub kind: Kind,
}

impl Field {
    /// A column.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind }
    }
}

/// The cells of a column in a block; `None` where there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Of [`Kind::Integer`].
    Integers(Vec<Option<u64>>),
    /// Of [`Kind::Number`].
    Numbers(Vec<Option<f64>>),
    /// Of [`Kind::Text`], and of [`Kind::Number`] where the text is that of numbers.
    Cells(Cells),
    /// Of [`Kind::Flag`].
    Flags(Vec<Option<bool>>),
}

/// Some rows, column by column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Number of rows.
    pub rows: usize,
    /// One for each column.
    pub columns: Vec<Values>,
}

/// Why a table cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// The name of the file says no format.
    #[error("{path}: the name says no format that is written")]
    NoFormat {
        /// The file.
        path: String,
    },
    /// The format is known, and not in this build.
    #[error("{path}: this build writes no {format}: it was made without the feature `{feature}`")]
    LeftOut {
        /// The file.
        path: String,
        /// The format that its name says.
        format: Format,
        /// The feature that brings the format.
        feature: &'static str,
    },
    /// A column has no place in the format.
    #[error("{path}: npy holds numbers alone, column \"{column}\" holds text")]
    NotNumbers {
        /// The file.
        path: String,
        /// The column.
        column: String,
    },
    /// Two columns have one name.
    #[error("two columns are called \"{column}\"")]
    Twice {
        /// The name.
        column: String,
    },
    /// Whoever was given the table does not take it.
    #[error("cannot write: {0}")]
    Stream(io::Error),
    /// Writing failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The format.
    pub format: Format,
    compression: Compression,
}

impl Style {
    /// Text on standard output.
    pub const CSV: Self = Self { format: Format::Csv, compression: Compression::None };

    /// JSON lines on standard output.
    pub const JSONL: Self = Self { format: Format::Jsonl, compression: Compression::None };

    /// What the name of a file says: an extension of a format, and perhaps `.gz` or `.zst` behind it.
    pub fn of_path(path: &Path) -> Result<Self, TableError> {
        let no_format = || TableError::NoFormat { path: path.display().to_string() };
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_format)?;
        let (name, compression) = Compression::of_name(name);
        let extension = name.rsplit_once('.').map(|(_, extension)| extension).ok_or_else(no_format)?;
        let format = Format::from_extension(extension).ok_or_else(no_format)?;
        if cfg!(not(feature = "arrow")) && matches!(format, Format::Parquet | Format::Arrow) {
            let path = path.display().to_string();
            return Err(TableError::LeftOut { path, format, feature: "arrow" });
        }
        Ok(Self { format, compression })
    }
}

/// The columns of a table and the format that it is written in.
#[derive(Clone, Debug)]
pub struct Layout {
    fields: Arc<[Field]>,
    style: Style,
    schema: Option<SchemaRef>,
}

/// A block that is ready to be written.
pub enum Piece {
    /// Bytes that follow each other.
    Bytes(Vec<u8>),
    /// Columns.
    Batch(RecordBatch),
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Batch(batch) => write!(f, "Batch({})", batch.num_rows()),
        }
    }
}

impl Layout {
    /// Columns that are written in this style; refused where they cannot be.
    pub fn new(fields: Vec<Field>, style: Style, path: &str) -> Result<Self, TableError> {
        for (ix, field) in fields.iter().enumerate() {
            if fields[..ix].iter().any(|other| other.name == field.name) {
                return Err(TableError::Twice { column: field.name.clone() });
            }
            if style.format == Format::Npy && !matches!(field.kind, Kind::Integer | Kind::Number | Kind::Flag)
            {
                return Err(TableError::NotNumbers { path: path.to_owned(), column: field.name.clone() });
            }
        }
        let schema = columnar::schema(style.format, &fields);
        Ok(Self { fields: fields.into(), style, schema })
    }

    /// Makes bytes or columns of a block.
    pub fn encode(&self, block: Block) -> Piece {
        match (self.style.format, &self.schema) {
            (Format::Jsonl, _) => Piece::Bytes(text::json_lines(&self.fields, &block)),
            (Format::Npy, _) => Piece::Bytes(npy::encode(&self.fields, &block)),
            (Format::Parquet | Format::Arrow, Some(schema)) => columnar::piece(schema, block),
            (Format::Tsv, _) => Piece::Bytes(text::delimited(b'\t', &self.fields, &block)),
            _ => Piece::Bytes(text::delimited(b',', &self.fields, &block)),
        }
    }

    /// What comes before the rows.
    fn head(&self) -> Vec<u8> {
        match self.style.format {
            Format::Csv => text::head(b',', &self.fields),
            Format::Tsv => text::head(b'\t', &self.fields),
            _ => Vec::new(),
        }
    }
}

/// Where a table goes.
pub struct Output {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    Stream(Box<dyn Write + Send>),
    File(Box<NewFile>),
    Npy(Box<Npy>),
    Columnar(Box<Columnar>),
}

impl Output {
    /// A stream of text, which is nobody's file.
    pub fn stream(layout: &Layout, mut stream: Box<dyn Write + Send>) -> io::Result<Self> {
        stream.write_all(&layout.head())?;
        Ok(Self { path: PathBuf::new(), sink: Sink::Stream(stream) })
    }

    /// A file, which appears when it is finished.
    pub fn file(layout: &Layout, path: &Path) -> Result<Self, TableError> {
        Self::create(layout, path).map_err(|source| failed(path, source))
    }

    fn create(layout: &Layout, path: &Path) -> io::Result<Self> {
        let style = layout.style;
        let mut file = NewFile::create(path, style.compression)?;
        let sink = match (style.format, &layout.schema) {
            (Format::Npy, _) => Sink::Npy(Box::new(Npy::new(file, &layout.fields)?)),
            (Format::Parquet, Some(schema)) => Sink::Columnar(Box::new(Columnar::parquet(file, schema)?)),
            (Format::Arrow, Some(schema)) => Sink::Columnar(Box::new(Columnar::arrow(file, schema)?)),
            _ => {
                file.write_all(&layout.head())?;
                Sink::File(Box::new(file))
            }
        };
        Ok(Self { path: path.to_owned(), sink })
    }

    /// Writes the next piece.
    pub fn write(&mut self, piece: Piece) -> Result<(), TableError> {
        let written = match (&mut self.sink, piece) {
            (Sink::Stream(stream), Piece::Bytes(bytes)) => stream.write_all(&bytes),
            (Sink::File(file), Piece::Bytes(bytes)) => file.write_all(&bytes),
            (Sink::Npy(npy), Piece::Bytes(bytes)) => npy.write(&bytes),
            (Sink::Columnar(columnar), Piece::Batch(batch)) => columnar.write(&batch),
            _ => Err(io::Error::other("a piece of another format")),
        };
        written.map_err(|source| self.failed(source))
    }

    /// Sends on what a stream has been given.
    pub fn flush(&mut self) -> Result<(), TableError> {
        match &mut self.sink {
            Sink::Stream(stream) => stream.flush().map_err(TableError::Stream),
            _ => Ok(()),
        }
    }

    fn failed(&self, source: io::Error) -> TableError {
        match self.sink {
            Sink::Stream(_) => TableError::Stream(source),
            _ => failed(&self.path, source),
        }
    }

    /// The end: a file gets its name.
    pub fn finish(self) -> Result<(), TableError> {
        let finished = match self.sink {
            Sink::Stream(mut stream) => return stream.flush().map_err(TableError::Stream),
            Sink::File(file) => file.finish(),
            Sink::Npy(npy) => npy.finish(),
            Sink::Columnar(columnar) => columnar.finish(),
        };
        finished.map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> TableError {
    TableError::Io { path: path.display().to_string(), source }
}
