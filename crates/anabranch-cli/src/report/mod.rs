//! The report of a run: a page that opens from disk, and its pictures as SVG and PNG.
//!
//! ```text
//! dir/report.html             everything, self-contained
//! dir/clusters.{svg,png}      points and components
//! dir/tree.{svg,png}          how clusters join, where there are several
//! dir/sizes.{svg,png}         how large components are
//! dir/growth.{svg,png}        components and matchings over minibatches, where there were several
//! dir/likelihood.{svg,png}    held-out likelihood over time, where there is one
//! ```

mod clusters;
mod data;
mod differences;
mod doubts;
mod files;
mod growth;
mod html;
mod likelihood;
mod principal;
mod sizes;
mod tree;

pub use data::{BadRow, ClusterRow, ComponentRow, EllipseData, ReportData, ScatterData, TraceRow, TreeData};
pub(crate) use files::write_page;
pub use files::{ReportError, ReportFiles, write};
pub(crate) use html::{facts, shell};
pub use principal::{Covariance, Projection};

use std::path::Path;

use crate::picture::Figure;

/// Width of every picture.
pub(crate) const WIDTH: f64 = 760.0;

/// Rows are outside of a picture that are beyond nearly all others by more than so many times their range.
pub(crate) const FAR_OUT: f64 = 3.0;

/// The style of every page.
const STYLE: &str = include_str!("page.css");

/// Inputs that a title names.
const NAMED: usize = 3;

/// A title that names files without the folders they lie in: a page may be sent to somebody else.
pub(crate) fn title(what: &str, inputs: &[String]) -> String {
    let name = |input: &String| match Path::new(input).file_name() {
        _ if input == "-" => "standard input".to_owned(),
        Some(name) => name.to_string_lossy().into_owned(),
        None => input.clone(),
    };
    let names: Vec<String> = inputs.iter().take(NAMED).map(name).collect();
    let more = inputs.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{what} of {}{more}", names.join(", "))
}

/// The pictures of a report, in the order of the page.
pub fn figures(data: &ReportData) -> Vec<Figure> {
    let mut figures = vec![clusters::figure(data)];
    figures.extend(tree::figure(data));
    figures.push(sizes::figure(data));
    figures.extend(growth::figure(data));
    figures.extend(likelihood::figure(data));
    figures
}

#[cfg(test)]
mod tests;
