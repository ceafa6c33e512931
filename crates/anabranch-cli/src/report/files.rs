//! Files of a report, each replaced at once.

use super::{ReportData, figures, html};
use crate::picture::{self, Figure, RasterError};
use anabranch_io::output::replace_file;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Every picture that a report can have; one that is left out is removed, lest an old one stay beside a new page.
const PICTURES: [&str; 7] = ["clusters", "tree", "sizes", "growth", "likelihood", "words", "prevalence"];

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFiles {
    /// The page.
    pub html: PathBuf,
    /// The pictures, SVG and PNG in turn; SVG alone in a build without PNG.
    pub pictures: Vec<PathBuf>,
}

/// Why a report could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file or folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A picture cannot be drawn.
    #[error("cannot draw the picture `{name}`: {source}")]
    Draw {
        /// Which picture.
        name: String,
        /// Why.
        source: RasterError,
    },
}

/// Writes the report into `dir`, which is made when missing. A reader sees each file old or new, never half.
pub fn write(dir: &Path, data: &ReportData) -> Result<ReportFiles, ReportError> {
    let figures = figures(data);
    write_files(dir, &html::page(data, &figures), &figures)
}

/// Writes a page of its own with this body and these pictures below it.
pub(crate) fn write_page(
    dir: &Path,
    title: &str,
    subtitle: &str,
    body: &str,
    figures: &[Figure],
) -> Result<ReportFiles, ReportError> {
    write_files(dir, &html::plain(title, subtitle, body, figures), figures)
}

fn write_files(dir: &Path, page: &str, figures: &[Figure]) -> Result<ReportFiles, ReportError> {
    std::fs::create_dir_all(dir).map_err(|source| ReportError::Write { path: dir.to_owned(), source })?;
    let mut pictures = Vec::new();
    for figure in figures {
        let draw_error = |source| ReportError::Draw { name: figure.name.clone(), source };
        for (name, bytes) in picture::files(&figure.name, &figure.svg()).map_err(draw_error)? {
            pictures.push(replace(dir, &name, &bytes)?);
        }
    }
    let html = replace(dir, "report.html", page.as_bytes())?;
    remove_stale(dir, &pictures)?;
    Ok(ReportFiles { html, pictures })
}

fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, ReportError> {
    let path = dir.join(name);
    match replace_file(&path, bytes) {
        Ok(()) => Ok(path),
        Err(source) => Err(ReportError::Write { path, source }),
    }
}

fn remove_stale(dir: &Path, written: &[PathBuf]) -> Result<(), ReportError> {
    let names = PICTURES.iter().flat_map(|name| [format!("{name}.svg"), format!("{name}.png")]);
    for path in names.map(|name| dir.join(name)).filter(|path| !written.contains(path)) {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(ReportError::Write { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}
