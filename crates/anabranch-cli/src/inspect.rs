//! `anabranch inspect`: what a model has learned.

use std::io::Write;

use anabranch::clusters::{Cluster, Clusters};
use anabranch::diagnose::{ComponentDiagnosis, compare};
use anabranch::family::{AnyFamily, Conjugate, Family, Summary};
use anabranch::infer::Between;
use anabranch::posterior::Component;
use anabranch::process::AnyProcess;
use anabranch_io::model::{Model, model_name};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::args::InspectArgs;
use crate::args::half_life::as_flag as as_said;
use crate::columns::Columns;
use crate::doubts::{Doubts, diagnose};
use crate::failure::Failure;
use crate::features;
use crate::fit::{describe, resolution};
use crate::picture::{counted, grouped, significant};
use crate::printing::{constants, dependence, kept_cut, print_json, rounding, uncertainty, without_rows};
use crate::topics;

/// What `inspect --json` prints.
#[derive(Serialize)]
struct Inspection {
    mass: f64,
    /// Rows that do not count any more, and when they count half, where the past fades.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_life: Option<String>,
    observations: u64,
    skipped_rows: u64,
    /// Width of the interval that a value of each column stands for, where any column is rounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<Vec<f64>>,
    /// Values of the columns that are the same in every row, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    constants: Option<Vec<Option<f64>>>,
    /// What was made of the data, a line each.
    #[serde(skip)]
    said: Vec<String>,
    #[serde(skip)]
    shown: Columns,
    model: &'static str,
    family: String,
    prior: serde_json::Value,
    prior_summary: PriorSummary,
    alpha: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    discount: Option<f64>,
    /// Names of the parameters of the process that were learned.
    learned: Vec<&'static str>,
    effective_components: usize,
    /// Between how many components the data cannot tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    components_between: Option<Between>,
    minibatches: u64,
    seed: u64,
    algorithm: String,
    columns: Vec<String>,
    categories: Vec<Option<Vec<String>>>,
    redirects: Vec<(u64, u64)>,
    doubts: Doubts,
    /// The largest first.
    clusters: Vec<Cluster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Against>,
    components: Vec<Row>,
}

/// What the prior expects of a component, in the units of the data.
#[derive(Serialize)]
struct PriorSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    kappa: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dof: Option<f64>,
    #[serde(flatten)]
    summary: Summary,
}

/// How like another model this one is.
#[derive(Serialize)]
struct Against {
    model: String,
    components: usize,
    adjusted_rand: f64,
    divergence: f64,
    rows_drawn: usize,
}

#[derive(Serialize)]
struct Row {
    id: u64,
    cluster: Option<u64>,
    count: f64,
    weight: f64,
    certainty: Option<f64>,
    confused_with: Option<u64>,
    #[serde(flatten)]
    summary: Summary,
    /// How often values of each column are missing, where that is learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Vec<Option<f64>>>,
}

/// Runs the command.
pub fn command(args: &InspectArgs) -> Result<(), Failure> {
    match model_name(&args.model).as_deref() {
        Ok(topics::NAME) => return topics::inspect(args),
        Ok(features::NAME) => return features::inspect(args),
        _ => {}
    }
    let model = Model::load(&args.model)?;
    let mut inspection = inspect(&model)?;
    if let Some(path) = &args.against {
        inspection.comparison = against(&model, &Model::load(path)?, path.display().to_string())?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &inspection, "model");
    }
    print_table(&inspection, args.top, &mut out)
}

