//! One component: what has been learned about it, and what follows from that for the next minibatch.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::family::{Conjugate, Family, Predictive};
use crate::identify::ComponentId;
use crate::process::{LabelStatistics, MassLaw};

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

    /// The evidence of `share` times the data.
    pub fn scaled(&self, share: f64) -> Self {
        Self { stats: self.stats.iter().map(|s| share * s).collect(), labels: self.labels.scaled(share) }
    }
}

impl MassLaw {
    /// The mass that this evidence accounts for, of `mass` in all: the same, when MASS holds.
    pub fn accounted<'a>(self, evidence: impl Iterator<Item = &'a Evidence>, mass: f64) -> f64 {
        match self {
            Self::Counts => evidence.map(|evidence| evidence.labels.expected_count).sum(),
            Self::Features => evidence.map(|evidence| evidence.stats[0]).sum(),
            Self::Overlapping => evidence.map(|evidence| evidence.labels.expected_count).fold(mass, f64::max),
        }
    }
}

/// Evidence of which a part will be replaced: by the same rows, looked at again with a better posterior.
///
/// ```text
/// evidence = lasting + share · passing
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// What stays.
    pub lasting: Evidence,
    /// What goes as its rows are learned from again.
    pub passing: Evidence,
}

impl Layers {
    fn evidence(&self, share: f64) -> Evidence {
        let mut evidence = self.passing.scaled(share);
        evidence.absorb(&self.lasting);
        evidence
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
    layers: Option<Box<Layers>>,
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
        Self { id, born, evidence, layers: None, expectation: OnceLock::new(), predictive: OnceLock::new() }
    }

    /// A component of which a part is to be replaced; `share` of that part still counts.
    pub fn layered(id: ComponentId, born: u64, layers: Layers, share: f64) -> Self {
        let evidence = layers.evidence(share);
        Self { layers: Some(Box::new(layers)), ..Self::new(id, born, evidence) }
    }

    /// The same component with the layers that its evidence is made of; `None` when they make something else.
    pub fn with_layers(mut self, layers: Layers, share: f64) -> Option<Self> {
        // Sums that were made in another order differ by far less than this share.
        const ROUNDING: f64 = 1e-6;
        let (made, stored) = (layers.evidence(share), &self.evidence);
        let close = |a: f64, b: f64| a == b || (a - b).abs() <= ROUNDING * (1.0 + a.abs() + b.abs());
        let fits = made.stats.len() == stored.stats.len()
            && made.stats.iter().zip(&stored.stats).all(|(a, b)| close(*a, *b))
            && close(made.labels.expected_count, stored.labels.expected_count)
            && layers.lasting.labels.expected_count >= 0.0
            && layers.passing.labels.expected_count >= 0.0
            && layers.lasting.labels.log_p_empty <= 0.0
            && layers.passing.labels.log_p_empty <= 0.0
            && layers.lasting.labels.label_entropy.is_finite()
            && layers.passing.labels.label_entropy.is_finite();
        self.layers = Some(Box::new(layers));
        fits.then_some(self)
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
    pub fn expectation<F: Conjugate>(&self, family: &F) -> &Expectation {
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

    /// The part of the evidence that is to be replaced, and the rest.
    pub fn layers(&self) -> Option<&Layers> {
        self.layers.as_deref()
    }

    /// The component with more evidence; what was derived from the old evidence is forgotten.
    pub(crate) fn with_more(&self, increment: &Evidence) -> Self {
        let mut more = self.under_new_prior();
        more.evidence.absorb(increment);
        if let Some(layers) = &mut more.layers {
            layers.lasting.absorb(increment);
        }
        more
    }

    /// The component with all that another one holds, layer by layer.
    pub(crate) fn joined(&self, other: &Component, share: f64) -> Self {
        if self.layers.is_none() && other.layers.is_none() {
            return self.with_more(&other.evidence);
        }
        let (mut mine, theirs) = (self.split_layers(), other.split_layers());
        mine.lasting.absorb(&theirs.lasting);
        mine.passing.absorb(&theirs.passing);
        Self::layered(self.id, self.born, mine, share)
    }

    fn split_layers(&self) -> Layers {
        self.layers().cloned().unwrap_or_else(|| Layers {
            lasting: self.evidence.clone(),
            passing: Evidence::empty(self.evidence.stats.len()),
        })
    }

    /// All evidence so far is to be replaced.
    pub(crate) fn to_be_replaced(&self) -> Self {
        let passing = self.evidence.clone();
        let lasting = Evidence::empty(passing.stats.len());
        Self::layered(self.id, self.born, Layers { lasting, passing }, 1.0)
    }

    /// The component when only this share of what is to be replaced still counts; at 0 it is gone.
    pub(crate) fn with_share(&self, share: f64) -> Self {
        match &self.layers {
            Some(layers) if share > 0.0 => Self::layered(self.id, self.born, (**layers).clone(), share),
            Some(layers) => Self::new(self.id, self.born, layers.lasting.clone()),
            None => self.clone(),
        }
    }

    /// The same evidence under another prior: derived quantities are forgotten.
    pub(crate) fn under_new_prior(&self) -> Self {
        Self { layers: self.layers.clone(), ..Self::new(self.id, self.born, self.evidence.clone()) }
    }
}
