//! The model file: what is written is read again, and nothing else is.

use std::collections::BTreeMap;

use anabranch::batch::Batch;
use anabranch::central::{BatchSet, Fold, Memory};
use anabranch::engine::{self, Config, Schedule};
use anabranch::family::{
    AnyFamily, Bernoulli, Block, Categorical, Conjugate, Diagonal, Gaussian, Multinomial, Poisson, Product,
    Spherical,
};
use anabranch::identify::ComponentId;
use anabranch::posterior::{Component, Evidence, Familiarity, Parts, Posterior};
use anabranch::process::{AnyProcess, Bound, LabelStatistics, Parameter};
use anabranch_io::model::{FORMAT_VERSION, Model, ModelError, ModelFault, Provenance};
use anabranch_io::{Column, Schema};
use proptest::prelude::*;

/// Sees nothing and never stops.
struct Nobody;

impl engine::Observer<AnyFamily, AnyProcess> for Nobody {
    fn observe(
        &mut self,
        _: &engine::Event,
        _: &anabranch::central::Central<AnyFamily, AnyProcess>,
    ) -> engine::Flow {
        engine::Flow::Continue
    }
}

/// Whole numbers of at most 1 in two columns: every family takes them.
fn rows(n: usize) -> Batch {
    Batch::new(2, (0..2 * n).map(|ix| f64::from(u8::from(ix % 3 == 0))).collect()).unwrap()
}

fn every_family() -> Vec<AnyFamily> {
    let rows = rows(30);
    let one = Batch::new(1, rows.rows().map(|row| row[0]).collect()).unwrap();
    let product = vec![
        Block { columns: vec![1], family: AnyFamily::Poisson(Poisson::from_rows(&one).unwrap()) },
        Block { columns: vec![0], family: AnyFamily::Gaussian(Gaussian::from_rows(&one).unwrap()) },
    ];
    vec![
        AnyFamily::Gaussian(Gaussian::from_rows(&rows).unwrap()),
        AnyFamily::Diagonal(Diagonal::from_rows(&rows).unwrap()),
        AnyFamily::Spherical(Spherical::from_rows(&rows).unwrap()),
        AnyFamily::Bernoulli(Bernoulli::from_rows(&rows).unwrap()),
        AnyFamily::Categorical(Categorical::from_rows(&rows).unwrap()),
        AnyFamily::Poisson(Poisson::from_rows(&rows).unwrap()),
        AnyFamily::Multinomial(Multinomial::from_rows(&rows).unwrap()),
        AnyFamily::Product(Product::new(product).unwrap()),
    ]
}

fn provenance() -> Provenance {
    let categories = Some(vec!["red".to_owned(), "blue \"pale\"".to_owned()]);
    let columns = vec![Column::number("größe"), Column { name: "hue".to_owned(), categories }];
    Provenance {
        seed: u64::MAX,
        bootstrap_rows: 30,
        batch_size: 10,
        observations: 30,
        skipped_rows: 3,
        matchings: 2,
        conflicts: 1,
        ..Provenance::new(Schema { columns, named: true })
    }
}

/// A model that has learned three minibatches.
fn learned(family: AnyFamily) -> Model {
    let central =
        anabranch::central::Central::new(family, AnyProcess::new(2.5, None, Bound::Conditional).unwrap());
    let config = Config { threads: 1, workers: 2, schedule: Schedule::Deterministic, ..Config::default() };
    let mut source = vec![rows(10), rows(10), rows(10)].into_iter().enumerate();
    engine::run(&central, &mut source, &config, &mut Nobody).unwrap();
    Model { fold: central.checkpoint(), provenance: provenance() }
}

