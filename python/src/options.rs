//! The parameters of estimators, checked once, and what the engine makes of them.

use anabranch::engine::{BOOTSTRAP_ROWS, Config};
use anabranch::family::{LinearGaussian, PriorError, Topic};
use anabranch::infer::{FeatureSettings, Settings, TopicSettings};
use anabranch::posterior::HalfLife;
use anabranch::process::{AnyProcess, Beta, Bound, Hierarchical, Parameter};
use anabranch_cli::args::{
    Algorithm, BoundKind, EngineArgs, FeatureArgs, ModelKind, OnOff, PrecisionKind, PriorArgs, ScheduleKind,
    TopicArgs, half_life,
};
use anabranch_cli::request::{Begin, Place, Request};
use anabranch_cli::{FamilySpec, feature_family, features_asked, topic_family, topics_asked};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Fault;

/// The parameters that every estimator has; names and meanings are those of the command line's flags.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineOptions {
    pub bound: Bound,
    pub batch_size: usize,
    pub bootstrap: Option<usize>,
    pub max_new: usize,
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

impl EngineOptions {
    /// The same as flags of the command line.
    fn args(&self, alpha: Parameter) -> EngineArgs {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        EngineArgs {
            batch_size: small(self.batch_size),
            max_new: self.max_new,
            bootstrap: self.bootstrap.map(small),
            threads: Some(small(self.threads)),
            workers: self.workers.map(small),
            schedule: match self.schedule {
                ScheduleName::Free => ScheduleKind::Free,
                ScheduleName::Deterministic => ScheduleKind::Deterministic,
            },
            seed: self.seed,
            alpha,
            identify: OnOff::On,
            bound: match self.bound {
                Bound::Paper => BoundKind::Paper,
                Bound::Conditional => BoundKind::Conditional,
            },
            precision: PrecisionKind::Mixed,
        }
    }

    /// Those that are not left to what is usual, and those of a kind of estimator, by their names.
    fn given(&self, own: &[(&'static str, bool)]) -> Vec<&'static str> {
        let always = ["bound", "batch_size", "max_new", "threads", "schedule", "seed"];
        let optional = [("bootstrap", self.bootstrap.is_some()), ("workers", self.workers.is_some())];
        let there = optional.iter().chain(own).filter(|(_, is_there)| *is_there).map(|(name, _)| *name);
        always.into_iter().chain(there).collect()
    }
}

/// What parameters ask for, as the table of the command line sees it.
fn request(model: ModelKind, forgets: bool) -> Request {
    let (algorithm, place, identify) = (Algorithm::Sda, Place::Here, OnOff::On);
    Request { model, algorithm, place, identify, begin: Begin::Anew, forgets }
}

/// Parameters of an estimator of one kind.
pub trait Parameters: Serialize + DeserializeOwned {
    /// Refuses what does not go together.
    fn checked(self) -> Result<Self, Fault>;

    /// Parses and checks.
    fn parse(json: &str) -> Result<Self, Fault> {
        serde_json::from_str::<Self>(json).map_err(Fault::input)?.checked()
    }
}

/// The parameters of topics.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TopicOptions {
    #[serde(flatten)]
    pub engine: EngineOptions,
    pub gamma: Option<f64>,
    pub alpha0: Option<f64>,
    pub eta: Option<f64>,
    pub passes: Option<u32>,
}

impl TopicOptions {
    fn args(&self) -> TopicArgs {
        TopicArgs { gamma: self.gamma, alpha0: self.alpha0, eta: self.eta, ..TopicArgs::default() }
    }

    /// The process, and how a run is carried out.
    pub fn asked(&self) -> Result<(Hierarchical, Config<TopicSettings>), Fault> {
        Ok(topics_asked(&self.args(), &self.engine.args(Parameter::Given(1.0)))?)
    }

    /// The topics over so many words.
    pub fn family(&self, n_words: usize) -> Result<Topic, PriorError> {
        topic_family(&self.args(), n_words)
    }
}

impl Parameters for TopicOptions {
    fn checked(self) -> Result<Self, Fault> {
        let own = [
            ("gamma", self.gamma.is_some()),
            ("alpha0", self.alpha0.is_some()),
            ("eta", self.eta.is_some()),
            ("passes", self.passes.is_some()),
        ];
        request(ModelKind::Hdp, false).check(self.engine.given(&own))?;
        self.asked()?;
        self.family(1).map_err(Fault::input)?;
        Ok(self)
    }
}

/// The parameters of features.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FeatureOptions {
    #[serde(flatten)]
    pub engine: EngineOptions,
    pub alpha: Parameter,
    pub noise: Option<f64>,
    pub feature_scale: Option<f64>,
    pub passes: Option<u32>,
}

impl FeatureOptions {
    fn args(&self) -> FeatureArgs {
        FeatureArgs { noise: self.noise, feature_scale: self.feature_scale, image: None }
    }

