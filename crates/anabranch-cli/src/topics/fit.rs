//! `anabranch fit --model hdp`: from bags of words to topics.

use std::path::Path;

use anabranch::central::{Central, Memory};
use anabranch::documents::Documents;
use anabranch::engine::{Config, Observer};
use anabranch::family::{PriorError, Topic};
use anabranch::infer::{PriorChoice, TopicSettings};
use anabranch::learner::run::{Host, Run};
use anabranch::metric::coherence;
use anabranch::posterior::{TopicPredictor, halves};
use anabranch::process::{Hierarchical, Parameter};
use anabranch_io::Reading;
use anabranch_io::model::{TextProvenance, TopicModel, TopicProvenance};
use anabranch_io::words::{Bags, Vocabulary, Words};

use super::outcome::Outcome;
use super::stream::{Kept, Minibatches, Origin};
use super::subjects::Shown;
use super::text::{Lexicon, bags};
use super::watch::Watch;
use super::{TOP_WORDS, report, top_words};
use crate::args::{BoundKind, EngineArgs, FitArgs, OutputArgs, ReadArgs, TopicArgs};
use crate::failure::{Failure, Tried};
use crate::fit::{Checkpoints, Progress, check_places, stored_model};
use crate::resources::{Stopwatch, peak_rss_bytes};
use crate::stop;

/// Documents of the first minibatch, unless told.
pub const BOOTSTRAP_DOCUMENTS: usize = 2000;

/// Where learning of the concentrations and of the pseudo-count of a word begins.
const FIRST_CONCENTRATION: f64 = 1.0;
const FIRST_ETA: f64 = 0.05;

/// Runs the command.
pub fn command(args: &FitArgs) -> Result<(), Failure> {
    #[cfg(feature = "cluster")]
    if let Some(url) = &args.cluster {
        return on_a_cluster(args, url);
    }
    let begun = args.from.as_deref().map(begin).transpose()?;
    let args = &begun.as_ref().map_or_else(|| args.clone(), |(model, _)| settle(args, &model.provenance));
    let lexicon = match &begun {
        Some((model, _)) => Lexicon::going_on(model),
        None => Lexicon::of_flags(&args.inputs, &args.read, &args.topics)?,
    };
    let text = lexicon.text.clone();
    let every = args.checkpoint_every;
    let checkpoints = args.checkpoint.as_deref().map(|folder| Checkpoints::new(folder, every)).transpose()?;
    let resumed = match &checkpoints {
        Some(checkpoints) => checkpoints.resume(args.resume, TopicModel::load_checkpoint)?,
        None => None,
    };
    if args.resume && resumed.is_none() && !args.output.quiet {
        eprintln!("no checkpoint yet: starting from the first document");
    }
    let lexicon = match &resumed {
        Some((model, ..)) => lexicon.resumed(model),
        None => lexicon,
    };
    // A report shows how documents begin.
    let shown = if args.output.report.is_some() { report::BEGINNING } else { 0 };
    let open = |lexicon: Lexicon| bags(&args.inputs, &args.read, lexicon.showing(shown));
    let setup = Setup {
        origin: open(lexicon)?,
        reopen: &|vocabulary, text| open(Lexicon::known(vocabulary, text)),
        text,
        words: &Bags::words,
        read: &|bags: &Bags| (bags.skipped(), bags.unknown_words()),
        passes: args.passes,
        checkpoints,
        resumed,
        begun,
    };
    let fitted = run(setup, &args.topics, &args.engine, &args.output)?;
    tell(fitted, args)
}

fn tell(fitted: Fitted, args: &FitArgs) -> Result<(), Failure> {
    let test = match &args.test {
        Some(test) => Some(read_test(test, &args.read, &fitted.model)?),
        None => None,
    };
    conclude(fitted, test.as_ref(), &crate::report::title("Topics", &args.inputs), &args.engine, &args.output)
}

