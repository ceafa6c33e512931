//! The parts of a run in their order, whatever is learned and wherever its data come from: nobody else begins, ends or repeats
//! one by hand.
//!
//! ```text
//! the first minibatch, alone ──▶ the stream ──▶ the end ──▶ another pass over the same data ──▶ the end ──▶ …
//! ```

use std::fmt;
use std::sync::Arc;

use crate::batch::Minibatch;
use crate::central::{Central, Entry};
use crate::engine::{self, BatchSource, Config, Event, Flow, Observer, Polishing};
use crate::family::Conjugate;
use crate::infer::Inference;
use crate::process::Process;

/// The central posterior of an inference.
pub type Centre<F, P, I> = Central<F, P, <I as Inference<F, P>>::Batch>;

/// A central posterior with how it learns.
///
/// ```
/// use anabranch::batch::Batch;
/// use anabranch::central::Central;
/// use anabranch::engine::Config;
/// use anabranch::family::Gaussian;
/// use anabranch::learner::run::Run;
/// use anabranch::process::{Bound, Dirichlet};
///
/// // Two clusters on a line, near 0 and near 20.
/// let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
/// let rows = Batch::new(1, (0..400).map(|i| f64::from(i % 2) * 20.0 + noise(f64::from(i))).collect())?;
/// let centre = Central::new(Gaussian::from_rows(&rows)?, Dirichlet::new(1.0, Bound::Paper)?);
/// let run = Run::new(centre, Config { bootstrap_rows: 300, ..Config::default() });
/// let Ok(()) = run.through(&mut [rows.head(300), rows.tail(300)].into_iter().enumerate(), &mut ());
/// assert_eq!((run.centre().snapshot().components().len(), run.centre().snapshot().mass()), (2, 400.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run<F: Conjugate, P: Process, I: Inference<F, P>> {
    centre: Arc<Centre<F, P, I>>,
    config: Config<I>,
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> Clone for Run<F, P, I> {
    /// The same run: its centre is shared.
    fn clone(&self) -> Self {
        Self { centre: Arc::clone(&self.centre), config: self.config.clone() }
    }
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> fmt::Debug for Run<F, P, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Whoever carries out a run: where its data come from, who is told of each minibatch, and what happens between its parts.
pub trait Host<F: Conjugate, P: Process, I: Inference<F, P>> {
    /// What can go wrong while data are read.
    type Error: Send;

    /// Minibatches.
    type Source: BatchSource<Batch = I::Batch, Error = Self::Error>;

    /// The data of this pass, and who is told of each minibatch.
    fn data(&mut self) -> (&mut Self::Source, &mut dyn Observer<F, P, I::Batch>);

    /// Whether somebody has asked to stop: what was read counts, and the run is not ended.
    fn stopped(&self) -> bool {
        false
    }

    /// The first minibatch has been learned from, or was already, or cannot be read.
    fn begun(&mut self) {}

    /// All data of this pass have been learned from, or those before somebody stopped or they could not be read.
    fn read(&mut self) {}

    /// The run is about to be ended.
    fn ending(&mut self, _centre: &Centre<F, P, I>) {}

    /// Shown each round of polishing.
    fn polishing(&self) -> Box<dyn Fn(Polishing) -> Flow + Sync + '_> {
        Box::new(|_| Flow::Continue)
    }

    /// Passes over the data in all.
    fn passes(&self) -> u32 {
        1
    }

    /// Brings the same data once more.
    fn again(&mut self, _centre: &Centre<F, P, I>) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> Run<F, P, I> {
    /// A run that goes on from this posterior, or begins with it.
    pub fn new(centre: impl Into<Arc<Centre<F, P, I>>>, config: Config<I>) -> Self {
        Self { centre: centre.into(), config }
    }

    /// The posterior.
    pub fn centre(&self) -> &Arc<Centre<F, P, I>> {
        &self.centre
    }

    /// How the run is carried out.
    pub fn config(&self) -> &Config<I> {
        &self.config
    }

    /// Whether the next minibatch is the first, and is to be learned alone.
    pub fn begins(&self) -> bool {
        self.config.bootstrap_rows > 0 && self.centre.snapshot().version() == 0
    }

    /// Learns from the first minibatch, if that is to come and to be learned alone.
    pub fn begin<S: BatchSource<Batch = I::Batch>>(
        &self,
        source: &mut S,
        observer: &mut dyn Observer<F, P, I::Batch>,
    ) -> Result<Flow, S::Error> {
        match self.begins() {
            true => engine::bootstrap(&self.centre, source, &self.config, observer),
            false => Ok(Flow::Continue),
        }
    }

    /// Learns from minibatches until there are no more.
    pub fn stream<S: BatchSource<Batch = I::Batch>>(
        &self,
        source: &mut S,
        observer: &mut dyn Observer<F, P, I::Batch>,
    ) -> Result<(), S::Error> {
        engine::run(&self.centre, source, &self.config, observer)
    }

    /// Ends the run, or a pass: the first rows are looked at again, and what the data do not support is merged.
    pub fn end(&self) {
        engine::finish(&self.centre, &self.config);
    }

    /// Begins another pass over the same data: what they say in it takes the place of what they said before.
    pub fn again(&self) {
        self.centre.append(&Entry::Pass).expect("a pass can always begin");
    }

    /// Learns from all minibatches of a source, and ends the run unless the observer asks to stop.
    pub fn through<S: BatchSource<Batch = I::Batch>>(
        &self,
        source: &mut S,
        observer: &mut dyn Observer<F, P, I::Batch>,
    ) -> Result<(), S::Error> {
        self.carry_out(&mut OnePass { source, observer })
    }

    /// All parts of a run in their order, for as many passes as the host wants. When data cannot be read, what came before has
    /// been learned from.
    pub fn carry_out<H: Host<F, P, I>>(&self, host: &mut H) -> Result<(), H::Error> {
        let mut seen = Seen { minibatches: 0, stopped: false };
        let (source, observer) = host.data();
        let begun = self.begin(source, &mut Watched { observer, seen: &mut seen });
        host.begun();
        let mut flow = begun?;
        loop {
            let mut streamed = Ok(());
            if flow == Flow::Continue && !host.stopped() {
                let (source, observer) = host.data();
                streamed = self.stream(source, &mut Watched { observer, seen: &mut seen });
            }
            host.read();
            streamed?;
            if seen.stopped || host.stopped() {
                return Ok(());
            }
            // A run that was killed at its end has nothing more to read, and first rows to learn from again.
            if seen.minibatches > 0 || self.centre.remembered(|memory| memory.first().is_some()) {
                host.ending(&self.centre);
                engine::finish_while(&self.centre, &self.config, &*host.polishing());
            }
            if host.stopped() || self.centre.snapshot().pass() + 1 >= host.passes() {
                return Ok(());
            }
            host.again(&self.centre)?;
            self.again();
            flow = Flow::Continue;
        }
    }
}

/// What has happened in a run so far.
struct Seen {
    minibatches: u64,
    stopped: bool,
}

/// Counts what an observer sees.
struct Watched<'a, F, P, B: Minibatch> {
    observer: &'a mut dyn Observer<F, P, B>,
    seen: &'a mut Seen,
}

impl<F, P, B: Minibatch> Observer<F, P, B> for Watched<'_, F, P, B> {
    fn observe(&mut self, event: &Event, centre: &Central<F, P, B>) -> Flow {
        let flow = self.observer.observe(event, centre);
        self.seen.minibatches += 1;
        self.seen.stopped |= flow == Flow::Stop;
        flow
    }
}

/// The host of a run of one pass.
struct OnePass<'a, F, P, S: BatchSource>
where
    S::Batch: Minibatch,
{
    source: &'a mut S,
    observer: &'a mut dyn Observer<F, P, S::Batch>,
}

impl<F, P, I, S> Host<F, P, I> for OnePass<'_, F, P, S>
where
    F: Conjugate,
    P: Process,
    I: Inference<F, P>,
    S: BatchSource<Batch = I::Batch>,
{
    type Error = S::Error;
    type Source = S;

    fn data(&mut self) -> (&mut S, &mut dyn Observer<F, P, I::Batch>) {
        (self.source, self.observer)
    }
}
