//! A model from any bytes: refused, or as good as one that was fitted.
//!
//! The checksum would stop nearly every change, so the mutator takes a file apart, changes one piece and seals it again.

use std::collections::HashMap;

use anabranch::family::Family;
use anabranch::posterior::Predictor;
use anabranch_io::model::Model;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

/// In the order of the checksum.
const TENSORS: [&str; 6] =
    ["absorbed", "component.born", "component.id", "component.labels", "component.stats", "redirect"];

/// Whatever loads must predict, describe itself, draw, and survive being written.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(model) = Model::from_bytes(bytes) else { return };
    predicts(&model);
    round_trips(&model);
}

fn predicts(model: &Model) {
    let posterior = model.fold.posterior();
    let family = posterior.family();
    let mut row = vec![0.0; family.dimensions()];
    if family.check(&row).is_ok() {
        let predictor = Predictor::new(posterior);
        let ln_density = predictor.ln_density(&row);
        assert!(ln_density < f64::INFINITY, "log density {ln_density}");
        let mut responsibilities = Vec::new();
        predictor.responsibilities(&row, &mut responsibilities);
        assert!(responsibilities.iter().all(|p| (0.0..=1.0 + 1e-9).contains(p)), "{responsibilities:?}");
        assert_eq!(predictor.label(&row).is_some(), !responsibilities.is_empty());
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
    for component in posterior.components() {
        let stats = &component.evidence().stats;
        let summary = family.summary(stats);
        assert!(summary.mean.iter().chain(&summary.spread).all(|v| !v.is_nan()), "{summary:?}");
        family.sample(stats, &mut rng, &mut row);
        assert!(row.iter().all(|v| !v.is_nan()), "drew {row:?}");
    }
    assert!(!posterior.objective().is_nan());
}

fn round_trips(model: &Model) {
    let again = Model::from_bytes(&model.to_bytes()).expect("what was loaded can be stored and loaded");
    let (before, after) = (model.fold.posterior(), again.fold.posterior());
    assert_eq!(model.provenance, again.provenance);
    assert_eq!(model.fold.next_id(), again.fold.next_id());
    assert_eq!(model.fold.absorbed().runs(), again.fold.absorbed().runs());
    assert_eq!(before.family(), after.family());
    assert_eq!(before.process(), after.process());
    assert_eq!(before.version(), after.version());
    assert_eq!(before.mass(), after.mass());
    assert_eq!(before.redirects(), after.redirects());
    assert_eq!(before.components().len(), after.components().len());
    for (before, after) in before.components().iter().zip(after.components()) {
        assert_eq!((before.id(), before.born()), (after.id(), after.born()));
        assert_eq!(before.evidence(), after.evidence());
    }
}

/// The pieces of a file that a mutation may change on its own.
struct Pieces {
    words: HashMap<String, String>,
    tensors: Vec<(Dtype, Vec<usize>, Vec<u8>)>,
}

impl Pieces {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (_, metadata) = SafeTensors::read_metadata(bytes).ok()?;
        let words = metadata.metadata().clone()?;
        words.get("header")?;
        let file = SafeTensors::deserialize(bytes).ok()?;
        let piece = |name: &str| {
            let view = file.tensor(name).ok()?;
            Some((view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        };
        Some(Self { words, tensors: TENSORS.iter().map(|name| piece(name)).collect::<Option<_>>()? })
    }

    /// Changes the header (any length) or a tensor (its length is that of its shape).
    fn change(&mut self, which: usize) {
        match self.tensors.get_mut(which) {
            Some((_, _, data)) if !data.is_empty() => {
                let n = data.len();
                libfuzzer_sys::fuzzer_mutate(data, n, n);
            }
            _ => {
                let header = self.words.get_mut("header").expect("checked when taken apart");
                let mut text = std::mem::take(header).into_bytes();
                let n = text.len();
                text.resize(n + 64, 0);
                let changed = libfuzzer_sys::fuzzer_mutate(&mut text, n, n + 64);
                text.truncate(changed);
                *header = String::from_utf8_lossy(&text).into_owned();
            }
        }
    }

    /// The file with a checksum that fits.
    fn sealed(mut self) -> Option<Vec<u8>> {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(self.words["header"].as_bytes());
        self.tensors.iter().for_each(|(_, _, data)| hasher.update(data));
        self.words.insert("crc32".to_owned(), format!("{:08x}", hasher.finalize()));
        let views = TENSORS.iter().zip(&self.tensors).map(|(name, (dtype, shape, data))| {
            Some((*name, TensorView::new(*dtype, shape.clone(), data).ok()?))
        });
        serialize(views.collect::<Option<Vec<_>>>()?, Some(self.words)).ok()
    }
}

/// Changes one piece and seals the file; now and then, or when it cannot be taken apart, changes the bytes as they are.
pub(crate) fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    const CHOICES: u32 = 12;
    let choice = seed % CHOICES;
    let sealed = (choice > 0).then(|| Pieces::of(&data[..size])).flatten().and_then(|mut pieces| {
        pieces.change(choice as usize - 1);
        pieces.sealed()
    });
    match sealed {
        Some(bytes) if bytes.len() <= max_size => {
            data[..bytes.len()].copy_from_slice(&bytes);
            bytes.len()
        }
        _ => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
}
