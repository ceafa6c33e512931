//! Lines of a stream, one at a time in one reused buffer.

use std::io::{self, Read};

use memchr::memchr;

use super::Peek;
use super::peek::read_some;
use crate::error::ReadError;

/// The longest row of text: more is a file of another kind or a quote never closed.
pub(crate) const MAX_ROW_BYTES: usize = 16 << 20;

const FIRST_BUFFER: usize = 256 << 10;

/// The lines of a stream.
pub(crate) struct Lines {
    file: String,
    inner: Peek,
    buffer: Vec<u8>,
    /// The current line is `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Where the next line starts.
    next: usize,
    /// `buffer[..filled]` holds bytes of the stream.
    filled: usize,
    ended: bool,
    number: u64,
}

impl Lines {
    /// Lines of `inner`; `file` is for messages.
    pub(crate) fn new(file: &str, inner: Peek) -> Self {
        Self {
            file: file.to_owned(),
            inner,
            buffer: vec![0; FIRST_BUFFER],
            start: 0,
            end: 0,
            next: 0,
            filled: 0,
            ended: false,
            number: 0,
        }
    }

    /// Gives away what comes after the current line, with the number of lines before that.
    pub(crate) fn hand_over(&mut self) -> (Peek, u64) {
        let nothing = Peek::new(Box::new(io::empty()));
        let rest = self.buffer[self.next..self.filled].to_vec();
        let inner = std::mem::replace(&mut self.inner, nothing);
        self.ended = true;
        (self.start, self.end, self.next, self.filled) = (0, 0, 0, 0);
        (Peek::new(Box::new(io::Cursor::new(rest).chain(inner))), self.number)
    }

    /// Goes on with another stream, which has this many lines before it.
    pub(crate) fn replace(&mut self, inner: Peek, lines_before: u64) {
        self.inner = inner;
        self.number = lines_before;
        self.ended = false;
        (self.start, self.end, self.next, self.filled) = (0, 0, 0, 0);
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The number of the current line, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The current line without its end (`\n` or `\r\n`).
    #[inline]
    pub(crate) fn current(&self) -> &[u8] {
        let line = &self.buffer[self.start..self.end];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Whether the next line is here already, or there is none.
    pub(crate) fn has_line(&self) -> bool {
        self.ended || memchr(b'\n', &self.buffer[self.next..self.filled]).is_some()
    }

    /// Moves to the next line; false at the end of the stream.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, ReadError> {
        self.start = self.next;
        match memchr(b'\n', &self.buffer[self.start..self.filled]) {
            Some(offset) => {
                self.end_line(self.start + offset);
                Ok(true)
            }
            None => self.advance_past_the_buffer(),
        }
    }

    fn end_line(&mut self, end: usize) {
        self.end = end;
        self.next = self.filled.min(end + 1);
        self.number += 1;
    }

    fn advance_past_the_buffer(&mut self) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        let mut searched = self.filled;
        while self.fill()? {
            if let Some(offset) = memchr(b'\n', &self.buffer[searched..self.filled]) {
                self.end_line(searched + offset);
                return Ok(true);
            }
            searched = self.filled;
        }
        let more = self.filled > 0;
        if more {
            self.end_line(self.filled);
        } else {
            (self.end, self.next) = (0, 0);
        }
        Ok(more)
    }

    /// Reads on; false at the end of the stream.
    fn fill(&mut self) -> Result<bool, ReadError> {
        if self.ended {
            return Ok(false);
        }
        if self.filled == self.buffer.len() {
            if self.filled >= MAX_ROW_BYTES {
                let line = self.number + 1;
                return Err(ReadError::TooLong { file: self.file.clone(), line, limit: MAX_ROW_BYTES });
            }
            self.buffer.resize(self.filled * 2, 0);
        }
        let n = read_some(&mut self.inner, &mut self.buffer[self.filled..])
            .map_err(|error| ReadError::io(&self.file, error).cutting_off(self.filled > self.start))?;
        self.filled += n;
        self.ended = n == 0;
        Ok(n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Lines::new("f", Peek::new(Box::new(std::io::Cursor::new(text.to_vec()))));
        let mut all = Vec::new();
        while lines.advance().unwrap() {
            all.push((lines.number(), lines.current().to_vec()));
        }
        assert!(!lines.advance().unwrap());
        all
    }

    #[test]
    fn line_ends_of_both_kinds_are_removed() {
        let expected = vec![(1, b"a".to_vec()), (2, b"b".to_vec()), (3, vec![]), (4, b"c".to_vec())];
        assert_eq!(lines(b"a\nb\r\n\nc"), expected);
        assert_eq!(lines(b"a\nb\r\n\nc\n"), expected);
        assert_eq!(lines(b""), vec![]);
    }

    #[test]
    fn lines_longer_than_the_buffer_are_whole() {
        let long = vec![b'x'; 3 * FIRST_BUFFER + 7];
        let text = [b"short\n", &long[..], b"\nend\n"].concat();
        let all = lines(&text);
        assert_eq!(all[1].1, long);
        assert_eq!(all[2], (3, b"end".to_vec()));
    }

    #[test]
    fn an_endless_line_is_refused() {
        let endless = Peek::new(Box::new(std::io::repeat(b'x')));
        let error = Lines::new("f", endless).advance().unwrap_err();
        assert_eq!(error.to_string(), "f: the row at line 1 is longer than 16777216 bytes");
    }
}
