//! `anabranch fit --model bp`: from files or standard input to a feature model.

use std::io::Write;
use std::path::Path;

use anabranch::batch::Batch;
use anabranch::central::{Central, Memory};
use anabranch::engine::{Event, Flow, Observer};
use anabranch::family::LinearGaussian;
use anabranch::infer::{FeatureSettings, PriorChoice};
use anabranch::learner::{self, run::Host};
use anabranch::posterior::FeaturePredictor;
use anabranch::process::Beta;
use anabranch_io::model::Provenance;
use anabranch_io::{InputRead, ReadLog, ReadOptions, Reading};
use serde::Serialize;

use super::page::{self, Image};
use super::{FeatureModel, LARGEST, NAME, asked, explained, family};
use crate::args::{EngineArgs, FeatureArgs, FitArgs, OutputArgs};
use crate::failure::{Failure, Tried};
use crate::fit::{Checkpoints, FamilySpec, Progress, check_places, stored_model};
use crate::picture::{counted, grouped, significant};
use crate::printing::{Effort, print_json, print_places};
use crate::reading::{self, DomainFilter, Minibatches};
use crate::report;
use crate::resources::{Stopwatch, peak_rss_bytes};
use crate::stop;

/// What `fit --model bp --json` prints.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FeatureOutcome {
    observations: u64,
    dimensions: usize,
    components: usize,
    effective_components: usize,
    mass: f64,
    seconds: f64,
    cpu_seconds: f64,
    minibatches: u64,
    matchings: u64,
    conflicts: u64,
    skipped_rows: u64,
    /// Mean lower bound of the log density of a held-out row.
    test_log_likelihood: Option<f64>,
    /// Root mean squared error of a cell, over a sample of the rows.
    reconstruction_error: Option<f64>,
    /// The same over held-out rows.
    test_reconstruction_error: Option<f64>,
    noise: f64,
    feature_scale: f64,
    alpha: f64,
    peak_rss_bytes: Option<u64>,
    threads: usize,
    workers: usize,
    seed: u64,
    algorithm: &'static str,
    model: &'static str,
    family: &'static str,
    stopped: bool,
    version: &'static str,
}

/// Runs the command.
pub fn fit(args: &FitArgs) -> Result<(), Failure> {
    let begun = args.from.as_deref().map(begin).transpose()?;
    let args = &begun.as_ref().map_or_else(|| args.clone(), |(model, _)| settle(args, model));
    let expect = begun.as_ref().map(|(model, _)| model.provenance.schema.clone());
    let options = ReadOptions { expect, ..reading::options(&args.read)? };
    let source = reading::open_inputs(&args.inputs, &options)?;
    let domain = FamilySpec::parse("spherical")?.domain(source.schema())?;
    let names = source.schema().names().map(str::to_owned).collect();
    let filter = DomainFilter::new(&args.inputs, Some(domain), names, options.on_bad_row).within(LARGEST);
    let as_before = ReadOptions { expect: Some(source.schema().clone()), columns: None, ..options };
    let test = match &args.test {
        Some(test) => {
            let options = ReadOptions { format: None, ..as_before.clone() };
            Some(reading::read_all(reading::open_inputs(std::slice::from_ref(test), &options)?.as_mut())?)
        }
        None => None,
    };
    let every = args.checkpoint_every;
    let checkpoints = args.checkpoint.as_deref().map(|folder| Checkpoints::new(folder, every)).transpose()?;
    let resumed = match &checkpoints {
        Some(checkpoints) => checkpoints.resume(args.resume, FeatureModel::load_checkpoint)?,
        None => None,
    };
    let size = args.engine.batch_size as usize;
    let again = filter.clone();
    let reopen =
        || Ok(Minibatches::new(reading::open_inputs(&args.inputs, &as_before)?, again.clone(), size, None));
    let stream = Minibatches::new(source, filter, size, None);
    let title = report::title("Features", &args.inputs);
    let run = Run {
        title,
        engine: &args.engine,
        features: &args.features,
        output: &args.output,
        test,
        checkpoints,
        further: Some((args.passes, &reopen)),
        begun,
    };
    #[cfg(feature = "cluster")]
    if let Some(url) = &args.cluster {
        return run.on_a_cluster(args, url, stream);
    }
    run.finish(stream, resumed)
}

/// Reads a model that goes on, or the state of a stream in the folder of its checkpoints, with the rows that it remembers.
fn begin(path: &Path) -> Result<(FeatureModel, Memory), Failure> {
    let (FeatureModel { fold, provenance }, memory, _) = FeatureModel::load_checkpoint(&stored_model(path))?;
    // Rows that come now are new: no pass over earlier ones goes on.
    let (aside, familiarity) = (fold.aside(), fold.posterior().familiarity());
    Ok((FeatureModel { fold: fold.within(0, aside, familiarity), provenance }, memory))
}

