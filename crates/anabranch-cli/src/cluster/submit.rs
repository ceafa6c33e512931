//! `anabranch submit`: rows into the queue of a job.

use std::io::Write;
use std::time::{Duration, Instant};

use anabranch::batch::Batch;
use anabranch::engine::{BOOTSTRAP_ROWS, BatchSource};
use anabranch::process::Parameter;
use anabranch_cluster::{Access, Digest, Job, JobSpec, SourceState, Submission, encode_rows};
use anabranch_io::printable::printable;
use anabranch_io::{Input, OnBadRow, ReadOptions, Source, open};
use serde::Serialize;

use super::{prior_spec, process, runtime, target};
use crate::args::SubmitArgs;
use crate::engine::discount;
use crate::failure::Failure;
use crate::fit::{FamilySpec, read_options};
use crate::picture::{counted, grouped};
use crate::printing::print_json;
use crate::reading::{self, DomainFilter, Minibatches};
use crate::stop;

/// Time between lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn command(args: &SubmitArgs) -> Result<(), Failure> {
    stop::listen();
    let done = submit(args, None, &stop::asked)?;
    print(args, &done)
}

/// What a submission came to.
#[derive(Debug, Serialize)]
pub struct Submitted {
    /// The job.
    job: String,
    /// How far the source is; `None` when the job was only created.
    source: Option<SourceState>,
    /// Rows that were not in the job before.
    new_rows: u64,
    /// Where anybody may publish rows.
    rows_subject: String,
}

/// Publishes the inputs, or these rows in memory, until they end or somebody asks to stop.
pub fn submit(
    args: &SubmitArgs,
    rows: Option<Vec<u8>>,
    stopped: &dyn Fn() -> bool,
) -> Result<Submitted, Failure> {
    let discount = discount(args.model, args.discount);
    let family = FamilySpec::parse(&args.family)?;
    family.check_prior(&args.prior)?;
    let (to, name) = target(&args.cluster, "submit")?;
    let options = read_options(&args.read, &family)?;
    let source = match rows {
        Some(rows) => Some(open(&[Input::Memory(rows)], &options)?),
        None if args.inputs.is_empty() => None,
        None => Some(reading::open_inputs(&args.inputs, &options)?),
    };
    let spec = job_spec(args, discount, &options, source.as_deref());
    process(&spec)?;
    let source_name = args.source.clone().map_or_else(|| source_name(&args.inputs), SourceName::Chosen);
    let source = runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Create(Box::new(spec))).await?;
        let Some(source) = source else { return Ok::<_, Failure>(None) };
        let filter = domain_filter(&args.inputs, &family, source.as_ref(), options.on_bad_row)?;
        let stream = Minibatches::new(source, filter, args.batch_size as usize, None);
        publish(&job, &source_name, stream, args.quiet, stopped).await.map(Some)
    })?;
    let new_rows = source.as_ref().map_or(0, |published| published.new_rows);
    let source = source.map(|published| published.state);
    Ok(Submitted { job: args.cluster.job.clone(), source, new_rows, rows_subject: name.rows_subject() })
}

/// Rows outside the family's domain are bad rows.
pub fn domain_filter(
    inputs: &[String],
    family: &FamilySpec,
    source: &dyn Source,
    on_bad_row: OnBadRow,
) -> Result<DomainFilter, Failure> {
    let names = source.schema().names().map(str::to_owned).collect();
    Ok(DomainFilter::new(inputs, Some(family.domain(source.schema())?), names, on_bad_row))
}

/// Rows that the bootstrap waits for.
pub fn bootstrap_rows(given: Option<u32>) -> u32 {
    given.filter(|rows| *rows > 0).unwrap_or(BOOTSTRAP_ROWS as u32)
}

fn job_spec(
    args: &SubmitArgs,
    discount: Option<Parameter>,
    options: &ReadOptions,
    source: Option<&dyn Source>,
) -> JobSpec {
    // The names, not the positions: what others publish has its own order.
    let names = source.filter(|source| source.schema().named);
    let names = names.map(|source| source.schema().names().map(str::to_owned).collect());
    JobSpec {
        family: args.family.clone(),
        prior: prior_spec(&args.prior),
        alpha: args.alpha,
        discount,
        bound: args.bound.into(),
        batch_size: args.batch_size,
        bootstrap_rows: bootstrap_rows(args.bootstrap),
        max_new: args.max_new,
        seed: args.seed,
        columns: names.or_else(|| options.columns.clone().filter(|_| source.is_none())),
        on_bad_row: options.on_bad_row,
        max_deliver: args.streams.max_deliver,
        ack_wait: args.streams.ack_wait,
        snapshot_entries: args.streams.snapshot_entries,
        snapshot_seconds: args.streams.snapshot_seconds,
        replicas: args.streams.replicas,
        queue_bytes: args.streams.queue_megabytes << 20,
        journal_bytes: args.streams.journal_megabytes << 20,
        ..JobSpec::default()
    }
}

