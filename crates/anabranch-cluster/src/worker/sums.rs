//! What the threads of a worker have learned, added up on its way to the journal.
//!
//! One entry is sent at a time, and what is learned meanwhile becomes the next one: a slow server, link or fold makes larger sums and
//! not a longer queue. A sum is bounded in number, in time ([`Pace`]), and by what may be in flight beside the posterior, so
//! that nobody learns from too old a one. New components go at once, and so does everything when there is nothing more to learn from.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch::central::{BatchId, in_flight};
use anabranch::identify::Identification;
use anabranch::infer::Increment;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;

use super::Crew;
use super::pace::{LONGEST, Pace};
use crate::kind::{Count, Kind};
use crate::metrics::{Spent, add};
use crate::protocol::{Author, Event, Step, Sum};

/// Minibatches of a sum.
const MOST: usize = 256;
/// Minibatches that a worker holds, learned from and not yet in the journal.
pub(super) const MOST_HELD: usize = 4 * MOST;
/// How long a sum waits for another minibatch when none is being learned from: one may be on its way.
const LINGER: Duration = Duration::from_millis(10);

/// How a minibatch's way to the journal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// It is in.
    In,
    /// It is not, and has to be learned from again.
    Overtaken,
    /// The journal does not take it.
    Rejected,
}

/// Increments that wait for the journal.
pub(super) struct Sums {
    waiting: Mutex<Waiting>,
    changed: Notify,
    /// Tells that one of `learning` is here.
    freed: Notify,
    /// One entry is sent at a time.
    way: Arc<Semaphore>,
    /// Minibatches that were taken and have not come here yet.
    learning: AtomicUsize,
}

struct Waiting {
    queue: VecDeque<Open>,
    pace: Pace,
    /// What the holder of the lease asks for.
    told: Duration,
    /// When the last one left.
    left: Instant,
    /// Weight of our rows that came to the journal, and of all rows when we began.
    ours: f64,
    before: Option<f64>,
}

/// A sum that more may come to.
struct Open {
    sum: Sum,
    since: Instant,
    answers: Vec<oneshot::Sender<Joined>>,
}

impl Default for Sums {
    fn default() -> Self {
        let now = Instant::now();
        let waiting = Waiting {
            queue: VecDeque::new(),
            pace: Pace::new(now),
            told: Duration::ZERO,
            left: now,
            ours: 0.0,
            before: None,
        };
        Self {
            waiting: Mutex::new(waiting),
            changed: Notify::new(),
            freed: Notify::new(),
            way: Arc::new(Semaphore::new(1)),
            learning: AtomicUsize::new(0),
        }
    }
}

impl Waiting {
    /// Weight of a sum that is enough: this worker's share of what may be in flight beside a posterior of this mass, half of it
    /// while the other half is on its way.
    fn enough(&self, mass: f64) -> f64 {
        let all = mass - self.before.unwrap_or(mass);
        let share = if all > 0.0 { (self.ours / all).min(1.0) } else { 0.0 };
        0.5 * share * in_flight(mass)
    }

    /// When the first sum is to go; `None` while there is none.
    fn due(&self, mass: f64, is_idle: bool) -> Option<Instant> {
        let open = self.queue.front()?;
        let full = open.sum.opens()
            || self.queue.len() > 1
            || open.sum.batches().len() >= MOST
            || open.sum.mass() >= self.enough(mass);
        let wait = self.pace.wait().max(self.told);
        Some(match (full, is_idle) {
            (true, _) => open.since,
            (false, true) => open.since + LINGER.min(wait),
            (false, false) => (self.left + wait).min(open.since + LONGEST),
        })
    }
}

