//! What the holder of the lease does for the model: the prior again, merges and splits whenever the data have doubled, and what
//! ends a run when everything that was submitted is in. The same as in one process, as entries of the journal.

use std::sync::Arc;

use anabranch::central::{Central, Entry, Fold};
use anabranch::engine::{self, Config, is_due};
use tokio::task::JoinSet;

use super::Crew;
use crate::kind::{BatchOf, EntryOf, Kind};
use crate::metrics::add;
use crate::names::count_of_source;
use crate::protocol::{Append, Event, Expectation, Record, Replica};
use crate::spec::JobSpec;
use crate::submit::sources;

/// What a holder of the lease has done so far.
#[derive(Default)]
pub(super) struct Upkeep {
    /// Mass when the model was looked after last, once this is known.
    tended_at: Option<f64>,
    /// One at a time, beside the beat of the lease.
    task: JoinSet<()>,
}

/// How much is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// The data have doubled.
    Tend,
    /// The stream has ended.
    Finish,
}

impl Upkeep {
    /// Starts what is due, unless something is under way.
    pub(super) async fn if_due<K: Kind>(&mut self, crew: &Arc<Crew<K>>) {
        while self.task.try_join_next().is_some() {}
        let Some(posterior) = crew.central.posterior().filter(|_| self.task.is_empty()) else { return };
        let mass = posterior.mass();
        // After the bootstrap nothing is due; a later holder does not know what the one before has done.
        let just_begun = || crew.central.with(|replica| replica.tally().counted <= 1);
        let tended_at = *self.tended_at.get_or_insert_with(|| if just_begun() { mass } else { 0.0 });
        let work = if has_drained(crew).await {
            Work::Finish
        } else if is_due(mass, mass - tended_at) {
            Work::Tend
        } else {
            return;
        };
        self.tended_at = Some(mass);
        self.task.spawn(look_after(Arc::clone(crew), work));
    }

    /// Somebody else holds the lease.
    pub(super) fn resign(&mut self) {
        *self = Self::default();
    }
}

/// True when every source has ended, all it published is in or set aside, and the model was not finished since.
async fn has_drained<K: Kind>(crew: &Crew<K>) -> bool {
    let replica = crew.central.replica();
    if replica.is_finished() || !crew.job.waiting().await.is_ok_and(|waiting| waiting.messages == 0) {
        return false;
    }
    let Ok(sources) = sources(&crew.job).await else { return false };
    let absorbed = replica.fold().map(|fold| fold.absorbed().runs()).unwrap_or_default();
    let is_in =
        |number: u64| count_of_source(absorbed, number) + count_of_source(replica.aside().runs(), number);
    !sources.is_empty()
        && sources.iter().all(|(number, source)| source.finished && is_in(*number) >= source.published)
}

async fn look_after<K: Kind>(crew: Arc<Crew<K>>, work: Work) {
    let replica = crew.replica_with_sample();
    let settled = replica.settled();
    let spec = crew.job.spec.clone();
    let next_id = replica.fold().map_or(0, Fold::next_id);
    let Ok(entries) = tokio::task::spawn_blocking(move || entries(&replica, &spec, work)).await else {
        return;
    };
    let (records, next_id) = records(entries, next_id);
    for (record, lane) in &records {
        crew.append_once(record, *lane).await;
        add(&crew.metrics.upkeep, 1);
    }
    // Components that appeared meanwhile made a split void, and what followed from it: it is judged again.
    let overtaken = |replica: &Replica<K>| {
        replica.fold().is_some_and(|fold| fold.next_id() != next_id && fold.aside().is_some())
    };
    if work == Work::Finish && !(has_split(&records) && crew.central.with(overtaken)) {
        crew.append_once(&Record::Finished { settled }, Append::Plain).await;
        (crew.config.say)("everything that was submitted is in: the model is finished");
    }
}

/// What the engine would append: it works on a copy of the fold, and the journal gets the same entries.
fn entries<K: Kind>(replica: &Replica<K>, spec: &JobSpec, work: Work) -> Vec<EntryOf<K>> {
    let Some(central) = central(replica) else { return Vec::new() };
    let (central, config) = (central.recording(), config::<K>(spec));
    match work {
        Work::Tend => engine::tend(&central, &config),
        Work::Finish => engine::finish(&central, &config),
    }
    let mut recorded = central.take_recorded();
    recorded.retain(|entry| spec.has_ordinary() || !matches!(entry, Entry::Ordinary(_)));
    recorded
}

