//! The first minibatch of a run: learned alone, before the workers start.

use super::{BatchSource, Clock, Config, Event, Flow, Observer, minibatch_rng};
use crate::batch::Minibatch;
use crate::central::{Central, Entry};
use crate::family::Conjugate;
use crate::infer::{Inference, Outlook, PriorChoice};
use crate::parallel;
use crate::process::Process;

/// Learns from the source's next minibatch alone, on the threads of the configuration, with its prior if it is to be
/// estimated, and shows it to the observer. A minibatch of fewer than `config.bootstrap_rows` rows is taken to be all there
/// is. `Flow::Stop` when the source is at its end or the observer asked to stop.
pub fn bootstrap<F, P, I, S>(
    central: &Central<F, P, I::Batch>,
    source: &mut S,
    config: &Config<I>,
    observer: &mut dyn Observer<F, P, I::Batch>,
) -> Result<Flow, S::Error>
where
    F: Conjugate,
    P: Process,
    I: Inference<F, P>,
    S: BatchSource<Batch = I::Batch>,
{
    central.forget(config.half_life);
    let Some((id, mut batch)) = source.next()? else { return Ok(Flow::Stop) };
    let at = Clock::of(central).at(&batch, source);
    let mut rng = minibatch_rng(config.seed, id);
    let prior = central.snapshot();
    config.inference.prepare(prior.family(), &mut batch, &mut rng);
    let outlook =
        if batch.n_rows() < config.bootstrap_rows { Outlook::Everything } else { Outlook::MoreToCome };
    let ((learned, process), first) = parallel::on(config.threads, || {
        let learn = || {
            let workspace = &mut I::Workspace::default();
            config.inference.bootstrap(&prior, &batch, config.prior, outlook, &mut rng, workspace)
        };
        // What is remembered does not depend on what is learned.
        parallel::both(learn, || {
            central.remember_at(id, &batch, at);
            let again = outlook == Outlook::MoreToCome || config.polished_rows().is_some();
            again.then(|| batch.clone())
        })
    });
    if config.prior == PriorChoice::Estimated || process.is_some() {
        let process = process.unwrap_or_else(|| prior.process().clone());
        let entry = Entry::Prior { family: learned.family, process };
        central.append(&entry).expect("a prior is never void");
    }
    if outlook == Outlook::Everything {
        central.remembered(|memory| memory.doubt(learned.between));
    }
    let absorbed = central.join(id, learned.increment, config.identification, at);
    let absorbed = absorbed.expect(super::OWN_INCREMENT);
    super::limit::keep_within(central, config);
    super::upkeep::learn_process(central);
    super::upkeep::count_lines(central);
    if let Some(first) = first {
        // What the first rows said without the others is looked at again in the end.
        let rows = first.n_rows();
        central.remembered(|memory| memory.keep(first));
        if config.polished_rows().is_none_or(|most| rows >= most) {
            central.append(&Entry::SetAside).expect("setting aside is never void");
        }
    }
    let event = Event::after(id, &batch, &central.snapshot(), absorbed);
    Ok(observer.observe(&event, central))
}
