//! The words that a model of topics knows, by number.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The word that stands for all that are not in the vocabulary.
pub const UNKNOWN: &str = "<unk>";

/// Words that a vocabulary may have.
const MOST_WORDS: usize = 1 << 22;

/// Which words a vocabulary takes that is learned from documents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordChoice {
    /// Documents that have a word at least. A word of one document alone says nothing about which words go together, and many
    /// are misspelt: unless told these are 2 of the first documents, or 1 when they are fewer than 50, and 5 of later ones.
    pub least_documents: Option<u64>,
    /// Share of the first documents that have a word at most: one that almost all have tells them apart as little as a stop
    /// word does, and is left out like one.
    pub most_share: f64,
    /// Words that it may come to have. `None`: those of the first documents, and no others.
    pub size: Option<usize>,
}

impl Default for WordChoice {
    fn default() -> Self {
        Self { least_documents: None, most_share: 1.0, size: None }
    }
}

impl WordChoice {
    /// Documents that a word of the first `n` needs.
    fn least(&self, n: usize) -> u64 {
        const ENOUGH: usize = 50;
        self.least_documents.unwrap_or(if n >= ENOUGH { 2 } else { 1 })
    }

    /// Documents that a word which comes later needs.
    fn least_later(&self) -> u64 {
        const LATER: u64 = 5;
        self.least_documents.unwrap_or(LATER)
    }
}

/// Words on their way into a vocabulary: how many documents have had them.
///
/// There are never more than some of them (Misra and Gries 1982): when another one comes, all counts fall by one, and those that
/// reach 0 are forgotten. A count is never above the number of documents that have the word, so that no word comes in too
/// early; one that some documents in a thousand have comes in however long the stream is.
///
/// ```
/// use anabranch_io::words::{Candidates, Vocabulary, WordChoice};
/// let mut vocabulary = Vocabulary::new(vec!["sun".into()])?;
/// let choice = WordChoice { least_documents: Some(2), size: Some(3), ..WordChoice::default() };
/// let mut candidates = Candidates::default();
/// for document in [["sun", "hail"], ["rain", "hail"]] {
///     candidates.meet(document, &vocabulary, &choice);
/// }
/// candidates.admit(&mut vocabulary, &choice);
/// assert_eq!(vocabulary.words(), ["sun", "hail"]);
/// # Ok::<(), anabranch_io::words::VocabularyError>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidates {
    documents: BTreeMap<String, u64>,
    refused: u64,
}

impl Candidates {
    /// Candidates that there are at least room for.
    const LEAST_ROOM: usize = 1000;

