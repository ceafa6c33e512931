//! MASS, ONCE, SIGMA, ORDER, IDENT and PROPER (ARCHITECTURE §4) on whole runs: 64 logical workers, thousands of small
//! minibatches, redelivery, weights, a stop midway and a source that breaks.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, Central, Fold};
use anabranch::engine::{Config, Event, Flow, Schedule, run};
use anabranch::family::AnyFamily;
use anabranch::identify::{ComponentId, Identification, Target, correspond};
use anabranch::infer::{Settings, Workspace, infer};
use anabranch::posterior::Posterior;
use anabranch::process::Dirichlet;
use anabranch_testkit::generators::{NormalInverseWishart, synthetic};
use proptest::prelude::*;
use support::{
    ALL_FAMILIES, BrokenSource, Numbered, assert_holds, assert_snapshot_invariants, cut, default_family,
    model, process,
};

const SCHEDULES: [Schedule; 2] = [Schedule::Free, Schedule::Deterministic];
const IDENTIFICATIONS: [Identification; 2] = [Identification::Optimal, Identification::ByPosition];
/// Logical workers: far more than threads, so that most minibatches start from a stale posterior.
const WORKERS: usize = 64;

type Journal = Fold<AnyFamily, Dirichlet>;
type Centre = Central<AnyFamily, Dirichlet>;

/// A few cheap iterations: the invariants do not depend on convergence.
fn config(schedule: Schedule, identification: Identification) -> Config {
    let inference = Settings { max_iterations: 4, max_new: 4, ..Settings::default() };
    Config {
        threads: 3,
        workers: WORKERS,
        schedule,
        seed: 11,
        identification,
        inference,
        prior: anabranch::infer::PriorChoice::Given,
        ..Config::default()
    }
}

/// The paper's stream in two dimensions, in minibatches of five rows.
fn paper_stream(n_batches: usize) -> (AnyFamily, Vec<Batch>) {
    let data = synthetic(2015, 5 * n_batches, 6, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, data.rows).unwrap();
    (default_family("gaussian", &rows), cut(&rows, 5))
}

/// Runs, and checks each event and each snapshot that the observer sees on the way.
fn watched(family: AnyFamily, source: &mut Numbered, config: &Config) -> (Journal, Vec<Event>) {
    let central = Central::new(family, process());
    let (mut events, mut meaning) = (Vec::new(), BTreeMap::new());
    let mut observer = |event: &Event, central: &Centre| {
        events.push(*event);
        if events.len() % 97 == 0 {
            let snapshot = central.snapshot();
            assert_snapshot_invariants(&snapshot);
            assert_ids_keep_their_meaning(&mut meaning, &snapshot);
        }
        Flow::Continue
    };
    run(&central, source, config, &mut observer).unwrap();
    let fold = central.checkpoint();
    assert_ids_keep_their_meaning(&mut meaning, fold.posterior());
    (fold, events)
}

/// IDENT: a component stays the one that was born when its id was given, and its evidence only grows.
fn assert_ids_keep_their_meaning(
    meaning: &mut BTreeMap<ComponentId, (u64, f64)>,
    posterior: &Posterior<AnyFamily, Dirichlet>,
) {
    for component in posterior.components() {
        let now = (component.born(), component.expected_count());
        if let Some(before) = meaning.insert(component.id(), now) {
            assert_eq!(before.0, now.0, "component {} was born twice", component.id());
            assert!(before.1 <= now.1, "component {} lost evidence", component.id());
        }
    }
}

fn assert_run(family: AnyFamily, batches: &[Batch], config: &Config) {
    let mut source = Numbered::in_order(batches);
    let (fold, events) = watched(family, &mut source, config);
    assert_holds(&fold, &source.batches);
    assert_eq!(events.len(), batches.len(), "one event for each minibatch");
    assert!(events.iter().all(|event| event.absorbed.counted));
    let created: u64 = events.iter().map(|event| event.absorbed.created).sum();
    assert_eq!(created, fold.next_id(), "every id was given by one event");
    // Merges are entries too; under a given prior there are no others.
    let merges = fold.posterior().redirects().len();
    assert_eq!(fold.posterior().version(), (batches.len() + merges) as u64);
}

#[test]
fn four_thousand_gaussian_minibatches_keep_every_invariant_when_free() {
    let (family, batches) = paper_stream(4000);
    for identification in IDENTIFICATIONS {
        assert_run(family.clone(), &batches, &config(Schedule::Free, identification));
    }
}

#[test]
fn four_thousand_gaussian_minibatches_keep_every_invariant_in_order() {
    let (family, batches) = paper_stream(4000);
    for identification in IDENTIFICATIONS {
        assert_run(family.clone(), &batches, &config(Schedule::Deterministic, identification));
    }
}

#[test]
fn bits_counts_and_products_keep_every_invariant() {
    for name in ["bernoulli", "poisson", "product"] {
        let model = model(name, 3, 1200, 4);
        let batches = cut(&model.rows, 4);
        for (schedule, identification) in SCHEDULES.into_iter().zip(IDENTIFICATIONS) {
            assert_run(model.family.clone(), &batches, &config(schedule, identification));
        }
    }
}

#[test]
fn every_family_survives_minibatches_of_one_row() {
    for name in ALL_FAMILIES {
        let model = model(name, 5, 120, 3);
        assert_run(
            model.family,
            &cut(&model.rows, 1),
            &config(Schedule::Deterministic, Identification::Optimal),
        );
    }
}

