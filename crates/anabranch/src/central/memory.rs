//! The rows that a run remembers: a bounded, uniform sample of all, and the first ones whole.
//!
//! The sample judges merges and splits of components whose data are long gone; the first rows, which were learned when the
//! model knew least, are learned from again when it is good. Both are bounded, whatever the length of the stream.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{BatchId, BatchSet};
use crate::batch::{Batch, Minibatch};
use crate::family::Family;
use crate::infer::Between;
use crate::posterior::{Component, Posterior};
use crate::process::Process;

/// The name of the first minibatch of a stream whose first rows are kept; a stream that names it otherwise has no later rows.
const FIRST: BatchId = BatchId(0);

/// Rows of the sample.
pub const SAMPLE_ROWS: usize = 10_000;

/// Sums are taken so many times where rows are drawn as they were: then the prior and the doubt about parameters count for nothing.
const CERTAIN: f64 = 1e6;

/// Rows that were seen, as many as it takes to look after the model.
#[derive(Clone, Debug)]
pub struct Memory<B: Minibatch = Batch> {
    sample: Sample<B::Row>,
    first: Option<B>,
    /// Lines of growth at which the model has been looked after; `None` when nobody has counted them.
    tended: Option<u32>,
    between: Option<Between>,
    behind: Behind,
}

/// Whether the first rows that are kept came behind a model whose rows are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behind {
    /// They are the first of all, or have been set aside.
    #[default]
    Nothing,
    /// They will, when the first of them comes.
    Model,
    /// They did: what the model says is set aside until they are complete.
    SetAside,
}

impl<B: Minibatch> Default for Memory<B> {
    fn default() -> Self {
        Self {
            sample: Sample::of(BTreeMap::new()),
            first: None,
            tended: None,
            between: None,
            behind: Behind::Nothing,
        }
    }
}

impl Memory {
    /// What a run that has learned this posterior could remember. Its rows are gone: rows that are drawn from the components
    /// stand for them, with keys as rows of the stream would have. They have the spread of the rows that were learned, which is that of the sums: rows of
    /// the predictive density are wider, and would be judged without what they never taught.
    pub fn drawn_from<F: Family, P: Process>(
        posterior: &Posterior<F, P>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let components = posterior.components();
        let counts = components.iter().map(|component| component.evidence().labels.expected_count.max(0.0));
        let counts: Vec<f64> = counts.collect();
        let mass: f64 = counts.iter().sum();
        let known = |component: &Component| component.evidence().stats.iter().map(|s| CERTAIN * s).collect();
        let known: Vec<Vec<f64>> = components.iter().map(|component| known(component)).collect();
        let mut row = vec![0.0; posterior.family().dimensions()];
        let (mut rows, mut variate) = (BTreeMap::new(), 0.0);
        for drawn in 0..(mass.round() as usize).min(SAMPLE_ROWS) {
            let mut left = rng.random::<f64>() * mass;
            let chosen = counts.iter().position(|count| {
                left -= count;
                left < 0.0
            });
            let Some(component) = chosen.or(components.len().checked_sub(1)) else { break };
            posterior.family().sample(&known[component], rng, &mut row);
            // The smallest of as many variates as there are rows, one after another.
            variate += -(1.0 - rng.random::<f64>()).ln() / (mass - drawn as f64).max(1.0);
            if !row.iter().any(|value| value.is_infinite()) {
                rows.insert(variate.to_bits(), (row.clone(), 1.0));
            }
        }
        let halvings = posterior.past().halvings;
        Self { sample: Sample { rows, since: halvings, now: halvings }, ..Self::default() }
    }
}

impl<B: Minibatch> Memory<B> {
    /// Goes on from a stored sample and first minibatch.
    pub fn restore(sample: Vec<(u64, B::Row)>, first: Option<B>) -> Self {
        let rows = sample.into_iter().map(|(key, row)| (key, (row, 1.0))).collect();
        Self { sample: Sample::of(rows), first, ..Self::default() }
    }

    /// Whether the first rows came behind a model.
    pub fn behind(&self) -> Behind {
        self.behind
    }

    /// The same, whose first rows come behind a model or not.
    pub fn with_behind(self, behind: Behind) -> Self {
        Self { behind, ..self }
    }

