//! Features that add up: rows of numbers.

use std::path::Path;

use anabranch::batch::Batch;
use anabranch::central::Memory;
use anabranch::engine::Config;
use anabranch::family::LinearGaussian;
use anabranch::infer::{FeatureSettings, PriorChoice};
use anabranch::process::Beta;
use anabranch_io::model::{ModelError, ModelFault, Provenance, StoredModel};

use super::{Count, FoldOf, Kind, of_rows};
use crate::rows::decode_rows;
use crate::spec::{JobSpec, ModelSpec};

/// Features.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features;

type FeatureModel = StoredModel<LinearGaussian, Beta>;

impl Kind for Features {
    type Family = LinearGaussian;
    type Process = Beta;
    type Inference = FeatureSettings;
    type About = Provenance;
    type Model = FeatureModel;

    const IS_COUNTED: bool = false;

    fn config(spec: &JobSpec) -> Config<FeatureSettings> {
        let inference = FeatureSettings { max_new: spec.max_new as usize, ..FeatureSettings::default() };
        let prior = match &spec.model {
            ModelSpec::Features(features) if features.variances.is_some() => PriorChoice::Given,
            _ => PriorChoice::Estimated,
        };
        Config { seed: spec.seed, prior, ..Config::new(inference) }
    }

    fn decode(
        message: &[u8],
        about: &Provenance,
        family: &LinearGaussian,
        spec: &JobSpec,
    ) -> Result<(Batch, f64), String> {
        Ok((decode_rows(message, &about.schema, |row| family.check(row), spec)?, 0.0))
    }

    fn model(fold: FoldOf<Self>, about: &Provenance, _count: Count, conflicts: u64) -> FeatureModel {
        of_rows(fold, about, conflicts)
    }

    fn parts(model: FeatureModel) -> (FoldOf<Self>, Provenance, Count) {
        (model.fold, model.provenance, Count::default())
    }

    fn save(model: &FeatureModel, path: &Path) -> Result<(), ModelError> {
        model.save(path)
    }

    fn to_bytes(model: &FeatureModel, memory: &Memory) -> Vec<u8> {
        model.to_checkpoint_bytes(memory)
    }

    fn from_bytes(bytes: &[u8]) -> Result<(FeatureModel, Memory), ModelFault> {
        FeatureModel::from_checkpoint_bytes(bytes)
    }
}
