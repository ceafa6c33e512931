//! Evidence that is replaced: the first rows again, and further passes. Every datum counts once.

use anabranch::batch::Batch;
use anabranch::central::{Absorb, BatchId, Central, Entry, Fold, Void};
use anabranch::engine::{self, Config, Flow};
use anabranch::family::{AnyFamily, Conjugate, Family, Gaussian};
use anabranch::identify::{ComponentId, Target};
use anabranch::infer::{Precision, upkeep};
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
    engine::run(&central, &mut batches().into_iter().enumerate(), &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    assert_mass(&central.checkpoint(), 12_000.0);
    let second = score(&central);
    assert!(second > finished - 0.005, "{second} after {finished}");
    // Nothing is left to merge.
    let sample = central.memory().sampled_rows().unwrap();
    assert!(upkeep::merges(&central.snapshot(), &sample, 1.0, Precision::Mixed).len() <= 1);
}
