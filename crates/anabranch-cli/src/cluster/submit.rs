//! `anabranch submit`: rows into the queue of a job.

use std::io::Write;
use std::time::{Duration, Instant};

use anabranch::central::BatchSet;
use anabranch::engine::BatchSource;
use anabranch::process::Parameter;
use anabranch_cluster::{Access, Job, JobSpec, SourceState, Submission, encode_rows};
use anabranch_io::{Input, OnBadRow, ReadOptions, Reading, Source, open};
use serde::Serialize;

use super::{prior_spec, process, runtime, target};
use crate::args::SubmitArgs;
use crate::engine::discount;
use crate::failure::Failure;
use crate::fit::{BOOTSTRAP_ROWS, FamilySpec, read_options};
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
    let source_name = args.source.clone().unwrap_or_else(|| source_name(&args.inputs));
    let source = runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Create(Box::new(spec))).await?;
        let Some(source) = source else { return Ok::<_, Failure>(None) };
        let filter = domain_filter(&args.inputs, &family, source.as_ref(), options.on_bad_row)?;
        let stream = Minibatches::new(source, filter, args.batch_size as usize, None);
        publish(&job, &source_name, stream, args.quiet, stopped).await.map(Some)
    })?;
    Ok(Submitted { job: args.cluster.job.clone(), source, rows_subject: name.rows_subject() })
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

/// Files are known by where they are; standard input is never the same twice.
pub fn source_name(inputs: &[String]) -> String {
    let one = |input: &String| match input.as_str() {
        "-" => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            format!("standard input, {}", now.map_or(0, |now| now.as_nanos()))
        }
        path => {
            std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
        }
    };
    inputs.iter().map(one).collect::<Vec<_>>().join(" + ")
}

/// Publishes a stream from where its last submission ended. A wish to stop ends it after what is under way.
pub async fn publish(
    job: &Job,
    source_name: &str,
    mut stream: Minibatches,
    quiet: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<SourceState, Failure> {
    let mut submission = Submission::start(job, source_name).await?;
    let before = submission.state().clone();
    if before.finished {
        return Ok(before);
    }
    if before.published > 0 {
        let passed = BatchSet::from_runs(vec![(0, before.published - 1)]).expect("one run");
        stream.resume(passed, u64::from(job.spec().batch_size), Reading::default())?;
    }
    let (started, mut next_line) = (Instant::now(), Instant::now() + LINE_EVERY);
    let mut rows = 0;
    while let Some((_, batch)) = stream.next()? {
        rows += batch.n_rows() as u64;
        submission.publish(encode_rows(&batch, stream.schema()), batch.n_rows() as u64).await?;
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
            return Ok(submission.pause().await?.clone());
        }
    }
    Ok(submission.finish().await?)
}

fn print(args: &SubmitArgs, done: &Submitted) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match &done.source {
        _ if args.json => print_json(&mut out, done, "submission")?,
        None => writeln!(out, "job {} is ready: publish rows to {}", done.job, done.rows_subject)?,
        Some(state) => writeln!(
            out,
            "{} of {} in job {}{}",
            counted(state.published, "minibatch"),
            counted(state.rows, "row"),
            done.job,
            if state.finished { "" } else { "; the same command goes on from here" }
        )?,
    }
    Ok(())
}
