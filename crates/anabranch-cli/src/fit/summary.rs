//! The result for people: a few lines on standard output, and the report.

use std::io::Write;
use std::path::Path;

use anabranch::clusters::{Cluster, Clusters, Difference, RowClusters, Tree};
use anabranch::diagnose::Worst;
use anabranch::family::{Family, Summary, bulk};
use anabranch::posterior::{Ask, Predictor};

use anabranch_io::Column;
use anabranch_io::model::Provenance;

use super::outcome::Outcome;
use super::session::Finished;
use crate::args::OutputArgs;
use crate::columns::Columns;
use crate::doubts::{Doubts, diagnose};
use crate::failure::Failure;
use crate::picture::{counted, grouped, significant};
use crate::printing::{
    Effort, constants, dependence, print_json, print_places, repetition, rounding, uncertainty, without_rows,
};
use crate::report::{
    BadRow, ClusterRow, ComponentRow, Covariance, EllipseData, FAR_OUT, Projection, ReportData, ReportFiles,
    ScatterData, TreeData, write,
};

/// What was made of the data that a reader should know: one line each.
pub fn said_of_data(finished: &Finished) -> Vec<String> {
    let columns = Columns::of(&finished.model);
    let family = finished.posterior().family();
    let lines = [
        match finished.bound {
            Some(most) => Some(bounded(most)),
            None => uncertainty(finished.model.provenance.between),
        },
        rounding(family, &columns),
        constants(&columns),
        dependence(family, &columns),
        repetition(finished.copies),
        emptiness(&columns),
        too_many_categories(&finished.model.provenance, &columns),
        row_number(finished, &columns),
    ];
    lines.into_iter().flatten().collect()
}

/// That more components may be in the data than were allowed.
fn bounded(most: usize) -> String {
    format!("as many components as --max-components {most} allows: the data may have more")
}

/// Columns of which nothing was learned.
fn emptiness(columns: &Columns) -> Option<String> {
    let named: Vec<String> = columns.empty().map(|column| columns.called(column)).collect();
    match &named[..] {
        [] => None,
        [one] => Some(format!("{one} has no value in any row: nothing is known of it")),
        several => Some(format!("{} have no value in any row: nothing is known of them", several.join(", "))),
    }
}

/// Rows from which a column that counts them is spoken of.
const MANY_ROWS: u64 = 20;

/// A column that grows by one with every row.
fn row_number(finished: &Finished, columns: &Columns) -> Option<String> {
    let provenance = &finished.model.provenance;
    let column = finished.counting_columns.first().filter(|_| provenance.observations >= MANY_ROWS)?;
    Some(format!(
        "{} grows by one with every row: it looks like a row number (--columns -{} leaves it out)",
        columns.called(*column),
        provenance.schema.columns[*column].name
    ))
}

/// Columns of which nearly every row has a category of its own: numbers or names that were taken for categories.
fn too_many_categories(provenance: &Provenance, columns: &Columns) -> Option<String> {
    let labels = |column: &Column| column.categories.as_ref().map_or(0, Vec::len);
    let mut all = provenance.schema.columns.iter().enumerate();
    let (place, column) = all
        .find(|(_, column)| 2 * labels(column) as u64 > provenance.observations)
        .filter(|_| provenance.observations >= MANY_ROWS)?;
    Some(format!(
        "{} has {} labels in {}: no two rows have much in common there (numbers suit --family gaussian; --columns -{} leaves it out)",
        columns.called(place),
        grouped(labels(column) as f64),
        counted(provenance.observations, "row"),
        column.name,
    ))
}

/// Prints the outcome as JSON or as a few lines.
pub fn print_outcome(outcome: &Outcome, said: &[String], output: &OutputArgs) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if output.json {
        return print_json(&mut out, outcome, "result");
    }
    writeln!(
        out,
        "{} × {} → {} in {}{}, {} family",
        counted(outcome.observations, "row"),
        counted(outcome.dimensions as u64, "column"),
        counted(outcome.components as u64, "component"),
        counted(outcome.clusters as u64, "cluster"),
        without_rows(outcome.components, outcome.effective_components),
        outcome.family
    )?;
    Effort {
        seconds: outcome.seconds,
        threads: outcome.threads,
        cpu_seconds: outcome.cpu_seconds,
        minibatches: outcome.minibatches,
        matchings: outcome.matchings,
        conflicts: outcome.conflicts,
    }
    .print(&mut out)?;
    for line in said {
        writeln!(out, "{line}")?;
    }
    if let Some(forgotten) = outcome.forgotten {
        let rows = |weight: f64| counted(weight.round() as u64, "row");
        writeln!(out, "{} count, {} forgotten", rows(outcome.mass), rows(forgotten))?;
        if outcome.minibatches == 1 && forgotten < 0.5 {
            writeln!(
                out,
                "all rows were in the first minibatch, of which nothing is forgotten: --bootstrap makes it smaller"
            )?;
        }
    }
    if outcome.skipped_rows > 0 {
        writeln!(out, "{} skipped", counted(outcome.skipped_rows, "bad row"))?;
    }
    if outcome.missing_cells > 0 {
        let all = outcome.observations as f64 * outcome.dimensions as f64;
        let share = significant(100.0 * outcome.missing_cells as f64 / all.max(1.0), 2);
        writeln!(
            out,
            "{} integrated out ({share} % of all)",
            counted(outcome.missing_cells, "missing value")
        )?;
    }
    if let Some(likelihood) = outcome.test_log_likelihood {
        writeln!(out, "held-out log-likelihood per row {likelihood:.4}")?;
    }
    if let (Some(rand), Some(nmi)) = (outcome.adjusted_rand, outcome.normalized_mutual_information) {
        writeln!(
            out,
            "agreement of the components with the labels: adjusted Rand {rand:.4}, normalized mutual information {nmi:.4}"
        )?;
    }
    if let (Some(rand), Some(nmi)) =
        (outcome.clusters_adjusted_rand, outcome.clusters_normalized_mutual_information)
    {
        writeln!(
            out,
            "agreement of the clusters with the labels: adjusted Rand {rand:.4}, normalized mutual information {nmi:.4}"
        )?;
    }
    print_places(&mut out, output)
}

