//! When the model is looked after: whenever the data have doubled (prior, merges, the process's parameters), and at the end
//! (the same, splits, and the first rows again).
//!
//! Whoever brings the minibatch that crosses the line does it, in its own turn, so that a deterministic run stays one;
//! the others go on meanwhile. Every change is a journal entry like any other.

use std::sync::Mutex;

use super::{Config, Flow, Schedule, limit, minibatch_rng};
use crate::batch::Minibatch;
use crate::central::{BatchId, Central, Entry, Fold, ROUNDING};
use crate::family::Conjugate;
use crate::identify::ComponentId;
use crate::infer::upkeep::Merges;
use crate::infer::{Inference, Look, PriorChoice};
use crate::parallel;
use crate::posterior::{Evidence, Posterior};
use crate::process::Process;

/// The first line, in weight of data; the next ones are at twice, four times … of it.
const FIRST_LINE: f64 = 1000.0;

/// While the stream goes on, a merge must still be right when the data have doubled again.
const HORIZON: f64 = 2.0;

/// Half-lives between two lines, once the data do not grow any more.
const HALVINGS: f64 = 4.0;

/// The first rows are looked at again if they still count more than this.
const LEAST_FIRST: f64 = 0.5;

/// How often rows look again, at most: everywhere, and after each of those looks where possible.
#[derive(Clone, Copy)]
struct Looks {
    everywhere: usize,
    where_possible: usize,
}

/// Before splits are judged on them, and in a round of polishing.
const SETTLING: Looks = Looks { everywhere: 10, where_possible: 2 };
const POLISHING: Looks = Looks { everywhere: 2, where_possible: 15 };
const NO_LOOKS: Looks = Looks { everywhere: 0, where_possible: 0 };

/// Rounds of polishing at most, and what one must gain for each row for another one to follow before splits are judged.
const POLISHING_ROUNDS: usize = 20;
const ROUND_GAIN: f64 = 3e-3;

/// One at a time.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    busy: Mutex<()>,
}

impl Upkeep {
    /// Looks after the model if its data have crossed a line at which nobody has. Whoever crosses one while another is at
    /// work leaves it to him.
    pub(super) fn after<F: Conjugate, P: Process, I: Inference<F, P>>(
        &self,
        central: &Central<F, P, I::Batch>,
        config: &Config<I>,
    ) {
        while let Some(lines) = due(central, config)
            && let Ok(_turn) = self.busy.try_lock()
        {
            // He may have been at it when we looked.
            if due(central, config) == Some(lines) {
                // Where minibatches join in order, the others soon have nothing to do.
                let threads = if config.schedule == Schedule::Free { 1 } else { config.threads };
                central.tend_at(lines, || parallel::on(threads, || tend(central, config)));
            }
        }
    }

    /// Merges the closest components while there are too many.
    pub(super) fn limit<F: Conjugate, P: Process, I: Inference<F, P>>(
        &self,
        central: &Central<F, P, I::Batch>,
        config: &Config<I>,
    ) {
        if config.max_components.is_some_and(|most| central.snapshot().components().len() > most) {
            // Whoever panicked while he looked after the model left it whole.
            let _turn = self.busy.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            limit::keep_within(central, config);
        }
    }
}

/// The line at which the model is to be looked after now, if there is one.
fn due<F: Conjugate, P: Process, I: Inference<F, P>>(
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
) -> Option<u32> {
    let snapshot = central.snapshot();
    let lines = growth(&snapshot);
    // A further pass does not grow the data; the model is looked after at its end.
    let growing = snapshot.pass() == 0 && config.upkeep;
    let tended = || central.remembered(|memory| memory.tended());
    (growing && tended().is_none_or(|tended| lines > tended)).then_some(lines)
}

/// Starts to count lines where nobody has: what is there now has been looked after.
pub(super) fn count_lines<F: Conjugate, P: Process, B: Minibatch>(central: &Central<F, P, B>) {
    let lines = growth(&central.snapshot());
    central.remembered(|memory| memory.set_tended(memory.tended().unwrap_or(lines)));
}

/// Lines of its growth that a posterior has crossed: at every doubling of the data, and whenever little is left of the past.
pub fn growth<F: Conjugate, P: Process>(posterior: &Posterior<F, P>) -> u32 {
    lines(posterior.rows()).saturating_add((posterior.past().halvings / HALVINGS) as u32)
}

