//! Arrays of numpy: one or two dimensions, any byte order, C or Fortran order.
//!
//! Rows are read in pieces with ordinary reads instead of a memory map. It is as fast for one pass,
//! a file cut short while we read is an error instead of a signal, and resident memory stays flat.

mod dtype;
mod header;

use std::io::{self, Cursor, Read, Seek, SeekFrom};

pub(crate) use dtype::Dtype;
pub(crate) use header::{NpyHeader, Order};

use super::{Pick, Reader, Role};
use crate::error::ReadError;
use crate::input::{Body, Opened, Peek, ReadSeek, read_some};
use crate::options::Format;
use crate::rows::{Place, Sink};
use crate::select::Header;

/// Numbers decoded at a time; a Fortran array needs one read per column and piece, so it takes more.
const PIECE: usize = 1 << 16;
const FORTRAN_PIECE: usize = 1 << 18;

/// Where the numbers are.
enum Store {
    Seekable(Box<dyn ReadSeek>),
    Stream(Peek),
}

/// Where rows went.
enum Loaded {
    /// To the sink.
    Taken,
    /// To the piece.
    Piece,
    /// There are no more.
    Nothing,
}

struct NpyReader {
    file: String,
    store: Store,
    npy: NpyHeader,
    header: Header,
    picks: Vec<Pick>,
    /// Rows already in `piece` or before it.
    loaded: u64,
    /// Decoded rows, row after row, and how many of them have been read.
    piece: Vec<f64>,
    piece_at: usize,
    bytes: Vec<u8>,
    /// Rows seen, good and bad.
    row: u64,
    /// Why there are no rows after those that are loaded, when the stream was told to end behind them.
    ended: Option<ReadError>,
}

/// Reads the header and checks it against the length of the file.
pub(super) fn open(opened: Opened) -> Result<Option<Box<dyn Reader>>, ReadError> {
    Ok(Some(Box::new(NpyReader::open(opened)?)))
}

/// All numbers of an array with one column of integers or booleans.
pub(crate) fn read_integers(opened: Opened) -> Result<Vec<i64>, ReadError> {
    let mut reader = NpyReader::open(opened)?;
    let npy = reader.npy;
    if npy.dtype.is_float() || npy.columns != 1 {
        let kind = if npy.dtype.is_float() { "floating point" } else { "several columns" };
        let detail = format!("labels are one column of integers or booleans, it holds {kind}");
        return Err(ReadError::damaged(&reader.file, Format::Npy, detail));
    }
    let mut labels = Vec::new();
    while reader.load()? {
        npy.dtype.decode_integers(&reader.bytes, &mut labels);
    }
    Ok(labels)
}

/// All numbers of an array with one column.
pub(crate) fn read_column(opened: Opened) -> Result<Vec<f64>, ReadError> {
    let mut reader = NpyReader::open(opened)?;
    if reader.npy.columns != 1 {
        return Err(ReadError::damaged(&reader.file, Format::Npy, "it has several columns, one is expected"));
    }
    let mut numbers = Vec::new();
    while reader.load()? {
        numbers.extend_from_slice(&reader.piece);
    }
    Ok(numbers)
}

/// The columns of a Fortran array lie one after another: all places are needed at once, so such a
/// stream goes to a temporary file.
fn open_stream(mut stream: Peek, file: &str, limit: u64) -> Result<(Store, NpyHeader), ReadError> {
    let npy = header::read(&mut stream, file)?;
    match npy.order {
        Order::C => Ok((Store::Stream(stream), npy)),
        Order::Fortran => {
            if npy.data_bytes() > limit {
                return Err(ReadError::too_large(file, "an array in Fortran order from a stream", limit));
            }
            let spooled = Body::Stream(stream).into_seekable(file, limit)?;
            Ok((seekable(spooled), NpyHeader { data_offset: 0, ..npy }))
        }
    }
}

fn seekable(body: Body) -> Store {
    match body {
        Body::File(file) => Store::Seekable(Box::new(file)),
        Body::Memory(bytes) => Store::Seekable(Box::new(Cursor::new(bytes))),
        Body::Stream(stream) => Store::Stream(stream),
    }
}

impl Read for Store {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Store::Seekable(store) => store.read(out),
            Store::Stream(stream) => stream.read(out),
        }
    }
}

