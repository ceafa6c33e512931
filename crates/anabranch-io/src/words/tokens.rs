//! From text to words: letters and digits, in lower case, without the words that every text has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

/// English words that tell nothing about what a text is about, ascending.
const STOP_WORDS: [&str; 134] = [
    "about",
    "above",
    "after",
    "again",
    "against",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "below",
    "between",
    "both",
    "but",
    "by",
    "can",
    "cannot",
    "could",
    "did",
    "do",
    "does",
    "doing",
    "down",
    "during",
    "each",
    "few",
    "for",
    "from",
    "further",
    "had",
    "has",
    "have",
    "having",
    "he",
    "her",
    "here",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "how",
    "however",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "itself",
    "just",
    "may",
    "me",
    "might",
    "more",
    "most",
    "must",
    "my",
    "myself",
    "no",
    "nor",
    "not",
    "now",
    "of",
    "off",
    "on",
    "once",
    "only",
    "or",
    "other",
    "our",
    "ours",
    "out",
    "over",
    "own",
    "same",
    "shall",
    "she",
    "should",
    "so",
    "some",
    "such",
    "than",
    "that",
    "the",
    "their",
    "theirs",
    "them",
    "themselves",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "under",
    "until",
    "up",
    "us",
    "very",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whom",
    "why",
    "will",
    "with",
    "within",
    "without",
    "would",
    "yet",
    "you",
    "your",
    "yours",
    "yourself",
    "yourselves",
];

/// Words that are left out of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWords {
    /// None.
    None,
    /// English words that every text has.
    #[default]
    English,
    /// These.
    Words(BTreeSet<String>),
}

impl StopWords {
    fn contain(&self, word: &str) -> bool {
        match self {
            Self::None => false,
            Self::English => STOP_WORDS.binary_search(&word).is_ok(),
            Self::Words(words) => words.contains(word),
        }
    }
}

/// From text to words.
///
/// A word is a run of letters and digits in lower case, one of them a letter. Two words that follow each other and are a
/// phrase become one, joined by `_`.
///
/// ```
/// use anabranch_io::words::{StopWords, Tokenizer};
/// let words = Tokenizer { stop_words: StopWords::None, ..Tokenizer::default() }.words("The sun, at 30 degrees.");
/// assert_eq!(words, ["the", "sun", "at", "degrees"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tokenizer {
    /// Words that are left out.
    pub stop_words: StopWords,
    /// Characters that a word has at least.
    pub least_length: usize,
    /// Words that too many documents have, and that are left out like stop words.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub common: BTreeSet<String>,
    /// Pairs of words that are one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub phrases: BTreeSet<(String, String)>,
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self {
            stop_words: StopWords::default(),
            least_length: 2,
            common: BTreeSet::new(),
            phrases: BTreeSet::new(),
        }
    }
}

/// Letters, digits, and the marks and joiners that are part of the letter before them.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}' | '\u{94d}' | '\u{200c}' | '\u{200d}')
}

