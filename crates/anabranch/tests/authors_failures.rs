//! What the authors' program got wrong, one test each: none of it may happen here.

mod support;

use std::cell::Cell;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::batch::{Batch, BatchError};
use anabranch::central::{Absorb, BatchId, Central, Entry};
use anabranch::engine::{Config, Event, Flow, Schedule, run};
use anabranch::family::{AnyFamily, Family, Frame, Gaussian, NormalInverseWishart};
use anabranch::identify::{ComponentId, Identification, Target};
use anabranch::infer::{Increment, InferenceReport, Settings, Workspace, infer};
use anabranch::posterior::{Posterior, Predictor};
use anabranch::process::{Bound, Dirichlet, Population, Process};
use anabranch_testkit::streams::{Columns, separated};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use support::hooked::{Call, Hooked};
use support::{Numbered, assert_holds, certain, cut, default_family, process, rows_of};

/// Sums of a few hundred responsibilities in two different orders.
const SUM_ROUNDING: f64 = 1e-10;
/// Only a test that fails waits this long.
const DEADLINE: Duration = Duration::from_secs(60);

type Centre = Central<AnyFamily, Dirichlet>;

fn learn(
    snapshot: &Posterior<AnyFamily, Dirichlet>,
    batch: &Batch,
    settings: &Settings,
    seed: u64,
) -> (Increment, InferenceReport) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    infer(snapshot, batch, settings, &mut rng, &mut Workspace::default())
}

/// A central posterior that has seen these rows as one minibatch.
fn taught(rows: &Batch) -> Centre {
    let central = Central::new(default_family("gaussian", rows), process());
    let (increment, _) = learn(&central.snapshot(), rows, &Settings::default(), 1);
    central.absorb(BatchId(u64::MAX), increment, Identification::Optimal).unwrap();
    central
}

fn in_order(threads: usize, workers: usize) -> Config {
    Config { threads, workers, schedule: Schedule::Deterministic, ..Config::default() }
}

#[test]
fn small_components_do_not_take_their_data_with_them() {
    // Theirs lost 8 % of the mass in minibatches of one row and 0.2 % in minibatches of fifty.
    let rows = rows_of(Columns::Reals, 21, 600, 8, 2);
    for size in [1, 50] {
        let central = Central::new(default_family("gaussian", &rows), process());
        let mut source = Numbered::in_order(&cut(&rows, size));
        run(&central, &mut source, &in_order(2, 4), &mut ()).unwrap();
        assert_holds(&central.checkpoint(), &source.batches);
    }
}

#[test]
fn parameters_and_statistics_come_from_the_same_half_step() {
    // Theirs had ν − ν₀ ≠ count. It shows before convergence: stop after each number of iterations.
    let rows = rows_of(Columns::Reals, 22, 120, 6, 2);
    let snapshot = taught(&cut(&rows, 60)[0]).snapshot();
    for max_iterations in 0..6 {
        let settings = Settings { max_iterations, ..Settings::default() };
        let (increment, _) = learn(&snapshot, &cut(&rows, 60)[1], &settings, 3);
        let existing = increment.existing.iter().map(|(_, evidence)| evidence);
        for evidence in existing.chain(&increment.new) {
            let (stats, labels) = (evidence.stats[0], evidence.labels.expected_count);
            assert!((stats - labels).abs() < SUM_ROUNDING, "{max_iterations} iterations: {stats}, {labels}");
        }
    }
}

#[test]
fn seeds_are_repelled_from_known_clusters() {
    let central = taught(&Batch::new(2, separated(1, 2, 300, 2, 40.0)).unwrap());
    // Forty rows of each known cluster, five of each of two others, and two seeds to place.
    let mut values = separated(2, 2, 40, 2, 40.0);
    values.extend(separated(3, 2, 5, 2, 80.0).iter().map(|v| v + 120.0));
    let batch = Batch::new(2, values).unwrap();
    for seed in 0..50 {
        let settings = Settings { max_new: 2, ..Settings::default() };
        let (increment, report) = learn(&central.snapshot(), &batch, &settings, seed);
        assert_eq!((report.novel_rows, report.proposed, increment.new.len()), (10, 2, 2), "seed {seed}");
        let family = central.snapshot().family().clone();
        let mut means: Vec<f64> = increment.new.iter().map(|e| family.summary(&e.stats).mean[0]).collect();
        means.sort_by(f64::total_cmp);
        // The prior of weight 0.1 pulls the mean of five rows a little.
        let near = (means[0] - 120.0).abs() < 6.0 && (means[1] - 200.0).abs() < 6.0;
        assert!(near, "seed {seed}: {means:?}");
        assert!(increment.new.iter().all(|e| (e.labels.expected_count - 5.0).abs() < 1e-3));
    }
}

