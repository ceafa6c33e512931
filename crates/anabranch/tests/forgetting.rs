//! Evidence fades by the clock of the stream: in any order, with every row accounted for, and ids that stay.

mod support;

use anabranch::batch::Batch;
use anabranch::central::{Central, Entry, Fold, Memory, What};
use anabranch::engine::{self, Config, Schedule};
use anabranch::family::{Bernoulli, Family, Gaussian};
use anabranch::identify::{ComponentId, Target};
use anabranch::infer::Settings;
use anabranch::posterior::{Evidence, HalfLife};
use anabranch::process::{Bound, Dirichlet};
use support::{absorb, assert_snapshot_invariants, certain, fingerprint, process};

type Journal = Fold<Bernoulli, Dirichlet>;

fn coins(half_life: HalfLife) -> Journal {
    let mut fold = Fold::new(Bernoulli::new(vec![0.5], vec![0.5]).unwrap(), process());
    fold.forget(half_life);
    fold
}

fn timed<F, P>(clock: f64, absorb: anabranch::central::Absorb) -> Entry<F, P> {
    Entry::Timed { clock, faded: 0.0, absorb }
}

/// Two components of 64 rows each, at clock 128.
fn two(half_life: HalfLife) -> Journal {
    let mut fold = coins(half_life);
    let new = vec![(Target::New, certain(64.0, &[8.0])), (Target::New, certain(64.0, &[60.0]))];
    fold.apply(&timed(128.0, absorb(0, 0, vec![], new))).unwrap();
    fold
}

fn assert_accounted(fold: &Journal, rows: f64) {
    let posterior = fold.posterior();
    assert_snapshot_invariants(posterior);
    let all = posterior.mass() + posterior.past().forgotten;
    assert!((all - rows).abs() < 1e-9 * rows, "{all} of {rows}");
    assert_eq!(posterior.rows(), all);
}

/// Sums of terms in another order differ by less than this share.
const ROUNDING: f64 = 1e-12;

#[test]
fn minibatches_fade_by_their_clock_in_whatever_order_they_come() {
    const SPAN: f64 = 300.0;
    let minibatches: Vec<(f64, Evidence)> =
        (1..=12).map(|ix| (128.0 + 40.0 * f64::from(ix), certain(40.0, &[f64::from(3 * ix)]))).collect();
    let newest = minibatches.last().unwrap().0;
    let mut expected = [64.0, 8.0].map(|sum: f64| sum * ((128.0 - newest) / SPAN).exp2());
    for (clock, evidence) in &minibatches {
        let weight = ((clock - newest) / SPAN).exp2();
        expected.iter_mut().zip(&evidence.stats).for_each(|(sum, s)| *sum += weight * s);
    }
    for order in [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [11, 3, 4, 0, 10, 9, 1, 2, 8, 7, 6, 5]] {
        let mut fold = two(HalfLife::Rows(SPAN));
        for ix in order {
            let (clock, evidence) = minibatches[ix].clone();
            let entry = absorb(1 + ix as u64, 1, vec![(0, evidence)], vec![]);
            fold.apply(&timed(clock, entry)).unwrap();
            let rows = 128.0 + 40.0 * (fold.absorbed().len() - 1) as f64;
            assert_accounted(&fold, rows);
        }
        let stats = &fold.posterior().components()[0].evidence().stats;
        for (found, expected) in stats.iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < ROUNDING, "{found} for {expected}");
        }
        assert!((fold.posterior().past().halvings - 480.0 / SPAN).abs() < ROUNDING);
    }
}

#[test]
fn a_half_life_halves_everything_exactly() {
    let mut fold = two(HalfLife::Rows(100.0));
    fold.apply(&timed(228.0, absorb(1, 1, vec![(1, certain(100.0, &[50.0]))], vec![]))).unwrap();
    let posterior = fold.posterior();
    assert_eq!(posterior.components()[0].evidence().stats, [32.0, 4.0]);
    assert_eq!(posterior.components()[1].evidence().stats, [132.0, 80.0]);
    assert_eq!((posterior.mass(), posterior.past().forgotten), (164.0, 64.0));
}

