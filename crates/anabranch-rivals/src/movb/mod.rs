//! Memoized online variational inference (Hughes and Sudderth 2013): minibatches, an exact bound, no learning rate.
//!
//! ```text
//! S = Σ_b S_b        visit b:   S ← S − S_b (old) + S_b (new)
//! ```
//!
//! The sums `S_b` of every minibatch are kept, `K` statistics for each, so that the sums of all rows, and with them the
//! evidence lower bound, are exact after every visit, and no visit lowers the bound. Between laps over the minibatches the
//! number of components changes:
//!
//! - *merge* (`merge.rs`): the entropy of chosen pairs is tracked during a lap, so the change of the bound is exact;
//! - *delete* (`delete.rs`): the rows of a small component are given to the others, accepted if the bound rises;
//! - *birth* (`birth.rs`): rows of a component are collected during a lap and clustered on their own; the components found
//!   join for one lap, and stay if the exact bound after it is higher than before.
//!
//! So the bound at the end of a lap never falls. Visits follow each other, each with what the last one taught; threads share
//! the first lap and the deletes.

mod birth;
mod delete;
mod merge;

use std::ops::Range;

use anabranch::batch::Batch;
use anabranch::engine::Flow;
use anabranch::family::Family;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::mixture::{Mixture, base_measure};
use crate::publish::Run;
use crate::svi::shuffled;
use crate::sweep::{Parameters, assign, in_parallel};
use crate::totals::Totals;
use crate::{Config, FitError, Fitted, seed};
use birth::Targets;
use merge::Pairs;

/// The components at the start, as a share of the truncation: births do the rest.
const START_SHARE: usize = 4;

/// Below this a component's sums are the rounding of subtractions.
const NOTHING: f64 = 1e-9;

/// Runs all laps, until a lap changes nothing, or until the observer asks to stop.
pub(crate) fn run<F: Family>(
    rows: &Batch,
    config: &Config,
    laps: usize,
    mut run: Run<'_, F>,
) -> Result<Fitted<F>, FitError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(config.seed);
    let rows = &shuffled(rows, &mut rng);
    let base = base_measure(run.family, rows);
    let enough = config.tolerance * rows.n_rows() as f64;
    let mut memo = Memoized::start(run.family, rows, run.process.alpha(), config, &mut rng);
    let mut objective = vec![memo.mixture.objective() + base];
    let mut flow = run.step(rows.n_rows(), &memo.mixture.state(rows.n_rows()))?;
    let mut newborn: Option<Birth<'_, F>> = None;
    for lap in 1..laps {
        if flow == Flow::Stop {
            break;
        }
        if newborn.is_none() {
            memo.order();
        }
        let mut watched = match newborn {
            // Components that have just joined are left alone: they have not met their rows yet.
            Some(_) => Watched::default(),
            None => Watched {
                pairs: Pairs::choose(&memo.mixture),
                targets: Targets::choose(&memo.mixture, config.truncation, &mut rng),
            },
        };
        flow = memo.lap(&mut watched, newborn.as_ref().map(|birth| &birth.extra), &mut run, &mut rng)?;
        memo.refresh();
        let mut changed = false;
        if let Some(birth) = newborn.take() {
            if memo.mixture.objective() < birth.before.mixture.objective() {
                memo = birth.before;
            } else {
                changed = true;
            }
        }
        if flow == Flow::Continue {
            changed |= memo.merge(&watched.pairs) > 0;
            changed |= memo.delete(config.threads) > 0;
            let room = config.truncation.saturating_sub(memo.mixture.k());
            // The last lap has nobody to meet those who are born after it.
            let born = if lap + 1 < laps {
                watched.targets.births(&memo.mixture, rows, room, &mut rng)
            } else {
                None
            };
            if let Some(extra) = born {
                changed = true;
                newborn = Some(memo.join(extra));
            }
        }
        // A lap with components on trial ends where it began, so that the bounds are those of accepted states.
        let bound = match &newborn {
            Some(birth) => birth.before.mixture.objective() + base,
            None => memo.mixture.objective() + base,
        };
        let gain = objective.last().map_or(f64::INFINITY, |last| bound - last);
        objective.push(bound);
        if !changed && gain <= enough {
            break;
        }
    }
    if let Some(birth) = newborn {
        memo = birth.before;
    }
    run.finish(&memo.mixture.state(rows.n_rows()), objective)
}