impl Sums {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock panics")
    }

    /// Minibatches that are being learned from, or wait for a thread.
    pub(super) fn learning(&self) -> usize {
        self.learning.load(Ordering::Relaxed)
    }

    /// Waits until there is one less.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// One more of them, until the guard goes.
    pub(super) fn begin(self: &Arc<Self>) -> Learning {
        self.learning.fetch_add(1, Ordering::Relaxed);
        Learning(Arc::clone(self))
    }

    fn push(&self, sum: Sum, alone: bool) -> oneshot::Receiver<Joined> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.lock();
        let last = waiting.queue.back_mut().filter(|open| !alone && open.sum.batches().len() < MOST);
        let apart = match last {
            None => Some((sum, answer)),
            Some(open) => match open.sum.add(sum) {
                Ok(()) => {
                    open.answers.push(answer);
                    None
                }
                Err(sum) => Some((*sum, answer)),
            },
        };
        if let Some((sum, answer)) = apart {
            let open = Open { sum, since: Instant::now(), answers: vec![answer] };
            waiting.queue.push_back(open);
        }
        drop(waiting);
        self.changed.notify_one();
        answered
    }

    /// Waits until a sum is due, and takes it.
    async fn take(&self, mass: impl Fn() -> f64) -> Open {
        loop {
            let changed = self.changed.notified();
            let due = self.lock().due(mass(), self.learning() == 0);
            match due {
                None => changed.await,
                Some(due) if due <= Instant::now() => {
                    let mut waiting = self.lock();
                    if let Some(open) = waiting.queue.pop_front() {
                        waiting.left = Instant::now();
                        return open;
                    }
                }
                Some(due) => {
                    let _ = tokio::time::timeout_at(due.into(), changed).await;
                }
            }
        }
    }
}

/// A minibatch that is being learned from.
pub(super) struct Learning(Arc<Sums>);

impl Drop for Learning {
    fn drop(&mut self) {
        self.0.learning.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_one();
        self.0.freed.notify_one();
    }
}

impl<K: Kind> Crew<K> {
    /// Brings what a minibatch taught to the journal, together with others; returns when that is settled.
    pub(super) async fn join(
        &self,
        batch: BatchId,
        increment: Increment,
        count: Count,
        learning: Learning,
    ) -> Joined {
        let answered = self.sums.push(Sum::of(batch, count, increment), !self.job.spec.has_sums());
        drop(learning);
        // Who takes a sum answers, unless the worker goes.
        answered.await.unwrap_or(Joined::Overtaken)
    }

    /// Appends sums for as long as the worker runs.
    pub(super) async fn append_sums(self: Arc<Self>) {
        let mut under_way = JoinSet::new();
        let mass = || self.central.posterior().map_or(0.0, |posterior| posterior.mass());
        loop {
            let permit = Arc::clone(&self.sums.way).acquire_owned().await.expect("nobody closes it");
            let open = self.sums.take(mass).await;
            self.sums.lock().before.get_or_insert_with(mass);
            while under_way.try_join_next().is_some() {}
            under_way.spawn(Arc::clone(&self).append_sum(open, permit));
        }
    }

    async fn append_sum(self: Arc<Self>, open: Open, permit: OwnedSemaphorePermit) {
        let started = Instant::now();
        let (minibatches, mass) = (open.sum.batches().len() as u64, open.sum.mass());
        let rows = open.sum.count().rows;
        let ended = self.append(Author::new(open.sum, Identification::Optimal), permit).await;
        self.metrics.spent(Spent::Appending, started.elapsed());
        let (joined, outcome) = match ended {
            Step::Done(outcome) => (Joined::In, outcome),
            Step::Overtaken(outcome) => (Joined::Overtaken, outcome),
            Step::Rejected(outcome) => (Joined::Rejected, outcome),
            Step::Append { .. } | Step::ReadTo(_) | Step::ReadAll => {
                unreachable!("an author's way ends otherwise")
            }
        };
        match joined {
            Joined::In => {
                self.sums.lock().ours += mass;
                self.metrics.finished(minibatches, rows, outcome);
            }
            Joined::Overtaken | Joined::Rejected => add(&self.metrics.overtaken, minibatches),
        }
        for answer in open.answers {
            let _ = answer.send(joined);
        }
    }

    /// Does what the author says until he is done, however long the server is away. The next one may send when this one has.
    async fn append(self: &Arc<Self>, mut author: Author, permit: OwnedSemaphorePermit) -> Step<K> {
        let mut permit = Some(permit);
        let mut event = Event::Ready;
        loop {
            let (replica, crew) = (self.central.replica(), Arc::clone(self));
            let asked = tokio::task::spawn_blocking(move || {
                let started = Instant::now();
                let step = author.next(&replica, event);
                let bytes = match &step {
                    Step::Append { record, .. } => record.to_bytes(),
                    _ => Vec::new(),
                };
                crew.metrics.spent(Spent::Writing, started.elapsed());
                (author, step, bytes)
            });
            let (again, step, bytes) = asked.await.expect("an author does not panic");
            author = again;
            event = match step {
                Step::Append { lane, expect, .. } => {
                    let sent = self.send(&bytes, lane, expect).await;
                    if permit.take().is_some() {
                        self.measure_pace();
                    }
                    sent
                }
                Step::ReadTo(at) => {
                    self.central.reaches(at).await;
                    Event::Ready
                }
                Step::ReadAll => {
                    self.read_all().await;
                    Event::Ready
                }
                ended => return ended,
            };
        }
    }