/// A model with everything a model can have: redirects, gaps between minibatches, a component that is surely not empty.
fn intricate() -> Model {
    let family = every_family().swap_remove(0);
    let component = |id: u64, count: f64, log_p_empty: f64| {
        let labels = LabelStatistics { log_p_empty, expected_count: count, label_entropy: 0.25 };
        let stats =
            (0..family.n_features()).map(|ix| if ix == 0 { count } else { 0.1 / ix as f64 }).collect();
        Component::new(ComponentId(id), 1, Evidence { stats, labels })
    };
    let components = vec![component(2, 0.1 + 0.2, -0.3), component(7, 11.5, f64::NEG_INFINITY)];
    let redirects =
        BTreeMap::from([(3, 7), (4, 3)].map(|(from, into)| (ComponentId(from), ComponentId(into))));
    let process = AnyProcess::new(0.1, None, Bound::Paper).unwrap();
    let mass = components.iter().map(Component::expected_count).sum();
    let posterior =
        Posterior::restore(Parts { version: 9, family, process, components, redirects, mass }).unwrap();
    let absorbed = BatchSet::from_runs(vec![(0, 3), (5, 5), (8, 20)]).unwrap();
    let familiarity = Familiarity { total: -0.1 - 0.2, mass: 11.5 };
    Model {
        fold: Fold::resume(posterior, absorbed, 8, 0).within(0, None, familiarity),
        provenance: provenance(),
    }
}

/// Equality of everything a model holds, numbers bit by bit.
fn assert_same(a: &Model, b: &Model, context: &str) {
    let (p, q) = (a.fold.posterior(), b.fold.posterior());
    assert_eq!(p.family(), q.family(), "{context}");
    assert_eq!(p.process(), q.process(), "{context}");
    assert_eq!((p.version(), p.mass().to_bits()), (q.version(), q.mass().to_bits()), "{context}");
    assert_eq!(p.redirects(), q.redirects(), "{context}");
    assert_eq!(p.familiarity(), q.familiarity(), "{context}");
    assert_eq!(a.fold.absorbed().runs(), b.fold.absorbed().runs(), "{context}");
    assert_eq!(a.fold.next_id(), b.fold.next_id(), "{context}");
    assert_eq!(a.provenance, b.provenance, "{context}");
    let parts = |c: &Component| {
        let labels = c.evidence().labels;
        let labels = [labels.log_p_empty, labels.expected_count, labels.label_entropy].map(f64::to_bits);
        let stats: Vec<u64> = c.evidence().stats.iter().map(|s| s.to_bits()).collect();
        (c.id(), c.born(), labels, stats)
    };
    let all =
        |model: &Model| -> Vec<_> { model.fold.posterior().components().iter().map(|c| parts(c)).collect() };
    assert_eq!(all(a), all(b), "{context}");
}

/// Refused, or the same model: never another one, never a panic.
fn assert_refused_or_same(bytes: &[u8], original: &Model, context: &str) {
    if let Ok(read) = Model::from_bytes(bytes) {
        assert_same(&read, original, context);
    }
}

#[test]
fn what_is_written_is_read_again() {
    let models = every_family().into_iter().map(learned).chain([intricate()]);
    for model in models {
        let name = model.fold.posterior().family().name();
        assert_same(&Model::from_bytes(&model.to_bytes()).unwrap(), &model, name);
    }
}

#[test]
fn every_process_is_read_again() {
    let learned_parameter = |value| Parameter::Learned { learned: value };
    let processes = [
        AnyProcess::new(learned_parameter(3.25), None, Bound::Paper),
        AnyProcess::new(-0.1, Some(0.3.into()), Bound::Conditional),
        AnyProcess::new(2.0, Some(learned_parameter(0.0)), Bound::Paper),
    ];
    for process in processes.map(Result::unwrap) {
        let Model { fold, provenance } = intricate();
        let model = Model { fold: fold.under(process), provenance };
        assert_same(&Model::from_bytes(&model.to_bytes()).unwrap(), &model, process.name());
    }
}

