//! What has been learned, and how rows are added to it.
//!
//! ```text
//! rows ──▶ buffer ──full minibatches──▶ centre          (`Learned::learn`)
//!             └──what is left──▶ a copy of the centre    (`Learned::look`), ended as a run ends, for whoever looks
//! ```
//!
//! Looking never changes what will be learned: rows handed over in pieces give the same model as all of them at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch::batch::Minibatch;
use anabranch::central::{BatchSet, Central, Change, Fold, Memory};
use anabranch::clusters::Cut;
use anabranch::engine::{self, Event, Flow, Observer};
use anabranch::family::{AnyFamily, Conjugate};
use anabranch::infer::PriorChoice;
use anabranch::learner::look::Shown;
use anabranch::learner::run::Run;
use anabranch::process::{AnyProcess, Process};
use anabranch_io::model::{Model, Provenance};
use anabranch_io::{InputRead, Schema, Seen};
use crossbeam_channel::Sender;
use serde::{Deserialize, Serialize};

use crate::drive::first_unless_stopped;
use crate::error::Fault;
use crate::options::Options;
use crate::rows::{Buffer, Edge, Taken, joined};
use crate::stream::{Cutter, Noted, One, RowStream, claim};

/// The central posterior of an estimator.
pub type Centre = Central<AnyFamily, AnyProcess>;

/// A minibatch has joined, and what has become of components since the last one.
pub type Happened = (Event, Vec<Change>);

/// What rows from Python are called, and when they were.
const ROWS: &str = "rows";
const TIME: &str = "time";

/// How long the wish to stop may go unnoticed.
pub const TICK: Duration = Duration::from_millis(50);

/// Everything that an estimator knows.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The columns.
    pub schema: Schema,
    /// `None` until the first minibatch is complete.
    pub centre: Option<Arc<Centre>>,
    /// Rows that do not make a full minibatch yet.
    pub buffer: Buffer,
    /// The column that says when rows were, where they fade by that.
    pub time: Option<String>,
    /// Names of minibatches that are taken.
    pub taken: BatchSet,
    /// Counts over all minibatches.
    pub tally: Tally,
    /// Minibatches that the model had when it was read from a file: the run that wrote it has ended.
    pub ended: u64,
    /// What it was learned from before.
    pub learned_from: Vec<InputRead>,
    /// What it is learned from now.
    pub seen: Seen,
    /// Whether the model file said that its prior was given.
    pub prior_given: bool,
    /// How its clusters are cut, as the model file said.
    pub cut: Cut,
    /// What was shown last, whichever copy of this was looked at.
    looking: Arc<Mutex<Looking>>,
    /// Rows noted there, of those that are here.
    noted: u64,
}

/// What was shown last, and the rows since.
#[derive(Debug, Default)]
struct Looking {
    /// Rows noted, now.
    rows: u64,
    look: Option<Look>,
}

#[derive(Debug)]
struct Look {
    shown: Shown<AnyFamily, AnyProcess>,
    tally: Tally,
    /// `None` when it cannot be brought up to date: too many rows came, or something else.
    since: Option<Buffer>,
    /// Whether somebody has really seen it, and its names.
    named: bool,
}

/// Who looks at a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looker {
    /// Somebody who sees the names of its components.
    User,
    /// Somebody who only wants to know that there is one.
    Nobody,
}

impl Look {
    /// Learns from the rows since; false when they cannot be learned from.
    fn catch_up(&mut self, learned: &Learned, options: &Options) -> bool {
        let Some(since) = &mut self.since else { return false };
        if since.rows == 0 {
            return true;
        }
        let posterior = self.shown.centre().snapshot();
        let (schema, before, fades) = (&learned.schema, self.tally.rows, options.fades());
        let edge = Edge { schema, family: posterior.family(), before, fades };
        let Ok((batch, at)) = since.take(&edge) else {
            self.since = None;
            return false;
        };
        self.tally.rows += batch.n_rows() as u64;
        self.shown.catch_up(&batch, options.engine.batch_size, at, &learned.config(options));
        true
    }
}

