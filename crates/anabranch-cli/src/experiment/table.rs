//! The paper's table: time and held-out likelihood of all algorithms on one set of rows, over trials.

use std::path::Path;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::Config;
use anabranch::family::{AnyFamily, Gaussian};
use anabranch::infer::PriorChoice;
use anabranch::learner::run::Run;
use anabranch::process::{Bound, Dirichlet};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use super::contest::{self, Contestant, Task, Trial};
use super::folder::{Claim, Evidence, Table};
use super::say;
use super::spread::Spread;
use crate::args::ExperimentArgs;
use crate::failure::Failure;
use crate::reading;

/// Trials unless told: the rows are the same, their order and the seed are not.
const TRIALS: (u32, u32) = (3, 1);

/// Rows that an estimated prior is estimated from.
const PRIOR_ROWS: usize = 20_000;

/// Training and held-out rows.
pub(super) struct Data {
    pub(super) train: Batch,
    pub(super) test: Batch,
}

/// Where the rows of an experiment can be found.
pub(super) struct Whereabouts {
    pub(super) name: &'static str,
    /// What to install, and what to make of it.
    pub(super) hint: &'static str,
}

impl Whereabouts {
    /// The folder that was named, or where to get one.
    pub(super) fn folder<'a>(&self, args: &'a ExperimentArgs) -> Result<&'a Path, Failure> {
        args.data.as_deref().ok_or_else(|| {
            Failure::input(format!("experiment {} needs --data DIR", self.name))
                .with_hint(format!("{}; or try --quick, which generates its rows", self.hint))
        })
    }

    /// `train.npy` and `test.npy` of the folder.
    pub(super) fn load(&self, args: &ExperimentArgs) -> Result<Data, Failure> {
        let folder = self.folder(args)?;
        let of = |name: &str| {
            read(&folder.join(name)).map_err(|failure| match failure {
                Failure::Input { message, hint: None } => Failure::input(message).with_hint(self.hint),
                other => other,
            })
        };
        let (train, test) = (of("train.npy")?, of("test.npy")?);
        if train.dimensions() != test.dimensions() {
            return Err(Failure::input(format!(
                "--data {}: train.npy has {} columns, test.npy has {}",
                folder.display(),
                train.dimensions(),
                test.dimensions()
            )));
        }
        Ok(Data { train, test })
    }
}

/// All rows of a file.
pub(super) fn read(path: &Path) -> Result<Batch, Failure> {
    let options = reading::options(&Default::default())?;
    let mut source = reading::open_inputs(&[path.display().to_string()], &options)?;
    reading::read_all(source.as_mut())
}

/// The prior that the engine would estimate from the first rows, for every algorithm alike.
pub(super) fn estimated_family(rows: &Batch, alpha: f64, seed: u64) -> Result<AnyFamily, Failure> {
    let first = rows.head(PRIOR_ROWS);
    let family = AnyFamily::Gaussian(Gaussian::from_rows(&first)?);
    let process = Dirichlet::new(alpha, Bound::Paper).map_err(Failure::input)?;
    let config =
        Config { seed, prior: PriorChoice::Estimated, bootstrap_rows: PRIOR_ROWS, ..Config::default() };
    let run = Run::new(Central::new(family, process), config);
    let Ok(_) = run.begin(&mut std::iter::once(first).enumerate(), &mut ());
    Ok(run.centre().snapshot().family().clone())
}

/// The runs of every contestant.
pub(super) struct Contest {
    pub(super) trials: Vec<Trial>,
    rounds: u32,
}

