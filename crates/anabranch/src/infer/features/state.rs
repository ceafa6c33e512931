//! Coordinate ascent for features that add up (linear-Gaussian beta process), with the central posterior as prior.
//!
//! ```text
//! R_n = x_n − Σ_l π_nl μ_l
//! logit π_nk = ψ(a_k) − ψ(b_k) + [ μ_k·(R_n + π_nk μ_k) − ½(|μ_k|² + D/τ_k) ] / σ_x²
//! τ_k = τ_ok + Σ_n π_nk / σ_x²,    τ_k μ_k = τ_ok μ_ok + Σ_n π_nk (R_n + π_nk μ_k) / σ_x²
//! a_k = a_0k + Σ_n π_nk,           b_k = b_0k + Σ_n (1 − π_nk)
//! ```
//!
//! A known feature starts from `a_0 = t`, `b_0 = N − t + c`; `K'` new ones from `αc/K'` and `N + c`, whose limit is the part
//! of the beta process that nobody has seen yet. Every step raises the objective.
//!
//! Rows meet features in matrix products alone: `R_n·μ_k` is an entry of `XMᵀ − ΠMMᵀ`, and what rows say of the features is
//! in `ΠᵀX` and `ΠᵀΠ`. Between them a row's step costs a comparison for each feature that it surely has or has not.

use pulp::Arch;

use crate::batch::{Batch, Minibatch};
use crate::family::LinearGaussian;
use crate::infer::Increment;
use crate::math::product::{responsibilities_times_rows, rows_times_parameters};
use crate::math::special::{LN_2PI, digamma, ln_gamma, ln_positive};
use crate::posterior::{Evidence, Posterior};
use crate::process::{Beta, LabelStatistics, Population, Process};

/// Steps of the features that follow a look at who has them: each needs the others.
const FEATURE_STEPS: usize = 2;
/// Log odds beyond which a row surely has a feature or has not: the other probability is below 3e-9.
const SURE: f64 = 20.0;

/// A probability that would change by less stays as it is.
const MOVED: f64 = 1e-8;

/// How much more noise there is in each look.
const HEATS: [f64; 7] = [64.0, 16.0, 8.0, 4.0, 2.0, 1.0, 1.0];

/// One feature as a minibatch sees it.
#[derive(Clone, Debug)]
pub(super) struct Feature {
    /// Position in the posterior, or `None` for a new one.
    known: Option<usize>,
    prior_mean: Vec<f64>,
    prior_precision: f64,
    /// `t` of the data before.
    prior_count: f64,
    pub(super) mean: Vec<f64>,
    pub(super) precision: f64,
}

/// All features of a minibatch, and who has them.
#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    batch: &'a Batch,
    process: Beta,
    /// Data that the posterior has seen.
    observed: f64,
    version: u64,
    /// `Σ_n w_n |x_n|²`.
    square: f64,
    pub(super) family: LinearGaussian,
    pub(super) features: Vec<Feature>,
    /// Probability of each row to have each feature, row by row.
    pi: Vec<f64>,
    /// What `pi` adds up to, until it changes.
    sums: Option<Sums>,
}

/// What the rows say of the features.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    /// `Σ_n w_n π_nk`.
    pub(super) counts: Vec<f64>,
    /// `Σ_n w_n π_nk π_nl`.
    pub(super) together: Vec<f64>,
    /// `Σ_n w_n π_nk x_n`.
    rows: Vec<f64>,
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn logistic(x: f64) -> f64 {
    match x {
        x if x > SURE => 1.0,
        x if x < -SURE => 0.0,
        x => 1.0 / (1.0 + (-x).exp()),
    }
}

/// `−π log π − (1 − π) log(1 − π)`.
#[inline(always)]
fn entropy_of(pi: f64) -> f64 {
    -(pi * ln_positive(pi) + (1.0 - pi) * ln_positive(1.0 - pi))
}