    /// The process, and how a run is carried out.
    pub fn asked(&self) -> Result<(Beta, Config<FeatureSettings>), Fault> {
        Ok(features_asked(&self.args(), &self.engine.args(self.alpha))?)
    }

    /// The features of rows of so many columns.
    pub fn family(&self, columns: usize) -> Result<LinearGaussian, Fault> {
        Ok(feature_family(&self.args(), columns)?.0)
    }
}

impl Parameters for FeatureOptions {
    fn checked(self) -> Result<Self, Fault> {
        let own = [
            ("alpha", true),
            ("noise", self.noise.is_some()),
            ("feature_scale", self.feature_scale.is_some()),
            ("passes", self.passes.is_some()),
        ];
        request(ModelKind::Bp, false).check(self.engine.given(&own))?;
        self.asked()?;
        self.family(1)?;
        Ok(self)
    }
}

/// The parameters of a mixture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    #[serde(flatten)]
    pub engine: EngineOptions,
    pub family: String,
    pub alpha: Parameter,
    #[serde(default)]
    pub discount: Option<Parameter>,
    pub prior_mean: Option<String>,
    pub prior_kappa: Option<f64>,
    pub prior_scale: Option<String>,
    pub prior_dof: Option<f64>,
    #[serde(default)]
    pub resolution: Option<String>,
    #[serde(default)]
    pub polish: Option<usize>,
    #[serde(default)]
    pub max_components: Option<usize>,
    #[serde(default)]
    pub half_life: Option<String>,
    #[serde(default)]
    pub missing_informative: Option<String>,
}

impl Parameters for Options {
    fn checked(mut self) -> Result<Self, Fault> {
        let own = [
            ("family", true),
            ("alpha", true),
            ("discount", self.discount.is_some()),
            ("prior_mean", self.prior_mean.is_some()),
            ("prior_kappa", self.prior_kappa.is_some()),
            ("prior_scale", self.prior_scale.is_some()),
            ("prior_dof", self.prior_dof.is_some()),
            ("resolution", self.resolution.is_some()),
            ("polish", self.polish.is_some()),
            ("max_components", self.max_components.is_some()),
            ("half_life", self.half_life.is_some()),
            ("missing_informative", self.missing_informative.is_some()),
        ];
        let model = if self.discount.is_some() { ModelKind::Py } else { ModelKind::Dp };
        request(model, self.half_life.is_some()).check(self.engine.given(&own))?;
        self.spec()?.check_prior(&self.prior())?;
        self.process()?;
        let text = self.half_life.as_deref();
        let not_one =
            |expected| Fault::input(format!("half_life: {:?} is not {expected}", text.unwrap_or_default()));
        let half_life = text.map(half_life::half_life).transpose().map_err(not_one)?;
        let EngineOptions { bootstrap, batch_size, .. } = &mut self.engine;
        let usual = u32::try_from(*batch_size).unwrap_or(u32::MAX);
        if let Some((first, further)) = half_life::minibatches(half_life, usual) {
            *bootstrap = bootstrap.or(Some(first as usize));
            *batch_size = (*batch_size).min(further as usize);
        }
        Ok(self)
    }
}

impl Options {
    /// What a component is.
    pub fn spec(&self) -> Result<FamilySpec, Fault> {
        Ok(FamilySpec::parse(&self.family)?.with_absence(self.missing_informative.as_deref())?)
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
        AnyProcess::new(self.alpha, self.discount, self.engine.bound).map_err(Fault::input)
    }

    fn half_life(&self) -> Option<HalfLife> {
        // It was one when it was parsed.
        self.half_life.as_deref().and_then(|text| half_life::half_life(text).ok())
    }

    /// Seconds after which a row counts half, where rows fade so.
    pub fn fades(&self) -> Option<f64> {
        match self.half_life() {
            Some(HalfLife::Seconds(seconds)) => Some(seconds),
            Some(HalfLife::Rows(_) | HalfLife::Auto) | None => None,
        }
    }

    /// Rows of the first minibatch, which is learned alone; 0 when the workers start at once.
    pub fn bootstrap_rows(&self) -> usize {
        self.engine.bootstrap.unwrap_or(BOOTSTRAP_ROWS)
    }

    /// Rows of the first minibatch, learned alone or not.
    pub fn first_rows(&self) -> usize {
        match self.bootstrap_rows() {
            0 => self.engine.batch_size,
            rows => rows,
        }
    }

    /// How a run is carried out.
    pub fn config(&self) -> Config {
        let settings = Settings { max_new: self.engine.max_new, ..Settings::default() };
        let args = self.engine.args(self.alpha);
        Config {
            polish: self.polish,
            max_components: self.max_components,
            half_life: self.half_life(),
            ..args.config(settings, self.prior().choice(), self.bootstrap_rows())
        }
    }
}
