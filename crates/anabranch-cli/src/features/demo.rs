//! `anabranch demo --model bp`: pictures of 6 × 6 cells made of four blocks, each there or not, under noise.
//!
//! The classic test of latent features (Griffiths and Ghahramani). The blocks are known, so that anybody can see whether
//! they were found.

use anabranch::batch::Batch;
use anabranch_io::{Column, OnBadRow, ReadError, Schema, Source};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::fit::Run;
use crate::args::{DemoArgs, FeatureArgs};
use crate::failure::Failure;
use crate::reading::{DomainFilter, Minibatches};

/// Cells on a side.
const SIDE: usize = 6;
/// Standard deviation of the noise.
const NOISE: f64 = 0.5;
/// A cross, a ring, a step and a peg, one in each corner.
const BLOCKS: [&str; SIDE] = [".#.###", "####.#", ".#.###", "#..###", "##..#.", "###.#."];

/// Runs the command.
pub fn demo(args: &DemoArgs) -> Result<(), Failure> {
    let mut output = args.output.clone();
    output.report.get_or_insert_with(|| "anabranch-report".into());
    if !output.quiet {
        eprintln!("generating and fitting {} pictures of {SIDE} × {SIDE} cells from 4 blocks", args.rows);
    }
    let features = FeatureArgs { image: Some(format!("{SIDE}x{SIDE}")), ..FeatureArgs::default() };
    let source = Pictures::new(u64::from(args.rows), args.engine.seed);
    let filter = DomainFilter::new(&[], None, Vec::new(), OnBadRow::Fail);
    let stream = Minibatches::new(Box::new(source), filter, args.engine.batch_size as usize, None);
    let title = "Pictures made of four blocks".to_owned();
    let run = Run {
        title,
        engine: &args.engine,
        features: &features,
        output: &output,
        test: None,
        checkpoints: None,
        further: None,
        begun: None,
    };
    run.finish(stream, None)
}

/// Pictures, drawn as they are asked for.
pub(crate) struct Pictures {
    schema: Schema,
    left: u64,
    rows: u64,
    rng: Xoshiro256PlusPlus,
}

impl Pictures {
    pub(crate) fn new(rows: u64, seed: u64) -> Self {
        let columns = (1..=SIDE * SIDE).map(|cell| Column::number(format!("cell{cell}"))).collect();
        let schema = Schema { columns, named: true };
        Self { schema, left: rows, rows, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    fn draw(&mut self, out: &mut Vec<f64>) {
        let has: [bool; 4] = std::array::from_fn(|_| self.rng.random());
        for (y, line) in BLOCKS.iter().enumerate() {
            for (x, cell) in line.bytes().enumerate() {
                let block = 2 * (y / (SIDE / 2)) + x / (SIDE / 2);
                let ink = f64::from(u8::from(has[block] && cell == b'#'));
                let epsilon: f64 = StandardNormal.sample(&mut self.rng);
                out.push(ink + NOISE * epsilon);
            }
        }
    }
}

impl Source for Pictures {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn next_batch(&mut self, rows: usize) -> Result<Option<Batch>, ReadError> {
        let n = self.left.min(rows as u64);
        if n == 0 {
            return Ok(None);
        }
        self.left -= n;
        let mut values = Vec::with_capacity(n as usize * SIDE * SIDE);
        (0..n).for_each(|_| self.draw(&mut values));
        Ok(Some(Batch::new(SIDE * SIDE, values).expect("draws are finite")))
    }

    fn rows_hint(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn skip_rows(&mut self, n: u64) -> Result<u64, ReadError> {
        let passed = n.min(self.left);
        (0..passed).for_each(|_| self.draw(&mut Vec::new()));
        self.left -= passed;
        Ok(passed)
    }

    fn skipped_rows(&self) -> u64 {
        0
    }
}
