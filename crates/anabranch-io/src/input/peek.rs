//! A stream whose first bytes can be looked at before they are read.

use std::io::{self, Read};

/// Bytes that come once, with a look ahead.
pub(crate) struct Peek {
    head: Vec<u8>,
    /// How much of `head` has been read.
    at: usize,
    inner: Box<dyn Read + Send>,
}

impl Peek {
    pub(crate) fn new(inner: Box<dyn Read + Send>) -> Self {
        Self { head: Vec::new(), at: 0, inner }
    }

    /// The next `wanted` bytes, or fewer at the end. They are still to be read.
    pub(crate) fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while self.head.len() - self.at < wanted && self.more()? {}
        let end = self.head.len().min(self.at + wanted);
        Ok(&self.head[self.at..end])
    }

    /// The next bytes up to and with the `n`-th line end, at most `limit` bytes. Waits for no more
    /// than that, so a pipe that is written line by line is not held up.
    pub(crate) fn peek_lines(&mut self, n: usize, limit: usize) -> io::Result<&[u8]> {
        loop {
            let ahead = &self.head[self.at..];
            let end = memchr::memchr_iter(b'\n', ahead).nth(n - 1);
            if end.is_some() || ahead.len() >= limit || !self.more()? {
                break;
            }
        }
        let ahead = &self.head[self.at..];
        let end = memchr::memchr_iter(b'\n', ahead).nth(n - 1).map_or(ahead.len(), |ix| ix + 1);
        Ok(&ahead[..end.min(limit)])
    }

    /// The bytes that are here already: nothing is waited for.
    pub(crate) fn here(&self) -> &[u8] {
        &self.head[self.at..]
    }

    /// Passes over bytes that were peeked.
    pub(crate) fn consume(&mut self, n: usize) {
        self.at = self.head.len().min(self.at + n);
    }

    /// Reads another piece into the head; false at the end.
    fn more(&mut self) -> io::Result<bool> {
        let mut piece = [0; 4096];
        let n = read_some(&mut self.inner, &mut piece)?;
        self.head.extend_from_slice(&piece[..n]);
        Ok(n > 0)
    }
}

impl Read for Peek {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let ahead = &self.head[self.at..];
        if ahead.is_empty() {
            return self.inner.read(out);
        }
        let n = ahead.len().min(out.len());
        out[..n].copy_from_slice(&ahead[..n]);
        self.at += n;
        if self.at == self.head.len() {
            self.head = Vec::new();
            self.at = 0;
        }
        Ok(n)
    }
}

/// One read, repeated when a signal interrupts it.
pub(crate) fn read_some(inner: &mut dyn Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match inner.read(out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peeked_bytes_are_still_read() {
        let mut peek = Peek::new(Box::new(&b"one\ntwo\nthree"[..]));
        assert_eq!(peek.peek(2).unwrap(), b"on");
        assert_eq!(peek.peek_lines(2, 100).unwrap(), b"one\ntwo\n");
        assert_eq!(peek.peek_lines(9, 100).unwrap(), b"one\ntwo\nthree");
        assert_eq!(peek.peek_lines(2, 5).unwrap(), b"one\nt");
        peek.consume(4);
        let mut rest = String::new();
        peek.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\nthree");
    }
}
