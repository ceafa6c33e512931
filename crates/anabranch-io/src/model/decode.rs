//! A model from bytes that may be old, cut, damaged or hostile.

use std::collections::BTreeMap;

use anabranch::batch::Batch;
use anabranch::central::{Aside, BatchSet, Fold, Memory, SAMPLE_ROWS};
use anabranch::identify::ComponentId;
use anabranch::posterior::{Component, Evidence, Layers, Parts, Posterior};
use anabranch::process::LabelStatistics;
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};
use serde::Deserialize;

use super::{
    AsideHeader, FORMAT_VERSION, Header, ModelFault, StoredFamily, StoredModel, StoredProcess, checksum,
    tensor,
};

/// Models of this build.
const KNOWN: [&str; 3] = ["dp", "py", "bp"];

/// No journal gets this far: a file that counts higher would make the next addition overflow.
const MAX_COUNT: u64 = 1 << 62;

/// What the header says of a model that any build may have written.
#[derive(Deserialize)]
struct Named {
    model: String,
}

/// The name of the model, from the header alone.
pub(super) fn model_name(bytes: &[u8]) -> Result<String, ModelFault> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
    let header = metadata.metadata().as_ref().and_then(|words| words.get("header"));
    let header = header.ok_or_else(|| ModelFault::NotAModel("it has no header".to_owned()))?;
    let Named { model } = serde_json::from_str(header).map_err(|error| damaged(error.to_string()))?;
    Ok(model)
}

pub(super) fn decode<F: StoredFamily, P: StoredProcess>(
    bytes: &[u8],
) -> Result<(StoredModel<F, P>, Memory), ModelFault> {
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
    let blocks = tensor::ALWAYS.map(|name| tensors.tensor(name).map_err(|error| damaged(error.to_string())));
    let [absorbed, born, id, labels, stats, redirect] = blocks;
    let blocks = [absorbed?, born?, id?, labels?, stats?, redirect?];
    let more = tensor::AT_TIMES.map(|name| tensors.tensor(name).ok());
    let all = blocks.iter().chain(more.iter().flatten());
    if words.get("crc32") != Some(&checksum(header, all.map(|b| b.data()))) {
        return Err(damaged("the checksum does not match".into()));
    }
    let Named { model } = serde_json::from_str(header).map_err(|error| damaged(error.to_string()))?;
    let header: Header<F, P> =
        serde_json::from_str(header).map_err(|error| match KNOWN.contains(&model.as_str()) {
            true => damaged(error.to_string()),
            false => not_a_model(&format!("its model `{model}` is not in this build")),
        })?;
    let dimensions = header.provenance.schema.dimensions();
    let [lasting_labels, lasting_stats, passing_labels, passing_stats, keys, sample, first, weights] = &more;
    let layers = match (lasting_labels, lasting_stats, passing_labels, passing_stats) {
        (Some(a), Some(b), Some(c), Some(d)) => Some([a, b, c, d]),
        _ => None,
    };
    let memory = remembered(dimensions, [keys, sample, first, weights].map(Option::as_ref))?;
    Ok((assemble(header, &blocks, layers)?, memory))
}

/// The rows that a run remembered.
fn remembered(
    dimensions: usize,
    [keys, sample, first, weights]: [Option<&TensorView<'_>>; 4],
) -> Result<Memory, ModelFault> {
    let rows = |view: &TensorView<'_>| {
        Batch::new(dimensions, floats(view, dimensions)?).map_err(|error| damaged(error.to_string()))
    };
    let first = match (first.map(rows).transpose()?, weights) {
        (Some(first), Some(weights)) => {
            let weighted = first.with_weights(floats(weights, 1)?);
            Some(weighted.map_err(|error| damaged(error.to_string()))?)
        }
        (first, _) => first,
    };
    let sample = match (keys, sample) {
        (Some(keys), Some(sample)) => {
            let (keys, rows) = (integers(keys, 1)?, rows(sample)?);
            if keys.len() != rows.n_rows() || keys.len() > SAMPLE_ROWS {
                return Err(damaged("its sample of rows does not fit its keys".into()));
            }
            keys.into_iter().zip(rows.rows().map(<[f64]>::to_vec)).collect()
        }
        _ => Vec::new(),
    };
    Ok(Memory::restore(sample, first))
}

