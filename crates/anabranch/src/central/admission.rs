//! What an increment must be before anything is computed from it: it may come from another process, or from anybody.
//!
//! Checked are the number of features, the domain of every sum (PROPER), that the components it names exist, that its
//! counts add up (MASS), and that it does not start from a posterior that is yet to come.

use super::Void;
use crate::family::Conjugate;
use crate::infer::Increment;
use crate::posterior::{Evidence, Posterior};
use crate::process::Process;

/// Sums of the counts of one minibatch in f64 differ by far less than this share.
const MASS_ROUNDING: f64 = 1e-6;

/// Refuses an increment that this posterior, or an earlier version of it, cannot have led to.
pub(super) fn admit<F: Conjugate, P: Process>(
    current: &Posterior<F, P>,
    increment: &Increment,
) -> Result<(), Void> {
    let version = current.version();
    if increment.base > version {
        return Err(Void::NotYet { base: increment.base, version });
    }
    let known = increment.existing.iter().map(|(_, evidence)| evidence);
    known.chain(&increment.new).try_for_each(|evidence| admit_evidence(current.family(), evidence))?;
    let unknown = increment.existing.iter().find(|(id, _)| current.position(current.resolve(*id)).is_none());
    if let Some((id, _)) = unknown {
        return Err(Void::UnknownComponent(*id));
    }
    let all = increment.existing.iter().map(|(_, evidence)| evidence).chain(&increment.new);
    let mass = increment.mass;
    let sum = current.process().mass_law().accounted(all, mass);
    match mass.is_finite() && mass >= 0.0 && (mass - sum).abs() <= MASS_ROUNDING * (1.0 + mass) {
        true => Ok(()),
        false => Err(Void::Mass { mass, sum }),
    }
}

fn admit_evidence<F: Conjugate>(family: &F, evidence: &Evidence) -> Result<(), Void> {
    let (expected, found) = (family.n_features(), evidence.stats.len());
    if expected != found {
        return Err(Void::Features { expected, found });
    }
    let labels = &evidence.labels;
    let sane = family.admits(&evidence.stats)
        && labels.expected_count.is_finite()
        && labels.expected_count >= 0.0
        && labels.log_p_empty <= 0.0
        && labels.label_entropy.is_finite();
    if sane { Ok(()) } else { Err(Void::Improper) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::{BatchId, Central};
    use crate::family::Bernoulli;
    use crate::identify::{ComponentId, Identification};
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    fn evidence(rows: f64, ones: f64) -> Evidence {
        let labels =
            LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: rows, label_entropy: 0.0 };
        Evidence { stats: vec![rows, ones], labels }
    }

    fn increment() -> Increment {
        Increment { base: 0, mass: 5.0, familiarity: None, existing: vec![], new: vec![evidence(5.0, 3.0)] }
    }

    /// What a centre without components makes of the increment.
    fn absorb(increment: Increment) -> Result<bool, Void> {
        let family = Bernoulli::new(vec![1.0], vec![1.0]).unwrap();
        let central = Central::new(family, Dirichlet::new(1.0, Bound::Paper).unwrap());
        let before = central.snapshot().version();
        let outcome = central.absorb(BatchId(0), increment, Identification::Optimal);
        if outcome.is_err() {
            assert_eq!(central.snapshot().version(), before, "a refused increment changes nothing");
        }
        outcome.map(|absorbed| absorbed.counted)
    }

    #[test]
    fn an_increment_of_this_posterior_is_absorbed() {
        assert_eq!(absorb(increment()), Ok(true));
    }

    #[test]
    fn an_increment_of_another_family_is_refused() {
        let mut odd = increment();
        odd.new[0].stats.push(1.0);
        assert_eq!(absorb(odd), Err(Void::Features { expected: 2, found: 3 }));
    }

    #[test]
    fn an_increment_with_an_unknown_component_is_refused() {
        let known = (ComponentId(4), evidence(5.0, 3.0));
        let odd = Increment { existing: vec![known], new: vec![], ..increment() };
        assert_eq!(absorb(odd), Err(Void::UnknownComponent(ComponentId(4))));
    }

    #[test]
    fn sums_that_no_rows_have_are_refused() {
        assert_eq!(absorb(Increment { new: vec![evidence(5.0, 7.0)], ..increment() }), Err(Void::Improper));
        let mut odd = increment();
        odd.new[0].labels.log_p_empty = f64::NAN;
        assert_eq!(absorb(odd), Err(Void::Improper));
    }

    #[test]
    fn counts_that_do_not_add_up_are_refused() {
        let odd = Increment { mass: 6.0, ..increment() };
        assert_eq!(absorb(odd), Err(Void::Mass { mass: 6.0, sum: 5.0 }));
        assert!(matches!(absorb(Increment { mass: f64::NAN, ..increment() }), Err(Void::Mass { .. })));
    }

    #[test]
    fn an_increment_from_the_future_is_refused() {
        assert_eq!(absorb(Increment { base: 7, ..increment() }), Err(Void::NotYet { base: 7, version: 0 }));
    }
}
