//! Minibatch inference for the beta process: rows that have any number of features, which add up (`math` in `state.rs`).
//!
//! The first minibatch is searched several times, because features interact and a search may end with sums and differences
//! of the true ones; the best objective wins. Later minibatches start from the known features and open new ones for what
//! these leave unexplained.

mod search;
mod state;

use rand::Rng;

use self::search::{Variances, births, drop_empty, search};
use self::state::{State, dot};
use super::upkeep::Merges;
use super::{Bootstrap, Increment, Inference, Look, Outlook, PriorChoice};
use crate::batch::Batch;
use crate::family::{Conjugate, LinearGaussian};
use crate::identify::ComponentId;
use crate::posterior::{Evidence, Posterior};
use crate::process::{Beta, LabelStatistics, Population, Process};

/// Rows that the first search looks at; the others join what was found.
const SEARCH_ROWS: usize = 2000;
/// Searches of the first minibatch, each with its own draws.
const TRIES: usize = 3;
/// Rows whose nearest neighbours tell the noise.
const NEIGHBOUR_ROWS: usize = 300;
/// Sweeps over a minibatch at most.
const SWEEPS: usize = 10;
/// Looks at who has which feature, before anything is learned.
const LOOKS: usize = 4;
/// Births in a row that may fail in a minibatch after the first.
const FAILURES: usize = 3;
/// Sweeps stop when they gain less than this for each row.
const TOLERANCE: f64 = 1e-3;
/// Two features that share more than this part of the smaller one's rows are not the same.
const SHARED: f64 = 0.05;

/// How features are inferred.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureSettings {
    /// Features that the first minibatch may open.
    pub max_features: usize,
    /// Features that a further minibatch may open.
    pub max_new: usize,
}

impl Default for FeatureSettings {
    fn default() -> Self {
        Self { max_features: 200, max_new: 10 }
    }
}

type Features = Posterior<LinearGaussian, Beta>;

impl Inference<LinearGaussian, Beta> for FeatureSettings {
    type Batch = Batch;
    type Workspace = ();

    fn infer(&self, posterior: &Features, batch: &Batch, rng: &mut impl Rng, (): &mut ()) -> Increment {
        let mut state = State::start(posterior, batch);
        (0..LOOKS).for_each(|_| state.assign());
        if batch.mass() > 0.0 {
            births(&mut state, self.max_new, FAILURES, rng);
        }
        climb(&mut state);
        drop_empty(&mut state);
        state.export(posterior)
    }

