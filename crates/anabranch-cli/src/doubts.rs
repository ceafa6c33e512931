//! What is doubtful about a model, in words and as JSON; `inspect` and the report show it.

use anabranch::diagnose::{self, Diagnosis, NEAR_EMPTY};
use anabranch::family::AnyFamily;
use anabranch::posterior::Posterior;
use anabranch::process::AnyProcess;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::picture::{counted, significant};

/// Pairs and ids that a line of text names.
const NAMED: usize = 10;

/// What is doubtful about a model; the names of the fields are those of `inspect --json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Doubts {
    /// Probability that the most probable component of a row is the right one, if the model is right.
    pub label_certainty: Option<f64>,
    /// Components that would be left if each likely duplicate were merged.
    pub distinct_components: usize,
    /// Pairs that may be one component, the likeliest first.
    pub duplicates: Vec<DuplicateRow>,
    /// Components with fewer than two rows.
    pub near_empty: Vec<u64>,
    /// Rows that were drawn from the model to find this out.
    pub rows_drawn: usize,
}

/// Two components that may be one.
#[derive(Clone, Debug, Serialize)]
pub struct DuplicateRow {
    /// The larger one.
    pub first: u64,
    /// The smaller one.
    pub second: u64,
    /// Log density that is lost for each row of the smaller one if one component stands for both, in nats.
    pub cost_per_row: f64,
    /// Part of the smaller one's rows that a drawn label sends to the other.
    pub shared: f64,
}

/// Looks for what is doubtful. The draws are the same each time.
pub fn diagnose(posterior: &Posterior<AnyFamily, AnyProcess>) -> Diagnosis {
    diagnose::diagnose(posterior, &mut Xoshiro256PlusPlus::seed_from_u64(0))
}

impl From<&Diagnosis> for Doubts {
    fn from(diagnosis: &Diagnosis) -> Self {
        let row = |pair: &diagnose::Duplicate| DuplicateRow {
            first: pair.first.0,
            second: pair.second.0,
            cost_per_row: pair.cost_per_row,
            shared: pair.shared,
        };
        Self {
            label_certainty: diagnosis.label_certainty,
            distinct_components: diagnosis.distinct_components(),
            duplicates: diagnosis.duplicates.iter().map(row).collect(),
            near_empty: diagnosis.near_empty().map(|component| component.id.0).collect(),
            rows_drawn: diagnosis.rows_drawn,
        }
    }
}

impl Doubts {
    /// A sentence for each kind of doubt that there is.
    pub fn sentences(&self) -> Vec<String> {
        let labels = self.label_certainty.map(|certainty| {
            format!(
                "labels: {} % of rows would get the right component if the model is right",
                significant(100.0 * certainty, 3)
            )
        });
        [labels, self.duplicate_sentence(), self.near_empty_sentence()].into_iter().flatten().collect()
    }

    fn duplicate_sentence(&self) -> Option<String> {
        let pair = |pair: &DuplicateRow| {
            format!("{} and {} ({})", pair.first, pair.second, significant(pair.cost_per_row, 2))
        };
        (!self.duplicates.is_empty()).then(|| {
            format!(
                "components that may be one (nats a row that one for both would cost): {}; {} if they are",
                listed(self.duplicates.iter().map(pair)),
                counted(self.distinct_components as u64, "component")
            )
        })
    }

    fn near_empty_sentence(&self) -> Option<String> {
        let ids = || listed(self.near_empty.iter().map(u64::to_string));
        match self.near_empty.len() {
            0 => None,
            1 => Some(format!("component {} has fewer than {NEAR_EMPTY} rows", ids())),
            _ => Some(format!("components {} have fewer than {NEAR_EMPTY} rows each", ids())),
        }
    }
}

/// The first few, and how many more there are.
fn listed(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    let shown: Vec<String> = items.take(NAMED).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_doubtful_is_not_spoken_of() {
        let clear = Doubts { label_certainty: Some(0.98765), distinct_components: 3, ..Doubts::default() };
        assert_eq!(
            clear.sentences(),
            ["labels: 98.8 % of rows would get the right component if the model is right"]
        );
        let one = Doubts { near_empty: vec![4], ..Doubts::default() };
        assert_eq!(one.sentences(), ["component 4 has fewer than 2 rows"]);
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let pair = |second| DuplicateRow { first: 0, second, cost_per_row: 0.025, shared: 0.5 };
        let doubtful = Doubts {
            duplicates: vec![pair(1)],
            distinct_components: 12,
            near_empty: (0..13).collect(),
            ..Doubts::default()
        };
        assert_eq!(
            doubtful.sentences(),
            [
                "components that may be one (nats a row that one for both would cost): 0 and 1 (0.025); 12 components if they are",
                "components 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more have fewer than 2 rows each"
            ]
        );
    }
}
