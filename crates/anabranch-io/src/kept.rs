//! Rows that go out again: cells that are passed through as they are, and bad rows in their place.

use anabranch::batch::Batch;

/// Columns that are passed through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// None.
    #[default]
    Nothing,
    /// Every column of the file, in its order.
    All,
    /// These, by name or 1-based position, in this order.
    Columns(Vec<String>),
}

/// A column that is passed through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptColumn {
    /// Its name, or its 1-based position in a file without names.
    pub name: String,
    /// Whether the file, or the model, says that its cells are numbers.
    pub is_number: bool,
}

/// Some rows of a stream, good and bad.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The good ones.
    pub batch: Batch,
    /// The places of the bad ones among all, ascending.
    pub bad: Vec<usize>,
    /// The cells of each column that is passed through, for all rows.
    pub kept: Vec<Cells>,
}

impl Rows {
    /// Good and bad ones.
    pub fn len(&self) -> usize {
        self.batch.n_rows() + self.bad.len()
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The cells of one column as text, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    text: String,
    /// Where each cell ends.
    ends: Vec<usize>,
}

impl Cells {
    /// A cell; empty where there is none.
    pub fn get(&self, ix: usize) -> &str {
        let start = if ix == 0 { 0 } else { self.ends[ix - 1] };
        &self.text[start..self.ends[ix]]
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there is no cell.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a cell.
    pub fn push(&mut self, cell: &str) {
        self.text.push_str(cell);
        self.ends.push(self.text.len());
    }

    /// Adds a cell of bytes; what is no text becomes the sign for that.
    pub(crate) fn push_bytes(&mut self, cell: &[u8]) {
        self.push(&String::from_utf8_lossy(cell));
    }

    /// Makes it so many cells: further ones are empty.
    pub(crate) fn set_len(&mut self, len: usize) {
        self.ends.resize(len, self.text.len());
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_were_put_in() {
        let mut cells = Cells::default();
        ["a", "", "länger"].iter().for_each(|cell| cells.push(cell));
        cells.set_len(5);
        assert_eq!((0..5).map(|ix| cells.get(ix)).collect::<Vec<_>>(), ["a", "", "länger", "", ""]);
        cells.set_len(1);
        cells.push("b");
        assert_eq!((cells.len(), cells.get(0), cells.get(1)), (2, "a", "b"));
    }
}
