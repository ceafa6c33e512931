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
        debug_assert!(
            self.stats.len() >= other.stats.len(),
            "features that others bring are made room for first"
        );
        for (mine, theirs) in self.stats.iter_mut().zip(&other.stats) {
            *mine += theirs;
        }
        self.labels += other.labels;
    }

    /// The same evidence over at least so many features, of which it has nothing.
    pub(crate) fn widen(&mut self, n_features: usize) {
        self.stats.resize(n_features.max(self.stats.len()), 0.0);
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
    /// What stays: all evidence, where none is to be replaced.
    lasting: Evidence,
    passing: Option<Passing>,
    /// Both together, where there is something to be replaced; formed by whoever asks first.
    whole: OnceLock<Evidence>,
    expectation: OnceLock<Expectation>,
    screen: OnceLock<Vec<f64>>,
    predictive: OnceLock<Prepared>,
}

/// Evidence that is to be replaced, never changed until then, and the share of it that still counts.
#[derive(Clone, Debug)]
struct Passing {
    evidence: Arc<Evidence>,
    share: f64,
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
        Self {
            id,
            born,
            lasting: evidence,
            passing: None,
            whole: OnceLock::new(),
            expectation: OnceLock::new(),
            screen: OnceLock::new(),
            predictive: OnceLock::new(),
        }
    }

    /// A component without data.
    pub(super) fn nothing<F: Conjugate>(family: &F) -> Self {
        // No journal gives this id away.
        Self::new(ComponentId(u64::MAX), 0, Evidence::empty(family.n_features()))
    }

    /// A component of which a part is to be replaced; `share` of that part still counts.
    pub fn layered(id: ComponentId, born: u64, layers: Layers, share: f64) -> Self {
        let Layers { lasting, passing } = layers;
        Self { passing: Some(Passing { evidence: Arc::new(passing), share }), ..Self::new(id, born, lasting) }
    }

    /// The same component with the layers that its evidence is made of; `None` when they make something else.
    pub fn with_layers(self, layers: Layers, share: f64) -> Option<Self> {
        // Sums that were made in another order differ by far less than this share.
        const ROUNDING: f64 = 1e-6;
        let plausible = |evidence: &Evidence| {
            let labels = &evidence.labels;
            labels.expected_count >= 0.0 && labels.log_p_empty <= 0.0 && labels.label_entropy.is_finite()
        };
        let stored = self.evidence();
        let same_length = layers.lasting.stats.len() == stored.stats.len()
            && layers.passing.stats.len() == stored.stats.len();
        if !(same_length && plausible(&layers.lasting) && plausible(&layers.passing)) {
            return None;
        }
        let layered = Self::layered(self.id, self.born, layers, share);
        let made = layered.evidence();
        let close = |a: f64, b: f64| a == b || (a - b).abs() <= ROUNDING * (1.0 + a.abs() + b.abs());
        let fits = made.stats.iter().zip(&stored.stats).all(|(a, b)| close(*a, *b))
            && close(made.labels.expected_count, stored.labels.expected_count);
        fits.then_some(layered)
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
        let Some(Passing { evidence, share }) = &self.passing else { return &self.lasting };
        self.whole.get_or_init(|| {
            let mut whole = evidence.scaled(*share);
            whole.absorb(&self.lasting);
            whole
        })
    }

    /// The part of the evidence that stays.
    pub fn lasting(&self) -> &Evidence {
        &self.lasting
    }

    /// The part of the evidence that is to be replaced, all of it.
    pub fn passing(&self) -> Option<&Evidence> {
        self.passing.as_ref().map(|passing| &*passing.evidence)
    }

    /// Whether the other one has the very same part that is to be replaced.
    pub(crate) fn shares_passing(&self, other: &Self) -> bool {
        match (&self.passing, &other.passing) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(&mine.evidence, &theirs.evidence),
            _ => false,
        }
    }

    /// The component with other evidence that stays, beside the part that is to be replaced. One that was stored may have an
    /// empty part where others have none.
    pub(crate) fn with_other_lasting(&self, born: u64, lasting: Evidence, share: f64) -> Self {
        let passing = self.passing.as_ref();
        let passing = passing.map(|passing| Passing { evidence: Arc::clone(&passing.evidence), share });
        Self { passing, ..Self::new(self.id, born, lasting) }
    }

    /// Expected number of data, `t`.
    pub fn expected_count(&self) -> f64 {
        self.evidence().labels.expected_count
    }

    /// Expected natural parameter and log-partition under `family`'s prior.
    pub fn expectation<F: Conjugate>(&self, family: &F) -> &Expectation {
        self.expectation.get_or_init(|| {
            let mut phi = vec![0.0; family.n_features()];
            let log_partition = family.expected_natural(&self.evidence().stats, &mut phi);
            Expectation { phi, log_partition }
        })
    }

    /// Parameters of the family's bound on the scores of this component.
    pub fn screen<F: Family>(&self, family: &F) -> &[f64] {
        self.screen.get_or_init(|| {
            let mut screen = vec![0.0; family.screen_len()];
            family.screen(&self.expectation(family).phi, &mut screen);
            screen
        })
    }

    /// The posterior predictive density under `family`'s prior.
    pub fn predictive<F: Family>(&self, family: &F) -> &Arc<dyn Predictive> {
        &self.predictive.get_or_init(|| Prepared(Arc::from(family.predictive(&self.evidence().stats)))).0
    }

    /// The same component under another id.
    pub(crate) fn called(&self, id: ComponentId) -> Self {
        Self { id, ..self.clone() }
    }

    /// The component with more evidence; what was derived from the old evidence is forgotten.
    pub(crate) fn with_more(&self, increment: &Evidence) -> Self {
        let mut more = self.under_new_prior();
        more.lasting.absorb(increment);
        more
    }

    /// The component with all that another one holds, layer by layer.
    pub(crate) fn joined(&self, other: &Component, share: f64) -> Self {
        let mut joined = self.with_more(&other.lasting);
        joined.passing = match (&self.passing, &other.passing) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(Passing { evidence: one.evidence.clone(), share }),
            (Some(mine), Some(theirs)) => {
                let mut both = (*mine.evidence).clone();
                both.absorb(&theirs.evidence);
                Some(Passing { evidence: Arc::new(both), share })
            }
        };
        joined
    }

    /// The component when all that it holds counts this share.
    pub(crate) fn faded(&self, share: f64) -> Self {
        let passing = self.passing.as_ref().map(|passing| Passing {
            evidence: Arc::new(passing.evidence.scaled(share)),
            share: passing.share,
        });
        Self { passing, ..Self::new(self.id, self.born, self.lasting.scaled(share)) }
    }

    /// All evidence so far is to be replaced.
    pub(crate) fn to_be_replaced(&self) -> Self {
        let passing = self.evidence().clone();
        let lasting = Evidence::empty(passing.stats.len());
        Self::layered(self.id, self.born, Layers { lasting, passing }, 1.0)
    }

    /// What was to be replaced stays, and what stayed is to be replaced.
    pub(crate) fn exchanged(&self) -> Self {
        let nothing = || Evidence::empty(self.lasting.stats.len());
        let lasting = self.passing.as_ref().map_or_else(nothing, |passing| (*passing.evidence).clone());
        let layers = Layers { lasting, passing: self.lasting.clone() };
        Self::layered(self.id, self.born, layers, 1.0)
    }

    /// The component when only this share of what is to be replaced still counts; at 0 it is gone.
    pub(crate) fn with_share(&self, share: f64) -> Self {
        let mut component = self.under_new_prior();
        component.passing =
            component.passing.filter(|_| share > 0.0).map(|passing| Passing { share, ..passing });
        component
    }

    /// A part of the component: this share of everything, and the offset spread over the layers as the data are.
    pub(crate) fn part(&self, id: ComponentId, born: u64, part: f64, offset: &[f64], share: f64) -> Self {
        let count = self.expected_count();
        let of = |evidence: &Evidence| {
            let mut scaled = evidence.scaled(part);
            let here = if count > 0.0 { evidence.labels.expected_count / count } else { 0.0 };
            scaled.stats.iter_mut().zip(offset).for_each(|(s, offset)| *s += here * offset);
            scaled
        };
        match self.passing() {
            Some(passing) => {
                let layers = Layers { lasting: of(&self.lasting), passing: of(passing) };
                Self::layered(id, born, layers, share)
            }
            None => Self::new(id, born, of(&self.lasting)),
        }
    }

    /// The same component over so many features.
    pub(crate) fn widened(&self, n_features: usize) -> Self {
        let mut wider = self.under_new_prior();
        wider.lasting.widen(n_features);
        if let Some(passing) = &mut wider.passing {
            Arc::make_mut(&mut passing.evidence).widen(n_features);
        }
        wider
    }

    /// The same evidence under another prior: derived quantities are forgotten.
    pub(crate) fn under_new_prior(&self) -> Self {
        Self { passing: self.passing.clone(), ..Self::new(self.id, self.born, self.lasting.clone()) }
    }
}
