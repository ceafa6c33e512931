//! `anabranch merge`: models that were learned apart become one, and every row counts once.

use anabranch::central::{Central, Joined, Memory};
use anabranch::engine::Config;
use anabranch::family::{AnyFamily, Conjugate, Family};
use anabranch::infer::PriorChoice;
use anabranch::learner::run::Run;
use anabranch::posterior::{Evidence, Posterior};
use anabranch::process::AnyProcess;
use anabranch_io::model::Model;
use anabranch_io::{Held, InputRead};
use serde::Serialize;

use crate::args::MergeArgs;
use crate::args::half_life::as_flag as as_said;
use crate::engine::{as_flag, bound_name};
use crate::failure::Failure;
use crate::fit::{check_out, describe, require_mixture};
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
}

/// A model with what messages call it.
pub type Named = (String, Model);

/// Models put together.
pub struct Merged {
    /// The model.
    pub model: Model,
    /// Where the components of each went, the first among them, before it was looked after.
    pub joined: Vec<Joined>,
}

/// Runs the command.
pub fn command(args: &MergeArgs) -> Result<(), Failure> {
    check_out(&args.out)?;
    let mut models = Vec::new();
    for path in &args.models {
        let name = path.display().to_string();
        require_mixture("merge", path)?;
        models.push((name, Model::load(path)?));
    }
    let rows = |model: &Model| model.fold.posterior().rows().round() as u64;
    let parts: Vec<(String, u64, usize)> = models
        .iter()
        .map(|(name, model)| (name.clone(), rows(model), model.fold.posterior().components().len()))
        .collect();
    let merged = merge(models, args.assume_apart, args.threads.map(|n| n as usize))?;
    merged.model.save(&args.out)?;
    let components = merged.model.fold.posterior().components().len();
    let models = parts.iter().zip(&merged.joined).map(|((model, observations, components), joined)| Part {
        model,
        observations: *observations,
        components: *components,
        matched: joined.matched,
    });
    let report = Report { observations: rows(&merged.model), components, models: models.collect() };
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &report, "result");
    }
    use std::io::Write;
    for part in &report.models {
        writeln!(
            out,
            "{}: {}, {}, {} known",
            part.model,
            counted(part.observations, "row"),
            counted(part.components as u64, "component"),
            part.matched
        )?;
    }
    let all = counted(report.components as u64, "component");
    writeln!(out, "{}: {}, {all}", args.out.display(), counted(report.observations, "row"))?;
    Ok(())
}

/// Puts models together: the ids are those of the first, and new ones for what it does not have.
pub fn merge(models: Vec<Named>, assume_apart: bool, threads: Option<usize>) -> Result<Merged, Failure> {
    check_together(&models)?;
    if !assume_apart {
        check_apart(&models)?;
    }
    let mut models = models.into_iter();
    let (first_name, first) = models.next().ok_or_else(|| Failure::input("there is no model to merge"))?;
    let (mut whole, mut memory) = first.going_on(Memory::default());
    let mut joined = vec![Joined::default()];
    for (name, model) in models {
        let (model, theirs) = model.going_on(Memory::default());
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
        let earlier = std::mem::take(&mut whole.provenance.learned_from);
        whole.provenance.learned_from = InputRead::joined(earlier, model.provenance.learned_from);
        whole.provenance.held = Held::joined(&whole.provenance.held, &model.provenance.held);
        whole.provenance.skipped_rows += model.provenance.skipped_rows;
        whole.provenance.matchings += model.provenance.matchings + 1;
        whole.provenance.conflicts += model.provenance.conflicts;
    }
    let Model { fold, mut provenance } = whole;
    let prior = if provenance.prior_given { PriorChoice::Given } else { PriorChoice::Estimated };
    let usual = Config::default();
    let config = Config { seed: provenance.seed, prior, threads: threads.unwrap_or(usual.threads), ..usual };
    let run = Run::new(Central::from_fold(fold).with_memory(memory), config);
    if joined.len() > 1 {
        run.end();
    }
    let fold = run.centre().checkpoint();
    provenance.observations = fold.posterior().rows().round() as u64;
    provenance.between = None;
    Ok(Merged { model: Model { fold, provenance }, joined })
}

/// Refuses models of which two have learned from the same rows, or of which one does not say what it has learned from.
fn check_apart(models: &[Named]) -> Result<(), Failure> {
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
fn check_together(models: &[Named]) -> Result<(), Failure> {
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
