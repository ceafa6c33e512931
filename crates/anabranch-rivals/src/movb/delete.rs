//! Deletes: the rows of a small component go to the others, if the bound over all rows rises.
//!
//! Only minibatches in which the component has rows change: their E-step is done again without it. The bound of the
//! result is exact, so the move is accepted or rejected with certainty.

use anabranch::family::Family;

use super::{Memoized, NOTHING};
use crate::sweep::{assign, in_parallel};

/// Components that are tried after a lap, the smallest first.
const TRIES: usize = 4;

/// A component that touches more than this share of the minibatches is not small.
const MOST_TOUCHED: usize = 4;

impl<F: Family> Memoized<'_, F> {
    /// Tries to delete the smallest components. Returns how many ended.
    pub(super) fn delete(&mut self, threads: usize) -> usize {
        let mut deleted = 0;
        let mut spared = Vec::new();
        for _ in 0..TRIES {
            let counts = self.mixture.totals.counts();
            let candidates = (0..counts.len()).filter(|ix| !spared.contains(&self.mixture.ids[*ix]));
            let smallest = candidates.min_by(|a, b| counts[*a].total_cmp(&counts[*b]));
            let Some(smallest) = smallest.filter(|_| counts.len() > 1) else { break };
            if self.delete_one(smallest, threads) {
                deleted += 1;
            } else {
                spared.push(self.mixture.ids[smallest]);
            }
        }
        deleted
    }

    fn delete_one(&mut self, component: usize, threads: usize) -> bool {
        let touched: Vec<usize> = (0..self.memo.len())
            .filter(|b| self.memo[*b].labels[component].expected_count > NOTHING)
            .collect();
        if self.memo.len() > MOST_TOUCHED && touched.len() > self.memo.len() / MOST_TOUCHED {
            return false;
        }
        let kept: Vec<usize> = (0..self.mixture.k()).filter(|ix| *ix != component).collect();
        let mut without = self.clone();
        without.select(&kept);
        let parameters = without.mixture.parameters();
        let redone = in_parallel(touched.len(), threads, |ix| {
            let range = self.ranges[touched[ix]].clone();
            assign(self.mixture.family, self.rows, range, &parameters, &mut |_, _| {})
        });
        touched.iter().zip(redone).for_each(|(b, sums)| without.memo[*b] = sums);
        without.refresh();
        let better = without.mixture.objective() > self.mixture.objective();
        if better {
            *self = without;
        }
        better
    }
}
