//! The words that a model of topics knows, by number.

use std::collections::{BTreeMap, HashMap};

use thiserror::Error;

/// The word that stands for all that are not in the vocabulary.
pub const UNKNOWN: &str = "<unk>";

/// Words that a vocabulary may have.
const MOST_WORDS: usize = 1 << 22;

/// A list of words. Whoever meets a word that is not in it reads [`UNKNOWN`], if that is in it, and counts it in any case.
///
/// ```
/// use anabranch_io::words::Vocabulary;
/// let vocabulary = Vocabulary::new(vec!["sun".into(), "rain".into()])?;
/// assert_eq!(vocabulary.number("rain"), Some(1));
/// assert_eq!(vocabulary.number("hail"), None);
/// # Ok::<(), anabranch_io::words::VocabularyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    words: Vec<String>,
    numbers: HashMap<String, u32>,
}

/// Why a list of words is not a vocabulary.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum VocabularyError {
    /// No words.
    #[error("the vocabulary has no words")]
    Empty,
    /// More words than any language has.
    #[error("the vocabulary has {found} words, the most are {MOST_WORDS}")]
    TooMany {
        /// Number of words.
        found: usize,
    },
    /// A word stands in it twice.
    #[error("the word {word:?} is in the vocabulary twice, as number {first} and number {second}")]
    Twice {
        /// The word.
        word: String,
        /// Its first place, from 1.
        first: usize,
        /// Its second place, from 1.
        second: usize,
    },
}

impl Vocabulary {
    /// Words in the order of their numbers.
    pub fn new(words: Vec<String>) -> Result<Self, VocabularyError> {
        if words.is_empty() {
            return Err(VocabularyError::Empty);
        }
        if words.len() > MOST_WORDS {
            return Err(VocabularyError::TooMany { found: words.len() });
        }
        let mut numbers = HashMap::with_capacity(words.len());
        for (number, word) in words.iter().enumerate() {
            if let Some(first) = numbers.insert(word.clone(), number as u32) {
                let (first, second) = (first as usize + 1, number + 1);
                return Err(VocabularyError::Twice { word: word.clone(), first, second });
            }
        }
        Ok(Self { words, numbers })
    }

    /// Words that have no names: their numbers, from 0.
    pub fn numbered(n_words: usize) -> Result<Self, VocabularyError> {
        if n_words > MOST_WORDS {
            return Err(VocabularyError::TooMany { found: n_words });
        }
        Self::new((0..n_words).map(|number| number.to_string()).collect())
    }

    /// The words of these documents, ascending, with a last one for all others. A word of one document alone says nothing
    /// about which words go together, and many are misspelt: it is left out when there are enough documents to tell.
    pub(super) fn learned<'a>(
        documents: impl ExactSizeIterator<Item = &'a BTreeMap<String, f64>>,
    ) -> Result<Self, VocabularyError> {
        const ENOUGH: usize = 50;
        let least = if documents.len() >= ENOUGH { 2 } else { 1 };
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        documents.flat_map(|document| document.keys()).for_each(|word| *seen.entry(word).or_default() += 1);
        let known = seen.into_iter().filter(|(word, n)| *n >= least && *word != UNKNOWN);
        let words: Vec<String> = known.map(|(word, _)| word.to_owned()).collect();
        if words.is_empty() {
            return Err(VocabularyError::Empty);
        }
        Self::new(words.into_iter().chain([UNKNOWN.to_owned()]).collect())
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Never true: a vocabulary has words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words in the order of their numbers.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The number of a word that is in the vocabulary.
    pub fn number(&self, word: &str) -> Option<u32> {
        self.numbers.get(word).copied()
    }
}
