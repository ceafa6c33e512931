//! The course of a run whose data come in pieces, whatever is learned: the first minibatch alone, then full minibatches as
//! data come, and its end on a copy, for whoever looks.
//!
//! ```text
//! data ──▶ waiting ──full minibatches──▶ centre            (`learn`)
//!             └──what is left──▶ a copy of the centre       (`ended`), ended as a run ends
//! ```

use std::fmt;
use std::sync::Arc;

use super::run::{Centre, Run};
use crate::batch::Minibatch;
use crate::central::{BatchId, Central, Fold, Memory};
use crate::engine::{BatchSource, Config, Flow, Observer};
use crate::family::{Conjugate, PriorError};
use crate::infer::Inference;
use crate::process::Process;

/// What makes the family of the first data.
pub type Maker<F, B> = dyn Fn(&B) -> Result<F, PriorError> + Send + Sync;

/// A run whose data come in pieces: how they were cut into pieces does not matter.
///
/// ```
/// use anabranch::documents::Documents;
/// use anabranch::engine::Config;
/// use anabranch::family::Topic;
/// use anabranch::infer::TopicSettings;
/// use anabranch::learner::course::Course;
/// use anabranch::process::{Bound, Hierarchical};
///
/// let family = |first: &Documents| Topic::new(first.n_words(), 0.05);
/// let process = Hierarchical::new(1.0, 1.0, Bound::Paper)?;
/// let config = Config { bootstrap_rows: 40, ..Config::new(TopicSettings::default()) };
/// let mut course = Course::new(family, process, config, 10);
/// for day in 0..5 {
///     // Documents of two kinds: words 0, 1, 2 or words 3, 4, 5.
///     let document = |ix: u32| (0..3).map(|w| (3 * (ix % 2) + w, f64::from(1 + (ix + day + w) % 3))).collect();
///     course.learn(&Documents::new(6, (0..13).map(document))?, &mut ())?;
/// }
/// assert_eq!((course.minibatches(), course.waiting()), (3, 5));
/// let ended = course.ended()?.expect("there are documents");
/// assert_eq!(ended.snapshot().mass(), 5.0 * 13.0 * 6.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Course<F, P, I: Inference<F, P>>
where
    F: Conjugate,
    P: Process,
{
    family: Arc<Maker<F, I::Batch>>,
    process: P,
    config: Config<I>,
    minibatch_rows: usize,
    /// Data that do not make a minibatch yet.
    waiting: Option<I::Batch>,
    /// `None` until the first minibatch is complete.
    centre: Option<Arc<Centre<F, P, I>>>,
    /// The name of the next minibatch: so many have joined.
    next: u64,
    /// Minibatches after which the run has been ended already.
    ended: u64,
    watched: bool,
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> Clone for Course<F, P, I> {
    /// Who looks at a copy while the run goes on sees one state of it; the centre is the same.
    fn clone(&self) -> Self {
        Self {
            family: Arc::clone(&self.family),
            process: self.process.clone(),
            config: self.config.clone(),
            minibatch_rows: self.minibatch_rows,
            waiting: self.waiting.clone(),
            centre: self.centre.clone(),
            next: self.next,
            ended: self.ended,
            watched: self.watched,
        }
    }
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> fmt::Debug for Course<F, P, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Course")
            .field("config", &self.config)
            .field("minibatches", &self.next)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// A first minibatch that is complete: owned, so that it can be learned from on a thread that nobody waits for.
#[derive(Debug)]
pub struct First<F, P, I: Inference<F, P>>
where
    F: Conjugate,
    P: Process,
{
    run: Run<F, P, I>,
    batch: I::Batch,
    rows: usize,
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> First<F, P, I> {
    /// Learns from it, alone.
    pub fn learn(self, observer: &mut dyn Observer<F, P, I::Batch>) -> Begun<F, P, I> {
        let Self { run, batch, rows } = self;
        let Ok(flow) = run.begin(&mut std::iter::once(batch).enumerate(), observer);
        Begun { centre: Arc::clone(run.centre()), rows, flow }
    }
}

/// What a first minibatch has made.
#[derive(Debug)]
pub struct Begun<F, P, I: Inference<F, P>>
where
    F: Conjugate,
    P: Process,
{
    /// The posterior with the first minibatch in it.
    pub centre: Arc<Centre<F, P, I>>,
    rows: usize,
    flow: Flow,
}

/// Full minibatches of what waits.
struct Cutter<'a, B> {
    data: &'a B,
    at: usize,
    rows: usize,
    next: &'a mut u64,
}

impl<B: Minibatch> BatchSource for Cutter<'_, B> {
    type Batch = B;
    type Error = std::convert::Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, B)>, Self::Error> {
        let to = self.at + self.rows.max(1);
        if to > self.data.n_rows() {
            return Ok(None);
        }
        let (id, batch) = (BatchId(*self.next), self.data.part(self.at..to));
        (self.at, *self.next) = (to, *self.next + 1);
        Ok(Some((id, batch)))
    }
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> Course<F, P, I> {
    /// A run that has learned nothing yet, with minibatches of so many rows after the first.
    pub fn new(
        family: impl Fn(&I::Batch) -> Result<F, PriorError> + Send + Sync + 'static,
        process: P,
        config: Config<I>,
        minibatch_rows: usize,
    ) -> Self {
        let family: Arc<Maker<F, I::Batch>> = Arc::new(family);
        let (waiting, centre, next, ended) = (None, None, 0, 0);
        let (minibatch_rows, watched) = (minibatch_rows.max(1), false);
        Self { family, process, config, minibatch_rows, waiting, centre, next, ended, watched }
    }

    /// The same, whose centre notes what becomes of components: whoever observes takes that away.
    pub fn watching(self) -> Self {
        Self { watched: true, ..self }
    }

    /// Goes on from what was learned before. `ended` says that the run which learned it has ended: what comes now is new.
    pub fn going_on(mut self, fold: Fold<F, P>, memory: Memory<I::Batch>, ended: bool) -> Self {
        self.next = fold.absorbed().next();
        self.ended = if ended { self.next } else { 0 };
        let (aside, familiarity) = (fold.aside(), fold.posterior().familiarity());
        let fold = if ended { fold.within(0, aside, familiarity) } else { fold };
        self.centre = Some(self.watched(Central::from_fold(fold).with_memory(memory)));
        self
    }

    fn run(&self, centre: &Arc<Centre<F, P, I>>) -> Run<F, P, I> {
        Run::new(Arc::clone(centre), self.config.clone())
    }

    fn watched(&self, centre: Centre<F, P, I>) -> Arc<Centre<F, P, I>> {
        Arc::new(if self.watched { centre.watching() } else { centre })
    }

    /// How the run is carried out.
    pub fn config(&self) -> &Config<I> {
        &self.config
    }

    /// The same, to be changed: threads change no result, and the rest from the next minibatch on.
    pub fn config_mut(&mut self) -> &mut Config<I> {
        &mut self.config
    }

    /// Minibatches that have joined.
    pub fn minibatches(&self) -> u64 {
        self.next
    }

    /// Whether the run has been ended since the last minibatch joined.
    pub fn has_ended(&self) -> bool {
        self.next == self.ended
    }

    /// Data that wait for a full minibatch.
    pub fn waiting(&self) -> usize {
        self.waiting.as_ref().map_or(0, Minibatch::n_rows)
    }

    /// The same themselves.
    pub fn waiting_data(&self) -> Option<&I::Batch> {
        self.waiting.as_ref()
    }

    /// The posterior, once the first minibatch is in it.
    pub fn centre(&self) -> Option<&Arc<Centre<F, P, I>>> {
        self.centre.as_ref()
    }

    /// Rows of the first minibatch, learned alone or not.
    fn first_rows(&self) -> usize {
        if self.config.bootstrap_rows > 0 { self.config.bootstrap_rows } else { self.minibatch_rows }
    }

    /// Adds data to those that wait; nothing is learned yet.
    pub fn add(&mut self, data: &I::Batch) {
        match &mut self.waiting {
            _ if data.n_rows() == 0 => {}
            Some(waiting) => waiting.append(data),
            None => self.waiting = Some(data.clone()),
        }
    }

    /// Forgets the last data that wait, and so many wait still.
    pub fn take_back(&mut self, rows: usize) {
        self.waiting =
            self.waiting.take().map(|waiting| waiting.part(0..rows)).filter(|rest| rest.n_rows() > 0);
    }

    /// The first minibatch, if it is complete and is to be learned alone.
    pub fn first(&mut self) -> Result<Option<First<F, P, I>>, PriorError> {
        let rows = self.first_rows();
        match &self.waiting {
            Some(waiting) if self.centre.is_none() && waiting.n_rows() >= rows => {
                let first = self.begin(waiting.part(0..rows))?;
                if self.config.bootstrap_rows > 0 {
                    return Ok(Some(first));
                }
                self.centre = Some(Arc::clone(first.run.centre()));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn begin(&self, batch: I::Batch) -> Result<First<F, P, I>, PriorError> {
        let central = Central::new((self.family)(&batch)?, self.process.clone());
        let centre = self.watched(central.with_memory(Memory::default()));
        let rows = batch.n_rows();
        Ok(First { run: self.run(&centre), batch, rows })
    }

    /// Goes on with what the first minibatch has made.
    pub fn begun(&mut self, begun: Begun<F, P, I>) -> Flow {
        let Begun { centre, rows, flow } = begun;
        (self.centre, self.next) = (Some(centre), 1);
        self.drop_first(rows);
        flow
    }

    fn drop_first(&mut self, rows: usize) {
        let rest = self.waiting.take().map(|waiting| waiting.part(rows..waiting.n_rows()));
        self.waiting = rest.filter(|rest| rest.n_rows() > 0);
    }

    /// Learns from every full minibatch that waits.
    pub fn go_on(&mut self, observer: &mut dyn Observer<F, P, I::Batch>) {
        let (Some(centre), Some(waiting)) = (&self.centre, &self.waiting) else { return };
        if waiting.n_rows() < self.minibatch_rows {
            return;
        }
        let mut cutter = Cutter { data: waiting, at: 0, rows: self.minibatch_rows, next: &mut self.next };
        let Ok(()) = Run::new(Arc::clone(centre), self.config.clone()).stream(&mut cutter, observer);
        let rows = cutter.at;
        self.drop_first(rows);
    }

    /// Learns from data; those that do not fill a minibatch wait for the next ones. Data whose first minibatch makes no
    /// prior are refused, and nothing has changed.
    pub fn learn(
        &mut self,
        data: &I::Batch,
        observer: &mut dyn Observer<F, P, I::Batch>,
    ) -> Result<(), PriorError> {
        let before = self.waiting();
        self.add(data);
        match self.first() {
            Ok(Some(first)) => {
                let begun = first.learn(observer);
                if self.begun(begun) == Flow::Stop {
                    return Ok(());
                }
            }
            Ok(None) => {}
            Err(error) => {
                self.take_back(before);
                return Err(error);
            }
        }
        self.go_on(observer);
        Ok(())
    }

    /// A copy of the centre that has learned the data that wait, ended as a run ends; `None` before the first datum.
    pub fn ended(&self) -> Result<Option<Centre<F, P, I>>, PriorError> {
        let centre = self.centre.as_ref().map(|centre| Arc::new(centre.fork()));
        let mut copy = Self { centre, watched: false, ..self.clone() };
        copy.end_pass(&mut ())?;
        Ok(copy.centre.map(|centre| Arc::into_inner(centre).expect("nobody else has seen it")))
    }

    /// Ends the run for good: what waits is learned from, and what comes after that is new.
    pub fn end(&mut self, observer: &mut dyn Observer<F, P, I::Batch>) -> Result<(), PriorError> {
        self.end_pass(observer)?;
        self.leave();
        Ok(())
    }

    /// Leaves a pass where it is: what waits was learned from in an earlier one, and what comes now is new.
    pub fn leave(&mut self) {
        self.waiting = None;
        if let Some((fold, memory)) = self.centre.take().map(|centre| centre.state()) {
            *self = self.clone().going_on(fold, memory, true);
        }
    }

    /// Ends a pass and begins another one over the same data, whose evidence takes the place of what they said before.
    pub fn again(&mut self, observer: &mut dyn Observer<F, P, I::Batch>) -> Result<(), PriorError> {
        self.end_pass(observer)?;
        if let Some(centre) = &self.centre {
            self.run(centre).again();
            (self.next, self.ended) = (0, 0);
        }
        Ok(())
    }

    fn end_pass(&mut self, observer: &mut dyn Observer<F, P, I::Batch>) -> Result<(), PriorError> {
        if let (None, Some(waiting)) = (&self.centre, self.waiting.clone()) {
            let first = self.begin(waiting)?;
            if self.config.bootstrap_rows > 0 {
                let begun = first.learn(observer);
                self.begun(begun);
            } else {
                self.centre = Some(Arc::clone(first.run.centre()));
            }
        }
        let Some(run) = self.centre.as_ref().map(|centre| self.run(centre)) else { return Ok(()) };
        // What waits is a last, short minibatch.
        if let Some(data) = &self.waiting {
            let mut cutter = Cutter { data, at: 0, rows: data.n_rows(), next: &mut self.next };
            let Ok(()) = run.stream(&mut cutter, observer);
        }
        self.waiting = None;
        if !self.has_ended() {
            run.end();
        }
        Ok(())
    }
}
