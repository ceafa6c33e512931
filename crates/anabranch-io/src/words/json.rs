//! Documents as JSON lines: `{"tokens": ["sun", "rain"]}`, or `{"text": "Sun and rain."}`.
//!
//! Tokens are taken as they are; text goes through [`count_words`](super::count_words). Other fields are ignored.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Raw, RawReader, count_words};
use crate::error::{BadCell, ReadError};
use crate::input::Lines;
use crate::options::OnBadRow;

#[derive(Deserialize)]
struct Line {
    tokens: Option<Vec<String>>,
    text: Option<String>,
}

pub(super) struct JsonReader {
    lines: Lines,
    on_bad_row: OnBadRow,
    row: u64,
    skipped: u64,
}

impl JsonReader {
    pub(super) fn open(lines: Lines, on_bad_row: OnBadRow) -> Self {
        Self { lines, on_bad_row, row: 0, skipped: 0 }
    }
}

fn words(line: &[u8]) -> Result<BTreeMap<String, f64>, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match line {
        Line { tokens: Some(tokens), .. } => {
            let mut counts = BTreeMap::new();
            tokens.into_iter().for_each(|token| *counts.entry(token).or_default() += 1.0);
            Ok(counts)
        }
        Line { text: Some(text), .. } => Ok(count_words(&text)),
        _ => Err("it has neither \"tokens\" nor \"text\"".to_owned()),
    }
}

impl RawReader for JsonReader {
    fn n_words(&self) -> Option<usize> {
        None
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        while self.lines.advance()? {
            if self.lines.current().trim_ascii().is_empty() {
                continue;
            }
            self.row += 1;
            match (words(self.lines.current()), self.on_bad_row) {
                (Ok(words), _) => return Ok(Some(Raw::Words(words))),
                (Err(_), OnBadRow::Skip) => self.skipped += 1,
                (Err(detail), OnBadRow::Fail) => {
                    return Err(ReadError::BadRow {
                        file: self.lines.file().to_owned(),
                        row: self.row,
                        line: Some(self.lines.number()),
                        problem: BadCell::NotJson { detail },
                    });
                }
            }
        }
        Ok(None)
    }
}
