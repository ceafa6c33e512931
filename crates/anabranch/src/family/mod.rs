//! What a component is: an exponential family with its conjugate prior (paper eq. varapproxs).
//!
//! ```text
//! p(x | θ) = h(x) · exp( natural(θ) · T(x) )
//! p(θ | S) ∝ exp( (η₀ + S) · natural(θ) ),     S = Σ_j π_j T(x_j)
//! ```
//!
//! Every family maps a row to a feature row `T(x)` of fixed length whose **first entry is 1**, so that the
//! sufficient statistics of a minibatch are one matrix product `RᵀT(X)` and their first entry is the expected count
//! `t`. Statistics never contain the prior: `η = η₀ + S` is formed inside the family when it is needed.

use rand::Rng;

mod absence;
mod any;
mod bernoulli;
mod categorical;
mod counts;
mod dependent;
mod diagonal;
mod draw;
mod error;
mod frame;
mod gaps;
mod gaussian;
mod grid;
mod linear_gaussian;
mod multinomial;
mod natural;
mod normal_inverse_wishart;
mod panel;
mod poisson;
mod product;
mod profile;
mod reframe;
mod spherical;
mod student_t;
mod topic;
mod type_two;

pub use absence::Absence;
pub use any::AnyFamily;
pub use bernoulli::Bernoulli;
pub use categorical::Categorical;
pub use diagonal::{Diagonal, NormalGamma};
pub use error::{DomainError, PriorError};
pub use frame::{Frame, bulk};
pub use gaps::Gap;
pub use gaussian::Gaussian;
pub use linear_gaussian::LinearGaussian;
pub use multinomial::Multinomial;
pub use natural::DrawNatural;
pub use normal_inverse_wishart::NormalInverseWishart;
pub use poisson::Poisson;
pub use product::{Block, Product};
pub use reframe::OtherFamily;
pub use spherical::{Spherical, SphericalPrior};
pub use topic::Topic;

/// Below this count a component is empty: its mean, a quotient of two such numbers, would be noise.
const EMPTY_COUNT: f64 = 1e-250;

/// What a person wants to know about one component, in the units of the data.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Posterior mean of each column (for categorical columns: the probabilities are in `probabilities`).
    pub mean: Vec<f64>,
    /// Standard deviation of each column under the expected parameters.
    pub spread: Vec<f64>,
    /// Expected covariance, row after row, for families that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covariance: Option<Vec<f64>>,
    /// Expected probabilities per column, for categorical columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probabilities: Option<Vec<Vec<f64>>>,
}

/// What the components are that a prior is estimated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// Clusters, as far as one knows.
    Clusters,
    /// Pieces of clusters, far too many and all alike: they tell the scale of a cluster, not how much clusters vary.
    Pieces,
    /// One of several partitions that are compared: the prior may count for as much, however many components there are.
    Level,
}

/// The posterior predictive density of one component, prepared once and evaluated for many rows.
pub trait Predictive: Send + Sync {
    /// `log p(x | data of the component)`, exact, in the units of the data; of a row with missing values, the density of the others.
    fn ln_density(&self, x: &[f64]) -> f64;

    /// The same, of a complete row whose features `T(x)`, or the leading ones, are at hand; where it is below `least`, anything below that.
    fn ln_density_from(&self, x: &[f64], _features: &[f64], _least: f64) -> f64 {
        self.ln_density(x)
    }

    /// The same, of a row that the component has learned from with this share, without what it taught: `S − r T(x)` in place of
    /// `S`. `None` where that has no short form.
    fn ln_density_left_out(&self, _x: &[f64], _features: &[f64], _share: f64) -> Option<f64> {
        None
    }

    /// Writes mean and variance of each missing value of a row given the others, in the units of the data.
    fn conditional(&self, _x: &[f64], _mean: &mut [f64], _variance: &mut [f64]) {}

    /// Draws the missing values of a row given the others.
    fn draw_missing(&self, _x: &mut [f64], _rng: &mut dyn Rng) {}

    /// A bound from above that many rows can be compared with at once; writes its `θ`, as long as `T(x)` and 0 before.
    fn envelope(&self, theta: &mut [f64]) -> Envelope;

    /// A looser bound by [`Family::leading_features`] alone; `None` where there are none.
    fn leading_envelope(&self, _theta: &mut [f64]) -> Option<Envelope> {
        None
    }
}

