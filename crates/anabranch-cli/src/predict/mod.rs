//! `anabranch predict`: the component of each row, its density and probabilities, with the cells that it came in with; or the rows
//! that are explained worst.

pub mod impute;
mod pipeline;
mod table;
mod worst;

use std::io::{BufWriter, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Family};
use anabranch::posterior::Predictor;
use anabranch_io::model::{Model, model_name};
use anabranch_io::table::{Layout, Output, Style, TableError};
use anabranch_io::{Keep, OnBadRow, ReadOptions, Rows};

use crate::args::PredictArgs;
use crate::failure::Failure;
use crate::features;
use crate::fit::Progress;
use crate::fit::check_apart;
use crate::picture::counted;
use crate::reading::{open_inputs, options_with_missing, out_of_domain};
use crate::stop;
use crate::topics;
use pipeline::{Order, in_order};
use table::Question;
use worst::{Bad, WorstRows};

/// Rows that are answered at a time: few enough for every thread to have some of a short file.
const ROWS_AT_ONCE: usize = 2048;

/// Runs the command. Every row of the input has one row in the output, in order; a bad one has no answer and is counted.
pub fn command(args: &PredictArgs) -> Result<(), Failure> {
    args.refuse_a_number_behind_proba()?;
    check_apart(&[("--out", args.out.as_deref())], &args.inputs)?;
    stop::listen();
    match model_name(&args.model).as_deref() {
        Ok(topics::NAME) => return topics::predict(args),
        Ok(features::NAME) => return features::predict(args),
        _ => {}
    }
    let model = Model::load(&args.model)?;
    let posterior = model.fold.posterior();
    let predictor = Predictor::new(posterior);
    let options = ReadOptions {
        expect: Some(model.provenance.schema.clone()),
        passage: Some(keep(args)),
        interrupted: Some(pipeline::ended),
        ..options_with_missing(&args.read)?
    };
    let source = open_inputs(&args.inputs, &options)?;
    let style = style(args)?;
    let question = Question::new(args, &predictor, &model, style.format)?;
    let kept = source.kept_columns().len();
    let fields = question.fields(source.kept_columns());
    let path = args.out.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let layout = Layout::new(fields, style, &path)?;
    let mut output = match &args.out {
        Some(path) => Output::file(&layout, path)?,
        None => Output::stream(&layout, Box::new(BufWriter::with_capacity(1 << 16, std::io::stdout())))?,
    };
    let edge = Edge {
        input: crate::reading::input_name(&args.inputs),
        family: posterior.family(),
        columns: model.provenance.schema.names().map(str::to_owned).collect(),
        on_bad_row: options.on_bad_row,
        skipped: AtomicU64::new(0),
    };
    let mut progress = progress(args, source.rows_hint());
    let threads = args.threads.map_or_else(cores, |n| n as usize);
    let components = predictor.ids().len();
    let mut seen = 0;
    match args.worst {
        None => {
            let work = |first: u64, rows: Rows| {
                let rows = edge.check(first, rows)?;
                Ok((rows.len() as u64, layout.encode(question.block(&predictor, first, rows))))
            };
            in_order(source, ROWS_AT_ONCE, threads, work, |(rows, piece), order| {
                output.write(piece)?;
                if order == Order::Last {
                    output.flush()?;
                }
                seen += rows;
                progress.update(seen, components);
                Ok(())
            })?;
        }
        Some(count) => {
            let mut worst = WorstRows::new(count, kept);
            let work = |first: u64, rows: Rows| {
                let rows = edge.check(first, rows)?;
                Ok((rows.len() as u64, worst::of_block(&predictor, count, first, &rows)))
            };
            in_order(source, ROWS_AT_ONCE, threads, work, |(rows, bad): (u64, Vec<Bad>), _| {
                bad.into_iter().for_each(|bad| worst.offer(bad));
                seen += rows;
                progress.update(seen, components);
                Ok(())
            })?;
            output.write(layout.encode(worst.into_block()))?;
        }
    }
    progress.finish();
    unless_stopped(args.out.as_deref(), seen)?;
    output.finish()?;
    let skipped = edge.skipped.into_inner();
    if skipped > 0 {
        eprintln!("{} skipped", counted(skipped, "bad row"));
    }
    Ok(())
}

