//! The commands of a cluster: what the flags mean, and the parts of the bootstrap that know families and priors.

pub(crate) mod fit;
mod founder;
pub(crate) mod pull;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod worker;

use std::sync::Arc;

use anabranch::process::AnyProcess;
use anabranch_cluster::{ConnectTo, DEFAULT_URL, JobName, JobSpec, PriorSpec};
use anabranch_io::printable::printable;
use tokio::runtime::Runtime;

use crate::args::{ClusterArgs, Command, LoginArgs, PriorArgs};
use crate::engine::mixture_process;
use crate::failure::Failure;
use crate::printing::to_json;
use crate::request::{self, Refused};

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
    let cli = request::parse(words).map_err(|refused| match refused {
        Refused::Together(failure) => failure,
        Refused::Words(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Failure::input(first.strip_prefix("error: ").unwrap_or(first))
        }
    })?;
    match &cli.command {
        Command::Submit(args) => to_json(&submit::submit(args, rows, &*stopped)?, "submission"),
        Command::Worker(args) => to_json(&worker::run(args, stopped)?, "report"),
        Command::Pull(args) => {
            let model = pull::pull(args, &*stopped)?;
            to_json(&pull::Summary::of(args, &model), "summary")
        }
        Command::Status(args) => to_json(&status::look(args)?, "status"),
        _ => Err(Failure::input("not a command of a cluster")),
    }
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
    if quiet { Box::new(|_| ()) } else { Box::new(|message| eprintln!("{}", printable(message))) }
}

fn prior_spec(args: &PriorArgs) -> PriorSpec {
    PriorSpec {
        mean: args.prior_mean.clone(),
        kappa: args.prior_kappa,
        scale: args.prior_scale.clone(),
        dof: args.prior_dof,
        resolution: args.resolution.clone(),
    }
}

fn prior_args(spec: &PriorSpec) -> PriorArgs {
    PriorArgs {
        prior: None,
        prior_mean: spec.mean.clone(),
        prior_kappa: spec.kappa,
        prior_scale: spec.scale.clone(),
        prior_dof: spec.dof,
        resolution: spec.resolution.clone(),
    }
}

fn process(spec: &JobSpec) -> Result<AnyProcess, Failure> {
    mixture_process(spec.alpha, spec.discount, spec.bound)
}