/// Reads a model that goes on, or the state of a stream in the folder of its checkpoints, with the documents that it remembers.
fn begin(path: &Path) -> Result<(TopicModel, Memory<Documents>), Failure> {
    let (TopicModel { fold, vocabulary, provenance }, memory, _) =
        TopicModel::load_checkpoint(&stored_model(path))?;
    // Documents that come now are new: no pass over earlier ones goes on.
    let (aside, familiarity) = (fold.aside(), fold.posterior().familiarity());
    Ok((TopicModel { fold: fold.within(0, aside, familiarity), vocabulary, provenance }, memory))
}

/// The flags of a run with the settings of the model.
fn settle(args: &FitArgs, made: &TopicProvenance) -> FitArgs {
    let mut args = args.clone();
    let number = |documents: u64| u32::try_from(documents).unwrap_or(u32::MAX).max(1);
    args.engine.seed = made.seed;
    args.engine.batch_size = number(made.batch_size);
    args.engine.bootstrap = Some(number(made.bootstrap_documents));
    args
}

#[cfg(feature = "cluster")]
fn on_a_cluster(args: &FitArgs, url: &str) -> Result<(), Failure> {
    check_places(&args.output)?;
    let learned = crate::cluster::fit::run_topics(args, url)?;
    let mut tried = Tried::default();
    if let Some(path) = &args.output.out {
        tried.note(learned.model.save(path));
    }
    let (seconds, cpu_seconds) = (learned.seconds, learned.cpu_seconds);
    let (model, kept, stopped) = (learned.model, Vec::new(), stop::asked());
    tell(Fitted { model, kept, seconds, cpu_seconds, stopped, tried }, args)
}

fn read_test(test: &String, read: &ReadArgs, model: &TopicModel) -> Result<Documents, Failure> {
    let read = ReadArgs { format: None, ..read.clone() };
    let mut bags = bags(std::slice::from_ref(test), &read, Lexicon::of_model(model))?;
    let all = bags.next_documents(usize::MAX)?;
    all.ok_or_else(|| Failure::input(format!("--test {test}: it has no documents")))
}

/// Opens the documents once more, with these words.
type Reopen<'a, O> = dyn Fn(Vocabulary, TextProvenance) -> Result<O, Failure> + 'a;

/// What a run needs besides its flags.
pub(super) struct Setup<'a, O> {
    pub(super) origin: O,
    /// Opens the documents once more, with these words.
    pub(super) reopen: &'a Reopen<'a, O>,
    /// How text becomes words.
    pub(super) text: TextProvenance,
    /// The words that are known by now.
    pub(super) words: &'a dyn Fn(&O) -> Words,
    /// Lines that were left out, and words that were not in the vocabulary.
    pub(super) read: &'a dyn Fn(&O) -> (u64, f64),
    pub(super) passes: u32,
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) resumed: Option<(TopicModel, Memory<Documents>, Reading)>,
    /// A finished model to go on from with other documents.
    pub(super) begun: Option<(TopicModel, Memory<Documents>)>,
}

/// A finished run.
pub(super) struct Fitted {
    pub(super) model: TopicModel,
    /// A sample of the documents, where there is a report.
    kept: Vec<Kept>,
    seconds: f64,
    cpu_seconds: f64,
    stopped: bool,
    /// What could not be written.
    tried: Tried,
}

/// What the flags ask for: the process, and how the run is carried out.
pub fn asked(
    topics: &TopicArgs,
    args: &EngineArgs,
) -> Result<(Hierarchical, Config<TopicSettings>), Failure> {
    let inference = TopicSettings { max_new: args.max_new, ..TopicSettings::default() };
    let choice = if topics.eta.is_some() { PriorChoice::Given } else { PriorChoice::Estimated };
    let config = args.config(inference, choice, args.bootstrap_rows(BOOTSTRAP_DOCUMENTS));
    Ok((process(topics, args.bound)?, config))
}

