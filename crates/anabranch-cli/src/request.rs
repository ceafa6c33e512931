//! Which flag goes with which model, algorithm and engine: one table, asked before anything is opened.
//!
//! ```text
//! words typed ──clap──▶ args ──┐
//!                              ├──check──▶ the command, or an error that names both sides
//! flags among them ────────────┘
//! ```
//!
//! A flag of `fit`, `demo` or `submit` stands in `TABLE` under the heading that help shows it under, with the models,
//! algorithms and engines that look at it. One that was typed and that nobody would look at is refused.

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, ValueEnum};

use crate::args::{Algorithm, Cli, Command, FitArgs, ModelKind, OnOff, half_life};
use crate::failure::Failure;
use crate::fit::kind_of;

/// Who runs the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This process.
    Here,
    /// The workers of a cluster.
    Cluster,
}

/// What a run begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Its first row.
    Anew,
    /// A model, which says what it is.
    Model,
}

/// What a run is, as far as its flags depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which nonparametric model.
    pub model: ModelKind,
    /// Which algorithm.
    pub algorithm: Algorithm,
    /// Who runs the engine.
    pub place: Place,
    /// Whether new components are identified.
    pub identify: OnOff,
    /// What it begins with.
    pub begin: Begin,
    /// Whether the past fades.
    pub forgets: bool,
}

/// Flags of one kind.
struct Rule {
    /// The section of the help.
    heading: &'static str,
    /// By their names in Python; `batch_size` is `--batch-size`.
    flags: &'static [&'static str],
    models: &'static [ModelKind],
    algorithms: &'static [Algorithm],
    places: &'static [Place],
    identify: &'static [OnOff],
    begin: &'static [Begin],
    /// Whether they go with a past that fades.
    forgetting: bool,
    hint: Option<&'static str>,
}

use Algorithm::{Batch, Movb, Sda, Subcluster, Sva, Svi};
use ModelKind::{Bp, Dp, Hdp, Py};

const MIXTURES: &[ModelKind] = &[Dp, Py];
const HERE: &[Place] = &[Place::Here];
const ON_A_CLUSTER: &[Place] = &[Place::Cluster];
const ANEW: &[Begin] = &[Begin::Anew];

const INPUT: Rule = Rule {
    heading: "Input",
    flags: &[],
    models: &[Dp, Py, Hdp, Bp],
    algorithms: &[Sda, Batch, Svi, Movb, Sva, Subcluster],
    places: &[Place::Here, Place::Cluster],
    identify: &[OnOff::On, OnOff::Off],
    begin: &[Begin::Anew, Begin::Model],
    forgetting: true,
    hint: None,
};
const TEXT: Rule = Rule { heading: "Text", ..INPUT };
const MODEL: Rule = Rule { heading: "Model", ..INPUT };
const PRIOR: Rule = Rule { heading: "Prior", ..INPUT };
const ENGINE: Rule = Rule { heading: "Engine", ..INPUT };
const OUTPUT: Rule = Rule { heading: "Output", ..INPUT };
const CLUSTER: Rule = Rule { heading: "Cluster", ..INPUT };
const RESEARCH: Rule = Rule { heading: "Research", ..INPUT };

