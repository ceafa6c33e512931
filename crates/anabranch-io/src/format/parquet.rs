//! Parquet: row groups are decoded piece by piece, and only the columns that are needed.
//!
//! The decoder holds a page whole, as large as its header claims: headers are read before it sees them ([`Limited`]).

use std::fs::File;
use std::io::{self, Read};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

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
    /// Bytes that a page may take.
    limit: u64,
    reader: Option<ParquetRecordBatchReader>,
}

enum Store {
    File(File),
    Memory(Bytes),
}

/// Reads the metadata at the end of the file. A stream is first copied to a temporary file.
pub(super) fn open(opened: Opened) -> Result<Option<Box<dyn Reader>>, ReadError> {
    let (file, limit) = (opened.name, opened.limit);
    let store = match opened.body.into_seekable(&file, limit)? {
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
    let pages = Pages { file: file.clone(), metadata, store: Some(store), limit, reader: None };
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
        let store = Limited { store, limit: self.limit };
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

/// A file whose pages are small enough: the decoder asks for a reader where the header of a page begins, and nowhere else.
struct Limited<T> {
    store: T,
    limit: u64,
}

impl<T: Length> Length for Limited<T> {
    fn len(&self) -> u64 {
        self.store.len()
    }
}

impl<T: ChunkReader> ChunkReader for Limited<T> {
    type T = T::T;

    fn get_read(&self, start: u64) -> Result<T::T, ParquetError> {
        let size = unpacked_size(&mut self.store.get_read(start)?)?;
        match u64::try_from(size) {
            Ok(size) if size <= self.limit => self.store.get_read(start),
            _ => Err(ParquetError::General(format!(
                "a page claims to expand to {size} bytes, more than {} bytes (see --max-memory)",
                self.limit
            ))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        self.store.get_bytes(start, length)
    }
}

/// The field of a page's header that says how large the page is once it is unpacked.
const UNPACKED_SIZE: i64 = 2;

/// Structures within structures that a header has at most; it has two.
const DEEPEST: usize = 8;

/// The largest size that a header of a page claims, in the compact encoding of Thrift. A field that is there twice counts twice.
fn unpacked_size(header: &mut impl Read) -> io::Result<i64> {
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "a page has a header of an unknown form");
    let (mut size, mut fields) = (0, vec![0_i64]);
    while let Some(field) = fields.last_mut() {
        let [head] = bytes(header)?;
        let (step, kind) = (head >> 4, head & 15);
        if kind == 0 {
            fields.pop();
            continue;
        }
        *field = if step == 0 { signed(header)? } else { *field + i64::from(step) };
        let (field, depth) = (*field, fields.len());
        match kind {
            1 | 2 => {}
            3 => drop(bytes::<1>(header)?),
            4..=6 => {
                let value = signed(header)?;
                if depth == 1 && field == UNPACKED_SIZE {
                    size = size.max(value);
                }
            }
            7 => drop(bytes::<8>(header)?),
            8 => {
                let length = unsigned(header)?;
                let skipped = io::copy(&mut header.by_ref().take(length), &mut io::sink())?;
                if skipped < length {
                    return Err(strange());
                }
            }
            12 if depth < DEEPEST => fields.push(0),
            _ => return Err(strange()),
        }
    }
    Ok(size)
}

fn bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map(|()| bytes)
}

/// Seven bits in a byte, the lowest first.
fn unsigned(from: &mut impl Read) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = bytes(from)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Ok(value)
}

/// The sign in the lowest bit.
fn signed(from: &mut impl Read) -> io::Result<i64> {
    unsigned(from).map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_that_a_header_claims_is_found_wherever_it_stands() {
        // Type, size 300, packed size; within a structure another second field; text; the size again, in the long form.
        let header = [
            0x15, 0, 0x15, 0xd8, 0x04, 0x15, 40, 0x2c, 0x25, 0xfe, 0xff, 0x03, 0x18, 2, b'a', b'b', 0x11, 0,
            0x05, 4, 0xe0, 0x12, 0,
        ];
        assert_eq!(unpacked_size(&mut &header[..]).unwrap(), 1200);
        assert_eq!(unpacked_size(&mut &[&header[..18], &[0]].concat()[..]).unwrap(), 300);
        for cut in 0..header.len() - 1 {
            assert!(unpacked_size(&mut &header[..cut]).is_err(), "cut after {cut}");
        }
        // A list, and structures without end.
        assert!(unpacked_size(&mut &[0x19, 0xf5][..]).is_err());
        assert!(unpacked_size(&mut &[0x1c; 100][..]).is_err());
    }
}
