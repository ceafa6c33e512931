//! `anabranch predict` with a model of topics: the main topic of each document, or the shares of all topics.

use std::io::{BufWriter, Write};

use anabranch::posterior::TopicPredictor;
use anabranch_io::model::TopicModel;

use super::fit::bags;
use crate::args::PredictArgs;
use crate::failure::Failure;
use crate::picture::counted;

/// Documents that are read at a time.
const AT_ONCE: usize = 1000;

/// Runs the command. One line is printed for each document, in order.
pub fn command(args: &PredictArgs) -> Result<(), Failure> {
    args.refuse_what_goes_with_mixtures()?;
    if args.worst.is_some() {
        return Err(Failure::input("--worst does not go with a model of topics"));
    }
    let model = TopicModel::load(&args.model)?;
    let predictor = TopicPredictor::new(model.fold.posterior());
    let mut bags = bags(&args.inputs, &args.read, Some(model.vocabulary))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    if !args.json {
        let header = match (args.proba.is_some(), args.score) {
            (true, _) => predictor.ids().iter().map(|id| format!("topic_{id}")).collect::<Vec<_>>().join(","),
            (_, true) => "log_probability_per_word".to_owned(),
            _ => "topic".to_owned(),
        };
        writeln!(out, "{header}")?;
    }
    while let Some(documents) = bags.next_documents(AT_ONCE)? {
        for ix in 0..documents.len() {
            let entries: Vec<(u32, f64)> = documents.entries(ix).collect();
            let proportions = predictor.proportions(&entries);
            if args.proba.is_some() {
                let cells: Vec<String> = proportions.topics.iter().map(f64::to_string).collect();
                match args.json {
                    true => {
                        let pairs = predictor.ids().iter().zip(&cells).map(|(id, p)| format!("\"{id}\":{p}"));
                        let pairs = pairs.collect::<Vec<_>>().join(",");
                        writeln!(out, "{{\"topics\":{{{pairs}}},\"new\":{}}}", proportions.new)?;
                    }
                    false => writeln!(out, "{}", cells.join(","))?,
                }
            } else if args.score {
                let words: f64 = entries.iter().map(|(_, count)| count).sum();
                let sum: f64 = entries
                    .iter()
                    .map(|(word, count)| count * predictor.probability(&proportions, *word).ln())
                    .sum();
                let score = (words > 0.0).then(|| sum / words);
                match (args.json, score) {
                    (true, score) => {
                        writeln!(out, "{}", serde_json::json!({ "log_probability_per_word": score }))?;
                    }
                    (false, Some(score)) => writeln!(out, "{score}")?,
                    (false, None) => writeln!(out)?,
                }
            } else {
                let shares = proportions.topics.iter().enumerate();
                let best = shares.max_by(|a, b| a.1.total_cmp(b.1)).map(|(ix, _)| predictor.ids()[ix].0);
                match (args.json, best) {
                    (true, best) => writeln!(out, "{}", serde_json::json!({ "topic": best }))?,
                    (false, Some(best)) => writeln!(out, "{best}")?,
                    (false, None) => writeln!(out)?,
                }
            }
        }
    }
    out.flush()?;
    if bags.unknown_words() > 0.0 {
        eprintln!("{} not in the vocabulary", counted(bags.unknown_words() as u64, "word"));
    }
    if bags.skipped() > 0 {
        eprintln!("{} skipped", counted(bags.skipped(), "bad line"));
    }
    Ok(())
}
