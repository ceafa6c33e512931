//! Many components: those that a row cannot belong to are passed over by a safe bound on their scores.
//!
//! A family may bound `φ_k · T(x)` from above with far fewer features. Where a bound lies below what is left of the row's
//! best score after [`LN_NEGLIGIBLE`], the label would be 0 anyway: its score is never computed. All others are computed
//! exactly, so that the labels are those of the full E-step.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd};

use super::labels::Labels;
use crate::family::Family;
use crate::math::product::{dot, rows_times_parameters};
use crate::math::softmax::{LN_NEGLIGIBLE, max_of};
use crate::posterior::Component;

/// Fewer components are all looked at: the product of all scores is fast.
const WORTHWHILE: usize = 400;
/// Bounds that are held at a time.
const BOUNDS: usize = 1 << 20;
/// Where more than this share of the scores must be computed one by one, all of them at once are faster.
const MOST_COMPUTED: f64 = 1.0 / 16.0;
/// Components and rows that tell whether bounds will do.
const ASKED: usize = 50;
const ASKING: usize = 8;
/// Bounds and scores are sums of hundreds of terms in different orders: this much is far more than they round.
const ROUNDING: f64 = 1e-3;

/// Memory of the bounds.
#[derive(Debug, Default)]
pub(super) struct Screen {
    parameters: Vec<f64>,
    features: Vec<f64>,
    bounds: Vec<f64>,
}

/// The components that rows may belong to.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// The components of the posterior …
    pub(super) components: &'a [Arc<Component>],
    /// … the places of those in question among them …
    pub(super) places: &'a [usize],
    /// … and the logarithm of the weight of each of those.
    pub(super) ln_weights: &'a [f64],
}

impl<'a> Known<'a> {
    fn len(self) -> usize {
        self.places.len()
    }

    fn component(self, ix: usize) -> &'a Component {
        &self.components[self.places[ix]]
    }
}

impl Screen {
    /// Whether bounds are worth a try for so many components.
    pub(super) fn suits<F: Family>(k: usize, family: &F) -> bool {
        k >= WORTHWHILE && family.screen_len() > 0
    }

    /// The E-step over known components. False, and no labels, when looking at all of them is faster.
    pub(super) fn assign<F: Family>(
        &mut self,
        labels: &mut Labels,
        features: &[f64],
        known: Known<'_>,
        family: &F,
    ) -> bool {
        let (k, f, screen_len) = (known.len(), family.n_features(), family.screen_len());
        if !Self::suits(k, family) || !self.promises(features, known, family) {
            return false;
        }
        self.parameters.clear();
        (0..k).for_each(|ix| self.prepare(known, ix, family));
        labels.clear(features.len() / f);
        let at_a_time = (BOUNDS / k).clamp(32, 512);
        for (piece, rows) in features.chunks(at_a_time * f).enumerate() {
            let n = rows.len() / f;
            self.features.resize(n * screen_len, 0.0);
            for (row, out) in rows.chunks_exact(f).zip(self.features.chunks_exact_mut(screen_len)) {
                family.screen_features(row, out);
            }
            self.bounds.resize(n * k, 0.0);
            rows_times_parameters(&self.features, &self.parameters, screen_len, &mut self.bounds);
            let bounds = &mut self.bounds;
            let computed = Arch::new().dispatch(Refine {
                labels,
                bounds,
                rows,
                first: piece * at_a_time,
                known,
                family,
            });
            if computed as f64 > MOST_COMPUTED * (n * k) as f64 {
                return false;
            }
        }
        true
    }

    /// Whether the bounds are likely to rule most components out, judged by a few of both: preparing them all costs more
    /// than the scores that they save where clusters overlap.
    fn promises<F: Family>(&mut self, features: &[f64], known: Known<'_>, family: &F) -> bool {
        let (f, screen_len) = (family.n_features(), family.screen_len());
        self.parameters.clear();
        (0..known.len()).step_by(known.len() / ASKED).for_each(|ix| self.prepare(known, ix, family));
        let asked = self.parameters.chunks_exact(screen_len);
        let n_rows = features.len() / f;
        self.features.resize(screen_len, 0.0);
        let (mut needed, mut rows) = (0, 0);
        for row in (0..n_rows).step_by(n_rows.div_ceil(ASKING)) {
            let x = &features[row * f..(row + 1) * f];
            let cut = Arch::new().dispatch(Best { x, known, family }) + LN_NEGLIGIBLE;
            family.screen_features(x, &mut self.features);
            let bound = |parameters: &[f64]| -> f64 {
                parameters.iter().zip(&self.features).map(|(a, b)| a * b).sum()
            };
            needed += asked.clone().filter(|parameters| bound(parameters) >= cut).count();
            rows += 1;
        }
        needed as f64 <= MOST_COMPUTED * (rows * asked.len()) as f64
    }

    /// Adds the parameters of the bound of one component, with its weight.
    fn prepare<F: Family>(&mut self, known: Known<'_>, ix: usize, family: &F) {
        let first = self.parameters.len();
        self.parameters.extend_from_slice(known.component(ix).screen(family));
        // The first feature is 1.
        self.parameters[first] += known.ln_weights[ix];
    }
}

/// The best score of a row.
struct Best<'a, F> {
    x: &'a [f64],
    known: Known<'a>,
    family: &'a F,
}

