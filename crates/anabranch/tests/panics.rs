//! A panic of the observer or of a worker ends the run; a stream without end does not hide it.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{Config, Event, Flow, Schedule, run};
use anabranch::process::Dirichlet;
use support::hooked::{Call, Hooked};
use support::process;

/// So long that reading it to the end cannot be mistaken for stopping, however long a panic takes to be printed.
const ALL_BUT_ENDLESS: usize = 50_000_000;

fn config(schedule: Schedule) -> Config {
    Config { threads: 2, workers: 4, schedule, ..Config::default() }
}

fn assert_ends_early(family: Hooked, schedule: Schedule, mut observer: impl FnMut() -> Flow) {
    let central = Central::new(family, process());
    let taken = AtomicUsize::new(0);
    let one_row = |_| {
        taken.fetch_add(1, Ordering::Relaxed);
        Batch::new(1, vec![1.0]).unwrap()
    };
    let mut source = (0..ALL_BUT_ENDLESS).map(one_row).enumerate();
    let mut observe = |_: &Event, _: &Central<Hooked, Dirichlet>| observer();
    let outcome =
        catch_unwind(AssertUnwindSafe(|| run(&central, &mut source, &config(schedule), &mut observe)));
    assert!(outcome.is_err(), "{schedule:?}: the panic was swallowed");
    assert!(
        taken.load(Ordering::Relaxed) < ALL_BUT_ENDLESS,
        "{schedule:?}: the whole stream was read before the panic showed"
    );
    // What was absorbed before is still whole.
    support::assert_snapshot_invariants(&central.snapshot());
}

#[test]
fn a_panic_of_the_observer_ends_the_run() {
    for schedule in [Schedule::Free, Schedule::Deterministic] {
        assert_ends_early(Hooked::new(|_| ()), schedule, || panic!("the observer's panic, as planned"));
    }
}

#[test]
fn a_panic_of_one_worker_ends_the_run() {
    for schedule in [Schedule::Free, Schedule::Deterministic] {
        let rows = AtomicUsize::new(0);
        let family = Hooked::new(move |call| {
            if call == Call::Features && rows.fetch_add(1, Ordering::Relaxed) == 100 {
                panic!("the worker's panic, as planned");
            }
        });
        assert_ends_early(family, schedule, || Flow::Continue);
    }
}
