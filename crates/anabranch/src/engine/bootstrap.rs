//! The first minibatch of a run: learned alone, before the workers start.

use super::{BatchSource, Config, Event, Flow, Observer, minibatch_rng};
use crate::central::{Central, Entry};
use crate::family::Family;
use crate::infer::{self, Outlook, PriorChoice, Workspace};
use crate::process::Process;

/// Learns from the source's next minibatch on this thread, with its prior if it is to be estimated, and shows it to the
/// observer. A minibatch of fewer than `config.bootstrap_rows` rows is taken to be all there is. `Flow::Stop` when the source is at its end or the observer asked to stop.
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
    let mut rng = minibatch_rng(config.seed, id);
    let prior = central.snapshot();
    let outlook =
        if batch.n_rows() < config.bootstrap_rows { Outlook::Everything } else { Outlook::MoreToCome };
    let mut workspace = Workspace::default();
    let learned =
        infer::bootstrap(&prior, &batch, &config.inference, config.prior, outlook, &mut rng, &mut workspace);
    if config.prior == PriorChoice::Estimated {
        let entry = Entry::Prior { family: learned.family, process: prior.process().clone() };
        central.append(&entry).expect("a prior is never void");
    }
    central.remember(id, &batch);
    let absorbed = central.join(id, learned.increment, config.identification);
    let absorbed = absorbed.expect(super::OWN_INCREMENT);
    if outlook == Outlook::MoreToCome {
        // What the first rows said without the others is looked at again in the end.
        central.append(&Entry::SetAside).expect("setting aside is never void");
        central.remembered(|memory| memory.remember_first(batch.clone()));
    }
    let event = Event::after(id, &batch, &central.snapshot(), absorbed);
    Ok(observer.observe(&event, central))
}
