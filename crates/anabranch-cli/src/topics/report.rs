//! The report of topics: their words as bars, how prevalent subjects were over the documents, and the topics of each subject.

use std::path::Path;

use anabranch::posterior::Component;
use anabranch::subjects::Subject;
use anabranch_io::model::TopicModel;

use super::outcome::Outcome;
use super::subjects::Shown;
use super::watch::Moment;
use super::{TOP_WORDS, largest_first, top_words};
use crate::failure::Failure;
use crate::picture::{
    Axis, Bar, Direction, Figure, Layer, LegendEntry, LegendMark, Panel, Path as Join, Stroke, Ticks,
    component_colour, counted, escape, grouped,
};
use crate::report::{WIDTH, write_page};

/// Subjects whose words are drawn.
const DRAWN: usize = 8;
/// Words of each.
const BARS: usize = 6;
/// Subjects whose prevalence is drawn.
const LINES: usize = 7;

/// Writes `report.html` and its pictures.
pub(super) fn write(
    folder: &Path,
    title: &str,
    shown: &Shown<'_>,
    moments: &[Moment],
    outcome: &Outcome,
) -> Result<(), Failure> {
    let model = shown.model;
    let figures: Vec<Figure> =
        std::iter::once(words(model, shown)).chain(prevalence(model, shown, moments)).collect();
    let subjects = match shown.are_groups() {
        true => format!(" of {} subjects", shown.found.list.len()),
        false => String::new(),
    };
    let subtitle = format!(
        "{} documents, {} words, {} topics{subjects}{}",
        grouped(outcome.observations as f64),
        grouped(outcome.mass.round()),
        grouped(outcome.components as f64),
        outcome
            .test_log_likelihood
            .map_or_else(String::new, |ll| format!(", held-out log-likelihood per word {ll:.4}"))
    );
    write_page(folder, title, &subtitle, &figures, &tables(model, shown))?;
    Ok(())
}

/// The id that a subject takes its colour from: that of its largest topic.
fn lead(model: &TopicModel, subject: &Subject) -> u64 {
    subject.topics.first().map_or(0, |ix| model.fold.posterior().components()[*ix].id().0)
}

/// A panel for each of the largest subjects, with bars for its words. Topics that are no groups are their own subjects.
fn words(model: &TopicModel, shown: &Shown<'_>) -> Figure {
    let what = if shown.are_groups() { "subject" } else { "topic" };
    let panel = |(number, subject): (usize, &Subject)| {
        let top = shown.words(&subject.counts, BARS);
        let row = |ix: usize| -(ix as f64);
        let share = |word: &str| {
            let count = model.vocabulary.number(word).map_or(0.0, |word| subject.counts[word as usize]);
            100.0 * count / subject.mass.max(f64::MIN_POSITIVE)
        };
        let bars: Vec<Bar> = top
            .iter()
            .enumerate()
            .map(|(ix, word)| Bar {
                across: (row(ix) - 0.36, row(ix) + 0.36),
                value: share(word),
                colour: component_colour(lead(model, subject)),
                label: String::new(),
            })
            .collect();
        let names = top.iter().enumerate().map(|(ix, word)| (row(ix), (*word).to_owned()));
        let called = match shown.are_groups() {
            true => format!("subject {} of {} topics", number + 1, subject.topics.len()),
            false => format!("topic {}", lead(model, subject)),
        };
        Panel {
            height: 18.0 * top.len().max(1) as f64,
            x: Axis::linear(format!(
                "{called}, {:.1} % of all words: share of its words in %",
                100.0 * shown.weight(subject)
            )),
            y: Axis::default()
                .with_ticks(Ticks::Named(names.collect()))
                .with_range(row(top.len()) + 0.4, 0.6),
            layers: vec![Layer::Bars { bars, direction: Direction::Horizontal }],
        }
    };
    Figure {
        name: "words".to_owned(),
        title: format!("What the {what}s are about"),
        subtitle: format!(
            "The words that tell most of the {} largest {what}s.",
            shown.found.list.len().min(DRAWN)
        ),
        description: format!("Bars of word frequencies, one panel for each {what}."),
        width: WIDTH,
        legend: Vec::new(),
        panels: shown.found.list.iter().enumerate().take(DRAWN).map(panel).collect(),
        notes: Vec::new(),
    }
}

