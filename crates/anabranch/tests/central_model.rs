//! The central posterior under a model checker: whatever the interleaving of three writers and a reader, no snapshot is
//! torn, versions only grow, and every minibatch counts once.
//!
//! ```text
//! cargo test -p anabranch --features shuttle --test central_model
//! ```
#![cfg(feature = "shuttle")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch::central::{BatchId, Central, Entry};
use anabranch::family::Bernoulli;
use anabranch::identify::{ComponentId, Identification};
use anabranch::infer::Increment;
use anabranch::posterior::Posterior;
use anabranch::process::Dirichlet;
use shuttle::thread;
use support::{assert_snapshot_invariants, certain, process};

const WRITERS: u64 = 3;
const BATCHES_EACH: u64 = 3;
const SCHEDULES: usize = 2000;
/// Priority changes that the second scheduler inserts: most known bugs need at most three.
const DEPTH: usize = 3;

/// Merges that have been made: none is made by the scenarios without them.
static MERGES: AtomicU64 = AtomicU64::new(0);

type Centre = Central<Bernoulli, Dirichlet>;

fn coins() -> Bernoulli {
    Bernoulli::new(vec![0.5; 2], vec![0.5; 2]).unwrap()
}

/// What a worker learned from six rows: two for everything it knew, the rest in two components of its own.
fn increment(snapshot: &Posterior<Bernoulli, Dirichlet>, writer: u64) -> Increment {
    let known = snapshot.components().iter().map(|c| (c.id(), certain(2.0, &[1.0, 0.0])));
    let existing: Vec<_> = known.collect();
    // Writers open the same two clusters, in different order, so that they have something to identify.
    let mut new = vec![certain(3.0, &[3.0, 0.0]), certain(5.0, &[0.0, 5.0])];
    new.rotate_left(writer as usize % 2);
    let mass = 2.0 * existing.len() as f64 + 8.0;
    Increment { base: snapshot.version(), mass, familiarity: None, existing, new }
}

fn write(central: &Centre, writer: u64) -> f64 {
    let mut mass = 0.0;
    for batch in 0..BATCHES_EACH {
        let before = central.snapshot();
        thread::yield_now();
        let learned = increment(&before, writer);
        let weight = learned.mass;
        let id = BatchId(writer * BATCHES_EACH + batch);
        let outcome = central.absorb(id, learned.clone(), Identification::Optimal).unwrap();
        assert!(outcome.counted, "a fresh minibatch counts");
        assert!(central.snapshot().version() > before.version(), "the writer sees its own entry");
        assert!(
            !central.absorb(id, learned, Identification::Optimal).unwrap().counted,
            "a second delivery does not"
        );
        mass += weight;
    }
    mass
}

/// Versions and mass only grow, and the mass of every snapshot is that of its components.
fn read(central: &Centre) {
    let mut last = central.snapshot();
    for _ in 0..8 {
        thread::yield_now();
        let now = central.snapshot();
        assert!(now.version() >= last.version(), "version {} after {}", now.version(), last.version());
        assert!(now.mass() >= last.mass());
        // Whole numbers: a torn snapshot cannot hide in a tolerance.
        assert_eq!(now.mass(), now.expected_mass(), "a torn snapshot at version {}", now.version());
        let same = now.version() == last.version();
        assert!(!same || Arc::ptr_eq(&now, &last), "two posteriors of one version");
        last = now;
    }
}

fn scenario(with_merges: bool) {
    let central = Arc::new(Central::new(coins(), process()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let central = Arc::clone(&central);
            thread::spawn(move || write(&central, writer))
        })
        .collect();
    let reader = {
        let central = Arc::clone(&central);
        thread::spawn(move || read(&central))
    };
    let merged = u64::from(with_merges && retire_when_there(&central));
    MERGES.fetch_add(merged, Ordering::Relaxed);
    let mass: f64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    reader.join().unwrap();
    let fold = central.checkpoint();
    assert_eq!(fold.posterior().mass(), mass);
    assert_eq!(fold.absorbed().runs(), &[(0, WRITERS * BATCHES_EACH - 1)]);
    assert_eq!(fold.posterior().version(), WRITERS * BATCHES_EACH + merged);
    assert_eq!(fold.posterior().version(), central.snapshot().version());
    assert_eq!(fold.posterior().components().len() as u64 + merged, fold.next_id());
    assert_snapshot_invariants(fold.posterior());
}

/// Merges the first two components as soon as they are seen; true when that happened.
fn retire_when_there(central: &Centre) -> bool {
    for _ in 0..64 {
        let merge = Entry::Retire { id: ComponentId(0), into: ComponentId(1) };
        if central.append(&merge).is_ok() {
            return true;
        }
        thread::yield_now();
    }
    false
}

#[test]
fn two_thousand_random_interleavings_keep_every_invariant() {
    shuttle::check_random(|| scenario(false), SCHEDULES);
}

#[test]
fn interleavings_with_few_preemptions_keep_every_invariant() {
    shuttle::check_pct(|| scenario(false), SCHEDULES, DEPTH);
}

#[test]
fn merges_between_the_writers_keep_every_invariant() {
    shuttle::check_random(|| scenario(true), SCHEDULES);
    // Which interleavings come is up to the checker; a test in which few of them merge would show nothing.
    let merges = MERGES.load(Ordering::Relaxed);
    assert!(merges > SCHEDULES as u64 / 10, "{merges} of {SCHEDULES} interleavings merged");
    shuttle::check_pct(|| scenario(true), SCHEDULES, DEPTH);
}
