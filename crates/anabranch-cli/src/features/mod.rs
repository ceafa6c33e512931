//! `--model bp`: rows that have any number of features, which add up (linear-Gaussian beta process).

mod demo;
mod fit;
mod inspect;
mod page;
mod predict;

use anabranch::batch::Batch;
use anabranch::engine::Config;
use anabranch::family::LinearGaussian;
use anabranch::infer::{FeatureSettings, PriorChoice};
use anabranch::posterior::FeaturePredictor;
use anabranch::process::{Beta, Parameter};
use anabranch_io::model::StoredModel;

pub(crate) use demo::Pictures;
pub use demo::demo;
pub use fit::fit;
pub use inspect::inspect;
pub use predict::predict;

use crate::args::{BoundKind, EngineArgs, FeatureArgs};
use crate::failure::Failure;
use crate::reading::Largest;

/// What `--model` says.
pub const NAME: &str = "bp";

/// Rows of the first minibatch, unless told.
pub const BOOTSTRAP_ROWS: usize = 2000;

/// The domain of features.
pub const LARGEST: Largest = Largest(LinearGaussian::LARGEST, LinearGaussian::DOMAIN);

/// A stored feature model.
pub type FeatureModel = StoredModel<LinearGaussian, Beta>;

/// The variances, given or to be learned; rows have this many columns.
pub fn family(args: &FeatureArgs, dimensions: usize) -> Result<(LinearGaussian, PriorChoice), Failure> {
    let square = |flag: &str, deviation: f64| match deviation.is_finite() && deviation > 0.0 {
        true => Ok(deviation * deviation),
        false => Err(Failure::input(format!("{flag}: {deviation} is not a finite number above 0"))),
    };
    let (noise, scale, choice) = match (args.noise, args.feature_scale) {
        (Some(noise), Some(scale)) => {
            (square("--noise", noise)?, square("--feature-scale", scale)?, PriorChoice::Given)
        }
        (None, None) => (1.0, 1.0, PriorChoice::Estimated),
        _ => {
            return Err(Failure::input("--noise and --feature-scale go together")
                .with_hint("give both, or none: then both are learned from the first minibatch"));
        }
    };
    let family = LinearGaussian::new(dimensions, noise, scale);
    Ok((family.map_err(|error| Failure::input(error.to_string()))?, choice))
}

/// What the flags ask for: the process, and how the run is carried out.
pub fn asked(features: &FeatureArgs, args: &EngineArgs) -> Result<(Beta, Config<FeatureSettings>), Failure> {
    let process = process(args.alpha, args.bound)?;
    let (_, prior) = family(features, 1)?;
    let inference = FeatureSettings { max_new: args.max_new, ..FeatureSettings::default() };
    Ok((process, args.config(inference, prior, args.bootstrap_rows(BOOTSTRAP_ROWS))))
}

/// The process that the flags ask for.
pub fn process(alpha: Parameter, bound: BoundKind) -> Result<Beta, Failure> {
    Beta::new(alpha, 1.0, bound.into()).map_err(|error| Failure::input(format!("--alpha: {error}")))
}

/// How well rows are explained.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Explained {
    /// Root of the mean squared difference between a cell and its reconstruction.
    error: f64,
    /// Mean lower bound of the log density of a row.
    ln_density: f64,
}

/// Root of the mean squared difference between a cell and its reconstruction.
pub(crate) fn reconstruction_error(predictor: &FeaturePredictor, rows: &Batch) -> Option<f64> {
    explained(predictor, rows).map(|found| found.error)
}

fn explained(predictor: &FeaturePredictor, rows: &Batch) -> Option<Explained> {
    let (mut square, mut ln_density) = (0.0, 0.0);
    for row in rows.rows() {
        let found = predictor.look(row);
        square += row.iter().zip(&found.reconstruction).map(|(x, r)| (x - r) * (x - r)).sum::<f64>();
        ln_density += found.ln_density_bound;
    }
    let cells = rows.values().len();
    (cells > 0).then(|| Explained {
        error: (square / cells as f64).sqrt(),
        ln_density: ln_density / rows.n_rows() as f64,
    })
}
