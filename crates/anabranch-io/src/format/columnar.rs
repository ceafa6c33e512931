//! Rows from Arrow record batches: what Parquet and Arrow IPC have in common.

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, Float64Array, RecordBatch, StringArray};
use arrow_cast::{can_cast_types, cast};
use arrow_schema::{ArrowError, DataType, SchemaRef, TimeUnit};

use super::{Pick, Reader, Role};
use crate::error::ReadError;
use crate::options::Format;
use crate::rows::{Place, Sink};
use crate::select::{Header, MAX_COLUMNS};

/// Rows converted at a time: a batch may be as large as its writer liked.
const PIECE_ROWS: usize = 8192;
/// Bytes of labels converted at a time: a dictionary repeats a long one at the price of an index.
const PIECE_BYTES: usize = 16 << 20;

/// Runs a decoder. The arrow and parquet crates check most of what a file claims but still assert
/// the rest; a damaged file must be an error here, not the end of the process. What the decoder
/// leaves behind after a panic is never used again: the source stops at its first error.
pub(super) fn guarded<T, E: Display>(
    file: &str,
    format: Format,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T, ReadError> {
    match panic::catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => result.map_err(|error| ReadError::damaged(file, format, error)),
        Err(payload) => {
            let words = payload.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
            Err(ReadError::damaged(file, format, words.unwrap_or("the decoder gave up")))
        }
    }
}

/// Record batches one after another.
pub(super) trait Batches: Send {
    /// The columns of the file.
    fn fields(&self) -> SchemaRef;

    /// Says which columns are needed; returns their positions in the batches to come.
    fn project(&mut self, columns: &[usize]) -> Result<Vec<usize>, ReadError>;

    /// The next batch; `None` at the end.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError>;

    /// Number of rows, if the file says.
    fn rows(&self) -> Option<u64>;
}

/// The cells of one column in the current piece.
enum Cells {
    Numbers(Float64Array),
    Labels(StringArray),
}

/// Rows of record batches.
pub(super) struct ColumnarReader<B> {
    file: String,
    format: Format,
    batches: B,
    header: Header,
    picks: Vec<Pick>,
    /// Position of each pick in the batches.
    positions: Vec<usize>,
    batch: Option<RecordBatch>,
    /// Rows of `batch` already converted.
    batch_at: usize,
    /// Rows of it that are converted at a time.
    piece_most: usize,
    piece: Vec<Cells>,
    piece_rows: usize,
    piece_at: usize,
    /// Rows seen, good and bad.
    row: u64,
}

impl<B: Batches> ColumnarReader<B> {
    pub(super) fn new(file: String, format: Format, batches: B) -> Result<Self, ReadError> {
        let fields = batches.fields();
        let names: Vec<String> = fields.fields().iter().map(|field| field.name().clone()).collect();
        if names.is_empty() || names.len() > MAX_COLUMNS {
            let detail = format!("it has {} columns, 1 to {MAX_COLUMNS} are read", names.len());
            return Err(ReadError::damaged(&file, format, detail));
        }
        let header = Header::named(names, &file)?;
        Ok(Self {
            file,
            format,
            batches,
            header,
            picks: Vec::new(),
            positions: Vec::new(),
            batch: None,
            batch_at: 0,
            piece_most: PIECE_ROWS,
            piece: Vec::new(),
            piece_rows: 0,
            piece_at: 0,
            row: 0,
        })
    }

    /// Converts the next piece; false when all batches are done.
    fn load(&mut self) -> Result<bool, ReadError> {
        loop {
            if let Some(batch) = self.batch.take_if(|batch| self.batch_at < batch.num_rows()) {
                let rows = self.piece_most.min(batch.num_rows() - self.batch_at);
                self.piece = self.convert(&batch.slice(self.batch_at, rows))?;
                self.batch_at += rows;
                self.piece_rows = rows;
                self.piece_at = 0;
                self.batch = Some(batch);
                return Ok(true);
            }
            self.batch = self.batches.next_batch()?;
            self.batch_at = 0;
            if let Some(batch) = &self.batch {
                self.piece_most = self.piece_of(batch)?;
            }
            if self.batch.is_none() {
                return Ok(false);
            }
        }
    }

    /// As many rows as can be converted at a time whatever their labels are.
    fn piece_of(&self, batch: &RecordBatch) -> Result<usize, ReadError> {
        let labels = self.picks.iter().zip(&self.positions).filter(|(pick, _)| pick.role != Role::Number);
        let longest = guarded(&self.file, self.format, || {
            let lengths = labels.map(|(_, &position)| longest_shared(batch.column(position)));
            lengths.sum::<Result<usize, ArrowError>>()
        })?;
        Ok((PIECE_BYTES / longest.max(1)).clamp(1, PIECE_ROWS))
    }

    fn convert(&self, piece: &RecordBatch) -> Result<Vec<Cells>, ReadError> {
        let columns = self.picks.iter().zip(&self.positions);
        guarded(&self.file, self.format, || {
            columns
                .map(|(pick, &position)| cells(piece.column(position), pick.role))
                .collect::<Result<_, ArrowError>>()
        })
    }