    fn bootstrap(
        &self,
        prior: &Features,
        batch: &Batch,
        choice: PriorChoice,
        _: Outlook,
        rng: &mut impl Rng,
        (): &mut (),
    ) -> (Bootstrap<LinearGaussian>, Option<Beta>) {
        let variances = match choice {
            PriorChoice::Estimated => Variances::Learned,
            PriorChoice::Given => Variances::Given,
        };
        let scout = batch.head(SEARCH_ROWS);
        let guess = match choice {
            PriorChoice::Estimated => guessed(prior.family(), &scout),
            PriorChoice::Given => prior.family().clone(),
        };
        let mut from = Posterior::prior(guess, *prior.process());
        from.version = prior.version();
        let mut best: Option<(State<'_>, f64)> = None;
        for _ in 0..TRIES {
            let mut state = State::start(&from, &scout);
            let objective = search(&mut state, self.max_features, variances, rng);
            if best.as_ref().is_none_or(|(_, highest)| objective > *highest) {
                best = Some((state, objective));
            }
        }
        let (found, objective) = best.expect("there is at least one try");
        let family = found.family.clone();
        let mut from = Posterior::prior(family.clone(), *prior.process());
        from.version = prior.version();
        let mut state = State::start(&from, batch);
        for feature in &found.features {
            state.open(feature.mean.clone(), found.count(feature));
        }
        // Each was opened beside those before it; looks sort out who has which before anything moves.
        (0..LOOKS).for_each(|_| state.assign());
        climb(&mut state);
        drop_empty(&mut state);
        if variances == Variances::Learned {
            state.learn_noise();
            state.learn_scale();
        }
        let learned = Bootstrap {
            family: state.family.clone(),
            increment: state.export(&from),
            rounds: TRIES,
            objective,
            between: None,
        };
        (learned, None)
    }

    /// The variance of the features, from the features. That of the noise needs rows and stays.
    fn refit(&self, posterior: &Features) -> Option<(LinearGaussian, Beta)> {
        let family = posterior.family();
        let d = family.dimensions() as f64;
        let components = posterior.components();
        let squares = components.iter().filter(|c| c.expected_count() >= 1.0).map(|component| {
            let (mean, precision) = family.feature(&component.evidence().stats);
            dot(&mean, &mean) / d + 1.0 / precision
        });
        let squares: Vec<f64> = squares.collect();
        let scale = squares.iter().sum::<f64>() / squares.len() as f64;
        let sound = scale.is_finite() && scale > 0.0;
        sound.then(|| (family.with_variances(family.noise(), scale), *posterior.process()))
    }

    /// Features that are alike and that no row has at once.
    fn merges(
        &self,
        posterior: &Features,
        sample: &Batch,
        _later: Option<&[bool]>,
        _choice: PriorChoice,
        horizon: f64,
    ) -> Merges<LinearGaussian> {
        let mut state = State::start(posterior, sample);
        (0..LOOKS).for_each(|_| state.assign());
        let components: Vec<_> =
            posterior.components().iter().filter(|component| component.expected_count() > 0.0).collect();
        let (mut ended, mut merged) = (vec![false; components.len()], Vec::new());
        for end in 1..components.len() {
            for keep in 0..end {
                let together = dot(&state.features[keep].pi, &state.features[end].pi);
                let fewer = state.count(&state.features[keep]).min(state.count(&state.features[end]));
                if ended[keep] || ended[end] || together > SHARED * fewer {
                    continue;
                }
                let (a, b) = (components[keep].evidence(), components[end].evidence());
                if merge_gain(posterior, a, b, horizon) > 0.0 {
                    ended[end] = true;
                    merged.push((components[end].id(), components[keep].id()));
                }
            }
        }
        Merges { family: None, pairs: merged, between: None }
    }

    fn look_again(
        &self,
        posterior: &Features,
        batch: &Batch,
        _look: Look,
        (): &mut (),
    ) -> Vec<(ComponentId, Evidence)> {
        let mut state = State::start(posterior, batch);
        (0..LOOKS).for_each(|_| state.assign());
        state.export(posterior).existing
    }
}

/// What the objective of `horizon` times the data gains when two features that share no row become one.
fn merge_gain(posterior: &Features, a: &Evidence, b: &Evidence, horizon: f64) -> f64 {
    let (family, process) = (posterior.family(), posterior.process());
    let (a, b) = (a.scaled(horizon), b.scaled(horizon));
    let mut joined = a.clone();
    joined.absorb(&b);
    let observations = horizon * posterior.mass();
    let occupied = posterior.components().len() as f64;
    let all = Population { observations, occupied };
    let score = |labels: &LabelStatistics| process.score(labels, all);
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    family.log_partition(&joined.stats) + empty
        - family.log_partition(&a.stats)
        - family.log_partition(&b.stats)
        + score(&joined.labels)
        - score(&a.labels)
        - score(&b.labels)
}

/// Sweeps until they gain little.
fn climb(state: &mut State<'_>) {
    let mut last = state.objective();
    for _ in 0..SWEEPS {
        state.sweep();
        let now = state.objective();
        if now - last <= TOLERANCE * state.batch().mass() {
            break;
        }
        last = now;
    }
}

/// First variances: noise is what tells a row from its nearest neighbour, features are as large as the rows.
fn guessed(family: &LinearGaussian, rows: &Batch) -> LinearGaussian {
    let d = rows.dimensions() as f64;
    let few = rows.head(NEIGHBOUR_ROWS);
    let mut nearest: Vec<f64> = Vec::with_capacity(few.n_rows());
    for (ix, row) in few.rows().enumerate() {
        let others = few.rows().enumerate().filter(|(other, _)| *other != ix);
        let distance = |other: &[f64]| row.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        nearest.push(others.map(|(_, other)| distance(other)).fold(f64::INFINITY, f64::min));
    }
    nearest.retain(|distance| distance.is_finite());
    nearest.sort_by(f64::total_cmp);
    let cells = rows.values().len().max(1) as f64;
    let mean = rows.values().iter().sum::<f64>() / cells;
    let variance = rows.values().iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / cells;
    if variance <= 0.0 {
        return family.clone();
    }
    // Equal rows do not mean that there is no noise at all.
    let noise = nearest.get(nearest.len() / 2).map_or(variance, |square| square / (2.0 * d));
    family.with_variances(noise.max(1e-6 * variance), variance)
}
