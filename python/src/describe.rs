//! What a model file says about how it was made, and the command line.

use std::ffi::OsString;

use anabranch::family::{AnyFamily, Block, Conjugate};
use anabranch::posterior::HalfLife;
use anabranch_cli::FeatureModel;
use anabranch_cli::args::half_life::as_flag;
use anabranch_io::Schema;
use anabranch_io::model::{Model, TopicModel, model_name_of};
use pyo3::prelude::*;

use crate::error::Fault;

/// What a model file says about how it was made, as JSON.
#[pyfunction]
pub fn describe(bytes: &[u8]) -> PyResult<String> {
    Ok(described(bytes)?.to_string())
}

fn described(bytes: &[u8]) -> Result<serde_json::Value, Fault> {
    let name = model_name_of(bytes).map_err(Fault::input)?;
    match name.as_str() {
        "hdp" => {
            let (TopicModel { fold, vocabulary, provenance }, _) =
                TopicModel::from_bytes(bytes).map_err(Fault::input)?;
            Ok(serde_json::json!({
                "model": name,
                "process": fold.posterior().process(),
                "family": fold.posterior().family(),
                "words": vocabulary.words(),
                "provenance": provenance,
            }))
        }
        "bp" => {
            let model = FeatureModel::from_bytes(bytes).map_err(Fault::input)?;
            Ok(serde_json::json!({
                "model": name,
                "process": model.fold.posterior().process(),
                "family": model.fold.posterior().family(),
                "provenance": model.provenance,
            }))
        }
        _ => mixture(bytes, &name),
    }
}

fn mixture(bytes: &[u8], name: &str) -> Result<serde_json::Value, Fault> {
    let model = Model::from_bytes(bytes).map_err(Fault::input)?;
    let posterior = model.fold.posterior();
    let half_life = match posterior.past().half_life {
        Some(HalfLife::Rows(rows)) => serde_json::json!(rows),
        Some(other) => serde_json::json!(as_flag(Some(other))),
        None => serde_json::Value::Null,
    };
    Ok(serde_json::json!({
        "model": name,
        "family": family_text(posterior.family(), &model.provenance.schema),
        "missing_informative": informative(posterior.family(), &model.provenance.schema),
        "process": posterior.process(),
        "half_life": half_life,
        "provenance": model.provenance,
    }))
}

/// The parameter `family` that makes this one.
fn family_text(family: &AnyFamily, schema: &Schema) -> String {
    let AnyFamily::Product(product) = family else { return family.name().to_owned() };
    let of_values = || product.blocks().iter().filter(|block| !block.is_absence());
    if let (Some(block), 1) = (of_values().next(), of_values().count()) {
        return block.family.name().to_owned();
    }
    let part = |block: &Block| {
        let names: Vec<&str> = block.columns.iter().map(|ix| schema.columns[*ix].name.as_str()).collect();
        format!("{}:{}", block.family.name(), names.join(","))
    };
    of_values().map(part).collect::<Vec<_>>().join("+")
}

/// The parameter `missing_informative` of this one: the columns, or whether it is all of them.
fn informative(family: &AnyFamily, schema: &Schema) -> serde_json::Value {
    let columns = family.absent(&vec![0.0; family.n_features()]);
    match columns.len() {
        0 => serde_json::json!(false),
        all if all == schema.columns.len() => serde_json::json!(true),
        _ => columns.iter().map(|(ix, _)| schema.columns[*ix].name.as_str()).collect(),
    }
}

/// The command line; returns its exit code.
#[pyfunction]
pub fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| anabranch_cli::main_with(args))
}