/// The flags of a run with the settings of the model.
fn settle(args: &FitArgs, model: &FeatureModel) -> FitArgs {
    let (mut args, made, family) = (args.clone(), &model.provenance, model.fold.posterior().family());
    let number = |rows: u64| u32::try_from(rows).unwrap_or(u32::MAX).max(1);
    args.engine.seed = made.seed;
    args.engine.batch_size = number(made.batch_size);
    args.engine.bootstrap = Some(number(made.bootstrap_rows));
    if made.prior_given {
        args.features.noise = Some(family.noise().sqrt());
        args.features.feature_scale = Some(family.scale().sqrt());
    }
    args
}

/// Opens the rows once more.
type Reopen<'a> = dyn Fn() -> Result<Minibatches, Failure> + 'a;

/// A run from its first row to its model.
pub(super) struct Run<'a> {
    pub(super) title: String,
    pub(super) engine: &'a EngineArgs,
    pub(super) features: &'a FeatureArgs,
    pub(super) output: &'a OutputArgs,
    pub(super) test: Option<Batch>,
    pub(super) checkpoints: Option<Checkpoints>,
    /// Passes in all, and what opens the rows once more.
    pub(super) further: Option<(u32, &'a Reopen<'a>)>,
    /// A finished model to go on from with other rows.
    pub(super) begun: Option<(FeatureModel, Memory)>,
}

type Centre = Central<LinearGaussian, Beta>;

