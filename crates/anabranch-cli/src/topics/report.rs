//! The report of topics: their words as bars, their prevalence over the documents, and a table of all.

use std::path::Path;

use anabranch_io::model::TopicModel;

use super::outcome::Outcome;
use super::watch::Moment;
use super::{TOP_WORDS, largest_first, top_words};
use crate::failure::Failure;
use crate::picture::{
    Axis, Bar, Direction, Figure, Layer, LegendEntry, LegendMark, Panel, Path as Join, Stroke, Ticks,
    component_colour, escape, grouped,
};
use crate::report::{WIDTH, write_page};

/// Topics whose words are drawn.
const DRAWN: usize = 8;
/// Words of each.
const BARS: usize = 6;
/// Topics whose prevalence is drawn.
const LINES: usize = 7;

/// Writes `report.html` and its pictures.
pub(super) fn write(
    folder: &Path,
    title: &str,
    model: &TopicModel,
    moments: &[Moment],
    outcome: &Outcome,
) -> Result<(), Failure> {
    let figures: Vec<Figure> = std::iter::once(words(model)).chain(prevalence(model, moments)).collect();
    let subtitle = format!(
        "{} documents, {} words, {} topics{}",
        grouped(outcome.observations as f64),
        grouped(outcome.mass.round()),
        grouped(outcome.components as f64),
        outcome
            .test_log_likelihood
            .map_or_else(String::new, |ll| format!(", held-out log-likelihood per word {ll:.4}"))
    );
    write_page(folder, title, &subtitle, &figures, &table(model))?;
    Ok(())
}

/// A panel for each of the largest topics, with bars for its words.
fn words(model: &TopicModel) -> Figure {
    let posterior = model.fold.posterior();
    let largest = largest_first(posterior);
    let panel = |topic: &&anabranch::posterior::Component| {
        let stats = &topic.evidence().stats;
        let top = top_words(topic, BARS);
        let row = |ix: usize| -(ix as f64);
        let bars: Vec<Bar> = top
            .iter()
            .enumerate()
            .map(|(ix, word)| Bar {
                across: (row(ix) - 0.36, row(ix) + 0.36),
                value: 100.0 * posterior.family().probability(stats, *word),
                colour: component_colour(topic.id().0),
                label: String::new(),
            })
            .collect();
        let names = top
            .iter()
            .enumerate()
            .map(|(ix, word)| (row(ix), model.vocabulary.words()[*word as usize].clone()));
        let share = 100.0 * stats[0] / posterior.mass().max(f64::MIN_POSITIVE);
        Panel {
            height: 18.0 * top.len().max(1) as f64,
            x: Axis::linear(format!("topic {}, {share:.1} % of all words: probability in %", topic.id())),
            y: Axis::default()
                .with_ticks(Ticks::Named(names.collect()))
                .with_range(row(top.len()) + 0.4, 0.6),
            layers: vec![Layer::Bars { bars, direction: Direction::Horizontal }],
        }
    };
    Figure {
        name: "words".to_owned(),
        title: "What the topics are about".to_owned(),
        subtitle: format!("The most probable words of the {} largest topics.", largest.len().min(DRAWN)),
        description: "Bars of word probabilities, one panel for each topic.".to_owned(),
        width: WIDTH,
        legend: Vec::new(),
        panels: largest.iter().take(DRAWN).map(panel).collect(),
        notes: Vec::new(),
    }
}

/// How the share of the largest topics changed while documents came in; `None` with fewer than three moments.
fn prevalence(model: &TopicModel, moments: &[Moment]) -> Option<Figure> {
    if moments.len() < 3 {
        return None;
    }
    let posterior = model.fold.posterior();
    let largest: Vec<_> = largest_first(posterior).into_iter().take(LINES).collect();
    // A topic that ended lives on in another one.
    let words_of = |moment: &Moment, id: u64| -> f64 {
        let belongs = |from: u64| posterior.resolve(anabranch::identify::ComponentId(from)).0 == id;
        moment.words.iter().filter(|(from, _)| belongs(*from)).map(|(_, words)| words).sum()
    };
    let total = |moment: &Moment| moment.words.iter().map(|(_, words)| words).sum::<f64>();
    let line = |id: u64| {
        let points = moments.windows(2).map(|pair| {
            let new = total(&pair[1]) - total(&pair[0]);
            let of_topic = words_of(&pair[1], id) - words_of(&pair[0], id);
            let share = if new > 0.0 { 100.0 * of_topic / new } else { f64::NAN };
            (pair[1].documents as f64, share)
        });
        Layer::Line {
            points: points.collect(),
            path: Join::Straight,
            colour: component_colour(id),
            stroke: Stroke::Solid,
        }
    };
    let legend = largest.iter().map(|topic| LegendEntry {
        mark: LegendMark::Line,
        colour: component_colour(topic.id().0),
        text: top_words(topic, 3)
            .iter()
            .map(|word| model.vocabulary.words()[*word as usize].clone())
            .collect::<Vec<_>>()
            .join(" "),
    });
    Some(Figure {
        name: "prevalence".to_owned(),
        title: "How much of the new documents each topic had".to_owned(),
        subtitle: "Share of the words that came since the point before.".to_owned(),
        description: "Lines of the share of words over documents, one for each of the largest topics."
            .to_owned(),
        width: WIDTH,
        legend: legend.collect(),
        panels: vec![Panel {
            height: 260.0,
            x: Axis::linear("documents").with_ticks(Ticks::Whole),
            y: Axis::linear("share of the new words in %"),
            layers: largest.iter().map(|topic| line(topic.id().0)).collect(),
        }],
        notes: Vec::new(),
    })
}

fn table(model: &TopicModel) -> String {
    let posterior = model.fold.posterior();
    let mass = posterior.mass().max(f64::MIN_POSITIVE);
    let rows: String = largest_first(posterior)
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
        "<section>\n<h2>All topics</h2>\n<table>\n<thead><tr><th>id</th><th>share</th><th>documents</th><th>NPMI</th>\
         <th>top words</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</section>\n"
    )
}
