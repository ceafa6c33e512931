//! The mixture of normals that the level sets are taken of: each component with the mean and covariance that are expected of
//! it, weighed by its rows.
//!
//! ```text
//! log t_k N(x | μ_k, Λ_k⁻¹) = φ_k · T(x),     T(x) = (1, x, upper triangle of xxᵀ)    or (1, x, x²) without correlations
//! ```
//!
//! One matrix product gives all components at many points. Columns are centred and scaled, which moves all densities alike.

use crate::family::Family;
use crate::math::cholesky::{self, packed_len, row_start};
use crate::math::log_sum_exp::log_sum_exp;
use crate::math::product::rows_times_parameters;
use crate::posterior::Posterior;
use crate::process::Process;

/// Components that count for less than this at a point do not move it.
const NEGLIGIBLE: f64 = 1e-9;
/// Points whose densities are computed at once.
const POINTS_AT_ONCE: usize = 256;

/// How the columns of a component go together.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Full,
    Diagonal,
}

/// A mixture of normals in coordinates of its own.
#[derive(Clone, Debug)]
pub(super) struct Normals {
    shape: Shape,
    dimensions: usize,
    /// Means, one after another.
    means: Vec<f64>,
    /// Packed precisions, or their diagonals.
    precisions: Vec<f64>,
    /// `Λμ`.
    pulls: Vec<f64>,
    /// `φ`.
    parameters: Vec<f64>,
    /// Log density of the mixture at each mean.
    heights: Vec<f64>,
}

impl Normals {
    /// The components at these places; `None` where they are no normal densities.
    pub(super) fn of<F: Family, P: Process>(posterior: &Posterior<F, P>, live: &[usize]) -> Option<Self> {
        let family = posterior.family();
        if !family.is_normal() {
            return None;
        }
        let parts: Vec<Part> = live
            .iter()
            .map(|ix| {
                let component = &posterior.components()[*ix];
                let summary = family.summary(&component.evidence().stats);
                Part {
                    rows: component.expected_count(),
                    mean: summary.mean,
                    spread: summary.spread,
                    covariance: summary.covariance,
                }
            })
            .collect();
        Self::from_parts(family.dimensions(), parts)
    }

    /// `None` where a covariance is not one.
    pub(super) fn from_parts(dimensions: usize, parts: Vec<Part>) -> Option<Self> {
        let d = dimensions;
        let shape =
            if parts.iter().any(|part| part.covariance.is_some()) { Shape::Full } else { Shape::Diagonal };
        let len = if shape == Shape::Full { packed_len(d) } else { d };
        let rows: f64 = parts.iter().map(|part| part.rows).sum();
        let mean_of = |value: &dyn Fn(&Part, usize) -> f64, column: usize| {
            parts.iter().map(|part| part.rows / rows * value(part, column)).sum::<f64>()
        };
        let centre: Vec<f64> = (0..d).map(|column| mean_of(&|part, c| part.mean[c], column)).collect();
        let scale: Vec<f64> = (0..d).map(|column| mean_of(&|part, c| part.spread[c], column)).collect();
        let mut normals = Self {
            shape,
            dimensions,
            means: Vec::with_capacity(parts.len() * d),
            precisions: Vec::with_capacity(parts.len() * len),
            pulls: Vec::with_capacity(parts.len() * d),
            parameters: Vec::with_capacity(parts.len() * (1 + d + len)),
            heights: Vec::new(),
        };
        let mut precision = vec![0.0; len];
        let mut factor = vec![0.0; len];
        let mut row = vec![0.0; d];
        for part in &parts {
            let mean: Vec<f64> = (0..d).map(|i| (part.mean[i] - centre[i]) / scale[i]).collect();
            let ln_determinant = match (shape, &part.covariance) {
                (Shape::Full, covariance) => {
                    for i in 0..d {
                        for j in i..d {
                            let entry = match covariance {
                                Some(full) => full[i * d + j],
                                None if i == j => part.spread[i] * part.spread[i],
                                None => 0.0,
                            };
                            factor[row_start(d, i) + j - i] = entry / (scale[i] * scale[j]);
                        }
                    }
                    let covariance = factor.clone();
                    let ln_determinant = cholesky::factor(d, &covariance, &mut factor)?;
                    cholesky::invert_from_factor(d, &mut factor, &mut row);
                    precision.copy_from_slice(&factor);
                    -ln_determinant
                }
                (Shape::Diagonal, _) => {
                    for i in 0..d {
                        precision[i] = (scale[i] / part.spread[i]).powi(2);
                    }
                    precision.iter().map(|entry| entry.ln()).sum()
                }
            };
            let mut pull = vec![0.0; d];
            normals.multiply(&precision, &mean, &mut pull);
            let square: f64 = pull.iter().zip(&mean).map(|(p, m)| p * m).sum();
            let constant = part.rows.ln() + 0.5 * (ln_determinant - square);
            if !(constant.is_finite() && pull.iter().chain(&precision).all(|value| value.is_finite())) {
                return None;
            }
            normals.parameters.push(constant);
            normals.parameters.extend(&pull);
            normals.push_quadratic(&precision);
            normals.means.extend(&mean);
            normals.pulls.extend(&pull);
            normals.precisions.extend(&precision);
        }
        normals.heights = normals.ln_densities(&normals.means);
        Some(normals)
    }

