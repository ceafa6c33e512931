//! The command `anabranch`: what it understands, does, draws and prints.

pub mod args;
#[cfg(feature = "cluster")]
pub mod cluster;
mod clusters;
mod columns;
mod demo;
pub mod doubts;
mod engine;
mod evaluate;
mod experiment;
mod failure;
mod features;
mod fit;
mod inspect;
mod manual;
mod merge;
pub mod picture;
mod predict;
mod printing;
mod reading;
pub mod report;
pub mod request;
mod resources;
mod sample;
mod slips;
mod stop;
mod topics;

use std::ffi::OsString;
use std::io::Write;

use args::Command;
use request::Refused;

pub use failure::{Failure, Tried};
pub use features::{
    FeatureModel, LARGEST as LARGEST_CELL, asked as features_asked, family as feature_family,
};
pub use fit::FamilySpec;
pub use merge::{Merged, merge};
pub use reading::Largest;
pub use topics::{asked as topics_asked, family as topic_family, stored as topic_model};

/// The Rust that README.md shows.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Parses the arguments, of which the first is the name of the program, runs the command, and returns the exit code.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = args.into_iter().collect();
    let cli = match request::parse(&words) {
        Ok(cli) => cli,
        Err(Refused::Together(failure)) => return failure.report(),
        Err(Refused::Words(error)) => {
            if let Some(failure) = slips::explain(&error, &request::command(), &words) {
                return failure.report();
            }
            // Help and version go to standard output and are a success; everything else is the user's slip.
            let code = if error.use_stderr() { 1 } else { 0 };
            let _ = error.print();
            return code;
        }
    };
    match run(&cli.command) {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo::command(args),
        Command::Fit(args) => fit::command(args),
        Command::Predict(args) => predict::command(args),
        Command::Impute(args) => predict::impute::command(args),
        Command::Inspect(args) => inspect::command(args),
        Command::Clusters(args) => clusters::command(args),
        Command::Merge(args) => merge::command(args),
        Command::Sample(args) => sample::command(args),
        Command::Completions(args) => {
            // The generator panics when it cannot write, so it writes to memory.
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut request::command(), "anabranch", &mut script);
            Ok(std::io::stdout().lock().write_all(&script)?)
        }
        Command::Man(args) => manual::command(args),
        Command::Experiment(args) => experiment::command(args),
        #[cfg(feature = "cluster")]
        Command::Submit(args) => cluster::submit::command(args),
        #[cfg(feature = "cluster")]
        Command::Worker(args) => cluster::worker::command(args),
        #[cfg(feature = "cluster")]
        Command::Pull(args) => cluster::pull::command(args),
        #[cfg(feature = "cluster")]
        Command::Status(args) => cluster::status::command(args),
        #[cfg(feature = "cluster")]
        Command::Watch(args) => cluster::status::watch(args),
        #[cfg(feature = "cluster")]
        Command::Jobs(args) => cluster::operate::jobs_command(args),
        #[cfg(feature = "cluster")]
        Command::Pause(args) => cluster::operate::pause_command(args),
        #[cfg(feature = "cluster")]
        Command::Resume(args) => cluster::operate::resume_command(args),
        #[cfg(feature = "cluster")]
        Command::Dead(args) => cluster::operate::dead_command(args),
        #[cfg(feature = "cluster")]
        Command::Delete(args) => cluster::operate::delete_command(args),
        #[cfg(not(feature = "cluster"))]
        Command::Submit(_)
        | Command::Worker(_)
        | Command::Pull(_)
        | Command::Status(_)
        | Command::Watch(_)
        | Command::Jobs(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Dead(_)
        | Command::Delete(_) => Err(Failure::left_out("does not talk to clusters", "cluster")),
    }
}
