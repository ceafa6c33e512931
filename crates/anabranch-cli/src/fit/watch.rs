//! The observer of a run: progress, trace, held-out likelihood, checkpoints, and the wish to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anabranch::central::{Central, Fold};
use anabranch::engine::{Event, Flow, Observer, Polishing};
use anabranch::family::{AnyFamily, Conjugate};
use anabranch::posterior::Posterior;
use anabranch::process::AnyProcess;
use anabranch_io::model::{Model, Provenance};
use anabranch_io::{InputRead, ReadLog};

use super::checkpoint::Checkpoints;
use super::events::Events;
use super::progress::Progress;
use super::session::finalised;
use super::trace::Trace;
use crate::args::{Every, OutputArgs, Span};
use crate::failure::Failure;
use crate::report::TraceRow;
use crate::resources::Stopwatch;
use crate::stop;

/// Moments of a run at which the held-out likelihood is measured, for each tenfold growth of the minibatches.
const MOMENTS_PER_DECADE: f64 = 16.0;

/// Numbers that snapshots may hold while they wait to be evaluated; beyond that a moment is left out.
const WAITING_NUMBERS: usize = 8_000_000;

/// A minibatch with the posterior right after it.
pub type Moment = (u64, Arc<Posterior<AnyFamily, AnyProcess>>);

/// Whether posteriors are kept for evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// There are held-out rows.
    Wanted,
    /// There are none.
    None,
}

impl Evaluation {
    /// Scoring a model on the way costs as much as scoring the last one: only for somebody who will see it.
    pub fn wanted(has_test: bool, output: &OutputArgs) -> Self {
        match has_test && (output.trace.is_some() || output.report.is_some()) {
            true => Self::Wanted,
            false => Self::None,
        }
    }
}

/// What the name of an event's minibatch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Nothing: minibatches join in any order, and each is one event.
    Events,
    /// How many steps there were: some of them are not shown.
    Names,
}

/// Watches a run.
pub struct Watch<'a> {
    clock: &'a Stopwatch,
    trace: Trace,
    progress: Progress,
    /// Posteriors to evaluate when the run is over, so that evaluation does not slow it.
    waiting: Option<Vec<Moment>>,
    waiting_numbers: usize,
    checkpoints: Option<Checkpoints>,
    log: ReadLog,
    provenance: Provenance,
    counting: Counting,
    minibatches: u64,
    rows: u64,
    rows_before: u64,
    stopped: bool,
    events: Events,
    writing: Option<Writing>,
}

/// The model on the way: where, how often, and when or at which row the next time.
struct Writing {
    every: Every,
    out: PathBuf,
    next: Instant,
    next_rows: u64,
    warned: bool,
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
    /// Posteriors on the way, to be evaluated.
    pub moments: Vec<Moment>,
    /// What becomes of components.
    pub events: Events,
}

impl<'a> Watch<'a> {
    /// Starts watching; `provenance` holds the counts of the run so far when it is resumed.
    pub fn new(
        clock: &'a Stopwatch,
        trace: Trace,
        progress: Progress,
        evaluation: Evaluation,
        checkpoints: Option<Checkpoints>,
        provenance: Provenance,
    ) -> Self {
        Self {
            clock,
            trace,
            progress,
            waiting: (evaluation == Evaluation::Wanted).then(Vec::new),
            waiting_numbers: 0,
            checkpoints,
            log: ReadLog::default(),
            provenance,
            counting: Counting::Events,
            minibatches: 0,
            rows: 0,
            rows_before: 0,
            stopped: false,
            events: Events::default(),
            writing: None,
        }
    }

    /// Counts on from the minibatches that an earlier run absorbed, of which so many rows are not in this input.
    pub fn after(self, minibatches: u64, rows_before: u64) -> Self {
        Self { minibatches, rows_before, ..self }
    }

    /// Tells what becomes of components.
    pub fn telling(self, events: Events) -> Self {
        Self { events, ..self }
    }

    /// Writes the model on the way.
    pub fn writing(self, writing: Option<(Every, PathBuf)>) -> Self {
        let rows = self.provenance.observations;
        let writing = writing.map(|(every, out)| {
            let (next, next_rows) = match every {
                Every::Rows(more) => (Instant::now(), rows.saturating_add(more)),
                Every::Span(Span(after)) => (Instant::now() + after, 0),
            };
            Writing { every, out, next, next_rows, warned: false }
        });
        Self { writing, ..self }
    }

    /// Writes the model if it is time.
    fn write_model(&mut self, central: &Central<AnyFamily, AnyProcess>) {
        let rows = central.snapshot().rows() as u64;
        let due = |writing: &&mut Writing| match writing.every {
            Every::Rows(_) => rows >= writing.next_rows,
            Every::Span(_) => Instant::now() >= writing.next,
        };
        if self.writing.as_mut().filter(due).is_none() {
            return;
        }
        let model = self.model(central.checkpoint());
        let Some(writing) = &mut self.writing else { return };
        if let Err(error) = model.save(&writing.out)
            && !std::mem::replace(&mut writing.warned, true)
        {
            self.progress.warn(&format!("the model cannot be written, the run goes on: {error}"));
        }
        match writing.every {
            Every::Rows(more) => writing.next_rows = rows.saturating_add(more),
            Every::Span(Span(after)) => writing.next = Instant::now() + after,
        }
    }

