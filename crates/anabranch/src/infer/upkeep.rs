//! Looking after the model while the stream goes on: the prior again, and merges.
//!
//! Nothing here changes a posterior. Each function looks at a snapshot and says what could be better; the engine makes
//! journal entries of it.

use std::collections::BTreeMap;

use super::ascent::fill_features;
use super::bootstrap::objective_of;
use super::court::{Components, Court, Scores};
use super::labels::Labels;
use super::merge::Overlapping;
use super::missing::Holes;
use super::narrow::Scored;
use super::path::{self, Between, Objective, Walker};
use super::{Precision, PriorChoice, repeats};
use crate::batch::Batch;
use crate::family::{Family, Partition};
use crate::identify::ComponentId;
use crate::math::special::digamma;
use crate::parallel;
use crate::posterior::Posterior;
use crate::process::{LabelStatistics, Process};

/// Steps of type-II maximum likelihood at a time.
const PRIOR_STEPS: usize = 3;

/// The same where components are so few that a step costs little.
const MORE_PRIOR_STEPS: usize = 12;
const FEW: usize = 40;

/// Features of the rows of the sample that judge merges, about, and how many rows they are at least; fewer than the least of
/// all cannot judge.
const FEATURES: usize = 600_000;
const JUDGES: usize = 1500;
const LEAST_JUDGES: usize = 400;
/// Rows of each component that judge, at least, where it has as many.
const JUDGES_EACH: usize = 8;

/// One row of a component in so many came after the first minibatch, or all of them judge.
const LATER: usize = 4;

/// The family with its prior estimated anew from the components that are large enough to tell; `None` when they are too
/// few or the family has no estimate.
pub fn refit<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Option<F> {
    let components = posterior.components().iter().map(|component| component.evidence().stats.as_slice());
    refit_from(posterior.family(), components, Partition::Clusters, PRIOR_STEPS)
}

fn refit_from<'a, F: Family>(
    family: &F,
    components: impl Iterator<Item = &'a [f64]>,
    partition: Partition,
    steps: usize,
) -> Option<F> {
    let enough = enough_to_tell(family);
    let components: Vec<&[f64]> = components.filter(|stats| stats[0] >= enough).collect();
    (1..steps)
        .try_fold(family.refit(&components, partition)?, |fitted, _| fitted.refit(&components, partition))
}

/// Rows that a component needs to say something about the prior.
pub(super) fn enough_to_tell<F: Family>(family: &F) -> f64 {
    3.0 + family.dimensions() as f64 / 2.0
}

/// Steps of type-II maximum likelihood at a level of the merge path: many where they cost little.
pub(super) fn prior_steps(n_components: usize) -> usize {
    if n_components <= FEW { MORE_PRIOR_STEPS } else { PRIOR_STEPS }
}

/// What a look at a posterior finds that could be better.
#[derive(Clone, Debug)]
pub struct Merges<F> {
    /// The family with the prior of what is left, where it was estimated and something has merged.
    pub family: Option<F>,
    /// Merges `(ends, into)`, in this order.
    pub pairs: Vec<(ComponentId, ComponentId)>,
    /// Between how many components the sample cannot tell, where it was asked.
    pub between: Option<Between>,
}

