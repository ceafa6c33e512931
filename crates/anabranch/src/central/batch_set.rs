//! The set of minibatches that are in the journal (ONCE), kept as runs of consecutive ids: a stream read in order
//! costs a few numbers, however long it is.

use serde::{Deserialize, Serialize};

/// Ids from here on are names that do not count up, as several sources of one stream give them.
const NAMES: u64 = 1 << 61;

/// The name of a minibatch, given by whoever cuts the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId(pub u64);

/// A set of batch ids.
///
/// ```
/// use anabranch::central::{BatchId, BatchSet};
/// let mut set = BatchSet::default();
/// assert!(set.insert(BatchId(0)) && set.insert(BatchId(2)) && set.insert(BatchId(1)));
/// assert!(!set.insert(BatchId(1)));
/// assert_eq!(set.runs(), &[(0, 2)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSet {
    /// Disjoint inclusive runs, ascending, never adjacent.
    runs: Vec<(u64, u64)>,
}

impl BatchSet {
    /// Rebuilds a set from runs, or `None` when they overlap, touch or are out of order.
    pub fn from_runs(runs: Vec<(u64, u64)>) -> Option<Self> {
        let ordered = runs.iter().all(|(first, last)| first <= last)
            && runs.windows(2).all(|pair| pair[0].1 < pair[1].0 && pair[1].0 - pair[0].1 > 1);
        ordered.then_some(Self { runs })
    }

    /// The disjoint inclusive runs, ascending.
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// True when the minibatch is in the set.
    pub fn contains(&self, id: BatchId) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= id.0);
        after > 0 && self.runs[after - 1].1 >= id.0
    }

    /// Number of ids.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// True when there is no id.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The first id behind all that count from 0 up; ids from 2⁶¹ on are names of another kind.
    pub fn next(&self) -> u64 {
        self.runs.iter().rev().find(|(first, _)| *first < NAMES).map_or(0, |(_, last)| last.saturating_add(1))
    }

    /// Adds so many ids behind all that count up.
    pub(crate) fn insert_behind(&mut self, count: u64) {
        let Some(more) = count.checked_sub(1) else { return };
        let first = self.next();
        let at = self.runs.partition_point(|(other, _)| *other < NAMES);
        match self.runs.get_mut(at.wrapping_sub(1)) {
            Some((_, last)) => *last += count,
            None => self.runs.insert(at, (first, first + more)),
        }
    }

    /// The ids from this one on that count up.
    pub fn since(&self, start: u64) -> Self {
        let counted = self.runs.iter().filter(|(first, last)| *last >= start && *first < NAMES);
        Self { runs: counted.map(|(first, last)| ((*first).max(start), *last)).collect() }
    }

    /// Adds an id; false when it was there already.
    pub fn insert(&mut self, id: BatchId) -> bool {
        if self.contains(id) {
            return false;
        }
        let at = self.runs.partition_point(|(first, _)| *first <= id.0);
        let joins_left = at > 0 && self.runs[at - 1].1.checked_add(1) == Some(id.0);
        let joins_right = at < self.runs.len() && id.0.checked_add(1) == Some(self.runs[at].0);
        match (joins_left, joins_right) {
            (true, true) => {
                self.runs[at - 1].1 = self.runs[at].1;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].1 = id.0,
            (false, true) => self.runs[at].0 = id.0,
            (false, false) => self.runs.insert(at, (id.0, id.0)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(ids in proptest::collection::vec(0u64..60, 0..120)) {
            let mut runs = BatchSet::default();
            let mut plain = BTreeSet::new();
            for id in ids {
                prop_assert_eq!(runs.insert(BatchId(id)), plain.insert(id));
            }
            prop_assert_eq!(runs.len(), plain.len() as u64);
            for id in 0..60 {
                prop_assert_eq!(runs.contains(BatchId(id)), plain.contains(&id));
            }
            prop_assert_eq!(BatchSet::from_runs(runs.runs().to_vec()), Some(runs));
        }
    }

    #[test]
    fn the_ends_of_the_range_are_ordinary_ids() {
        let mut set = BatchSet::default();
        assert!(set.insert(BatchId(u64::MAX)) && set.insert(BatchId(0)));
        assert!(!set.insert(BatchId(u64::MAX)));
    }

    #[test]
    fn what_goes_on_is_counted_behind_all_that_was_counted() {
        assert_eq!(BatchSet::default().next(), 0);
        let set = BatchSet::from_runs(vec![(0, 4), (9, 12), (NAMES + 7, NAMES + 9)]).unwrap();
        assert_eq!(set.next(), 13);
        assert_eq!(set.since(10).runs(), [(10, 12)]);
        assert!(set.since(13).is_empty());
        let mut grown = set.clone();
        grown.insert_behind(3);
        grown.insert_behind(0);
        assert_eq!(grown.runs(), [(0, 4), (9, 15), (NAMES + 7, NAMES + 9)]);
        let mut named = set.since(13);
        named.insert(BatchId(NAMES + 7));
        named.insert_behind(2);
        assert_eq!(named.runs(), [(0, 1), (NAMES + 7, NAMES + 7)]);
    }

    #[test]
    fn runs_out_of_order_are_refused() {
        assert_eq!(BatchSet::from_runs(vec![(5, 9), (1, 2)]), None);
        assert_eq!(BatchSet::from_runs(vec![(1, 2), (3, 4)]), None);
        assert_eq!(BatchSet::from_runs(vec![(2, 1)]), None);
    }
}