impl<F: Family> WithSimd for Best<'_, F> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let mut best = f64::NEG_INFINITY;
        for ix in 0..self.known.len() {
            best = best.max(score(simd, self.x, self.known, ix, self.family));
        }
        best
    }
}

/// Turns the bounds of some rows into scores where they matter, and chooses the labels. Returns how many scores that were.
struct Refine<'a, F> {
    labels: &'a mut Labels,
    bounds: &'a mut [f64],
    rows: &'a [f64],
    /// The first of these rows.
    first: usize,
    known: Known<'a>,
    family: &'a F,
}

impl<F: Family> WithSimd for Refine<'_, F> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let Self { labels, bounds, rows, first, known, family } = self;
        let (f, k) = (family.n_features(), known.len());
        let mut computed = 0;
        for (ix, (x, bounds)) in rows.chunks_exact(f).zip(bounds.chunks_exact_mut(k)).enumerate() {
            let highest = max_of(bounds);
            let best = bounds.iter().position(|bound| *bound == highest).unwrap_or(0);
            let mut cut = score(simd, x, known, best, family) + LN_NEGLIGIBLE - ROUNDING;
            for (ix, bound) in bounds.iter_mut().enumerate() {
                if *bound < cut {
                    *bound = f64::NEG_INFINITY;
                    continue;
                }
                *bound = score(simd, x, known, ix, family);
                cut = cut.max(*bound + LN_NEGLIGIBLE - ROUNDING);
                computed += 1;
            }
            labels.choose(first + ix, bounds, LN_NEGLIGIBLE);
        }
        computed
    }
}

/// The exact score of a row. A function, because a closure here would not be compiled for the registers of the machine.
#[inline(always)]
fn score<S: Simd, F: Family>(simd: S, x: &[f64], known: Known<'_>, ix: usize, family: &F) -> f64 {
    dot(simd, x, &known.component(ix).expectation(family).phi) + known.ln_weights[ix]
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::batch::Batch;
    use crate::family::{Conjugate, Gaussian};
    use crate::identify::ComponentId;
    use crate::infer::Precision;
    use crate::infer::narrow::Scored;
    use crate::posterior::Evidence;

    const D: usize = 10;

    /// Clusters whose centres lie within `spread`, twenty rows each, and rows from some of them.
    fn clusters(k: usize, spread: f64) -> (Gaussian, Vec<Arc<Component>>, Vec<f64>) {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(5);
        let centres: Vec<f64> = (0..k * D).map(|_| rng.random_range(-spread..spread)).collect();
        let mut row = |cluster: usize| -> Vec<f64> {
            let noise = (0..D).map(|_| -> f64 { StandardNormal.sample(rng) });
            centres[cluster * D..(cluster + 1) * D].iter().zip(noise).map(|(c, e)| c + e).collect()
        };
        let rows: Vec<f64> = (0..300).flat_map(|ix| row(ix * 7 % k)).collect();
        let family = Gaussian::from_rows(&Batch::new(D, rows.clone()).unwrap()).unwrap();
        let mut features = vec![0.0; family.n_features()];
        let components = (0..k).map(|cluster| {
            let mut evidence = Evidence::empty(family.n_features());
            for _ in 0..20 {
                family.features(&row(cluster), &mut features);
                evidence.stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
                evidence.labels.observe(0.99, 1.0);
            }
            Arc::new(Component::new(ComponentId(cluster as u64), 1, evidence))
        });
        let components = components.collect();
        let of_rows = rows.chunks_exact(D).flat_map(|row| {
            family.features(row, &mut features);
            features.clone()
        });
        let of_rows = of_rows.collect();
        (family, components, of_rows)
    }

    #[test]
    fn labels_are_those_of_the_full_step() {
        let (family, components, features) = clusters(600, 30.0);
        let f = family.n_features();
        let ln_weights: Vec<f64> = (0..600).map(|ix| -f64::from(ix) * 0.01).collect();
        let places: Vec<usize> = (0..600).collect();
        let known = Known { components: &components, places: &places, ln_weights: &ln_weights };
        let mut screened = Labels::default();
        assert!(Screen::default().assign(&mut screened, &features, known, &family), "few scores are needed");
        let mut all = Labels::default();
        let phi: Vec<f64> = components.iter().flat_map(|c| c.expectation(&family).phi.clone()).collect();
        let scored = Scored { features: &features, phi: &phi, ln_weights: &ln_weights, n_features: f };
        all.assign(scored, Precision::Double);
        for row in 0..300 {
            let mut found: Vec<_> = screened.row(row).collect();
            let mut expected: Vec<_> = all.row(row).collect();
            found.sort_by_key(|(ix, _)| *ix);
            expected.sort_by_key(|(ix, _)| *ix);
            assert_eq!(found.len(), expected.len());
            for (a, b) in found.iter().zip(&expected) {
                assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-9, "row {row}: {a:?} {b:?}");
            }
            assert!((screened.ln_totals()[row] - all.ln_totals()[row]).abs() < 1e-9);
        }
    }

    #[test]
    fn where_everything_overlaps_nothing_is_saved() {
        let (family, components, features) = clusters(600, 0.5);
        let places: Vec<usize> = (0..600).collect();
        let known = Known { components: &components, places: &places, ln_weights: &[0.0; 600] };
        assert!(!Screen::default().assign(&mut Labels::default(), &features, known, &family));
    }
}
