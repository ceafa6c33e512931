//! The trace: every minibatch in a csv file, and a thinned copy in memory for the report.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anabranch_io::model::Model;

use crate::failure::Failure;
use crate::report::TraceRow;

/// Rows kept in memory at most: however long the stream, the report's curve needs no more.
const KEPT: usize = 2048;

/// Where the trace goes.
pub struct Trace {
    file: Option<(PathBuf, BufWriter<File>)>,
    kept: Vec<TraceRow>,
    stride: u64,
}

impl Trace {
    /// Writes to `path` if there is one.
    pub fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let file = match path {
            None => None,
            Some(path) => {
                let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
                let mut writer = BufWriter::new(file);
                writeln!(writer, "seconds,minibatch,components,matchings,conflicts,test_log_likelihood")
                    .map_err(|error| cannot_write(path, &error))?;
                Some((path.to_path_buf(), writer))
            }
        };
        Ok(Self { file, kept: Vec::new(), stride: 1 })
    }

    /// Adds one minibatch.
    pub fn add(&mut self, row: TraceRow) -> Result<(), Failure> {
        if let Some((path, writer)) = &mut self.file {
            let likelihood = row.test_log_likelihood.map_or(String::new(), |ll| ll.to_string());
            writeln!(
                writer,
                "{:.6},{},{},{},{},{likelihood}",
                row.seconds, row.minibatch, row.components, row.matchings, row.conflicts
            )
            .map_err(|error| cannot_write(path, &error))?;
        }
        // The first minibatches are where the model grows: keep them all, then ever fewer.
        if row.minibatch < 256
            || row.minibatch.is_multiple_of(self.stride)
            || row.test_log_likelihood.is_some()
        {
            self.kept.push(row);
        }
        if self.kept.len() > KEPT {
            self.stride *= 2;
            let stride = self.stride;
            self.kept.retain(|row| row.minibatch < 256 || row.minibatch.is_multiple_of(stride));
        }
        Ok(())
    }

    /// Adds the state at the end, with the likelihood of all held-out rows, and closes the file.
    pub fn conclude(&mut self, seconds: f64, model: &Model, likelihood: Option<f64>) -> Result<(), Failure> {
        if likelihood.is_some() {
            self.add(TraceRow {
                seconds,
                minibatch: model.fold.absorbed().len(),
                components: model.fold.posterior().components().len() as u64,
                matchings: model.provenance.matchings,
                conflicts: model.provenance.conflicts,
                test_log_likelihood: likelihood,
            })?;
        }
        match &mut self.file {
            Some((path, writer)) => writer.flush().map_err(|error| cannot_write(path, &error)),
            None => Ok(()),
        }
    }

    /// The thinned rows.
    pub fn rows(&self) -> &[TraceRow] {
        &self.kept
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("--trace {}: {error}", path.display()))
}