/// Writes the report of a finished run. `reference` is the likelihood of the mixture that made the data.
pub fn write_report(
    folder: &Path,
    title: &str,
    finished: &Finished,
    (tree, clusters): (&Tree, &Clusters),
    outcome: &Outcome,
    reference: Option<f64>,
) -> Result<ReportFiles, Failure> {
    let posterior = finished.posterior();
    let total = posterior.mass().max(f64::MIN_POSITIVE);
    let mut components: Vec<_> = posterior.components().iter().collect();
    components.sort_by(|a, b| b.expected_count().total_cmp(&a.expected_count()));
    let columns = Columns::of(&finished.model);
    let (points, ellipses) = plane(finished, clusters, columns.names());
    let table = components
        .iter()
        .map(|component| {
            let summary = columns.settled(posterior.family().summary(&component.evidence().stats));
            ComponentRow {
                id: component.id().0,
                cluster: clusters.of(component.id()).map(|id| id.0),
                count: component.expected_count(),
                weight: component.expected_count() / total,
                cells: (0..summary.mean.len()).map(|column| columns.cell(&summary, column)).collect(),
                order: order_of(&summary, &columns),
            }
        })
        .collect();
    let data = ReportData {
        title: title.to_owned(),
        subtitle: format!(
            "{} process mixture, {} family, {} of {}, anabranch {}.",
            if outcome.model == "py" { "Pitman–Yor" } else { "Dirichlet" },
            outcome.family,
            counted(outcome.observations, "row"),
            counted(outcome.dimensions as u64, "column"),
            outcome.version
        ),
        facts: facts(outcome),
        points,
        ellipses,
        sizes: components.iter().map(|c| (c.id().0, c.expected_count())).collect(),
        trace: finished.trace.rows().to_vec(),
        reference_log_likelihood: reference,
        component_table: table,
        clusters: cluster_rows(finished, clusters, &columns),
        tree: Some(TreeData::new(tree, clusters)),
        column_names: columns.names().to_vec(),
        doubts: Some(Doubts::from(&diagnose(posterior))),
        worst_rows: worst_rows(finished),
        warnings: warnings(outcome).into_iter().chain(said_of_data(finished)).collect(),
    };
    Ok(write(folder, &data)?)
}

/// Columns that the report names for each cluster.
const DIFFERENCES: usize = 5;

/// What a column of the table is sorted by: means, where they are those of numbers.
fn order_of(summary: &Summary, columns: &Columns) -> Vec<Option<f64>> {
    let mean = |(column, mean): (usize, &f64)| columns.category(column, 0).is_none().then_some(*mean);
    summary.mean.iter().enumerate().map(mean).collect()
}

fn cluster_rows(finished: &Finished, clusters: &Clusters, columns: &Columns) -> Vec<ClusterRow> {
    let posterior = finished.posterior();
    let total = posterior.mass().max(f64::MIN_POSITIVE);
    let all = columns.differences(posterior, clusters);
    let told = |difference: &Difference| (columns.difference(difference), difference.deviations);
    let row = |(cluster, differ): (&Cluster, Vec<Difference>)| {
        let differ = differ.iter().filter(|difference| difference.deviations != 0.0);
        ClusterRow {
            name: cluster.name.0,
            rows: cluster.rows,
            weight: cluster.rows / total,
            components: cluster.components.len(),
            valley: cluster.valley,
            noise: cluster.noise,
            differences: differ.take(DIFFERENCES).map(told).collect(),
        }
    };
    clusters.clusters().iter().zip(all).map(row).collect()
}

