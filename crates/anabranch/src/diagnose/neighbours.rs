//! Which components lie near which: the ones under which a component's own rows are most probable.
//!
//! ```text
//! score(k | j) = φ_k · S_j / t_j + log t_k
//! ```
//!
//! One matrix product scores all pairs at the price of a multiplication for each feature. Everything dearer (densities of
//! drawn rows, log-partition functions) is computed for the nearest alone.

use crate::family::Family;
use crate::math::product::rows_times_parameters;
use crate::posterior::Posterior;
use crate::process::Process;

/// Neighbours of a component. What lies farther away takes a negligible part of its rows.
pub(super) const NEIGHBOURS: usize = 24;

/// Components whose scores are held in memory at once.
const ROWS_AT_ONCE: usize = 256;

/// For each component the places of its nearest neighbours, nearest first. Components without rows have none and are none.
pub(crate) fn neighbours<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Vec<Vec<usize>> {
    nearest(posterior, NEIGHBOURS, |_, _| true)
}

/// The same for the nearest `most` of those that `allowed` says may be neighbours.
pub(crate) fn nearest<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    most: usize,
    allowed: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let family = posterior.family();
    let f = family.n_features();
    let live: Vec<usize> = (0..posterior.components().len())
        .filter(|ix| posterior.components()[*ix].expected_count() > 0.0)
        .collect();
    let of = |ix: &usize| &posterior.components()[*ix];
    let phi: Vec<f64> = live.iter().flat_map(|ix| of(ix).expectation(family).phi.iter().copied()).collect();
    let ln_mass: Vec<f64> = live.iter().map(|ix| of(ix).expected_count().ln()).collect();
    let mut near = vec![Vec::new(); posterior.components().len()];
    let mut scores = Vec::new();
    for chunk in live.chunks(ROWS_AT_ONCE) {
        let means = chunk.iter().flat_map(|ix| {
            let count = of(ix).expected_count();
            of(ix).evidence().stats.iter().map(move |s| s / count)
        });
        let means: Vec<f64> = means.collect();
        scores.clear();
        scores.resize(chunk.len() * live.len(), 0.0);
        rows_times_parameters(&means, &phi, f, &mut scores);
        for (own, row) in chunk.iter().zip(scores.chunks_exact(live.len())) {
            let score = |place: &usize| row[*place] + ln_mass[*place];
            let mut others: Vec<usize> =
                (0..live.len()).filter(|place| live[*place] != *own && allowed(*own, live[*place])).collect();
            let best_first = |a: &usize, b: &usize| score(b).total_cmp(&score(a)).then(a.cmp(b));
            if others.len() > most {
                others.select_nth_unstable_by(most - 1, best_first);
                others.truncate(most);
            }
            others.sort_by(best_first);
            near[*own] = others.into_iter().map(|place| live[place]).collect();
        }
    }
    near
}

#[cfg(test)]
mod tests {
    use super::super::overlap::tests::line;
    use super::*;

    #[test]
    fn neighbours_on_a_line_are_those_next_in_line() {
        let posterior = line(&[(100.0, 0.0), (100.0, 10.0), (100.0, 30.0), (100.0, 70.0)]);
        assert_eq!(neighbours(&posterior), vec![vec![1, 2, 3], vec![0, 2, 3], vec![1, 0, 3], vec![2, 1, 0]]);
    }

    #[test]
    fn many_components_have_few_neighbours_and_they_are_the_nearest() {
        let places: Vec<(f64, f64)> = (0..300).map(|i| (50.0, 10.0 * f64::from(i))).collect();
        let near = neighbours(&line(&places));
        for (own, others) in near.iter().enumerate() {
            assert_eq!(others.len(), NEIGHBOURS);
            let farthest = others.iter().map(|other| other.abs_diff(own)).max().unwrap();
            assert!(farthest <= NEIGHBOURS, "{own} has {others:?}");
            assert_eq!(others[0].abs_diff(own), 1);
        }
    }
}
