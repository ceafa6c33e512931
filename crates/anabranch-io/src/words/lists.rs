//! Bags of words as text: the UCI format and that of Blei's LDA-C.
//!
//! ```text
//! UCI     documents / words / entries, one a line, and then `document word count`, numbered from 1
//! LDA-C   `distinct words  word:count word:count …`, one document a line, words numbered from 0
//! ```

use super::{Entries, Raw, RawReader};
use crate::error::ReadError;
use crate::input::Lines;

/// A document as a line of LDA-C.
pub(super) fn line(entries: &Entries) -> String {
    let words = entries.iter().map(|(word, count)| format!(" {word}:{count}"));
    format!("{}{}\n", entries.len(), words.collect::<String>())
}

pub(super) struct UciReader {
    lines: Lines,
    n_words: usize,
    /// The first entry of the next document.
    ahead: Option<(u64, u32, f64)>,
    last: u64,
}

/// The next line that is not blank.
fn next_line(lines: &mut Lines) -> Result<bool, ReadError> {
    while lines.advance()? {
        if !lines.current().trim_ascii().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn bad(lines: &Lines, detail: impl Into<String>) -> ReadError {
    ReadError::bag(lines.file(), Some(lines.number()), detail.into())
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A count that a word of a document can have.
fn count(text: &[u8]) -> Option<f64> {
    number::<f64>(text).filter(|count| count.is_finite() && *count >= 0.0)
}

impl UciReader {
    /// Reads the three numbers at the top.
    pub(super) fn open(mut lines: Lines) -> Result<Self, ReadError> {
        let mut header = [0u64; 3];
        for place in &mut header {
            if !next_line(&mut lines)? {
                return Err(bad(&lines, "the file ends before its numbers of documents, words and entries"));
            }
            *place = number(lines.current().trim_ascii()).ok_or_else(|| {
                bad(&lines, "expected a number of documents, words or entries alone on its line")
            })?;
        }
        let n_words =
            usize::try_from(header[1]).map_err(|_| bad(&lines, "more words than any vocabulary has"))?;
        let mut reader = Self { lines, n_words, ahead: None, last: 0 };
        reader.ahead = reader.entry()?;
        Ok(reader)
    }

    fn entry(&mut self) -> Result<Option<(u64, u32, f64)>, ReadError> {
        if !next_line(&mut self.lines)? {
            return Ok(None);
        }
        let mut cells = self.lines.current().split(u8::is_ascii_whitespace).filter(|cell| !cell.is_empty());
        let cells = (cells.next(), cells.next(), cells.next(), cells.next());
        let (Some(document), Some(word), Some(times), None) = cells else {
            return Err(bad(&self.lines, "expected three numbers: document, word and count"));
        };
        let document = number::<u64>(document).filter(|document| *document > 0);
        let word = number::<u32>(word).filter(|word| *word > 0 && *word as usize <= self.n_words);
        let document = document.ok_or_else(|| bad(&self.lines, "documents are numbered from 1"))?;
        let word =
            word.ok_or_else(|| bad(&self.lines, format!("words are numbered from 1 to {}", self.n_words)))?;
        let times =
            count(times).ok_or_else(|| bad(&self.lines, "the count is not a number of at least 0"))?;
        Ok(Some((document, word - 1, times)))
    }
}

impl RawReader for UciReader {
    fn n_words(&self) -> Option<usize> {
        Some(self.n_words)
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        let Some((document, word, times)) = self.ahead.take() else { return Ok(None) };
        if document < self.last {
            return Err(bad(&self.lines, format!("document {document} comes after document {}", self.last)));
        }
        self.last = document;
        let mut entries: Entries = vec![(word, times)];
        // Only the next document shows that this one is complete.
        while let Some((of, word, times)) = self.entry().map_err(|error| error.cutting_off(true))? {
            if of != document {
                self.ahead = Some((of, word, times));
                break;
            }
            entries.push((word, times));
        }
        Ok(Some(Raw::Numbers(entries)))
    }
}

pub(super) struct LdacReader {
    lines: Lines,
}

impl LdacReader {
    pub(super) fn open(lines: Lines) -> Self {
        Self { lines }
    }
}

impl RawReader for LdacReader {
    fn n_words(&self) -> Option<usize> {
        None
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        if !next_line(&mut self.lines)? {
            return Ok(None);
        }
        let lines = &self.lines;
        let mut cells = lines.current().split(u8::is_ascii_whitespace).filter(|cell| !cell.is_empty());
        let promised: usize = cells
            .next()
            .and_then(number)
            .ok_or_else(|| bad(lines, "expected the number of distinct words at the beginning"))?;
        let entry = |cell: &[u8]| -> Option<(u32, f64)> {
            let colon = cell.iter().position(|byte| *byte == b':')?;
            Some((number(&cell[..colon])?, count(&cell[colon + 1..])?))
        };
        let entries: Option<Entries> = cells.map(entry).collect();
        let entries = entries.ok_or_else(|| bad(lines, "expected word:count, both numbers"))?;
        if entries.len() != promised {
            return Err(bad(lines, format!("has {} words and announces {promised}", entries.len())));
        }
        Ok(Some(Raw::Numbers(entries)))
    }
}