fn facts(outcome: &Outcome) -> Vec<(String, String)> {
    let mut facts = vec![
        ("rows".to_owned(), grouped(outcome.observations as f64)),
        ("components".to_owned(), grouped(outcome.components as f64)),
        ("clusters".to_owned(), grouped(outcome.clusters as f64)),
        ("minibatches".to_owned(), grouped(outcome.minibatches as f64)),
        ("matchings".to_owned(), grouped(outcome.matchings as f64)),
        ("seconds".to_owned(), significant(outcome.seconds, 3)),
    ];
    if let Some(likelihood) = outcome.test_log_likelihood {
        facts.push(("held-out log-likelihood".to_owned(), format!("{likelihood:.3}")));
    }
    if let Some(rand) = outcome.adjusted_rand {
        facts.push(("adjusted Rand".to_owned(), format!("{rand:.3}")));
    }
    if let Some(rand) = outcome.clusters_adjusted_rand {
        facts.push(("adjusted Rand of clusters".to_owned(), format!("{rand:.3}")));
    }
    facts
}

fn warnings(outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    if outcome.stopped {
        warnings.push("The run was stopped before the end of the input.".to_owned());
    }
    if outcome.skipped_rows > 0 {
        warnings.push(format!("Skipped {}.", counted(outcome.skipped_rows, "bad row")));
    }
    warnings
}

/// Rows of the report's list of those that are explained worst.
const WORST_ROWS: usize = 20;

/// The sampled rows that the model explains worst.
fn worst_rows(finished: &Finished) -> Vec<BadRow> {
    let Some(sample) = &finished.sample else { return Vec::new() };
    let predictor = Predictor::new(finished.posterior());
    let rows: Vec<&[f64]> =
        sample.values().chunks_exact(finished.posterior().family().dimensions()).collect();
    let mut worst = Worst::new(WORST_ROWS);
    predictor.answer(sample.values(), Ask::Everything, |place, answer| {
        worst.offer(place as u64, answer.ln_density());
    });
    let bad_row = |place: usize, log_density: f64| BadRow {
        row: sample.numbers()[place],
        log_density,
        component: predictor.label(rows[place]).map(|id| id.0),
    };
    worst.into_sorted().iter().map(|bad| bad_row(bad.row as usize, bad.ln_density)).collect()
}

/// Rows without those that are far out in some column, which would be all that a direction shows.
fn usual_rows(dimensions: usize, rows: &[f64]) -> Vec<f64> {
    let column = |column: usize| bulk(rows.chunks_exact(dimensions).map(move |row| row[column]), FAR_OUT);
    let ranges: Vec<_> = (0..dimensions).map(column).collect();
    let is_usual = |row: &&[f64]| row.iter().zip(&ranges).all(|(value, range)| range.contains(value));
    let usual: Vec<f64> = rows.chunks_exact(dimensions).filter(is_usual).flatten().copied().collect();
    // In many columns nearly every row is far out somewhere.
    if 2 * usual.len() >= rows.len() { usual } else { rows.to_vec() }
}

/// The sampled rows and the components in the plane of the two leading directions.
fn plane(
    finished: &Finished,
    clusters: &Clusters,
    names: &[String],
) -> (Option<ScatterData>, Vec<EllipseData>) {
    let posterior = finished.posterior();
    let dimensions = posterior.family().dimensions();
    let Some(sample) = &finished.sample else { return (None, Vec::new()) };
    let predictor = Predictor::new(posterior);
    // A row with missing values is drawn where it is expected to be.
    let mut rows = sample.values().to_vec();
    let mut deviation = vec![0.0; dimensions];
    for row in rows.chunks_exact_mut(dimensions).filter(|row| row.iter().any(|x| x.is_nan())) {
        let known = row.to_vec();
        predictor.impute(&known, row, &mut deviation);
    }
    let Some(projection) = Projection::fit(dimensions, &usual_rows(dimensions, &rows)) else {
        return (None, Vec::new());
    };
    let [x_label, y_label] = projection.labels(names);
    let mut points = ScatterData { x_label, y_label, ..ScatterData::default() };
    let of_rows = RowClusters::new(posterior, clusters.clone());
    predictor.answer(sample.values(), Ask::Label, |ix, answer| {
        let component = answer.label();
        points.component.push(component.map(|id| id.0));
        points.cluster.push(
            component
                .and_then(|id| of_rows.of(id, &sample.values()[ix * dimensions..][..dimensions]))
                .map(|id| id.0),
        );
    });
    for row in rows.chunks_exact(dimensions) {
        let [x, y] = projection.point(row);
        points.x.push(x);
        if dimensions > 1 {
            points.y.push(y);
        }
    }
    let total = posterior.mass().max(f64::MIN_POSITIVE);
    let ellipses = posterior.components().iter().map(|component| {
        let summary = posterior.family().summary(&component.evidence().stats);
        let variances: Vec<f64> = summary.spread.iter().map(|s| s * s).collect();
        let covariance = match &summary.covariance {
            Some(full) => projection.covariance(Covariance::Full(full)),
            None => projection.covariance(Covariance::Diagonal(&variances)),
        };
        EllipseData {
            id: component.id().0,
            cluster: clusters.of(component.id()).map(|id| id.0),
            weight: component.expected_count() / total,
            mean: projection.point(&summary.mean),
            covariance,
        }
    });
    (Some(points), ellipses.collect())
}
