//! Text parsed ahead of its reader by a few threads, in order.
//!
//! ```text
//! stream ──▶ feeder ──whole lines──▶ parsers (in turn) ──rows──▶ reader (in the same turn)
//! ```
//!
//! Parsers only deal with what is plain: lines without quotes in which every cell is a good number. A piece with any
//! other line comes back as text, and from the first quote on, which may span pieces, the stream itself comes back; the
//! reader goes through those line by line, so that rows and messages are the same as without the threads. The feeder
//! passes on what has come after every read: a pipe that is written line by line is not held up.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use memchr::{memchr, memchr_iter, memrchr};

use super::super::{Pick, Role};
use crate::input::{MAX_ROW_BYTES, Peek, read_some};
use crate::rows::{is_missing_word, parse_number};

/// Bytes read at a time …
const PIECE_BYTES: usize = 64 << 10;
/// … and where there are always as many, so that threads need not wake each other for every few rows.
const LARGEST_PIECE_BYTES: usize = 256 << 10;

/// More do not help: then the feeder is the slowest.
const MOST_PARSERS: usize = 15;

/// Pieces that wait before and behind a parser: where there are more threads than processors, those whose turn it is may be asleep.
const WAITING: usize = 2;

/// Where the numbers of a line go.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    delimiter: u8,
    /// For each cell of a line its place in the row, if it is wanted.
    slots: Vec<Option<usize>>,
    wanted: usize,
    /// Whether a missing value is one.
    keeps_missing: bool,
}

impl Layout {
    /// `None` where lines must be read one after another: categories get their codes in order.
    pub(super) fn new(delimiter: u8, width: usize, picks: &[Pick], keeps_missing: bool) -> Option<Self> {
        let mut slots = vec![None; width];
        for (slot, pick) in picks.iter().enumerate() {
            if pick.role != Role::Number || slots[pick.ix].replace(slot).is_some() {
                return None;
            }
        }
        Some(Self { delimiter, slots, wanted: picks.len(), keeps_missing })
    }

    /// Appends the numbers of a line; false when it is not plain and good.
    #[inline]
    fn parse(&self, line: &[u8], values: &mut Vec<f64>) -> bool {
        let row = values.len();
        values.resize(row + self.wanted, 0.0);
        let (mut start, mut column) = (0, 0);
        for end in memchr_iter(self.delimiter, line).chain(std::iter::once(line.len())) {
            let Some(slot) = self.slots.get(column) else { return false };
            if let Some(slot) = slot {
                values[row + slot] = match parse_number(&line[start..end]) {
                    Ok(value) => value,
                    Err(_) if self.keeps_missing && is_missing_word(line[start..end].trim_ascii()) => {
                        f64::NAN
                    }
                    Err(_) => return false,
                };
            }
            column += 1;
            start = end + 1;
        }
        column == self.slots.len()
    }
}

/// What comes back, in the order of the stream.
pub(super) enum Piece {
    /// Good rows, one after another, and the lines that they were on.
    Rows { values: Vec<f64>, lines: u64 },
    /// Lines that need a closer look.
    Text(Vec<u8>),
    /// The stream from here on.
    Rest(Peek),
    /// Reading failed; within a line if it says so.
    Failed(io::Error, bool),
    /// There is no more.
    End,
}

/// What the feeder sends.
enum Task {
    Lines(Vec<u8>),
    Last(Piece),
}

/// The reader's end.
pub(super) struct Ahead {
    parsers: Vec<Receiver<Piece>>,
    turn: usize,
    /// A piece that was there when it was asked for.
    waiting: Option<Piece>,
}

impl Ahead {
    /// Starts the threads; the stream comes back when there is only one processor.
    pub(super) fn start(stream: Peek, layout: Layout) -> Result<Self, Peek> {
        let processors = thread::available_parallelism().map_or(1, |n| n.get());
        if processors == 1 {
            return Err(stream);
        }
        let layout = Arc::new(layout);
        let (mut to_parsers, mut parsers) = (Vec::new(), Vec::new());
        for _ in 0..MOST_PARSERS.min(processors - 1) {
            let (to_parser, tasks) = sync_channel(WAITING);
            let (to_reader, pieces) = sync_channel(WAITING);
            let layout = Arc::clone(&layout);
            thread::spawn(move || parse(&tasks, &to_reader, &layout));
            to_parsers.push(to_parser);
            parsers.push(pieces);
        }
        thread::spawn(move || feed(stream, &to_parsers));
        Ok(Self { parsers, turn: 0, waiting: None })
    }

    /// Whether the next piece is there.
    pub(super) fn is_ready(&mut self) -> bool {
        if self.waiting.is_none() {
            self.waiting = self.parsers[self.turn].try_recv().ok();
            if self.waiting.is_some() {
                self.turn = (self.turn + 1) % self.parsers.len();
            }
        }
        self.waiting.is_some()
    }

    /// The next piece of the stream.
    pub(super) fn next(&mut self) -> Piece {
        if let Some(piece) = self.waiting.take() {
            return piece;
        }
        let from = self.turn;
        self.turn = (self.turn + 1) % self.parsers.len();
        let gone = |_| Piece::Failed(io::Error::other("a thread that parses text has ended"), false);
        self.parsers[from].recv().unwrap_or_else(gone)
    }
}

/// The life of the feeder. It ends with the stream, or when nobody listens any more.
fn feed(stream: Peek, parsers: &[SyncSender<Task>]) {
    let mut turns = parsers.iter().cycle();
    let mut send = |task| turns.next().is_some_and(|parser| parser.send(task).is_ok());
    let mut pieces = Pieces { stream, pending: Vec::new(), size: PIECE_BYTES };
    loop {
        let (task, last) = match pieces.next() {
            Ok(Some(lines)) => (Task::Lines(lines), false),
            Ok(None) => (Task::Last(pieces.last()), true),
            Err(error) => (Task::Last(Piece::Failed(error, !pieces.pending.is_empty())), true),
        };
        if !send(task) || last {
            return;
        }
    }
}

