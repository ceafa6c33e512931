//! `anabranch inspect` with a model of topics: the top words of each topic, its share, and its coherence.

use std::io::Write;

use anabranch_io::model::TopicModel;
use serde::Serialize;

use super::subjects::{Row as SubjectRow, Shown, Step};
use super::{TOP_WORDS, largest_first, top_words};
use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::picture::{counted, grouped, significant};
use crate::printing::print_json;

#[derive(Serialize)]
struct Inspection<'a> {
    mass: f64,
    observations: u64,
    skipped_rows: u64,
    unknown_words: f64,
    model: &'static str,
    family: &'static str,
    vocabulary: usize,
    gamma: f64,
    alpha0: f64,
    eta: f64,
    minibatches: u64,
    seed: u64,
    redirects: Vec<(u64, u64)>,
    subjects: Vec<SubjectRow>,
    joins: Vec<Step>,
    components: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    id: u64,
    /// Documents that have the topic.
    count: f64,
    /// Share of all words.
    weight: f64,
    words: f64,
    coherence: Option<f64>,
    top_words: Vec<(&'a str, f64)>,
}

/// Runs the command.
pub fn command(args: &InspectArgs) -> Result<(), Failure> {
    if args.against.is_some() {
        return Err(Failure::input("--against compares models of rows, not of topics"));
    }
    let model = TopicModel::load(&args.model)?;
    let shown = Shown::of(&model);
    let inspection = inspect(&model, &shown);
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &inspection, "model");
    }
    writeln!(
        out,
        "{} from {} and {} of a vocabulary of {}; γ = {}, α₀ = {}, η = {}",
        counted(inspection.components.len() as u64, "topic"),
        counted(inspection.observations, "document"),
        counted(inspection.mass.round() as u64, "word"),
        grouped(inspection.vocabulary as f64),
        significant(inspection.gamma, 3),
        significant(inspection.alpha0, 3),
        significant(inspection.eta, 3),
    )?;
    shown.print(&mut out)?;
    writeln!(out, "{:>6} {:>7} {:>10} {:>6}  top words", "id", "share", "documents", "npmi")?;
    for row in inspection.components.iter().take(args.top) {
        let npmi = row.coherence.map_or_else(|| "-".to_owned(), |npmi| format!("{npmi:.2}"));
        let words: Vec<&str> = row.top_words.iter().map(|(word, _)| *word).collect();
        writeln!(
            out,
            "{:>6} {:>5.1} % {:>10} {npmi:>6}  {}",
            row.id,
            100.0 * row.weight,
            grouped(row.count.round()),
            words.join(" ")
        )?;
    }
    let rest = inspection.components.len().saturating_sub(args.top);
    if rest > 0 {
        writeln!(out, "and {} more; --top shows them", counted(rest as u64, "topic"))?;
    }
    Ok(())
}

fn inspect<'m>(model: &'m TopicModel, shown: &Shown<'m>) -> Inspection<'m> {
    let (posterior, made) = (model.fold.posterior(), &model.provenance);
    let mass = posterior.expected_mass();
    let row = |topic: &anabranch::posterior::Component| {
        let evidence = topic.evidence();
        let place = posterior.position(topic.id());
        Row {
            id: topic.id().0,
            count: topic.expected_count(),
            weight: evidence.stats[0] / mass.max(f64::MIN_POSITIVE),
            words: evidence.stats[0],
            coherence: place.and_then(|place| made.coherence.get(place).copied().flatten()),
            top_words: top_words(topic, TOP_WORDS)
                .into_iter()
                .map(|word| {
                    let probability = posterior.family().probability(&evidence.stats, word);
                    (model.vocabulary.words()[word as usize].as_str(), probability)
                })
                .collect(),
        }
    };
    Inspection {
        mass,
        observations: made.documents,
        skipped_rows: made.skipped,
        unknown_words: made.unknown_words,
        model: "hdp",
        family: "topic",
        vocabulary: model.vocabulary.len(),
        gamma: posterior.process().gamma(),
        alpha0: posterior.process().alpha0(),
        eta: posterior.family().eta(),
        minibatches: model.fold.absorbed().len(),
        seed: made.seed,
        redirects: posterior.redirects().iter().map(|(from, into)| (from.0, into.0)).collect(),
        subjects: shown.rows(),
        joins: shown.steps(),
        components: largest_first(posterior).into_iter().map(row).collect(),
    }
}
