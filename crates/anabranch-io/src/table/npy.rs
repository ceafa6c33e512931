//! Tables as an array of numpy: numbers alone, NaN where there is none.
//!
//! A table of one column of whole numbers is an array of those, with −1 where there is none. The header tells how many rows there are:
//! it is written last, over the first bytes. Where these cannot be written over, rows wait in a temporary file until all are known.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};

use super::file::NewFile;
use super::{Block, Field, Kind, Values};

/// Bytes of the header, whatever it says.
const HEADER: usize = 128;

/// Rows that wait for their number.
pub(super) struct Npy {
    out: NewFile,
    /// Where they wait, if not in `out`.
    rows: Option<BufWriter<File>>,
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
    let width = block.columns.len();
    let mut out = vec![[0; 8]; block.rows * width];
    if let (true, [Values::Integers(cells)]) = (are_integers(fields), &block.columns[..]) {
        fill(&mut out, 1, cells, |cell| {
            cell.and_then(|value| i64::try_from(value).ok()).unwrap_or(-1).to_le_bytes()
        });
        return out.into_flattened();
    }
    for (column, values) in block.columns.iter().enumerate() {
        let out = out.get_mut(column..).unwrap_or_default();
        let number = |value: Option<f64>| value.unwrap_or(f64::NAN).to_le_bytes();
        match values {
            Values::Integers(values) => {
                fill(out, width, values, |value| number(value.map(|value| value as f64)))
            }
            Values::Numbers(values) => fill(out, width, values, |value| number(*value)),
            Values::Flags(values) => {
                fill(out, width, values, |flag| number(flag.map(|flag| f64::from(u8::from(flag)))))
            }
            Values::Cells(values) => {
                out.iter_mut().step_by(width).enumerate().for_each(|(row, cell)| {
                    *cell = number(values.get(row).trim().parse().ok());
                });
            }
        }
    }
    out.into_flattened()
}

fn fill<T>(out: &mut [[u8; 8]], width: usize, values: &[T], bytes: impl Fn(&T) -> [u8; 8]) {
    out.iter_mut().step_by(width).zip(values).for_each(|(cell, value)| *cell = bytes(value));
}

impl Npy {
    pub(super) fn new(mut out: NewFile, fields: &[Field]) -> io::Result<Self> {
        let rows = match out.that_goes_back() {
            Some(file) => {
                file.write_all(&[0; HEADER])?;
                None
            }
            None => Some(BufWriter::new(tempfile::tempfile()?)),
        };
        Ok(Self { out, rows, bytes: 0, columns: fields.len(), integers: are_integers(fields) })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        match &mut self.rows {
            None => self.out.write_all(bytes),
            Some(rows) => rows.write_all(bytes),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let rows = self.bytes / (8 * self.columns as u64);
        let shape =
            if self.columns == 1 { format!("({rows},)") } else { format!("({rows}, {})", self.columns) };
        let header = header(if self.integers { "<i8" } else { "<f8" }, &shape);
        match (self.out.that_goes_back(), self.rows) {
            (Some(file), None) => file.write_over_start(&header)?,
            (_, waiting) => {
                self.out.write_all(&header)?;
                if let Some(waiting) = waiting {
                    let mut waiting = waiting.into_inner().map_err(io::IntoInnerError::into_error)?;
                    waiting.rewind()?;
                    io::copy(&mut BufReader::with_capacity(1 << 18, waiting), &mut self.out)?;
                }
            }
        }
        self.out.finish()
    }
}

/// Version 1.0 of the format: magic, length of the dictionary, dictionary filled up with spaces.
fn header(kind: &str, shape: &str) -> Vec<u8> {
    let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(((HEADER - 10) as u16).to_le_bytes());
    out.extend(dictionary.as_bytes());
    out.resize(HEADER - 1, b' ');
    out.push(b'\n');
    out
}
