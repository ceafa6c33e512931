//! `anabranch experiment`: the paper's figures and table, measured again.
//!
//! | name | the paper | files |
//! |---|---|---|
//! | `bound` | Figure 2 | `clusters`, `uncertainty`, `sampling` |
//! | `synthetic` | Figure 3 (a–f) | `identify-off`, `identify-on`, `traces`, `identification`, `growth`, `final` |
//! | `models` | the models that the paper names beyond | `pitman-yor`, `beta`, `small-clusters` |
//! | `mnist`, `planes`, `words` | Figure 4 and its table | `table`, and pictures of the clusters |
//!
//! Every experiment writes csv files with what was measured, pictures as SVG and PNG, `results.json`, and `index.html`.

mod bound;
mod contest;
#[cfg(feature = "png")]
mod digits;
mod folder;
#[cfg(feature = "png")]
mod mnist;
mod models;
mod planes;
mod spread;
mod synthetic;
mod table;
mod words;

use std::io::Write;

use crate::args::{ExperimentArgs, ExperimentName};
use crate::failure::Failure;
use crate::stop;

/// Runs the command.
pub fn command(args: &ExperimentArgs) -> Result<(), Failure> {
    stop::listen();
    let evidence = match args.name {
        ExperimentName::Bound => bound::run(args)?,
        ExperimentName::Synthetic => synthetic::run(args)?,
        #[cfg(feature = "png")]
        ExperimentName::Mnist => mnist::run(args)?,
        #[cfg(not(feature = "png"))]
        ExperimentName::Mnist => return Err(Failure::left_out("draws no digits", "png")),
        ExperimentName::Planes => planes::run(args)?,
        ExperimentName::Words => words::run(args)?,
        ExperimentName::Models => models::run(args)?,
    };
    let page = folder::write(&args.out, &evidence)?;
    writeln!(std::io::stdout().lock(), "{}", page.display())?;
    Ok(())
}

/// Says what is being done, unless nobody wants to know.
fn say(args: &ExperimentArgs, message: impl std::fmt::Display) {
    if !args.quiet {
        eprintln!("{message}");
    }
}

/// Ends an experiment that somebody asked to stop: half of one would mislead.
fn check_stop() -> Result<(), Failure> {
    if stop::asked() { Err(Failure::input("stopped before the end: nothing was written")) } else { Ok(()) }
}

fn threads(args: &ExperimentArgs) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    args.threads.map_or(cores, |n| n as usize)
}