/// Components on trial: what their lap starts with, and the state to go back to.
struct Birth<'a, F> {
    before: Memoized<'a, F>,
    /// Sums that stand in for the rows that the new components have not met yet.
    extra: Totals,
}

/// What is looked at while the minibatches pass by.
#[derive(Default)]
struct Watched {
    pairs: Pairs,
    targets: Targets,
}

/// The mixture of all rows, and what each minibatch adds to it.
#[derive(Clone)]
struct Memoized<'a, F> {
    rows: &'a Batch,
    ranges: Vec<Range<usize>>,
    memo: Vec<Totals>,
    mixture: Mixture<'a, F>,
}

impl<'a, F: Family> Memoized<'a, F> {
    /// The first lap: every minibatch under the parameters of the seeds.
    fn start(
        family: &'a F,
        rows: &'a Batch,
        alpha: f64,
        config: &Config,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let n = rows.n_rows();
        let starts = (0..n).step_by(config.batch_size);
        let ranges: Vec<Range<usize>> =
            starts.map(|first| first..(first + config.batch_size).min(n)).collect();
        let k = config.truncation.div_ceil(START_SHARE);
        let mut mixture = Mixture::new(family, alpha, seed::start(family, rows, k, rng));
        mixture.order();
        let parameters = mixture.parameters();
        let memo = in_parallel(ranges.len(), config.threads, |b| {
            assign(family, rows, ranges[b].clone(), &parameters, &mut |_, _| {})
        });
        let mut memoized = Self { rows, ranges, memo, mixture };
        memoized.refresh();
        memoized
    }

    /// Sums the minibatches anew: the rounding of a lap's subtractions is gone.
    fn refresh(&mut self) {
        let mut totals = Totals::empty(self.mixture.k(), self.mixture.family.n_features());
        self.memo.iter().for_each(|part| totals.add(part));
        self.mixture.totals = totals;
    }

