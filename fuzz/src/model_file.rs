//! A model from any bytes: refused, or as good as one that was fitted.
//!
//! The checksum would stop nearly every change, so the mutator takes a file apart, changes one piece and seals it again.

use std::collections::HashMap;
use std::ops::Range;

use anabranch::family::Family;
use anabranch::posterior::Predictor;
use anabranch_io::model::Model;
use libfuzzer_sys::Corpus;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

/// In the order of the checksum.
const TENSORS: [&str; 6] =
    ["absorbed", "component.born", "component.id", "component.labels", "component.stats", "redirect"];

/// Numbers at the edges of what families and counts allow, and beyond.
const NUMBERS: [&str; 20] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "2",
    "0.5",
    "3",
    "1e-6",
    "1e-12",
    "1e-100",
    "1e-300",
    "5e-324",
    "1e15",
    "1e75",
    "-1e75",
    "1e100",
    "1e300",
    "-1.7e308",
    "4611686018427387904",
    "18446744073709551615",
];

/// Whatever loads must predict, describe itself, draw, and survive being written. What does not load is no start for
/// further changes: the corpus would fill with broken files, and good ones would hardly be changed at all.
pub(crate) fn check(bytes: &[u8]) -> Corpus {
    let Ok(model) = Model::from_bytes(bytes) else { return Corpus::Reject };
    predicts(&model);
    round_trips(&model);
    Corpus::Keep
}

fn predicts(model: &Model) {
    let posterior = model.fold.posterior();
    let family = posterior.family();
    assert_eq!(model.provenance.schema.dimensions(), family.dimensions());
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

    /// Changes bytes of the header (any length) or of a tensor (its length is that of its shape).
    fn change_bytes(&mut self, which: usize) {
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

    /// Replaces one number of the header or of a tensor by one at an edge.
    fn change_number(&mut self, which: usize, rng: &mut Xoshiro256PlusPlus) {
        let number = NUMBERS[rng.random_range(0..NUMBERS.len())];
        match self.tensors.get_mut(which) {
            Some((dtype, _, data)) if !data.is_empty() => {
                let word = match dtype {
                    Dtype::F64 => number.parse::<f64>().expect("all are numbers").to_le_bytes(),
                    _ => number.parse().unwrap_or(rng.random_range(0..4u64)).to_le_bytes(),
                };
                let at = rng.random_range(0..data.len() / 8) * 8;
                data[at..at + 8].copy_from_slice(&word);
            }
            _ => {
                let header = self.words.get_mut("header").expect("checked when taken apart");
                let numbers = numbers_in(header);
                if !numbers.is_empty() {
                    let place = numbers[rng.random_range(0..numbers.len())].clone();
                    header.replace_range(place, number);
                }
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

/// Where the numbers of a JSON text stand.
fn numbers_in(text: &str) -> Vec<Range<usize>> {
    let starts_number = |c: char| c.is_ascii_digit() || c == '-';
    let belongs = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let mut numbers = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(starts_number) {
        let start = at + offset;
        let length = text[start..].find(|c| !belongs(c)).unwrap_or(text.len() - start);
        numbers.push(start..start + length);
        at = start + length;
    }
    numbers
}

/// Changes one piece or a few numbers and seals the file; now and then, or when it cannot be taken apart, changes the
/// bytes as they are.
pub(crate) fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(seed));
    let sealed = Pieces::of(&data[..size]).filter(|_| rng.random_range(0..16) > 0).and_then(|mut pieces| {
        // Half of the changes go to the header, the other half to the tensors.
        let which = rng.random_range(0..2 * TENSORS.len());
        match rng.random_range(0..4) {
            0 => pieces.change_bytes(which),
            n => (0..n).for_each(|_| pieces.change_number(which, &mut rng)),
        }
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
