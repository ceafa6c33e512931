//! Workers, identification and rivals on the paper's synthetic stream (Figure 3).
//!
//! 100,000 rows in the plane from 100 clusters, the true prior, α = 5, minibatches of 50, at most 50 new components for
//! each, truncation 200 for the others. Every trial draws its own clusters and rows.

mod figures;
mod identification;

use anabranch::identify::Identification;
use serde_json::{Value, json};

use super::contest::{self, Contestant, Task, Trial};
use super::folder::{Claim, Evidence, Table};
use super::spread::Spread;
use super::{say, threads};
use crate::args::ExperimentArgs;
use crate::demo::{Mixture, true_family};
use crate::failure::Failure;
use identification::Timings;

/// Trials of the paper, and of a quick run.
const TRIALS: (u32, u32) = (30, 2);

/// Workers whose growth and identifications are shown.
pub(super) const MANY: usize = 40;

/// The size of the experiment.
struct Plan {
    rows: usize,
    clusters: usize,
    test_rows: usize,
    truncation: usize,
    /// Rows of the first minibatch where it is fitted alone.
    bootstrap: usize,
    workers: Vec<usize>,
    effort: f64,
}

impl Plan {
    fn new(quick: bool) -> Self {
        if quick {
            Self {
                rows: 5000,
                clusters: 20,
                test_rows: 2000,
                truncation: 50,
                bootstrap: 1000,
                workers: vec![1, 4, 16, MANY],
                effort: 0.4,
            }
        } else {
            Self {
                rows: 100_000,
                clusters: 100,
                test_rows: 10_000,
                truncation: 200,
                bootstrap: 20_000,
                workers: vec![1, 2, 4, 8, 16, 24, 32, MANY],
                effort: 1.0,
            }
        }
    }
}

/// A run of the engine with so many workers.
struct Scaled {
    identification: Identification,
    workers: usize,
    trial: Trial,
    /// Log density of the held-out rows under the mixture that made them.
    truth: f64,
}

/// A run of one algorithm.
struct Raced {
    trial: Trial,
    truth: f64,
}

/// Everything that was measured.
struct Measured {
    plan: Plan,
    trials: u32,
    scaled: Vec<Scaled>,
    raced: Vec<Raced>,
    timings: Timings,
}

pub(super) fn run(args: &ExperimentArgs) -> Result<Evidence, Failure> {
    let plan = Plan::new(args.quick);
    let trials = args.trials.unwrap_or(if args.quick { TRIALS.1 } else { TRIALS.0 });
    let mut measured =
        Measured { plan, trials, scaled: Vec::new(), raced: Vec::new(), timings: Timings::default() };
    for trial in 0..trials {
        let seed = args.seed.wrapping_add(1000 * u64::from(trial));
        one_trial(args, seed, &mut measured)?;
        say(args, format_args!("trial {} of {trials} is done", trial + 1));
    }
    Ok(evidence(&measured))
}

fn one_trial(args: &ExperimentArgs, seed: u64, measured: &mut Measured) -> Result<(), Failure> {
    let plan = &measured.plan;
    let mixture = Mixture::draw(plan.clusters, seed);
    let (rows, _) = mixture.rows(plan.rows, seed ^ 0x0DA7A);
    let (test, _) = mixture.rows(plan.test_rows, seed ^ 0x7E57);
    let truth = test.rows().map(|row| mixture.ln_density(row)).sum::<f64>() / plan.test_rows as f64;
    let task = Task {
        family: true_family(&rows)?,
        rows,
        test,
        alpha: 5.0,
        batch_size: 50,
        max_new: 50,
        truncation: plan.truncation,
        workers: MANY,
        threads: threads(args),
        effort: plan.effort,
    };
    for workers in &plan.workers {
        for identification in [Identification::Optimal, Identification::ByPosition] {
            let task = Task { workers: *workers, ..task.clone() };
            let trial = contest::run(Contestant::Sda(identification), &task, seed)?;
            measured.scaled.push(Scaled { identification, workers: *workers, trial, truth });
        }
    }
    for contestant in Contestant::all(plan.bootstrap) {
        let trial = contest::run(contestant, &task, seed)?;
        say(
            args,
            format_args!(
                "  {}: {:.2} CPU s, {:+.4}",
                trial.algorithm,
                trial.cpu_seconds,
                trial.likelihood - truth
            ),
        );
        measured.raced.push(Raced { trial, truth });
    }
    measured.timings.measure(&task, seed)
}

