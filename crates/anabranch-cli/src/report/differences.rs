//! The part of the page that says what distinguishes each cluster: the columns that differ most from the rest.

use std::fmt::Write;

use super::{ClusterRow, ReportData};
use crate::picture::{component_colour, escape, grouped, significant};

/// Clusters of the table.
const MOST_ROWS: usize = 60;

/// The section; nothing without clusters.
pub(super) fn section(data: &ReportData) -> String {
    if data.clusters.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    for cluster in data.clusters.iter().take(MOST_ROWS) {
        let _ = writeln!(body, "{}", row(cluster));
    }
    let left_out = data.clusters.len().saturating_sub(MOST_ROWS);
    let more = if left_out > 0 { format!(" {left_out} smaller ones are not listed.") } else { String::new() };
    format!(
        "<section id=\"differences\">\n<h2>What distinguishes each cluster</h2>\n<p class=\"note\">A cluster is named after its \
         oldest component. Each column is followed by the cluster's mean, or by the category that is commoner than elsewhere and its share, \
         and by how far that lies from all other rows, in their standard deviations; the column that differs most comes first.{more}</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of clusters\">\n<table>\n<thead>\n<tr>\
         <th scope=\"col\">cluster</th><th scope=\"col\">rows</th><th scope=\"col\">share</th>\
         <th scope=\"col\">components</th><th scope=\"col\">differs in</th></tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table>\n\
         </div>\n</section>\n"
    )
}

fn row(cluster: &ClusterRow) -> String {
    let column = |(told, deviations): &(String, f64)| {
        let sign = if *deviations > 0.0 { "+" } else { "−" };
        format!("{} <small>({sign}{} sd)</small>", escape(told), significant(deviations.abs(), 2))
    };
    let columns: Vec<String> = cluster.differences.iter().map(column).collect();
    let noise = if cluster.noise { " <small>noise</small>" } else { "" };
    format!(
        "<tr><th scope=\"row\"><span class=\"swatch\" style=\"background:{}\"></span>{}{noise}</th><td>{}</td><td>{} %</td>\
         <td>{}</td><td style=\"text-align:left\">{}</td></tr>",
        component_colour(cluster.name),
        cluster.name,
        grouped(cluster.rows.round()),
        significant(100.0 * cluster.weight, 2),
        cluster.components,
        columns.join(", ")
    )
}