#[test]
fn what_has_faded_ends_with_its_rows_accounted_and_may_come_back_under_its_id() {
    let process = Dirichlet::new(1.0, Bound::Paper).unwrap();
    let central = Central::from_fold(two(HalfLife::Rows(100.0)).under(process)).watching();
    // 64 rows are less than half a row after more than seven half-lives.
    let grown = absorb(1, 1, vec![(1, certain(720.0, &[700.0]))], vec![]);
    central.append(&timed(848.0, grown)).unwrap();
    let what = |changes: Vec<anabranch::central::Change>| -> Vec<What> {
        changes.into_iter().map(|change| change.what).collect()
    };
    assert_eq!(what(central.take_changes()), [What::Death { id: ComponentId(0), mass: 64.0 }]);
    let fold = central.checkpoint();
    assert_eq!(fold.posterior().components().len(), 1);
    assert_accounted(&fold, 848.0);
    // A worker that knew it has rows for it.
    central.append(&timed(858.0, absorb(2, 1, vec![(0, certain(10.0, &[1.0]))], vec![]))).unwrap();
    assert_eq!(what(central.take_changes()), [What::Birth { id: ComponentId(0), mass: 10.0 }]);
    let fold = central.checkpoint();
    assert_eq!(fold.posterior().components()[0].id(), ComponentId(0));
    assert_accounted(&fold, 858.0);
    // An id that nobody was ever given is unknown still.
    assert!(central.append(&timed(868.0, absorb(3, 1, vec![(7, certain(10.0, &[1.0]))], vec![]))).is_err());
}

#[test]
fn ids_that_lead_to_what_has_faded_have_faded_too() {
    let mut fold = two(HalfLife::Rows(100.0));
    fold.apply(&timed(138.0, absorb(1, 1, vec![], vec![(Target::New, certain(10.0, &[5.0]))]))).unwrap();
    fold.apply(&Entry::Retire { id: ComponentId(2), into: ComponentId(0) }).unwrap();
    let grown = absorb(2, 3, vec![(1, certain(1000.0, &[900.0]))], vec![]);
    fold.apply(&timed(1138.0, grown)).unwrap();
    assert!(fold.posterior().redirects().is_empty());
    assert_accounted(&fold, 1138.0);
}

#[test]
fn evidence_that_was_set_aside_fades_with_the_rest() {
    let mut fold = two(HalfLife::Rows(100.0));
    fold.apply(&Entry::SetAside).unwrap();
    fold.apply(&timed(228.0, absorb(1, 1, vec![(1, certain(100.0, &[50.0]))], vec![]))).unwrap();
    assert_eq!(fold.aside().unwrap().mass, 64.0);
    let again = vec![(ComponentId(0), certain(64.0, &[10.0]))];
    fold.apply(&Entry::Replace { mass: 64.0, evidence: again }).unwrap();
    assert_accounted(&fold, 228.0);
    assert_eq!(fold.posterior().components()[0].evidence().stats, [64.0, 10.0]);
}

#[test]
fn a_gap_without_end_leaves_nothing_and_the_stream_goes_on() {
    let mut fold = two(HalfLife::Seconds(1.0));
    let new = vec![(Target::New, certain(16.0, &[4.0]))];
    fold.apply(&timed(1e9, absorb(1, 1, vec![], new))).unwrap();
    assert_eq!(fold.posterior().components().len(), 1);
    assert_accounted(&fold, 144.0);
    assert!(fold.apply(&timed(f64::NAN, absorb(2, 2, vec![], vec![]))).is_err());
}

/// Rows that were older than others of their minibatch have faded before it joins.
#[test]
fn rows_of_their_own_time_are_accounted_for_in_any_order() {
    // Each minibatch has two rows, of now and of one half-life before.
    let entry = |id: u64, clock: f64| {
        let absorb = absorb(1 + id, 1, vec![(0, certain(1.5, &[1.0]))], vec![]);
        Entry::Timed { clock, faded: 0.5, absorb }
    };
    for clocks in [[138.0, 148.0, 128.0], [148.0, 128.0, 138.0]] {
        let mut fold = two(HalfLife::Seconds(10.0));
        for (id, clock) in clocks.into_iter().enumerate() {
            fold.apply(&entry(id as u64, clock)).unwrap();
        }
        assert_accounted(&fold, 134.0);
        let expected = 64.0 / 4.0 + 1.5 * (1.0 + 0.5 + 0.25);
        assert!((fold.posterior().components()[0].expected_count() - expected).abs() < ROUNDING * expected);
        let odd = Entry::Timed { clock: 150.0, faded: f64::NAN, absorb: absorb(9, 1, vec![], vec![]) };
        assert!(fold.apply(&odd).is_err());
    }
}

