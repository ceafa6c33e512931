//! Models, and what only some of them understand; priors.

use std::path::PathBuf;

use anabranch::infer::PriorChoice;
use anabranch::process::Parameter;
use clap::{Args, ValueEnum};

/// Which nonparametric model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModelKind {
    /// Dirichlet process mixture
    #[default]
    Dp,
    /// Pitman–Yor mixture: sizes that fall like a power, with many small clusters
    Py,
    /// Hierarchical Dirichlet process topics of documents
    Hdp,
    /// Beta process features: a row has any number of them, and they add up
    Bp,
}

/// What a concentration that is to be learned starts from.
pub const LEARNED_CONCENTRATION: Parameter = Parameter::Learned { learned: 5.0 };
/// The discount of a Pitman–Yor mixture, unless told.
pub const DISCOUNT: Parameter = Parameter::Given(0.5);
/// What a discount that is to be learned starts from.
pub const LEARNED_DISCOUNT: Parameter = Parameter::Learned { learned: 0.5 };

pub(super) fn concentration(text: &str) -> Result<Parameter, String> {
    parameter(text, LEARNED_CONCENTRATION)
}

pub(super) fn discount(text: &str) -> Result<Parameter, String> {
    parameter(text, LEARNED_DISCOUNT)
}

/// A number, or `auto`.
fn parameter(text: &str, auto: Parameter) -> Result<Parameter, String> {
    match text.trim() {
        "auto" => Ok(auto),
        number => match number.parse() {
            Ok(value) => Ok(Parameter::Given(value)),
            Err(_) => Err("neither a number nor `auto`".to_owned()),
        },
    }
}

/// A part of a whole.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "expected a number above 0 and up to 1".to_owned())
}

/// What only `--model hdp` understands.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct TopicArgs {
    /// hdp: the words of the documents, one a line in the order of their numbers
    #[arg(long, value_name = "FILE")]
    pub vocabulary: Option<PathBuf>,
    /// hdp: words that the vocabulary may grow to along the stream; 20,000 for text, and for JSON lines without --text no
    /// more than the first minibatch has
    #[arg(long, value_name = "WORDS", conflicts_with = "vocabulary",
          value_parser = clap::value_parser!(u32).range(2..=4_194_304))]
    pub vocabulary_size: Option<u32>,
    /// hdp: documents that have a word before it is taken; 2 of the first minibatch and 5 later on, unless told
    #[arg(long, value_name = "DOCUMENTS", conflicts_with = "vocabulary",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub min_documents: Option<u32>,
    /// hdp: share of the documents of the first minibatch, from 0 to 1, above which a word is left out
    #[arg(long, value_name = "SHARE", conflicts_with = "vocabulary", value_parser = share)]
    pub max_documents: Option<f64>,
    /// hdp: words that are left out of texts: `english`, `none`, or a file with one a line
    #[arg(long, value_name = "WHICH", default_value = ENGLISH)]
    pub stop_words: String,
    /// hdp: characters that a word of a text has at least
    #[arg(long, value_name = "CHARACTERS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub min_length: u32,
    /// hdp: words that follow each other often in the first minibatch, as prime minister, become one: prime_minister
    #[arg(long, conflicts_with = "vocabulary")]
    pub phrases: bool,
    /// hdp: concentration of the topics: larger expects more of them; learned unless given
    #[arg(long, allow_hyphen_values = true, value_name = "GAMMA")]
    pub gamma: Option<f64>,
    /// hdp: concentration of a document: larger expects more topics in each; learned unless given
    #[arg(long, allow_hyphen_values = true, value_name = "ALPHA0")]
    pub alpha0: Option<f64>,
    /// hdp: pseudo-count of each word in a topic: smaller expects topics of fewer words; learned unless given
    #[arg(long, allow_hyphen_values = true, value_name = "ETA")]
    pub eta: Option<f64>,
}

impl Default for TopicArgs {
    fn default() -> Self {
        Self {
            vocabulary: None,
            vocabulary_size: None,
            min_documents: None,
            max_documents: None,
            stop_words: ENGLISH.to_owned(),
            min_length: 2,
            phrases: false,
            gamma: None,
            alpha0: None,
            eta: None,
        }
    }
}

/// The list of stop words that comes with the program.
pub const ENGLISH: &str = "english";

/// What only `--model bp` understands.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct FeatureArgs {
    /// bp: standard deviation of the noise, in the units of the data; learned with --feature-scale unless both are given
    #[arg(long, allow_hyphen_values = true, value_name = "SD")]
    pub noise: Option<f64>,
    /// bp: standard deviation of the cells of a feature
    #[arg(long, allow_hyphen_values = true, value_name = "SD")]
    pub feature_scale: Option<f64>,
    /// bp: rows are pictures of this height and width, and the report shows the features so
    #[arg(long, value_name = "HxW", requires = "report")]
    pub image: Option<String>,
}

/// The prior of the components, in the units of the data.
#[derive(Args, Clone, Debug, Default)]
pub struct PriorArgs {
    /// `auto` estimates the prior from the components of the first minibatch; the default unless a flag below is given
    #[arg(long, value_name = "auto")]
    pub prior: Option<PriorKind>,
    /// Expected mean of a component: a number, a comma list for the columns, or a file
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub prior_mean: Option<String>,
    /// Rows that the prior mean counts for
    #[arg(long, allow_hyphen_values = true, value_name = "ROWS")]
    pub prior_kappa: Option<f64>,
    /// Diagonal of the scatter matrix Ψ₀ (categorical, multinomial: pseudo-count of a cell): number, comma list or file
    #[arg(long, allow_hyphen_values = true, value_name = "VALUE")]
    pub prior_scale: Option<String>,
    /// Degrees of freedom of the covariance (gaussian, diagonal, spherical)
    #[arg(long, allow_hyphen_values = true, value_name = "NU")]
    pub prior_dof: Option<f64>,
    /// Width of the interval that a rounded value stands for: `auto` finds it column by column, 0 takes values as exact;
    /// a number, a comma list for the columns, or a file
    #[arg(long, allow_hyphen_values = true, value_name = "WIDTH")]
    pub resolution: Option<String>,
}

impl PriorArgs {
    /// The flags that say something about the prior.
    pub fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("--prior-mean", self.prior_mean.is_some()),
            ("--prior-kappa", self.prior_kappa.is_some()),
            ("--prior-scale", self.prior_scale.is_some()),
            ("--prior-dof", self.prior_dof.is_some()),
        ];
        flags.into_iter().filter(|(_, is_there)| *is_there).map(|(flag, _)| flag).collect()
    }

    /// Given when any of its numbers is.
    pub fn choice(&self) -> PriorChoice {
        if self.given().is_empty() { PriorChoice::Estimated } else { PriorChoice::Given }
    }
}

/// Where the prior comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PriorKind {
    /// From the data
    #[default]
    Auto,
}
