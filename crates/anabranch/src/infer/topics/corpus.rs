//! A minibatch of documents with its words numbered anew, so that no table is longer than the words that occur.

use crate::documents::Documents;

/// Documents over the words that occur in them.
pub(super) struct Corpus {
    /// The word of the vocabulary that each number stands for, ascending.
    pub(super) words: Vec<u32>,
    /// Words of the vocabulary.
    pub(super) n_words: usize,
    starts: Vec<usize>,
    numbers: Vec<u32>,
    counts: Vec<f64>,
}

impl Corpus {
    pub(super) fn new(documents: &Documents) -> Self {
        let all = || (0..documents.len()).flat_map(|ix| documents.words(ix).iter().copied());
        let mut words: Vec<u32> = all().collect();
        words.sort_unstable();
        words.dedup();
        Self::over(documents, words)
    }

    /// Documents over these words, which hold all of theirs.
    pub(super) fn over(documents: &Documents, words: Vec<u32>) -> Self {
        let all = || (0..documents.len()).flat_map(|ix| documents.words(ix).iter().copied());
        let number = |word: u32| words.binary_search(&word).expect("every word is in the list") as u32;
        let numbers = all().map(number).collect();
        let mut starts = vec![0];
        starts.extend((0..documents.len()).scan(0, |end, ix| {
            *end += documents.words(ix).len();
            Some(*end)
        }));
        let counts = (0..documents.len()).flat_map(|ix| documents.counts(ix).iter().copied()).collect();
        Self { words, n_words: documents.n_words(), starts, numbers, counts }
    }

    /// Other documents over the same words, by number.
    pub(super) fn with_documents<'a>(&self, documents: impl Iterator<Item = &'a Vec<(u32, f64)>>) -> Self {
        let (mut starts, mut numbers, mut counts) = (vec![0], Vec::new(), Vec::new());
        for document in documents {
            numbers.extend(document.iter().map(|(number, _)| *number));
            counts.extend(document.iter().map(|(_, count)| *count));
            starts.push(numbers.len());
        }
        Self { words: self.words.clone(), n_words: self.n_words, starts, numbers, counts }
    }

    /// The number of a word.
    pub(super) fn number(&self, word: u32) -> Option<u32> {
        self.words.binary_search(&word).ok().map(|ix| ix as u32)
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Numbers of the distinct words of a document, ascending, and their counts.
    pub(super) fn document(&self, ix: usize) -> (&[u32], &[f64]) {
        let range = self.starts[ix]..self.starts[ix + 1];
        (&self.numbers[range.clone()], &self.counts[range])
    }

    pub(super) fn tokens(&self, ix: usize) -> f64 {
        self.document(ix).1.iter().sum()
    }
}