/// The merges down to the number of components that is best, with the prior of what is left (`path.rs`), for `horizon` times
/// the data. The sample stands for all rows. Those of a component that came later than the first minibatch judge it, if they are enough:
/// components were made from the first rows, and fit each of them a little too well even without what it taught. The evidence of
/// the sample with its labels of today keeps small clusters, of which too few rows judge.
pub fn merges<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    sample: &Batch,
    later: Option<&[bool]>,
    choice: PriorChoice,
    horizon: f64,
    precision: Precision,
) -> Merges<F> {
    let family = posterior.family();
    let f = family.n_features();
    let living = living(posterior);
    let stats = |ix: &usize| posterior.components()[*ix].evidence().stats.iter().copied();
    let (sample, copies) = &repeats::different(family, sample, posterior.mass());
    let labels = labels_of(posterior, sample, precision).0;
    let later = later.filter(|later| later.len() == sample.n_rows());
    let court = (sample.n_rows() >= LEAST_JUDGES).then(|| {
        let judges = judges(sample, later, &labels, living.len(), f);
        Court::of_learned(family, judges, *copies, horizon)
    });
    // Where values are missing, the evidence of all rows says what they were expected to be.
    let by_sample = court.is_some() && !sample.has_missing();
    let mut walker = Looking {
        court: court.as_ref(),
        process: posterior.process(),
        sample,
        copies: *copies,
        mass: posterior.mass(),
        choice,
        precision,
        place: Place {
            family: family.clone(),
            ids: living.iter().map(|ix| posterior.components()[*ix].id()).collect(),
            totals: living.iter().flat_map(stats).collect(),
            of_sample: if by_sample { sums(family, sample, &labels, living.len()) } else { Vec::new() },
            label_statistics: living.iter().map(|ix| posterior.components()[*ix].evidence().labels).collect(),
            pairs: Vec::new(),
        },
        first_ids: living.iter().map(|ix| posterior.components()[*ix].id()).collect(),
        first_labels: &labels,
        labels: labels.clone(),
        phi: vec![0.0; living.len() * f],
        ln_weights: vec![0.0; living.len()],
    };
    if choice == PriorChoice::Estimated {
        walker.place.refit();
    }
    walker.maximise();
    let objective = if by_sample { Objective::Exact } else { Objective::Estimate };
    let between = path::walk(&mut walker, court.as_ref(), objective);
    let Place { family, pairs, .. } = walker.place;
    let estimated = choice == PriorChoice::Estimated && !pairs.is_empty();
    Merges { family: estimated.then_some(family), pairs, between: Some(between) }
}

/// Rows of the sample that judge, more of them where components are small; each counts for as many as it stands for.
fn judges(sample: &Batch, later: Option<&[bool]>, labels: &Labels, k: usize, n_features: usize) -> Batch {
    let mut rows = vec![Vec::new(); k];
    for (row, labels) in labels.rows().enumerate() {
        if let Some((ix, _)) = labels.max_by(|a, b| a.1.total_cmp(&b.1)) {
            rows[ix].push(row);
        }
    }
    let share = JUDGES.max(FEATURES / n_features) as f64 / sample.n_rows() as f64;
    let (mut chosen, mut weights) = (Vec::new(), Vec::new());
    for mut rows in rows.into_iter().filter(|rows| !rows.is_empty()) {
        let all = rows.len();
        let came_later = |row: &usize| later.is_some_and(|later| later[*row]);
        if rows.iter().filter(|row| came_later(row)).count() >= (all / LATER).max(JUDGES_EACH) {
            rows.retain(came_later);
        }
        let most = ((share * rows.len() as f64).ceil() as usize).max(JUDGES_EACH).min(rows.len());
        let stands_for = all as f64 / most as f64;
        for row in (0..most).map(|ix| rows[ix * rows.len() / most]) {
            chosen.push(row);
            weights.push(stands_for * sample.weights().map_or(1.0, |weights| weights[row]));
        }
    }
    sample.select(&chosen).with_weights(weights).expect("numbers of rows are weights")
}

/// The statistics of each component from these rows with these labels.
fn sums<F: Family>(family: &F, rows: &Batch, labels: &Labels, k: usize) -> Vec<f64> {
    let f = family.n_features();
    let (mut sums, mut features) = (vec![0.0; k * f], Vec::new());
    fill_features(family, rows, &mut features);
    labels.accumulate(&features, rows, &[], f, &mut sums);
    sums
}

/// The components of a posterior on the merge path.
struct Looking<'a, F, P> {
    court: Option<&'a Court>,
    process: &'a P,
    sample: &'a Batch,
    /// Rows of each in all data that are equal.
    copies: f64,
    mass: f64,
    choice: PriorChoice,
    precision: Precision,
    place: Place<F>,
    /// The labels of the sample at the beginning of the path, and whose they are.
    first_ids: Vec<ComponentId>,
    first_labels: &'a Labels,
    /// The labels now.
    labels: Labels,
    phi: Vec<f64>,
    ln_weights: Vec<f64>,
}

#[derive(Clone)]
struct Place<F> {
    family: F,
    ids: Vec<ComponentId>,
    totals: Vec<f64>,
    /// The same of the sample with its labels of today, where the objective is that of the sample.
    of_sample: Vec<f64>,
    /// Of all rows.
    label_statistics: Vec<LabelStatistics>,
    /// Merges so far.
    pairs: Vec<(ComponentId, ComponentId)>,
}

