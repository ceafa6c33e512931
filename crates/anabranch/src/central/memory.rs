//! The rows that a run remembers: a bounded, uniform sample of all, and the first ones whole.
//!
//! The sample judges merges and splits of components whose data are long gone; the first rows, which were learned when the
//! model knew least, are learned from again when it is good. Both are bounded, whatever the length of the stream.

use std::collections::BTreeMap;

use super::BatchId;
use crate::batch::{Batch, Minibatch};

/// Rows of the sample.
pub const SAMPLE_ROWS: usize = 10_000;

/// Rows that were seen, as many as it takes to look after the model.
#[derive(Clone, Debug)]
pub struct Memory<B: Minibatch = Batch> {
    sample: Sample<B::Row>,
    first: Option<B>,
}

impl<B: Minibatch> Default for Memory<B> {
    fn default() -> Self {
        Self { sample: Sample { rows: BTreeMap::new() }, first: None }
    }
}

impl<B: Minibatch> Memory<B> {
    /// Goes on from a stored sample and first minibatch.
    pub fn restore(sample: Vec<(u64, B::Row)>, first: Option<B>) -> Self {
        Self { sample: Sample { rows: sample.into_iter().collect() }, first }
    }

    /// The sample, each row with its key, in the order of the keys.
    pub fn sample(&self) -> impl ExactSizeIterator<Item = (u64, &B::Row)> {
        self.sample.rows.iter().map(|(key, row)| (*key, row))
    }

    /// The sample as a batch; `None` while it is empty.
    pub fn sampled_rows(&self) -> Option<B> {
        B::from_rows(self.sample.rows.values())
    }

    /// The first rows, until they have been learned from again.
    pub fn first(&self) -> Option<&B> {
        self.first.as_ref()
    }

    /// Adds a minibatch to the first rows.
    pub(crate) fn keep(&mut self, batch: B) {
        match &mut self.first {
            Some(first) => first.append(&batch),
            None => self.first = Some(batch),
        }
    }

    /// The first rows have been learned from again.
    pub fn forget_first(&mut self) {
        self.first = None;
    }

    /// Offers the rows of a minibatch to the sample. Offering them twice changes nothing.
    pub fn offer(&mut self, id: BatchId, batch: &B) {
        self.sample.offer(id, batch);
    }

    /// Takes in the sample of somebody who saw other rows of the same stream: it becomes that of the rows of both.
    pub fn pool(&mut self, other: &Self) {
        let rows = &mut self.sample.rows;
        rows.extend(other.sample.rows.iter().map(|(key, row)| (*key, row.clone())));
        while rows.len() > SAMPLE_ROWS {
            rows.pop_last();
        }
    }
}

/// The rows with the smallest keys. The key of a row is drawn from its place in the stream alone, so that the sample is
/// uniform and the same in whatever order the minibatches come; a row of weight `w` counts like `w` rows.
#[derive(Clone, Debug)]
struct Sample<R> {
    rows: BTreeMap<u64, R>,
}

impl<R> Sample<R> {
    fn offer<B: Minibatch<Row = R>>(&mut self, id: BatchId, batch: &B) {
        let mut highest = self.highest();
        for ix in 0..batch.n_rows() {
            let Some(key) = key(id, ix, batch.weight(ix)) else { continue };
            if key >= highest {
                continue;
            }
            self.rows.insert(key, batch.to_row(ix));
            if self.rows.len() > SAMPLE_ROWS {
                self.rows.pop_last();
            }
            highest = self.highest();
        }
    }

    fn highest(&self) -> u64 {
        match self.rows.last_key_value() {
            Some((key, _)) if self.rows.len() >= SAMPLE_ROWS => *key,
            _ => u64::MAX,
        }
    }
}

/// Order statistics of exponential variates with rate `w` are a weighted sample; their bits sort like their values.
fn key(id: BatchId, row: usize, weight: f64) -> Option<u64> {
    // SplitMix64 of the place: neighbours get unrelated keys.
    let mut z = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(row as u64 + 1);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    let uniform = ((z >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let variate = -uniform.ln() / weight;
    (weight > 0.0 && variate.is_finite()).then(|| variate.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(order: &[u64]) -> Memory {
        let mut memory = Memory::default();
        for id in order {
            let values = (0..3000).map(|row| (3000 * id + row) as f64).collect();
            memory.offer(BatchId(*id), &Batch::new(1, values).unwrap());
        }
        memory
    }

    #[test]
    fn the_sample_is_bounded_uniform_and_blind_to_the_order() {
        let memory = offered(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let rows = memory.sampled_rows().unwrap();
        assert_eq!(rows.n_rows(), SAMPLE_ROWS);
        assert_eq!(Some(&rows), offered(&[7, 3, 9, 0, 1, 8, 2, 6, 5, 4]).sampled_rows().as_ref());
        // Each tenth of the stream has a tenth of the sample, within five standard deviations.
        for tenth in 0..10 {
            let range = f64::from(3000 * tenth)..f64::from(3000 * (tenth + 1));
            let count = rows.values().iter().filter(|value| range.contains(value)).count() as f64;
            assert!((count - 1000.0).abs() < 5.0 * 900.0_f64.sqrt(), "{tenth}: {count}");
        }
    }

    #[test]
    fn pooled_samples_are_the_sample_of_all_rows() {
        let (mut odd, even) = (offered(&[1, 3, 5, 7, 9]), offered(&[0, 2, 4, 6, 8]));
        odd.pool(&even);
        let all = offered(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(odd.sample().eq(all.sample()));
    }

    #[test]
    fn rows_of_weight_three_are_sampled_three_times_as_often() {
        let mut memory = Memory::default();
        for id in 0..20 {
            let values: Vec<f64> = (0..3000).map(|row| f64::from(row % 2)).collect();
            let weights = values.iter().map(|odd| 1.0 + 2.0 * odd).collect();
            memory.offer(BatchId(id), &Batch::new(1, values).unwrap().with_weights(weights).unwrap());
        }
        let odd = memory.sampled_rows().unwrap().values().iter().sum::<f64>();
        assert!((odd / SAMPLE_ROWS as f64 - 0.75).abs() < 0.04, "{odd}");
    }

    #[test]
    fn few_rows_are_all_remembered() {
        let mut memory = Memory::default();
        memory.offer(BatchId(0), &Batch::new(2, vec![1.0, 2.0, 3.0, 4.0]).unwrap());
        assert_eq!(memory.sample().len(), 2);
        assert!(Memory::<Batch>::default().sampled_rows().is_none());
    }
}
