//! `anabranch fit`: from files or standard input to a model.

mod begun;
mod checkpoint;
mod events;
mod family;
mod method;
mod outcome;
mod progress;
mod session;
mod summary;
mod trace;
mod watch;

use std::io::Read;

use anabranch::batch::Batch;
use anabranch::clusters::{Clusters, Tree};
use anabranch::posterior::{HalfLife, Predictor};
use anabranch_io::labels::read_labels;
use anabranch_io::model::Model;
use anabranch_io::{ReadOptions, Schema};

pub use begun::Begun;
pub(crate) use begun::{kind_of, require_mixture, stored_model};
pub(crate) use checkpoint::Checkpoints;
pub use family::{FamilySpec, describe};
pub use method::Method;
pub use outcome::Outcome;
pub(crate) use outcome::resolution;
pub(crate) use progress::Progress;
pub use session::{Finished, Further, Setup, run};
pub(crate) use session::{check_apart, check_out, check_places};
pub use summary::{print_outcome, said_of_data, write_report};
#[cfg(feature = "cluster")]
pub use trace::Trace;

use crate::args::{Algorithm, FitArgs, Missing, ModelKind, ReadArgs};
#[cfg(feature = "cluster")]
use crate::cluster;
use crate::engine::discount;
use crate::evaluate::{Agreement, agreement};
use crate::failure::Failure;
use crate::features;
use crate::reading::{self, DomainFilter};
use crate::report;
use crate::stop;
use crate::topics;

/// Runs the command.
pub fn command(args: &FitArgs) -> Result<(), Failure> {
    fit(args).map_err(|failure| match failure {
        Failure::Input { message, hint } if args.inputs.iter().any(|input| is_prose(input)) => {
            let rest = hint.map_or_else(String::new, |hint| format!("; otherwise: {hint}"));
            Failure::input(message)
                .with_hint(format!("if these are documents, one a line, fit topics: --model hdp{rest}"))
        }
        other => other,
    })
}

/// Words of a text that are looked at.
const WORDS_SEEN: usize = 200;

