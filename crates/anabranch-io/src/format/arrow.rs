//! Arrow IPC, file and stream.
//!
//! The file format is the stream format between two magic words, followed by an index. Reading the
//! stream part in order needs no index, works from a pipe, and holds one batch at a time.
//!
//! ```text
//! [ARROW1\0\0]  (ffffffff  length  message  body)*  [ffffffff 0]  [index  ARROW1]
//! ```

use std::collections::HashMap;
use std::io::{self, Read};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, MessageHeader, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};

use super::Reader;
use super::columnar::{Batches, ColumnarReader, guarded};
use crate::error::ReadError;
use crate::input::{Opened, Peek};
use crate::options::Format;

const FILE_MAGIC: &[u8] = b"ARROW1\0\0";
/// The widest alignment a writer may choose.
const MAX_PADDED_MAGIC: usize = 64;
const CONTINUATION: u32 = u32::MAX;

/// The messages of a stream, decoded in order.
struct Messages {
    file: String,
    stream: Peek,
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Columns to decode, in the order of the batch.
    columns: Vec<usize>,
    /// There are no more: behind the last message of a file is its index.
    ended: bool,
    /// Bytes that a message may take, also when its buffers are unpacked.
    limit: u64,
}

/// A message and its body, as bytes.
struct Frame {
    message: Vec<u8>,
    body: Buffer,
}

/// Reads the schema.
pub(super) fn open(opened: Opened) -> Result<Option<Box<dyn Reader>>, ReadError> {
    let file = opened.name;
    let mut stream = opened.body.into_stream();
    pass_over_magic(&mut stream).map_err(|error| ReadError::io(&file, error))?;
    let mut messages = Messages {
        file: file.clone(),
        stream,
        schema: SchemaRef::new(arrow_schema::Schema::empty()),
        dictionaries: HashMap::new(),
        columns: Vec::new(),
        ended: false,
        limit: opened.limit,
    };
    messages.read_schema()?;
    Ok(Some(Box::new(ColumnarReader::new(file, Format::Arrow, messages)?)))
}

/// A file has its magic word and zeros up to the first message; writers pad to 8 or to 64 bytes.
fn pass_over_magic(stream: &mut Peek) -> io::Result<()> {
    if stream.peek(FILE_MAGIC.len())? != FILE_MAGIC {
        return Ok(());
    }
    let mut passed = FILE_MAGIC.len();
    stream.consume(FILE_MAGIC.len());
    while passed < MAX_PADDED_MAGIC && stream.peek(4)? == [0; 4] {
        stream.consume(4);
        passed += 4;
    }
    Ok(())
}

impl Messages {
    fn damaged(&self, detail: impl std::fmt::Display) -> ReadError {
        ReadError::damaged(&self.file, Format::Arrow, detail)
    }

    fn read_schema(&mut self) -> Result<(), ReadError> {
        let frame = self.frame()?.ok_or_else(|| self.damaged("it has no schema"))?;
        let message = root_as_message(&frame.message).map_err(|error| self.damaged(error))?;
        let schema =
            message.header_as_schema().ok_or_else(|| self.damaged("it does not start with a schema"))?;
        self.schema = SchemaRef::new(guarded(&self.file, Format::Arrow, || try_fb_to_schema(schema))?);
        Ok(())
    }

    /// The rows of a message; `None` for a dictionary, which is kept for the rows to come.
    fn decode(&mut self, frame: &Frame) -> Result<Option<RecordBatch>, String> {
        let message = root_as_message(&frame.message).map_err(|error| error.to_string())?;
        check_buffers(&message, &frame.body, self.limit)?;
        let version = message.version();
        let words = |error: ArrowError| error.to_string();
        if let Some(batch) = message.header_as_record_batch() {
            let (schema, columns) = (self.schema.clone(), Some(self.columns.as_slice()));
            let batch = read_record_batch(&frame.body, batch, schema, &self.dictionaries, columns, &version);
            return batch.map(Some).map_err(words);
        }
        if let Some(batch) = message.header_as_dictionary_batch() {
            read_dictionary(&frame.body, batch, &self.schema, &mut self.dictionaries, &version)
                .map_err(words)?;
            return Ok(None);
        }
        match message.header_type() {
            MessageHeader::NONE => Ok(None),
            other => Err(format!("a message of type {other:?} among the rows")),
        }
    }