    /// The model as it stands, which knows all that has been read.
    fn model(&self, fold: Fold<AnyFamily, AnyProcess>) -> Model {
        let mut model = finalised(Model { fold, provenance: self.provenance.clone() });
        let earlier = std::mem::take(&mut model.provenance.learned_from);
        model.provenance.learned_from = InputRead::joined(earlier, self.log.inputs());
        model
    }

    /// What is read from now on is read here.
    pub fn follow(&mut self, log: ReadLog) {
        self.log = log;
    }

    /// True when somebody asked to stop before the end, be it while nothing came to be seen here.
    pub fn stopped(&self) -> bool {
        self.stopped || stop::asked()
    }

    /// Shows a round of polishing; the last one, when somebody has asked to stop.
    pub fn polishing(&self, polishing: &Polishing) -> Flow {
        self.progress.polishing(polishing);
        if stop::asked() { Flow::Stop } else { Flow::Continue }
    }

    /// Saves the state of the stream, which has ended, as other rows would find it if they came now.
    pub fn save_stream(&self, central: &Central<AnyFamily, AnyProcess>) -> Result<(), Failure> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let (fold, memory) = central.state();
        let reading = self.log.reading(fold.absorbed());
        let model = self.model(fold);
        checkpoints.save_stream(|path| model.save_checkpoint(path, &memory, &reading))
    }

    /// Counts minibatches this way.
    pub fn count(&mut self, counting: Counting) {
        self.counting = counting;
    }

    /// Ends the display and hands back what was collected.
    pub fn finish(self) -> Watched {
        self.progress.finish();
        let stopped = self.stopped();
        if stopped {
            self.progress.say("stopped: what was read so far is in the model");
        }
        let Self { trace, provenance, checkpoints, waiting, events, .. } = self;
        let moments = waiting.unwrap_or_default();
        Watched { trace, provenance, checkpoints, stopped, moments, events }
    }

    /// Keeps the posterior of some minibatches, ever fewer as the run goes on.
    fn remember(&mut self, before: u64, central: &Central<AnyFamily, AnyProcess>) {
        let Some(waiting) = &mut self.waiting else { return };
        let moment = |minibatch: u64| (MOMENTS_PER_DECADE * (minibatch as f64).log10()).floor();
        if before > 0 && moment(self.minibatches) == moment(before) {
            return;
        }
        let snapshot = central.snapshot();
        let numbers = snapshot.components().len() * snapshot.family().n_features();
        if self.waiting_numbers + numbers <= WAITING_NUMBERS {
            self.waiting_numbers += numbers;
            waiting.push((self.minibatches, snapshot));
        }
    }

    fn record(&mut self, event: &Event, central: &Central<AnyFamily, AnyProcess>) {
        let before = self.minibatches;
        self.rows += event.rows;
        let learned = match self.counting {
            Counting::Events => {
                self.minibatches += 1;
                (event.mass.round() as u64).saturating_sub(self.rows_before)
            }
            Counting::Names => {
                self.minibatches = event.batch.0 + 1;
                self.rows
            }
        };
        self.provenance.matchings += event.absorbed.matchings;
        self.provenance.conflicts += event.absorbed.conflicts;
        self.progress.update(learned, event.components);
        self.remember(before, central);
        self.events.more(self.clock.seconds(), central);
        self.write_model(central);
        self.trace.add(TraceRow {
            seconds: self.clock.seconds(),
            minibatch: self.minibatches,
            components: event.components as u64,
            matchings: self.provenance.matchings,
            conflicts: self.provenance.conflicts,
            test_log_likelihood: None,
        });
        if let Some(checkpoints) = self.checkpoints.as_mut().filter(|checkpoints| checkpoints.due()) {
            let (fold, memory) = central.state();
            let reading = self.log.reading(fold.absorbed());
            let model = finalised(Model { fold, provenance: self.provenance.clone() });
            let save = |path: &Path| model.save_checkpoint(path, &memory, &reading);
            checkpoints.save_on_the_way(&self.progress, save);
        }
    }
}

impl Observer<AnyFamily, AnyProcess> for Watch<'_> {
    fn observe(&mut self, event: &Event, central: &Central<AnyFamily, AnyProcess>) -> Flow {
        self.record(event, central);
        if stop::asked() {
            self.stopped = true;
            return Flow::Stop;
        }
        Flow::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_on_the_way_are_scored_only_for_those_who_will_see_it() {
        let nobody = OutputArgs::default();
        let traced = OutputArgs { trace: Some("trace.csv".into()), ..OutputArgs::default() };
        let reported = OutputArgs { report: Some("report".into()), ..OutputArgs::default() };
        assert_eq!(Evaluation::wanted(true, &nobody), Evaluation::None);
        assert_eq!(Evaluation::wanted(true, &traced), Evaluation::Wanted);
        assert_eq!(Evaluation::wanted(true, &reported), Evaluation::Wanted);
        assert_eq!(Evaluation::wanted(false, &traced), Evaluation::None);
    }
}
