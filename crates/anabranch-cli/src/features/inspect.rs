//! `anabranch inspect` with a feature model: the features, the most frequent first.

use std::io::Write;

use serde::Serialize;

use super::{FeatureModel, NAME};
use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::picture::{counted, grouped, significant};
use crate::printing::print_json;

/// What `inspect --json` prints.
#[derive(Serialize)]
struct Inspection {
    model: &'static str,
    family: &'static str,
    mass: f64,
    observations: u64,
    minibatches: u64,
    alpha: f64,
    noise: f64,
    feature_scale: f64,
    seed: u64,
    columns: Vec<String>,
    redirects: Vec<(u64, u64)>,
    components: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    id: u64,
    /// Expected number of rows with the feature.
    count: f64,
    /// Part of the rows with the feature; features overlap, so these do not add up to 1.
    weight: f64,
    mean: Vec<f64>,
    /// Standard deviation of what is known of a cell of the feature.
    spread: f64,
}

/// Cells of a feature that a line has room for.
const CELLS_SHOWN: usize = 6;

/// Runs the command.
pub fn inspect(args: &InspectArgs) -> Result<(), Failure> {
    if args.against.is_some() {
        return Err(Failure::input("--against goes with mixtures"));
    }
    let model = FeatureModel::load(&args.model)?;
    let inspection = look(&model);
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &inspection, "model");
    }
    writeln!(
        out,
        "{}, {}, noise {}, features of size {}, alpha {}",
        counted(inspection.observations, "row"),
        counted(inspection.components.len() as u64, "feature"),
        significant(inspection.noise, 4),
        significant(inspection.feature_scale, 4),
        significant(inspection.alpha, 4)
    )?;
    let columns = inspection.columns.len().min(CELLS_SHOWN);
    for row in inspection.components.iter().take(args.top) {
        let cells: Vec<String> = row.mean[..columns].iter().map(|m| significant(*m, 3)).collect();
        let more = if inspection.columns.len() > columns { " …" } else { "" };
        writeln!(
            out,
            "{:>4}  {:>9} rows  {:>5.1} %  {}{more}",
            row.id,
            grouped(row.count.round()),
            100.0 * row.weight,
            cells.join("  ")
        )?;
    }
    Ok(())
}

fn look(model: &FeatureModel) -> Inspection {
    let posterior = model.fold.posterior();
    let (family, mass) = (posterior.family(), posterior.mass());
    let mut components: Vec<Row> = posterior
        .components()
        .iter()
        .map(|component| {
            let (mean, precision) = family.feature(&component.evidence().stats);
            Row {
                id: component.id().0,
                count: component.expected_count(),
                weight: component.expected_count() / mass.max(f64::MIN_POSITIVE),
                mean,
                spread: precision.sqrt().recip(),
            }
        })
        .collect();
    components.sort_by(|a, b| b.count.total_cmp(&a.count).then(a.id.cmp(&b.id)));
    Inspection {
        model: NAME,
        family: "linear-gaussian",
        mass,
        observations: model.provenance.observations,
        minibatches: model.fold.absorbed().len(),
        alpha: posterior.process().alpha(),
        noise: family.noise().sqrt(),
        feature_scale: family.scale().sqrt(),
        seed: model.provenance.seed,
        columns: model.provenance.schema.names().map(str::to_owned).collect(),
        redirects: posterior.redirects().iter().map(|(from, into)| (from.0, into.0)).collect(),
        components,
    }
}
