//! Coordinate ascent on the minibatch objective with the central posterior as prior.
//!
//! ```text
//! E-step   r_jk ∝ exp( φ_k · T(x_j) + ψ(m_k + n_k) )
//! M-step   Δ_k = Σ_j r_jk T(x_j),   n_k = Σ_j r_jk,   φ_k from η₀ + S_k + Δ_k
//! ELBO     Σ_k [ A(S_k + Δ_k) − A(S_k) + log Γ(m_k + n_k) − log Γ(m_k) ]  −  Σ_jk r_jk log r_jk
//! ```
//!
//! `m_k` is the mass that the process gives a known component, or a new one. Each new component starts with the whole mass
//! of a new one: starving the candidates instead (a share each) loses real clusters, and what is too many is taken back by
//! merging. Each step maximises the ELBO over its own block, so it never falls.

use std::borrow::Cow;

use super::birth::Births;
use super::labels::{ByComponent, Labels, MOST};
use super::merge::Overlapping;
use super::missing::{Holes, Tables};
use super::mixture::Workspace;
use super::narrow::Scored;
use super::skip::{Known, Screen};
use super::{Increment, Precision, Settings};
use crate::batch::Batch;
use crate::family::Family;
use crate::math::cholesky::with_scratch;
use crate::math::log_sum_exp::log_sum_exp;
use crate::math::special::{digamma, ln_gamma};
use crate::parallel;
use crate::posterior::{Evidence, Posterior};
use crate::process::{LabelStatistics, Process};

/// A column whose sums move by less than this share of its mass, in units of what its parameters make of them, keeps those:
/// what they could gain for each row is of the order of the square.
const CONVERGED: f64 = 1e-3;

/// Steps that find what the rows around each seed say of what is missing.
const STEPS_TO_FILL: usize = 4;

/// Columns that are worth a thread.
const COLUMNS: usize = 2;

/// Rows whose features are computed at a time.
const ROWS: usize = 128;

/// A component as the ascent sees it.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Position in the posterior, or `None` for a new component.
    known: Option<usize>,
    /// Prior mass `m_k`.
    mass: f64,
    /// `A(S_k)` before the minibatch.
    log_partition: f64,
}

/// The state of one minibatch's inference. Known components come first among the columns.
pub(super) struct Ascent<'a, F: Family, P: Process> {
    posterior: Cow<'a, Posterior<F, P>>,
    batch: &'a Batch,
    pub(super) memory: &'a mut Workspace,
    columns: Vec<Column>,
    precision: Precision,
    /// Whether labels and sums are those of an E-step over all columns with the parameters at hand.
    assigned: bool,
    /// Whether the next ascent begins over the labels that are possible.
    stays: bool,
}

impl<'a, F: Family, P: Process> Ascent<'a, F, P> {
    /// Builds the features once and assigns the rows to the known components.
    pub(super) fn start(
        posterior: &'a Posterior<F, P>,
        batch: &'a Batch,
        precision: Precision,
        memory: &'a mut Workspace,
    ) -> Self {
        fill_features(posterior.family(), batch, &mut memory.features);
        memory.holes = Holes::of(batch);
        memory.hidden.clear();
        memory.phi.clear();
        memory.ln_weights.clear();
        memory.places.clear();
        let mut columns = std::mem::take(&mut memory.columns);
        columns.clear();
        let family = posterior.family();
        for (ix, component) in posterior.components().iter().enumerate() {
            let mass = posterior.process().existing_mass(&component.evidence().labels);
            if mass > 0.0 {
                let log_partition = component.expectation(family).log_partition;
                memory.ln_weights.push(digamma(mass));
                memory.places.push(ix);
                columns.push(Column { known: Some(ix), mass, log_partition });
            }
        }
        let components = columns.iter().filter_map(|column| Some(&*posterior.components()[column.known?]));
        let skipped = memory.holes.is_empty() && Screen::suits(columns.len(), family) && {
            let known = Known {
                components: posterior.components(),
                places: &memory.places,
                ln_weights: &memory.ln_weights,
            };
            memory.screen.assign(&mut memory.labels, &memory.features, known, family)
        };
        if !skipped {
            components.for_each(|component| memory.phi.extend_from_slice(&component.expectation(family).phi));
        }
        let posterior = Cow::Borrowed(posterior);
        let mut ascent = Self { posterior, batch, memory, columns, precision, assigned: false, stays: false };
        if !skipped {
            ascent.assign();
        }
        ascent.forget_untouched();
        ascent
    }

