//! No more components than allowed: whenever there are more, the two that are closest become one.
//!
//! ```text
//! loss(j, l) = −[A(S_j + S_l) + A(0) − A(S_j) − A(S_l)] − [score(jl) − score(j) − score(l)] + min{e_j + e_l, (t_j + t_l) h(t_j/(t_j + t_l))}
//! ```
//!
//! The closest are those whose merge costs the evidence lower bound least; the last term bounds what the labels lose. What a
//! merge costs grows with the smaller of the two, so that one of the smallest components is always among them.

use super::Config;
use crate::batch::Minibatch;
use crate::central::{Central, Entry, What};
use crate::family::Conjugate;
use crate::identify::ComponentId;
use crate::posterior::{Component, Posterior};
use crate::process::Process;

/// Components that are tried with all others: the smallest.
const SMALLEST: usize = 8;

/// Merges the closest components while there are more than the configuration allows. Void merges, which somebody else
/// has made superfluous, are looked at again.
pub(super) fn keep_within<F: Conjugate, P: Process, B: Minibatch, I>(
    central: &Central<F, P, B>,
    config: &Config<I>,
) {
    let Some(most) = config.max_components else { return };
    loop {
        let snapshot = central.snapshot();
        let components = snapshot.components().len();
        if components <= most.max(1) {
            return;
        }
        let Some((id, into)) = closest(&snapshot) else { return };
        central.note(What::Limit { components, most });
        // What the data tell of their number is not what was asked for.
        central.remembered(|memory| memory.doubt(None));
        let _ = central.append(&Entry::Retire { id, into });
    }
}

/// The pair whose merge loses least, the one with fewer rows first.
fn closest<F: Conjugate, P: Process>(posterior: &Posterior<F, P>) -> Option<(ComponentId, ComponentId)> {
    let family = posterior.family();
    let all = posterior.population();
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    let mut by_size: Vec<&Component> = posterior.components().iter().map(|c| &**c).collect();
    by_size.sort_by(|a, b| a.expected_count().total_cmp(&b.expected_count()).then(b.id().cmp(&a.id())));
    let alone = |component: &Component| {
        component.expectation(family).log_partition
            + posterior.process().score(&component.evidence().labels, all)
    };
    let mut best: Option<(f64, ComponentId, ComponentId)> = None;
    for (ix, small) in by_size.iter().enumerate().take(SMALLEST) {
        for other in &by_size[ix + 1..] {
            let mut joined = small.evidence().clone();
            joined.absorb(other.evidence());
            let together =
                family.log_partition(&joined.stats) + posterior.process().score(&joined.labels, all);
            let (t, whole) = (small.expected_count(), joined.labels.expected_count);
            let labels = joined.labels.label_entropy.min(whole * binary_entropy(t / whole));
            let loss = alone(small) + alone(other) - empty - together + labels.max(0.0);
            if best.is_none_or(|(least, ..)| loss < least) {
                best = Some((loss, small.id(), other.id()));
            }
        }
    }
    best.map(|(_, id, into)| (id, into))
}

fn binary_entropy(share: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    term(share) + term(1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::{Absorb, BatchId};
    use crate::family::Poisson;
    use crate::identify::Target;
    use crate::infer::Settings;
    use crate::posterior::Evidence;
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    type Centre = Central<Poisson, Dirichlet>;

    /// Components of so many rows with these means.
    fn centre(components: &[(f64, f64)]) -> Centre {
        let central = Central::new(
            Poisson::new(vec![1.0], vec![1.0]).unwrap(),
            Dirichlet::new(1.0, Bound::Paper).unwrap(),
        )
        .watching();
        let evidence = |(rows, mean): &(f64, f64)| Evidence {
            stats: vec![*rows, rows * mean],
            labels: LabelStatistics {
                log_p_empty: f64::NEG_INFINITY,
                expected_count: *rows,
                label_entropy: 0.0,
            },
        };
        let new = components.iter().map(|component| (Target::New, evidence(component))).collect();
        let mass = components.iter().map(|(rows, _)| rows).sum();
        let absorb =
            Absorb { batch: BatchId(0), base: 0, pass: 0, mass, familiarity: None, existing: vec![], new };
        central.append(&Entry::Absorb(absorb)).unwrap();
        central
    }

    fn limited(central: &Centre, most: usize) -> Vec<u64> {
        let config = Config { max_components: Some(most), ..Config::new(Settings::default()) };
        keep_within(central, &config);
        central.snapshot().components().iter().map(|component| component.id().0).collect()
    }

    #[test]
    fn the_closest_become_one_and_no_row_is_lost() {
        let central = centre(&[(100.0, 1.0), (80.0, 50.0), (90.0, 53.0), (40.0, 200.0)]);
        assert_eq!(limited(&central, 4), [0, 1, 2, 3], "as many as allowed");
        assert_eq!(limited(&central, 3), [0, 2, 3]);
        assert_eq!(limited(&central, 1).len(), 1);
        assert_eq!(central.snapshot().expected_mass(), 310.0);
    }

    #[test]
    fn every_merge_for_the_limit_says_so() {
        let central = centre(&[(100.0, 1.0), (80.0, 50.0), (90.0, 53.0), (40.0, 200.0)]);
        central.take_changes();
        limited(&central, 2);
        let changes: Vec<What> = central.take_changes().into_iter().map(|change| change.what).collect();
        assert_eq!(changes.len(), 4);
        assert_eq!(changes[0], What::Limit { components: 4, most: 2 });
        assert_eq!(changes[1], What::Merge { id: ComponentId(1), into: ComponentId(2), mass: 80.0 });
        assert_eq!(changes[2], What::Limit { components: 3, most: 2 });
        assert!(matches!(changes[3], What::Merge { .. }));
    }

    #[test]
    fn the_entropy_of_a_coin() {
        assert_eq!(binary_entropy(0.5), std::f64::consts::LN_2);
        assert_eq!([0.0, 1.0].map(binary_entropy), [0.0, 0.0]);
    }
}
