//! One run from its first row to its model: what `fit` and `demo` share.

use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

use anabranch::batch::Batch;
use anabranch::central::{Central, Fold, Memory, Section};
use anabranch::engine::{BOOTSTRAP_ROWS, Config, Flow, Observer, Polishing};
use anabranch::family::{AnyFamily, Family};
use anabranch::infer::{self, PriorChoice, Settings};
use anabranch::learner::run::{Host, Run};
use anabranch::posterior::{HalfLife, Posterior, Predictor};
use anabranch::process::{AnyProcess, Parameter};
use anabranch_io::model::{Model, Provenance};
use anabranch_io::{Held, InputRead, Reading, Schema, Source};

use super::begun::Begun;
use super::checkpoint::Checkpoints;
use super::events::Events;
use super::method::Method;
use super::progress::{Progress, Waiting};
use super::trace::Trace;
use super::watch::{Counting, Evaluation, Watch, Watched};
use crate::args::half_life::as_flag as as_said;
use crate::args::{EngineArgs, Every, OnOff, OutputArgs, Span};
use crate::engine::{as_flag, bound_name};
use crate::failure::{Failure, Tried};
use crate::fit::describe;
use crate::picture::counted;
use crate::reading::{DomainFilter, Minibatches, RowSample};
use crate::resources::Stopwatch;
use crate::stop;

/// Rows that the report draws.
const REPORT_ROWS: usize = 5000;

/// Makes the family once the first rows are there.
pub type FamilyBuilder<'a> = dyn Fn(&Batch, &Schema) -> Result<AnyFamily, Failure> + 'a;

/// Passes over the data after the first.
pub struct Further<'a> {
    /// Passes in all.
    pub passes: u32,
    /// Opens the rows again, with these columns.
    pub reopen: &'a Reopen<'a>,
}

/// Opens the rows once more.
pub type Reopen<'a> = dyn Fn(&Schema) -> Result<(Box<dyn Source>, DomainFilter), Failure> + 'a;

/// What a run needs besides its flags.
pub struct Setup<'a> {
    /// The rows.
    pub source: Box<dyn Source>,
    /// What to do with rows outside the family's domain.
    pub filter: DomainFilter,
    /// The algorithm.
    pub method: Method,
    /// How many components there are.
    pub process: AnyProcess,
    /// Makes the family from the first rows.
    pub family: &'a FamilyBuilder<'a>,
    /// Whether the family's prior is only a first guess.
    pub prior: PriorChoice,
    /// Held-out rows.
    pub test: Option<Batch>,
    /// Where and how often to save the state.
    pub checkpoints: Option<Checkpoints>,
    /// Passes after the first.
    pub further: Option<Further<'a>>,
    /// Rows that are kept and polished at the end.
    pub polish: Option<usize>,
    /// A model to go on from.
    pub resumed: Option<(Model, Memory, Reading)>,
    /// Components at most.
    pub max_components: Option<usize>,
    /// How the past fades.
    pub half_life: Option<HalfLife>,
    /// The column that says when a row was, where that counts.
    pub time: Option<String>,
    /// When a first model of what has come is written.
    pub first_after: Option<Span>,
    /// How often the model is written on the way.
    pub out_every: Option<Every>,
    /// Where events go.
    pub events: Option<&'a Path>,
    /// A finished model to go on from with other rows.
    pub begun: Option<Begun>,
}

/// A finished run.
pub struct Finished {
    /// The model.
    pub model: Model,
    /// The clock of the fit, stopped in effect: only read from now on.
    pub seconds: f64,
    /// Processor seconds of the fit.
    pub cpu_seconds: f64,
    /// Minibatches absorbed in this run and the ones before it.
    pub minibatches: u64,
    /// Seconds until the first minibatch had been learned and the workers began.
    pub first_minibatch_seconds: f64,
    /// What the lock around the central posterior cost.
    pub section: Section,
    /// The bound on the number of components, where it was reached.
    pub bound: Option<usize>,
    /// Rows of each in the data that are equal, about.
    pub copies: f64,
    /// Missing values of the rows.
    pub missing_cells: u64,
    /// Columns that count the rows.
    pub counting_columns: Vec<usize>,
    /// The (thinned) trace.
    pub trace: Trace,
    /// Mean log predictive density of the held-out rows.
    pub test_log_likelihood: Option<f64>,
    /// A sample of the rows, when a report was asked for.
    pub sample: Option<RowSample>,
    /// True when somebody asked to stop before the end.
    pub stopped: bool,
    /// What could not be written.
    pub tried: Tried,
}

