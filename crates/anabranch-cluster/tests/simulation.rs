//! The protocol under a hostile network, without a server: many workers, messages lost, repeated, late and out of order,
//! crashes, pauses, snapshots and trimming, servers that ignore the condition of an append. One thread, seeded.
//!
//! Each run ends with: every minibatch absorbed exactly once or set aside (ONCE), the mass equal to the rows (MASS), all
//! replicas equal, also one that reads the whole journal anew and one that starts from a snapshot (ORDER, IDENT), and the same
//! sums as a plain addition of all that was learned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch::central::{BatchId, BatchSet, Entry, Fold, Memory, Part};
use anabranch::family::{AnyFamily, Bernoulli, Conjugate};
use anabranch::identify::{ComponentId, Identification};
use anabranch::infer::Increment;
use anabranch::posterior::{Evidence, Posterior, Told as Densities};
use anabranch::process::{AnyProcess, Bound, LabelStatistics};
use anabranch_cluster::protocol::{
    Append, Applied, Author, Event, Expectation, ReplicaFault, State, Step, Sum, Told, VoidReason, split,
};
use anabranch_cluster::{Count, Mixture, protocol};
use anabranch_io::model::{Model, Provenance};
use anabranch_io::{Column, Schema};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

type Record = protocol::Record<Mixture>;
type Replica = protocol::Replica<Mixture>;

const SEEDS: u64 = 4000;
const BATCHES: u64 = 14;
const WORKERS: usize = 6;

/// How unkind the world is; drawn for each seed.
struct Weather {
    lose: f64,
    repeat: f64,
    crash: f64,
    /// Probability that the server does what the condition of an append forbids.
    ignore_condition: f64,
    snapshot: f64,
    part_bytes: usize,
    aside: f64,
}

/// A minibatch in the queue: its rows are ones and zeros of one column.
#[derive(Clone, Copy)]
struct Minibatch {
    id: BatchId,
    rows: u32,
    ones: u32,
}

/// A publish that the server has not seen yet.
struct Flight {
    worker: usize,
    life: u64,
    lane: Append,
    expect: Expectation,
    message: Vec<u8>,
    last: bool,
}

struct Job {
    /// One, or those of a sum.
    batches: Vec<Minibatch>,
    author: Option<Author>,
    beginning: bool,
    /// Messages of the record that are still to be sent, the next one last.
    unsent: Vec<Vec<u8>>,
    lane: Append,
    expect: Expectation,
    waiting: Waiting,
}

#[derive(Clone, Copy, PartialEq)]
enum Waiting {
    Nothing,
    Answer,
    Read(u64),
}

#[derive(Default)]
struct Worker {
    life: u64,
    replica: Replica,
    job: Option<Job>,
    paused: bool,
}

struct World {
    rng: Xoshiro256PlusPlus,
    weather: Weather,
    queue: Vec<Minibatch>,
    /// Delivered and not acknowledged: may be delivered again at any time.
    out: Vec<Minibatch>,
    journal: Vec<(Append, Vec<u8>)>,
    trimmed: u64,
    snapshot: Option<Vec<u8>>,
    flights: Vec<Flight>,
    workers: Vec<Worker>,
    submitted: BTreeMap<u64, Minibatch>,
    names: u64,
    /// The state that was told last, and by whom.
    told: Option<(usize, u64, Replica)>,
    seen: BTreeMap<&'static str, u64>,
}

fn process() -> AnyProcess {
    AnyProcess::new(1.5, None, Bound::Paper).unwrap()
}

fn certain(rows: u32, ones: u32) -> Evidence {
    let labels = LabelStatistics {
        log_p_empty: f64::NEG_INFINITY,
        expected_count: f64::from(rows),
        label_entropy: 0.0,
    };
    Evidence { stats: vec![f64::from(rows), f64::from(ones)], labels }
}

fn provenance() -> Provenance {
    Provenance {
        bootstrap_rows: 1,
        batch_size: 1,
        ..Provenance::new(Schema { columns: vec![Column::number("x")], named: true })
    }
}

