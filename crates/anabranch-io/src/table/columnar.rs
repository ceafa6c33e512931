//! Tables as Parquet and as Arrow.

use std::io;
use std::sync::Arc;

pub(super) use arrow_array::RecordBatch;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, StringArray, UInt64Array};
use arrow_ipc::writer::FileWriter;
pub(super) use arrow_schema::SchemaRef;
use arrow_schema::{DataType, Field as ArrowField, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::file::NewFile;
use super::{Block, Field, Format, Kind, Piece, Values};

/// The columns as arrow calls them, where the format is one of its.
pub(super) fn schema(format: Format, fields: &[Field]) -> Option<SchemaRef> {
    if !matches!(format, Format::Parquet | Format::Arrow) {
        return None;
    }
    let fields = fields.iter().map(|field| {
        let kind = match field.kind {
            Kind::Integer => DataType::UInt64,
            Kind::Number => DataType::Float64,
            Kind::Text | Kind::Json => DataType::Utf8,
            Kind::Flag => DataType::Boolean,
        };
        ArrowField::new(&field.name, kind, true)
    });
    Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The columns of a block. Text in a column of numbers becomes a number, or nothing.
pub(super) fn piece(schema: &SchemaRef, block: Block) -> Piece {
    let columns = block.columns.into_iter().zip(schema.fields()).map(|(values, field)| -> ArrayRef {
        match values {
            Values::Integers(cells) => Arc::new(UInt64Array::from(cells)),
            Values::Numbers(cells) => Arc::new(Float64Array::from(cells)),
            Values::Flags(cells) => Arc::new(BooleanArray::from(cells)),
            Values::Cells(cells) => {
                let texts = (0..cells.len()).map(|ix| cells.get(ix));
                match field.data_type() {
                    DataType::Float64 => {
                        let number = |text: &str| text.trim().parse::<f64>().ok();
                        Arc::new(texts.map(number).collect::<Float64Array>())
                    }
                    _ => Arc::new(
                        texts.map(|text| (!text.is_empty()).then_some(text)).collect::<StringArray>(),
                    ),
                }
            }
        }
    });
    let batch = RecordBatch::try_new(Arc::clone(schema), columns.collect());
    Piece::Batch(batch.expect("each column is made for its field"))
}

/// A file of record batches.
pub(super) enum Columnar {
    Parquet(ArrowWriter<NewFile>),
    Arrow(FileWriter<NewFile>),
}

impl Columnar {
    pub(super) fn parquet(file: NewFile, schema: &SchemaRef) -> io::Result<Self> {
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties));
        Ok(Self::Parquet(writer.map_err(io::Error::other)?))
    }

    pub(super) fn arrow(file: NewFile, schema: &SchemaRef) -> io::Result<Self> {
        Ok(Self::Arrow(FileWriter::try_new(file, schema).map_err(io::Error::other)?))
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match self {
            Self::Parquet(writer) => writer.write(batch).map_err(io::Error::other),
            Self::Arrow(writer) => writer.write(batch).map_err(io::Error::other),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Parquet(writer) => writer.into_inner().map_err(io::Error::other)?.finish(),
            Self::Arrow(mut writer) => {
                writer.finish().map_err(io::Error::other)?;
                writer.into_inner().map_err(io::Error::other)?.finish()
            }
        }
    }
}
