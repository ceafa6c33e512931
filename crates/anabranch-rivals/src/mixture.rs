//! A truncated mixture with its sums: parameters for the E-step, and the evidence lower bound.
//!
//! ```text
//! ELBO = Σ_k [A(η₀ + S_k) − A(η₀)]  +  Σ_{k<K} [log B(a_k, b_k) − log B(1, α)]  +  Σ_k e_k  +  Σ_j log h(x_j)
//! ```
//!
//! This is the bound with `q(θ)` and `q(v)` at their optimum for the responsibilities that the sums were made of, so an
//! E-step from [`Mixture::parameters`] followed by new sums never lowers it.

use anabranch::batch::Batch;
use anabranch::family::Family;

use crate::publish::State;
use crate::stick;
use crate::sweep::Parameters;
use crate::totals::Totals;

/// Components as sums over rows, with names that stay while their order changes.
#[derive(Clone, Debug)]
pub(crate) struct Mixture<'a, F> {
    pub(crate) family: &'a F,
    pub(crate) alpha: f64,
    pub(crate) totals: Totals,
    /// The name of each component.
    pub(crate) ids: Vec<u64>,
    /// `A(η₀)`.
    empty: f64,
    /// The name that the next new component gets.
    pub(crate) next_id: u64,
}

impl<'a, F: Family> Mixture<'a, F> {
    /// Components named 0, 1, 2, …
    pub(crate) fn new(family: &'a F, alpha: f64, totals: Totals) -> Self {
        let empty = family.log_partition(&vec![0.0; family.n_features()]);
        let k = totals.k() as u64;
        Self { family, alpha, totals, ids: (0..k).collect(), empty, next_id: k }
    }

    /// Number of components.
    pub(crate) fn k(&self) -> usize {
        self.totals.k()
    }

    /// Expected natural parameters and expected log-weights.
    pub(crate) fn parameters(&self) -> Parameters {
        let f = self.totals.n_features();
        let mut phi = vec![0.0; self.totals.stats.len()];
        for (stats, phi) in self.totals.stats.chunks_exact(f).zip(phi.chunks_exact_mut(f)) {
            self.family.expected_natural(stats, phi);
        }
        Parameters { phi, ln_weights: stick::expected_ln_weights(&self.totals.counts(), self.alpha) }
    }

    /// The evidence lower bound without `Σ log h(x)`.
    pub(crate) fn objective(&self) -> f64 {
        let f = self.totals.n_features();
        let likelihood: f64 = self
            .totals
            .stats
            .chunks_exact(f)
            .map(|stats| self.family.log_partition(stats) - self.empty)
            .sum();
        likelihood + stick::evidence(&self.totals.counts(), self.alpha) + self.totals.entropy()
    }

    /// Sorts the components for the sticks if that raises the bound; returns where each came from.
    pub(crate) fn order(&mut self) -> Option<Vec<usize>> {
        let order = stick::better_order(&self.totals.counts(), self.alpha)?;
        self.select(&order);
        Some(order)
    }

    /// Keeps these components, in this order.
    pub(crate) fn select(&mut self, order: &[usize]) {
        self.totals = self.totals.select(order);
        self.ids = order.iter().map(|ix| self.ids[*ix]).collect();
    }

    /// What there is to show, standing for this many rows.
    pub(crate) fn state(&self, rows: usize) -> State<'_> {
        State { totals: &self.totals, ids: &self.ids, next_id: self.next_id, mass: rows as f64 }
    }

    /// `A(η₀ + S) − A(η₀)`: the log marginal likelihood of rows with these sums.
    pub(crate) fn evidence_of(&self, stats: &[f64]) -> f64 {
        self.family.log_partition(stats) - self.empty
    }
}

/// `Σ_j log h(x_j)`: the part of the bound that no parameter touches.
pub(crate) fn base_measure<F: Family>(family: &F, rows: &Batch) -> f64 {
    rows.rows().map(|row| family.ln_base(row)).sum()
}