/// The process that the flags ask for.
pub fn process(topics: &TopicArgs, bound: BoundKind) -> Result<Hierarchical, Failure> {
    let learned = |from: f64| Parameter::Learned { learned: from };
    let given = |flag: Option<f64>| flag.map_or(learned(FIRST_CONCENTRATION), Parameter::Given);
    Hierarchical::new(given(topics.gamma), given(topics.alpha0), bound.into()).map_err(Failure::input)
}

/// The topics over so many words that the flags ask for.
pub fn family(topics: &TopicArgs, n_words: usize) -> Result<Topic, PriorError> {
    Topic::new(n_words, topics.eta.unwrap_or(FIRST_ETA))
}

/// The model of a run that has ended: with how coherent its topics are over the documents that the run remembers.
pub fn stored(mut model: TopicModel, memory: &Memory<Documents>) -> TopicModel {
    if let Some(sample) = memory.sampled_rows() {
        let topics = model.fold.posterior().components();
        let tops: Vec<Vec<u32>> = topics.iter().map(|c| top_words(c, TOP_WORDS)).collect();
        model.provenance.coherence = coherence(&sample, &tops);
    }
    model
}

/// Runs the stream through the engine.
pub(super) fn run<O: Origin>(
    setup: Setup<'_, O>,
    topics: &TopicArgs,
    args: &EngineArgs,
    output: &OutputArgs,
) -> Result<Fitted, Failure> {
    stop::listen();
    check_places(output)?;
    let (mut process, mut config) = asked(topics, args)?;
    let watch = Stopwatch::start();
    let bootstrap = config.bootstrap_rows;
    let size = args.batch_size as usize;
    let mut first = if bootstrap > 0 { bootstrap } else { size };
    let mut provenance = TopicProvenance {
        seed: args.seed,
        bootstrap_documents: first as u64,
        batch_size: size as u64,
        text: (setup.text != TextProvenance::default()).then_some(setup.text),
        ..TopicProvenance::default()
    };
    let (mut start, mut before) = (0, TopicProvenance::default());
    if let Some((model, memory)) = &setup.begun {
        start = model.fold.absorbed().next();
        (provenance, before) = (model.provenance.clone(), model.provenance.clone());
        (process, first) = (*model.fold.posterior().process(), size);
        // Nobody but documents that the topics have learned from can say which of them could be one.
        config.upkeep &= memory.sample().len() > 0;
    }
    // Only the first pass begins with a large minibatch.
    let first_pass = setup.resumed.as_ref().is_none_or(|(model, ..)| model.fold.posterior().pass() == 0);
    first = if first_pass { first } else { size };
    let mut stream = Minibatches::new(setup.origin, first, size);
    if output.report.is_some() {
        stream.keep(args.seed);
    }
    if start > 0 {
        stream.go_on(start, size, before.learned_from.clone());
    }
    let central = match (setup.resumed, setup.begun) {
        (Some((model, memory, reading)), _) => {
            if reading.start != start {
                let message = "the checkpoint is of a run that went on from another model, or from none";
                return Err(Failure::input(message).with_hint("pass the same --from as before"));
            }
            agree(&model, &provenance, &process, topics.eta)?;
            // What this run has read it reads again.
            let learned_from =
                if first_pass { before.learned_from.clone() } else { model.provenance.learned_from.clone() };
            provenance = TopicProvenance { learned_from, ..model.provenance };
            stream.resume(model.fold.absorbed().clone(), reading);
            Central::from_fold(model.fold).with_memory(memory)
        }
        (None, Some((model, memory))) => Central::from_fold(model.fold).with_memory(memory),
        (None, None) => {
            let ahead = stream.read_ahead()?.ok_or_else(|| Failure::input("the input has no documents"))?;
            let family = family(topics, ahead.n_words()).map_err(Failure::input)?;
            Central::new(family, process).with_memory(Memory::default())
        }
    };
    let words = (setup.words)(&stream.origin);
    let mut observer =
        Watch::new(Progress::new(output.quiet, None), provenance, words, setup.checkpoints, stream.log());
    observer.counting = central.snapshot().pass() == 0;
    observer.documents_before = before.documents;
    let Setup { reopen, words, read, passes, .. } = setup;
    let (kept, stream_saved) = (Vec::new(), Ok(()));
    let mut hosted =
        Hosted { stream, observer, reopen, words, read, passes, size, before, kept, stream_saved };
    let run = Run::new(central, config);
    let ran = run.carry_out(&mut hosted);
    let Hosted { mut observer, kept, stream_saved, .. } = hosted;
    let central = run.centre();
    observer.stopped |= stop::asked();
    observer.progress.finish();
    let (seconds, cpu_seconds) = (watch.seconds(), watch.cpu_seconds());
    let fold = central.checkpoint();
    let memory = central.memory();
    let model = stored(observer.model(fold)?, &memory);
    // What was learned is kept also when the input turned out bad halfway: the state first, then the error.
    let mut tried = Tried::default();
    if let Some(checkpoints) = &observer.checkpoints {
        let reading = observer.log.reading(model.fold.absorbed());
        tried.note(checkpoints.save(|path| model.save_checkpoint(path, &memory, &reading)));
    }
    tried.note(stream_saved);
    if tried.note(ran).is_none() {
        return tried.give_up();
    }
    if let Some(path) = &output.out {
        tried.note(model.save(path));
    }
    let stopped = observer.stopped;
    Ok(Fitted { model, kept, seconds, cpu_seconds, stopped, tried })
}