/// What the bootstrap makes of one minibatch: one component.
fn beginning(batch: Minibatch) -> Model {
    let family: AnyFamily = Bernoulli::new(vec![0.5], vec![0.5]).unwrap().into();
    let mut fold = Fold::new(family, process());
    let entry = anabranch::central::Absorb {
        batch: batch.id,
        base: 0,
        pass: 0,
        mass: f64::from(batch.rows),
        familiarity: None,
        existing: vec![],
        new: vec![(anabranch::identify::Target::New, certain(batch.rows, batch.ones))],
    };
    fold.apply(&Entry::Absorb(entry)).unwrap();
    // As the engine's bootstrap does: these rows are to be learned from again.
    fold.apply(&Entry::SetAside).unwrap();
    Model { fold, provenance: provenance() }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let weather = Weather {
            lose: rng.random_range(0.0..0.3),
            repeat: rng.random_range(0.0..0.2),
            crash: rng.random_range(0.0..0.03),
            ignore_condition: if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.0..1.0) },
            snapshot: rng.random_range(0.0..0.05),
            part_bytes: if rng.random_bool(0.3) { 100 } else { 1 << 20 },
            aside: if rng.random_bool(0.2) { 0.02 } else { 0.0 },
        };
        let queue: Vec<Minibatch> = (0..BATCHES)
            .map(|id| {
                let rows = rng.random_range(1..9);
                Minibatch { id: BatchId(id), rows, ones: rng.random_range(0..=rows) }
            })
            .collect();
        Self {
            submitted: queue.iter().map(|batch| (batch.id.0, *batch)).collect(),
            rng,
            weather,
            queue,
            out: Vec::new(),
            journal: Vec::new(),
            trimmed: 0,
            snapshot: None,
            flights: Vec::new(),
            workers: (0..WORKERS).map(|_| Worker::default()).collect(),
            names: 0,
            told: None,
            seen: BTreeMap::new(),
        }
    }

    fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Splits a minibatch over known components and new ones, at random.
    fn learn(&mut self, batch: Minibatch, posterior: &Posterior<AnyFamily, AnyProcess>) -> Increment {
        let mut places: Vec<Option<ComponentId>> =
            posterior.components().iter().map(|c| Some(c.id())).collect();
        let new = if self.rng.random_bool(0.4) { self.rng.random_range(1..3) } else { 0 };
        places.extend(std::iter::repeat_n(None, new));
        let mut parts = vec![(0_u32, 0_u32); places.len()];
        for row in 0..batch.rows {
            let part = &mut parts[self.rng.random_range(0..places.len())];
            part.0 += 1;
            part.1 += u32::from(row < batch.ones);
        }
        let mut increment = Increment {
            base: posterior.version(),
            mass: f64::from(batch.rows),
            familiarity: Some(Densities::of_median(-f64::from(batch.ones))),
            existing: vec![],
            new: vec![],
        };
        for (place, (rows, ones)) in places.into_iter().zip(parts).filter(|(_, part)| part.0 > 0) {
            match place {
                Some(id) => increment.existing.push((id, certain(rows, ones))),
                None => increment.new.push(certain(rows, ones)),
            }
        }
        increment
    }

    /// The server takes a message, or refuses it.
    fn arrive(&mut self, ix: usize) {
        let repeat = self.rng.random_bool(self.weather.repeat);
        let lost_answer = self.rng.random_bool(self.weather.lose);
        let flight = self.flights.swap_remove(ix);
        let last_birth = self.last_birth();
        let honoured = !self.rng.random_bool(self.weather.ignore_condition);
        let stale = matches!(flight.expect, Expectation::LastBirth(at) if at != last_birth);
        let answer = if stale && honoured {
            self.note("refused");
            Event::Refused
        } else {
            self.journal.push((flight.lane, flight.message.clone()));
            if repeat {
                self.note("repeated");
                self.journal.push((flight.lane, flight.message.clone()));
            }
            Event::Appended(self.journal.len() as u64)
        };
        let worker = &mut self.workers[flight.worker];
        let waits =
            worker.life == flight.life && worker.job.as_ref().is_some_and(|j| j.waiting == Waiting::Answer);
        if !waits || (worker.paused && lost_answer) {
            return;
        }
        let answer = if lost_answer { Event::Unknown } else { answer };
        if !flight.last && matches!(answer, Event::Appended(_)) {
            self.send_next(flight.worker);
        } else {
            self.step(flight.worker, answer);
        }
    }

    /// The last birth that the server still has: trimming makes it forget.
    fn last_birth(&self) -> u64 {
        let at =
            self.journal.iter().rposition(|(lane, _)| *lane == Append::Births).map_or(0, |ix| ix as u64 + 1);
        if at <= self.trimmed { 0 } else { at }
    }

    fn send_next(&mut self, worker: usize) {
        let life = self.workers[worker].life;
        let Some(job) = &mut self.workers[worker].job else { return };
        let Some(message) = job.unsent.pop() else { return };
        let last = job.unsent.is_empty();
        job.waiting = Waiting::Answer;
        // Only the last part takes effect, so only it has a lane and a condition.
        let (lane, expect) = if last { (job.lane, job.expect) } else { (Append::Plain, Expectation::None) };
        if self.rng.random_bool(self.weather.lose) {
            self.note("lost");
            self.step(worker, Event::Unknown);
        } else {
            self.flights.push(Flight { worker, life, lane, expect, message, last });
        }
    }

    fn send(&mut self, worker: usize, record: &Record, lane: Append, expect: Expectation) {
        self.names += 1;
        let mut messages = split(&record.to_bytes(), self.names, self.weather.part_bytes);
        if messages.len() > 1 {
            self.note("parts");
        }
        messages.reverse();
        let job = self.workers[worker].job.as_mut().expect("only a worker with a job sends");
        (job.unsent, job.lane, job.expect) = (messages, lane, expect);
        self.send_next(worker);
    }

    fn step(&mut self, worker: usize, event: Event) {
        let end = self.journal.len() as u64;
        let Worker { replica, job, .. } = &mut self.workers[worker];
        let Some(job) = job.as_mut() else { return };
        job.waiting = Waiting::Nothing;
        if let Some(author) = &mut job.author {
            match author.next(replica, event) {
                Step::Append { record, lane, expect } => self.send(worker, &record, lane, expect),
                Step::ReadTo(at) => job.waiting = Waiting::Read(at),
                Step::ReadAll => job.waiting = Waiting::Read(end),
                Step::Done(outcome) => {
                    let several = job.batches.len() > 1;
                    if outcome.conflicts > 0 {
                        self.note("conflict");
                    }
                    if several {
                        self.note("sum");
                    }
                    self.acknowledge(worker);
                }
                Step::Overtaken(_) => {
                    self.note("overtaken");
                    self.hand_back(worker);
                }
                Step::Rejected(_) => panic!("the journal takes what it can"),
            }
        } else if event == Event::Ready {
            // A beginning or a minibatch to be set aside: whether it counted, the journal says.
            if replica.is_settled(job.batches[0].id) {
                self.acknowledge(worker);
            } else if job.beginning && replica.posterior().is_some() {
                self.workers[worker].job = None;
            } else {
                let record = match job.beginning {
                    true => Record::Begin(Box::new((beginning(job.batches[0]), Memory::default()))),
                    false => Record::Aside { batch: job.batches[0].id, reason: "no luck".into() },
                };
                let lane = if job.beginning { Append::Births } else { Append::Plain };
                self.send(worker, &record, lane, Expectation::None);
            }
        } else {
            job.waiting = Waiting::Read(end);
        }
    }

    fn acknowledge(&mut self, worker: usize) {
        let job = self.workers[worker].job.take().expect("there is something to acknowledge");
        // The acknowledgements may be lost too, each for itself.
        for done in job.batches {
            if !self.rng.random_bool(self.weather.lose) {
                self.out.retain(|batch| batch.id != done.id);
            }
        }
    }

    /// Of an overtaken sum, what is settled is acknowledged, and the rest goes back to the queue.
    fn hand_back(&mut self, worker: usize) {
        let Worker { replica, job, .. } = &mut self.workers[worker];
        let job = job.take().expect("there is something to hand back");
        let (settled, left): (Vec<Minibatch>, Vec<Minibatch>) =
            job.batches.into_iter().partition(|batch| replica.is_settled(batch.id));
        assert!(!settled.is_empty() && !left.is_empty());
        self.out.retain(|out| settled.iter().all(|batch| batch.id != out.id));
        for batch in left {
            // Somebody else may have it by now.
            if let Some(ix) = self.out.iter().position(|out| out.id == batch.id) {
                self.queue.push(self.out.swap_remove(ix));
            }
        }
    }

    /// What some minibatches taught, added up; those that do not fit stay in the queue.
    fn learn_sum(
        &mut self,
        first: Minibatch,
        posterior: &Posterior<AnyFamily, AnyProcess>,
    ) -> (Sum, Vec<Minibatch>) {
        let mut sum = Sum::of(first.id, Count::default(), self.learn(first, posterior));
        let mut batches = vec![first];
        let most = if self.rng.random_bool(0.5) { 1 } else { self.rng.random_range(2..5) };
        while batches.len() < most && !self.queue.is_empty() {
            let ix = self.rng.random_range(0..self.queue.len());
            let batch = self.queue[ix];
            let increment = self.learn(batch, posterior);
            match sum.add(Sum::of(batch.id, Count::default(), increment)) {
                Ok(()) => {
                    self.out.push(self.queue.swap_remove(ix));
                    batches.push(batch);
                }
                Err(_) => break,
            }
        }
        (sum, batches)
    }

    fn take_up(&mut self, worker: usize) {
        if self.queue.is_empty() || self.workers[worker].job.is_some() {
            return;
        }
        let ix = self.rng.random_range(0..self.queue.len());
        let batch = self.queue.swap_remove(ix);
        self.out.push(batch);
        let aside = self.rng.random_bool(self.weather.aside);
        let posterior = self.workers[worker].replica.posterior().cloned();
        let beginning = posterior.is_none() && !aside;
        let (author, batches) = match posterior {
            Some(posterior) if !aside => {
                let (sum, batches) = self.learn_sum(batch, &posterior);
                (Some(Author::new(sum, Identification::Optimal)), batches)
            }
            _ => (None, vec![batch]),
        };
        let job = Job {
            batches,
            author,
            beginning,
            unsent: vec![],
            lane: Append::Plain,
            expect: Expectation::None,
            waiting: Waiting::Nothing,
        };
        self.workers[worker].job = Some(job);
        self.step(worker, Event::Ready);
    }

    fn read_some(&mut self, worker: usize) {
        let most = self.rng.random_range(1..6);
        for _ in 0..most {
            let position = self.workers[worker].replica.position();
            if position < self.trimmed {
                self.note("behind the trim");
                self.workers[worker].replica = self.newest_snapshot();
                continue;
            }
            let Some((lane, message)) = self.journal.get(position as usize).cloned() else { break };
            match self.workers[worker].replica.read(position + 1, lane, &message) {
                Ok(Applied::Void(VoidReason::Improper | VoidReason::Unreadable(_))) => {
                    panic!("nobody sends this")
                }
                Ok(Applied::Void(VoidReason::Core(anabranch::central::Void::Superseded { .. }))) => {
                    self.note("superseded");
                }
                Ok(Applied::Void(VoidReason::Settled(_))) => self.note("settled"),
                Ok(Applied::Void(VoidReason::Begun)) => self.note("begun twice"),
                Ok(_) => {}
                Err(fault) => panic!("{fault}"),
            }
        }
        self.go_on_reading(worker);
    }

    /// The author goes on when what he waits for was read.
    fn go_on_reading(&mut self, worker: usize) {
        let replica = &self.workers[worker].replica;
        let waiting = self.workers[worker].job.as_ref().map(|job| job.waiting);
        if matches!(waiting, Some(Waiting::Read(at)) if replica.position() >= at) {
            self.step(worker, Event::Ready);
        }
    }

    /// Whoever believes that he holds the lease tells his state; some hear it, some do not.
    fn tell(&mut self, worker: usize) {
        let (life, replica) = (self.workers[worker].life, self.workers[worker].replica.clone());
        let whole = self.rng.random_bool(0.2);
        let earlier = self.told.take().filter(|(by, in_life, _)| !whole && (*by, *in_life) == (worker, life));
        let Some(state) = replica.state_since(earlier.as_ref().map(|(_, _, replica)| replica), 0) else {
            return;
        };
        let state = State::from_bytes::<Mixture>(&state.to_bytes::<Mixture>()).expect("it is whole");
        self.told = Some((worker, life, replica));
        for other in 0..WORKERS {
            if self.workers[other].paused || self.rng.random_bool(0.4) {
                continue;
            }
            match self.workers[other].replica.take(&state) {
                Told::Taken => self.note("told"),
                Told::Missed => self.note("missed a state"),
                Told::Old => {}
                Told::Unfit => panic!("a state that does not fit"),
            }
            self.go_on_reading(other);
        }
    }

    fn newest_snapshot(&self) -> Replica {
        match &self.snapshot {
            Some(bytes) => Replica::from_snapshot(bytes).unwrap(),
            None => Replica::new(),
        }
    }

    /// Whoever believes that he holds the lease merges, replaces the first rows, estimates the prior, or says that all is in.
    fn upkeep(&mut self, worker: usize) {
        let Some(posterior) = self.workers[worker].replica.posterior().cloned() else { return };
        let ids: Vec<ComponentId> = posterior.components().iter().map(|c| c.id()).collect();
        let mut any = || ids[self.rng.random_range(0..ids.len())];
        let (id, into) = (any(), any());
        let record = match self.rng.random_range(0..6) {
            0 => {
                self.note("replace");
                self.look_again(worker, id)
            }
            1 => {
                self.note("prior");
                let prior = self.rng.random_range(0.1..2.0);
                let family = Bernoulli::new(vec![prior], vec![prior]).unwrap().into();
                Some(Record::Entry(Entry::Prior { family, process: process() }))
            }
            5 => {
                self.note("split");
                self.halve(worker, id)
            }
            2 => Some(Record::Finished { settled: self.workers[worker].replica.settled() }),
            _ => {
                self.note("merge");
                Some(Record::Entry(Entry::Retire { id, into }))
            }
        };
        let Some(record) = record else { return };
        let lane = match &record {
            Record::Judged { .. } => Append::Births,
            _ => Append::Plain,
        };
        // No answer may come, and then it is sent again.
        for _ in 0..=u32::from(self.rng.random_bool(self.weather.repeat)) {
            self.names += 1;
            for message in split(&record.to_bytes(), self.names, self.weather.part_bytes) {
                self.journal.push((lane, message));
            }
        }
    }

    /// Half of a component for each of two, as its judge sees it.
    fn halve(&self, worker: usize, id: ComponentId) -> Option<Record> {
        let fold = self.workers[worker].replica.fold()?;
        let part = || Part { share: 0.5, offset: vec![0.0; fold.posterior().family().n_features()] };
        let entry = Entry::Split { id, parts: vec![part(), part()] };
        Some(Record::Judged { next_id: fold.next_id(), entry })
    }

    /// The rows of the beginning, all given to one component.
    fn look_again(&self, worker: usize, id: ComponentId) -> Option<Record> {
        self.workers[worker].replica.fold()?.aside()?;
        let first = self.beginner()?.0;
        let batch = self.submitted[&first];
        let evidence = vec![(id, certain(batch.rows, batch.ones))];
        Some(Record::Entry(Entry::Replace { mass: f64::from(batch.rows), evidence }))
    }

    /// The minibatch that the journal began with.
    fn beginner(&self) -> Option<BatchId> {
        let mut replica = Replica::new();
        for (at, (lane, message)) in (1..).zip(&self.journal) {
            if let Ok(Applied::Begun) = replica.read(at, *lane, message) {
                return replica.fold()?.absorbed().runs().first().map(|(first, _)| BatchId(*first));
            }
        }
        None
    }

    fn tick(&mut self) {
        let worker = self.rng.random_range(0..WORKERS);
        if self.rng.random_bool(self.weather.crash) {
            self.note("crash");
            let life = self.workers[worker].life + 1;
            self.workers[worker] = Worker { life, replica: self.newest_snapshot(), ..Worker::default() };
        }
        if self.rng.random_bool(0.02) {
            self.workers[worker].paused = !self.workers[worker].paused;
        }
        if !self.out.is_empty() && self.rng.random_bool(0.03) {
            // Somebody took too long, as the server sees it: the minibatch goes to somebody else as well.
            self.note("redelivered");
            let ix = self.rng.random_range(0..self.out.len());
            self.queue.push(self.out.swap_remove(ix));
        }
        if self.rng.random_bool(self.weather.snapshot) {
            self.take_snapshot(worker);
        }
        if self.rng.random_bool(0.02) {
            self.upkeep(worker);
        }
        if self.rng.random_bool(0.05) {
            self.tell(worker);
        }
        if !self.flights.is_empty() && self.rng.random_bool(0.5) {
            let ix = self.rng.random_range(0..self.flights.len());
            self.arrive(ix);
        }
        if !self.workers[worker].paused {
            self.give_up_waiting(worker);
            if self.rng.random_bool(0.6) {
                self.read_some(worker);
            } else {
                self.take_up(worker);
            }
        }
    }

    /// The answer to a publish that is no longer in the air never comes: the client's time is up.
    fn give_up_waiting(&mut self, worker: usize) {
        let life = self.workers[worker].life;
        let waits = self.workers[worker].job.as_ref().is_some_and(|job| job.waiting == Waiting::Answer);
        if waits && !self.flights.iter().any(|flight| flight.worker == worker && flight.life == life) {
            self.note("timed out");
            self.step(worker, Event::Unknown);
        }
    }

    fn take_snapshot(&mut self, worker: usize) {
        let replica = &self.workers[worker].replica;
        let Some(bytes) = replica.to_snapshot().filter(|_| replica.position() > self.trimmed) else { return };
        self.trimmed = replica.position();
        self.snapshot = Some(bytes);
        self.note("snapshot");
    }

    fn settled(&self) -> bool {
        self.queue.is_empty() && self.out.is_empty() && self.flights.is_empty()
    }

    fn run(mut self) -> Self {
        let mut ticks = 0;
        while !self.settled() {
            ticks += 1;
            assert!(ticks < 200_000, "{} to do, {} out: nobody gets on", self.queue.len(), self.out.len());
            if ticks == 20_000 {
                // The storm is over; from here on everything must come to its end.
                self.weather =
                    Weather { lose: 0.0, repeat: 0.0, crash: 0.0, snapshot: 0.0, aside: 0.0, ..self.weather };
            }
            self.tick();
        }
        self
    }

    fn check(mut self) -> BTreeMap<&'static str, u64> {
        for worker in 0..WORKERS {
            self.workers[worker].job = None;
            while self.workers[worker].replica.position() < self.journal.len() as u64 {
                self.read_some(worker);
            }
        }
        let mut anew = Replica::new();
        for (at, (lane, message)) in (1..).zip(&self.journal) {
            anew.read(at, *lane, message).unwrap();
        }
        let mut joined = self.newest_snapshot();
        for (at, (lane, message)) in (1..).zip(&self.journal) {
            joined.read(at, *lane, message).unwrap();
        }
        let expected = fingerprint(&anew);
        for replica in self.workers.iter().map(|worker| &worker.replica).chain([&joined]) {
            assert_eq!(fingerprint(replica), expected, "replicas differ");
        }
        let posterior = anew.posterior().expect("something was absorbed");
        let settled: BTreeSet<u64> =
            self.submitted.keys().copied().filter(|id| anew.is_settled(BatchId(*id))).collect();
        assert_eq!(settled.len() as u64, BATCHES, "a minibatch was lost");
        let counted = self.submitted.values().filter(|batch| anew.is_absorbed(batch.id));
        let (rows, ones) = counted.fold((0, 0), |(rows, ones), b| (rows + b.rows, ones + b.ones));
        let sum = |ix: usize| posterior.components().iter().map(|c| c.evidence().stats[ix]).sum::<f64>();
        // Whole numbers: MASS holds without a tolerance.
        assert_eq!((posterior.mass(), sum(0), sum(1)), (f64::from(rows), f64::from(rows), f64::from(ones)));
        self.seen
    }
}