    /// `−½Λ`, each entry off the diagonal for both of its places.
    fn push_quadratic(&mut self, precision: &[f64]) {
        let from = self.parameters.len();
        let d = self.dimensions;
        match self.shape {
            Shape::Full => {
                self.parameters.extend(precision.iter().map(|entry| -entry));
                (0..d).for_each(|column| self.parameters[from + row_start(d, column)] *= 0.5);
            }
            Shape::Diagonal => self.parameters.extend(precision.iter().map(|entry| -0.5 * entry)),
        }
    }

    fn multiply(&self, precision: &[f64], x: &[f64], out: &mut [f64]) {
        match self.shape {
            Shape::Full => cholesky::multiply_symmetric(self.dimensions, precision, x, out),
            Shape::Diagonal => out.iter_mut().zip(precision.iter().zip(x)).for_each(|(o, (p, x))| *o = p * x),
        }
    }

    /// Columns of a point.
    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The mean of a component.
    pub(super) fn mean(&self, of: usize) -> &[f64] {
        &self.means[of * self.dimensions..][..self.dimensions]
    }

    /// Log density of the mixture at each mean.
    pub(super) fn heights(&self) -> &[f64] {
        &self.heights
    }

    /// Log density of the mixture, in units of its own, at points that follow each other.
    pub(super) fn ln_densities(&self, points: &[f64]) -> Vec<f64> {
        let k = self.parameters.len() / self.n_features();
        let mut found = Vec::with_capacity(points.len() / self.dimensions);
        let mut terms = Vec::new();
        for chunk in points.chunks(POINTS_AT_ONCE * self.dimensions) {
            self.ln_terms(chunk, &mut terms);
            found.extend(terms.chunks_exact(k).map(log_sum_exp));
        }
        found
    }

    fn n_features(&self) -> usize {
        1 + self.dimensions + self.precision_len()
    }

    fn precision_len(&self) -> usize {
        match self.shape {
            Shape::Full => packed_len(self.dimensions),
            Shape::Diagonal => self.dimensions,
        }
    }

    /// `φ_k · T(x)` for each point and component.
    fn ln_terms(&self, points: &[f64], out: &mut Vec<f64>) {
        let (d, f) = (self.dimensions, self.n_features());
        let n = points.len() / d;
        let mut features = Vec::with_capacity(n * f);
        for x in points.chunks_exact(d) {
            features.push(1.0);
            features.extend(x);
            match self.shape {
                Shape::Full => (0..d).for_each(|i| features.extend(x[i..].iter().map(|other| x[i] * other))),
                Shape::Diagonal => features.extend(x.iter().map(|value| value * value)),
            }
        }
        out.clear();
        out.resize(n * (self.parameters.len() / f), 0.0);
        rows_times_parameters(&features, &self.parameters, f, out);
    }

