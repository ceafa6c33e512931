//! Every kind of model by the same protocol, without a server: replicas that read the journal, that begin at a snapshot and that
//! are told states come to the same, bit by bit, and to what one process makes of the same increments.

use anabranch::batch::{Batch, Minibatch};
use anabranch::central::{BatchId, Central, Fold, Memory};
use anabranch::documents::Documents;
use anabranch::engine::{self, minibatch_rng};
use anabranch::family::{LinearGaussian, Topic};
use anabranch::identify::Identification;
use anabranch::infer::Inference;
use anabranch::process::{Beta, Bound, Hierarchical};
use anabranch_cluster::protocol::{Append, Author, Event, Record, Replica, State, Step, Sum, Told, split};
use anabranch_cluster::{BatchOf, Count, Features, FoldOf, JobSpec, Kind, MemoryOf, Topics};
use anabranch_io::model::{Provenance, StoredModel, TopicModel, TopicProvenance};
use anabranch_io::words::Vocabulary;
use anabranch_io::{Column, Schema};

const WORDS: usize = 6;

/// Documents of two topics, of five words each.
fn documents(from: u32, n: u32) -> Documents {
    let one = |ix: u32| {
        let words = (0..3).map(|w| (3 * (ix % 2) + w, if w == ix % 3 { 3.0 } else { 1.0 }));
        words.collect::<Vec<_>>()
    };
    Documents::new(WORDS, (from..from + n).map(one)).unwrap()
}

/// Rows that have one of two features, or both.
fn rows(from: u32, n: u32) -> Batch {
    let cell = |ix: u32, column: u32| {
        let (a, b) = (!ix.is_multiple_of(3), ix % 3 != 1);
        let noise = f64::from((ix * 7 + column * 13) % 11) * 0.01;
        f64::from(u8::from(a)) * f64::from(column)
            + f64::from(u8::from(b)) * (3.0 - f64::from(column))
            + noise
    };
    Batch::new(4, (from..from + n).flat_map(|ix| (0..4).map(move |column| cell(ix, column))).collect())
        .unwrap()
}

fn begin<K: Kind>(family: K::Family, process: K::Process, first: BatchOf<K>) -> (FoldOf<K>, MemoryOf<K>) {
    let central = Central::from_fold(Fold::new(family, process)).with_memory(Memory::default());
    let config = K::config(&JobSpec::default());
    let Ok(_) = engine::bootstrap(&central, &mut std::iter::once(first).enumerate(), &config, &mut ());
    central.state()
}

fn read<K: Kind>(replica: &mut Replica<K>, record: &[u8]) {
    let at = replica.position() + 1;
    for message in split(record, at, usize::MAX) {
        replica.read(at, Append::Plain, &message).unwrap();
    }
}

fn go<K: Kind>(model: K::Model, memory: MemoryOf<K>, batches: &[BatchOf<K>]) -> Replica<K> {
    let settings = K::config(&JobSpec::default()).inference;
    let mut journal = vec![Record::<K>::Begin(Box::new((model, memory))).to_bytes()];
    let mut replica = Replica::<K>::new();
    read(&mut replica, &journal[0]);
    let alone = Central::from_fold(replica.fold().unwrap().clone());
    let (begun, rows_before) = (replica.clone(), replica.rows());
    let mut halfway = None;
    for (id, batch) in (1..).map(BatchId).zip(batches) {
        let posterior = replica.posterior().unwrap().clone();
        let mut workspace = Default::default();
        let increment = settings.infer(&posterior, batch, &mut minibatch_rng(0, id), &mut workspace);
        alone.absorb(id, increment.clone(), Identification::Optimal).unwrap();
        let count = Count { rows: batch.n_rows() as u64, left_out: 1.5 };
        let Step::Append { record, .. } =
            Author::new(Sum::of(id, count, increment), Identification::Optimal).next(&replica, Event::Ready)
        else {
            panic!("nobody was here before")
        };
        journal.push(record.to_bytes());
        // Twice: the second is void.
        journal.push(record.to_bytes());
        journal[journal.len() - 2..].iter().for_each(|record| read(&mut replica, record));
        if halfway.is_none() {
            halfway = Some((replica.to_snapshot().unwrap(), journal.len()));
        }
    }
    let all: usize = batches.iter().map(Minibatch::n_rows).sum();
    assert_eq!(replica.rows(), rows_before + all as u64);
    assert_eq!(replica.tally().repeated, batches.len() as u64);
    let (here, there) = (replica.posterior().unwrap(), alone.snapshot());
    assert_eq!((here.mass(), here.components().len()), (there.mass(), there.components().len()));
    for (a, b) in here.components().iter().zip(there.components()) {
        assert_eq!((a.id(), a.evidence()), (b.id(), b.evidence()));
    }
    let (snapshot, from) = halfway.unwrap();
    let mut newcomer = Replica::<K>::from_snapshot(&snapshot).unwrap();
    journal[from..].iter().for_each(|record| read(&mut newcomer, record));
    let state = replica.state_since(Some(&begun), 7).unwrap();
    let mut told = begun;
    assert_eq!(told.take(&State::from_bytes::<K>(&state.to_bytes::<K>()).unwrap()), Told::Taken);
    for other in [&newcomer, &told] {
        let same = |replica: &Replica<K>| (replica.fingerprint(), replica.rows(), replica.position());
        assert_eq!(same(other), same(&replica));
    }
    replica
}

