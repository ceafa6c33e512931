//! Sparse matrices of scipy, as `scipy.sparse.save_npz` writes them: one row a document, one column a word.
//!
//! ```text
//! words of row j: indices[indptr[j] .. indptr[j + 1]]     their counts: data[the same places]
//! ```

use bytes::Bytes;

use super::archive::Archive;
use super::{Entries, Raw, RawReader};
use crate::error::ReadError;
use crate::format::npy::read_column;
use crate::input::{Body, Opened};
use crate::options::Format;

pub(super) struct CsrReader {
    indptr: Vec<f64>,
    indices: Vec<f64>,
    data: Vec<f64>,
    n_words: usize,
    row: usize,
}

/// Reads the whole matrix: the directory of the archive stands at its end.
pub(super) fn open(file: &str, bytes: &[u8], limit: u64) -> Result<CsrReader, ReadError> {
    let bad = |detail: String| ReadError::bag(file, None, detail);
    let archive = Archive::open(bytes, limit).map_err(bad)?;
    let array = |name: &str| -> Result<Vec<f64>, ReadError> {
        let member = archive.read(&format!("{name}.npy")).map_err(bad)?;
        let member = member
            .ok_or_else(|| bad(format!("it has no array {name:?}: is it a sparse matrix of scipy?")))?;
        read_column(Opened {
            name: format!("{file}/{name}.npy"),
            format: Format::Npy,
            body: Body::Memory(Bytes::from(member)),
            limit,
        })
    };
    if let Some(kind) = archive.read("format.npy").map_err(bad)?
        && !kind.ends_with(b"csr")
    {
        return Err(bad("it is no matrix in csr format: write `matrix.tocsr()`".to_owned()));
    }
    let (indptr, indices, data, shape) =
        (array("indptr")?, array("indices")?, array("data")?, array("shape")?);
    let whole = |x: &f64| x.fract() == 0.0 && *x >= 0.0 && *x < 1e15;
    let [rows, n_words] = shape[..] else { return Err(bad("its shape is not two numbers".to_owned())) };
    if !whole(&rows) || !whole(&n_words) || indptr.len() as f64 != rows + 1.0 {
        return Err(bad("its rows are not those of its shape".to_owned()));
    }
    let ordered = indptr.first() == Some(&0.0) && indptr.windows(2).all(|pair| pair[0] <= pair[1]);
    if !indptr.iter().all(whole)
        || !ordered
        || indptr.last().copied() != Some(indices.len() as f64)
        || indices.len() != data.len()
    {
        return Err(bad("its rows do not fit its numbers".to_owned()));
    }
    if let Some(odd) = indices.iter().find(|word| !whole(word) || **word >= n_words) {
        return Err(bad(format!("word {odd} is not one of {n_words} columns")));
    }
    if let Some(odd) = data.iter().find(|count| !(count.is_finite() && **count >= 0.0)) {
        return Err(bad(format!("{odd} is no count of a word")));
    }
    Ok(CsrReader { indptr, indices, data, n_words: n_words as usize, row: 0 })
}

impl RawReader for CsrReader {
    fn n_words(&self) -> Option<usize> {
        Some(self.n_words)
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError> {
        if self.row + 1 >= self.indptr.len() {
            return Ok(None);
        }
        let range = self.indptr[self.row] as usize..self.indptr[self.row + 1] as usize;
        self.row += 1;
        let entries: Entries =
            self.indices[range.clone()].iter().zip(&self.data[range]).map(|(w, c)| (*w as u32, *c)).collect();
        Ok(Some(Raw::Numbers(entries)))
    }
}