impl Finished {
    /// The posterior of the model.
    pub fn posterior(&self) -> &Posterior<AnyFamily, AnyProcess> {
        self.model.fold.posterior()
    }
}

/// Runs a stream through the algorithm and writes what was asked for while it goes on.
pub fn run(setup: Setup<'_>, args: &EngineArgs, output: &OutputArgs) -> Result<Finished, Failure> {
    stop::listen();
    check_places(output)?;
    let process = setup.process;
    let watch = Stopwatch::start();
    let names: Vec<String> = setup.source.schema().names().map(str::to_owned).collect();
    let bootstrap = args.bootstrap_rows(BOOTSTRAP_ROWS);
    let inference = Settings {
        max_new: args.max_new,
        surprise: args.identify == OnOff::On,
        precision: args.precision.into(),
        ..Settings::default()
    };
    let mut config = Config {
        polish: setup.polish,
        max_components: setup.max_components,
        half_life: setup.half_life,
        ..args.config(inference, setup.prior, bootstrap)
    };
    let sample = output.report.is_some().then(|| RowSample::new(names.len(), REPORT_ROWS, args.seed));
    let domain = setup.filter.family().map(describe);
    let mut stream = Minibatches::new(setup.source, setup.filter, args.batch_size as usize, sample);
    let first_rows = if bootstrap > 0 { bootstrap } else { args.batch_size as usize };
    let trace = Trace::create(output.trace.as_deref())?;
    let progress = Progress::new(output.quiet, stream.rows_hint());
    let mut provenance = Provenance {
        schema: stream.schema().clone(),
        seed: args.seed,
        bootstrap_rows: first_rows as u64,
        batch_size: u64::from(args.batch_size),
        observations: 0,
        skipped_rows: 0,
        matchings: 0,
        conflicts: 0,
        algorithm: setup.method.name().into(),
        cut: Default::default(),
        between: None,
        prior_given: setup.prior == PriorChoice::Given,
        held: Vec::new(),
        learned_from: Vec::new(),
    };
    let (mut start, mut rows_before, mut skipped_before) = (0, 0, 0);
    if let Some(begun) = &setup.begun {
        provenance = begun.model.provenance.clone();
        provenance.batch_size = u64::from(args.batch_size);
        (start, rows_before, skipped_before) =
            (begun.start(), begun.model.fold.posterior().rows() as u64, provenance.skipped_rows);
        stream.go_on(start, provenance.learned_from.clone());
    }
    let earlier = setup.resumed.as_ref().map(|(model, ..)| model);
    let earlier = earlier.or(setup.begun.as_ref().map(|begun| &begun.model));
    let absorbed_before = earlier.map_or(0, |model| model.fold.absorbed().len());
    let half_life = setup.half_life.or(earlier.and_then(|model| model.fold.posterior().past().half_life));
    if let Some(HalfLife::Seconds(seconds)) = half_life {
        stream.fade(seconds);
    }
    let central = match (setup.resumed, setup.begun) {
        (Some((model, memory, reading)), begun) => {
            check_same_begin(&model, &reading, &provenance, start)?;
            // First what others follow from.
            check_same_half_life(&model, setup.half_life, begun.as_ref())?;
            let column = |time: &Option<String>| time.clone().unwrap_or_else(|| "none".to_owned());
            if model.fold.posterior().past().time != setup.time {
                differs("--time", column(&model.fold.posterior().past().time), column(&setup.time))?;
            }
            check_same_run(&model.provenance, &provenance)?;
            check_same_model(model.fold.posterior(), domain, &process)?;
            provenance = model.provenance;
            stream.check_against(model.fold.posterior().family().clone());
            // Only the first pass begins with a large minibatch.
            let first = if model.fold.posterior().pass() > 0 {
                provenance.batch_size
            } else {
                provenance.bootstrap_rows
            };
            stream.resume(model.fold.absorbed().clone(), first, reading)?;
            Central::from_fold(model.fold).with_memory(memory)
        }
        (None, Some(Begun { model, memory })) => {
            stream.check_against(model.fold.posterior().family().clone());
            Central::from_fold(model.fold.timed_by(setup.time.clone())).with_memory(memory)
        }
        (None, None) => {
            let schema = stream.schema().clone();
            let first = match (setup.first_after, &output.out) {
                (Some(after), Some(out)) => {
                    progress.say(&format!("waiting for the first {}", counted(first_rows as u64, "row")));
                    let (mut early, log) = (Early::new(after), stream.log());
                    stream.read_ahead_while(first_rows, |come, good, schema| {
                        if !early.may_be_due(come) {
                            return;
                        }
                        let Some(rows) = &good().filter(|rows| early.is_due(rows.n_rows())) else { return };
                        let learned = (setup.family)(rows, schema).and_then(|family| {
                            let (schema, learned_from) = (schema.clone(), log.inputs());
                            let provenance = Provenance { schema, learned_from, ..provenance.clone() };
                            Ok(early_model(rows, family, process, &config, provenance).save(out)?)
                        });
                        match learned {
                            Ok(()) => progress
                                .say(&format!("a first model, of {}", counted(rows.n_rows() as u64, "row"))),
                            Err(Failure::Input { message, .. } | Failure::Internal { message }) => {
                                progress.warn(&format!("no first model yet: {message}"));
                            }
                            Err(_) => {}
                        }
                    })?
                }
                _ => stream.read_ahead(first_rows)?,
            };
            let first = first.ok_or_else(|| Failure::input("the input has no rows"))?;
            if first.n_rows() == 0 {
                return Err(Failure::input("none of the first rows lies in the domain of the family")
                    .with_hint("choose another --family"));
            }
            if first.missing_cells() == first.values().len() {
                let rows = counted(first.n_rows() as u64, "row");
                return Err(Failure::input(format!("every value of the first {rows} is missing"))
                    .with_hint("check --delimiter, --header and --columns"));
            }
            // A first minibatch that is short only because rows were left out is not all there is.
            if bootstrap > 0 && stream.rows_ahead() == first_rows {
                config.bootstrap_rows = first.n_rows();
            }
            // The categories of the first rows are those that the family knows.
            provenance.schema = stream.schema().clone();
            let family = (setup.family)(&first, &schema)?;
            stream.check_against(family.clone());
            match &setup.time {
                None => Central::new(family, process),
                time => Central::from_fold(Fold::new(family, process).timed_by(time.clone())),
            }
        }
    };
    let waiting = (bootstrap > 0 && central.snapshot().version() == 0)
        .then(|| progress.first_minibatch(stream.rows_ahead(), many_columns(central.snapshot().family())));
    let mut events = Events::create(setup.events, provenance.cut)?;
    let central = if events.wanted() { central.watching() } else { central };
    events.start(watch.seconds(), &central.snapshot());
    let evaluation = Evaluation::wanted(setup.test.is_some(), output);
    let mut observer = Watch::new(&watch, trace, progress, evaluation, setup.checkpoints, provenance)
        .after(absorbed_before, rows_before)
        .telling(events)
        .writing(setup.out_every.zip(output.out.clone()));
    observer.follow(stream.log());
    let (passes, reopen) = setup.further.map_or((1, None), |further| (further.passes, Some(further.reopen)));
    let mut hosted = Hosted {
        stream,
        observer,
        reopen,
        passes,
        batch_size: args.batch_size as usize,
        waiting,
        clock: &watch,
        first_minibatch_seconds: 0.0,
        stream_saved: Ok(()),
        of_first_pass: None,
    };
    let run = Run::new(central, config);
    let (ran, fold) = match &setup.method {
        Method::Sda => (run.carry_out(&mut hosted), run.centre().checkpoint()),
        Method::Rival(rival) => {
            hosted.waiting = None;
            hosted.observer.count(Counting::Names);
            match rival.fit(&run, &mut hosted.stream, &mut hosted.observer) {
                Ok(fold) => (Ok(()), fold),
                Err(failure) => (Err(failure), run.centre().checkpoint()),
            }
        }
    };
    let central = run.centre();
    let Hosted { mut stream, observer, first_minibatch_seconds, stream_saved, of_first_pass, .. } = hosted;
    let (skipped, missing_cells) = (stream.skipped_rows(), stream.missing_cells());
    let Watched { mut trace, mut provenance, checkpoints, stopped, moments, mut events } = observer.finish();
    provenance.skipped_rows = skipped_before + skipped;
    provenance.schema = stream.schema().clone();
    let held = of_first_pass.unwrap_or_else(|| stream.held().to_vec());
    provenance.held = match rows_before {
        0 => Held::kept(held),
        _ => Held::joined(&provenance.held, &held),
    };
    let bound = setup.max_components.filter(|most| fold.posterior().components().len() >= *most);
    // Where the bound decides, what the data tell of their number is not what was asked for.
    provenance.between = central.between().filter(|_| bound.is_none());
    let mut model = finalised(Model { provenance, fold });
    let (seconds, cpu_seconds) = (watch.seconds(), watch.cpu_seconds());
    // What was learned is kept also when the input turned out bad halfway, and what can be written is written.
    let mut tried = Tried::default();
    if let Some(checkpoints) = &checkpoints {
        let reading = stream.log().reading(model.fold.absorbed());
        tried.note(checkpoints.save(|path| model.save_checkpoint(path, &central.memory(), &reading)));
    }
    tried.note(stream_saved);
    tried.note(events.end(seconds, central));
    if tried.note(ran).is_none() {
        return tried.give_up();
    }
    let earlier = std::mem::take(&mut model.provenance.learned_from);
    model.provenance.learned_from = InputRead::joined(earlier, stream.log().inputs());
    if let Some(path) = &output.out {
        tried.note(model.save(path));
    }
    let posterior = model.fold.posterior();
    let threads = args.parallelism().0;
    let test_log_likelihood =
        setup.test.as_ref().and_then(|test| Predictor::new(posterior).mean_ln_density_on(test, threads));
    let minibatches = model.fold.absorbed().len();
    if let Some(test) = &setup.test {
        let evaluated = moments.iter().filter_map(|(minibatch, posterior)| {
            Some((*minibatch, Predictor::new(posterior).mean_ln_density_on(test, threads)?))
        });
        trace.fill(evaluated.collect());
    }
    tried.note(trace.conclude(seconds, &model, test_log_likelihood));
    let copies = central.memory().sampled_rows().map_or(1.0, |rows| {
        let posterior = model.fold.posterior();
        infer::copies(posterior.family(), &rows, posterior.mass())
    });
    let sample = stream.take_sample();
    Ok(Finished {
        model,
        seconds,
        cpu_seconds,
        minibatches,
        first_minibatch_seconds,
        section: central.section(),
        bound,
        copies,
        missing_cells,
        counting_columns: stream.counting_columns(),
        trace,
        test_log_likelihood,
        sample,
        stopped,
        tried,
    })
}