/// Whether a file of text holds words rather than numbers.
fn is_prose(input: &str) -> bool {
    // What is no file may give its bytes only once, or never.
    let is_file = std::fs::metadata(input).is_ok_and(|found| found.is_file());
    if !is_file || !input.to_ascii_lowercase().ends_with(".txt") {
        return false;
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(input).and_then(|file| file.take(1 << 13).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    let words: Vec<&str> = text.split_whitespace().take(WORDS_SEEN).collect();
    let numbers = words.iter().filter(|word| word.contains(|c: char| c.is_ascii_digit())).count();
    read.is_ok() && words.len() > 10 && 5 * numbers < words.len()
}

fn fit(args: &FitArgs) -> Result<(), Failure> {
    stop::listen();
    #[cfg(not(feature = "cluster"))]
    if args.cluster.is_some() {
        return Err(Failure::left_out("does not talk to clusters", "cluster"));
    }
    check_times_read(args)?;
    check_missing(args)?;
    let outputs = [
        ("--out", args.output.out.as_deref()),
        ("--trace", args.output.trace.as_deref()),
        ("--events", args.events.as_deref()),
    ];
    check_apart(&outputs, &args.inputs)?;
    let kind = args.from.as_deref().map_or(Ok(args.model), kind_of)?;
    match kind {
        ModelKind::Dp | ModelKind::Py => {}
        ModelKind::Hdp => return topics::fit(args),
        ModelKind::Bp => return features::fit(args),
    }
    let begun = args.from.as_deref().map(Begun::load).transpose()?;
    let args = &begun.as_ref().map_or_else(|| args.clone(), |begun| begun.settle(args));
    let method = Method::new(args.algorithm, &args.rival, &args.engine)?;
    let process = match &begun {
        Some(begun) => *begun.model.fold.posterior().process(),
        None => args.engine.process(discount(args.model, args.discount))?,
    };
    let spec = FamilySpec::parse(&args.family)?.with_absence(args.missing_informative.as_deref())?;
    spec.check_prior(&args.prior)?;
    let mut options = match &begun {
        Some(Begun { model, .. }) => {
            ReadOptions { expect: Some(model.provenance.schema.clone()), ..reading::options(&args.read)? }
        }
        None => read_options(&args.read, &spec)?,
    };
    if args.algorithm == Algorithm::Sda && args.cluster.is_none() {
        options.on_missing = reading::options_with_missing(&args.read)?.on_missing;
    }
    let labels = args.labels.as_deref().map(read_labels).transpose()?;
    let time = time_column(args, begun.as_ref())?;
    let source = reading::open_inputs(&args.inputs, &ReadOptions { time: time.clone(), ..options.clone() })?;
    let domain = match &begun {
        Some(begun) => begun.model.fold.posterior().family().clone(),
        None => {
            spec.check_size(source.schema(), args.read.max_memory)?;
            spec.domain(source.schema())?
        }
    };
    let filter_of = |inputs: &[String]| -> Result<DomainFilter, Failure> {
        let names = source.schema().names().map(str::to_owned).collect();
        Ok(DomainFilter::new(inputs, Some(domain.clone()), names, options.on_bad_row))
    };
    let filter = filter_of(&args.inputs)?;
    let again = filter.clone();
    let test = match &args.test {
        Some(test) => {
            Some(read_test(test, &options, source.schema(), filter_of(std::slice::from_ref(test))?)?)
        }
        None => None,
    };
    // Categories get their codes while the input is read: test rows of such columns can be understood only afterwards.
    let test = test.filter(|_| options.categorical.is_empty());
    let checkpoints = args
        .checkpoint
        .as_deref()
        .map(|folder| Checkpoints::new(folder, args.checkpoint_every))
        .transpose()?;
    let resumed = match &checkpoints {
        Some(checkpoints) => checkpoints.resume(args.resume, Model::load_checkpoint)?,
        None => None,
    };
    if args.resume && resumed.is_none() && !args.output.quiet {
        eprintln!("no checkpoint yet: starting from the first row");
    }
    let build = |first: &Batch, schema: &Schema| spec.build(first, schema, &args.prior);
    let reopen = |schema: &Schema| {
        let options = ReadOptions { expect: Some(schema.clone()), columns: None, ..options.clone() };
        Ok((reading::open_inputs(&args.inputs, &options)?, again.clone()))
    };
    let mut finished = match &args.cluster {
        #[cfg(feature = "cluster")]
        Some(url) => cluster::fit::run(args, url, source, filter, &process, test.as_ref())?,
        _ => {
            let setup = Setup {
                source,
                filter,
                method,
                process,
                family: &build,
                prior: begun.as_ref().map_or_else(|| args.prior.choice(), Begun::prior),
                test,
                checkpoints,
                further: Some(Further { passes: args.passes, reopen: &reopen }),
                polish: args.polish,
                max_components: args.max_components,
                half_life: args.half_life,
                time,
                events: args.events.as_deref(),
                first_after: args.first_after,
                out_every: args.out_every,
                resumed,
                begun,
            };
            run(setup, &args.engine, &args.output)?
        }
    };
    if let Some(test) = args.test.as_ref().filter(|_| !options.categorical.is_empty()) {
        let schema = finished.model.provenance.schema.clone();
        let names = schema.names().map(str::to_owned).collect();
        let family = finished.posterior().family().clone();
        let filter = DomainFilter::new(std::slice::from_ref(test), Some(family), names, options.on_bad_row);
        if let Some(test) = finished.tried.note(read_test(test, &options, &schema, filter)) {
            finished.test_log_likelihood =
                Predictor::new(finished.posterior()).mean_ln_density_on(&test, args.engine.parallelism().0);
        }
    }
    let mut tried = std::mem::take(&mut finished.tried);
    let tree = Tree::of(finished.posterior());
    let clusters = Clusters::new(finished.posterior(), &tree, finished.model.provenance.cut);
    let agreement = labels
        .and_then(|labels| tried.note(agree_with_labels(args, &options, &finished, &clusters, &labels)));
    let outcome = Outcome::new(&finished, &clusters, &args.engine, agreement);
    if let Some(folder) = &args.output.report {
        let title = report::title("Clusters", &args.inputs);
        tried.note(write_report(folder, &title, &finished, (&tree, &clusters), &outcome, None));
    }
    tried.done()?;
    print_outcome(&outcome, &said_of_data(&finished), &args.output)
}

/// The column that says when rows were, of a run whose half-life is a time.
fn time_column(args: &FitArgs, begun: Option<&Begun>) -> Result<Option<String>, Failure> {
    let past = begun.map(|begun| begun.model.fold.posterior().past());
    let half_life = args.half_life.or(past.and_then(|past| past.half_life));
    let before = past.filter(|past| matches!(past.half_life, Some(HalfLife::Seconds(_))));
    match (half_life, before) {
        (Some(HalfLife::Seconds(_)), Some(before)) if before.clock.is_some() => match &args.time {
            Some(time) if before.time.as_ref() != Some(time) => {
                let before =
                    before.time.as_ref().map_or("when they were read".to_owned(), |time| format!("{time:?}"));
                Err(Failure::input(format!("--time {time}: the rows of the model have faded by {before}"))
                    .with_hint("leave --time out"))
            }
            _ => Ok(before.time.clone()),
        },
        (Some(HalfLife::Seconds(_)), _) => Ok(args.time.clone()),
        _ if args.time.is_none() => Ok(None),
        _ => Err(Failure::input("--time goes with a half-life that is a time")
            .with_hint("say --half-life 1h, or leave --time out")),
    }
}

/// Rows of which nothing is missing say nothing about it.
fn check_missing(args: &FitArgs) -> Result<(), Failure> {
    let left_out = matches!(args.read.missing, Some(Missing::Fail | Missing::Skip));
    match args.missing_informative.is_some() && left_out {
        true => Err(Failure::input("--missing-informative goes with --missing model")
            .with_hint("leave --missing out: rows with missing values are learned from")),
        false => Ok(()),
    }
}

/// Standard input can be read once.
fn check_times_read(args: &FitArgs) -> Result<(), Failure> {
    let from_stdin = args.inputs.iter().filter(|input| *input == "-").count();
    let as_a_file = |message: &str| Err(Failure::input(message).with_hint("give the input as a file"));
    if args.passes == 0 {
        return Err(Failure::input("--passes 0 would learn nothing"));
    }
    if from_stdin + usize::from(args.test.as_deref() == Some("-")) > 1 {
        return Err(Failure::input("standard input can be read once, not twice"));
    }
    if from_stdin > 0 && args.passes > 1 {
        return as_a_file("standard input can be read once, not --passes times");
    }
    if from_stdin > 0 && args.labels.is_some() {
        return as_a_file("--labels reads the input a second time, and standard input is gone by then");
    }
    Ok(())
}

/// How rows of this family are read.
pub(crate) fn read_options(args: &ReadArgs, spec: &FamilySpec) -> Result<ReadOptions, Failure> {
    let mut options = reading::options(args)?;
    options.categorical = spec.categorical_columns();
    match (spec.columns(), &options.columns) {
        (Some(_), Some(_)) => {
            return Err(Failure::input("--columns and the columns of --family exclude each other")
                .with_hint("name the columns in --family alone, or leave out those of one part: it takes what the others do not name"));
        }
        (Some(columns), None) => options.columns = Some(columns),
        (None, _) => {}
    }
    Ok(options)
}

fn read_test(
    test: &String,
    options: &ReadOptions,
    schema: &Schema,
    mut filter: DomainFilter,
) -> Result<Batch, Failure> {
    // Categories grow while the input is read; the test file is read as the columns stand now.
    let options =
        ReadOptions { columns: None, expect: Some(schema.clone()), format: None, ..options.clone() };
    let mut source = reading::open_inputs(std::slice::from_ref(test), &options)?;
    let rows = filter.filter(reading::read_all(source.as_mut())?)?;
    match rows.n_rows() {
        0 => Err(Failure::input(format!("--test {test}: no row lies in the domain of the family"))),
        _ => Ok(rows),
    }
}

fn agree_with_labels(
    args: &FitArgs,
    options: &ReadOptions,
    finished: &Finished,
    clusters: &Clusters,
    labels: &[i64],
) -> Result<Agreement, Failure> {
    let schema = finished.model.provenance.schema.clone();
    let options = ReadOptions { expect: Some(schema), columns: None, ..options.clone() };
    let mut source = reading::open_inputs(&args.inputs, &options)?;
    agreement(finished.posterior(), clusters, source.as_mut(), labels, args.engine.parallelism().0)
}

/// Labels that are not as many as the rows, of which there are this many, or more than there are labels.
pub(crate) fn count_mismatch(rows: Option<u64>, labels: usize) -> Failure {
    let rows = rows.map_or_else(|| "more".to_owned(), |rows| format!("{rows} rows"));
    Failure::input(format!("--labels has {labels} labels, the input has {rows}"))
        .with_hint("give one label for each row, in the same order, without skipped rows")
}
