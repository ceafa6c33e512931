//! A model from bytes that may be old, cut, damaged or hostile.

use std::collections::BTreeMap;

use anabranch::batch::Batch;
use anabranch::central::{Aside, BatchSet, Behind, Fold, Memory, SAMPLE_ROWS};
use anabranch::family::Conjugate;
use anabranch::identify::ComponentId;
use anabranch::posterior::{Component, Evidence, Familiarity, Layers, Parts, Posterior, Tail};
use anabranch::process::{LabelStatistics, Process};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};

use super::{
    AsideHeader, BehindHeader, FORMAT_VERSION, Header, ModelFault, StoredFamily, StoredModel, StoredProcess,
    checksum, tensor,
};
use crate::seen::Reading;

/// Models of this build.
const KNOWN: [&str; 3] = ["dp", "py", "bp"];

/// No journal gets this far: a file that counts higher would make the next addition overflow.
const MAX_COUNT: u64 = 1 << 62;

/// A file whose bytes are those that were written: its header, and its tensors.
pub(super) struct Intact<'a> {
    pub(super) header: String,
    pub(super) always: [TensorView<'a>; 6],
    pub(super) at_times: [Option<TensorView<'a>>; tensor::AT_TIMES.len()],
}

/// Checks the container, the version and the checksum.
pub(super) fn open(bytes: &[u8]) -> Result<Intact<'_>, ModelFault> {
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
    let always = [absorbed?, born?, id?, labels?, stats?, redirect?];
    let at_times = tensor::AT_TIMES.map(|name| tensors.tensor(name).ok());
    let all = always.iter().chain(at_times.iter().flatten());
    if words.get("crc32") != Some(&checksum(header, all.map(|b| b.data()))) {
        return Err(damaged("the checksum does not match".into()));
    }
    Ok(Intact { header: header.clone(), always, at_times })
}

/// Which model a header is of.
pub(super) fn kind(header: &str) -> Result<String, ModelFault> {
    #[derive(serde::Deserialize)]
    struct Kind {
        model: String,
    }
    let Kind { model } = serde_json::from_str(header).map_err(|error| damaged(error.to_string()))?;
    Ok(model)
}

/// The name of the model, from the header alone.
pub(super) fn model_name(bytes: &[u8]) -> Result<String, ModelFault> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
    let header = metadata.metadata().as_ref().and_then(|words| words.get("header"));
    let header = header.ok_or_else(|| ModelFault::NotAModel("it has no header".to_owned()))?;
    kind(header)
}

pub(super) fn decode<F: StoredFamily, P: StoredProcess>(
    bytes: &[u8],
) -> Result<(StoredModel<F, P>, Memory, Reading), ModelFault> {
    let intact = open(bytes)?;
    let kind = kind(&intact.header)?;
    if kind == super::topics::KIND {
        return Err(ModelFault::NotAModel("it is a model of topics, not of rows".into()));
    }
    let header: Header<F, P> =
        serde_json::from_str(&intact.header).map_err(|error| match KNOWN.contains(&kind.as_str()) {
            true => damaged(error.to_string()),
            false => ModelFault::NotAModel(format!("its model `{kind}` is not in this build")),
        })?;
    if header.model != header.process.model() {
        return Err(ModelFault::NotAModel(format!("its model `{}` is not in this build", header.model)));
    }
    check_counts(&header)?;
    let (columns, dimensions) = (header.provenance.schema.dimensions(), header.family.columns());
    if columns != dimensions {
        return Err(damaged(format!("it names {columns} columns for a family of {dimensions}")));
    }
    let memory = remembered(columns, intact.rows().map(Option::as_ref))?;
    let position = Position {
        version: header.version,
        next_id: header.next_id,
        last_birth: header.last_birth,
        mass: header.mass,
        pass: header.pass,
        aside: header.aside,
        familiarity: header.familiarity,
        tail: header.tail,
    };
    if !header.past.is_possible() {
        return Err(damaged("what it says of the past is impossible".into()));
    }
    let past = header.past;
    let fold = intact.fold(header.family, header.process, position)?;
    let behind = match header.behind {
        None => Behind::Nothing,
        Some(BehindHeader::Model) => Behind::Model,
        Some(BehindHeader::SetAside) => Behind::SetAside,
    };
    let fold = fold.with_past(past);
    let memory = match header.halvings {
        None => memory,
        Some((since, now)) if since.is_finite() && now.is_finite() && now >= since && since >= 0.0 => {
            memory.with_halvings((since, now))
        }
        Some(_) => return Err(damaged("its sample is of an impossible time".into())),
    };
    let memory =
        memory.with_tended(header.tended).with_between(header.provenance.between).with_behind(behind);
    let reading = header.reading.unwrap_or_default();
    Ok((StoredModel { fold, provenance: header.provenance }, memory, reading))
}

