//! Rows that are there several times.
//!
//! Two draws from a density are never equal. Where rows of exact numbers repeat, copies were made, and a copy says nothing
//! that the first did not say: `m` copies of each of `n` rows are `n` rows that count `m` times. What the number of
//! components is judged by (predictive densities of rows that are left out, the evidence) takes them so; the model still
//! counts each row.

use std::borrow::Cow;

use crate::batch::Batch;
use crate::family::Family;

/// A row with more copies than so many times the mean is no copy like the others: it is a place where rows pile up.
const PILE: f64 = 4.0;
/// Fewer copies than this are none.
const LEAST: f64 = 1.05;
/// Halvings that find the number of copies of which a sample shows some.
const HALVINGS: usize = 60;
/// A column that takes fewer values may be a code or a rounded number that nobody has recognised.
const FEW_VALUES: usize = 20;
/// More copies than anybody makes.
const MOST: f64 = 1e9;

/// Rows that are all different, with the number of rows of each.
#[derive(Debug)]
pub(super) struct Groups {
    /// The first of each, in order.
    pub(super) first: Vec<usize>,
    /// For each row, its place among the first.
    pub(super) group: Vec<usize>,
    copies: Vec<usize>,
}

/// Groups equal rows; `None` where all are different, or where equal rows are no copies: names and counts repeat, and so do rounded
/// values. Where some columns are rounded, and so moved within their intervals, copies are known by the others, if one of these
/// takes many values.
pub(super) fn groups<F: Family>(family: &F, batch: &Batch) -> Option<Groups> {
    let columns = 0..family.dimensions();
    let exact: Vec<usize> =
        columns.clone().filter(|column| family.resolution(*column) == Some(0.0)).collect();
    let rounded =
        columns.into_iter().any(|column| family.resolution(column).is_some_and(|width| width > 0.0));
    if exact.is_empty() || rounded && !exact.iter().any(|column| is_telling(batch, *column)) {
        return None;
    }
    // No value is infinite: what is missing is equal to what is missing.
    let or_missing = |value: f64| if value.is_nan() { f64::INFINITY } else { value };
    let key = |row: usize| exact.iter().map(move |column| or_missing(batch.row(row)[*column]));
    let mut order: Vec<usize> = (0..batch.n_rows()).collect();
    order.sort_by(|a, b| key(*a).partial_cmp(key(*b)).expect("values are numbers").then(a.cmp(b)));
    // Rows of which nothing is known are no copies.
    let equal = |a: usize, b: usize| key(a).eq(key(b)) && key(a).any(f64::is_finite);
    if order.windows(2).all(|pair| !equal(pair[0], pair[1])) {
        return None;
    }
    let mut leader = vec![0; order.len()];
    for (ix, row) in order.iter().enumerate() {
        let before = ix.checked_sub(1).map(|before| order[before]);
        leader[*row] = before.filter(|before| equal(*before, *row)).map_or(*row, |before| leader[before]);
    }
    let (mut first, mut place) = (Vec::new(), vec![0; order.len()]);
    for row in 0..leader.len() {
        if leader[row] == row {
            place[row] = first.len();
            first.push(row);
        }
    }
    let group: Vec<usize> = leader.iter().map(|leader| place[*leader]).collect();
    let mut copies = vec![0; first.len()];
    group.iter().for_each(|place| copies[*place] += 1);
    Some(Groups { first, group, copies })
}

