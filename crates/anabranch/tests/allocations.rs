//! What a worker allocates: nothing while it infers from a minibatch without news, once its memory has grown, but the
//! increment that leaves it. What an answer for one row allocates: nothing.
//!
//! A program of its own, because it counts every allocation of the process.
#![expect(unsafe_code, reason = "an allocator that counts is the only way to see every allocation")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, Central};
use anabranch::family::{Conjugate, Family, Gaussian};
use anabranch::identify::Identification;
use anabranch::infer::{Increment, Outlook, PriorChoice, Settings, Workspace, bootstrap, infer};
use anabranch::posterior::{Evidence, Posterior, Predictor};
use anabranch::process::{Dirichlet, LabelStatistics};
use anabranch_testkit::streams::Columns;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use support::{process, rows_of};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counter is a thread's own and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of `work` on this thread.
fn allocations<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ALLOCATIONS.get();
    let result = work();
    (ALLOCATIONS.get() - before, result)
}

/// So many that scores are ruled out in single precision.
const CLUSTERS: usize = 20;
const COLUMNS: usize = 8;

fn rows(seed: u64, n: usize) -> Batch {
    rows_of(Columns::Reals, seed, n, CLUSTERS, COLUMNS)
}

/// A posterior that has seen the clusters, and a minibatch of rows that it has seen.
fn learned() -> (Central<Gaussian, Dirichlet>, Batch) {
    let first = rows(1, 4000);
    let family = Gaussian::from_rows(&first).unwrap();
    let central = Central::new(family, process());
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
    let (settings, workspace) = (Settings::default(), &mut Workspace::default());
    let prior = central.snapshot();
    let found = bootstrap(&prior, &first, &settings, PriorChoice::Given, Outlook::MoreToCome, rng, workspace);
    central.absorb(BatchId(0), found.increment, Identification::Optimal).unwrap();
    (central, first.head(256))
}

fn minibatch(
    posterior: &Posterior<Gaussian, Dirichlet>,
    batch: &Batch,
    workspace: &mut Workspace,
) -> Increment {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(2);
    let (increment, report) = infer(posterior, batch, &Settings::default(), rng, workspace);
    assert_eq!(report.proposed, 0, "the rows hold nothing new");
    increment
}

/// More components than the E-step looks at one by one, in more columns, and a minibatch of rows of some of them.
fn many() -> (Central<Gaussian, Dirichlet>, Batch) {
    const MANY: usize = 450;
    const MORE_COLUMNS: usize = 10;
    const ROWS_EACH: usize = 20;
    // The rows of each cluster in turn, around a centre that is far from the others.
    let value = |ix: usize, j: usize| {
        let (centre, noise) = (ix / ROWS_EACH * (j + 7), ix * (j + 3));
        60.0 * (0.37 * centre as f64).sin() + (1.7 * noise as f64).sin()
    };
    let values = (0..MANY * ROWS_EACH).flat_map(|ix| (0..MORE_COLUMNS).map(move |j| value(ix, j)));
    let rows = Batch::new(MORE_COLUMNS, values.collect()).unwrap();
    let family = Gaussian::from_rows(&rows).unwrap();
    let mut features = vec![0.0; family.n_features()];
    let mut new = vec![Evidence::empty(family.n_features()); MANY];
    for (ix, row) in rows.rows().enumerate() {
        let mut labels = LabelStatistics::default();
        labels.observe(1.0, 1.0);
        family.features(row, &mut features);
        new[ix / ROWS_EACH].absorb(&Evidence { stats: features.clone(), labels });
    }
    let increment = Increment { base: 0, mass: rows.mass(), familiarity: None, existing: vec![], new };
    let central = Central::new(family, process());
    central.absorb(BatchId(0), increment, Identification::Optimal).unwrap();
    (central, rows.head(256))
}

#[test]
fn a_minibatch_with_nothing_new_allocates_the_increment_alone() {
    for (central, batch) in [learned(), many()] {
        let posterior = central.snapshot();
        let mut workspace = Workspace::default();
        minibatch(&posterior, &batch, &mut workspace);
        let (allocated, increment) = allocations(|| minibatch(&posterior, &batch, &mut workspace));
        let components = increment.existing.len() as u64;
        println!("{allocated} allocations for {components} of {}", posterior.components().len());
        assert!(components > 1);
        // The evidence of each component, the list of it, and how unlikely the rows were.
        assert_eq!(allocated, components + 2);

        // As many for eight times the rows: no allocation belongs to a row.
        let batches: Vec<Batch> = (0..8).map(|_| batch.clone()).collect();
        let values = batches.iter().flat_map(|batch| batch.values()).copied().collect();
        let larger = Batch::new(batch.dimensions(), values).unwrap();
        minibatch(&posterior, &larger, &mut workspace);
        let (for_more_rows, _) = allocations(|| minibatch(&posterior, &larger, &mut workspace));
        assert_eq!(for_more_rows, allocated);
    }
}

#[test]
fn joining_allocates_for_each_component_that_changed() {
    let (central, batch) = learned();
    let mut workspace = Workspace::default();
    let mut join = |id| {
        let increment = minibatch(&central.snapshot(), &batch, &mut workspace);
        let components = increment.existing.len() as u64;
        (components, allocations(|| central.absorb(BatchId(id), increment, Identification::Optimal)).0)
    };
    join(1);
    let (components, allocated) = join(2);
    println!("{allocated} allocations to join {components} components");
    // A component and its sums; the list of components and the snapshot; the entry's own lists.
    assert!(allocated <= 2 * components + 16, "{allocated} allocations for {components} components");
}

#[test]
fn an_answer_for_one_row_allocates_nothing() {
    for (central, batch) in [learned(), many()] {
        let predictor = Predictor::new(&central.snapshot());
        let mut probabilities = Vec::new();
        let mut ask = |x: &[f64]| {
            predictor.responsibilities(x, &mut probabilities);
            (predictor.label(x), predictor.ln_density(x))
        };
        // The memory of the thread grows.
        ask(batch.row(0));
        let far = vec![1e6; batch.dimensions()];
        for x in batch.rows().chain([&far[..]]) {
            let (allocated, (label, ln_density)) = allocations(|| ask(x));
            assert_eq!(allocated, 0);
            assert!(label.is_some() && ln_density.is_finite());
        }
    }
}
