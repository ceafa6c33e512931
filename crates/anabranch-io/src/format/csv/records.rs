//! Records of delimited text, one at a time in reused buffers.
//!
//! A line without a quote is split in place; only records with quotes go through the state machine
//! of `csv-core`, which knows about doubled quotes and line ends inside quotes.

use csv_core::ReadRecordResult;
use memchr::{memchr_iter, memchr2};

use crate::error::ReadError;
use crate::input::{Lines, MAX_ROW_BYTES, Peek};

/// What separates cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    Byte(u8),
    /// Any run of spaces and tabs; none at the ends of a line.
    Whitespace,
}

/// The records of a text.
pub(super) struct Records {
    lines: Lines,
    split: Split,
    /// Start and end of each cell in the current line, or in `quoted.text`.
    spans: Vec<(usize, usize)>,
    quoted: Quoted,
    /// The current record is in `quoted`, not in the current line.
    in_quoted: bool,
    /// The line on which the current record starts.
    line: u64,
}

/// The state machine and its buffers.
struct Quoted {
    machine: csv_core::Reader,
    /// Text that the machine is to read, and how much of it has been read.
    pending: Vec<u8>,
    at: usize,
    /// The cells, one after another.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Records {
    pub(super) fn new(lines: Lines, split: Split) -> Self {
        let delimiter = match split {
            Split::Byte(byte) => byte,
            // Never used: text separated by white space has no quotes.
            Split::Whitespace => b' ',
        };
        let quoted = Quoted {
            machine: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            pending: Vec::new(),
            at: 0,
            text: vec![0; 1024],
            ends: vec![0; 64],
        };
        Self { lines, split, spans: Vec::new(), quoted, in_quoted: false, line: 0 }
    }

    pub(super) fn file(&self) -> &str {
        self.lines.file()
    }

    /// The line on which the current record starts, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The byte between cells, where there is one.
    pub(super) fn plain_delimiter(&self) -> Option<u8> {
        match self.split {
            Split::Byte(delimiter) => Some(delimiter),
            Split::Whitespace => None,
        }
    }

    /// Gives the text after the current record away, with the number of lines before it; `None` within a line.
    pub(super) fn hand_over(&mut self) -> Option<(Peek, u64)> {
        (self.quoted.at == self.quoted.pending.len()).then(|| self.lines.hand_over())
    }

    /// Goes on with another text, which has this many lines before it.
    pub(super) fn replace(&mut self, stream: Peek, lines_before: u64) {
        self.quoted.clear();
        self.lines.replace(stream, lines_before);
    }

    /// Whether the next line is here already, or there is none.
    pub(super) fn has_line(&self) -> bool {
        self.quoted.at < self.quoted.pending.len() || self.lines.has_line()
    }

    /// Number of cells of the current record.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// A cell of the current record.
    #[inline]
    pub(super) fn cell(&self, ix: usize) -> &[u8] {
        let (start, end) = self.spans[ix];
        match self.in_quoted {
            true => &self.quoted.text[start..end],
            false => &self.lines.current()[start..end],
        }
    }