fn assemble<F: StoredFamily, P: StoredProcess>(
    header: Header<F, P>,
    [absorbed, born, id, labels, stats, redirect]: &[TensorView<'_>; 6],
    layers: Option<[&TensorView<'_>; 4]>,
) -> Result<StoredModel<F, P>, ModelFault> {
    if header.model != header.process.model() {
        return Err(ModelFault::NotAModel(format!("its model `{}` is not in this build", header.model)));
    }
    check_counts(&header)?;
    let (columns, dimensions) = (header.provenance.schema.dimensions(), header.family.columns());
    if columns != dimensions {
        return Err(damaged(format!("it names {columns} columns for a family of {dimensions}")));
    }
    let n_features = header.family.n_features();
    let (ids, born) = (integers(id, 1)?, integers(born, 1)?);
    let n = ids.len();
    let evidence = evidence(labels, stats, n, n_features)?;
    if born.len() != n {
        return Err(damaged("the tensors have different numbers of components".into()));
    }
    if ids.iter().any(|id| *id >= header.next_id) {
        return Err(damaged("an id has not been given out yet".into()));
    }
    let aside = aside(&header)?;
    let mut components: Vec<Component> = ids
        .iter()
        .zip(born)
        .zip(evidence)
        .map(|((id, born), evidence)| Component::new(ComponentId(*id), born, evidence))
        .collect();
    if let Some(aside) = aside {
        let [lasting_labels, lasting_stats, passing_labels, passing_stats] =
            layers.ok_or_else(|| damaged("the evidence that was set aside is missing".into()))?;
        let lasting = self::evidence(lasting_labels, lasting_stats, n, n_features)?;
        let passing = self::evidence(passing_labels, passing_stats, n, n_features)?;
        let layers = lasting.into_iter().zip(passing);
        components = components
            .into_iter()
            .zip(layers)
            .map(|(component, (lasting, passing))| {
                component
                    .with_layers(Layers { lasting, passing }, aside.share)
                    .ok_or_else(|| damaged("the layers of a component do not add up to it".into()))
            })
            .collect::<Result<_, _>>()?;
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
    Ok(StoredModel {
        fold: Fold::resume(posterior, absorbed, header.next_id, header.last_birth).within(header.pass, aside),
        provenance: header.provenance,
    })
}

fn evidence(
    labels: &TensorView<'_>,
    stats: &TensorView<'_>,
    n: usize,
    n_features: usize,
) -> Result<Vec<Evidence>, ModelFault> {
    let (labels, stats) = (floats(labels, 3)?, floats(stats, n_features)?);
    if labels.len() != n * 3 || stats.len() != n * n_features {
        return Err(damaged("the tensors have different numbers of components".into()));
    }
    let of = |(labels, stats): (&[f64], &[f64])| Evidence {
        stats: stats.to_vec(),
        labels: LabelStatistics {
            log_p_empty: labels[0],
            expected_count: labels[1],
            label_entropy: labels[2],
        },
    };
    Ok(labels.chunks_exact(3).zip(stats.chunks_exact(n_features)).map(of).collect())
}

fn aside<F, P>(header: &Header<F, P>) -> Result<Option<Aside>, ModelFault> {
    match &header.aside {
        None => Ok(None),
        Some(AsideHeader { mass, share })
            if *mass > 0.0 && *share > 0.0 && *share <= 1.0 && mass.is_finite() =>
        {
            Ok(Some(Aside { mass: *mass, share: *share }))
        }
        Some(AsideHeader { mass, share }) => {
            Err(damaged(format!("it set aside {share} of {mass} rows, which cannot be")))
        }
    }
}

/// Whoever goes on from this model adds to these numbers.
fn check_counts<F, P>(header: &Header<F, P>) -> Result<(), ModelFault> {
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
fn integers(view: &TensorView<'_>, width: usize) -> Result<Vec<u64>, ModelFault> {
    check_shape(view, Dtype::U64, width)?;
    Ok(view.data().chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("chunks of 8"))).collect())
}

fn floats(view: &TensorView<'_>, width: usize) -> Result<Vec<f64>, ModelFault> {
    check_shape(view, Dtype::F64, width)?;
    Ok(view.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("chunks of 8"))).collect())
}

fn check_shape(view: &TensorView<'_>, dtype: Dtype, width: usize) -> Result<(), ModelFault> {
    let shape = view.shape();
    let fits = match (shape, width) {
        ([_], 1) => true,
        // A model without components has no rows, and nothing tells its width.
        ([rows, columns], _) => *columns == width || *rows == 0,
        _ => false,
    };
    if view.dtype() == dtype && fits { Ok(()) } else { Err(damaged(format!("a tensor has shape {shape:?}"))) }
}