/// What the core's run asks of the command.
struct Hosted<'a, O> {
    stream: Minibatches<O>,
    observer: Watch,
    reopen: &'a Reopen<'a, O>,
    words: &'a dyn Fn(&O) -> Words,
    read: &'a dyn Fn(&O) -> (u64, f64),
    passes: u32,
    size: usize,
    /// Of the model that the run goes on from.
    before: TopicProvenance,
    /// A sample of the documents, where there is a report.
    kept: Vec<Kept>,
    stream_saved: Result<(), Failure>,
}

impl<O: Origin> Host<Topic, Hierarchical, TopicSettings> for Hosted<'_, O> {
    type Error = Failure;
    type Source = Minibatches<O>;

    fn data(&mut self) -> (&mut Minibatches<O>, &mut dyn Observer<Topic, Hierarchical, Documents>) {
        (&mut self.stream, &mut self.observer)
    }

    fn stopped(&self) -> bool {
        stop::asked()
    }

    fn read(&mut self) {
        if self.observer.counting {
            let (skipped, unknown) = (self.read)(&self.stream.origin);
            // A run that goes on has read all of it again.
            self.observer.provenance.skipped = self.before.skipped + skipped;
            self.observer.provenance.unknown_words = self.before.unknown_words + unknown;
        }
        if self.kept.is_empty() {
            self.kept = self.stream.take_kept();
        }
    }

    fn ending(&mut self, central: &Central<Topic, Hierarchical, Documents>) {
        if central.snapshot().pass() == 0 {
            self.stream_saved = self.observer.save_stream(central);
        }
    }

    fn passes(&self) -> u32 {
        self.passes
    }

    fn again(&mut self, central: &Central<Topic, Hierarchical, Documents>) -> Result<(), Failure> {
        let all = self.observer.model(central.checkpoint())?;
        self.observer.counting = false;
        self.observer.provenance.learned_from = all.provenance.learned_from;
        let again = (self.reopen)(all.vocabulary, all.provenance.text.unwrap_or_default())?;
        self.stream = Minibatches::new(again, self.size, self.size);
        (self.observer.log, self.observer.words) = (self.stream.log(), (self.words)(&self.stream.origin));
        Ok(())
    }
}

