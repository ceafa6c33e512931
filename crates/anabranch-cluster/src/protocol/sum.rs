//! What several minibatches of one process taught, added up before it is appended.
//!
//! Evidence for known components adds, whatever posterior it was learned from: an id never changes its meaning. New components are
//! identified with those of others, one to one for each minibatch, so that a sum holds those of one minibatch alone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anabranch::central::BatchId;
use anabranch::identify::ComponentId;
use anabranch::infer::Increment;
use anabranch::posterior::{Densities, Evidence, Told};

use crate::kind::Count;

/// Increments that were added up, and the names of their minibatches.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    pub(super) batches: Vec<BatchId>,
    /// Version that the new components were learned from.
    pub(super) base: u64,
    pub(super) mass: f64,
    pub(super) count: Count,
    pub(super) familiarity: Option<Told>,
    pub(super) existing: BTreeMap<ComponentId, Evidence>,
    pub(super) new: Vec<Evidence>,
}

impl Sum {
    /// What one minibatch of so many data taught, as inference made it. Components that it has not touched are left out: what they got is less than
    /// the rounding of the minibatch's mass.
    pub fn of(batch: BatchId, count: Count, increment: Increment) -> Self {
        let Increment { base, mass, familiarity, existing, new } = increment;
        let least = f64::EPSILON * mass;
        let is_touched = |evidence: &Evidence| {
            // What counts as mass is one or the other.
            evidence.labels.expected_count > least || evidence.stats.first().is_some_and(|sum| *sum > least)
        };
        let touched = existing.into_iter().filter(|(_, evidence)| is_touched(evidence));
        Self { batches: vec![batch], base, mass, count, familiarity, existing: touched.collect(), new }
    }

    /// The minibatches.
    pub fn batches(&self) -> &[BatchId] {
        &self.batches
    }

    /// Weight of their rows.
    pub fn mass(&self) -> f64 {
        self.mass
    }

    /// How many data they held.
    pub fn count(&self) -> Count {
        self.count
    }

    /// Whether there are new components in it.
    pub fn opens(&self) -> bool {
        !self.new.is_empty()
    }

    /// Adds another one, or gives it back: both have new components, or a minibatch in common.
    pub fn add(&mut self, other: Self) -> Result<(), Box<Self>> {
        if self.opens() && other.opens() || other.batches.iter().any(|batch| self.batches.contains(batch)) {
            return Err(Box::new(other));
        }
        if other.opens() {
            (self.base, self.new) = (other.base, other.new);
        }
        for (id, evidence) in other.existing {
            match self.existing.entry(id) {
                Entry::Occupied(mut mine) => mine.get_mut().absorb(&evidence),
                Entry::Vacant(place) => {
                    place.insert(evidence);
                }
            }
        }
        self.familiarity = match (self.familiarity.take(), other.familiarity) {
            (Some(mine), Some(theirs)) => Some(both(&mine, self.mass, &theirs, other.mass)),
            (mine, theirs) => mine.or(theirs),
        };
        self.mass += other.mass;
        self.count.add(other.count);
        self.batches.extend(other.batches);
        Ok(())
    }
}

/// What rows of both say: the mean of the medians by weight, as the fold takes it over minibatches, and all densities.
fn both(one: &Told, weight: f64, other: &Told, other_weight: f64) -> Told {
    let all = weight + other_weight;
    let median =
        if all > 0.0 { (weight * one.median + other_weight * other.median) / all } else { one.median };
    let mut densities: BTreeMap<i32, f32> = one.densities.iter().copied().collect();
    for (place, more) in &other.densities {
        *densities.entry(*place).or_default() += more;
    }
    Told { median, densities: densities.into_iter().collect::<Densities>() }
}

#[cfg(test)]
mod tests {
    use anabranch::process::LabelStatistics;

    use super::*;

    fn evidence(rows: f64) -> Evidence {
        let labels = LabelStatistics { log_p_empty: -rows, expected_count: rows, label_entropy: 0.5 * rows };
        Evidence { stats: vec![rows, 2.0 * rows], labels }
    }

    fn one(batch: u64, existing: &[(u64, f64)], new: &[f64]) -> Sum {
        let mass = existing.iter().map(|(_, rows)| rows).chain(new).sum();
        let told = Told { median: -(batch as f64), densities: vec![(batch as i32, 1.0), (9, 2.0)] };
        let increment = Increment {
            base: 10 + batch,
            mass,
            familiarity: Some(told),
            existing: existing.iter().map(|(id, rows)| (ComponentId(*id), evidence(*rows))).collect(),
            new: new.iter().map(|rows| evidence(*rows)).collect(),
        };
        Sum::of(BatchId(batch), Count { rows: 2, left_out: 0.5 }, increment)
    }

    #[test]
    fn evidence_for_known_components_adds_up_and_new_ones_keep_their_base() {
        let mut sum = one(1, &[(3, 2.0), (5, 1.0)], &[]);
        sum.add(one(2, &[(3, 4.0), (4, 1.0)], &[1.0])).unwrap();
        assert_eq!(sum.batches(), [BatchId(1), BatchId(2)]);
        assert_eq!((sum.mass(), sum.base, sum.new.clone()), (9.0, 12, vec![evidence(1.0)]));
        let expected = [(3, 6.0), (4, 1.0), (5, 1.0)].map(|(id, rows)| (ComponentId(id), evidence(rows)));
        assert_eq!(sum.existing, BTreeMap::from(expected));
        assert_eq!(sum.count(), Count { rows: 4, left_out: 1.0 });
        let told = sum.familiarity.unwrap();
        assert!((told.median + (3.0 * 1.0 + 6.0 * 2.0) / 9.0).abs() < 1e-12, "{told:?}");
        assert_eq!(told.densities, [(1, 1.0), (2, 1.0), (9, 4.0)]);
    }

    #[test]
    fn new_components_of_two_minibatches_and_repeats_stay_apart() {
        let mut sum = one(1, &[], &[1.0]);
        let before = sum.clone();
        let (opens, again) = (one(2, &[(3, 1.0)], &[1.0]), one(1, &[(3, 1.0)], &[]));
        assert_eq!(sum.add(opens.clone()), Err(Box::new(opens)));
        assert_eq!(sum.add(again.clone()), Err(Box::new(again)));
        assert_eq!(sum, before);
    }

    #[test]
    fn components_that_a_minibatch_has_not_touched_are_left_out() {
        let sum = one(1, &[(3, 5.0), (4, 1e-17), (5, 0.0)], &[]);
        assert_eq!(sum.existing.keys().copied().collect::<Vec<_>>(), [ComponentId(3)]);
    }
}