/// Every flag of `fit`, `demo` and `submit`; all rules that name a flag hold. Names in brackets are no flags but values of
/// them, which [`Request::values`] finds.
const TABLE: &[Rule] = &[
    Rule { flags: &["format", "on_bad_row", "max_memory", "rows", "source"], ..INPUT },
    Rule {
        flags: &["missing", "missing_informative"],
        models: MIXTURES,
        algorithms: &[Sda],
        places: HERE,
        hint: Some("a row with a missing value is a bad row there: see --on-bad-row"),
        ..INPUT
    },
    Rule { flags: &["columns", "header", "delimiter"], models: &[Dp, Py, Bp], ..INPUT },
    Rule { flags: &["clusters"], models: &[Dp, Py, Hdp], ..INPUT },
    Rule { flags: &["model"], ..MODEL },
    Rule { flags: &["family"], models: MIXTURES, ..MODEL },
    Rule {
        flags: &["alpha"],
        models: &[Dp, Py, Bp],
        hint: Some("topics have --gamma and --alpha0"),
        ..MODEL
    },
    Rule { flags: &["discount"], models: &[Py], ..MODEL },
    Rule { flags: &["vocabulary", "gamma", "alpha0", "eta"], models: &[Hdp], ..MODEL },
    Rule { flags: &["text"], models: &[Hdp], ..TEXT },
    Rule {
        flags: &["stop_words", "min_length", "min_documents", "max_documents", "vocabulary_size", "phrases"],
        models: &[Hdp],
        begin: ANEW,
        hint: Some("leave it out: the model says it"),
        ..TEXT
    },
    Rule { flags: &["noise", "feature_scale"], models: &[Bp], ..MODEL },
    Rule { flags: &["image"], models: &[Bp], places: HERE, ..MODEL },
    Rule {
        flags: &["prior", "prior_mean", "prior_kappa", "prior_scale", "prior_dof"],
        models: MIXTURES,
        hint: Some("topics have --eta, features --noise and --feature-scale"),
        ..PRIOR
    },
    Rule { flags: &["resolution"], models: MIXTURES, algorithms: &[Sda], ..PRIOR },
    Rule { flags: &["threads", "seed", "bootstrap"], ..ENGINE },
    Rule { flags: &["[bootstrap 0]"], places: HERE, ..ENGINE },
    Rule { flags: &["batch_size"], algorithms: &[Sda, Svi, Movb, Sva], ..ENGINE },
    Rule { flags: &["max_new"], algorithms: &[Sda], ..ENGINE },
    Rule {
        flags: &["max_components"],
        models: MIXTURES,
        algorithms: &[Sda],
        places: HERE,
        hint: Some("the other algorithms have --truncation"),
        ..ENGINE
    },
    Rule {
        flags: &["half_life", "time"],
        models: MIXTURES,
        algorithms: &[Sda],
        places: HERE,
        identify: &[OnOff::On],
        hint: Some("only mixtures that are learned in one process forget"),
        ..ENGINE
    },
    Rule { flags: &["schedule"], algorithms: &[Sda], places: HERE, ..ENGINE },
    Rule {
        flags: &["workers"],
        algorithms: &[Sda],
        places: HERE,
        hint: Some("on a cluster, start more with `anabranch worker`"),
        ..ENGINE
    },
    Rule { flags: &["passes"], algorithms: &[Sda], places: HERE, ..ENGINE },
    Rule {
        flags: &["polish"],
        models: MIXTURES,
        algorithms: &[Sda],
        places: HERE,
        identify: &[OnOff::On],
        hint: Some("--passes reads the input again"),
        ..ENGINE
    },
    Rule {
        flags: &["checkpoint", "checkpoint_every", "resume"],
        algorithms: &[Sda],
        hint: Some("the others start from the rows; Ctrl-C writes the model of what was learned so far"),
        ..ENGINE
    },
    Rule {
        flags: &["checkpoint", "checkpoint_every", "resume"],
        places: HERE,
        hint: Some("the server keeps the state: pass --job, and the same command goes on"),
        ..ENGINE
    },
    Rule { flags: &["from"], algorithms: &[Sda], places: HERE, ..ENGINE },
    Rule { flags: &["out", "test", "json", "quiet"], ..OUTPUT },
    Rule {
        flags: &["labels"],
        models: MIXTURES,
        hint: Some("a row has one label in a mixture alone: it may have several topics or features"),
        ..OUTPUT
    },
    Rule { flags: &["report"], places: HERE, ..OUTPUT },
    Rule {
        flags: &["first_after", "out_every"],
        models: MIXTURES,
        algorithms: &[Sda],
        places: HERE,
        hint: Some("Ctrl-C writes the model of what was learned so far"),
        ..OUTPUT
    },
    Rule {
        flags: &["first_after"],
        begin: ANEW,
        hint: Some("there is a model already; --out-every writes it again and again"),
        ..OUTPUT
    },
    Rule { flags: &["events"], models: MIXTURES, algorithms: &[Sda], places: HERE, ..OUTPUT },
    Rule {
        flags: &["trace"],
        models: MIXTURES,
        hint: Some("--report shows topics over time, and features"),
        ..OUTPUT
    },
    Rule {
        flags: &["trace"],
        places: HERE,
        hint: Some("look at `anabranch status`, or at the workers' metrics"),
        ..OUTPUT
    },
    Rule {
        flags: &["job", "to", "creds", "nkey", "tls_ca", "tls_cert", "tls_key"],
        places: ON_A_CLUSTER,
        ..CLUSTER
    },
    Rule {
        flags: &[
            "replicas",
            "ack_wait",
            "max_deliver",
            "snapshot_entries",
            "snapshot_seconds",
            "queue_megabytes",
            "queues",
            "journal_megabytes",
        ],
        places: ON_A_CLUSTER,
        ..CLUSTER
    },
    Rule { flags: &["cluster"], algorithms: &[Sda], ..CLUSTER },
    Rule { flags: &["algorithm"], ..RESEARCH },
    Rule { flags: &["[another algorithm]"], models: &[Dp], ..RESEARCH },
    Rule { flags: &["truncation"], algorithms: &[Batch, Svi, Movb, Sva, Subcluster], ..RESEARCH },
    Rule { flags: &["iterations"], algorithms: &[Batch, Svi, Movb, Subcluster], ..RESEARCH },
    Rule { flags: &["rate_delay", "rate_power"], algorithms: &[Svi], ..RESEARCH },
    Rule { flags: &["identify"], algorithms: &[Sda], places: HERE, ..RESEARCH },
    Rule { flags: &["bound"], algorithms: &[Sda], identify: &[OnOff::On], ..RESEARCH },
    Rule { flags: &["precision"], models: MIXTURES, algorithms: &[Sda], places: HERE, ..RESEARCH },
    Rule {
        flags: &[
            "columns",
            "model",
            "family",
            "missing_informative",
            "alpha",
            "discount",
            "vocabulary",
            "gamma",
            "alpha0",
            "eta",
            "noise",
            "feature_scale",
            "prior",
            "prior_mean",
            "prior_kappa",
            "prior_scale",
            "prior_dof",
            "resolution",
            "seed",
            "bootstrap",
            "[bootstrap 0]",
            "batch_size",
            "bound",
            "algorithm",
            "[another algorithm]",
        ],
        begin: ANEW,
        hint: Some("leave it out: the model says it"),
        ..MODEL
    },
    Rule {
        flags: &["passes", "polish"],
        begin: ANEW,
        hint: Some("the rows of the model are gone, and cannot be learned from again"),
        ..ENGINE
    },
    Rule {
        flags: &["passes", "polish"],
        forgetting: false,
        hint: Some("rows that are learned from again would be new again"),
        ..ENGINE
    },
    Rule { flags: &["cluster", "[a cluster]"], begin: ANEW, hint: Some("go on in one process"), ..CLUSTER },
];