impl Tokenizer {
    /// Words in their order, before phrases are joined; `None` where a word was left out, so that no phrase goes across.
    fn runs<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Option<String>> + 't {
        text.split(|c: char| !is_of_word(c)).filter(|run| !run.is_empty()).map(|run| {
            let long = run.chars().nth(self.least_length.saturating_sub(1)).is_some();
            if !long || !run.chars().any(char::is_alphabetic) {
                return None;
            }
            let word = run.to_lowercase();
            (!self.stop_words.contain(&word)).then_some(word)
        })
    }

    /// The words of a text in their order.
    pub fn words(&self, text: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        // Whether the last word may begin a phrase.
        let mut open = false;
        for run in self.runs(text) {
            let Some(word) = run else {
                open = false;
                continue;
            };
            match words.last_mut() {
                Some(last) if open && self.is_phrase(last, &word) => {
                    last.push('_');
                    last.push_str(&word);
                    open = false;
                }
                _ => {
                    words.push(word);
                    open = true;
                }
            }
        }
        words.retain(|word| !self.common.contains(word));
        words
    }

    fn is_phrase(&self, first: &str, second: &str) -> bool {
        !self.phrases.is_empty() && self.phrases.contains(&(first.to_owned(), second.to_owned()))
    }

    /// The words of a text with their counts.
    pub fn count(&self, text: &str) -> BTreeMap<String, f64> {
        let mut counts = BTreeMap::new();
        self.words(text).into_iter().for_each(|word| *counts.entry(word).or_default() += 1.0);
        counts
    }

    /// Pairs of words that follow each other far more often than chance would have it.
    ///
    /// A pair that occurs `n` times, of words that occur `a` and `b` times among `m`, is expected `ab/m` times. It is a phrase
    /// when it is there several times, and in at least half of all places where its rarer word is.
    pub fn learn_phrases<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        let mut single: HashMap<String, u64> = HashMap::new();
        let mut pairs: HashMap<(String, String), u64> = HashMap::new();
        for text in texts {
            let mut last: Option<String> = None;
            for run in self.runs(text) {
                if let Some(word) = &run {
                    *single.entry(word.clone()).or_default() += 1;
                }
                if let (Some(first), Some(second)) = (last.take(), &run) {
                    *pairs.entry((first, second.clone())).or_default() += 1;
                }
                last = run;
            }
        }
        let found = pairs.into_iter().filter(|((first, second), together)| {
            *together >= LEAST_TOGETHER && 2 * together >= single[first].min(single[second])
        });
        self.phrases = found.map(|(pair, _)| pair).collect();
    }
}

/// Times that the words of a phrase occur together at least.
pub const LEAST_TOGETHER: u64 = 5;

/// The words of a text with their counts, as texts are read unless told.
///
/// ```
/// use anabranch_io::words::count_words;
/// let words = count_words("The sun, and the rain: SUN at 30 degrees.");
/// assert_eq!(words.into_iter().collect::<Vec<_>>(), [("degrees".into(), 1.0), ("rain".into(), 1.0), ("sun".into(), 2.0)]);
/// ```
pub fn count_words(text: &str) -> BTreeMap<String, f64> {
    Tokenizer::default().count(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_in_order() {
        assert!(STOP_WORDS.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn other_scripts_have_words_too() {
        let words = count_words("Überraschung, überraschung; сад 2024 a 7x");
        assert_eq!(words.get("überraschung"), Some(&2.0));
        assert_eq!(words.get("сад"), Some(&1.0));
        assert_eq!(words.get("7x"), Some(&1.0));
        assert_eq!(words.len(), 3);
    }

    #[test]
    fn marks_belong_to_their_letters() {
        let accent = "e\u{301}te\u{301}";
        assert_eq!(Tokenizer::default().words(accent), [accent]);
    }

    #[test]
    fn words_are_left_out_by_list_length_and_share() {
        let words = ["rain".to_owned()].into();
        let mut tokenizer =
            Tokenizer { stop_words: StopWords::Words(words), least_length: 3, ..Tokenizer::default() };
        tokenizer.common.insert("wind".to_owned());
        assert_eq!(
            tokenizer.words("The rain, a wind, no sun at 3x30 degrees"),
            ["the", "sun", "3x30", "degrees"]
        );
    }

    #[test]
    fn phrases_are_words_that_belong_together() {
        let texts = ["prime minister of new york", "new car", "prime minister", "the prime minister wins"];
        let texts: Vec<&str> = texts.iter().copied().cycle().take(8).collect();
        let mut tokenizer = Tokenizer::default();
        tokenizer.learn_phrases(texts.iter().copied());
        // "new york" is there twice, and "minister wins" goes with the shorter word only twice.
        assert_eq!(tokenizer.phrases, [("prime".to_owned(), "minister".to_owned())].into());
        let words = tokenizer.words("Prime minister. Prime? Minister! the prime of the minister");
        assert_eq!(words, ["prime_minister", "prime_minister", "prime", "minister"]);
    }
}
