//! The merge path: how many components there are, judged together with their prior.
//!
//! ```text
//! K components → merge the best pairs → prior of what is left → … → one component
//! ```
//!
//! A prior that was estimated from pieces of a cluster expects pieces and forbids each single merge of them, while the whole
//! way down to the cluster, with the prior estimated anew at every level, is uphill. So the way is walked, and only then a
//! level is chosen:
//!
//! - Rows score every level by its predictive density, without what they have taught themselves (`court.rs`). The fewest
//!   components whose density is within two standard errors of the best predict as well as any; the differences of each
//!   row's scores tell the error. While more rows are to come, one standard error: what merges later loses nothing.
//! - A small cluster has few such rows. The objective keeps it, where it is that of rows with the labels of today and the prior
//!   of the level: there are at least as many components as the level with the largest objective has. Where no rows can
//!   judge, it decides alone.
//!
//! The objective alone would be no judge: it pays half the logarithm of the rows for each parameter of a component, and
//! prefers fewer components than predict best where the data are not made of components of this family.

use serde::{Deserialize, Serialize};

use super::court::STANDARD_ERRORS;

/// One of so many components is merged at each level …
const SHARE: usize = 5;
/// … and one alone below so many components.
const SINGLY: usize = 2 * SHARE;
/// Where the chosen level is, the way is walked again in so many parts …
const PARTS: usize = 4;
/// … until the next level has one of so many components fewer.
const NEAR: usize = 48;
/// The same while more rows are to come.
const NEARLY: usize = 8;
/// The way down ends when so many levels in turn …
const LOST_LEVELS: usize = 2;
/// … are worse than one before them by so many standard errors.
const LOST: f64 = 5.0;

/// A level whose density is lower now than that of the best by more standard errors is certainly worse.
const POSSIBLE: f64 = 3.0;

/// More components are more probable when the objective says so by more than this: a Bayes factor of twenty.
pub(super) const STRONG: f64 = 3.0;

/// Data that judge components by how probable these make them.
pub(super) trait Bench {
    /// What each of them says.
    type Scores;

    /// How much better the first is for a datum, once all data have been seen, and the standard error of that.
    fn difference(&self, one: &Self::Scores, other: &Self::Scores) -> (f64, f64);

    /// How much better the first is for a datum now.
    fn difference_now(&self, one: &Self::Scores, other: &Self::Scores) -> (f64, f64);

    /// Differences within so many standard errors are chance.
    fn doubt(&self) -> f64;

    /// Whether more data are to come.
    fn expects_more(&self) -> bool;
}

/// Components on their way down.
pub(super) trait Walker {
    /// All that it takes to come back.
    type Place;

    /// Who judges them.
    type Court: Bench;

    fn n_components(&self) -> usize;

    /// Merges so many of the best pairs, however bad they are, and lets the prior follow.
    fn descend(&mut self, merges: usize);

    /// Where the components are now, and how good they are there.
    fn place(&self) -> (Self::Place, f64, ScoresOf<Self>);

    fn come_back(&mut self, place: &Self::Place);
}

type ScoresOf<W> = <<W as Walker>::Court as Bench>::Scores;

/// What the objective of a level is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objective {
    /// It is that of all rows, or of a sample of them, with the labels of today.
    Exact,
    /// Rows that are gone were labelled by what was known then: it counts only where nobody else can judge.
    Estimate,
}

/// A number of components with their prior, and how good they are.
struct Level<P, S> {
    place: P,
    n_components: usize,
    objective: f64,
    scores: S,
}

fn level<W: Walker>(walker: &W) -> Level<W::Place, ScoresOf<W>> {
    let (place, objective, scores) = walker.place();
    Level { place, n_components: walker.n_components(), objective, scores }
}

/// Between how many components the data cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Between {
    /// With fewer, the data are certainly explained worse.
    pub fewest: usize,
    /// With more, they are certainly explained no better.
    pub most: usize,
}

impl Between {
    /// What one or the other holds possible.
    pub fn or(self, other: Self) -> Self {
        Self { fewest: self.fewest.min(other.fewest), most: self.most.max(other.most) }
    }
}

