//! When the model is looked after: whenever the data have doubled, and at the end.
//!
//! Whoever brings the minibatch that crosses the line does it, in its own turn, so that a deterministic run stays one;
//! the others go on meanwhile. Every change is a journal entry like any other.

use std::sync::Mutex;

use super::Config;
use crate::central::{Central, Entry};
use crate::family::Family;
use crate::infer::{PriorChoice, Workspace, upkeep};
use crate::process::Process;

/// The first line, in weight of data; the next ones are at twice, four times … of it.
const FIRST_LINE: f64 = 1000.0;

/// While the stream goes on, a merge must still be right when the data have doubled again.
const HORIZON: f64 = 2.0;

/// One at a time.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    busy: Mutex<()>,
}

impl Upkeep {
    /// Looks after the model if the last `added` weight crossed a line.
    pub(super) fn after<F: Family, P: Process>(&self, central: &Central<F, P>, config: &Config, added: f64) {
        let snapshot = central.snapshot();
        // A further pass does not grow the data; the model is looked after at its end.
        if snapshot.pass() > 0 || !is_due(snapshot.mass(), added) {
            return;
        }
        if let Ok(_turn) = self.busy.try_lock() {
            tend(central, config);
        }
    }
}

/// True when the last `added` of `mass` in all crossed a line at which the model is looked after.
///
/// ```
/// use anabranch::engine::is_due;
/// assert!(is_due(1000.0, 1.0) && is_due(2100.0, 200.0));
/// assert!(!is_due(999.0, 500.0) && !is_due(1999.0, 500.0));
/// ```
pub fn is_due(mass: f64, added: f64) -> bool {
    let lines = |mass: f64| (mass / FIRST_LINE).log2().floor();
    mass >= FIRST_LINE && lines(mass) != lines(mass - added)
}

/// Looks after the model while the stream goes on: the prior again, and merges that stay right when the data have doubled.
/// Returns what was appended, in this order, for whoever keeps the same journal elsewhere. Without upkeep there is nothing
/// to do.
pub fn tend<F: Family, P: Process>(central: &Central<F, P>, config: &Config) -> Vec<Entry<F, P>> {
    if !config.upkeep {
        return Vec::new();
    }
    let mut appended = Vec::from_iter(estimate_prior(central, config));
    appended.extend(merge(central, HORIZON));
    appended
}

/// Ends a run whose stream has ended: the first rows again, the prior again, and every merge that the data support.
/// Returns what was appended, in this order. Without upkeep there is nothing to do.
pub fn finish<F: Family, P: Process>(central: &Central<F, P>, config: &Config) -> Vec<Entry<F, P>> {
    if !config.upkeep {
        return Vec::new();
    }
    let mut appended = Vec::from_iter(estimate_prior(central, config));
    appended.extend(replace_first(central));
    appended.extend(estimate_prior(central, config));
    appended.extend(merge(central, 1.0));
    appended
}

fn estimate_prior<F: Family, P: Process>(central: &Central<F, P>, config: &Config) -> Option<Entry<F, P>> {
    if config.prior == PriorChoice::Given {
        return None;
    }
    let snapshot = central.snapshot();
    let family = upkeep::refit(&snapshot)?;
    let entry = Entry::Prior { family, process: snapshot.process().clone() };
    central.append(&entry).expect("a prior is never void");
    Some(entry)
}

fn merge<F: Family, P: Process>(central: &Central<F, P>, horizon: f64) -> Vec<Entry<F, P>> {
    let mut appended = Vec::new();
    let Some(sample) = central.remembered(|memory| memory.sampled_rows()) else { return appended };
    for (id, into) in upkeep::merges(&central.snapshot(), &sample, horizon) {
        let now = central.snapshot();
        // Somebody else may have ended one of the two in the meantime: then the merge was not judged.
        if now.position(id).is_some() && now.position(now.resolve(into)).is_some() {
            let entry = Entry::Retire { id, into };
            appended.extend(central.append(&entry).ok().map(|()| entry));
        }
    }
    appended
}

fn replace_first<F: Family, P: Process>(central: &Central<F, P>) -> Option<Entry<F, P>> {
    let first = central.remembered(|memory| memory.first().cloned())?;
    let evidence = upkeep::look_again(&central.snapshot(), &first, &mut Workspace::default());
    let entry = Entry::Replace { mass: first.mass(), evidence };
    let replaced = central.append(&entry);
    debug_assert!(replaced.is_ok(), "{replaced:?}");
    central.remembered(|memory| memory.forget_first());
    replaced.ok().map(|()| entry)
}
