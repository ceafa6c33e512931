//! Births: rows of one component, collected during a lap, clustered on their own (Hughes and Sudderth 2013, §3.1).

use anabranch::batch::Batch;
use anabranch::family::Family;
use anabranch::math::draw::draw_proportional;
use rand::Rng;

use crate::mixture::Mixture;
use crate::seed;
use crate::sweep::assign;
use crate::totals::Totals;

/// Components that are looked at in a lap.
const TARGETS: usize = 10;

/// Rows that are collected for each of them at most …
const COLLECTED: usize = 1000;

/// … among those that belong to it with more than this probability.
const BELONGS: f64 = 0.1;

/// Components that a target may be split into.
const FRESH: usize = 10;

/// Iterations of the clustering of collected rows.
const ITERATIONS: usize = 20;

/// A fresh component with fewer collected rows is dropped.
const LEAST_ROWS: f64 = 5.0;

/// Components whose rows are collected.
#[derive(Default)]
pub(super) struct Targets {
    /// Positions of the components, their names, and the rows found for each.
    targets: Vec<(usize, u64, Vec<usize>)>,
}

impl Targets {
    /// Draws targets in proportion to their size, none when there is no room for what they may become.
    pub(super) fn choose<F: Family>(mixture: &Mixture<'_, F>, truncation: usize, rng: &mut impl Rng) -> Self {
        let mut weights = mixture.totals.counts();
        weights.iter_mut().for_each(|count| *count = count.max(0.0));
        let mut targets = Vec::new();
        if mixture.k() < truncation {
            while targets.len() < TARGETS.min(mixture.k()) {
                let Some(ix) = draw_proportional(&weights, rng) else { break };
                weights[ix] = 0.0;
                targets.push((ix, mixture.ids[ix], Vec::new()));
            }
        }
        Self { targets }
    }

    /// Collects rows from a chunk that starts at row `first`.
    pub(super) fn collect(&mut self, first: usize, responsibilities: &[f64], k: usize) {
        for (component, _, rows) in self.targets.iter_mut().filter(|(_, _, rows)| rows.len() < COLLECTED) {
            let belonging = responsibilities.iter().skip(*component).step_by(k).enumerate();
            let found = belonging.filter(|(_, r)| **r > BELONGS).map(|(ix, _)| first + ix);
            rows.extend(found.take(COLLECTED - rows.len()));
        }
    }

    /// The components that the collected rows ask for, each with sums scaled to its share of the target; `None` when no
    /// target is better described by several.
    pub(super) fn births<F: Family>(
        &self,
        mixture: &Mixture<'_, F>,
        rows: &Batch,
        room: usize,
        rng: &mut impl Rng,
    ) -> Option<Totals> {
        let mut born = Totals::empty(0, mixture.family.n_features());
        for (_, id, collected) in &self.targets {
            let room = room - born.k();
            let Some(target) = mixture.ids.iter().position(|living| living == id) else { continue };
            if room == 0 || collected.is_empty() {
                continue;
            }
            let values = collected.iter().flat_map(|row| rows.row(*row)).copied().collect();
            let collected = Batch::new(rows.dimensions(), values).expect("the same rows are a batch again");
            let Some(fresh) = cluster(mixture, &collected, FRESH.min(room), rng) else { continue };
            let count = mixture.totals.labels[target].expected_count;
            let fresh = fresh.scaled(count / collected.n_rows() as f64);
            born.stats.extend_from_slice(&fresh.stats);
            born.labels.extend_from_slice(&fresh.labels);
        }
        (born.k() > 0).then_some(born)
    }
}

/// Clusters a few rows; `None` when one component describes them as well.
fn cluster<F: Family>(
    mixture: &Mixture<'_, F>,
    rows: &Batch,
    k: usize,
    rng: &mut impl Rng,
) -> Option<Totals> {
    let (family, n) = (mixture.family, rows.n_rows());
    let alone = Mixture::new(family, mixture.alpha, one_component(family, rows));
    let mut several = Mixture::new(family, mixture.alpha, seed::start(family, rows, k, rng));
    for _ in 0..ITERATIONS {
        several.order();
        several.totals = assign(family, rows, 0..n, &several.parameters(), &mut |_, _| {});
    }
    let large: Vec<usize> =
        (0..several.k()).filter(|ix| several.totals.labels[*ix].expected_count >= LEAST_ROWS).collect();
    (large.len() > 1 && several.objective() > alone.objective()).then(|| several.totals.select(&large))
}

fn one_component<F: Family>(family: &F, rows: &Batch) -> Totals {
    let mut totals = Totals::empty(1, family.n_features());
    let mut features = vec![0.0; family.n_features()];
    for row in rows.rows() {
        family.features(row, &mut features);
        totals.stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
        totals.labels[0].observe(1.0, 1.0);
    }
    totals
}