/// What `-h` shows; `--help` shows all.
const SHORT_HELP: [&str; 17] = [
    "format",
    "columns",
    "on_bad_row",
    "rows",
    "clusters",
    "model",
    "family",
    "alpha",
    "threads",
    "seed",
    "checkpoint",
    "resume",
    "out",
    "test",
    "report",
    "json",
    "quiet",
];

impl Request {
    /// What these flags of `fit` ask for, and what the model is that it goes on from.
    pub fn of_fit(args: &FitArgs) -> Self {
        // A file that cannot be read is told of when it is its turn.
        let begun = args.from.as_deref().and_then(|path| kind_of(path).ok());
        Self {
            model: begun.filter(|kind| *kind != Dp).unwrap_or(args.model),
            algorithm: args.algorithm,
            place: if args.cluster.is_some() { Place::Cluster } else { Place::Here },
            identify: args.engine.identify,
            begin: if args.from.is_some() { Begin::Model } else { Begin::Anew },
            forgets: args.half_life.is_some(),
        }
    }

    /// What a command asks for; `None` for commands whose flags go together as they are.
    fn of(command: &Command) -> Option<(Self, Option<u32>)> {
        let plain = |model, place| Self {
            model,
            algorithm: Sda,
            place,
            identify: OnOff::On,
            begin: Begin::Anew,
            forgets: false,
        };
        match command {
            Command::Fit(args) => Some((Self::of_fit(args), args.engine.bootstrap)),
            Command::Demo(args) => {
                let request = Self { identify: args.engine.identify, ..plain(args.model, Place::Here) };
                Some((request, args.engine.bootstrap))
            }
            Command::Submit(args) => Some((plain(args.model, Place::Cluster), None)),
            _ => None,
        }
    }

    /// Values that do not go with everything: how they are shown, and their names in the table.
    fn values(&self, bootstrap: Option<u32>) -> Vec<(String, &'static str)> {
        let mut values = Vec::new();
        if self.algorithm != Sda {
            values.push((format!("--algorithm {}", name(&self.algorithm)), "[another algorithm]"));
        }
        if self.place == Place::Cluster {
            values.push(("a cluster".to_owned(), "[a cluster]"));
        }
        if bootstrap == Some(0) {
            values.push(("--bootstrap 0".to_owned(), "[bootstrap 0]"));
        }
        values
    }

    /// Refuses the first of these parameters, by their names in Python, that nobody would look at.
    pub fn check<'a>(&self, given: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
        given.into_iter().try_for_each(|flag| self.check_one(&shown(flag), flag))
    }

    fn check_one(&self, shown: &str, flag: &str) -> Result<(), Failure> {
        let refuse = |rule: &Rule, message: String| match rule.hint {
            Some(hint) => Err(Failure::input(message).with_hint(hint)),
            None => Err(Failure::input(message)),
        };
        let rules = || TABLE.iter().filter(|rule| rule.flags.contains(&flag));
        // What the model says is refused first: which model it is shows only when it is read.
        if let Some(rule) = rules().find(|rule| !rule.begin.contains(&self.begin)) {
            return refuse(rule, format!("{shown} does not go with --from"));
        }
        if let Some(rule) = rules().find(|rule| self.forgets && !rule.forgetting) {
            return refuse(rule, format!("{shown} does not go with --half-life"));
        }
        for rule in rules() {
            if let Some(message) = side(shown, "--model", rule.models, self.model)
                .or_else(|| side(shown, "--algorithm", rule.algorithms, self.algorithm))
                .or_else(|| side(shown, "--identify", rule.identify, self.identify))
            {
                return refuse(rule, message);
            }
            match self.place {
                place if rule.places.contains(&place) => {}
                Place::Here => return refuse(rule, format!("{shown} belongs to --cluster")),
                Place::Cluster => return refuse(rule, format!("{shown} does not go with --cluster")),
            }
        }
        Ok(())
    }
}