impl Looking {
    /// Notes the rows of the buffer behind so many.
    fn note(&mut self, buffer: &Buffer, before: usize, columns: usize) {
        let rows = buffer.rows - before;
        self.rows += rows as u64;
        let Some(Look { shown, since, .. }) = &mut self.look else { return };
        *since = since.take().filter(|since| shown.takes(since.rows + rows));
        if let Some(since) = since {
            since.push_from(buffer, before, buffer.rows, columns);
        }
    }

    /// Something else than rows has changed what will be shown.
    fn outdate(&mut self) {
        self.look.iter_mut().for_each(|look| look.since = None);
    }
}

/// Counts over minibatches.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Rows absorbed.
    pub rows: u64,
    /// Assignment problems solved.
    pub matchings: u64,
    /// Entries that had to be identified again.
    pub conflicts: u64,
}

impl Tally {
    pub fn add(&mut self, event: &Event) {
        self.rows += if event.absorbed.counted { event.rows } else { 0 };
        self.matchings += event.absorbed.matchings;
        self.conflicts += event.absorbed.conflicts;
    }
}

/// What the threads of a run share with the thread that waits for them.
pub struct Wires<'a> {
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    /// Told of the centre as soon as there is one; says who wants to hear of minibatches. Nobody can hear of one before
    /// the centre can be looked at.
    pub announce: &'a (dyn Fn(&Arc<Centre>) -> Option<Sender<Happened>> + Sync),
}

/// Counts minibatches, passes them on, and listens to the wish to stop.
pub struct Watch<'a> {
    pub tally: &'a mut Tally,
    pub stop: &'a AtomicBool,
    pub events: Option<Sender<Happened>>,
}

impl<F: Conjugate, P: Process, B: Minibatch> Observer<F, P, B> for Watch<'_> {
    fn observe(&mut self, event: &Event, centre: &Central<F, P, B>) -> Flow {
        self.tally.add(event);
        // They are taken also where nobody listens: they would be kept for ever.
        let changes = centre.take_changes();
        if let Some(events) = &self.events {
            // Whoever listens outlives the run.
            let _ = events.send((*event, changes));
        }
        if self.stop.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    }
}