/// How the share of the largest subjects changed while documents came in; `None` with fewer than three moments.
fn prevalence(model: &TopicModel, shown: &Shown<'_>, moments: &[Moment]) -> Option<Figure> {
    if moments.len() < 3 {
        return None;
    }
    let posterior = model.fold.posterior();
    let what = if shown.are_groups() { "subject" } else { "topic" };
    let largest = &shown.found.list[..shown.found.list.len().min(LINES)];
    // A topic that ended lives on in another one.
    let words_of = |moment: &Moment, subject: &Subject| -> f64 {
        let ids: Vec<_> = subject.topics.iter().map(|ix| posterior.components()[*ix].id()).collect();
        let belongs = |from: u64| ids.contains(&posterior.resolve(anabranch::identify::ComponentId(from)));
        moment.words.iter().filter(|(from, _)| belongs(*from)).map(|(_, words)| words).sum()
    };
    let total = |moment: &Moment| moment.words.iter().map(|(_, words)| words).sum::<f64>();
    let line = |subject: &Subject| {
        let points = moments.windows(2).map(|pair| {
            let new = total(&pair[1]) - total(&pair[0]);
            let own = words_of(&pair[1], subject) - words_of(&pair[0], subject);
            let share = if new > 0.0 { 100.0 * own / new } else { f64::NAN };
            (pair[1].documents as f64, share)
        });
        Layer::Line {
            points: points.collect(),
            path: Join::Straight,
            colour: component_colour(lead(model, subject)),
            stroke: Stroke::Solid,
        }
    };
    let legend = largest.iter().map(|subject| LegendEntry {
        mark: LegendMark::Line,
        colour: component_colour(lead(model, subject)),
        text: shown.name(subject),
    });
    Some(Figure {
        name: "prevalence".to_owned(),
        title: format!("How much of the new documents each {what} had"),
        subtitle: "Share of the words that came since the point before.".to_owned(),
        description: format!(
            "Lines of the share of words over documents, one for each of the largest {what}s."
        ),
        width: WIDTH,
        legend: legend.collect(),
        panels: vec![Panel {
            height: 260.0,
            x: Axis::linear("documents").with_ticks(Ticks::Whole),
            y: Axis::linear("share of the new words in %"),
            layers: largest.iter().map(line).collect(),
        }],
        notes: Vec::new(),
    })
}

/// The topics, folded into their subjects where there are any.
fn tables(model: &TopicModel, shown: &Shown<'_>) -> String {
    let components = model.fold.posterior().components();
    if !shown.are_groups() {
        let all = table(model, &largest_first(model.fold.posterior()));
        return format!("<section>\n<h2>All topics</h2>\n{all}</section>\n");
    }
    let folded = shown.found.list.iter().map(|subject| {
        let topics: Vec<&Component> = subject.topics.iter().map(|ix| &*components[*ix]).collect();
        format!(
            "<details>\n<summary>{:.1} % <b>{}</b> ({})</summary>\n{}</details>\n",
            100.0 * shown.weight(subject),
            escape(&shown.name(subject)),
            counted(topics.len() as u64, "topic"),
            table(model, &topics)
        )
    });
    let folded: String = folded.collect();
    format!("<section>\n<h2>All topics, by subject</h2>\n{folded}</section>\n")
}

fn table(model: &TopicModel, topics: &[&Component]) -> String {
    let posterior = model.fold.posterior();
    let mass = posterior.mass().max(f64::MIN_POSITIVE);
    let rows: String = topics
        .iter()
        .map(|topic| {
            let words: Vec<String> = top_words(topic, TOP_WORDS)
                .iter()
                .map(|word| escape(&model.vocabulary.words()[*word as usize]).into_owned())
                .collect();
            let place = posterior.position(topic.id());
            let npmi = place.and_then(|place| model.provenance.coherence.get(place).copied().flatten());
            format!(
                "<tr><td>{}</td><td>{:.2} %</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                topic.id(),
                100.0 * topic.evidence().stats[0] / mass,
                grouped(topic.expected_count().round()),
                npmi.map_or_else(String::new, |npmi| format!("{npmi:.2}")),
                words.join(" ")
            )
        })
        .collect();
    format!(
        "<table>\n<thead><tr><th>id</th><th>share</th><th>documents</th><th>NPMI</th>\
         <th>top words</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    )
}