/// Components with the bits of their sums, and redirects.
type Shape = (Vec<(u64, u64, Vec<u64>)>, Vec<(u64, u64)>);

/// Everything that replicas must agree on.
fn fingerprint(replica: &Replica) -> (Shape, [BatchSet; 2], [u64; 2]) {
    let posterior = replica.posterior().expect("it has begun");
    let components = posterior.components().iter();
    let components =
        components.map(|c| (c.id().0, c.born(), c.evidence().stats.iter().map(|s| s.to_bits()).collect()));
    let model = replica.model().unwrap();
    assert_eq!(model.fold.aside().is_some(), posterior.components().iter().any(|c| c.passing().is_some()));
    let redirects = posterior.redirects().iter().map(|(from, into)| (from.0, into.0));
    (
        (components.collect(), redirects.collect()),
        [model.fold.absorbed().clone(), replica.aside().clone()],
        [posterior.version(), model.fold.next_id()],
    )
}

#[test]
fn whatever_gets_lost_every_minibatch_counts_once_and_all_replicas_agree() {
    let mut seen: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        let counts = std::panic::catch_unwind(|| World::new(seed).run().check())
            .unwrap_or_else(|_| panic!("the run with seed {seed} failed"));
        counts.into_iter().for_each(|(what, n)| *seen.entry(what).or_default() += n);
    }
    println!("{SEEDS} runs: {seen:?}");
    for what in [
        "lost",
        "repeated",
        "refused",
        "superseded",
        "settled",
        "crash",
        "redelivered",
        "snapshot",
        "behind the trim",
        "parts",
        "merge",
        "replace",
        "split",
        "prior",
        "conflict",
        "begun twice",
        "sum",
        "overtaken",
        "told",
        "missed a state",
    ] {
        assert!(seen.get(what).is_some_and(|n| *n > 50), "{what} is too rare to show anything: {seen:?}");
    }
}