    /// `(Σ w_k Λ_k)⁻¹ Σ w_k Λ_k μ_k`: where the components would meet if they had these weights.
    pub(super) fn meeting(&self, weights: &[(usize, f64)], out: &mut [f64]) {
        let (d, len) = (self.dimensions, self.precision_len());
        let mut precision = vec![0.0; len];
        out.fill(0.0);
        for &(k, weight) in weights {
            add_scaled(weight, &self.precisions[k * len..][..len], &mut precision);
            add_scaled(weight, &self.pulls[k * d..][..d], out);
        }
        match self.shape {
            Shape::Diagonal => out.iter_mut().zip(&precision).for_each(|(o, p)| *o /= p),
            Shape::Full => {
                let mut factor = vec![0.0; len];
                // A weighted sum of precisions is as positive definite as they are.
                if cholesky::factor(d, &precision, &mut factor).is_some() {
                    cholesky::solve_lower(d, &factor, out);
                    cholesky::solve_upper(d, &factor, out);
                }
            }
        }
    }

    /// The components that count at a point, with their shares.
    pub(super) fn shares(&self, point: &[f64]) -> Vec<(usize, f64)> {
        self.shares_of_many(point).pop().map_or_else(Vec::new, |(_, shares)| shares)
    }

    /// Log density and [`Normals::shares`] at each of many points.
    pub(super) fn shares_of_many(&self, points: &[f64]) -> Vec<(f64, Vec<(usize, f64)>)> {
        let k = self.parameters.len() / self.n_features();
        let mut found = Vec::with_capacity(points.len() / self.dimensions);
        let mut terms = Vec::new();
        for chunk in points.chunks(POINTS_AT_ONCE * self.dimensions) {
            self.ln_terms(chunk, &mut terms);
            found.extend(terms.chunks_exact(k).map(|terms| {
                let total = log_sum_exp(terms);
                let shares = terms.iter().enumerate().filter(|(_, term)| **term - total > NEGLIGIBLE.ln());
                (total, shares.map(|(k, term)| (k, (term - total).exp())).collect())
            }));
        }
        found
    }

    /// How far two points are from each other, in standard deviations of a component.
    pub(super) fn distance(&self, of: usize, a: &[f64], b: &[f64]) -> f64 {
        let len = self.precision_len();
        let away: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        let mut product = vec![0.0; self.dimensions];
        self.multiply(&self.precisions[of * len..][..len], &away, &mut product);
        away.iter().zip(&product).map(|(a, p)| a * p).sum::<f64>().max(0.0).sqrt()
    }

    /// Gradient of the log density, and the Hessian of the density over the density, row after row.
    pub(super) fn curvature(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (d, len) = (self.dimensions, self.precision_len());
        let (mut gradient, mut hessian) = (vec![0.0; d], vec![0.0; d * d]);
        let mut slope = vec![0.0; d];
        for (k, share) in self.shares(point) {
            let precision = &self.precisions[k * len..][..len];
            let away: Vec<f64> = self.mean(k).iter().zip(point).map(|(m, x)| m - x).collect();
            self.multiply(precision, &away, &mut slope);
            add_scaled(share, &slope, &mut gradient);
            for i in 0..d {
                for j in 0..d {
                    let entry = match self.shape {
                        Shape::Full => precision[row_start(d, i.min(j)) + i.abs_diff(j)],
                        Shape::Diagonal if i == j => precision[i],
                        Shape::Diagonal => 0.0,
                    };
                    hessian[i * d + j] += share * (slope[i] * slope[j] - entry);
                }
            }
        }
        (gradient, hessian)
    }
}

fn add_scaled(scale: f64, values: &[f64], sum: &mut [f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += scale * value);
}

/// What a component is, in the units of the data.
pub(super) struct Part {
    pub(super) rows: f64,
    pub(super) mean: Vec<f64>,
    pub(super) spread: Vec<f64>,
    /// Row after row; without one, columns are independent.
    pub(super) covariance: Option<Vec<f64>>,
}
