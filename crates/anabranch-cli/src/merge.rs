//! `anabranch merge`: models that were learned apart become one, and every row counts once.
//!
//! What a model has found is identified with what the others have. A folder of checkpoints that keeps all rows of its stream
//! has more to say: these are learned from again, together with those of the other folders.

use anabranch::batch::{Batch, Minibatch};
use anabranch::central::{BatchId, Central, Fold, Joined, Memory};
use anabranch::engine::{BatchSource, Config, minibatch_rng};
use anabranch::family::{AnyFamily, Conjugate, Family};
use anabranch::infer::PriorChoice;
use anabranch::learner::run::Run;
use anabranch::posterior::{Evidence, Posterior};
use anabranch::process::AnyProcess;
use anabranch_io::model::{Model, Provenance};
use anabranch_io::{Held, InputRead};
use rand::seq::SliceRandom;
use serde::Serialize;

use crate::args::MergeArgs;
use crate::args::half_life::as_flag as as_said;
use crate::engine::{as_flag, bound_name};
use crate::failure::Failure;
use crate::fit::{check_out, describe, require_mixture, stored_model};
use crate::picture::counted;
use crate::printing::print_json;

/// What `merge --json` prints.
#[derive(Serialize)]
struct Report<'a> {
    observations: u64,
    components: usize,
    models: Vec<Part<'a>>,
}

/// What became of one model.
#[derive(Serialize)]
struct Part<'a> {
    model: &'a str,
    observations: u64,
    components: usize,
    /// Components that were identified with those of the models before.
    matched: usize,
    /// Rows that were learned from again.
    again: u64,
}

/// A model with what messages call it.
pub type Named = (String, Model);

/// The same with all rows that it has learned from, where these are there.
type Found = (Named, Option<Batch>);

/// Models put together.
pub struct Merged {
    /// The model.
    pub model: Model,
    /// Where the components of each went, the first among them, before it was looked after.
    pub joined: Vec<Joined>,
    /// Rows of each that were learned from again.
    again: Vec<u64>,
}

/// Runs the command.
pub fn command(args: &MergeArgs) -> Result<(), Failure> {
    check_out(&args.out)?;
    let threads = args.threads.map(|n| n as usize);
    let mut found = Vec::new();
    for path in &args.models {
        let name = path.display().to_string();
        let stored = stored_model(path);
        if path.is_dir() && !stored.exists() {
            return Err(Failure::input(format!("{name} holds no run that has read all of its input"))
                .with_hint("go on with it, by the command that began it and --resume, and merge then"));
        }
        require_mixture("merge", &stored)?;
        let (model, memory, _) = Model::load_checkpoint(&stored)?;
        let rows = all_rows(&model, &memory).filter(|_| path.is_dir());
        let model = if rows.is_none() && path.is_dir() { ended(model, memory, threads) } else { model };
        found.push(((name, model), rows));
    }
    let rows = |model: &Model| model.fold.posterior().rows().round() as u64;
    let parts: Vec<(String, u64, usize)> = found
        .iter()
        .map(|((name, model), _)| (name.clone(), rows(model), model.fold.posterior().components().len()))
        .collect();
    let merged = merge_found(found, args.assume_apart, threads)?;
    merged.model.save(&args.out)?;
    let components = merged.model.fold.posterior().components().len();
    let went = merged.joined.iter().zip(&merged.again);
    let models = parts.iter().zip(went).map(|((model, observations, components), (joined, again))| Part {
        model,
        observations: *observations,
        components: *components,
        matched: joined.matched,
        again: *again,
    });
    let report = Report { observations: rows(&merged.model), components, models: models.collect() };
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &report, "result");
    }
    use std::io::Write;
    for part in &report.models {
        let rows = counted(part.observations, "row");
        let components = counted(part.components as u64, "component");
        let went = match part.again {
            0 => format!("{} known", part.matched),
            _ => "learned from again: its ids end".to_owned(),
        };
        writeln!(out, "{}: {rows}, {components}, {went}", part.model)?;
    }
    let all = counted(report.components as u64, "component");
    writeln!(out, "{}: {}, {all}", args.out.display(), counted(report.observations, "row"))?;
    Ok(())
}

/// All rows that a model has learned from, where its run remembers every one of them as it was.
fn all_rows(model: &Model, memory: &Memory) -> Option<Batch> {
    let Model { fold, provenance } = model;
    let (posterior, family) = (fold.posterior(), fold.posterior().family());
    let fades = posterior.past().half_life.is_some() || posterior.past().time.is_some();
    // Values on a grid are remembered where they were moved to, and would be moved once more.
    let rounded = (0..family.dimensions()).any(|column| family.resolution(column).is_some_and(|w| w > 0.0));
    if fades || rounded {
        return None;
    }
    let most = |id| if id == BatchId(0) { provenance.bootstrap_rows } else { provenance.batch_size };
    memory.all_rows(posterior.mass(), fold.absorbed(), |id| most(id) as usize)
}

