//! Sequential variational approximation (Lin 2013): each row once, in order, components opened on the way.
//!
//! ```text
//! ρ_k ∝ w_k p(x | component k),     ρ_new ∝ α p(x | prior)
//! ```
//!
//! with the posterior predictive densities of the moment. When `ρ_new` exceeds the threshold of creation, the row opens a
//! component; otherwise it is shared by those there are. Components with a share of the rows below the threshold of pruning
//! end, and so do pairs whose mean distance `Σ_j |ρ_jk − ρ_jl| / n` lies below it: they are the same component twice. What
//! ends gives its rows to the component that explains them best, so that no row is forgotten.
//!
//! A row changes the next one's densities, so there is nothing for threads to share.

use std::collections::BTreeMap;

use anabranch::batch::Batch;
use anabranch::engine::Flow;
use anabranch::family::{Family, Predictive};
use anabranch::math::log_sum_exp::log_sum_exp;
use anabranch::process::LabelStatistics;

use crate::publish::{Run, State};
use crate::totals::Totals;
use crate::{Config, FitError, Fitted};

/// A row that no component explains with more than this probability opens one (the paper's 10⁻¹).
const CREATION: f64 = 1e-1;

/// Components below this share of the rows are pruned, pairs nearer than this are merged (the paper's 10⁻³).
const PRUNING: f64 = 1e-3;

/// Probabilities below this are left out of a row: they would cost a density each and move nothing.
const NEGLIGIBLE: f64 = 1e-6;

/// Rows before the first pruning; the next ones follow whenever the rows have doubled, and at the end.
const FIRST_PRUNING: usize = 1000;

struct Open {
    id: u64,
    stats: Vec<f64>,
    labels: LabelStatistics,
    predictive: Box<dyn Predictive>,
}

struct Sequence<'a, F> {
    family: &'a F,
    ln_alpha: f64,
    truncation: usize,
    prior: Box<dyn Predictive>,
    open: Vec<Open>,
    /// `Σ_j min(ρ_jk, ρ_jl)` for pairs of components that shared a row.
    shared: BTreeMap<(u64, u64), f64>,
    next_id: u64,
    scores: Vec<f64>,
    features: Vec<f64>,
}

/// Runs over the rows once, or until the observer asks to stop.
pub(crate) fn run<F: Family>(
    rows: &Batch,
    config: &Config,
    mut run: Run<'_, F>,
) -> Result<Fitted<F>, FitError> {
    let mut sequence = Sequence::new(run.family, run.process.alpha(), config.truncation);
    let mut next_pruning = FIRST_PRUNING;
    let mut seen = 0;
    for row in rows.rows() {
        sequence.learn(row);
        seen += 1;
        if seen == next_pruning {
            sequence.prune_and_merge(seen as f64);
            next_pruning *= 2;
        }
        if seen % config.batch_size == 0 && sequence.show(&mut run, config.batch_size, seen)? == Flow::Stop {
            break;
        }
    }
    sequence.prune_and_merge(seen as f64);
    sequence.show(&mut run, seen % config.batch_size, seen)?;
    let (totals, ids) = sequence.totals();
    let state = State { totals: &totals, ids: &ids, next_id: sequence.next_id, mass: seen as f64 };
    run.finish(&state, Vec::new())
}

impl<'a, F: Family> Sequence<'a, F> {
    fn new(family: &'a F, alpha: f64, truncation: usize) -> Self {
        Self {
            family,
            ln_alpha: alpha.ln(),
            truncation,
            prior: family.predictive(&vec![0.0; family.n_features()]),
            open: Vec::new(),
            shared: BTreeMap::new(),
            next_id: 0,
            scores: Vec::new(),
            features: vec![0.0; family.n_features()],
        }
    }

    /// Shares one row out, with a component of its own if it needs one.
    fn learn(&mut self, x: &[f64]) {
        let rho = self.probabilities(x);
        self.family.features(x, &mut self.features);
        let mut taken: Vec<(u64, f64)> = Vec::new();
        for (component, rho) in self.open.iter_mut().zip(&rho).filter(|(_, rho)| **rho > 0.0) {
            component.observe(self.family, &self.features, *rho);
            taken.push((component.id, *rho));
        }
        for (ix, (one, rho_one)) in taken.iter().enumerate() {
            for (other, rho_other) in &taken[ix + 1..] {
                *self.shared.entry((*one, *other)).or_default() += rho_one.min(*rho_other);
            }
        }
    }