/// Ends a command that somebody has asked to stop: whole rows were printed, and a file is as it was.
pub(crate) fn unless_stopped(out: Option<&Path>, rows: u64) -> Result<(), Failure> {
    match (stop::asked(), out) {
        (false, _) => Ok(()),
        (true, None) => Err(Failure::Stopped(format!("stopped after {}", counted(rows, "row")))),
        (true, Some(path)) => Err(Failure::Stopped(format!("stopped: {} is as it was", path.display()))),
    }
}

/// The columns that are passed through.
fn keep(args: &PredictArgs) -> Keep {
    match args.keep.as_deref() {
        None => Keep::Nothing,
        Some([all]) if all == "all" => Keep::All,
        Some(columns) => Keep::Columns(columns.to_vec()),
    }
}

fn style(args: &PredictArgs) -> Result<Style, Failure> {
    match &args.out {
        Some(path) => {
            let style = Style::of_path(path)?;
            if args.json && style.format != anabranch_io::Format::Jsonl {
                return Err(Failure::input("--json: --out names a file of another format")
                    .with_hint("end the name with .jsonl, or leave --json out"));
            }
            Ok(style)
        }
        None if args.json => Ok(Style::JSONL),
        None => Ok(Style::CSV),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// A bar where it disturbs nobody: not between the lines of a terminal.
fn progress(args: &PredictArgs, rows: Option<u64>) -> Progress {
    let disturbs = args.out.is_none() && args.worst.is_none() && std::io::stdout().is_terminal();
    let plain = !std::io::stderr().is_terminal() && args.out.is_none();
    Progress::new(args.quiet || disturbs || plain, rows)
}

/// Where rows are checked against the family's domain.
struct Edge<'a> {
    input: String,
    family: &'a AnyFamily,
    columns: Vec<String>,
    on_bad_row: OnBadRow,
    skipped: AtomicU64,
}

impl Edge<'_> {
    /// The same rows, those outside of the domain among the bad ones.
    fn check(&self, first: u64, rows: Rows) -> Result<Rows, Failure> {
        let batch = &rows.batch;
        let strange: Vec<usize> =
            (0..batch.n_rows()).filter(|ix| self.family.check(batch.row(*ix)).is_err()).collect();
        self.skipped.fetch_add((rows.bad.len() + strange.len()) as u64, Ordering::Relaxed);
        let Some(first_strange) = strange.first() else { return Ok(rows) };
        let places: Vec<usize> = table::good_places(&rows).collect();
        if self.on_bad_row == OnBadRow::Fail {
            let number = first + places[*first_strange] as u64;
            let fault = self.family.check(batch.row(*first_strange)).expect_err("it was found strange above");
            return Err(out_of_domain(&self.input, &fault, &self.columns, number));
        }
        let mut bad = rows.bad.clone();
        bad.extend(strange.iter().map(|ix| places[*ix]));
        bad.sort_unstable();
        let mut left = strange.into_iter().peekable();
        let mut values = Vec::with_capacity(batch.values().len());
        for (ix, row) in batch.rows().enumerate() {
            if left.next_if_eq(&ix).is_none() {
                values.extend_from_slice(row);
            }
        }
        let batch = Batch::with_missing(batch.dimensions(), values).map_err(Failure::input)?;
        Ok(Rows { batch, bad, kept: rows.kept })
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        let message = error.to_string();
        match error {
            TableError::Stream(source) => source.into(),
            TableError::NoFormat { .. } => Self::input(message).with_hint(
                "end it with .csv, .tsv, .jsonl, .parquet, .arrow or .npy, and .gz or .zst behind that",
            ),
            TableError::LeftOut { feature, .. } => Self::input(message)
                .with_hint(format!("build it with `--features {feature}`, or write .csv, .jsonl or .npy")),
            TableError::Twice { .. } => Self::input(message)
                .with_hint("leave the column of the input out of --keep, or give it another name"),
            TableError::NotNumbers { .. } => {
                Self::input(message).with_hint("leave the column out of --keep, or write another format")
            }
            _ => Self::input(message),
        }
    }
}
