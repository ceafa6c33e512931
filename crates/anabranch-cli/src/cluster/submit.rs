//! `anabranch submit`: rows into the queue of a job.

use std::io::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use anabranch::batch::{Batch, Minibatch};
use anabranch::engine::{BOOTSTRAP_ROWS, BatchSource};
use anabranch::infer::PriorChoice;
use anabranch::process::Parameter;
use anabranch_cluster::{
    Access, Digest, FeatureSpec, Job, JobSpec, ModelSpec, SourceState, Submission, encode_rows,
};
use anabranch_io::printable::printable;
use anabranch_io::{Input, OnBadRow, ReadOptions, Schema, Source, open};
use serde::Serialize;

use super::documents::{self, Lines};
use super::{prior_spec, process, runtime, target};
use crate::args::{BoundKind, FeatureArgs, ModelKind, SubmitArgs};
use crate::engine::discount;
use crate::failure::Failure;
use crate::features;
use crate::fit::{FamilySpec, read_options};
use crate::picture::{counted, grouped};
use crate::printing::print_json;
use crate::reading::{self, DomainFilter, Minibatches, on_bad_row};
use crate::stop;
use crate::topics;

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
    let spec = job_spec(args);
    match args.model {
        ModelKind::Dp | ModelKind::Py => {
            let family = FamilySpec::parse(&args.family)?;
            family.check_prior(&args.prior)?;
            process(&spec)?;
            let options = read_options(&args.read, &family)?;
            submit_rows(args, spec, &options, |filter| filter, &family, rows, stopped)
        }
        ModelKind::Bp => {
            let told = FeatureArgs { noise: args.noise, feature_scale: args.feature_scale, image: None };
            let spec = spec.of(feature_spec(&told, args.alpha, args.bound)?);
            let family = FamilySpec::parse("spherical")?;
            let options = reading::options(&args.read)?;
            submit_rows(
                args,
                spec,
                &options,
                |filter| filter.within(features::LARGEST),
                &family,
                rows,
                stopped,
            )
        }
        ModelKind::Hdp if rows.is_some() => {
            Err(Failure::input("documents in memory cannot be submitted").with_hint("write them to a file"))
        }
        ModelKind::Hdp => {
            let process = topics::process(&args.topics, args.bound)?;
            let (bags, spec, attached) =
                documents::open(&args.inputs, &args.read, &args.topics, process, spec)?;
            let lines = bags.map(|bags| Lines::new(bags, args.batch_size));
            send(args, spec, attached, lines, stopped)
        }
    }
}

fn submit_rows(
    args: &SubmitArgs,
    spec: JobSpec,
    options: &ReadOptions,
    within: impl Fn(DomainFilter) -> DomainFilter,
    family: &FamilySpec,
    rows: Option<Vec<u8>>,
    stopped: &dyn Fn() -> bool,
) -> Result<Submitted, Failure> {
    let source = match rows {
        Some(rows) => Some(open(&[Input::Memory(rows)], options)?),
        None if args.inputs.is_empty() => None,
        None => Some(reading::open_inputs(&args.inputs, options)?),
    };
    // The names, not the positions: what others publish has its own order.
    let names = source.as_ref().and_then(|source| named(source.schema()));
    let columns = names.or_else(|| options.columns.clone().filter(|_| source.is_none()));
    let stream = match source {
        None => None,
        Some(source) => {
            let filter = domain_filter(&args.inputs, family, source.as_ref(), options.on_bad_row)?;
            Some(Minibatches::new(source, within(filter), args.batch_size as usize, None))
        }
    };
    send(args, JobSpec { columns, ..spec }, Vec::new(), stream, stopped)
}

/// Creates the job, and publishes what there is.
fn send(
    args: &SubmitArgs,
    spec: JobSpec,
    attached: Vec<u8>,
    stream: Option<impl Published>,
    stopped: &dyn Fn() -> bool,
) -> Result<Submitted, Failure> {
    let (to, name) = target(&args.cluster, "submit")?;
    let source_name = args.source.clone().map_or_else(|| source_name(&args.inputs), SourceName::Chosen);
    let source = runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Create(Box::new(spec), attached)).await?;
        let Some(stream) = stream else { return Ok::<_, Failure>(None) };
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

/// The names of the columns, where they have some.
pub fn named(schema: &Schema) -> Option<Vec<String>> {
    schema.named.then(|| schema.names().map(str::to_owned).collect())
}

/// Rows that the bootstrap waits for.
pub fn bootstrap_rows(given: Option<u32>, model: ModelKind) -> u32 {
    let usual = match model {
        ModelKind::Dp | ModelKind::Py => BOOTSTRAP_ROWS,
        ModelKind::Hdp => topics::BOOTSTRAP_DOCUMENTS,
        ModelKind::Bp => features::BOOTSTRAP_ROWS,
    };
    given.filter(|rows| *rows > 0).unwrap_or(usual as u32)
}