    /// `ρ` of the open components, one of which may just have been opened for this row. They sum to 1.
    fn probabilities(&mut self, x: &[f64]) -> Vec<f64> {
        self.scores.clear();
        let scores = self.open.iter().map(|c| c.labels.expected_count.ln() + c.predictive.ln_density(x));
        self.scores.extend(scores);
        self.scores.push(self.ln_alpha + self.prior.ln_density(x));
        let total = log_sum_exp(&self.scores);
        let mut rho: Vec<f64> = self.scores.iter().map(|score| (score - total).exp()).collect();
        let new = rho[self.open.len()];
        // Far out every density underflows, and the quotient is no number: such a row is new.
        let is_new = new > CREATION || !new.is_finite();
        if self.open.is_empty() || (is_new && self.open.len() < self.truncation) {
            self.open_component();
            if !new.is_finite() {
                rho.fill(0.0);
                *rho.last_mut().expect("it has the new one") = 1.0;
            }
        } else {
            rho.pop();
        }
        if !rho.iter().all(|p| p.is_finite()) {
            // No room for a new one: the largest takes what nobody explains.
            let largest = (0..self.open.len()).max_by(|a, b| {
                self.open[*a].labels.expected_count.total_cmp(&self.open[*b].labels.expected_count)
            });
            rho.fill(0.0);
            largest.into_iter().for_each(|ix| rho[ix] = 1.0);
        }
        normalise(&mut rho);
        rho
    }

    fn open_component(&mut self) {
        let stats = vec![0.0; self.family.n_features()];
        let predictive = self.family.predictive(&stats);
        self.open.push(Open { id: self.next_id, stats, labels: LabelStatistics::default(), predictive });
        self.next_id += 1;
    }

    /// Ends components that are too small, and then pairs that are one.
    fn prune_and_merge(&mut self, seen: f64) {
        while let Some(smallest) = self.smallest().filter(|_| self.open.len() > 1) {
            if self.open[smallest].labels.expected_count >= PRUNING * seen {
                break;
            }
            let into = self.best_home(smallest);
            self.end(smallest, into);
        }
        while let Some((keep, end)) = self.nearest_pair(seen) {
            self.end(end, keep);
        }
    }

    fn smallest(&self) -> Option<usize> {
        (0..self.open.len()).min_by(|a, b| {
            self.open[*a].labels.expected_count.total_cmp(&self.open[*b].labels.expected_count)
        })
    }

    /// The component under which the rows of `from` are likeliest.
    fn best_home(&self, from: usize) -> usize {
        let gain = |into: usize| {
            let (a, b) = (&self.open[from].stats, &self.open[into].stats);
            let joined: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
            self.family.log_partition(&joined) - self.family.log_partition(b)
        };
        let others = (0..self.open.len()).filter(|ix| *ix != from);
        let scored = others.map(|ix| (ix, gain(ix)));
        scored.max_by(|a, b| a.1.total_cmp(&b.1)).expect("there is another one").0
    }

    /// A pair whose mean distance lies below the threshold.
    fn nearest_pair(&self, seen: f64) -> Option<(usize, usize)> {
        let position = |id: u64| self.open.iter().position(|c| c.id == id);
        self.shared.iter().find_map(|((a, b), shared)| {
            let (a, b) = (position(*a)?, position(*b)?);
            let count = |ix: usize| self.open[ix].labels.expected_count;
            ((count(a) + count(b) - 2.0 * shared) / seen < PRUNING).then_some((a, b))
        })
    }

    fn end(&mut self, from: usize, into: usize) {
        let ended = self.open[from].id;
        let (stats, labels) = (self.open[from].stats.clone(), self.open[from].labels);
        let survivor = &mut self.open[into];
        survivor.stats.iter_mut().zip(&stats).for_each(|(mine, theirs)| *mine += theirs);
        survivor.labels += labels;
        survivor.predictive = self.family.predictive(&survivor.stats);
        self.open.remove(from);
        self.shared.retain(|(a, b), _| *a != ended && *b != ended);
    }

    fn totals(&self) -> (Totals, Vec<u64>) {
        let mut totals = Totals::empty(self.open.len(), self.family.n_features());
        totals.stats = self.open.iter().flat_map(|c| c.stats.iter().copied()).collect();
        totals.labels = self.open.iter().map(|c| c.labels).collect();
        (totals, self.open.iter().map(|c| c.id).collect())
    }

