//! From text to words: letters and digits, in lower case, without the words that every text has.

use std::collections::BTreeMap;

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

/// The words of a text with their counts.
///
/// A word is a run of letters and digits of at least two characters, one of them a letter. Stop words are left out.
///
/// ```
/// use anabranch_io::words::count_words;
/// let words = count_words("The sun, and the rain: SUN at 30 degrees.");
/// assert_eq!(words.into_iter().collect::<Vec<_>>(), [("degrees".into(), 1.0), ("rain".into(), 1.0), ("sun".into(), 2.0)]);
/// ```
pub fn count_words(text: &str) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        if run.chars().nth(1).is_none() || !run.chars().any(char::is_alphabetic) {
            continue;
        }
        let word = run.to_lowercase();
        if STOP_WORDS.binary_search(&word.as_str()).is_err() {
            *counts.entry(word).or_default() += 1.0;
        }
    }
    counts
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
}
