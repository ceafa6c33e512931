//! Tables as an array of numpy: numbers alone, NaN where there is none.
//!
//! A table of one column of whole numbers is an array of those, with −1 where there is none. The header tells how many rows there are,
//! so that rows wait in a temporary file until all are known.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};

use super::file::NewFile;
use super::{Block, Field, Kind, Values};

/// Rows that wait for their number.
pub(super) struct Npy {
    out: NewFile,
    rows: BufWriter<File>,
    bytes: u64,
    columns: usize,
    integers: bool,
}

/// One column of whole numbers.
fn are_integers(fields: &[Field]) -> bool {
    matches!(fields, [field] if field.kind == Kind::Integer)
}

/// The numbers of a block, row after row.
pub(super) fn encode(fields: &[Field], block: &Block) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.rows * fields.len() * 8);
    if let (true, [Values::Integers(cells)]) = (are_integers(fields), &block.columns[..]) {
        let number = |cell: &Option<u64>| cell.and_then(|value| i64::try_from(value).ok()).unwrap_or(-1);
        cells.iter().for_each(|cell| out.extend(number(cell).to_le_bytes()));
        return out;
    }
    for row in 0..block.rows {
        for values in &block.columns {
            let value = match values {
                Values::Integers(cells) => cells[row].map(|value| value as f64),
                Values::Numbers(cells) => cells[row],
                Values::Flags(cells) => cells[row].map(|flag| f64::from(u8::from(flag))),
                Values::Cells(cells) => cells.get(row).trim().parse().ok(),
            };
            out.extend(value.unwrap_or(f64::NAN).to_le_bytes());
        }
    }
    out
}

impl Npy {
    pub(super) fn new(out: NewFile, fields: &[Field]) -> io::Result<Self> {
        let rows = BufWriter::new(tempfile::tempfile()?);
        Ok(Self { out, rows, bytes: 0, columns: fields.len(), integers: are_integers(fields) })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.rows.write_all(bytes)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let rows = self.bytes / (8 * self.columns as u64);
        let shape =
            if self.columns == 1 { format!("({rows},)") } else { format!("({rows}, {})", self.columns) };
        let kind = if self.integers { "<i8" } else { "<f8" };
        self.out.write_all(&header(kind, &shape))?;
        let mut waiting = self.rows.into_inner().map_err(io::IntoInnerError::into_error)?;
        waiting.rewind()?;
        io::copy(&mut BufReader::with_capacity(1 << 18, waiting), &mut self.out)?;
        self.out.finish()
    }
}

/// Version 1.0 of the format: magic, length of the dictionary, dictionary padded to a multiple of 64 bytes.
fn header(kind: &str, shape: &str) -> Vec<u8> {
    let mut dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let unpadded = 10 + dictionary.len() + 1;
    dictionary.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    dictionary.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((dictionary.len() as u16).to_le_bytes());
    out.extend(dictionary.as_bytes());
    out
}