#[test]
fn predictive_densities_integrate_to_one_in_odd_dimensions() {
    /// Midpoints of a smooth integrand on a bounded interval.
    const STEPS: usize = 20_000;
    const QUADRATURE_ERROR: f64 = 1e-6;
    for d in [1usize, 3, 5] {
        let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; d], 2.0, &vec![1.0; d], d as f64 + 2.0);
        let predictive =
            Gaussian::new(Frame::identity(d), prior).unwrap().predictive(&vec![0.0; 1 + d + d * (d + 1) / 2]);
        // The density is the same in all directions: integrate over spheres of radius tan u.
        let surface = [2.0, 4.0 * std::f64::consts::PI, 8.0 / 3.0 * std::f64::consts::PI.powi(2)][d / 2];
        let step = std::f64::consts::FRAC_PI_2 / STEPS as f64;
        let integrand = |ix: usize| {
            let angle = (ix as f64 + 0.5) * step;
            let mut x = vec![0.0; d];
            x[d - 1] = angle.tan();
            let stretch = 1.0 + x[d - 1].powi(2);
            surface * x[d - 1].powi(d as i32 - 1) * stretch * predictive.ln_density(&x).exp()
        };
        let total: f64 = (0..STEPS).map(integrand).sum::<f64>() * step;
        assert!((total - 1.0).abs() < QUADRATURE_ERROR, "D = {d}: {total}");
    }
}

#[test]
fn a_tiny_cluster_is_not_rewarded() {
    // log Γ(t) without the maximum grows without bound for t → 0.
    for bound in [Bound::Paper, Bound::Conditional] {
        let process = Dirichlet::new(1.0, bound).unwrap();
        let score = |t: f64| {
            let labels = certain(t, &[]).labels;
            process.score(&labels, Population::of([&labels], t))
        };
        assert!(score(1e-9) <= score(1.0) && score(1.0) < score(1000.0), "{bound:?}");
    }
}

#[test]
fn a_stream_with_nothing_new_stops_opening_components() {
    let mut rows = separated(5, 3, 400, 2, 60.0);
    // Interleave the clusters: row i of each in turn.
    rows = (0..400)
        .flat_map(|i| (0..3).flat_map(move |k| [800 * k + 2 * i, 800 * k + 2 * i + 1]))
        .map(|ix| rows[ix])
        .collect();
    let rows = Batch::new(2, rows).unwrap();
    let central = taught(&Batch::new(2, rows.values()[..1200].to_vec()).unwrap());
    let before = central.snapshot().components().len();
    let mut created = 0;
    let mut count = |event: &Event, _: &Centre| {
        created += event.absorbed.created;
        Flow::Continue
    };
    let mut source = Numbered::in_order(&cut(&Batch::new(2, rows.values()[1200..].to_vec()).unwrap(), 20));
    run(&central, &mut source, &in_order(2, 8), &mut count).unwrap();
    assert_eq!((created, central.snapshot().components().len()), (0, before));
}

#[test]
fn data_far_from_zero_need_no_more_iterations() {
    // Theirs had no cap, and took 3,005 iterations a minibatch for data shifted by 1e7.
    let near = Batch::new(2, separated(6, 4, 50, 2, 8.0)).unwrap();
    let far = Batch::new(2, near.values().iter().map(|v| v + 1e7).collect()).unwrap();
    let iterations = |rows: &Batch, settings: &Settings| {
        let snapshot = Posterior::prior(default_family("gaussian", rows), process());
        learn(&snapshot, rows, settings, 4).1.objective.len()
    };
    let settings = Settings { max_iterations: 500, ..Settings::default() };
    let (here, there) = (iterations(&near, &settings), iterations(&far, &settings));
    // Rows at 1e7 are rounded to 1e-9: the ascent may stop one iteration earlier or later.
    assert!(here < 500 && here.abs_diff(there) <= 1, "{here} iterations near, {there} far");
    let relentless =
        Settings { max_iterations: 7, absolute_tolerance: 0.0, relative_tolerance: -1.0, ..settings };
    assert_eq!(iterations(&far, &relentless), 7, "the cap holds whatever the tolerance");
}

