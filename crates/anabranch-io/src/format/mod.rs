//! One reader per format, all behind [`Reader`].

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "arrow")]
mod columnar;
pub(crate) mod csv;
mod jsonl;
pub(crate) mod npy;
#[cfg(feature = "arrow")]
mod parquet;

use crate::error::ReadError;
use crate::input::Opened;
use crate::options::{Format, ReadOptions};
use crate::rows::Sink;
use crate::select::Header;

/// The rows of one file.
pub(crate) trait Reader: Send {
    /// The columns of the file.
    fn header(&self) -> &Header;

    /// Says which columns to read, in the order of the batch. Called once, before `read`.
    fn select(&mut self, picks: &[Pick]) -> Result<(), ReadError>;

    /// Adds good rows until `sink` has `target` rows; fewer only at the end of the file.
    fn read(&mut self, target: usize, sink: &mut Sink) -> Result<(), ReadError>;

    /// Whether the file says that the cells of this column are numbers.
    fn is_number(&self, _ix: usize) -> bool {
        false
    }

    /// Whether `read` came back early, with the rows there are, because the input pauses.
    fn paused(&self) -> bool {
        false
    }

    /// Number of rows, good and bad, if the file says.
    fn rows(&self) -> Option<u64> {
        None
    }

    /// Passes over up to `n` rows without looking, where no row can be bad. Returns how many.
    fn leap(&mut self, _n: u64) -> Result<u64, ReadError> {
        Ok(0)
    }
}

/// One column to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// Position in the file, from 0.
    pub(crate) ix: usize,
    /// What its cells become.
    pub(crate) role: Role,
}

/// What the cells of a column become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Numbers as they are.
    Number,
    /// Codes of labels.
    Category,
    /// Text that is passed through.
    Kept,
    /// When the row was.
    Time,
}

/// A reader for the format found. `None` when the file has neither columns nor rows.
pub(crate) fn reader(opened: Opened, options: &ReadOptions) -> Result<Option<Box<dyn Reader>>, ReadError> {
    match opened.format {
        Format::Csv | Format::Tsv => csv::open(opened, options),
        Format::Npy => npy::open(opened),
        #[cfg(feature = "arrow")]
        Format::Parquet => parquet::open(opened),
        #[cfg(feature = "arrow")]
        Format::Arrow => arrow::open(opened),
        #[cfg(not(feature = "arrow"))]
        format @ (Format::Parquet | Format::Arrow) => {
            Err(ReadError::LeftOut { file: opened.name, format, feature: "arrow" })
        }
        Format::Jsonl => jsonl::open(opened, options),
    }
}