    /// For each row, `log Σ_k exp(ψ(m_k) + E[log p(x|θ_k)])` over the known components, without `log h`: what the E-step
    /// normalises by, and less than the log of the exact density.
    pub(super) fn ln_explained(&self) -> &[f64] {
        self.memory.labels.ln_totals()
    }

    pub(super) fn posterior(&self) -> &Posterior<F, P> {
        &self.posterior
    }

    /// Goes on under another prior. Only for columns that are all new: known ones were made under the old one.
    pub(super) fn rebase(&mut self, posterior: Posterior<F, P>) {
        debug_assert!(self.columns.iter().all(|column| column.known.is_none()));
        let family = posterior.family();
        let log_partition = family.log_partition(&vec![0.0; family.n_features()]);
        self.columns.iter_mut().for_each(|column| column.log_partition = log_partition);
        self.posterior = Cow::Owned(posterior);
    }

    pub(super) fn batch(&self) -> &'a Batch {
        self.batch
    }

    /// `log Σ_k m_k p(x | component k)` over the known components that the row prefers, with their exact densities.
    pub(super) fn ln_density_of_known(&self, row: usize, closest: usize) -> f64 {
        let mut order: Vec<(f64, &Column)> =
            self.memory.labels.row(row).map(|(ix, probability)| (probability, &self.columns[ix])).collect();
        if closest < order.len() {
            order.select_nth_unstable_by(closest, |a, b| b.0.total_cmp(&a.0));
        }
        let (family, x) = (self.posterior.family(), self.batch.row(row));
        let terms = order.iter().take(closest).filter_map(|(_, column)| {
            let component = &self.posterior.components()[column.known?];
            Some(column.mass.ln() + component.predictive(family).ln_density(x))
        });
        log_sum_exp(&terms.collect::<Vec<_>>())
    }

    /// The same over all components that are possible for the row, without allocating.
    pub(super) fn ln_density_of_possible(&self, row: usize) -> f64 {
        let (family, x) = (self.posterior.family(), self.batch.row(row));
        let (mut terms, mut used) = ([f64::NEG_INFINITY; MOST], 0);
        for (ix, _) in self.memory.labels.row(row) {
            let column = &self.columns[ix];
            if let Some(known) = column.known {
                terms[used] =
                    column.mass.ln() + self.posterior.components()[known].predictive(family).ln_density(x);
                used += 1;
            }
        }
        log_sum_exp(&terms[..used])
    }

    pub(super) fn weight(&self, row: usize) -> f64 {
        self.batch.weights().map_or(1.0, |weights| weights[row])
    }

    /// Pairs `(keep, end)` of columns, all of which are new, whose merges raise the objective of `horizon` times the data.
    pub(super) fn mergeable(&self, horizon: f64) -> Vec<(usize, usize)> {
        debug_assert!(self.columns.iter().all(|column| column.known.is_none()));
        self.overlapping(&self.memory.labels.by_component(self.columns.len()), horizon).pairs()
    }

    /// The columns, all of which are new, with the rows that tell how far they overlap.
    fn overlapping<'b>(&'b self, labels: &'b ByComponent, horizon: f64) -> Overlapping<'b, F, P> {
        Overlapping {
            family: self.posterior.family(),
            process: self.posterior.process(),
            totals: &self.memory.sums,
            phi: &self.memory.phi,
            labels,
            weights: self.batch.weights(),
            row_weight: 1.0,
            observations: self.batch.mass(),
            horizon,
        }
    }

    /// The best disjoint pairs `(keep, end)`, at most so many, whether or not they raise the objective.
    pub(super) fn best_pairs(&self, at_most: usize) -> Vec<(usize, usize)> {
        let mut pairs =
            self.overlapping(&self.memory.labels.by_component(self.columns.len()), 1.0).best_pairs();
        pairs.truncate(at_most);
        pairs
    }

    /// Merges pairs of columns.
    pub(super) fn merge(&mut self, pairs: &[(usize, usize)]) {
        let mut living = vec![true; self.columns.len()];
        let mut into = vec![None; self.columns.len()];
        let f = self.n_features();
        for (keep, end) in pairs {
            living[*end] = false;
            into[*end] = Some(*keep);
            for i in 0..f {
                self.memory.sums[keep * f + i] += self.memory.sums[end * f + i];
            }
            if let Some(hidden) = self.memory.hidden.get(*end).copied() {
                self.memory.hidden[*keep] += hidden;
            }
        }
        self.memory.labels.join(&into);
        self.keep(&living);
        self.maximise();
    }

    /// Tries to do without each of the smallest columns, of `at_most` so many rows: its rows choose among the others, and it
    /// ends if that raises the objective of `horizon` times the data. Two small pieces of several clusters keep each other alive where no merge of the two would be right.
    /// Returns how many ended.
    pub(super) fn dissolve(&mut self, smallest: usize, at_most: f64, horizon: f64) -> usize {
        let f = self.n_features();
        let counts: Vec<f64> = self.memory.sums.iter().step_by(f).copied().collect();
        let mut order: Vec<usize> = (0..counts.len()).filter(|ix| counts[*ix] <= at_most).collect();
        order.sort_by(|a, b| counts[*a].total_cmp(&counts[*b]));
        let mut living = vec![true; counts.len()];
        for ix in order.into_iter().take(smallest) {
            if living.iter().filter(|lives| **lives).count() > 1 && self.try_without(ix, &living, horizon) {
                living[ix] = false;
            }
        }
        let ended = living.iter().filter(|lives| !**lives).count();
        if ended > 0 {
            self.keep(&living);
            self.maximise();
        }
        ended
    }

    /// Gives the rows of one column to the others if that raises the objective; parameters of the others stay as they were.
    fn try_without(&mut self, end: usize, living: &[bool], horizon: f64) -> bool {
        let (k, f) = (self.columns.len(), self.n_features());
        let rows: Vec<usize> = (0..self.batch.n_rows())
            .filter(|row| self.memory.labels.row(*row).any(|(ix, _)| ix == end))
            .collect();
        let ln_weights: Vec<f64> = (0..k)
            .map(|ix| if ix != end && living[ix] { self.memory.ln_weights[ix] } else { f64::NEG_INFINITY })
            .collect();
        let features = self.features_of(&rows);
        let without = self.labels_of(&rows, &features, &ln_weights);
        let memory = &mut *self.memory;
        let family = self.posterior.family();
        let tables = (!memory.holes.is_empty()).then(|| Tables::new(family, &memory.phi));
        // Sums of the columns that gain or lose, and the entropy of the rows, before and after.
        let mut after = memory.sums.clone();
        let (mut touched, mut entropy) = (vec![false; k], 0.0);
        let mut hidden = memory.hidden.clone();
        let mut expected = vec![0.0; f];
        let entropy_of = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
        for (ix, row) in rows.iter().enumerate() {
            let weight = self.batch.weights().map_or(1.0, |weights| weights[*row]);
            let x = &features[ix * f..(ix + 1) * f];
            let mut add = |column: usize, share: f64| {
                touched[column] = true;
                let range = column * f..(column + 1) * f;
                let sums = &mut after[range.clone()];
                let Some(tables) = &tables else {
                    sums.iter_mut().zip(x).for_each(|(sum, value)| *sum += weight * share * value);
                    return;
                };
                expected.copy_from_slice(x);
                let (phi, row) = (&memory.phi[range], self.batch.row(*row));
                hidden[column] +=
                    weight * share * Holes::expect(family, phi, &tables[column], row, &mut expected);
                sums.iter_mut().zip(&expected).for_each(|(sum, value)| *sum += weight * share * value);
            };
            for (column, probability) in memory.labels.row(*row) {
                add(column, -probability);
                entropy -= weight * entropy_of(probability);
            }
            for (column, probability) in without.row(ix) {
                add(column, probability);
                entropy += weight * entropy_of(probability);
            }
        }
        entropy += hidden.iter().sum::<f64>() - memory.hidden.iter().sum::<f64>();
        let mut gain = horizon * entropy;
        let mut grown = vec![0.0; f];
        for ix in (0..k).filter(|ix| touched[*ix]) {
            let (mass, range) = (self.columns[ix].mass, ix * f..(ix + 1) * f);
            let mut of = |stats: &[f64]| {
                grown.iter_mut().zip(stats).for_each(|(grown, s)| *grown = horizon * s);
                family.log_partition(&grown) + ln_gamma(mass + grown[0].max(0.0))
            };
            let nothing = self.columns[ix].log_partition + ln_gamma(mass);
            let left = if ix == end { nothing } else { of(&after[range.clone()]) };
            gain += left - of(&memory.sums[range]);
        }
        if gain.is_nan() || gain <= 0.0 {
            return false;
        }
        memory.sums = after;
        memory.hidden = hidden;
        for (ix, row) in rows.iter().enumerate() {
            memory.labels.copy_row(*row, &without, ix);
        }
        true
    }

    pub(super) fn n_columns(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn n_features(&self) -> usize {
        self.posterior.family().n_features()
    }

    /// The E-step over all columns, from the parameters and weights at hand.
    fn assign(&mut self) {
        let (f, family) = (self.n_features(), self.posterior.family());
        let Workspace { labels, holes, features, phi, ln_weights, .. } = &mut *self.memory;
        let scored = Scored { features, phi, ln_weights, n_features: f };
        holes.assign(family, scored, self.precision, labels);
    }

    /// The next ascent begins over the labels that are possible, and rows without one look at all columns. That costs little, and is
    /// no ascent to the end where labels are missing that have become possible.
    pub(super) fn stay(&mut self) {
        self.stays = true;
    }

    /// The E-step of rows without a label.
    fn assign_rest(&mut self) {
        let rows: Vec<usize> =
            (0..self.batch.n_rows()).filter(|row| self.memory.labels.row(*row).next().is_none()).collect();
        if rows.is_empty() {
            return;
        }
        let found = self.labels_of(&rows, &self.features_of(&rows), &self.memory.ln_weights);
        rows.iter().enumerate().for_each(|(ix, row)| self.memory.labels.copy_row(*row, &found, ix));
    }

    fn features_of(&self, rows: &[usize]) -> Vec<f64> {
        let f = self.n_features();
        rows.iter().flat_map(|row| &self.memory.features[row * f..(row + 1) * f]).copied().collect()
    }

    /// The E-step of some rows over all columns, with these weights.
    fn labels_of(&self, rows: &[usize], features: &[f64], ln_weights: &[f64]) -> Labels {
        let mut labels = Labels::default();
        let scored = Scored { features, phi: &self.memory.phi, ln_weights, n_features: self.n_features() };
        let holes =
            if self.memory.holes.is_empty() { Holes::default() } else { Holes::of(&self.batch.select(rows)) };
        holes.assign(self.posterior.family(), scored, self.precision, &mut labels);
        labels
    }

    /// The E-step over the labels that are possible.
    fn assign_again(&mut self) {
        let (f, family) = (self.n_features(), self.posterior.family());
        let Workspace { labels, holes, features, phi, ln_weights, changed, .. } = &mut *self.memory;
        holes.assign_again(family, Scored { features, phi, ln_weights, n_features: f }, changed, labels);
    }

    /// Drops the columns of components that no row can belong to, so that the ascent never looks at them again.
    fn forget_untouched(&mut self) {
        let mut touched = std::mem::take(&mut self.memory.flags);
        self.memory.labels.touched(self.columns.len(), &mut touched);
        self.keep(&touched);
        self.memory.flags = touched;
    }

    /// Keeps the flagged columns of the labels and sums; parameters are stale afterwards.
    fn keep(&mut self, flags: &[bool]) {
        if flags.iter().all(|flag| *flag) {
            return;
        }
        let f = self.n_features();
        let memory = &mut *self.memory;
        let has_sums = memory.sums.len() == flags.len() * f;
        // What missing values are expected to be needs the parameters that the labels were made with.
        let has_phi = !memory.holes.is_empty() && memory.phi.len() == flags.len() * f;
        memory.names.clear();
        let mut kept = 0;
        for (ix, flag) in flags.iter().enumerate() {
            memory.names.push(flag.then_some(kept));
            if *flag {
                if has_sums {
                    memory.sums.copy_within(ix * f..(ix + 1) * f, kept * f);
                }
                if has_phi {
                    memory.phi.copy_within(ix * f..(ix + 1) * f, kept * f);
                }
                if let Some(hidden) = memory.hidden.get(ix).copied() {
                    memory.hidden[kept] = hidden;
                }
                kept += 1;
            }
        }
        if has_sums {
            memory.sums.truncate(kept * f);
        }
        if has_phi {
            memory.phi.truncate(kept * f);
        }
        memory.hidden.truncate(kept);
        memory.labels.rename(&memory.names);
        let mut flags = flags.iter();
        self.columns.retain(|_| flags.next().is_some_and(|flag| *flag));
    }

    /// Adds the columns of proposed components, which start from their novel rows.
    pub(super) fn open(&mut self, births: &Births) {
        if births.n_components == 0 {
            return;
        }
        let old = self.columns.len();
        let family = self.posterior.family();
        let log_partition = family.log_partition(&vec![0.0; family.n_features()]);
        let labels = self.posterior.components().iter().map(|c| &c.evidence().labels);
        let mass = self.posterior.process().candidate_mass(labels);
        self.columns.resize(old + births.n_components, Column { known: None, mass, log_partition });
        if old > 0 {
            return self.open_beside(births, old);
        }
        for novel in &births.novel {
            self.memory.labels.give(novel.row, novel.component);
        }
        if self.memory.holes.is_empty() {
            self.accumulate();
            self.maximise();
            return;
        }
        // What is missing is what the prior expects at first, and then what the rows around each seed say.
        let mut phi = vec![0.0; self.n_features()];
        self.posterior.family().expected_natural(&vec![0.0; phi.len()], &mut phi);
        self.memory.phi = phi.repeat(self.columns.len());
        for _ in 0..STEPS_TO_FILL {
            self.accumulate();
            self.maximise();
        }
    }

    /// A new column starts from its novel rows, each with the probability of being new, and a known one from what it was before
    /// the minibatch. So the labels at hand are those of the known ones, and the first E-step only asks which of the new ones
    /// are possible besides.
    fn open_beside(&mut self, births: &Births, old: usize) {
        let (k, f) = (self.columns.len(), self.n_features());
        let (posterior, memory) = (&*self.posterior, &mut *self.memory);
        memory.phi.clear();
        memory.ln_weights.clear();
        for column in &self.columns[..old] {
            let known = column.known.expect("columns that are open before births are known");
            let expectation = posterior.components()[known].expectation(posterior.family());
            memory.phi.extend_from_slice(&expectation.phi);
            memory.ln_weights.push(digamma(column.mass));
        }
        memory.phi.resize(k * f, 0.0);
        memory.ln_weights.resize(k, 0.0);
        memory.sums.clear();
        memory.sums.resize(k * f, 0.0);
        for novel in &births.novel {
            let weight = novel.probability * self.batch.weights().map_or(1.0, |weights| weights[novel.row]);
            let x = &memory.features[novel.row * f..(novel.row + 1) * f];
            let sums = &mut memory.sums[(old + novel.component) * f..][..f];
            let mut add = |x: &[f64]| sums.iter_mut().zip(x).for_each(|(sum, value)| *sum += weight * value);
            if memory.holes.is_empty() {
                add(x);
                continue;
            }
            let nothing = posterior.nothing().expectation(posterior.family());
            let table = &Tables::new(posterior.family(), &nothing.phi)[0];
            let mut expected = x.to_vec();
            Holes::expect(posterior.family(), &nothing.phi, table, self.batch.row(novel.row), &mut expected);
            add(&expected);
        }
        // Known ones have not moved; what is not a number has.
        memory.anchors.clear();
        memory.anchors.resize(old * f, 0.0);
        memory.anchors.resize(k * f, f64::NAN);
        memory.terms.clear();
        memory.terms.resize(k, 0.0);
        memory.changed.resize(k, true);
        self.maximise_moved(Some(CONVERGED));
        let family = self.posterior.family();
        let Workspace { labels, holes, features, phi, ln_weights, .. } = &mut *self.memory;
        let scored = Scored { features, phi, ln_weights, n_features: f };
        labels.assign_more(scored, old);
        holes.assign_own(family, scored, labels);
        self.accumulate();
        self.assigned = true;
    }

    /// Alternates E- and M-steps until the objective stands still; ends after an M-step, with one consistent state.
    ///
    /// The first E-step looks at every component; the further ones at those that the first one left possible for a row: the
    /// same coordinate ascent within those labels. Parameters of columns whose sums hardly move stay as they are, and so do
    /// the labels of rows that know no other.
    pub(super) fn climb(&mut self, settings: &Settings, trace: &mut Vec<f64>) {
        let enough = settings.absolute_tolerance * self.batch.mass();
        let mut last = f64::NEG_INFINITY;
        for iteration in 0..settings.max_iterations {
            if iteration > 0 {
                self.assign_again();
                self.accumulate();
            } else if !std::mem::take(&mut self.assigned) {
                if std::mem::take(&mut self.stays) {
                    self.assign_again();
                    self.assign_rest();
                } else {
                    self.assign();
                }
                self.accumulate();
            }
            let entropy = self.entropy();
            let objective = entropy + self.maximise_moved(Some(CONVERGED));
            trace.push(objective);
            if objective - last <= enough.max(settings.relative_tolerance * objective.abs()) {
                break;
            }
            last = objective;
        }
    }

    /// So many E- and M-steps over the labels that are possible.
    pub(super) fn step_where_possible(&mut self, steps: usize) {
        for _ in 0..steps {
            self.assign_again();
            self.accumulate();
            self.maximise_moved(Some(CONVERGED));
        }
    }

    /// Goes on with new columns of these sums alone; the rows are unassigned until the next E-step.
    pub(super) fn restore(&mut self, sums: &[f64]) {
        let column = self.columns[0].clone();
        debug_assert!(column.known.is_none());
        self.columns.clear();
        self.columns.resize(sums.len() / self.n_features(), column);
        self.memory.sums.clear();
        self.memory.sums.extend_from_slice(sums);
        self.maximise();
        self.assign();
        self.accumulate();
        self.maximise();
    }

    /// What the rows say of the labels of each column.
    pub(super) fn label_statistics(&self) -> Vec<LabelStatistics> {
        let mut labels = vec![LabelStatistics::default(); self.columns.len()];
        self.memory.labels.count(self.batch, &mut labels);
        labels.iter_mut().zip(&self.memory.hidden).for_each(|(labels, e)| labels.label_entropy += e);
        labels
    }

    /// `−Σ_jk r log r`, from the scores of the last E-step, which are linear in `Δ`: no logarithm per entry.
    fn entropy(&self) -> f64 {
        let memory = &*self.memory;
        let ln_totals: f64 = match self.batch.weights() {
            Some(weights) => memory.labels.ln_totals().iter().zip(weights).map(|(l, w)| l * w).sum(),
            None => memory.labels.ln_totals().iter().sum(),
        };
        let scores: f64 = memory.phi.iter().zip(&memory.sums).map(|(a, b)| a * b).sum();
        let counts = memory.sums.iter().step_by(self.n_features());
        ln_totals - scores - counts.zip(&memory.ln_weights).map(|(n, w)| n * w).sum::<f64>()
    }

    /// The first half of the M-step: `Δ = RᵀT(X)`.
    pub(super) fn accumulate(&mut self) {
        let (k, f) = (self.columns.len(), self.n_features());
        let memory = &mut *self.memory;
        memory.sums.clear();
        memory.sums.resize(k * f, 0.0);
        memory.labels.accumulate(&memory.features, self.batch, memory.holes.flags(), f, &mut memory.sums);
        if !memory.holes.is_empty() {
            let Workspace { holes, labels, features, phi, sums, hidden, .. } = memory;
            hidden.clear();
            hidden.resize(k, 0.0);
            let family = self.posterior.family();
            holes.accumulate(family, labels, (features, phi), self.batch, (sums, hidden));
        }
    }

    /// The second half of the M-step: parameters and weights that maximise the objective given `Δ`. Returns the
    /// objective without the entropy.
    pub(super) fn maximise(&mut self) -> f64 {
        self.assigned = false;
        let (k, f) = (self.columns.len(), self.n_features());
        let memory = &mut *self.memory;
        memory.phi.resize(k * f, 0.0);
        memory.anchors.resize(k * f, 0.0);
        memory.ln_weights.resize(k, 0.0);
        memory.terms.resize(k, 0.0);
        memory.changed.resize(k, true);
        self.maximise_moved(None)
    }

    /// The same for columns whose sums have moved by more than this share of their mass since their parameters were computed.
    /// The objective is that of the parameters as they are: along the tangent for the others.
    fn maximise_moved(&mut self, converged: Option<f64>) -> f64 {
        let f = self.n_features();
        let posterior = &*self.posterior;
        let family = posterior.family();
        let memory = &mut *self.memory;
        let values = memory.sums.chunks_exact(f).zip(memory.anchors.chunks_exact_mut(f));
        let parameters = memory.phi.chunks_exact_mut(f).zip(&mut memory.ln_weights);
        let marks = memory.terms.iter_mut().zip(&mut memory.changed);
        let columns = self.columns.iter().zip(values).zip(parameters).zip(marks);
        parallel::each(
            columns,
            COLUMNS,
            |(((column, (sums, anchor)), (phi, ln_weight)), (term, changed))| {
                let total = column.mass + sums[0].max(0.0);
                *changed = converged.is_none_or(|share| has_moved(sums, anchor, phi, share * total));
                if !*changed {
                    return;
                }
                anchor.copy_from_slice(sums);
                *ln_weight = digamma(total);
                *term = ln_gamma(total) - ln_gamma(column.mass) - column.log_partition;
                *term += match column.known {
                    None => family.expected_natural(sums, phi),
                    Some(known) => with_scratch(f, |stats| {
                        let before = &posterior.components()[known].evidence().stats;
                        stats.iter_mut().zip(sums.iter().zip(before)).for_each(|(all, (a, b))| *all = a + b);
                        family.expected_natural(stats, phi)
                    }),
                };
            },
        );
        let along = |ix: usize| -> f64 {
            let range = ix * f..(ix + 1) * f;
            let moved = memory.sums[range.clone()].iter().zip(&memory.anchors[range.clone()]);
            let along: f64 = memory.phi[range].iter().zip(moved).map(|(p, (a, b))| p * (a - b)).sum();
            along + memory.ln_weights[ix] * (memory.sums[ix * f] - memory.anchors[ix * f])
        };
        let terms = memory.terms.iter().zip(&memory.changed).enumerate();
        terms.map(|(ix, (term, changed))| if *changed { *term } else { term + along(ix) }).sum()
    }

    /// Removes new components that hold less than `least` rows; their rows go back to the others in the climb that must
    /// follow. Returns how many.
    pub(super) fn empty_surplus(&mut self, least: f64) -> usize {
        let counts: Vec<f64> = self.memory.sums.iter().step_by(self.n_features()).copied().collect();
        let mut flags: Vec<bool> =
            self.columns.iter().zip(&counts).map(|(c, n)| c.known.is_some() || *n >= least).collect();
        if !flags.contains(&true) {
            // Every row must stay somewhere: the largest of the small ones remains.
            let largest = (0..counts.len()).max_by(|a, b| counts[*a].total_cmp(&counts[*b]));
            largest.into_iter().for_each(|ix| flags[ix] = true);
        }
        let removed = flags.iter().filter(|flag| !**flag).count();
        if removed > 0 {
            self.keep(&flags);
            // The rows of the emptied columns are unassigned until the next E-step: parameters from the rest.
            self.maximise();
        }
        removed
    }

    /// The labels by the positions of known components in the posterior. Only while no column is new.
    pub(super) fn labels_of_known(&self) -> Labels {
        self.memory.labels.renamed(&self.columns.iter().map(|column| column.known).collect::<Vec<_>>())
    }

    /// The evidence of every column, from the very responsibilities that the sums were made of.
    pub(super) fn export(self) -> Increment {
        let (k, f) = (self.columns.len(), self.n_features());
        let mut labels = std::mem::take(&mut self.memory.statistics);
        labels.clear();
        labels.resize(k, LabelStatistics::default());
        self.memory.labels.count(self.batch, &mut labels);
        labels.iter_mut().zip(&self.memory.hidden).for_each(|(labels, e)| labels.label_entropy += e);
        let mut increment = Increment {
            base: self.posterior.version(),
            mass: self.batch.mass(),
            familiarity: None,
            existing: Vec::with_capacity(k),
            new: Vec::new(),
        };
        for ((column, stats), labels) in
            self.columns.iter().zip(self.memory.sums.chunks_exact(f)).zip(&labels)
        {
            let evidence = Evidence { stats: stats.to_vec(), labels: *labels };
            match column.known {
                None => increment.new.push(evidence),
                Some(ix) if labels.expected_count > 0.0 => {
                    increment.existing.push((self.posterior.components()[ix].id(), evidence));
                }
                Some(_) => {}
            }
        }
        self.memory.statistics = labels;
        self.memory.columns = self.columns;
        increment
    }
}

