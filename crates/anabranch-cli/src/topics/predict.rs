//! `anabranch predict` with a model of topics: the main topic of each document, or the shares of all topics.

use std::io::{BufWriter, Write};

use anabranch::posterior::TopicPredictor;
use anabranch_io::model::TopicModel;
use anabranch_io::words::UNKNOWN;
use serde_json::Value;

use super::text::{Lexicon, bags};
use crate::args::PredictArgs;
use crate::failure::Failure;
use crate::picture::counted;
use crate::predict::unless_stopped;
use crate::stop;

/// Documents that are read at a time.
const AT_ONCE: usize = 1000;

/// What the score is called.
const SCORE: &str = "log_probability_per_word";

/// Runs the command. One line is printed for each document, in order.
pub fn command(args: &PredictArgs) -> Result<(), Failure> {
    args.refuse_what_goes_with_mixtures()?;
    if args.worst.is_some() {
        return Err(Failure::input("--worst does not go with a model of topics"));
    }
    let model = TopicModel::load(&args.model)?;
    let predictor = TopicPredictor::new(model.fold.posterior());
    let unknown = model.vocabulary.number(UNKNOWN);
    let mut bags = bags(&args.inputs, &args.read, Lexicon::of_model(&model))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (proba, score) = (args.proba.is_some(), args.score);
    if !args.json {
        let shares = predictor.ids().iter().filter(|_| proba).map(|id| format!("topic_{id}"));
        let mut header: Vec<String> = std::iter::once("row".to_owned()).chain(shares).collect();
        header.extend(score.then(|| SCORE.to_owned()));
        header.extend((!proba && !score).then(|| "topic".to_owned()));
        writeln!(out, "{}", header.join(","))?;
    }
    let (mut without_words, mut row) = (0, 0_u64);
    while let Some(documents) = bags.next_documents(AT_ONCE)? {
        if stop::asked() {
            break;
        }
        for ix in 0..documents.len() {
            row += 1;
            let entries: Vec<(u32, f64)> = documents.entries(ix).collect();
            let words: f64 = entries.iter().map(|(_, count)| count).sum();
            let known = entries.iter().any(|(word, _)| Some(*word) != unknown);
            without_words += u64::from(!known);
            let proportions = predictor.proportions(&entries);
            let per_word = || {
                let ln = |(word, count): &(u32, f64)| count * predictor.probability(&proportions, *word).ln();
                known.then(|| entries.iter().map(ln).sum::<f64>() / words)
            };
            let main = || {
                let shares = proportions.topics.iter().enumerate().filter(|_| known);
                shares.max_by(|a, b| a.1.total_cmp(b.1)).map(|(ix, _)| predictor.ids()[ix].0)
            };
            if args.json {
                let mut line = serde_json::Map::from_iter([("row".to_owned(), row.into())]);
                if proba {
                    let shares = predictor.ids().iter().zip(&proportions.topics);
                    let shares = shares.map(|(id, share)| (id.to_string(), (*share).into()));
                    line.insert("topics".to_owned(), Value::Object(shares.collect()));
                    line.insert("new".to_owned(), proportions.new.into());
                }
                if score {
                    line.insert(SCORE.to_owned(), per_word().into());
                }
                if !proba && !score {
                    line.insert("topic".to_owned(), main().into());
                }
                writeln!(out, "{}", Value::Object(line))?;
                continue;
            }
            let shares = proportions.topics.iter().filter(|_| proba).map(f64::to_string);
            let mut cells: Vec<String> = std::iter::once(row.to_string()).chain(shares).collect();
            cells.extend(score.then(|| per_word().map_or_else(String::new, |score| score.to_string())));
            cells.extend((!proba && !score).then(|| main().map_or_else(String::new, |id| id.to_string())));
            writeln!(out, "{}", cells.join(","))?;
        }
    }
    out.flush()?;
    unless_stopped(None, row)?;
    if without_words > 0 {
        eprintln!("{} without a known word: nothing is said of them", counted(without_words, "document"));
    }
    if bags.unknown_words() > 0.0 {
        eprintln!("{} not in the vocabulary", counted(bags.unknown_words() as u64, "word"));
    }
    if bags.skipped() > 0 {
        eprintln!("{} skipped", counted(bags.skipped(), "bad line"));
    }
    Ok(())
}
