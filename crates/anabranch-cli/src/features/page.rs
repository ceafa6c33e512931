//! The report of a feature model: its features in the order of what they explain, and rows beside what features make of them; as
//! pictures where rows are pictures, as a line of cells where not.

use std::fmt::Write;
use std::path::Path;

use anabranch::batch::Batch;
use anabranch::posterior::FeaturePredictor;

use super::FeatureModel;
use crate::failure::Failure;
use crate::picture::{self, counted, grouped, significant};
use crate::report;

/// Features on a page; more would be a file, not a page.
const MOST: usize = 200;
/// Width of a picture of a feature.
const SIDE: f64 = 96.0;
/// Pictures in a line of the sheet.
const IN_LINE: usize = 8;
/// Room for the caption of a picture.
const CAPTION: f64 = 18.0;
/// Rows that are shown beside what features make of them.
const ROWS: usize = 8;
/// A row has a feature that is so probable.
const HAS: f64 = 0.5;
/// Room between pictures.
const GAP: f64 = 12.0;

/// Rows as pictures of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    height: usize,
    width: usize,
}

impl Image {
    /// From `--image HxW`; rows that are no pictures are one line of cells.
    pub(super) fn new(flag: Option<&str>, columns: usize) -> Result<Self, Failure> {
        let Some(text) = flag else { return Ok(Self { height: 1, width: columns }) };
        let wrong = || {
            Failure::input(format!("--image {text}: is not the height and width of a picture, such as 8x8"))
        };
        let (height, width) = text.split_once(['x', '×']).ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(wrong);
        let image = Self { height: number(height)?, width: number(width)? };
        match image.height.checked_mul(image.width) == Some(columns) {
            true => Ok(image),
            false => Err(Failure::input(format!("--image {text}: rows have {columns} columns"))),
        }
    }
}

