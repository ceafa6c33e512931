//! Mixtures of any family: rows of numbers.

use std::path::Path;

use anabranch::batch::Batch;
use anabranch::central::Memory;
use anabranch::engine::Config;
use anabranch::family::{AnyFamily, Family};
use anabranch::infer::Settings;
use anabranch::process::AnyProcess;
use anabranch_io::model::{Model, ModelError, ModelFault, Provenance};

use super::{Count, FoldOf, Kind, of_rows};
use crate::rows::decode_rows;
use crate::spec::JobSpec;

/// Mixtures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixture;

impl Kind for Mixture {
    type Family = AnyFamily;
    type Process = AnyProcess;
    type Inference = Settings;
    type About = Provenance;
    type Model = Model;

    /// Rows of a cluster are unweighted, so the mass is their number.
    const IS_COUNTED: bool = false;

    fn config(spec: &JobSpec) -> Config {
        let inference = Settings { max_new: spec.max_new as usize, ..Settings::default() };
        Config { seed: spec.seed, prior: spec.prior.choice(), ..Config::new(inference) }
    }

    fn decode(
        message: &[u8],
        about: &Provenance,
        family: &AnyFamily,
        spec: &JobSpec,
    ) -> Result<(Batch, f64), String> {
        Ok((decode_rows(message, &about.schema, |row| family.check(row), spec)?, 0.0))
    }

    fn can_follow(now: (&AnyFamily, &AnyProcess), next: (&AnyFamily, &AnyProcess)) -> bool {
        now.0.name() == next.0.name() && now.1.name() == next.1.name()
    }

    fn model(fold: FoldOf<Self>, about: &Provenance, _count: Count, conflicts: u64) -> Model {
        of_rows(fold, about, conflicts)
    }

    fn parts(model: Model) -> (FoldOf<Self>, Provenance, Count) {
        (model.fold, model.provenance, Count::default())
    }

    fn save(model: &Model, path: &Path) -> Result<(), ModelError> {
        model.save(path)
    }

    fn to_bytes(model: &Model, memory: &Memory) -> Vec<u8> {
        model.to_checkpoint_bytes(memory)
    }

    fn from_bytes(bytes: &[u8]) -> Result<(Model, Memory), ModelFault> {
        Model::from_checkpoint_bytes(bytes)
    }
}