impl NpyReader {
    fn open(opened: Opened) -> Result<Self, ReadError> {
        let file = opened.name;
        let (store, npy) = match opened.body {
            Body::Stream(stream) => open_stream(stream, &file, opened.limit)?,
            body => {
                let mut store = seekable(body);
                let npy = header::read(&mut store, &file)?;
                (store, npy)
            }
        };
        let mut reader = Self {
            header: Header::numbered(npy.columns),
            file,
            store,
            npy,
            picks: Vec::new(),
            loaded: 0,
            piece: Vec::new(),
            piece_at: 0,
            bytes: Vec::new(),
            row: 0,
            ended: None,
        };
        reader.check_length()?;
        Ok(reader)
    }

    /// A file that is shorter than its header says is refused before the first row.
    fn check_length(&mut self) -> Result<(), ReadError> {
        let Store::Seekable(store) = &mut self.store else {
            return Ok(());
        };
        let failed = |error| ReadError::io(&self.file, error);
        let length = store.seek(SeekFrom::End(0)).map_err(failed)?;
        let needed = self.npy.data_offset.saturating_add(self.npy.data_bytes());
        if length < needed {
            let detail = format!("its header promises {needed} bytes, it has {length}");
            return Err(ReadError::damaged(&self.file, Format::Npy, detail));
        }
        store.seek(SeekFrom::Start(self.npy.data_offset)).map_err(failed)?;
        Ok(())
    }

    /// Decodes the next piece; false when all rows are loaded.
    fn load(&mut self) -> Result<bool, ReadError> {
        let left = self.npy.rows - self.loaded;
        if left == 0 {
            return Ok(false);
        }
        let most = match self.npy.order {
            Order::C => PIECE,
            Order::Fortran => FORTRAN_PIECE,
        };
        let rows = (most / self.npy.columns).max(1).min(usize::try_from(left).unwrap_or(usize::MAX));
        let rows = match self.npy.order {
            Order::C => self.load_rows(rows)?,
            Order::Fortran => {
                self.load_columns(rows).map_err(|error| self.cut_short(error))?;
                rows
            }
        };
        self.loaded += rows as u64;
        self.piece_at = 0;
        Ok(true)
    }

    fn load_rows(&mut self, rows: usize) -> Result<usize, ReadError> {
        let rows = self.load_bytes(rows)?;
        self.piece.clear();
        self.npy.dtype.decode(&self.bytes, &mut self.piece);
        Ok(rows)
    }

    /// Loads so many rows; fewer only when the stream is told to end behind them.
    fn load_bytes(&mut self, rows: usize) -> Result<usize, ReadError> {
        if let Some(ended) = self.ended.take() {
            return Err(ended);
        }
        let row_bytes = self.npy.row_bytes();
        self.bytes.resize(rows * row_bytes, 0);
        let mut filled = 0;
        while filled < self.bytes.len() {
            match read_some(&mut self.store, &mut self.bytes[filled..]) {
                Ok(0) => return Err(self.cut_short(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => filled += n,
                Err(error) => {
                    let (whole, rest) = (filled / row_bytes, filled % row_bytes);
                    let ended = self.cut_short(error).cutting_off(rest > 0);
                    if whole == 0 || !matches!(ended, ReadError::Stopped { .. }) {
                        return Err(ended);
                    }
                    self.ended = Some(ended);
                    self.bytes.truncate(whole * row_bytes);
                    return Ok(whole);
                }
            }
        }
        Ok(rows)
    }

    /// Up to `wanted` rows: where all columns are taken as they are, their numbers go straight to the sink. Rows of which
    /// one is bad, and all others, become a piece that is gone through row by row.
    fn load_into(&mut self, wanted: usize, sink: &mut Sink) -> Result<Loaded, ReadError> {
        let as_they_are = self.npy.order == Order::C
            && self.picks.len() == self.npy.columns
            && self.picks.iter().enumerate().all(|(ix, pick)| pick.ix == ix && pick.role == Role::Number);
        if !as_they_are {
            return Ok(if self.load()? { Loaded::Piece } else { Loaded::Nothing });
        }
        let left = usize::try_from(self.npy.rows - self.loaded).unwrap_or(usize::MAX);
        let rows = (PIECE / self.npy.columns).max(1).min(left).min(wanted);
        if rows == 0 {
            return Ok(Loaded::Nothing);
        }
        let rows = self.load_bytes(rows)?;
        self.loaded += rows as u64;
        if sink.decoded_rows(|values| self.npy.dtype.decode(&self.bytes, values)) {
            self.row += rows as u64;
            return Ok(Loaded::Taken);
        }
        self.piece.clear();
        self.npy.dtype.decode(&self.bytes, &mut self.piece);
        self.piece_at = 0;
        Ok(Loaded::Piece)
    }

    /// Gathers a piece of every column and turns it into rows.
    fn load_columns(&mut self, rows: usize) -> io::Result<()> {
        let Store::Seekable(store) = &mut self.store else {
            return Err(io::Error::other("a Fortran array needs a store that can seek"));
        };
        let (columns, size) = (self.npy.columns, self.npy.dtype.size());
        self.bytes.resize(rows * size, 0);
        self.piece.clear();
        self.piece.resize(rows * columns, 0.0);
        let mut column = Vec::with_capacity(rows);
        for ix in 0..columns {
            let offset = (ix as u64 * self.npy.rows + self.loaded) * size as u64;
            store.seek(SeekFrom::Start(self.npy.data_offset + offset))?;
            store.read_exact(&mut self.bytes)?;
            column.clear();
            self.npy.dtype.decode(&self.bytes, &mut column);
            for (row, value) in column.iter().enumerate() {
                self.piece[row * columns + ix] = *value;
            }
        }
        Ok(())
    }

    fn cut_short(&self, error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let detail = format!("it ends before row {} of {}", self.loaded + 1, self.npy.rows);
                ReadError::damaged(&self.file, Format::Npy, detail)
            }
            _ => ReadError::io(&self.file, error),
        }
    }

