//! What every result prints in the same way, whatever the model.

use std::io::Write;

use anabranch::clusters::{Cut, Rule};
use anabranch::family::{AnyFamily, Family};
use anabranch::infer::Between;
use serde::Serialize;

use crate::args::OutputArgs;
use crate::columns::Columns;
use crate::failure::Failure;
use crate::picture::{counted, grouped, significant};

/// One JSON object on one line; `what` it is, should that fail.
pub fn print_json(out: &mut impl Write, value: &impl Serialize, what: &str) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", to_json(value, what)?)?)
}

/// The same as text.
pub fn to_json(value: &impl Serialize, what: &str) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::Internal { message: format!("cannot print the {what}: {error}") })
}

/// Columns named in one line at most.
const NAMED: usize = 6;

/// How uncertain the number of components is: one line, where it is.
pub fn uncertainty(between: Option<Between>) -> Option<String> {
    let Between { fewest, most } = between?;
    (fewest < most).then(|| format!("the data hardly tell between {fewest} and {most} components"))
}

/// Components that hold less than one row: some words in brackets, where there are any.
pub fn without_rows(components: usize, with_rows: usize) -> String {
    match components.saturating_sub(with_rows) {
        0 => String::new(),
        few => format!(" ({} of the components with less than one row)", grouped(few as f64)),
    }
}

/// How a kept cut parts clusters: one line, where it is not as usual.
pub fn kept_cut(cut: Cut) -> Option<String> {
    let rule = match cut.rule {
        Rule::Auto => None,
        Rule::Valley(part) => Some(format!("valley {part}")),
        Rule::Count(n) => Some(counted(n as u64, "cluster")),
    };
    let size =
        cut.min_size.map(|rows| format!("at least {} in a cluster", counted(rows.round() as u64, "row")));
    let noise = cut.noise.then(|| "smaller ones are noise".to_owned());
    let said: Vec<String> = [rule, size, noise].into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("cut kept: {} (clusters --keep alone: as usual)", said.join(", ")))
}

/// Columns that have one value in all rows: one line, where there are any.
pub fn constants(columns: &Columns) -> Option<String> {
    let constant = |(name, value): (&String, Option<f64>)| {
        value.map(|value| format!("{name} = {}", significant(value, 4)))
    };
    let all: Vec<String> = columns.names().iter().zip(columns.constants()).filter_map(constant).collect();
    (!all.is_empty()).then(|| format!("the same in every row: {}", some_of(all)))
}

/// What was made of columns that follow from others: one line, where there are any.
pub fn dependence(family: &AnyFamily, columns: &Columns) -> Option<String> {
    let follow: Vec<String> = dependent(family)
        .into_iter()
        .filter(|column| columns.constant(*column).is_none())
        .map(|column| columns.names()[column].clone())
        .collect();
    (!follow.is_empty()).then(|| {
        let listed = some_of(follow);
        format!("following from other columns: {listed}; known up to an interval (--resolution 0: exactly)")
    })
}

fn dependent(family: &AnyFamily) -> Vec<usize> {
    match family {
        AnyFamily::Gaussian(gaussian) => gaussian.dependent_columns(),
        _ => Vec::new(),
    }
}

/// The first of them, and how many there are beside.
fn some_of(mut listed: Vec<String>) -> String {
    let more = listed.len().saturating_sub(NAMED);
    listed.truncate(NAMED);
    if more > 0 {
        listed.push(format!("{more} more"));
    }
    listed.join(", ")
}

/// What was made of rounded values: one line, where there are any.
pub fn rounding(family: &AnyFamily, known: &Columns) -> Option<String> {
    let dependent = dependent(family);
    let rounded = |column: &usize| {
        family.resolution(*column).is_some_and(|width| width > 0.0) && !dependent.contains(column)
    };
    let columns: Vec<usize> = (0..family.dimensions()).filter(rounded).collect();
    let name = |column: &usize| known.names()[*column].clone();
    let width = |column: &usize| significant(family.resolution(*column).unwrap_or(0.0), 3);
    let first = width(columns.first()?);
    let alike = columns.iter().all(|column| width(column) == first);
    let shown = |column: &usize| match alike {
        true => name(column),
        false => format!("{} by {}", name(column), width(column)),
    };
    let all = if columns.len() == family.dimensions() && alike {
        "all columns".to_owned()
    } else {
        some_of(columns.iter().map(shown).collect())
    };
    let by = if alike { format!(" to multiples of {first}") } else { String::new() };
    Some(format!("rounded{by}: {all}; each value counts as an interval (--resolution 0: as exact)"))
}

/// What was made of rows that repeat: one line, where they do.
pub fn repetition(copies: f64) -> Option<String> {
    (copies > 1.0).then(|| {
        format!(
            "rows repeat {} times on average: copies are no evidence for more components",
            significant(copies, 3)
        )
    })
}

/// What a run cost.
pub struct Effort {
    pub seconds: f64,
    pub threads: usize,
    pub cpu_seconds: f64,
    pub minibatches: u64,
    pub matchings: u64,
    pub conflicts: u64,
}

impl Effort {
    /// The line that says so.
    pub fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        // Workers that opened no components at the same time had nothing to match.
        let matched = match (self.matchings, self.conflicts) {
            (0, _) => String::new(),
            (n, 0) => format!(", new components matched {}", counted(n, "time")),
            (n, again) => format!(", new components matched {}, {again} of them again", counted(n, "time")),
        };
        writeln!(
            out,
            "{:.2} s on {} ({:.2} processor seconds), {}{matched}",
            self.seconds,
            counted(self.threads as u64, "thread"),
            self.cpu_seconds,
            counted(self.minibatches, "minibatch")
        )?;
        Ok(())
    }
}

/// Where the model and the report are.
pub fn print_places(out: &mut impl Write, output: &OutputArgs) -> Result<(), Failure> {
    if let Some(path) = &output.out {
        writeln!(out, "model: {}", path.display())?;
    }
    if let Some(folder) = &output.report {
        writeln!(out, "report: {}", folder.join("report.html").display())?;
    }
    if output.out.is_none() {
        writeln!(out, "the model is not kept: --out FILE writes it")?;
    }
    Ok(())
}
