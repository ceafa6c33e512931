//! Where the components start: rows far from each other, drawn as in k-means++, each with the rows nearest to it.

use anabranch::batch::Batch;
use anabranch::family::Family;
use anabranch::math::draw::draw_proportional;
use anabranch::math::product::rows_times_parameters;
use rand::seq::index;
use rand::{Rng, RngExt};

use crate::totals::Totals;

/// Rows among which seeds are drawn: this many for each component, all of them if there are fewer.
const ROWS_PER_SEED: usize = 100;

/// A start with `k` components (fewer when there are fewer different rows): the sums of a sample of rows, each row with its
/// nearest seed, scaled up to all rows.
pub(crate) fn start<F: Family>(family: &F, rows: &Batch, k: usize, rng: &mut impl Rng) -> Totals {
    let n = rows.n_rows();
    let sample: Vec<usize> = index::sample(rng, n, n.min(k.saturating_mul(ROWS_PER_SEED))).into_vec();
    let nearest = nearest_seed(family, rows, &sample, k, rng);
    let k = nearest.iter().max().map_or(0, |last| last + 1);
    let f = family.n_features();
    let mut totals = Totals::empty(k, f);
    let mut features = vec![0.0; f];
    for (row, component) in sample.iter().zip(&nearest) {
        family.features(rows.row(*row), &mut features);
        let stats = &mut totals.stats[component * f..(component + 1) * f];
        stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
        totals.labels[*component].observe(1.0, 1.0);
    }
    totals.scaled(n as f64 / sample.len() as f64)
}

/// For each of these rows the number of the seed that lies nearest to it.
pub(crate) fn nearest_seed<F: Family>(
    family: &F,
    rows: &Batch,
    sample: &[usize],
    k: usize,
    rng: &mut impl Rng,
) -> Vec<usize> {
    let m = family.embedding_len();
    let mut points = vec![0.0; sample.len() * m];
    for (row, point) in sample.iter().zip(points.chunks_exact_mut(m)) {
        family.embed(rows.row(*row), point);
    }
    let norms: Vec<f64> = points.chunks_exact(m).map(|p| p.iter().map(|v| v * v).sum()).collect();
    let mut distance = vec![f64::INFINITY; sample.len()];
    let mut nearest = vec![0; sample.len()];
    let mut products = vec![0.0; sample.len()];
    let mut next = rng.random_range(0..sample.len());
    for seed in 0..k {
        rows_times_parameters(&points, &points[next * m..(next + 1) * m], m, &mut products);
        for ix in 0..sample.len() {
            let to_seed = (norms[ix] + norms[next] - 2.0 * products[ix]).max(0.0);
            if to_seed < distance[ix] {
                distance[ix] = to_seed;
                nearest[ix] = seed;
            }
        }
        distance[next] = 0.0;
        nearest[next] = seed;
        match draw_proportional(&distance, rng) {
            Some(ix) => next = ix,
            None => break,
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use anabranch::family::Gaussian;
    use anabranch_testkit::streams::separated;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn clusters_far_apart_get_a_seed_each_and_no_mass_is_lost() {
        let rows = Batch::new(2, separated(1, 8, 60, 2, 1000.0)).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        for seed in 0..20 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let totals = start(&family, &rows, 8, &mut rng);
            assert_eq!(totals.counts(), vec![60.0; 8]);
        }
    }

    #[test]
    fn equal_rows_share_one_seed() {
        let rows = Batch::new(1, vec![3.0; 50]).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let totals = start(&family, &rows, 5, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        assert_eq!(totals.counts(), vec![50.0]);
    }
}