/// Whether a sum has moved by more than this, each in units of `1/√(1 + |φ|)`: a narrow component is sensitive to less.
fn has_moved(sums: &[f64], anchor: &[f64], phi: &[f64], limit: f64) -> bool {
    const TOGETHER: usize = 16;
    let mut columns = sums.chunks(TOGETHER).zip(anchor.chunks(TOGETHER)).zip(phi.chunks(TOGETHER));
    columns.any(|((sums, anchor), phi)| {
        // No comparison with NaN holds, so that a sum that is not a number counts as moved.
        let stays = sums.iter().zip(anchor).zip(phi).fold(true, |stay, ((a, b), phi)| {
            stay & ((a - b) * (a - b) * (1.0 + phi.abs()) <= limit * limit)
        });
        !stays
    })
}

/// Writes `T(x)` of each row.
pub(super) fn fill_features<F: Family>(family: &F, batch: &Batch, features: &mut Vec<f64>) {
    let f = family.n_features();
    let len = batch.n_rows() * f;
    if features.capacity() < len {
        // Fresh from the system it is zero already: whoever fills a part of it first touches it.
        *features = Vec::new();
        *features = vec![0.0; len];
    }
    features.resize(len, 0.0);
    let values = batch.values().chunks(ROWS * batch.dimensions().max(1));
    parallel::each(values.zip(features.chunks_mut(ROWS * f)), 1, |(rows, out)| {
        for (row, out) in rows.chunks_exact(batch.dimensions()).zip(out.chunks_exact_mut(f)) {
            family.features(row, out);
        }
    });
}