    fn show(&self, run: &mut Run<'_, F>, rows: usize, seen: usize) -> Result<Flow, FitError> {
        let (totals, ids) = self.totals();
        run.step(rows, &State { totals: &totals, ids: &ids, next_id: self.next_id, mass: seen as f64 })
    }
}

impl Open {
    fn observe<F: Family>(&mut self, family: &F, features: &[f64], rho: f64) {
        self.stats.iter_mut().zip(features).for_each(|(sum, value)| *sum += rho * value);
        self.labels.observe(rho, 1.0);
        self.predictive = family.predictive(&self.stats);
    }
}

/// Drops what is negligible and makes the rest sum to 1.
fn normalise(rho: &mut [f64]) {
    let total: f64 = rho.iter().sum();
    rho.iter_mut().for_each(|p| *p = if *p > NEGLIGIBLE * total { *p } else { 0.0 });
    let total: f64 = rho.iter().sum();
    rho.iter_mut().for_each(|p| *p /= total);
}

#[cfg(test)]
mod tests {
    use anabranch::family::{Bernoulli, Conjugate, Gaussian};
    use anabranch_testkit::streams::separated;

    use super::*;

    /// Sums in another order.
    const ROUNDING: f64 = 1e-12;

    /// Bernoulli rows by hand: Beta(1, 1) prior, α = 2, so that every number below is a fraction.
    #[test]
    fn the_first_rows_follow_the_recursion_of_the_paper() {
        let family = Bernoulli::new(vec![1.0], vec![1.0]).unwrap();
        let mut sequence = Sequence::new(&family, 2.0, 10);
        sequence.learn(&[1.0]);
        assert_eq!(sequence.open.len(), 1);
        // Second row, a 1: existing 1 · 2/3, new 2 · 1/2.
        let rho = sequence.probabilities(&[1.0]);
        assert!((rho[0] - 0.4).abs() < ROUNDING && (rho[1] - 0.6).abs() < ROUNDING, "{rho:?}");
        sequence.open.truncate(1);
        sequence.learn(&[1.0]);
        // Third row, a 0: component 0 has 1.4 ones: 1.4 · 1/3.4; component 1 has 0.6 ones: 0.6 · 1/2.6; new 2 · 1/2.
        let rho = sequence.probabilities(&[0.0]);
        let weights = [1.4 / 3.4, 0.6 / 2.6, 1.0];
        let total: f64 = weights.iter().sum();
        for (found, expected) in rho.iter().zip(weights) {
            assert!((found - expected / total).abs() < ROUNDING, "{rho:?}");
        }
    }

    #[test]
    fn with_one_component_it_is_the_exact_conjugate_posterior() {
        let rows = Batch::new(2, separated(2, 3, 40, 2, 5.0)).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut sequence = Sequence::new(&family, 1.0, 1);
        let mut exact = vec![0.0; family.n_features()];
        let mut features = exact.clone();
        for row in rows.rows() {
            sequence.learn(row);
            family.features(row, &mut features);
            exact.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
        }
        for (found, expected) in sequence.open[0].stats.iter().zip(&exact) {
            assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()));
        }
    }

    #[test]
    fn a_small_component_joins_the_one_that_explains_it_best_and_no_row_is_lost() {
        let rows = Batch::new(1, separated(3, 3, 1000, 1, 40.0)).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut sequence = Sequence::new(&family, 1.0, 50);
        rows.rows().for_each(|row| sequence.learn(row));
        sequence.learn(&[95.0]);
        sequence.prune_and_merge(3001.0);
        let (totals, _) = sequence.totals();
        assert!((totals.counts().iter().sum::<f64>() - 3001.0).abs() < 1e-6);
        assert!(totals.counts().iter().all(|count| *count >= PRUNING * 3001.0), "{:?}", totals.counts());
    }

    #[test]
    fn the_same_component_twice_is_merged() {
        let family = Bernoulli::new(vec![1.0; 2], vec![1.0; 2]).unwrap();
        let mut sequence = Sequence::new(&family, 1.0, 10);
        for _ in 0..2 {
            sequence.open_component();
        }
        sequence.family.features(&[1.0, 0.0], &mut sequence.features);
        let features = sequence.features.clone();
        for component in &mut sequence.open {
            (0..50).for_each(|_| component.observe(&family, &features, 0.5));
        }
        sequence.shared.insert((0, 1), 25.0);
        sequence.prune_and_merge(50.0);
        assert_eq!(sequence.totals().0.counts(), vec![50.0]);
    }
}