fn inspect(model: &Model) -> Result<Inspection, Failure> {
    let (posterior, provenance) = (model.fold.posterior(), &model.provenance);
    let mut components: Vec<&Component> = posterior.components().iter().map(|c| &**c).collect();
    components.sort_by(|a, b| b.expected_count().total_cmp(&a.expected_count()).then(a.id().cmp(&b.id())));
    let clusters = Clusters::of_snapshot(posterior, provenance.cut);
    let mass = posterior.expected_mass();
    let diagnosis = diagnose(posterior);
    let diagnosed = |component: &Component| -> Option<&ComponentDiagnosis> {
        posterior.position(component.id()).and_then(|place| diagnosis.components.get(place))
    };
    let prior = serde_json::to_value(posterior.family())
        .map_err(|error| Failure::Internal { message: format!("cannot print the prior: {error}") })?;
    let columns: Vec<String> = provenance.schema.names().map(str::to_owned).collect();
    let shown = Columns::of(model);
    let said = [
        uncertainty(provenance.between),
        kept_cut(provenance.cut),
        rounding(posterior.family(), &shown),
        constants(&shown),
        dependence(posterior.family(), &shown),
    ];
    Ok(Inspection {
        mass,
        forgotten: posterior.past().half_life.map(|_| posterior.past().forgotten),
        half_life: posterior.past().half_life.map(|half_life| as_said(Some(half_life))),
        resolution: resolution(posterior.family()),
        constants: Some(shown.constants()).filter(|all| all.iter().any(Option::is_some)),
        said: said.into_iter().flatten().collect(),
        observations: provenance.observations,
        skipped_rows: provenance.skipped_rows,
        model: posterior.process().name(),
        family: describe(posterior.family()),
        prior,
        prior_summary: prior_summary(posterior.family(), &shown),
        alpha: posterior.process().alpha(),
        discount: posterior.process().discount().map(|discount| discount.value()),
        learned: learned(posterior.process()),
        effective_components: posterior.effective_components(),
        components_between: provenance.between,
        minibatches: model.fold.absorbed().len(),
        seed: provenance.seed,
        algorithm: provenance.algorithm.clone(),
        columns,
        categories: provenance.schema.columns.iter().map(|column| column.categories.clone()).collect(),
        redirects: posterior.redirects().iter().map(|(from, into)| (from.0, into.0)).collect(),
        doubts: Doubts::from(&diagnosis),
        clusters: clusters.clusters().to_vec(),
        comparison: None,
        components: components
            .iter()
            .map(|component| Row {
                id: component.id().0,
                cluster: clusters.of(component.id()).map(|name| name.0),
                count: component.expected_count(),
                weight: component.expected_count() / mass.max(f64::MIN_POSITIVE),
                certainty: diagnosed(component).and_then(|found| found.certainty),
                confused_with: diagnosed(component).and_then(|found| Some(found.confused_with?.0)),
                summary: shown.settled(posterior.family().summary(&component.evidence().stats)),
                missing: missing(posterior.family(), &component.evidence().stats),
            })
            .collect(),
        shown,
    })
}

fn learned(process: &AnyProcess) -> Vec<&'static str> {
    let alpha = process.concentration().is_learned().then_some("alpha");
    let discount = process.discount().is_some_and(|discount| discount.is_learned()).then_some("discount");
    alpha.into_iter().chain(discount).collect()
}

/// A parameter of the process for people.
fn parameter(inspection: &Inspection, name: &str, value: f64) -> String {
    let learned = if inspection.learned.contains(&name) { " (learned)" } else { "" };
    format!(", {name} {}{learned}", significant(value, 4))
}

/// The numbers of a Gaussian's prior that mean the same in every unit, and what it expects in those of the data.
fn prior_summary(family: &AnyFamily, shown: &Columns) -> PriorSummary {
    let prior = match family {
        AnyFamily::Gaussian(gaussian) => Some(gaussian.prior()),
        _ => None,
    };
    PriorSummary {
        kappa: prior.map(|prior| prior.kappa),
        dof: prior.map(|prior| prior.dof),
        summary: shown.settled(family.summary(&vec![0.0; family.n_features()])),
    }
}

/// Rows on which two models are compared.
const ROWS_COMPARED: usize = 10_000;