/// The rows that a run remembered.
fn remembered(
    dimensions: usize,
    [keys, sample, first, weights, sample_weights]: [Option<&TensorView<'_>>; 5],
) -> Result<Memory, ModelFault> {
    let rows = |view: &TensorView<'_>| {
        Batch::with_missing(dimensions, floats(view, dimensions)?).map_err(|error| damaged(error.to_string()))
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
    let memory = Memory::restore(sample, first);
    let Some(weights) = sample_weights else { return Ok(memory) };
    let weights = floats(weights, 1)?;
    if weights.len() != memory.sample().len() || !weights.iter().all(|w| w.is_finite() && *w > 0.0) {
        return Err(damaged("its weights do not fit its sample of rows".into()));
    }
    Ok(memory.with_sample_weights(weights))
}

/// Where a journal stands.
pub(super) struct Position {
    pub(super) version: u64,
    pub(super) next_id: u64,
    pub(super) last_birth: u64,
    pub(super) mass: f64,
    pub(super) pass: u32,
    pub(super) aside: Option<AsideHeader>,
    pub(super) familiarity: Familiarity,
    pub(super) tail: Tail,
}

impl Intact<'_> {
    /// Sample and first minibatch of dense rows.
    fn rows(&self) -> [&Option<TensorView<'_>>; 5] {
        let [_, _, _, _, keys, sample, first, weights, .., sample_weights] = &self.at_times;
        [keys, sample, first, weights, sample_weights]
    }

    /// The journal so far, with every invariant checked.
    pub(super) fn fold<F: Conjugate, P: Process>(
        &self,
        family: F,
        process: P,
        position: Position,
    ) -> Result<Fold<F, P>, ModelFault> {
        let [absorbed, born, id, labels, stats, redirect] = &self.always;
        let [lasting_labels, lasting_stats, passing_labels, passing_stats, ..] = &self.at_times;
        let n_features = family.n_features();
        let (ids, born) = (integers(id, 1)?, integers(born, 1)?);
        let n = ids.len();
        let evidence = evidence(labels, stats, n, n_features)?;
        if born.len() != n {
            return Err(damaged("the tensors have different numbers of components".into()));
        }
        if ids.iter().any(|id| *id >= position.next_id) {
            return Err(damaged("an id has not been given out yet".into()));
        }
        let aside = aside(position.aside.as_ref())?;
        let mut components: Vec<Component> = ids
            .iter()
            .zip(born)
            .zip(evidence)
            .map(|((id, born), evidence)| Component::new(ComponentId(*id), born, evidence))
            .collect();
        if let Some(aside) = aside {
            let layers = match (lasting_labels, lasting_stats, passing_labels, passing_stats) {
                (Some(a), Some(b), Some(c), Some(d)) => Some([a, b, c, d]),
                _ => None,
            };
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
        let absorbed =
            BatchSet::from_runs(runs).ok_or_else(|| damaged("the minibatch runs overlap".into()))?;
        let Position { version, next_id, last_birth, mass, pass, familiarity, tail, .. } = position;
        if !(familiarity.total.is_finite() && familiarity.mass.is_finite() && familiarity.mass >= 0.0) {
            return Err(damaged("its familiarity is not a number".into()));
        }
        if !tail.is_possible() {
            return Err(damaged("what it says of usual densities is impossible".into()));
        }
        let posterior = Posterior::restore(Parts { version, family, process, components, redirects, mass })?;
        Ok(Fold::resume(posterior, absorbed, next_id, last_birth)
            .within(pass, aside, familiarity)
            .with_tail(tail))
    }
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

fn aside(stored: Option<&AsideHeader>) -> Result<Option<Aside>, ModelFault> {
    match stored {
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
    check_possible([
        header.version,
        header.next_id,
        header.last_birth,
        made.bootstrap_rows,
        made.batch_size,
        made.observations,
        made.skipped_rows,
        made.matchings,
        made.conflicts,
    ])
}

pub(super) fn check_possible(counts: impl IntoIterator<Item = u64>) -> Result<(), ModelFault> {
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

pub(super) fn damaged(reason: String) -> ModelFault {
    ModelFault::Damaged(reason)
}

/// The numbers of a tensor whose rows have `width` entries (a list has width 1).
pub(super) fn integers(view: &TensorView<'_>, width: usize) -> Result<Vec<u64>, ModelFault> {
    check_shape(view, Dtype::U64, width)?;
    Ok(view.data().chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("chunks of 8"))).collect())
}

pub(super) fn floats(view: &TensorView<'_>, width: usize) -> Result<Vec<f64>, ModelFault> {
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