#[test]
fn a_nan_is_refused_at_the_edge_with_its_place() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = Batch::new(2, vec![0.0, 1.0, 2.0, bad]).unwrap_err();
        assert!(matches!(error, BatchError::NotFinite { row: 1, column: 1, .. }), "{error}");
        let rows = || Batch::new(1, vec![0.0, 1.0]).unwrap();
        assert!(matches!(rows().with_weights(vec![1.0, bad]), Err(BatchError::Weight { row: 1, .. })));
    }
    assert!(Batch::new(0, vec![]).is_err() && Batch::new(2, vec![1.0; 3]).is_err());
}

#[test]
fn a_concentration_of_zero_or_less_is_refused() {
    for alpha in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Dirichlet::new(alpha, Bound::Paper).is_err(), "{alpha}");
    }
}

#[test]
fn no_threads_and_no_workers_still_run() {
    let rows = rows_of(Columns::Reals, 7, 60, 3, 2);
    for schedule in [Schedule::Free, Schedule::Deterministic] {
        for (threads, workers) in [(0, 0), (0, 5), (5, 0), (9, 2)] {
            let central = Central::new(default_family("gaussian", &rows), process());
            let mut source = Numbered::in_order(&cut(&rows, 5));
            run(&central, &mut source, &Config { schedule, ..in_order(threads, workers) }, &mut ()).unwrap();
            assert_holds(&central.checkpoint(), &source.batches);
        }
    }
}

#[test]
fn an_empty_test_set_has_no_score_and_does_not_crash() {
    let central = taught(&rows_of(Columns::Reals, 8, 30, 2, 2));
    let predictor = Predictor::new(&central.snapshot());
    assert_eq!(predictor.mean_ln_density(&Batch::new(2, vec![]).unwrap()), None);
}

thread_local! {
    /// The call at which this thread stops until the test lets it go on.
    static STOPS_AT: Cell<Option<Call>> = const { Cell::new(None) };
}

/// Runs `work` on a thread that stops at `call`, runs `meanwhile` while it stands there, and lets it go on.
fn while_stopped_at<R>(
    call: Call,
    central: &Central<Hooked, Dirichlet>,
    gate: &(std::sync::mpsc::Receiver<()>, std::sync::mpsc::Sender<()>),
    work: impl FnOnce(&Central<Hooked, Dirichlet>) + Send,
    meanwhile: impl FnOnce(&Central<Hooked, Dirichlet>) -> R + Send,
) -> R
where
    R: Send,
{
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            STOPS_AT.set(Some(call));
            work(central);
        });
        gate.0.recv_timeout(DEADLINE).expect("the worker comes to the gate");
        let (done, finished) = channel();
        scope.spawn(move || done.send(meanwhile(central)));
        let result = finished.recv_timeout(DEADLINE);
        // Open the gate first, so that a failure is reported and does not hang.
        gate.1.send(()).unwrap();
        worker.join().unwrap();
        result.expect("others go on while the worker stands still")
    })
}

/// A central posterior with one component of four rows, and the two ends of its gate.
fn gated() -> (Central<Hooked, Dirichlet>, (std::sync::mpsc::Receiver<()>, std::sync::mpsc::Sender<()>)) {
    let ((arrived, arrival), (open, opened)) = (channel(), channel());
    let gate = Mutex::new((arrived, opened));
    let family = Hooked::new(move |call| {
        if STOPS_AT.get() == Some(call) {
            STOPS_AT.set(None);
            let (arrived, opened) = &*gate.lock().unwrap();
            arrived.send(()).unwrap();
            opened.recv_timeout(DEADLINE).unwrap();
        }
    });
    let central = Central::new(family, process());
    central.append(&opens(0, 0)).unwrap();
    (central, (arrival, open))
}

