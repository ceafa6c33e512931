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
use super::look::PIECE_ROWS;
use super::nearest::Nearest;
use super::{Precision, Settings, Workspace, surprise};
use crate::batch::Batch;
use crate::family::Family;
use crate::math::draw::draw_from_blocks;
use crate::math::product::squared_distance;
use crate::parallel;
use crate::posterior::Posterior;
use crate::process::Process;

/// Known components whose exact density is asked before a row counts as novel: those that its row of the E-step prefers.
const CLOSEST: usize = 4;

/// Rows that are looked at at a time.
const ROWS: usize = 1024;

/// Rows that are embedded at a time.
const EMBEDDED: usize = 256;

/// Twice the distance, squared; and more than squared distances round.
const TWICE_AS_FAR: f64 = 4.0 + 1e-6;

/// Centres whose means are worth a thread's look at all points.
const LEAST_CENTRES: usize = 8;

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
    let (mut novel, max_new): (Vec<NovelRow>, usize) = if must_open {
        ((0..batch.n_rows()).map(certain).collect(), max_new)
    } else if let Some(rows) = settings.surprise.then(|| surprise::unfamiliar_rows(ascent)).flatten() {
        let seeds = rows.len().div_ceil(ROWS_PER_SEED).min(max_new);
        (rows.into_iter().map(certain).collect(), seeds)
    } else {
        (novel_rows(ascent, settings.birth_threshold), max_new)
    };
    let family = ascent.posterior().family();
    let n_components =
        Seeds::draw(family, batch, &novel, &[], max_new, rng).settle(&mut novel, settings.precision);
    Births { novel, n_components }
}

/// A row that no known component explains.
fn certain(row: usize) -> NovelRow {
    NovelRow { row, probability: 1.0, component: 0 }
}

/// Seeds for rows that no component explains, where there is none yet: these rows first.
pub(super) fn draw_for_all<F: Family>(
    family: &F,
    batch: &Batch,
    first: &[usize],
    seeds: usize,
    rng: &mut impl Rng,
) -> Seeds {
    let rows: Vec<NovelRow> = (0..batch.n_rows()).map(certain).collect();
    Seeds::draw(family, batch, &rows, first, seeds.max(1), rng)
}

/// The births of all rows around these seeds.
pub(super) fn births_of_all(seeds: Seeds, precision: Precision) -> Births {
    let mut novel: Vec<NovelRow> = (0..seeds.n_points()).map(certain).collect();
    let n_components = seeds.settle(&mut novel, precision);
    Births { novel, n_components }
}

/// The rows that no component of this posterior explains, in order.
pub(super) fn novel_among<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    rows: &Batch,
    settings: &Settings,
    workspace: &mut Workspace,
) -> Vec<usize> {
    let mut novel = Vec::new();
    for (piece, batch) in rows.pieces(PIECE_ROWS).enumerate() {
        let ascent = Ascent::start(posterior, &batch, settings.precision, workspace);
        let found = novel_rows(&ascent, settings.birth_threshold);
        novel.extend(found.iter().map(|novel| piece * PIECE_ROWS + novel.row));
    }
    novel
}

