//! How long one identification takes, and when they happen: the four steps by hand, with a clock around the third.

use std::collections::VecDeque;
use std::time::Instant;

use anabranch::central::{BatchId, Central};
use anabranch::engine::minibatch_rng;
use anabranch::identify::{Identification, correspond};
use anabranch::infer::{self, Workspace};
use anabranch::process::{Bound, Dirichlet};
use serde_json::{Value, json};

use super::super::contest::{Task, engine_config, minibatches};
use super::super::folder::Table;
use super::MANY;
use crate::failure::Failure;

/// One minibatch joining the posterior.
struct Timing {
    minibatch: usize,
    /// Share of the stream before it.
    at: f64,
    /// True when an assignment problem had to be solved.
    solved: bool,
    microseconds: f64,
    components: usize,
    matchings: usize,
}

/// The identifications of all trials.
#[derive(Default)]
pub(super) struct Timings {
    timings: Vec<Timing>,
}

impl Timings {
    /// One trial: minibatch `b` learns from the posterior after minibatch `b − 40`.
    pub(super) fn measure(&mut self, task: &Task, seed: u64) -> Result<(), Failure> {
        let process = Dirichlet::new(task.alpha, Bound::Paper).map_err(Failure::input)?;
        let central = Central::new(task.family.clone(), process);
        let settings = engine_config(task, Identification::Optimal, 0, seed).inference;
        let mut snapshots = VecDeque::from([central.snapshot()]);
        let mut workspace = Workspace::default();
        let batches = task.rows.n_rows().div_ceil(task.batch_size);
        let mut matchings = 0;
        for (b, batch) in minibatches(&task.rows, 0, task.batch_size).enumerate() {
            super::super::check_stop()?;
            if snapshots.len() > MANY {
                snapshots.pop_front();
            }
            let id = BatchId(b as u64);
            let start = &snapshots[0];
            let (increment, _) =
                infer::infer(start, &batch, &settings, &mut minibatch_rng(seed, id), &mut workspace);
            let current = central.snapshot();
            let clock = Instant::now();
            let found =
                correspond(&current, increment.base, increment.mass, &increment.new, Identification::Optimal);
            let microseconds = clock.elapsed().as_secs_f64() * 1e6;
            matchings += usize::from(found.solved);
            central
                .absorb(id, increment, Identification::Optimal)
                .expect("it was learned from this posterior");
            let after = central.snapshot();
            self.timings.push(Timing {
                minibatch: b,
                at: b as f64 / batches as f64,
                solved: found.solved,
                microseconds,
                components: after.components().len(),
                matchings,
            });
            snapshots.push_back(after);
        }
        Ok(())
    }

    /// Microseconds of those that solved a matching, or of all.
    pub(super) fn microseconds(&self, only_solved: bool) -> Vec<f64> {
        self.timings.iter().filter(|t| t.solved || !only_solved).map(|t| t.microseconds).collect()
    }

    /// Components and matchings against minibatches, a line for each trial.
    pub(super) fn growth(&self) -> Vec<Vec<(usize, usize, usize)>> {
        let mut lines: Vec<Vec<(usize, usize, usize)>> = Vec::new();
        for timing in &self.timings {
            if timing.minibatch == 0 {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push((timing.minibatch + 1, timing.components, timing.matchings));
            }
        }
        lines
    }

    /// Share of the matchings that fall into the first part of the stream.
    pub(super) fn share_before(&self, part: f64) -> f64 {
        let solved = self.timings.iter().filter(|t| t.solved).count();
        let early = self.timings.iter().filter(|t| t.solved && t.at < part).count();
        early as f64 / solved.max(1) as f64
    }

    pub(super) fn median_solved(&self) -> f64 {
        median(self.microseconds(true))
    }

    pub(super) fn summary(&self) -> Value {
        json!({
            "solved": self.microseconds(true).len(), "median_solved": self.median_solved(),
            "total_solved": self.microseconds(true).iter().sum::<f64>(),
            "all": self.timings.len(), "median_all": median(self.microseconds(false)),
            "share_of_matchings_in_first_4_percent": self.share_before(0.04),
        })
    }

    pub(super) fn table(&self) -> Table {
        let row = |t: &Timing| {
            vec![
                (t.minibatch + 1).to_string(),
                t.solved.to_string(),
                t.microseconds.to_string(),
                t.components.to_string(),
                t.matchings.to_string(),
            ]
        };
        Table {
            name: "identifications",
            caption: "Identifications".into(),
            header: vec!["minibatch", "solved", "microseconds", "components", "matchings"],
            rows: self.timings.iter().map(row).collect(),
            on_page: false,
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
