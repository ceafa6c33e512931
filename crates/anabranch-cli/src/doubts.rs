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
    /// A sentence for each kind of doubt, also where there is none.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(certainty) = self.label_certainty {
            sentences.push(format!(
                "labels: {} % of rows would get the right component if the model is right",
                significant(100.0 * certainty, 3)
            ));
        }
        sentences.push(self.duplicate_sentence());
        sentences.push(self.near_empty_sentence());
        sentences
    }

    fn duplicate_sentence(&self) -> String {
        if self.duplicates.is_empty() {
            return "likely duplicates: none".to_owned();
        }
        let pair = |pair: &DuplicateRow| {
            format!("{}+{} ({})", pair.first, pair.second, significant(pair.cost_per_row, 2))
        };
        format!(
            "likely duplicates: {}, {} without them; pair (nats a row that one for both would cost): {}",
            counted(self.duplicates.len() as u64, "pair"),
            counted(self.distinct_components as u64, "component"),
            listed(self.duplicates.iter().map(pair))
        )
    }

    fn near_empty_sentence(&self) -> String {
        if self.near_empty.is_empty() {
            return "near-empty components: none".to_owned();
        }
        format!(
            "near-empty components: {} with fewer than {NEAR_EMPTY} rows: {}",
            self.near_empty.len(),
            listed(self.near_empty.iter().map(u64::to_string))
        )
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
    fn a_model_without_doubts_says_so() {
        let clear = Doubts { label_certainty: Some(0.98765), distinct_components: 3, ..Doubts::default() };
        assert_eq!(
            clear.sentences(),
            [
                "labels: 98.8 % of rows would get the right component if the model is right",
                "likely duplicates: none",
                "near-empty components: none"
            ]
        );
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
                "likely duplicates: 1 pair, 12 components without them; pair (nats a row that one for both would cost): 0+1 (0.025)",
                "near-empty components: 13 with fewer than 2 rows: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"
            ]
        );
    }
}
