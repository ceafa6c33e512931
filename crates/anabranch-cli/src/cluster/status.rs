//! `anabranch status`: how a job stands, for people or as JSON.

use std::io::Write;

use anabranch_cluster::{Access, Job, Status, status};
use anabranch_io::printable::printable;

use super::{runtime, target};
use crate::args::StatusArgs;
use crate::failure::Failure;
use crate::picture::{counted, grouped};
use crate::printing::print_json;

/// Runs the command.
pub fn command(args: &StatusArgs) -> Result<(), Failure> {
    let now = look(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &now, "status");
    }
    print(&mut out, &now)
}

/// How the job stands.
pub fn look(args: &StatusArgs) -> Result<Status, Failure> {
    let (to, name) = target(&args.cluster, "status")?;
    runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Open).await?;
        Ok(status(&job).await?)
    })
}

fn print(out: &mut impl Write, now: &Status) -> Result<(), Failure> {
    writeln!(
        out,
        "job {}: {} → {}",
        now.job,
        counted(now.mass.round() as u64, "row"),
        counted(now.components, "component")
    )?;
    writeln!(
        out,
        "{} absorbed, {} pending ({} held by workers), {} set aside, {}{}",
        counted(now.absorbed, "minibatch"),
        grouped(now.pending as f64),
        grouped(now.held as f64),
        grouped(now.set_aside as f64),
        counted(now.conflicts, "conflict"),
        if now.finished { "; finished" } else { "" }
    )?;
    writeln!(
        out,
        "journal {}–{}, {} MB; snapshot at {}",
        now.journal_first,
        now.journal_last,
        grouped((now.journal_bytes as f64 / 1e6).round()),
        now.snapshot
    )?;
    for source in &now.sources {
        let state = if source.finished { "finished" } else { "not finished" };
        writeln!(
            out,
            "source {}: {} published, {} absorbed, {state}",
            printable(&source.name),
            grouped(source.published as f64),
            grouped(source.absorbed as f64)
        )?;
    }
    for worker in &now.workers {
        writeln!(
            out,
            "worker {} on {} ({}): {}, {}{}",
            printable(&worker.id),
            printable(&worker.host),
            counted(u64::from(worker.threads), "thread"),
            counted(worker.minibatches, "minibatch"),
            counted(worker.conflicts, "conflict"),
            if worker.lease { ", holds the lease" } else { "" }
        )?;
    }
    if now.workers.is_empty() {
        writeln!(out, "no workers")?;
    }
    Ok(())
}
