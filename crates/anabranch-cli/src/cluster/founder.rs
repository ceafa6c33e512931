//! The first model of a job: the same bootstrap as in one process, on the minibatches that came first.

use std::convert::Infallible;

use anabranch::batch::Batch;
use anabranch::central::{BatchId, BatchSet, Central, Fold, Memory};
use anabranch::engine::{self, BatchSource, Config};
use anabranch::infer::{PriorChoice, Settings};
use anabranch::process::AnyProcess;
use anabranch_cluster::{Founder, Founding, JobSpec, message_limits};
use anabranch_io::model::{Model, Provenance};
use anabranch_io::{Column, Input, Limits, ReadOptions, Schema, Source, open};

use super::{prior_args, process};
use crate::args::PriorArgs;
use crate::failure::Failure;
use crate::fit::FamilySpec;
use crate::reading::{DomainFilter, read_all};

/// What messages call rows that come from the queue.
const QUEUE: &str = "minibatch";

/// Makes the first model as the job's settings say.
pub struct FirstModel {
    spec: JobSpec,
    family: FamilySpec,
    prior: PriorArgs,
    process: AnyProcess,
    options: ReadOptions,
    threads: usize,
}

impl FirstModel {
    /// For a job with these settings, on so many threads.
    pub fn new(spec: &JobSpec, threads: usize) -> Result<Self, Failure> {
        let family = FamilySpec::parse(&spec.family)?;
        let prior = prior_args(&spec.prior);
        family.check_prior(&prior)?;
        let columns = family.columns().or_else(|| spec.columns.clone());
        let categorical = family.categorical_columns();
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
        let options = ReadOptions { on_bad_row: spec.on_bad_row, ..options };
        Ok(Self { process: process(spec)?, spec: spec.clone(), family, prior, options, threads })
    }

    /// The rows of messages, joined, and how they were read.
    fn read(&self, messages: Vec<Vec<u8>>) -> Result<(Batch, Box<dyn Source>), Failure> {
        let inputs: Vec<Input> = messages.into_iter().map(Input::Memory).collect();
        let Limits { bytes, rows } = message_limits(self.spec.batch_size);
        let n = inputs.len() as u64;
        let limits = Some(Limits { bytes: bytes * n, rows: rows * n });
        let mut source = open(&inputs, &ReadOptions { limits, ..self.options.clone() })?;
        let names = source.schema().names().map(str::to_owned).collect();
        let domain = self.family.domain(source.schema())?;
        let mut filter = DomainFilter::new(&[QUEUE.to_owned()], Some(domain), names, self.spec.on_bad_row);
        let rows = filter.filter(read_all(source.as_mut())?)?;
        Ok((rows, source))
    }

    fn make(&self, founding: Founding) -> Result<(Model, Memory), Failure> {
        let ids: Vec<BatchId> = founding.messages.iter().map(|(id, _)| *id).collect();
        let messages = founding.messages.into_iter().map(|(_, message)| message.to_vec()).collect();
        let (rows, source) = self.read(messages)?;
        if rows.n_rows() == 0 {
            return Err(Failure::input("none of the first rows lies in the domain of the family"));
        }
        let schema = source.schema().clone();
        let family = self.family.build(&rows, &schema, &self.prior)?;
        let central = Central::new(family, self.process);
        let config = Config {
            threads: self.threads,
            seed: self.spec.seed,
            inference: Settings { max_new: self.spec.max_new as usize, ..Settings::default() },
            prior: self.prior.choice(),
            // A minibatch of fewer rows than this is all there is.
            bootstrap_rows: rows.n_rows() + usize::from(founding.everything),
            ..Config::default()
        };
        let provenance = Provenance {
            schema,
            seed: self.spec.seed,
            bootstrap_rows: rows.n_rows() as u64,
            batch_size: u64::from(self.spec.batch_size),
            observations: rows.n_rows() as u64,
            skipped_rows: source.skipped_rows(),
            matchings: 0,
            conflicts: 0,
            algorithm: "sda".into(),
            cut: Default::default(),
            between: None,
            prior_given: self.prior.choice() == PriorChoice::Given,
            learned_from: Vec::new(),
        };
        let first = ids.first().copied().unwrap_or(BatchId(0));
        let Ok(_) = engine::bootstrap(&central, &mut Once(Some((first, rows))), &config, &mut ());
        let fold = central.checkpoint();
        let mut absorbed = BatchSet::default();
        ids.into_iter().for_each(|id| _ = absorbed.insert(id));
        let fold = Fold::resume(fold.posterior().clone(), absorbed, fold.next_id(), fold.last_birth())
            .within(fold.posterior().pass(), fold.aside(), fold.posterior().familiarity());
        Ok((Model { fold, provenance }, central.memory()))
    }
}

impl Founder for FirstModel {
    fn check(&self, message: &[u8]) -> Result<usize, String> {
        self.read(vec![message.to_vec()]).map(|(rows, _)| rows.n_rows()).map_err(words)
    }

    fn found(&self, founding: Founding) -> Result<(Model, Memory), String> {
        self.make(founding).map_err(words)
    }
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Input { message, .. } | Failure::Internal { message } => message,
        Failure::BrokenPipe => "broken pipe".into(),
        Failure::Several(failures) => failures.into_iter().map(words).collect::<Vec<_>>().join("; "),
    }
}

/// A source of one minibatch.
struct Once(Option<(BatchId, Batch)>);

impl BatchSource for Once {
    type Batch = Batch;
    type Error = Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, Batch)>, Infallible> {
        Ok(self.0.take())
    }
}
