//! What a feature model says of rows: which features they have, and how they look without noise.

use crate::family::LinearGaussian;
use crate::identify::ComponentId;
use crate::math::special::{LN_2PI, digamma};
use crate::posterior::Posterior;
use crate::process::{Beta, Process};

/// Sweeps over the features of a row at most.
const SWEEPS: usize = 50;
/// Probabilities have settled when none moves by more than this.
const SETTLED: f64 = 1e-6;

/// How much more noise there is in the first sweeps from the third side.
const HEATS: [f64; 5] = [64.0, 16.0, 8.0, 4.0, 2.0];

/// The features of a snapshot, prepared once for many rows.
#[derive(Clone, Debug)]
pub struct FeaturePredictor {
    ids: Vec<ComponentId>,
    means: Vec<Vec<f64>>,
    /// `½(|μ|² + D/τ)`.
    halves: Vec<f64>,
    squares: Vec<f64>,
    /// `E log b` and `E log(1 − b)`.
    ln_present: Vec<f64>,
    ln_absent: Vec<f64>,
    noise: f64,
}

/// What a model says of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowFeatures {
    /// Probability of each feature, in the order of [`FeaturePredictor::ids`].
    pub probabilities: Vec<f64>,
    /// The row without noise: the features it has, added up.
    pub reconstruction: Vec<f64>,
    /// Lower bound of the log density of the row.
    pub ln_density_bound: f64,
}

impl FeaturePredictor {
    /// Prepares every feature of the snapshot.
    pub fn new(posterior: &Posterior<LinearGaussian, Beta>) -> Self {
        let (family, process) = (posterior.family(), posterior.process());
        let total = posterior.mass() + process.concentration();
        let mut predictor = Self {
            ids: Vec::new(),
            means: Vec::new(),
            halves: Vec::new(),
            squares: Vec::new(),
            ln_present: Vec::new(),
            ln_absent: Vec::new(),
            noise: family.noise(),
        };
        for component in posterior.components() {
            let count = process.existing_mass(&component.evidence().labels);
            if count <= 0.0 {
                continue;
            }
            let (mean, precision) = family.feature(&component.evidence().stats);
            let square: f64 = mean.iter().map(|m| m * m).sum();
            predictor.ids.push(component.id());
            predictor.halves.push(0.5 * (square + family.dimensions() as f64 / precision));
            predictor.squares.push(square);
            predictor.means.push(mean);
            let absent = (total - count).max(process.concentration());
            predictor.ln_present.push(digamma(count) - digamma(count + absent));
            predictor.ln_absent.push(digamma(absent) - digamma(count + absent));
        }
        predictor
    }

    /// Ids of the features.
    pub fn ids(&self) -> &[ComponentId] {
        &self.ids
    }

    /// The mean of each feature.
    pub fn means(&self) -> &[Vec<f64>] {
        &self.means
    }

    /// Which features a row has. Features explain a row together, so it is looked at from three sides: as if it had none, as
    /// if it had each as often as others, and as if there were more noise at first; the best explanation counts.
    pub fn look(&self, x: &[f64]) -> RowFeatures {
        let usual: Vec<f64> =
            self.ln_present.iter().zip(&self.ln_absent).map(|(p, a)| 1.0 / (1.0 + (a - p).exp())).collect();
        let mut best = self.settle(x, vec![0.0; self.ids.len()], &[]);
        for heats in [&[][..], &HEATS] {
            let found = self.settle(x, usual.clone(), heats);
            if found.ln_density_bound > best.ln_density_bound {
                best = found;
            }
        }
        best
    }

    fn settle(&self, x: &[f64], mut pi: Vec<f64>, heats: &[f64]) -> RowFeatures {
        let mut residual = x.to_vec();
        let shift = |residual: &mut [f64], mean: &[f64], by: f64| {
            residual.iter_mut().zip(mean).for_each(|(r, m)| *r += by * m);
        };
        pi.iter().zip(&self.means).for_each(|(pi, mean)| shift(&mut residual, mean, -pi));
        for sweep in 0..SWEEPS {
            let noise = heats.get(sweep).unwrap_or(&1.0) * self.noise;
            let mut moved = 0.0_f64;
            for (k, mean) in self.means.iter().enumerate() {
                let product: f64 = residual.iter().zip(mean).map(|(r, m)| r * m).sum();
                let fits = (product + pi[k] * self.squares[k] - self.halves[k]) / noise;
                let now = 1.0 / (1.0 + (self.ln_absent[k] - self.ln_present[k] - fits).exp());
                shift(&mut residual, mean, pi[k] - now);
                moved = moved.max((pi[k] - now).abs());
                pi[k] = now;
            }
            if moved < SETTLED && sweep >= heats.len() {
                break;
            }
        }
        let ln_density_bound = self.bound(&pi, &residual);
        let reconstruction = x.iter().zip(&residual).map(|(x, r)| x - r).collect();
        RowFeatures { probabilities: pi, reconstruction, ln_density_bound }
    }

    fn bound(&self, pi: &[f64], residual: &[f64]) -> f64 {
        let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
        let mut square: f64 = residual.iter().map(|r| r * r).sum();
        let mut labels = 0.0;
        for (k, pi) in pi.iter().enumerate() {
            square += 2.0 * pi * self.halves[k] - pi * pi * self.squares[k];
            labels += pi * self.ln_present[k] + (1.0 - pi) * self.ln_absent[k] + term(*pi) + term(1.0 - pi);
        }
        labels - 0.5 * (square / self.noise + residual.len() as f64 * (LN_2PI + self.noise.ln()))
    }
}
