//! `anabranch status`: how a job stands, for people or as JSON.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anabranch_cluster::{Access, Job, Status, status};
use anabranch_io::printable::printable;

use super::{runtime, target};
use crate::args::{StatusArgs, WatchArgs};
use crate::failure::Failure;
use crate::picture::{counted, grouped};
use crate::printing::print_json;
use crate::stop;

/// How often the wish to stop is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn command(args: &StatusArgs) -> Result<(), Failure> {
    let now = look(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &now, "status");
    }
    print(&mut out, &now)
}

/// Looks again and again until asked to stop.
pub fn watch(args: &WatchArgs) -> Result<(), Failure> {
    stop::listen();
    let (to, name) = target(&args.cluster, "watch")?;
    let mut out = std::io::stdout().lock();
    let on_terminal = out.is_terminal();
    runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Open).await?;
        let mut before: Option<(Instant, f64)> = None;
        while !stop::asked() {
            let now = match status(&job).await {
                // Servers that restart come back.
                Err(error) if error.passes() => {
                    eprintln!("{}", printable(&error.to_string()));
                    tokio::time::sleep(Duration::from_secs(args.every)).await;
                    continue;
                }
                now => now?,
            };
            let looked = Instant::now();
            let rate = before.map(|(then, mass)| (now.mass - mass) / (looked - then).as_secs_f64());
            before = Some((looked, now.mass));
            if args.json {
                print_json_line(&mut out, &now)?;
            } else {
                // Clears the terminal and begins at its top.
                write!(out, "{}", if on_terminal { "\x1b[2J\x1b[H" } else { "" })?;
                print(&mut out, &now)?;
                writeln!(out, "{} rows/s", rate.map_or("–".into(), |rate| grouped(rate.round())))?;
            }
            out.flush()?;
            let until = looked + Duration::from_secs(args.every);
            while Instant::now() < until && !stop::asked() {
                tokio::time::sleep(GLANCE).await;
            }
        }
        Ok(())
    })
}

fn print_json_line(out: &mut impl Write, now: &Status) -> Result<(), Failure> {
    let line = serde_json::to_string(now)
        .map_err(|error| Failure::Internal { message: format!("the status as JSON: {error}") })?;
    Ok(writeln!(out, "{line}")?)
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
        counted(now.rows, "row"),
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
        match (now.finished, now.paused) {
            (_, true) => "; paused",
            (true, _) => "; finished",
            _ => "",
        }
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