#[test]
fn a_replica_that_missed_messages_says_so_and_one_that_sees_them_again_does_not_mind() {
    let batch = Minibatch { id: BatchId(0), rows: 3, ones: 1 };
    let begin = split(&Record::Begin(Box::new((beginning(batch), Memory::default()))).to_bytes(), 1, 1 << 20)
        .remove(0);
    let mut replica = Replica::new();
    assert_eq!(replica.read(1, Append::Births, &begin), Ok(Applied::Begun));
    assert_eq!(replica.read(1, Append::Births, &begin), Ok(Applied::Part));
    assert_eq!(replica.read(2, Append::Births, &begin), Ok(Applied::Void(VoidReason::Begun)));
    assert_eq!(replica.read(4, Append::Plain, &begin), Err(ReplicaFault::Gap { position: 2, found: 4 }));
}

#[test]
fn a_record_of_a_newer_version_stops_the_replica_where_it_stands() {
    let batch = Minibatch { id: BatchId(0), rows: 3, ones: 1 };
    let mut replica = Replica::new();
    let begin = split(&Record::Begin(Box::new((beginning(batch), Memory::default()))).to_bytes(), 1, 1 << 20)
        .remove(0);
    replica.read(1, Append::Births, &begin).unwrap();
    let mut newer = Record::Entry(Entry::Retire { id: ComponentId(0), into: ComponentId(0) }).to_bytes();
    newer[5] = 6;
    let fault = replica.read(2, Append::Plain, &split(&newer, 2, 1 << 20)[0]).unwrap_err();
    assert_eq!(fault.to_string(), "journal message 2: written in entry format 6, this program reads up to 5");
    assert_eq!(replica.position(), 1);
}

