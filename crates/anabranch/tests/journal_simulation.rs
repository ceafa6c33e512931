//! The journal under a hostile network: workers with stale snapshots, entries that come late, twice and out of order,
//! merges and new priors in between. One thread, seeded, compared with a naive model after every entry.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use anabranch::central::{Absorb, BatchId, Entry, Fold, Void};
use anabranch::family::Bernoulli;
use anabranch::identify::{ComponentId, Identification, Target, correspond};
use anabranch::posterior::{Evidence, Posterior};
use anabranch::process::Dirichlet;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use support::{assert_snapshot_invariants, certain, fingerprint, process};

const SEEDS: u64 = 3000;
const STEPS: usize = 40;
const WORKERS: usize = 8;

type Snapshot = Posterior<Bernoulli, Dirichlet>;
type Message = Entry<Bernoulli, Dirichlet>;

/// What the posterior must be, kept in the plainest way: rows and ones of each id, and who swallowed whom.
#[derive(Default)]
struct Naive {
    held: BTreeMap<u64, [f64; 2]>,
    swallowed: BTreeMap<u64, u64>,
    batches: BTreeSet<u64>,
    accepted: u64,
}

impl Naive {
    fn owner(&self, id: u64) -> u64 {
        self.swallowed.get(&id).map_or(id, |next| self.owner(*next))
    }

    fn give(&mut self, id: u64, evidence: &Evidence) {
        let owner = self.owner(id);
        let held = self.held.entry(owner).or_default();
        held.iter_mut().zip(&evidence.stats).for_each(|(sum, value)| *sum += value);
    }

    fn accept(&mut self, message: &Message) {
        self.accepted += 1;
        match message {
            Entry::Absorb(entry) => {
                assert!(self.batches.insert(entry.batch.0), "ONCE: {:?} counted again", entry.batch);
                entry.existing.iter().for_each(|(id, evidence)| self.give(id.0, evidence));
                for (target, evidence) in &entry.new {
                    let fresh = (self.held.len() + self.swallowed.len()) as u64;
                    self.give(if let Target::Existing(id) = target { id.0 } else { fresh }, evidence);
                }
            }
            Entry::Retire { id, into } => {
                let (from, into) = (self.owner(id.0), self.owner(into.0));
                let held = self.held.remove(&from).unwrap();
                self.swallowed.insert(from, into);
                self.give(into, &certain(held[0], &held[1..]));
            }
            _ => {}
        }
    }

    fn assert_equals(&self, fold: &Fold<Bernoulli, Dirichlet>) {
        let posterior = fold.posterior();
        let found = posterior.components().iter().map(|c| {
            assert_eq!(c.evidence().stats[0], c.expected_count());
            (c.id().0, [c.evidence().stats[0], c.evidence().stats[1]])
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), self.held);
        // Whole numbers: MASS holds exactly, without a tolerance.
        assert_eq!(posterior.mass(), self.held.values().map(|held| held[0]).sum::<f64>());
        assert_eq!(posterior.version(), self.accepted);
        assert_eq!(fold.absorbed().len(), self.batches.len() as u64);
        assert!(self.batches.iter().all(|id| fold.absorbed().contains(BatchId(*id))));
        assert_eq!(fold.next_id(), (self.held.len() + self.swallowed.len()) as u64);
        for id in self.swallowed.keys() {
            assert_eq!(posterior.resolve(ComponentId(*id)).0, self.owner(*id));
        }
    }
}

