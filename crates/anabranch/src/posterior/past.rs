//! How much of the past counts: evidence fades by the clock of the stream.
//!
//! ```text
//! evidence at clock T   Σ_b 2^(−(T − t_b)/h) evidence of minibatch b, which has clock t_b
//! mass + forgotten = rows
//! ```
//!
//! The sum has no order: whoever comes late enters with the weight that the others of his clock have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identify::ComponentId;

/// When evidence counts half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HalfLife {
    /// After so many rows of the stream.
    Rows(f64),
    /// After so many seconds of the clock that the minibatches carry.
    Seconds(f64),
    /// When the newest rows are not explained by it: each component for itself.
    Auto,
}

impl HalfLife {
    /// Whether both go by one kind of clock.
    pub fn same_clock(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    fn is_possible(self) -> bool {
        match self {
            Self::Rows(span) | Self::Seconds(span) => span.is_finite() && span > 0.0,
            Self::Auto => true,
        }
    }
}

/// Shares of the past of a component that are tried when it is doubted.
pub(crate) const SHARES: [f64; 3] = [0.5, 0.125, 0.015_625];

/// What has become of the past.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Past {
    /// How evidence fades, if it does.
    pub half_life: Option<HalfLife>,
    /// Clock of the newest minibatch.
    pub clock: Option<f64>,
    /// The column that says when a row was, where that is not when it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Binary logarithm of how much a row counts now beside one of the beginning.
    pub halvings: f64,
    /// Weight of what does not count any more.
    pub forgotten: f64,
    /// For each of some shares, the evidence in nats that a component had better keep only that of its past, since it has last
    /// spoken against it. Components that nobody doubts have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub doubts: BTreeMap<ComponentId, [f64; 3]>,
}

impl Past {
    /// Binary logarithm of how much rows of this clock count beside those of the beginning.
    pub fn halvings_at(&self, clock: Option<f64>) -> f64 {
        self.halvings + self.since(clock)
    }

    /// Half-lives from the newest minibatch to this clock; negative for those that are late.
    pub(crate) fn since(&self, clock: Option<f64>) -> f64 {
        match (self.half_life, self.clock, clock) {
            (Some(HalfLife::Rows(span) | HalfLife::Seconds(span)), Some(newest), Some(clock)) => {
                (clock - newest) / span
            }
            _ => 0.0,
        }
    }

    /// True when nothing fades and nothing has.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// False for numbers that no run has.
    pub fn is_possible(&self) -> bool {
        let proper = |value: f64| value.is_finite() && value >= 0.0;
        self.half_life.is_none_or(HalfLife::is_possible)
            && self.clock.is_none_or(f64::is_finite)
            && proper(self.halvings)
            && proper(self.forgotten)
            && self.doubts.values().flatten().all(|doubt| proper(*doubt))
    }
}