    /// Moves to the next record, passing over blank lines; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            if self.quoted.at < self.quoted.pending.len() && self.advance_quoted()? {
                return Ok(true);
            }
            if !self.lines.advance()? {
                return Ok(false);
            }
            self.line = self.lines.number();
            self.in_quoted = false;
            let line = self.lines.current();
            if line.is_empty() {
                continue;
            }
            match self.split {
                Split::Byte(_) if memchr2(b'"', b'\r', line).is_some() => self.quoted.load(line),
                Split::Byte(delimiter) => {
                    split_at(line, delimiter, &mut self.spans);
                    return Ok(true);
                }
                Split::Whitespace => {
                    split_words(line, &mut self.spans);
                    if !self.spans.is_empty() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// One record through the state machine, with as many lines as its quotes span.
    fn advance_quoted(&mut self) -> Result<bool, ReadError> {
        let (mut n_text, mut n_ends) = (0, 0);
        loop {
            let quoted = &mut self.quoted;
            let (result, read, text, ends) = quoted.machine.read_record(
                &quoted.pending[quoted.at..],
                &mut quoted.text[n_text..],
                &mut quoted.ends[n_ends..],
            );
            quoted.at += read;
            n_text += text;
            n_ends += ends;
            match result {
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull => self.grow_text()?,
                ReadRecordResult::OutputEndsFull => quoted.ends.resize(n_ends * 2, 0),
                // Between records: leave the state machine and split the next lines in place.
                ReadRecordResult::InputEmpty if n_text == 0 && n_ends == 0 && !self.within_quotes() => {
                    return Ok(false);
                }
                ReadRecordResult::InputEmpty => self.load_next_line()?,
            }
        }
        self.in_quoted = true;
        self.spans.clear();
        let starts = std::iter::once(0).chain(self.quoted.ends[..n_ends].iter().copied());
        self.spans.extend(starts.zip(self.quoted.ends[..n_ends].iter().copied()));
        Ok(true)
    }

    /// Whether the text just read ends inside an opened quote that has no character yet.
    fn within_quotes(&self) -> bool {
        self.quoted.pending.contains(&b'"')
    }

    /// At the end of the text the machine sees an empty input, which closes the record.
    fn load_next_line(&mut self) -> Result<(), ReadError> {
        match self.lines.advance().map_err(|error| error.cutting_off(true))? {
            true => self.quoted.load(self.lines.current()),
            false => self.quoted.clear(),
        }
        Ok(())
    }

    fn grow_text(&mut self) -> Result<(), ReadError> {
        let size = self.quoted.text.len();
        if size >= MAX_ROW_BYTES {
            let file = self.lines.file().to_owned();
            return Err(ReadError::TooLong { file, line: self.line, limit: MAX_ROW_BYTES });
        }
        self.quoted.text.resize(size * 2, 0);
        Ok(())
    }
}

impl Quoted {
    fn load(&mut self, line: &[u8]) {
        self.clear();
        self.pending.extend_from_slice(line);
        self.pending.push(b'\n');
    }

    fn clear(&mut self) {
        self.pending.clear();
        self.at = 0;
    }
}

#[inline]
fn split_at(line: &[u8], delimiter: u8, spans: &mut Vec<(usize, usize)>) {
    spans.clear();
    let mut start = 0;
    for end in memchr_iter(delimiter, line) {
        spans.push((start, end));
        start = end + 1;
    }
    spans.push((start, line.len()));
}

fn split_words(line: &[u8], spans: &mut Vec<(usize, usize)>) {
    spans.clear();
    let mut start = None;
    for (ix, byte) in line.iter().enumerate() {
        match (start, byte.is_ascii_whitespace()) {
            (None, false) => start = Some(ix),
            (Some(begin), true) => {
                spans.push((begin, ix));
                start = None;
            }
            _ => {}
        }
    }
    spans.extend(start.map(|begin| (begin, line.len())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(text: &[u8], split: Split) -> Vec<(u64, Vec<String>)> {
        let lines = Lines::new("f", Peek::new(Box::new(std::io::Cursor::new(text.to_vec()))));
        let mut records = Records::new(lines, split);
        let mut all = Vec::new();
        while records.advance().unwrap() {
            let cells = (0..records.len()).map(|ix| String::from_utf8_lossy(records.cell(ix)).into_owned());
            all.push((records.line(), cells.collect()));
        }
        all
    }

    fn cells(text: &str) -> Vec<Vec<String>> {
        records(text.as_bytes(), Split::Byte(b',')).into_iter().map(|(_, cells)| cells).collect()
    }

    #[test]
    fn quotes_may_hold_delimiters_quotes_and_line_ends() {
        assert_eq!(cells("a,\"b,c\"\n"), [["a", "b,c"]]);
        assert_eq!(cells("\"say \"\"x\"\"\",1\n2,3"), [["say \"x\"", "1"], ["2", "3"]]);
        assert_eq!(cells("\"two\nlines\",1\n5,6\n"), [["two\nlines", "1"], ["5", "6"]]);
        assert_eq!(cells("\"\n\",1\n5,6\n"), [["\n", "1"], ["5", "6"]]);
        assert_eq!(cells("\"never closed,1\n2,3"), [["never closed,1\n2,3\n"]]);
    }

    #[test]
    fn line_ends_of_every_kind_end_records() {
        assert_eq!(cells("1,2\r\n3,4\r\n"), [["1", "2"], ["3", "4"]]);
        assert_eq!(cells("1,2\r3,4\r"), [["1", "2"], ["3", "4"]]);
        assert_eq!(cells("\"1\",2\r\n\r\n3,4"), [["1", "2"], ["3", "4"]]);
    }

    #[test]
    fn records_know_the_line_on_which_they_start() {
        let all = records(b"1,2\n\n\"a\nb\",3\n4,5\n", Split::Byte(b','));
        assert_eq!(all.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn white_space_of_any_width_separates() {
        let all = records(b"  1   2\t3 \n   \n4 5 6", Split::Whitespace);
        assert_eq!(
            all,
            [(1, vec!["1".into(), "2".into(), "3".into()]), (3, vec!["4".into(), "5".into(), "6".into()])]
        );
    }

    proptest! {
        #[test]
        fn splitting_in_place_agrees_with_the_state_machine(text in "[a1,\"\n\r ]{0,60}") {
            let mut oracle = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
            let expected: Vec<Vec<String>> = oracle
                .byte_records()
                .map(|record| record.unwrap().iter().map(|c| String::from_utf8_lossy(c).replace('\r', "")).collect())
                .collect();
            // An unclosed quote is the one place where we differ: we may add the line end at its end.
            let found: Vec<Vec<String>> = cells(&text)
                .into_iter()
                .map(|record| record.into_iter().map(|cell| cell.replace('\r', "")).collect())
                .collect();
            let trim = |all: Vec<Vec<String>>| -> Vec<Vec<String>> {
                all.into_iter().map(|r| r.into_iter().map(|c| c.trim_end_matches('\n').to_owned()).collect()).collect()
            };
            prop_assert_eq!(trim(found), trim(expected));
        }
    }
}