/// What the core's run asks of the command.
struct Hosted<'a> {
    stream: Minibatches,
    observer: Watch<'a>,
    /// Opens the rows once more, where that can be.
    reopen: Option<&'a Reopen<'a>>,
    passes: u32,
    batch_size: usize,
    /// Shown while the first minibatch is learned from.
    waiting: Option<Waiting>,
    clock: &'a Stopwatch,
    first_minibatch_seconds: f64,
    stream_saved: Result<(), Failure>,
    /// What columns held in the first pass: a further one may be stopped before it has seen all rows.
    of_first_pass: Option<Vec<Held>>,
}

impl Host<AnyFamily, AnyProcess, Settings> for Hosted<'_> {
    type Error = Failure;
    type Source = Minibatches;

    fn data(&mut self) -> (&mut Minibatches, &mut dyn Observer<AnyFamily, AnyProcess>) {
        (&mut self.stream, &mut self.observer)
    }

    fn stopped(&self) -> bool {
        self.observer.stopped()
    }

    fn begun(&mut self) {
        self.waiting = None;
        self.first_minibatch_seconds = self.clock.seconds();
    }

    fn ending(&mut self, centre: &Central<AnyFamily, AnyProcess>) {
        if centre.snapshot().pass() == 0 {
            self.stream_saved = self.observer.save_stream(centre);
        }
    }

    fn polishing(&self) -> Box<dyn Fn(Polishing) -> Flow + Sync + '_> {
        let observer = &self.observer;
        Box::new(move |polishing| observer.polishing(&polishing))
    }

    fn passes(&self) -> u32 {
        self.passes
    }

    fn again(&mut self, centre: &Central<AnyFamily, AnyProcess>) -> Result<(), Failure> {
        let Some(reopen) = self.reopen else { return Ok(()) };
        let (source, filter) = reopen(self.stream.schema())?;
        let sample = self.stream.take_sample();
        self.of_first_pass.get_or_insert_with(|| self.stream.held().to_vec());
        self.stream = Minibatches::new(source, filter, self.batch_size, sample);
        self.stream.check_against(centre.snapshot().family().clone());
        self.observer.follow(self.stream.log());
        Ok(())
    }
}

