//! The trace: every minibatch in a csv file, and a thinned copy in memory for the report.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anabranch_io::model::Model;
use anabranch_io::output::{self, NewFile};

use crate::failure::Failure;
use crate::report::TraceRow;

/// Rows kept in memory at most: however long the stream, the report's curve needs no more.
const KEPT: usize = 2048;

/// Minibatches that are always kept: the model grows at the start.
const FIRST: u64 = 256;

/// Where the trace goes.
pub struct Trace {
    file: Option<(PathBuf, BufWriter<File>)>,
    kept: Vec<TraceRow>,
    stride: u64,
    /// Why the file ends early.
    failure: Option<std::io::Error>,
    likelihoods: BTreeMap<u64, f64>,
}

impl Trace {
    /// Writes to `path` if there is one.
    pub fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let file = match path {
            None => None,
            Some(path) => {
                let file = output::growing_file(path).map_err(|error| cannot_write(path, &error))?;
                let mut writer = BufWriter::new(file);
                writeln!(writer, "seconds,minibatch,components,matchings,conflicts,test_log_likelihood")
                    .and_then(|()| writer.flush())
                    .map_err(|error| cannot_write(path, &error))?;
                Some((path.to_path_buf(), writer))
            }
        };
        Ok(Self { file, kept: Vec::new(), stride: 1, failure: None, likelihoods: BTreeMap::new() })
    }

    /// Adds one minibatch. Its held-out likelihood is filled in at the end, and what could not be written is told there.
    pub fn add(&mut self, row: TraceRow) {
        if let (Some((_, writer)), None) = (&mut self.file, &self.failure) {
            let written = writeln!(
                writer,
                "{:.6},{},{},{},{},",
                row.seconds, row.minibatch, row.components, row.matchings, row.conflicts
            );
            self.failure = written.err();
        }
        if row.minibatch < FIRST || row.minibatch.is_multiple_of(self.stride) {
            self.kept.push(row);
        }
        if self.kept.len() > KEPT {
            self.stride *= 2;
            let stride = self.stride;
            self.kept.retain(|row| row.minibatch < FIRST || row.minibatch.is_multiple_of(stride));
        }
    }

    /// The held-out likelihoods after some of the minibatches.
    pub fn fill(&mut self, likelihoods: BTreeMap<u64, f64>) {
        for row in &mut self.kept {
            row.test_log_likelihood = likelihoods.get(&row.minibatch).copied();
        }
        self.likelihoods = likelihoods;
    }

    /// Ends the trace with the state of the model, and writes the likelihoods into the file.
    pub fn conclude(&mut self, seconds: f64, model: &Model, likelihood: Option<f64>) -> Result<(), Failure> {
        let minibatch = model.fold.absorbed().len();
        self.likelihoods.extend(likelihood.map(|likelihood| (minibatch, likelihood)));
        match self.kept.last_mut().filter(|row| row.minibatch == minibatch) {
            Some(row) => row.test_log_likelihood = likelihood,
            None if likelihood.is_some() => self.kept.push(TraceRow {
                seconds,
                minibatch,
                components: model.fold.posterior().components().len() as u64,
                matchings: model.provenance.matchings,
                conflicts: model.provenance.conflicts,
                test_log_likelihood: likelihood,
            }),
            None => {}
        }
        let Some((path, mut writer)) = self.file.take() else { return Ok(()) };
        self.failure
            .take()
            .map_or_else(|| writer.flush(), Err)
            .and_then(
                |()| if self.likelihoods.is_empty() { Ok(()) } else { rewrite(&path, &self.likelihoods) },
            )
            .map_err(|error| cannot_write(&path, &error))
    }

    /// The thinned rows.
    pub fn rows(&self) -> &[TraceRow] {
        &self.kept
    }
}

/// Fills the last column of the file, line by line and in one step.
fn rewrite(path: &Path, likelihoods: &BTreeMap<u64, f64>) -> std::io::Result<()> {
    if !output::is_file(path) {
        // What went into a pipe cannot be filled in.
        return Ok(());
    }
    let mut writer = NewFile::create(path)?;
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let minibatch = line.split(',').nth(1).and_then(|cell| cell.parse().ok());
        let likelihood = minibatch.and_then(|minibatch: u64| likelihoods.get(&minibatch));
        match likelihood {
            Some(likelihood) if line.ends_with(',') => writeln!(writer, "{line}{likelihood}")?,
            _ => writeln!(writer, "{line}")?,
        }
    }
    writer.finish()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("--trace {}: {error}", path.display()))
}