/// A stream cut after whole lines.
struct Pieces {
    stream: Peek,
    /// Bytes that were read and not sent.
    pending: Vec<u8>,
    /// Bytes to read next.
    size: usize,
}

impl Pieces {
    /// Whole lines without quotes; `None` when there are no such any more.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut piece = std::mem::take(&mut self.pending);
            let old = piece.len();
            piece.resize(old + self.size, 0);
            let read = read_some(&mut self.stream, &mut piece[old..]);
            let come = *read.as_ref().unwrap_or(&0);
            piece.truncate(old + come);
            self.size = if come == self.size { (2 * come).min(LARGEST_PIECE_BYTES) } else { PIECE_BYTES };
            let fresh = &piece[old..];
            let quoted = memchr(b'"', fresh).is_some();
            let end = memrchr(b'\n', fresh);
            if fresh.is_empty() || quoted || (end.is_none() && piece.len() > MAX_ROW_BYTES) {
                self.pending = piece;
                return read.map(|_| None);
            }
            match end {
                Some(end) => {
                    self.pending = piece.split_off(old + end + 1);
                    return Ok(Some(piece));
                }
                None => self.pending = piece,
            }
        }
    }

    /// What is left when `next` has nothing more.
    fn last(&mut self) -> Piece {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Piece::End;
        }
        let stream = std::mem::replace(&mut self.stream, Peek::new(Box::new(io::empty())));
        Piece::Rest(Peek::new(Box::new(Cursor::new(pending).chain(stream))))
    }
}

/// The life of a parser.
fn parse(tasks: &Receiver<Task>, to_reader: &SyncSender<Piece>, layout: &Layout) {
    for task in tasks {
        let piece = match task {
            Task::Lines(text) => rows_of(text, layout),
            Task::Last(piece) => piece,
        };
        if to_reader.send(piece).is_err() {
            return;
        }
    }
}

fn rows_of(text: Vec<u8>, layout: &Layout) -> Piece {
    let mut values = Vec::new();
    let (mut start, mut lines) = (0, 0);
    let returns = memchr(b'\r', &text).is_some();
    for end in memchr_iter(b'\n', &text) {
        let line = &text[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Within a line it ends a record; at the end of a cell it would pass for a space.
        let plain = !returns || memchr(b'\r', line).is_none();
        let good = line.is_empty() || (plain && layout.parse(line, &mut values));
        if !good {
            return Piece::Text(text);
        }
        start = end + 1;
        lines += 1;
    }
    Piece::Rows { values, lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(width: usize, columns: &[usize]) -> Layout {
        let picks: Vec<Pick> = columns.iter().map(|&ix| Pick { ix, role: Role::Number }).collect();
        Layout::new(b',', width, &picks, false).unwrap()
    }

    fn peek(text: &[u8]) -> Peek {
        Peek::new(Box::new(Cursor::new(text.to_vec())))
    }

    #[test]
    fn columns_are_taken_in_the_order_asked_for() {
        let Piece::Rows { values, lines } = rows_of(b"1,x,3\r\n\n4,y, 6 \n".to_vec(), &layout(3, &[2, 0]))
        else {
            panic!("all rows are good");
        };
        assert_eq!((values, lines), (vec![3.0, 1.0, 6.0, 4.0], 3));
    }

    #[test]
    fn a_line_that_is_not_plain_brings_the_text_back() {
        for text in
            ["1,2\n3\n", "1,2\n3,4,5\n", "1,2\n3,x\n", "1,2\n3,\n", "1,2\r3,4\n", "1\r,2\n", "1,inf\n"]
        {
            assert!(matches!(rows_of(text.into(), &layout(2, &[0, 1])), Piece::Text(_)), "{text:?}");
        }
    }

    #[test]
    fn missing_values_are_parsed_ahead_where_they_are_kept() {
        let layout = Layout { keeps_missing: true, ..layout(2, &[0, 1]) };
        let Piece::Rows { values, .. } = rows_of(b"1,\nNA,2\n, nan \n".to_vec(), &layout) else {
            panic!("all rows are good");
        };
        let shown: Vec<String> = values.iter().map(f64::to_string).collect();
        assert_eq!(shown, ["1", "NaN", "NaN", "2", "NaN", "NaN"]);
        assert!(matches!(rows_of(b"1,inf\n".to_vec(), &layout), Piece::Text(_)));
    }

    #[test]
    fn categories_are_not_parsed_ahead() {
        assert!(Layout::new(b',', 1, &[Pick { ix: 0, role: Role::Category }], false).is_none());
    }

    #[test]
    fn pieces_end_with_lines_and_stop_at_a_quote() {
        let line = "123456789\n".repeat(PIECE_BYTES / 5);
        let mut pieces = Pieces {
            stream: peek(format!("{line}1,\"2\"\n3,4").as_bytes()),
            pending: vec![],
            size: PIECE_BYTES,
        };
        let mut seen = 0;
        while let Some(piece) = pieces.next().unwrap() {
            assert!(piece.ends_with(b"\n") && !piece.contains(&b'"'));
            seen += piece.len();
        }
        let Piece::Rest(mut rest) = pieces.last() else { panic!("there is a quote") };
        let mut text = String::new();
        rest.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("1,\"2\"\n3,4"));
        assert_eq!(seen + text.len(), line.len() + "1,\"2\"\n3,4".len());
    }
}