    pub(crate) fn set_behind(&mut self, behind: Behind) {
        self.behind = behind;
    }

    /// The same, of a model that has been looked after at so many lines of its growth.
    pub fn with_tended(self, tended: Option<u32>) -> Self {
        Self { tended, ..self }
    }

    /// Lines of growth at which the model has been looked after; `None` when nobody has counted them.
    pub fn tended(&self) -> Option<u32> {
        self.tended
    }

    /// Between how many components all rows cannot tell, once somebody has looked.
    pub fn between(&self) -> Option<Between> {
        self.between
    }

    /// The same with these numbers of components held possible.
    pub fn with_between(self, between: Option<Between>) -> Self {
        Self { between, ..self }
    }

    /// One more look at all rows holds these numbers of components possible.
    pub(crate) fn doubt(&mut self, between: Option<Between>) {
        self.between = match (self.between, between) {
            (Some(before), Some(now)) => Some(before.or(now)),
            (before, now) => now.or(before),
        };
    }

    pub(crate) fn set_tended(&mut self, lines: u32) {
        self.tended = Some(lines);
    }

    /// The sample, each row with its key, in the order of the keys.
    pub fn sample(&self) -> impl ExactSizeIterator<Item = (u64, &B::Row)> {
        self.sample.rows.iter().map(|(key, (row, _))| (*key, row))
    }

    /// The weights of the rows of the sample, in the order of the keys, unless all count once.
    pub fn sample_weights(&self) -> Option<Vec<f64>> {
        let weights = self.sample.rows.values().map(|(_, weight)| *weight);
        weights.clone().any(|weight| weight != 1.0).then(|| weights.collect())
    }

    /// The same with these weights of the rows of the sample.
    pub fn with_sample_weights(mut self, weights: Vec<f64>) -> Self {
        let stored = self.sample.rows.values_mut().map(|(_, weight)| weight);
        stored.zip(weights).for_each(|(stored, weight)| *stored = weight);
        self
    }

    /// The sample as a batch, in which each row counts for those that it stands for; `None` while it is empty.
    pub fn sampled_rows(&self) -> Option<B> {
        let rows = B::from_rows(self.sample.rows.values().map(|(row, _)| row))?;
        Some(match self.sample_weights() {
            None => rows,
            Some(mut weights) => {
                weights.iter_mut().for_each(|weight| *weight = self.sample.stands_for(*weight));
                if self.sample.now != self.sample.since {
                    let share = (self.sample.since - self.sample.now).exp2();
                    weights.iter_mut().for_each(|weight| *weight *= share);
                }
                rows.counting(weights)
            }
        })
    }

    /// All rows of a stream of this weight, where the sample holds every one of them, each counts once, and none was drawn from
    /// a model. `most` says how many rows a minibatch has at most.
    pub fn all_rows(&self, mass: f64, absorbed: &BatchSet, most: impl Fn(BatchId) -> usize) -> Option<B> {
        let rows = &self.sample.rows;
        let each_once = self.sample_weights().is_none() && self.halvings() == (0.0, 0.0);
        if !each_once || (rows.len() as f64 - mass).abs() >= 0.5 {
            return None;
        }
        // A row has the key of its place, unless it was drawn.
        let ids = absorbed.runs().iter().flat_map(|(first, last)| (*first..=*last).map(BatchId));
        let places = ids.flat_map(|id| (0..most(id)).filter_map(move |row| key(id, row, 1.0, 1.0)));
        let places: BTreeSet<u64> = places.filter(|place| rows.contains_key(place)).collect();
        if places.len() == rows.len() { self.sampled_rows() } else { None }
    }

    /// Which rows of the sample are not among the first rows, while these are kept.
    pub(crate) fn later_rows(&self) -> Option<Vec<bool>> {
        let first = self.first.as_ref()?;
        // The first rows are of the beginning.
        let since = (-self.sample.since).exp2();
        let keys: BTreeSet<u64> =
            (0..first.n_rows()).filter_map(|row| key(FIRST, row, first.weight(row), since)).collect();
        Some(self.sample.rows.keys().map(|key| !keys.contains(key)).collect())
    }

