//! The first model of a job: the same bootstrap as in one process, on the minibatches that came first.

use std::convert::Infallible;
use std::sync::Arc;

use anabranch::batch::{Batch, Minibatch};
use anabranch::central::{BatchId, BatchSet, Central, Fold, Memory};
use anabranch::documents::Documents;
use anabranch::engine::{BatchSource, Config};
use anabranch::family::LinearGaussian;
use anabranch::infer::PriorChoice;
use anabranch::learner::run::Run;
use anabranch::process::{AnyProcess, Beta};
use anabranch_cluster::{
    BatchOf, Features, FoldOf, Founder, Founding, Job, JobSpec, Kind, MemoryOf, Mixture, ModelSpec,
    TopicSpec, Topics, WordSpec, document_options, message_limits,
};
use anabranch_io::model::{Model, Provenance, TextProvenance, TopicModel, TopicProvenance};
use anabranch_io::words::{Bags, Vocabulary, WordChoice};
use anabranch_io::{Column, Input, ReadOptions, Schema, Source, open};

use super::{prior_args, process};
use crate::args::{PriorArgs, TopicArgs};
use crate::failure::Failure;
use crate::features::{FeatureModel, LARGEST};
use crate::fit::FamilySpec;
use crate::reading::{DomainFilter, read_all};
use crate::topics;

/// What messages call rows that come from the queue.
const QUEUE: &str = "minibatch";

/// What the commands know of a kind.
pub trait Known: Kind {
    /// Who makes the first model of a job, on so many threads.
    async fn founder(job: &Job, threads: usize) -> Result<Arc<dyn Founder<Self>>, Failure>;

    /// The model as it is kept, by one who remembers this of its data.
    fn kept(model: Self::Model, _memory: &MemoryOf<Self>) -> Self::Model {
        model
    }
}

impl Known for Mixture {
    async fn founder(job: &Job, threads: usize) -> Result<Arc<dyn Founder<Self>>, Failure> {
        Ok(Arc::new(FirstModel::new(job.spec(), threads)?))
    }
}

impl Known for Features {
    async fn founder(job: &Job, threads: usize) -> Result<Arc<dyn Founder<Self>>, Failure> {
        Ok(Arc::new(FirstFeatures::new(job.spec(), threads)?))
    }
}

impl Known for Topics {
    async fn founder(job: &Job, threads: usize) -> Result<Arc<dyn Founder<Self>>, Failure> {
        let ModelSpec::Topics(topics) = &job.spec().model else { return Err(another_model()) };
        let vocabulary = match topics.words {
            WordSpec::Found => None,
            WordSpec::Numbered(n) => Some(Vocabulary::numbered(usize::try_from(n).unwrap_or(usize::MAX))),
            WordSpec::Attached => {
                let text = String::from_utf8_lossy(&job.attached().await?).into_owned();
                Some(Vocabulary::new(text.lines().map(str::to_owned).collect()))
            }
        };
        let vocabulary = vocabulary.transpose().map_err(Failure::input)?;
        Ok(Arc::new(FirstTopics {
            spec: job.spec().clone(),
            topics: (**topics).clone(),
            vocabulary,
            threads,
        }))
    }

    fn kept(model: TopicModel, memory: &Memory<Documents>) -> TopicModel {
        topics::stored(model, memory)
    }
}

fn another_model() -> Failure {
    Failure::Internal { message: "a job of one kind was asked for a founder of another".to_owned() }
}

/// Learns from the first minibatches, joined; their names are in the fold afterwards.
fn begin<K: Kind>(
    central: Central<K::Family, K::Process, BatchOf<K>>,
    spec: &JobSpec,
    threads: usize,
    founding: &Founding,
    data: BatchOf<K>,
) -> (FoldOf<K>, MemoryOf<K>) {
    let config = Config {
        threads,
        // A minibatch of fewer rows than this is all there is.
        bootstrap_rows: data.n_rows() + usize::from(founding.everything),
        ..K::config(spec)
    };
    let first = founding.messages.first().map_or(BatchId(0), |(id, _)| *id);
    let run = Run::new(central, config);
    let Ok(_) = run.begin(&mut Once(Some((first, data))), &mut ());
    let (fold, memory) = run.centre().state();
    let mut absorbed = BatchSet::default();
    founding.messages.iter().for_each(|(id, _)| _ = absorbed.insert(*id));
    let fold = Fold::resume(fold.posterior().clone(), absorbed, fold.next_id(), fold.last_birth()).within(
        fold.posterior().pass(),
        fold.aside(),
        fold.posterior().familiarity(),
    );
    (fold, memory)
}

fn inputs(founding: &Founding) -> Vec<Vec<u8>> {
    founding.messages.iter().map(|(_, message)| message.to_vec()).collect()
}