/// A bound from above of a predictive density: a falling function of one product `y = θ · T(x)`.
///
/// ```text
/// log p(x)  ≤  c − h log(1 + y⁺/h)          (c − y where h = ∞)
/// ```
///
/// For a Student t it is the density itself. Bounds of independent columns multiply: `(1 + a/h)^h (1 + b/g)^g ≥ (1 + (a + b)/g)^g` for
/// positive `a`, `b` and `g ≤ h`, so that `c` and `y` add up and the smallest `h` counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Envelope {
    /// `c`.
    pub constant: f64,
    /// `h`, above 0; infinite for a bound that is linear.
    pub half_power: f64,
    /// How far `θ` may be off by rounding, as a share of its length.
    pub rounding: f64,
    /// Whether the bound is the density itself.
    pub tight: bool,
}

impl Envelope {
    /// A probability is at most 1.
    pub(crate) const PROBABILITY: Self =
        Self { constant: 0.0, half_power: f64::INFINITY, rounding: 0.0, tight: false };

    /// A density that is linear in the features, but for a few roundings.
    pub(crate) const LINEAR: Self =
        Self { constant: 0.0, half_power: f64::INFINITY, rounding: FEW_ROUNDINGS, tight: true };
}

/// Parameters that are sums of products and logarithms are off by less than this share.
const FEW_ROUNDINGS: f64 = 1e-12;

/// An exponential family with a conjugate prior, as far as its sums go: all that the central posterior, identification
/// and the engine ask of a component, whatever its data are.
///
/// `stats` is always `S = Σ_j π_j T(x_j)`, [`Conjugate::n_features`] long, without the prior; all zeros is the prior.
pub trait Conjugate: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Length of `T(x)`.
    fn n_features(&self) -> usize;

    /// The same family over more features, where a stream may bring features that nobody has seen: what was learned before
    /// has none of them. `None` where there are no more, or features are fixed.
    fn widened(&self, _n_features: usize) -> Option<Self> {
        None
    }

    /// False for statistics that no data have and that would make a posterior improper (PROPER). What a file says passes
    /// through here before anything is computed from it.
    fn admits(&self, stats: &[f64]) -> bool {
        stats.iter().all(|s| s.is_finite()) && stats[0] >= 0.0
    }

    /// Whether there can be data with these sums, where half of the prior may stand in for squares that are missing. What
    /// [`Conjugate::admits`] lets pass can be computed with and may yet be far from any data: squares too small for their
    /// sums look like a component of no width. Evidence that is moved by an estimate passes through here.
    fn is_possible(&self, stats: &[f64]) -> bool {
        self.admits(stats)
    }

    /// The log-partition function `A(η₀ + S)`, with the constants of every row: `A(S) − A(0) + Σ log h(x_j)` is the log
    /// marginal likelihood of whole rows in the units of the data, and `∂A/∂S = φ` entry by entry.
    fn log_partition(&self, stats: &[f64]) -> f64;

    /// Writes the expected natural parameter `φ`, so that `E_q[log p(x|θ)] = φ · T(x) + log h(x)`, and returns
    /// `A(η₀ + S)`, which costs nothing more.
    fn expected_natural(&self, stats: &[f64], phi: &mut [f64]) -> f64;
}

/// A family whose data are dense rows of numbers: what mixtures are made of.
pub trait Family: Conjugate {
    /// Columns of a row.
    fn dimensions(&self) -> usize;

    /// Checks that a row of finite numbers, or NaN where they are missing, lies in the domain.
    fn check(&self, x: &[f64]) -> Result<(), DomainError>;

    /// Writes `T(x)`; `out[0]` is 1. Missing values add nothing.
    fn features(&self, x: &[f64], out: &mut [f64]);

    /// How many features alone rule most components out, those of the first columns; 0 where it costs little to look at all.
    fn leading_len(&self) -> usize {
        0
    }

    /// Writes those, in which [`Predictive::ln_density_from`] finds what it takes from `T(x)` at the same places.
    fn leading_features(&self, _x: &[f64], _out: &mut [f64]) {}

    /// `log h(x)` of the values that are known: the part of the log density that no parameter touches and that `φ · T(x)` does
    /// not hold.
    fn ln_base(&self, x: &[f64]) -> f64;

    /// What parameters `φ` say of columns that are missing, for any row and any of the columns (`infer/missing.rs`). Where
    /// columns are independent it begins with `log ∫ exp(φ · T(x)) h(x) dx` of each column.
    fn missing_table(&self, _phi: &[f64], _table: &mut Vec<f64>) {}

    /// Where columns are independent: adds what such a table expects `T(x)` of each missing column to be, so many times.
    fn expect_columns(&self, _table: &[f64], _times: &[f64], _out: &mut [f64]) {}

