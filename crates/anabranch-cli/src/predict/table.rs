//! The columns of the answers: which there are, and what stands in them. A further one is a further line of `fields` and of `block`.

use anabranch::clusters::{Clusters, RowClusters};
use anabranch::posterior::{Answer, Ask, Predictor, Tail};
use anabranch_io::model::Model;
use anabranch_io::table::{Block, Field, Kind, Values, short};
use anabranch_io::{Format, KeptColumn, Rows};

use crate::args::{PredictArgs, Top};
use crate::failure::Failure;

/// What is asked of every row.
pub struct Question {
    score: bool,
    tail: bool,
    flag_below: Option<f64>,
    proba: Option<Top>,
    /// How probable rows usually are.
    usual: Tail,
    /// Ids of the components.
    ids: Vec<u64>,
    json: bool,
    numbered: bool,
    /// Where components are told with their clusters.
    clusters: Option<RowClusters>,
}

/// A share with three digits, such as 0.125%.
fn percent(share: f64) -> String {
    let digits = (2 - (100.0 * share).log10().floor() as i32).clamp(0, 15) as usize;
    let text = format!("{:.digits$}", 100.0 * share);
    format!("{}%", if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

/// What is known of a row.
#[derive(Clone, Debug, Default)]
struct Known {
    component: Option<u64>,
    cluster: Option<u64>,
    ln_density: f64,
    /// Share of ordinary rows that are as unlikely or more.
    tail: f64,
    /// Components with their probabilities, the most probable first, or of all in the order of their ids.
    probabilities: Vec<(u64, f64)>,
}

impl Question {
    /// What the flags ask for.
    pub fn new(
        args: &PredictArgs,
        predictor: &Predictor,
        model: &Model,
        format: Format,
    ) -> Result<Self, Failure> {
        let posterior = model.fold.posterior();
        let usual = posterior.tail();
        let flag_below = args.flag_below.map(|share| share.0);
        if (args.tail || flag_below.is_some()) && usual.is_empty() {
            let flag = if args.tail { "--tail" } else { "--flag-below" };
            return Err(Failure::input(format!("{flag}: the model does not know how unlikely ordinary rows are"))
                .with_hint("it learns that from rows after the first minibatch: fit it with more rows, or with a smaller --bootstrap; or use --score"));
        }
        let smallest = usual.smallest_share();
        if let Some(share) = flag_below.filter(|share| *share <= smallest) {
            eprintln!(
                "warning: --flag-below {}: no row can be marked, since the {:.0} ordinary rows that the model knows of tell no share below {}",
                percent(share),
                usual.mass(),
                percent(smallest)
            );
        }
        let ids = predictor.ids().iter().map(|id| id.0).collect();
        let json = format == Format::Jsonl;
        // An array of numbers has no need of row numbers: its rows are those of the input.
        let numbered = format != Format::Npy || args.worst.is_some();
        let score = args.score || args.worst.is_some();
        Ok(Self {
            score,
            tail: args.tail,
            flag_below,
            proba: args.proba,
            usual: usual.clone(),
            ids,
            json,
            numbered,
            clusters: (format != Format::Npy && args.worst.is_none())
                .then(|| RowClusters::new(posterior, Clusters::of_snapshot(posterior, model.provenance.cut))),
        })
    }

    /// The columns.
    pub fn fields(&self, kept: &[KeptColumn]) -> Vec<Field> {
        let mut fields = Vec::new();
        if self.numbered {
            fields.push(Field::new("row", Kind::Integer));
        }
        fields.extend(kept.iter().map(|column| {
            Field::new(&column.name, if column.is_number { Kind::Number } else { Kind::Text })
        }));
        fields.push(Field::new("component", Kind::Integer));
        if self.clusters.is_some() {
            fields.push(Field::new("cluster", Kind::Integer));
        }
        if self.score {
            fields.push(Field::new("log_density", Kind::Number));
        }
        if self.tail {
            fields.push(Field::new("tail", Kind::Number));
        }
        if self.flag_below.is_some() {
            fields.push(Field::new("unusual", Kind::Flag));
        }
        match self.proba {
            None => {}
            Some(_) if self.json => fields.push(Field::new("probabilities", Kind::Json)),
            Some(Top::All) => {
                fields.extend(self.ids.iter().map(|id| Field::new(format!("p_{id}"), Kind::Number)))
            }
            Some(Top::Count(count)) => {
                for place in 1..=count.min(self.ids.len()) {
                    fields.push(Field::new(format!("component_{place}"), Kind::Integer));
                    fields.push(Field::new(format!("probability_{place}"), Kind::Number));
                }
            }
        }
        fields
    }

    fn asks_tail(&self) -> bool {
        self.tail || self.flag_below.is_some()
    }

    fn ask(&self) -> Ask {
        if self.score || self.proba.is_some() || self.asks_tail() { Ask::Everything } else { Ask::Label }
    }

    fn know(&self, row: &[f64], answer: &Answer<'_>, top: &mut Vec<(usize, f64)>) -> Known {
        let component = answer.label();
        let cluster = component.and_then(|id| self.clusters.as_ref()?.of(id, row)).map(|id| id.0);
        let component = component.map(|id| id.0);
        let ln_density = if self.score || self.asks_tail() { answer.ln_density() } else { 0.0 };
        let tail = if self.asks_tail() { self.usual.share_below(ln_density) } else { 0.0 };
        let named = |(place, probability): &(usize, f64)| (self.ids[*place], *probability);
        let probabilities = match self.proba {
            None => Vec::new(),
            Some(Top::Count(count)) => {
                answer.top(count, top);
                top.iter().map(named).collect()
            }
            Some(Top::All) if self.json => {
                answer.top(self.ids.len(), top);
                top.iter().map(named).collect()
            }
            Some(Top::All) => {
                let mut all = vec![0.0; self.ids.len()];
                answer.probabilities(&mut all);
                self.ids.iter().copied().zip(all).collect()
            }
        };
        Known { component, cluster, ln_density, tail, probabilities }
    }

    /// The answers for some rows, the first of which has this number.
    pub fn block(&self, predictor: &Predictor, first: u64, rows: Rows) -> Block {
        let n = rows.len();
        let mut known: Vec<Option<Known>> = vec![None; n];
        let places: Vec<usize> = good_places(&rows).collect();
        let mut top = Vec::new();
        predictor.answer(rows.batch.values(), self.ask(), |ix, answer| {
            known[places[ix]] = Some(self.know(rows.batch.row(ix), answer, &mut top));
        });
        let integers = |value: &dyn Fn(&Known) -> Option<u64>| {
            Values::Integers(known.iter().map(|known| known.as_ref().and_then(value)).collect())
        };
        let numbers = |value: &dyn Fn(&Known) -> Option<f64>| {
            Values::Numbers(known.iter().map(|known| known.as_ref().and_then(value)).collect())
        };
        let mut columns = Vec::new();
        if self.numbered {
            columns.push(Values::Integers((0..n as u64).map(|ix| Some(first + ix)).collect()));
        }
        columns.extend(rows.kept.into_iter().map(Values::Cells));
        columns.push(integers(&|known| known.component));
        if self.clusters.is_some() {
            columns.push(integers(&|known| known.cluster));
        }
        if self.score {
            columns.push(numbers(&|known| Some(known.ln_density)));
        }
        if self.tail {
            columns.push(numbers(&|known| Some(known.tail)));
        }
        if let Some(share) = self.flag_below {
            let flags = known.iter().map(|known| known.as_ref().map(|known| known.tail < share));
            columns.push(Values::Flags(flags.collect()));
        }
        match self.proba {
            None => {}
            Some(_) if self.json => {
                let mut cells = anabranch_io::Cells::default();
                known.iter().for_each(|known| cells.push(&known.as_ref().map_or_else(String::new, as_json)));
                columns.push(Values::Cells(cells));
            }
            Some(Top::All) => {
                columns
                    .extend((0..self.ids.len()).map(|ix| numbers(&|known| Some(known.probabilities[ix].1))));
            }
            Some(Top::Count(count)) => {
                for place in 0..count.min(self.ids.len()) {
                    columns.push(integers(&|known| known.probabilities.get(place).map(|(id, _)| *id)));
                    columns.push(numbers(&|known| known.probabilities.get(place).map(|(_, p)| *p)));
                }
            }
        }
        Block { rows: n, columns }
    }
}

/// The places of the good rows among all.
pub fn good_places(rows: &Rows) -> impl Iterator<Item = usize> {
    let mut bad = rows.bad.iter().peekable();
    (0..rows.len()).filter(move |place| bad.next_if_eq(&place).is_none())
}

fn as_json(known: &Known) -> String {
    let pairs = known.probabilities.iter().map(|(id, p)| format!("\"{id}\":{}", short(*p)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}
