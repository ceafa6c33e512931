//! `anabranch fit --cluster`: submit, work and pull in one go. Other workers may help.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anabranch::batch::Batch;
use anabranch::central::Section;
use anabranch::posterior::Predictor;
use anabranch::process::AnyProcess;
use anabranch_cluster::{
    Access, Features, Job, JobName, JobSpec, Kind, MemoryOf, Mixture, Report, Topics, WorkerConfig,
    fetch_replica, finish, status, work,
};
use anabranch_io::Source;

use super::documents::{self, Lines};
use super::founder::Known;
use super::submit::{Published, bootstrap_rows, feature_spec, named, publish, source_name};
use super::{connect_to, prior_spec, runtime, say};
use crate::args::FitArgs;
use crate::failure::{Failure, Tried};
use crate::fit::{Finished, Trace};
use crate::reading::{DomainFilter, Minibatches, on_bad_row};
use crate::resources::Stopwatch;
use crate::stop;
use crate::topics;

/// How often we look whether everything is in.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What a job came to.
pub struct Learned<K: Kind> {
    /// The model.
    pub model: K::Model,
    /// The data that it remembers.
    pub memory: MemoryOf<K>,
    /// What the worker of this process did.
    report: Report,
    /// How long it took.
    pub seconds: f64,
    /// The same of all processors.
    pub cpu_seconds: f64,
}

/// Publishes, works and fetches the model.
fn learn<K: Known>(
    args: &FitArgs,
    url: &str,
    spec: JobSpec,
    attached: Vec<u8>,
    stream: impl Published,
) -> Result<Learned<K>, Failure> {
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
    let source_name = source_name(&args.inputs);
    let quiet = args.output.quiet;
    let (replica, report) = runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Create(Box::new(spec), attached)).await?;
        let done = Arc::new(AtomicBool::new(false));
        let (threads, _) = args.engine.parallelism();
        let seen = Arc::clone(&done);
        let config = WorkerConfig {
            threads,
            founder: K::founder(&job, threads).await?,
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
        let mut replica = fetch_replica::<K>(&job).await?;
        finish(&mut replica, job.spec());
        if args.job.is_none() && !stop::asked() {
            job.delete().await?;
        }
        Ok::<_, Failure>((replica, report))
    })?;
    let model = replica.model().ok_or_else(|| Failure::input("stopped before the first model"))?;
    let memory = replica.memory().clone();
    let (seconds, cpu_seconds) = (watch.seconds(), watch.cpu_seconds());
    Ok(Learned { model: K::kept(model, &memory), memory, report, seconds, cpu_seconds })
}

/// Fits a mixture on a cluster.
pub fn run(
    args: &FitArgs,
    url: &str,
    source: Box<dyn Source>,
    filter: DomainFilter,
    process: &AnyProcess,
    test: Option<&Batch>,
) -> Result<Finished, Failure> {
    let spec = JobSpec {
        family: args.family.clone(),
        prior: prior_spec(&args.prior),
        alpha: process.concentration(),
        discount: process.discount(),
        bound: process.bound_kind(),
        ..job_spec(args, named(source.schema()))
    };
    let stream = Minibatches::new(source, filter, args.engine.batch_size as usize, None);
    let learned = learn::<Mixture>(args, url, spec, Vec::new(), stream)?;
    let Learned { mut model, report, seconds, cpu_seconds, .. } = learned;
    model.provenance.matchings = report.matchings;
    model.provenance.conflicts = model.provenance.conflicts.max(report.conflicts);
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
        bound: None,
        copies: 1.0,
        missing_cells: 0,
        counting_columns: Vec::new(),
        trace: Trace::create(None)?,
        test_log_likelihood,
        sample: None,
        stopped: stop::asked(),
        tried,
    })
}

/// Fits features on a cluster.
pub fn run_features(args: &FitArgs, url: &str, stream: Minibatches) -> Result<Learned<Features>, Failure> {
    let model = feature_spec(&args.features, args.engine.alpha, args.engine.bound)?;
    let mut learned =
        learn::<Features>(args, url, job_spec(args, named(stream.schema())).of(model), Vec::new(), stream)?;
    learned.model.provenance.matchings = learned.report.matchings;
    Ok(learned)
}

/// Fits topics on a cluster.
pub fn run_topics(args: &FitArgs, url: &str) -> Result<Learned<Topics>, Failure> {
    let process = topics::process(&args.topics, args.engine.bound)?;
    let (bags, spec, attached) =
        documents::open(&args.inputs, &args.read, &args.topics, process, job_spec(args, None))?;
    let bags = bags.ok_or_else(|| Failure::input("there are no inputs"))?;
    let lines = Lines::new(bags, args.engine.batch_size);
    let mut learned = learn::<Topics>(args, url, spec, attached, lines)?;
    learned.model.provenance.matchings = learned.report.matchings;
    Ok(learned)
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

fn job_spec(args: &FitArgs, columns: Option<Vec<String>>) -> JobSpec {
    JobSpec {
        batch_size: args.engine.batch_size,
        bootstrap_rows: bootstrap_rows(args.engine.bootstrap, args.model),
        max_new: args.engine.max_new as u32,
        seed: args.engine.seed,
        columns,
        on_bad_row: on_bad_row(&args.read),
        ..JobSpec::default()
    }
}