/// Whether a column takes so many values that rows with the same one are likely to be copies.
fn is_telling(batch: &Batch, column: usize) -> bool {
    let mut values: Vec<f64> = batch.rows().map(|row| row[column]).filter(|v| !v.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values.len() >= FEW_VALUES && values.len().pow(2) > batch.n_rows()
}

impl Groups {
    /// How many rows there are of each in all data, of which these rows are a sample: at least 1.
    ///
    /// ```text
    /// rows / different rows of a sample of share f  =  f m / (1 − (1 − f)ᵐ)
    /// ```
    pub(super) fn copies(&self, share: f64) -> f64 {
        let mean = self.group.len() as f64 / self.first.len() as f64;
        let ordinary = self.copies.iter().filter(|copies| **copies as f64 <= (PILE * mean).max(PILE));
        let (rows, different) = ordinary.fold((0, 0), |(rows, n), copies| (rows + copies, n + 1));
        let seen = rows as f64 / f64::from(different.max(1));
        let share = share.clamp(f64::MIN_POSITIVE, 1.0);
        let expected = |copies: f64| share * copies / -(copies * (-share).ln_1p()).exp_m1();
        if seen <= 1.0 {
            return 1.0;
        }
        let (mut low, mut high) = (1.0_f64, MOST);
        for _ in 0..HALVINGS {
            // Their geometric mean.
            let middle = (low * high).sqrt();
            if expected(middle) < seen { low = middle } else { high = middle }
        }
        if low < LEAST { 1.0 } else { low }
    }

    /// The different rows of the batch, each with a weight: what its rows weigh together, divided by `copies`.
    pub(super) fn different(&self, batch: &Batch, copies: f64) -> Batch {
        let mut weights = vec![0.0; self.first.len()];
        for (row, place) in self.group.iter().enumerate() {
            weights[*place] += batch.weights().map_or(1.0, |weights| weights[row]) / copies;
        }
        batch.select(&self.first).with_weights(weights).expect("sums of weights are weights")
    }
}

/// How many rows there are of each in `mass` rows, of which the sample shows some; 1 where rows do not repeat.
pub fn copies<F: Family>(family: &F, sample: &Batch, mass: f64) -> f64 {
    different(family, sample, mass).1
}

/// The different rows of a sample, each weighing what one row does, and how many rows there are of each in all data.
pub(super) fn different<'a, F: Family>(family: &F, sample: &'a Batch, mass: f64) -> (Cow<'a, Batch>, f64) {
    match groups(family, sample) {
        None => (Cow::Borrowed(sample), 1.0),
        Some(groups) => {
            let copies = groups.copies(sample.n_rows() as f64 / mass.max(1.0));
            (Cow::Owned(groups.different(sample, groups.copies(1.0))), copies)
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::family::{Bernoulli, Gaussian};

    fn rows(rng: &mut Xoshiro256PlusPlus, n: usize) -> Batch {
        Batch::new(2, (0..2 * n).map(|_| rng.random::<f64>()).collect()).unwrap()
    }

    #[test]
    fn copies_are_counted_in_all_rows_and_in_a_sample() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(5);
        let (n, m) = (2000, 5);
        let once = rows(rng, n);
        let family = Gaussian::from_rows(&once).unwrap();
        let all: Vec<usize> = (0..n * m).map(|ix| ix % n).collect();
        assert!((copies(&family, &once.select(&all), (n * m) as f64) - 5.0).abs() < 1e-6);
        for share in [0.05, 0.3] {
            let some: Vec<usize> = all.iter().copied().filter(|_| rng.random::<f64>() < share).collect();
            let found = copies(&family, &once.select(&some), (n * m) as f64);
            // 500 rows of 2,000 show about 50 pairs: a standard error of 14 %.
            assert!((found - 5.0).abs() < 2.0, "{share}: {found}");
        }
        assert_eq!(copies(&family, &once, n as f64), 1.0);
    }

    #[test]
    fn a_place_where_rows_pile_up_makes_no_copies_of_the_others() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(6);
        let once = rows(rng, 1000);
        let family = Gaussian::from_rows(&once).unwrap();
        let piled: Vec<usize> = (0..1500).map(|ix| if ix < 1000 { ix } else { 7 }).collect();
        assert_eq!(copies(&family, &once.select(&piled), 1500.0), 1.0);
    }

    #[test]
    fn different_rows_weigh_what_their_copies_do_together() {
        let batch = Batch::new(1, vec![0.5, 0.25, 0.5, 0.75])
            .unwrap()
            .with_weights(vec![1.0, 2.0, 3.0, 4.0])
            .unwrap();
        let exact = (0..50).map(|ix| f64::from(ix).sin()).collect();
        let family = Gaussian::from_rows(&Batch::new(1, exact).unwrap()).unwrap();
        let different = groups(&family, &batch).unwrap().different(&batch, 2.0);
        assert_eq!(
            (different.values(), different.weights()),
            (&[0.5, 0.25, 0.75][..], Some(&[2.0, 1.0, 2.0][..]))
        );
    }

    #[test]
    fn rows_of_which_nothing_is_known_are_no_copies() {
        let exact: Vec<f64> = (0..50).map(|ix| f64::from(ix).sin()).collect();
        let family = Gaussian::from_rows(&Batch::new(1, exact.clone()).unwrap()).unwrap();
        let with_holes = |values: Vec<f64>| Batch::with_missing(1, values).unwrap();
        assert!(groups(&family, &with_holes([&exact[..], &[f64::NAN; 5]].concat())).is_none());
        assert!(groups(&family, &with_holes([&exact[..], &[exact[3]]].concat())).is_some());
    }

    #[test]
    fn a_constant_beside_rounded_columns_makes_no_copies() {
        let values = (0..3000).flat_map(|ix| [f64::from(ix * ix % 17), 0.0]).collect();
        let mut batch = Batch::new(2, values).unwrap();
        let family = Gaussian::from_rows(&batch).unwrap();
        crate::infer::spread(&family, &mut batch, &mut Xoshiro256PlusPlus::seed_from_u64(8));
        assert!(groups(&family, &batch).is_none());
    }

    #[test]
    fn few_values_beside_rounded_columns_make_no_copies() {
        let mut batch = Batch::new(2, vec![1.5, 2.0, 2.5, 3.0, 3.0, 4.0, 2.0, 2.0, 1.0, 2.0]).unwrap();
        let family = Gaussian::from_rows(&batch).unwrap();
        assert!(family.resolution(0).is_some_and(|width| width > 0.0), "the first column is rounded");
        crate::infer::spread(&family, &mut batch, &mut Xoshiro256PlusPlus::seed_from_u64(8));
        assert!(groups(&family, &batch).is_none());
    }

    #[test]
    fn names_repeat_without_being_copies() {
        let batch = Batch::new(1, vec![0.0, 1.0, 1.0, 0.0]).unwrap();
        assert!(groups(&Bernoulli::from_rows(&batch).unwrap(), &batch).is_none());
    }
}
