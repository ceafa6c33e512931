//! In the place of Parquet and Arrow in a build without the feature `arrow`: the same names, and nothing of the kind exists.

use std::io;

use super::file::NewFile;
use super::{Block, Field, Format, Piece};

/// Columns of no table.
#[derive(Clone, Debug)]
pub enum SchemaRef {}

/// Rows of no table.
pub enum RecordBatch {}

impl RecordBatch {
    pub(super) fn num_rows(&self) -> usize {
        match *self {}
    }
}

/// A file of no rows.
pub(super) enum Columnar {}

/// None: whoever asks for such a format is told before.
pub(super) fn schema(_: Format, _: &[Field]) -> Option<SchemaRef> {
    None
}

pub(super) fn piece(schema: &SchemaRef, _: Block) -> Piece {
    match *schema {}
}

impl Columnar {
    pub(super) fn parquet(_: NewFile, schema: &SchemaRef) -> io::Result<Self> {
        match *schema {}
    }

    pub(super) fn arrow(_: NewFile, schema: &SchemaRef) -> io::Result<Self> {
        match *schema {}
    }

    pub(super) fn write(&mut self, _: &RecordBatch) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {}
    }
}
