//! `anabranch fit --cluster`: submit, work and pull in one go. Other workers may help.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anabranch::batch::Batch;
use anabranch::central::Section;
use anabranch::posterior::Predictor;
use anabranch::process::AnyProcess;
use anabranch_cluster::{Access, Job, JobName, JobSpec, WorkerConfig, fetch_replica, finish, status, work};
use anabranch_io::{OnBadRow, Source};

use super::founder::FirstModel;
use super::submit::{bootstrap_rows, publish, source_name};
use super::{connect_to, prior_spec, runtime, say};
use crate::args::FitArgs;
use crate::failure::{Failure, Tried};
use crate::fit::{Finished, Trace};
use crate::reading::{self, DomainFilter, Minibatches};
use crate::resources::Stopwatch;
use crate::stop;

/// How often we look whether everything is in.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Runs the fit on a cluster.
pub fn run(
    args: &FitArgs,
    url: &str,
    source: Box<dyn Source>,
    filter: DomainFilter,
    process: &AnyProcess,
    test: Option<&Batch>,
) -> Result<Finished, Failure> {
    stop::listen();
    let watch = Stopwatch::start();
    let to = connect_to(Some(url), &args.login, "fit")?;
    let own = format!("fit-{}-{}", std::process::id(), (watch_nanos() % 1_000_000_007));
    let name = args
        .job
        .clone()
        .unwrap_or(own)
        .parse::<JobName>()
        .map_err(|error| Failure::from(error).naming("--job"))?;
    let on_bad_row = reading::options(&args.read)?.on_bad_row;
    let spec = job_spec(args, process, source.as_ref(), on_bad_row);
    let stream = Minibatches::new(source, filter, args.engine.batch_size as usize, None);
    let source_name = source_name(&args.inputs);
    let quiet = args.output.quiet;
    let (model, report) = runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Create(Box::new(spec))).await?;
        let done = Arc::new(AtomicBool::new(false));
        let (threads, _) = args.engine.parallelism();
        let seen = Arc::clone(&done);
        let config = WorkerConfig {
            threads,
            founder: Arc::new(FirstModel::new(job.spec(), threads)?),
            listen: None,
            token: None,
            health: None,
            stalled_after: Duration::MAX,
            stopped: Arc::new(stop::asked),
            until: Box::new(move |_| seen.load(Ordering::Relaxed)),
            say: say(quiet),
        };
        let working = tokio::spawn(work(job.clone(), config));
        let published = publish(&job, &source_name, stream, quiet, &stop::asked).await;
        while published.is_ok()
            && !stop::asked()
            && !working.is_finished()
            && !is_settled(&job, published.as_ref().map_or("", |published| &published.state.name)).await?
        {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        done.store(true, Ordering::Relaxed);
        let report = working
            .await
            .map_err(|error| Failure::Internal { message: format!("the worker ended: {error}") })??;
        published?;
        let mut replica = fetch_replica(&job).await?;
        finish(&mut replica, job.spec());
        if args.job.is_none() && !stop::asked() {
            job.delete().await?;
        }
        let model = replica.model().ok_or_else(|| Failure::input("stopped before the first model"))?;
        Ok::<_, Failure>((model, report))
    })?;
    let mut model = model;
    model.provenance.matchings = report.matchings;
    model.provenance.conflicts = model.provenance.conflicts.max(report.conflicts);
    let (seconds, cpu_seconds) = (watch.seconds(), watch.cpu_seconds());
    let mut tried = Tried::default();
    if let Some(path) = &args.output.out {
        tried.note(model.save(path));
    }
    let test_log_likelihood = test.and_then(|test| {
        Predictor::new(model.fold.posterior()).mean_ln_density_on(test, args.engine.parallelism().0)
    });
    Ok(Finished {
        minibatches: model.fold.absorbed().len(),
        model,
        seconds,
        cpu_seconds,
        first_minibatch_seconds: 0.0,
        section: Section::default(),
        copies: 1.0,
        missing_cells: 0,
        empty_columns: Vec::new(),
        trace: Trace::create(None)?,
        test_log_likelihood,
        sample: None,
        stopped: stop::asked(),
        tried,
    })
}

/// True when every minibatch of the source is in the posterior or set aside and, where nothing else is to come, a worker has
/// finished the model.
async fn is_settled(job: &Job, source: &str) -> Result<bool, Failure> {
    let now = match status(job).await {
        // Servers that restart come back.
        Err(error) if error.passes() => return Ok(false),
        outcome => outcome?,
    };
    let ours = now.sources.iter().find(|state| state.name == source);
    let is_in = ours.is_some_and(|state| state.absorbed + state.set_aside >= state.published);
    let more_to_come = now.sources.iter().any(|state| !state.finished);
    Ok(is_in && (now.finished || more_to_come))
}

fn watch_nanos() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos())
}

fn job_spec(args: &FitArgs, process: &AnyProcess, source: &dyn Source, on_bad_row: OnBadRow) -> JobSpec {
    let schema = source.schema();
    JobSpec {
        family: args.family.clone(),
        prior: prior_spec(&args.prior),
        alpha: process.concentration(),
        discount: process.discount(),
        bound: process.bound_kind(),
        batch_size: args.engine.batch_size,
        bootstrap_rows: bootstrap_rows(args.engine.bootstrap),
        max_new: args.engine.max_new as u32,
        seed: args.engine.seed,
        columns: schema.named.then(|| schema.names().map(str::to_owned).collect()),
        on_bad_row,
        ..JobSpec::default()
    }
}