/// The model that `fit --out` makes of the state of a stream.
fn ended(model: Model, memory: Memory, threads: Option<usize>) -> Model {
    let Model { fold, provenance } = model;
    let run = Run::new(Central::from_fold(fold).with_memory(memory), config(&provenance, threads));
    run.end();
    Model { fold: run.centre().checkpoint(), provenance }
}

/// How a run that goes on from a model is carried out.
fn config(provenance: &Provenance, threads: Option<usize>) -> Config {
    let prior = if provenance.prior_given { PriorChoice::Given } else { PriorChoice::Estimated };
    let usual = Config::default();
    Config {
        seed: provenance.seed,
        prior,
        threads: threads.unwrap_or(usual.threads),
        bootstrap_rows: provenance.bootstrap_rows as usize,
        ..usual
    }
}

/// Puts models together: the ids are those of the first, and new ones for what it does not have.
pub fn merge(models: Vec<Named>, assume_apart: bool, threads: Option<usize>) -> Result<Merged, Failure> {
    merge_found(models.into_iter().map(|named| (named, None)).collect(), assume_apart, threads)
}

/// The same, where the rows of some models are there: those are learned from, behind what the others have found.
fn merge_found(found: Vec<Found>, assume_apart: bool, threads: Option<usize>) -> Result<Merged, Failure> {
    let named: Vec<&Named> = found.iter().map(|(named, _)| named).collect();
    check_together(&named)?;
    if !assume_apart {
        check_apart(&named)?;
    }
    let Some(((_, first), _)) = found.first() else {
        return Err(Failure::input("there is no model to merge"));
    };
    let mut provenance = Provenance {
        learned_from: Vec::new(),
        held: Vec::new(),
        skipped_rows: 0,
        matchings: 0,
        conflicts: 0,
        between: None,
        ..first.provenance.clone()
    };
    let nothing = Fold::new(first.fold.posterior().family().clone(), *first.fold.posterior().process());
    let (mut whole, mut kept): (Option<(String, Model, Memory)>, Option<Batch>) = (None, None);
    let (mut joined, mut again) = (Vec::new(), Vec::new());
    for (ix, ((name, model), rows)) in found.into_iter().enumerate() {
        let theirs = &model.provenance;
        let earlier = std::mem::take(&mut provenance.learned_from);
        provenance.learned_from = InputRead::joined(earlier, theirs.learned_from.clone());
        provenance.held =
            if ix == 0 { theirs.held.clone() } else { Held::joined(&provenance.held, &theirs.held) };
        provenance.skipped_rows += theirs.skipped_rows;
        again.push(rows.as_ref().map_or(0, |rows| rows.n_rows() as u64));
        if let Some(rows) = rows {
            joined.push(Joined::default());
            match &mut kept {
                Some(kept) => kept.append(&rows),
                None => kept = Some(rows),
            }
            continue;
        }
        provenance.matchings += theirs.matchings;
        provenance.conflicts += theirs.conflicts;
        let (model, theirs) = model.going_on(Memory::default());
        let Some((first_name, whole, memory)) = &mut whole else {
            joined.push(Joined::default());
            whole = Some((name, model, theirs));
            continue;
        };
        let family = model.fold.posterior().family();
        let mut evidence = Vec::new();
        for component in model.fold.posterior().components() {
            let Evidence { stats, labels } = component.evidence();
            let stats = family.reframed(stats, whole.fold.posterior().family()).map_err(|other| {
                Failure::input(format!("{first_name} and {name} cannot be merged: {other}"))
            })?;
            evidence.push(Evidence { stats, labels: *labels });
        }
        let went = whole
            .fold
            .join(&model.fold, &evidence)
            .map_err(|void| Failure::input(format!("{first_name} and {name} cannot be merged: {void}")))?;
        joined.push(went);
        memory.pool(&theirs);
        provenance.matchings += 1;
    }
    let (fold, memory) =
        whole.map_or((nothing, Memory::default()), |(_, model, memory)| (model.fold, memory));
    let name = fold.absorbed().next();
    let run = Run::new(Central::from_fold(fold).with_memory(memory), config(&provenance, threads));
    if let Some(rows) = kept {
        let first = if run.begins() { provenance.bootstrap_rows } else { provenance.batch_size };
        let rows = shuffled(&rows, provenance.seed);
        let (first, others) = (rows.head(first as usize), rows.tail(first as usize));
        let pieces = std::iter::once(first).chain(others.pieces(provenance.batch_size as usize));
        let Ok(()) = run.through(&mut Again { pieces, name }, &mut ());
    } else if joined.len() > 1 {
        run.end();
    }
    let fold = run.centre().checkpoint();
    provenance.observations = fold.posterior().rows().round() as u64;
    Ok(Merged { model: Model { fold, provenance }, joined, again })
}

/// The rows in random order: one model after another is no stream.
fn shuffled(rows: &Batch, seed: u64) -> Batch {
    let mut rng = minibatch_rng(seed, BatchId(0));
    let mut order: Vec<usize> = (0..rows.n_rows()).collect();
    order.shuffle(&mut rng);
    rows.select(&order)
}

