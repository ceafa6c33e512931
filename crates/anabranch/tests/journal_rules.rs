//! The rules of the journal: merges redirect, void entries change nothing, entries about existing components commute.

mod support;

use anabranch::central::{Absorb, BatchId, Entry, Fold, Part, Void};
use anabranch::family::{Bernoulli, Family};
use anabranch::identify::{ComponentId, Target};
use anabranch::posterior::{Evidence, Posterior, Tail, Told};
use anabranch::process::Dirichlet;
use proptest::prelude::*;
use support::{absorb, assert_snapshot_invariants, certain, fingerprint, founded, process};

type Journal = Fold<Bernoulli, Dirichlet>;

/// Three components of coins with 4, 8 and 16 rows: whole numbers, so that sums are exact in any order.
fn coins() -> Journal {
    let family = Bernoulli::new(vec![0.5], vec![0.5]).unwrap();
    founded(family, process(), vec![certain(4.0, &[1.0]), certain(8.0, &[8.0]), certain(16.0, &[0.0])])
}

fn count<F: Family>(posterior: &Posterior<F, Dirichlet>, id: u64) -> f64 {
    let position = posterior.position(posterior.resolve(ComponentId(id))).unwrap();
    posterior.components()[position].expected_count()
}

fn retire<F, P>(id: u64, into: u64) -> Entry<F, P> {
    Entry::Retire { id: ComponentId(id), into: ComponentId(into) }
}

/// Two halves of a component that are alike.
fn halves<P>(id: u64) -> Entry<Bernoulli, P> {
    let half = Part { share: 0.5, offset: vec![0.0; 2] };
    Entry::Split { id: ComponentId(id), parts: vec![half.clone(), half] }
}

/// The part is as new as a component that somebody opened: whoever has not seen it has not compared with it.
#[test]
fn what_was_matched_before_a_split_is_matched_again() {
    let mut fold = coins();
    let base = fold.posterior().version();
    fold.apply(&halves(2)).unwrap();
    assert_eq!((count(fold.posterior(), 2), count(fold.posterior(), 3)), (8.0, 8.0));
    let opened = Entry::Absorb(absorb(7, base, vec![], vec![(Target::New, certain(1.0, &[1.0]))]));
    assert_eq!(fold.apply(&opened), Err(Void::Superseded { created: base + 1, base }));
}

