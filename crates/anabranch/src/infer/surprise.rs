//! Surprise: a minibatch most of whose rows are explained worse than usual shows that the stream has changed.
//!
//! ```text
//! familiarity of a minibatch   median over its rows of  log Σ_k m_k exp E[log p(x|θ_k)] − log Σ_k m_k,  before it is learned
//! usual                        mean of that over the minibatches so far
//! surprise                     the share of rows below the usual is well above one half
//! ```
//!
//! The probability that one row belongs to no known component says little here: a wide component explains the rows of a
//! cluster that it has never seen better than the prior explains a single one of them. Together they would be explained
//! better still, and that shows in how unusual they are. On a shuffled stream about half of the rows, or fewer, are below the
//! usual, so nothing happens there.

use super::ascent::Ascent;
use super::ordinary;
use crate::batch::Batch;
use crate::family::Family;
use crate::posterior::Told;
use crate::process::Process;

/// A minibatch surprises when its share of rows below the usual exceeds one half by this much …
const EXCESS: f64 = 0.15;
/// … and by so many standard deviations of chance.
const DEVIATIONS: f64 = 4.0;

/// The median log-density of the rows under the known components and how they are spread, given an ascent that has just assigned them. `None` when
/// there are none, and in a further pass over the data, whose rows are all familiar.
pub(super) fn familiarity<F: Family, P: Process>(ascent: &mut Ascent<'_, F, P>) -> Option<Told> {
    if ascent.posterior().pass() > 0 {
        return None;
    }
    let ln_mass = ascent.posterior().mass().ln();
    let batch = ascent.batch();
    let memory = &mut *ascent.memory;
    memory.sorted.clear();
    let rows = memory.labels.ln_totals().iter().enumerate().filter(|(row, _)| counts(batch, *row));
    memory.sorted.extend(rows.map(|(_, ln_total)| ln_total));
    let middle = memory.sorted.len() / 2;
    let (_, median, _) = memory.sorted.select_nth_unstable_by(middle, f64::total_cmp);
    let median = Some(*median - ln_mass).filter(|median| median.is_finite())?;
    Some(Told { median, densities: ordinary::of_rows(ascent) })
}

/// The rows that are explained worse than usual, when they are so many that the stream has changed.
pub(super) fn unfamiliar_rows<F: Family, P: Process>(ascent: &Ascent<'_, F, P>) -> Option<Vec<usize>> {
    let posterior = ascent.posterior();
    let usual = posterior.familiarity().usual().filter(|_| posterior.pass() == 0)? + posterior.mass().ln();
    let (batch, explained) = (ascent.batch(), ascent.ln_explained());
    let rows = (0..explained.len()).filter(|row| counts(batch, *row));
    let below = |row: &usize| explained[*row] < usual;
    let n = rows.clone().count() as f64;
    let share = rows.clone().filter(below).count() as f64 / n;
    let surprises = share > 0.5 + EXCESS.max(DEVIATIONS * (0.25 / n).sqrt());
    surprises.then(|| rows.filter(below).collect())
}

/// A row of weight 0 is not there.
fn counts(batch: &Batch, row: usize) -> bool {
    batch.weights().is_none_or(|weights| weights[row] > 0.0)
}