fn against(model: &Model, other: &Model, name: String) -> Result<Option<Against>, Failure> {
    if model.provenance.schema != other.provenance.schema {
        return Err(Failure::input(format!("--against {name}: the models have other columns or categories"))
            .with_hint("compare fits of the same columns"));
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
    let (ours, theirs) = (model.fold.posterior(), other.fold.posterior());
    Ok(compare(ours, theirs, ROWS_COMPARED, &mut rng).map(|found| Against {
        model: name,
        components: theirs.components().len(),
        adjusted_rand: found.adjusted_rand,
        divergence: found.divergence,
        rows_drawn: found.rows_drawn,
    }))
}

/// How often values of each column are missing, where that is learned.
fn missing(family: &AnyFamily, stats: &[f64]) -> Option<Vec<Option<f64>>> {
    let mut shares = vec![None; family.dimensions()];
    let absent = family.absent(stats);
    absent.iter().for_each(|(column, share)| shares[*column] = Some(*share));
    (!absent.is_empty()).then_some(shares)
}

/// The same behind a cell.
fn with_missing(cell: String, missing: Option<&Vec<Option<f64>>>, column: usize) -> String {
    match missing.and_then(|columns| columns[column]) {
        Some(share) => format!("{cell}, {:.0} % missing", 100.0 * share),
        None => cell,
    }
}

/// Columns of the data that a line has room for.
const COLUMNS_SHOWN: usize = 6;

fn print_table(inspection: &Inspection, top: usize, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(
        out,
        "{}, {} in {}{}, {} family{}{}",
        counted(inspection.observations, "row"),
        counted(inspection.components.len() as u64, "component"),
        counted(inspection.clusters.iter().filter(|cluster| !cluster.noise).count() as u64, "cluster"),
        without_rows(inspection.components.len(), inspection.effective_components),
        inspection.family,
        parameter(inspection, "alpha", inspection.alpha),
        inspection.discount.map_or_else(String::new, |discount| parameter(inspection, "discount", discount))
    )?;
    if let (Some(kappa), Some(dof)) = (inspection.prior_summary.kappa, inspection.prior_summary.dof) {
        writeln!(out, "prior: kappa {}, {} degrees of freedom", significant(kappa, 3), significant(dof, 3))?;
    }
    for line in &inspection.said {
        writeln!(out, "{line}")?;
    }
    if let (Some(forgotten), Some(half_life)) = (inspection.forgotten, &inspection.half_life) {
        let forgotten = counted(forgotten.round() as u64, "row");
        writeln!(out, "{forgotten} forgotten: half-life {half_life}")?;
    }
    let columns = inspection.columns.len().min(COLUMNS_SHOWN);
    let mut head = ["cluster", "id", "rows", "share"].map(str::to_owned).to_vec();
    head.extend(inspection.shown.names()[..columns].iter().cloned());
    let mut lines = vec![head];
    // Those of the largest cluster first, and in a cluster the largest.
    let mut rows: Vec<&Row> = inspection.components.iter().collect();
    let place = |row: &Row| {
        let own = |cluster: &Cluster| row.cluster == Some(cluster.name.0);
        inspection.clusters.iter().position(own).unwrap_or(usize::MAX)
    };
    rows.sort_by_cached_key(|row| place(row));
    for row in rows.into_iter().take(top) {
        let mut line = vec![
            row.cluster.map_or_else(|| "–".to_owned(), |name| name.to_string()),
            row.id.to_string(),
            grouped(row.count.round()),
            format!("{:.1} %", 100.0 * row.weight),
        ];
        line.extend((0..columns).map(|column| {
            with_missing(inspection.shown.cell(&row.summary, column), row.missing.as_ref(), column)
        }));
        lines.push(line);
    }
    let mut prior = vec![String::new(), "prior".to_owned(), String::new(), String::new()];
    prior.extend((0..columns).map(|column| inspection.shown.cell(&inspection.prior_summary.summary, column)));
    lines.push(prior);
    let n_cells = lines[0].len();
    let width = |ix: usize| lines.iter().map(|line| line[ix].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..n_cells).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    let hidden = inspection.components.len().saturating_sub(top);
    if hidden > 0 {
        writeln!(out, "… and {} (--top N shows more)", counted(hidden as u64, "smaller one"))?;
    }
    if inspection.columns.len() > columns {
        writeln!(out, "columns are the first {columns} of {}; --json has all", inspection.columns.len())?;
    }
    for sentence in inspection.doubts.sentences() {
        writeln!(out, "{sentence}")?;
    }
    if let Some(other) = &inspection.comparison {
        writeln!(
            out,
            "against {} ({}): labels agree with an adjusted Rand index of {:.3}, densities differ by {} nats a row",
            other.model,
            counted(other.components as u64, "component"),
            other.adjusted_rand,
            significant(other.divergence, 2)
        )?;
    }
    Ok(())
}
