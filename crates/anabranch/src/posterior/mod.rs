//! The central posterior as a reader sees it: an immutable snapshot with a version (`q_o` or `q_i` of the paper).

mod answer;
mod component;
pub(crate) mod envelope;
mod familiarity;
mod features;
mod past;
mod predict;
mod restore;
mod tail;
mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use answer::Answer;
pub use component::{Component, Evidence, Expectation, Layers};
pub use familiarity::Familiarity;
pub use features::{FeaturePredictor, RowFeatures};
pub(crate) use past::SHARES;
pub use past::{HalfLife, Past};
pub use predict::{Ask, Predictor};
pub use restore::{Parts, RestoreError};
pub use tail::{Densities, Tail, Told};
pub(crate) use tail::{densities, place};
pub use topics::{Proportions, TopicPredictor, halves};

use crate::family::Conjugate;
use crate::identify::ComponentId;
use crate::process::{MassLaw, Population, Process};

/// A snapshot of the central posterior. Cheap to clone: components are shared.
#[derive(Clone, Debug)]
pub struct Posterior<F, P> {
    pub(crate) version: u64,
    pub(crate) family: Arc<F>,
    pub(crate) process: P,
    /// A component without data, shared by all snapshots under the same prior.
    pub(crate) nothing: Arc<Component>,
    pub(crate) components: Vec<Arc<Component>>,
    pub(crate) redirects: Arc<BTreeMap<ComponentId, ComponentId>>,
    pub(crate) mass: f64,
    pub(crate) pass: u32,
    pub(crate) familiarity: Familiarity,
    pub(crate) tail: Tail,
    pub(crate) past: Past,
}

impl<F: Conjugate, P: Process> Posterior<F, P> {
    /// The prior: no data, no components, version 0.
    pub fn prior(family: F, process: P) -> Self {
        Self {
            version: 0,
            nothing: Arc::new(Component::nothing(&family)),
            family: Arc::new(family),
            process,
            components: Vec::new(),
            redirects: Arc::default(),
            mass: 0.0,
            pass: 0,
            familiarity: Familiarity::default(),
            tail: Tail::default(),
            past: Past::default(),
        }
    }

    /// Number of journal entries folded into this snapshot.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What a component is.
    pub fn family(&self) -> &F {
        &self.family
    }

    /// How many components there are.
    pub fn process(&self) -> &P {
        &self.process
    }

    /// The components in the order of their ids.
    pub fn components(&self) -> &[Arc<Component>] {
        &self.components
    }

    /// A component without data, which says what the prior expects of a new one. Not one of the components.
    pub fn nothing(&self) -> &Component {
        &self.nothing
    }

    /// Retired ids and where each one's evidence went.
    pub fn redirects(&self) -> &BTreeMap<ComponentId, ComponentId> {
        &self.redirects
    }

    /// Weight of the data that count: all that were absorbed, but for what is forgotten.
    pub fn mass(&self) -> f64 {
        self.mass
    }

    /// Weight of the data that came, whether they still count or are forgotten.
    pub fn rows(&self) -> f64 {
        self.mass + self.past.forgotten
    }

    /// What has become of the past.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// How often the data have doubled, or what came before them counts half.
    pub(crate) fn doublings(&self) -> u32 {
        let rows = self.rows();
        let doubled = if rows >= 2.0 { rows.log2() as u32 } else { 0 };
        doubled.saturating_add(self.past.halvings as u32)
    }

    /// The pass over the data, from 0.
    pub fn pass(&self) -> u32 {
        self.pass
    }

    /// How well rows were explained before they were learned.
    pub fn familiarity(&self) -> Familiarity {
        self.familiarity
    }

    /// How probable rows usually are.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// What the components account for, `Σ_k t_k` unless the process has another law, which MASS says equals
    /// [`Posterior::mass`].
    pub fn expected_mass(&self) -> f64 {
        let evidence = self.components.iter().map(|component| component.evidence());
        self.process.mass_law().accounted(evidence, self.mass)
    }

    /// Components that hold at least one datum in expectation.
    pub fn effective_components(&self) -> usize {
        self.components.iter().filter(|c| c.expected_count() >= 1.0).count()
    }

    /// Follows redirects to the component that holds the evidence of `id` today (IDENT).
    pub fn resolve(&self, id: ComponentId) -> ComponentId {
        let mut id = id;
        while let Some(&next) = self.redirects.get(&id) {
            id = next;
        }
        id
    }

    /// Where the component with this id stands, if it lives.
    pub fn position(&self, id: ComponentId) -> Option<usize> {
        self.components.binary_search_by_key(&id, |c| c.id()).ok()
    }

    /// The same components under another process.
    pub(crate) fn under<Q>(self, process: Q) -> Posterior<F, Q> {
        let Self {
            version, family, nothing, components, redirects, mass, pass, familiarity, tail, past, ..
        } = self;
        Posterior {
            version,
            family,
            process,
            nothing,
            components,
            redirects,
            mass,
            pass,
            familiarity,
            tail,
            past,
        }
    }

    /// What is true of all components together.
    pub fn population(&self) -> Population {
        let labelled = match self.process.mass_law() {
            MassLaw::Features => self.components.iter().map(|c| c.expected_count()).sum(),
            MassLaw::Counts | MassLaw::Overlapping => self.mass,
        };
        Population::of(self.components.iter().map(|c| &c.evidence().labels), labelled)
    }

    /// The collapsed evidence lower bound of everything absorbed, up to terms of the rows alone.
    ///
    /// ```text
    /// Σ_k [A(η₀ + S_k) − A(η₀)]  +  Σ_k score(s_k, t_k) + C  +  Σ_k e_k
    /// ```
    pub fn objective(&self) -> f64 {
        let empty = self.family.log_partition(&vec![0.0; self.family.n_features()]);
        let all = self.population();
        let parts = self.components.iter().map(|c| {
            let labels = &c.evidence().labels;
            c.expectation(&*self.family).log_partition - empty
                + self.process.score(labels, all)
                + labels.label_entropy
        });
        parts.sum::<f64>() + self.process.normaliser(all)
    }
}
