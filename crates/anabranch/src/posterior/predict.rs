//! Prediction from a snapshot: the density that every algorithm reports, and labels by component id.
//!
//! ```text
//! p(x) = Σ_k m_k/(N + α) · p(x | component k)  +  α/(N + α) · p(x | prior)
//! ```
//!
//! with the family's exact posterior predictive; `m_k = t_k` and the mass `α` of a new component come from the process.
//!
//! Bounds in single precision ([`super::envelope`]) say which components a row cannot belong to, for a block of rows at a time. The others
//! are computed exactly, in double precision: labels are those of computing all, and what is left out of a density is a share of less than
//! `e^−21`, below 1e-9.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd, bytemuck};
use rand::{Rng, RngExt};

use super::Posterior;
use super::answer::Answer;
use super::envelope::{Envelopes, Member, TOGETHER, first_of_largest};
use crate::batch::{Batch, missing_columns};
use crate::family::{Family, Predictive};
use crate::identify::ComponentId;
use crate::math::log_sum_exp::log_sum_exp;
use crate::parallel;
use crate::process::Process;

/// Rows that are compared with all components at a time: few enough for every thread to have some.
const BLOCK: usize = 96;

/// Components whose terms together are below the best by more than this many nats change no density.
const NEGLIGIBLE_NATS: f64 = 21.0;

/// Fewer components are all computed.
const LEAST_COMPONENTS: usize = 4;

/// Where bounds of the first columns leave more components of a row than this, those of all columns are asked.
const MOST_LEFT: usize = 6;

/// One row in so many shows how many they leave.
const SHOWN: usize = 8;

/// The features of a row, whatever the family.
trait Featured: Send + Sync {
    fn feature_count(&self) -> usize;
    fn columns(&self) -> usize;
    fn names(&self, column: usize) -> Option<usize>;
    fn write(&self, x: &[f64], out: &mut [f64]);
    fn leading_count(&self) -> usize;
    fn write_leading(&self, x: &[f64], out: &mut [f64]);
}

impl<F: Family> Featured for F {
    fn feature_count(&self) -> usize {
        self.n_features()
    }

    fn columns(&self) -> usize {
        self.dimensions()
    }

    fn names(&self, column: usize) -> Option<usize> {
        self.categories(column)
    }

    fn write(&self, x: &[f64], out: &mut [f64]) {
        self.features(x, out);
    }

    fn leading_count(&self) -> usize {
        self.leading_len()
    }

    fn write_leading(&self, x: &[f64], out: &mut [f64]) {
        self.leading_features(x, out);
    }
}

/// How much is asked of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The most probable component alone.
    Label,
    /// The density, and the probability of every component as well.
    Everything,
}

/// The predictive densities of a snapshot, prepared once for many rows.
pub struct Predictor {
    family: Arc<dyn Featured>,
    ids: Vec<ComponentId>,
    ln_weights: Vec<f64>,
    predictives: Vec<Arc<dyn Predictive>>,
    ln_weight_new: f64,
    prior: Box<dyn Predictive>,
    /// Bounds of all components, and of a new one as the last; none where they would say nothing.
    envelopes: Option<Envelopes>,
    /// The same by the first columns alone, where there are many.
    leading: Option<Envelopes>,
}

/// Which features rule components out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    All,
    Leading,
}

impl Predictor {
    /// Prepares every component of the snapshot.
    pub fn new<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Self {
        Self::among(posterior, |_| Some(0.0))
    }

    /// Prepares the components that this tells a number of, which is added to the logarithm of their weight.
    pub(crate) fn among<F: Family, P: Process>(
        posterior: &Posterior<F, P>,
        weigh: impl Fn(ComponentId) -> Option<f64>,
    ) -> Self {
        let family = posterior.family();
        let process = posterior.process();
        let mut predictor = Self {
            family: Arc::clone(&posterior.family) as Arc<dyn Featured>,
            ids: Vec::new(),
            ln_weights: Vec::new(),
            predictives: Vec::new(),
            ln_weight_new: 0.0,
            prior: family.predictive(&vec![0.0; family.n_features()]),
            envelopes: None,
            leading: None,
        };
        let new_mass = process.new_mass(posterior.components().iter().map(|c| &c.evidence().labels));
        let mut total = new_mass;
        for component in posterior.components() {
            let mass = process.existing_mass(&component.evidence().labels);
            // An emptied component has no say; its logarithm would be −∞.
            if mass > 0.0
                && let Some(more) = weigh(component.id())
            {
                total += mass;
                predictor.ids.push(component.id());
                predictor.ln_weights.push(mass.ln() + more);
                predictor.predictives.push(Arc::clone(component.predictive(family)));
            }
        }
        let ln_total = total.ln();
        predictor.ln_weights.iter_mut().for_each(|w| *w -= ln_total);
        predictor.ln_weight_new = new_mass.ln() - ln_total;
        predictor.envelopes = predictor.bounds(By::All);
        predictor.leading = predictor.bounds(By::Leading);
        predictor
    }

