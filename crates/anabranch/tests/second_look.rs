//! Evidence that is replaced: the first rows again, and further passes. Every datum counts once.

use anabranch::batch::Batch;
use anabranch::central::{Absorb, BatchId, Central, Entry, Fold, Void};
use anabranch::engine::{self, Config, Flow, Schedule};
use anabranch::family::{AnyFamily, Conjugate, Family, Gaussian};
use anabranch::identify::{ComponentId, Target};
use anabranch::infer::{Inference, Look, Precision, PriorChoice, Settings, Workspace, upkeep};
use anabranch::posterior::{Evidence, Predictor};
use anabranch::process::{Bound, Dirichlet, LabelStatistics};
use anabranch_testkit::generators::{NormalInverseWishart, synthetic};

const ROUNDING: f64 = 1e-9;

fn process() -> Dirichlet {
    Dirichlet::new(5.0, Bound::Paper).unwrap()
}

/// `rows` data at `value`, all certain.
fn evidence(family: &AnyFamily, value: f64, rows: f64) -> Evidence {
    let mut stats = vec![0.0; family.n_features()];
    family.features(&[value], &mut stats);
    stats.iter_mut().for_each(|s| *s *= rows);
    let labels = LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: rows, label_entropy: 0.0 };
    Evidence { stats, labels }
}

fn family() -> AnyFamily {
    Gaussian::from_rows(&Batch::new(1, vec![-1.0, 0.0, 1.0, 2.0]).unwrap()).unwrap().into()
}

fn absorb(
    fold: &Fold<AnyFamily, Dirichlet>,
    batch: u64,
    pass: u32,
    existing: Vec<(u64, Evidence)>,
    new: Vec<Evidence>,
) -> Entry<AnyFamily, Dirichlet> {
    let counts = existing.iter().map(|(_, e)| e).chain(&new).map(|e| e.labels.expected_count);
    Entry::Absorb(Absorb {
        batch: BatchId(batch),
        base: fold.posterior().version(),
        pass,
        mass: counts.sum(),
        familiarity: None,
        existing: existing.into_iter().map(|(id, e)| (ComponentId(id), e)).collect(),
        new: new.into_iter().map(|e| (Target::New, e)).collect(),
    })
}

/// Two components of 10 and 30 rows.
fn two() -> Fold<AnyFamily, Dirichlet> {
    let family = family();
    let mut fold = Fold::new(family.clone(), process());
    let new = vec![evidence(&family, 0.0, 10.0), evidence(&family, 5.0, 30.0)];
    let entry = absorb(&fold, 0, 0, vec![], new);
    fold.apply(&entry).unwrap();
    fold
}

fn assert_mass(fold: &Fold<AnyFamily, Dirichlet>, mass: f64) {
    let posterior = fold.posterior();
    assert!((posterior.mass() - mass).abs() <= ROUNDING * mass, "{} instead of {mass}", posterior.mass());
    assert!((posterior.expected_mass() - mass).abs() <= ROUNDING * mass, "{}", posterior.expected_mass());
}

#[test]
fn what_was_set_aside_is_replaced_and_the_rest_stays() {
    let (family, mut fold) = (family(), two());
    fold.apply(&Entry::SetAside).unwrap();
    let later = absorb(&fold, 1, 0, vec![(1, evidence(&family, 5.0, 8.0))], vec![]);
    fold.apply(&later).unwrap();
    assert_mass(&fold, 48.0);
    let again =
        vec![(ComponentId(0), evidence(&family, 0.0, 25.0)), (ComponentId(1), evidence(&family, 5.0, 15.0))];
    fold.apply(&Entry::Replace { mass: 40.0, evidence: again }).unwrap();
    assert_mass(&fold, 48.0);
    let counts: Vec<f64> = fold.posterior().components().iter().map(|c| c.expected_count()).collect();
    assert_eq!(counts, [25.0, 23.0]);
    assert!(fold.aside().is_none() && fold.posterior().components().iter().all(|c| c.passing().is_none()));
}

#[test]
fn only_the_weight_that_was_set_aside_can_be_replaced() {
    let (family, mut fold) = (family(), two());
    let again = || vec![(ComponentId(0), evidence(&family, 0.0, 39.0))];
    let early = fold.apply(&Entry::Replace { mass: 39.0, evidence: again() });
    assert_eq!(early, Err(Void::NotAside { aside: 0.0, found: 39.0 }));
    fold.apply(&Entry::SetAside).unwrap();
    let less = fold.apply(&Entry::Replace { mass: 39.0, evidence: again() });
    assert_eq!(less, Err(Void::NotAside { aside: 40.0, found: 39.0 }));
    assert_mass(&fold, 40.0);
}

