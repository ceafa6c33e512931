//! How good a clustering is: agreement with known labels, from counts of pairs of labels.

mod coherence;

use std::collections::BTreeMap;

pub use coherence::coherence;

/// Counts of (found label, true label), filled row by row.
///
/// ```
/// use anabranch::metric::Contingency;
/// let mut table = Contingency::default();
/// for (found, truth) in [(7, 0), (7, 0), (9, 1), (9, 1)] {
///     table.add(found, truth);
/// }
/// assert_eq!(table.adjusted_rand(), Some(1.0));
/// assert_eq!(table.normalized_mutual_information(), Some(1.0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Contingency {
    cells: BTreeMap<(u64, i64), u64>,
    total: u64,
}

impl Contingency {
    /// Counts one row.
    pub fn add(&mut self, found: u64, truth: i64) {
        *self.cells.entry((found, truth)).or_default() += 1;
        self.total += 1;
    }

    /// Rows counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adjusted Rand index: 1 for the same partition, about 0 for unrelated ones. `None` without rows.
    pub fn adjusted_rand(&self) -> Option<f64> {
        if self.total == 0 {
            return None;
        }
        let pairs = |n: u64| n as f64 * (n as f64 - 1.0) / 2.0;
        let (found, truth) = self.margins();
        let together: f64 = self.cells.values().map(|n| pairs(*n)).sum();
        let in_found: f64 = found.values().map(|n| pairs(*n)).sum();
        let in_truth: f64 = truth.values().map(|n| pairs(*n)).sum();
        let expected = in_found * in_truth / pairs(self.total).max(1.0);
        let highest = (in_found + in_truth) / 2.0;
        // Both partitions trivial in the same way: nothing to tell apart, and nothing told apart wrongly.
        Some(if highest == expected { 1.0 } else { (together - expected) / (highest - expected) })
    }

    /// Mutual information over the mean of the two entropies: 1 for the same partition. `None` without rows.
    pub fn normalized_mutual_information(&self) -> Option<f64> {
        if self.total == 0 {
            return None;
        }
        let n = self.total as f64;
        let (found, truth) = self.margins();
        let entropy = |counts: &mut dyn Iterator<Item = u64>| -> f64 {
            counts.map(|c| -(c as f64 / n) * (c as f64 / n).ln()).sum()
        };
        let h_found = entropy(&mut found.values().copied());
        let h_truth = entropy(&mut truth.values().copied());
        let information: f64 = self
            .cells
            .iter()
            .map(|((f, t), c)| {
                let c = *c as f64;
                c / n * (c * n / (found[f] as f64 * truth[t] as f64)).ln()
            })
            .sum();
        let mean = (h_found + h_truth) / 2.0;
        Some(if mean == 0.0 { 1.0 } else { (information / mean).clamp(0.0, 1.0) })
    }

    fn margins(&self) -> (BTreeMap<u64, u64>, BTreeMap<i64, u64>) {
        let (mut found, mut truth) = (BTreeMap::new(), BTreeMap::new());
        for ((f, t), count) in &self.cells {
            *found.entry(*f).or_default() += count;
            *truth.entry(*t).or_default() += count;
        }
        (found, truth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of scikit-learn 1.9.1 for these labels, printed to 12 digits.
    const PRINTED: f64 = 1e-9;

    fn table(found: &[u64], truth: &[i64]) -> Contingency {
        let mut table = Contingency::default();
        found.iter().zip(truth).for_each(|(f, t)| table.add(*f, *t));
        table
    }

    #[test]
    fn agrees_with_scikit_learn() {
        let table = table(&[0, 0, 1, 1, 2, 2, 2, 3, 3, 0], &[0, 0, 0, 1, 1, 2, 2, 2, 2, 1]);
        assert!((table.adjusted_rand().unwrap() - SKLEARN_ARI).abs() < PRINTED);
        assert!((table.normalized_mutual_information().unwrap() - SKLEARN_NMI).abs() < PRINTED);
    }

    const SKLEARN_ARI: f64 = 0.110169491525;
    const SKLEARN_NMI: f64 = 0.463012969752;

    #[test]
    fn one_cluster_against_one_class_is_perfect_and_against_two_is_worthless() {
        assert_eq!(table(&[1, 1, 1], &[5, 5, 5]).adjusted_rand(), Some(1.0));
        assert_eq!(table(&[1, 1, 1, 1], &[5, 5, 6, 6]).adjusted_rand(), Some(0.0));
        assert_eq!(table(&[1, 1, 1, 1], &[5, 5, 6, 6]).normalized_mutual_information(), Some(0.0));
        assert_eq!(Contingency::default().adjusted_rand(), None);
    }
}