#[test]
fn topics_go_by_the_protocol() {
    let family = Topic::new(WORDS, 0.05).unwrap();
    let process = Hierarchical::new(1.0, 1.0, Bound::Paper).unwrap();
    let (fold, memory) = begin::<Topics>(family, process, documents(0, 60));
    let vocabulary = Vocabulary::new((0..WORDS).map(|word| format!("w{word}")).collect()).unwrap();
    let provenance = TopicProvenance { documents: 60, unknown_words: 2.0, ..TopicProvenance::default() };
    let batches: Vec<Documents> = (0..4).map(|n| documents(60 + 20 * n, 20)).collect();
    let model = TopicModel { fold, vocabulary, provenance };
    let replica = go::<Topics>(model, memory, &batches);
    // Every word counts once, and a document does.
    assert_eq!(replica.posterior().unwrap().mass(), 5.0 * 140.0);
    let model = replica.model().unwrap();
    assert_eq!((model.provenance.documents, model.provenance.unknown_words), (140, 2.0 + 4.0 * 1.5));
}

#[test]
fn features_go_by_the_protocol() {
    let family = LinearGaussian::new(4, 0.01, 1.0).unwrap();
    let process = Beta::new(2.0, 1.0, Bound::Paper).unwrap();
    let (fold, memory) = begin::<Features>(family, process, rows(0, 90));
    let columns = ["a", "b", "c", "d"].map(Column::number).into();
    let provenance = Provenance {
        bootstrap_rows: 90,
        batch_size: 30,
        observations: 90,
        ..Provenance::new(Schema { columns, named: true })
    };
    let batches: Vec<Batch> = (0..3).map(|n| rows(90 + 30 * n, 30)).collect();
    let replica = go::<Features>(StoredModel { fold, provenance }, memory, &batches);
    assert_eq!(replica.posterior().unwrap().mass(), 180.0);
}

/// Evidence of topics without a single sum, and counts that nothing can have: void, and no panic.
#[test]
fn hostile_entries_of_topics_are_void() {
    use anabranch::central::{Absorb, Entry};
    use anabranch::identify::{ComponentId, Target};
    use anabranch::posterior::Evidence;
    let family = Topic::new(WORDS, 0.05).unwrap();
    let process = Hierarchical::new(1.0, 1.0, Bound::Paper).unwrap();
    let (fold, memory) = begin::<Topics>(family, process, documents(0, 60));
    let vocabulary = Vocabulary::new((0..WORDS).map(|word| format!("w{word}")).collect()).unwrap();
    let model = TopicModel { fold, vocabulary, provenance: TopicProvenance::default() };
    let mut replica = Replica::<Topics>::new();
    read(&mut replica, &Record::<Topics>::Begin(Box::new((model, memory))).to_bytes());
    let before = (replica.fingerprint(), replica.rows());
    let evidence = |stats: Vec<f64>| Evidence { stats, labels: Default::default() };
    let entry = |stats: Vec<f64>, mass: f64| {
        let (existing, new) =
            (vec![(ComponentId(0), evidence(stats.clone()))], vec![(Target::New, evidence(stats))]);
        Entry::Absorb(Absorb { batch: BatchId(9), base: 0, pass: 0, mass, familiarity: None, existing, new })
    };
    let bad = [
        (Count::default(), entry(Vec::new(), 0.0)),
        (Count::default(), entry(vec![f64::NAN; WORDS + 1], 1.0)),
        (Count::default(), entry(vec![0.0; WORDS + 1], f64::INFINITY)),
        (Count { rows: 1, left_out: f64::NAN }, entry(vec![0.0; WORDS + 1], 0.0)),
        (Count { rows: 1, left_out: -1.0 }, entry(vec![0.0; WORDS + 1], 0.0)),
    ];
    for (count, entry) in bad {
        read(&mut replica, &Record::<Topics>::Counted { count, entry }.to_bytes());
        assert_eq!((replica.fingerprint(), replica.rows()), before);
    }
}