#[test]
fn a_checkpoint_keeps_the_rows_that_the_run_remembers() {
    let model = intricate();
    let sample = vec![(3, vec![1.0, 2.0]), (9, vec![-4.0, 5.5])];
    let plain = Batch::new(2, vec![0.5; 4]).unwrap();
    let weighted = plain.clone().with_weights(vec![0.25, 3.0]).unwrap();
    for first in [None, Some(plain), Some(weighted)] {
        let memory = Memory::restore(sample.clone(), first.clone());
        let bytes = model.to_checkpoint_bytes(&memory);
        let (read, remembered) = Model::from_checkpoint_bytes(&bytes).unwrap();
        assert_same(&read, &model, "checkpoint");
        assert_eq!(remembered.first(), first.as_ref());
        assert!(remembered.sample().eq(memory.sample()));
        assert_same(&Model::from_bytes(&bytes).unwrap(), &model, "a checkpoint is a model");
    }
}

#[test]
fn a_model_that_has_seen_nothing_is_read_again() {
    let posterior =
        Posterior::prior(every_family().swap_remove(0), AnyProcess::new(1.0, None, Bound::Paper).unwrap());
    let model = Model { fold: Fold::resume(posterior, BatchSet::default(), 0, 0), provenance: provenance() };
    assert_same(&Model::from_bytes(&model.to_bytes()).unwrap(), &model, "nothing");
}

#[test]
fn the_same_model_is_the_same_bytes() {
    let bytes = intricate().to_bytes();
    // A map of another order in every run would show within a few.
    for _ in 0..20 {
        assert_eq!(intricate().to_bytes(), bytes);
    }
    assert_eq!(Model::from_bytes(&bytes).unwrap().to_bytes(), bytes);
}

#[test]
fn tensors_begin_where_a_reader_can_map_them() {
    let bytes = intricate().to_bytes();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(header.is_multiple_of(8));
}