impl<F: Family> Place<F> {
    /// Lets the prior follow the components.
    fn refit(&mut self) {
        let components = self.totals.chunks_exact(self.family.n_features());
        let steps = prior_steps(self.ids.len());
        if let Some(fitted) = refit_from(&self.family, components, Partition::Level, steps) {
            self.family = fitted;
        }
    }
}

impl<F: Family, P: Process> Looking<'_, F, P> {
    /// Parameters and weights of the components as they are.
    fn maximise(&mut self) {
        let (family, f) = (&self.place.family, self.place.family.n_features());
        self.phi.resize(self.place.totals.len(), 0.0);
        self.ln_weights.resize(self.place.ids.len(), 0.0);
        let parameters = self.phi.chunks_exact_mut(f).zip(&mut self.ln_weights);
        parallel::each(self.place.totals.chunks_exact(f).zip(parameters), 1, |(stats, (phi, ln_weight))| {
            family.expected_natural(stats, phi);
            let labels = LabelStatistics { expected_count: stats[0], ..LabelStatistics::default() };
            *ln_weight = digamma(self.process.existing_mass(&labels));
        });
    }

    /// The objective of the sample with its labels of today.
    fn objective_of_sample(&self) -> f64 {
        let mut labels = vec![LabelStatistics::default(); self.place.ids.len()];
        self.labels.count(self.sample, &mut labels);
        let Place { family, of_sample, .. } = &self.place;
        let components = of_sample.chunks_exact(family.n_features()).zip(&labels);
        objective_of(family, &self.process.suited(labels.iter()), components, self.sample.mass())
    }

    /// The objective of all rows that are different.
    fn objective(&self) -> f64 {
        if !self.place.of_sample.is_empty() {
            return self.objective_of_sample();
        }
        let share = 1.0 / self.copies;
        let Place { family, totals, label_statistics, .. } = &self.place;
        let totals: Vec<f64> = totals.iter().map(|total| share * total).collect();
        let labels: Vec<LabelStatistics> =
            label_statistics.iter().map(|labels| labels.scaled(share)).collect();
        let components = totals.chunks_exact(family.n_features()).zip(&labels);
        objective_of(family, &self.process.suited(labels.iter()), components, share * self.mass)
    }

    /// The entropy of the labels of each component in the sample.
    fn entropies(&self) -> Vec<f64> {
        let mut entropies = vec![0.0; self.place.ids.len()];
        for (row_ix, row) in self.labels.rows().enumerate() {
            let weight = self.sample.weights().map_or(1.0, |weights| weights[row_ix]);
            row.filter(|(_, p)| *p > 0.0).for_each(|(ix, p)| entropies[ix] -= weight * p * p.ln());
        }
        entropies
    }
}