fn novel_rows<F: Family, P: Process>(ascent: &Ascent<'_, F, P>, threshold: f64) -> Vec<NovelRow> {
    let (posterior, family) = (ascent.posterior(), ascent.posterior().family());
    let prior = posterior.nothing().predictive(family);
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

/// Points with the seeds that were drawn among them: all that is random about births.
pub(super) struct Seeds {
    points: Vec<f64>,
    centres: Vec<f64>,
    /// Coordinates of a point.
    m: usize,
}

impl Seeds {
    /// Draws up to `max_new` seeds among the novel rows: these of them first.
    fn draw<F: Family>(
        family: &F,
        batch: &Batch,
        novel: &[NovelRow],
        first: &[usize],
        max_new: usize,
        rng: &mut impl Rng,
    ) -> Self {
        let m = family.embedding_len();
        let mut points = vec![0.0; novel.len() * m];
        let rows = novel.chunks(EMBEDDED).zip(points.chunks_mut(EMBEDDED * m));
        parallel::each(rows, 1, |(rows, points)| {
            for (row, point) in rows.iter().zip(points.chunks_exact_mut(m)) {
                family.embed(batch.row(row.row), point);
            }
        });
        let centres = if novel.is_empty() { Vec::new() } else { draw_seeds(&points, m, first, max_new, rng) };
        Self { points, centres, m }
    }

    fn n_points(&self) -> usize {
        self.points.len() / self.m
    }

    /// Lets the seeds settle and joins every novel row to its nearest one. Returns their number.
    fn settle(self, novel: &mut [NovelRow], precision: Precision) -> usize {
        let Self { points, mut centres, m } = self;
        if centres.is_empty() {
            return 0;
        }
        let mut nearest = Nearest::new(&points, m, precision);
        let mut joined = nearest.join(&centres).to_vec();
        for _ in 0..LLOYD_STEPS {
            move_to_means(&points, &joined, m, &mut centres);
            let now = nearest.join(&centres);
            // The same rows have the same means, for ever.
            if now == joined {
                break;
            }
            joined.copy_from_slice(now);
        }
        novel.iter_mut().zip(&joined).for_each(|(row, centre)| row.component = *centre);
        centres.len() / m
    }
}

/// k-means++: each further seed with probability proportional to its squared distance to the seeds so far.
fn draw_seeds(points: &[f64], m: usize, first: &[usize], max_new: usize, rng: &mut impl Rng) -> Vec<f64> {
    let n = points.len() / m;
    let mut distance = vec![f64::INFINITY; n];
    let mut nearest = vec![0; n];
    let mut sums = vec![0.0; n.div_ceil(ROWS)];
    let (mut centres, mut gaps) = (Vec::new(), Vec::new());
    let mut next = first.first().copied().unwrap_or_else(|| rng.random_range(0..n));
    for ix in 0..max_new.min(n) {
        let seed = &points[next * m..(next + 1) * m];
        centres.extend_from_slice(seed);
        gaps.resize(ix + 1, 0.0);
        Arch::new().dispatch(Gaps { centres: &centres, seed, gaps: &mut gaps });
        let rows = distance.chunks_mut(ROWS).zip(nearest.chunks_mut(ROWS));
        let blocks = points.chunks(ROWS * m).zip(rows).zip(&mut sums);
        parallel::each(blocks, 2, |((points, (distance, nearest)), sum)| {
            if Arch::new().dispatch(Nearer { points, seed, gaps: &gaps, distance, nearest }) {
                *sum = distance.iter().sum();
            }
        });
        if let Some(given) = first.get(ix + 1) {
            next = *given;
            continue;
        }
        match draw_from_blocks(&distance, &sums, ROWS, rng) {
            Some(ix) => next = ix,
            None => break,
        }
    }
    centres
}

/// The squared distance of each centre to the newest seed.
struct Gaps<'a> {
    centres: &'a [f64],
    seed: &'a [f64],
    gaps: &'a mut [f64],
}

impl WithSimd for Gaps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (centre, gap) in self.centres.chunks_exact(self.seed.len()).zip(self.gaps) {
            *gap = squared_distance(simd, centre, self.seed);
        }
    }
}

/// Lowers each point's squared distance to the nearest seed to that of one more seed; false when none is lowered.
struct Nearer<'a> {
    points: &'a [f64],
    seed: &'a [f64],
    /// Squared distances from the new seed to all of them, which is the last.
    gaps: &'a [f64],
    distance: &'a mut [f64],
    nearest: &'a mut [u32],
}

impl WithSimd for Nearer<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let Self { points, seed, gaps, distance, nearest } = self;
        let mut lowered = false;
        let known = distance.iter_mut().zip(nearest);
        for (point, (distance, nearest)) in points.chunks_exact(seed.len()).zip(known) {
            // A seed twice as far from the point's seed as the point itself is no nearer to the point.
            if gaps[*nearest as usize] >= TWICE_AS_FAR * *distance {
                continue;
            }
            let found = squared_distance(simd, point, seed);
            if found < *distance {
                (*distance, *nearest, lowered) = (found, gaps.len() as u32 - 1, true);
            }
        }
        lowered
    }
}

/// Moves each centre to the mean of the points that are nearest to it; one without any stays.
fn move_to_means(points: &[f64], nearest: &[usize], m: usize, centres: &mut [f64]) {
    // Threads share the centres, not the points: a sum has the same terms in the same order on any number of them.
    let at_a_time = (centres.len() / m).div_ceil(parallel::pieces()).max(LEAST_CENTRES);
    parallel::each(centres.chunks_mut(at_a_time * m).enumerate(), 1, |(piece, centres)| {
        let (first, k) = (piece * at_a_time, centres.len() / m);
        parallel::with_buffer(k * (m + 1), |buffer| {
            buffer.fill(0.0);
            let (sums, counts) = buffer.split_at_mut(k * m);
            for (row, centre) in nearest.iter().enumerate() {
                let ix = centre.wrapping_sub(first);
                if ix < k {
                    counts[ix] += 1.0;
                    let point = &points[row * m..(row + 1) * m];
                    sums[ix * m..(ix + 1) * m].iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
                }
            }
            let sums = sums.chunks_exact(m).zip(&*counts);
            for (centre, (sum, count)) in
                centres.chunks_exact_mut(m).zip(sums).filter(|(_, (_, n))| **n > 0.0)
            {
                centre.iter_mut().zip(sum).for_each(|(centre, sum)| *centre = sum / count);
            }
        });
    });
}
