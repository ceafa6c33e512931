//! Documents as JSON lines: `{"tokens": ["sun", "rain"]}`, or `{"text": "Sun and rain."}`, or a field that is named.
//!
//! Tokens are taken as they are; text goes through the [`Tokenizer`](super::Tokenizer). Other fields are ignored.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Raw, RawReader};
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
    /// The field that holds the document.
    field: Option<String>,
    on_bad_row: OnBadRow,
    row: u64,
    skipped: u64,
}

impl JsonReader {
    pub(super) fn open(lines: Lines, field: Option<String>, on_bad_row: OnBadRow) -> Self {
        Self { lines, field, on_bad_row, row: 0, skipped: 0 }
    }
}

fn document(line: &[u8], field: Option<&str>) -> Result<Raw, String> {
    let counted = |tokens: Vec<String>| {
        let mut counts = BTreeMap::new();
        tokens.into_iter().for_each(|token| *counts.entry(token).or_default() += 1.0);
        Raw::Words(counts)
    };
    if let Some(field) = field {
        let mut line: Map<String, Value> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        return match line.remove(field) {
            Some(Value::String(text)) => Ok(Raw::Text(text)),
            Some(list @ Value::Array(_)) => match serde_json::from_value(list) {
                Ok(tokens) => Ok(counted(tokens)),
                Err(_) => Err(format!("{field:?} holds something that is no text")),
            },
            Some(_) => Err(format!("{field:?} is neither text nor a list of words")),
            None => Err(format!("it has no {field:?}")),
        };
    }
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match line {
        Line { tokens: Some(tokens), .. } => Ok(counted(tokens)),
        Line { text: Some(text), .. } => Ok(Raw::Text(text)),
        _ => Err("it has neither \"tokens\" nor \"text\"".to_owned()),
    }
}

/// A document as such a line.
pub(super) fn line(words: &BTreeMap<String, f64>) -> String {
    let tokens: Vec<&str> =
        words.iter().flat_map(|(word, count)| std::iter::repeat_n(word.as_str(), *count as usize)).collect();
    serde_json::json!({ "tokens": tokens }).to_string() + "\n"
}

/// A text as such a line.
pub(super) fn text_line(text: &str) -> String {
    serde_json::json!({ "text": text }).to_string() + "\n"
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
            match (document(self.lines.current(), self.field.as_deref()), self.on_bad_row) {
                (Ok(document), _) => return Ok(Some(document)),
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