    fn feature_count(&self, by: By) -> usize {
        match by {
            By::All => self.family.feature_count(),
            By::Leading => self.family.leading_count(),
        }
    }

    /// The bounds of all components and of a new one.
    fn bounds(&self, by: By) -> Option<Envelopes> {
        let (f, k) = (self.feature_count(by), self.ids.len());
        if k < LEAST_COMPONENTS || f == 0 {
            return None;
        }
        let mut theta = vec![0.0; f * (k + 1)];
        let envelope = |(ix, out): (usize, &mut [f64])| match by {
            By::All => Some(self.predictive(ix).envelope(out)),
            By::Leading => self.predictive(ix).leading_envelope(out),
        };
        let envelopes: Option<Vec<_>> = theta.chunks_exact_mut(f).enumerate().map(envelope).collect();
        let envelopes = envelopes?;
        let says_something = theta.iter().any(|value| *value != 0.0);
        says_something.then(|| {
            let members = theta
                .chunks_exact(f)
                .zip(envelopes)
                .enumerate()
                .map(|(ix, (theta, envelope))| Member { theta, envelope, ln_weight: self.ln_weight(ix) });
            Envelopes::new(f, members)
        })
    }

    /// Of a component, or of a new one after the last.
    fn predictive(&self, ix: usize) -> &dyn Predictive {
        self.predictives.get(ix).map_or(&*self.prior, |predictive| &**predictive)
    }

    fn ln_weight(&self, ix: usize) -> f64 {
        self.ln_weights.get(ix).copied().unwrap_or(self.ln_weight_new)
    }

    /// Ids of the components, in the order of [`Predictor::responsibilities`].
    pub fn ids(&self) -> &[ComponentId] {
        &self.ids
    }

    /// Logarithms of the components' weights, in the same order.
    pub(super) fn ln_weights(&self) -> &[f64] {
        &self.ln_weights
    }

    /// Log predictive density of a row. Nothing is allocated once the memory of the thread has grown.
    pub fn ln_density(&self, x: &[f64]) -> f64 {
        self.one(x, Ask::Everything, |answer| answer.ln_density())
    }

    /// The most probable component of a row; `None` when the model has no component yet. Nothing is allocated once the memory
    /// of the thread has grown.
    pub fn label(&self, x: &[f64]) -> Option<ComponentId> {
        self.one(x, Ask::Label, |answer| answer.label())
    }

    /// Probabilities of the existing components for a row, in the order of [`Predictor::ids`]; they sum to 1.
    pub fn responsibilities(&self, x: &[f64], out: &mut Vec<f64>) {
        out.resize(self.ids.len(), 0.0);
        self.one(x, Ask::Everything, |answer| answer.probabilities(out));
    }

    /// Writes what each missing value of a row is expected to be given the others, and its standard deviation; other places stay as
    /// they are. Of a column of names, the most probable name, which has no deviation: NaN.
    pub fn impute(&self, x: &[f64], mean: &mut [f64], deviation: &mut [f64]) {
        let missing = missing_columns(x);
        if missing.is_empty() {
            return;
        }
        let mut probabilities = Vec::new();
        self.responsibilities(x, &mut probabilities);
        let possible = probabilities.iter().copied().enumerate().filter(|(_, p)| *p > 0.0);
        let mut possible: Vec<(usize, f64)> = possible.collect();
        if possible.is_empty() {
            // The place behind all others is that of the prior.
            possible.push((self.ids.len(), 1.0));
        }
        let (mut own_mean, mut own_variance) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let mut parts = Vec::new();
        for (ix, probability) in &possible {
            self.predictive(*ix).conditional(x, &mut own_mean, &mut own_variance);
            parts.push((*probability, own_mean.clone(), own_variance.clone()));
        }
        for column in missing {
            if let Some(names) = self.family.names(column) {
                mean[column] = self.most_probable_name(x, column, names, &possible);
                deviation[column] = f64::NAN;
                continue;
            }
            mean[column] = parts.iter().map(|(p, mean, _)| p * mean[column]).sum();
            let variance: f64 = parts
                .iter()
                .map(|(p, own, variance)| p * (variance[column] + (own[column] - mean[column]).powi(2)))
                .sum();
            deviation[column] = variance.sqrt();
        }
    }