impl Contest {
    /// Every contestant on every shuffle of the rows.
    pub(super) fn hold(args: &ExperimentArgs, task: &Task, bootstrap: usize) -> Result<Self, Failure> {
        let rounds = args.trials.unwrap_or(if args.quick { TRIALS.1 } else { TRIALS.0 });
        let mut trials = Vec::new();
        for round in 0..rounds {
            let seed = args.seed.wrapping_add(u64::from(round));
            let task = Task { rows: shuffled(&task.rows, seed), ..task.clone() };
            for contestant in Contestant::all(bootstrap) {
                let trial = contest::run(contestant, &task, seed)?;
                say(
                    args,
                    format_args!(
                        "{} ({} of {rounds}): {:.2} CPU s, {:.4}, {} components",
                        trial.algorithm,
                        round + 1,
                        trial.cpu_seconds,
                        trial.likelihood,
                        trial.components
                    ),
                );
                trials.push(trial);
            }
        }
        Ok(Self { trials, rounds })
    }

    /// The first run of the engine as in the paper.
    pub(super) fn first(&self, algorithm: &str) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.algorithm == algorithm)
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for trial in &self.trials {
            if !names.contains(&trial.algorithm) {
                names.push(trial.algorithm);
            }
        }
        names
    }

    fn of(&self, name: &str, value: fn(&Trial) -> f64) -> Spread {
        Spread::of(self.trials.iter().filter(|trial| trial.algorithm == name).map(value))
    }

    /// The page of an experiment with nothing but the table; pictures are added by their experiments.
    pub(super) fn evidence(&self, name: &'static str, title: &str, lead: String) -> Evidence {
        let row = |name: &'static str| {
            vec![
                name.to_owned(),
                self.of(name, |t| t.cpu_seconds).text(2),
                self.of(name, |t| t.seconds).text(2),
                self.of(name, |t| t.likelihood).text(3),
                self.of(name, |t| t.components as f64).text(0),
            ]
        };
        let table = Table {
            name: "table",
            caption: "Time and held-out likelihood".into(),
            header: vec!["algorithm", "CPU seconds", "seconds", "held-out log-likelihood", "components"],
            rows: self.names().into_iter().map(row).collect(),
            on_page: true,
        };
        let results = self.names().into_iter().map(|name| {
            json!({
                "algorithm": name,
                "cpu_seconds": self.of(name, |t| t.cpu_seconds),
                "seconds": self.of(name, |t| t.seconds),
                "test_log_likelihood": self.of(name, |t| t.likelihood),
                "components": self.of(name, |t| t.components as f64),
            })
        });
        Evidence {
            title: title.to_owned(),
            lead: format!("{lead} {} trials, each with its own order of the rows.", self.rounds),
            claims: self.claims(),
            tables: vec![table],
            figures: Vec::new(),
            images: Vec::new(),
            results: json!({"experiment": name, "trials": self.rounds, "table": results.collect::<Vec<Value>>()}),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let others: Vec<&'static str> =
            self.names().into_iter().filter(|name| !name.starts_with("sda")).collect();
        let of_others = |value: fn(&Trial) -> f64| others.iter().map(move |name| self.of(name, value).mean);
        let time = self.of("sda", |t| t.cpu_seconds).mean;
        let quality = self.of("sda", |t| t.likelihood).mean;
        let fastest = of_others(|t| t.cpu_seconds).fold(f64::INFINITY, f64::min);
        let best = of_others(|t| t.likelihood).fold(f64::NEG_INFINITY, f64::max);
        vec![
            Claim {
                text: "SDA takes orders of magnitude less time than the others".into(),
                measured: format!("{time:.2} CPU s, the fastest other {fastest:.2} CPU s"),
                holds: time < 0.1 * fastest,
            },
            Claim {
                text: "SDA's likelihood is competitive".into(),
                measured: format!("{quality:.3}, the best other {best:.3}"),
                holds: quality > best - 0.02 * best.abs(),
            },
        ]
    }
}

fn shuffled(rows: &Batch, seed: u64) -> Batch {
    let mut order: Vec<usize> = (0..rows.n_rows()).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5F1E));
    let values = order.iter().flat_map(|row| rows.row(*row)).copied().collect();
    Batch::new(rows.dimensions(), values).expect("the same rows are a batch again")
}
