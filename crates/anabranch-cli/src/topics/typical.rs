//! What a sample of the documents says of topics: how prevalent they were over the stream, and which documents are typical.

use anabranch::family::Topic;
use anabranch::posterior::{Posterior, TopicPredictor};
use anabranch::process::Hierarchical;

use super::stream::Kept;

/// Points of a line over the stream at most, and documents of the sample for each.
const MOST_POINTS: usize = 24;
const FOR_A_POINT: usize = 20;
/// A line has so many points, or none is drawn.
const LEAST_POINTS: usize = 3;

/// Documents of the stream and the topics that they have.
pub(super) struct Sampled {
    documents: Vec<Kept>,
    /// Words of each document.
    lengths: Vec<f64>,
    /// Of each document, its words that are of each topic, in the order of the components.
    words: Vec<Vec<f64>>,
}

/// A document that has much of something.
pub(super) struct Typical<'a> {
    pub(super) document: &'a Kept,
    /// How much of the document that is.
    pub(super) share: f64,
}

/// The share of words over the stream: the number of the last document of each stretch, and the share in it.
pub(super) type Prevalence = Vec<(f64, f64)>;

impl Sampled {
    /// Finds the topics of these documents, which are in the order of the stream.
    pub(super) fn of(
        posterior: &Posterior<Topic, Hierarchical>,
        documents: Vec<Kept>,
        threads: usize,
    ) -> Self {
        let predictor = TopicPredictor::new(posterior);
        let places: Vec<Option<usize>> = predictor.ids().iter().map(|id| posterior.position(*id)).collect();
        let n_topics = posterior.components().len();
        let lengths: Vec<f64> =
            documents.iter().map(|kept| kept.entries.iter().map(|(_, count)| count).sum()).collect();
        let words_of = |(kept, length): (&Kept, &f64)| {
            let mut words = vec![0.0; n_topics];
            for (place, share) in places.iter().zip(predictor.proportions(&kept.entries).topics) {
                if let Some(place) = place {
                    words[*place] = share * length;
                }
            }
            words
        };
        let mut words = vec![Vec::new(); documents.len()];
        let piece = documents.len().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let pieces = documents.chunks(piece).zip(lengths.chunks(piece)).zip(words.chunks_mut(piece));
            for ((documents, lengths), words) in pieces {
                let words_of = &words_of;
                scope.spawn(move || {
                    words
                        .iter_mut()
                        .zip(documents.iter().zip(lengths))
                        .for_each(|(out, of)| *out = words_of(of));
                });
            }
        });
        Self { documents, lengths, words }
    }

    pub(super) fn len(&self) -> usize {
        self.documents.len()
    }

    fn words_of(&self, document: usize, topics: &[usize]) -> f64 {
        topics.iter().map(|topic| self.words[document][*topic]).sum()
    }

    /// The documents that have most of these topics. A short one may have nothing else by chance: it counts as if as many words
    /// as a document has on average were of other topics.
    pub(super) fn typical(&self, topics: &[usize], n: usize) -> Vec<Typical<'_>> {
        let average = self.lengths.iter().sum::<f64>() / self.lengths.len().max(1) as f64;
        let score = |ix: usize| self.words_of(ix, topics) / (self.lengths[ix] + average);
        let mut best: Vec<(usize, f64)> = (0..self.len()).map(|ix| (ix, score(ix))).collect();
        best.retain(|(_, score)| *score > 0.0);
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let typical = |(ix, _): (usize, f64)| Typical {
            document: &self.documents[ix],
            share: self.words_of(ix, topics) / self.lengths[ix],
        };
        best.into_iter().take(n).map(typical).collect()
    }

    /// How prevalent these topics were over the stream; nothing where the documents are too few to tell.
    pub(super) fn prevalence(&self, topics: &[usize]) -> Prevalence {
        let points = (self.len() / FOR_A_POINT).min(MOST_POINTS);
        if points < LEAST_POINTS {
            return Vec::new();
        }
        let end = |point: usize| point * self.len() / points;
        let point = |at: usize| {
            let stretch = end(at)..end(at + 1);
            let all: f64 = self.lengths[stretch.clone()].iter().sum();
            let own: f64 = stretch.clone().map(|ix| self.words_of(ix, topics)).sum();
            (self.documents[stretch.end - 1].number as f64, own / all.max(f64::MIN_POSITIVE))
        };
        (0..points).map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents of these lengths, of which so many words are of the first of two topics.
    fn sampled(documents: &[(f64, f64)]) -> Sampled {
        let kept = |number| Kept { number, beginning: String::new(), entries: Vec::new() };
        Sampled {
            documents: (1..=documents.len() as u64).map(kept).collect(),
            lengths: documents.iter().map(|(length, _)| *length).collect(),
            words: documents.iter().map(|(length, first)| vec![*first, length - first]).collect(),
        }
    }

    #[test]
    fn a_document_with_much_of_a_topic_is_more_typical_than_a_short_one_with_nothing_else() {
        let sampled = sampled(&[(1.0, 1.0), (100.0, 90.0), (100.0, 10.0), (40.0, 0.0)]);
        let numbers = |topics: &[usize]| -> Vec<u64> {
            sampled.typical(topics, 3).iter().map(|typical| typical.document.number).collect()
        };
        assert_eq!((numbers(&[0]), numbers(&[1])), (vec![2, 3, 1], vec![3, 4, 2]));
        assert_eq!(sampled.typical(&[0], 1)[0].share, 0.9);
        assert_eq!(sampled.typical(&[0, 1], 4).len(), 4);
    }

    #[test]
    fn prevalence_is_the_share_of_words_in_stretches_of_the_stream() {
        let documents: Vec<(f64, f64)> =
            (0..80).map(|ix| (10.0 + f64::from(ix % 2), f64::from(ix / 20))).collect();
        let sampled = sampled(&documents);
        let expected: Vec<(f64, f64)> =
            (0..4).map(|point| (20.0 * f64::from(point + 1), 20.0 * f64::from(point) / 210.0)).collect();
        assert_eq!(sampled.prevalence(&[0]), expected);
        assert!(sampled.prevalence(&[0, 1]).iter().all(|(_, share)| *share == 1.0));
        assert!(super::tests::sampled(&documents[..40]).prevalence(&[0]).is_empty(), "too few to tell");
    }
}