/// How probable rows usually are: the last word counts, and impossible numbers change nothing.
#[test]
fn what_is_ordinary_is_told_anew() {
    let mut fold = coins();
    let tail = |places: &str| -> Tail {
        serde_json::from_str(&format!(r#"{{"doubling": 1, "older": [], "newer": {places}}}"#)).unwrap()
    };
    fold.apply(&Entry::Ordinary(tail("[[-3, 4.0], [2, 6.0]]"))).unwrap();
    let (version, mass) = (fold.posterior().version(), fold.posterior().mass());
    assert_eq!((fold.posterior().tail().mass(), version, mass), (10.0, 2, 28.0));
    for places in ["[[2, 1.0], [-3, 1.0]]", "[[1, -1.0]]", "[[99999, 1.0]]"] {
        assert_eq!(fold.apply(&Entry::Ordinary(tail(places))), Err(Void::Improper), "{places}");
    }
    assert_eq!((fold.posterior().tail().mass(), fold.posterior().version()), (10.0, version));
}

#[test]
fn a_merge_adds_the_evidence_and_redirects_the_id() {
    let mut fold = coins();
    fold.apply(&retire(1, 0)).unwrap();
    let posterior = fold.posterior();
    assert_eq!(posterior.components()[0].evidence(), &certain(12.0, &[9.0]));
    assert_eq!(posterior.resolve(ComponentId(1)), ComponentId(0));
    assert_eq!((posterior.mass(), posterior.version()), (28.0, 2));
    assert_snapshot_invariants(posterior);
}

/// The first judge made one of 2 and 0, the second of 2 and 1: nobody made one of 0 and 1.
#[test]
fn of_two_judges_of_one_component_the_second_merges_nothing() {
    let mut fold = coins();
    fold.apply(&retire(2, 0)).unwrap();
    assert_eq!(fold.apply(&retire(2, 1)), Err(Void::UnknownComponent(ComponentId(2))));
    assert_eq!(fold.posterior().components().len(), 2);
    assert_eq!((count(fold.posterior(), 0), count(fold.posterior(), 1)), (20.0, 8.0));
    // What is merged into may have been merged itself: then all three are one, as both judges said.
    let mut chain = coins();
    chain.apply(&retire(1, 0)).unwrap();
    chain.apply(&retire(2, 1)).unwrap();
    assert_eq!(count(chain.posterior(), 0), 28.0);
}

#[test]
fn an_increment_computed_before_merges_lands_in_the_survivor() {
    let mut fold = coins();
    let base = fold.posterior().version();
    fold.apply(&retire(1, 2)).unwrap();
    fold.apply(&retire(2, 0)).unwrap();
    let existing = (0..3).map(|id| (id, certain(2.0, &[1.0]))).collect();
    let opened =
        vec![(Target::Existing(ComponentId(1)), certain(32.0, &[0.0])), (Target::New, certain(1.0, &[1.0]))];
    fold.apply(&Entry::Absorb(absorb(7, base, existing, opened))).unwrap();
    assert_eq!(count(fold.posterior(), 0), 4.0 + 8.0 + 16.0 + 3.0 * 2.0 + 32.0);
    assert_eq!(count(fold.posterior(), 3), 1.0);
    assert_snapshot_invariants(fold.posterior());
}

#[test]
fn a_new_prior_keeps_the_evidence_and_forgets_what_was_derived_from_the_old_one() {
    let mut fold = coins();
    let before = fold.posterior().clone();
    assert_snapshot_invariants(&before);
    let (family, process) = (Bernoulli::new(vec![30.0], vec![2.0]).unwrap(), process());
    fold.apply(&Entry::Prior { family, process }).unwrap();
    for (now, then) in fold.posterior().components().iter().zip(before.components()) {
        assert_eq!(now.evidence(), then.evidence());
        let fresh = now.expectation(fold.posterior().family()).log_partition;
        assert_ne!(fresh, then.expectation(before.family()).log_partition);
    }
    assert_snapshot_invariants(fold.posterior());
    assert_snapshot_invariants(&before);
}

#[test]
fn void_entries_change_nothing_at_all() {
    let mut fold = coins();
    fold.apply(&retire(0, 1)).unwrap();
    let one = || certain(1.0, &[1.0]);
    let wide = certain(1.0, &[1.0, 1.0]);
    let new = |e: Evidence| vec![(Target::New, e)];
    let named = |id: u64| vec![(Target::Existing(ComponentId(id)), one())];
    let entry = |a: Absorb| Entry::Absorb(a);
    let unknown = Void::UnknownComponent(ComponentId(9));
    let features = Void::Features { expected: 2, found: 3 };
    let cases: Vec<(Entry<Bernoulli, Dirichlet>, Void)> = vec![
        (entry(absorb(0, 2, vec![(1, one())], vec![])), Void::AlreadyAbsorbed(BatchId(0))),
        (entry(absorb(5, 0, vec![(1, one())], new(one()))), Void::Superseded { created: 1, base: 0 }),
        (entry(absorb(5, 0, vec![], named(2))), Void::Superseded { created: 1, base: 0 }),
        // The good part comes first: a void entry must not be applied up to its bad part.
        (entry(absorb(5, 2, vec![(1, one()), (9, one())], new(one()))), unknown.clone()),
        (entry(absorb(5, 2, vec![(1, one())], named(9))), unknown.clone()),
        (entry(absorb(5, 2, vec![(1, one()), (2, wide.clone())], vec![])), features.clone()),
        (entry(absorb(5, 2, vec![(1, one())], new(wide))), features),
        (entry(absorb(5, 2, vec![], [named(2), named(2)].concat())), Void::NotOneToOne(ComponentId(2))),
        // What has ended is not the component that was judged.
        (halves(0), Void::UnknownComponent(ComponentId(0))),
        (retire(9, 1), unknown.clone()),
        (retire(1, 9), unknown),
        (retire(2, 2), Void::IntoItself(ComponentId(2))),
        (retire(0, 1), Void::UnknownComponent(ComponentId(0))),
        (retire(1, 0), Void::IntoItself(ComponentId(1))),
        (retire(0, 2), Void::UnknownComponent(ComponentId(0))),
    ];
    let (before, batches, next) = (fingerprint(fold.posterior()), fold.absorbed().clone(), fold.next_id());
    for (entry, why) in cases {
        assert_eq!(fold.apply(&entry), Err(why), "{entry:?}");
        assert_eq!(fingerprint(fold.posterior()), before, "{entry:?}");
        assert_eq!((fold.absorbed(), fold.next_id()), (&batches, next), "{entry:?}");
    }
}

#[test]
fn familiarity_is_the_mean_of_the_medians_by_weight() {
    let mut fold = coins();
    assert_eq!(fold.posterior().familiarity().usual(), None);
    let told = |batch: u64, rows: f64, familiarity: f64| {
        let entry = absorb(batch, 1, vec![(1, certain(rows, &[0.0]))], vec![]);
        Entry::Absorb(Absorb { familiarity: Some(Told::of_median(familiarity)), ..entry })
    };
    fold.apply(&told(1, 3.0, -2.0)).unwrap();
    fold.apply(&told(2, 1.0, -6.0)).unwrap();
    assert_eq!(fold.posterior().familiarity().usual(), Some(-3.0));
    assert_eq!(fold.apply(&told(3, 1.0, f64::NAN)), Err(Void::Improper));
    assert_eq!(fold.posterior().familiarity().usual(), Some(-3.0));
    // What rows say of their densities is kept, too.
    assert!(fold.posterior().tail().is_empty());
    let mut entry = absorb(4, 1, vec![(1, certain(3.0, &[0.0]))], vec![]);
    entry.familiarity = Some(Told { median: -2.0, densities: vec![(-7, 1.0), (9, 2.0)] });
    fold.apply(&Entry::Absorb(entry)).unwrap();
    assert_eq!(fold.posterior().tail().mass(), 3.0);
}

#[test]
fn an_entry_without_new_components_is_valid_whatever_happened_since() {
    let mut fold = coins();
    fold.apply(&Entry::Absorb(absorb(1, 1, vec![], vec![(Target::New, certain(2.0, &[2.0]))]))).unwrap();
    fold.apply(&Entry::Absorb(absorb(2, 0, vec![(0, certain(1.0, &[0.0]))], vec![]))).unwrap();
    assert_eq!(count(fold.posterior(), 0), 5.0);
}

/// All minibatches of a sum are in, or none: a sum of which one is in already changes nothing.
#[test]
fn a_sum_counts_as_a_whole_and_once() {
    let mut fold = coins();
    let absorb = |batch| absorb(batch, 1, vec![(0, certain(3.0, &[1.0]))], vec![]);
    let sum = |first, also: &[u64]| Entry::Sum {
        also: also.iter().copied().map(BatchId).collect(),
        absorb: absorb(first),
    };
    fold.apply(&sum(5, &[9, 7])).unwrap();
    assert_eq!((count(fold.posterior(), 0), fold.posterior().mass()), (7.0, 31.0));
    assert!([5, 7, 9].into_iter().all(|batch| fold.absorbed().contains(BatchId(batch))));
    let before = (fingerprint(fold.posterior()), fold.absorbed().clone());
    for (entry, why) in [
        (sum(5, &[9, 7]), Void::AlreadyAbsorbed(BatchId(9))),
        (sum(9, &[11]), Void::AlreadyAbsorbed(BatchId(9))),
        (sum(11, &[12, 7]), Void::AlreadyAbsorbed(BatchId(7))),
        (sum(11, &[12, 11]), Void::Improper),
        (sum(11, &[12, 12]), Void::Improper),
        (Entry::Absorb(absorb(7)), Void::AlreadyAbsorbed(BatchId(7))),
    ] {
        assert_eq!(fold.apply(&entry), Err(why));
        assert_eq!((fingerprint(fold.posterior()), fold.absorbed().clone()), before);
    }
    fold.apply(&sum(11, &[])).unwrap();
    assert_eq!(fold.posterior().mass(), 34.0);
}

proptest! {
    #[test]
    fn entries_that_touch_only_existing_components_commute(
        touched in proptest::collection::vec((0u64..3, 1u32..50, 0u32..50), 1..12),
        order in Just((0..12usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let entries: Vec<Entry<Bernoulli, Dirichlet>> = touched.iter().enumerate().map(|(ix, (id, n, ones))| {
            let evidence = certain(f64::from(*n), &[f64::from(*ones.min(n))]);
            Entry::Absorb(absorb(100 + ix as u64, 0, vec![(*id, evidence)], vec![]))
        }).collect();
        let (mut in_order, mut shuffled) = (coins(), coins());
        entries.iter().for_each(|entry| in_order.apply(entry).unwrap());
        for ix in order.into_iter().filter(|ix| *ix < entries.len()) {
            shuffled.apply(&entries[ix]).unwrap();
        }
        prop_assert_eq!(fingerprint(in_order.posterior()), fingerprint(shuffled.posterior()));
        prop_assert_eq!(in_order.absorbed(), shuffled.absorbed());
    }
}
