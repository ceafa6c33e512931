//! The hierarchical Dirichlet process over the tables of documents (paper §3.1 applied to the franchise of documents).
//!
//! ```text
//! G₀ ~ DP(γ, H)    G_j ~ DP(α₀, G₀)    topic weights of a document:  α₀ β_k,   β_k = t_k / (Σ t + γ)
//! ```
//!
//! What chooses a topic at the top is a table of a document, not a word. A document seats the words of one topic at one
//! table, so that a table of topic `k` stands in document `j` with the probability `P_jk` that the document has a word of
//! it. The tables of all documents are a sample of a Dirichlet process, and its bound is theirs:
//!
//! ```text
//! t_k = Σ_j P_jk        s_k = Σ_j log(1 − P_jk)        P_jk = 1 − Π_n (1 − ζ_jnk)
//! ```

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Bound, Dirichlet, LabelStatistics, MassLaw, Parameter, Population, Process};

/// Concentrations of a document that make sense.
const ALPHA0: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// Concentrations of the two levels.
///
/// ```
/// use anabranch::process::{Bound, Hierarchical, Process};
/// let process = Hierarchical::new(1.0, 2.0, Bound::Paper).unwrap();
/// assert_eq!((process.gamma(), process.alpha0()), (1.0, 2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Hierarchical {
    top: Dirichlet,
    alpha0: Parameter,
}

/// Why there is no such process.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum HierarchicalError {
    /// The concentration of the topics is zero, negative, NaN or infinite.
    #[error("concentration gamma = {gamma} is not a finite number above 0")]
    Gamma {
        /// The offending value.
        gamma: f64,
    },
    /// The concentration of a document is zero, negative, NaN, infinite or absurd.
    #[error("concentration alpha0 = {alpha0} is not a number from 1e-6 to 1e6")]
    Alpha0 {
        /// The offending value.
        alpha0: f64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    gamma: Parameter,
    alpha0: Parameter,
    bound: Bound,
}

impl TryFrom<Unchecked> for Hierarchical {
    type Error = HierarchicalError;

    fn try_from(raw: Unchecked) -> Result<Self, HierarchicalError> {
        Self::new(raw.gamma, raw.alpha0, raw.bound)
    }
}

impl From<Hierarchical> for Unchecked {
    fn from(process: Hierarchical) -> Self {
        Self { gamma: process.top.concentration(), alpha0: process.alpha0, bound: process.top.bound_kind() }
    }
}

impl Hierarchical {
    /// A process with concentration `gamma` of the topics and `alpha0` of each document, given or learned.
    pub fn new(
        gamma: impl Into<Parameter>,
        alpha0: impl Into<Parameter>,
        bound: Bound,
    ) -> Result<Self, HierarchicalError> {
        let (gamma, alpha0) = (gamma.into(), alpha0.into());
        let top =
            Dirichlet::new(gamma, bound).map_err(|_| HierarchicalError::Gamma { gamma: gamma.value() })?;
        match ALPHA0.contains(&alpha0.value()) {
            true => Ok(Self { top, alpha0 }),
            false => Err(HierarchicalError::Alpha0 { alpha0: alpha0.value() }),
        }
    }

    /// The same with a new estimate of the concentration of a document; a given one stays.
    pub(crate) fn with_alpha0(self, estimate: f64) -> Self {
        Self { alpha0: self.alpha0.updated(estimate.clamp(*ALPHA0.start(), *ALPHA0.end())), ..self }
    }

    /// The concentrations, and whether they are learned: of the topics, and of each document.
    pub fn concentrations(&self) -> [Parameter; 2] {
        [self.top.concentration(), self.alpha0]
    }

    /// Concentration of the topics.
    pub fn gamma(&self) -> f64 {
        self.top.alpha()
    }

    /// Concentration of each document.
    pub fn alpha0(&self) -> f64 {
        self.alpha0.value()
    }

    /// Which bound topics are scored with.
    pub fn bound_kind(&self) -> Bound {
        self.top.bound_kind()
    }
}

impl Process for Hierarchical {
    fn score(&self, stats: &LabelStatistics, all: Population) -> f64 {
        self.top.score(stats, all)
    }

    fn normaliser(&self, all: Population) -> f64 {
        self.top.normaliser(all)
    }

    fn existing_mass(&self, stats: &LabelStatistics) -> f64 {
        self.top.existing_mass(stats)
    }

    fn new_mass<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        self.top.new_mass(components)
    }

    /// `γ`, from the tables. What a document's concentration is, only documents can tell.
    fn learned<'a>(
        &self,
        components: impl Iterator<Item = &'a LabelStatistics>,
        observations: f64,
    ) -> Option<Self> {
        Some(Self { top: self.top.learned(components, observations)?, ..*self })
    }

    /// The mass is that of the words, which a topic's first sum counts; its label statistics count tables.
    fn mass_law(&self) -> MassLaw {
        MassLaw::Features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_concentration_is_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                Hierarchical::new(bad, 1.0, Bound::Paper),
                Err(HierarchicalError::Gamma { .. })
            ));
            assert!(matches!(
                Hierarchical::new(1.0, bad, Bound::Paper),
                Err(HierarchicalError::Alpha0 { .. })
            ));
        }
        let read = serde_json::from_str::<Hierarchical>;
        assert!(read(r#"{"gamma":1.0,"alpha0":0.5,"bound":"paper"}"#).is_ok());
        assert!(read(r#"{"gamma":1.0,"alpha0":0.0,"bound":"paper"}"#).is_err());
        let learned = read(r#"{"gamma":{"learned":2.0},"alpha0":{"learned":0.5},"bound":"paper"}"#).unwrap();
        assert_eq!((learned.gamma(), learned.with_alpha0(0.25).alpha0()), (2.0, 0.25));
        assert!(read(r#"{"gamma":1.0,"alpha0":{"learned":-0.5},"bound":"paper"}"#).is_err());
    }

    #[test]
    fn tables_are_scored_like_the_data_of_a_dirichlet_process() {
        let (dp, hdp) = (
            Dirichlet::new(2.5, Bound::Conditional).unwrap(),
            Hierarchical::new(2.5, 1.0, Bound::Conditional),
        );
        let mut stats = LabelStatistics::default();
        [0.2, 0.9, 1.0].into_iter().for_each(|p| stats.observe(p, 1.0));
        let all = Population::of([&stats], 4.0);
        assert_eq!(hdp.unwrap().score(&stats, all), dp.score(&stats, all));
    }
}
