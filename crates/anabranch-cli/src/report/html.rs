//! The page: text, inline pictures and the table of components, in one file.

use super::{ComponentRow, ReportData, STYLE, differences, doubts};
use crate::picture::{Figure, component_colour, escape, grouped, significant};
use std::fmt::Write;

const SCRIPT: &str = include_str!("page.js");
/// Rows of the table; more would be a file, not a page.
const MOST_ROWS: usize = 200;
/// Columns of the data in the table.
const MOST_COLUMNS: usize = 8;

/// The whole page.
pub(super) fn page(data: &ReportData, figures: &[Figure]) -> String {
    let body = [
        warnings(data),
        facts(&data.facts),
        pictures(figures),
        differences::section(data),
        doubts::section(data),
        table(data),
    ]
    .concat();
    shell(&data.title, &data.subtitle, &body)
}

/// A page with a body and pictures below it.
pub(super) fn plain(title: &str, subtitle: &str, body: &str, figures: &[Figure]) -> String {
    shell(title, subtitle, &[body.to_owned(), pictures(figures)].concat())
}

/// The frame of every page: head, style, title and what tables and pictures can do.
pub(crate) fn shell(title: &str, subtitle: &str, body: &str) -> String {
    let title = escape(title);
    let subtitle = paragraph("lead", subtitle);
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
{subtitle}</header>
{body}</main>
<script>
{SCRIPT}</script>
</body>
</html>
"#
    )
}

fn paragraph(class: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<p class=\"{class}\">{}</p>\n", escape(text)) }
}

fn warnings(data: &ReportData) -> String {
    if data.warnings.is_empty() {
        return String::new();
    }
    let items: String = data.warnings.iter().map(|w| format!("<li>{}</li>\n", escape(w))).collect();
    format!(
        "<section class=\"warnings\" aria-label=\"Warnings\">\n<h2>Before you rely on this</h2>\n<ul>\n{items}</ul>\n</section>\n"
    )
}

/// Names and values in a row of boxes.
pub(crate) fn facts(facts: &[(String, String)]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let item = |(name, value): &(String, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
    };
    let items: String = facts.iter().map(item).collect();
    format!("<section aria-label=\"Summary\">\n<dl class=\"facts\">\n{items}</dl>\n</section>\n")
}

fn pictures(figures: &[Figure]) -> String {
    let picture = |figure: &Figure| {
        format!(
            "<section id=\"{}\">\n<h2 class=\"hidden\">{}</h2>\n<figure>\n{}</figure>\n</section>\n",
            figure.name,
            escape(&figure.title),
            figure.inline_svg()
        )
    };
    figures.iter().map(picture).collect()
}

fn table(data: &ReportData) -> String {
    let mut rows: Vec<&ComponentRow> = data.component_table.iter().collect();
    rows.sort_by(|a, b| b.count.total_cmp(&a.count).then(a.id.cmp(&b.id)));
    let note = table_note(rows.len(), width(&rows));
    rows.truncate(MOST_ROWS);
    if rows.is_empty() {
        return "<section>\n<h2>Components</h2>\n<p class=\"note\">No component has been found yet.</p>\n</section>\n"
            .to_owned();
    }
    let columns = width(&rows).min(MOST_COLUMNS);
    let body: String = rows.iter().map(|row| table_row(row, columns)).collect();
    format!(
        "<section>\n<h2>Components</h2>\n{note}<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Table of components\">\n<table>\n<thead>\n<tr>{}</tr>\n</thead>\n<tbody>\n{body}</tbody>\n\
         </table>\n</div>\n</section>\n",
        table_head(data, columns)
    )
}

/// Columns of the data that the rows speak of.
fn width(rows: &[&ComponentRow]) -> usize {
    rows.iter().map(|row| row.cells.len()).max().unwrap_or(0)
}

fn table_note(n_rows: usize, n_columns: usize) -> String {
    let mut note =
        String::from("Each column shows mean ± standard deviation, or the commonest category and its share.");
    if n_rows > MOST_ROWS {
        let _ = write!(note, " The {MOST_ROWS} largest of {} components are listed.", grouped(n_rows as f64));
    }
    if n_columns > MOST_COLUMNS {
        let _ =
            write!(note, " The first {MOST_COLUMNS} of {} columns are listed.", grouped(n_columns as f64));
    }
    paragraph("note", &note)
}

fn table_head(data: &ReportData, columns: usize) -> String {
    let names = (0..columns).map(|ix| match data.column_names.get(ix) {
        Some(name) if !name.is_empty() => name.clone(),
        _ => format!("column {}", ix + 1),
    });
    let fixed = ["cluster", "id", "rows", "share"].map(str::to_owned);
    let head =
        |name: String| format!("<th scope=\"col\"><button type=\"button\">{}</button></th>", escape(&name));
    fixed.into_iter().chain(names).map(head).collect()
}

fn table_row(row: &ComponentRow, columns: usize) -> String {
    let colour = component_colour(row.cluster.unwrap_or(row.id));
    let swatch = format!("<span class=\"swatch\" style=\"background:{colour}\"></span>");
    let cluster = row.cluster.map_or_else(|| "–".to_owned(), |cluster| cluster.to_string());
    let mut cells = cell(row.cluster.map(|cluster| cluster as f64), &format!("{swatch}{cluster}"));
    let _ = write!(cells, "<th scope=\"row\" data-v=\"{}\">{}</th>", row.id, row.id);
    cells += &cell(Some(row.count), &count_text(row.count));
    cells += &cell(Some(row.weight), &share_text(row.weight));
    for ix in 0..columns {
        let shown = row.cells.get(ix).map_or_else(String::new, |text| escape(text).into_owned());
        cells += &cell(row.order.get(ix).copied().flatten(), &shown);
    }
    format!("<tr>{cells}</tr>\n")
}

/// A cell with the number that the table sorts by.
fn cell(value: Option<f64>, text: &str) -> String {
    let value = value.filter(|value| value.is_finite());
    let sortable = value.map_or_else(String::new, |value| format!(" data-v=\"{value}\""));
    format!("<td{sortable}>{text}</td>")
}

fn count_text(count: f64) -> String {
    if count < 10.0 { significant(count, 2) } else { grouped(count) }
}

fn share_text(weight: f64) -> String {
    if weight.is_finite() { format!("{} %", significant(weight * 100.0, 2)) } else { "–".to_owned() }
}
