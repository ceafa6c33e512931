//! A model as bytes: the same model is the same bytes.
//!
//! The container is written here and not by the safetensors crate, whose map of metadata has another order in every run.

use std::collections::BTreeMap;

use safetensors::tensor::Dtype;
use serde::Serialize;

use super::{FORMAT_VERSION, Header, Model, checksum, tensor};

/// The bytes of one tensor with its type and shape.
struct Block {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

pub(super) fn encode(model: &Model) -> Vec<u8> {
    let posterior = model.fold.posterior();
    let header = Header {
        writer: concat!("anabranch ", env!("CARGO_PKG_VERSION")).into(),
        model: "dp".into(),
        family: posterior.family().clone(),
        process: *posterior.process(),
        version: posterior.version(),
        next_id: model.fold.next_id(),
        mass: posterior.mass(),
        provenance: model.provenance.clone(),
    };
    let header = serde_json::to_string(&header).expect("a header holds only text, numbers and lists");
    let blocks = blocks(model);
    let metadata = BTreeMap::from([
        ("format", "anabranch-model".to_owned()),
        ("version", FORMAT_VERSION.to_string()),
        ("crc32", checksum(&header, blocks.iter().map(|b| b.bytes.as_slice()))),
        ("header", header),
    ]);
    container(metadata, &blocks)
}

/// One entry of the container's own header.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Metadata(BTreeMap<&'a str, String>),
    Tensor { dtype: Dtype, shape: &'a [usize], data_offsets: [usize; 2] },
}

/// Length of the header, header, tensors one after another: the safetensors container.
fn container(metadata: BTreeMap<&str, String>, blocks: &[Block]) -> Vec<u8> {
    let mut entries = BTreeMap::from([("__metadata__", Entry::Metadata(metadata))]);
    let mut end = 0;
    for Block { name, dtype, shape, bytes } in blocks {
        let start = end;
        end += bytes.len();
        entries.insert(name, Entry::Tensor { dtype: *dtype, shape, data_offsets: [start, end] });
    }
    let mut header = serde_json::to_vec(&entries).expect("entries hold only text, numbers and lists");
    // The tensors begin at a multiple of their entries' size, so that a reader can map them.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    blocks.iter().for_each(|block| file.extend_from_slice(&block.bytes));
    file
}

/// In the order of [`tensor::ALL`].
fn blocks(model: &Model) -> Vec<Block> {
    let posterior = model.fold.posterior();
    let components = posterior.components();
    let n = components.len();
    let n_features = components.first().map_or(0, |c| c.evidence().stats.len());
    let runs = model.fold.absorbed().runs();
    let redirects = posterior.redirects();
    let labels = components.iter().flat_map(|c| {
        let labels = c.evidence().labels;
        [labels.log_p_empty, labels.expected_count, labels.label_entropy]
    });
    vec![
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
    ]
}

fn integers(name: &'static str, shape: Vec<usize>, values: impl Iterator<Item = u64>) -> Block {
    Block { name, dtype: Dtype::U64, shape, bytes: values.flat_map(u64::to_le_bytes).collect() }
}

fn floats(name: &'static str, shape: Vec<usize>, values: impl Iterator<Item = f64>) -> Block {
    Block { name, dtype: Dtype::F64, shape, bytes: values.flat_map(f64::to_le_bytes).collect() }
}
