//! The part of the page that says what is doubtful: labels, duplicates, near-empty components, rows explained badly.

use std::fmt::Write;

use super::{BadRow, ReportData};
use crate::doubts::DuplicateRow;
use crate::picture::{escape, significant};

/// Rows of a table; the rest is in `inspect --json`.
const MOST_ROWS: usize = 20;

/// The section; nothing when nobody looked.
pub(super) fn section(data: &ReportData) -> String {
    let Some(doubts) = &data.doubts else { return String::new() };
    let items: String =
        doubts.sentences().iter().map(|sentence| format!("<li>{}</li>\n", escape(sentence))).collect();
    let tables = duplicates(&doubts.duplicates) + &worst(&data.worst_rows);
    format!("<section id=\"doubts\">\n<h2>What is doubtful</h2>\n<ul>\n{items}</ul>\n{tables}</section>\n")
}

fn duplicates(pairs: &[DuplicateRow]) -> String {
    let row = |pair: &DuplicateRow| {
        [
            pair.first.to_string(),
            pair.second.to_string(),
            significant(pair.cost_per_row, 2),
            format!("{} %", significant(100.0 * pair.shared, 2)),
        ]
    };
    let note = "Pairs that may be one cluster. Cost is the log density that is lost for each row of the smaller one if one \
                component stands for both, in nats. Shared is the part of its rows that a drawn label sends to the other.";
    table("Likely duplicates", note, ["larger", "smaller", "cost", "shared"], pairs.iter().map(row))
}

fn worst(rows: &[BadRow]) -> String {
    let row = |bad: &BadRow| {
        let component = bad.component.map_or_else(|| "–".to_owned(), |id| id.to_string());
        [bad.row.to_string(), significant(bad.log_density, 4), component]
    };
    let note = "The rows with the lowest density among those that were sampled for this report, by their number in the input, \
                skipped rows not counted. predict --worst N looks at all rows.";
    table("Rows that are explained worst", note, ["row", "log density", "component"], rows.iter().map(row))
}

fn table<const N: usize>(
    title: &str,
    note: &str,
    head: [&str; N],
    rows: impl ExactSizeIterator<Item = [String; N]>,
) -> String {
    if rows.len() == 0 {
        return String::new();
    }
    let head: String = head.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let mut body = String::new();
    for cells in rows.take(MOST_ROWS) {
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(body, "<tr>{cells}</tr>");
    }
    format!(
        "<h3>{title}</h3>\n<p class=\"note\">{note}</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{title}\">\n<table>\n<thead>\n<tr>{head}</tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    )
}