/// A run that goes on has the flags that it began with.
fn agree(
    model: &TopicModel,
    now: &TopicProvenance,
    process: &Hierarchical,
    eta: Option<f64>,
) -> Result<(), Failure> {
    let (then, posterior) = (&model.provenance, model.fold.posterior());
    let ([gamma, alpha0], [now_gamma, now_alpha0]) =
        (posterior.process().concentrations(), process.concentrations());
    let told = |parameter: Parameter| match parameter {
        Parameter::Given(value) => value.to_string(),
        Parameter::Learned { .. } => "learned".to_owned(),
    };
    let was_eta = posterior.family().eta();
    let flags = [
        ("--batch-size", then.batch_size.to_string(), now.batch_size.to_string()),
        ("--bootstrap", then.bootstrap_documents.to_string(), now.bootstrap_documents.to_string()),
        // As text: numbers beyond 2⁵³ are no floating-point numbers.
        ("--seed", then.seed.to_string(), now.seed.to_string()),
        ("--gamma", told(gamma), told(now_gamma)),
        ("--alpha0", told(alpha0), told(now_alpha0)),
        ("--eta", was_eta.to_string(), eta.unwrap_or(was_eta).to_string()),
    ];
    match flags.into_iter().find(|(_, then, now)| then != now) {
        None if then.text.as_ref().map(TextProvenance::told) != now.text.as_ref().map(TextProvenance::told) => {
            Err(Failure::input("the checkpoint was made with other words: --text, --stop-words, --min-length, --min-documents, --max-documents, --vocabulary-size or --phrases differ")
                .with_hint("pass the same flags as before, or start anew without --resume"))
        }
        None => Ok(()),
        Some((flag, then, now)) => {
            Err(Failure::input(format!("the checkpoint was made with {flag} {then}, this run has {now}"))
                .with_hint("pass the same flags as before, or start anew without --resume"))
        }
    }
}

/// Scores held-out documents, and prints and writes what was asked for.
pub(super) fn conclude(
    fitted: Fitted,
    test: Option<&Documents>,
    title: &str,
    args: &EngineArgs,
    output: &OutputArgs,
) -> Result<(), Failure> {
    let Fitted { model, kept, seconds, cpu_seconds, stopped, mut tried } = fitted;
    let (model, posterior, shown) = (&model, model.fold.posterior(), Shown::of(&model));
    let held = test.map(halves);
    let likelihood = held
        .as_ref()
        .and_then(|(observed, held_out)| TopicPredictor::new(posterior).completion(observed, held_out));
    let known: Vec<f64> = model.provenance.coherence.iter().flatten().copied().collect();
    let (threads, workers) = args.parallelism();
    let outcome = Outcome {
        observations: model.provenance.documents,
        dimensions: model.vocabulary.len(),
        components: posterior.components().len(),
        subjects: shown.rows(),
        effective_components: posterior.effective_components(),
        mass: posterior.expected_mass(),
        tables: posterior.components().iter().map(|c| c.expected_count()).sum(),
        seconds,
        cpu_seconds,
        minibatches: model.fold.absorbed().len(),
        matchings: model.provenance.matchings,
        conflicts: model.provenance.conflicts,
        skipped_rows: model.provenance.skipped,
        unknown_words: model.provenance.unknown_words,
        test_log_likelihood: likelihood,
        test_words: held.map(|(_, held_out)| held_out.tokens()),
        coherence: (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64),
        peak_rss_bytes: peak_rss_bytes(),
        threads,
        workers,
        seed: model.provenance.seed,
        algorithm: "sda",
        model: "hdp",
        family: "topic",
        gamma: posterior.process().gamma(),
        alpha0: posterior.process().alpha0(),
        eta: posterior.family().eta(),
        stopped,
        version: env!("CARGO_PKG_VERSION"),
    };
    if let Some(folder) = &output.report {
        tried.note(report::write(folder, title, &shown, kept, &outcome));
    }
    tried.done()?;
    outcome.print(&shown, output)
}