    fn read_row(&self, start: usize, sink: &mut Sink) -> Result<(), ReadError> {
        for (slot, pick) in self.picks.iter().enumerate() {
            let value = self.piece[start + pick.ix];
            let put = match (pick.role, self.npy.dtype) {
                (Role::Category | Role::Kept, Dtype::Bool) => {
                    sink.label(slot, if value == 1.0 { "true" } else { "false" })
                }
                _ => sink.number(slot, value),
            };
            if let Err(flaw) = put {
                let at = Place { file: &self.file, row: self.row, line: None };
                return sink.reject_cell(at, flaw, self.header.column(pick.ix), &value.to_string());
            }
        }
        sink.finish_row();
        Ok(())
    }

    /// Whole numbers are always good, and only codes depend on what was seen before.
    fn every_row_is_good(&self) -> bool {
        !self.npy.dtype.is_float() && self.picks.iter().all(|pick| pick.role == Role::Number)
    }
}

impl Reader for NpyReader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn is_number(&self, _ix: usize) -> bool {
        self.npy.dtype != Dtype::Bool
    }

    fn select(&mut self, picks: &[Pick]) -> Result<(), ReadError> {
        self.picks = picks.to_vec();
        Ok(())
    }

    fn read(&mut self, target: usize, sink: &mut Sink) -> Result<(), ReadError> {
        while sink.rows() < target {
            if self.piece_at == self.piece.len() {
                match self.load_into(target - sink.rows(), sink)? {
                    Loaded::Taken => continue,
                    Loaded::Piece => {}
                    Loaded::Nothing => break,
                }
            }
            self.row += 1;
            let start = self.piece_at;
            self.piece_at += self.npy.columns;
            self.read_row(start, sink)?;
        }
        Ok(())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.npy.rows)
    }

    fn leap(&mut self, n: u64) -> Result<u64, ReadError> {
        let decoded_rows_left = self.piece_at != self.piece.len();
        if decoded_rows_left || !self.every_row_is_good() {
            return Ok(0);
        }
        let Store::Seekable(store) = &mut self.store else {
            return Ok(0);
        };
        let n = n.min(self.npy.rows - self.loaded);
        // Fortran order seeks for every column anyway.
        if self.npy.order == Order::C {
            let place = self.npy.data_offset + (self.loaded + n) * self.npy.row_bytes() as u64;
            store.seek(SeekFrom::Start(place)).map_err(|error| ReadError::io(&self.file, error))?;
        }
        self.loaded += n;
        self.row += n;
        Ok(n)
    }
}
