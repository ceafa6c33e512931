//! Which posterior a minibatch reads when the seed alone is to fix the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::family::Conjugate;
use crate::posterior::{Component, Posterior};
use crate::process::Process;

/// Minibatches in rounds: those of a round read the posterior after the round before last, so that two rounds are in
/// flight. A single worker reads the newest.
///
/// A run that goes on where another one ended goes on in the same round.
#[derive(Debug)]
pub(crate) struct Rounds<F, P> {
    flight: Flight,
    joined: u64,
    /// Version of the posterior after the last of them.
    version: u64,
    /// First minibatch of the round that is joining, of the next one, and of the one after that.
    starts: [u64; 3],
    /// The posterior after the round before last, and after the last one.
    ends: [End<F, P>; 2],
}

/// A posterior that a whole round reads.
#[derive(Debug)]
pub(crate) struct End<F, P> {
    pub(crate) posterior: Arc<Posterior<F, P>>,
    /// Components that somebody makes ready.
    taken: Arc<AtomicUsize>,
}

impl<F, P> Clone for End<F, P> {
    fn clone(&self) -> Self {
        Self { posterior: Arc::clone(&self.posterior), taken: Arc::clone(&self.taken) }
    }
}

impl<F: Conjugate, P: Process> End<F, P> {
    fn new(posterior: Arc<Posterior<F, P>>) -> Self {
        Self { posterior, taken: Arc::default() }
    }

    /// Components that nobody makes ready yet: all readers share the work, and none waits for another to do it.
    pub(crate) fn unready(&self) -> impl Iterator<Item = &Component> {
        let next = || self.posterior.components().get(self.taken.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(next).map(Arc::as_ref)
    }
}

/// How many minibatches are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// So many, always.
    Fixed(usize),
    /// As many as hold a small share of what the posterior has seen, and so many at most: what was learned from an old
    /// posterior is then little beside it.
    Growing(usize),
}

/// The share of what the posterior has seen that may be in flight, at first and in the end: it grows up to so many rows,
/// as every further one changes less.
const FIRST_SHARE: f64 = 1.0 / 32.0;
const LAST_SHARE: f64 = 1.0 / 8.0;
const LAST_ROWS: f64 = 250_000.0;

/// Weight of the rows that may be in flight beside a posterior of this mass: what was learned from an old one is then little.
pub fn in_flight(mass: f64) -> f64 {
    (LAST_SHARE * mass / LAST_ROWS).clamp(FIRST_SHARE, LAST_SHARE) * mass
}

impl Flight {
    /// Minibatches of a round that follows on a posterior of this mass, if each has so much.
    fn round(self, mass: f64, minibatch: f64) -> u64 {
        let most = |workers: usize| (workers as u64 / 2).max(1);
        match self {
            Self::Fixed(workers) => most(workers),
            Self::Growing(workers) => ((0.5 * in_flight(mass) / minibatch) as u64).clamp(1, most(workers)),
        }
    }

    fn is_one(self) -> bool {
        matches!(self, Self::Fixed(0 | 1) | Self::Growing(0 | 1))
    }
}

impl<F, P> Clone for Rounds<F, P> {
    fn clone(&self) -> Self {
        Self { ends: self.ends.clone(), ..*self }
    }
}

impl<F: Conjugate, P: Process> Rounds<F, P> {
    /// The first round starts from this posterior.
    pub(crate) fn new(flight: Flight, start: Arc<Posterior<F, P>>) -> Self {
        // How large a minibatch is shows in the first one.
        let first = flight.round(0.0, 1.0);
        let (version, starts) = (start.version(), [0, first, 2 * first]);
        Self { flight, joined: 0, version, starts, ends: [End::new(Arc::clone(&start)), End::new(start)] }
    }

    /// Minibatches that have joined.
    pub(crate) fn joined(&self) -> u64 {
        self.joined
    }

    /// Whether these are rounds of this kind, and a posterior of this version is where they have come to.
    pub(crate) fn go_on(&self, flight: Flight, version: u64) -> bool {
        self.flight == flight && self.version == version
    }

    /// The posterior that this minibatch reads; `None` while its round has to wait.
    pub(crate) fn read_by(&self, minibatch: u64) -> Option<End<F, P>> {
        let [_, next, after_next] = self.starts;
        let end = match self.flight.is_one() {
            true if minibatch > self.joined => return None,
            true => 1,
            false if minibatch >= after_next => return None,
            false => usize::from(minibatch >= next),
        };
        Some(self.ends[end].clone())
    }

    /// The next minibatch has joined, and this is the posterior now; returns whether a round has ended.
    pub(crate) fn pass(&mut self, now: Arc<Posterior<F, P>>) -> bool {
        self.joined += 1;
        self.version = now.version();
        let [start, next, after_next] = self.starts;
        if self.joined < next {
            return false;
        }
        let minibatch = (now.rows() - self.ends[1].posterior.rows()) / (next - start) as f64;
        self.starts = [next, after_next, after_next + self.flight.round(now.mass(), minibatch)];
        self.ends.swap(0, 1);
        self.ends[1] = End::new(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Bernoulli;
    use crate::process::{Bound, Dirichlet};

    #[test]
    fn what_is_in_flight_grows_with_what_was_seen() {
        assert_eq!(Flight::Fixed(1).round(1e9, 1.0), 1);
        assert_eq!(Flight::Fixed(8).round(0.0, 256.0), 4);
        let growing = Flight::Growing(32);
        assert_eq!([0.0, 4e3, 20e3, 60e3, 1e9].map(|mass| growing.round(mass, 256.0)), [1, 1, 1, 3, 16]);
        assert_eq!([125e3, 250e3].map(|mass| growing.round(mass, 1024.0)), [3, 15]);
        // Rows without weight.
        assert_eq!(growing.round(0.0, 0.0), 1);
        assert_eq!(growing.round(1.0, 0.0), 16);
        // A further pass takes old evidence away as it goes.
        assert_eq!(growing.round(1.0, -1.0), 1);
    }

    /// A posterior that has seen so much.
    fn seen(mass: f64) -> Arc<Posterior<Bernoulli, Dirichlet>> {
        let family = Bernoulli::new(vec![0.5], vec![0.5]).unwrap();
        let mut posterior = Posterior::prior(family, Dirichlet::new(1.0, Bound::Paper).unwrap());
        posterior.mass = mass;
        Arc::new(posterior)
    }

    #[test]
    fn the_next_round_is_as_long_as_minibatches_are_large() {
        let flight = Flight::Growing(64);
        let ends = [End::new(seen(242e3)), End::new(seen(246e3))];
        let mut rounds = Rounds { flight, joined: 3, version: 0, starts: [0, 4, 8], ends };
        // Four minibatches of a thousand rows.
        assert!(rounds.pass(seen(250e3)));
        assert_eq!(rounds.starts, [4, 8, 8 + flight.round(250e3, 1000.0)]);
        assert_eq!(rounds.ends.each_ref().map(|end| end.posterior.mass()), [246e3, 250e3]);
    }

    #[test]
    fn rounds_go_on_only_where_nothing_has_changed() {
        let rounds = Rounds::new(Flight::Fixed(4), seen(10.0));
        assert!(rounds.go_on(Flight::Fixed(4), 0));
        assert!(!rounds.go_on(Flight::Fixed(4), 1) && !rounds.go_on(Flight::Growing(4), 0));
    }
}