fn opens<F, P>(batch: u64, base: u64) -> Entry<F, P> {
    let new = vec![(Target::New, certain(4.0, &[4.0]))];
    Entry::Absorb(Absorb {
        batch: BatchId(batch),
        base,
        pass: 0,
        mass: 4.0,
        familiarity: None,
        existing: vec![],
        new,
    })
}

fn adds_to_the_first<F, P>(batch: u64) -> Entry<F, P> {
    let existing = vec![(ComponentId(0), certain(2.0, &[1.0]))];
    Entry::Absorb(Absorb {
        batch: BatchId(batch),
        base: 0,
        pass: 0,
        mass: 2.0,
        familiarity: None,
        existing,
        new: vec![],
    })
}

#[test]
fn readers_do_not_wait_while_an_entry_is_folded() {
    let (central, gate) = gated();
    // The fold asks for the number of features while it holds the lock.
    let work = |central: &Central<_, _>| central.append(&adds_to_the_first(1)).unwrap();
    let seen = while_stopped_at(Call::NFeatures, &central, &gate, work, |central| central.snapshot());
    assert_eq!((seen.version(), seen.mass()), (1, 4.0), "the entry is not in yet");
    assert_eq!((central.snapshot().version(), central.snapshot().mass()), (2, 6.0));
}

#[test]
fn neither_readers_nor_writers_wait_while_components_are_matched() {
    let (central, gate) = gated();
    let opened = certain(3.0, &[3.0]);
    let increment = Increment { base: 0, mass: 3.0, familiarity: None, existing: vec![], new: vec![opened] };
    let work = |central: &Central<_, _>| {
        let outcome = central.absorb(BatchId(1), increment, Identification::Optimal).unwrap();
        assert!(outcome.counted && outcome.matchings >= 2 && outcome.conflicts == 1, "{outcome:?}");
    };
    // Log-partitions are needed for the gains: the worker stands in the middle of its matching.
    let seen = while_stopped_at(Call::LogPartition, &central, &gate, work, |central| {
        central.append(&adds_to_the_first(2)).unwrap();
        central.append(&opens(3, 2)).unwrap();
        central.snapshot()
    });
    assert_eq!((seen.version(), seen.mass()), (3, 10.0));
    // The component that others opened in the meantime made the worker match again, and nothing was lost.
    assert_eq!((central.snapshot().version(), central.snapshot().mass()), (4, 13.0));
    support::assert_snapshot_invariants(&central.snapshot());
}

#[test]
fn posteriors_that_nobody_holds_are_freed() {
    for schedule in [Schedule::Free, Schedule::Deterministic] {
        let rows = rows_of(Columns::Reals, 9, 400, 3, 2);
        let central = Central::new(default_family("gaussian", &rows), process());
        let (mut posteriors, mut components, mut largest) = (Vec::new(), Vec::new(), 0);
        let mut remember = |_: &Event, central: &Centre| {
            let snapshot = central.snapshot();
            largest = largest.max(snapshot.components().len());
            components.extend(snapshot.components().iter().map(Arc::downgrade));
            posteriors.push(Arc::downgrade(&snapshot));
            Flow::Continue
        };
        let mut source = Numbered::in_order(&cut(&rows, 4));
        run(&central, &mut source, &Config { schedule, ..in_order(2, 16) }, &mut remember).unwrap();
        assert_eq!(posteriors.len(), 100);
        // The newest, and what the next minibatches of the last two rounds read.
        let kept = if schedule == Schedule::Free { 1 } else { 3 };
        let mut living: Vec<_> = posteriors.iter().filter_map(|p| p.upgrade()).collect();
        living.dedup_by(|a, b| Arc::ptr_eq(a, b));
        assert!(living.len() <= kept, "{schedule:?}: {} posteriors are kept", living.len());
        // Whoever looks late misses a posterior, but not that the components of a hundred are kept.
        let mut kept_components: Vec<_> =
            components.iter().filter_map(|c| c.upgrade()).map(|c| Arc::as_ptr(&c)).collect();
        kept_components.sort_unstable();
        kept_components.dedup();
        let most = kept * (largest + 1);
        assert!(
            kept_components.len() <= most,
            "{} of at most {most} components are kept",
            kept_components.len()
        );
    }
}