/// How the rows of messages are read.
struct Rows {
    spec: JobSpec,
    options: ReadOptions,
}

impl Rows {
    /// Of these columns, where they are known.
    fn new(spec: &JobSpec, columns: Option<Vec<String>>, categorical: Vec<String>) -> Self {
        let options = match columns {
            // Arrays have no names: their columns are those of the job, in its order.
            Some(names) if categorical.is_empty() => ReadOptions {
                expect: Some(Schema {
                    columns: names.into_iter().map(Column::number).collect(),
                    named: true,
                }),
                ..ReadOptions::default()
            },
            columns => ReadOptions { columns, categorical, ..ReadOptions::default() },
        };
        Self { spec: spec.clone(), options: ReadOptions { on_bad_row: spec.on_bad_row, ..options } }
    }

    /// The rows of messages, joined, as far as they pass, and how they were read.
    fn read(
        &self,
        messages: Vec<Vec<u8>>,
        family: &FamilySpec,
        within: impl Fn(DomainFilter) -> DomainFilter,
    ) -> Result<(Batch, Box<dyn Source>), Failure> {
        let inputs: Vec<Input> = messages.into_iter().map(Input::Memory).collect();
        let limits = Some(message_limits(self.spec.batch_size).times(inputs.len() as u64));
        let mut source = open(&inputs, &ReadOptions { limits, ..self.options.clone() })?;
        let names = source.schema().names().map(str::to_owned).collect();
        let domain = family.domain(source.schema())?;
        let filter = DomainFilter::new(&[QUEUE.to_owned()], Some(domain), names, self.spec.on_bad_row);
        let rows = within(filter).filter(read_all(source.as_mut())?)?;
        Ok((rows, source))
    }

    /// Where the model of these rows comes from.
    fn provenance(&self, rows: &Batch, source: &dyn Source, prior: PriorChoice) -> Provenance {
        Provenance {
            seed: self.spec.seed,
            bootstrap_rows: rows.n_rows() as u64,
            batch_size: u64::from(self.spec.batch_size),
            observations: rows.n_rows() as u64,
            skipped_rows: source.skipped_rows(),
            prior_given: prior == PriorChoice::Given,
            ..Provenance::new(source.schema().clone())
        }
    }
}

/// Makes the first mixture as the job's settings say.
pub struct FirstModel {
    rows: Rows,
    family: FamilySpec,
    prior: PriorArgs,
    process: AnyProcess,
    threads: usize,
}

impl FirstModel {
    /// For a job with these settings, on so many threads.
    pub fn new(spec: &JobSpec, threads: usize) -> Result<Self, Failure> {
        let family = FamilySpec::parse(&spec.family)?;
        let prior = prior_args(&spec.prior);
        family.check_prior(&prior)?;
        let columns = family.columns().or_else(|| spec.columns.clone());
        let rows = Rows::new(spec, columns, family.categorical_columns());
        Ok(Self { process: process(spec)?, rows, family, prior, threads })
    }

    fn read(&self, messages: Vec<Vec<u8>>) -> Result<(Batch, Box<dyn Source>), Failure> {
        self.rows.read(messages, &self.family, |filter| filter)
    }

    fn make(&self, founding: &Founding) -> Result<(Model, Memory), Failure> {
        let (rows, source) = self.read(inputs(founding))?;
        if rows.n_rows() == 0 {
            return Err(Failure::input("none of the first rows lies in the domain of the family"));
        }
        let family = self.family.build(&rows, source.schema(), &self.prior)?;
        let provenance = self.rows.provenance(&rows, source.as_ref(), self.prior.choice());
        let central = Central::new(family, self.process);
        let (fold, memory) = begin::<Mixture>(central, &self.rows.spec, self.threads, founding, rows);
        Ok((Model { fold, provenance }, memory))
    }
}

impl Founder<Mixture> for FirstModel {
    fn check(&self, message: &[u8]) -> Result<usize, String> {
        self.read(vec![message.to_vec()]).map(|(rows, _)| rows.n_rows()).map_err(words)
    }

    fn found(&self, founding: Founding) -> Result<(Model, Memory), String> {
        self.make(&founding).map_err(words)
    }
}

/// Makes the first features.
struct FirstFeatures {
    rows: Rows,
    family: FamilySpec,
    process: Beta,
    variances: Option<(f64, f64)>,
    threads: usize,
}

impl FirstFeatures {
    fn new(spec: &JobSpec, threads: usize) -> Result<Self, Failure> {
        let ModelSpec::Features(features) = &spec.model else { return Err(another_model()) };
        let rows = Rows::new(spec, spec.columns.clone(), Vec::new());
        let family = FamilySpec::parse("spherical")?;
        Ok(Self { rows, family, process: features.process, variances: features.variances, threads })
    }