impl<F: Family, P: Process> Walker for Looking<'_, F, P> {
    type Place = Place<F>;
    type Court = Court;

    fn n_components(&self) -> usize {
        self.place.ids.len()
    }

    fn descend(&mut self, merges: usize) {
        let (k, f) = (self.place.ids.len(), self.place.family.n_features());
        let mut pairs = Overlapping {
            family: &self.place.family,
            process: self.process,
            totals: &self.place.totals,
            phi: &self.phi,
            labels: &self.labels.by_component(k),
            weights: self.sample.weights(),
            row_weight: self.mass / self.sample.mass(),
            observations: self.mass,
            horizon: 1.0,
        }
        .best_pairs();
        pairs.truncate(merges);
        let before = self.entropies();
        let labels = &mut self.labels;
        let Place { ids, totals, of_sample, label_statistics, pairs: merged, .. } = &mut self.place;
        let (mut stays, mut into) = (vec![true; k], vec![None; k]);
        for (keep, end) in pairs {
            stays[end] = false;
            into[end] = Some(keep);
            merged.push((ids[end], ids[keep]));
            for sums in [&mut *totals, &mut *of_sample].into_iter().filter(|sums| !sums.is_empty()) {
                (0..f).for_each(|i| sums[keep * f + i] += sums[end * f + i]);
            }
        }
        labels.join(&into);
        for (end, keep) in into.iter().enumerate().filter_map(|(end, keep)| Some((end, (*keep)?))) {
            let ended = label_statistics[end];
            label_statistics[keep] += ended;
        }
        let mut next = 0..;
        let names: Vec<Option<usize>> =
            stays.iter().map(|stays| stays.then(|| next.next()).flatten()).collect();
        labels.rename(&names);
        retain_chunks(ids, 1, &stays);
        retain_chunks(label_statistics, 1, &stays);
        retain_chunks(totals, f, &stays);
        if !of_sample.is_empty() {
            retain_chunks(of_sample, f, &stays);
        }
        if self.choice == PriorChoice::Estimated {
            self.place.refit();
        }
        // Rows between the two of a pair are certain of it now. The sample says which share of their entropy that was.
        let mut after = self.entropies().into_iter();
        for keep in (0..k).filter(|ix| stays[*ix]) {
            let own = before[keep]
                + (0..k).filter(|end| into[*end] == Some(keep)).map(|end| before[end]).sum::<f64>();
            let left = after.next().expect("one for each that stays");
            let ix = names[keep].expect("it stays");
            if self.sample.has_missing() {
                // The rest is the entropy of missing values, which stay what they were.
                let each = self.mass / self.sample.mass();
                self.place.label_statistics[ix].label_entropy += each * (left - own);
            } else if own > 0.0 {
                self.place.label_statistics[ix].label_entropy *= left / own;
            }
        }
        self.maximise();
    }

    fn place(&self) -> (Place<F>, f64, Scores) {
        let (place, labels) = (self.place.clone(), &self.place.label_statistics);
        let (family, process, mass) = (&self.place.family, self.process, self.mass);
        let objective = self.objective();
        let (sums, phi, ln_weights) = (&self.place.totals, &self.phi, &self.ln_weights);
        let precision = self.precision;
        let components = Components { family, process, sums, phi, ln_weights, labels, mass, precision };
        (place, objective, self.court.map(|court| court.scores(&components)).unwrap_or_default())
    }

    fn come_back(&mut self, place: &Place<F>) {
        self.place = place.clone();
        let ends: BTreeMap<ComponentId, ComponentId> = place.pairs.iter().copied().collect();
        let last = |mut id: ComponentId| {
            while let Some(into) = ends.get(&id) {
                id = *into;
            }
            id
        };
        let position = |ids: &[ComponentId], id: ComponentId| ids.iter().position(|other| *other == id);
        let into = self.first_ids.iter().map(|id| position(&self.first_ids, last(*id)));
        self.labels = self.first_labels.clone();
        self.labels.join(&into.collect::<Vec<_>>());
        let names = self.first_ids.iter().map(|id| position(&place.ids, *id));
        self.labels.rename(&names.collect::<Vec<_>>());
        self.maximise();
    }
}

/// Keeps the chunks of `len` values whose flag is set.
fn retain_chunks<T: Copy>(values: &mut Vec<T>, len: usize, flags: &[bool]) {
    let mut to = 0;
    for (from, _) in flags.iter().enumerate().filter(|(_, flag)| **flag) {
        values.copy_within(from * len..(from + 1) * len, to * len);
        to += 1;
    }
    values.truncate(to * len);
}

/// Positions of the components that rows can belong to.
fn living<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Vec<usize> {
    let mass = |ix: usize| posterior.process().existing_mass(&posterior.components()[ix].evidence().labels);
    (0..posterior.components().len()).filter(|ix| mass(*ix) > 0.0).collect()
}

/// The labels of these rows, and the position in the posterior of each component that they name.
pub(super) fn labels_of<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    rows: &Batch,
    precision: Precision,
) -> (Labels, Vec<usize>) {
    let living = living(posterior);
    let expected = |ix: &usize| &posterior.components()[*ix].expectation(posterior.family()).phi;
    let phi: Vec<f64> = living.iter().flat_map(expected).copied().collect();
    (labels(posterior, rows, &phi, &living, precision), living)
}

