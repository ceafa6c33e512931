//! `anabranch impute`: rows with their missing values filled in.

use std::io::BufWriter;
use std::sync::atomic::AtomicU64;

use anabranch::family::{AnyFamily, Family};
use anabranch::posterior::Predictor;
use anabranch_io::model::{Model, model_name};
use anabranch_io::table::{Block, Field, Kind, Layout, Output, Style, Values};
use anabranch_io::{Cells, Keep, KeptColumn, ReadOptions, Rows, Schema};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::pipeline::{self, Order, in_order};
use super::{Edge, ROWS_AT_ONCE, cores, table, unless_stopped};
use crate::args::ImputeArgs;
use crate::columns::Columns;
use crate::failure::Failure;
use crate::fit::Progress;
use crate::fit::check_apart;
use crate::picture::counted;
use crate::reading::{input_name, open_inputs, options_with_missing};
use crate::{features, stop, topics};

/// Runs the command: every column of the input in its order, those of the model without a missing value.
pub fn command(args: &ImputeArgs) -> Result<(), Failure> {
    check_apart(&[("--out", args.out.as_deref())], &args.inputs)?;
    stop::listen();
    if model_name(&args.model).is_ok_and(|name| [features::NAME, topics::NAME].contains(&name.as_str())) {
        return Err(Failure::input("impute goes with mixtures"));
    }
    let model = Model::load(&args.model)?;
    let posterior = model.fold.posterior();
    let predictor = Predictor::new(posterior);
    let options = ReadOptions {
        expect: Some(model.provenance.schema.clone()),
        passage: Some(Keep::All),
        interrupted: Some(pipeline::ended),
        ..options_with_missing(&args.read)?
    };
    let source = open_inputs(&args.inputs, &options)?;
    let style = match &args.out {
        Some(path) => Style::of_path(path)?,
        None => Style::CSV,
    };
    let columns = Columns::of(&model);
    let empty: Vec<usize> = columns.empty().collect();
    if !empty.is_empty() {
        let named: Vec<String> = empty.iter().map(|column| columns.called(*column)).collect();
        eprintln!(
            "{}: no row that the model has learned from had a value there; what is missing stays missing",
            named.join(", ")
        );
    }
    let filler = Filler::new(args, &predictor, &model, &empty, source.kept_columns());
    let path = args.out.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let layout = Layout::new(filler.fields(), style, &path)?;
    let mut output = match &args.out {
        Some(path) => Output::file(&layout, path)?,
        None => Output::stream(&layout, Box::new(BufWriter::with_capacity(1 << 16, std::io::stdout())))?,
    };
    let edge = Edge {
        input: input_name(&args.inputs),
        family: posterior.family(),
        columns: model.provenance.schema.names().map(str::to_owned).collect(),
        on_bad_row: options.on_bad_row,
        skipped: AtomicU64::new(0),
    };
    let mut progress = Progress::new(args.quiet || args.out.is_none(), source.rows_hint());
    let threads = args.threads.map_or_else(cores, |n| n as usize);
    let (mut seen, mut filled) = (0, 0);
    let work = |first: u64, rows: Rows| {
        let rows = edge.check(first, rows)?;
        let unknown = |row: &[f64]| empty.iter().filter(|column| row[**column].is_nan()).count() as u64;
        let missing = rows.batch.missing_cells() as u64 - rows.batch.rows().map(unknown).sum::<u64>();
        Ok((rows.len() as u64, missing, layout.encode(filler.block(first, rows))))
    };
    in_order(source, ROWS_AT_ONCE, threads, work, |(rows, missing, piece), order| {
        output.write(piece)?;
        if order == Order::Last {
            output.flush()?;
        }
        seen += rows;
        filled += missing;
        progress.update(seen, predictor.ids().len());
        Ok(())
    })?;
    progress.finish();
    unless_stopped(args.out.as_deref(), seen)?;
    output.finish()?;
    if !args.quiet {
        eprintln!("{} filled", counted(filled, "missing value"));
    }
    let skipped = edge.skipped.into_inner();
    if skipped > 0 {
        eprintln!("{} left as they are", counted(skipped, "bad row"));
    }
    Ok(())
}

/// What is written of each row.
struct Filler<'a> {
    predictor: &'a Predictor,
    family: &'a AnyFamily,
    schema: &'a Schema,
    /// Columns of the model of which nothing is known.
    empty: &'a [usize],
    /// Columns of the input, and which of the model's columns each is.
    columns: Vec<(KeptColumn, Option<usize>)>,
    /// The seed of draws, where values are drawn.
    draw: Option<u64>,
    deviations: bool,
}