    /// `log ∫ exp(φ · T(x)) h(x) dx_missing` of each row, without `log h` of what is known.
    fn ln_integrals(&self, phi: &[f64], table: &[f64], gaps: &[Gap<'_>], out: &mut [f64]) {
        for (gap, out) in gaps.iter().zip(out) {
            let known: f64 = phi.iter().zip(gap.features).map(|(a, b)| a * b).sum();
            *out = known + gap.missing.iter().filter_map(|column| table.get(*column)).sum::<f64>();
        }
    }

    /// Adds `E[T(x) | x_known, φ]` of the rows to sums, each as often as it counts, and returns the entropy of what is missing.
    fn add_expected(&self, phi: &[f64], table: &[f64], gaps: &[Gap<'_>], sums: &mut [f64]) -> f64 {
        let mut times = vec![0.0; self.dimensions()];
        for gap in gaps {
            sums.iter_mut().zip(gap.features).for_each(|(sum, value)| *sum += gap.share * value);
            gap.missing.iter().for_each(|column| times[*column] += gap.share);
        }
        let mut expected = vec![0.0; phi.len()];
        self.expect_columns(table, &times, &mut expected);
        sums.iter_mut().zip(&expected).for_each(|(sum, value)| *sum += value);
        let integrals: f64 = times.iter().zip(table).map(|(times, ln)| times * ln).sum();
        integrals - phi.iter().zip(&expected).map(|(a, b)| a * b).sum::<f64>()
    }

    /// Tables of several components, laid out for all of them at once: where columns are independent, the integrals of one column
    /// after another.
    fn missing_panel(&self, phi: &[f64], panel: &mut Vec<f64>) {
        let (d, k) = (self.dimensions(), phi.len() / self.n_features());
        let mut table = Vec::new();
        panel.clear();
        panel.resize(d * k, 0.0);
        for (ix, phi) in phi.chunks_exact(self.n_features()).enumerate() {
            self.missing_table(phi, &mut table);
            table.iter().take(d).enumerate().for_each(|(column, ln)| panel[column * k + ix] = *ln);
        }
    }

    /// Makes [`Family::ln_integrals`] of scores `φ · T(x_known)`: of each component of a panel, for rows that lack these columns.
    fn integrate(&self, panel: &[f64], missing: &[usize], features: &[&[f64]], scores: &mut [f64]) {
        let k = scores.len() / features.len();
        for column in missing {
            let integrals = &panel[column * k..(column + 1) * k];
            for scores in scores.chunks_exact_mut(k) {
                scores.iter_mut().zip(integrals).for_each(|(score, ln)| *score += ln);
            }
        }
    }

    /// The exact posterior predictive of a component with these statistics.
    fn predictive(&self, stats: &[f64]) -> Box<dyn Predictive>;

    /// Draws parameters from the posterior and then a row from them: one draw from the predictive.
    fn sample(&self, stats: &[f64], rng: &mut dyn Rng, out: &mut [f64]);

    /// Mean and spread in the units of the data.
    fn summary(&self, stats: &[f64]) -> Summary;

    /// Whether components are normal densities, so that mean and covariance (or spreads) of [`Family::summary`] say all.
    fn is_normal(&self) -> bool {
        false
    }

    /// Width of the interval that a value of this column stands for: 0 where values are exact, `None` where they are counts or
    /// names, which may well be the same in many rows.
    fn resolution(&self, _column: usize) -> Option<f64> {
        None
    }

    /// How many names a column of names can hold, the last of which stands for all others.
    fn categories(&self, _column: usize) -> Option<usize> {
        None
    }

    /// Length of a row's embedding.
    fn embedding_len(&self) -> usize;

    /// Maps a row into a Euclidean space in which rows of one component lie close together; births are seeded there.
    fn embed(&self, x: &[f64], out: &mut [f64]);

    /// Squared distance of two rows in that space.
    fn seed_distance(&self, x: &[f64], y: &[f64]) -> f64 {
        let (mut a, mut b) = (vec![0.0; self.embedding_len()], vec![0.0; self.embedding_len()]);
        self.embed(x, &mut a);
        self.embed(y, &mut b);
        a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum()
    }

    /// Features of a bound on scores that is cheaper than the score; 0 when there is none.
    fn screen_len(&self) -> usize {
        0
    }

    /// Takes the features `T'(x)` of the bound from `T(x)`; the first is 1.
    fn screen_features(&self, _features: &[f64], _out: &mut [f64]) {}

    /// Writes parameters `φ'` of the bound: `φ' · T'(x) ≥ φ · T(x)` for every row.
    fn screen(&self, _phi: &[f64], _out: &mut [f64]) {}

    /// The prior under which components with these statistics are more probable (a step of type-II maximum likelihood),
    /// or `None` when they cannot tell.
    fn refit(&self, _components: &[&[f64]], _partition: Partition) -> Option<Self> {
        None
    }
}
