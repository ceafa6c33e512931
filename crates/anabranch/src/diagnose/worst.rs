//! The rows that a posterior explains worst, kept while a stream goes by.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A row with a low predictive density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadlyExplained {
    /// Number of the row in its stream, from 1.
    pub row: u64,
    /// Log predictive density.
    pub ln_density: f64,
}

impl Eq for BadlyExplained {}

impl PartialOrd for BadlyExplained {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BadlyExplained {
    /// By density; of rows with the same density the later is the greater.
    fn cmp(&self, other: &Self) -> Ordering {
        self.ln_density.total_cmp(&other.ln_density).then(self.row.cmp(&other.row))
    }
}

/// A bounded collection of the rows with the lowest density.
///
/// ```
/// use anabranch::diagnose::Worst;
/// let mut worst = Worst::new(2);
/// for (row, ln_density) in [(1, -3.0), (2, -9.0), (3, -1.0), (4, -5.0)] {
///     worst.offer(row, ln_density);
/// }
/// let rows: Vec<u64> = worst.into_sorted().iter().map(|bad| bad.row).collect();
/// assert_eq!(rows, [2, 4]);
/// ```
#[derive(Clone, Debug)]
pub struct Worst {
    capacity: usize,
    kept: BinaryHeap<BadlyExplained>,
}

impl Worst {
    /// Keeps up to `capacity` rows.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, kept: BinaryHeap::new() }
    }

    /// True when a row of this density would be kept.
    pub fn wants(&self, ln_density: f64) -> bool {
        self.kept.len() < self.capacity
            || self.kept.peek().is_some_and(|best| ln_density.total_cmp(&best.ln_density).is_lt())
    }

    /// Looks at a row; returns whether it is kept, for now.
    pub fn offer(&mut self, row: u64, ln_density: f64) -> bool {
        if !self.wants(ln_density) {
            return false;
        }
        if self.kept.len() == self.capacity {
            self.kept.pop();
        }
        self.kept.push(BadlyExplained { row, ln_density });
        true
    }

    /// The rows, the worst first.
    pub fn into_sorted(self) -> Vec<BadlyExplained> {
        self.kept.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_are_those_that_sorting_everything_finds() {
        let densities: Vec<f64> = (0..500).map(|i| -f64::from((i * 7919) % 127)).collect();
        for capacity in [0, 1, 10, 499, 500, 1000] {
            let mut worst = Worst::new(capacity);
            let mut all = Vec::new();
            for (row, ln_density) in (1..).zip(&densities) {
                worst.offer(row, *ln_density);
                all.push(BadlyExplained { row, ln_density: *ln_density });
            }
            all.sort();
            all.truncate(capacity);
            assert_eq!(worst.into_sorted(), all, "{capacity}");
        }
    }

    #[test]
    fn a_row_that_is_impossible_under_the_model_is_the_worst() {
        let mut worst = Worst::new(1);
        worst.offer(1, -800.0);
        worst.offer(2, f64::NEG_INFINITY);
        assert_eq!(worst.into_sorted()[0].row, 2);
    }
}
