//! The rows that a model explains worst, with the component that each is taken for and the cells that it came in with.

use std::collections::{BTreeMap, BTreeSet};

use anabranch::diagnose::Worst;
use anabranch::posterior::{Ask, Predictor};
use anabranch_io::table::{Block, Values};
use anabranch_io::{Cells, Rows};

use super::table::good_places;

/// A row that is explained badly.
pub struct Bad {
    row: u64,
    ln_density: f64,
    component: Option<u64>,
    kept: Vec<String>,
}

/// The worst rows of a block, the first of which has this number.
pub fn of_block(predictor: &Predictor, count: usize, first: u64, rows: &Rows) -> Vec<Bad> {
    let places: Vec<usize> = good_places(rows).collect();
    let mut worst = Worst::new(count);
    predictor.answer(rows.batch.values(), Ask::Everything, |ix, answer| {
        worst.offer(ix as u64, answer.ln_density());
    });
    let bad = worst.into_sorted().into_iter().map(|bad| {
        let ix = bad.row as usize;
        Bad {
            row: first + places[ix] as u64,
            ln_density: bad.ln_density,
            component: predictor.label(rows.batch.row(ix)).map(|id| id.0),
            kept: rows.kept.iter().map(|cells| cells.get(places[ix]).to_owned()).collect(),
        }
    });
    bad.collect()
}

/// The worst of all blocks so far.
pub struct WorstRows {
    worst: Worst,
    rows: BTreeMap<u64, Bad>,
    capacity: usize,
    kept: usize,
}

impl WorstRows {
    /// Keeps up to `capacity` rows with so many cells each.
    pub fn new(capacity: usize, kept: usize) -> Self {
        Self { worst: Worst::new(capacity), rows: BTreeMap::new(), capacity, kept }
    }

    /// Looks at a row.
    pub fn offer(&mut self, bad: Bad) {
        if self.worst.offer(bad.row, bad.ln_density) {
            self.rows.insert(bad.row, bad);
        }
        // Rows that others have displaced are forgotten now and then: memory is bounded by what is kept.
        if self.rows.len() > 2 * self.capacity + 1000 {
            let left: BTreeSet<u64> = self.worst.clone().into_sorted().iter().map(|bad| bad.row).collect();
            self.rows.retain(|row, _| left.contains(row));
        }
    }

    /// The rows, the worst first.
    pub fn into_block(self) -> Block {
        let rows: Vec<&Bad> =
            self.worst.into_sorted().iter().filter_map(|bad| self.rows.get(&bad.row)).collect();
        let mut columns = vec![Values::Integers(rows.iter().map(|bad| Some(bad.row)).collect())];
        for ix in 0..self.kept {
            let mut cells = Cells::default();
            rows.iter().for_each(|bad| cells.push(&bad.kept[ix]));
            columns.push(Values::Cells(cells));
        }
        columns.push(Values::Integers(rows.iter().map(|bad| bad.component).collect()));
        columns.push(Values::Numbers(rows.iter().map(|bad| Some(bad.ln_density)).collect()));
        Block { rows: rows.len(), columns }
    }
}