#[test]
fn a_second_pass_keeps_the_mass_at_every_step() {
    let (family, mut fold) = (family(), two());
    fold.apply(&Entry::Pass).unwrap();
    let late = absorb(&fold, 7, 0, vec![(0, evidence(&family, 0.0, 1.0))], vec![]);
    assert_eq!(fold.apply(&late), Err(Void::OtherPass { current: 1, found: 0 }));
    for batch in 0..4 {
        let at = if batch == 0 { (0, 0.0) } else { (1, 5.0) };
        let entry = absorb(&fold, batch, 1, vec![(at.0, evidence(&family, at.1, 10.0))], vec![]);
        fold.apply(&entry).unwrap();
        assert_eq!(fold.apply(&entry), Err(Void::AlreadyAbsorbed(BatchId(batch))));
        assert_mass(&fold, 40.0);
    }
    assert!(fold.aside().is_none());
    let counts: Vec<f64> = fold.posterior().components().iter().map(|c| c.expected_count()).collect();
    assert_eq!(counts, [10.0, 30.0]);
}

/// Tenths add up to a little more or less than their sum: what is left of the old evidence then is nothing.
#[test]
fn a_pass_over_weights_that_round_leaves_nothing_of_the_old_evidence() {
    let family = family();
    for order in [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1], [0.7, 0.1, 0.1]] {
        let mut fold = Fold::new(family.clone(), process());
        for pass in 0..2 {
            for (batch, rows) in order.into_iter().enumerate() {
                let evidence = evidence(&family, 0.0, rows);
                let first = fold.posterior().components().is_empty();
                let (known, new) =
                    if first { (vec![], vec![evidence]) } else { (vec![(0, evidence)], vec![]) };
                let entry = absorb(&fold, batch as u64, pass, known, new);
                fold.apply(&entry).unwrap();
            }
            assert_eq!(fold.aside(), None, "{order:?}");
            assert_mass(&fold, order.iter().sum());
            fold.apply(&Entry::Pass).unwrap();
        }
    }
}

#[test]
fn rows_that_came_since_the_last_pass_add_to_the_mass() {
    let (family, mut fold) = (family(), two());
    fold.apply(&Entry::Pass).unwrap();
    let entry = absorb(&fold, 0, 1, vec![(1, evidence(&family, 5.0, 55.0))], vec![]);
    fold.apply(&entry).unwrap();
    assert_mass(&fold, 55.0);
}

#[test]
fn merges_in_the_middle_of_a_pass_keep_the_mass() {
    let (family, mut fold) = (family(), two());
    fold.apply(&Entry::Pass).unwrap();
    let entry =
        absorb(&fold, 0, 1, vec![(1, evidence(&family, 5.0, 10.0))], vec![evidence(&family, 9.0, 6.0)]);
    fold.apply(&entry).unwrap();
    fold.apply(&Entry::Retire { id: ComponentId(0), into: ComponentId(2) }).unwrap();
    assert_mass(&fold, 40.0);
    // The rest of the pass: what was set aside goes, through the merge.
    let entry = absorb(&fold, 1, 1, vec![(1, evidence(&family, 6.0, 24.0))], vec![]);
    fold.apply(&entry).unwrap();
    assert_mass(&fold, 40.0);
    assert!(fold.aside().is_none());
}