impl Learned {
    /// Nothing yet.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            centre: None,
            buffer: Buffer::default(),
            time: None,
            taken: BatchSet::default(),
            tally: Tally::default(),
            ended: 0,
            learned_from: Vec::new(),
            seen: Seen::new(ROWS),
            prior_given: false,
            cut: Cut::default(),
            looking: Arc::default(),
            noted: 0,
        }
    }

    /// Goes on from a model whose run has ended.
    pub fn from_model(model: Model) -> Self {
        let (ended, between) = (model.fold.absorbed().len(), model.provenance.between);
        let (model, memory) = model.going_on(Memory::default());
        Self { ended, ..Self::from_checkpoint(model, memory.with_between(between)) }
    }

    /// Goes on within a run.
    pub fn from_checkpoint(model: Model, memory: Memory) -> Self {
        let Model { fold, provenance } = model;
        Self {
            schema: provenance.schema,
            buffer: Buffer::default(),
            time: fold.posterior().past().time.clone(),
            taken: fold.absorbed().clone(),
            tally: Tally {
                rows: provenance.observations,
                matchings: provenance.matchings,
                conflicts: provenance.conflicts,
            },
            centre: Some(Arc::new(Central::from_fold(fold).with_memory(memory).watching())),
            ended: 0,
            learned_from: provenance.learned_from,
            seen: Seen::new(ROWS),
            prior_given: provenance.prior_given,
            cut: provenance.cut,
            looking: Arc::default(),
            noted: 0,
        }
    }

    fn looking(&self) -> MutexGuard<'_, Looking> {
        // Whoever panicked while he looked has left nothing half done: he works on a copy.
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was shown last is shown again.
    pub fn seen_by(&self, looker: Looker) {
        if let (Looker::User, Some(look)) = (looker, &mut self.looking().look) {
            look.named = true;
        }
    }

    /// What was shown has to be made anew: something else than rows has changed it.
    pub fn outdate(&self) {
        self.looking().outdate();
    }

    /// What was shown last with the rows since, if it can be brought up to date.
    pub fn last_shown<R>(
        &self,
        see: impl FnOnce(&Shown<AnyFamily, AnyProcess>, Tally, &Buffer) -> R,
    ) -> Option<R> {
        match &self.looking().look {
            Some(Look { shown, tally, since: Some(since), .. }) => Some(see(shown, *tally, since)),
            _ => None,
        }
    }

    /// Goes on with what was shown last.
    pub fn show_again(&self, shown: Shown<AnyFamily, AnyProcess>, tally: Tally, since: Buffer) {
        self.looking().look = Some(Look { shown, tally, since: Some(since), named: true });
    }

    /// Rows handed over so far.
    pub fn rows_seen(&self) -> u64 {
        self.tally.rows + self.buffer.rows as u64
    }

    /// Refuses times where rows have none, and rows without where they have. `time` is the name of those that come, empty where they
    /// have none.
    pub fn check_times(&self, time: Option<&str>, options: &Options) -> Result<(), Fault> {
        let refuse = |message: String, hint| Err(Fault::with_hint(message, Some(hint)));
        let by = |column: &Option<String>| {
            column.as_ref().map_or("when they came".to_owned(), |c| format!("{c:?}"))
        };
        match (options.fades(), &self.time, time) {
            (None, _, Some(_)) => refuse(
                "times go with a half-life that is a time".to_owned(),
                "say half_life=\"1h\", or leave times out",
            ),
            (None, _, None) | (Some(_), None, None) => Ok(()),
            _ if self.rows_seen() == 0 => Ok(()),
            (_, Some(column), None) => {
                refuse(format!("the rows of the model have faded by {column:?}"), "pass times")
            }
            (_, Some(column), Some(time)) if time.is_empty() || time == column => Ok(()),
            (_, before, Some(_)) => {
                let hint = if before.is_some() { "pass the times of that column" } else { "leave times out" };
                refuse(format!("times: the rows of the model have faded by {}", by(before)), hint)
            }
        }
    }

    /// Goes by these times from now on, if rows can.
    pub fn go_by(&mut self, time: Option<&str>, options: &Options) -> Result<(), Fault> {
        self.check_times(time, options)?;
        if self.rows_seen() == 0 {
            self.time = time.map(|time| if time.is_empty() { TIME } else { time }.to_owned());
        }
        Ok(())
    }

    /// How the model of these counts was made.
    pub fn provenance(&self, options: &Options) -> Provenance {
        let now = if self.seen.rows() > 0 { vec![self.seen.input()] } else { vec![] };
        Provenance {
            seed: options.engine.seed,
            bootstrap_rows: options.first_rows() as u64,
            batch_size: options.engine.batch_size as u64,
            observations: self.tally.rows,
            matchings: self.tally.matchings,
            conflicts: self.tally.conflicts,
            cut: self.cut,
            between: self.centre.as_ref().and_then(|centre| centre.between()),
            prior_given: self.config(options).prior == PriorChoice::Given,
            learned_from: InputRead::joined(self.learned_from.clone(), now),
            ..Provenance::new(self.schema.clone())
        }
    }

    /// How a run is carried out: a prior that was given stays.
    fn config(&self, options: &Options) -> engine::Config {
        let config = options.config();
        match self.prior_given {
            true => engine::Config { prior: PriorChoice::Given, ..config },
            false => config,
        }
    }

    /// Learns from every full minibatch of the stream and keeps the rest.
    pub fn learn(
        &mut self,
        stream: &mut dyn RowStream,
        options: &Options,
        wires: &Wires<'_>,
    ) -> Result<(), Fault> {
        let columns = self.schema.dimensions();
        let config = self.config(options);
        let mut seen = self.seen.clone();
        let looking = Arc::clone(&self.looking);
        let mut come = |buffer: &Buffer, before: usize| {
            seen.read(buffer.values[before * columns..].chunks_exact(columns.max(1)));
            looking.lock().unwrap_or_else(PoisonError::into_inner).note(buffer, before, columns);
        };
        let timed = options.fades().is_some();
        let stream: &mut dyn RowStream = &mut Noted { stream, come: &mut come, timed };
        let result = self.learn_noted(stream, config, options, wires);
        self.seen = seen;
        let noted = self.looking().rows;
        self.noted = noted;
        if result.is_err() || wires.stop.load(Ordering::Relaxed) {
            self.outdate();
        }
        result
    }

    fn learn_noted(
        &mut self,
        stream: &mut dyn RowStream,
        config: engine::Config,
        options: &Options,
        wires: &Wires<'_>,
    ) -> Result<(), Fault> {
        let columns = self.schema.dimensions();
        let mut first = None;
        if self.centre.is_none() {
            let first_rows = options.first_rows();
            let carried = self.buffer.rows;
            let filled = stream.fill(first_rows.saturating_sub(carried), &mut self.buffer);
            self.note_schema(stream);
            if filled.is_ok() && (self.buffer.rows < first_rows || wires.stop.load(Ordering::Relaxed)) {
                return Ok(());
            }
            let start = filled.and_then(|()| self.start(options));
            // Bad rows must not stand in the way of the next ones.
            let start = start.inspect_err(|_| self.buffer.truncate(carried, columns))?;
            if options.bootstrap_rows() > 0 {
                let Some((centre, tally, event)) = start.learn(wires.stop)? else { return Ok(()) };
                (self.centre, self.tally, self.buffer) = (Some(centre), tally, Buffer::default());
                claim(&mut self.taken);
                first = Some(event);
            } else {
                let Start { centre, .. } = start;
                self.centre = Some(centre);
            }
        }
        let Some(centre) = self.centre.clone() else { return Ok(()) };
        let events = (wires.announce)(&centre);
        if let (Some(events), Some(first)) = (&events, first) {
            let _ = events.send(first);
        }
        let before = self.tally.rows;
        let snapshot = centre.snapshot();
        let mut cutter = Cutter {
            stream,
            buffer: &mut self.buffer,
            schema: &self.schema,
            family: snapshot.family(),
            size: options.engine.batch_size,
            taken: &mut self.taken,
            before,
            fades: options.fades(),
            at: None,
            stop: wires.stop,
        };
        let mut watch = Watch { tally: &mut self.tally, stop: wires.stop, events };
        let result = Run::new(Arc::clone(&centre), config).stream(&mut cutter, &mut watch);
        self.note_schema(stream);
        result
    }

    /// Categories are found while files are read.
    fn note_schema(&mut self, stream: &dyn RowStream) {
        if let Some(schema) = stream.schema() {
            self.schema.clone_from(schema);
        }
    }

    /// The first minibatch is complete, or all there is: what is needed to learn from it.
    fn start(&self, options: &Options) -> Result<Start, Fault> {
        let spec = options.spec()?;
        let domain = spec.domain(&self.schema)?;
        let edge = Edge { schema: &self.schema, family: &domain, before: 0, fades: options.fades() };
        let (mut batch, at) = self.buffer.clone().take(&edge)?;
        // All there is: a row of weight 2 is the same as two rows. Rows of different times are not the same.
        if self.buffer.rows < options.first_rows() && at.is_none() {
            batch = joined(batch);
        }
        // What the columns are like does not depend on when their rows were.
        let whole = match at {
            Some(_) => &Buffer { times: None, ..self.buffer.clone() }.take(&edge)?.0,
            None => &batch,
        };
        let family = spec.build(whole, &self.schema, &options.prior())?;
        let fold = Fold::new(family, options.process()?).timed_by(self.time.clone());
        let centre = Arc::new(Central::from_fold(fold).watching());
        let config = options.config();
        Ok(Start { centre, config, batch: (batch, at), taken: self.taken.clone() })
    }

    /// Looks at the model with the rows of the buffer, as if the stream ended here. `None` when there are no rows.
    ///
    /// The end of a run looks at its first rows again and merges what the data do not support, as on the command line. That
    /// happens on a copy, which is brought up to date for as long as few rows come: the centre itself goes on as it is, and
    /// a model that has learned nothing since it was read stays as it was written.
    pub fn look<R>(
        &self,
        options: &Options,
        looker: Looker,
        see: impl FnOnce(&Shown<AnyFamily, AnyProcess>, Tally) -> R,
    ) -> Result<Option<R>, Fault> {
        let mut looking = self.looking();
        if let Some(look) = &mut looking.look
            && look.catch_up(self, options)
        {
            look.named |= looker == Looker::User;
            return Ok(Some(see(&look.shown, look.tally)));
        }
        let mut whole = self.clone();
        if let Some(centre) = &self.centre {
            whole.centre = Some(Arc::new(centre.fork()));
        }
        whole.flush(options)?;
        let Some(centre) = whole.centre.take() else { return Ok(None) };
        if whole.taken.len() > whole.ended {
            Run::new(Arc::clone(&centre), self.config(options)).end();
        }
        let before = looking.look.take().filter(|look| look.named);
        let named = before.is_some() || looker == Looker::User;
        let centre = Arc::into_inner(centre).expect("the copy has no other holder");
        let shown = Shown::new(centre, self.centre.as_deref(), before.as_ref().map(|look| &look.shown));
        let seen = see(&shown, whole.tally);
        // Rows that were noted meanwhile, while somebody else learned, are not in it.
        let since = (looking.rows == self.noted).then(Buffer::default);
        looking.look = Some(Look { shown, tally: whole.tally, since, named });
        Ok(Some(seen))
    }

    /// Learns from the rows of the buffer as a last, short minibatch.
    pub fn flush(&mut self, options: &Options) -> Result<(), Fault> {
        if self.buffer.rows == 0 {
            return Ok(());
        }
        let config = self.config(options);
        let (rows, before) = (self.buffer.rows as u64, self.tally.rows);
        let (centre, batch) = match &self.centre {
            Some(centre) => {
                let snapshot = centre.snapshot();
                let (schema, fades) = (&self.schema, options.fades());
                let edge = Edge { schema, family: snapshot.family(), before, fades };
                (Arc::clone(centre), self.buffer.clone().take(&edge)?)
            }
            None => {
                let Start { centre, batch, .. } = self.start(options)?;
                (centre, batch)
            }
        };
        let bootstrap = self.centre.is_none() && options.bootstrap_rows() > 0;
        let tally = &mut self.tally;
        let mut observer = |event: &Event, _: &Centre| {
            tally.add(event);
            Flow::Continue
        };
        let mut one = One::new(claim(&mut self.taken), batch);
        let run = Run::new(Arc::clone(&centre), config);
        let Ok(()) = match bootstrap {
            true => run.begin(&mut one, &mut observer).map(|_| ()),
            false => run.stream(&mut one, &mut observer),
        };
        self.tally.rows = before + rows;
        (self.centre, self.buffer) = (Some(centre), Buffer::default());
        Ok(())
    }

    /// What a file holds; `None` when there are no rows.
    pub fn model(&self, options: &Options) -> Result<Option<Model>, Fault> {
        self.look(options, Looker::User, |shown, Tally { rows, matchings, conflicts }| {
            let between = shown.centre().between();
            let counts = Provenance { observations: rows, matchings, conflicts, ..self.provenance(options) };
            Model { fold: shown.fold(), provenance: Provenance { between, ..counts } }
        })
    }

    /// The centre as it is, without the rows of the buffer, and what it remembers; `None` before there is one.
    pub fn checkpoint(&self, options: &Options) -> Option<(Model, Memory)> {
        let (fold, memory) = self.centre.as_ref()?.state();
        Some((Model { fold, provenance: self.provenance(options) }, memory))
    }
}

/// A first minibatch and where it goes.
struct Start {
    centre: Arc<Centre>,
    config: engine::Config,
    batch: Taken,
    taken: BatchSet,
}

impl Start {
    /// Learns from the first minibatch; `None` when the run is to stop.
    fn learn(self, stop: &AtomicBool) -> Result<Option<(Arc<Centre>, Tally, Happened)>, Fault> {
        let Self { centre, config, batch, mut taken } = self;
        let learned =
            first_unless_stopped(stop, move |observer: &mut dyn Observer<AnyFamily, AnyProcess>| {
                let run = Run::new(centre, config);
                let Ok(_) = run.begin(&mut One::new(claim(&mut taken), batch), observer);
                Arc::clone(run.centre())
            })?;
        Ok(learned.map(|(centre, event)| {
            let mut tally = Tally::default();
            tally.add(&event.0);
            (centre, tally, event)
        }))
    }
}