    /// Microseconds that this worker would have everybody wait from one append to the next.
    pub(super) fn pace(&self) -> u64 {
        self.sums.lock().pace.wait().as_micros() as u64
    }

    fn measure_pace(&self) {
        let journal = self.metrics.seconds(Spent::Folding) + self.metrics.seconds(Spent::Writing);
        let spent = [journal, self.metrics.seconds(Spent::Inferring)];
        let told = Duration::from_micros(self.central.told_pace.load(Ordering::Relaxed));
        let mut waiting = self.sums.lock();
        waiting.pace.measure(Instant::now(), spent);
        waiting.told =
            if self.holds_lease.load(Ordering::Relaxed) { Duration::ZERO } else { told.min(LONGEST) };
    }
}

#[cfg(test)]
mod tests {
    use anabranch::identify::ComponentId;
    use anabranch::posterior::Evidence;
    use anabranch::process::LabelStatistics;

    use super::*;

    fn sum(batch: u64, opens: bool) -> Sum {
        let labels = LabelStatistics { log_p_empty: -9.0, expected_count: 9.0, label_entropy: 0.0 };
        let evidence = Evidence { stats: vec![9.0], labels };
        let existing = vec![(ComponentId(0), evidence.clone())];
        let (existing, new) = if opens { (vec![], vec![evidence]) } else { (existing, vec![]) };
        let count = Count { rows: 9, left_out: 0.0 };
        Sum::of(BatchId(batch), count, Increment { base: 0, mass: 9.0, familiarity: None, existing, new })
    }

    /// The minibatches of the sums that wait.
    fn waiting(sums: &Sums) -> Vec<Vec<u64>> {
        let names = |open: &Open| open.sum.batches().iter().map(|batch| batch.0).collect();
        sums.lock().queue.iter().map(names).collect()
    }

    #[test]
    fn minibatches_wait_in_one_sum_unless_two_of_them_open_components() {
        let sums = Sums::default();
        let mut answers: Vec<_> = [(1, false), (2, true), (3, false), (4, true)]
            .map(|(n, new)| sums.push(sum(n, new), false))
            .into();
        assert_eq!(waiting(&sums), [vec![1, 2, 3], vec![4]]);
        assert_eq!(sums.lock().queue[0].sum.count().rows, 27);
        answers.push(sums.push(sum(5, false), true));
        assert_eq!(waiting(&sums), [vec![1, 2, 3], vec![4], vec![5]], "alone where the job knows no sums");
    }

    #[test]
    fn a_sum_goes_when_it_is_full_opens_components_or_nothing_else_is_learned() {
        let sums = Sums::default();
        let due = |is_idle| {
            let waiting = sums.lock();
            waiting.due(1e6, is_idle).map(|due| due <= waiting.queue[0].since)
        };
        assert_eq!(due(false), None);
        // Half of all rows since were ours: 1/8 · 1e6 · 1/2 may be in flight, and half of that here.
        (sums.lock().before, sums.lock().ours) = (Some(0.0), 5e5);
        assert_eq!(sums.lock().enough(1e6), 31_250.0);
        sums.lock().pace.measure(Instant::now() + Duration::from_secs(1), [100.0, 1.0]);
        sums.lock().left = Instant::now() + Duration::from_secs(5);
        let _answer = sums.push(sum(1, false), false);
        assert_eq!((due(false), due(true)), (Some(false), Some(false)));
        let at = sums.lock().due(1e6, true).unwrap();
        assert!(at <= sums.lock().queue[0].since + LINGER);
        let _answer = sums.push(sum(2, true), false);
        assert_eq!(due(false), Some(true));
        sums.lock().queue.clear();
        let _answer = sums.push(sum(3, false), false);
        sums.lock().ours = 1.0;
        assert_eq!(due(false), Some(true), "more would be too much beside what the posterior knows");
    }
}
