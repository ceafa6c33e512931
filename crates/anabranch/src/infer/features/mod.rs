//! Minibatch inference for the beta process: rows that have any number of features, which add up (`math` in `state.rs`).
//!
//! The first minibatch is searched several times, because features interact and a search may end with sums and differences
//! of the true ones: from nothing, and from directions that are independent of each other. The best objective wins. Later minibatches start from the known features and open new ones for what
//! these leave unexplained.

mod independent;
mod search;
mod state;

use rand::Rng;

use self::search::{Variances, births, drop_empty, search};
use self::state::{State, dot};
use super::upkeep::Merges;
use super::{Bootstrap, Increment, Inference, Look, Outlook, PriorChoice};
use crate::batch::{Batch, Minibatch};
use crate::family::{Conjugate, LinearGaussian};
use crate::identify::ComponentId;
use crate::posterior::{Evidence, Posterior};
use crate::process::{Beta, LabelStatistics, Population, Process};

/// Rows that the first search looks at; the others join what was found.
const SEARCH_ROWS: usize = 2000;
/// Searches of the first minibatch that begin with nothing, each with its own draws.
const TRIES: usize = 1;
/// Independent directions are looked for so many times; the best is searched from.
const STARTS: usize = 5;
/// Rows whose nearest neighbours tell the noise.
const NEIGHBOUR_ROWS: usize = 300;
/// Sweeps over a minibatch at most.
const SWEEPS: usize = 10;
/// Sweeps after which starts are compared.
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
        state.look();
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
        let under = |family: &LinearGaussian| {
            let mut from = Posterior::prior(family.clone(), *prior.process());
            from.version = prior.version();
            from
        };
        let mut best: Option<(State<'_>, f64)> = None;
        let mut tries = vec![State::start(&under(&guess), &scout); TRIES];
        tries.extend(self.independent(&scout, &under, choice, &guess, rng));
        let rounds = tries.len();
        for mut state in tries {
            let objective = search(&mut state, self.max_features, variances, rng);
            if best.as_ref().is_none_or(|(_, highest)| objective > *highest) {
                best = Some((state, objective));
            }
        }
        let (mut found, objective) = best.expect("there is at least one try");
        let counts = found.sums().counts.clone();
        let family = found.family.clone();
        let from = under(&family);
        let mut state = State::start(&from, batch);
        for (feature, count) in found.features.iter().zip(counts) {
            state.open(feature.mean.clone(), count);
        }
        // Each was opened beside those before it; looks sort out who has which before anything moves.
        state.look();
        climb(&mut state);
        drop_empty(&mut state);
        if variances == Variances::Learned {
            state.learn_noise();
            state.learn_scale();
        }
        let learned = Bootstrap {
            family: state.family.clone(),
            increment: state.export(&from),
            rounds,
            objective,
            between: None,
        };
        (learned, None)
    }

    /// The variance of the features, from the features. That of the noise needs rows: [`Inference::merges`] has some.
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

    /// Features that are alike and that no row has at once, and the variance of the noise.
    fn merges(
        &self,
        posterior: &Features,
        sample: &Batch,
        _later: Option<&[bool]>,
        choice: PriorChoice,
        horizon: f64,
    ) -> Merges<LinearGaussian> {
        let mut state = State::start(posterior, sample);
        state.look();
        let components: Vec<_> =
            posterior.components().iter().filter(|component| component.expected_count() > 0.0).collect();
        let k = components.len();
        let (mut ended, mut merged) = (vec![false; k], Vec::new());
        let sums = state.sums();
        for end in 1..k {
            for keep in 0..end {
                let fewer = sums.counts[keep].min(sums.counts[end]);
                if ended[keep] || ended[end] || sums.together[keep * k + end] > SHARED * fewer {
                    continue;
                }
                let (a, b) = (components[keep].evidence(), components[end].evidence());
                if merge_gain(posterior, a, b, horizon) > 0.0 {
                    ended[end] = true;
                    merged.push((components[end].id(), components[keep].id()));
                }
            }
        }
        // The noise needs rows: the sample tells it.
        let family = (choice == PriorChoice::Estimated).then(|| {
            state.learn_noise();
            state.family
        });
        Merges { family, pairs: merged, between: None }
    }

    fn look_again(
        &self,
        posterior: &Features,
        batch: &Batch,
        _look: Look,
        (): &mut (),
    ) -> Vec<(ComponentId, Evidence)> {
        let mut state = State::start(posterior, batch);
        state.look();
        state.export(posterior).existing
    }
}

impl FeatureSettings {
    /// The best of some starts from independent directions; none where rows have none.
    fn independent<'a>(
        &self,
        rows: &'a Batch,
        under: &impl Fn(&LinearGaussian) -> Features,
        choice: PriorChoice,
        guess: &LinearGaussian,
        rng: &mut impl Rng,
    ) -> Option<State<'a>> {
        let signal = independent::Signal::of(rows, self.max_features)?;
        let mut best: Option<(State<'a>, f64)> = None;
        for _ in 0..STARTS {
            let Some(found) = signal.independent(rng) else { continue };
            let family = match choice {
                PriorChoice::Estimated => guess.with_variances(found.noise, found.scale()),
                PriorChoice::Given => guess.clone(),
            };
            let mut state = State::start(&under(&family), rows);
            for (mean, column) in found.features {
                let count = column.iter().enumerate().map(|(row, pi)| rows.weight(row) * pi).sum();
                state.open_for(mean, &column, count);
            }
            (0..LOOKS).for_each(|_| state.sweep());
            let objective = state.objective();
            if best.as_ref().is_none_or(|(_, highest)| objective > *highest) {
                best = Some((state, objective));
            }
        }
        best.map(|(state, _)| state)
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
