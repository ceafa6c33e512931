//! `anabranch jobs`, `pause`, `resume`, `dead` and `delete`: what an operator does.

use std::io::Write;

use anabranch_cluster::{
    Access, Job, dead, dead_one, delete, drop_dead, jobs, pause, requeue, resume, status,
};
use anabranch_io::printable::printable;

use super::{connect_to, runtime, target};
use crate::args::{DeadAction, DeadArgs, DeleteArgs, JobsArgs, PauseArgs};
use crate::failure::Failure;
use crate::picture::{counted, grouped};
use crate::printing::print_json;

/// Lists the jobs.
pub fn jobs_command(args: &JobsArgs) -> Result<(), Failure> {
    let to = connect_to(args.to.as_deref(), &args.login, "jobs")?;
    let found = runtime()?.block_on(jobs(&to))?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &found, "jobs");
    }
    for job in &found {
        writeln!(
            out,
            "{}: {} pending, {} set aside, journal at {}, {} MB",
            job.job,
            grouped(job.pending as f64),
            grouped(job.dead as f64),
            job.journal_last,
            grouped((job.bytes as f64 / 1e6).round())
        )?;
    }
    if found.is_empty() {
        writeln!(out, "no jobs")?;
    }
    Ok(())
}

/// Lets the workers rest.
pub fn pause_command(args: &PauseArgs) -> Result<(), Failure> {
    let (to, name) = target(&args.cluster, "pause")?;
    runtime()?.block_on(async { pause(&Job::open(&to, &name, Access::Open).await?).await })?;
    Ok(writeln!(std::io::stdout(), "job {name} is paused: workers finish what they hold, and take no more")?)
}

/// Lets them go on.
pub fn resume_command(args: &PauseArgs) -> Result<(), Failure> {
    let (to, name) = target(&args.cluster, "resume")?;
    runtime()?.block_on(async { resume(&Job::open(&to, &name, Access::Open).await?).await })?;
    Ok(writeln!(std::io::stdout(), "job {name} goes on")?)
}

/// Removes a job; without `--yes` it says what would go.
pub fn delete_command(args: &DeleteArgs) -> Result<(), Failure> {
    let (to, name) = target(&args.cluster, "delete")?;
    runtime()?.block_on(async {
        if args.yes {
            return Ok::<_, Failure>(delete(&to, &name).await?);
        }
        let now = status(&Job::open(&to, &name, Access::Open).await?).await?;
        Err(Failure::input(format!(
            "job {name} has learned from {}, {} wait, and it has {}",
            counted(now.mass.round() as u64, "row"),
            counted(now.pending, "minibatch"),
            counted(now.workers.len() as u64, "worker")
        ))
        .with_hint("fetch the model with `anabranch pull`, and pass --yes to remove all of it"))
    })?;
    Ok(writeln!(std::io::stdout(), "job {name} is gone")?)
}

/// Lists, shows, publishes again or forgets what was set aside.
pub fn dead_command(args: &DeadArgs) -> Result<(), Failure> {
    let (to, name) = target(&args.cluster, "dead")?;
    let named = !args.numbers.is_empty();
    let wrong = match args.action {
        DeadAction::List => {
            (named || args.all || args.with.is_some()).then_some("list takes nothing but --json")
        }
        DeadAction::Show => {
            (args.numbers.len() != 1 || args.with.is_some()).then_some("show takes one number")
        }
        DeadAction::Requeue if args.with.is_some() => {
            (args.numbers.len() != 1).then_some("--with takes the place of one number")
        }
        DeadAction::Drop if args.with.is_some() => Some("--with belongs to requeue"),
        DeadAction::Requeue | DeadAction::Drop => (!named && !args.all).then_some("give numbers, or --all"),
    };
    if let Some(wrong) = wrong {
        return Err(Failure::input(wrong).with_hint("`anabranch dead list --job NAME` shows the numbers"));
    }
    let other = args.with.as_ref().map(|path| {
        std::fs::read(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
    });
    let other = other.transpose()?;
    let mut out = std::io::stdout().lock();
    runtime()?.block_on(async {
        let job = Job::open(&to, &name, Access::Open).await?;
        match args.action {
            DeadAction::List => {
                let all = dead(&job, 1, usize::MAX).await?;
                if args.json {
                    return print_json(&mut out, &all, "list");
                }
                for one in &all {
                    let (subject, reason) = (printable(&one.subject), printable(&one.reason));
                    writeln!(out, "{}: {} bytes from {subject}: {reason}", one.number, one.bytes)?;
                }
                if all.is_empty() {
                    writeln!(out, "nothing was set aside")?;
                }
                return Ok::<_, Failure>(());
            }
            DeadAction::Show => return Ok(out.write_all(&dead_one(&job, args.numbers[0]).await?.payload)?),
            DeadAction::Requeue | DeadAction::Drop => {}
        }
        let numbers = match args.all {
            true => dead(&job, 1, usize::MAX).await?.into_iter().map(|one| one.number).collect(),
            false => args.numbers.clone(),
        };
        for &number in &numbers {
            if args.action == DeadAction::Drop {
                drop_dead(&job, number).await?;
            } else {
                let one = dead_one(&job, number).await?;
                let payload = other.clone().map_or(one.payload, Into::into);
                requeue(&job, number, payload).await?;
            }
        }
        let done = if args.action == DeadAction::Drop { "forgotten" } else { "published again" };
        writeln!(out, "{} {done}", counted(numbers.len() as u64, "minibatch"))?;
        Ok(())
    })
}