    fn read(&self, messages: Vec<Vec<u8>>) -> Result<(Batch, Box<dyn Source>), Failure> {
        self.rows.read(messages, &self.family, |filter| filter.within(LARGEST))
    }

    fn make(&self, founding: &Founding) -> Result<(FeatureModel, Memory), Failure> {
        let (rows, source) = self.read(inputs(founding))?;
        if rows.n_rows() == 0 {
            return Err(Failure::input("there are no rows among the first"));
        }
        let (noise, scale) = self.variances.unwrap_or((1.0, 1.0));
        let family = LinearGaussian::new(rows.dimensions(), noise, scale)
            .map_err(|error| Failure::input(error.to_string()))?;
        let prior = Features::config(&self.rows.spec).prior;
        let provenance = self.rows.provenance(&rows, source.as_ref(), prior);
        let central = Central::new(family, self.process);
        let (fold, memory) = begin::<Features>(central, &self.rows.spec, self.threads, founding, rows);
        Ok((FeatureModel { fold, provenance }, memory))
    }
}

impl Founder<Features> for FirstFeatures {
    fn check(&self, message: &[u8]) -> Result<usize, String> {
        self.read(vec![message.to_vec()]).map(|(rows, _)| rows.n_rows()).map_err(words)
    }

    fn found(&self, founding: Founding) -> Result<(FeatureModel, Memory), String> {
        self.make(&founding).map_err(words)
    }
}

/// Makes the first topics, and finds the words where they are not known.
struct FirstTopics {
    spec: JobSpec,
    topics: TopicSpec,
    vocabulary: Option<Vocabulary>,
    threads: usize,
}

impl FirstTopics {
    fn read(&self, messages: Vec<Vec<u8>>, text: TextProvenance) -> Result<(Documents, Bags), Failure> {
        let inputs: Vec<Input> = messages.into_iter().map(Input::Memory).collect();
        let options = document_options(&self.spec, inputs.len(), self.vocabulary.clone(), text);
        let mut bags = Bags::open(&inputs, options)?;
        let documents = bags.next_documents(usize::MAX)?;
        Ok((documents.ok_or_else(|| Failure::input("there are no documents"))?, bags))
    }

    fn make(&self, founding: &Founding) -> Result<(TopicModel, Memory<Documents>), Failure> {
        let (documents, bags) = self.read(inputs(founding), self.topics.text.clone())?;
        let known = bags.words().get();
        let (vocabulary, tokenizer) = known.ok_or_else(|| Failure::input("the documents have no words"))?;
        let text = (self.topics.text != TextProvenance::default())
            .then(|| TextProvenance { tokenizer, ..self.topics.text.clone() });
        let provenance = TopicProvenance {
            seed: self.spec.seed,
            bootstrap_documents: documents.len() as u64,
            batch_size: u64::from(self.spec.batch_size),
            documents: documents.len() as u64,
            skipped: bags.skipped(),
            unknown_words: bags.unknown_words(),
            text,
            ..TopicProvenance::default()
        };
        let told = TopicArgs { eta: self.topics.eta, ..TopicArgs::default() };
        let family = topics::family(&told, vocabulary.len()).map_err(Failure::input)?;
        let central = Central::new(family, self.topics.process).with_memory(Memory::default());
        let (fold, memory) = begin::<Topics>(central, &self.spec, self.threads, founding, documents);
        Ok((TopicModel { fold, vocabulary, provenance }, memory))
    }
}

impl Founder<Topics> for FirstTopics {
    fn check(&self, message: &[u8]) -> Result<usize, String> {
        // Words that are rare in one message may be frequent in all of them.
        let choice = WordChoice { least_documents: Some(1), most_share: 1.0, ..self.topics.text.choice };
        let text = TextProvenance { choice, ..self.topics.text.clone() };
        self.read(vec![message.to_vec()], text).map(|(documents, _)| documents.len()).map_err(words)
    }

    fn found(&self, founding: Founding) -> Result<(TopicModel, Memory<Documents>), String> {
        self.make(&founding).map_err(words)
    }
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Input { message, .. } | Failure::Internal { message } | Failure::Stopped(message) => message,
        Failure::BrokenPipe => "broken pipe".into(),
        Failure::Several(failures) => failures.into_iter().map(words).collect::<Vec<_>>().join("; "),
    }
}

/// A source of one minibatch.
struct Once<B>(Option<(BatchId, B)>);

impl<B: Minibatch> BatchSource for Once<B> {
    type Batch = B;
    type Error = Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, B)>, Infallible> {
        Ok(self.0.take())
    }
}
