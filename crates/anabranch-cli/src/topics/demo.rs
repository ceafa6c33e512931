//! `anabranch demo --model hdp`: documents drawn from known topics, fitted while they are drawn.
//!
//! Each topic has words of its own and shares some with its neighbours; a document has a few topics with weights from a
//! Dirichlet distribution. The topics are known, so the held-out likelihood can be held against that of the truth.

use std::io::Write;

use anabranch::documents::Documents;
use anabranch_io::model::TextProvenance;
use anabranch_io::words::{Vocabulary, Words};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::fit::{Setup, conclude, run};
use super::stream::Origin;
use crate::args::{DemoArgs, TopicArgs};
use crate::failure::Failure;

/// Words of each topic, and how many of them the next topic has too.
const WORDS: usize = 30;
const SHARED: usize = 5;
/// Topics that are generated at most: each needs words of its own.
const MOST_TOPICS: u32 = 1000;
/// Words of a document.
const LENGTH: usize = 60;
/// Topics of a document at most.
const TOPICS_OF_A_DOCUMENT: usize = 3;
/// Held-out documents.
const TEST: usize = 500;

/// Runs the command.
pub fn command(args: &DemoArgs) -> Result<(), Failure> {
    let mut output = args.output.clone();
    output.report.get_or_insert_with(|| "anabranch-report".into());
    let topics = args.clusters.min(MOST_TOPICS) as usize;
    let vocabulary = Vocabulary::new(names(topics)).map_err(Failure::input)?;
    let drawn = Drawn::new(topics, args.rows as usize, args.engine.seed);
    let test = Drawn::new(topics, TEST, args.engine.seed ^ 0x7E57).draw(TEST);
    if !output.quiet {
        eprintln!("generating and fitting {} documents of {topics} topics", args.rows);
    }
    let words = Words::fixed(&vocabulary);
    let setup = Setup {
        origin: drawn,
        reopen: &|_, _| Ok(Drawn::new(topics, args.rows as usize, args.engine.seed)),
        text: TextProvenance::default(),
        words: &|_| words.clone(),
        read: &|_| (0, 0.0),
        passes: 1,
        checkpoints: None,
        resumed: None,
        begun: None,
    };
    let fitted = run(setup, &TopicArgs::default(), &args.engine, &output)?;
    let found = fitted.model.fold.posterior().components().len();
    conclude(fitted, Some(&test), "Topics of generated documents", &args.engine, &output)?;
    if !output.json {
        writeln!(std::io::stdout().lock(), "{topics} topics were generated, {found} found")?;
    }
    Ok(())
}

/// Words that tell which topic they come from.
fn names(topics: usize) -> Vec<String> {
    (0..topics).flat_map(|topic| (0..WORDS).map(move |word| format!("t{topic}w{word}"))).collect()
}

/// Documents that are drawn when they are asked for.
struct Drawn {
    topics: usize,
    left: usize,
    rng: Xoshiro256PlusPlus,
}

impl Drawn {
    fn new(topics: usize, documents: usize, seed: u64) -> Self {
        Self { topics, left: documents, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    fn draw(&mut self, n: usize) -> Documents {
        let mut documents = Documents::none(self.topics * WORDS);
        for _ in 0..n {
            let document = self.document();
            documents.push(&document).expect("words are drawn from the vocabulary");
        }
        documents
    }

    fn document(&mut self) -> Vec<(u32, f64)> {
        let rng = &mut self.rng;
        let mixed: Vec<(usize, f64)> =
            (0..TOPICS_OF_A_DOCUMENT).map(|_| (rng.random_range(0..self.topics), Exp1.sample(rng))).collect();
        let total: f64 = mixed.iter().map(|(_, weight)| weight).sum();
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..LENGTH {
            let mut left = rng.random::<f64>() * total;
            let topic = mixed
                .iter()
                .find(|(_, weight)| {
                    left -= weight;
                    left < 0.0
                })
                .map_or(mixed[0].0, |(topic, _)| *topic);
            // Words of a topic fall off like 1/rank, and the last ones are the first of the next topic.
            let rank = ((WORDS + SHARED) as f64).powf(rng.random::<f64>()) as usize - 1;
            let word = (topic * WORDS + rank.min(WORDS + SHARED - 1)) % (self.topics * WORDS);
            *counts.entry(word as u32).or_insert(0.0) += 1.0;
        }
        counts.into_iter().collect()
    }
}

impl Origin for Drawn {
    fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, Failure> {
        let n = n.min(self.left);
        self.left -= n;
        Ok((n > 0).then(|| self.draw(n)))
    }
}