impl Measured {
    /// A figure of the runs with so many workers, over trials.
    fn scaled(
        &self,
        identification: Identification,
        workers: usize,
        value: impl Fn(&Scaled) -> f64,
    ) -> Spread {
        let runs = self.scaled.iter().filter(|s| s.identification == identification && s.workers == workers);
        Spread::of(runs.map(value))
    }

    /// A figure of one algorithm, over trials.
    fn raced(&self, algorithm: &str, value: impl Fn(&Raced) -> f64) -> Spread {
        Spread::of(self.raced.iter().filter(|r| r.trial.algorithm == algorithm).map(value))
    }

    fn algorithms(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for raced in &self.raced {
            if !names.contains(&raced.trial.algorithm) {
                names.push(raced.trial.algorithm);
            }
        }
        names
    }
}

fn below_truth(scaled: &Scaled) -> f64 {
    scaled.trial.likelihood - scaled.truth
}

fn evidence(measured: &Measured) -> Evidence {
    let plan = &measured.plan;
    Evidence {
        title: "The synthetic stream".into(),
        lead: format!(
            "{} rows in the plane from {} clusters, {} held out, α = 5, minibatches of 50, {} trials. Times are processor \
             seconds of all threads; likelihoods are differences to the mixture that made the rows. Workers are logical: \
             W minibatches are in flight, and those of a round of W/2 read the posterior after the round before last.",
            plan.rows, plan.clusters, plan.test_rows, measured.trials
        ),
        claims: claims(measured),
        tables: tables(measured),
        figures: figures::all(measured),
        images: Vec::new(),
        results: results(measured),
    }
}

fn claims(measured: &Measured) -> Vec<Claim> {
    let (on, off) = (Identification::Optimal, Identification::ByPosition);
    let quality = |identification, workers| measured.scaled(identification, workers, below_truth);
    let (alone, many) = (quality(on, 1), quality(on, MANY));
    let ignored = quality(off, MANY);
    let sda = measured.raced("sda", |r| r.trial.likelihood - r.truth);
    let sda_time = measured.raced("sda", |r| r.trial.cpu_seconds).mean;
    let rivals: Vec<(&str, f64, f64)> = measured
        .algorithms()
        .into_iter()
        .filter(|name| !name.starts_with("sda"))
        .map(|name| {
            let time = measured.raced(name, |r| r.trial.cpu_seconds).mean;
            (name, time, measured.raced(name, |r| r.trial.likelihood - r.truth).mean)
        })
        .collect();
    let fastest = rivals.iter().map(|(_, time, _)| *time).fold(f64::INFINITY, f64::min);
    let best = rivals.iter().map(|(_, _, quality)| *quality).fold(f64::NEG_INFINITY, f64::max);
    let early = measured.timings.share_before(0.04);
    vec![
        Claim {
            text: "ignoring component identification lowers the quality as workers are added".into(),
            measured: format!("{MANY} workers: {} without it, {} with it", ignored.text(3), many.text(3)),
            holds: ignored.mean < many.mean - 0.05,
        },
        Claim {
            text: "with identification the number of workers does not change the quality".into(),
            measured: format!("1 worker {}, {MANY} workers {}", alone.text(3), many.text(3)),
            holds: (alone.mean - many.mean).abs() < 0.05,
        },
        Claim {
            text: "SDA needs far less time than the others".into(),
            measured: format!("{sda_time:.2} CPU s, the fastest other {fastest:.2} CPU s"),
            holds: sda_time < 0.5 * fastest,
        },
        Claim {
            text: "SDA reaches the likelihood of the others".into(),
            measured: format!("{} against {best:.3} of the best other", sda.text(3)),
            holds: sda.mean > best - 0.02,
        },
        Claim {
            text: "an identification takes about 10 microseconds".into(),
            measured: format!(
                "median {:.0} µs of those that solve a matching",
                measured.timings.median_solved()
            ),
            holds: measured.timings.median_solved() < 100.0,
        },
        Claim {
            text: "most matchings are solved in the first 4 % of the minibatches".into(),
            measured: format!("{:.0} % of them", 100.0 * early),
            holds: early > 0.5,
        },
    ]
}

