//! How well the words of a topic belong together: normalised pointwise mutual information over documents.
//!
//! ```text
//! NPMI(a, b) = log( p(a, b) / (p(a) p(b)) ) / −log p(a, b)
//! ```
//!
//! `p` is the share of documents that have the word, or both. A pair that never occurs together scores −1, one that only
//! occurs together 1, and independent words 0. A topic's coherence is the mean over the pairs of its top words.

use std::collections::BTreeMap;

use crate::documents::Documents;

/// The coherence of lists of top words, judged by these documents; `None` for a list without two words that occur.
///
/// ```
/// use anabranch::documents::Documents;
/// use anabranch::metric::coherence;
/// let with = |words: &[u32]| words.iter().map(|w| (*w, 1.0)).collect();
/// let documents = Documents::new(3, [with(&[0, 1]), with(&[0, 1]), with(&[2]), with(&[2])]).unwrap();
/// assert_eq!(coherence(&documents, &[vec![0, 1]]), [Some(1.0)]);
/// assert_eq!(coherence(&documents, &[vec![0, 2]]), [Some(-1.0)]);
/// ```
pub fn coherence(documents: &Documents, top_words: &[Vec<u32>]) -> Vec<Option<f64>> {
    let mut asked: Vec<u32> = top_words.iter().flatten().copied().collect();
    asked.sort_unstable();
    asked.dedup();
    let number: BTreeMap<u32, usize> = asked.iter().enumerate().map(|(ix, word)| (*word, ix)).collect();
    // The documents of each word, ascending.
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); asked.len()];
    for document in 0..documents.len() {
        for word in documents.words(document) {
            if let Some(ix) = number.get(word) {
                places[*ix].push(document as u32);
            }
        }
    }
    let n = documents.len() as f64;
    let pair = |a: u32, b: u32| {
        let (a, b) = (&places[number[&a]], &places[number[&b]]);
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let both = common(a, b) as f64 / n;
        Some(match both {
            0.0 => -1.0,
            // Both are in every document: they tell nothing of each other, and 0/0 is no answer.
            1.0 => 0.0,
            both => (both / (a.len() as f64 / n * (b.len() as f64 / n))).ln() / -both.ln(),
        })
    };
    let of = |words: &Vec<u32>| {
        let pairs =
            words.iter().enumerate().flat_map(|(ix, a)| words[ix + 1..].iter().map(move |b| (*a, *b)));
        let scores: Vec<f64> = pairs.filter_map(|(a, b)| pair(a, b)).collect();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    };
    top_words.iter().map(of).collect()
}

/// Length of the intersection of two ascending lists.
fn common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut found) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                found += 1;
                i += 1;
                j += 1;
            }
        }
    }
    found
}