/// Rows of two heaps, the second of which is elsewhere after the change.
fn stream(batches: usize, changed_after: usize) -> Vec<Batch> {
    let noise = |t: f64| (1.3 * t).sin() + (2.1 * t).sin() + (0.7 * t * t).sin();
    let place = |batch: usize, row: usize| match (row % 2, batch < changed_after) {
        (0, _) => 0.0,
        (_, true) => 30.0,
        (_, false) => -30.0,
    };
    let rows = |batch: usize| {
        let values = (0..100).map(|row| place(batch, row) + noise((100 * batch + row) as f64));
        Batch::new(1, values.collect()).unwrap()
    };
    (0..batches).map(rows).collect()
}

fn run(batches: &[Batch], threads: usize, half_life: Option<HalfLife>) -> Central<Gaussian, Dirichlet> {
    let family = Gaussian::from_rows(&batches[0]).unwrap();
    let central = Central::new(family, Dirichlet::new(1.0, Bound::Paper).unwrap());
    let schedule = Schedule::Growing;
    let config =
        Config { threads, schedule, half_life, bootstrap_rows: 100, ..Config::new(Settings::default()) };
    let mut source = batches.iter().cloned().enumerate();
    let Ok(_) = engine::bootstrap(&central, &mut source, &config, &mut ());
    let Ok(()) = engine::run(&central, &mut source, &config, &mut ());
    engine::finish(&central, &config);
    central
}

/// Rows that components near this place count.
fn near(central: &Central<Gaussian, Dirichlet>, place: f64) -> f64 {
    let posterior = central.snapshot();
    let of = |evidence: &Evidence| posterior.family().summary(&evidence.stats).mean[0];
    let there = posterior.components().iter().filter(|c| (of(c.evidence()) - place).abs() < 10.0);
    there.map(|component| component.expected_count()).sum()
}

#[test]
fn what_has_moved_is_forgotten_where_it_was() {
    let batches = stream(60, 20);
    for half_life in [HalfLife::Rows(400.0), HalfLife::Auto] {
        let central = run(&batches, 1, Some(half_life));
        let posterior = central.snapshot();
        assert_snapshot_invariants(&posterior);
        assert!((posterior.rows() - 6000.0).abs() < 1e-6, "{half_life:?}: {}", posterior.rows());
        assert!(near(&central, 30.0) < 2.0, "{half_life:?}: {}", near(&central, 30.0));
        assert!(near(&central, -30.0) > 200.0, "{half_life:?}: {}", near(&central, -30.0));
    }
    assert!(near(&run(&batches, 1, None), 30.0) > 900.0, "without, nothing is");
}

#[test]
fn what_does_not_change_is_kept_by_itself() {
    let central = run(&stream(60, 60), 1, Some(HalfLife::Auto));
    assert_eq!(central.snapshot().past().forgotten, 0.0);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let batches = stream(40, 20);
    for half_life in [HalfLife::Rows(400.0), HalfLife::Auto] {
        let [one, three] = [1, 3].map(|threads| run(&batches, threads, Some(half_life)));
        assert_eq!(fingerprint(&one.snapshot()), fingerprint(&three.snapshot()), "{half_life:?}");
        assert_eq!(one.snapshot().past(), three.snapshot().past());
    }
}

#[test]
fn the_sample_fades_with_the_rows() {
    let batches = stream(40, 40);
    let sampled = |half_life| {
        let memory: Memory = run(&batches, 1, half_life).memory();
        memory.sampled_rows().unwrap()
    };
    let (whole, faded) = (sampled(None), sampled(Some(HalfLife::Rows(400.0))));
    assert_eq!((whole.mass(), whole.n_rows()), (4000.0, 4000));
    // Few enough to be all there: they count Σ 100 · 2^(−k/4).
    let expected: f64 = (0..40).map(|ago| 100.0 * (-f64::from(ago) / 4.0).exp2()).sum();
    assert!((faded.mass() / expected - 1.0).abs() < 1e-9, "{} for {expected}", faded.mass());
}