/// Lines that data of this weight have crossed.
fn lines(mass: f64) -> u32 {
    if mass >= FIRST_LINE { (mass / FIRST_LINE).log2().floor() as u32 + 1 } else { 0 }
}

/// True when the last `added` of `mass` in all crossed a line at which the model is looked after.
///
/// ```
/// use anabranch::engine::is_due;
/// assert!(is_due(1000.0, 1.0) && is_due(2100.0, 200.0));
/// assert!(!is_due(999.0, 500.0) && !is_due(1999.0, 500.0));
/// ```
pub fn is_due(mass: f64, added: f64) -> bool {
    lines(mass) != lines(mass - added)
}

/// How far the polishing of the first rows is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Polishing {
    /// Rounds so far.
    pub round: usize,
    /// Components now.
    pub components: usize,
    /// The evidence lower bound for each row, up to terms of the rows alone.
    pub objective: f64,
}

/// Looks after the model while the stream goes on: the prior again, merges that stay right when the data have doubled, and
/// the parameters of the process that are learned. Without upkeep there is nothing to do.
pub fn tend<F: Conjugate, P: Process, I: Inference<F, P>>(
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
) {
    if !config.upkeep {
        return;
    }
    estimate_prior(&central.snapshot(), central, config);
    merge(&central.snapshot(), central, config, HORIZON);
    learn_process(central);
}

/// Ends a run whose stream has ended, on all threads of the run: the first rows again, the prior again, and every split and
/// merge that the data support. Without upkeep there is nothing to do.
pub fn finish<F: Conjugate, P: Process, I: Inference<F, P>>(
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
) {
    finish_while(central, config, &|_| Flow::Continue);
}

/// The same, for somebody who looks on: polishing stops after a round when `going_on` says so.
pub fn finish_while<F: Conjugate, P: Process, I: Inference<F, P>>(
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
    going_on: &(dyn Fn(Polishing) -> Flow + Sync),
) {
    if !config.upkeep {
        return;
    }
    parallel::on(config.threads, || {
        let told = central.snapshot();
        // Components were made from the first rows, and fit each of them a little too well even without what it taught.
        let later = central.remembered(|memory| memory.sampled_later());
        estimate_prior(&told, central, config);
        if !replace_first(central, config, going_on) {
            merge(&central.snapshot(), central, config, 1.0);
        }
        limit::keep_within(central, config);
        estimate_prior(&central.snapshot(), central, config);
        learn_process(central);
        tell_again(&told, later, central, config);
    });
}

/// Rows told how probable they are by the posterior before the end; the one after it is better.
fn tell_again<F: Conjugate, P: Process, I: Inference<F, P>>(
    told: &Posterior<F, P>,
    rows: Option<I::Batch>,
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
) {
    if let Some(tail) = rows.and_then(|rows| config.inference.ordinary(told, &central.snapshot(), &rows)) {
        central.append(&Entry::Ordinary(tail)).expect("densities of rows are possible");
    }
}

/// Estimates the parameters of the process that are to be learned from the components as they are.
pub(super) fn learn_process<F: Conjugate, P: Process, B: Minibatch>(central: &Central<F, P, B>) {
    let snapshot = central.snapshot();
    let labels = snapshot.components().iter().map(|component| &component.evidence().labels);
    if let Some(process) = snapshot.process().learned(labels, snapshot.population().observations) {
        let family = snapshot.family().clone();
        central.append(&Entry::Prior { family, process }).expect("a prior is never void");
    }
}

/// Estimates the prior from the components of this posterior.
fn estimate_prior<F: Conjugate, P: Process, I: Inference<F, P>>(
    posterior: &Posterior<F, P>,
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
) {
    if config.prior == PriorChoice::Given {
        return;
    }
    if let Some((family, process)) = config.inference.refit(posterior) {
        central.append(&Entry::Prior { family, process }).expect("a prior is never void");
    }
}

/// Makes the merges that are right in this posterior.
fn merge<F: Conjugate, P: Process, I: Inference<F, P>>(
    posterior: &Posterior<F, P>,
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
    horizon: f64,
) {
    let (sample, later) = central.remembered(|memory| (memory.sampled_rows(), memory.later_rows()));
    let Some(sample) = sample else { return };
    let Merges { family, pairs, between } =
        config.inference.merges(posterior, &sample, later.as_deref(), config.prior, horizon);
    if horizon == 1.0 {
        central.remembered(|memory| memory.doubt(between));
    }
    if let Some(family) = family {
        let process = central.snapshot().process().clone();
        central.append(&Entry::Prior { family, process }).expect("a prior is never void");
    }
    for (id, into) in pairs {
        let now = central.snapshot();
        // Somebody else may have ended one of the two in the meantime: then the merge was not judged.
        if now.position(id).is_some() && now.position(now.resolve(into)).is_some() {
            let _ = central.append(&Entry::Retire { id, into });
        }
    }
}

