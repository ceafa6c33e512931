//! The commands of a cluster: what the flags mean, and the parts of the bootstrap that know families and priors.

mod documents;
pub(crate) mod fit;
mod founder;
pub(crate) mod operate;
pub(crate) mod pull;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod worker;

use std::path::Path;
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
        Command::Pull(args) if args.follow => Err(Failure::input("--follow belongs to the command line")),
        Command::Pull(args) => to_json(&pull::pull(args, &*stopped)?, "summary"),
        Command::Status(args) => to_json(&status::look(args)?, "status"),
        _ => Err(Failure::input("not a command of a cluster")),
    }
}

/// Where to connect, as the flags, the environment or the standard port say.
fn connect_to(url: Option<&str>, login: &LoginArgs, command: &str) -> Result<ConnectTo, Failure> {
    if let Some(url) = url.filter(|url| url.contains('@'))
        && std::env::args_os().any(|argument| argument.to_string_lossy().contains(url))
    {
        eprintln!(
            "warning: everybody on this machine can see the password in the arguments; put the URL into {URL_VARIABLE}, or \
             into a file that {URL_VARIABLE}_FILE names"
        );
    }
    [&login.creds, &login.nkey, &login.tls_key].into_iter().flatten().for_each(|path| warn_if_open(path));
    let url = match url {
        Some(url) => Some(url.to_owned()),
        None => secret(URL_VARIABLE)?,
    };
    Ok(ConnectTo {
        url: url.unwrap_or_else(|| DEFAULT_URL.to_owned()),
        creds: login.creds.clone(),
        nkey: login.nkey.clone(),
        tls_ca: login.tls_ca.clone(),
        tls_cert: login.tls_cert.clone(),
        tls_key: login.tls_key.clone(),
        name: format!("anabranch {command}"),
        say: Some(|what| eprintln!("{what}")),
    })
}

/// What an environment variable holds, or the file that the variable of the same name with `_FILE` names. One that is empty is a
/// slip, and taken for none it would open what it should close.
fn secret(variable: &str) -> Result<Option<String>, Failure> {
    let in_file = format!("{variable}_FILE");
    let text = match (std::env::var(variable).ok(), std::env::var_os(&in_file)) {
        (Some(_), Some(_)) => {
            return Err(Failure::input(format!("{variable} and {in_file} are both set"))
                .with_hint("unset one of them"));
        }
        (Some(text), None) => text,
        (None, Some(path)) => {
            let path = Path::new(&path);
            warn_if_open(path);
            let read = std::fs::read_to_string(path);
            read.map_err(|error| Failure::input(format!("{in_file}: {}: {error}", path.display())))?
        }
        (None, None) => return Ok(None),
    };
    match text.trim() {
        "" => {
            Err(Failure::input(format!("{variable} is empty"))
                .with_hint("put something into it, or unset it"))
        }
        text => Ok(Some(text.to_owned())),
    }
}

/// Warns of a secret that others can read.
fn warn_if_open(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o044 != 0) {
            let path = path.display().to_string();
            eprintln!("warning: others can read {}: chmod 600 it", printable(&path));
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Where to connect, and which job.
fn target(args: &ClusterArgs, command: &str) -> Result<(ConnectTo, JobName), Failure> {
    let job = args.job.parse::<JobName>().map_err(|error| Failure::from(error).naming("--job"))?;
    Ok((connect_to(args.to.as_deref(), &args.login, command)?, job))
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
