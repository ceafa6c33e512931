//! `anabranch clusters`: the clusters of a model, how they join, and what became of earlier ones.

use std::io::Write;

use anabranch::clusters::{Cluster, Clusters, Cut, Difference, Event, Rule, Tree, follow};
use anabranch::identify::ComponentId;
use anabranch_io::model::{Model, model_name};
use serde::Serialize;

use crate::args::ClustersArgs;
use crate::columns::Columns;
use crate::failure::Failure;
use crate::features;
use crate::picture::{counted, grouped, significant};
use crate::printing::{kept_cut, print_json};
use crate::topics;

/// Columns that a line names.
const COLUMNS_SHOWN: usize = 3;

/// What `clusters --json` prints.
#[derive(Serialize)]
struct Found<'a> {
    n_components: usize,
    n_clusters: usize,
    cut: Cut,
    columns: Vec<&'a str>,
    clusters: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<&'a Tree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Event>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    cluster: &'a Cluster,
    share: f64,
    differences: Vec<Told<'a>>,
}

/// A column that sets a cluster apart; its category by name.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    difference: Difference,
    #[serde(skip_serializing_if = "Option::is_none")]
    category_name: Option<&'a str>,
}

/// Runs the command.
pub fn command(args: &ClustersArgs) -> Result<(), Failure> {
    if let Ok(topics::NAME | features::NAME) = model_name(&args.model).as_deref() {
        return Err(Failure::input(format!(
            "{}: rows of this model have no one cluster",
            args.model.display()
        ))
        .with_hint("clusters are those of mixtures: --model dp or py"));
    }
    let mut model = Model::load(&args.model)?;
    let cut = cut(args, &model)?;
    let posterior = model.fold.posterior();
    let tree = Tree::of(posterior);
    let clusters = Clusters::new(posterior, &tree, cut);
    let events = match &args.since {
        Some(path) => {
            let earlier = Model::load(path)?;
            if earlier.provenance.schema.names().ne(model.provenance.schema.names()) {
                return Err(Failure::input(format!(
                    "--since {}: the model has other columns",
                    path.display()
                ))
                .with_hint("name an earlier state of the same stream"));
            }
            Some(follow(&Clusters::of_snapshot(earlier.fold.posterior(), cut), &clusters))
        }
        None => None,
    };
    let total = posterior.expected_mass().max(f64::MIN_POSITIVE);
    let columns = Columns::of(&model);
    let each = clusters.clusters().iter().zip(columns.differences(posterior, &clusters));
    let told = |difference: Difference| Told {
        category_name: difference.category.and_then(|code| columns.category(difference.column, code)),
        difference,
    };
    let found = Found {
        n_components: posterior.components().len(),
        n_clusters: clusters.len(),
        cut,
        columns: model.provenance.schema.names().collect(),
        clusters: each
            .map(|(cluster, differences)| Row {
                cluster,
                share: cluster.rows / total,
                differences: differences.into_iter().map(told).collect(),
            })
            .collect(),
        tree: args.tree.then_some(&tree),
        events,
    };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => print_json(&mut out, &found, "clusters")?,
        false => {
            print_table(&found, &columns, &clusters, &tree, args, &mut out)?;
            if cut == model.provenance.cut && !args.keep {
                kept_cut(cut).map_or(Ok(()), |line| writeln!(out, "{line}"))?;
            }
        }
    }
    if args.keep {
        model.provenance.cut = cut;
        model.save(&args.model)?;
    }
    Ok(())
}

/// What the flags say, or the model where they say nothing.
fn cut(args: &ClustersArgs, model: &Model) -> Result<Cut, Failure> {
    let said = args.valley.is_some() || args.count.is_some() || args.min_size.is_some() || args.noise;
    if !said && !args.keep {
        return Ok(model.provenance.cut);
    }
    let rule = match (args.valley, args.count) {
        (Some(part), _) => Rule::Valley(part),
        (None, Some(n)) => Rule::Count(n),
        (None, None) => Rule::Auto,
    };
    Cut { rule, min_size: args.min_size, noise: args.noise }
        .checked()
        .map_err(|error| Failure::input(error.to_string()))
}

