//! The report of topics: subjects first, each with its words, how prevalent it was over the documents, documents that are
//! typical of it, and its topics; then pictures of the largest.

use std::fmt::Write;
use std::path::Path;

use anabranch::posterior::Component;
use anabranch::subjects::Subject;
use anabranch_io::words::UNKNOWN;

use super::outcome::Outcome;
use super::stream::Kept;
use super::subjects::Shown;
use super::typical::{Sampled, Typical};
use super::{TOP_WORDS, top_words};
use crate::failure::Failure;
use crate::picture::{
    Axis, Bar, Colour, Direction, Figure, Layer, LegendEntry, LegendMark, Panel, Path as Join, Stroke, Ticks,
    component_colour, counted, escape, grouped, significant,
};
use crate::report::{WIDTH, facts, write_page};

/// Characters of a document that are shown.
pub(super) const BEGINNING: usize = 180;
/// Subjects that have a card of their own, and topics of each; more would be a file, not a page.
const MOST_SUBJECTS: usize = 100;
const MOST_TOPICS: usize = 100;
/// Words and documents that are shown of a subject, and words of a document that is no text.
const WORDS: usize = 15;
const DOCUMENTS: usize = 3;
const WORDS_OF_A_DOCUMENT: usize = 12;
/// Subjects whose words are drawn.
const DRAWN: usize = 8;
/// Words of each.
const BARS: usize = 6;
/// Subjects whose prevalence is drawn.
const LINES: usize = 7;
/// Size of the picture of prevalence in a card.
const SPARK: (f64, f64) = (260.0, 40.0);

/// What the page is made of.
struct Page<'a> {
    shown: &'a Shown<'a>,
    sampled: Sampled,
}

/// Writes `report.html` and its pictures.
pub(super) fn write(
    folder: &Path,
    title: &str,
    shown: &Shown<'_>,
    kept: Vec<Kept>,
    outcome: &Outcome,
) -> Result<(), Failure> {
    let sampled = Sampled::of(shown.model.fold.posterior(), kept, outcome.threads);
    let page = Page { shown, sampled };
    let figures: Vec<Figure> = page.prevalence().into_iter().chain([page.words()]).collect();
    let subtitle = match shown.are_groups() {
        true => "Subjects are topics that have words in common, the largest first.",
        false => "The topics of the documents, the largest first.",
    };
    let body = facts(&outcome.facts(shown.are_groups())) + &page.cards();
    write_page(folder, title, subtitle, &body, &figures)?;
    Ok(())
}

/// The colour of a subject, by its place.
fn colour(place: usize) -> Colour {
    component_colour(place as u64)
}

