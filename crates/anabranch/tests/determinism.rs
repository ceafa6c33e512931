//! Under the deterministic schedule the seed and the number of logical workers fix the result, bit for bit, on any number
//! of threads; with one worker a run can be interrupted anywhere.

mod support;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, Central, Fold, Memory};
use anabranch::engine::{Config, Schedule, bootstrap, finish, run};
use anabranch::family::AnyFamily;
use anabranch::identify::Identification;
use anabranch::infer::Settings;
use anabranch::posterior::{Component, Parts, Posterior};
use anabranch::process::Dirichlet;
use support::{Model, Numbered, cut, fingerprint, model, process};

type Journal = Fold<AnyFamily, Dirichlet>;

fn config(seed: u64, workers: usize, threads: usize) -> Config {
    let inference = Settings { max_iterations: 6, max_new: 6, ..Settings::default() };
    Config {
        threads,
        workers,
        schedule: Schedule::Deterministic,
        seed,
        identification: Identification::Optimal,
        inference,
        ..Config::default()
    }
}

fn small_stream() -> (AnyFamily, Vec<Batch>) {
    let Model { family, rows } = model("gaussian", 8, 1000, 7);
    (family, cut(&rows, 8))
}

/// Goes on from a fold with some of the minibatches.
fn go_on(fold: Journal, batches: &[(BatchId, Batch)], config: &Config) -> Journal {
    go_on_with(fold, Memory::default(), batches, config).0
}

/// The same with the rows that an earlier run remembered, and those that this one does.
fn go_on_with(
    fold: Journal,
    memory: Memory,
    batches: &[(BatchId, Batch)],
    config: &Config,
) -> (Journal, Memory) {
    let central = Central::from_fold(fold).with_memory(memory);
    run(&central, &mut Numbered::new(batches.to_vec()), config, &mut ()).unwrap();
    (central.checkpoint(), central.memory())
}

fn whole_run(config: &Config) -> Journal {
    let (family, batches) = small_stream();
    go_on(Fold::new(family, process()), &Numbered::in_order(&batches).batches, config)
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for workers in [1, 5, 16] {
        let one = whole_run(&config(3, workers, 1));
        assert!(one.posterior().components().len() > 3, "too little happens to show anything");
        for threads in [2, 5] {
            let other = whole_run(&config(3, workers, threads));
            assert_eq!(
                fingerprint(one.posterior()),
                fingerprint(other.posterior()),
                "W = {workers}, {threads}"
            );
            assert_eq!(one.next_id(), other.next_id());
        }
    }
}

/// Rounds grow from one minibatch to several here.
fn growing(threads: usize) -> Config {
    Config { schedule: Schedule::Growing, ..config(3, 16, threads) }
}

#[test]
fn the_number_of_threads_changes_no_bit_while_rounds_grow() {
    let Model { family, rows } = model("gaussian", 8, 4000, 7);
    let batches = Numbered::in_order(&cut(&rows, 8)).batches;
    let learned = |config: &Config| {
        fingerprint(go_on(Fold::new(family.clone(), process()), &batches, config).posterior())
    };
    let one = learned(&growing(1));
    for threads in [2, 5] {
        assert_eq!(one, learned(&growing(threads)), "{threads}");
    }
    assert_ne!(one, learned(&config(3, 2, 1)), "the rounds have not grown");
}

/// Each piece is a run of its own, on the same centre or on a copy of it.
#[test]
fn a_stream_in_pieces_is_the_whole_stream() {
    let (family, batches) = small_stream();
    let batches = Numbered::in_order(&batches).batches;
    for config in [growing(3), config(3, 5, 2), config(3, 16, 3)] {
        let whole = fingerprint(whole_run(&config).posterior());
        let mut central = Central::from_fold(Fold::new(family.clone(), process()));
        for pieces in [&batches[..1], &batches[1..9], &batches[9..9], &batches[9..70], &batches[70..]] {
            central = central.fork();
            run(&central, &mut Numbered::new(pieces.to_vec()), &config, &mut ()).unwrap();
        }
        assert_eq!(whole, fingerprint(central.snapshot().as_ref()), "{:?}", config.schedule);
    }
}

#[test]
fn the_number_of_workers_and_the_seed_are_what_fixes_the_result() {
    // Not a wish but a check of the test above: a fingerprint that never differed would prove nothing.
    let one = fingerprint(whole_run(&config(3, 1, 2)).posterior());
    assert_ne!(one, fingerprint(whole_run(&config(3, 16, 2)).posterior()));
    assert_ne!(one, fingerprint(whole_run(&config(4, 1, 2)).posterior()));
}

#[test]
fn a_run_interrupted_anywhere_equals_the_uninterrupted_one() {
    let (family, batches) = small_stream();
    let batches = Numbered::in_order(&batches).batches;
    let config = config(3, 1, 2);
    let whole = fingerprint(whole_run(&config).posterior());
    for cut_at in [0, 1, 60, 124, 125] {
        let empty = Fold::new(family.clone(), process());
        let (half, memory) = go_on_with(empty, Memory::default(), &batches[..cut_at], &config);
        let (done, _) = go_on_with(half, memory, &batches[cut_at..], &config);
        assert_eq!(whole, fingerprint(done.posterior()), "interrupted after {cut_at}");
        assert_eq!(done.absorbed().runs(), &[(0, 124)]);
    }
}

#[test]
fn a_run_restored_from_stored_parts_equals_the_uninterrupted_one() {
    let (family, batches) = small_stream();
    let batches = Numbered::in_order(&batches).batches;
    let config = config(3, 1, 2);
    let half = go_on(Fold::new(family.clone(), process()), &batches[..60], &config);
    let stored = half.posterior();
    let copy = |c: &Component| Component::new(c.id(), c.born(), c.evidence().clone());
    let restored = Posterior::restore(Parts {
        version: stored.version(),
        family,
        process: process(),
        components: stored.components().iter().map(|c| copy(c)).collect(),
        redirects: stored.redirects().clone(),
        mass: stored.mass(),
    })
    .unwrap();
    let resumed = Fold::resume(restored, half.absorbed().clone(), half.next_id(), half.last_birth());
    let resumed = resumed.within(0, half.aside(), stored.familiarity());
    // Redelivery of everything: what is in the journal already must not count again.
    let done = go_on(resumed, &batches, &config);
    let whole = whole_run(&config);
    assert_eq!(fingerprint(whole.posterior()), fingerprint(done.posterior()));
    assert_eq!(whole.next_id(), done.next_id());
}

#[test]
fn the_first_minibatch_and_the_end_are_the_same_on_any_number_of_threads() {
    let Model { family, rows } = model("gaussian", 12, 9000, 11);
    let whole = |threads: usize| {
        let config = Config { workers: 1, bootstrap_rows: 7000, ..config(5, 1, threads) };
        let central = Central::from_fold(Fold::new(family.clone(), process()));
        let mut batches = vec![rows.head(7000)];
        batches.extend(rows.tail(7000).pieces(250));
        let mut source = batches.into_iter().enumerate();
        bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        run(&central, &mut source, &config, &mut ()).unwrap();
        finish(&central, &config);
        fingerprint(central.checkpoint().posterior())
    };
    let one = whole(1);
    assert_eq!(one, whole(2));
    assert_eq!(one, whole(5));
}
