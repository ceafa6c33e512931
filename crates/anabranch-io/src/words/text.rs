//! Documents as text: one a line, the files of a folder, or a column of a table.
//!
//! Bytes that are no text are read as the sign for that, which is part of no word. Blank lines are no documents.

use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Raw, RawReader};
use crate::error::ReadError;
use crate::format::{self, Pick, Role};
use crate::input::{self, Lines, MAX_ROW_BYTES, Opened};
use crate::kept::{Cells, KeptColumn};
use crate::options::{Format, Input, OnBadRow, ReadOptions};
use crate::rows::{Categories, Sink};
use crate::schema::Schema;

/// Rows of a table that are read at a time: each may be as long as a row can be.
const AT_ONCE: usize = 16;

/// One document a line.
pub(super) struct LineReader(pub(super) Lines);

impl RawReader for LineReader {
    fn n_words(&self) -> Option<usize> {
        None
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        while self.0.advance()? {
            let line = self.0.current();
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Raw::Text(String::from_utf8_lossy(line).into_owned())));
            }
        }
        Ok(None)
    }
}

/// The files of a folder whose names end in `.txt`, packed or not, in the order of their names; each is one document.
pub(super) struct FolderReader {
    files: VecDeque<PathBuf>,
}

impl FolderReader {
    pub(super) fn open(folder: &Path) -> Result<Self, ReadError> {
        let name = folder.display().to_string();
        let list = || -> std::io::Result<Vec<PathBuf>> {
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
        };
        let is_text = |path: &PathBuf| {
            let name = path.to_string_lossy().to_ascii_lowercase();
            [".txt", ".txt.gz", ".txt.zst"].iter().any(|end| name.ends_with(end)) && path.is_file()
        };
        let mut files = list().map_err(|error| ReadError::io(&name, error))?;
        files.retain(is_text);
        files.sort_unstable();
        if files.is_empty() {
            return Err(ReadError::bag(&name, None, "the folder has no files that end in .txt".to_owned()));
        }
        Ok(Self { files: files.into() })
    }
}

impl RawReader for FolderReader {
    fn n_words(&self) -> Option<usize> {
        None
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        let Some(path) = self.files.pop_front() else { return Ok(None) };
        let mut bytes = Vec::new();
        // The format only silences the guess of the reader of tables.
        if let Some(opened) = input::open(&Input::Path(path), Some(Format::Csv), None, None, None)? {
            let stream = opened.body.into_stream().take(MAX_ROW_BYTES as u64 + 1);
            let read =
                { stream }.read_to_end(&mut bytes).map_err(|error| ReadError::io(&opened.name, error))?;
            if read > MAX_ROW_BYTES {
                return Err(ReadError::too_large(&opened.name, "the document", MAX_ROW_BYTES as u64));
            }
        }
        Ok(Some(Raw::Text(String::from_utf8_lossy(&bytes).into_owned())))
    }
}

/// A column of a table, one document a row.
pub(super) struct ColumnReader {
    reader: Box<dyn format::Reader>,
    sink: Sink,
    bad: VecDeque<usize>,
    cells: Cells,
    at: usize,
}

impl ColumnReader {
    /// `None` when the table has neither columns nor rows.
    pub(super) fn open(
        opened: Opened,
        column: &str,
        on_bad_row: OnBadRow,
        max_memory: Option<u64>,
    ) -> Result<Option<Self>, ReadError> {
        let (file, options) = (opened.name.clone(), ReadOptions { max_memory, ..ReadOptions::default() });
        let Some(mut reader) = format::reader(opened, &options)? else { return Ok(None) };
        let ix = reader.header().require(column, &file)?;
        let sink = Sink::new(Schema::default(), Categories::Open, on_bad_row)
            .keeping(vec![KeptColumn { name: column.to_owned(), is_number: false }]);
        reader.select(&[Pick { ix, role: Role::Kept }])?;
        Ok(Some(Self { reader, sink, bad: VecDeque::new(), cells: Cells::default(), at: 0 }))
    }
}

impl RawReader for ColumnReader {
    fn n_words(&self) -> Option<usize> {
        None
    }

    fn skipped(&self) -> u64 {
        self.sink.skipped()
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        loop {
            while self.at < self.cells.len() {
                let at = self.at;
                self.at += 1;
                if self.bad.front() == Some(&at) {
                    self.bad.pop_front();
                    continue;
                }
                return Ok(Some(Raw::Text(self.cells.get(at).to_owned())));
            }
            self.reader.read(AT_ONCE, &mut self.sink)?;
            let (bad, mut cells) = self.sink.take_kept();
            self.sink.discard();
            (self.bad, self.at) = (bad.into(), 0);
            self.cells = cells.pop().unwrap_or_default();
            if self.cells.is_empty() {
                return Ok(None);
            }
        }
    }
}