impl Page<'_> {
    fn what(&self) -> &'static str {
        if self.shown.are_groups() { "subject" } else { "topic" }
    }

    /// What a subject is called.
    fn called(&self, place: usize, subject: &Subject) -> String {
        match (self.shown.are_groups(), subject.topics.first()) {
            (false, Some(topic)) => format!("topic {}", self.component(*topic).id()),
            _ => format!("subject {}", place + 1),
        }
    }

    fn component(&self, place: usize) -> &Component {
        &self.shown.model.fold.posterior().components()[place]
    }

    /// A card for each subject.
    fn cards(&self) -> String {
        let list = &self.shown.found.list;
        let cards: String = list.iter().take(MOST_SUBJECTS).enumerate().map(|of| self.card(of)).collect();
        let mut note = match self.sampled.len() {
            0 => String::new(),
            n => {
                format!("Lines and documents are those of {}, drawn from all.", counted(n as u64, "document"))
            }
        };
        if list.len() > MOST_SUBJECTS {
            let _ =
                write!(note, " The {MOST_SUBJECTS} largest of {} {}s are shown.", list.len(), self.what());
        }
        format!(
            "<section>\n<h2>What the documents are about</h2>\n<p class=\"note\">{note}</p>\n\
             <div class=\"cards\">\n{cards}</div>\n</section>\n"
        )
    }

    fn card(&self, (place, subject): (usize, &Subject)) -> String {
        let colour = colour(place);
        let of = match self.shown.are_groups() {
            true => counted(subject.topics.len() as u64, "topic"),
            false => format!("topic {}", self.component(subject.topics[0]).id()),
        };
        let words = self.shown.words(&subject.counts, WORDS).join(" ");
        let mut card = format!(
            "<article class=\"card\" style=\"--of: {colour}\">\n<h3>{} <small>{:.1} % of all words · {of}</small></h3>\n\
             <p>{}</p>\n{}{}",
            escape(&self.shown.name(subject)),
            100.0 * self.shown.weight(subject),
            escape(&words),
            self.over(subject, colour),
            self.documents(&subject.topics)
        );
        if self.shown.are_groups() {
            let _ = write!(card, "<details>\n<summary>{of}</summary>\n{}</details>\n", self.table(subject));
        }
        card + "</article>\n"
    }

    /// How prevalent a subject was over the stream, as a line.
    fn over(&self, subject: &Subject, colour: Colour) -> String {
        let points = self.sampled.prevalence(&subject.topics);
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
        let least = points.iter().map(|(_, share)| *share).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(|(_, share)| *share).fold(f64::MIN_POSITIVE, f64::max);
        let (width, height) = SPARK;
        let x = |number: f64| (number - first.0) / (last.0 - first.0).max(1.0) * (width - 4.0) + 2.0;
        let y = |share: f64| height - 2.0 - share / most * (height - 6.0);
        let line: Vec<String> =
            points.iter().map(|(number, share)| format!("{:.1},{:.1}", x(*number), y(*share))).collect();
        let line = line.join(" ");
        let percent = |share: f64| significant(100.0 * share, 2);
        let said = format!("{}–{} % of the words over the stream", percent(least), percent(most));
        let base = height - 2.0;
        format!(
            "<div class=\"over\"><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{said}\" \
             preserveAspectRatio=\"none\"><polygon points=\"2,{base} {line} {:.1},{base}\" fill=\"{colour}\" \
             fill-opacity=\"0.18\"/><polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"2\"/></svg><span>{said}</span></div>\n",
            width - 2.0
        )
    }

    /// A few documents that are typical of these topics.
    fn documents(&self, topics: &[usize]) -> String {
        let item = |typical: &Typical<'_>| {
            format!(
                "<li><small>document {}, {:.0} % of it:</small> {}</li>\n",
                grouped(typical.document.number as f64),
                100.0 * typical.share,
                escape(&self.beginning(typical.document))
            )
        };
        let items: String = self.sampled.typical(topics, DOCUMENTS).iter().map(item).collect();
        if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
    }

    /// How a document begins, or its most frequent words.
    fn beginning(&self, document: &Kept) -> String {
        if !document.beginning.is_empty() {
            return document.beginning.clone();
        }
        let names = self.shown.model.vocabulary.words();
        let mut words: Vec<(&str, f64)> =
            document.entries.iter().map(|(word, count)| (names[*word as usize].as_str(), *count)).collect();
        words.retain(|(word, _)| *word != UNKNOWN);
        words.sort_by(|a, b| b.1.total_cmp(&a.1));
        let words: Vec<&str> = words.into_iter().take(WORDS_OF_A_DOCUMENT).map(|(word, _)| word).collect();
        words.join(" ")
    }

    /// The topics of a subject, the largest first.
    fn table(&self, subject: &Subject) -> String {
        let model = self.shown.model;
        let mass = model.fold.posterior().mass().max(f64::MIN_POSITIVE);
        let row = |place: &usize| {
            let topic = self.component(*place);
            let words: Vec<&str> = top_words(topic, TOP_WORDS)
                .into_iter()
                .map(|word| model.vocabulary.words()[word as usize].as_str())
                .collect();
            let npmi = model.provenance.coherence.get(*place).copied().flatten();
            let typical = self.sampled.typical(&[*place], 1);
            let typical = typical.first().map_or_else(String::new, |typical| {
                let (number, begins) = (typical.document.number, self.beginning(typical.document));
                format!("<small>{}:</small> {}", grouped(number as f64), escape(&begins))
            });
            format!(
                "<tr><td>{}</td><td>{:.2} %</td><td>{}</td><td>{}</td><td class=\"text\">{}</td>\
                 <td class=\"text\">{typical}</td></tr>\n",
                topic.id(),
                100.0 * topic.evidence().stats[0] / mass,
                grouped(topic.expected_count().round()),
                npmi.map_or_else(String::new, |npmi| format!("{npmi:.2}")),
                escape(&words.join(" "))
            )
        };
        let rows: String = subject.topics.iter().take(MOST_TOPICS).map(row).collect();
        let more = match subject.topics.len().saturating_sub(MOST_TOPICS) {
            0 => String::new(),
            more => format!("<p class=\"note\">and {}</p>\n", counted(more as u64, "smaller topic")),
        };
        format!(
            "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<thead><tr><th>topic</th><th>share</th><th>documents</th><th>NPMI</th>\
             <th class=\"text\">top words</th><th class=\"text\">a typical document</th></tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table>\n</div>\n{more}"
        )
    }

    /// A panel for each of the largest subjects, with bars for its words. Topics that are no groups are their own subjects.
    fn words(&self) -> Figure {
        let (shown, what) = (self.shown, self.what());
        let panel = |(place, subject): (usize, &Subject)| {
            let top = shown.words(&subject.counts, BARS);
            let row = |ix: usize| -(ix as f64);
            let share = |word: &str| {
                let number = shown.model.vocabulary.number(word);
                let count = number.map_or(0.0, |word| subject.counts[word as usize]);
                100.0 * count / subject.mass.max(f64::MIN_POSITIVE)
            };
            let bars = top.iter().enumerate().map(|(ix, word)| Bar {
                across: (row(ix) - 0.36, row(ix) + 0.36),
                value: share(word),
                colour: colour(place),
                label: String::new(),
            });
            let names = top.iter().enumerate().map(|(ix, word)| (row(ix), (*word).to_owned()));
            Panel {
                height: 18.0 * top.len().max(1) as f64,
                x: Axis::linear(format!(
                    "{}, {:.1} % of all words: share of its words in %",
                    self.called(place, subject),
                    100.0 * shown.weight(subject)
                )),
                y: Axis::default()
                    .with_ticks(Ticks::Named(names.collect()))
                    .with_range(row(top.len()) + 0.4, 0.6),
                layers: vec![Layer::Bars { bars: bars.collect(), direction: Direction::Horizontal }],
            }
        };
        Figure {
            name: "words".to_owned(),
            title: format!("How frequent the words of the largest {what}s are"),
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

    /// How the share of the largest subjects changed while documents came in; `None` where they are too few to tell.
    fn prevalence(&self) -> Option<Figure> {
        let largest = &self.shown.found.list[..self.shown.found.list.len().min(LINES)];
        let lines: Vec<Vec<(f64, f64)>> =
            largest.iter().map(|subject| self.sampled.prevalence(&subject.topics)).collect();
        if lines.first().is_none_or(Vec::is_empty) {
            return None;
        }
        let line = |(place, points): (usize, Vec<(f64, f64)>)| Layer::Line {
            points: points.into_iter().map(|(number, share)| (number, 100.0 * share)).collect(),
            path: Join::Straight,
            colour: colour(place),
            stroke: Stroke::Solid,
        };
        let legend = largest.iter().enumerate().map(|(place, subject)| LegendEntry {
            mark: LegendMark::Line,
            colour: colour(place),
            text: self.shown.name(subject),
        });
        Some(Figure {
            name: "prevalence".to_owned(),
            title: format!("How prevalent the largest {}s were", self.what()),
            subtitle: "Share of the words of documents that came one after another.".to_owned(),
            description: format!(
                "Lines of the share of words over documents, one for each of the largest {}s.",
                self.what()
            ),
            width: WIDTH,
            legend: legend.collect(),
            panels: vec![Panel {
                height: 260.0,
                x: Axis::linear("documents").with_ticks(Ticks::Whole),
                y: Axis::linear("share of the words in %"),
                layers: lines.into_iter().enumerate().map(line).collect(),
            }],
            notes: Vec::new(),
        })
    }
}