/// What a job of features is told.
pub fn feature_spec(told: &FeatureArgs, alpha: Parameter, bound: BoundKind) -> Result<ModelSpec, Failure> {
    let (family, prior) = features::family(told, 1)?;
    let variances = (prior == PriorChoice::Given).then(|| (family.noise(), family.scale()));
    Ok(ModelSpec::Features(FeatureSpec { process: features::process(alpha, bound)?, variances }))
}

fn job_spec(args: &SubmitArgs) -> JobSpec {
    let is_mixture = matches!(args.model, ModelKind::Dp | ModelKind::Py);
    let usual = JobSpec::default();
    JobSpec {
        family: args.family.clone(),
        prior: prior_spec(&args.prior),
        // Features have theirs with what belongs to them.
        alpha: if is_mixture { args.alpha } else { usual.alpha },
        discount: discount(args.model, args.discount),
        bound: if is_mixture { args.bound.into() } else { usual.bound },
        batch_size: args.batch_size,
        bootstrap_rows: bootstrap_rows(args.bootstrap, args.model),
        max_new: args.max_new,
        seed: args.seed,
        on_bad_row: on_bad_row(&args.read),
        max_deliver: args.streams.max_deliver,
        ack_wait: args.streams.ack_wait,
        snapshot_entries: args.streams.snapshot_entries,
        snapshot_seconds: args.streams.snapshot_seconds,
        replicas: args.streams.replicas,
        queue_bytes: args.streams.queue_megabytes << 20,
        journal_bytes: args.streams.journal_megabytes << 20,
        ..usual
    }
    .with_queues(args.streams.queues)
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
pub struct Done {
    /// How far the source is.
    pub state: SourceState,
    /// Rows that were not in the job before.
    pub new_rows: u64,
}

/// Data that are published piece by piece: one is a message.
pub trait Published {
    /// The data of a message.
    type Piece;

    /// Messages have so many bytes at most.
    fn fit_into(&mut self, _bytes: usize) {}

    /// The next piece.
    fn next(&mut self) -> Result<Option<Self::Piece>, Failure>;

    /// Its rows.
    fn rows(piece: &Self::Piece) -> usize;

    /// Adds some of its rows to a digest.
    fn digest(piece: &Self::Piece, rows: Range<usize>, seen: &mut Digest);

    /// Its rows from this one on, as a message.
    fn message(&self, piece: &Self::Piece, from: usize) -> Result<Vec<u8>, Failure>;
}

impl Published for Minibatches {
    type Piece = Batch;

    fn next(&mut self) -> Result<Option<Batch>, Failure> {
        Ok(BatchSource::next(self)?.map(|(_, batch)| batch))
    }

    fn rows(batch: &Batch) -> usize {
        batch.n_rows()
    }

    fn digest(batch: &Batch, rows: Range<usize>, seen: &mut Digest) {
        batch.rows().skip(rows.start).take(rows.len()).for_each(|row| seen.add(row));
    }

    fn message(&self, batch: &Batch, from: usize) -> Result<Vec<u8>, Failure> {
        Ok(encode_rows(&batch.part(from..batch.n_rows()), self.schema()))
    }
}

/// Publishes a stream from where its last submission ended: rows that have come behind those are new. A wish to stop ends it
/// after what is under way. Files whose rows the job knows under another name are that source, unless the name was chosen.
pub async fn publish<S: Published>(
    job: &Job,
    name: &SourceName,
    mut stream: S,
    quiet: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<Done, Failure> {
    stream.fit_into(job.message_limit());
    let mut first = stream.next()?;
    let mut known_as = None;
    if let (SourceName::Files(name), Some(piece)) = (name, &first)
        && Submission::is_new(job, name).await?
    {
        let mut head = Digest::default();
        S::digest(piece, 0..S::rows(piece), &mut head);
        known_as = Submission::beginning_with(job, head).await?;
    }
    let name = known_as.as_deref().unwrap_or(name.text());
    let mut submission = Submission::start(job, name).await?;
    let before = submission.state().clone();
    let (started, mut next_line) = (Instant::now(), Instant::now() + LINE_EVERY);
    let (mut rows, mut seen) = (0, Digest::default());
    // Rows of earlier submissions that are still to be passed over.
    let mut left = before.rows;
    while let Some(piece) = first.take().map_or_else(|| stream.next(), |first| Ok(Some(first)))? {
        let all = S::rows(&piece);
        let passed = left.min(all as u64) as usize;
        S::digest(&piece, 0..passed, &mut seen);
        left -= passed as u64;
        if passed > 0 && left == 0 && before.digest.is_some_and(|digest| digest != seen.value()) {
            return Err(others(name, &before));
        }
        if passed == all {
            continue;
        }
        S::digest(&piece, passed..all, &mut seen);
        let new = (all - passed) as u64;
        rows += new;
        submission.publish(stream.message(&piece, passed)?, new, seen).await?;
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
            return Ok(Done { state: submission.pause().await?.clone(), new_rows: rows });
        }
    }
    if left > 0 {
        return Err(others(name, &before));
    }
    let state = if rows == 0 && before.finished { before } else { submission.finish().await? };
    Ok(Done { state, new_rows: rows })
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