    fn read_row(&self, ix: usize, sink: &mut Sink) -> Result<(), ReadError> {
        for (slot, cells) in self.piece.iter().enumerate() {
            let put = match cells {
                Cells::Numbers(numbers) if numbers.is_valid(ix) => sink.number(slot, numbers.value(ix)),
                Cells::Labels(labels) if labels.is_valid(ix) => sink.label(slot, labels.value(ix)),
                _ => sink.missing(slot),
            };
            if let Err(flaw) = put {
                let at = Place { file: &self.file, row: self.row, line: None };
                let column = self.header.column(self.picks[slot].ix);
                return sink.reject_cell(at, flaw, column, &cells.shown(ix));
            }
        }
        sink.finish_row();
        Ok(())
    }
}

impl Cells {
    fn shown(&self, ix: usize) -> String {
        match self {
            Cells::Numbers(numbers) => numbers.value(ix).to_string(),
            Cells::Labels(labels) => labels.value(ix).to_owned(),
        }
    }
}

impl<B: Batches> Reader for ColumnarReader<B> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn is_number(&self, ix: usize) -> bool {
        self.batches.fields().field(ix).data_type().is_numeric()
    }

    fn select(&mut self, picks: &[Pick]) -> Result<(), ReadError> {
        let fields = self.batches.fields();
        for pick in picks {
            let kind = fields.field(pick.ix).data_type();
            if !is_readable(kind, pick.role) {
                let column = self.header.column(pick.ix);
                return Err(ReadError::ColumnType {
                    file: self.file.clone(),
                    column,
                    kind: kind.to_string(),
                });
            }
        }
        let columns: Vec<usize> = picks.iter().map(|pick| pick.ix).collect();
        self.positions = self.batches.project(&columns)?;
        self.picks = picks.to_vec();
        Ok(())
    }

    fn read(&mut self, target: usize, sink: &mut Sink) -> Result<(), ReadError> {
        while sink.rows() < target {
            if self.piece_at == self.piece_rows && !self.load()? {
                break;
            }
            self.row += 1;
            self.piece_at += 1;
            self.read_row(self.piece_at - 1, sink)?;
        }
        Ok(())
    }

    fn rows(&self) -> Option<u64> {
        self.batches.rows()
    }
}

/// Numbers and booleans always; strings only where they are categories.
fn is_readable(kind: &DataType, role: Role) -> bool {
    match (kind, role) {
        (kind, Role::Kept) => can_cast_types(kind, &DataType::Utf8),
        (DataType::Timestamp(..) | DataType::Date32 | DataType::Date64, role) => role == Role::Time,
        (DataType::Dictionary(_, values), _) => is_readable(values, role),
        (DataType::Boolean, _) => true,
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, role) => {
            matches!(role, Role::Category | Role::Time)
        }
        (kind, _) => kind.is_numeric(),
    }
}

/// Bytes of the longest label that several rows may share, where they share any.
fn longest_shared(column: &Arc<dyn Array>) -> Result<usize, ArrowError> {
    let labels = match column.data_type() {
        DataType::Dictionary(..) => column.as_any_dictionary().values(),
        DataType::Utf8View => column,
        _ => return Ok(0),
    };
    let longest = match labels.data_type() {
        DataType::Utf8View => labels.as_string_view().lengths().max().map(|length| length as usize),
        DataType::Utf8 => labels.as_string::<i32>().iter().flatten().map(str::len).max(),
        DataType::LargeUtf8 => labels.as_string::<i64>().iter().flatten().map(str::len).max(),
        _ => None,
    };
    Ok(longest.unwrap_or(0))
}

/// The seconds of one tick of a timestamp, since 1970 whatever its zone is.
fn unit_of(kind: &DataType) -> Option<f64> {
    match kind {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1.0),
        DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => Some(1e-3),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1e-6),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1e-9),
        DataType::Date32 => Some(86_400.0),
        _ => None,
    }
}

/// Casts a column to what the sink takes. Fractions become labels there, as in every other format.
fn cells(column: &Arc<dyn Array>, role: Role) -> Result<Cells, ArrowError> {
    let kind = match column.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        kind => kind,
    };
    let is_label = match role {
        Role::Number => false,
        Role::Category => !kind.is_numeric() || kind.is_integer(),
        Role::Kept => !kind.is_floating(),
        Role::Time => matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    };
    if let (Role::Time, Some(seconds)) = (role, unit_of(kind)) {
        let whole = if *kind == DataType::Date32 { &cast(column, &DataType::Int32)? } else { column };
        let whole = cast(whole, &DataType::Int64)?;
        return Ok(Cells::Numbers(whole.as_primitive::<Int64Type>().unary(|value| value as f64 * seconds)));
    }
    match is_label {
        true => Ok(Cells::Labels(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())),
        false => Ok(Cells::Numbers(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone())),
    }
}