    /// The most probable of the names that have one of their own; of equal ones the first. Each component compares its names among
    /// themselves: whether there is one at all tells components apart, not names.
    fn most_probable_name(&self, x: &[f64], column: usize, names: usize, possible: &[(usize, f64)]) -> f64 {
        let mut row = x.to_vec();
        let (mut totals, mut own) = (vec![0.0; names], vec![0.0; names]);
        for (ix, probability) in possible {
            for (name, ln) in own.iter_mut().enumerate() {
                row[column] = name as f64;
                *ln = self.predictive(*ix).ln_density(&row);
            }
            let all = log_sum_exp(&own);
            totals.iter_mut().zip(&own).for_each(|(total, ln)| *total += probability * (ln - all).exp());
        }
        let mut best = (f64::NEG_INFINITY, 0.0);
        for (name, total) in totals.iter().take(names.saturating_sub(1).max(1)).enumerate() {
            if *total > best.0 {
                best = (*total, name as f64);
            }
        }
        best.1
    }

    /// Draws the missing values of a row given the others: a component, and what it says.
    pub fn draw_missing(&self, x: &mut [f64], rng: &mut dyn Rng) {
        if x.iter().all(|x| !x.is_nan()) {
            return;
        }
        let mut probabilities = Vec::new();
        self.responsibilities(x, &mut probabilities);
        let mut left = rng.random::<f64>();
        let drawn = probabilities.iter().position(|probability| {
            left -= probability;
            left < 0.0
        });
        let drawn = drawn.or_else(|| probabilities.iter().rposition(|p| *p > 0.0));
        self.predictive(drawn.unwrap_or(self.ids.len())).draw_missing(x, rng);
    }

    /// Log predictive density of each row, on this many threads.
    pub fn ln_densities(&self, rows: &Batch, threads: usize) -> Vec<f64> {
        self.collect(rows, threads, Ask::Everything, |answer| answer.ln_density())
    }

    /// The most probable component of each row, on this many threads.
    pub fn labels(&self, rows: &Batch, threads: usize) -> Vec<Option<ComponentId>> {
        self.collect(rows, threads, Ask::Label, |answer| answer.label())
    }

    /// Mean log predictive density of the rows (weighted where they are), or `None` when there are none.
    pub fn mean_ln_density(&self, batch: &Batch) -> Option<f64> {
        self.mean_ln_density_on(batch, 1)
    }

    /// The same on this many threads, to the last bit.
    pub fn mean_ln_density_on(&self, batch: &Batch, threads: usize) -> Option<f64> {
        let densities = self.ln_densities(batch, threads);
        let weighted = |(row, density): (usize, f64)| batch.weights().map_or(1.0, |w| w[row]) * density;
        let total: f64 = densities.into_iter().enumerate().map(weighted).sum();
        (batch.mass() > 0.0).then(|| total / batch.mass())
    }

