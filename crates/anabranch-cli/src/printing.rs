//! What every result prints in the same way, whatever the model.

use std::io::Write;

use serde::Serialize;

use crate::args::OutputArgs;
use crate::failure::Failure;
use crate::picture::counted;

/// One JSON object on one line; `what` it is, should that fail.
pub fn print_json(out: &mut impl Write, value: &impl Serialize, what: &str) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", to_json(value, what)?)?)
}

/// The same as text.
pub fn to_json(value: &impl Serialize, what: &str) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::Internal { message: format!("cannot print the {what}: {error}") })
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
        writeln!(
            out,
            "{:.2} s on {} ({:.2} processor seconds), {}, {}, {}",
            self.seconds,
            counted(self.threads as u64, "thread"),
            self.cpu_seconds,
            counted(self.minibatches, "minibatch"),
            counted(self.matchings, "matching"),
            counted(self.conflicts, "conflict")
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
    Ok(())
}
