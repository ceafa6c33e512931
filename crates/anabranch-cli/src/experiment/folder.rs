//! What an experiment leaves behind: tables as csv, pictures, `results.json` and a page that shows them.

use std::path::{Path, PathBuf};

use anabranch_io::output::replace_file;
use serde_json::Value;

use crate::failure::Failure;
use crate::picture::{self, Figure, escape};
use crate::report::shell;

/// Everything that an experiment found.
pub(super) struct Evidence {
    /// Heading of the page.
    pub(super) title: String,
    /// What was done, in a sentence or two.
    pub(super) lead: String,
    /// What the paper claims, and whether it held here.
    pub(super) claims: Vec<Claim>,
    /// Tables, each a csv file; those marked so are on the page.
    pub(super) tables: Vec<Table>,
    /// Charts, each an SVG and a PNG file.
    pub(super) figures: Vec<Figure>,
    /// Pictures of pixels: a name, what it shows, and the PNG.
    pub(super) images: Vec<(String, String, Vec<u8>)>,
    /// The figures for programs.
    pub(super) results: Value,
}

/// A sentence of the paper against what was measured.
pub(super) struct Claim {
    pub(super) text: String,
    pub(super) measured: String,
    pub(super) holds: bool,
}

/// Rows of text under a header.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) caption: String,
    pub(super) header: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// True when the page shows it; long ones are files only.
    pub(super) on_page: bool,
}

/// Writes everything into the folder, which is made when missing, and returns the page.
pub(super) fn write(folder: &Path, evidence: &Evidence) -> Result<PathBuf, Failure> {
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::input(format!("--out {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    let put = |name: String, bytes: &[u8]| -> Result<PathBuf, Failure> {
        let path = folder.join(name);
        replace_file(&path, bytes).map_err(|error| cannot(&path, &error))?;
        Ok(path)
    };
    for table in &evidence.tables {
        let mut text = table.header.join(",") + "\n";
        table.rows.iter().for_each(|row| text += &(row.join(",") + "\n"));
        put(format!("{}.csv", table.name), text.as_bytes())?;
    }
    for figure in &evidence.figures {
        let files = picture::files(&figure.name, &figure.svg())
            .map_err(|error| Failure::Internal { message: error.to_string() })?;
        for (name, bytes) in files {
            put(name, &bytes)?;
        }
    }
    for (name, _, pixels) in &evidence.images {
        put(format!("{name}.png"), pixels)?;
    }
    let results = serde_json::to_string_pretty(&evidence.results)
        .map_err(|error| Failure::Internal { message: format!("cannot print the result: {error}") })?;
    put("results.json".into(), (results + "\n").as_bytes())?;
    put("index.html".into(), page(evidence).as_bytes())
}

fn page(evidence: &Evidence) -> String {
    let body =
        [claims(evidence), tables(evidence), images(evidence), figures(evidence), files(evidence)].concat();
    shell(&evidence.title, &evidence.lead, &body)
}

fn claims(evidence: &Evidence) -> String {
    if evidence.claims.is_empty() {
        return String::new();
    }
    let item = |claim: &Claim| {
        let verdict = if claim.holds { "holds" } else { "does not hold" };
        format!("<li><b>{verdict}</b>: {} ({})</li>\n", escape(&claim.text), escape(&claim.measured))
    };
    let items: String = evidence.claims.iter().map(item).collect();
    format!(
        "<section>\n<h2>What the paper says, and what was measured</h2>\n<ul>\n{items}</ul>\n</section>\n"
    )
}

fn tables(evidence: &Evidence) -> String {
    let table = |table: &Table| {
        let head: String =
            table.header.iter().map(|h| format!("<th scope=\"col\">{}</th>", escape(h))).collect();
        let row = |cells: &Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = table.rows.iter().map(row).collect();
        format!(
            "<section>\n<h2>{}</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
             </table></div>\n</section>\n",
            escape(&table.caption)
        )
    };
    evidence.tables.iter().filter(|t| t.on_page).map(table).collect()
}

fn images(evidence: &Evidence) -> String {
    let image = |(name, text, _): &(String, String, Vec<u8>)| {
        format!(
            "<section>\n<h2>{text}</h2>\n<figure><img src=\"{name}.png\" alt=\"{text}\"></figure>\n</section>\n",
            text = escape(text)
        )
    };
    evidence.images.iter().map(image).collect()
}

fn figures(evidence: &Evidence) -> String {
    let figure = |figure: &Figure| {
        format!("<section id=\"{}\">\n<figure>\n{}</figure>\n</section>\n", figure.name, figure.inline_svg())
    };
    evidence.figures.iter().map(figure).collect()
}

fn files(evidence: &Evidence) -> String {
    let names =
        evidence.tables.iter().map(|table| format!("{}.csv", table.name)).chain(["results.json".into()]);
    let items: String = names.map(|name| format!("<li><a href=\"{name}\">{name}</a></li>\n")).collect();
    format!("<section>\n<h2>Data</h2>\n<ul>\n{items}</ul>\n</section>\n")
}
