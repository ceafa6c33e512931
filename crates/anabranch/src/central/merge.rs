//! Models that were learned apart become one: what each of them has found is identified with what the others have, as if
//! one had been a worker of the other that started from nothing (paper eq. bnpopt with an empty `q_o`).

use std::sync::Arc;

use super::journal::{Fold, Void};
use crate::family::Conjugate;
use crate::identify::{self, ComponentId, Identification, Target};
use crate::posterior::{Component, Evidence, Posterior};
use crate::process::Process;

/// Where the components of a model have gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// The id of each now, in the order in which they were given.
    pub ids: Vec<ComponentId>,
    /// How many were identified with known ones.
    pub matched: usize,
}

impl<F: Conjugate, P: Process> Fold<F, P> {
    /// Joins what another model has learned from other rows. `evidence` is that of its components in the coordinates of this
    /// family; ids here stay. Its minibatches get new names, behind those that are here.
    pub fn join<G, Q>(&mut self, other: &Fold<G, Q>, evidence: &[Evidence]) -> Result<Joined, Void> {
        let expected = self.posterior.family().n_features();
        if let Some(odd) = evidence.iter().map(|e| e.stats.len()).find(|found| *found != expected) {
            return Err(Void::Features { expected, found: odd });
        }
        let theirs: &Posterior<G, Q> = &other.posterior;
        let weight = self.meet(&theirs.past);
        let faded = |evidence: &Evidence| evidence.scaled(weight);
        let evidence: &[Evidence] = &evidence.iter().map(faded).collect::<Vec<_>>();
        let mass = weight * theirs.mass;
        let found = identify::correspond(&self.posterior, 0, mass, evidence, Identification::Optimal);
        let version = self.posterior.version + 1;
        let mut joined = Joined::default();
        for (target, evidence) in found.correspondence.targets().iter().zip(evidence) {
            let id = match target {
                Target::Existing(id) => {
                    self.add(*id, evidence);
                    joined.matched += 1;
                    *id
                }
                Target::New => {
                    let id = ComponentId(self.next_id);
                    self.next_id += 1;
                    self.last_birth = version;
                    self.posterior.components.push(Arc::new(Component::new(id, version, evidence.clone())));
                    id
                }
            };
            joined.ids.push(id);
        }
        self.absorbed.insert_behind(other.absorbed.len());
        self.posterior.familiarity = self.posterior.familiarity.and(theirs.familiarity.faded(weight));
        self.posterior.tail.join(&theirs.tail);
        self.posterior.mass += mass;
        self.posterior.past.forgotten += theirs.past.forgotten + (theirs.mass - mass);
        self.posterior.version = version;
        self.end_faded();
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::{Absorb, BatchId, Entry};
    use crate::family::Bernoulli;
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    type Coins = Fold<Bernoulli, Dirichlet>;

    /// One minibatch of two kinds of coins, or of more.
    fn learned(batches: u64, coins: &[(f64, f64)]) -> Coins {
        let family = Bernoulli::new(vec![0.5], vec![0.5]).unwrap();
        let mut fold = Fold::new(family, Dirichlet::new(1.0, Bound::Paper).unwrap());
        for batch in 0..batches {
            let evidence = |(rows, ones): &(f64, f64)| Evidence {
                stats: vec![*rows, rows * ones],
                labels: LabelStatistics {
                    log_p_empty: f64::NEG_INFINITY,
                    expected_count: *rows,
                    label_entropy: 0.0,
                },
            };
            let known: Vec<ComponentId> = fold.posterior().components().iter().map(|c| c.id()).collect();
            let evidence: Vec<Evidence> = coins.iter().map(evidence).collect();
            let (existing, new) = match known.is_empty() {
                true => (vec![], evidence.into_iter().map(|e| (Target::New, e)).collect()),
                false => (known.into_iter().zip(evidence).collect(), vec![]),
            };
            let mass = coins.iter().map(|(rows, _)| rows).sum();
            let base = fold.posterior().version();
            let absorb =
                Absorb { batch: BatchId(batch), base, pass: 0, mass, familiarity: None, existing, new };
            fold.apply(&Entry::Absorb(absorb)).unwrap();
        }
        fold
    }

    /// Two models that fade by the second are one whichever joins the other, each with what is left of it at the newest time of both.
    #[test]
    fn models_meet_at_the_newest_time() {
        let at = |clock: f64| {
            let mut fold = learned(1, &[(100.0, 0.9), (40.0, 0.1)]);
            fold.forget(crate::posterior::HalfLife::Seconds(10.0));
            fold.posterior.past.clock = Some(clock);
            fold
        };
        for (mine, theirs) in [(50.0, 60.0), (60.0, 50.0)] {
            let (mut one, other) = (at(mine), at(theirs));
            one.join(&other, &evidence(&other)).unwrap();
            let counts: Vec<f64> = one.posterior().components().iter().map(|c| c.expected_count()).collect();
            assert_eq!(counts, [150.0, 60.0]);
            assert_eq!((one.posterior().mass(), one.posterior().past().forgotten), (210.0, 70.0));
            assert_eq!(one.posterior().past().clock, Some(60.0));
        }
    }

    fn evidence(fold: &Coins) -> Vec<Evidence> {
        fold.posterior().components().iter().map(|c| c.evidence().clone()).collect()
    }

    #[test]
    fn the_same_kinds_become_one_and_others_are_added() {
        let mut one = learned(3, &[(100.0, 0.9), (50.0, 0.1)]);
        let other = learned(5, &[(70.0, 0.1), (30.0, 0.5), (200.0, 0.9)]);
        let joined = one.join(&other, &evidence(&other)).unwrap();
        assert_eq!(joined, Joined { ids: vec![ComponentId(1), ComponentId(2), ComponentId(0)], matched: 2 });
        let counts: Vec<f64> = one.posterior().components().iter().map(|c| c.expected_count()).collect();
        assert_eq!(counts, [300.0 + 1000.0, 150.0 + 350.0, 150.0]);
        assert_eq!(one.posterior().mass(), 450.0 + 1500.0);
        assert_eq!(one.absorbed().runs(), [(0, 7)]);
        assert_eq!((one.next_id(), one.last_birth()), (3, one.posterior().version()));
    }

    /// Rows behind a model are set aside and replaced; what the model said before them is not.
    #[test]
    fn what_came_behind_a_model_is_replaced_and_the_model_stays() {
        let mut fold = learned(2, &[(100.0, 0.9), (50.0, 0.1)]);
        assert!(fold.apply(&Entry::Exchange).is_err(), "nothing was set aside");
        fold.apply(&Entry::SetAside).unwrap();
        let labels = |count: f64| LabelStatistics {
            log_p_empty: f64::NEG_INFINITY,
            expected_count: count,
            label_entropy: 0.0,
        };
        let says = |id: u64, rows: f64, ones: f64| {
            (ComponentId(id), Evidence { stats: vec![rows, ones], labels: labels(rows) })
        };
        let (base, existing) = (fold.posterior().version(), vec![says(0, 30.0, 20.0), says(1, 10.0, 2.0)]);
        let absorb =
            Absorb { batch: BatchId(9), base, pass: 0, mass: 40.0, familiarity: None, existing, new: vec![] };
        fold.apply(&Entry::Absorb(absorb)).unwrap();
        let before = evidence(&fold);
        fold.apply(&Entry::Exchange).unwrap();
        assert_eq!(evidence(&fold), before, "it still counts");
        assert_eq!(fold.aside().map(|aside| aside.mass), Some(40.0));
        let evidence_now = vec![says(0, 25.0, 24.0), says(1, 15.0, 1.0)];
        fold.apply(&Entry::Replace { mass: 40.0, evidence: evidence_now }).unwrap();
        let stats: Vec<Vec<f64>> = evidence(&fold).into_iter().map(|e| e.stats).collect();
        assert_eq!(stats, [[225.0, 204.0], [115.0, 11.0]]);
        assert_eq!((fold.posterior().mass(), fold.aside()), (340.0, None));
    }

    #[test]
    fn an_empty_model_changes_nothing_but_the_version() {
        let mut one = learned(2, &[(100.0, 0.9)]);
        let nothing = learned(0, &[]);
        assert_eq!(one.join(&nothing, &[]).unwrap(), Joined::default());
        assert_eq!((one.posterior().mass(), one.absorbed().len()), (200.0, 2));
    }

    #[test]
    fn sums_of_another_length_change_nothing() {
        let (mut one, other) = (learned(1, &[(100.0, 0.9)]), learned(1, &[(10.0, 0.9)]));
        let odd = Evidence { stats: vec![1.0; 3], ..evidence(&other)[0].clone() };
        assert_eq!(one.join(&other, &[odd]), Err(Void::Features { expected: 2, found: 3 }));
        assert_eq!(one.posterior().mass(), 100.0);
    }
}