fn print_table(
    found: &Found<'_>,
    columns: &Columns,
    clusters: &Clusters,
    tree: &Tree,
    args: &ClustersArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let noise = clusters.clusters().iter().filter(|cluster| cluster.noise).count();
    writeln!(
        out,
        "{} in {}{}",
        counted(found.n_components as u64, "component"),
        counted(found.n_clusters as u64, "cluster"),
        if noise > 0 { format!(", and {} of noise", counted(noise as u64, "group")) } else { String::new() }
    )?;
    if let Some(wanted) = args.count.filter(|wanted| found.n_clusters < *wanted) {
        writeln!(out, "no cut of the tree gives {}: this is the nearest", counted(wanted as u64, "cluster"))?;
    }
    let mut lines = vec![["cluster", "rows", "share", "components", "pass", "differs in"].map(str::to_owned)];
    for row in found.clusters.iter().take(args.top) {
        let cluster = row.cluster;
        let differ = row.differences.iter().map(|told| &told.difference);
        let differ = differ.filter(|told| told.deviations != 0.0).take(COLUMNS_SHOWN);
        let column = |told: &Difference| format!("{} ({:+.1} sd)", columns.difference(told), told.deviations);
        let differ: Vec<String> = differ.map(column).collect();
        lines.push([
            if cluster.noise { "noise".to_owned() } else { cluster.name.to_string() },
            grouped(cluster.rows.round()),
            format!("{:.1} %", 100.0 * row.share),
            cluster.components.len().to_string(),
            cluster.valley.map_or_else(|| "–".to_owned(), |part| significant(part, 2)),
            differ.join(", "),
        ]);
    }
    print_aligned(&lines, out)?;
    let hidden = found.clusters.len().saturating_sub(args.top);
    if hidden > 0 {
        writeln!(out, "… and {} (--top N shows more)", counted(hidden as u64, "smaller one"))?;
    }
    if args.tree {
        print_tree(tree, clusters, out)?;
    }
    for event in found.events.iter().flatten() {
        writeln!(out, "{}", sentence(event))?;
    }
    if found.events.as_ref().is_some_and(Vec::is_empty) {
        writeln!(out, "no clusters joined, parted or appeared")?;
    }
    Ok(())
}

/// Numbers to the right, the last column as it is.
fn print_aligned<const N: usize>(lines: &[[String; N]], out: &mut impl Write) -> Result<(), Failure> {
    let width = |ix: usize| lines.iter().map(|line| line[ix].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(ix, (cell, width))| match ix + 1 == N {
            true => cell.clone(),
            false => format!("{cell:>width$}"),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// The joins from the highest pass down, with the clusters on both sides.
fn print_tree(tree: &Tree, clusters: &Clusters, out: &mut impl Write) -> Result<(), Failure> {
    let name = |leaf: usize| {
        let component = tree.leaves[leaf].component;
        let cluster = clusters.cluster(component).map_or(component, |cluster| cluster.name);
        (component, cluster)
    };
    let side = |(component, cluster): (ComponentId, ComponentId)| format!("{component} of cluster {cluster}");
    let mut lines = vec![["height", "pass", "between", ""].map(str::to_owned)];
    for join in tree.joins.iter().filter(|join| !join.slope) {
        let (left, right) = (name(join.left), name(join.right));
        let lower = tree.leaves[join.left].peak.min(tree.leaves[join.right].peak);
        lines.push([
            significant(join.height, 3),
            significant((join.height - lower).exp(), 2),
            format!("{} and {}", side(left), side(right)),
            if left.1 == right.1 { String::new() } else { "← a valley".to_owned() },
        ]);
    }
    let slopes = tree.joins.iter().filter(|join| join.slope).count();
    writeln!(
        out,
        "joins from the highest pass down (height: log density under the highest peak; pass: part of the lower peak)"
    )?;
    if slopes > 0 {
        writeln!(out, "{} on the slopes of others", counted(slopes as u64, "component"))?;
    }
    print_aligned(&lines, out)
}

fn sentence(event: &Event) -> String {
    let names = |all: &[ComponentId]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match event {
        Event::Appeared { cluster } => format!("cluster {cluster} appeared"),
        Event::Joined { clusters, into } => format!("clusters {} joined and are now {into}", names(clusters)),
        Event::Parted { cluster, into } => format!("cluster {cluster} parted into {}", names(into)),
    }
}
