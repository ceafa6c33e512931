//! What becomes of components, entry by entry: enough to follow any id through a run.

use serde::Serialize;

use super::journal::{Entry, Fold};
use crate::family::Conjugate;
use crate::identify::ComponentId;
use crate::posterior::Posterior;
use crate::process::Process;

/// A change of the components of the central posterior.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What happened.
    #[serde(flatten)]
    pub what: What,
    /// Version of the posterior afterwards.
    pub version: u64,
    /// Weight of the rows absorbed by then.
    pub rows: f64,
}

/// What can happen to components.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// A component that was not there before.
    Birth {
        /// The component.
        id: ComponentId,
        /// Its rows.
        mass: f64,
    },
    /// A component ends, and another one takes its rows.
    Merge {
        /// The one that ends.
        id: ComponentId,
        /// The one that goes on.
        into: ComponentId,
        /// The rows of the one that ends.
        mass: f64,
    },
    /// A component goes on as several, of which the first keeps its id.
    Split {
        /// The component.
        id: ComponentId,
        /// All parts.
        into: Vec<ComponentId>,
        /// Their rows.
        masses: Vec<f64>,
    },
    /// A component has faded: nothing is left of its rows.
    Death {
        /// The component.
        id: ComponentId,
        /// Its rows before the last minibatch.
        mass: f64,
    },
    /// There are more components than allowed: the merge that follows is for that reason alone.
    Limit {
        /// Components now.
        components: usize,
        /// Components allowed.
        most: usize,
    },
}

/// What an entry has changed: `before` it, and in the fold after it.
pub(super) fn of<F: Conjugate, P: Process>(
    entry: &Entry<F, P>,
    before: &Posterior<F, P>,
    next_id: u64,
    after: &Fold<F, P>,
) -> Vec<Change> {
    let posterior = after.posterior();
    let mass = |posterior: &Posterior<F, P>, id| {
        posterior.position(id).map_or(0.0, |at| posterior.components()[at].expected_count())
    };
    let born: Vec<ComponentId> = (next_id..after.next_id()).map(ComponentId).collect();
    let what = match entry {
        Entry::Retire { id, .. } => {
            vec![What::Merge { id: *id, into: posterior.resolve(*id), mass: mass(before, *id) }]
        }
        Entry::Split { id, .. } => {
            let into: Vec<ComponentId> = std::iter::once(*id).chain(born).collect();
            let masses = into.iter().map(|id| mass(posterior, *id)).collect();
            vec![What::Split { id: *id, into, masses }]
        }
        _ => {
            let birth = |id| What::Birth { id, mass: mass(posterior, id) };
            let death = |id| What::Death { id, mass: mass(before, id) };
            // One that has faded may come back, and one that is born may be of rows that are long past.
            let version = posterior.version();
            let returned =
                posterior.components().iter().filter(|c| c.born() == version && c.id().0 < next_id);
            let mut what: Vec<What> = returned.map(|component| birth(component.id())).collect();
            what.extend(born.into_iter().filter(|id| posterior.position(*id).is_some()).map(birth));
            let ended = before.components().iter().map(|component| component.id());
            what.extend(ended.filter(|id| posterior.position(*id).is_none()).map(death));
            what
        }
    };
    let (version, rows) = (posterior.version(), posterior.rows());
    what.into_iter().map(|what| Change { what, version, rows }).collect()
}