impl<'a> Filler<'a> {
    fn new(
        args: &ImputeArgs,
        predictor: &'a Predictor,
        model: &'a Model,
        empty: &'a [usize],
        kept: &[KeptColumn],
    ) -> Self {
        let (family, schema) = (model.fold.posterior().family(), &model.provenance.schema);
        let column = |kept: &KeptColumn| (kept.clone(), schema.names().position(|name| name == kept.name));
        let columns = kept.iter().map(column).collect();
        Self {
            predictor,
            family,
            schema,
            empty,
            columns,
            draw: args.draw.then_some(args.seed),
            deviations: args.std,
        }
    }

    /// Labels of a column of names.
    fn labels(&self, column: usize) -> Option<&[String]> {
        self.schema.columns[column].categories.as_deref()
    }

    fn has_deviation(&self, column: Option<usize>) -> Option<usize> {
        column.filter(|column| self.deviations && self.family.categories(*column).is_none())
    }

    fn fields(&self) -> Vec<Field> {
        let is_number = |kept: &KeptColumn, column: &Option<usize>| match column {
            Some(column) => self.labels(*column).is_none(),
            None => kept.is_number,
        };
        let own = self.columns.iter().map(|(kept, column)| {
            Field::new(&kept.name, if is_number(kept, column) { Kind::Number } else { Kind::Text })
        });
        let deviations = self.columns.iter().filter(|(_, column)| self.has_deviation(*column).is_some());
        own.chain(deviations.map(|(kept, _)| Field::new(format!("{}_std", kept.name), Kind::Number)))
            .collect()
    }

    fn block(&self, first: u64, rows: Rows) -> Block {
        let (n, d) = (rows.len(), rows.batch.dimensions());
        let places: Vec<usize> = table::good_places(&rows).collect();
        let mut values = vec![None; n * d];
        let mut spreads = vec![None; n * d];
        for (place, row) in places.iter().zip(rows.batch.rows()) {
            let (mut filled, mut deviation) = (row.to_vec(), vec![0.0; d]);
            match self.draw {
                Some(seed) => {
                    // Each row has draws of its own: threads and pieces do not matter.
                    let number = first + *place as u64;
                    let mut rng =
                        Xoshiro256PlusPlus::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    self.predictor.draw_missing(&mut filled, &mut rng);
                }
                None => self.predictor.impute(row, &mut filled, &mut deviation),
            }
            for column in (0..d).filter(|column| !(row[*column].is_nan() && self.empty.contains(column))) {
                values[place * d + column] = Some(filled[column]);
                spreads[place * d + column] = Some(deviation[column]);
            }
        }
        let own = self.columns.iter().zip(rows.kept).map(|((_, column), kept)| match column {
            None => Values::Cells(kept),
            Some(column) => match self.labels(*column) {
                // A row that is left as it is keeps the numbers that it has.
                None => {
                    let own = |row: usize| kept.get(row).trim().parse().ok().filter(|x: &f64| x.is_finite());
                    Values::Numbers((0..n).map(|row| values[row * d + column].or_else(|| own(row))).collect())
                }
                Some(labels) => Values::Cells(named(
                    labels,
                    kept,
                    |row| values[row * d + column],
                    |row| rows.batch.has_missing() && is_hole(&rows.batch, &places, row, *column),
                )),
            },
        });
        let mut columns: Vec<Values> = own.collect();
        for (_, column) in &self.columns {
            if let Some(column) = self.has_deviation(*column) {
                columns.push(Values::Numbers((0..n).map(|row| spreads[row * d + column]).collect()));
            }
        }
        Block { rows: n, columns }
    }
}

/// Whether a cell is missing, of the good rows at these places.
fn is_hole(batch: &anabranch::batch::Batch, places: &[usize], row: usize, column: usize) -> bool {
    places.binary_search(&row).is_ok_and(|good| batch.row(good)[column].is_nan())
}

/// The cells of a column of names as they are, and the names of codes where one is missing.
fn named(
    labels: &[String],
    cells: Cells,
    code: impl Fn(usize) -> Option<f64>,
    is_missing: impl Fn(usize) -> bool,
) -> Cells {
    let mut named = Cells::default();
    for row in 0..cells.len() {
        let label = code(row).filter(|_| is_missing(row)).and_then(|code| labels.get(code as usize));
        named.push(label.map_or(cells.get(row), String::as_str));
    }
    named
}