impl Run<'_> {
    /// Learns, writes what was asked for, and says what came out.
    pub(super) fn finish(
        mut self,
        mut stream: Minibatches,
        resumed: Option<(FeatureModel, Memory, Reading)>,
    ) -> Result<(), Failure> {
        stop::listen();
        check_places(self.output)?;
        let dimensions = stream.schema().dimensions();
        let image = Image::new(self.features.image.as_deref(), dimensions)?;
        let (family, prior) = family(self.features, dimensions)?;
        let (process, mut config) = asked(self.features, self.engine)?;
        let (threads, workers) = self.engine.parallelism();
        let bootstrap = config.bootstrap_rows;
        let watch = Stopwatch::start();
        let first_rows = if bootstrap > 0 { bootstrap } else { self.engine.batch_size as usize };
        let mut provenance = Provenance {
            seed: self.engine.seed,
            bootstrap_rows: first_rows as u64,
            batch_size: u64::from(self.engine.batch_size),
            prior_given: prior == PriorChoice::Given,
            ..Provenance::new(stream.schema().clone())
        };
        let (mut start, mut skipped_before) = (0, 0);
        if let Some((model, memory)) = &self.begun {
            provenance = model.provenance.clone();
            (start, skipped_before) = (model.fold.absorbed().next(), provenance.skipped_rows);
            stream.go_on(start, provenance.learned_from.clone());
            // The noise is estimated from rows that the model has learned from.
            config.upkeep &= memory.sample().len() > 0;
        }
        let central: Centre = match (resumed, self.begun.take()) {
            (Some((model, memory, reading)), _) => {
                if reading.start != start {
                    let message = "the checkpoint is of a run that went on from another model, or from none";
                    return Err(Failure::input(message).with_hint("pass the same --from as before"));
                }
                check_same(&model.provenance, &provenance)?;
                provenance = model.provenance;
                // Only the first pass begins with a large minibatch.
                let again = model.fold.posterior().pass() > 0;
                let first = if again { provenance.batch_size } else { provenance.bootstrap_rows };
                stream.resume(model.fold.absorbed().clone(), first, reading)?;
                Central::from_fold(model.fold).with_memory(memory)
            }
            (None, Some((model, memory))) => Central::from_fold(model.fold).with_memory(memory),
            (None, None) => {
                let first = stream.read_ahead(first_rows)?.filter(|first| first.n_rows() > 0);
                let first = first.ok_or_else(|| Failure::input("the input has no rows"))?;
                // A first minibatch that is short only because rows were left out is not all there is.
                if bootstrap > 0 && stream.rows_ahead() == first_rows {
                    config.bootstrap_rows = first.n_rows();
                }
                Central::new(family, process)
            }
        };
        let progress = Progress::new(self.output.quiet, stream.rows_hint());
        let (passes, reopen) = self.further.map_or((1, None), |(passes, reopen)| (passes, Some(reopen)));
        let (log, checkpoints) = (stream.log(), self.checkpoints.take());
        let watched = Watch { progress, provenance, checkpoints, log };
        let stream_saved = Ok(());
        let mut hosted = Hosted { stream, watched, reopen, passes, skipped_before, read: None, stream_saved };
        let run = learner::run::Run::new(central, config);
        let ran = run.carry_out(&mut hosted);
        let (central, stopped) = (run.centre(), stop::asked());
        let read = hosted.read_so_far();
        let Hosted { watched: Watch { progress, provenance, checkpoints, log }, stream_saved, .. } = hosted;
        progress.finish();
        let provenance = Provenance { skipped_rows: read.skipped_rows, ..provenance };
        let mut model = finalised(FeatureModel { fold: central.checkpoint(), provenance });
        let (seconds, cpu_seconds) = (watch.seconds(), watch.cpu_seconds());
        let mut tried = Tried::default();
        if let Some(checkpoints) = &checkpoints {
            let reading = log.reading(model.fold.absorbed());
            tried.note(checkpoints.save(|path| model.save_checkpoint(path, &central.memory(), &reading)));
        }
        tried.note(stream_saved);
        model.provenance = read.known_to(model.provenance);
        if tried.note(ran).is_none() {
            return tried.give_up();
        }
        if let Some(path) = &self.output.out {
            tried.note(model.save(path));
        }
        let outcome =
            self.outcome(&model, &central.memory(), (seconds, cpu_seconds), (threads, workers), stopped);
        if let Some(folder) = &self.output.report {
            let rows = central.memory().sampled_rows();
            tried.note(page::write(folder, &self.title, &model, rows.as_ref(), image, &outcome.facts()));
        }
        tried.done()?;
        outcome.print(self.output)
    }

    #[cfg(feature = "cluster")]
    fn on_a_cluster(&self, args: &FitArgs, url: &str, stream: Minibatches) -> Result<(), Failure> {
        check_places(self.output)?;
        let learned = crate::cluster::fit::run_features(args, url, stream)?;
        let (model, seconds) = (learned.model, (learned.seconds, learned.cpu_seconds));
        let mut tried = Tried::default();
        if let Some(path) = &self.output.out {
            tried.note(model.save(path));
        }
        let parallelism = self.engine.parallelism();
        let outcome = self.outcome(&model, &learned.memory, seconds, parallelism, stop::asked());
        tried.done()?;
        outcome.print(self.output)
    }

    fn outcome(
        &self,
        model: &FeatureModel,
        memory: &Memory,
        (seconds, cpu_seconds): (f64, f64),
        (threads, workers): (usize, usize),
        stopped: bool,
    ) -> FeatureOutcome {
        let posterior = model.fold.posterior();
        let predictor = FeaturePredictor::new(posterior);
        let sample = memory.sampled_rows().map(|rows| rows.head(2000));
        let seen = sample.and_then(|rows| explained(&predictor, &rows));
        let held_out = self.test.as_ref().and_then(|rows| explained(&predictor, rows));
        FeatureOutcome {
            observations: model.provenance.observations,
            dimensions: posterior.family().dimensions(),
            components: posterior.components().len(),
            effective_components: posterior.effective_components(),
            mass: posterior.mass(),
            seconds,
            cpu_seconds,
            minibatches: model.fold.absorbed().len(),
            matchings: model.provenance.matchings,
            conflicts: model.provenance.conflicts,
            skipped_rows: model.provenance.skipped_rows,
            test_log_likelihood: held_out.map(|found| found.ln_density),
            reconstruction_error: seen.map(|found| found.error),
            test_reconstruction_error: held_out.map(|found| found.error),
            noise: posterior.family().noise().sqrt(),
            feature_scale: posterior.family().scale().sqrt(),
            alpha: posterior.process().alpha(),
            peak_rss_bytes: peak_rss_bytes(),
            threads,
            workers,
            seed: model.provenance.seed,
            algorithm: "sda",
            model: NAME,
            family: "linear-gaussian",
            stopped,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Watches a run: progress, counts and checkpoints.
struct Watch {
    progress: Progress,
    provenance: Provenance,
    checkpoints: Option<Checkpoints>,
    log: ReadLog,
}

impl Observer<LinearGaussian, Beta> for Watch {
    fn observe(&mut self, event: &Event, central: &Centre) -> Flow {
        self.progress.update(event.mass.round() as u64, event.components);
        self.provenance.matchings += event.absorbed.matchings;
        self.provenance.conflicts += event.absorbed.conflicts;
        if let Some(checkpoints) = self.checkpoints.as_mut().filter(|checkpoints| checkpoints.due()) {
            let (fold, memory) = central.state();
            let reading = self.log.reading(fold.absorbed());
            let model = finalised(FeatureModel { fold, provenance: self.provenance.clone() });
            let save = |path: &Path| model.save_checkpoint(path, &memory, &reading);
            checkpoints.save_on_the_way(&self.progress, save);
        }
        if stop::asked() { Flow::Stop } else { Flow::Continue }
    }
}

/// What the core's run asks of the command.
struct Hosted<'a> {
    stream: Minibatches,
    watched: Watch,
    reopen: Option<&'a Reopen<'a>>,
    passes: u32,
    /// Rows that the model which the run goes on from has left out.
    skipped_before: u64,
    /// By the first pass.
    read: Option<Read>,
    stream_saved: Result<(), Failure>,
}

/// What has been read of which input.
#[derive(Clone)]
struct Read {
    skipped_rows: u64,
    inputs: Vec<InputRead>,
}

impl Read {
    /// What other rows go on from knows all that has been read.
    fn known_to(&self, mut provenance: Provenance) -> Provenance {
        provenance.learned_from = InputRead::joined(provenance.learned_from, self.inputs.clone());
        Provenance { skipped_rows: self.skipped_rows, ..provenance }
    }
}

impl Hosted<'_> {
    fn read_so_far(&self) -> Read {
        self.read.clone().unwrap_or_else(|| Read {
            skipped_rows: self.skipped_before + self.stream.skipped_rows(),
            inputs: self.stream.log().inputs(),
        })
    }
}