#[test]
fn a_minibatch_delivered_again_counts_once() {
    let (family, batches) = paper_stream(300);
    for schedule in SCHEDULES {
        let named: Vec<_> = (0..).map(BatchId).zip(batches.iter().cloned()).collect();
        // Each one comes again right behind itself, when both are likely in flight, and all once more at the end.
        let twice = named.iter().flat_map(|one| [one.clone(), one.clone()]);
        let mut source = Numbered::new(twice.chain(named.iter().cloned()).collect());
        let (fold, events) = watched(family.clone(), &mut source, &config(schedule, Identification::Optimal));
        assert_holds(&fold, &named);
        assert_eq!(events.len(), 900, "a void minibatch is reported too");
        assert_eq!(events.iter().filter(|event| event.absorbed.counted).count(), 300);
        assert!(events.iter().filter(|event| !event.absorbed.counted).all(|e| e.absorbed.created == 0));
        let merges = fold.posterior().redirects().len() as u64;
        assert_eq!(fold.posterior().version(), 300 + merges, "a void entry is not a version");
    }
}

#[test]
fn weighted_rows_count_their_weights() {
    let (family, batches) = paper_stream(400);
    let weight = |ix: usize| [0.0, 0.25, 1.0, 7.5][ix % 4];
    let batches: Vec<Batch> = batches
        .into_iter()
        .enumerate()
        .map(|(ix, batch)| {
            let weights = (0..batch.n_rows()).map(|row| weight(ix + row)).collect();
            batch.with_weights(weights).unwrap()
        })
        .collect();
    for schedule in SCHEDULES {
        assert_run(family.clone(), &batches, &config(schedule, Identification::Optimal));
    }
}

#[test]
fn after_a_stop_the_journal_says_exactly_what_was_read() {
    let (family, batches) = paper_stream(1000);
    for schedule in SCHEDULES {
        let central = Central::new(family.clone(), process());
        let mut source = Numbered::in_order(&batches);
        let mut seen = 0;
        let mut stopper = |_: &Event, _: &Centre| {
            seen += 1;
            if seen >= 40 { Flow::Stop } else { Flow::Continue }
        };
        run(&central, &mut source, &config(schedule, Identification::Optimal), &mut stopper).unwrap();
        assert!((40..batches.len()).contains(&source.taken), "stopped after {} minibatches", source.taken);
        assert_holds(&central.checkpoint(), source.taken());
        assert_eq!(seen, source.taken, "what was read is absorbed and reported");
    }
}

#[test]
fn a_source_that_breaks_returns_its_error_and_keeps_what_was_read() {
    let (family, batches) = paper_stream(150);
    for schedule in SCHEDULES {
        for fails_after in [0, 1, 97] {
            let central = Central::new(family.clone(), process());
            let mut source = Numbered { fails_after: Some(fails_after), ..Numbered::in_order(&batches) };
            let outcome = run(&central, &mut source, &config(schedule, Identification::Optimal), &mut ());
            assert_eq!(outcome, Err(BrokenSource));
            assert_eq!(source.taken, fails_after);
            assert_holds(&central.checkpoint(), source.taken());
        }
    }
}

#[test]
fn an_empty_stream_and_empty_minibatches_leave_the_prior() {
    let (family, _) = paper_stream(20);
    for schedule in SCHEDULES {
        let empty = Batch::new(2, vec![]).unwrap();
        for batches in [vec![], vec![empty.clone(); 5]] {
            let mut source = Numbered::in_order(&batches);
            let (fold, _) = watched(family.clone(), &mut source, &config(schedule, Identification::Optimal));
            assert_holds(&fold, &source.batches);
            assert_eq!(fold.posterior().components().len(), 0);
        }
    }
}

#[test]
fn sigma_is_one_to_one_and_never_touches_what_the_worker_knew() {
    let (family, batches) = paper_stream(200);
    let settings = Settings { max_iterations: 4, ..Settings::default() };
    let central = Central::new(family, process());
    let mut held: Vec<Arc<Posterior<AnyFamily, Dirichlet>>> = Vec::new();
    let mut matched = 0;
    for (ix, batch) in batches.iter().enumerate() {
        held.push(central.snapshot());
        // The minibatch's worker took its snapshot up to 16 minibatches ago.
        let base = &held[ix.saturating_sub(16)];
        let mut rng = anabranch::engine::minibatch_rng(1, BatchId(ix as u64));
        let (increment, _) = infer(base, batch, &settings, &mut rng, &mut Workspace::default());
        let known: BTreeSet<ComponentId> = base.components().iter().map(|c| c.id()).collect();
        assert!(increment.existing.iter().all(|(id, _)| known.contains(id)));
        for identification in IDENTIFICATIONS {
            let found = correspond(
                &central.snapshot(),
                increment.base,
                increment.mass,
                &increment.new,
                identification,
            );
            let mut used = BTreeSet::new();
            for target in found.correspondence.targets() {
                let Target::Existing(id) = target else { continue };
                assert!(used.insert(*id), "two new components go to {id}");
                assert!(!known.contains(id), "{id} was there before, and only the newcomers are in question");
            }
            matched += used.len();
        }
        central.absorb(BatchId(ix as u64), increment, Identification::Optimal).unwrap();
    }
    assert!(matched > 0, "nothing was ever matched: the test shows nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_cut_of_any_stream_keeps_the_invariants(
        seed in 0u64..1000, size in 1usize..40, workers in 1usize..100, threads in 1usize..6, family in 0usize..8,
    ) {
        let model = model(ALL_FAMILIES[family], seed, 120, 3);
        let schedule = SCHEDULES[seed as usize % 2];
        let base = config(schedule, IDENTIFICATIONS[(seed as usize / 2) % 2]);
        assert_run(model.family, &cut(&model.rows, size), &Config { workers, threads, seed, ..base });
    }
}
