//! Coins that call a function of the test's own first, to stop or break the code under test at a chosen place.

use std::fmt;
use std::sync::Arc;

use anabranch::family::{Bernoulli, Conjugate, DomainError, Family, Predictive, Summary};
use rand::Rng;

/// Which method of the family was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    NFeatures,
    Features,
    LogPartition,
}

/// One column of zeros and ones, with a hook.
#[derive(Clone)]
pub(crate) struct Hooked {
    coins: Bernoulli,
    hook: Arc<dyn Fn(Call) + Send + Sync>,
}

impl Hooked {
    pub(crate) fn new(hook: impl Fn(Call) + Send + Sync + 'static) -> Self {
        Self { coins: Bernoulli::new(vec![0.5], vec![0.5]).unwrap(), hook: Arc::new(hook) }
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.coins.fmt(f)
    }
}

impl Conjugate for Hooked {
    fn n_features(&self) -> usize {
        (self.hook)(Call::NFeatures);
        self.coins.n_features()
    }

    fn log_partition(&self, stats: &[f64]) -> f64 {
        (self.hook)(Call::LogPartition);
        self.coins.log_partition(stats)
    }

    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64 {
        self.coins.expected_natural(stats, phi)
    }
}

impl Family for Hooked {
    fn dimensions(&self) -> usize {
        self.coins.dimensions()
    }

    fn check(&self, x: &[f64]) -> Result<(), DomainError> {
        self.coins.check(x)
    }

    fn features(&self, x: &[f64], out: &mut [f64]) {
        (self.hook)(Call::Features);
        self.coins.features(x, out);
    }

    fn ln_base(&self, x: &[f64]) -> f64 {
        self.coins.ln_base(x)
    }

    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive> {
        self.coins.predictive(stats)
    }

    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]) {
        self.coins.sample(stats, rng, out);
    }

    fn summary(&self, stats: &[f64]) -> Summary {
        self.coins.summary(stats)
    }

    fn embedding_len(&self) -> usize {
        self.coins.embedding_len()
    }

    fn embed(&self, x: &[f64], out: &mut [f64]) {
        self.coins.embed(x, out);
    }
}