/// Rows that are learned from again, in minibatches.
struct Again<I> {
    pieces: I,
    /// Of the next minibatch.
    name: u64,
}

impl<I: Iterator<Item = Batch> + Send> BatchSource for Again<I> {
    type Batch = Batch;
    type Error = std::convert::Infallible;

    fn next(&mut self) -> Result<Option<(BatchId, Batch)>, Self::Error> {
        let named = self.pieces.next().map(|piece| (BatchId(self.name), piece));
        self.name += 1;
        Ok(named)
    }
}

/// Refuses models of which two have learned from the same rows, or of which one does not say what it has learned from.
fn check_apart(models: &[&Named]) -> Result<(), Failure> {
    let hint = "pass --assume-apart if you know that they have no rows in common";
    if let Some((name, _)) = models.iter().find(|(_, model)| model.provenance.learned_from.is_empty()) {
        return Err(
            Failure::input(format!("{name} does not say which rows it has learned from")).with_hint(hint)
        );
    }
    for (ix, (one, first)) in models.iter().enumerate() {
        for (other, second) in &models[ix + 1..] {
            let shared = first.provenance.learned_from.iter().find_map(|input| {
                let theirs = second.provenance.learned_from.iter();
                theirs.clone().find(|theirs| theirs.begins_like(input)).map(|theirs| (input, theirs))
            });
            if let Some((input, theirs)) = shared {
                let (mine, theirs) = (&input.name, &theirs.name);
                let again = if mine == theirs { String::new() } else { format!(", there called {theirs}") };
                return Err(Failure::input(format!(
                    "{one} and {other} have both learned from {mine}{again}"
                ))
                .with_hint("each row counts once: merge models of different rows"));
            }
        }
    }
    Ok(())
}

/// Refuses models that are not of one kind.
fn check_together(models: &[&Named]) -> Result<(), Failure> {
    let Some(((first, model), others)) = models.split_first() else { return Ok(()) };
    for (name, other) in others {
        let differs = |what: &str, one: String, another: String| match one == another {
            true => Ok(()),
            false => Err(Failure::input(format!("{first} has {what} {one}, {name} has {another}"))
                .with_hint("models that are to be merged are learned with the same flags")),
        };
        let (one, another) = (model.fold.posterior(), other.fold.posterior());
        differs("columns", columns(model), columns(other))?;
        differs("--family", describe(one.family()), describe(another.family()))?;
        differs("--model", one.process().name().to_owned(), another.process().name().to_owned())?;
        differs(
            "--alpha",
            as_flag(one.process().concentration()),
            as_flag(another.process().concentration()),
        )?;
        let discount = |process: &AnyProcess| process.discount().map_or_else(String::new, as_flag);
        differs("--discount", discount(one.process()), discount(another.process()))?;
        differs("--bound", bound_name(one.process()).to_owned(), bound_name(another.process()).to_owned())?;
        let half_life = |posterior: &Posterior<AnyFamily, AnyProcess>| as_said(posterior.past().half_life);
        differs("--half-life", half_life(one), half_life(another))?;
        let time = |posterior: &Posterior<AnyFamily, AnyProcess>| {
            posterior.past().time.clone().unwrap_or_else(|| "none".to_owned())
        };
        differs("--time", time(one), time(another))?;
        let prior =
            |model: &Model| if model.provenance.prior_given { "given" } else { "estimated" }.to_owned();
        differs("a prior that was", prior(model), prior(other))?;
        if model.provenance.prior_given && !same_prior(one.family(), another.family()) {
            return Err(Failure::input(format!("{first} and {name} were given different priors"))
                .with_hint("models that are to be merged are learned with the same flags"));
        }
    }
    Ok(())
}

/// Names of the columns, with their categories.
fn columns(model: &Model) -> String {
    let column = |column: &anabranch_io::Column| match &column.categories {
        Some(categories) => format!("{} ({})", column.name, categories.join(" ")),
        None => column.name.clone(),
    };
    model.provenance.schema.columns.iter().map(column).collect::<Vec<_>>().join(",")
}

/// Priors in the units of the data: whoever predicts the same of the first row, and of a row after it, is the same.
fn same_prior(one: &AnyFamily, other: &AnyFamily) -> bool {
    let middle = one.summary(&vec![0.0; one.n_features()]).mean;
    if middle.len() != other.dimensions() || one.check(&middle).is_err() || other.check(&middle).is_err() {
        return one == other;
    }
    let predicted = |family: &AnyFamily| {
        let mut stats = vec![0.0; family.n_features()];
        let before = family.predictive(&stats).ln_density(&middle);
        family.features(&middle, &mut stats);
        [before, family.predictive(&stats).ln_density(&middle)]
    };
    let near = |(a, b): (f64, f64)| a == b || (a - b).abs() <= 1e-9 * (1.0 + a.abs());
    predicted(one).into_iter().zip(predicted(other)).all(near)
}
