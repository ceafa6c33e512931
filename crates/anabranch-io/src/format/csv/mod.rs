//! Text with a delimiter: csv, tsv and columns separated by white space.

mod ahead;
mod records;
mod sniff;

use ahead::{Ahead, Layout, Piece};
use records::{Records, Split};

use super::{Pick, Reader};
use crate::error::{BadCell, ReadError};
use crate::input::{Lines, Opened, Peek};
use crate::options::{Format, ReadOptions};
use crate::rows::{Place, Sink, is_missing_word};
use crate::select::{Header, MAX_COLUMNS};

/// Bytes looked at to find the delimiter.
const SNIFFED_BYTES: usize = 64 << 10;

/// Rows that are read one after another before threads are started to parse ahead: most files end before.
const ROWS_ALONE: u64 = 10_000;

struct CsvReader {
    /// Text that is gone through line by line.
    records: Records,
    ahead: Parsing,
    /// Good rows that were parsed ahead, and how many of their numbers have been read.
    parsed: Vec<f64>,
    parsed_at: usize,
    /// Lines before those of `records`, once text is parsed ahead.
    lines: u64,
    header: Header,
    picks: Vec<Pick>,
    /// The current record is the first row of data and has not been read yet.
    held: bool,
    /// Rows seen, good and bad.
    row: u64,
    /// The last reading ended because the input pauses.
    paused: bool,
}

/// Whether text is parsed ahead.
enum Parsing {
    /// Not yet: there may be few rows.
    Later,
    Ahead(Ahead),
    /// Line by line to the end.
    Here,
}

/// Reads the delimiter and the header. `None` when there is no record at all.
pub(super) fn open(opened: Opened, options: &ReadOptions) -> Result<Option<Box<dyn Reader>>, ReadError> {
    let name = opened.name.clone();
    let mut records = open_records(opened, options)?;
    if !records.advance()? {
        return Ok(None);
    }
    let has_header = options.has_header.unwrap_or_else(|| looks_like_a_header(&records));
    let header = read_header(&records, has_header, &name)?;
    Ok(Some(Box::new(CsvReader {
        records,
        ahead: Parsing::Later,
        parsed: Vec::new(),
        parsed_at: 0,
        lines: 0,
        header,
        picks: Vec::new(),
        held: !has_header,
        row: 0,
        paused: false,
    })))
}

/// All cells of a text that has one column, each with its line. There is no header here.
pub(crate) fn read_single_column(
    opened: Opened,
    options: &ReadOptions,
) -> Result<Vec<(u64, String)>, ReadError> {
    let mut records = open_records(opened, options)?;
    let mut cells = Vec::new();
    while records.advance()? {
        if records.len() != 1 {
            return Err(ReadError::BadRow {
                file: records.file().to_owned(),
                row: cells.len() as u64 + 1,
                line: Some(records.line()),
                problem: BadCell::Ragged { expected: 1, found: records.len() },
            });
        }
        cells.push((records.line(), String::from_utf8_lossy(records.cell(0)).trim().to_owned()));
    }
    Ok(cells)
}

/// Passes over a byte order mark and finds the delimiter.
fn open_records(opened: Opened, options: &ReadOptions) -> Result<Records, ReadError> {
    let name = opened.name;
    let mut stream = opened.body.into_stream();
    let failed = |error| ReadError::io(&name, error);
    if stream.peek(3).map_err(failed)? == b"\xef\xbb\xbf" {
        stream.consume(3);
    }
    let split = match (options.delimiter, opened.format) {
        (Some(b' '), _) => Split::Whitespace,
        (Some(delimiter), _) => Split::Byte(delimiter),
        (None, Format::Tsv) => Split::Byte(b'\t'),
        (None, _) => sniff::delimiter(stream.peek_lines(2, SNIFFED_BYTES).map_err(failed)?),
    };
    Ok(Records::new(Lines::new(&name, stream), split))
}

/// The first record is a header when some cell is a word: no number, and no word for a missing one.
fn looks_like_a_header(records: &Records) -> bool {
    (0..records.len()).any(|ix| {
        let cell = records.cell(ix).trim_ascii();
        !is_missing_word(cell) && fast_float2::parse::<f64, _>(cell).is_err()
    })
}

fn read_header(records: &Records, has_header: bool, name: &str) -> Result<Header, ReadError> {
    if records.len() > MAX_COLUMNS {
        let detail = format!("{} columns are more than {MAX_COLUMNS}", records.len());
        return Err(ReadError::damaged(name, Format::Csv, detail));
    }
    if !has_header {
        return Ok(Header::numbered(records.len()));
    }
    let text = |ix| String::from_utf8_lossy(records.cell(ix)).trim().to_owned();
    Header::named((0..records.len()).map(text).collect(), name)
}

