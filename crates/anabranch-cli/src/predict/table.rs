//! The columns of the answers: which there are, and what stands in them. A further one is a further line of `fields` and of `block`.

use anabranch::clusters::{Clusters, RowClusters};
use anabranch::posterior::{Ask, Predictor, Tail};
use anabranch_io::model::Model;
use anabranch_io::table::{Block, Field, Kind, Values, short};
use anabranch_io::{Format, KeptColumn, Rows};

use crate::args::{PredictArgs, Top};
use crate::failure::Failure;
use crate::picture::counted;

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

/// What is known of the rows of a block, column by column: nothing of bad ones, and of all only what is asked.
#[derive(Debug, Default)]
struct Known {
    components: Vec<Option<u64>>,
    clusters: Vec<Option<u64>>,
    ln_densities: Vec<Option<f64>>,
    /// Shares of ordinary rows that are as unlikely or more.
    tails: Vec<Option<f64>>,
    /// The most probable components with their probabilities, place by place.
    top: Vec<Ranked>,
    /// The probabilities of each component.
    all: Vec<Vec<Option<f64>>>,
    /// The same as JSON, row by row.
    json: Vec<String>,
}

/// The first, second … most probable component of each row.
#[derive(Clone, Debug)]
struct Ranked {
    ids: Vec<Option<u64>>,
    probabilities: Vec<Option<f64>>,
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
                .with_hint(format!(
                    "it learns that from rows after the first minibatch, and all {} were in that one: fit it again with \
                     --bootstrap {}, or use --score",
                    counted(model.provenance.observations, "row"),
                    (model.provenance.observations / 2).max(1)
                )));
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
            Some(asked @ Top::Count(_)) => {
                for place in 1..=asked.of(self.ids.len()) {
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

    /// Columns for the answers of so many rows.
    fn unknown(&self, rows: usize) -> Known {
        let mut known = Known { components: vec![None; rows], ..Known::default() };
        if self.clusters.is_some() {
            known.clusters = vec![None; rows];
        }
        if self.score {
            known.ln_densities = vec![None; rows];
        }
        if self.asks_tail() {
            known.tails = vec![None; rows];
        }
        match self.proba {
            None => {}
            Some(_) if self.json => known.json = vec![String::new(); rows],
            Some(Top::All) => known.all = vec![vec![None; rows]; self.ids.len()],
            Some(asked @ Top::Count(_)) => {
                let ranked = Ranked { ids: vec![None; rows], probabilities: vec![None; rows] };
                known.top = vec![ranked; asked.of(self.ids.len())];
            }
        }
        known
    }

    /// The answers for some rows, the first of which has this number.
    pub fn block(&self, predictor: &Predictor, first: u64, rows: Rows) -> Block {
        let n = rows.len();
        let mut known = self.unknown(n);
        let places: Vec<usize> = good_places(&rows).collect();
        let (mut top, mut all) = (Vec::new(), vec![0.0; self.ids.len()]);
        predictor.answer(rows.batch.values(), self.ask(), |ix, answer| {
            let row = places[ix];
            let component = answer.label();
            known.components[row] = component.map(|id| id.0);
            if let Some(clusters) = &self.clusters {
                let cluster = component.and_then(|id| clusters.of(id, rows.batch.row(ix)));
                known.clusters[row] = cluster.map(|id| id.0);
            }
            if self.score || self.asks_tail() {
                let ln_density = answer.ln_density();
                known.ln_densities.get_mut(row).into_iter().for_each(|out| *out = Some(ln_density));
                let tail = |out: &mut Option<f64>| *out = Some(self.usual.share_below(ln_density));
                known.tails.get_mut(row).into_iter().for_each(tail);
            }
            match self.proba {
                None => {}
                Some(Top::All) if !self.json => {
                    answer.probabilities(&mut all);
                    known.all.iter_mut().zip(&all).for_each(|(column, p)| column[row] = Some(*p));
                }
                Some(asked) => {
                    answer.top(asked.of(self.ids.len()), &mut top);
                    if self.json {
                        known.json[row] = self.as_json(&top);
                    }
                    for (ranked, (place, probability)) in known.top.iter_mut().zip(&top) {
                        ranked.ids[row] = Some(self.ids[*place]);
                        ranked.probabilities[row] = Some(*probability);
                    }
                }
            }
        });
        let mut columns = Vec::new();
        if self.numbered {
            columns.push(Values::Integers((0..n as u64).map(|ix| Some(first + ix)).collect()));
        }
        columns.extend(rows.kept.into_iter().map(Values::Cells));
        columns.push(Values::Integers(known.components));
        if self.clusters.is_some() {
            columns.push(Values::Integers(known.clusters));
        }
        if self.score {
            columns.push(Values::Numbers(known.ln_densities));
        }
        let flags = self.flag_below.map(|share| {
            Values::Flags(known.tails.iter().map(|tail| tail.map(|tail| tail < share)).collect())
        });
        if self.tail {
            columns.push(Values::Numbers(known.tails));
        }
        columns.extend(flags);
        if self.json && self.proba.is_some() {
            let mut cells = anabranch_io::Cells::default();
            known.json.iter().for_each(|text| cells.push(text));
            columns.push(Values::Cells(cells));
        }
        columns.extend(known.all.into_iter().map(Values::Numbers));
        for ranked in known.top {
            columns.extend([Values::Integers(ranked.ids), Values::Numbers(ranked.probabilities)]);
        }
        Block { rows: n, columns }
    }

    fn as_json(&self, top: &[(usize, f64)]) -> String {
        let pairs = top.iter().map(|(place, p)| format!("\"{}\":{}", self.ids[*place], short(*p)));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    }
}

/// The places of the good rows among all.
pub fn good_places(rows: &Rows) -> impl Iterator<Item = usize> {
    let mut bad = rows.bad.iter().peekable();
    (0..rows.len()).filter(move |place| bad.next_if_eq(&place).is_none())
}
