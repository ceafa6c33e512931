//! Topics cut in two: what each document has of a topic, apart from its other words, lies nearer to one of two documents far
//! apart. A document is a mixture and a poor seed of a topic; what it has of one topic is not.

use rand::Rng;

use super::ascent::Ascent;
use super::corpus::Corpus;
use super::mixed::{Scratch, View};
use super::seed;

/// What a document has of a topic says nothing when it is fewer words than this.
const FEW_WORDS: f64 = 2.0;

/// Topics cut in two.
pub(super) struct Halves {
    /// What each document has of each topic, topic after topic.
    pub(super) pieces: Corpus,
    /// Which half each of them is nearer to.
    pub(super) labels: Vec<Option<usize>>,
    pub(super) n_halves: usize,
}

/// Cuts each topic in two, where it has two pieces that differ.
pub(super) fn halves(ascent: &Ascent<'_>, rng: &mut impl Rng) -> Halves {
    let topics = View { theta: &ascent.theta, weights: &ascent.weights };
    let mut pieces: Vec<Vec<Vec<(u32, f64)>>> = vec![Vec::new(); ascent.columns.len()];
    let mut scratch = Scratch::default();
    for (ix, mixed) in ascent.documents.iter().enumerate() {
        let mut here = vec![Vec::new(); mixed.topics.len()];
        let visit = |place: usize, word: u32, count: f64, zeta: f64| here[place].push((word, count * zeta));
        mixed.labels(ascent.corpus.document(ix), &topics, &mut scratch, visit, |_, _| {});
        for ((topic, n), piece) in mixed.topics.iter().zip(&mixed.counts).zip(here) {
            if *n >= FEW_WORDS {
                pieces[*topic as usize].push(piece);
            }
        }
    }
    let all = ascent.corpus.with_documents(pieces.iter().flatten());
    let (mut labels, mut n_halves) = (Vec::with_capacity(all.len()), 0);
    for of_topic in &pieces {
        let places: Vec<usize> = (labels.len()..labels.len() + of_topic.len()).collect();
        let (n, nearest) = seed::nearest_seed(&all, &places, 2, rng);
        labels.extend(nearest.into_iter().map(|half| Some(n_halves + half)));
        n_halves += n;
    }
    Halves { pieces: all, labels, n_halves }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::super::mixed::Mixed;
    use super::*;
    use crate::central::Fold;
    use crate::documents::Documents;
    use crate::family::Topic;
    use crate::process::{Bound, Hierarchical};

    /// Every document has words of two topics; those of the first are of two kinds, and those of the second of one.
    #[test]
    fn a_topic_of_two_kinds_of_words_is_cut_between_them() {
        let document = |ix: u32| {
            let kind = 2 * (ix % 2);
            vec![(kind, 3.0), (kind + 1, 3.0), (4, 3.0), (5, 3.0)]
        };
        let documents = Documents::new(6, (0..12).map(document)).unwrap();
        let corpus = Corpus::new(&documents);
        let process = Hierarchical::new(1.0, 1.0, Bound::Paper).unwrap();
        let prior = Fold::new(Topic::new(6, 1e-3).unwrap(), process);
        let mut ascent = Ascent::start(prior.posterior(), &corpus);
        let begun = corpus
            .with_documents([vec![(0, 9.0), (1, 9.0), (2, 9.0), (3, 9.0)], vec![(4, 9.0), (5, 9.0)]].iter());
        ascent.open(2, &begun, &[Some(0), Some(1)]);
        ascent.documents.fill(Mixed { topics: vec![0, 1], counts: vec![6.0, 6.0] });
        let Halves { pieces, labels, n_halves } = halves(&ascent, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        assert_eq!(pieces.len(), 24, "what each document has of each topic");
        let words: f64 = (0..24).map(|ix| pieces.tokens(ix)).sum();
        assert!((words - documents.tokens()).abs() < 1e-9, "no word is lost: {words}");
        assert!((3..=4).contains(&n_halves));
        for ix in 2..12 {
            assert_eq!(labels[ix], labels[ix % 2], "documents of one kind are in one half");
        }
        assert_ne!(labels[0], labels[1]);
        assert!(
            labels[..12].iter().all(|label| !labels[12..].contains(label)),
            "a half has words of one topic"
        );
    }
}
