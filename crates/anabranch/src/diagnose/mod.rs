//! What is doubtful about a posterior: components that may be one, components that hold next to nothing, labels that are
//! not sure, rows that are explained badly. Everything but the last comes from the posterior alone.
//!
//! Rows are drawn from the predictive density of each component and labelled by all that lie near. How often labels are
//! in doubt follows from that, and which pairs are worth a closer look: could one component stand for both?

mod compare;
mod duplicate;
pub(crate) mod neighbours;
pub(crate) mod overlap;
mod worst;

pub use compare::{Comparison, compare};
pub use duplicate::{Duplicate, LIKELY_DUPLICATE};
pub use worst::{BadlyExplained, Worst};

use rand::Rng;

use crate::family::Family;
use crate::identify::ComponentId;
use crate::posterior::Posterior;
use crate::process::Process;

/// A component that holds fewer rows than this in expectation is near-empty: one row shows no spread.
pub const NEAR_EMPTY: f64 = 2.0;

/// What is doubtful about a posterior.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Probability that the most probable label of a row is the right one, if the posterior is right:
    /// `E[max_k π_k(x)]` over rows drawn from the components. `None` without components.
    pub label_certainty: Option<f64>,
    /// The components, in the order of the posterior.
    pub components: Vec<ComponentDiagnosis>,
    /// Pairs that may be one component, the likeliest first.
    pub duplicates: Vec<Duplicate>,
    /// Rows that were drawn for this.
    pub rows_drawn: usize,
}

/// What is doubtful about one component.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentDiagnosis {
    /// Which component.
    pub id: ComponentId,
    /// Expected number of its rows.
    pub expected_count: f64,
    /// Probability that a row of this component is taken for one: `E[π_k(x)]` over rows drawn from it. `None` for a
    /// component without rows.
    pub certainty: Option<f64>,
    /// The component that shares most rows with this one.
    pub confused_with: Option<ComponentId>,
}

impl ComponentDiagnosis {
    /// True below [`NEAR_EMPTY`] rows.
    pub fn is_near_empty(&self) -> bool {
        self.expected_count < NEAR_EMPTY
    }
}

impl Diagnosis {
    /// Components with fewer than [`NEAR_EMPTY`] rows.
    pub fn near_empty(&self) -> impl Iterator<Item = &ComponentDiagnosis> {
        self.components.iter().filter(|component| component.is_near_empty())
    }

    /// How many components there would be if each likely duplicate were merged.
    pub fn distinct_components(&self) -> usize {
        let ids: Vec<ComponentId> = self.components.iter().map(|component| component.id).collect();
        let mut parent: Vec<usize> = (0..ids.len()).collect();
        let root = |parent: &[usize], mut at: usize| {
            while parent[at] != at {
                at = parent[at];
            }
            at
        };
        let mut distinct = ids.len();
        for duplicate in &self.duplicates {
            let place = |id| ids.iter().position(|other| *other == id);
            let (Some(a), Some(b)) = (place(duplicate.first), place(duplicate.second)) else { continue };
            let (a, b) = (root(&parent, a), root(&parent, b));
            if a != b {
                parent[a.max(b)] = a.min(b);
                distinct -= 1;
            }
        }
        distinct
    }
}

/// Looks for what is doubtful. The generator draws the rows; the same generator gives the same diagnosis.
///
/// ```
/// use anabranch::diagnose::diagnose;
/// use anabranch::family::Gaussian;
/// # use anabranch::batch::Batch;
/// use anabranch::posterior::Posterior;
/// use anabranch::process::{Bound, Dirichlet};
/// use rand::SeedableRng;
/// # let rows = Batch::new(1, vec![0.0, 1.0, 2.0]).unwrap();
/// let nothing = Posterior::prior(Gaussian::from_rows(&rows).unwrap(), Dirichlet::new(5.0, Bound::Paper).unwrap());
/// let diagnosis = diagnose(&nothing, &mut rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0));
/// assert!(diagnosis.components.is_empty() && diagnosis.duplicates.is_empty());
/// ```
pub fn diagnose<F: Family, P: Process>(posterior: &Posterior<F, P>, rng: &mut dyn Rng) -> Diagnosis {
    let near = neighbours::neighbours(posterior);
    let overlap = overlap::overlap(posterior, &near, rng);
    let partners = overlap.partners();
    let components = posterior.components().iter().enumerate().map(|(ix, component)| ComponentDiagnosis {
        id: component.id(),
        expected_count: component.expected_count(),
        certainty: overlap.certainty[ix],
        confused_with: partners[ix].first().map(|(partner, _)| posterior.components()[*partner].id()),
    });
    Diagnosis {
        label_certainty: overlap.label_certainty,
        components: components.collect(),
        duplicates: duplicate::duplicates(posterior, &overlap, rng),
        rows_drawn: overlap.rows_drawn,
    }
}
