//! Readers of csv, npy, Parquet, Arrow, JSON lines and bags of words, and the model files of anabranch.
//!
//! ```text
//! Input ──► input/    bytes: path, standard input or memory; gz and zstd undone; format found
//!            │
//!            ▼
//!          format/    one reader per format: the columns of the file, then its rows
//!            │
//!            ▼
//!          rows       every cell checked once; bad rows fail or are counted; strings become codes
//!            │
//!            ▼
//!          source     files joined end to end and cut into batches of exactly the size asked for
//! ```
//!
//! ```
//! use anabranch_io::{Input, ReadOptions, open};
//! let csv = Input::Memory(b"height,weight\n1.8,72\n1.7,65\n".to_vec());
//! let mut source = open(&[csv], &ReadOptions::default())?;
//! assert_eq!(source.schema().columns[1].name, "weight");
//! let batch = source.next_batch(500)?.expect("two rows");
//! assert_eq!(batch.row(0), &[1.8, 72.0]);
//! # Ok::<(), anabranch_io::ReadError>(())
//! ```

mod error;
mod format;
mod held;
mod input;
pub mod journal;
mod kept;
pub mod labels;
pub mod model;
mod options;
pub mod output;
pub mod printable;
mod rows;
mod schema;
mod sealed;
mod seen;
mod select;
mod source;
pub mod table;
pub mod time;
pub mod vector;
pub mod wire;
pub mod words;

pub use error::{BadCell, ColumnRef, ReadError};
pub use held::Held;
pub use kept::{Cells, Keep, KeptColumn, Rows};
pub use options::{ALL_COLUMNS, Format, Input, Limits, MAX_MEMORY, OnBadRow, OnMissing, ReadOptions};
pub use schema::{Column, MAX_CATEGORIES, OTHER, Schema};
pub use seen::{Cut, InputRead, ReadLog, Reading, Seen};
pub use source::{Source, open};
