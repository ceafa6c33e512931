//! The report of a feature model: its features as pictures where rows are pictures, as bars of numbers where not.

use std::fmt::Write;
use std::path::Path;

use super::FeatureModel;
use crate::failure::Failure;
use crate::picture::{self, grouped, significant};
use crate::report;

/// Features on a page; more would be a file, not a page.
const MOST: usize = 200;
/// Width of a picture of a feature.
const SIDE: f64 = 96.0;
/// Pictures in a line of the sheet.
const IN_LINE: usize = 8;
/// Room for the caption of a picture.
const CAPTION: f64 = 18.0;
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

/// Writes `report.html`, and the sheet of features as SVG and PNG.
pub(super) fn write(
    folder: &Path,
    title: &str,
    model: &FeatureModel,
    image: Image,
    facts: &[(String, String)],
) -> Result<(), Failure> {
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::input(format!("--report {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    let features = features(model);
    let sheet = sheet(&features, image);
    let mut files = picture::files("features", &sheet)
        .map_err(|error| Failure::Internal { message: error.to_string() })?;
    files.push(("report.html".to_owned(), page(title, &features, &sheet, facts).into_bytes()));
    for (name, bytes) in files {
        let path = folder.join(name);
        anabranch_io::output::replace_file(&path, &bytes).map_err(|error| cannot(&path, &error))?;
    }
    Ok(())
}

/// A feature: id, part of the rows that have it, and its cells.
struct Shown {
    id: u64,
    share: f64,
    count: f64,
    mean: Vec<f64>,
}

fn features(model: &FeatureModel) -> Vec<Shown> {
    let posterior = model.fold.posterior();
    let mut all: Vec<Shown> = posterior
        .components()
        .iter()
        .map(|component| Shown {
            id: component.id().0,
            share: component.expected_count() / posterior.mass().max(f64::MIN_POSITIVE),
            count: component.expected_count(),
            mean: posterior.family().feature(&component.evidence().stats).0,
        })
        .collect();
    all.sort_by(|a, b| b.count.total_cmp(&a.count).then(a.id.cmp(&b.id)));
    all.truncate(MOST);
    all
}

/// All features on one sheet; blue is above 0, red below, and all have the same scale.
fn sheet(features: &[Shown], image: Image) -> String {
    let largest = features.iter().flat_map(|f| &f.mean).fold(f64::MIN_POSITIVE, |max, m| max.max(m.abs()));
    let cell = SIDE / image.width as f64;
    let tall = (cell * image.height as f64).max(12.0);
    let step = (SIDE + GAP, tall + CAPTION + GAP);
    let lines = features.len().div_ceil(IN_LINE).max(1);
    let (width, height) = (IN_LINE as f64 * step.0 + GAP, lines as f64 * step.1 + GAP);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="features as pictures"><rect width="{width}" height="{height}" fill="#ffffff"/>"##
    );
    let high = tall / image.height as f64;
    for (ix, feature) in features.iter().enumerate() {
        let (left, top) = (GAP + (ix % IN_LINE) as f64 * step.0, GAP + (ix / IN_LINE) as f64 * step.1);
        for (place, value) in feature.mean.iter().enumerate() {
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
            r##"<rect x="{left:.2}" y="{top:.2}" width="{SIDE}" height="{tall:.2}" fill="none" stroke="#b8bec6"/><text x="{left:.2}" y="{:.2}" font-family="'Anabranch Sans', Arial, sans-serif" font-size="11" fill="#3a424d">{} · {:.0} %</text>"##,
            top + tall + 13.0,
            feature.id,
            100.0 * feature.share
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

fn page(title: &str, features: &[Shown], sheet: &str, facts: &[(String, String)]) -> String {
    let row = |feature: &Shown| {
        let norm = feature.mean.iter().map(|m| m * m).sum::<f64>().sqrt();
        format!(
            "<tr><td>{}</td><td>{}</td><td>{:.1} %</td><td>{}</td></tr>\n",
            feature.id,
            grouped(feature.count.round()),
            100.0 * feature.share,
            significant(norm, 3)
        )
    };
    let rows: String = features.iter().map(row).collect();
    let body = format!(
        "{}<section>\n<figure>\n{sheet}</figure>\n</section>\n<section>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n\
         <thead><tr><th>feature</th><th>rows</th><th>share</th><th>length</th></tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table>\n</div>\n</section>\n",
        report::facts(facts)
    );
    report::shell(
        title,
        "Features that add up to the rows, the most frequent first. Blue is above 0, red below.",
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
