//! The commands of a cluster: what the flags mean, and the parts of the bootstrap that know families and priors.

pub(crate) mod fit;
mod founder;
pub(crate) mod pull;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod worker;

use std::sync::Arc;

use anabranch::process::{AnyProcess, Bound, ProcessError};
use anabranch_cluster::{ConnectTo, DEFAULT_URL, JobName, JobSpec, PriorSpec};
use clap::Parser;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::args::{BoundKind, Cli, ClusterArgs, Command, LoginArgs, PriorArgs};
use crate::failure::Failure;

/// Says whether a command shall end.
pub type Stopped = Arc<dyn Fn() -> bool + Send + Sync>;

/// The environment variable with the address of the server.
const URL_VARIABLE: &str = "ANABRANCH_NATS";

/// Threads of the client; inference has its own.
const CLIENT_THREADS: usize = 2;

/// `submit`, `worker`, `pull` or `status` for another language: the flags of the command line go in, with rows in memory for
/// `submit`, and the result comes out as JSON.
pub fn call(args: &[String], rows: Option<Vec<u8>>, stopped: Stopped) -> Result<String, Failure> {
    let words = std::iter::once("anabranch").chain(args.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Failure::input(first.strip_prefix("error: ").unwrap_or(first))
    })?;
    match &cli.command {
        Command::Submit(args) => as_json(&submit::submit(args, rows, &*stopped)?),
        Command::Worker(args) => as_json(&worker::run(args, stopped)?),
        Command::Pull(args) => {
            pull::pull(args, &*stopped).map(|model| pull::summary(args, &model).to_string())
        }
        Command::Status(args) => as_json(&status::look(args)?),
        _ => Err(Failure::input("not a command of a cluster")),
    }
}

fn as_json(result: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(result)
        .map_err(|error| Failure::Internal { message: format!("cannot print the result: {error}") })
}

/// Where to connect, as the flags, the environment or the standard port say.
fn connect_to(url: Option<&str>, login: &LoginArgs, command: &str) -> ConnectTo {
    let from_environment = || std::env::var(URL_VARIABLE).ok().filter(|url| !url.is_empty());
    ConnectTo {
        url: url.map(str::to_owned).or_else(from_environment).unwrap_or_else(|| DEFAULT_URL.to_owned()),
        creds: login.creds.clone(),
        nkey: login.nkey.clone(),
        tls_ca: login.tls_ca.clone(),
        tls_cert: login.tls_cert.clone(),
        tls_key: login.tls_key.clone(),
        name: format!("anabranch {command}"),
    }
}

/// Where to connect, and which job.
fn target(args: &ClusterArgs, command: &str) -> Result<(ConnectTo, JobName), Failure> {
    let job = args.job.parse::<JobName>().map_err(|error| Failure::from(error).naming("--job"))?;
    Ok((connect_to(args.to.as_deref(), &args.login, command), job))
}

/// The threads that talk to the server.
fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CLIENT_THREADS)
        .enable_all()
        .build()
        .map_err(|error| Failure::Internal { message: format!("cannot start threads: {error}") })
}

/// Messages of a worker go to standard error.
fn say(quiet: bool) -> Box<dyn Fn(&str) + Send + Sync> {
    if quiet { Box::new(|_| ()) } else { Box::new(|message| eprintln!("{message}")) }
}

fn bound_name(bound: BoundKind) -> &'static str {
    match bound {
        BoundKind::Paper => "paper",
        BoundKind::Conditional => "conditional",
    }
}

fn prior_spec(args: &PriorArgs) -> PriorSpec {
    PriorSpec {
        mean: args.prior_mean.clone(),
        kappa: args.prior_kappa,
        scale: args.prior_scale.clone(),
        dof: args.prior_dof,
    }
}

fn prior_args(spec: &PriorSpec) -> PriorArgs {
    PriorArgs {
        prior: None,
        prior_mean: spec.mean.clone(),
        prior_kappa: spec.kappa,
        prior_scale: spec.scale.clone(),
        prior_dof: spec.dof,
    }
}

fn process(spec: &JobSpec) -> Result<AnyProcess, Failure> {
    let bound = if spec.bound == "conditional" { Bound::Conditional } else { Bound::Paper };
    AnyProcess::new(spec.alpha, spec.discount, bound).map_err(|error| {
        let flag = if matches!(error, ProcessError::Discount { .. }) { "--discount" } else { "--alpha" };
        Failure::input(format!("{flag}: {error}"))
    })
}
