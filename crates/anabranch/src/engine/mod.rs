//! Threads: one reader cuts the stream, workers infer, the central posterior absorbs; nobody waits for a slow peer.
//!
//! ```text
//! source ──bounded queue──▶ workers ──▶ central ──▶ events ──bounded queue──▶ observer (the calling thread)
//! ```
//!
//! `W` logical workers run on as many threads as there are: each holds one minibatch and the snapshot it took when it
//! picked the minibatch up, so that a machine of two cores shows what forty would do.

mod bootstrap;
mod free;
mod limit;
mod observer;
mod turnstile;
mod upkeep;

use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub use bootstrap::bootstrap;
pub use observer::{Event, Flow, Observer};
pub use upkeep::{Polishing, finish, finish_while, growth, is_due, tend};

use crate::batch::Minibatch;
use crate::central::{BatchId, Central, Flight, Moment};
use crate::family::Conjugate;
use crate::identify::Identification;
use crate::infer::{Increment, Inference, PriorChoice, Settings};
use crate::posterior::{HalfLife, Posterior};
use crate::process::Process;

/// When minibatches read and join the central posterior.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// In order, with as many in flight as hold a small share of what the posterior has seen, and as there are logical
    /// workers at most: the seed fixes the result on any number of threads.
    #[default]
    Growing,
    /// In order, with as many in flight as there are logical workers: the seed and their number fix the result on any
    /// number of threads.
    Deterministic,
    /// Each as soon as it can, and different from run to run.
    Free,
}

/// How a run is carried out, and which minibatch inference it carries out: that of mixtures unless told.
#[derive(Clone, Debug)]
pub struct Config<I = Settings> {
    /// Threads that infer.
    pub threads: usize,
    /// Logical workers.
    pub workers: usize,
    /// When minibatches join.
    pub schedule: Schedule,
    /// Seed of everything random, keyed further by minibatch.
    pub seed: u64,
    /// How components of different workers are identified.
    pub identification: Identification,
    /// Minibatch inference.
    pub inference: I,
    /// Whether the bootstrap estimates the prior.
    pub prior: PriorChoice,
    /// Rows of the first minibatch while the stream goes on: a shorter one is all there is.
    pub bootstrap_rows: usize,
    /// Whether the model is looked after: merges, the prior again, the first rows again. Off, it is the paper's method.
    pub upkeep: bool,
    /// Rows that are kept and polished at the end: learned from again and again until the model settles. Without, the rows
    /// of the first minibatch are looked at again.
    pub polish: Option<usize>,
    /// Components at most: the closest are merged when there are more.
    pub max_components: Option<usize>,
    /// When evidence counts half; without, it counts for ever.
    pub half_life: Option<HalfLife>,
}

/// Logical workers, unless told: the same on every machine, so that the seed alone fixes the result, and four times the threads
/// of a large one, so that nobody waits.
pub const WORKERS: usize = 64;

/// Rows of the first minibatch of a mixture, unless told: enough for some hundred clusters.
pub const BOOTSTRAP_ROWS: usize = 20_000;

impl Default for Config {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl<I> Config<I> {
    /// The defaults around this inference.
    pub fn new(inference: I) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            threads,
            workers: WORKERS,
            schedule: Schedule::default(),
            seed: 0,
            identification: Identification::Optimal,
            inference,
            prior: PriorChoice::Estimated,
            bootstrap_rows: BOOTSTRAP_ROWS,
            upkeep: true,
            polish: None,
            max_components: None,
            half_life: None,
        }
    }

    /// Rows to keep and to polish, where the model is looked after.
    fn polished_rows(&self) -> Option<usize> {
        self.polish.filter(|_| self.upkeep)
    }
}

/// Where minibatches come from. Rows are in the family's domain.
pub trait BatchSource: Send {
    /// What minibatches are made of.
    type Batch;

    /// What can go wrong while reading.
    type Error: Send;

    /// The next minibatch with its name, or `None` at the end.
    fn next(&mut self) -> Result<Option<(BatchId, Self::Batch)>, Self::Error>;

    /// The clock of the last minibatch in seconds, where the source knows it.
    fn clock(&self) -> Option<f64> {
        None
    }

    /// What the older rows of the last minibatch have faded by at its clock: so much less than its rows do they count.
    fn faded(&self) -> f64 {
        0.0
    }
}

/// Any iterator of batches is a source; they are named 0, 1, 2, …
impl<B: Minibatch, I: Iterator<Item = B> + Send> BatchSource for std::iter::Enumerate<I> {
    type Batch = B;
    type Error = std::convert::Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, B)>, Self::Error> {
        Ok(Iterator::next(self).map(|(ix, batch)| (BatchId(ix as u64), batch)))
    }
}

/// A minibatch on its way to a worker; `turn` counts them from 0 within the run.
struct Job<B> {
    turn: u64,
    id: BatchId,
    /// When it was, where evidence fades by that.
    at: Option<Moment>,
    batch: B,
}

/// The clock of a stream, by which evidence fades.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// Nobody looks at it.
    None,
    /// Rows so far.
    Rows(f64),
    /// That of the source.
    Seconds,
}

impl Clock {
    /// As it stands when all that was read has joined.
    fn of<F: Conjugate, P: Process, B: Minibatch>(central: &Central<F, P, B>) -> Self {
        let snapshot = central.snapshot();
        match snapshot.past().half_life {
            None | Some(HalfLife::Auto) => Self::None,
            Some(HalfLife::Rows(_)) => Self::Rows(snapshot.past().clock.unwrap_or(0.0)),
            Some(HalfLife::Seconds(_)) => Self::Seconds,
        }
    }

