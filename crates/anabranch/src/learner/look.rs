//! Looking at a run costs what the rows since the last look cost, and what was shown keeps its name.
//!
//! ```text
//! rows ──▶ run ──(a copy, ended as a run ends)──▶ shown ──rows since──▶ shown ──rows since──▶ …
//!           └────(again, when the rows have grown by a sixteenth)──▶ shown, with the names of before
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::central::{BatchId, Central, Fold, Memory, Moment};
use crate::engine::{self, Config};
use crate::family::Family;
use crate::identify::ComponentId;
use crate::posterior::{Posterior, Predictor};
use crate::process::Process;

/// A model that was shown is brought up to date until the rows have grown by this part of them.
const GROWTH: f64 = 1.0 / 16.0;

/// Rows since the last look that are kept for the next one, at most.
const MOST_ROWS: usize = 20_000;

/// What was shown to whoever looked last.
#[derive(Debug)]
pub struct Shown<F, P> {
    centre: Central<F, P>,
    /// Rows when it was ended, by weight.
    ended: f64,
    /// Rows that it has learned since.
    since: f64,
    names: Names,
}

impl<F: Family, P: Process> Shown<F, P> {
    /// Shows a copy of a run that has been ended. `run` is what it is a copy of, if the first minibatch of that is complete:
    /// its components keep their ids. `before` is what was shown last.
    pub fn new(ended: Central<F, P>, run: Option<&Central<F, P>>, before: Option<&Self>) -> Self {
        let next = run.map_or(0, |run| run.checkpoint().next_id());
        let names = before.map(|before| before.names.clone()).unwrap_or_default();
        Self { ended: ended.snapshot().mass(), since: 0.0, names: names.of(&ended, next), centre: ended }
    }

    /// Whether as many rows more can be learned by what was shown; else the run is to be ended again.
    pub fn takes(&self, rows: usize) -> bool {
        rows <= MOST_ROWS && self.since + rows as f64 <= GROWTH * self.ended
    }

    /// Learns the rows that came since, as minibatches of so many rows; `at` says when they were, where that matters.
    pub fn catch_up(&mut self, rows: &Batch, minibatch_rows: usize, at: Option<Moment>, config: &Config) {
        // The run itself looks after the model; what is shown is ended anew before it has grown much.
        let config = Config { upkeep: false, ..config.clone() };
        let next = self.centre.checkpoint().absorbed().next();
        let mut source = Named { minibatches: rows.pieces(minibatch_rows), next, first: next, at };
        engine::run(&self.centre, &mut source, &config, &mut ()).unwrap_or_else(|never| match never {});
        self.since += rows.mass();
        self.names.add(&self.centre.snapshot());
    }

    /// Everything that it takes to show it again.
    pub fn keep(&self) -> (Fold<F, P>, Memory, Kept) {
        let (fold, memory) = self.centre.state();
        (fold, memory, Kept { ended: self.ended, since: self.since, names: self.names.clone() })
    }

    /// Shows again what was kept.
    pub fn restore(fold: Fold<F, P>, memory: Memory, Kept { ended, since, names }: Kept) -> Self {
        Self { centre: Central::from_fold(fold).with_memory(memory), ended, since, names }
    }

    /// The model, with its components under the ids that they have in it.
    pub fn centre(&self) -> &Central<F, P> {
        &self.centre
    }

    /// The posterior with its components under their names.
    pub fn posterior(&self) -> Arc<Posterior<F, P>> {
        match self.names.are_ids() {
            true => self.centre.snapshot(),
            false => Arc::new(self.fold().posterior().clone()),
        }
    }

    /// The same with the minibatches that it has learned.
    pub fn fold(&self) -> Fold<F, P> {
        let fold = self.centre.checkpoint();
        match self.names.are_ids() {
            true => fold,
            false => fold.renamed(&self.names.shown, self.names.next),
        }
    }
}

/// What is stored of what was shown, besides its state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    ended: f64,
    since: f64,
    names: Names,
}

/// Minibatches that are named from `next` on.
struct Named<I> {
    minibatches: I,
    next: u64,
    first: u64,
    /// When they were. What older ones of all their rows have faded by is told with the first of them.
    at: Option<Moment>,
}

impl<I: Iterator<Item = Batch> + Send> engine::BatchSource for Named<I> {
    type Batch = Batch;
    type Error = std::convert::Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, Batch)>, Self::Error> {
        let id = BatchId(self.next);
        self.next += 1;
        Ok(self.minibatches.next().map(|minibatch| (id, minibatch)))
    }

    fn clock(&self) -> Option<f64> {
        self.at.map(|at| at.clock)
    }

    fn faded(&self) -> f64 {
        self.at.filter(|_| self.next == self.first + 1).map_or(0.0, |at| at.faded)
    }
}