impl CsvReader {
    fn place(&self) -> Place<'_> {
        Place { file: self.records.file(), row: self.row, line: Some(self.records.line()) }
    }

    fn read_record(&self, sink: &mut Sink) -> Result<(), ReadError> {
        let (expected, found) = (self.header.width(), self.records.len());
        if found != expected && self.row == 1 && self.header.begins_with_a_mark() {
            return Err(ReadError::Comment { file: self.records.file().to_owned(), expected, found });
        }
        if found != expected {
            return sink.reject_row(self.place(), BadCell::Ragged { expected, found });
        }
        for (slot, pick) in self.picks.iter().enumerate() {
            let cell = self.records.cell(pick.ix);
            if let Err(flaw) = sink.text(slot, cell) {
                let value = String::from_utf8_lossy(cell.trim_ascii());
                return sink.reject_cell(self.place(), flaw, self.header.column(pick.ix), &value);
            }
        }
        sink.finish_row();
        Ok(())
    }

    /// Starts to parse ahead when that is worth it and possible.
    fn start_ahead(&mut self, keeps_missing: bool) {
        let layout = match self.records.plain_delimiter() {
            Some(delimiter) => Layout::new(delimiter, self.header.width(), &self.picks, keeps_missing),
            None => None,
        };
        let Some(layout) = layout else {
            self.ahead = Parsing::Here;
            return;
        };
        let Some((stream, lines)) = self.records.hand_over() else { return };
        self.lines = lines;
        match Ahead::start(stream, layout) {
            Ok(ahead) => self.ahead = Parsing::Ahead(ahead),
            Err(stream) => self.go_on_with(stream),
        }
    }

    /// Line by line from here on.
    fn go_on_with(&mut self, stream: Peek) {
        self.ahead = Parsing::Here;
        self.records.replace(stream, self.lines);
    }

    /// The next piece of what is parsed ahead; false when there is none.
    fn next_piece(&mut self) -> Result<bool, ReadError> {
        let Parsing::Ahead(ahead) = &mut self.ahead else { return Ok(false) };
        match ahead.next() {
            Piece::Rows { values, lines } => {
                (self.parsed, self.parsed_at) = (values, 0);
                self.lines += lines;
            }
            Piece::Text(text) => {
                let lines = memchr::memchr_iter(b'\n', &text).count() as u64;
                self.records.replace(Peek::new(Box::new(std::io::Cursor::new(text))), self.lines);
                self.lines += lines;
            }
            Piece::Rest(stream) => self.go_on_with(stream),
            Piece::Failed(error, within_line) => {
                return Err(ReadError::io(self.records.file(), error).cutting_off(within_line));
            }
            Piece::End => {
                self.ahead = Parsing::Here;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether what comes next would have to be waited for, apart from what is parsed ahead.
    fn must_wait(&self) -> bool {
        let here = self.parsed_at < self.parsed.len() || self.held;
        !here && !matches!(self.ahead, Parsing::Ahead(_)) && !self.records.has_line()
    }

    /// Takes rows that were parsed ahead, up to `target` of them in the sink.
    fn take_parsed(&mut self, target: usize, sink: &mut Sink) {
        let width = self.picks.len();
        let rows = (target - sink.rows()).min((self.parsed.len() - self.parsed_at) / width);
        let end = self.parsed_at + rows * width;
        sink.good_rows(&self.parsed[self.parsed_at..end]);
        self.parsed_at = end;
        self.row += rows as u64;
    }
}

impl Reader for CsvReader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn select(&mut self, picks: &[Pick]) -> Result<(), ReadError> {
        self.picks = picks.to_vec();
        Ok(())
    }

    fn paused(&self) -> bool {
        self.paused
    }

    fn read(&mut self, target: usize, sink: &mut Sink) -> Result<(), ReadError> {
        self.paused = false;
        while sink.rows() < target {
            let hands_out = sink.hands_out_early() && sink.rows() > 0;
            if hands_out && self.must_wait() {
                self.paused = true;
                break;
            }
            if self.parsed_at < self.parsed.len() {
                self.take_parsed(target, sink);
            } else if std::mem::take(&mut self.held) || self.records.advance()? {
                self.row += 1;
                self.read_record(sink)?;
                if self.row >= ROWS_ALONE && matches!(self.ahead, Parsing::Later) {
                    self.start_ahead(sink.keeps_missing());
                }
            } else if let (true, Parsing::Ahead(ahead)) = (hands_out, &mut self.ahead)
                && !ahead.is_ready()
            {
                self.paused = true;
                break;
            } else if !self.next_piece()? {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Peek;

    fn first(text: &str) -> Records {
        let lines = Lines::new("f", Peek::new(Box::new(std::io::Cursor::new(text.to_owned().into_bytes()))));
        let mut records = Records::new(lines, Split::Byte(b','));
        assert!(records.advance().unwrap());
        records
    }

    #[test]
    fn a_header_has_a_word() {
        for header in ["x,y", "x,2", "1,y", "\"x\",1"] {
            assert!(looks_like_a_header(&first(header)), "{header}");
        }
        for row in ["1,2", "1,", "NA,1", "nan,inf", "1e5, -2 ", "null,1", "\"1\",2"] {
            assert!(!looks_like_a_header(&first(row)), "{row}");
        }
    }
}
