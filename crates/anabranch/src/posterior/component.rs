//! One component: what has been learned about it, and what follows from that for the next minibatch.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::family::{Family, Predictive};
use crate::identify::ComponentId;
use crate::process::LabelStatistics;

/// What some data say about one component: `Σ_j π_j T(x_j)` and the statistics of the labels, without any prior.
///
/// Evidence of disjoint data adds up, in any order. Nothing is ever subtracted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Sufficient statistics `S`, as long as the family's feature row.
    pub stats: Vec<f64>,
    /// `s`, `t` and `e` of the same responsibilities.
    pub labels: LabelStatistics,
}

impl Evidence {
    /// No data at all.
    pub fn empty(n_features: usize) -> Self {
        Self { stats: vec![0.0; n_features], labels: LabelStatistics::default() }
    }

    /// Adds the evidence of other data (paper eq. centralupdate and stupdate).
    pub fn absorb(&mut self, other: &Evidence) {
        debug_assert_eq!(self.stats.len(), other.stats.len());
        for (mine, theirs) in self.stats.iter_mut().zip(&other.stats) {
            *mine += theirs;
        }
        self.labels += other.labels;
    }
}

/// What the E-step needs of a component; computed once per state of the component and shared by all readers.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Expected natural parameter `φ`.
    pub phi: Vec<f64>,
    /// `A(η₀ + S)`.
    pub log_partition: f64,
}

/// A component of the central posterior.
#[derive(Clone, Debug)]
pub struct Component {
    id: ComponentId,
    born: u64,
    evidence: Evidence,
    expectation: OnceLock<Expectation>,
    predictive: OnceLock<Prepared>,
}

/// A predictive density that was prepared once.
#[derive(Clone)]
struct Prepared(Arc<dyn Predictive>);

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prepared")
    }
}

impl Component {
    /// A component that entry number `born` of the journal created.
    pub fn new(id: ComponentId, born: u64, evidence: Evidence) -> Self {
        Self { id, born, evidence, expectation: OnceLock::new(), predictive: OnceLock::new() }
    }

    /// The name it keeps for ever.
    pub fn id(&self) -> ComponentId {
        self.id
    }

    /// Version of the posterior in which it first appeared.
    pub fn born(&self) -> u64 {
        self.born
    }

    /// What the data said so far.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Expected number of data, `t`.
    pub fn expected_count(&self) -> f64 {
        self.evidence.labels.expected_count
    }

    /// Expected natural parameter and log-partition under `family`'s prior.
    pub fn expectation<F: Family>(&self, family: &F) -> &Expectation {
        self.expectation.get_or_init(|| {
            let mut phi = vec![0.0; family.n_features()];
            let log_partition = family.expected_natural(&self.evidence.stats, &mut phi);
            Expectation { phi, log_partition }
        })
    }

    /// The posterior predictive density under `family`'s prior.
    pub fn predictive<F: Family>(&self, family: &F) -> &Arc<dyn Predictive> {
        &self.predictive.get_or_init(|| Prepared(Arc::from(family.predictive(&self.evidence.stats)))).0
    }

    /// The component with more evidence; what was derived from the old evidence is forgotten.
    pub(crate) fn with_more(&self, increment: &Evidence) -> Self {
        let mut evidence = self.evidence.clone();
        evidence.absorb(increment);
        Self::new(self.id, self.born, evidence)
    }

    /// The same evidence under another prior: derived quantities are forgotten.
    pub(crate) fn under_new_prior(&self) -> Self {
        Self::new(self.id, self.born, self.evidence.clone())
    }
}