    /// Counts the distinct words of a document that are not in the vocabulary.
    pub fn meet<'a>(
        &mut self,
        words: impl IntoIterator<Item = &'a str>,
        vocabulary: &Vocabulary,
        choice: &WordChoice,
    ) {
        let Some(size) = choice.size else { return };
        if vocabulary.len() >= size {
            return;
        }
        for word in words.into_iter().filter(|word| vocabulary.number(word).is_none() && *word != UNKNOWN) {
            if let Some(documents) = self.documents.get_mut(word) {
                *documents += 1;
            } else if self.documents.len() < size.max(Self::LEAST_ROOM) {
                self.documents.insert(word.to_owned(), 1);
            } else {
                self.documents.retain(|_, documents| {
                    *documents -= 1;
                    *documents > 0
                });
            }
        }
    }

    /// Moves those that enough documents have had into the vocabulary, as many as it has room for: the most frequent ones.
    pub fn admit(&mut self, vocabulary: &mut Vocabulary, choice: &WordChoice) {
        let Some(size) = choice.size else { return };
        let least = choice.least_later();
        let enough = self.documents.iter().filter(|(_, documents)| **documents >= least);
        let mut enough: Vec<(String, u64)> =
            enough.map(|(word, documents)| (word.clone(), *documents)).collect();
        enough.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let room = size.saturating_sub(vocabulary.len());
        self.refused += enough.len().saturating_sub(room) as u64;
        for (word, _) in enough.into_iter().take(room) {
            self.documents.remove(&word);
            vocabulary.push(word);
        }
        if vocabulary.len() >= size {
            self.documents = BTreeMap::new();
        }
    }

    /// Words that enough documents had when there was no room for them any more.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

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

    /// The words of these documents that are chosen, ascending, with a last one for all others; and those that too many
    /// documents have.
    pub(super) fn learned<'a>(
        documents: impl ExactSizeIterator<Item = &'a BTreeMap<String, f64>>,
        choice: &WordChoice,
    ) -> Result<(Self, BTreeSet<String>), VocabularyError> {
        let (n, least) = (documents.len(), choice.least(documents.len()));
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        documents.flat_map(|document| document.keys()).for_each(|word| *seen.entry(word).or_default() += 1);
        let most = choice.most_share * n as f64;
        let (known, common): (Vec<_>, Vec<_>) = seen
            .into_iter()
            .filter(|(word, _)| *word != UNKNOWN)
            .partition(|(_, found)| *found as f64 <= most || *found < least);
        let common = common.into_iter().map(|(word, _)| word.to_owned()).collect();
        let mut known: Vec<(&str, u64)> = known.into_iter().filter(|(_, found)| *found >= least).collect();
        if let Some(size) = choice.size {
            // Those that most documents have; one place is for all others.
            known.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            known.truncate(size.saturating_sub(1));
            known.sort_unstable();
        }
        if known.is_empty() {
            return Err(VocabularyError::Empty);
        }
        let words = known.into_iter().map(|(word, _)| word.to_owned());
        Ok((Self::new(words.chain([UNKNOWN.to_owned()]).collect())?, common))
    }

    /// Adds a word that is not there.
    fn push(&mut self, word: String) {
        debug_assert!(!self.numbers.contains_key(&word), "{word} is there already");
        self.numbers.insert(word.clone(), self.words.len() as u32);
        self.words.push(word);
    }

    /// The first `n` words: those that the vocabulary had when it had so many.
    pub fn first(&self, n: usize) -> Result<Self, VocabularyError> {
        Self::new(self.words.iter().take(n).cloned().collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// However many words a stream has, few are kept, and none comes in that too few documents have had.
    #[test]
    fn candidates_are_bounded_and_never_come_in_too_early() {
        let mut vocabulary = Vocabulary::new(vec!["known".to_owned()]).unwrap();
        let choice = WordChoice { least_documents: Some(4), size: Some(20), ..WordChoice::default() };
        let mut candidates = Candidates::default();
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for document in 0..3000_u64 {
            // One word in ten documents, and some that never come again.
            let mut words: Vec<String> = (0..7).map(|n| format!("rare{document}-{n}")).collect();
            if document % 10 == 0 {
                words.push("frequent".to_owned());
            }
            words.iter().for_each(|word| *seen.entry(word.clone()).or_default() += 1);
            candidates.meet(words.iter().map(String::as_str), &vocabulary, &choice);
            let before = vocabulary.len();
            candidates.admit(&mut vocabulary, &choice);
            assert!(vocabulary.words()[before..].iter().all(|word| seen[word] >= 4));
            assert!(candidates.documents.len() <= Candidates::LEAST_ROOM);
        }
        assert_eq!(vocabulary.words(), ["known", "frequent"]);
    }

    #[test]
    fn a_vocabulary_takes_no_more_words_than_it_may() {
        let choice = WordChoice { least_documents: Some(2), size: Some(3), ..WordChoice::default() };
        let document = |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), 1.0)).collect();
        let documents: Vec<BTreeMap<String, f64>> =
            vec![document(&["a", "b", "c"]), document(&["a", "c"]), document(&["b", "c", "d"])];
        let (mut vocabulary, common) = Vocabulary::learned(documents.iter(), &choice).unwrap();
        assert_eq!((vocabulary.words(), common.len()), (&["a", "c", UNKNOWN].map(str::to_owned)[..], 0));
        let mut candidates = Candidates::default();
        candidates.meet(["e", "f"], &vocabulary, &choice);
        candidates.meet(["e", "f"], &vocabulary, &choice);
        candidates.admit(&mut vocabulary, &choice);
        assert_eq!(vocabulary.len(), 3);
        let wider = WordChoice { size: Some(4), ..choice };
        candidates.meet(["f", "e"], &vocabulary, &wider);
        candidates.meet(["f"], &vocabulary, &wider);
        candidates.meet(["e", "f"], &vocabulary, &wider);
        candidates.admit(&mut vocabulary, &wider);
        assert_eq!((&vocabulary.words()[3], candidates.refused()), (&"f".to_owned(), 1));
        assert_eq!(vocabulary.first(3).unwrap().words(), ["a", "c", UNKNOWN]);
    }

    #[test]
    fn words_of_too_many_documents_are_told_apart() {
        let document = |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), 1.0)).collect();
        let documents: Vec<BTreeMap<String, f64>> =
            vec![document(&["a", "said"]), document(&["b", "said"]), document(&["a", "said"])];
        let choice = WordChoice { most_share: 0.7, ..WordChoice::default() };
        let (vocabulary, common) = Vocabulary::learned(documents.iter(), &choice).unwrap();
        assert_eq!(vocabulary.words(), ["a", "b", UNKNOWN]);
        assert_eq!(common, ["said".to_owned()].into());
    }
}