/// The entries as records, each with its lane, and the number of the next component after them all. From the first split on,
/// they count only while no other components appear: a split must not come twice, and what follows may name its parts.
fn records<K: Kind>(entries: Vec<EntryOf<K>>, mut next_id: u64) -> (Vec<(Record<K>, Append)>, u64) {
    let mut records = Vec::with_capacity(entries.len());
    let mut has_split = false;
    for entry in entries {
        let new = match &entry {
            Entry::Split { parts, .. } => Some(parts.len() as u64 - 1),
            _ => None,
        };
        has_split |= new.is_some();
        let record = if has_split { Record::Judged { next_id, entry } } else { Record::Entry(entry) };
        records.push((record, if new.is_some() { Append::Births } else { Append::Plain }));
        next_id += new.unwrap_or(0);
    }
    (records, next_id)
}

fn has_split<K: Kind>(records: &[(Record<K>, Append)]) -> bool {
    records.iter().any(|(_, lane)| *lane == Append::Births)
}

fn central<K: Kind>(replica: &Replica<K>) -> Option<Central<K::Family, K::Process, BatchOf<K>>> {
    let fold = replica.fold()?.clone();
    Some(Central::from_fold(fold).with_memory(replica.memory().clone()))
}

fn config<K: Kind>(spec: &JobSpec) -> Config<K::Inference> {
    // One thread: the worker's others go on with minibatches.
    Config { threads: 1, ..K::config(spec) }
}

/// Ends a replica for whoever takes it from here: the first rows again, the prior again, merges. The journal is left alone, and so
/// is a model that was finished there.
pub fn finish<K: Kind>(replica: &mut Replica<K>, spec: &JobSpec) {
    if replica.is_finished() {
        return;
    }
    if let Some(central) = central(replica) {
        engine::finish(&central, &config::<K>(spec));
        replica.go_on_from(central.checkpoint());
    }
}

impl<K: Kind> Crew<K> {
    /// The replica with the sample of all rows that this worker knows of.
    pub(super) fn replica_with_sample(&self) -> Replica<K> {
        let mut replica = self.central.replica();
        replica.pool(&self.sample.lock().expect("no holder panics"));
        replica
    }