/// When the next model of a first minibatch that is not complete yet is due: after a time, and when the rows have doubled.
struct Early {
    after: Instant,
    rows: usize,
}

impl Early {
    fn new(Span(after): Span) -> Self {
        Self { after: Instant::now() + after, rows: 1 }
    }

    /// Whether it can be due when so many rows, good and bad, have come.
    fn may_be_due(&self, rows: usize) -> bool {
        rows >= self.rows && Instant::now() >= self.after
    }

    fn is_due(&mut self, rows: usize) -> bool {
        let due = self.may_be_due(rows);
        if due {
            self.rows = 2 * rows;
        }
        due
    }
}

/// A model of these rows alone, as if no more came.
fn early_model(
    rows: &Batch,
    family: AnyFamily,
    process: AnyProcess,
    config: &Config,
    provenance: Provenance,
) -> Model {
    let config = Config { bootstrap_rows: rows.n_rows() + 1, ..config.clone() };
    let run = Run::new(Central::new(family, process), config);
    let Ok(()) = run.through(&mut std::iter::once(rows.clone()).enumerate(), &mut ());
    finalised(Model { fold: run.centre().checkpoint(), provenance })
}

/// Columns from which full covariances take long.
const MANY_COLUMNS: usize = 100;

/// What is said to whoever waits for full covariances of many columns.
fn many_columns(family: &AnyFamily) -> Option<String> {
    let full = matches!(family, AnyFamily::Gaussian(_)) && family.dimensions() >= MANY_COLUMNS;
    full.then(|| {
        let columns = family.dimensions();
        format!("covariances of {columns} columns take their time: --family diagonal leaves them out")
    })
}