/// Walks down from the components at hand and comes back to the level that is best. Says which others are about as good.
pub(super) fn walk<W: Walker>(walker: &mut W, court: Option<&W::Court>, objective: Objective) -> Between {
    let mut levels = vec![level(walker)];
    while walker.n_components() > 1 && !is_lost(&levels, court) {
        walker.descend(step(walker.n_components()));
        levels.push(level(walker));
    }
    let mut chosen = choose(&levels, court, objective);
    let near = if court.is_some_and(Bench::expects_more) { NEARLY } else { NEAR };
    // Between the chosen level and the next one there may be a better one.
    while let Some(next) = levels.get(chosen + 1).map(|next| next.n_components) {
        let gap = levels[chosen].n_components - next;
        if gap <= levels[chosen].n_components / near {
            break;
        }
        let merges = gap.div_ceil(PARTS);
        walker.come_back(&levels[chosen].place);
        let mut between = Vec::new();
        while walker.n_components() > next + merges {
            walker.descend(merges);
            between.push(level(walker));
        }
        if between.is_empty() {
            break;
        }
        levels.splice(chosen + 1..chosen + 1, between);
        chosen = choose(&levels, court, objective);
    }
    // Each level has a number of its own.
    if walker.n_components() != levels[chosen].n_components {
        walker.come_back(&levels[chosen].place);
    }
    about_as_good(&levels, court, chosen)
}

/// Numbers of components that are about as good as that of the chosen level: fewer within three standard errors of the best,
/// more within two; where nobody judges, by the objective, within twice and once what counts as strong.
fn about_as_good<P, C: Bench>(levels: &[Level<P, C::Scores>], court: Option<&C>, chosen: usize) -> Between {
    let highest = levels.iter().map(|level| level.objective).fold(f64::NEG_INFINITY, f64::max);
    let best = best(levels, court);
    let within = |level: &&Level<P, C::Scores>, strict: f64| match court {
        Some(court) => {
            let (mean, error) = court.difference(&levels[best].scores, &level.scores);
            mean <= strict * STANDARD_ERRORS * error
        }
        None => level.objective >= highest - strict * STRONG,
    };
    let of_chosen = levels[chosen].n_components;
    let loose = if court.is_some() { 1.5 } else { 2.0 };
    let number = |level: &Level<P, C::Scores>| level.n_components;
    let fewest = levels.iter().filter(|level| within(level, loose)).map(number).fold(of_chosen, usize::min);
    let most = levels.iter().filter(|level| within(level, 1.0)).map(number).fold(of_chosen, usize::max);
    Between { fewest, most }
}

/// The level that predicts best; the first where nobody judges.
fn best<P, C: Bench>(levels: &[Level<P, C::Scores>], court: Option<&C>) -> usize {
    let ahead = |one: usize, other: usize| match court {
        Some(court) => court.difference(&levels[one].scores, &levels[other].scores).0,
        None => 0.0,
    };
    (0..levels.len()).fold(0, |best, ix| if ahead(ix, best) > 0.0 { ix } else { best })
}

/// Components that end at the next level.
fn step(n_components: usize) -> usize {
    if n_components <= SINGLY { 1 } else { n_components / SHARE }
}

/// Whether the last levels are all certainly worse than one before them: then so are those that would follow.
fn is_lost<P, C: Bench>(levels: &[Level<P, C::Scores>], court: Option<&C>) -> bool {
    let Some(court) = court.filter(|_| levels.len() > LOST_LEVELS) else { return false };
    let (before, last) = levels.split_at(levels.len() - LOST_LEVELS);
    let lost = |one: &Level<P, C::Scores>, other: &Level<P, C::Scores>| {
        let (mean, error) = court.difference(&one.scores, &other.scores);
        mean > LOST * error
    };
    before.iter().any(|one| last.iter().all(|other| lost(one, other)))
}

/// The level that is chosen.
fn choose<P, C: Bench>(levels: &[Level<P, C::Scores>], court: Option<&C>, objective: Objective) -> usize {
    let highest = levels.iter().map(|level| level.objective).fold(f64::NEG_INFINITY, f64::max);
    let probable = |ix: &usize| levels[*ix].objective >= highest - STRONG;
    let most_probable = (0..levels.len()).rev().find(probable).unwrap_or(0);
    let Some(court) = court else { return most_probable };
    let best = best(levels, Some(court));
    let as_good = |ix: &usize| {
        let (mean, error) = court.difference(&levels[best].scores, &levels[*ix].scores);
        mean <= court.doubt() * error
    };
    let fewest = (best..levels.len()).rev().find(as_good).unwrap_or(best);
    // What is certainly wrong now is not hoped to be right later.
    let now = (0..levels.len()).fold(0, |now, ix| {
        if court.difference_now(&levels[ix].scores, &levels[now].scores).0 > 0.0 { ix } else { now }
    });
    let is_possible = |ix: &usize| {
        let (mean, error) = court.difference_now(&levels[now].scores, &levels[*ix].scores);
        mean <= POSSIBLE * error
    };
    let fewest = (fewest..levels.len()).find(is_possible).unwrap_or(fewest);
    match objective {
        Objective::Exact => fewest.min(most_probable),
        Objective::Estimate => fewest,
    }
}
