//! `anabranch pull`: the current model of a job as a file.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anabranch_cluster::protocol::Replica;
use anabranch_cluster::{
    Access, Follower, Job, Kind, SourceStatus, Status, fetch_replica, finish, for_kind, status,
};
use serde::Serialize;

use super::founder::Known;
use super::{runtime, target};
use crate::args::PullArgs;
use crate::failure::Failure;
use crate::picture::counted;
use crate::printing::print_json;
use crate::stop;

/// How often `--wait` looks.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How often --follow looks at the wish to stop.
const GLANCE: Duration = Duration::from_millis(250);

/// Runs the command.
pub fn command(args: &PullArgs) -> Result<(), Failure> {
    stop::listen();
    if args.follow {
        return follow(args);
    }
    print(args, &pull(args, &stop::asked)?)
}

/// Fetches the model and writes the file.
pub fn pull<'a>(args: &'a PullArgs, stopped: &dyn Fn() -> bool) -> Result<Summary<'a>, Failure> {
    let (to, name) = target(&args.cluster, "pull")?;
    runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Open).await?;
        if args.wait {
            wait(&job, stopped).await?;
        }
        let written = for_kind!(job.spec(), K => {
            let mut replica = fetch_replica::<K>(&job).await?;
            if args.finish {
                finish(&mut replica, job.spec());
            }
            write(args, &replica)?
        });
        written.ok_or_else(|| {
            Failure::input(format!("job `{name}` has no model yet"))
                .with_hint("start a worker with `anabranch worker --job NAME`, or pass --wait")
        })
    })
}

/// Writes the model of a replica; `None` where there is none yet.
fn write<'a, K: Known>(args: &'a PullArgs, replica: &Replica<K>) -> Result<Option<Summary<'a>>, Failure> {
    let Some(model) = replica.model() else { return Ok(None) };
    K::save(&K::kept(model, replica.memory()), &args.out)?;
    Ok(Summary::of(args, replica))
}

/// Writes the model whenever it has changed.
fn follow(args: &PullArgs) -> Result<(), Failure> {
    let (to, name) = target(&args.cluster, "pull")?;
    runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Open).await?;
        let spec = job.spec().clone();
        for_kind!(spec, K => rewrite(args, Follower::<K>::start(job).await?).await)
    })
}

async fn rewrite<K: Known>(args: &PullArgs, mut follower: Follower<K>) -> Result<(), Failure> {
    let (mut written, mut last) = (None, Instant::now());
    while !stop::asked() {
        let replica = follower.after(GLANCE).await?;
        // The first one as soon as it is there.
        if written.is_some() && last.elapsed() < Duration::from_secs(args.every) {
            continue;
        }
        let print_of = replica.fingerprint();
        if written == Some(print_of) {
            continue;
        }
        if let Some(summary) = write(args, &replica)? {
            (written, last) = (Some(print_of), Instant::now());
            print(args, &summary)?;
        }
    }
    Ok(())
}

/// Until every finished source is settled, and a worker has finished the model, while there is one.
async fn wait(job: &Job, stopped: &dyn Fn() -> bool) -> Result<(), Failure> {
    loop {
        match status(job).await {
            Ok(now) if is_in(&now) => return Ok(()),
            // Servers that restart come back.
            Err(error) if !error.passes() => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
        if stopped() {
            return Err(Failure::input("stopped before every minibatch was in"));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn is_in(now: &Status) -> bool {
    let settled =
        |source: &SourceStatus| source.finished && source.absorbed + source.set_aside >= source.published;
    let all = now.pending == 0 && now.absorbed > 0 && now.sources.iter().all(settled);
    all && (now.finished || now.workers.is_empty() || now.sources.is_empty())
}

/// What the model holds.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    observations: u64,
    mass: f64,
    components: usize,
    minibatches: u64,
    conflicts: u64,
    out: &'a Path,
}

impl<'a> Summary<'a> {
    /// Of the model that was written.
    fn of<K: Kind>(args: &'a PullArgs, replica: &Replica<K>) -> Option<Self> {
        let posterior = replica.posterior()?;
        Some(Self {
            observations: replica.rows(),
            mass: posterior.expected_mass(),
            components: posterior.components().len(),
            minibatches: replica.absorbed(),
            conflicts: replica.tally().superseded,
            out: &args.out,
        })
    }
}

fn print(args: &PullArgs, summary: &Summary<'_>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, summary, "summary");
    }
    writeln!(
        out,
        "{} → {}, {}\nmodel: {}",
        counted(summary.observations, "row"),
        counted(summary.components as u64, "component"),
        counted(summary.minibatches, "minibatch"),
        args.out.display()
    )?;
    Ok(())
}
