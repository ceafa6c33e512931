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

use crate::batch::{Batch, Minibatch};
use crate::family::{Conjugate, LinearGaussian};
use crate::infer::Increment;
use crate::math::special::{LN_2PI, digamma, ln_gamma};
use crate::posterior::{Evidence, Posterior};
use crate::process::{Beta, LabelStatistics, Population, Process};

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
    /// Probability of each row to have the feature.
    pub(super) pi: Vec<f64>,
}

/// All features of a minibatch, and what they leave unexplained.
#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    batch: &'a Batch,
    process: Beta,
    /// Data that the posterior has seen.
    observed: f64,
    version: u64,
    pub(super) family: LinearGaussian,
    pub(super) features: Vec<Feature>,
    pub(super) residual: Vec<f64>,
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl<'a> State<'a> {
    /// The known features, each as probable for every row as it was so far.
    pub(super) fn start(posterior: &Posterior<LinearGaussian, Beta>, batch: &'a Batch) -> Self {
        let family = posterior.family().clone();
        let mut state = Self {
            batch,
            process: *posterior.process(),
            observed: posterior.mass(),
            version: posterior.version(),
            family,
            features: Vec::with_capacity(posterior.components().len()),
            residual: batch.values().to_vec(),
        };
        let total = state.observed + state.process.concentration();
        for (ix, component) in posterior.components().iter().enumerate() {
            let count = component.expected_count();
            if count > 0.0 {
                let (mean, precision) = state.family.feature(&component.evidence().stats);
                let pi = vec![(count / total).min(1.0); batch.n_rows()];
                let feature = Feature {
                    known: Some(ix),
                    prior_mean: mean.clone(),
                    prior_precision: precision,
                    prior_count: count,
                    mean,
                    precision,
                    pi,
                };
                state.push(feature);
            }
        }
        state
    }

    pub(super) fn batch(&self) -> &'a Batch {
        self.batch
    }

    fn push(&mut self, feature: Feature) {
        shift(&mut self.residual, &feature.pi, &feature.mean, -1.0);
        self.features.push(feature);
    }

    /// Opens a feature around this vector; rows that look like it have it to begin with.
    pub(super) fn open(&mut self, mean: Vec<f64>, rows: f64) {
        let noise = self.family.noise();
        let square = dot(&mean, &mean);
        let pi = self
            .residual
            .chunks_exact(mean.len())
            .map(|residual| logistic((dot(residual, &mean) - 0.5 * square) / noise))
            .collect();
        let precision = 1.0 / self.family.scale() + rows.max(1.0) / noise;
        let prior_mean = vec![0.0; mean.len()];
        let prior_precision = 1.0 / self.family.scale();
        self.push(Feature {
            known: None,
            prior_mean,
            prior_precision,
            prior_count: 0.0,
            mean,
            precision,
            pi,
        });
    }

    /// Removes a feature; its rows are explained by the others in the sweeps that follow.
    pub(super) fn remove(&mut self, ix: usize) {
        let feature = self.features.remove(ix);
        shift(&mut self.residual, &feature.pi, &feature.mean, 1.0);
    }

    /// Makes of feature `from` what it is without feature `part`; rows that had it have both.
    pub(super) fn subtract(&mut self, from: usize, part: usize) {
        let had = self.features[from].pi.clone();
        for ix in [from, part] {
            let Feature { pi, mean, .. } = &self.features[ix];
            shift(&mut self.residual, pi, mean, 1.0);
        }
        let other = self.features[part].mean.clone();
        self.features[from].mean.iter_mut().zip(&other).for_each(|(mean, part)| *mean -= part);
        self.features[part].pi.iter_mut().zip(&had).for_each(|(pi, had)| *pi = pi.max(*had));
        for ix in [from, part] {
            let Feature { pi, mean, .. } = &self.features[ix];
            shift(&mut self.residual, pi, mean, -1.0);
        }
    }

    pub(super) fn is_new(&self, ix: usize) -> bool {
        self.features[ix].known.is_none()
    }

    /// `Σ_n w_n π_nk`.
    pub(super) fn count(&self, feature: &Feature) -> f64 {
        feature.pi.iter().enumerate().map(|(row, pi)| self.batch.weight(row) * pi).sum()
    }

    /// `a` and `b` of a feature, given how many new ones there are.
    fn beta(&self, feature: &Feature, n_new: f64) -> (f64, f64) {
        let (count, mass) = (self.count(feature), self.batch.mass());
        let c = self.process.concentration();
        let (a0, b0) = match feature.known {
            Some(_) => (feature.prior_count, (self.observed - feature.prior_count).max(0.0) + c),
            None => (self.process.alpha() * c / n_new, self.observed + c),
        };
        (a0 + count, b0 + (mass - count).max(0.0))
    }

    fn n_new(&self) -> f64 {
        self.features.iter().filter(|feature| feature.known.is_none()).count().max(1) as f64
    }

    /// Who has which feature, with the features as they are.
    pub(super) fn assign(&mut self) {
        self.pass(false);
    }

    /// Who has which feature, and what each feature is.
    pub(super) fn sweep(&mut self) {
        self.pass(true);
    }

    fn pass(&mut self, learn: bool) {
        let n_new = self.n_new();
        let ln_odds: Vec<f64> = self
            .features
            .iter()
            .map(|feature| {
                let (a, b) = self.beta(feature, n_new);
                digamma(a) - digamma(b)
            })
            .collect();
        let (noise, d) = (self.family.noise(), self.family.dimensions());
        for (feature, ln_odds) in self.features.iter_mut().zip(ln_odds) {
            let square = dot(&feature.mean, &feature.mean);
            let itself = 0.5 * (square + d as f64 / feature.precision);
            let (mut count, mut sum) = (0.0, vec![0.0; d]);
            for (row, residual) in self.residual.chunks_exact_mut(d).enumerate() {
                let before = feature.pi[row];
                let fits = dot(residual, &feature.mean) + before * square - itself;
                let now = logistic(ln_odds + fits / noise);
                feature.pi[row] = now;
                let change = before - now;
                residual.iter_mut().zip(&feature.mean).for_each(|(r, m)| *r += change * m);
                if learn {
                    let weight = self.batch.weight(row) * now;
                    count += weight;
                    for ((sum, r), m) in sum.iter_mut().zip(residual).zip(&feature.mean) {
                        *sum += weight * (*r + now * m);
                    }
                }
            }
            if learn {
                feature.precision = feature.prior_precision + count / noise;
                let mean = sum
                    .iter()
                    .zip(&feature.prior_mean)
                    .map(|(sum, prior)| (feature.prior_precision * prior + sum / noise) / feature.precision);
                let mean: Vec<f64> = mean.collect();
                let moved: Vec<f64> = mean.iter().zip(&feature.mean).map(|(now, was)| now - was).collect();
                shift(&mut self.residual, &feature.pi, &moved, -1.0);
                feature.mean = mean;
            }
        }
    }

    /// `Σ_n w_n E|x_n − Σ_k z_nk θ_k|²`.
    fn squared_error(&self) -> f64 {
        let d = self.family.dimensions();
        let mut total: f64 = self
            .residual
            .chunks_exact(d)
            .enumerate()
            .map(|(row, residual)| self.batch.weight(row) * dot(residual, residual))
            .sum();
        for feature in &self.features {
            let square = dot(&feature.mean, &feature.mean);
            for (row, pi) in feature.pi.iter().enumerate() {
                total += self.batch.weight(row)
                    * (pi * (square + d as f64 / feature.precision) - pi * pi * square);
            }
        }
        total
    }

    /// The evidence lower bound of the minibatch. What a new feature costs is what the process says, however many are new.
    pub(super) fn objective(&self) -> f64 {
        let scored: f64 =
            self.new_labels().map(|labels| self.process.score(&labels, self.population())).sum();
        self.likelihood() + scored + self.ln_beta_ratios(|feature| feature.known.is_some())
    }

    /// The evidence lower bound with `K'` new features that share `αc` (what every sweep raises).
    #[cfg(test)]
    pub(super) fn truncated_objective(&self) -> f64 {
        self.likelihood() + self.ln_beta_ratios(|_| true)
    }

    fn population(&self) -> Population {
        Population { observations: self.observed + self.batch.mass(), occupied: self.features.len() as f64 }
    }

    fn new_labels(&self) -> impl Iterator<Item = LabelStatistics> {
        self.features.iter().filter(|feature| feature.known.is_none()).map(|feature| self.labels(feature))
    }

    /// The part of the rows, of the features themselves, and the entropy.
    fn likelihood(&self) -> f64 {
        let (noise, d) = (self.family.noise(), self.family.dimensions() as f64);
        let rows = -0.5 * self.batch.mass() * d * (LN_2PI + noise.ln()) - 0.5 * self.squared_error() / noise;
        let features = self.features.iter().map(|feature| {
            let moved: f64 = feature
                .mean
                .iter()
                .zip(&feature.prior_mean)
                .map(|(m, prior)| (m - prior) * (m - prior))
                .sum();
            let ratio = feature.prior_precision / feature.precision;
            0.5 * (d * (ratio.ln() - ratio + 1.0) - feature.prior_precision * moved) + self.entropy(feature)
        });
        rows + features.sum::<f64>()
    }

    fn entropy(&self, feature: &Feature) -> f64 {
        let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
        let entropy = |(row, pi): (usize, &f64)| self.batch.weight(row) * (term(*pi) + term(1.0 - pi));
        feature.pi.iter().enumerate().map(entropy).sum()
    }

    fn ln_beta_ratios(&self, which: impl Fn(&Feature) -> bool) -> f64 {
        let n_new = self.n_new();
        let ln_beta = |a: f64, b: f64| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
        let ratio = |feature: &Feature| {
            let (a, b) = self.beta(feature, n_new);
            let count = self.count(feature);
            ln_beta(a, b) - ln_beta(a - count, b - (self.batch.mass() - count).max(0.0))
        };
        self.features.iter().filter(|feature| which(feature)).map(ratio).sum()
    }

    /// Variance of the noise that makes the rows most probable, as the features are.
    pub(super) fn learn_noise(&mut self) {
        let cells = self.batch.mass() * self.family.dimensions() as f64;
        if cells > 0.0 {
            self.family = self.family.with_variances(self.squared_error() / cells, self.family.scale());
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

    fn labels(&self, feature: &Feature) -> LabelStatistics {
        let mut labels = LabelStatistics::default();
        feature.pi.iter().enumerate().for_each(|(row, pi)| labels.observe(*pi, self.batch.weight(row)));
        labels
    }

    /// What the rows say of each feature, given the others as they are now.
    pub(super) fn export(&self, posterior: &Posterior<LinearGaussian, Beta>) -> Increment {
        let d = self.family.dimensions();
        let mut increment = Increment { mass: self.batch.mass(), ..Increment::nothing(self.version) };
        for feature in &self.features {
            let mut evidence = Evidence::empty(self.family.n_features());
            for (row, residual) in self.residual.chunks_exact(d).enumerate() {
                let weight = self.batch.weight(row) * feature.pi[row];
                evidence.stats[0] += weight;
                for ((sum, r), m) in evidence.stats[1..].iter_mut().zip(residual).zip(&feature.mean) {
                    *sum += weight * (r + feature.pi[row] * m);
                }
            }
            evidence.labels = self.labels(feature);
            match feature.known {
                Some(_) if evidence.stats[0] <= 0.0 => {}
                Some(ix) => increment.existing.push((posterior.components()[ix].id(), evidence)),
                None => increment.new.push(evidence),
            }
        }
        increment
    }
}

/// Adds `sign · π_n · vector` to every row.
fn shift(rows: &mut [f64], pi: &[f64], vector: &[f64], sign: f64) {
    for (row, pi) in rows.chunks_exact_mut(vector.len()).zip(pi) {
        row.iter_mut().zip(vector).for_each(|(value, v)| *value += sign * pi * v);
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
        assert!((found - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{found} {expected}");
    }

    fn assert_moment(state: &State<'_>, moment: &Moment) {
        for (k, feature) in state.features.iter().enumerate() {
            close(feature.precision, moment.tau[k]);
            feature.mean.iter().zip(&moment.mu[k]).for_each(|(found, expected)| close(*found, *expected));
            for (row, pi) in feature.pi.iter().enumerate() {
                close(*pi, moment.pi[row][k]);
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
            state.push(Feature {
                known: (k < v.known_counts.len()).then_some(k),
                prior_mean: v.prior_h[k].iter().map(|h| h / v.prior_tau[k]).collect(),
                prior_precision: v.prior_tau[k],
                prior_count: v.known_counts.get(k).copied().unwrap_or(0.0),
                mean: v.init.mu[k].clone(),
                precision: v.init.tau[k],
                pi: v.init.pi.iter().map(|row| row[k]).collect(),
            });
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
        state.residual.iter().zip(batch.values()).for_each(|(found, expected)| close(*found, *expected));
    }
}
