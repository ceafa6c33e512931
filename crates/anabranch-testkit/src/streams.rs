//! Small streams for every kind of column: `k` groups of rows whose columns are real numbers, bits, counts or codes.
//!
//! A group is a random parameter per column; a row picks its group uniformly. The seed fixes everything.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Poisson, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What the columns of a stream hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Normal around a centre that is normal with a spread of 6.
    Reals,
    /// 0 or 1, with a probability of the group's own.
    Bits,
    /// Poisson counts with a rate from 0 to 12.
    Counts,
    /// Codes 0, 1 or 2: a favourite of the group eight times in ten, else any.
    Codes,
}

/// `n` rows of `d` columns from `k` groups, one after another.
pub fn stream(columns: Columns, seed: u64, n: usize, k: usize, d: usize) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let groups: Vec<f64> = (0..k * d).map(|_| parameter(columns, &mut rng)).collect();
    let mut rows = Vec::with_capacity(n * d);
    for _ in 0..n {
        let group = rng.random_range(0..k);
        rows.extend(groups[group * d..(group + 1) * d].iter().map(|at| value(columns, *at, &mut rng)));
    }
    rows
}

/// `per_cluster` rows around each of `k` centres on a line, `gap` standard deviations from each other, cluster by
/// cluster.
pub fn separated(seed: u64, k: usize, per_cluster: usize, d: usize, gap: f64) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut rows = Vec::with_capacity(k * per_cluster * d);
    for row in 0..k * per_cluster {
        let centre = gap * (row / per_cluster) as f64;
        rows.extend((0..d).map(|_| centre + normal(&mut rng)));
    }
    rows
}

fn parameter(columns: Columns, rng: &mut impl Rng) -> f64 {
    match columns {
        Columns::Reals => 6.0 * normal(rng),
        Columns::Bits => rng.random_range(0.05..0.95),
        Columns::Counts => rng.random_range(0.1..12.0),
        Columns::Codes => f64::from(rng.random_range(0..3)),
    }
}

fn value(columns: Columns, at: f64, rng: &mut impl Rng) -> f64 {
    match columns {
        Columns::Reals => at + normal(rng),
        Columns::Bits => f64::from(u8::from(rng.random::<f64>() < at)),
        Columns::Counts => Poisson::new(at).expect("a positive rate").sample(rng),
        Columns::Codes if rng.random::<f64>() < 0.8 => at,
        Columns::Codes => f64::from(rng.random_range(0..3)),
    }
}

fn normal(rng: &mut impl Rng) -> f64 {
    StandardNormal.sample(rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_fixes_a_stream_of_any_kind() {
        for columns in [Columns::Reals, Columns::Bits, Columns::Counts, Columns::Codes] {
            let rows = stream(columns, 5, 40, 3, 2);
            assert_eq!(rows.len(), 80);
            assert_eq!(rows, stream(columns, 5, 40, 3, 2));
            assert_ne!(rows, stream(columns, 6, 40, 3, 2));
        }
    }

    #[test]
    fn bits_counts_and_codes_stay_in_their_domains() {
        assert!(stream(Columns::Bits, 1, 100, 3, 2).iter().all(|v| *v == 0.0 || *v == 1.0));
        assert!(stream(Columns::Counts, 1, 100, 3, 2).iter().all(|v| *v >= 0.0 && v.fract() == 0.0));
        assert!(stream(Columns::Codes, 1, 100, 3, 2).iter().all(|v| [0.0, 1.0, 2.0].contains(v)));
    }

    #[test]
    fn separated_clusters_lie_on_a_line() {
        let rows = separated(1, 3, 4, 1, 1000.0);
        assert!(rows.iter().enumerate().all(|(ix, v)| (v - 1000.0 * (ix / 4) as f64).abs() < 10.0));
    }
}