    /// The rows of the sample that are not among the first rows, where that is known.
    pub(crate) fn sampled_later(&self) -> Option<B> {
        let are_later = self.later_rows()?;
        let rows = self.sample.rows.values().zip(are_later);
        B::from_rows(rows.filter(|(_, is_later)| *is_later).map(|((row, _), _)| row))
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
        self.offer_at(id, batch, self.sample.now);
    }

    /// The same of rows beside which those of the beginning have been halved so often.
    pub(crate) fn offer_at(&mut self, id: BatchId, batch: &B, halvings: f64) {
        self.look_anew();
        self.sample.offer(id, batch, halvings);
    }

    /// The components have changed: how many are possible is not known any more.
    pub(crate) fn look_anew(&mut self) {
        self.between = None;
    }

    /// Halvings at which weights and keys of the sample count as they are, and the most so far.
    pub fn halvings(&self) -> (f64, f64) {
        (self.sample.since, self.sample.now)
    }

    /// The same with these halvings.
    pub fn with_halvings(mut self, (since, now): (f64, f64)) -> Self {
        self.sample.since = since;
        self.sample.now = now;
        self
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
/// uniform and the same in whatever order the minibatches come; a row of weight `w` has the chances of `w` rows.
#[derive(Clone, Debug)]
struct Sample<R> {
    /// By key, each with its weight.
    rows: BTreeMap<u64, (R, f64)>,
    /// Where older rows fade, newer ones weigh more, `2^(halvings − since)`: the order of keys stays as it is.
    since: f64,
    now: f64,
}

/// Halvings after which weights are told anew: long before they leave the range of numbers.
const FARTHEST: f64 = 256.0;

impl<R> Sample<R> {
    fn of(rows: BTreeMap<u64, (R, f64)>) -> Self {
        Self { rows, since: 0.0, now: 0.0 }
    }

    /// Weights count from these halvings on; all keys change by the same power of two.
    fn count_from(&mut self, halvings: f64) {
        // In steps that leave the numbers what they are.
        let far = |halvings: f64| halvings.clamp(-1000.0, 1000.0).exp2();
        let step = (halvings - self.since).floor();
        self.since += step;
        let rows = std::mem::take(&mut self.rows)
            .into_iter()
            .map(|(key, (row, weight))| ((f64::from_bits(key) * far(step)), row, weight * far(-step)));
        let counts = |(key, _, weight): &(f64, R, f64)| key.is_finite() && weight.is_normal();
        self.rows = rows.filter(counts).map(|(key, row, weight)| (key.to_bits(), (row, weight))).collect();
    }

    fn offer<B: Minibatch<Row = R>>(&mut self, id: BatchId, batch: &B, halvings: f64) {
        if halvings - self.since > FARTHEST {
            self.count_from(halvings);
        }
        self.now = self.now.max(halvings);
        let factor = (halvings - self.since).exp2();
        let mut highest = self.highest();
        for ix in 0..batch.n_rows() {
            let weight = batch.weight(ix) * factor;
            let Some(key) = key(id, ix, batch.weight(ix), factor) else { continue };
            if key >= highest {
                continue;
            }
            self.rows.insert(key, (batch.to_row(ix), weight));
            if self.rows.len() > SAMPLE_ROWS {
                self.rows.pop_last();
            }
            highest = self.highest();
        }
    }

    /// The weight that a row of the sample stands for: its own over its chance to be in it (Horvitz and Thompson), which is
    /// that of a variate of rate `w` to lie below the highest.
    fn stands_for(&self, weight: f64) -> f64 {
        let highest = match self.highest() {
            u64::MAX => f64::INFINITY,
            key => f64::from_bits(key),
        };
        weight / -(-weight * highest).exp_m1()
    }

    fn highest(&self) -> u64 {
        match self.rows.last_key_value() {
            Some((key, _)) if self.rows.len() >= SAMPLE_ROWS => *key,
            _ => u64::MAX,
        }
    }
}

/// Order statistics of exponential variates with rate `w` are a weighted sample; their bits sort like their values.
fn key(id: BatchId, row: usize, weight: f64, factor: f64) -> Option<u64> {
    // SplitMix64 of the place: neighbours get unrelated keys.
    let mut z = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(row as u64 + 1);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    let uniform = ((z >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let variate = -uniform.ln() / weight / factor;
    (weight > 0.0 && variate.is_finite()).then(|| variate.to_bits())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::SeedableRng;

    use super::*;
    use crate::family::{Conjugate, Gaussian};
    use crate::identify::ComponentId;
    use crate::posterior::Evidence;
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    #[test]
    fn a_sample_is_all_rows_only_where_each_of_them_was_seen() {
        let rows = |first: usize, n: usize| {
            Batch::new(1, (first..first + n).map(|value| value as f64).collect()).unwrap()
        };
        let mut memory = Memory::<Batch>::default();
        let mut absorbed = BatchSet::default();
        for (id, batch) in [(0, rows(0, 30)), (1, rows(30, 10)), (2, rows(40, 4))] {
            memory.offer(BatchId(id), &batch);
            absorbed.insert(BatchId(id));
        }
        let most = |id: BatchId| if id == FIRST { 30 } else { 10 };
        let mut all: Vec<f64> = memory.all_rows(44.0, &absorbed, most).unwrap().values().to_vec();
        all.sort_by(f64::total_cmp);
        assert_eq!(all, rows(0, 44).values());
        assert!(memory.all_rows(45.0, &absorbed, most).is_none(), "one is gone");
        let other = Memory::<Batch>::restore(vec![(17, vec![0.5])], None);
        assert!(other.all_rows(1.0, &absorbed, most).is_none(), "nobody saw it");
        let weighing = |weight: f64| rows(0, 1).counting(vec![weight]);
        let mut weighted = Memory::<Batch>::default();
        weighted.offer(FIRST, &weighing(2.0));
        assert!(weighted.all_rows(1.0, &absorbed, most).is_none(), "it does not count once");
        // Read and not yet absorbed.
        memory.offer(BatchId(3), &rows(44, 2));
        assert!(memory.all_rows(44.0, &absorbed, most).is_none());
        assert!(memory.all_rows(46.0, &absorbed, most).is_none());
    }

    #[test]
    fn drawn_rows_scatter_like_those_that_were_learned() {
        // Twelve rows of three columns: what they predict is half as wide again.
        let value = |ix: usize| ((ix * ix * 7 + ix) as f64 * 0.37).sin() * (1 + ix % 3) as f64;
        let rows = Batch::new(3, (0..36).map(value).collect()).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let (mut stats, mut features) = (vec![0.0; family.n_features()], vec![0.0; family.n_features()]);
        let mut labels = LabelStatistics::default();
        for row in rows.rows() {
            family.features(row, &mut features);
            stats.iter_mut().zip(&features).for_each(|(sum, x)| *sum += x);
            labels.observe(1.0, 1.0);
        }
        let mut posterior = Posterior::prior(family, Dirichlet::new(1.0, Bound::Paper).unwrap());
        let evidence = Evidence { stats, labels };
        posterior.components = vec![Arc::new(Component::new(ComponentId(0), 0, evidence))];
        let drawn: Vec<Vec<f64>> = (0..500)
            .flat_map(|seed| {
                let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
                let memory = Memory::drawn_from(&posterior, rng);
                memory.sample().map(|(_, row)| row.clone()).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(drawn.len(), 6000);
        let variance = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64
        };
        for column in 0..3 {
            let learned = variance(rows.rows().map(|row| row[column]).collect());
            let found = variance(drawn.iter().map(|row| row[column]).collect());
            // The variance of 6,000 draws has a standard error of 2 %.
            assert!((found / learned - 1.0).abs() < 0.08, "{column}: {found} {learned}");
        }
    }

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
    fn a_weighted_sample_stands_for_the_weight_of_all_rows() {
        // Few rows: all are in, and each stands for itself. Many: for those that are not in, too.
        for (batches, tolerance) in [(3, 1e-12), (20, 0.05)] {
            let (mut memory, mut heavy) = (Memory::default(), 0.0);
            for id in 0..batches {
                let values: Vec<f64> = (0..3000).map(|row| f64::from(row % 300 == 0)).collect();
                let weights: Vec<f64> = values.iter().map(|odd| 0.5 + 200.0 * odd).collect();
                heavy += 10.0 * 200.5;
                memory.offer(BatchId(id), &Batch::new(1, values).unwrap().with_weights(weights).unwrap());
            }
            let all = heavy + batches as f64 * 2990.0 * 0.5;
            let sample = memory.sampled_rows().unwrap();
            let weights = sample.weights().unwrap();
            let found: f64 = sample.values().iter().zip(weights).map(|(odd, weight)| odd * weight).sum();
            assert!((sample.mass() / all - 1.0).abs() < tolerance, "{} of {all}", sample.mass());
            assert!((found / heavy - 1.0).abs() < tolerance, "{found} of {heavy}");
            let stored = memory.sample().map(|(key, row)| (key, row.clone())).collect();
            let restored = Memory::<Batch>::restore(stored, None);
            assert_eq!(
                restored.with_sample_weights(memory.sample_weights().unwrap()).sampled_rows(),
                Some(sample)
            );
        }
    }

    #[test]
    fn a_fading_sample_is_that_of_the_weights_now_in_whatever_order_and_for_ever() {
        // Half-lives of two minibatches; weights are told anew once on the way.
        let offered = |order: &mut dyn Iterator<Item = u64>| {
            let mut memory: Memory = Memory::default();
            for id in order {
                let rows = Batch::new(1, vec![id as f64; 3000]).unwrap();
                memory.offer_at(BatchId(id), &rows, 0.5 * id as f64);
            }
            memory
        };
        let memory = offered(&mut (0..600));
        let backwards = offered(&mut (500..600).rev());
        let rows = memory.sampled_rows().unwrap();
        let weight = |from: f64| -> f64 {
            let weights = rows.weights().unwrap().iter().zip(rows.values());
            weights.filter(|(_, value)| **value >= from).map(|(weight, _)| weight).sum()
        };
        // Σ 3000 · 2^(−k/2) over all, and over the last four.
        let all = 3000.0 / (1.0 - 0.5_f64.sqrt());
        assert!((weight(0.0) / all - 1.0).abs() < 0.03, "{}", weight(0.0));
        assert!((weight(596.0) / (0.75 * all) - 1.0).abs() < 0.03, "{}", weight(596.0));
        let values = |memory: &Memory| -> Vec<f64> { memory.sample().map(|(_, row)| row[0]).collect() };
        assert_eq!(values(&memory), values(&backwards));
    }

    #[test]
    fn few_rows_are_all_remembered() {
        let mut memory = Memory::default();
        memory.offer(BatchId(0), &Batch::new(2, vec![1.0, 2.0, 3.0, 4.0]).unwrap());
        assert_eq!(memory.sample().len(), 2);
        assert!(Memory::<Batch>::default().sampled_rows().is_none());
    }

    #[test]
    fn later_rows_are_those_that_are_not_among_the_first() {
        let mut memory = Memory::default();
        let (first, later) = (Batch::new(1, vec![1.0, 2.0]).unwrap(), Batch::new(1, vec![4.0, 5.0]).unwrap());
        memory.offer(BatchId(0), &first);
        assert_eq!(memory.later_rows(), None, "no first rows are kept");
        memory.keep(first);
        memory.offer(BatchId(1), &later);
        let are_later = memory.later_rows().unwrap();
        let rows = memory.sample().zip(are_later);
        let mut found: Vec<f64> = rows.filter(|(_, later)| *later).map(|((_, row), _)| row[0]).collect();
        found.sort_by(f64::total_cmp);
        assert_eq!(found, [4.0, 5.0]);
    }

    #[test]
    fn doubts_add_up_until_rows_come() {
        let mut memory = Memory::<Batch>::default();
        memory.doubt(Some(Between { fewest: 3, most: 5 }));
        memory.doubt(None);
        memory.doubt(Some(Between { fewest: 4, most: 7 }));
        assert_eq!(memory.between(), Some(Between { fewest: 3, most: 7 }));
        memory.offer(BatchId(0), &Batch::new(1, vec![1.0]).unwrap());
        assert_eq!(memory.between(), None);
    }
}