/// Splits that the rows show: the given ones, or the sample.
fn splits<F: Conjugate, P: Process, I: Inference<F, P>>(
    posterior: &Posterior<F, P>,
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
    rows: Option<&I::Batch>,
) -> Vec<Entry<F, P>> {
    let sample = match rows {
        Some(_) => None,
        None => central.remembered(|memory| memory.sampled_rows()),
    };
    let Some(rows) = rows.or(sample.as_ref()) else { return Vec::new() };
    let rng = &mut minibatch_rng(config.seed, BatchId(posterior.version()));
    let found = config.inference.splits(posterior, rows, rng, &mut I::Workspace::default());
    found.into_iter().map(|(id, parts)| Entry::Split { id, parts }).collect()
}

/// The first rows, as they have been remembered, on their way to be learned from again.
struct SecondLook<'a, F, P, I: Inference<F, P>>
where
    F: Conjugate,
    P: Process,
{
    central: &'a Central<F, P, I::Batch>,
    config: &'a Config<I>,
    first: I::Batch,
    /// What they say today.
    evidence: Vec<(ComponentId, Evidence)>,
    workspace: I::Workspace,
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> SecondLook<'_, F, P, I> {
    fn entry(&self) -> Entry<F, P> {
        Entry::Replace { mass: self.first.mass(), evidence: self.evidence.clone() }
    }

    /// The fold as it would be if they said what they say today.
    fn trial(&self) -> Fold<F, P> {
        let mut trial = self.central.checkpoint();
        let replaced = trial.apply(&self.entry());
        debug_assert!(replaced.is_ok(), "{replaced:?}");
        trial
    }

    fn look(&mut self, posterior: &Posterior<F, P>, look: Look) {
        self.evidence = self.config.inference.look_again(posterior, &self.first, look, &mut self.workspace);
    }

    /// Looks again until a look everywhere moves no row, so many times at most.
    fn settle(&mut self, looks: Looks) -> Fold<F, P> {
        let mut trial = self.trial();
        for _ in 0..looks.everywhere {
            if self.has_settled(&mut trial, Look::Everywhere) {
                break;
            }
            for _ in 0..looks.where_possible {
                if self.has_settled(&mut trial, Look::WherePossible) {
                    break;
                }
            }
        }
        trial
    }

    /// Looks again; true when no component gains or loses a row.
    fn has_settled(&mut self, trial: &mut Fold<F, P>, look: Look) -> bool {
        let before = std::mem::take(&mut self.evidence);
        self.look(trial.posterior(), look);
        *trial = self.trial();
        counts_agree(&before, &self.evidence)
    }

    /// Makes the splits, if the objective rises after the rows have looked at the parts; returns whether. If not, the rows
    /// have to look again.
    fn split(&mut self, trial: &Fold<F, P>, splits: Vec<Entry<F, P>>) -> bool {
        let (mut after, mut parted, mut made) = (self.central.checkpoint(), trial.clone(), Vec::new());
        for entry in splits {
            // What is not proper without what the first rows say today is left whole.
            let mut both = (after.clone(), parted.clone());
            if both.0.apply(&entry).is_ok() && both.1.apply(&entry).is_ok() {
                (after, parted) = both;
                made.push(entry);
            }
        }
        if made.is_empty() {
            return false;
        }
        self.look(parted.posterior(), Look::Everywhere);
        let replaced = after.apply(&self.entry());
        debug_assert!(replaced.is_ok(), "{replaced:?}");
        let gain = after.posterior().objective() - trial.posterior().objective();
        if gain.is_nan() || gain <= 0.0 {
            return false;
        }
        made.iter().for_each(|entry| self.central.append(entry).expect("it was tried on the same fold"));
        true
    }
}

/// Whether no component gained or lost a row between two looks.
fn counts_agree(before: &[(ComponentId, Evidence)], after: &[(ComponentId, Evidence)]) -> bool {
    let count = |evidence: &Evidence| evidence.labels.expected_count;
    let near = |((id, a), (other, b)): (&(ComponentId, Evidence), &(ComponentId, Evidence))| {
        id == other && (count(a) - count(b)).abs() < 1.0
    };
    before.len() == after.len() && before.iter().zip(after).all(near)
}