#[test]
fn numbers_that_no_rows_have_are_void() {
    let batch = Minibatch { id: BatchId(0), rows: 3, ones: 1 };
    let mut replica = Replica::new();
    let begin = split(&Record::Begin(Box::new((beginning(batch), Memory::default()))).to_bytes(), 1, 1 << 20)
        .remove(0);
    replica.read(1, Append::Births, &begin).unwrap();
    let good = || anabranch::central::Absorb {
        batch: BatchId(1),
        base: 1,
        pass: 0,
        mass: 2.0,
        familiarity: None,
        existing: vec![(ComponentId(0), certain(2, 1))],
        new: vec![],
    };
    let mut bad = vec![good(), good(), good(), good()];
    bad[0].mass = 3.0;
    bad[1].existing[0].1.stats[1] = f64::NAN;
    bad[2].base = 99;
    bad[3].batch = BatchId(u64::MAX);
    let record = |absorb| split(&Record::Entry(Entry::Absorb(absorb)).to_bytes(), 7, 1 << 20).remove(0);
    for (at, absorb) in (2..).zip(bad) {
        assert_eq!(replica.read(at, Append::Plain, &record(absorb)), Ok(Applied::Void(VoidReason::Improper)));
    }
    assert_eq!(replica.read(6, Append::Plain, &record(good())), Ok(Applied::Absorbed(BatchId(1), 0)));
    let provenance = Arc::clone(replica.about().unwrap());
    assert_eq!(provenance.batch_size, 1);
}

