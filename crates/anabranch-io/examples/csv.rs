//! A file of rows, in any format that the command reads, compressed or not: learned piece by piece, and saved nowhere.
//!
//!     cargo run --release -p anabranch-io --example csv -- rows.csv

use anabranch::prelude::*;
use anabranch_io::{Input, ReadOptions, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let mut rows = open(&[Input::Path(path.into())], &ReadOptions::default())?;
    let names: Vec<String> = rows.schema().names().map(str::to_owned).collect();
    let mut learner = Mixture::gaussian().seed(1).learner()?;
    while let Some(piece) = rows.next_batch(1000)? {
        learner.learn(&piece)?;
    }
    let model = learner.model().ok_or("the file has no rows")?;
    println!("{} components of {}", model.n_components(), names.join(", "));
    Ok(())
}