/// Rows are unweighted here, so their weight is their number.
pub(super) fn finalised(mut model: Model) -> Model {
    model.provenance.observations = model.fold.posterior().rows().round() as u64;
    model
}

/// The same of one file.
pub(crate) fn check_out(out: &Path) -> Result<(), Failure> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(format!("--out {}: no folder {}", out.display(), folder.display())));
    }
    match out.is_dir() {
        true => Err(Failure::input(format!("--out {}: is a folder", out.display()))),
        false => Ok(()),
    }
}

/// Refuses to write a result where rows are read, or two results to one place.
pub(crate) fn check_apart(outputs: &[(&str, Option<&Path>)], inputs: &[String]) -> Result<(), Failure> {
    // Devices and pipes are no files that could be lost.
    let file = |path: &Path| path.is_file().then(|| std::fs::canonicalize(path).ok()).flatten();
    let named: Vec<(&str, &Path)> =
        outputs.iter().filter_map(|(flag, path)| Some((*flag, (*path)?))).collect();
    for (ix, (flag, path)) in named.iter().enumerate() {
        if let Some(read) = inputs.iter().find(|input| {
            file(path).is_some_and(|file_of| file(Path::new(input)).is_some_and(|input| input == file_of))
        }) {
            return Err(Failure::input(format!("{flag} {}: rows are read from {read}", path.display()))
                .with_hint("write to another file"));
        }
        let device = path.exists() && !path.is_file();
        if let Some((other, _)) = named[..ix].iter().find(|(_, earlier)| earlier == path && !device) {
            return Err(Failure::input(format!("{other} and {flag} name the same file {}", path.display())));
        }
    }
    Ok(())
}