#[test]
fn a_state_brings_a_replica_where_the_journal_would_and_a_wrong_one_nowhere() {
    let batch = |id: u64| Minibatch { id: BatchId(id), rows: 3, ones: 1 };
    let begin = Record::Begin(Box::new((beginning(batch(0)), Memory::default())));
    let entry = |id: u64, component: u64| {
        let absorb = anabranch::central::Absorb {
            batch: BatchId(id),
            base: 1,
            pass: 0,
            mass: 2.0,
            familiarity: None,
            existing: vec![(ComponentId(component), certain(2, 1))],
            new: vec![],
        };
        Record::Entry(Entry::Sum { also: vec![BatchId(id + 10)], absorb })
    };
    let prior = Bernoulli::new(vec![0.7], vec![0.3]).unwrap().into();
    let records = [
        begin,
        entry(1, 0),
        Record::Entry(Entry::Prior { family: prior, process: process() }),
        Record::Aside { batch: BatchId(5), reason: "no luck".into() },
        entry(2, 0),
    ];
    let mut at = vec![Replica::new()];
    for (position, record) in (1..).zip(&records) {
        let mut next = at.last().unwrap().clone();
        next.read(position, Append::Plain, &split(&record.to_bytes(), position, 1 << 20)[0]).unwrap();
        at.push(next);
    }
    let through = |state: State| State::from_bytes::<Mixture>(&state.to_bytes::<Mixture>()).unwrap();
    for from in [None, Some(1), Some(2), Some(3), Some(4)] {
        let state = through(at[5].state_since(from.map(|from: usize| &at[from]), 7).unwrap());
        assert_eq!((state.to(), state.pace), (5, 7));
        for (position, replica) in at.iter().enumerate() {
            let mut replica = replica.clone();
            let told = replica.take(&state);
            match position {
                5 => assert_eq!(told, Told::Old),
                0 => assert_eq!(told, Told::Missed, "nothing was begun"),
                _ if position < from.unwrap_or(0) => assert_eq!(told, Told::Missed),
                _ => {
                    assert_eq!(told, Told::Taken, "from {position}");
                    assert_eq!(fingerprint(&replica), fingerprint(&at[5]));
                    assert_eq!(replica.posterior().unwrap().family(), at[5].posterior().unwrap().family());
                    assert_eq!(replica.to_snapshot(), at[5].to_snapshot());
                }
            }
        }
    }
    // The state of another journal: components that this replica does not have, or other sums.
    let mut other = at[1].clone();
    other.read(2, Append::Plain, &split(&entry(8, 0).to_bytes(), 2, 1 << 20)[0]).unwrap();
    let mut state = through(other.state_since(Some(&at[1]), 0).unwrap());
    assert_eq!(at[1].clone().take(&state), Told::Taken);
    let before = at[1].clone();
    let mut bytes = state.to_bytes::<Mixture>();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(State::from_bytes::<Mixture>(&bytes).is_none());
    state = through(at[5].state_since(Some(&at[4]), 0).unwrap());
    let mut behind = at[1].clone();
    assert_eq!(behind.take(&state), Told::Missed);
    assert_eq!(fingerprint(&behind), fingerprint(&before));
}
