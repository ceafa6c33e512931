//! `anabranch worker`: takes minibatches from the queue of a job until it is asked to stop.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anabranch_cluster::{Access, ClusterError, Job, Report, WorkerConfig, for_kind, work};

use super::founder::Known;
use super::{Stopped, runtime, say, secret, target};
use crate::args::WorkerArgs;
use crate::failure::Failure;
use crate::picture::counted;
use crate::printing::print_json;
use crate::stop;

/// What visitors of the endpoint have to show.
const TOKEN_VARIABLE: &str = "ANABRANCH_TOKEN";
/// How often a job that does not exist yet is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn command(args: &WorkerArgs) -> Result<(), Failure> {
    stop::listen();
    let report = run(args, Arc::new(stop::asked))?;
    print(args, &report)
}

/// Works until asked to stop.
pub fn run(args: &WorkerArgs, stopped: Stopped) -> Result<Report, Failure> {
    let (to, name) = target(&args.cluster, "worker")?;
    let token = secret(TOKEN_VARIABLE)?;
    runtime()?.block_on(async {
        let job = loop {
            match Job::open(&to, &name, Access::Open).await {
                Err(ClusterError::NoJob(_)) if args.wait && !stopped() => {
                    tokio::time::sleep(LOOK_AGAIN).await
                }
                opened => break opened?,
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = args.threads.map_or(cores, |threads| threads as usize);
        let spec = job.spec().clone();
        for_kind!(spec, K => {
            let config = WorkerConfig::<K> {
                threads,
                founder: K::founder(&job, threads).await?,
                listen: Some(args.listen),
                token: token.clone(),
                health: args.health_listen,
                stalled_after: Duration::from_secs(args.stalled_after),
                stopped,
                until: Box::new(|_| false),
                say: say(args.quiet),
            };
            Ok(work(job, config).await?)
        })
    })
}

fn print(args: &WorkerArgs, report: &Report) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, report, "report");
    }
    writeln!(
        out,
        "{} of {}, {}, {}",
        counted(report.minibatches, "minibatch"),
        counted(report.rows, "row"),
        counted(report.matchings, "matching"),
        counted(report.conflicts, "conflict")
    )?;
    let busy = report.infer_seconds.max(f64::MIN_POSITIVE);
    writeln!(
        out,
        "{:.2} s of inference; {:.2} s folding the journal ({:.1} %), {:.2} s waiting for minibatches",
        report.infer_seconds,
        report.fold_seconds,
        100.0 * report.fold_seconds / busy,
        report.wait_seconds
    )?;
    Ok(())
}
