//! Sums over rows for each component: the sufficient statistics and the statistics of the labels.

use anabranch::process::LabelStatistics;

/// What `n` rows say about `k` components, all of them in one block so that matrix products can write it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Totals {
    /// `S_k`, component after component.
    pub(crate) stats: Vec<f64>,
    /// `s`, `t` and `e` of each component.
    pub(crate) labels: Vec<LabelStatistics>,
    n_features: usize,
}

impl Totals {
    /// No rows.
    pub(crate) fn empty(k: usize, n_features: usize) -> Self {
        Self { stats: vec![0.0; k * n_features], labels: vec![LabelStatistics::default(); k], n_features }
    }

    /// Number of components.
    pub(crate) fn k(&self) -> usize {
        self.labels.len()
    }

    /// Length of a component's statistics.
    pub(crate) fn n_features(&self) -> usize {
        self.n_features
    }

    /// The statistics of one component.
    pub(crate) fn of(&self, component: usize) -> &[f64] {
        &self.stats[component * self.n_features..(component + 1) * self.n_features]
    }

    /// Expected number of rows of each component.
    pub(crate) fn counts(&self) -> Vec<f64> {
        self.labels.iter().map(|labels| labels.expected_count).collect()
    }

    /// Entropy of all labels.
    pub(crate) fn entropy(&self) -> f64 {
        self.labels.iter().map(|labels| labels.label_entropy).sum()
    }

    /// Adds the sums of other rows.
    pub(crate) fn add(&mut self, other: &Self) {
        debug_assert_eq!(self.stats.len(), other.stats.len());
        self.stats.iter_mut().zip(&other.stats).for_each(|(mine, theirs)| *mine += theirs);
        self.labels.iter_mut().zip(&other.labels).for_each(|(mine, theirs)| *mine += *theirs);
    }

    /// The sums of `factor` times the rows.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.stats.iter_mut().for_each(|value| *value *= factor);
        for labels in &mut self.labels {
            *labels = times(*labels, factor);
        }
        self
    }

    /// Goes `share` of the way to other sums.
    pub(crate) fn move_towards(&mut self, other: &Self, share: f64) {
        self.stats.iter_mut().zip(&other.stats).for_each(|(mine, theirs)| *mine += share * (theirs - *mine));
        for (mine, theirs) in self.labels.iter_mut().zip(&other.labels) {
            *mine = times(*mine, 1.0 - share);
            *mine += times(*theirs, share);
        }
    }

    /// The components in this order; those left out are dropped.
    pub(crate) fn select(&self, order: &[usize]) -> Self {
        Self {
            stats: order.iter().flat_map(|ix| self.of(*ix)).copied().collect(),
            labels: order.iter().map(|ix| self.labels[*ix]).collect(),
            n_features: self.n_features,
        }
    }
}

/// `e^s` is 0 to double precision long before: beyond this a multiple of `s` must not become NaN.
const LEAST_LOG_P_EMPTY: f64 = -1e6;

/// The statistics of `factor` times the labels.
pub(crate) fn times(labels: LabelStatistics, factor: f64) -> LabelStatistics {
    LabelStatistics {
        log_p_empty: labels.log_p_empty.max(LEAST_LOG_P_EMPTY) * factor,
        expected_count: labels.expected_count * factor,
        label_entropy: labels.label_entropy * factor,
    }
}
