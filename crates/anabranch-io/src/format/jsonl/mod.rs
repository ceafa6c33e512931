//! JSON lines: one object or one array per line.
//!
//! The keys of the first object are the columns, in its order, and behind them those with which others have numbers: the others of a thousand lines
//! of a file, or of what has come of a stream with its first line. Further keys are ignored.

mod row;

use std::collections::{HashSet, VecDeque};

use row::{Keys, Shape, Slot, keys_of_numbers, read_header, read_line};

use super::{Pick, Reader, Role};
use crate::error::{BadCell, ReadError};
use crate::input::{Body, Lines, Opened};
use crate::options::{OnBadRow, ReadOptions};
use crate::rows::{Flaw, Place, Sink};
use crate::select::{Header, MAX_COLUMNS};

struct JsonReader {
    lines: Lines,
    header: Header,
    keys: Keys,
    /// One per column of the file; cells that are not wanted stay empty.
    slots: Vec<Slot>,
    picks: Vec<Pick>,
    /// Lines before the first that has columns, each with what is wrong, to be counted when reading.
    early: VecDeque<(u64, BadCell)>,
    /// The current line is the first row and has not been read yet.
    held: bool,
    /// Rows seen, good and bad.
    row: u64,
    /// The last reading ended because the input pauses.
    paused: bool,
}

/// Bad lines that may come before the first good one: more means that this is no JSON.
const MAX_EARLY: usize = 1000;

/// Lines whose keys are columns, and their bytes at most.
const LOOKED_LINES: usize = 1000;
const LOOKED_BYTES: usize = 1 << 20;

/// Reads the columns from the first good lines. `None` when all lines are blank.
pub(super) fn open(opened: Opened, options: &ReadOptions) -> Result<Option<Box<dyn Reader>>, ReadError> {
    let name = opened.name;
    let waits = matches!(opened.body, Body::Stream(_));
    let mut stream = opened.body.into_stream();
    let failed = |error| ReadError::io(&name, error);
    if stream.peek(3).map_err(failed)? == b"\xef\xbb\xbf" {
        stream.consume(3);
    }
    stream.peek_lines(if waits { 1 } else { LOOKED_LINES }, LOOKED_BYTES).map_err(failed)?;
    let further = keys_of(stream.here());
    let mut lines = Lines::new(&name, stream);
    let mut early = VecDeque::new();
    while next_row(&mut lines)? {
        match columns(&lines, &name, &further)? {
            Ok((keys, header)) => {
                let slots = vec![Slot::default(); header.width()];
                let picks = Vec::new();
                let reader = JsonReader {
                    lines,
                    header,
                    keys,
                    slots,
                    picks,
                    early,
                    held: true,
                    row: 0,
                    paused: false,
                };
                return Ok(Some(Box::new(reader)));
            }
            Err(problem) if options.on_bad_row == OnBadRow::Skip && early.len() < MAX_EARLY => {
                early.push_back((lines.number(), problem));
            }
            Err(problem) => {
                let (row, line) = (early.len() as u64 + 1, Some(lines.number()));
                return Err(ReadError::BadRow { file: name, row, line, problem });
            }
        }
    }
    match early.pop_front() {
        None => Ok(None),
        Some((line, problem)) => Err(ReadError::BadRow { file: name, row: 1, line: Some(line), problem }),
    }
}

/// The keys with which whole lines have numbers, each once.
fn keys_of(text: &[u8]) -> Vec<String> {
    let whole = memchr::memrchr(b'\n', text).map_or(0, |end| end + 1);
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    for line in text[..whole].split(|byte| *byte == b'\n').take(LOOKED_LINES) {
        all.extend(keys_of_numbers(line).into_iter().filter(|name| seen.insert(name.clone())));
    }
    all
}