    /// What is made of the answer for each row, in order, on this many threads.
    pub fn collect<T: Send + Clone + Default>(
        &self,
        rows: &Batch,
        threads: usize,
        ask: Ask,
        make: impl Fn(&Answer<'_>) -> T + Sync + Send,
    ) -> Vec<T> {
        let mut all = vec![T::default(); rows.n_rows()];
        let d = self.family.columns();
        // Threads cost more than a few rows.
        let threads = if rows.n_rows() > 4 * BLOCK { threads } else { 1 };
        parallel::on(threads, || {
            let blocks = rows.values().chunks(BLOCK * d).zip(all.chunks_mut(BLOCK));
            parallel::each(blocks, 1, |(rows, out)| {
                self.answer(rows, ask, |row, answer| out[row] = make(answer));
            });
        });
        all
    }

    /// Calls `look` with the answer for each of these rows, which lie one after the other, in order and on this thread.
    pub fn answer(&self, rows: &[f64], ask: Ask, mut look: impl FnMut(usize, &Answer<'_>)) {
        let d = self.family.columns();
        for (block, rows) in rows.chunks(BLOCK * d).enumerate() {
            self.block(rows, ask, &mut |row, answer| look(block * BLOCK + row, answer));
        }
    }

    /// How far below the best a component is without consequence.
    fn window(&self, ask: Ask) -> f64 {
        match ask {
            Ask::Label => 0.0,
            Ask::Everything => NEGLIGIBLE_NATS + (self.ids.len() as f64 + 1.0).ln(),
        }
    }

    fn one<R>(&self, x: &[f64], ask: Ask, make: impl FnOnce(&Answer<'_>) -> R) -> R {
        let (mut make, mut result) = (Some(make), None);
        self.block(x, ask, &mut |_, answer| result = make.take().map(|make| make(answer)));
        result.expect("one row has one answer")
    }

    /// At most [`BLOCK`] rows.
    fn block(&self, rows: &[f64], ask: Ask, look: &mut dyn FnMut(usize, &Answer<'_>)) {
        if self.leading.is_none() || !self.answered(rows, ask, By::Leading, look) {
            self.answered(rows, ask, By::All, look);
        }
    }

    /// Answers a block of rows, unless these features rule too few components out.
    fn answered(&self, rows: &[f64], ask: Ask, by: By, look: &mut dyn FnMut(usize, &Answer<'_>)) -> bool {
        let (d, f, k) = (self.family.columns(), self.feature_count(by), self.ids.len());
        let n = rows.len() / d;
        let envelopes = match by {
            By::All => self.envelopes.as_ref(),
            By::Leading => self.leading.as_ref(),
        };
        let narrow = envelopes.map_or(0, |all| all.scratch_len(n) + n * all.padded());
        let places = k + 1;
        parallel::with_buffer(n * f + narrow.div_ceil(2) + places + places.div_ceil(2), |buffer| {
            let (features, rest) = buffer.split_at_mut(n * f);
            let (scores, rest) = rest.split_at_mut(places);
            let (members, narrow) = rest.split_at_mut(places.div_ceil(2));
            let members = &mut bytemuck::cast_slice_mut::<f64, u32>(members)[..places];
            for (x, out) in rows.chunks_exact(d).zip(features.chunks_exact_mut(f)) {
                match by {
                    By::All => self.family.write(x, out),
                    By::Leading => self.family.write_leading(x, out),
                }
            }
            let features = &*features;
            let bounds: &[f32] = match envelopes {
                Some(all) => {
                    let narrow = bytemuck::cast_slice_mut::<f64, f32>(narrow);
                    let (scratch, bounds) = narrow.split_at_mut(all.scratch_len(n));
                    let bounds = &mut bounds[..n * all.padded()];
                    all.bound(features, scratch, bounds);
                    &*bounds
                }
                None => &[],
            };
            let mut work = Row { predictor: self, ask, window: self.window(ask), scores, members, used: 0 };
            let decide = |work: &mut Row<'_>, ix: usize, x: &[f64]| match envelopes {
                _ if work.lacks(x) => work.known(x),
                Some(all) => {
                    let features = &features[ix * f..(ix + 1) * f];
                    let bounds = &bounds[ix * all.padded()..(ix + 1) * all.padded()];
                    Arch::new().dispatch(Decide { row: work, x, features, bounds });
                }
                None => work.all(x, &features[ix * f..(ix + 1) * f]),
            };
            if by == By::Leading {
                let mut left = 0;
                for (ix, x) in rows.chunks_exact(d).enumerate().step_by(SHOWN) {
                    decide(&mut work, ix, x);
                    left += work.used;
                }
                if left > MOST_LEFT * n.div_ceil(SHOWN) {
                    return false;
                }
            }
            for (ix, x) in rows.chunks_exact(d).enumerate() {
                // A single row is decided by now.
                if n > 1 || by == By::All {
                    decide(&mut work, ix, x);
                }
                if self.leading.is_some() {
                    work.forget_negligible();
                }
                let answer = Answer::new(self, &work.members[..work.used], &work.scores[..work.used]);
                look(ix, &answer);
            }
            true
        })
    }
}

/// The components of a row that were computed.
struct Row<'a> {
    predictor: &'a Predictor,
    ask: Ask,
    window: f64,
    scores: &'a mut [f64],
    members: &'a mut [u32],
    used: usize,
}

impl Row<'_> {
    /// Components in question: a new one has no label.
    fn len(&self) -> usize {
        self.predictor.ids.len() + usize::from(self.ask == Ask::Everything)
    }

    #[inline(never)]
    fn compute(&mut self, ix: usize, x: &[f64], features: &[f64], least: f64) -> f64 {
        let ln_weight = self.predictor.ln_weight(ix);
        let score = ln_weight + self.predictor.predictive(ix).ln_density_from(x, features, least - ln_weight);
        let ruled_out = score < least;
        if !ruled_out {
            self.scores[self.used] = score;
            self.members[self.used] = ix as u32;
            self.used += 1;
        }
        score
    }

    /// Whether a value of the row is missing.
    fn lacks(&self, x: &[f64]) -> bool {
        x.iter().fold(false, |any, x| any | x.is_nan())
    }

    /// Computes all components from what is known of a row.
    fn known(&mut self, x: &[f64]) {
        self.used = self.len();
        for ix in 0..self.used {
            self.scores[ix] = self.predictor.ln_weight(ix) + self.predictor.predictive(ix).ln_density(x);
            self.members[ix] = ix as u32;
        }
    }

    /// Computes all components.
    fn all(&mut self, x: &[f64], features: &[f64]) {
        self.used = 0;
        for ix in 0..self.len() {
            self.compute(ix, x, features, f64::NEG_INFINITY);
        }
    }

    /// Leaves the components that matter, in their order: the same ones whichever bounds were asked.
    fn forget_negligible(&mut self) {
        let k = self.predictor.ids.len();
        let scores = self.members[..self.used].iter().zip(&self.scores[..self.used]);
        let highest = scores.filter(|(ix, _)| (**ix as usize) < k).map(|(_, score)| *score);
        let cut = highest.fold(f64::NEG_INFINITY, f64::max) - self.window;
        let mut kept = 0;
        for ix in 0..self.used {
            if self.scores[ix] >= cut || self.scores[ix].is_nan() {
                (self.scores[kept], self.members[kept]) = (self.scores[ix], self.members[ix]);
                kept += 1;
            }
        }
        self.used = kept;
        // The first that was computed stands before all others.
        if let [first, others @ ..] = &self.members[..kept] {
            let place = others.partition_point(|other| other < first);
            self.members[..=place].rotate_left(1);
            self.scores[..=place].rotate_left(1);
        }
    }
}

/// Computes what the bounds do not rule out.
struct Decide<'a, 'b> {
    row: &'a mut Row<'b>,
    x: &'a [f64],
    /// All of them, or the leading ones.
    features: &'a [f64],
    bounds: &'a [f32],
}

impl WithSimd for Decide<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { row, x, features, bounds } = self;
        let k = row.len();
        let window = row.window;
        let first = first_of_largest(&bounds[..row.predictor.ids.len()]);
        row.used = 0;
        let score = row.compute(first, x, features, f64::NEG_INFINITY);
        let mut cut = below(score - window);
        for (group, bounds) in bounds[..].as_chunks::<TOGETHER>().0.iter().enumerate() {
            if bounds.iter().fold(true, |none, bound| none & (*bound < cut)) {
                continue;
            }
            for (ix, bound) in bounds.iter().enumerate() {
                let ix = group * TOGETHER + ix;
                // What is not a number rules nothing out.
                if *bound < cut || ix == first || ix >= k {
                    continue;
                }
                let score = row.compute(ix, x, features, f64::from(cut));
                // A new component, however probable, hides none of those that exist.
                if ix < row.predictor.ids.len() {
                    cut = cut.max(below(score - window));
                }
            }
        }
    }
}

/// A number of single precision that is not above this one.
#[inline(always)]
fn below(value: f64) -> f32 {
    (value - 2.0 * f64::from(f32::EPSILON) * value.abs()) as f32
}