impl Host<LinearGaussian, Beta, FeatureSettings> for Hosted<'_> {
    type Error = Failure;
    type Source = Minibatches;

    fn data(&mut self) -> (&mut Minibatches, &mut dyn Observer<LinearGaussian, Beta>) {
        (&mut self.stream, &mut self.watched)
    }

    fn stopped(&self) -> bool {
        stop::asked()
    }

    fn read(&mut self) {
        self.read = Some(self.read_so_far());
    }

    fn ending(&mut self, centre: &Centre) {
        if let (0, Some(checkpoints)) = (centre.snapshot().pass(), &self.watched.checkpoints) {
            let (fold, memory) = centre.state();
            let reading = self.watched.log.reading(fold.absorbed());
            let provenance = self.read_so_far().known_to(self.watched.provenance.clone());
            let model = finalised(FeatureModel { fold, provenance });
            self.stream_saved =
                checkpoints.save_stream(|path| model.save_checkpoint(path, &memory, &reading));
        }
    }

    fn passes(&self) -> u32 {
        self.passes
    }

    fn again(&mut self, _: &Centre) -> Result<(), Failure> {
        if let Some(reopen) = self.reopen {
            self.stream = reopen()?;
            self.watched.log = self.stream.log();
        }
        Ok(())
    }
}

fn finalised(mut model: FeatureModel) -> FeatureModel {
    model.provenance.observations = model.fold.posterior().mass().round() as u64;
    model
}

fn check_same(stored: &Provenance, now: &Provenance) -> Result<(), Failure> {
    let same = stored.seed == now.seed
        && stored.batch_size == now.batch_size
        && stored.bootstrap_rows == now.bootstrap_rows
        && stored.schema == now.schema;
    match same {
        true => Ok(()),
        false => Err(Failure::input(
            "the checkpoint was made with another seed, batch size, bootstrap or other columns",
        )
        .with_hint("pass the same flags as before, or start anew without --resume")),
    }
}

impl FeatureOutcome {
    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![
            ("rows".to_owned(), grouped(self.observations as f64)),
            ("features".to_owned(), grouped(self.components as f64)),
            ("minibatches".to_owned(), grouped(self.minibatches as f64)),
            ("noise".to_owned(), significant(self.noise, 3)),
            ("seconds".to_owned(), significant(self.seconds, 3)),
        ];
        if let Some(error) = self.test_reconstruction_error.or(self.reconstruction_error) {
            facts.push(("reconstruction error".to_owned(), significant(error, 3)));
        }
        facts
    }

    fn print(&self, output: &OutputArgs) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        if output.json {
            return print_json(&mut out, self, "result");
        }
        writeln!(
            out,
            "{} × {} → {}, noise {}, features of size {}",
            counted(self.observations, "row"),
            counted(self.dimensions as u64, "column"),
            counted(self.components as u64, "feature"),
            significant(self.noise, 3),
            significant(self.feature_scale, 3),
        )?;
        Effort {
            seconds: self.seconds,
            threads: self.threads,
            cpu_seconds: self.cpu_seconds,
            minibatches: self.minibatches,
            matchings: self.matchings,
            conflicts: self.conflicts,
        }
        .print(&mut out)?;
        if let Some(error) = self.reconstruction_error {
            writeln!(out, "reconstruction error of a cell {}", significant(error, 4))?;
        }
        if let Some(error) = self.test_reconstruction_error {
            writeln!(out, "reconstruction error of a held-out cell {}", significant(error, 4))?;
        }
        print_places(&mut out, output)
    }
}