#[test]
fn every_single_bit_that_flips_is_noticed_or_harmless() {
    let model = intricate();
    let bytes = model.to_bytes();
    let mut flipped = bytes.clone();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            flipped[at] = bytes[at] ^ (1 << bit);
            assert_refused_or_same(&flipped, &model, &format!("bit {bit} of byte {at}"));
        }
        flipped[at] = bytes[at];
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = intricate().to_bytes();
    for length in 0..bytes.len() {
        assert!(Model::from_bytes(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
}

#[test]
fn bytes_added_at_the_end_are_refused() {
    let bytes = [intricate().to_bytes(), vec![0; 8]].concat();
    let fault = Model::from_bytes(&bytes).unwrap_err();
    assert_eq!(fault, ModelFault::Damaged("its length is not the one it tells".to_owned()));
}

/// The file with one piece of its header replaced by another of the same length.
fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let at =
        bytes.windows(old.len()).position(|window| window == old.as_bytes()).expect("the piece is there");
    [&bytes[..at], new.as_bytes(), &bytes[at + old.len()..]].concat()
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    assert_eq!(FORMAT_VERSION, 1, "a new version needs a stored file of the old one here");
    let newer = replaced(&intricate().to_bytes(), r#""version":"1""#, r#""version":"2""#);
    assert_eq!(Model::from_bytes(&newer).unwrap_err(), ModelFault::Newer(2));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    std::fs::write(&path, newer).unwrap();
    let error = Model::load(&path).unwrap_err();
    assert!(matches!(error, ModelError::Newer { found: 2, .. }));
    assert!(error.to_string().ends_with("written in model format 2, this program reads up to 1"), "{error}");
    assert!(error.hint().unwrap().contains("update"));
}

#[test]
fn an_older_version_loads() {
    let model = intricate();
    let older = replaced(&model.to_bytes(), r#""version":"1""#, r#""version":"0""#);
    assert_same(&Model::from_bytes(&older).unwrap(), &model, "version 0");
}

#[test]
fn another_safetensors_file_is_no_model() {
    let other = replaced(&intricate().to_bytes(), "anabranch-model", "something-else!");
    let fault = Model::from_bytes(&other).unwrap_err();
    assert_eq!(fault.to_string(), "not an anabranch model: its metadata does not say `anabranch-model`");
}

#[test]
fn columns_that_do_not_belong_to_the_family_are_refused() {
    let mut model = intricate();
    model.provenance.schema.columns.pop();
    let fault = Model::from_bytes(&model.to_bytes()).unwrap_err();
    assert_eq!(fault, ModelFault::Damaged("it names 1 columns for a family of 2".to_owned()));
}

#[test]
fn a_saved_model_is_loaded_and_leaves_nothing_else_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    for model in [learned(every_family().swap_remove(1)), intricate()] {
        model.save(&path).unwrap();
        assert_same(&Model::load(&path).unwrap(), &model, "saved");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

proptest! {
    #[test]
    fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Model::from_bytes(&bytes).is_err());
    }

    #[test]
    fn random_damage_is_noticed_or_harmless(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let model = intricate();
        let mut bytes = model.to_bytes();
        for (at, value) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        assert_refused_or_same(&bytes, &model, &format!("{damage:?}"));
    }

    #[test]
    fn a_piece_cut_out_or_put_in_is_noticed(
        at in any::<prop::sample::Index>(),
        piece in prop::collection::vec(any::<u8>(), 1..40),
        cut in any::<bool>(),
    ) {
        let model = intricate();
        let mut bytes = model.to_bytes();
        let at = at.index(bytes.len());
        if cut {
            bytes.drain(at..(at + piece.len()).min(model.to_bytes().len()));
        } else {
            bytes.splice(at..at, piece.iter().copied());
        }
        assert_refused_or_same(&bytes, &model, &format!("{cut} {at} {piece:?}"));
    }
}

#[test]
fn a_model_that_could_not_be_read_again_is_not_written() {
    use anabranch::central::{Absorb, BatchId, Entry};
    use anabranch::identify::Target;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let mut model = intricate();
    model.save(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    // The journal of a process takes its own increments at their word.
    let posterior = model.fold.posterior();
    let stats = vec![1e200; posterior.family().n_features()];
    let labels = LabelStatistics { log_p_empty: 0.0, expected_count: 1.0, label_entropy: 0.0 };
    let entry = Absorb {
        batch: BatchId(99),
        base: posterior.version(),
        pass: 0,
        mass: 1.0,
        familiarity: None,
        existing: Vec::new(),
        new: vec![(Target::New, Evidence { stats, labels })],
    };
    model.fold.apply(&Entry::Absorb(entry)).unwrap();
    let attempts = [model.save(&path), model.save_checkpoint(&path, &Memory::default(), &Default::default())];
    for attempt in attempts {
        let error = attempt.unwrap_err();
        assert!(matches!(error, ModelError::NotKept { .. }), "{error}");
        assert!(error.to_string().contains("not written, because it could not be read again"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "the old file stays");
    }
}

#[test]
fn a_checkpoint_keeps_what_was_read_and_when_the_model_was_looked_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let input = anabranch_io::InputRead { name: "größe.csv".into(), rows: 35, head_rows: 32, head: 7 };
    let reading = anabranch_io::Reading { inputs: vec![input], sizes: BTreeMap::from([(3, 5)]), start: 9 };
    let sample = vec![(1, vec![0.5, 1.0]), (9, vec![0.0, 2.0])];
    let memory = Memory::restore(sample, None).with_tended(Some(4)).with_sample_weights(vec![0.25, 3.0]);
    let model = intricate();
    model.save_checkpoint(&path, &memory, &reading).unwrap();
    let (read, remembered, again) = Model::load_checkpoint(&path).unwrap();
    assert_same(&read, &model, "checkpoint");
    assert_eq!(again, reading);
    assert_eq!(remembered.tended(), Some(4));
    assert_eq!(remembered.sample_weights(), Some(vec![0.25, 3.0]));
    assert_eq!(Model::load(&path).unwrap().to_bytes(), model.to_bytes(), "a model holds none of that");
}
