//! `anabranch predict` with a feature model: which features each row has, how probable each is, or how well it is explained.

use std::io::{BufWriter, Write};

use anabranch::posterior::{FeaturePredictor, RowFeatures};
use anabranch_io::ReadOptions;

use super::FeatureModel;
use crate::args::PredictArgs;
use crate::failure::Failure;
use crate::predict::unless_stopped;
use crate::reading::{ROWS_AT_ONCE, open_inputs, options};
use crate::stop;

/// A row has a feature that is more probable than not.
const HAS: f64 = 0.5;

/// Runs the command: a line for each row, with 0 or 1 for each feature, its probability (`--proba`), or the lower bound of
/// the log density with the root mean squared error of the reconstruction (`--score`).
pub fn predict(args: &PredictArgs) -> Result<(), Failure> {
    args.refuse_what_goes_with_mixtures()?;
    if args.worst.is_some() {
        return Err(Failure::input("--worst goes with mixtures")
            .with_hint("sort the lines of --score by their reconstruction error"));
    }
    let model = FeatureModel::load(&args.model)?;
    let options = ReadOptions { expect: Some(model.provenance.schema.clone()), ..options(&args.read)? };
    let mut source = open_inputs(&args.inputs, &options)?;
    let predictor = FeaturePredictor::new(model.fold.posterior());
    let names: Vec<String> = predictor.ids().iter().map(|id| format!("feature_{id}")).collect();
    let mut out = BufWriter::new(std::io::stdout().lock());
    if !args.json {
        let header =
            if args.score { "log_density_bound,reconstruction_error".to_owned() } else { names.join(",") };
        writeln!(out, "{header}")?;
    }
    let mut seen = 0;
    while let Some(batch) = source.next_batch(ROWS_AT_ONCE)? {
        if stop::asked() {
            break;
        }
        seen += batch.n_rows() as u64;
        for row in batch.rows() {
            let found = predictor.look(row);
            match args.json {
                true => writeln!(out, "{}", json(args, &predictor, &found, row))?,
                false => writeln!(out, "{}", line(args, &found, row))?,
            }
        }
    }
    out.flush()?;
    unless_stopped(None, seen)
}

fn error(found: &RowFeatures, row: &[f64]) -> f64 {
    let square: f64 = row.iter().zip(&found.reconstruction).map(|(x, r)| (x - r) * (x - r)).sum();
    (square / row.len() as f64).sqrt()
}

fn line(args: &PredictArgs, found: &RowFeatures, row: &[f64]) -> String {
    let cells: Vec<String> = match (args.score, args.proba.is_some()) {
        (true, _) => vec![found.ln_density_bound.to_string(), error(found, row).to_string()],
        (false, true) => found.probabilities.iter().map(f64::to_string).collect(),
        (false, false) => found.probabilities.iter().map(|p| u8::from(*p > HAS).to_string()).collect(),
    };
    cells.join(",")
}

fn json(
    args: &PredictArgs,
    predictor: &FeaturePredictor,
    found: &RowFeatures,
    row: &[f64],
) -> serde_json::Value {
    let pairs = || predictor.ids().iter().zip(&found.probabilities);
    match (args.score, args.proba.is_some()) {
        (true, _) => serde_json::json!({
            "log_density_bound": found.ln_density_bound,
            "reconstruction_error": error(found, row),
        }),
        (false, true) => {
            let all = pairs().map(|(id, p)| (id.to_string(), serde_json::json!(p)));
            serde_json::json!({ "probabilities": all.collect::<serde_json::Map<_, _>>() })
        }
        (false, false) => {
            let has: Vec<u64> = pairs().filter(|(_, p)| **p > HAS).map(|(id, _)| id.0).collect();
            serde_json::json!({ "features": has })
        }
    }
}
