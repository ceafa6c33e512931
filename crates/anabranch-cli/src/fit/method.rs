//! The algorithm of a run: the engine, or one of those that the paper compares it with.

use anabranch::central::{BatchId, Central, Fold};
use anabranch::engine::{BatchSource, Event, Observer};
use anabranch::family::{AnyFamily, Family};
use anabranch::infer::{PriorChoice, Settings};
use anabranch::learner::run::Run;
use anabranch::process::{AnyProcess, Dirichlet};
use anabranch_rivals as rivals;

use super::watch::Watch;
use crate::args::{Algorithm, EngineArgs, RivalArgs};
use crate::failure::Failure;
use crate::reading::Minibatches;

/// Which algorithm learns, with what it needs besides the flags of the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// Streaming, distributed, asynchronous: the engine.
    Sda,
    /// Another one, over rows that are held in memory.
    Rival(Rival),
}

/// An algorithm with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    algorithm: rivals::Algorithm,
    config: rivals::Config,
}

impl Method {
    /// What the flags ask for.
    pub fn new(algorithm: Algorithm, rival: &RivalArgs, engine: &EngineArgs) -> Result<Self, Failure> {
        let algorithm = match algorithm {
            Algorithm::Sda => return Ok(Self::Sda),
            Algorithm::Batch => rivals::Algorithm::Batch,
            Algorithm::Svi => rivals::Algorithm::Svi,
            Algorithm::Movb => rivals::Algorithm::Movb,
            Algorithm::Sva => rivals::Algorithm::Sva,
            Algorithm::Subcluster => rivals::Algorithm::Subcluster,
        };
        let rate = rivals::Rate::new(rival.rate_delay, rival.rate_power)
            .map_err(|error| Failure::input(format!("--rate-delay and --rate-power: {error}")))?;
        let config = rivals::Config {
            threads: engine.parallelism().0,
            seed: engine.seed,
            truncation: rival.truncation as usize,
            batch_size: engine.batch_size as usize,
            iterations: rival.iterations.map(|n| n as usize),
            rate,
            ..rivals::Config::default()
        };
        Ok(Self::Rival(Rival { algorithm, config }))
    }

    /// The name in reports and model files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sda => "sda",
            Self::Rival(rival) => rival.algorithm.name(),
        }
    }
}

impl Rival {
    /// Reads all rows, takes the prior that the engine would have, and runs.
    pub(super) fn fit(
        &self,
        run: &Run<AnyFamily, AnyProcess, Settings>,
        stream: &mut Minibatches,
        observer: &mut Watch<'_>,
    ) -> Result<Fold<AnyFamily, AnyProcess>, Failure> {
        let (prior, config) = (run.centre().snapshot(), run.config());
        let mut values = Vec::new();
        while let Some((_, batch)) = stream.next()? {
            values.extend_from_slice(batch.values());
        }
        let rows =
            anabranch::batch::Batch::new(prior.family().dimensions(), values).map_err(Failure::input)?;
        let family = match config.prior {
            PriorChoice::Estimated if config.bootstrap_rows > 0 => {
                let mut first = std::iter::once(rows.head(config.bootstrap_rows)).enumerate();
                let scratch = Central::new(prior.family().clone(), *prior.process());
                let scratch = Run::new(scratch, config.clone());
                let Ok(_) = scratch.begin(&mut first, &mut ());
                scratch.centre().snapshot().family().clone()
            }
            _ => prior.family().clone(),
        };
        debug_assert!(
            !run.centre().checkpoint().absorbed().contains(BatchId(0)),
            "a rival starts from nothing"
        );
        let AnyProcess::Dirichlet(process) = *prior.process() else {
            return Err(Failure::input("the other algorithms are for the Dirichlet process"));
        };
        let mut watch = |event: &Event, central: &Central<AnyFamily, Dirichlet>| {
            observer.observe(event, &Central::from_fold(central.checkpoint().under(process.into())))
        };
        let fitted = rivals::fit(self.algorithm, &rows, family, process, &self.config, &mut watch);
        match fitted {
            Ok(fitted) => Ok(fitted.fold.under(process.into())),
            Err(error @ rivals::FitError::Improper(_)) => {
                Err(Failure::Internal { message: error.to_string() })
            }
            Err(error) => Err(Failure::input(error)),
        }
    }
}