/// What is wrong when a value is none of those that a flag belongs to.
fn side<T: ValueEnum + PartialEq>(shown: &str, flag: &str, belongs_to: &[T], this: T) -> Option<String> {
    if belongs_to.contains(&this) {
        return None;
    }
    let names: Vec<String> = belongs_to.iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Some(belongs(shown, flag, &names, &name(&this)))
}

/// That a flag belongs to some values of another one, of which this is none.
pub(crate) fn belongs(shown: &str, flag: &str, names: &[&str], this: &str) -> String {
    let listed = match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    };
    format!("{shown} belongs to {flag} {listed}; this is {flag} {this}")
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// `batch_size` as it is typed.
fn shown(flag: &str) -> String {
    format!("--{}", flag.replace('_', "-"))
}

/// The command line, with the headings of the table in the help of the commands whose flags stand in it.
pub fn command() -> clap::Command {
    let dress = |command: clap::Command| {
        command.mut_args(|arg| {
            let flag = arg.get_id().as_str();
            match TABLE.iter().find(|rule| rule.flags.contains(&flag)) {
                Some(rule) => {
                    let is_short = SHORT_HELP.contains(&flag);
                    arg.help_heading(rule.heading).hide_short_help(!is_short)
                }
                None => arg,
            }
        })
    };
    ["fit", "demo", "submit"].into_iter().fold(Cli::command(), |all, name| all.mut_subcommand(name, dress))
}

/// Why words are no request.
pub enum Refused {
    /// They are no flags, or ask for help.
    Words(clap::Error),
    /// They are flags that do not go together.
    Together(Failure),
}

/// From words, of which the first is the name of the program, to flags that go together.
pub fn parse<W: Into<std::ffi::OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<Cli, Refused> {
    let matches = command().try_get_matches_from(words).map_err(Refused::Words)?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(Refused::Words)?;
    if let (Some((request, bootstrap)), Some((_, typed))) = (Request::of(&cli.command), matches.subcommand())
    {
        let mut values = request.values(bootstrap).into_iter();
        let together = values
            .try_for_each(|(shown, value)| request.check_one(&shown, value))
            .and_then(|()| request.check(typed_flags(typed)));
        together.map_err(Refused::Together)?;
        if let Command::Fit(args) = &mut cli.command {
            settle(args, typed);
        }
    }
    Ok(cli)
}

/// What follows from flags for those that were not typed.
fn settle(args: &mut FitArgs, typed: &ArgMatches) {
    if let Some((first, further)) = half_life::minibatches(args.half_life, args.engine.batch_size) {
        args.engine.bootstrap = args.engine.bootstrap.or(Some(first));
        if !typed_flags(typed).any(|flag| flag == "batch_size") {
            args.engine.batch_size = further;
        }
    }
}

/// The flags that were typed, in the order of the help.
fn typed_flags(matches: &ArgMatches) -> impl Iterator<Item = &str> {
    let typed = |flag: &&str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    matches.ids().map(|id| id.as_str()).filter(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_fit_demo_and_submit_stands_in_the_table() {
        let mut known: Vec<&str> = Vec::new();
        for name in ["fit", "demo", "submit"] {
            let command = Cli::command();
            let command = command.find_subcommand(name).unwrap();
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let flag = arg.get_id().as_str();
                let rule = TABLE.iter().flat_map(|rule| rule.flags).find(|known| **known == flag);
                known.push(rule.unwrap_or_else(|| panic!("`{name}` has {flag}, the table does not")));
                assert_eq!(shown(flag), format!("--{}", arg.get_long().unwrap()));
            }
        }
        let mut flags = TABLE.iter().flat_map(|rule| rule.flags).filter(|flag| !flag.starts_with('['));
        assert_eq!(flags.find(|flag| !known.contains(flag)), None, "the table has what no command has");
        assert_eq!(SHORT_HELP.iter().find(|flag| !known.contains(flag)), None);
    }

    #[test]
    fn the_short_help_of_fit_shows_fifteen_flags() {
        let command = command();
        let fit = command.find_subcommand("fit").unwrap();
        let shown = fit.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_short_help_set());
        assert_eq!(shown.count(), 15);
    }
}
