//! The mixture of normals that the level sets are taken of: each component with the mean and covariance that are expected of
//! it, weighed by its rows.
//!
//! ```text
//! log t_k N(x | μ_k, Λ_k⁻¹) = φ_k · T(x),     T(x) = (1, x, upper triangle of xxᵀ)    or (1, x, x²) without correlations
//! ```
//!
//! Products in single precision rule out what does not count at a point, and the rest is computed. Columns are centred and
//! scaled, which moves all densities alike.

use pulp::{Arch, Simd, WithSimd};

use crate::family::{Envelope, Family};
use crate::math::cholesky::{self, packed_len, row_start};
use crate::math::product::dot;
use crate::posterior::Posterior;
use crate::posterior::envelope::{Envelopes, Member, TOGETHER, first_of_largest};
use crate::process::Process;

/// Components that count for less than this at a point, in logarithms, are left out.
const NEGLIGIBLE: f64 = -18.0;
/// Points that are looked at at once.
const POINTS_AT_ONCE: usize = 48;

/// How the columns of a component go together.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Full,
    Diagonal,
}

/// A component and its share of the density at a point.
pub(super) type Share = (usize, f64);

/// A mixture of normals in coordinates of its own.
#[derive(Debug)]
pub(super) struct Normals {
    shape: Shape,
    dimensions: usize,
    /// Means, one after another.
    means: Vec<f64>,
    /// Packed precisions, or their diagonals.
    precisions: Vec<f64>,
    /// `Λμ`.
    pulls: Vec<f64>,
    /// `log |Λ|`.
    ln_determinants: Vec<f64>,
    /// `φ`.
    parameters: Vec<f64>,
    /// Bounds on the densities of all.
    envelopes: Envelopes,
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
            ln_determinants: Vec::with_capacity(parts.len()),
            parameters: Vec::with_capacity(parts.len() * (1 + d + len)),
            envelopes: Envelopes::default(),
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
            normals.ln_determinants.push(ln_determinant);
            normals.precisions.extend(&precision);
        }
        normals.envelopes = normals.bounds();
        let mut heights = Vec::with_capacity(parts.len());
        normals.look(&normals.means, |_, height, _| heights.push(height));
        normals.heights = heights;
        Some(normals)
    }

    fn bounds(&self) -> Envelopes {
        let f = self.n_features();
        let mut theta: Vec<f64> = self.parameters.iter().map(|value| -value).collect();
        theta.iter_mut().step_by(f).for_each(|constant| *constant = 0.0);
        let members = theta.chunks_exact(f).zip(self.parameters.chunks_exact(f)).map(|(theta, phi)| Member {
            theta,
            envelope: Envelope { constant: phi[0], half_power: f64::INFINITY, rounding: 0.0, tight: true },
            ln_weight: 0.0,
        });
        Envelopes::new(f, members)
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

    /// For each component the narrower ones whose means lie among its rows: the squared distance, in its standard deviations, is at
    /// most two standard deviations above that of its own rows, `d + 2√(2d)`.
    pub(super) fn holds(&self) -> Vec<Vec<usize>> {
        let d = self.dimensions as f64;
        let farthest = (d + 2.0 * (2.0 * d).sqrt()).sqrt();
        let is_wider = |wide: usize, than: usize| self.ln_determinants[wide] < self.ln_determinants[than];
        let mut holds = vec![Vec::new(); self.heights.len()];
        self.look(&self.means, |at, _, shares| {
            for (wide, _) in shares {
                let distance = || self.distance(*wide, self.mean(*wide), self.mean(at));
                if is_wider(*wide, at) && distance() < farthest {
                    holds[*wide].push(at);
                }
            }
        });
        holds
    }

    /// Shows the log density, in units of its own, and the shares of the components that count at points that follow each
    /// other, with the place of each point.
    pub(super) fn look(&self, points: &[f64], mut each: impl FnMut(usize, f64, &[Share])) {
        let (d, f, padded) = (self.dimensions, self.n_features(), self.envelopes.padded());
        let mut features = Vec::new();
        let (mut scratch, mut bounds) = (Vec::new(), Vec::new());
        let mut shares = Vec::new();
        for (block, points) in points.chunks(POINTS_AT_ONCE * d).enumerate() {
            let n = points.len() / d;
            self.write_features(points, &mut features);
            scratch.resize(self.envelopes.scratch_len(n), 0.0);
            bounds.resize(n * padded, 0.0);
            self.envelopes.bound(&features, &mut scratch, &mut bounds);
            for (ix, (features, bounds)) in
                features.chunks_exact(f).zip(bounds.chunks_exact(padded)).enumerate()
            {
                let height =
                    Arch::new().dispatch(Decide { normals: self, features, bounds, shares: &mut shares });
                each(block * POINTS_AT_ONCE + ix, height, &shares);
            }
        }
    }

    /// The same of a single point.
    pub(super) fn look_at(&self, point: &[f64]) -> (f64, Vec<Share>) {
        let mut seen = (f64::NEG_INFINITY, Vec::new());
        self.look(point, |_, height, shares| seen = (height, shares.to_vec()));
        seen
    }

    fn write_features(&self, points: &[f64], features: &mut Vec<f64>) {
        let d = self.dimensions;
        features.clear();
        for x in points.chunks_exact(d) {
            features.push(1.0);
            features.extend(x);
            match self.shape {
                Shape::Full => (0..d).for_each(|i| features.extend(x[i..].iter().map(|other| x[i] * other))),
                Shape::Diagonal => features.extend(x.iter().map(|value| value * value)),
            }
        }
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

    /// How far two points are from each other, in standard deviations of a component.
    pub(super) fn distance(&self, of: usize, a: &[f64], b: &[f64]) -> f64 {
        let len = self.precision_len();
        let away: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        let mut product = vec![0.0; self.dimensions];
        self.multiply(&self.precisions[of * len..][..len], &away, &mut product);
        away.iter().zip(&product).map(|(a, p)| a * p).sum::<f64>().max(0.0).sqrt()
    }

    /// Gradient and, row after row, Hessian of the log density at a point with these shares.
    pub(super) fn curvature(&self, point: &[f64], shares: &[Share]) -> (Vec<f64>, Vec<f64>) {
        let (d, len) = (self.dimensions, self.precision_len());
        let (mut gradient, mut hessian) = (vec![0.0; d], vec![0.0; d * d]);
        let (mut slope, mut away) = (vec![0.0; d], vec![0.0; d]);
        let mut mixed = vec![0.0; len];
        for (k, share) in shares {
            let precision = &self.precisions[k * len..][..len];
            away.iter_mut().zip(self.mean(*k).iter().zip(point)).for_each(|(a, (m, x))| *a = m - x);
            self.multiply(precision, &away, &mut slope);
            add_scaled(*share, &slope, &mut gradient);
            add_scaled(*share, precision, &mut mixed);
            for i in 0..d {
                add_scaled(share * slope[i], &slope[i..], &mut hessian[i * d + i..][..d - i]);
            }
        }
        for i in 0..d {
            for j in i..d {
                let entry = match self.shape {
                    Shape::Full => mixed[row_start(d, i) + j - i],
                    Shape::Diagonal if i == j => mixed[i],
                    Shape::Diagonal => 0.0,
                };
                hessian[i * d + j] -= entry + gradient[i] * gradient[j];
                hessian[j * d + i] = hessian[i * d + j];
            }
        }
        (gradient, hessian)
    }
}

/// Computes what the bounds do not rule out: the shares of the components that count, and the log density.
struct Decide<'a> {
    normals: &'a Normals,
    features: &'a [f64],
    bounds: &'a [f32],
    shares: &'a mut Vec<Share>,
}

impl WithSimd for Decide<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { normals, features, bounds, shares } = self;
        let (f, k) = (features.len(), normals.parameters.len() / features.len());
        let first = first_of_largest(&bounds[..k]);
        let mut best = dot(simd, &normals.parameters[first * f..][..f], features);
        shares.clear();
        shares.push((first, best));
        for (group, bounds) in bounds.as_chunks::<TOGETHER>().0.iter().enumerate() {
            let cut = (best + NEGLIGIBLE) as f32;
            if bounds.iter().fold(true, |none, bound| none & (*bound < cut)) {
                continue;
            }
            for (ix, bound) in bounds.iter().enumerate() {
                let ix = group * TOGETHER + ix;
                // What is not a number rules nothing out.
                if *bound < cut || ix == first || ix >= k {
                    continue;
                }
                let term = dot(simd, &normals.parameters[ix * f..][..f], features);
                shares.push((ix, term));
                best = best.max(term);
            }
        }
        shares.retain(|(_, term)| *term > best + NEGLIGIBLE);
        let mut sum = 0.0;
        for (_, term) in shares.iter_mut() {
            *term = (*term - best).exp();
            sum += *term;
        }
        shares.iter_mut().for_each(|(_, share)| *share /= sum);
        best + sum.ln()
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
