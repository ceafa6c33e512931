//! A model as bytes: the same bytes for the same model, always.
//!
//! ```text
//! length of the index (u64)   index (JSON, padded with spaces to 8 bytes)   tensors
//! ```
//!
//! The index is written here and not by the safetensors crate, which takes the metadata from a hash map: the order
//! of its words would differ from run to run.

use std::collections::BTreeMap;

use anabranch::central::{Aside, Behind, Fold, Memory};
use anabranch::family::Conjugate;
use anabranch::posterior::Evidence;
use anabranch::process::{LabelStatistics, Process};
use safetensors::tensor::{Dtype, TensorInfo};
use serde_json::json;

use super::{
    AsideHeader, BehindHeader, FORMAT_VERSION, Header, Provenance, StoredFamily, StoredModel, StoredProcess,
    checksum, tensor,
};
use crate::seen::Reading;

/// Tensors start at a multiple of the size of a number.
const ALIGNMENT: usize = 8;

/// The bytes of one tensor with its type and shape.
pub(super) struct Block {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

pub(super) fn encode<F: StoredFamily, P: StoredProcess>(
    model: &StoredModel<F, P>,
    memory: Option<&Memory>,
    reading: Option<&Reading>,
) -> Vec<u8> {
    let posterior = model.fold.posterior();
    let header = Header {
        writer: concat!("anabranch ", env!("CARGO_PKG_VERSION")).into(),
        model: posterior.process().model().into(),
        family: posterior.family().clone(),
        process: posterior.process().clone(),
        version: posterior.version(),
        next_id: model.fold.next_id(),
        last_birth: model.fold.last_birth(),
        mass: posterior.mass(),
        pass: posterior.pass(),
        aside: model.fold.aside().map(|Aside { mass, share }| AsideHeader { mass, share }),
        familiarity: posterior.familiarity(),
        tail: posterior.tail().clone(),
        past: posterior.past().clone(),
        provenance: Provenance {
            between: memory.and_then(Memory::between).or(model.provenance.between),
            ..model.provenance.clone()
        },
        tended: memory.and_then(Memory::tended),
        halvings: memory.map(Memory::halvings).filter(|halvings| *halvings != (0.0, 0.0)),
        behind: memory.and_then(|memory| match memory.behind() {
            Behind::Nothing => None,
            Behind::Model => Some(BehindHeader::Model),
            Behind::SetAside => Some(BehindHeader::SetAside),
        }),
        reading: reading.cloned(),
    };
    let header = serde_json::to_string(&header).expect("a header holds only text, numbers and lists");
    let mut blocks = blocks(&model.fold);
    blocks.extend(memory.map(rows).unwrap_or_default());
    seal(&header, &blocks)
}

/// The bytes of a file with this header and these tensors.
pub(super) fn seal(header: &str, blocks: &[Block]) -> Vec<u8> {
    let words = json!({
        "format": "anabranch-model",
        "version": FORMAT_VERSION.to_string(),
        "crc32": checksum(header, blocks.iter().map(|b| b.bytes.as_slice())),
        "header": header,
    });
    let mut index = BTreeMap::from([("__metadata__", words)]);
    let mut offset = 0;
    for block in blocks {
        let data_offsets = (offset, offset + block.bytes.len());
        let info = TensorInfo { dtype: block.dtype, shape: block.shape.clone(), data_offsets };
        index.insert(block.name, json!(info));
        offset += block.bytes.len();
    }
    let mut index = serde_json::to_vec(&index).expect("an index holds only text, numbers and lists");
    index.resize(index.len().next_multiple_of(ALIGNMENT), b' ');
    let length = (index.len() as u64).to_le_bytes();
    let tensors = blocks.iter().map(|block| block.bytes.as_slice());
    [&length[..], &index].into_iter().chain(tensors).collect::<Vec<_>>().concat()
}

/// What every model has, in the order of [`tensor::ALWAYS`], and its layers, when evidence was set aside.
pub(super) fn blocks<F: Conjugate, P: Process>(fold: &Fold<F, P>) -> Vec<Block> {
    let posterior = fold.posterior();
    let components = posterior.components();
    let n = components.len();
    let n_features = components.first().map_or(0, |c| c.evidence().stats.len());
    let runs = fold.absorbed().runs();
    let redirects = posterior.redirects();
    let labels = components.iter().flat_map(|c| triple(c.evidence().labels));
    let mut blocks = vec![
        integers(tensor::ABSORBED, vec![runs.len(), 2], runs.iter().flat_map(|(a, b)| [*a, *b])),
        integers(tensor::BORN, vec![n], components.iter().map(|c| c.born())),
        integers(tensor::ID, vec![n], components.iter().map(|c| c.id().0)),
        floats(tensor::LABELS, vec![n, 3], labels),
        floats(
            tensor::STATS,
            vec![n, n_features],
            components.iter().flat_map(|c| c.evidence().stats.iter().copied()),
        ),
        integers(
            tensor::REDIRECT,
            vec![redirects.len(), 2],
            redirects.iter().flat_map(|(from, into)| [from.0, into.0]),
        ),
    ];
    blocks.extend(layers(fold));
    blocks
}

fn triple(labels: LabelStatistics) -> [f64; 3] {
    [labels.log_p_empty, labels.expected_count, labels.label_entropy]
}

/// What lasts and what is to be replaced, when evidence was set aside. A component without layers has only what lasts.
fn layers<F: Conjugate, P: Process>(fold: &Fold<F, P>) -> Vec<Block> {
    if fold.aside().is_none() {
        return Vec::new();
    }
    let components = fold.posterior().components();
    let n_features = components.first().map_or(0, |c| c.evidence().stats.len());
    let nothing = Evidence::empty(n_features);
    let lasting: Vec<&Evidence> = components.iter().map(|c| c.lasting()).collect();
    let passing: Vec<&Evidence> = components.iter().map(|c| c.passing().unwrap_or(&nothing)).collect();
    let n = components.len();
    let labels = |name, of: &[&Evidence]| floats(name, vec![n, 3], of.iter().flat_map(|e| triple(e.labels)));
    let stats = |name, of: &[&Evidence]| {
        floats(name, vec![n, n_features], of.iter().flat_map(|e| e.stats.iter().copied()))
    };
    vec![
        labels(tensor::LASTING_LABELS, &lasting),
        stats(tensor::LASTING_STATS, &lasting),
        labels(tensor::PASSING_LABELS, &passing),
        stats(tensor::PASSING_STATS, &passing),
    ]
}

fn rows(memory: &Memory) -> Vec<Block> {
    let n = memory.sample().len();
    let dimensions = memory.sample().next().map_or(0, |(_, row)| row.len());
    let mut blocks = vec![
        integers(tensor::SAMPLE_KEYS, vec![n], memory.sample().map(|(key, _)| key)),
        floats(
            tensor::SAMPLE_ROWS,
            vec![n, dimensions],
            memory.sample().flat_map(|(_, row)| row.iter().copied()),
        ),
    ];
    if let Some(first) = memory.first() {
        let shape = vec![first.n_rows(), first.dimensions()];
        blocks.push(floats(tensor::FIRST_ROWS, shape, first.values().iter().copied()));
        if let Some(weights) = first.weights() {
            blocks.push(floats(tensor::FIRST_WEIGHTS, vec![weights.len()], weights.iter().copied()));
        }
    }
    if let Some(weights) = memory.sample_weights() {
        blocks.push(floats(tensor::SAMPLE_WEIGHTS, vec![n], weights.into_iter()));
    }
    blocks
}

pub(super) fn integers(name: &'static str, shape: Vec<usize>, values: impl Iterator<Item = u64>) -> Block {
    Block { name, dtype: Dtype::U64, shape, bytes: values.flat_map(u64::to_le_bytes).collect() }
}

pub(super) fn floats(name: &'static str, shape: Vec<usize>, values: impl Iterator<Item = f64>) -> Block {
    Block { name, dtype: Dtype::F64, shape, bytes: values.flat_map(f64::to_le_bytes).collect() }
}
