//! A family of your own: waiting times, exponential with a rate that has a Gamma prior.
//!
//!     cargo run --release -p anabranch --example own_family
//!
//! ```text
//! p(x | θ) = θ e^{−θx},   T(x) = (1, x),   θ ~ Gamma(a₀, b₀)
//! a = a₀ + n,   b = b₀ + Σx,   A = log Γ(a) − a log b,   φ = ∂A/∂S = (ψ(a) − log b, −a/b)
//! p(x | S) = (a/b) (1 + x/b)^{−(a+1)}
//! ```

use anabranch::family::{Conjugate, DomainError, Envelope, Family, Predictive, PriorError, Summary};
use anabranch::math::special::{digamma, ln_gamma};
use anabranch::prelude::*;
use rand::Rng;
use rand_distr::{Distribution, Exp1, Gamma};

/// Shape and rate of the prior.
#[derive(Clone, Debug)]
struct Waiting {
    shape: f64,
    rate: f64,
}

impl Waiting {
    /// One waiting time as long as the mean of the first ones.
    fn from_rows(rows: &Batch) -> Result<Self, PriorError> {
        if rows.is_empty() {
            return Err(PriorError::NoRows);
        }
        let mean = rows.values().iter().sum::<f64>() / rows.n_rows() as f64;
        Ok(Self { shape: 1.0, rate: mean.max(f64::MIN_POSITIVE) })
    }

    fn posterior(&self, stats: &[f64]) -> (f64, f64) {
        (self.shape + stats[0], self.rate + stats[1])
    }
}

impl Conjugate for Waiting {
    fn n_features(&self) -> usize {
        2
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        let (a, b) = self.posterior(stats);
        ln_gamma(a) - a * b.ln()
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        let (a, b) = self.posterior(stats);
        (phi[0], phi[1]) = (digamma(a) - b.ln(), -a / b);
        self.log_partition(stats)
    }
}

impl Family for Waiting {
    fn dimensions(&self) -> usize {
        1
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        match x[0] >= 0.0 {
            true => Ok(()),
            false => Err(DomainError { column: 0, value: x[0], expected: "a time that is not negative" }),
        }
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        (out[0], out[1]) = (1.0, x[0]);
    }

    fn ln_base(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        let (shape, rate) = self.posterior(stats);
        Box::new(Next { shape, rate })
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        let (a, b) = self.posterior(stats);
        let rate: f64 = Gamma::new(a, 1.0 / b).expect("shape and rate are positive").sample(rng);
        let waiting: f64 = Exp1.sample(rng);
        out[0] = waiting / rate;
    }

    fn summary(&self, stats: &[f64]) -> Summary {
        let (a, b) = self.posterior(stats);
        Summary { mean: vec![b / a], spread: vec![b / a], covariance: None, probabilities: None }
    }

    fn embedding_len(&self) -> usize {
        1
    }

    /// Times of one rate are as far apart in logarithms, whatever the rate.
    fn embed(&self, x: &[f64], out: &mut [f64]) {
        out[0] = x[0].max(1e-300).ln();
    }
}

/// The density of the next waiting time.
struct Next {
    shape: f64,
    rate: f64,
}

impl Predictive for Next {
    fn ln_density(&self, x: &[f64]) -> f64 {
        (self.shape / self.rate).ln() - (self.shape + 1.0) * (x[0] / self.rate).ln_1p()
    }

    /// Of the form `c − h log(1 + y/h)` itself, with `h = a + 1` and `y = h x/b`.
    fn envelope(&self, theta: &mut [f64]) -> Envelope {
        let half_power = self.shape + 1.0;
        theta[1] = half_power / self.rate;
        let constant = (self.shape / self.rate).ln();
        Envelope { constant, half_power, rounding: 1e-12, tight: true }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut learner = Mixture::of(Waiting::from_rows).seed(1).learner()?;
    // A server answers in a millisecond, or asks another one and takes a second.
    let mut state = 7_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let times = (0..5000).map(|ix| if ix % 3 == 0 { 1.0 } else { 0.001 } * -uniform().ln());
    learner.learn(&Batch::new(1, times.collect())?)?;
    let model = learner.model().ok_or("no rows")?;
    for component in model.posterior().components() {
        let mean = model.posterior().family().summary(&component.evidence().stats).mean[0];
        println!("{:.0} answers take {mean:.5} s in the mean", component.expected_count());
    }
    assert_eq!(model.n_components(), 2, "fast ones and slow ones");
    Ok(())
}
