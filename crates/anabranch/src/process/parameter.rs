//! A parameter of a process: given by the user, or learned from the stream.

use serde::{Deserialize, Serialize};

/// A number and where it comes from. In JSON a given one is the plain number, a learned one is `{"learned": 3.2}`.
///
/// ```
/// use anabranch::process::Parameter;
/// let alpha = Parameter::Learned { learned: 5.0 };
/// assert_eq!((alpha.value(), alpha.is_learned()), (5.0, true));
/// assert_eq!(Parameter::from(2.0), Parameter::Given(2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// As given; it stays.
    Given(f64),
    /// Estimated anew as data come in.
    Learned {
        /// The estimate so far.
        learned: f64,
    },
}

impl Parameter {
    /// The number.
    pub fn value(&self) -> f64 {
        match *self {
            Self::Given(value) | Self::Learned { learned: value } => value,
        }
    }

    /// True when data may change it.
    pub fn is_learned(&self) -> bool {
        matches!(self, Self::Learned { .. })
    }

    /// The same parameter with a new estimate; a given one stays as it is.
    pub(super) fn updated(self, estimate: f64) -> Self {
        match self {
            Self::Given(_) => self,
            Self::Learned { .. } => Self::Learned { learned: estimate },
        }
    }
}

impl From<f64> for Parameter {
    fn from(value: f64) -> Self {
        Self::Given(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_number_is_stored_as_a_number() {
        let text = |parameter: Parameter| serde_json::to_string(&parameter).unwrap();
        assert_eq!(text(Parameter::Given(2.5)), "2.5");
        assert_eq!(text(Parameter::Learned { learned: 2.5 }), r#"{"learned":2.5}"#);
        let read = |text: &str| serde_json::from_str::<Parameter>(text).unwrap();
        assert_eq!(read("2.5"), Parameter::Given(2.5));
        assert_eq!(read(r#"{"learned":2.5}"#), Parameter::Learned { learned: 2.5 });
    }

    #[test]
    fn only_a_learned_number_moves() {
        assert_eq!(Parameter::Given(1.0).updated(2.0), Parameter::Given(1.0));
        assert_eq!(Parameter::Learned { learned: 1.0 }.updated(2.0), Parameter::Learned { learned: 2.0 });
    }
}