impl<'a> State<'a> {
    /// The known features, each as probable for every row as it was so far.
    pub(super) fn start(posterior: &Posterior<LinearGaussian, Beta>, batch: &'a Batch) -> Self {
        let family = posterior.family().clone();
        let square = batch.rows().enumerate().map(|(row, x)| batch.weight(row) * dot(x, x)).sum();
        let mut state = Self {
            batch,
            process: *posterior.process(),
            observed: posterior.mass(),
            version: posterior.version(),
            square,
            family,
            features: Vec::with_capacity(posterior.components().len()),
            pi: Vec::new(),
            sums: None,
        };
        let total = state.observed + state.process.concentration();
        let mut usual = Vec::new();
        for (ix, component) in posterior.components().iter().enumerate() {
            let count = component.expected_count();
            if count > 0.0 {
                let (mean, precision) = state.family.feature(&component.evidence().stats);
                usual.push((count / total).min(1.0));
                state.features.push(Feature {
                    known: Some(ix),
                    prior_mean: mean.clone(),
                    prior_precision: precision,
                    prior_count: count,
                    mean,
                    precision,
                });
            }
        }
        state.pi = usual.repeat(batch.n_rows());
        state
    }

    pub(super) fn batch(&self) -> &'a Batch {
        self.batch
    }

    /// What each row has of a feature.
    #[cfg(test)]
    fn column(&self, ix: usize) -> impl Iterator<Item = f64> {
        self.pi.iter().skip(ix).step_by(self.features.len()).copied()
    }

    fn push(&mut self, feature: Feature, column: &[f64]) {
        let k = self.features.len();
        let mut pi = Vec::with_capacity(self.pi.len() + column.len());
        for (row, value) in column.iter().enumerate() {
            pi.extend_from_slice(&self.pi[row * k..(row + 1) * k]);
            pi.push(*value);
        }
        (self.pi, self.sums) = (pi, None);
        self.features.push(feature);
    }

    /// Opens a feature around this vector; rows that look like it have it to begin with.
    pub(super) fn open(&mut self, mean: Vec<f64>, rows: f64) {
        let (k, noise) = (self.features.len(), self.family.noise());
        let square = dot(&mean, &mean);
        let with_others: Vec<f64> = self.features.iter().map(|other| dot(&other.mean, &mean)).collect();
        let column: Vec<f64> = self
            .batch
            .rows()
            .enumerate()
            .map(|(row, x)| {
                let remainder = dot(x, &mean) - dot(&self.pi[row * k..(row + 1) * k], &with_others);
                logistic((remainder - 0.5 * square) / noise)
            })
            .collect();
        self.open_for(mean, &column, rows);
    }

    /// Opens a feature that each row has with this probability.
    pub(super) fn open_for(&mut self, mean: Vec<f64>, column: &[f64], rows: f64) {
        let precision = 1.0 / self.family.scale() + rows.max(1.0) / self.family.noise();
        let prior_mean = vec![0.0; mean.len()];
        let prior_precision = 1.0 / self.family.scale();
        let feature = Feature { known: None, prior_mean, prior_precision, prior_count: 0.0, mean, precision };
        self.push(feature, column);
    }

    /// Removes a feature; its rows are explained by the others in the sweeps that follow.
    pub(super) fn remove(&mut self, ix: usize) {
        let k = self.features.len();
        let mut at = 0;
        self.pi.retain(|_| {
            let keep = at % k != ix;
            at += 1;
            keep
        });
        self.sums = None;
        self.features.remove(ix);
    }

    /// Makes of feature `from` what it is without feature `part`; rows that had it have both.
    pub(super) fn subtract(&mut self, from: usize, part: usize) {
        let other = self.features[part].mean.clone();
        self.features[from].mean.iter_mut().zip(&other).for_each(|(mean, part)| *mean -= part);
        for row in self.pi.chunks_exact_mut(self.features.len()) {
            row[part] = row[part].max(row[from]);
        }
        self.sums = None;
    }

    pub(super) fn is_new(&self, ix: usize) -> bool {
        self.features[ix].known.is_none()
    }

    /// What the rows say of the features as they have them now.
    pub(super) fn sums(&mut self) -> &Sums {
        let sums = self.sums.take().unwrap_or_else(|| self.add_up());
        self.sums.insert(sums)
    }

    fn add_up(&self) -> Sums {
        let (k, d) = (self.features.len(), self.family.dimensions());
        let mut sums = Sums { counts: vec![0.0; k], together: vec![0.0; k * k], rows: vec![0.0; k * d] };
        if k == 0 {
            return sums;
        }
        let weighted: Option<Vec<f64>> = self.batch.weights().map(|weights| {
            let rows = self.pi.chunks_exact(k).zip(weights);
            rows.flat_map(|(row, weight)| row.iter().map(move |pi| weight * pi)).collect()
        });
        let weighted = weighted.as_ref().unwrap_or(&self.pi);
        for row in weighted.chunks_exact(k) {
            sums.counts.iter_mut().zip(row).for_each(|(count, pi)| *count += pi);
        }
        responsibilities_times_rows(weighted, &self.pi, k, &mut sums.together);
        responsibilities_times_rows(weighted, self.batch.values(), d, &mut sums.rows);
        sums
    }

    /// `a` and `b` of a feature that so much of the rows has, given how many new ones there are.
    fn beta(&self, feature: &Feature, count: f64, n_new: f64) -> (f64, f64) {
        let c = self.process.concentration();
        let (a0, b0) = match feature.known {
            Some(_) => (feature.prior_count, (self.observed - feature.prior_count).max(0.0) + c),
            None => (self.process.alpha() * c / n_new, self.observed + c),
        };
        (a0 + count, b0 + (self.batch.mass() - count).max(0.0))
    }

    fn n_new(&self) -> f64 {
        self.features.iter().filter(|feature| feature.known.is_none()).count().max(1) as f64
    }

    fn means(&self) -> Vec<f64> {
        self.features.iter().flat_map(|feature| feature.mean.iter().copied()).collect()
    }

    /// What is left of each row when the features that it has are taken away.
    pub(super) fn remainders(&self) -> Vec<f64> {
        let (k, d) = (self.features.len(), self.family.dimensions());
        let mut rows = self.batch.values().to_vec();
        if k > 0 {
            let columns: Vec<f64> =
                (0..d).flat_map(|i| self.features.iter().map(move |feature| feature.mean[i])).collect();
            let mut explained = vec![0.0; rows.len()];
            rows_times_parameters(&self.pi, &columns, k, &mut explained);
            rows.iter_mut().zip(&explained).for_each(|(row, explained)| *row -= explained);
        }
        rows
    }

    /// Who has which feature, before anything is learned: first as if there were more noise, because features explain a row
    /// together and the first that would do must not take it.
    pub(super) fn look(&mut self) {
        HEATS.iter().for_each(|heat| self.assign_at(*heat));
    }

    /// Who has which feature, with the features as they are: each in turn, given the others.
    pub(super) fn assign(&mut self) {
        self.assign_at(1.0);
    }

    fn assign_at(&mut self, heat: f64) {
        let (k, d) = (self.features.len(), self.family.dimensions());
        if k == 0 {
            return;
        }
        let (n_new, noise) = (self.n_new(), heat * self.family.noise());
        let counts = self.sums.take().map_or_else(|| self.counts(), |sums| sums.counts);
        let means = self.means();
        let mut gram = vec![0.0; k * k];
        rows_times_parameters(&means, &means, d, &mut gram);
        let mut products = vec![0.0; self.pi.len()];
        rows_times_parameters(self.batch.values(), &means, d, &mut products);
        let mut explained = vec![0.0; self.pi.len()];
        rows_times_parameters(&self.pi, &gram, k, &mut explained);
        // Log odds of a feature that explains nothing: of its share and of its own length.
        let bare: Vec<f64> = (0..k)
            .map(|ix| {
                let (a, b) = self.beta(&self.features[ix], counts[ix], n_new);
                let itself = 0.5 * (gram[ix * k + ix] + d as f64 / self.features[ix].precision);
                digamma(a) - digamma(b) - itself / noise
            })
            .collect();
        products.iter_mut().zip(&explained).for_each(|(product, explained)| *product -= explained);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (pi, products) in self.pi.chunks_exact_mut(k).zip(products.chunks_exact_mut(k)) {
                    for ix in 0..k {
                        let others = &gram[ix * k..(ix + 1) * k];
                        let now = logistic(bare[ix] + (products[ix] + pi[ix] * others[ix]) / noise);
                        let change = pi[ix] - now;
                        if change.abs() > MOVED {
                            pi[ix] = now;
                            let products = products.iter_mut().zip(others);
                            products.for_each(|(product, other)| *product += change * other);
                        }
                    }
                }
            },
        );
    }

    fn counts(&self) -> Vec<f64> {
        let mut counts = vec![0.0; self.features.len()];
        for (row, pi) in self.pi.chunks_exact(counts.len().max(1)).enumerate() {
            let weight = self.batch.weight(row);
            counts.iter_mut().zip(pi).for_each(|(count, pi)| *count += weight * pi);
        }
        counts
    }

    /// Who has which feature, and what each feature is.
    pub(super) fn sweep(&mut self) {
        self.assign();
        self.learn();
    }

    /// What each feature is, given who has it and what the others are.
    fn learn(&mut self) {
        let sums = self.sums.take().unwrap_or_else(|| self.add_up());
        let noise = self.family.noise();
        for _ in 0..FEATURE_STEPS {
            for ix in 0..self.features.len() {
                let left = self.left_for(ix, &sums);
                let feature = &mut self.features[ix];
                feature.precision = feature.prior_precision + sums.counts[ix] / noise;
                for ((mean, left), prior) in feature.mean.iter_mut().zip(&left).zip(&feature.prior_mean) {
                    *mean = (feature.prior_precision * prior + left / noise) / feature.precision;
                }
            }
        }
        self.sums = Some(sums);
    }

    /// `Σ_n w_n π_nk (x_n − Σ_{l≠k} π_nl μ_l)`.
    fn left_for(&self, ix: usize, sums: &Sums) -> Vec<f64> {
        let (k, d) = (self.features.len(), self.family.dimensions());
        let mut left = sums.rows[ix * d..(ix + 1) * d].to_vec();
        for (other, feature) in self.features.iter().enumerate().filter(|(other, _)| *other != ix) {
            let both = sums.together[ix * k + other];
            if both != 0.0 {
                left.iter_mut().zip(&feature.mean).for_each(|(left, mean)| *left -= both * mean);
            }
        }
        left
    }

    /// `Σ_n w_n E|x_n − Σ_k z_nk θ_k|²`.
    fn squared_error(&self, sums: &Sums) -> f64 {
        let d = self.family.dimensions();
        let mut total = self.square;
        for (ix, feature) in self.features.iter().enumerate() {
            // Σ π (2 x − explained by all) · μ, the feature's own part with π instead of π².
            let rows = &sums.rows[ix * d..(ix + 1) * d];
            let left = self.left_for(ix, sums);
            total -= dot(rows, &feature.mean) + dot(&left, &feature.mean);
            total += sums.counts[ix] * (dot(&feature.mean, &feature.mean) + d as f64 / feature.precision);
        }
        // A sum of squares, whatever rounding says.
        total.max(0.0)
    }

    /// The evidence lower bound of the minibatch. What a new feature costs is what the process says, however many are new.
    pub(super) fn objective(&mut self) -> f64 {
        let sums = self.sums.take().unwrap_or_else(|| self.add_up());
        let new = (0..self.features.len()).filter(|ix| self.is_new(*ix)).zip(self.p_empty());
        let scored = new.map(|(ix, p_empty)| {
            let (log_p_empty, expected_count) = (p_empty.ln(), sums.counts[ix]);
            let labels = LabelStatistics { log_p_empty, expected_count, label_entropy: 0.0 };
            self.process.score(&labels, self.population())
        });
        let scored: f64 = scored.sum();
        let known = self.ln_beta_ratios(&sums, |feature| feature.known.is_some());
        let objective = self.likelihood(&sums) + self.entropy() + scored + known;
        self.sums = Some(sums);
        objective
    }

    /// The evidence lower bound with `K'` new features that share `αc` (what every sweep raises).
    #[cfg(test)]
    pub(super) fn truncated_objective(&self) -> f64 {
        let sums = self.add_up();
        self.likelihood(&sums) + self.entropy() + self.ln_beta_ratios(&sums, |_| true)
    }

    fn population(&self) -> Population {
        Population { observations: self.observed + self.batch.mass(), occupied: self.features.len() as f64 }
    }

    /// The part of the rows and of the features themselves.
    fn likelihood(&self, sums: &Sums) -> f64 {
        let (noise, d) = (self.family.noise(), self.family.dimensions() as f64);
        let rows =
            -0.5 * self.batch.mass() * d * (LN_2PI + noise.ln()) - 0.5 * self.squared_error(sums) / noise;
        let features = self.features.iter().map(|feature| {
            let moved: f64 = feature
                .mean
                .iter()
                .zip(&feature.prior_mean)
                .map(|(m, prior)| (m - prior) * (m - prior))
                .sum();
            let ratio = feature.prior_precision / feature.precision;
            0.5 * (d * (ratio.ln() - ratio + 1.0) - feature.prior_precision * moved)
        });
        rows + features.sum::<f64>()
    }

    fn ln_beta_ratios(&self, sums: &Sums, which: impl Fn(&Feature) -> bool) -> f64 {
        let n_new = self.n_new();
        let ln_beta = |a: f64, b: f64| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
        let ratio = |(feature, count): (&Feature, &f64)| {
            let (a, b) = self.beta(feature, *count, n_new);
            ln_beta(a, b) - ln_beta(a - count, b - (self.batch.mass() - count).max(0.0))
        };
        self.features.iter().zip(&sums.counts).filter(|(feature, _)| which(feature)).map(ratio).sum()
    }

    /// Variance of the noise that makes the rows most probable, as the features are.
    pub(super) fn learn_noise(&mut self) {
        let cells = self.batch.mass() * self.family.dimensions() as f64;
        if cells > 0.0 {
            let sums = self.sums.take().unwrap_or_else(|| self.add_up());
            let noise = self.squared_error(&sums) / cells;
            self.family = self.family.with_variances(noise, self.family.scale());
            self.sums = Some(sums);
        }
    }

    /// Variance of the features that makes them most probable.
    pub(super) fn learn_scale(&mut self) {
        let d = self.family.dimensions() as f64;
        let squares = self.features.iter().map(|f| dot(&f.mean, &f.mean) / d + 1.0 / f.precision);
        let mean = squares.sum::<f64>() / self.features.len() as f64;
        if mean.is_finite() && mean > 0.0 {
            self.family = self.family.with_variances(self.family.noise(), mean);
            for feature in self.features.iter_mut().filter(|feature| feature.known.is_none()) {
                feature.prior_precision = 1.0 / self.family.scale();
            }
        }
    }

    /// The label statistics of each feature.
    fn labels(&self) -> Vec<LabelStatistics> {
        let mut labels = vec![LabelStatistics::default(); self.features.len()];
        for (row, pi) in self.pi.chunks_exact(labels.len().max(1)).enumerate() {
            let weight = self.batch.weight(row);
            labels.iter_mut().zip(pi).for_each(|(labels, pi)| labels.observe(*pi, weight));
        }
        labels
    }

    /// Probability of each new feature that no row has it.
    fn p_empty(&self) -> Vec<f64> {
        let new: Vec<usize> = (0..self.features.len()).filter(|ix| self.is_new(*ix)).collect();
        let mut p_empty = vec![1.0; new.len()];
        for (row, pi) in self.pi.chunks_exact(self.features.len().max(1)).enumerate() {
            let weight = self.batch.weight(row);
            for (p_empty, ix) in p_empty.iter_mut().zip(&new) {
                let without = 1.0 - pi[*ix];
                *p_empty *= if weight == 1.0 { without } else { without.powf(weight) };
            }
        }
        p_empty
    }

    /// Entropy of who has which feature.
    fn entropy(&self) -> f64 {
        let mut total = 0.0;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (row, pi) in self.pi.chunks_exact(self.features.len().max(1)).enumerate() {
                    let mut lanes = [0.0_f64; 8];
                    let mut chunks = pi.chunks_exact(8);
                    for chunk in &mut chunks {
                        lanes.iter_mut().zip(chunk).for_each(|(lane, pi)| *lane += entropy_of(*pi));
                    }
                    let rest: f64 = chunks.remainder().iter().map(|pi| entropy_of(*pi)).sum();
                    total += self.batch.weight(row) * (lanes.iter().sum::<f64>() + rest);
                }
            },
        );
        total
    }

    /// What the rows say of each feature, given the others as they are now.
    pub(super) fn export(&self, posterior: &Posterior<LinearGaussian, Beta>) -> Increment {
        let mut increment = Increment { mass: self.batch.mass(), ..Increment::nothing(self.version) };
        let sums = self.add_up();
        for ((ix, feature), labels) in self.features.iter().enumerate().zip(self.labels()) {
            let mut stats = vec![sums.counts[ix]];
            stats.extend(self.left_for(ix, &sums));
            let evidence = Evidence { stats, labels };
            match feature.known {
                Some(_) if evidence.stats[0] <= 0.0 => {}
                Some(known) => increment.existing.push((posterior.components()[known].id(), evidence)),
                None => increment.new.push(evidence),
            }
        }
        increment
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::posterior::Posterior;
    use crate::process::Bound;

    #[derive(Deserialize)]
    struct Vector {
        rows: Vec<Vec<f64>>,
        noise: f64,
        scale: f64,
        alpha: f64,
        c: f64,
        observed: f64,
        known_counts: Vec<f64>,
        prior_h: Vec<Vec<f64>>,
        prior_tau: Vec<f64>,
        init: Moment,
        init_elbo: f64,
        after_1: Moment,
        after_5: Moment,
    }

    #[derive(Deserialize)]
    struct Moment {
        pi: Vec<Vec<f64>>,
        mu: Vec<Vec<f64>>,
        tau: Vec<f64>,
        #[serde(default)]
        elbo: f64,
    }

    fn close(found: f64, expected: f64) {
        // What is sure to 3e-9 counts as sure, and what moves by 1e-8 stays: over five sweeps that adds up.
        assert!((found - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{found} {expected}");
    }

    fn assert_moment(state: &State<'_>, moment: &Moment) {
        for (k, feature) in state.features.iter().enumerate() {
            close(feature.precision, moment.tau[k]);
            feature.mean.iter().zip(&moment.mu[k]).for_each(|(found, expected)| close(*found, *expected));
            for (row, pi) in state.column(k).enumerate() {
                close(pi, moment.pi[row][k]);
            }
        }
    }

    /// Five sweeps of another implementation, from a start that nobody would choose.
    #[test]
    fn sweeps_equal_the_test_vectors_and_raise_the_objective() {
        let v: Vector = serde_json::from_str(include_str!("../../../tests/data/features.json")).unwrap();
        let d = v.rows[0].len();
        let batch = Batch::new(d, v.rows.concat()).unwrap();
        let family = LinearGaussian::new(d, v.noise, v.scale).unwrap();
        let process = Beta::new(v.alpha, v.c, Bound::Paper).unwrap();
        let mut state = State::start(&Posterior::prior(family, process), &batch);
        state.observed = v.observed;
        for k in 0..v.prior_tau.len() {
            let feature = Feature {
                known: (k < v.known_counts.len()).then_some(k),
                prior_mean: v.prior_h[k].iter().map(|h| h / v.prior_tau[k]).collect(),
                prior_precision: v.prior_tau[k],
                prior_count: v.known_counts.get(k).copied().unwrap_or(0.0),
                mean: v.init.mu[k].clone(),
                precision: v.init.tau[k],
            };
            let column: Vec<f64> = v.init.pi.iter().map(|row| row[k]).collect();
            state.push(feature, &column);
        }
        close(state.truncated_objective(), v.init_elbo);
        let mut last = v.init_elbo;
        for sweep in 1..=5 {
            state.sweep();
            let objective = state.truncated_objective();
            assert!(objective >= last - 1e-9 * last.abs(), "the objective fell from {last} to {objective}");
            last = objective;
            match sweep {
                1 => {
                    assert_moment(&state, &v.after_1);
                    close(objective, v.after_1.elbo);
                }
                5 => {
                    assert_moment(&state, &v.after_5);
                    close(objective, v.after_5.elbo);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn what_is_taken_away_and_put_back_leaves_the_remainders_as_they_were() {
        let batch = Batch::new(2, vec![1.0, 2.0, 3.0, -1.0, 0.5, 0.5]).unwrap();
        let family = LinearGaussian::new(2, 0.5, 1.0).unwrap();
        let process = Beta::new(1.0, 1.0, Bound::Paper).unwrap();
        let mut state = State::start(&Posterior::prior(family, process), &batch);
        state.open(vec![1.0, 1.0], 1.0);
        state.open(vec![0.5, -0.5], 1.0);
        state.sweep();
        state.subtract(0, 1);
        state.sweep();
        state.remove(1);
        state.remove(0);
        state.remainders().iter().zip(batch.values()).for_each(|(found, expected)| close(*found, *expected));
    }
}
