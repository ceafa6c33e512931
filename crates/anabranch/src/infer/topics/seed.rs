//! Where new topics begin: documents far apart, chosen like the seeds of k-means++, and the documents nearest to each.
//!
//! Documents are compared by the Bhattacharyya coefficient of their word frequencies, `Σ_w √(p_w q_w)`: between 0 for
//! documents without a common word and 1 for equal frequencies, and a walk over the distinct words of one of them.

use rand::{Rng, RngExt};

use super::corpus::Corpus;
use crate::math::draw::draw_proportional;

/// For each of `documents`, the number of the seed it is nearest to; there are `n_seeds` of them or fewer.
pub(super) fn nearest_seed(
    corpus: &Corpus,
    documents: &[usize],
    n_seeds: usize,
    rng: &mut impl Rng,
) -> (usize, Vec<usize>) {
    let mut label = vec![0; documents.len()];
    let mut distance = vec![1.0; documents.len()];
    let mut roots = vec![0.0; corpus.words.len()];
    let tokens: Vec<f64> = documents.iter().map(|ix| corpus.tokens(*ix)).collect();
    let mut seeds = 0;
    while seeds < n_seeds.min(documents.len()) {
        let chosen = match seeds {
            0 => rng.random_range(0..documents.len()),
            // All documents are like some seed: there is nothing left to tell apart.
            _ => match draw_proportional(&distance, rng) {
                Some(chosen) => chosen,
                None => break,
            },
        };
        let (words, counts) = corpus.document(documents[chosen]);
        for (word, count) in words.iter().zip(counts) {
            roots[*word as usize] = (count / tokens[chosen]).sqrt();
        }
        for (place, ix) in documents.iter().enumerate() {
            let (words, counts) = corpus.document(*ix);
            let common: f64 =
                words.iter().zip(counts).map(|(word, count)| roots[*word as usize] * count.sqrt()).sum();
            let far = (1.0 - common / tokens[place].max(1e-300).sqrt()).max(0.0);
            if seeds == 0 || far < distance[place] {
                distance[place] = far;
                label[place] = seeds;
            }
        }
        // A document is no further seed.
        distance[chosen] = 0.0;
        words.iter().for_each(|word| roots[*word as usize] = 0.0);
        seeds += 1;
    }
    (seeds, label)
}