/// The whole way: bootstrap, stream, a second look at the first rows, merges; then another pass.
#[test]
fn a_run_with_a_second_look_and_a_second_pass_counts_every_row_once_and_gets_better() {
    let stream = synthetic(5, 16_000, 40, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, stream.rows).unwrap();
    let (train, test) = (rows.head(12_000), rows.tail(12_000));
    let batches =
        || -> Vec<Batch> { std::iter::once(train.head(2000)).chain(train.tail(2000).pieces(250)).collect() };
    let config = Config { bootstrap_rows: 2000, seed: 3, threads: 2, workers: 8, ..Config::default() };
    let family: AnyFamily = Gaussian::from_rows(&train.head(2000)).unwrap().into();
    let central = Central::new(family, process());
    let mut source = batches().into_iter().enumerate();
    assert_eq!(engine::bootstrap(&central, &mut source, &config, &mut ()), Ok(Flow::Continue));
    assert!(central.checkpoint().aside().is_some());
    engine::run(&central, &mut source, &config, &mut ()).unwrap();
    let score = |central: &Central<AnyFamily, Dirichlet>| {
        Predictor::new(&central.snapshot()).mean_ln_density(&test).unwrap()
    };
    let one_look = score(&central);
    engine::finish(&central, &config);
    let fold = central.checkpoint();
    assert!(fold.aside().is_none() && central.memory().first().is_none());
    assert_mass(&fold, 12_000.0);
    let finished = score(&central);
    assert!(finished > one_look - 0.01, "{finished} after {one_look}");
    central.append(&Entry::Pass).unwrap();
    // A further pass has no large minibatch: the same rows come under other names, and are no copies.
    let before: Vec<u64> = central.memory().sample().map(|(key, _)| key).collect();
    engine::run(&central, &mut train.pieces(250).enumerate(), &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    assert!(central.memory().sample().map(|(key, _)| key).eq(before));
    assert_mass(&central.checkpoint(), 12_000.0);
    let second = score(&central);
    assert!(second > finished - 0.005, "{second} after {finished}");
    // Nothing is left to merge.
    let sample = central.memory().sampled_rows().unwrap();
    let left =
        upkeep::merges(&central.snapshot(), &sample, None, PriorChoice::Estimated, 1.0, Precision::Mixed);
    assert!(left.pairs.len() <= 1, "{:?}", left.pairs);
}

/// A look where rows were possible is a look everywhere while nothing has come or gone: parameters may have moved.
#[test]
fn a_look_where_possible_finds_what_a_look_everywhere_finds() {
    let stream = synthetic(5, 6000, 6, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, stream.rows).unwrap();
    let family: AnyFamily = Gaussian::from_rows(&rows).unwrap().into();
    let central = Central::new(family, process());
    let config = Config { bootstrap_rows: 2000, seed: 3, threads: 1, workers: 1, ..Config::default() };
    let mut source = [rows.head(2000)].into_iter().enumerate();
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    let (settings, workspace) = (Settings::default(), &mut Workspace::default());
    let before = central.snapshot();
    assert!((2..=8).contains(&before.components().len()), "all of them fit into the labels of a row");
    let found = settings.look_again(&before, &rows, Look::Everywhere, workspace);
    let mass: f64 = found.iter().map(|(_, evidence)| evidence.labels.expected_count).sum();
    assert!((mass - 6000.0).abs() < ROUNDING * 6000.0);
    // Other parameters, from other rows.
    let mut moved = central.checkpoint();
    moved.apply(&Entry::Replace { mass: 2000.0, evidence: scaled(&found, 2000.0 / 6000.0) }).unwrap();
    let possible = settings.look_again(moved.posterior(), &rows, Look::WherePossible, workspace);
    let everywhere = settings.look_again(moved.posterior(), &rows, Look::Everywhere, workspace);
    assert_ne!(found, everywhere);
    assert_eq!(ids(&possible), ids(&everywhere));
    for ((_, a), (_, b)) in possible.iter().zip(&everywhere) {
        // Sums of thousands of terms, from scores that were formed in another order.
        const REORDERED: f64 = 1e-8;
        let near = |a: f64, b: f64| (a - b).abs() <= REORDERED * (1.0 + b.abs());
        assert!(near(a.labels.expected_count, b.labels.expected_count));
        assert!(near(a.labels.label_entropy, b.labels.label_entropy));
        assert!(a.stats.iter().zip(&b.stats).all(|(a, b)| near(*a, *b)));
    }
}

fn ids(evidence: &[(ComponentId, Evidence)]) -> Vec<ComponentId> {
    evidence.iter().map(|(id, _)| *id).collect()
}

fn scaled(evidence: &[(ComponentId, Evidence)], share: f64) -> Vec<(ComponentId, Evidence)> {
    evidence.iter().map(|(id, evidence)| (*id, evidence.scaled(share))).collect()
}

/// Rows that are kept are those that were absorbed, whatever the workers do; and polishing raises the bound.
#[test]
fn polished_rows_count_once_and_the_model_gets_better() {
    for seed in [1, 3, 4] {
        polish(seed);
    }
}

fn polish(seed: u64) {
    let stream = synthetic(seed, 14_000, 40, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, stream.rows).unwrap();
    let (train, test) = (rows.head(10_000), rows.tail(10_000));
    let run_on = |threads: usize, polish: Option<usize>, schedule: Schedule| {
        let config = Config {
            bootstrap_rows: 1000,
            seed: 3,
            threads,
            workers: 8,
            polish,
            schedule,
            ..Config::default()
        };
        let family: AnyFamily = Gaussian::from_rows(&train.head(1000)).unwrap().into();
        let central = Central::new(family, process());
        let batches: Vec<Batch> =
            std::iter::once(train.head(1000)).chain(train.tail(1000).pieces(250)).collect();
        let mut source = batches.into_iter().enumerate();
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        engine::run(&central, &mut source, &config, &mut ()).unwrap();
        let (fold, memory) = central.state();
        let kept = memory.first().map_or(0, Batch::n_rows);
        assert_eq!(fold.aside().is_some(), polish.is_none_or(|rows| rows <= 10_000));
        engine::finish(&central, &config);
        let fold = central.checkpoint();
        assert_mass(&fold, 10_000.0);
        assert!(fold.aside().is_none() && central.memory().first().is_none());
        let density = Predictor::new(fold.posterior()).mean_ln_density(&test).unwrap();
        (kept, fold.posterior().objective(), density)
    };
    let run = |polish, schedule| run_on(2, polish, schedule);
    let deterministic = |threads| run_on(threads, Some(20_000), Schedule::Deterministic);
    assert_eq!(deterministic(1), deterministic(3), "on any number of threads");
    for schedule in [Schedule::Deterministic, Schedule::Free] {
        let (first, bound, density) = run(None, schedule);
        assert_eq!(first, 1000);
        let (some, ..) = run(Some(4000), schedule);
        assert!((4000..4250).contains(&some), "{some}: whole minibatches, until they are enough");
        let (all, polished_bound, polished_density) = run(Some(20_000), schedule);
        assert_eq!(all, 10_000);
        assert!(polished_bound > bound, "{polished_bound} after {bound}");
        assert!(polished_density > density, "{polished_density} after {density}");
    }
}

/// A run whose increments come from elsewhere too has not kept all that was learned: it ends as if nothing had been kept.
#[test]
fn rows_from_elsewhere_among_the_first_are_not_replaced() {
    let stream = synthetic(7, 3000, 10, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, stream.rows).unwrap();
    let config = Config { bootstrap_rows: 1000, threads: 1, polish: Some(20_000), ..Config::default() };
    let central = Central::new(AnyFamily::from(Gaussian::from_rows(&rows).unwrap()), process());
    let mut source = [rows.head(1000), rows.tail(1000)].into_iter().enumerate();
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    let elsewhere = Config { polish: None, ..config.clone() };
    engine::run(&central, &mut source, &elsewhere, &mut ()).unwrap();
    engine::finish(&central, &config);
    let fold = central.checkpoint();
    assert_mass(&fold, 3000.0);
    assert!(fold.aside().is_none() && central.memory().first().is_none());
}

/// All there is: fewer rows than the first minibatch would have, in one piece.
#[test]
fn rows_that_are_all_there_is_are_polished_too() {
    let stream = synthetic(4, 3000, 20, &NormalInverseWishart::of_the_paper());
    let rows = Batch::new(2, stream.rows).unwrap();
    let run = |polish: Option<usize>| {
        let config = Config { bootstrap_rows: 20_000, threads: 1, polish, ..Config::default() };
        let central = Central::new(AnyFamily::from(Gaussian::from_rows(&rows).unwrap()), process());
        engine::bootstrap(&central, &mut [rows.clone()].into_iter().enumerate(), &config, &mut ()).unwrap();
        assert_eq!(central.memory().first().is_some(), polish.is_some());
        engine::finish(&central, &config);
        assert_mass(&central.checkpoint(), 3000.0);
        assert!(central.memory().first().is_none());
        central.snapshot().objective()
    };
    assert!(run(Some(20_000)) >= run(None) - ROUNDING);
}

/// Rows that count for nothing are not kept: there may be any number of them.
#[test]
fn rows_without_weight_are_not_kept() {
    let rows = Batch::new(1, (0..100).map(f64::from).collect()).unwrap();
    let nothing = rows.clone().with_weights(vec![0.0; 100]).unwrap();
    let config = Config { threads: 1, polish: Some(150), ..Config::default() };
    let central = Central::new(AnyFamily::from(Gaussian::from_rows(&rows).unwrap()), process());
    let mut source = [nothing.clone(), nothing.clone(), rows, nothing].into_iter().enumerate();
    engine::run(&central, &mut source, &config, &mut ()).unwrap();
    assert_eq!(central.memory().first().map(Batch::n_rows), Some(100));
    engine::finish(&central, &config);
    assert_mass(&central.checkpoint(), 100.0);
}