/// The world: a fold, snapshots that workers hold, and messages on their way.
struct World {
    rng: Xoshiro256PlusPlus,
    fold: Fold<Bernoulli, Dirichlet>,
    held: Vec<Snapshot>,
    on_the_way: Vec<(Message, Vec<Evidence>, u64)>,
    naive: Naive,
    accepted: Vec<Message>,
    next_batch: u64,
    refused: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let fold = Fold::new(Bernoulli::new(vec![0.5], vec![0.5]).unwrap(), process());
        Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            held: vec![fold.posterior().clone(); WORKERS],
            fold,
            on_the_way: Vec::new(),
            naive: Naive::default(),
            accepted: Vec::new(),
            next_batch: 0,
            refused: BTreeMap::new(),
        }
    }

    fn evidence(&mut self) -> Evidence {
        let rows = self.rng.random_range(1..9);
        certain(f64::from(rows), &[f64::from(self.rng.random_range(0..=rows))])
    }

    /// A worker learns from a minibatch with the snapshot it holds, which may be old, and sends what it found.
    fn learn(&mut self) {
        let worker = self.rng.random_range(0..WORKERS);
        let known: Vec<ComponentId> = self.held[worker].components().iter().map(|c| c.id()).collect();
        let existing: Vec<_> = known
            .into_iter()
            .filter(|_| self.rng.random_bool(0.5))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|id| (id, self.evidence()))
            .collect();
        let new: Vec<Evidence> = (0..self.rng.random_range(0..3)).map(|_| self.evidence()).collect();
        let evidence = existing.iter().map(|(_, e)| e).chain(&new);
        let mass = evidence.map(|e| e.labels.expected_count).sum();
        let base = self.held[worker].version();
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        let targets = new.iter().cloned().map(|e| (Target::New, e)).collect();
        let entry =
            Entry::Absorb(Absorb { batch, base, pass: 0, mass, familiarity: None, existing, new: targets });
        self.on_the_way.push((entry, new, base));
        if self.rng.random_bool(0.7) {
            self.held[worker] = self.fold.posterior().clone();
        }
    }

    /// Somebody decides to merge two components that were there when he last looked, or to change the prior.
    fn decide(&mut self) {
        let worker = self.rng.random_range(0..WORKERS);
        let ids: Vec<ComponentId> = self.held[worker].components().iter().map(|c| c.id()).collect();
        let entry = if ids.is_empty() || self.rng.random_bool(0.3) {
            let ones = f64::from(self.rng.random_range(1..5));
            Entry::Prior { family: Bernoulli::new(vec![ones], vec![1.0]).unwrap(), process: process() }
        } else {
            let mut pick = || ids[self.rng.random_range(0..ids.len())];
            Entry::Retire { id: pick(), into: pick() }
        };
        self.on_the_way.push((entry, vec![], 0));
    }

    /// Some message arrives; it may arrive again later, and a worker that was too late identifies again.
    fn deliver(&mut self) {
        if self.on_the_way.is_empty() {
            return;
        }
        let ix = self.rng.random_range(0..self.on_the_way.len());
        let (message, new, base) = if self.rng.random_bool(0.2) {
            self.on_the_way[ix].clone()
        } else {
            self.on_the_way.swap_remove(ix)
        };
        let before = fingerprint(self.fold.posterior());
        match self.fold.apply(&message) {
            Ok(()) => {
                self.naive.accept(&message);
                self.accepted.push(message);
            }
            Err(void) => {
                assert_eq!(fingerprint(self.fold.posterior()), before, "{void} changed something");
                self.refuse(void, message, new, base);
            }
        }
        self.naive.assert_equals(&self.fold);
        assert_snapshot_invariants(self.fold.posterior());
    }

    fn refuse(&mut self, void: Void, message: Message, new: Vec<Evidence>, base: u64) {
        let (why, again) = match void {
            Void::AlreadyAbsorbed(_) => ("twice", false),
            Void::IntoItself(_) => ("into itself", false),
            Void::Superseded { created, base } => {
                assert!(created > base);
                ("superseded", true)
            }
            // Somebody else has ended it in the meantime: the merge was not judged.
            Void::UnknownComponent(_) if matches!(message, Entry::Retire { .. }) => {
                ("of an ended one", false)
            }
            other => panic!("no worker sends this: {other}"),
        };
        *self.refused.entry(why).or_default() += 1;
        let Entry::Absorb(mut entry) = message else { return };
        let mass = entry.mass;
        if again {
            let current = self.fold.posterior();
            let found = correspond(current, base, mass, &new, Identification::Optimal).correspondence;
            entry.new = found.targets().iter().copied().zip(new.iter().cloned()).collect();
            entry.base = current.version();
            self.on_the_way.push((Entry::Absorb(entry), new, base));
        }
    }

    fn run(mut self) -> Self {
        for _ in 0..STEPS {
            match self.rng.random_range(0..10) {
                0..4 => self.learn(),
                4 => self.decide(),
                _ => self.deliver(),
            }
        }
        self
    }
}

#[test]
fn whatever_the_network_does_the_fold_is_what_a_naive_model_says() {
    let mut refused = BTreeMap::new();
    let mut accepted = 0;
    for seed in 0..SEEDS {
        let world = World::new(seed).run();
        accepted += world.accepted.len();
        world.refused.iter().for_each(|(why, n)| *refused.entry(*why).or_insert(0) += n);
    }
    assert!(accepted > 20_000, "{accepted} entries are too few to show anything");
    for why in ["twice", "into itself", "superseded"] {
        assert!(refused.get(why).is_some_and(|n| *n > 100), "{why}: {refused:?}");
    }
}

#[test]
fn replaying_the_accepted_entries_gives_the_same_posterior() {
    for seed in 0..SEEDS / 4 {
        let world = World::new(seed).run();
        let mut replay = Fold::new(Bernoulli::new(vec![0.5], vec![0.5]).unwrap(), process());
        world.accepted.iter().for_each(|entry| replay.apply(entry).unwrap());
        assert_eq!(fingerprint(world.fold.posterior()), fingerprint(replay.posterior()));
        assert_eq!(world.fold.absorbed(), replay.absorbed());
        assert_eq!(world.fold.next_id(), replay.next_id());
    }
}

#[test]
fn a_fold_checkpointed_in_the_middle_goes_on_as_if_nothing_had_happened() {
    for seed in 0..SEEDS / 4 {
        let world = World::new(seed).run();
        let (first, second) = world.accepted.split_at(world.accepted.len() / 2);
        let mut fold = Fold::new(Bernoulli::new(vec![0.5], vec![0.5]).unwrap(), process());
        first.iter().for_each(|entry| fold.apply(entry).unwrap());
        let mut resumed = Fold::resume(
            fold.posterior().clone(),
            fold.absorbed().clone(),
            fold.next_id(),
            fold.last_birth(),
        );
        second.iter().for_each(|entry| resumed.apply(entry).unwrap());
        assert_eq!(fingerprint(world.fold.posterior()), fingerprint(resumed.posterior()));
    }
}