    /// Appends a record that does no harm when it comes twice, and reads up to it.
    async fn append_once(&self, record: &Record<K>, lane: Append) {
        let bytes = record.to_bytes();
        loop {
            match self.send(&bytes, lane, Expectation::None).await {
                Event::Appended(at) => return self.central.reaches(at).await,
                _ => self.read_all().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::batch::Batch;
    use anabranch::central::Part;
    use anabranch::family::{AnyFamily, Gaussian};
    use anabranch::process::{AnyProcess, Bound};
    use anabranch_io::model::{Model, Provenance};
    use anabranch_io::{Column, Schema};
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::kind::Mixture;
    use crate::protocol::split;

    type Replica = super::Replica<Mixture>;
    type Record = super::Record<Mixture>;

    /// Two clusters, 3000 rows, minibatches of 1000 of which the first is the bootstrap's.
    fn rows() -> Vec<Batch> {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(4);
        let mut bell = || (0..12).map(|_| rng.random_range(-0.5..0.5)).sum::<f64>();
        let values: Vec<f64> = (0..3000).map(|row| f64::from(row % 2) * 9.0 + bell()).collect();
        values.chunks(1000).map(|values| Batch::new(1, values.to_vec()).unwrap()).collect()
    }

    fn learned() -> Central<AnyFamily, AnyProcess> {
        let batches = rows();
        let family = Gaussian::from_rows(&batches[0]).unwrap().into();
        let central = Central::new(family, AnyProcess::new(5.0, None, Bound::Paper).unwrap());
        let config = Config { bootstrap_rows: 1000, threads: 1, workers: 1, ..Config::default() };
        let mut source = batches.into_iter().enumerate();
        engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
        engine::run(&central, &mut source, &config, &mut ()).unwrap();
        central
    }

    fn begun(central: &Central<AnyFamily, AnyProcess>) -> Replica {
        let provenance = Provenance {
            bootstrap_rows: 1000,
            batch_size: 1000,
            observations: 3000,
            ..Provenance::new(Schema { columns: vec![Column::number("x")], named: true })
        };
        let mut replica = Replica::new();
        let model = Model { fold: central.checkpoint(), provenance };
        read(&mut replica, &Record::Begin(Box::new((model, central.memory()))));
        replica
    }

    fn read(replica: &mut Replica, record: &Record) {
        let at = replica.position() + 1;
        for message in split(&record.to_bytes(), at, usize::MAX) {
            replica.read(at, Append::Plain, &message).unwrap();
        }
    }

    #[test]
    fn a_replica_that_reads_the_entries_is_what_the_engine_makes_of_the_same_run() {
        let central = learned();
        let mut replica = begun(&central);
        assert!(replica.memory().first().is_some() && replica.fold().unwrap().aside().is_some());
        let entries = entries(&replica, &JobSpec::default(), Work::Finish);
        assert!(entries.len() >= 3, "{entries:?}");
        let (records, next_id) = records(entries, replica.fold().unwrap().next_id());
        records.iter().for_each(|(record, _)| read(&mut replica, record));
        assert_eq!(replica.fold().unwrap().next_id(), next_id);
        engine::finish(&central, &config::<Mixture>(&JobSpec::default()));
        let (ours, theirs) = (replica.posterior().unwrap(), central.snapshot());
        assert_eq!(ours.version(), theirs.version());
        assert_eq!(ours.family(), theirs.family());
        for (a, b) in ours.components().iter().zip(theirs.components()) {
            assert_eq!((a.id(), a.evidence()), (b.id(), b.evidence()));
        }
        assert!(replica.memory().first().is_none() && replica.fold().unwrap().aside().is_none());
        assert_eq!(ours.mass(), 3000.0);
    }

    #[test]
    fn a_split_counts_once_however_often_it_comes() {
        let central = learned();
        let mut replica = begun(&central);
        let (next_id, born) = (replica.fold().unwrap().next_id(), replica.tally().born);
        let whole = replica.posterior().unwrap().components()[0].clone();
        let part = |share| Part { share, offset: vec![0.0; whole.evidence().stats.len()] };
        let split = |first, second| Entry::Split { id: whole.id(), parts: vec![part(first), part(second)] };
        let (records, after) = records(vec![split(0.25, 0.75), Entry::SetAside], next_id);
        assert_eq!((records[0].1, records[1].1, after), (Append::Births, Append::Plain, next_id + 1));
        read(&mut replica, &records[0].0);
        let state = |replica: &Replica| {
            let posterior = replica.posterior().unwrap();
            (posterior.version(), posterior.components().len(), replica.fingerprint())
        };
        let once = state(&replica);
        assert_eq!((replica.fold().unwrap().next_id(), replica.tally().born), (after, born + 1));
        read(&mut replica, &records[0].0);
        assert_eq!(state(&replica), once);
        // What follows from a split is void where somebody else's components came first.
        read(&mut replica, &Record::Judged { next_id, entry: Entry::SetAside });
        assert_eq!(state(&replica), once);
        for (first, second) in [(1.5, -0.5), (f64::NAN, 0.5), (1.0, 0.0)] {
            read(&mut replica, &Record::Entry(split(first, second)));
            assert_eq!(state(&replica), once);
        }
        assert_eq!(replica.posterior().unwrap().mass(), 3000.0);
    }

    #[test]
    fn a_replica_says_that_it_is_finished_until_more_joins() {
        let central = learned();
        let mut replica = begun(&central);
        assert!(!replica.is_finished());
        let settled = replica.settled();
        read(&mut replica, &Record::Finished { settled });
        assert!(replica.is_finished());
        let mut again = Replica::from_snapshot(&replica.to_snapshot().unwrap()).unwrap();
        assert!(again.is_finished() && again.memory().first().is_some());
        read(&mut again, &Record::Aside { batch: anabranch::central::BatchId(99), reason: "late".into() });
        assert!(!again.is_finished());
    }
}
