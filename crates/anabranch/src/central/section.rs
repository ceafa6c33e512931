//! What the lock around the central posterior costs: the one place where workers can wait for each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The lock so far, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Entries that were tried, void ones included.
    pub entries: u64,
    /// Time that threads waited for the lock.
    pub waiting: Duration,
    /// Time that the lock was held: the entry folded and the snapshot exchanged.
    pub merging: Duration,
}

/// Adds up from all threads.
#[derive(Debug, Default)]
pub(super) struct Clock {
    entries: AtomicU64,
    waiting: AtomicU64,
    merging: AtomicU64,
}

impl Clock {
    pub(super) fn passed(&self, waiting: Duration, merging: Duration) {
        // Nanoseconds of 500 years fit.
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(nanoseconds(waiting), Ordering::Relaxed);
        self.merging.fetch_add(nanoseconds(merging), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Section {
        Section {
            entries: self.entries.load(Ordering::Relaxed),
            waiting: Duration::from_nanos(self.waiting.load(Ordering::Relaxed)),
            merging: Duration::from_nanos(self.merging.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_entries_add_up() {
        let clock = Clock::default();
        clock.passed(Duration::from_nanos(5), Duration::from_micros(2));
        clock.passed(Duration::ZERO, Duration::from_micros(3));
        let (waiting, merging) = (Duration::from_nanos(5), Duration::from_micros(5));
        assert_eq!(clock.read(), Section { entries: 2, waiting, merging });
    }
}
