//! `fit --from`: a model that a run goes on from.

use std::path::{Path, PathBuf};

use anabranch::central::Memory;
use anabranch::infer::PriorChoice;
use anabranch_io::model::{Model, model_name};

use super::checkpoint::STREAM;
use crate::args::{FitArgs, ModelKind, half_life};
use crate::failure::Failure;
use crate::{features, topics};

/// The algorithm whose models go on.
const ALGORITHM: &str = "sda";

/// A finished model, and what a run that goes on from it remembers.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The model.
    pub model: Model,
    /// Rows that stand for those that it has learned from.
    pub memory: Memory,
}

/// Refuses models of topics and of features for what goes with mixtures alone.
pub(crate) fn require_mixture(what: &str, path: &Path) -> Result<(), Failure> {
    let kind = model_name(path)?;
    match [topics::NAME, features::NAME].contains(&kind.as_str()) {
        true => Err(Failure::input(format!(
            "{what} belongs to --model dp or py; {} is of --model {kind}",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// The file of a model, or of the state of a stream in the folder of its checkpoints.
pub(crate) fn stored_model(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(STREAM) } else { path.to_owned() }
}

/// What kind of model that is.
pub(crate) fn kind_of(path: &Path) -> Result<ModelKind, Failure> {
    Ok(match model_name(&stored_model(path))?.as_str() {
        topics::NAME => ModelKind::Hdp,
        features::NAME => ModelKind::Bp,
        _ => ModelKind::Dp,
    })
}

impl Begun {
    /// Reads a model that can go on, or the state of a stream in the folder of its checkpoints.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let path = &stored_model(path);
        let shown = path.display();
        let (model, memory, _) = Model::load_checkpoint(path)?;
        let algorithm = &model.provenance.algorithm;
        if algorithm != ALGORITHM {
            return Err(Failure::input(format!(
                "--from belongs to --algorithm {ALGORITHM}; {shown} was fitted by {algorithm}"
            )));
        }
        let (model, memory) = model.going_on(memory);
        Ok(Self { model, memory })
    }

    /// The first minibatch of the run.
    pub fn start(&self) -> u64 {
        self.model.fold.absorbed().next()
    }

    /// Whether the prior stays as it was given.
    pub fn prior(&self) -> PriorChoice {
        if self.model.provenance.prior_given { PriorChoice::Given } else { PriorChoice::Estimated }
    }

    /// The flags of a run with the settings of the model.
    pub fn settle(&self, args: &FitArgs) -> FitArgs {
        let mut args = args.clone();
        let provenance = &self.model.provenance;
        let rows = |rows: u64| u32::try_from(rows).unwrap_or(u32::MAX).max(1);
        args.engine.seed = provenance.seed;
        // A half-life of its own has minibatches that suit it.
        if half_life::minibatches(args.half_life, args.engine.batch_size).is_none() {
            args.engine.batch_size = rows(provenance.batch_size);
        }
        args.engine.bootstrap = Some(rows(provenance.bootstrap_rows));
        args.engine.alpha = self.model.fold.posterior().process().concentration();
        args
    }
}
