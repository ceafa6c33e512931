//! Model files that fit their checksum and still lie, and what honest ones promise.

use anabranch_io::model::{Model, ModelFault};

use crate::fuzz_seeds::{clumps, families, model};

fn models() -> Vec<Model> {
    let rows = clumps();
    families(&rows).into_iter().map(|family| model(family, &rows)).collect()
}

fn fault(model: &Model) -> String {
    match Model::from_bytes(&model.to_bytes()) {
        Err(ModelFault::Damaged(reason)) => reason,
        other => panic!("expected damage, found {other:?}"),
    }
}

#[test]
fn every_family_comes_back_as_it_was_written() {
    for model in models() {
        let again = Model::from_bytes(&model.to_bytes()).unwrap();
        let (before, after) = (model.fold.posterior(), again.fold.posterior());
        assert_eq!(before.family(), after.family());
        assert_eq!(model.provenance, again.provenance);
        assert_eq!(before.components().len(), after.components().len());
        for (before, after) in before.components().iter().zip(after.components()) {
            assert_eq!((before.id(), before.born()), (after.id(), after.born()));
            assert_eq!(before.evidence(), after.evidence());
        }
    }
}

#[test]
fn the_same_model_is_always_the_same_bytes() {
    for model in models() {
        let bytes = model.to_bytes();
        assert!((0..8).all(|_| model.to_bytes() == bytes));
        assert_eq!(Model::from_bytes(&bytes).unwrap().to_bytes(), bytes);
    }
}

#[test]
fn tensors_start_at_a_multiple_of_eight_bytes() {
    for model in models() {
        let bytes = model.to_bytes();
        let index = u64::from_le_bytes(*bytes.first_chunk().unwrap());
        assert_eq!(index % 8, 0);
    }
}

#[test]
fn counts_that_the_next_minibatch_would_overflow_are_refused() {
    for mut model in models() {
        model.provenance.observations = u64::MAX;
        assert_eq!(fault(&model), format!("it counts up to {}", u64::MAX));
    }
}
