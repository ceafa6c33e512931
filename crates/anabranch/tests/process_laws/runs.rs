//! MASS, ONCE, SIGMA, ORDER, IDENT and PROPER on whole runs with 64 logical workers, for every process.

use std::collections::BTreeSet;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, Central, Entry, Fold};
use anabranch::engine::{Config, Schedule, minibatch_rng, run};
use anabranch::family::AnyFamily;
use anabranch::identify::{Identification, Target, correspond};
use anabranch::infer::{PriorChoice, Settings, Workspace, infer};
use anabranch::process::{AnyProcess, Bound, Parameter, Process};
use anabranch_testkit::generators::{NormalInverseWishart, synthetic};

use crate::support::{
    ALL_FAMILIES, Numbered, absorb, assert_holds, certain, cut, default_family, fingerprint, model,
};

const WORKERS: usize = 64;

fn processes() -> Vec<AnyProcess> {
    let auto = |value| Parameter::Learned { learned: value };
    let new = |alpha: Parameter, discount| AnyProcess::new(alpha, discount, Bound::Paper).unwrap();
    vec![
        new(1.0.into(), None),
        new(auto(5.0), None),
        new(1.0.into(), Some(0.6.into())),
        new((-0.3).into(), Some(0.5.into())),
        new(auto(1.0), Some(auto(0.3))),
    ]
}

fn config(schedule: Schedule) -> Config {
    Config {
        threads: 3,
        workers: WORKERS,
        schedule,
        seed: 11,
        inference: Settings { max_iterations: 4, max_new: 4, ..Settings::default() },
        prior: PriorChoice::Given,
        ..Config::default()
    }
}

fn paper_stream(n_batches: usize) -> (AnyFamily, Vec<Batch>) {
    let data = synthetic(2015, 5 * n_batches, 6, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, data.rows).unwrap();
    (default_family("gaussian", &rows), cut(&rows, 5))
}

#[test]
fn every_process_keeps_every_invariant_under_redelivery() {
    let (family, batches) = paper_stream(500);
    for process in processes() {
        for schedule in [Schedule::Free, Schedule::Deterministic] {
            let named: Vec<_> = (0..).map(BatchId).zip(batches.iter().cloned()).collect();
            let twice = named.iter().flat_map(|one| [one.clone(), one.clone()]).collect();
            let central = Central::new(family.clone(), process);
            run(&central, &mut Numbered::new(twice), &config(schedule), &mut ()).unwrap();
            assert_holds(&central.checkpoint(), &named);
        }
    }
}

#[test]
fn every_family_of_the_mixtures_works_with_every_process() {
    for name in ALL_FAMILIES {
        let model = model(name, 5, 300, 3);
        for process in processes() {
            let mut source = Numbered::in_order(&cut(&model.rows, 10));
            let central = Central::new(model.family.clone(), process);
            run(&central, &mut source, &config(Schedule::Deterministic), &mut ()).unwrap();
            assert_holds(&central.checkpoint(), &source.batches);
        }
    }
}

#[test]
fn sigma_is_one_to_one_and_never_touches_what_the_worker_knew() {
    let (family, batches) = paper_stream(120);
    let settings = Settings { max_iterations: 4, ..Settings::default() };
    for process in processes() {
        let central = Central::new(family.clone(), process);
        let (mut held, mut matched) = (Vec::new(), 0);
        for (ix, batch) in batches.iter().enumerate() {
            held.push(central.snapshot());
            let base = &held[ix.saturating_sub(WORKERS)];
            let mut rng = minibatch_rng(1, BatchId(ix as u64));
            let (increment, _) = infer(base, batch, &settings, &mut rng, &mut Workspace::default());
            let known: BTreeSet<_> = base.components().iter().map(|c| c.id()).collect();
            let found = correspond(
                &central.snapshot(),
                increment.base,
                increment.mass,
                &increment.new,
                Identification::Optimal,
            );
            let mut used = BTreeSet::new();
            for target in found.correspondence.targets() {
                let Target::Existing(id) = target else { continue };
                assert!(used.insert(*id), "two new components go to {id}");
                assert!(!known.contains(id), "{id} was there before");
            }
            matched += used.len();
            central.absorb(BatchId(ix as u64), increment, Identification::Optimal).unwrap();
        }
        assert!(matched > 0, "{process:?}: nothing was ever matched");
    }
}

#[test]
fn entries_that_touch_only_existing_components_commute() {
    let family = anabranch::family::Bernoulli::new(vec![1.0], vec![1.0]).unwrap();
    for process in processes() {
        let start = || {
            let mut fold = Fold::new(AnyFamily::from(family.clone()), process);
            let new = [certain(4.0, &[1.0]), certain(2.0, &[2.0]), certain(7.0, &[0.0])];
            let new = new.into_iter().map(|evidence| (Target::New, evidence)).collect();
            fold.apply(&Entry::Absorb(absorb(0, 0, vec![], new))).unwrap();
            fold
        };
        let entries: Vec<Entry<AnyFamily, AnyProcess>> = (1..9)
            .map(|ix| {
                let count = (ix % 3 + 1) as f64;
                Entry::Absorb(absorb(ix, 1, vec![(ix % 3, certain(count, &[1.0]))], vec![]))
            })
            .collect();
        let (mut forward, mut backward) = (start(), start());
        entries.iter().for_each(|entry| forward.apply(entry).unwrap());
        entries.iter().rev().for_each(|entry| backward.apply(entry).unwrap());
        assert_eq!(fingerprint(forward.posterior()), fingerprint(backward.posterior()));
    }
}

#[test]
fn masses_of_all_components_and_a_new_one_add_up() {
    let (family, batches) = paper_stream(200);
    for process in processes() {
        let central = Central::new(family.clone(), process);
        let mut source = Numbered::in_order(&batches);
        run(&central, &mut source, &config(Schedule::Deterministic), &mut ()).unwrap();
        let posterior = central.snapshot();
        let labels = || posterior.components().iter().map(|c| &c.evidence().labels);
        let process = posterior.process();
        let total =
            labels().map(|stats| process.existing_mass(stats)).sum::<f64>() + process.new_mass(labels());
        let expected = posterior.mass() + process.alpha();
        assert!((total - expected).abs() < 1e-9 * expected, "{process:?}: {total} of {expected}");
    }
}