/// The columns of the current line with further ones, or why it is no row.
fn columns(
    lines: &Lines,
    name: &str,
    further: &[String],
) -> Result<Result<(Keys, Header), BadCell>, ReadError> {
    let (keys, header) = match read_header(lines.current()) {
        Ok(Shape::Object(mut names)) => {
            let own: HashSet<String> = names.iter().cloned().collect();
            names.extend(further.iter().filter(|key| !own.contains(*key)).cloned());
            let header = Header::named(names, name)?;
            (Keys::named(&header.names), header)
        }
        Ok(Shape::Array(width)) if width <= MAX_COLUMNS => (Keys::positions(width), Header::numbered(width)),
        Ok(Shape::Array(found)) => return Ok(Err(BadCell::Ragged { expected: MAX_COLUMNS, found })),
        Ok(Shape::Other(found)) => {
            return Ok(Err(BadCell::JsonShape { expected: "an object or an array", found }));
        }
        Err(detail) => return Ok(Err(BadCell::NotJson { detail })),
    };
    Ok(Ok((keys, header)))
}

/// Moves to the next line that is not blank.
fn next_row(lines: &mut Lines) -> Result<bool, ReadError> {
    while lines.advance()? {
        if !lines.current().trim_ascii().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl JsonReader {
    fn place(&self) -> Place<'_> {
        Place { file: self.lines.file(), row: self.row, line: Some(self.lines.number()) }
    }

    fn read_row(&mut self, sink: &mut Sink) -> Result<(), ReadError> {
        if let Err(problem) = self.parse() {
            return sink.reject_row(self.place(), problem);
        }
        for (column, pick) in self.picks.iter().enumerate() {
            let slot = &self.slots[pick.ix];
            let put = match slot {
                Slot::Missing => sink.missing(column),
                Slot::Number(value) => sink.number(column, *value),
                Slot::Text(text) if text.is_empty() => sink.missing(column),
                Slot::Text(text) => sink.label(column, text),
                Slot::Bool(value) if sink.is_categorical(column) => sink.label(column, &value.to_string()),
                Slot::Bool(value) => sink.number(column, f64::from(u8::from(*value))),
                Slot::Nested(what) if pick.role == Role::Kept => sink.label(column, what),
                Slot::Nested(_) => Err(Flaw::NotANumber),
            };
            if let Err(flaw) = put {
                return sink.reject_cell(self.place(), flaw, self.header.column(pick.ix), &slot.shown());
            }
        }
        sink.finish_row();
        Ok(())
    }

    /// Fills the slots from the current line.
    fn parse(&mut self) -> Result<(), BadCell> {
        let width = self.header.width();
        let expected = if self.header.named { "an object" } else { "an array" };
        let shape = read_line(self.lines.current(), &mut self.keys, &mut self.slots);
        match shape.map_err(|detail| BadCell::NotJson { detail })? {
            Shape::Object(()) if self.header.named => Ok(()),
            Shape::Array(found) if !self.header.named && found == width => Ok(()),
            Shape::Array(found) if !self.header.named => Err(BadCell::Ragged { expected: width, found }),
            Shape::Object(()) => Err(BadCell::JsonShape { expected, found: "an object" }),
            Shape::Array(_) => Err(BadCell::JsonShape { expected, found: "an array" }),
            Shape::Other(found) => Err(BadCell::JsonShape { expected, found }),
        }
    }
}

impl Reader for JsonReader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn select(&mut self, picks: &[Pick]) -> Result<(), ReadError> {
        self.picks = picks.to_vec();
        self.keys.want_only(picks.iter().map(|pick| pick.ix));
        Ok(())
    }

    fn paused(&self) -> bool {
        self.paused
    }

    fn read(&mut self, target: usize, sink: &mut Sink) -> Result<(), ReadError> {
        while let Some((line, problem)) = self.early.pop_front() {
            self.row += 1;
            sink.reject_row(Place { file: self.lines.file(), row: self.row, line: Some(line) }, problem)?;
        }
        self.paused = false;
        while sink.rows() < target {
            if sink.hands_out_early() && sink.rows() > 0 && !self.held && !self.lines.has_line() {
                self.paused = true;
                break;
            }
            if !std::mem::take(&mut self.held) && !next_row(&mut self.lines)? {
                break;
            }
            self.row += 1;
            self.read_row(sink)?;
        }
        Ok(())
    }
}
