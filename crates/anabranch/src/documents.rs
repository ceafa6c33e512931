//! Bags of words, checked once at the edge: what topics are learned from.
//!
//! A document is the list of its distinct words, ascending, with their counts. Nothing here is as long as the
//! vocabulary, however many words that has.

use thiserror::Error;

use crate::batch::Minibatch;

/// Some documents over one vocabulary. Words are numbers below [`Documents::n_words`].
///
/// ```
/// use anabranch::documents::Documents;
/// let documents = Documents::new(5, [vec![(0, 2.0), (3, 1.0)], vec![(4, 1.0)]]).unwrap();
/// assert_eq!(documents.len(), 2);
/// assert_eq!(documents.tokens(), 4.0);
/// assert_eq!(documents.words(0), &[0, 3]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Documents {
    n_words: usize,
    /// Where each document begins, and where the last one ends.
    starts: Vec<usize>,
    words: Vec<u32>,
    counts: Vec<f64>,
}

/// Why a list of words is not a document.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum DocumentError {
    /// A word is not in the vocabulary.
    #[error("document {document}: word {word} is not below {n_words}, the size of the vocabulary")]
    Word {
        /// Document, from 0.
        document: usize,
        /// The offending word.
        word: u32,
        /// Words of the vocabulary.
        n_words: usize,
    },
    /// The words are not strictly ascending.
    #[error("document {document}: word {word} is out of order or appears twice")]
    Order {
        /// Document, from 0.
        document: usize,
        /// The offending word.
        word: u32,
    },
    /// A count is zero, negative or not finite.
    #[error("document {document}: word {word} has the count {count}, which is not a finite number above 0")]
    Count {
        /// Document, from 0.
        document: usize,
        /// The word.
        word: u32,
        /// The offending count.
        count: f64,
    },
}

impl Documents {
    /// Checks documents that are given as `(word, count)`, ascending in the words.
    pub fn new(
        n_words: usize,
        documents: impl IntoIterator<Item = Vec<(u32, f64)>>,
    ) -> Result<Self, DocumentError> {
        let mut all = Self::none(n_words);
        for document in documents {
            all.push(&document)?;
        }
        Ok(all)
    }

    /// No documents yet.
    pub fn none(n_words: usize) -> Self {
        Self { n_words, starts: vec![0], words: Vec::new(), counts: Vec::new() }
    }

    /// Adds one document, ascending in the words.
    pub fn push(&mut self, entries: &[(u32, f64)]) -> Result<(), DocumentError> {
        let document = self.len();
        for (ix, &(word, count)) in entries.iter().enumerate() {
            if word as usize >= self.n_words {
                return Err(DocumentError::Word { document, word, n_words: self.n_words });
            }
            if ix > 0 && entries[ix - 1].0 >= word {
                return Err(DocumentError::Order { document, word });
            }
            if !(count.is_finite() && count > 0.0) {
                return Err(DocumentError::Count { document, word, count });
            }
        }
        self.words.extend(entries.iter().map(|(word, _)| *word));
        self.counts.extend(entries.iter().map(|(_, count)| *count));
        self.starts.push(self.words.len());
        Ok(())
    }

    /// Words of the vocabulary.
    pub fn n_words(&self) -> usize {
        self.n_words
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// True when there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Words in all documents, repeated ones counted as often as they occur.
    pub fn tokens(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// The distinct words of a document, ascending.
    pub fn words(&self, document: usize) -> &[u32] {
        &self.words[self.starts[document]..self.starts[document + 1]]
    }

    /// How often each of the distinct words of a document occurs.
    pub fn counts(&self, document: usize) -> &[f64] {
        &self.counts[self.starts[document]..self.starts[document + 1]]
    }

    /// `(word, count)` of one document.
    pub fn entries(&self, document: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.words(document).iter().copied().zip(self.counts(document).iter().copied())
    }

    /// The documents from number `first` on, at most `n` of them.
    pub fn slice(&self, first: usize, n: usize) -> Self {
        let first = first.min(self.len());
        let last = (first + n).min(self.len());
        let (from, to) = (self.starts[first], self.starts[last]);
        Self {
            n_words: self.n_words,
            starts: self.starts[first..=last].iter().map(|start| start - from).collect(),
            words: self.words[from..to].to_vec(),
            counts: self.counts[from..to].to_vec(),
        }
    }
}

/// One document on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Words of the vocabulary.
    pub n_words: usize,
    /// Its distinct words with their counts, ascending.
    pub entries: Vec<(u32, f64)>,
}

impl Minibatch for Documents {
    type Row = Document;

    fn n_rows(&self) -> usize {
        self.len()
    }

    fn mass(&self) -> f64 {
        self.tokens()
    }

    fn weight(&self, _document: usize) -> f64 {
        1.0
    }

    fn to_row(&self, document: usize) -> Document {
        Document { n_words: self.n_words, entries: self.entries(document).collect() }
    }

    fn from_rows<'a>(rows: impl Iterator<Item = &'a Document>) -> Option<Self> {
        let mut rows = rows.peekable();
        let mut documents = Self::none(rows.peek()?.n_words);
        for row in rows {
            documents.n_words = documents.n_words.max(row.n_words);
            documents.push(&row.entries).ok()?;
        }
        Some(documents)
    }

    fn append(&mut self, other: &Self) {
        // The vocabulary of a stream may grow.
        self.n_words = self.n_words.max(other.n_words);
        let before = self.words.len();
        self.starts.extend(other.starts[1..].iter().map(|start| before + start));
        self.words.extend_from_slice(&other.words);
        self.counts.extend_from_slice(&other.counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_document_is_named() {
        let of = |entries: &[(u32, f64)]| Documents::new(3, [vec![], entries.to_vec()]).unwrap_err();
        assert_eq!(of(&[(3, 1.0)]), DocumentError::Word { document: 1, word: 3, n_words: 3 });
        assert_eq!(of(&[(1, 1.0), (1, 1.0)]), DocumentError::Order { document: 1, word: 1 });
        assert_eq!(of(&[(1, 0.0)]), DocumentError::Count { document: 1, word: 1, count: 0.0 });
        assert!(matches!(of(&[(1, f64::NAN)]), DocumentError::Count { .. }));
    }

    #[test]
    fn rows_and_slices_are_the_documents_again() {
        let all =
            Documents::new(4, [vec![(0, 1.0), (2, 2.0)], vec![], vec![(3, 5.0)], vec![(1, 1.0)]]).unwrap();
        let rows: Vec<Document> = (0..4).map(|ix| all.to_row(ix)).collect();
        assert_eq!(Documents::from_rows(rows.iter()), Some(all.clone()));
        let part = all.slice(2, 9);
        assert_eq!((part.len(), part.words(0), part.counts(1)), (2, &[3][..], &[1.0][..]));
        assert_eq!(all.slice(7, 1).len(), 0);
        assert_eq!(Documents::from_rows(std::iter::empty()), None);
    }
}
