//! The observer of a run: progress, trace, held-out likelihood, checkpoints, and the wish to stop.

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{Event, Flow, Observer};
use anabranch::family::AnyFamily;
use anabranch::posterior::Predictor;
use anabranch::process::Dirichlet;
use anabranch_io::model::{Model, Provenance};

use super::checkpoint::Checkpoints;
use super::progress::Progress;
use super::session::finalised;
use super::trace::Trace;
use crate::failure::Failure;
use crate::report::TraceRow;
use crate::resources::Stopwatch;
use crate::stop;

/// Share of the run's time that evaluation on the way may take.
const EVALUATION_SHARE: f64 = 0.03;

/// Held-out rows that are evaluated on the way; the figure at the end is of all rows.
const ROWS_ON_THE_WAY: usize = 1000;

/// Watches a run.
pub struct Watch<'a> {
    clock: &'a mut Stopwatch,
    trace: Trace,
    progress: Progress,
    test: Option<Batch>,
    checkpoints: Option<Checkpoints>,
    provenance: Provenance,
    minibatches: u64,
    failure: Option<Failure>,
    stopped: bool,
}

/// What was collected on the way.
pub struct Watched {
    /// The trace.
    pub trace: Trace,
    /// Where the model comes from, with its counts.
    pub provenance: Provenance,
    /// Where the state is saved.
    pub checkpoints: Option<Checkpoints>,
    /// Whether somebody asked to stop.
    pub stopped: bool,
    /// A trace or checkpoint that could not be written; it ended the run.
    pub failure: Option<Failure>,
}

impl<'a> Watch<'a> {
    /// Starts watching; `provenance` holds the counts of the run so far when it is resumed.
    pub fn new(
        clock: &'a mut Stopwatch,
        trace: Trace,
        progress: Progress,
        test: Option<&Batch>,
        checkpoints: Option<Checkpoints>,
        provenance: Provenance,
    ) -> Self {
        let test = test.map(thin);
        let (minibatches, failure, stopped) = (0, None, false);
        Self { clock, trace, progress, test, checkpoints, provenance, minibatches, failure, stopped }
    }

    /// Counts on from the minibatches that an earlier run absorbed.
    pub fn after(self, minibatches: u64) -> Self {
        Self { minibatches, ..self }
    }

    /// Ends the display and hands back what was collected.
    pub fn finish(self) -> Watched {
        self.progress.finish();
        if self.stopped {
            self.progress.say("stopped: what was read so far is in the model");
        }
        let Self { trace, provenance, checkpoints, stopped, failure, .. } = self;
        Watched { trace, provenance, checkpoints, stopped, failure }
    }

    /// The held-out likelihood, when the time spent on it so far allows.
    fn evaluate(&mut self, central: &Central<AnyFamily, Dirichlet>) -> Option<f64> {
        let test = self.test.as_ref()?;
        if self.clock.seconds_aside() > EVALUATION_SHARE * self.clock.seconds() {
            return None;
        }
        let snapshot = central.snapshot();
        self.clock.aside(|| Predictor::new(&snapshot).mean_ln_density(test))
    }

    fn record(&mut self, event: &Event, central: &Central<AnyFamily, Dirichlet>) -> Result<(), Failure> {
        self.minibatches += 1;
        self.provenance.matchings += event.absorbed.matchings;
        self.provenance.conflicts += event.absorbed.conflicts;
        self.progress.update(event.mass.round() as u64, event.components);
        let test_log_likelihood = self.evaluate(central);
        self.trace.add(TraceRow {
            seconds: self.clock.seconds() - self.clock.seconds_aside(),
            minibatch: self.minibatches,
            components: event.components as u64,
            matchings: self.provenance.matchings,
            conflicts: self.provenance.conflicts,
            test_log_likelihood,
        })?;
        if let Some(checkpoints) = self.checkpoints.as_mut().filter(|checkpoints| checkpoints.due()) {
            let model = Model { fold: central.checkpoint(), provenance: self.provenance.clone() };
            checkpoints.save_now(&finalised(model))?;
        }
        Ok(())
    }
}

impl Observer<AnyFamily, Dirichlet> for Watch<'_> {
    fn observe(&mut self, event: &Event, central: &Central<AnyFamily, Dirichlet>) -> Flow {
        if self.failure.is_none() {
            self.failure = self.record(event, central).err();
        }
        if self.failure.is_some() {
            return Flow::Stop;
        }
        if stop::asked() {
            self.stopped = true;
            return Flow::Stop;
        }
        Flow::Continue
    }
}

/// Every so-many-th row, so that the sample covers the whole file.
fn thin(test: &Batch) -> Batch {
    let step = test.n_rows().div_ceil(ROWS_ON_THE_WAY).max(1);
    let values = test.rows().step_by(step).flatten().copied().collect();
    Batch::new(test.dimensions(), values).expect("rows of a batch make a batch")
}
