//! Births: rows that the posterior explains badly seed new components, far from each other.
//!
//! ```text
//! p_new(x) = α·p(x | prior) / ( α·p(x | prior) + Σ_k m_k p(x | component k) )
//! ```
//!
//! Rows above the threshold are *novel*; so are the rows of a minibatch that surprises which are explained worse than
//! usual. Seeds are drawn among them as in k-means++: the first at random, each further one with probability proportional
//! to its squared distance to the seeds so far. Seeding on all rows instead would reopen known clusters.

use pulp::{Arch, Simd, WithSimd};
use rand::{Rng, RngExt};

use super::ascent::Ascent;
use super::nearest::Nearest;
use super::{Precision, Settings, surprise};
use crate::batch::Batch;
use crate::family::Family;
use crate::math::draw::draw_from_blocks;
use crate::math::product::squared_distance;
use crate::parallel;
use crate::process::Process;

/// Known components whose exact density is asked before a row counts as novel: those that its row of the E-step prefers.
const CLOSEST: usize = 4;

/// Rows that are looked at at a time.
const ROWS: usize = 1024;

/// Rows for each seed where the stream has changed: the prior that other components led to makes that enough.
const ROWS_PER_SEED: usize = 16;

/// Steps of k-means that let the seeds settle.
const LLOYD_STEPS: usize = 10;

/// A row that seeds or joins a new component.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NovelRow {
    /// Row of the batch.
    pub(super) row: usize,
    /// Probability that the row belongs to no known component.
    pub(super) probability: f64,
    /// The new component with the nearest seed.
    pub(super) component: usize,
}

/// The components that a minibatch proposes to open.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Births {
    pub(super) novel: Vec<NovelRow>,
    pub(super) n_components: usize,
}

/// Finds the novel rows and seeds components on them, given an ascent that has assigned the rows to known components.
pub(super) fn propose<F: Family, P: Process>(
    ascent: &Ascent<'_, F, P>,
    settings: &Settings,
    rng: &mut impl Rng,
) -> Births {
    let batch = ascent.batch();
    // Without a known component that takes rows (none, or only emptied ones) every row needs a new one.
    let must_open = ascent.ln_explained().iter().all(|ln_explained| *ln_explained == f64::NEG_INFINITY);
    let max_new = if must_open { settings.max_new.max(1) } else { settings.max_new };
    if max_new == 0 {
        return Births::default();
    }
    let certain = |row| NovelRow { row, probability: 1.0, component: 0 };
    let (mut novel, max_new): (Vec<NovelRow>, usize) = if must_open {
        ((0..batch.n_rows()).map(certain).collect(), max_new)
    } else if let Some(rows) = settings.surprise.then(|| surprise::unfamiliar_rows(ascent)).flatten() {
        let seeds = rows.len().div_ceil(ROWS_PER_SEED).min(max_new);
        (rows.into_iter().map(certain).collect(), seeds)
    } else {
        (novel_rows(ascent, settings.birth_threshold), max_new)
    };
    let n_components = seed(ascent.posterior().family(), batch, &mut novel, max_new, settings.precision, rng);
    Births { novel, n_components }
}

fn novel_rows<F: Family, P: Process>(ascent: &Ascent<'_, F, P>, threshold: f64) -> Vec<NovelRow> {
    let (posterior, family) = (ascent.posterior(), ascent.posterior().family());
    let prior = family.predictive(&vec![0.0; family.n_features()]);
    let labels = posterior.components().iter().map(|c| &c.evidence().labels);
    let ln_new_mass = posterior.process().new_mass(labels).ln();
    let probability = |ln_new: f64, ln_explained: f64| 1.0 / (1.0 + (ln_explained - ln_new).exp());
    let mut novel = Vec::new();
    for (row, (x, ln_explained)) in ascent.batch().rows().zip(ascent.ln_explained()).enumerate() {
        let ln_new = ln_new_mass + prior.ln_density(x);
        // The expected log-likelihood lies below the log of the expected likelihood: a row that it explains is explained.
        if probability(ln_new, ln_explained + family.ln_base(x)) <= threshold {
            continue;
        }
        let probability = probability(ln_new, ascent.ln_density_of_known(row, CLOSEST));
        if probability > threshold {
            novel.push(NovelRow { row, probability, component: 0 });
        }
    }
    novel
}

/// Draws up to `max_new` seeds, lets them settle, and joins every novel row to its nearest one. Returns their number.
fn seed<F: Family>(
    family: &F,
    batch: &Batch,
    novel: &mut [NovelRow],
    max_new: usize,
    precision: Precision,
    rng: &mut impl Rng,
) -> usize {
    if novel.is_empty() {
        return 0;
    }
    let m = family.embedding_len();
    let mut points = vec![0.0; novel.len() * m];
    parallel::each(novel.iter().zip(points.chunks_exact_mut(m)), ROWS, |(row, point)| {
        family.embed(batch.row(row.row), point);
    });
    let mut centres = draw_seeds(&points, m, max_new, rng);
    let mut nearest = Nearest::new(&points, m, precision);
    for _ in 0..LLOYD_STEPS {
        move_to_means(&points, nearest.join(&centres), m, &mut centres);
    }
    let nearest = nearest.join(&centres);
    novel.iter_mut().zip(nearest).for_each(|(row, centre)| row.component = *centre);
    centres.len() / m
}

/// k-means++: each further seed with probability proportional to its squared distance to the seeds so far.
fn draw_seeds(points: &[f64], m: usize, max_new: usize, rng: &mut impl Rng) -> Vec<f64> {
    let n = points.len() / m;
    let mut distance = vec![f64::INFINITY; n];
    let mut sums = vec![0.0; n.div_ceil(ROWS)];
    let mut centres = Vec::new();
    let mut next = rng.random_range(0..n);
    for _ in 0..max_new.min(n) {
        let seed = &points[next * m..(next + 1) * m];
        centres.extend_from_slice(seed);
        let blocks = points.chunks(ROWS * m).zip(distance.chunks_mut(ROWS)).zip(&mut sums);
        parallel::each(blocks, 2, |((points, distance), sum)| {
            Arch::new().dispatch(Nearer { points, seed, distance });
            *sum = distance.iter().sum();
        });
        match draw_from_blocks(&distance, &sums, ROWS, rng) {
            Some(ix) => next = ix,
            None => break,
        }
    }
    centres
}

/// Lowers each point's squared distance to the nearest seed to that of one more seed.
struct Nearer<'a> {
    points: &'a [f64],
    seed: &'a [f64],
    distance: &'a mut [f64],
}

impl WithSimd for Nearer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (point, nearest) in self.points.chunks_exact(self.seed.len()).zip(self.distance) {
            *nearest = nearest.min(squared_distance(simd, point, self.seed));
        }
    }
}

fn move_to_means(points: &[f64], nearest: &[usize], m: usize, centres: &mut [f64]) {
    let mut counts = vec![0.0; centres.len() / m];
    let mut sums = vec![0.0; centres.len()];
    for (point, centre) in points.chunks_exact(m).zip(nearest) {
        counts[*centre] += 1.0;
        sums[centre * m..(centre + 1) * m].iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
    }
    for (ix, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        let mean = sums[ix * m..(ix + 1) * m].iter().map(|sum| sum / count);
        centres[ix * m..(ix + 1) * m].iter_mut().zip(mean).for_each(|(centre, mean)| *centre = mean);
    }
}