    /// The next message; `None` at the end.
    fn frame(&mut self) -> Result<Option<Frame>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let frame = match self.word()? {
            Some(length) => self.rest_of_frame(length).map_err(|error| error.cutting_off(true))?,
            None => None,
        };
        self.ended = frame.is_none();
        Ok(frame)
    }

    fn rest_of_frame(&mut self, mut length: u32) -> Result<Option<Frame>, ReadError> {
        // Before version 0.15 there was no continuation word.
        if length == CONTINUATION {
            length = self.word()?.unwrap_or(0);
        }
        if length == 0 {
            return Ok(None);
        }
        let message = self.bytes(u64::from(length))?;
        let body_bytes = root_as_message(&message).map_err(|error| self.damaged(error))?.bodyLength();
        let body_bytes = u64::try_from(body_bytes);
        let body = self.bytes(body_bytes.map_err(|_| self.damaged("a message has a negative length"))?)?;
        Ok(Some(Frame { message, body: Buffer::from_vec(body) }))
    }

    /// The next four bytes; `None` when there are no more.
    fn word(&mut self) -> Result<Option<u32>, ReadError> {
        let mut word = Vec::new();
        match self.stream.by_ref().take(4).read_to_end(&mut word) {
            Err(error) => Err(ReadError::io(&self.file, error).cutting_off(!word.is_empty())),
            Ok(0) => Ok(None),
            Ok(_) => {
                let word = <[u8; 4]>::try_from(word).map_err(|_| self.damaged("it is cut short"))?;
                Ok(Some(u32::from_le_bytes(word)))
            }
        }
    }

    /// Exactly `n` bytes. Memory grows with what is there, not with what is promised.
    fn bytes(&mut self, n: u64) -> Result<Vec<u8>, ReadError> {
        if n > self.limit {
            return Err(ReadError::too_large(&self.file, "a batch of rows", self.limit));
        }
        let mut bytes = Vec::new();
        match self.stream.by_ref().take(n).read_to_end(&mut bytes) {
            Ok(read) if read as u64 == n => Ok(bytes),
            Ok(_) => Err(self.damaged("it is cut short")),
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                Err(self.damaged(format!("a message of {n} bytes does not fit into memory")))
            }
            Err(error) => Err(ReadError::io(&self.file, error)),
        }
    }
}

/// Refuses buffers outside the body, on which the decoder would panic, and compressed buffers that
/// claim to be enormous, for which it would allocate.
fn check_buffers(message: &Message<'_>, body: &[u8], limit: u64) -> Result<(), String> {
    let mut unpacked = 0_u64;
    let batch = match message.header_as_dictionary_batch() {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    };
    let Some(batch) = batch else {
        return Ok(());
    };
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let bytes = slice(body, offset, length)
            .ok_or_else(|| format!("a buffer at {offset} of {length} bytes lies outside its message"))?;
        let claim = bytes.first_chunk::<8>().map_or(0, |claim| i64::from_le_bytes(*claim));
        // Minus one stands for bytes as they are.
        unpacked = unpacked.saturating_add(u64::try_from(claim).unwrap_or(0));
        if batch.compression().is_some() && unpacked > limit {
            return Err(format!("its buffers claim to expand to more than {limit} bytes (see --max-memory)"));
        }
    }
    Ok(())
}

fn slice(body: &[u8], offset: i64, length: i64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    body.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

impl Batches for Messages {
    fn fields(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn project(&mut self, columns: &[usize]) -> Result<Vec<usize>, ReadError> {
        self.columns = columns.to_vec();
        Ok((0..columns.len()).collect())
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        while let Some(frame) = self.frame()? {
            let file = self.file.clone();
            if let Some(batch) = guarded(&file, Format::Arrow, || self.decode(&frame))? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn rows(&self) -> Option<u64> {
        None
    }
}
