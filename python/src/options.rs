//! The parameters of an estimator, checked once, and what the engine makes of them.

use anabranch::engine::{BOOTSTRAP_ROWS, Config, Schedule, WORKERS};
use anabranch::identify::Identification;
use anabranch::infer::{PriorChoice, Settings};
use anabranch::process::{AnyProcess, Bound, Parameter};
use anabranch_cli::FamilySpec;
use anabranch_cli::args::{Algorithm, ModelKind, OnOff, PriorArgs, half_life};
use anabranch_cli::request::{Begin, Place, Request};
use serde::{Deserialize, Serialize};

use crate::error::Fault;

/// The parameters as Python gives them; names and meanings are those of the command line's flags.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub family: String,
    pub alpha: Parameter,
    #[serde(default)]
    pub discount: Option<Parameter>,
    pub bound: Bound,
    pub prior_mean: Option<String>,
    pub prior_kappa: Option<f64>,
    pub prior_scale: Option<String>,
    pub prior_dof: Option<f64>,
    #[serde(default)]
    pub resolution: Option<String>,
    pub batch_size: usize,
    pub bootstrap: Option<usize>,
    #[serde(default)]
    pub polish: Option<usize>,
    pub max_new: usize,
    #[serde(default)]
    pub max_components: Option<usize>,
    #[serde(default)]
    pub half_life: Option<String>,
    pub threads: usize,
    pub workers: Option<usize>,
    pub schedule: ScheduleName,
    pub seed: u64,
}

/// When minibatches join.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleName {
    Free,
    Deterministic,
}

impl Options {
    /// Parses and checks.
    pub fn parse(json: &str) -> Result<Self, Fault> {
        let mut options: Self = serde_json::from_str(json).map_err(Fault::input)?;
        options.request().check(options.given())?;
        options.spec()?.check_prior(&options.prior())?;
        options.process()?;
        let half_life = options.half_life.as_deref().map(half_life::half_life).transpose();
        let half_life = half_life.map_err(|expected| Fault::input(format!("half_life: not {expected}")))?;
        let usual = u32::try_from(options.batch_size).unwrap_or(u32::MAX);
        if let Some((first, further)) = half_life::minibatches(half_life, usual) {
            options.bootstrap = options.bootstrap.or(Some(first as usize));
            options.batch_size = options.batch_size.min(further as usize);
        }
        Ok(options)
    }

    /// What the parameters ask for, as the table of the command line sees it.
    fn request(&self) -> Request {
        let model = if self.discount.is_some() { ModelKind::Py } else { ModelKind::Dp };
        Request {
            model,
            algorithm: Algorithm::Sda,
            place: Place::Here,
            identify: OnOff::On,
            begin: Begin::Anew,
            forgets: self.half_life.is_some(),
        }
    }

    /// The parameters that are not left to what is usual, by their names.
    fn given(&self) -> Vec<&'static str> {
        let always = ["family", "alpha", "bound", "batch_size", "max_new", "threads", "schedule", "seed"];
        let optional = [
            ("discount", self.discount.is_some()),
            ("prior_mean", self.prior_mean.is_some()),
            ("prior_kappa", self.prior_kappa.is_some()),
            ("prior_scale", self.prior_scale.is_some()),
            ("prior_dof", self.prior_dof.is_some()),
            ("resolution", self.resolution.is_some()),
            ("bootstrap", self.bootstrap.is_some()),
            ("polish", self.polish.is_some()),
            ("workers", self.workers.is_some()),
            ("max_components", self.max_components.is_some()),
            ("half_life", self.half_life.is_some()),
        ];
        let there = optional.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
        always.into_iter().chain(there).collect()
    }

    /// What a component is.
    pub fn spec(&self) -> Result<FamilySpec, Fault> {
        Ok(FamilySpec::parse(&self.family)?)
    }

    /// The prior, as the flags of the command line hold it.
    pub fn prior(&self) -> PriorArgs {
        PriorArgs {
            prior: None,
            prior_mean: self.prior_mean.clone(),
            prior_kappa: self.prior_kappa,
            prior_scale: self.prior_scale.clone(),
            prior_dof: self.prior_dof,
            resolution: self.resolution.clone(),
        }
    }

    /// How many components there are.
    pub fn process(&self) -> Result<AnyProcess, Fault> {
        AnyProcess::new(self.alpha, self.discount, self.bound).map_err(Fault::input)
    }

    /// Rows of the first minibatch, which is learned alone; 0 when the workers start at once.
    pub fn bootstrap_rows(&self) -> usize {
        self.bootstrap.unwrap_or(BOOTSTRAP_ROWS)
    }

    /// Rows of the first minibatch, learned alone or not.
    pub fn first_rows(&self) -> usize {
        match self.bootstrap_rows() {
            0 => self.batch_size,
            rows => rows,
        }
    }

    /// How a run is carried out.
    pub fn config(&self) -> Config {
        let (schedule, workers) = match (self.schedule, self.workers) {
            (ScheduleName::Free, workers) => (Schedule::Free, workers.unwrap_or(self.threads)),
            (ScheduleName::Deterministic, Some(workers)) => (Schedule::Deterministic, workers),
            (ScheduleName::Deterministic, None) => (Schedule::Growing, WORKERS),
        };
        Config {
            threads: self.threads,
            workers,
            schedule,
            seed: self.seed,
            identification: Identification::Optimal,
            inference: self.settings(),
            prior: self.prior_choice(),
            bootstrap_rows: self.bootstrap_rows(),
            upkeep: true,
            polish: self.polish,
            max_components: self.max_components,
            // It was one when it was parsed.
            half_life: self.half_life.as_deref().and_then(|text| half_life::half_life(text).ok()),
        }
    }

    /// Minibatch inference.
    pub fn settings(&self) -> Settings {
        Settings { max_new: self.max_new, ..Settings::default() }
    }

    fn prior_choice(&self) -> PriorChoice {
        self.prior().choice()
    }
}
