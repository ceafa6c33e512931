//! The processes of mixtures as one type, for the edges: files, the command line, Python.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{
    Bound, Dirichlet, LabelStatistics, MassLaw, Parameter, PitmanYor, Population, Process, ProcessError,
};

/// A process of a mixture. In JSON it is the process itself: only Pitman–Yor has a `discount`.
///
/// ```
/// use anabranch::process::{AnyProcess, Bound, Dirichlet};
/// let process = AnyProcess::from(Dirichlet::new(5.0, Bound::Paper).unwrap());
/// assert_eq!((process.name(), process.alpha(), process.discount()), ("dp", 5.0, None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, try_from = "Unchecked")]
pub enum AnyProcess {
    /// The Dirichlet process.
    Dirichlet(Dirichlet),
    /// The Pitman–Yor process.
    PitmanYor(PitmanYor),
}

/// What is read from a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    alpha: Parameter,
    #[serde(default)]
    discount: Option<Parameter>,
    bound: Bound,
}

impl TryFrom<Unchecked> for AnyProcess {
    type Error = ProcessError;

    fn try_from(raw: Unchecked) -> Result<Self, ProcessError> {
        Self::new(raw.alpha, raw.discount, raw.bound)
    }
}

impl AnyProcess {
    /// A Pitman–Yor process when there is a discount (even of 0), else a Dirichlet process.
    pub fn new(
        alpha: impl Into<Parameter>,
        discount: Option<Parameter>,
        bound: Bound,
    ) -> Result<Self, ProcessError> {
        Ok(match discount {
            Some(discount) => PitmanYor::new(alpha, discount, bound)?.into(),
            None => Dirichlet::new(alpha, bound)?.into(),
        })
    }

    /// The name of the model that this process makes: `dp` or `py`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dirichlet(_) => "dp",
            Self::PitmanYor(_) => "py",
        }
    }

    /// The concentration.
    pub fn alpha(&self) -> f64 {
        self.concentration().value()
    }

    /// The concentration and whether it is learned.
    pub fn concentration(&self) -> Parameter {
        match self {
            Self::Dirichlet(process) => process.concentration(),
            Self::PitmanYor(process) => process.concentration(),
        }
    }

    /// The discount of a Pitman–Yor process and whether it is learned.
    pub fn discount(&self) -> Option<Parameter> {
        match self {
            Self::Dirichlet(_) => None,
            Self::PitmanYor(process) => Some(process.discount_parameter()),
        }
    }

    /// Which bound components are scored with.
    pub fn bound_kind(&self) -> Bound {
        match self {
            Self::Dirichlet(process) => process.bound_kind(),
            Self::PitmanYor(process) => process.bound_kind(),
        }
    }
}

impl From<Dirichlet> for AnyProcess {
    fn from(process: Dirichlet) -> Self {
        Self::Dirichlet(process)
    }
}

impl From<PitmanYor> for AnyProcess {
    fn from(process: PitmanYor) -> Self {
        Self::PitmanYor(process)
    }
}

/// Asks whichever process it is.
macro_rules! ask {
    ($any:expr, $process:ident => $answer:expr) => {
        match $any {
            Self::Dirichlet($process) => $answer,
            Self::PitmanYor($process) => $answer,
        }
    };
}

impl Process for AnyProcess {
    fn score(&self, stats: &LabelStatistics, all: Population) -> f64 {
        ask!(self, process => process.score(stats, all))
    }

    fn normaliser(&self, all: Population) -> f64 {
        ask!(self, process => process.normaliser(all))
    }

    fn existing_mass(&self, stats: &LabelStatistics) -> f64 {
        ask!(self, process => process.existing_mass(stats))
    }

    fn new_mass<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        ask!(self, process => process.new_mass(components))
    }

    fn candidate_mass<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> f64 {
        ask!(self, process => process.candidate_mass(components))
    }

    fn mass_law(&self) -> MassLaw {
        ask!(self, process => process.mass_law())
    }

    fn least_count(&self) -> f64 {
        ask!(self, process => process.least_count())
    }

    fn tangents(&self, fewest: f64, most: f64) -> RangeInclusive<u64> {
        ask!(self, process => process.tangents(fewest, most))
    }

    fn suited<'a>(&self, components: impl Iterator<Item = &'a LabelStatistics>) -> Self {
        ask!(self, process => Self::from(process.suited(components)))
    }

    fn learned<'a>(
        &self,
        components: impl Iterator<Item = &'a LabelStatistics>,
        observations: f64,
    ) -> Option<Self> {
        ask!(self, process => process.learned(components, observations).map(Self::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_the_processes_apart_by_the_discount() {
        let dirichlet = AnyProcess::new(2.0, None, Bound::Paper).unwrap();
        let pitman_yor = AnyProcess::new(2.0, Some(0.0.into()), Bound::Paper).unwrap();
        for process in [dirichlet, pitman_yor] {
            let text = serde_json::to_string(&process).unwrap();
            assert_eq!(serde_json::from_str::<AnyProcess>(&text).unwrap(), process, "{text}");
        }
        assert_eq!(serde_json::to_string(&dirichlet).unwrap(), r#"{"alpha":2.0,"bound":"paper"}"#);
        assert!(serde_json::from_str::<AnyProcess>(r#"{"alpha":-2.0,"bound":"paper"}"#).is_err());
    }
}