/// The log density of each of these rows, which the posterior has learned from, without what it taught.
pub(super) fn ln_densities_left_out<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    rows: &Batch,
    precision: Precision,
) -> Vec<f64> {
    let (family, process) = (posterior.family(), posterior.process());
    let components = || living(posterior).into_iter().map(|ix| &posterior.components()[ix]);
    let labels: Vec<LabelStatistics> = components().map(|component| component.evidence().labels).collect();
    let ln_weights: Vec<f64> = labels.iter().map(|labels| digamma(process.existing_mass(labels))).collect();
    let sums: Vec<f64> = components().flat_map(|c| c.evidence().stats.iter().copied()).collect();
    let phi: Vec<f64> = components().flat_map(|c| c.expectation(family).phi.iter().copied()).collect();
    let components = Components {
        family,
        process,
        sums: &sums,
        phi: &phi,
        ln_weights: &ln_weights,
        labels: &labels,
        mass: posterior.mass(),
        precision,
    };
    Court::left_out(rows.clone(), &components)
}

/// One E-step of the sample on these components.
fn labels<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    sample: &Batch,
    phi: &[f64],
    components: &[usize],
    precision: Precision,
) -> Labels {
    let family = posterior.family();
    let f = family.n_features();
    let ln_weights: Vec<f64> = components
        .iter()
        .map(|ix| digamma(posterior.process().existing_mass(&posterior.components()[*ix].evidence().labels)))
        .collect();
    let mut features = Vec::new();
    fill_features(family, sample, &mut features);
    let mut labels = Labels::default();
    let scored = Scored { features: &features, phi, ln_weights: &ln_weights, n_features: f };
    Holes::of(sample).assign(family, scored, precision, &mut labels);
    labels
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::central::{Absorb, BatchId, Entry, Fold};
    use crate::family::{Conjugate, Gaussian};
    use crate::identify::Target;
    use crate::posterior::Evidence;
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    /// Rows around 0 whose labels 0 and 1 were drawn by a coin, and rows around 9 with label 2, all certain.
    fn a_cluster_twice_and_another_once() -> (Fold<Gaussian, Dirichlet>, Batch) {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(2);
        let labels: Vec<usize> =
            (0..900).map(|ix| if ix % 3 == 0 { 2 } else { rng.random_range(0..2) }).collect();
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        let values = labels.iter().flat_map(|label| {
            let centre = if *label == 2 { 9.0 } else { 0.0 };
            [centre + normal(), normal()]
        });
        let rows = Batch::new(2, values.collect()).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let mut new = vec![(Target::New, Evidence::empty(family.n_features())); 3];
        let mut features = vec![0.0; family.n_features()];
        for (row, label) in rows.rows().zip(&labels) {
            family.features(row, &mut features);
            let mut certain = LabelStatistics::default();
            certain.observe(1.0, 1.0);
            new[*label].1.absorb(&Evidence { stats: features.clone(), labels: certain });
        }
        let mut fold = Fold::new(family, Dirichlet::new(5.0, Bound::Paper).unwrap());
        let entry = Absorb {
            batch: BatchId(0),
            base: 0,
            pass: 0,
            mass: 900.0,
            familiarity: None,
            existing: vec![],
            new,
        };
        fold.apply(&Entry::Absorb(entry)).unwrap();
        (fold, rows)
    }

    #[test]
    fn duplicates_merge_others_do_not_and_the_objective_rises() {
        let (mut fold, rows) = a_cluster_twice_and_another_once();
        let find = |fold: &Fold<Gaussian, Dirichlet>, choice| {
            merges(fold.posterior(), &rows, None, choice, 1.0, Precision::Mixed).pairs
        };
        for choice in [PriorChoice::Given, PriorChoice::Estimated] {
            assert_eq!(find(&fold, choice), [(ComponentId(1), ComponentId(0))], "{choice:?}");
        }
        let before = fold.posterior().objective();
        fold.apply(&Entry::Retire { id: ComponentId(1), into: ComponentId(0) }).unwrap();
        assert!(fold.posterior().objective() > before);
        assert!(find(&fold, PriorChoice::Given).is_empty());
    }

    #[test]
    fn the_prior_that_is_estimated_makes_the_components_more_probable() {
        let (fold, _) = a_cluster_twice_and_another_once();
        let before = fold.posterior().clone();
        let family = refit(&before).unwrap();
        let mut after = fold.clone();
        after.apply(&Entry::Prior { family, process: *before.process() }).unwrap();
        assert!(after.posterior().objective() > before.objective());
    }
}