/// Writes `report.html`, and the sheets of features and of rows as SVG and PNG.
pub(super) fn write(
    folder: &Path,
    title: &str,
    model: &FeatureModel,
    rows: Option<&Batch>,
    image: Image,
    facts: &[(String, String)],
) -> Result<(), Failure> {
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::input(format!("--report {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    let features = features(model);
    let sheets = [("features", features_sheet(&features, image)), ("rows", rows_sheet(model, rows, image))];
    let mut files = vec![("report.html".to_owned(), page(title, &features, &sheets, facts).into_bytes())];
    for (name, sheet) in &sheets {
        let drawn = picture::files(name, sheet);
        files.extend(drawn.map_err(|error| Failure::Internal { message: error.to_string() })?);
    }
    for (name, bytes) in files {
        let path = folder.join(name);
        anabranch_io::output::replace_file(&path, &bytes).map_err(|error| cannot(&path, &error))?;
    }
    Ok(())
}

/// A feature: id, part of the rows that have it, its cells, and its share of the squares that features bring to the rows.
struct Shown {
    id: u64,
    share: f64,
    count: f64,
    mean: Vec<f64>,
    explained: f64,
}

/// The features, those that explain most first.
fn features(model: &FeatureModel) -> Vec<Shown> {
    let posterior = model.fold.posterior();
    let mut all: Vec<Shown> = posterior
        .components()
        .iter()
        .map(|component| {
            let mean = posterior.family().feature(&component.evidence().stats).0;
            let count = component.expected_count();
            Shown {
                id: component.id().0,
                share: count / posterior.mass().max(f64::MIN_POSITIVE),
                count,
                explained: count * mean.iter().map(|cell| cell * cell).sum::<f64>(),
                mean,
            }
        })
        .collect();
    let total = all.iter().map(|feature| feature.explained).sum::<f64>().max(f64::MIN_POSITIVE);
    all.iter_mut().for_each(|feature| feature.explained /= total);
    all.sort_by(|a, b| b.explained.total_cmp(&a.explained).then(a.id.cmp(&b.id)));
    all.truncate(MOST);
    all
}

/// Cells and what stands below them.
type Cells = (Vec<f64>, String);

/// All features on one sheet.
fn features_sheet(features: &[Shown], image: Image) -> String {
    let caption = |feature: &Shown| format!("{} · {:.0} %", feature.id, 100.0 * feature.share);
    let shown = features.iter().map(|feature| (feature.mean.clone(), caption(feature)));
    sheet("features as pictures", &shown.collect::<Vec<Cells>>(), image)
}

/// Some rows, and below each what its features make of it.
fn rows_sheet(model: &FeatureModel, rows: Option<&Batch>, image: Image) -> String {
    let predictor = FeaturePredictor::new(model.fold.posterior());
    let (mut cells, mut rebuilt) = (Vec::new(), Vec::new());
    for (number, row) in rows.iter().flat_map(|rows| rows.rows()).take(ROWS).enumerate() {
        let found = predictor.look(row);
        let has = found.probabilities.iter().filter(|probability| **probability > HAS).count();
        cells.push((row.to_vec(), format!("row {}", number + 1)));
        rebuilt.push((found.reconstruction, counted(has as u64, "feature")));
    }
    // Each line is full, so that what was rebuilt stands below its row.
    cells.resize(if cells.is_empty() { 0 } else { IN_LINE }, (Vec::new(), String::new()));
    cells.extend(rebuilt);
    sheet("rows, and below each what its features make of it", &cells, image)
}

/// Cells side by side; blue is above 0, red below, and all have the same scale.
fn sheet(label: &str, all: &[Cells], image: Image) -> String {
    let largest = all.iter().flat_map(|(cells, _)| cells).fold(f64::MIN_POSITIVE, |max, m| max.max(m.abs()));
    let cell = SIDE / image.width as f64;
    let tall = (cell * image.height as f64).max(12.0);
    let step = (SIDE + GAP, tall + CAPTION + GAP);
    let lines = all.len().div_ceil(IN_LINE).max(1);
    let (width, height) = (IN_LINE as f64 * step.0 + GAP, lines as f64 * step.1 + GAP);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}"><rect width="{width}" height="{height}" fill="#ffffff"/>"##
    );
    let high = tall / image.height as f64;
    for (ix, (cells, caption)) in all.iter().enumerate().filter(|(_, (cells, _))| !cells.is_empty()) {
        let (left, top) = (GAP + (ix % IN_LINE) as f64 * step.0, GAP + (ix / IN_LINE) as f64 * step.1);
        for (place, value) in cells.iter().enumerate() {
            let (x, y) =
                (left + (place % image.width) as f64 * cell, top + (place / image.width) as f64 * high);
            let _ = write!(
                svg,
                r#"<rect x="{x:.2}" y="{y:.2}" width="{:.2}" height="{:.2}" fill="{}"/>"#,
                cell + 0.05,
                high + 0.05,
                colour(value / largest)
            );
        }
        let _ = write!(
            svg,
            r##"<rect x="{left:.2}" y="{top:.2}" width="{SIDE}" height="{tall:.2}" fill="none" stroke="#b8bec6"/><text x="{left:.2}" y="{:.2}" font-family="'Anabranch Sans', Arial, sans-serif" font-size="11" fill="#3a424d">{caption}</text>"##,
            top + tall + 13.0,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// White at 0, towards blue at 1 and towards red at −1.
fn colour(share: f64) -> String {
    let ink = share.abs().min(1.0);
    let full: [f64; 3] = if share >= 0.0 { [31.0, 78.0, 140.0] } else { [178.0, 56.0, 40.0] };
    let [r, g, b] = full.map(|c| (255.0 + (c - 255.0) * ink).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn page(
    title: &str,
    features: &[Shown],
    [(_, features_sheet), (_, rows_sheet)]: &[(&str, String); 2],
    facts: &[(String, String)],
) -> String {
    let row = |feature: &Shown| {
        let norm = feature.mean.iter().map(|m| m * m).sum::<f64>().sqrt();
        format!(
            "<tr><td>{}</td><td>{:.1} %</td><td>{}</td><td>{:.1} %</td><td>{}</td></tr>\n",
            feature.id,
            100.0 * feature.explained,
            grouped(feature.count.round()),
            100.0 * feature.share,
            significant(norm, 3)
        )
    };
    let rows: String = features.iter().map(row).collect();
    let body = format!(
        "{}<section>\n<h2>Features</h2>\n<p class=\"note\">The number of each, and how many of the rows have it.</p>\n\
         <figure>\n{features_sheet}</figure>\n</section>\n\
         <section>\n<h2>Rows rebuilt</h2>\n<p class=\"note\">Rows drawn from all, and below each the sum of the features \
         that it has.</p>\n<figure>\n{rows_sheet}</figure>\n</section>\n\
         <section>\n<h2>All features</h2>\n<p class=\"note\">What a feature explains is its share of the squares that \
         features bring to the rows.</p>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n\
         <thead><tr><th>feature</th><th>explains</th><th>rows</th><th>share of rows</th><th>length</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n</div>\n</section>\n",
        report::facts(facts)
    );
    report::shell(
        title,
        "Features that add up to the rows, those that explain most first. Blue is above 0, red below.",
        &body,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_as_many_cells_as_a_row_has_columns() {
        assert_eq!(Image::new(Some("2x3"), 6).unwrap(), Image { height: 2, width: 3 });
        assert_eq!(Image::new(None, 6).unwrap(), Image { height: 1, width: 6 });
        for flag in ["2x2", "6", "0x6", "axb"] {
            assert!(Image::new(Some(flag), 6).is_err(), "{flag}");
        }
    }

    #[test]
    fn nothing_is_white_and_the_signs_differ() {
        assert_eq!(colour(0.0), "#ffffff");
        assert_eq!(colour(1.0), "#1f4e8c");
        assert_eq!(colour(-2.0), "#b23828");
    }
}