    /// When the next minibatch of the source was.
    fn at<S: BatchSource>(&mut self, batch: &S::Batch, source: &S) -> Option<Moment>
    where
        S::Batch: Minibatch,
    {
        match self {
            Self::None => None,
            Self::Seconds => source.clock().map(|clock| Moment { clock, faded: source.faded() }),
            Self::Rows(rows) => {
                *rows += batch.mass();
                Some(Moment { clock: *rows, faded: 0.0 })
            }
        }
    }
}

/// Why an increment of this process is never refused.
const OWN_INCREMENT: &str = "it was learned from this posterior";

/// What all threads of a run share.
struct Shared<'a, F, P, I: Inference<F, P>>
where
    F: Conjugate,
    P: Process,
{
    central: &'a Central<F, P, I::Batch>,
    config: &'a Config<I>,
    upkeep: upkeep::Upkeep,
}

/// Runs the stream through the workers until it ends, the observer asks to stop, or the source fails.
///
/// Every minibatch that was read is absorbed before this returns, also after a stop or an error, so that the journal
/// says exactly what the model has seen. The observer is called on this thread.
pub fn run<F, P, I, S>(
    central: &Central<F, P, I::Batch>,
    source: &mut S,
    config: &Config<I>,
    observer: &mut dyn Observer<F, P, I::Batch>,
) -> Result<(), S::Error>
where
    F: Conjugate,
    P: Process,
    I: Inference<F, P>,
    S: BatchSource<Batch = I::Batch>,
{
    let stop = &AtomicBool::new(false);
    let threads = config.threads.clamp(1, config.workers.max(1));
    let shared = Shared { central, config, upkeep: upkeep::Upkeep::default() };
    central.forget(config.half_life);
    upkeep::count_lines(central);
    // A run that goes on may have ended between a minibatch and what was due after it.
    shared.upkeep.after(central, config);
    let flight = match config.schedule {
        Schedule::Growing => Flight::Growing(config.workers),
        Schedule::Deterministic | Schedule::Free => Flight::Fixed(config.workers),
    };
    let (to_workers, jobs) = bounded::<Job<I::Batch>>(2 * threads);
    let (to_observer, events) = bounded::<Event>(1024);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(source, Clock::of(central), to_workers, stop));
        let free = free::InFlight::new(config.workers.max(1));
        let turnstile = turnstile::Turnstile::new(central.rounds(flight));
        for _ in 0..threads {
            let (jobs, to_observer, shared) = (jobs.clone(), to_observer.clone(), &shared);
            let (free, turnstile) = (free.clone(), turnstile.clone());
            scope.spawn(move || {
                let _guard = StopOnPanic(stop);
                match config.schedule {
                    Schedule::Free => free::work(shared, &free, &jobs, &to_observer),
                    _ => turnstile::work(shared, &turnstile, &jobs, &to_observer),
                }
            });
        }
        drop((jobs, to_observer));
        let _guard = StopOnPanic(stop);
        for event in events {
            if observer.observe(&event, central) == Flow::Stop {
                stop.store(true, Ordering::Relaxed);
            }
        }
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if config.schedule != Schedule::Free {
            central.keep_rounds(turnstile.rounds());
        }
        read
    })
}

/// Ends the reading when a worker or the observer panics: a stream without end would hide the panic for ever.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn read<S: BatchSource>(
    source: &mut S,
    mut clock: Clock,
    to_workers: Sender<Job<S::Batch>>,
    stop: &AtomicBool,
) -> Result<(), S::Error>
where
    S::Batch: Minibatch,
{
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some((id, batch)) = source.next()? else { break };
        let at = clock.at(&batch, source);
        // Only a worker's panic closes the queue early; the scope passes it on.
        if to_workers.send(Job { turn, id, at, batch }).is_err() {
            break;
        }
        turn += 1;
    }
    Ok(())
}

impl<F: Conjugate, P: Process, I: Inference<F, P>> Shared<'_, F, P, I> {
    /// Step 2 of the paper's Figure 1 for one minibatch; step 1 took the snapshot.
    fn infer(
        &self,
        job: &mut Job<I::Batch>,
        snapshot: &Posterior<F, P>,
        workspace: &mut I::Workspace,
    ) -> Increment {
        let mut rng = minibatch_rng(self.config.seed, job.id);
        self.config.inference.prepare(snapshot.family(), &mut job.batch, &mut rng);
        self.config.inference.infer(snapshot, &job.batch, &mut rng, workspace)
    }

    fn absorb(&self, job: Job<I::Batch>, increment: Increment, events: &Sender<Event>) {
        self.central.remember_at(job.id, &job.batch, job.at);
        let identification = self.config.identification;
        let behind =
            || (self.config.upkeep && self.central.keeps_behind()).then_some(self.config.bootstrap_rows);
        let outcome = match self.config.polished_rows().or_else(behind) {
            Some(most) => self.central.join_and_keep(job.id, &job.batch, increment, identification, most),
            None => self.central.join(job.id, increment, identification, job.at),
        };
        let outcome = outcome.expect(OWN_INCREMENT);
        self.upkeep.after(self.central, self.config);
        self.upkeep.limit(self.central, self.config);
        let event = Event::after(job.id, &job.batch, &self.central.snapshot(), outcome);
        // The observer outlives the workers unless it panicked, and then the scope passes that on.
        let _ = events.send(event);
    }
}

/// The generator of one minibatch: the same whatever thread runs it, and after a resume.
pub fn minibatch_rng(seed: u64, batch: BatchId) -> Xoshiro256PlusPlus {
    let mixed = seed ^ batch.0.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
    Xoshiro256PlusPlus::seed_from_u64(mixed)
}

/// Waits for the next minibatch, or `None` when the reader is done and the queue is empty.
fn receive<B>(jobs: &Receiver<Job<B>>) -> Option<Job<B>> {
    jobs.recv().ok()
}
