//! From sums to what the engine would show: a central posterior, an event, and the wish to stop.

use std::collections::BTreeMap;

use anabranch::central::{Absorbed, BatchId, BatchSet, Central, Fold};
use anabranch::engine::{Event, Flow, Observer};
use anabranch::family::Family;
use anabranch::identify::ComponentId;
use anabranch::posterior::{Component, Evidence, Parts, Posterior};
use anabranch::process::Dirichlet;

use crate::totals::Totals;
use crate::{FitError, Fitted};

/// Components that hold less than this are not in the model: together they are below the rounding of the mass.
const NOTHING: f64 = 1e-12;

/// Steps that always report; after them a step reports at least once in this share of the steps so far.
const EVERY_STEP: u64 = 64;
const SHARE: u64 = 64;

/// The components of one moment.
pub(crate) struct State<'s> {
    pub(crate) totals: &'s Totals,
    /// Name of each component.
    pub(crate) ids: &'s [u64],
    /// The name that the next component would get.
    pub(crate) next_id: u64,
    /// Number of rows that the sums stand for.
    pub(crate) mass: f64,
}

/// A run in progress.
pub(crate) struct Run<'a, F> {
    pub(crate) family: &'a F,
    pub(crate) process: Dirichlet,
    observer: &'a mut dyn Observer<F, Dirichlet>,
    steps: u64,
    rows_since: u64,
    next_report: u64,
    shown: u64,
}

impl<'a, F: Family> Run<'a, F> {
    pub(crate) fn new(
        family: &'a F,
        process: Dirichlet,
        observer: &'a mut dyn Observer<F, Dirichlet>,
    ) -> Self {
        Self { family, process, observer, steps: 0, rows_since: 0, next_report: 1, shown: 0 }
    }

    /// Ends a step that looked at this many rows, and shows it to the observer if that is due.
    pub(crate) fn step(&mut self, rows: usize, state: &State<'_>) -> Result<Flow, FitError> {
        if self.tick(rows) { self.show(state) } else { Ok(Flow::Continue) }
    }

    /// Ends a step that looked at this many rows. False when steps follow each other too fast to show each of them: a
    /// posterior is dear beside a small minibatch.
    pub(crate) fn tick(&mut self, rows: usize) -> bool {
        self.steps += 1;
        self.rows_since += rows as u64;
        self.steps >= self.next_report
    }

    /// Shows the state after the last step to the observer.
    pub(crate) fn show(&mut self, state: &State<'_>) -> Result<Flow, FitError> {
        self.shown = self.steps;
        self.next_report =
            self.steps + if self.steps < EVERY_STEP { 1 } else { (self.steps / SHARE).min(SHARE) };
        let fold = self.fold(state)?;
        let posterior = fold.posterior();
        let event = Event {
            batch: BatchId(self.steps - 1),
            rows: std::mem::take(&mut self.rows_since),
            version: posterior.version(),
            components: posterior.components().len(),
            mass: posterior.mass(),
            absorbed: Absorbed { counted: true, ..Absorbed::default() },
        };
        Ok(self.observer.observe(&event, &Central::from_fold(fold)))
    }

    /// The end of the run. The observer sees the last step in any case.
    pub(crate) fn finish(&mut self, state: &State<'_>, objective: Vec<f64>) -> Result<Fitted<F>, FitError> {
        if self.shown < self.steps {
            self.show(state)?;
        }
        Ok(Fitted { fold: self.fold(state)?, objective })
    }

    fn fold(&self, state: &State<'_>) -> Result<Fold<F, Dirichlet>, FitError> {
        let mut order: Vec<usize> =
            (0..state.ids.len()).filter(|ix| state.totals.labels[*ix].expected_count > NOTHING).collect();
        order.sort_by_key(|ix| state.ids[*ix]);
        let components = order.into_iter().map(|ix| {
            let evidence = Evidence { stats: state.totals.of(ix).to_vec(), labels: state.totals.labels[ix] };
            Component::new(ComponentId(state.ids[ix]), 0, evidence)
        });
        let posterior = Posterior::restore(Parts {
            version: self.steps,
            family: self.family.clone(),
            process: self.process,
            components: components.collect(),
            redirects: BTreeMap::new(),
            mass: state.mass,
        })?;
        let mut absorbed = BatchSet::default();
        if let Some(last) = self.steps.checked_sub(1) {
            absorbed = BatchSet::from_runs(vec![(0, last)]).expect("one run is in order");
        }
        Ok(Fold::resume(posterior, absorbed, state.next_id, 0))
    }
}
