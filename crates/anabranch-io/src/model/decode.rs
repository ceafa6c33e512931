//! A model from bytes that may be old, cut, damaged or hostile.

use std::collections::BTreeMap;

use anabranch::central::{BatchSet, Fold};
use anabranch::identify::ComponentId;
use anabranch::posterior::{Component, Evidence, Parts, Posterior};
use anabranch::process::LabelStatistics;
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors};

use super::{FORMAT_VERSION, Header, Model, ModelFault, checksum, tensor};

/// No journal gets this far: a file that counts higher would make the next addition overflow.
const MAX_COUNT: u64 = 1 << 62;

pub(super) fn decode(bytes: &[u8]) -> Result<Model, ModelFault> {
    let not_a_model = |reason: &str| ModelFault::NotAModel(reason.to_owned());
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
    let words = metadata.metadata().as_ref().ok_or_else(|| not_a_model("it has no metadata"))?;
    if words.get("format").map(String::as_str) != Some("anabranch-model") {
        return Err(not_a_model("its metadata does not say `anabranch-model`"));
    }
    let version: u32 = words
        .get("version")
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| not_a_model("it does not say its version"))?;
    if version > FORMAT_VERSION {
        return Err(ModelFault::Newer(version));
    }
    let header = words.get("header").ok_or_else(|| not_a_model("it has no header"))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
    let blocks = tensor::ALL.map(|name| tensors.tensor(name).map_err(|error| damaged(error.to_string())));
    let [absorbed, born, id, labels, stats, redirect] = blocks;
    let blocks = [absorbed?, born?, id?, labels?, stats?, redirect?];
    if words.get("crc32") != Some(&checksum(header, blocks.iter().map(|b| b.data()))) {
        return Err(damaged("the checksum does not match".into()));
    }
    let header: Header = serde_json::from_str(header).map_err(|error| damaged(error.to_string()))?;
    assemble(header, &blocks)
}

fn assemble(
    header: Header,
    [absorbed, born, id, labels, stats, redirect]: &[safetensors::tensor::TensorView<'_>; 6],
) -> Result<Model, ModelFault> {
    use anabranch::family::Family;
    if header.model != "dp" {
        return Err(ModelFault::NotAModel(format!("its model `{}` is not in this build", header.model)));
    }
    check_counts(&header)?;
    let (columns, dimensions) = (header.provenance.schema.dimensions(), header.family.dimensions());
    if columns != dimensions {
        return Err(damaged(format!("it names {columns} columns for a family of {dimensions}")));
    }
    let n_features = header.family.n_features();
    let (ids, born) = (integers(id, 1)?, integers(born, 1)?);
    let (labels, stats) = (floats(labels, 3)?, floats(stats, n_features)?);
    let n = ids.len();
    if born.len() != n || labels.len() != n * 3 || stats.len() != n * n_features {
        return Err(damaged("the tensors have different numbers of components".into()));
    }
    if ids.iter().any(|id| *id >= header.next_id) {
        return Err(damaged("an id has not been given out yet".into()));
    }
    let mut components = Vec::with_capacity(n);
    for ix in 0..n {
        let [log_p_empty, expected_count, label_entropy] =
            [labels[3 * ix], labels[3 * ix + 1], labels[3 * ix + 2]];
        let evidence = Evidence {
            stats: stats[ix * n_features..(ix + 1) * n_features].to_vec(),
            labels: LabelStatistics { log_p_empty, expected_count, label_entropy },
        };
        components.push(Component::new(ComponentId(ids[ix]), born[ix], evidence));
    }
    let redirects: BTreeMap<_, _> = integers(redirect, 2)?
        .chunks_exact(2)
        .map(|pair| (ComponentId(pair[0]), ComponentId(pair[1])))
        .collect();
    let runs: Vec<_> = integers(absorbed, 2)?.chunks_exact(2).map(|run| (run[0], run[1])).collect();
    if runs.last().is_some_and(|(_, last)| *last > MAX_COUNT) {
        return Err(damaged("a minibatch has an impossible number".into()));
    }
    let absorbed = BatchSet::from_runs(runs).ok_or_else(|| damaged("the minibatch runs overlap".into()))?;
    let posterior = Posterior::restore(Parts {
        version: header.version,
        family: header.family,
        process: header.process,
        components,
        redirects,
        mass: header.mass,
    })?;
    Ok(Model {
        fold: Fold::resume(posterior, absorbed, header.next_id, header.last_birth),
        provenance: header.provenance,
    })
}

/// Whoever goes on from this model adds to these numbers.
fn check_counts(header: &Header) -> Result<(), ModelFault> {
    let made = &header.provenance;
    let counts = [
        header.version,
        header.next_id,
        header.last_birth,
        made.bootstrap_rows,
        made.batch_size,
        made.observations,
        made.skipped_rows,
        made.matchings,
        made.conflicts,
    ];
    match counts.into_iter().find(|count| *count > MAX_COUNT) {
        Some(count) => Err(damaged(format!("it counts up to {count}"))),
        None => Ok(()),
    }
}

/// What the container's errors mean for a file that may be anything.
fn unreadable(error: SafeTensorError) -> ModelFault {
    match error {
        SafeTensorError::MetadataIncompleteBuffer => damaged("its length is not the one it tells".into()),
        _ => ModelFault::NotAModel("it does not begin like one, or is cut short".into()),
    }
}

fn damaged(reason: String) -> ModelFault {
    ModelFault::Damaged(reason)
}

/// The numbers of a tensor whose rows have `width` entries (a list has width 1).
fn integers(view: &safetensors::tensor::TensorView<'_>, width: usize) -> Result<Vec<u64>, ModelFault> {
    check_shape(view, Dtype::U64, width)?;
    Ok(view.data().chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("chunks of 8"))).collect())
}

fn floats(view: &safetensors::tensor::TensorView<'_>, width: usize) -> Result<Vec<f64>, ModelFault> {
    check_shape(view, Dtype::F64, width)?;
    Ok(view.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("chunks of 8"))).collect())
}

fn check_shape(
    view: &safetensors::tensor::TensorView<'_>,
    dtype: Dtype,
    width: usize,
) -> Result<(), ModelFault> {
    let shape = view.shape();
    let fits = match (shape, width) {
        ([_], 1) => true,
        // A model without components has no rows, and nothing tells its width.
        ([rows, columns], _) => *columns == width || *rows == 0,
        _ => false,
    };
    if view.dtype() == dtype && fits { Ok(()) } else { Err(damaged(format!("a tensor has shape {shape:?}"))) }
}
