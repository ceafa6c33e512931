//! The first minibatch, large and alone: workers that start from nothing would all discover the same clusters badly.
//!
//! It is seeded far beyond the clusters it can hold (a cluster without a seed is not found later) and then merges what
//! the data do not keep apart, judged for more data than it has seen, because more will come and a merge is final.

use super::{BatchSource, Config, Event, Flow, Observer, minibatch_rng};
use crate::central::Central;
use crate::family::Family;
use crate::infer::{Settings, Workspace, infer};
use crate::process::Process;

/// One seed for this many rows …
const ROWS_PER_SEED: usize = 16;
/// … but at least and at most this many.
const SEEDS: (usize, usize) = (20, 320);
/// Merges must still be right with this many times the data. 1 loses small clusters beside large ones, 4 keeps
/// clusters apart that differ by chance.
const MERGE_HORIZON: f64 = 2.0;

/// Learns from the source's next minibatch on this thread and shows it to the observer. `Flow::Stop` when the source is
/// at its end or the observer asked to stop.
pub fn bootstrap<F, P, S>(
    central: &Central<F, P>,
    source: &mut S,
    config: &Config,
    observer: &mut dyn Observer<F, P>,
) -> Result<Flow, S::Error>
where
    F: Family,
    P: Process,
    S: BatchSource,
{
    let Some((id, batch)) = source.next()? else { return Ok(Flow::Stop) };
    let settings = Settings {
        max_new: (batch.n_rows() / ROWS_PER_SEED).clamp(SEEDS.0, SEEDS.1),
        merge_horizon: MERGE_HORIZON,
        ..config.inference.clone()
    };
    let mut rng = minibatch_rng(config.seed, id);
    let snapshot = central.snapshot();
    let (increment, _) = infer(&snapshot, &batch, &settings, &mut rng, &mut Workspace::default());
    let absorbed = central.absorb(id, increment, config.identification);
    let event = Event::after(id, &batch, &central.snapshot(), absorbed);
    Ok(observer.observe(&event, central))
}
