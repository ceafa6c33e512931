//! How often a worker appends: as often as it likes while the journal costs little, and more rarely the more it costs.
//!
//! Whoever reads the journal folds what all workers append. All measure the same cost and wait alike, so that the entries of all
//! together stay what one process can fold beside its own work, however many workers there are.

use std::time::{Duration, Instant};

/// Share of a worker's time that the journal may cost.
const SHARE: f64 = 0.05;
/// The shortest wait that is one.
const SHORTEST: f64 = 0.001;
/// Nobody waits longer.
pub(super) const LONGEST: Duration = Duration::from_secs(10);
/// How long the cost is measured.
const WINDOW: Duration = Duration::from_millis(100);

/// The time from one append of a worker to its next.
#[derive(Debug)]
pub(super) struct Pace {
    seconds: f64,
    since: Instant,
    /// Seconds on the journal and on inference until then.
    spent: [f64; 2],
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { seconds: 0.0, since: now, spent: [0.0; 2] }
    }

    /// After so many seconds in all that were spent on the journal, and on inference. Both stretch alike on a busy machine.
    pub(super) fn measure(&mut self, now: Instant, spent: [f64; 2]) {
        if now.duration_since(self.since) < WINDOW {
            return;
        }
        let [journal, inference] = [0, 1].map(|ix| spent[ix] - self.spent[ix]);
        let all = journal + inference;
        let share = if all > 0.0 { journal / all } else { 0.0 };
        // It doubles and halves at most: a window may have been an odd one.
        let seconds = self.seconds.max(SHORTEST) * (share / SHARE).clamp(0.5, 2.0);
        self.seconds = if seconds < SHORTEST { 0.0 } else { seconds.min(LONGEST.as_secs_f64()) };
        (self.since, self.spent) = (now, spent);
    }

    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pace that so many workers come to when folding an entry costs each of them this much.
    fn settled(workers: f64, fold: f64) -> f64 {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let (mut now, mut spent) = (0.0, [0.0; 2]);
        for _ in 0..200 {
            // Without a wait a worker appends two hundred times a second.
            let entries = workers / pace.wait().as_secs_f64().max(0.005);
            let journal = (0.2 * entries * fold).min(0.2);
            (now, spent) = (now + 0.2, [spent[0] + journal, spent[1] + 0.2 - journal]);
            pace.measure(start + Duration::from_secs_f64(now), spent);
        }
        pace.wait().as_secs_f64()
    }

    #[test]
    fn what_costs_little_is_not_waited_for() {
        assert!(settled(1.0, 1e-5) < 0.005);
    }

    #[test]
    fn the_entries_of_all_workers_stay_what_one_can_fold() {
        for (workers, fold) in [(4.0, 4e-4), (16.0, 4e-4), (100.0, 4e-4), (100.0, 4e-3)] {
            let wait = settled(workers, fold);
            let share = workers * fold / wait;
            assert!((0.5 * SHARE..=2.0 * SHARE).contains(&share), "{workers} × {fold}: {wait} s, {share}");
        }
        assert_eq!(settled(1000.0, 1.0), LONGEST.as_secs_f64());
    }
}
