//! Rounded values as the intervals that they stand for.
//!
//! A value on a grid of width `w` (`family/grid.rs`) is moved by the sum of two uniform draws from `± w/2` before anything is learned
//! from it. What is learned is then the density that joins the shares of neighbouring intervals by straight lines, `P(x ± w/2) / w`
//! at each value `x` itself, which is what answers evaluate. One draw alone would leave steps at the ends of the intervals, and
//! a cluster that is hardly wider than one would be learned step by step.

use rand::{Rng, RngExt};

use crate::batch::Batch;
use crate::family::Family;

/// Moves each value between its neighbours on the grid. Rows stay in the family's domain.
pub fn spread<F: Family>(family: &F, batch: &mut Batch, rng: &mut impl Rng) {
    let widths: Vec<(usize, f64)> = (0..family.dimensions())
        .filter_map(|column| Some((column, family.resolution(column).filter(|width| *width > 0.0)?)))
        .collect();
    if widths.is_empty() {
        return;
    }
    for row in batch.rows_mut() {
        for (column, width) in &widths {
            let moved = row[*column] + width * (rng.random::<f64>() + rng.random::<f64>() - 1.0);
            // At the end of the domain a value stays where it is.
            let before = std::mem::replace(&mut row[*column], moved);
            if family.check(row).is_err() {
                row[*column] = before;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::family::{Bernoulli, Gaussian};

    #[test]
    fn values_move_between_their_neighbours_and_exact_ones_stay() {
        let values: Vec<f64> =
            (0..4000).flat_map(|ix| [f64::from(ix % 7), (f64::from(ix) * 0.7).sin()]).collect();
        let rows = Batch::new(2, values).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut moved = rows.clone();
        spread(&family, &mut moved, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        let shifts: Vec<f64> = rows.rows().zip(moved.rows()).map(|(x, y)| y[0] - x[0]).collect();
        assert!(rows.rows().zip(moved.rows()).all(|(x, y)| x[1] == y[1]));
        assert!(shifts.iter().all(|shift| shift.abs() <= 1.0));
        // Two uniforms of width 1 have variance 1/6; the mean of 4,000 squares has a standard error of 2 %.
        let variance = shifts.iter().map(|shift| shift * shift).sum::<f64>() / shifts.len() as f64;
        assert!((6.0 * variance - 1.0).abs() < 0.08, "{variance}");
    }

    #[test]
    fn names_and_counts_are_left_alone() {
        let rows = Batch::new(1, vec![0.0, 1.0, 1.0, 0.0]).unwrap();
        let mut moved = rows.clone();
        spread(&Bernoulli::from_rows(&rows).unwrap(), &mut moved, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        assert_eq!(moved, rows);
    }
}