/// What a source is called.
#[derive(Clone, Debug)]
pub enum SourceName {
    /// As somebody wants it, or rows that are never the same twice.
    Chosen(String),
    /// Files by where they are: the same rows elsewhere are the same source.
    Files(String),
}

impl SourceName {
    /// The name.
    pub fn text(&self) -> &str {
        match self {
            Self::Chosen(name) | Self::Files(name) => name,
        }
    }
}

/// Files are known by where they are; standard input is never the same twice.
pub fn source_name(inputs: &[String]) -> SourceName {
    let one = |input: &String| match input.as_str() {
        "-" => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            format!("standard input, {}", now.map_or(0, |now| now.as_nanos()))
        }
        path => {
            std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
        }
    };
    let name = inputs.iter().map(one).collect::<Vec<_>>().join(" + ");
    match inputs.is_empty() || inputs.iter().any(|input| input == "-") {
        true => SourceName::Chosen(name),
        false => SourceName::Files(name),
    }
}

/// What came of publishing a stream.
pub struct Published {
    /// How far the source is.
    pub state: SourceState,
    /// Rows that were not in the job before.
    pub new_rows: u64,
}

/// Publishes a stream from where its last submission ended: rows that have come behind those are new. A wish to stop ends it
/// after what is under way. Files whose rows the job knows under another name are that source, unless the name was chosen.
pub async fn publish(
    job: &Job,
    name: &SourceName,
    mut stream: Minibatches,
    quiet: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<Published, Failure> {
    let mut first = stream.next()?;
    let mut known_as = None;
    if let (SourceName::Files(name), Some((_, rows))) = (name, &first)
        && Submission::is_new(job, name).await?
    {
        known_as = Submission::beginning_with(job, digest(rows)).await?;
    }
    let name = known_as.as_deref().unwrap_or(name.text());
    let mut submission = Submission::start(job, name).await?;
    let before = submission.state().clone();
    let (started, mut next_line) = (Instant::now(), Instant::now() + LINE_EVERY);
    let (mut rows, mut seen) = (0, Digest::default());
    // Rows of earlier submissions that are still to be passed over.
    let mut left = before.rows;
    while let Some((_, batch)) = first.take().map_or_else(|| stream.next(), |first| Ok(Some(first)))? {
        let passed = left.min(batch.n_rows() as u64);
        let (old, new) = batch.values().split_at(passed as usize * batch.dimensions());
        old.chunks_exact(batch.dimensions()).for_each(|row| seen.add(row));
        left -= passed;
        if passed > 0 && left == 0 && before.digest.is_some_and(|digest| digest != seen.value()) {
            return Err(others(name, &before));
        }
        if new.is_empty() {
            continue;
        }
        let batch = Batch::new(batch.dimensions(), new.to_vec()).map_err(Failure::input)?;
        batch.rows().for_each(|row| seen.add(row));
        rows += batch.n_rows() as u64;
        submission.publish(encode_rows(&batch, stream.schema()), batch.n_rows() as u64, seen).await?;
        if !quiet && Instant::now() >= next_line {
            next_line = Instant::now() + LINE_EVERY;
            let rate = rows as f64 / started.elapsed().as_secs_f64();
            let waited = match submission.waits() {
                0 => String::new(),
                n => format!(", the queue was full {n} times"),
            };
            eprintln!("{} rows published, {} rows/s{waited}", grouped(rows as f64), grouped(rate.round()));
        }
        if stopped() {
            return Ok(Published { state: submission.pause().await?.clone(), new_rows: rows });
        }
    }
    if left > 0 {
        return Err(others(name, &before));
    }
    let state = if rows == 0 && before.finished { before } else { submission.finish().await? };
    Ok(Published { state, new_rows: rows })
}

fn digest(rows: &Batch) -> Digest {
    let mut digest = Digest::default();
    rows.rows().for_each(|row| digest.add(row));
    digest
}

fn others(name: &str, before: &SourceState) -> Failure {
    Failure::input(format!(
        "`{name}` is in the job with {}, and these do not begin with them: nothing was published",
        counted(before.rows, "row")
    ))
    .with_hint("pass the same rows with new ones behind them, or --source NAME for rows that are to count on their own")
}

fn print(args: &SubmitArgs, done: &Submitted) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match &done.source {
        _ if args.json => print_json(&mut out, done, "submission")?,
        None => writeln!(out, "job {} is ready: publish rows to {}", done.job, done.rows_subject)?,
        Some(state) => writeln!(
            out,
            "{} of {} in job {}, {}{}",
            counted(state.published, "minibatch"),
            counted(state.rows, "row"),
            done.job,
            match done.new_rows {
                0 => format!("nothing new: they are known as {}", printable(&state.name)),
                new => format!("{} new", grouped(new as f64)),
            },
            if state.finished { "" } else { "; the same command goes on from here" }
        )?,
    }
    Ok(())
}