/// Looks at the first rows again, with the prior, the merges and the splits that follow from it; again and again where
/// they are polished. What they said at first is replaced by what they say in the end. Returns whether all merges have been
/// made.
fn replace_first<F: Conjugate, P: Process, I: Inference<F, P>>(
    central: &Central<F, P, I::Batch>,
    config: &Config<I>,
    going_on: &(dyn Fn(Polishing) -> Flow + Sync),
) -> bool {
    central.set_first_aside();
    let Some(mut first) = central.remembered(|memory| memory.first().cloned()) else { return false };
    let aside = central.checkpoint().aside().map_or(0.0, |aside| aside.mass * aside.share);
    if central.snapshot().past().half_life.is_some() && aside > LEAST_FIRST * first.mass() {
        // They count as much as is left of them.
        let share = aside / first.mass();
        let weights = (0..first.n_rows()).map(|row| share * first.weight(row)).collect();
        first = first.counting(weights);
    }
    if aside == 0.0 || (aside - first.mass()).abs() > ROUNDING * aside {
        // Others have joined among them, whose rows are not here: what these taught cannot be told apart any more.
        central.remembered(|memory| memory.forget_first());
        return false;
    }
    // Where the first rows are most of the data, they show more than the sample.
    let share = first.mass() / central.snapshot().mass();
    let (most, all) = (share >= 0.5, share >= 1.0 - ROUNDING);
    let (rounds, looks) = match (config.polish, most) {
        (Some(_), _) => (POLISHING_ROUNDS, POLISHING),
        (None, true) => (1, SETTLING),
        (None, false) => (1, NO_LOOKS),
    };
    let workspace = I::Workspace::default();
    let mut second = SecondLook { central, config, first, evidence: Vec::new(), workspace };
    second.look(&central.snapshot(), Look::Everywhere);
    let (mut objective, mut split) = (f64::NEG_INFINITY, false);
    for round in 1..=rounds {
        let trial = second.trial();
        estimate_prior(trial.posterior(), central, config);
        merge(trial.posterior(), central, config, 1.0);
        // Parts are judged against what the whole holds: that has to be what the rows say today.
        let trial = second.settle(looks);
        let now = trial.posterior().objective() / trial.posterior().mass();
        let gained = now - std::mem::replace(&mut objective, now);
        let components = trial.posterior().components().len();
        let polishing = config.polish.map(|_| Polishing { round, components, objective });
        let flow = polishing.map_or(Flow::Continue, going_on);
        if round < rounds && gained > ROUND_GAIN && flow == Flow::Continue {
            continue;
        }
        let found = splits(trial.posterior(), central, config, most.then_some(&second.first));
        split = second.split(&trial, found);
        if !split {
            second.look(trial.posterior(), Look::Everywhere);
        }
        // Where every row is kept, the next round corrects what each part holds. What rows that are gone have taught can only
        // be divided by estimate, which further rounds would not make better.
        if !split || !all || flow == Flow::Stop {
            break;
        }
    }
    let replaced = central.append(&second.entry());
    debug_assert!(replaced.is_ok(), "{replaced:?}");
    central.remembered(|memory| memory.forget_first());
    !split
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::family::Bernoulli;
    use crate::identify::Identification;
    use crate::infer::{Increment, Settings};
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    type Centre = Central<Bernoulli, Dirichlet>;

    fn config() -> Config {
        Config { threads: 1, workers: 1, ..Config::new(Settings::default()) }
    }

    /// Rows of two coins, half of them for each of two components.
    fn learned(central: &Centre, batch: u64, rows: f64) {
        let evidence = |ones: f64| {
            let labels = LabelStatistics {
                log_p_empty: f64::NEG_INFINITY,
                expected_count: rows / 2.0,
                label_entropy: 0.0,
            };
            Evidence { stats: vec![rows / 2.0, ones * rows / 2.0], labels }
        };
        let snapshot = central.snapshot();
        let (heads, tails) = (evidence(0.9), evidence(0.1));
        let mut increment = Increment {
            base: snapshot.version(),
            mass: rows,
            familiarity: None,
            existing: Vec::new(),
            new: Vec::new(),
        };
        match snapshot.components() {
            [] => increment.new = vec![heads, tails],
            known => increment.existing = known.iter().map(|c| c.id()).zip([heads, tails]).collect(),
        }
        central.join(BatchId(batch), increment, Identification::Optimal, None).unwrap();
        central.remember(BatchId(batch), &Batch::new(1, vec![1.0, 0.0]).unwrap());
    }

    fn centre() -> Centre {
        let process = Dirichlet::new(1.0, Bound::Paper).unwrap();
        let central = Central::new(Bernoulli::new(vec![0.5], vec![0.5]).unwrap(), process).recording();
        count_lines(&central);
        central
    }

    /// Two minibatches join before either of the two looks: each sees the data of both.
    #[test]
    fn a_line_that_two_minibatches_cross_together_is_not_missed() {
        let (central, config, upkeep) = (centre(), config(), Upkeep::default());
        let tended = || central.memory().tended();
        learned(&central, 0, 990.0);
        upkeep.after(&central, &config);
        assert_eq!((tended(), central.take_recorded().len()), (Some(0), 1));
        learned(&central, 1, 50.0);
        learned(&central, 2, 50.0);
        assert!(!is_due(central.snapshot().mass(), 50.0), "the last alone crossed nothing");
        upkeep.after(&central, &config);
        assert_eq!(tended(), Some(1));
        assert!(central.take_recorded().len() > 2, "the prior was estimated");
        upkeep.after(&central, &config);
        assert_eq!(central.take_recorded().len(), 0, "once for each line");
    }

    #[test]
    fn a_line_that_is_crossed_while_another_looks_after_the_model_is_left_to_him() {
        let (central, config, upkeep) = (centre(), config(), Upkeep::default());
        learned(&central, 0, 1100.0);
        let turn = upkeep.busy.lock().unwrap();
        upkeep.after(&central, &config);
        assert_eq!(central.memory().tended(), Some(0));
        drop(turn);
        learned(&central, 1, 1000.0);
        upkeep.after(&central, &config);
        assert_eq!(central.memory().tended(), Some(2));
    }

    /// The state of a run that ended between a minibatch and what was due after it.
    #[test]
    fn what_was_due_when_a_run_ended_is_done_when_it_goes_on() {
        let (central, config) = (centre(), config());
        learned(&central, 0, 1100.0);
        let (fold, memory) = central.state();
        let again = Central::from_fold(fold).with_memory(memory).recording();
        let mut nothing = std::iter::empty::<Batch>().enumerate();
        let mut observer = |_: &super::super::Event, _: &Centre| Flow::Continue;
        super::super::run(&again, &mut nothing, &config, &mut observer).unwrap();
        assert_eq!(again.memory().tended(), Some(1));
        assert!(!again.take_recorded().is_empty());
        super::super::run(&again, &mut nothing, &config, &mut observer).unwrap();
        assert!(again.take_recorded().is_empty(), "once");
    }

    #[test]
    fn a_further_pass_is_looked_after_at_its_end_alone() {
        let (central, config, upkeep) = (centre(), config(), Upkeep::default());
        learned(&central, 0, 990.0);
        central.append(&Entry::Pass).unwrap();
        learned(&central, 0, 2000.0);
        assert_eq!((lines(central.snapshot().mass()), central.memory().tended()), (2, Some(0)));
        upkeep.after(&central, &config);
        assert_eq!(central.memory().tended(), Some(0));
    }

    #[test]
    fn looks_agree_where_no_component_gains_or_loses_a_row() {
        let look = |counts: &[(u64, f64)]| -> Vec<(ComponentId, Evidence)> {
            let evidence = |rows: f64| {
                let labels = LabelStatistics { expected_count: rows, ..LabelStatistics::default() };
                Evidence { stats: vec![rows, 0.0], labels }
            };
            counts.iter().map(|(id, rows)| (ComponentId(*id), evidence(*rows))).collect()
        };
        let before = look(&[(1, 5.0), (4, 7.0)]);
        assert!(counts_agree(&before, &look(&[(1, 5.9), (4, 6.1)])));
        for other in [&[(1, 4.0), (4, 8.0)][..], &[(1, 5.0), (3, 7.0)], &[(1, 5.0)]] {
            assert!(!counts_agree(&before, &look(other)), "{other:?}");
        }
    }

    #[test]
    fn lines_are_at_a_thousand_and_at_every_doubling() {
        let counted = [0.0, 999.0, 1000.0, 1999.0, 2000.0, 4000.0, 1.024e6].map(lines);
        assert_eq!(counted, [0, 0, 1, 1, 2, 3, 11]);
    }
}