fn tables(measured: &Measured) -> Vec<Table> {
    let race = measured.algorithms().into_iter().map(|name| {
        vec![
            name.to_owned(),
            measured.raced(name, |r| r.trial.cpu_seconds).text(2),
            measured.raced(name, |r| r.trial.seconds).text(2),
            measured.raced(name, |r| r.trial.likelihood - r.truth).text(4),
            measured.raced(name, |r| r.trial.components as f64).text(0),
        ]
    });
    let scaling = measured.scaled.iter().map(|s| {
        let identify = if s.identification == Identification::Optimal { "on" } else { "off" };
        let t = &s.trial;
        [identify.to_owned(), s.workers.to_string(), t.seconds.to_string(), t.cpu_seconds.to_string()]
            .into_iter()
            .chain([below_truth(s).to_string(), t.components.to_string(), t.matchings.to_string()])
            .collect()
    });
    let traces = measured.raced.iter().enumerate().flat_map(|(run, r)| {
        r.trial.moments.iter().map(move |m| {
            vec![
                run.to_string(),
                r.trial.algorithm.to_owned(),
                m.cpu_seconds.to_string(),
                m.step.to_string(),
                m.components.to_string(),
                m.matchings.to_string(),
                (m.likelihood - r.truth).to_string(),
            ]
        })
    });
    vec![
        Table {
            name: "race",
            caption: "Time and held-out likelihood of all algorithms".into(),
            header: vec!["algorithm", "CPU seconds", "seconds", "likelihood minus truth", "components"],
            rows: race.collect(),
            on_page: true,
        },
        Table {
            name: "workers",
            caption: "Workers".into(),
            header: vec![
                "identify",
                "workers",
                "seconds",
                "cpu_seconds",
                "likelihood_minus_truth",
                "components",
                "matchings",
            ],
            rows: scaling.collect(),
            on_page: false,
        },
        Table {
            name: "traces",
            caption: "Traces".into(),
            header: vec![
                "run",
                "algorithm",
                "cpu_seconds",
                "step",
                "components",
                "matchings",
                "likelihood_minus_truth",
            ],
            rows: traces.collect(),
            on_page: false,
        },
        measured.timings.table(),
    ]
}

fn results(measured: &Measured) -> Value {
    let race: Vec<Value> = measured
        .algorithms()
        .into_iter()
        .map(|name| {
            json!({
                "algorithm": name,
                "cpu_seconds": measured.raced(name, |r| r.trial.cpu_seconds),
                "seconds": measured.raced(name, |r| r.trial.seconds),
                "likelihood_minus_truth": measured.raced(name, |r| r.trial.likelihood - r.truth),
                "components": measured.raced(name, |r| r.trial.components as f64),
            })
        })
        .collect();
    let workers: Vec<Value> = [Identification::Optimal, Identification::ByPosition]
        .into_iter()
        .flat_map(|identification| {
            measured.plan.workers.iter().map(move |workers| (identification, *workers))
        })
        .map(|(identification, workers)| {
            let of = |value: &dyn Fn(&Scaled) -> f64| measured.scaled(identification, workers, value);
            json!({
                "identify": identification == Identification::Optimal,
                "workers": workers,
                "cpu_seconds": of(&|s| s.trial.cpu_seconds),
                "seconds": of(&|s| s.trial.seconds),
                "likelihood_minus_truth": of(&below_truth),
                "components": of(&|s| s.trial.components as f64),
                "matchings": of(&|s| s.trial.matchings as f64),
            })
        })
        .collect();
    json!({
        "experiment": "synthetic", "rows": measured.plan.rows, "clusters": measured.plan.clusters,
        "trials": measured.trials, "race": race, "workers": workers,
        "identification_microseconds": measured.timings.summary(),
    })
}