/// Finds out before the work, not after it, that its result has no place to go.
pub(crate) fn check_places(output: &OutputArgs) -> Result<(), Failure> {
    if let Some(out) = &output.out {
        check_out(out)?;
    }
    match &output.report {
        Some(report) if report.exists() && !report.is_dir() => {
            Err(Failure::input(format!("--report {}: is not a folder", report.display())))
        }
        _ => Ok(()),
    }
}

fn differs(what: &str, then: impl Display, now: impl Display) -> Result<(), Failure> {
    Err(Failure::input(format!("the checkpoint was made with {what} {then}, this run has {now}"))
        .with_hint("pass the same flags as before, or start anew without --resume"))
}

fn check_same_model(
    stored: &Posterior<AnyFamily, AnyProcess>,
    family: Option<String>,
    process: &AnyProcess,
) -> Result<(), Failure> {
    let then = describe(stored.family());
    if let Some(now) = family.filter(|now| *now != then) {
        return differs("--family", then, now);
    }
    if stored.process().name() != process.name() {
        return differs("--model", stored.process().name(), process.name());
    }
    if !same(stored.process().concentration(), process.concentration()) {
        return differs(
            "--alpha",
            as_flag(stored.process().concentration()),
            as_flag(process.concentration()),
        );
    }
    if let (Some(then), Some(now)) = (stored.process().discount(), process.discount())
        && !same(then, now)
    {
        return differs("--discount", as_flag(then), as_flag(now));
    }
    match stored.process().bound_kind() == process.bound_kind() {
        true => Ok(()),
        false => differs("--bound", bound_name(stored.process()), bound_name(process)),
    }
}

/// A learned parameter has moved since; a given one has not.
fn same(then: Parameter, now: Parameter) -> bool {
    then == now || then.is_learned() && now.is_learned()
}

/// A run that goes on from a model is resumed with the same one.
fn check_same_begin(stored: &Model, reading: &Reading, now: &Provenance, start: u64) -> Result<(), Failure> {
    let hint = |message: &str| Err(Failure::input(message).with_hint("pass the same flags as before"));
    match (reading.start, start) {
        (then, now_) if then == now_ && stored.provenance.learned_from == now.learned_from => Ok(()),
        (0, _) => hint("--from: the checkpoint is of a run that began with its first row"),
        (_, 0) => hint("--resume: the checkpoint is of a run that went on --from a model"),
        _ => hint("--from: the checkpoint is of a run that went on from another model"),
    }
}

fn check_same_half_life(stored: &Model, now: Option<HalfLife>, begun: Option<&Begun>) -> Result<(), Failure> {
    let of = |model: &Model| model.fold.posterior().past().half_life;
    let (then, now) = (of(stored), now.or(begun.and_then(|begun| of(&begun.model))));
    if then == now { Ok(()) } else { differs("--half-life", as_said(then), as_said(now)) }
}

fn check_same_run(stored: &Provenance, now: &Provenance) -> Result<(), Failure> {
    if stored.batch_size != now.batch_size {
        return differs("--batch-size", stored.batch_size, now.batch_size);
    }
    if stored.bootstrap_rows != now.bootstrap_rows {
        return differs("--bootstrap", stored.bootstrap_rows, now.bootstrap_rows);
    }
    if stored.seed != now.seed {
        return differs("--seed", stored.seed, now.seed);
    }
    let names = |provenance: &Provenance| provenance.schema.names().collect::<Vec<_>>().join(",");
    if names(stored) != names(now) {
        return differs("columns", names(stored), names(now));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anabranch::family::{Diagonal, Gaussian};

    use super::*;

    #[test]
    fn whoever_waits_for_wide_covariances_is_told_what_is_faster() {
        let rows = |columns: usize| Batch::new(columns, vec![1.0; 3 * columns]).unwrap();
        let full = |columns| AnyFamily::Gaussian(Gaussian::from_rows(&rows(columns)).unwrap());
        assert!(many_columns(&full(MANY_COLUMNS)).is_some_and(|advice| advice.contains("--family diagonal")));
        assert_eq!(many_columns(&full(3)), None);
        let diagonal = Diagonal::from_rows(&rows(MANY_COLUMNS)).unwrap();
        assert_eq!(many_columns(&AnyFamily::Diagonal(diagonal)), None);
    }
}