    /// Visits every minibatch once, in random order.
    fn lap(
        &mut self,
        watched: &mut Watched,
        extra: Option<&Totals>,
        run: &mut Run<'_, F>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Flow, FitError> {
        let mut order: Vec<usize> = (0..self.memo.len()).collect();
        order.shuffle(rng);
        watched.pairs.begin(self.memo.len());
        if let Some(extra) = extra {
            self.mixture.totals.add(extra);
        }
        for b in order {
            self.visit(b, &self.mixture.parameters(), watched);
            if run.tick(self.ranges[b].len()) {
                let mut shown = self.mixture.clone();
                shown.totals = Totals::empty(shown.k(), shown.family.n_features());
                self.memo.iter().for_each(|part| shown.totals.add(part));
                if run.show(&shown.state(self.rows.n_rows()))? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// The E-step of one minibatch, and its new part of the sums in place of the old one.
    fn visit(&mut self, b: usize, parameters: &Parameters, watched: &mut Watched) {
        let k = self.mixture.k();
        let (pairs, targets) = (&mut watched.pairs, &mut watched.targets);
        let sums =
            assign(self.mixture.family, self.rows, self.ranges[b].clone(), parameters, &mut |first, r| {
                pairs.track(b, r, k);
                targets.collect(first, r, k);
            });
        replace(&mut self.mixture.totals, &self.memo[b], &sums);
        self.memo[b] = sums;
    }

    /// Puts the components into the order that suits the sticks.
    fn order(&mut self) {
        if let Some(order) = self.mixture.order() {
            self.memo.iter_mut().for_each(|part| *part = part.select(&order));
        }
    }

    /// Keeps these components.
    fn select(&mut self, kept: &[usize]) {
        self.mixture.select(kept);
        self.memo.iter_mut().for_each(|part| *part = part.select(kept));
    }

    /// Adds components without rows; the state before comes back with the sums that they start from.
    fn join(&mut self, born: Totals) -> Birth<'a, F> {
        let before = self.clone();
        let (k, f) = (self.mixture.k(), self.mixture.family.n_features());
        let mut extra = Totals::empty(k, f);
        extra.stats.extend_from_slice(&born.stats);
        extra.labels.extend_from_slice(&born.labels);
        for part in self.memo.iter_mut().chain([&mut self.mixture.totals]) {
            part.stats.resize((k + born.k()) * f, 0.0);
            part.labels.resize(k + born.k(), Default::default());
        }
        for _ in 0..born.k() {
            self.mixture.ids.push(self.mixture.next_id);
            self.mixture.next_id += 1;
        }
        Birth { before, extra }
    }
}

/// `totals − old + new` for what the bound needs. The statistic `s` may be −∞ and is summed anew instead.
fn replace(totals: &mut Totals, old: &Totals, new: &Totals) {
    for ((total, old), new) in totals.stats.iter_mut().zip(&old.stats).zip(&new.stats) {
        *total += new - old;
    }
    let f = totals.n_features();
    for (ix, (old, new)) in old.labels.iter().zip(&new.labels).enumerate() {
        let labels = &mut totals.labels[ix];
        labels.expected_count += new.expected_count - old.expected_count;
        labels.label_entropy += new.label_entropy - old.label_entropy;
        if labels.expected_count < NOTHING {
            *labels = Default::default();
            totals.stats[ix * f..(ix + 1) * f].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::family::{Conjugate, Gaussian};
    use anabranch_testkit::streams::{Columns, stream};

    use super::*;

    /// Rounding of sums of a few thousand terms of the size of the bound.
    const ROUNDING: f64 = 1e-9;

    fn rows() -> Batch {
        Batch::new(2, stream(Columns::Reals, 8, 900, 6, 2)).unwrap()
    }

    fn start<'a>(family: &'a Gaussian, rows: &'a Batch) -> Memoized<'a, Gaussian> {
        let config = Config { truncation: 32, batch_size: 70, ..Config::default() };
        Memoized::start(family, rows, 1.5, &config, &mut Xoshiro256PlusPlus::seed_from_u64(3))
    }

    #[test]
    fn no_visit_lowers_the_bound_of_all_rows() {
        let rows = rows();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut memo = start(&family, &rows);
        let mut last = memo.mixture.objective();
        for visit in 0..60 {
            memo.visit(visit % memo.memo.len(), &memo.mixture.parameters(), &mut Watched::default());
            let bound = memo.mixture.objective();
            assert!(bound >= last - ROUNDING * last.abs(), "visit {visit}: {last} → {bound}");
            last = bound;
        }
    }

    #[test]
    fn the_sums_are_those_of_the_minibatches_and_memory_is_k_statistics_for_each() {
        let rows = rows();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut memo = start(&family, &rows);
        for b in 0..memo.memo.len() {
            memo.visit(b, &memo.mixture.parameters(), &mut Watched::default());
        }
        let kept = memo.mixture.totals.clone();
        memo.refresh();
        for (kept, summed) in kept.stats.iter().zip(&memo.mixture.totals.stats) {
            assert!((kept - summed).abs() < 1e-8 * (1.0 + summed.abs()));
        }
        let mass: f64 = memo.mixture.totals.counts().iter().sum();
        assert!((mass - 900.0).abs() < 1e-8);
        assert!(memo.memo.iter().all(|part| part.stats.len() == memo.mixture.k() * family.n_features()));
    }

    /// The bound that was said to follow from a merge is the bound after it.
    #[test]
    fn a_merge_changes_the_bound_by_what_was_promised() {
        let rows = rows();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut memo = start(&family, &rows);
        let mut watched = Watched { pairs: Pairs::choose(&memo.mixture), targets: Targets::default() };
        let mut quiet = ();
        let process = anabranch::process::Dirichlet::new(1.5, anabranch::process::Bound::Paper).unwrap();
        let mut run = Run::new(&family, process, &mut quiet);
        memo.lap(&mut watched, None, &mut run, &mut Xoshiro256PlusPlus::seed_from_u64(1)).unwrap();
        memo.refresh();
        let before = memo.mixture.objective();
        let merged = memo.merge(&watched.pairs);
        assert!(merged > 0, "seeds of one cluster merge");
        assert!(memo.mixture.objective() > before);
        let after = memo.mixture.objective();
        memo.refresh();
        assert!((memo.mixture.objective() - after).abs() < ROUNDING * after.abs());
    }
}
