//! The map σ from the new components of a minibatch to components of the centre (paper eq. bnpopt, invariant SIGMA).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The name of a component: given once, never reused, never moved (invariant IDENT).
///
/// ```
/// use anabranch::prelude::*;
///
/// let mut learner = Mixture::bernoulli().learner()?;
/// learner.learn(&Batch::new(2, [[0.0, 0.0], [1.0, 1.0]].repeat(50).concat())?)?;
/// let before = learner.model().expect("rows").label(&[1.0, 1.0]);
/// learner.learn(&Batch::new(2, [[0.0, 0.0], [1.0, 1.0]].repeat(500).concat())?)?;
/// assert_eq!(learner.model().expect("rows").label(&[1.0, 1.0]), before);
/// assert!(before.is_some_and(|ComponentId(number)| number < 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComponentId(pub u64);

impl fmt::Display for ComponentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a new component of a minibatch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// It is the same as this component of the centre.
    Existing(ComponentId),
    /// The centre has nothing like it.
    New,
}

/// For each new component of a minibatch, in order, where it goes. No central component receives two.
///
/// ```
/// use anabranch::identify::{ComponentId, Correspondence, Target};
/// let seven = Target::Existing(ComponentId(7));
/// assert!(Correspondence::new(vec![seven, Target::New, Target::New]).is_ok());
/// assert!(Correspondence::new(vec![seven, seven]).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Target>", into = "Vec<Target>")]
pub struct Correspondence(Vec<Target>);

/// Why a list of targets is not a correspondence.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CorrespondenceError {
    /// Two components of the minibatch go to one component of the centre.
    #[error("components {first} and {second} of the minibatch both go to component {target}")]
    NotOneToOne {
        /// The component that two go to.
        target: ComponentId,
        /// Position in the minibatch of the first of them.
        first: usize,
        /// Position in the minibatch of the second of them.
        second: usize,
    },
}

impl Correspondence {
    /// Checks that σ is one-to-one.
    pub fn new(targets: Vec<Target>) -> Result<Self, CorrespondenceError> {
        let mut source_of = BTreeMap::new();
        for (second, target) in targets.iter().enumerate() {
            let Target::Existing(id) = *target else { continue };
            if let Some(first) = source_of.insert(id, second) {
                return Err(CorrespondenceError::NotOneToOne { target: id, first, second });
            }
        }
        Ok(Self(targets))
    }

    /// Reads the columns that [`solve`](super::solve) chose as the ids of the central components.
    pub fn from_matching(
        columns: &[Option<usize>],
        central: &[ComponentId],
    ) -> Result<Self, CorrespondenceError> {
        Self::new(
            columns
                .iter()
                .map(|column| column.map_or(Target::New, |ix| Target::Existing(central[ix])))
                .collect(),
        )
    }

    /// Every component is new: what holds when the centre has nothing new to compare with.
    pub fn all_new(n_components: usize) -> Self {
        Self(vec![Target::New; n_components])
    }

    /// The paper's ablation: the k-th new component of the minibatch is joined with the k-th new one of the centre,
    /// however unlike they are; what is left over is new.
    pub fn by_position(n_components: usize, central: &[ComponentId]) -> Result<Self, CorrespondenceError> {
        Self::new(
            (0..n_components)
                .map(|ix| central.get(ix).copied().map_or(Target::New, Target::Existing))
                .collect(),
        )
    }

    /// Where each component goes, in the minibatch's order.
    pub fn targets(&self) -> &[Target] {
        &self.0
    }

    /// Number of components of the minibatch that found a partner.
    pub fn n_matched(&self) -> usize {
        self.0.iter().filter(|target| **target != Target::New).count()
    }
}

impl TryFrom<Vec<Target>> for Correspondence {
    type Error = CorrespondenceError;

    fn try_from(targets: Vec<Target>) -> Result<Self, CorrespondenceError> {
        Self::new(targets)
    }
}

impl From<Correspondence> for Vec<Target> {
    fn from(correspondence: Correspondence) -> Self {
        correspondence.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_as_a_plain_number() {
        assert_eq!(format!("{:>3}", ComponentId(7)), "  7");
        assert_eq!(serde_json::to_string(&ComponentId(7)).unwrap(), "7");
    }

    #[test]
    fn the_error_names_both_sources_and_the_target() {
        let four = Target::Existing(ComponentId(4));
        let error = Correspondence::new(vec![four, Target::New, four]).unwrap_err();
        assert_eq!(error.to_string(), "components 0 and 2 of the minibatch both go to component 4");
    }

    #[test]
    fn a_file_cannot_smuggle_in_two_sources_for_one_target() {
        let read = serde_json::from_str::<Correspondence>;
        assert_eq!(read(r#"[{"existing":4},"new"]"#).unwrap().n_matched(), 1);
        assert!(read(r#"[{"existing":4},{"existing":4}]"#).is_err());
    }

    #[test]
    fn by_position_ignores_likeness_and_leaves_the_rest_new() {
        let central = [ComponentId(9), ComponentId(3)];
        let joined = Correspondence::by_position(3, &central).unwrap();
        assert_eq!(
            joined.targets(),
            [Target::Existing(central[0]), Target::Existing(central[1]), Target::New]
        );
        assert_eq!(Correspondence::by_position(1, &central).unwrap().n_matched(), 1);
    }
}