/// What components are called when somebody looks: a name that was shown is never used for anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Names {
    /// The names of the components that are shown.
    shown: BTreeMap<ComponentId, ComponentId>,
    /// The names of components of the run that were ever shown.
    lasting: BTreeMap<ComponentId, ComponentId>,
    /// The names under which each remembered row was shown first and last, by the row's key.
    rows: Vec<(u64, [ComponentId; 2])>,
    /// The first name that nobody ever had.
    next: u64,
}

impl Names {
    /// Whether everybody is called by their id.
    fn are_ids(&self) -> bool {
        self.shown.iter().all(|(id, name)| id == name)
    }

    /// The names in a model that was ended anew. Components of the run, whose ids are below `of_run`, have theirs; another one
    /// has the name under which most of its rows were shown first, if most of the rows of that name are its, or else the name
    /// under which they were shown last.
    fn of<F: Family, P: Process>(mut self, ended: &Central<F, P>, of_run: u64) -> Self {
        let now = ended.snapshot();
        let ids: Vec<ComponentId> = now.components().iter().map(|c| c.id()).collect();
        let kept = |id: &ComponentId| self.lasting.get(id).filter(|_| id.0 < of_run).map(|name| (*id, *name));
        let mut named: BTreeMap<ComponentId, ComponentId> = ids.iter().filter_map(kept).collect();
        let strangers = ids.iter().any(|id| id.0 >= of_run);
        let unnamed = named.len() < ids.len() && !self.rows.is_empty();
        let rows = if strangers || unnamed { labels(ended, &now) } else { Vec::new() };
        let before: BTreeMap<u64, [ComponentId; 2]> = self.rows.iter().copied().collect();
        let mut taken: BTreeSet<ComponentId> = self.lasting.values().copied().collect();
        for shown in 0..if unnamed { 2 } else { 0 } {
            let pairs = rows.iter().filter_map(|(key, is)| Some((before.get(key)?[shown], *is)));
            let free =
                |(name, is): &(ComponentId, ComponentId)| !taken.contains(name) && !named.contains_key(is);
            let found = best_matches(pairs.filter(free));
            for (name, is) in found {
                taken.insert(name);
                named.insert(is, name);
            }
        }
        for id in ids {
            named.entry(id).or_insert_with(|| self.fresh(id));
        }
        if !rows.is_empty() {
            let names = |(key, id): &(u64, ComponentId)| {
                let last = named[id];
                (*key, [before.get(key).map_or(last, |names| names[0]), last])
            };
            self.rows = rows.iter().map(names).collect();
        }
        self.lasting.extend(named.range(..ComponentId(of_run)).map(|(id, name)| (*id, *name)));
        self.shown = named;
        self
    }

    /// Names those who have been born since.
    fn add<F: Family, P: Process>(&mut self, posterior: &Posterior<F, P>) {
        let before = std::mem::take(&mut self.shown);
        for id in posterior.components().iter().map(|c| c.id()) {
            let name = before.get(&id).copied().unwrap_or_else(|| self.fresh(id));
            self.shown.insert(id, name);
        }
    }

    /// A name that nobody had: the id, where it is one.
    fn fresh(&mut self, id: ComponentId) -> ComponentId {
        let name = id.0.max(self.next);
        self.next = name + 1;
        ComponentId(name)
    }
}

/// Pairs that are each other's most frequent partner.
fn best_matches(pairs: impl Iterator<Item = (ComponentId, ComponentId)>) -> Vec<(ComponentId, ComponentId)> {
    let mut shared: BTreeMap<(ComponentId, ComponentId), usize> = BTreeMap::new();
    for pair in pairs {
        *shared.entry(pair).or_default() += 1;
    }
    let mut best: (BTreeMap<_, (usize, _)>, BTreeMap<_, (usize, _)>) = Default::default();
    for (&(was, is), &rows) in &shared {
        let most = best.0.entry(was).or_insert((0, is));
        *most = (*most).max((rows, is));
        let most = best.1.entry(is).or_insert((0, was));
        *most = (*most).max((rows, was));
    }
    let mutual = |(was, is): &(ComponentId, ComponentId)| best.0[was].1 == *is && best.1[is].1 == *was;
    shared.into_keys().filter(mutual).collect()
}

/// The components of the remembered rows, with the keys of these.
fn labels<F: Family, P: Process>(
    remembers: &Central<F, P>,
    posterior: &Posterior<F, P>,
) -> Vec<(u64, ComponentId)> {
    let (memory, predictor) = (remembers.memory(), Predictor::new(posterior));
    memory.sample().filter_map(|(key, row)| Some((key, predictor.label(row)?))).collect()
}
