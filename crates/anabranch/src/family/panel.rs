//! Missing values under many normal densities at once: eight components side by side.
//!
//! ```text
//! log ∫ exp(φ · T(x)) dx_M − φ · T(x_O) = c + ½ (m log 2π − log |Λ_MM|) + ½ bᵀ Λ_MM⁻¹ b,     b = l_M − Λ_MO x_O
//! Λ_MM = L D Lᵀ,   y = L⁻¹ b,   bᵀ Λ_MM⁻¹ b = Σ y²/d
//! ```
//!
//! with `l = νΨ⁻¹m` and `Λ = νΨ⁻¹` of a component. A panel holds `l`, then `Λ` row after row, each number of eight components together.

use pulp::{Arch, Simd, WithSimd};

use crate::parallel::with_buffer;

/// Components side by side.
pub(super) const LANES: usize = 8;

pub(super) type Lanes = [f64; LANES];

/// A pivot is at least this share of its diagonal entry: less is rounding.
const PIVOT_SHARE: f64 = 1e-15;

/// Products of pivots stay within these before their logarithm is taken.
const PRODUCTS: std::ops::Range<f64> = 1e-150..1e150;

/// Lays the parameters `φ` of components out in panels.
pub(super) fn fill<'a>(d: usize, components: impl ExactSizeIterator<Item = &'a [f64]>, panel: &mut Vec<f64>) {
    let len = (d + d * d) * LANES;
    panel.clear();
    panel.resize(components.len().div_ceil(LANES) * len, 0.0);
    // Components that are not there have Λ = I.
    for block in panel.chunks_exact_mut(len) {
        (0..d).for_each(|i| block[(d + i * d + i) * LANES..][..LANES].fill(1.0));
    }
    for (ix, phi) in components.enumerate() {
        let block = &mut panel[ix / LANES * len..][..len];
        let lane = ix % LANES;
        let (linear, quadratic) = phi[1..].split_at(d);
        linear.iter().enumerate().for_each(|(i, value)| block[i * LANES + lane] = *value);
        let mut at = 0;
        for i in 0..d {
            for j in i..d {
                let entry = if i == j { -2.0 * quadratic[at] } else { -quadratic[at] };
                block[(d + i * d + j) * LANES + lane] = entry;
                block[(d + j * d + i) * LANES + lane] = entry;
                at += 1;
            }
        }
    }
}

/// Makes `L` with `1/d` on its diagonal of eight symmetric matrices, all by rows, and returns their log determinants.
#[inline(always)]
pub(super) fn factor(n: usize, factor: &mut [Lanes]) -> Lanes {
    let (mut product, mut ln) = ([1.0; LANES], [0.0; LANES]);
    for a in 0..n {
        let (above, row) = factor.split_at_mut(a * (a + 1) / 2);
        // First `L D`, of which `L` is made with the pivots above.
        for b in 0..a {
            let mut value = row[b];
            let other = &above[b * (b + 1) / 2..];
            for c in 0..b {
                subtract(&mut value, &row[c], &other[c]);
            }
            row[b] = value;
        }
        let diagonal = row[a];
        let mut pivot = diagonal;
        for b in 0..a {
            let inverse = above[b * (b + 1) / 2 + b];
            let mut entry = row[b];
            for l in 0..LANES {
                entry[l] *= inverse[l];
                pivot[l] -= entry[l] * row[b][l];
            }
            row[b] = entry;
        }
        for l in 0..LANES {
            pivot[l] = pivot[l].max(PIVOT_SHARE * diagonal[l]);
            product[l] *= pivot[l];
            row[a][l] = 1.0 / pivot[l];
        }
        if product.iter().any(|product| !PRODUCTS.contains(product)) {
            for l in 0..LANES {
                ln[l] += product[l].ln();
                product[l] = 1.0;
            }
        }
    }
    for l in 0..LANES {
        ln[l] += product[l].ln();
    }
    ln
}

#[inline(always)]
pub(super) fn subtract(value: &mut Lanes, a: &Lanes, b: &Lanes) {
    for l in 0..LANES {
        value[l] -= a[l] * b[l];
    }
}

/// Adds the integral over the missing columns to the scores of each component, for rows with zeros there.
pub(super) fn add(
    (d, panel): (usize, &[f64]),
    (missing, constant): (&[usize], f64),
    features: &[&[f64]],
    scores: &mut [f64],
) {
    let m = missing.len();
    // Memory is taken out here: what runs inside of another function's closure has none of the machine's wide registers.
    with_buffer((m * (m + 1) / 2 + m) * LANES, |buffer| {
        let (y, lower) = buffer.as_chunks_mut::<LANES>().0.split_at_mut(m);
        Arch::new().dispatch(Add { d, panel, missing, constant, features, scores, y, lower });
    });
}

struct Add<'a> {
    d: usize,
    panel: &'a [f64],
    missing: &'a [usize],
    constant: f64,
    features: &'a [&'a [f64]],
    scores: &'a mut [f64],
    y: &'a mut [Lanes],
    lower: &'a mut [Lanes],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { d, panel, missing, constant, features, scores, y, lower } = self;
        let (k, m) = (scores.len() / features.len(), missing.len());
        let panel = panel.as_chunks::<LANES>().0;
        for (block, first) in panel.chunks_exact(d + d * d).zip((0..).step_by(LANES)) {
            let precision = &block[d..];
            let mut at = 0;
            for (a, i) in missing.iter().enumerate() {
                for j in &missing[..=a] {
                    lower[at] = precision[i * d + j];
                    at += 1;
                }
            }
            let ln_determinant = factor(m, lower);
            for (x, scores) in features.iter().zip(scores.chunks_exact_mut(k)) {
                let mut sum = [0.0; LANES];
                for (a, i) in missing.iter().enumerate() {
                    let mut value = block[*i];
                    for (x, entry) in x[1..=d].iter().zip(&precision[i * d..(i + 1) * d]) {
                        for l in 0..LANES {
                            value[l] -= entry[l] * x;
                        }
                    }
                    let row = &lower[a * (a + 1) / 2..];
                    for c in 0..a {
                        subtract(&mut value, &row[c], &y[c]);
                    }
                    for l in 0..LANES {
                        sum[l] += value[l] * value[l] * row[a][l];
                    }
                    y[a] = value;
                }
                for (l, score) in scores[first..].iter_mut().take(LANES).enumerate() {
                    *score += constant + 0.5 * (sum[l] - ln_determinant[l]);
                }
            }
        }
    }
}
