//! Parquet: row groups are decoded piece by piece, and only the columns that are needed.

use std::fs::File;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use super::Reader;
use super::columnar::{Batches, ColumnarReader, guarded};
use crate::error::ReadError;
use crate::input::{Body, Opened};
use crate::options::Format;

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// The pages of a file, decoded in order.
struct Pages {
    file: String,
    metadata: ArrowReaderMetadata,
    /// Taken when reading starts.
    store: Option<Store>,
    reader: Option<ParquetRecordBatchReader>,
}

enum Store {
    File(File),
    Memory(Bytes),
}

/// Reads the metadata at the end of the file. A stream is first copied to a temporary file.
pub(super) fn open(opened: Opened) -> Result<Option<Box<dyn Reader>>, ReadError> {
    let file = opened.name;
    let store = match opened.body.into_seekable(&file, opened.limit)? {
        Body::File(file) => Store::File(file),
        Body::Memory(bytes) => Store::Memory(bytes),
        Body::Stream(_) => unreachable!("into_seekable leaves no stream"),
    };
    let options = ArrowReaderOptions::new();
    let metadata = guarded(&file, Format::Parquet, || match &store {
        Store::File(store) => ArrowReaderMetadata::load(store, options),
        Store::Memory(store) => ArrowReaderMetadata::load(store, options),
    })?;
    check_places(metadata.metadata()).map_err(|detail| ReadError::damaged(&file, Format::Parquet, detail))?;
    let pages = Pages { file: file.clone(), metadata, store: Some(store), reader: None };
    Ok(Some(Box::new(ColumnarReader::new(file, Format::Parquet, pages)?)))
}

/// The decoder asserts that no column starts before the file or has a negative length.
fn check_places(metadata: &ParquetMetaData) -> Result<(), String> {
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for column in row_group.columns() {
            let (start, length) = (column.data_page_offset(), column.compressed_size());
            let start = column.dictionary_page_offset().map_or(start, |dictionary| dictionary.min(start));
            if start < 0 || length < 0 || row_group.num_rows() < 0 {
                let name = column.column_descr().name();
                return Err(format!("column {name:?} of row group {group} has a negative place or length"));
            }
        }
    }
    Ok(())
}

impl Pages {
    fn build<T: ChunkReader + 'static>(
        &self,
        store: T,
        columns: &[usize],
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(store, self.metadata.clone())
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
    }
}

impl Batches for Pages {
    fn fields(&self) -> SchemaRef {
        self.metadata.schema().clone()
    }

    fn project(&mut self, columns: &[usize]) -> Result<Vec<usize>, ReadError> {
        let store = self.store.take();
        let reader = guarded(&self.file, Format::Parquet, || match store {
            Some(Store::File(store)) => self.build(store, columns),
            Some(Store::Memory(store)) => self.build(store, columns),
            None => unreachable!("columns are chosen once"),
        })?;
        self.reader = Some(reader);
        // The projected batches keep the order of the file.
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        Ok(columns.iter().map(|ix| sorted.partition_point(|other| other < ix)).collect())
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        guarded(&self.file, Format::Parquet, || reader.next().transpose())
    }

    fn rows(&self) -> Option<u64> {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).ok()
    }
}
